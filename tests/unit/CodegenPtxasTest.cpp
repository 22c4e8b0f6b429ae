// SPDX-License-Identifier: Apache-2.0
/// \file Every op on every element type assembles for every target; the usual kernels do so without spills.
#include "ir/base/Fragments.h"
#include "tests/support/EmitKernel.h"
#include "tests/support/TgpuKernels.h"

#include <catch2/catch.hpp>

using namespace sectile;
using namespace sectile::testing;

namespace {

/// Emits and assembles; false only where there is no ptxas.
bool assembles(const std::string &text, bool mayUseStack = true) {
  Emitted e = emitText(text);
  INFO(text << "\n" << e.errors);
  REQUIRE(e.ok);
  std::optional<Assembled> a = assemble(e.artifact);
  if (!a) {
    WARN("ptxas not found: only LLVM's part is checked");
    return false;
  }
  INFO(a->log);
  CHECK(a->ok);
  if (!mayUseStack) {
    CHECK(a->spillBytes == 0);
    CHECK(a->stackBytes == 0);
  }
  return true;
}

constexpr DType allTypes[] = {DType::f64, DType::f32, DType::f16,     DType::bf16, DType::e4m3, DType::e5m2,
                              DType::i8,  DType::i16, DType::i32,     DType::i64,  DType::u8,   DType::u16,
                              DType::u32, DType::u64, DType::boolean, DType::index};

/// All functions of a type in one kernel, each result folded into the last value.
std::string everything(DType t) {
  std::vector<std::string> unary, binary;
  if (isFloat(t)) {
    unary = {"neg", "abs",  "exp", "exp2",    "log",   "log2", "sqrt",  "rsqrt", "sin",
             "cos", "tanh", "erf", "sigmoid", "floor", "ceil", "round", "trunc"};
    binary = {"add", "sub", "mul", "div", "rem", "max", "min", "maxnum", "minnum", "pow"};
  } else if (t == DType::boolean) {
    unary = {"bitnot"};
    binary = {"max", "min", "bitand", "bitor", "bitxor"};
  } else {
    unary = {"neg", "abs", "bitnot"};
    binary = {"add", "sub",    "mul",    "div",    "rem",   "floordiv", "floormod", "max",
              "min", "maxnum", "minnum", "bitand", "bitor", "bitxor",   "shl",      "shr"};
  }
  std::string body, last = "%a";
  int n = 0;
  auto next = [&] { return "%v" + std::to_string(n++); };
  for (const std::string &fn : unary) {
    std::string r = next();
    body += fmt::format("  {} = tile.unary {} {} : {{in}} -> {{in}}\n", r, fn, last);
    last = r;
  }
  for (const std::string &fn : binary) {
    std::string r = next();
    body += fmt::format("  {} = tile.binary {} {}, %b : {{in}}\n", r, fn, last);
    last = r;
  }
  return body + "  %c = tile.binary max " + last + ", " + last + " : {in}";
}

} // namespace

TEST_CASE("every function assembles on every type and target", "[codegen][ptxas]") {
  for (const Target &target : targets())
    for (DType t : allTypes) {
      CAPTURE(target.arch, name(t));
      if (!assembles(elementwise("k", t, t, everything(t), target.arch, int(128 * 16 / byteSize(t)))))
        return;
    }
}

TEST_CASE("every comparison and selection assembles", "[codegen][ptxas]") {
  for (const Target &target : targets())
    for (DType t : allTypes) {
      CAPTURE(target.arch, name(t));
      std::string body = "  %m0 = tile.compare eq %a, %b : {in} -> {out}\n";
      int n = 0;
      for (const char *pred : {"ne", "lt", "le", "gt", "ge"}) {
        body += fmt::format("  %k{} = tile.compare {} %a, %b : {{in}} -> {{out}}\n", n, pred);
        body += fmt::format("  %m{} = tile.select %k{}, %m{}, %k{} : {{out}}, {{out}}\n", n + 1, n, n, n);
        ++n;
      }
      if (isFloat(t))
        body += "  %p = tile.unary isnan %a : {in} -> {out}\n  %q = tile.unary isinf %b : {in} -> {out}\n"
                "  %pq = tile.binary bitand %p, %q : {out}\n  %c = tile.binary bitor %pq, %m5 : {out}";
      else
        body += "  %c = tile.binary bitor %m5, %m5 : {out}";
      if (!assembles(elementwise("k", t, DType::boolean, body, target.arch, int(128 * 16 / byteSize(t))),
                     false))
        return;
    }
}

TEST_CASE("every conversion assembles on every target", "[codegen][ptxas]") {
  for (const Target &target : targets())
    for (DType from : allTypes) {
      CAPTURE(target.arch, name(from));
      const std::int32_t shape[] = {256};
      const int order[] = {0};
      Layout l = Layout::blocked(shape, order, 2, 4);
      std::string x = tile({256}, from, l),
                  body = fmt::format(R"(  %z = tile.constant 0 : index
  %x = tgpu.global_load %X[%z] axes [] lo[] hi[] pad {} : {} -> {}
)",
                                     pad(from), view(1, from), x),
                  arguments = argument("X", 1, from);
      for (DType to : allTypes) {
        std::string y = tile({256}, to, l), suffix(name(to));
        arguments += ", " + argument("Y" + suffix, 1, to);
        if (to == from)
          continue;
        body += fmt::format(
            "  %y{0} = tile.cast %x : {1} -> {2}\n  tgpu.global_store %y{0}, %Y{0}[%z] axes [] lo[] hi[] : "
            "{2}, {3}\n",
            suffix, x, y, view(1, to));
      }
      if (!assembles(function("k", arguments, body, 4, 0, target.arch), false))
        return;
    }
}

TEST_CASE("conversions of layouts assemble on every type and target", "[codegen][ptxas]") {
  const std::vector<std::int32_t> shape{64, 64};
  const Layout accumulator = wgmmaAccumulator(64), turned = accumulator.permute(std::vector<int>{1, 0}),
               warpedA = wgmmaAccumulator(32), warpedB = wgmmaA(1);
  for (const Target &target : targets())
    for (DType t : allTypes) {
      if (t == DType::index)
        continue;
      CAPTURE(target.arch, name(t));
      const Layout rows = Layout::blocked(shape, 1, int(16 / byteSize(t)), 4);
      if (!assembles(conversion(t, warpedA, warpedB, target.arch), false))
        return;
      for (const Layout &l : {accumulator, turned}) {
        assembles(conversion(t, rows, l, target.arch, lineSwizzle(64, int(byteSize(t)))), false);
        assembles(conversion(t, l, rows, target.arch, lineSwizzle(64, int(byteSize(t)))), false);
      }
    }
}

TEST_CASE("every reduction assembles on every type", "[codegen][ptxas]") {
  const std::int32_t shape[] = {8, 256};
  const int order[] = {1, 0};
  Layout l = Layout::blocked(shape, order, 4, 4, std::vector<int>{0, 1});
  for (const Target &target : targets())
    for (DType t : allTypes) {
      CAPTURE(target.arch, name(t));
      std::string x = tile({8, 256}, t, l), index = tile({8, 256}, DType::index, l);
      Layout rl = l.collapse(1);
      std::string y = tile({8, 1}, t, rl), yi = tile({8, 1}, DType::index, rl);
      std::string body = fmt::format(R"(  %z = tile.constant 0 : index
  %x = tgpu.global_load %X[%z, %z] axes [] lo[] hi[] pad {} : {} -> {}
)",
                                     pad(t), view(2, t), x);
      std::vector<std::string> kinds = {"sum", "prod", "max", "min", "maxnum", "minnum"};
      if (t == DType::boolean)
        kinds = {"any", "all"};
      int row = 0;
      for (const std::string &kind : kinds)
        body +=
            fmt::format("  %r{0} = tgpu.reduce {0} %x, 1 : {1} -> {2}\n  %o{0} = tile.constant {3} : index\n"
                        "  tgpu.global_store %r{0}, %Y[%z, %o{0}] axes [] lo[] hi[] : {2}, {4}\n",
                        kind, x, y, row++, view(2, t));
      if (t != DType::boolean)
        body += fmt::format(R"(  %i = tile.iota 1 : {0}
  %v, %p = tgpu.reduce argmax %x at %i : {0}, 1 : {1} -> {2}, {3}
  %w, %q = tgpu.reduce argmin %x at %i : {0}, 1 : {1} -> {2}, {3}
  tgpu.global_store %p, %P[%z, %z] axes [] lo[] hi[] : {3}, {4}
  tgpu.global_store %q, %P[%z, %p0] axes [] lo[] hi[] : {3}, {4}
)",
                            index, x, y, yi, view(2, DType::index));
      body = "  %p0 = tile.constant 1 : index\n" + body;
      if (!assembles(function(
              "k", argument("X", 2, t) + ", " + argument("Y", 2, t) + ", " + argument("P", 2, DType::index),
              body, 4, 0, target.arch)))
        return;
    }
}

TEST_CASE("the usual kernels assemble without spills or stack on every target", "[codegen][ptxas]") {
  for (const Target &target : targets()) {
    CAPTURE(target.arch);
    std::string add = "  %c = tile.binary add %a, %b : {in}";
    if (!assembles(elementwise("vector_add", DType::f32, DType::f32, add, target.arch, 1024), false))
      return;
    assembles(softmax(DType::bf16, 4096, 4, target.arch), false);
    assembles(softmax(DType::f32, 1024, 8, target.arch), false);
    assembles(matmul(*findMma("sm80_m16n8k16_f32bf16bf16f32_tn"), target.arch), false);
    for (const MmaRow &row : mmaRows())
      if (row.kind == MmaKind::MmaSync && target.has(row.feature)) {
        CAPTURE(row.name);
        assembles(matmul(row, target.arch, {64, 32, std::max(32, row.k), 2, 2}), false);
      }
    for (DType t : {DType::f64, DType::f32})
      assembles(matmulFma(t, t, target.arch), false);
    assembles(matmulFma(DType::f16, DType::f16, target.arch), false);
    assembles(matmulFma(DType::i8, DType::i32, target.arch), false);
  }
}
