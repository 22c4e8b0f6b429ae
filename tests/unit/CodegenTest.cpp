// SPDX-License-Identifier: Apache-2.0
/// \file The code generator: what the PTX must and must not contain, errors instead of aborts, threads.
#include "ir/base/Fragments.h"
#include "tests/support/EmitKernel.h"
#include "tests/support/TgpuKernels.h"

#include <catch2/catch.hpp>

#include <thread>

using namespace sectile;
using namespace sectile::testing;

namespace {

Emitted mustEmit(const std::string &text) {
  Emitted e = emitText(text);
  INFO(text << e.errors);
  REQUIRE(e.ok);
  return e;
}
int count(const std::string &text, std::string_view what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}
bool has(const std::string &text, std::string_view what) { return text.find(what) != std::string::npos; }
std::string binaryOf(std::string_view fn, DType t, std::string_view arch = "sm_90a") {
  return elementwise("k", t, t, fmt::format("  %c = tile.binary {} %a, %b : {{in}}", fn), arch);
}
std::string unaryOf(std::string_view fn, DType t, std::string_view arch = "sm_90a") {
  return elementwise("k", t, t, fmt::format("  %c = tile.unary {} %a : {{in}} -> {{out}}", fn), arch);
}

} // namespace

TEST_CASE("the launch facts describe the kernel", "[codegen]") {
  Emitted e = mustEmit(matmul(*findMma("sm80_m16n8k16_f32bf16bf16f32_tn"), "sm_90a"));
  const LaunchInfo &l = e.artifact.launch;
  CHECK(l.symbol == "matmul");
  CHECK(l.threads == 128);
  CHECK(l.sharedBytes == 128 * 32 * 2 * 2);
  CHECK(l.argRanks == std::vector<int>{2, 2, 2});
  REQUIRE(l.grid.size() == 2);
  CHECK((l.grid[0].arg == 2 && l.grid[0].axis == 0 && l.grid[0].tile == 128));
  CHECK((l.grid[1].arg == 2 && l.grid[1].axis == 1 && l.grid[1].tile == 128));
  CHECK(e.artifact.arch == "sm_90a");
  CHECK(has(e.artifact.ptx, ".visible .entry matmul("));
  CHECK(has(e.artifact.ptx, ".reqntid 128"));
  CHECK(has(e.artifact.ptx, ".target sm_90a"));
}

TEST_CASE("loads are as wide as the facts prove", "[codegen]") {
  std::string add = "  %c = tile.binary add %a, %b : {in}";
  std::string wide = mustEmit(elementwise("k", DType::f32, DType::f32, add, "sm_90a")).artifact.ptx;
  CHECK(count(wide, "ld.global.v4.b32") == 2);
  CHECK(count(wide, "st.global.v4.b32") == 1);
  std::string narrow =
      mustEmit(elementwise("k", DType::f32, DType::f32, add, "sm_90a", 512, false)).artifact.ptx;
  CHECK(count(narrow, "ld.global.b32") == 8);
  CHECK_FALSE(has(narrow, ".v4."));
  std::string half = mustEmit(elementwise("k", DType::f16, DType::f16, add, "sm_90a", 1024)).artifact.ptx;
  CHECK(count(half, "ld.global.v4.b32") == 2);
  std::string bytes = mustEmit(elementwise("k", DType::i8, DType::i8, add, "sm_90a", 2048)).artifact.ptx;
  CHECK(count(bytes, "ld.global.v4.b32") == 2);
}

TEST_CASE("addresses are computed in 32 bits only where the tensor is known to be small", "[codegen]") {
  std::string text = elementwise("k", DType::f32, DType::f32, "  %c = tile.binary add %a, %b : {in}", "sm_90a");
  auto smallArguments = [](std::string kernel, int most) {
    for (std::size_t at = 0; most-- > 0 && (at = kernel.find("{tile.align", at)) != std::string::npos; at += 12)
      kernel.insert(at + 1, "tile.small, ");
    return kernel;
  };
  // A sign extension makes the pointer of an access whose offset has 32 bits; those of other tensors stay in 64.
  auto narrow = [](const Emitted &e) { return has(e.llvmIr, "sext i32"); };
  auto wide = [](const Emitted &e) { return has(e.llvmIr, "getelementptr i8, ptr addrspace(1) %6"); };
  Emitted none = mustEmit(text), first = mustEmit(smallArguments(text, 1)), all = mustEmit(smallArguments(text, 3));
  CHECK((!narrow(none) && wide(none)));
  CHECK((narrow(first) && wide(first)));
  CHECK((narrow(all) && !wide(all)));
}

TEST_CASE("arithmetic rounds as the language says", "[codegen]") {
  std::string ptx = mustEmit(binaryOf("div", DType::f32)).artifact.ptx;
  CHECK(has(ptx, "div.rn.f32"));
  CHECK(has(mustEmit(unaryOf("sqrt", DType::f32)).artifact.ptx, "sqrt.rn.f32"));
  CHECK(has(mustEmit(unaryOf("sqrt", DType::f64)).artifact.ptx, "sqrt.rn.f64"));
  CHECK(has(mustEmit(binaryOf("max", DType::f32)).artifact.ptx, "max.NaN.f32"));
  CHECK(has(mustEmit(binaryOf("maxnum", DType::f32)).artifact.ptx, "max.f32"));
  CHECK(has(mustEmit(binaryOf("mul", DType::f32)).artifact.ptx, "mul.rn.f32"));
  // A product and a sum stay two operations.
  std::string ab = "  %d = tile.binary mul %a, %b : {in}\n  %c = tile.binary add %d, %a : {in}";
  for (DType t : {DType::f32, DType::f64}) {
    std::string contracted = mustEmit(elementwise("k", t, t, ab, "sm_90a")).artifact.ptx;
    CHECK(has(contracted, "mul.rn.f"));
    CHECK_FALSE(has(contracted, "fma"));
  }
  for (DType t : {DType::f16, DType::bf16}) {
    std::string small = mustEmit(elementwise("k", t, t, ab, "sm_90a")).artifact.ptx;
    CHECK(has(small, "add.rn"));
  }
  for (std::string_view arch : {"sm_80", "sm_90a"}) // one rounding, also on subnormals
    CHECK_FALSE(has(mustEmit(binaryOf("mul", DType::bf16, arch)).artifact.ptx, "mul.rn.f32"));
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    CHECK_FALSE(has(mustEmit(binaryOf("mul", t)).artifact.ptx, ".ftz"));
}

TEST_CASE("arithmetic takes few instructions", "[codegen]") {
  // One check for a thread's four quotients; the machine's division behind it.
  std::string div = mustEmit(binaryOf("div", DType::f32)).artifact.ptx;
  CHECK(count(div, "rcp.approx.ftz.f32") == 4);
  CHECK(count(div, "div.rn.f32") == 4);
  CHECK(count(div, "vote.sync.any") == 2); // unsafe, unsafe even if zeros are let pass
  CHECK(count(mustEmit(binaryOf("div", DType::f64)).artifact.ptx, "vote") == 0);
  std::string exp = mustEmit(unaryOf("exp", DType::f32)).artifact.ptx;
  CHECK(count(exp, "mul.rz.f32") == 4);
  CHECK(count(exp, "fma.rn.f32") == 3 * 4);
  CHECK(count(exp, "min.f32") == 4);
  CHECK(count(exp, "ex2.approx.ftz.f32") == 4);
  CHECK_FALSE(has(exp, "selp"));
  // Small ones of all four by a polynomial, and behind one check the rest.
  std::string tanh = mustEmit(unaryOf("tanh", DType::f32)).artifact.ptx;
  CHECK(count(tanh, "vote.sync.any") == 1);
  CHECK(count(tanh, "ex2.approx.ftz.f32") == 4);
  CHECK(count(tanh, "rcp.approx.ftz.f32") == 4);
  // Neighbours in pairs, as far as the target has the instruction.
  for (std::string fn : {"add", "sub", "mul", "max", "min"}) {
    CAPTURE(fn);
    std::string half = mustEmit(binaryOf(fn, DType::f16, "sm_80")).artifact.ptx;
    CHECK(count(half, ".f16x2") == 4);
    std::string brain = mustEmit(binaryOf(fn, DType::bf16)).artifact.ptx;
    CHECK(count(brain, ".bf16x2") == 4);
    CHECK_FALSE(has(mustEmit(binaryOf(fn, DType::bf16, "sm_80")).artifact.ptx, ".bf16x2 "));
  }
  // The upper half of a word is a bf16 of that value already.
  std::string cast =
      mustEmit(elementwise("k", DType::bf16, DType::f32, "  %c = tile.cast %a : {in} -> {out}", "sm_90a"))
          .artifact.ptx;
  CHECK(count(cast, ", -65536;") == 4);
}

TEST_CASE("products are matrix instructions", "[codegen]") {
  for (const MmaRow &row : mmaRows()) {
    if (row.kind != MmaKind::MmaSync)
      continue;
    CAPTURE(row.name);
    for (const Target &target : targets()) {
      if (!target.has(row.feature))
        continue;
      CAPTURE(target.arch);
      MatmulShape shape;
      shape.k = std::max(32, row.k);
      Emitted e = mustEmit(matmul(row, target.arch, shape));
      std::string ptx = e.artifact.ptx;
      CHECK(has(ptx, fmt::format("mma.sync.aligned.m{}n{}k{}.row.col", row.m, row.n, row.k)));
      CHECK(count(ptx, "mma.sync") == shape.m / row.m * (shape.n / row.n) * (shape.k / row.k) / 4);
      CHECK_FALSE(has(ptx, ".local"));
    }
  }
}

TEST_CASE("conversions within warps are shuffles", "[codegen]") {
  const std::vector<std::int32_t> shape{16, 64};
  const Layout rows = Layout::blocked(shape, 1, 4, 2), columns = Layout::blocked(shape, 0, 4, 2);
  REQUIRE(conversionKind(wgmmaAccumulator(32), wgmmaA(1)) == ConversionKind::ShuffleLanes);
  std::string ptx = mustEmit(conversion(DType::e4m3, wgmmaAccumulator(32), wgmmaA(1), "sm_90a")).artifact.ptx;
  CHECK(count(ptx, "shfl.sync.idx.b32") == 4); // 16 elements of a thread in 4 words
  CHECK_FALSE(has(ptx, "bar"));
  CHECK_FALSE(has(ptx, ".local"));
  const Layout turned(2, rows.core(), rows.reps(), rows.reg(),
                      {rows.lane()[4], rows.lane()[0], rows.lane()[1], rows.lane()[2], rows.lane()[3]},
                      rows.warp());
  for (auto [t, words] : {std::pair(DType::f64, 32), std::pair(DType::f32, 16), std::pair(DType::bf16, 8),
                          std::pair(DType::i8, 4), std::pair(DType::boolean, 4)}) {
    CAPTURE(name(t));
    CHECK(count(mustEmit(conversion(t, rows, turned, "sm_80")).artifact.ptx, "shfl.sync.idx.b32") == words);
  }
}

TEST_CASE("buffers are written and read by matrix instructions where layouts fit", "[codegen]") {
  const std::vector<std::int32_t> shape{64, 64};
  const Layout rows = Layout::blocked(shape, 1, 8, 4), columns = wgmmaAccumulator(64),
               turned = wgmmaAccumulator(64).permute(std::vector<int>{1, 0});
  const std::string swizzle = lineSwizzle(64, 2);
  std::string ptx = mustEmit(conversion(DType::bf16, rows, columns, "sm_80", swizzle)).artifact.ptx;
  CHECK(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.shared.b16") == 4);
  ptx = mustEmit(conversion(DType::bf16, rows, turned, "sm_80", swizzle)).artifact.ptx;
  CHECK(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16") == 4);
  ptx = mustEmit(conversion(DType::bf16, columns, rows, "sm_90a", swizzle)).artifact.ptx;
  CHECK(count(ptx, "stmatrix.sync.aligned.m8n8.x4.shared.b16") == 4);
  ptx = mustEmit(conversion(DType::bf16, turned, rows, "sm_90a", swizzle)).artifact.ptx;
  CHECK(count(ptx, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16") == 4);
  ptx = mustEmit(conversion(DType::bf16, columns, rows, "sm_80", swizzle)).artifact.ptx;
  CHECK_FALSE(has(ptx, "stmatrix"));
}

TEST_CASE("shared memory is one dynamic array and barriers are aligned", "[codegen]") {
  std::string ptx = mustEmit(matmul(*findMma("sm80_m16n8k16_f32f16f16f32_tn"), "sm_90a")).artifact.ptx;
  CHECK(has(ptx, ".extern .shared .align 128 .b8 sectile_shared[]"));
  CHECK(count(ptx, "bar.sync") + count(ptx, "barrier.sync") == 2);
  CHECK(has(ptx, "st.shared.v4.b32"));
}

TEST_CASE("loops stay loops", "[codegen]") {
  Emitted e = mustEmit(matmul(*findMma("sm80_m16n8k16_f32f16f16f32_tn"), "sm_90a"));
  CHECK(has(e.llvmIr, "llvm.loop.unroll.disable"));
}

TEST_CASE("control flow carries every register", "[codegen]") {
  std::string body = R"(  %z = tile.constant 0 : index
  %one = tile.constant 1 : index
  %n = tile.dim %X, 0 : !tile.tensor<1, f32>
  %i0 = tile.iota 0 : I
  %t = tile.cast %i0 : I -> T
  %r:2 = scf.while (%i = %z, %v = %t) : (index, T) -> (index, T) {
    %c = tile.compare lt %i, %n : index -> i1
    scf.condition(%c) %i, %v : index, T
  } do {
  ^bb0(%i: index, %v: T):
    %j = tile.binary add %i, %one : index
    %odd = tile.binary bitand %i, %one : index
    %isOdd = tile.compare eq %odd, %one : index -> i1
    %w = scf.if %isOdd -> T {
      %d = tile.binary add %v, %v : T
      scf.yield %d : T
    } else {
      scf.yield %v : T
    }
    scf.yield %j, %w : index, T
  }
  tgpu.global_store %r#1, %X[%z] axes [0] lo[%z] hi[%n] : T, !tile.tensor<1, f32>
)";
  const std::int32_t shape[] = {256};
  const int order[] = {0};
  std::string t = tile({256}, DType::f32, Layout::blocked(shape, order, 2, 4));
  std::string index = tile({256}, DType::index, Layout::blocked(shape, order, 2, 4));
  for (std::size_t at; (at = body.find(": I")) != std::string::npos;)
    body.replace(at, 3, ": " + index);
  for (std::size_t at; (at = body.find(" T")) != std::string::npos;)
    body.replace(at, 2, " " + t);
  for (std::size_t at; (at = body.find("T)")) != std::string::npos;)
    body.replace(at, 2, t + ")");
  Emitted e = mustEmit(function("k", argument("X", 1, DType::f32), body, 4, 0, "sm_90a"));
  CHECK(count(e.llvmIr, "phi") >= 3);
}

TEST_CASE("what LLVM cannot do is an error, not the end of the process", "[codegen]") {
  // An fp8 atom on a chip without it: the intrinsic cannot be selected.
  const MmaRow *row = findMma("sm89_m16n8k32_f32e4m3e4m3f32_tn");
  REQUIRE(row);
  Emitted bad = emitText(matmul(*row, "sm_80"));
  CHECK_FALSE(bad.ok);
  CHECK(has(bad.errors, "sm_80"));
  CHECK(emitText(matmul(*row, "sm_90a")).ok);
  CHECK_FALSE(emitText(binaryOf("add", DType::f32, "sm_17")).ok);
  CHECK_FALSE(emitText("module {}").ok);
}

TEST_CASE("emissions run side by side", "[codegen]") {
  std::string text = matmul(*findMma("sm80_m16n8k16_f32bf16bf16f32_tn"), "sm_90a");
  std::string expected = mustEmit(text).artifact.ptx;
  std::vector<std::string> ptx(4);
  std::vector<std::thread> threads;
  for (std::string &p : ptx)
    threads.emplace_back([&] { p = emitText(text).artifact.ptx; });
  for (std::thread &t : threads)
    t.join();
  for (const std::string &p : ptx)
    CHECK(p == expected);
}
