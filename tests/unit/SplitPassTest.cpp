// SPDX-License-Identifier: Apache-2.0
/// \file Loops that several blocks share: which are, that every number of parts gives what the interpreter
/// gives, and the code for every target.
#include "codegen/Codegen.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "tests/support/EmitKernel.h"
#include "tests/support/InterpHarness.h"
#include "tests/support/OnThreads.h"

#include <sectile/Targets.h>

#include <catch2/catch.hpp>

using namespace sectile;
using namespace sectile::test;

namespace {

bool lower(mlir::ModuleOp module, int split, std::string &messages, const std::string &arch = "sm_90a") {
  mlir::ScopedDiagnosticHandler handler(module.getContext(),
                                        [&](mlir::Diagnostic &d) { messages += d.str() + "\n"; });
  passes::PipelineOptions options;
  options.arch = arch;
  options.schedule.split = split;
  mlir::PassManager pm(module.getContext());
  passes::buildPipeline(pm, options);
  return mlir::succeeded(pm.run(module));
}

bool isSplit(mlir::ModuleOp module) {
  int ranges = 0, combines = 0;
  module.walk([&](tgpu::SplitRangeOp) { ++ranges; });
  module.walk([&](tgpu::CombinePartsOp) { ++combines; });
  CHECK(ranges == combines);
  CHECK(ranges <= 1);
  return ranges == 1;
}

/// Whether the loop of this kernel may be shared.
bool splits(const std::string &text, int split = 0) {
  Interpreted kernel(text);
  INFO(kernel.messages << text);
  REQUIRE(kernel.module);
  std::string messages;
  bool ok = lower(*kernel.module, split, messages);
  INFO(messages);
  REQUIRE(ok);
  return isSplit(*kernel.module);
}

/// Sums over the rows of X, in strips of 32 columns and 4 rows at a time. `body` makes %next from %x and %acc,
/// all of type tensor<4x32xELEMENT>; `init` is an attribute, `fold` the reduction at the end.
std::string columns(DType t, const std::string &init, const std::string &body, const std::string &fold) {
  std::string tile = tileType({4, 32}, t), row = tileType({1, 32}, t), in = tensorType(2, t);
  return kernelText("%X: " + in + ", %Y: " + in, R"(
    %z, %c = tile.grid %Y [1, 32] : )" + in + R"( -> index, index
    %zero = tile.constant 0 : index
    %one = tile.constant 1 : index
    %four = tile.constant 4 : index
    %rows = tile.dim %X, 0 : )" + in + R"(
    %start = tile.constant )" + init + " : " + typeName(t) + R"(
    %init = tile.splat %start : )" + typeName(t) + " -> " + tile + R"(
    %r = scf.for %i = %zero to %rows step %four iter_args(%acc = %init) -> )" + tile + R"( {
      %l = tile.load %X[%i, %c] : )" + in + " -> " + tile + R"(
      %x = tile.fill %l, %start : )" + tile + ", " + typeName(t) + R"(
)" + body + R"(
      scf.yield %next : )" + tile + R"(
    }
    %s = tile.reduce )" + fold + " %r, 0 : " + tile + " -> " + row + R"(
    tile.store %s, %Y[%z, %c] : )" + row + ", " + in);
}
std::string binary(const std::string &fn, DType t) {
  return "%next = tile.binary " + fn + " %acc, %x : " + tileType({4, 32}, t);
}

template <class T> Host<T> numbers(std::vector<std::int64_t> dims) {
  Host<T> h(std::move(dims));
  std::uint32_t state = 12345;
  for (auto &v : h.data) {
    state = state * 1664525u + 1013904223u;
    v = T(float(int(state >> 28) - 7));
  }
  return h;
}

/// The interpreter's result, and that of the lowered kernel with each number of parts.
template <class T> void checkParts(const std::string &text, std::int64_t rows, std::int64_t cols, int split = 0) {
  Host<T> x = numbers<T>({rows, cols}), expected({1, cols}, T(-1.0f));
  interpret(text, x, expected);
  Interpreted kernel(text);
  REQUIRE(kernel.module);
  std::string messages;
  bool ok = lower(*kernel.module, split, messages);
  INFO(messages << text);
  REQUIRE(ok);
  REQUIRE(isSplit(*kernel.module));
  for (std::int64_t parts : {1, 2, 3, 7, 1000}) {
    Host<T> y({1, cols}, T(-1.0f));
    runOnThreads(*kernel.module, std::vector<KernelArg>{x.arg(), y.arg()}, parts);
    INFO("rows " << rows << ", parts " << parts);
    CHECK(std::memcmp(y.data.data(), expected.data.data(), y.data.size() * sizeof(T)) == 0);
  }
}

} // namespace

TEST_CASE("split: every function and number of parts gives what one block gives", "[passes][split][sim]") {
  for (std::int64_t rows : {0, 1, 4, 5, 30}) {
    checkParts<i32>(columns(DType::i32, "0", binary("add", DType::i32), "sum"), rows, 40);
    checkParts<f32>(columns(DType::f32, "0.0", binary("add", DType::f32), "sum"), rows, 70);
    checkParts<i32>(columns(DType::i32, "1", binary("mul", DType::i32), "prod"), rows, 33);
    checkParts<f32>(columns(DType::f32, "0xFF800000", binary("max", DType::f32), "max"), rows, 33);
    checkParts<i32>(columns(DType::i32, "2147483647", binary("min", DType::i32), "min"), rows, 33);
    checkParts<f32>(columns(DType::f32, "2.0", binary("maxnum", DType::f32), "max"), rows, 33);
    checkParts<i32>(columns(DType::i32, "-1", binary("bitand", DType::i32), "min"), rows, 33);
    checkParts<i32>(columns(DType::i32, "5", binary("bitxor", DType::i32), "max"), rows, 33);
  }
}

TEST_CASE("split: initial values count once", "[passes][split][sim]") {
  checkParts<i32>(columns(DType::i32, "3", binary("add", DType::i32), "sum"), 50, 40);
  checkParts<f32>(columns(DType::f32, "3.0", binary("add", DType::f32), "max"), 50, 40);
  checkParts<f32>(columns(DType::f32, "2.0", binary("mul", DType::f32), "max"), 11, 40);
}

TEST_CASE("split: trips that write rows of their own", "[passes][split][sim]") {
  const std::string tile = tileType({4, 32}, DType::i32), in = tensorType(2, DType::i32);
  const std::string text = columns(DType::i32, "0", binary("add", DType::i32) + "\n%d = tile.binary mul %x, %x : " + tile +
                                                        "\ntile.store %d, %X[%i, %c] : " + tile + ", " + in, "sum");
  for (std::int64_t rows : {1, 4, 30}) {
    Host<i32> before = numbers<i32>({rows, 40}), x = before, sums({1, 40}, -1);
    interpret(text, x, sums);
    for (std::int64_t parts : {1, 2, 3, 1000}) {
      Interpreted kernel(text);
      std::string messages;
      REQUIRE(lower(*kernel.module, 0, messages));
      REQUIRE(isSplit(*kernel.module));
      Host<i32> got = before, y({1, 40}, -1);
      runOnThreads(*kernel.module, std::vector<KernelArg>{got.arg(), y.arg()}, parts);
      INFO("rows " << rows << ", parts " << parts);
      CHECK(got.data == x.data);
      CHECK(y.data == sums.data);
    }
  }
}

TEST_CASE("split: forms of accumulation", "[passes][split][sim]") {
  std::string tile = tileType({4, 32}, DType::i32), flags = tileType({4, 32}, DType::boolean);
  auto check = [&](const std::string &body) { checkParts<i32>(columns(DType::i32, "0", body, "sum"), 37, 33); };
  check("%next = tile.binary add %x, %acc : " + tile);
  check("%next = tile.binary sub %acc, %x : " + tile);
  check("%a = tile.binary add %acc, %x : " + tile + "\n%b = tile.binary mul %x, %x : " + tile +
        "\n%next = tile.binary sub %a, %b : " + tile);
  check("%k = tile.compare gt %x, %init : " + tile + " -> " + flags + "\n%a = tile.binary add %acc, %x : " + tile +
        "\n%next = tile.select %k, %a, %acc : " + flags + ", " + tile);
  check("%k = tile.compare gt %i, %four : index -> i1\n%next = scf.if %k -> " + tile +
        " {\n%a = tile.binary add %acc, %x : " + tile + "\nscf.yield %a : " + tile + "\n} else {\nscf.yield %acc : " +
        tile + "\n}");
  check("%next = scf.for %j = %zero to %four step %one iter_args(%in = %acc) -> " + tile +
        " {\n%a = tile.binary add %in, %x : " + tile + "\nscf.yield %a : " + tile + "\n}");
}

TEST_CASE("split: loops that do more than accumulate stay whole", "[passes][split]") {
  std::string tile = tileType({4, 32}, DType::i32), in = tensorType(2, DType::i32);
  auto form = [&](const std::string &body) { return splits(columns(DType::i32, "0", body, "sum")); };
  CHECK(form(binary("add", DType::i32)));
  CHECK_FALSE(form("%next = tile.binary sub %x, %acc : " + tile));
  CHECK_FALSE(form("%next = tile.binary shl %acc, %x : " + tile));
  CHECK_FALSE(form("%next = tile.binary add %acc, %acc : " + tile));
  CHECK_FALSE(form("%a = tile.binary mul %acc, %x : " + tile + "\n%next = tile.binary add %acc, %a : " + tile));
  CHECK_FALSE(form("%a = tile.binary mul %acc, %x : " + tile + "\n%next = tile.binary add %a, %x : " + tile));
  // A trip may write its own rows, also over what it has read; rows of other trips it may not, nor read what those write.
  auto stores = [&](const std::string &more) { return form("%next = tile.binary add %acc, %x : " + tile + "\n" + more); };
  CHECK(stores("tile.store %x, %X[%i, %c] : " + tile + ", " + in));
  CHECK_FALSE(stores("tile.store %x, %X[%zero, %c] : " + tile + ", " + in));
  CHECK_FALSE(stores("tile.store %x, %X[%c, %i] : " + tile + ", " + in));
  CHECK_FALSE(stores("%w = tile.load %X[%zero, %c] : " + in + " -> " + tile + "\ntile.store %w, %X[%i, %c] : " + tile + ", " + in));
  CHECK_FALSE(stores("%j = tile.binary add %i, %one : index\ntile.store %x, %X[%j, %c] : " + tile + ", " + in));
  std::string taller = columns(DType::i32, "0", binary("add", DType::i32) + "\ntile.store %x, %X[%i, %c] : " + tile + ", " + in, "sum");
  taller.replace(taller.find("step %four"), 10, "step %one");
  CHECK_FALSE(splits(taller));
  CHECK_FALSE(splits(columns(DType::i32, "0", binary("add", DType::i32), "sum"), 1));
  // Sums of 16 bits would be rounded more often; their extremes are exact.
  for (DType narrow : {DType::f16, DType::bf16}) {
    CHECK_FALSE(splits(columns(narrow, "0.0", binary("add", narrow), "sum")));
    CHECK_FALSE(splits(columns(narrow, "1.0", binary("mul", narrow), "max")));
    CHECK(splits(columns(narrow, "0.0", binary("max", narrow), "max")));
  }
  CHECK_FALSE(splits(columns(DType::e5m2, "0.0", binary("add", DType::e5m2), "sum")));
  // The loop's end is known to the program alone.
  std::string text = columns(DType::i32, "0", binary("add", DType::i32), "sum");
  std::string byProgram = text;
  byProgram.replace(byProgram.find("%zero to %rows"), 14, "%zero to %c");
  CHECK_FALSE(splits(byProgram));
  // Something is written before the loop, or there is another loop.
  std::string before = text;
  before.insert(before.find("%r = scf.for"), "%w = tile.load %X[%zero, %c] : " + in + " -> " + tile +
                                                 "\ntile.store %w, %X[%four, %c] : " + tile + ", " + in + "\n");
  CHECK_FALSE(splits(before));
  std::string another = text;
  another.insert(another.find("%s = tile.reduce"), "%q = scf.for %j = %zero to %rows step %one iter_args(%v = %r) -> " +
                                                       tile + " {\n%w = tile.binary mul %v, %v : " + tile +
                                                       "\nscf.yield %w : " + tile + "\n}\n");
  another.replace(another.find("sum %r"), 6, "sum %q");
  CHECK_FALSE(splits(another));
}

namespace {

std::string product() {
  return kernelText("%A: !tile.tensor<2, bf16>, %B: !tile.tensor<2, bf16>, %C: !tile.tensor<2, f32>", R"(
    %m, %n = tile.grid %C [32, 32] : !tile.tensor<2, f32> -> index, index
    %zero = tile.constant 0 : index
    %step = tile.constant 16 : index
    %K = tile.dim %A, 1 : !tile.tensor<2, bf16>
    %init = tile.constant dense<0.0> : tensor<32x32xf32>
    %r = scf.for %k = %zero to %K step %step iter_args(%acc = %init) -> tensor<32x32xf32> {
      %a = tile.load %A[%m, %k] : !tile.tensor<2, bf16> -> tensor<32x16xbf16>
      %b = tile.load %B[%k, %n] : !tile.tensor<2, bf16> -> tensor<16x32xbf16>
      %next = tile.mma exact %a, %b, %acc : tensor<32x16xbf16>, tensor<16x32xbf16>, tensor<32x32xf32>
      scf.yield %next : tensor<32x32xf32>
    }
    tile.store %r, %C[%m, %n] : tensor<32x32xf32>, !tile.tensor<2, f32>)");
}

} // namespace

TEST_CASE("split: products are shared on demand", "[passes][split][sim]") {
  CHECK_FALSE(splits(product()));
  Host<bf16> a = numbers<bf16>({35, 90}), b = numbers<bf16>({90, 40});
  Host<f32> expected({35, 40});
  interpret(product(), a, b, expected);
  Interpreted kernel(product());
  std::string messages;
  REQUIRE(lower(*kernel.module, 4, messages));
  REQUIRE(isSplit(*kernel.module));
  for (std::int64_t parts : {1, 4}) {
    Host<f32> c({35, 40}, -1.0f);
    runOnThreads(*kernel.module, std::vector<KernelArg>{a.arg(), b.arg(), c.arg()}, parts);
    CHECK(c.data == expected.data);
  }
}

TEST_CASE("split: only what the sums leave is kept per part", "[passes][split]") {
  Interpreted kernel(columns(DType::f32, "0.0", binary("add", DType::f32), "sum"));
  std::string messages;
  REQUIRE(lower(*kernel.module, 0, messages));
  kernel.module->walk([](tgpu::CombinePartsOp op) {
    REQUIRE(op.getValues().size() == 1);
    CHECK(tileir::shapeOf(op.getValues()[0].getType()) == llvm::ArrayRef<std::int64_t>({1, 32}));
  });
  Artifact artifact;
  REQUIRE(mlir::succeeded(codegen::emit(*kernel.module, artifact, {})));
  const LaunchSplit &split = artifact.launch.split;
  CHECK(split.possible);
  CHECK(split.partBytes == 32 * 4);
  CHECK(split.lower.arg == -1);
  CHECK(split.lower.value == 0);
  CHECK(split.upper.arg == 0);
  CHECK(split.upper.axis == 0);
  CHECK(split.step.value == 4);
  CHECK(split.minTrips == 4);
  CHECK(split.parts == 0);
}

TEST_CASE("split: code for every target", "[passes][split][ptxas]") {
  std::vector<std::string> texts{columns(DType::f32, "0.0", binary("add", DType::f32), "sum"),
                                 columns(DType::f16, "1.0", binary("max", DType::f16), "max"),
                                 columns(DType::f64, "2.0", binary("max", DType::f64), "sum"),
                                 columns(DType::i8, "2", binary("bitor", DType::i8), "max"), product()};
  for (const Target &target : targets())
    for (const std::string &text : texts) {
      Interpreted kernel(text);
      std::string messages;
      bool ok = lower(*kernel.module, 3, messages, std::string(target.arch));
      INFO(messages << text);
      REQUIRE(ok);
      REQUIRE(isSplit(*kernel.module));
      Artifact artifact;
      REQUIRE(mlir::succeeded(codegen::emit(*kernel.module, artifact, {})));
      CHECK(artifact.ptx.find("atom.acq_rel.gpu.global.inc.u32") != std::string::npos);
      auto assembled = sectile::testing::assemble(artifact);
      if (!assembled) {
        std::printf("SKIPPED: split kernels for %s: no ptxas\n", artifact.arch.c_str());
        continue;
      }
      INFO(assembled->log << artifact.ptx);
      CHECK(assembled->ok);
      CHECK(assembled->spillBytes == 0);
    }
}
