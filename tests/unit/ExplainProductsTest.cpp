// SPDX-License-Identifier: Apache-2.0
/// \file Explanations of the kernels of tests/generality: roles, pipes, instructions and totals of those on the fast path,
/// and why the others are not there.
#include "dsl/Context.h"
#include "dsl/Explain.h"
#include "dsl/Lower.h"
#include "tests/generality/Generality.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

#include <map>

using namespace sectile;

namespace {

/// A kernel given as text, lowered for sm_90a and explained on these arguments.
Explanation explained(const std::string &tile, std::span<const KernelArg> args) {
  ContextLease context;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(tile, context.get());
  REQUIRE(module);
  LowerOptions options;
  options.kernel = "k";
  options.until = Stage::tgpu;
  StageTimes times;
  lower(*module, options, times);
  auto executor = tgpu::Executor::build(*module);
  REQUIRE(executor);
  Explanation e = explain(*module, *executor, args, 1, 4800);
  CHECK_FALSE(e.fault);
  return e;
}

/// By the name of the case: what its last kernel explains, at the sizes of a GPU.
const std::map<std::string, Explanation> &all() {
  static std::map<std::string, Explanation> found;
  static std::string name;
  if (found.empty()) {
    generality::reader() = [](const std::string &tile, std::span<const KernelArg> args) {
      found.insert_or_assign(name, explained(tile, args));
    };
    for (const cases::CaseInfo &info : cases::registry()) {
      name = info.name;
      // Products alone: kernels with a softmax between two of them have cases and PTX tests of their own.
      if (name.starts_with("attention/") || name.starts_with("decode/") || name.starts_with("softmax/") || name.starts_with("gated") ||
          name.starts_with("two/") || name.starts_with("edge/"))
        continue;
      cases::Run run(false, true);
      try {
        info.body(run); // its checks fail: nothing is computed
      } catch (const cases::Skip &) { // random ones are not looked at
      }
    }
    generality::reader() = nullptr;
  }
  return found;
}
const Explanation &ofCase(const std::string &name) {
  auto found = all().find(name);
  INFO(name);
  REQUIRE(found != all().end());
  return found->second;
}

/// The reasons by one pass, or about one thing, a line each.
std::string reasonsBy(const Explanation &e, std::string_view by) {
  std::string text;
  for (const ExplainedReason &r : e.reasons())
    if (r.by == by)
      text += r.text + "\n";
  return text;
}
bool hasReason(const Explanation &e, std::string_view by, const SourceLoc &at) {
  for (const ExplainedReason &r : e.reasons())
    if (r.by == by && std::string_view(r.at.file) == at.file && r.at.line == at.line)
      return true;
  return false;
}
auto says(const std::string &text) { return Catch::Matchers::Contains(text); }

} // namespace

TEST_CASE("a product on the fast path: instruction, pipe, roles, totals", "[explain]") {
  const Explanation &e = ofCase("majors/nn"); // 4096 cubed, tiles of 128 x 128 x 64
  INFO(explanationText(e));
  REQUIRE(e.products.size() == 1);
  const ExplainedProduct &p = e.products[0];
  CHECK(p.op == "wgmma");
  CHECK(p.instruction == "sm90_m64n128k16_f32bf16bf16");
  CHECK(std::array{p.m, p.n, p.k} == std::array<std::int64_t, 3>{128, 128, 64});
  CHECK(p.placeA == "shared, K-major");
  CHECK(p.placeB == "shared, N-major");
  CHECK(p.inLoop);
  CHECK(p.runs == 1024 * 64);
  CHECK(p.instructions == 2 * 4);
  CHECK(p.tensorClocks == 2 * 4 * 64);
  CHECK(e.flops() == 2.0 * 4096 * 4096 * 4096);

  // Each program loads its 128 rows and columns once; the sums are written once.
  CHECK(e.bytesRead() == std::int64_t(1024) * 2 * 128 * 4096 * 2);
  CHECK(e.bytesWritten() == std::int64_t(4096) * 4096 * 2);
  for (const ExplainedAccess &a : e.accesses) {
    INFO(a.op);
    CHECK(a.byTma);
    CHECK(a.existingShare() == 1);
    CHECK(a.at.line > 0);
  }

  REQUIRE(e.pipes.size() == 1);
  CHECK(e.pipes[0].dataBytes == 2 * 128 * 64 * 2);
  CHECK(e.pipes[0].loads == std::vector<std::size_t>{0, 1});
  CHECK(e.pipes[0].stages >= 4);
  CHECK(e.pipes[0].consumers == 8);
  REQUIRE(e.roles.size() == 2);
  CHECK(e.roles[0].warps == 4);
  CHECK(e.roles[0].registers < e.roles[1].registers);
  CHECK(e.roles[1].warps == 8);
  std::int64_t end = 0;
  for (const ExplainedBuffer &b : e.buffers) { // in order, apart
    INFO(b.use);
    CHECK_FALSE(b.use.empty());
    CHECK(b.offset >= end);
    CHECK(b.first.line > 0);
    end = b.offset + b.bytes;
  }
  CHECK(end == e.sharedBytes);

  CHECK(e.isPersistent);
  CHECK(e.places() == 132);
  CHECK(e.waves() == Approx(1024.0 / 132));
  CHECK(e.waveEfficiency() == Approx(1024.0 / 132 / 8));
  CHECK(e.computeMicroseconds() == Approx(e.flops() / 989e6));
  CHECK(e.decisions.empty());
  CHECK(e.tensorClocks() == 64.0 * 2 * 4 * 64);
  // Of shared memory: products read 64 + 128 rows of 32 bytes each, the TMA unit writes the slot and reads the sums.
  CHECK(e.sharedClocks() == Approx((64.0 * (2 * 4 * (64 + 128) * 32 + 2 * 128 * 64 * 2) + 128 * 128 * 2) / 128));
}

TEST_CASE("what is not on the fast path has the pass, the line and a reason", "[explain]") {
  for (const auto &[name, e] : all()) {
    INFO(name << "\n" << explanationText(e));
    REQUIRE_FALSE(e.products.empty());
    bool hasFast = false;
    for (const ExplainedProduct &p : e.products) {
      hasFast |= p.op == "wgmma";
      if (p.op != "wgmma")
        CHECK(hasReason(e, "SelectMma", p.at));
    }
    if (!hasFast)
      continue;
    for (const ExplainedProduct &p : e.products)
      if (p.inLoop && p.placeA == "registers" && name != "three-chained") // whose a does not change in the loop
        CHECK_FALSE(reasonsBy(e, "StageOperands").empty());
    for (const ExplainedAccess &a : e.accesses) {
      if (a.byTma || a.shape.empty())
        continue;
      INFO(a.op << " " << a.at.line);
      if (a.kind == ExplainedAccess::Kind::store)
        CHECK(hasReason(e, "StoreBoxes", a.at));
    }
    for (const ExplainedBuffer &b : e.buffers)
      if (b.use == "operand that threads write")
        CHECK_THAT(reasonsBy(e, "StageOperands"), says("operand B"));
    for (const ExplainedReason &r : e.reasons()) {
      CHECK_FALSE(r.text.empty());
      if (!r.by.empty() && std::isupper(static_cast<unsigned char>(r.by[0])))
        CHECK(r.at.line > 0);
    }
  }
}

TEST_CASE("the true reasons of kernels that are slower than the plain product", "[explain]") {
  auto check = [](const char *name, std::string_view by, const std::string &text) {
    const Explanation &e = ofCase(name);
    INFO(name << "\n" << explanationText(e));
    CHECK_THAT(reasonsBy(e, by), says(text));
  };
  check("f32", "SelectMma", "f32 operands are exact products, which no tensor core makes");
  check("computed-operand", "StageOperands", "operand A is computed by threads, in registers");
  check("computed-operand", "operands", "clocks of arithmetic a program between products");
  check("int8-weights", "StageOperands", "operand B is computed by threads");
  check("gate-and-up", "StageOperands", "operand A has zeros put by threads where the other operand ends before it");
  check("block-sparse", "SpecialiseWarps", "read from memory in every trip to decide about its product");
  check("bias-gelu", "epilogue", "clocks of arithmetic a program while no product of the same threads runs");
  check("triangular", "grid", "products: blocks with long ones end last");
  check("three-chained", "grid", "64 programs for 132 places: 52% of the GPU has no work");
  check("three-chained", "shared memory", "clocks a program for what products read");
  check("short-k", "trips", "trips a program: 1, of 64 along K each");
  check("short-k", "boxes", "38% of the boxes of argument 0 exist");
  check("short-k", "bound", "memory: ");
  check("grouped", "StageOperands", "the tensor is a slice made in the kernel");
}
