// SPDX-License-Identifier: Apache-2.0
/// \file Conversions through the whole pipeline, run thread by thread: shuffles where one product's result is
/// the next one's operand, swizzled buffers for transposes.
#include "passes/Pipeline.h"
#include "tests/support/InterpHarness.h"
#include "tests/support/OnThreads.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <random>

using namespace sectile;
using namespace sectile::test;

namespace {

struct Counts {
  int shuffles = 0, buffers = 0, swizzled = 0;
};

/// Runs the kernel as written and thread by thread after the pipeline; both must agree bit for bit. `stages` 1: products of
/// warps.
template <class... Hosts> Counts run(const std::string &text, int warps, int stages, Hosts... hosts) {
  auto copy = std::make_tuple(hosts...);
  Interpreted kernel(text);
  INFO(text << kernel.messages);
  REQUIRE(kernel.program);
  kernel.program->run(std::vector<KernelArg>{hosts.arg()...});
  passes::PipelineOptions options;
  options.schedule.stages = stages;
  options.schedule.warps = warps;
  mlir::PassManager pm(&kernel.context);
  passes::buildPipeline(pm, options);
  REQUIRE(mlir::succeeded(pm.run(*kernel.module)));
  std::apply([&](auto &...h) { runOnThreads(*kernel.module, std::vector<KernelArg>{h.arg()...}); }, copy);
  auto same = [](auto &a, auto &b) {
    return !std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(a.data[0]));
  };
  std::apply([&](auto &...h) { CHECK((same(hosts, h) && ...)); }, copy);
  Counts counts;
  kernel.module->walk([&](tgpu::ConvertLayoutOp op) {
    counts.shuffles += conversionKind(*tgpu::layoutOf(op.getX().getType()), *tgpu::layoutOf(op.getType())) ==
                       ConversionKind::ShuffleLanes;
  });
  kernel.module->walk([&](tgpu::BufferAllocOp op) {
    ++counts.buffers;
    counts.swizzled += !op.getBuffer().getType().getSwizzle().empty();
  });
  return counts;
}

template <class T> Host<T> smallNumbers(std::vector<std::int64_t> shape, unsigned seed) {
  Host<T> h(shape);
  std::mt19937 gen(seed);
  for (T &v : h.data)
    v = T(float(int(gen() % 3) - 1));
  return h;
}

} // namespace

TEST_CASE("a product's result becomes the next one's fp8 operand by shuffles", "[passes][shuffle]") {
  const std::string f8 = typeName(DType::e4m3);
  const std::string text =
      kernelText("%A: !tile.tensor<2, " + f8 + ">, %B: !tile.tensor<2, " + f8 + ">, %C: !tile.tensor<2, f32>",
                 R"(
    %m, %n = tile.grid %C [64, 32] : !tile.tensor<2, f32> -> index, index
    %c0 = tile.constant 0 : index
    %zero = tile.constant dense<0.0> : tensor<64x32xf32>
    %a = tile.load %A[%m, %c0] : !tile.tensor<2, )" +
                     f8 + "> -> tensor<64x32x" + f8 + R"(>
    %b = tile.load %B[%c0, %n] : !tile.tensor<2, )" +
                     f8 + "> -> tensor<32x32x" + f8 + R"(>
    %p = tile.mma exact %a, %b, %zero : tensor<64x32x)" +
                     f8 + ">, tensor<32x32x" + f8 + R"(>, tensor<64x32xf32>
    %q = tile.cast %p : tensor<64x32xf32> -> tensor<64x32x)" +
                     f8 + R"(>
    %r = tile.mma exact %q, %b, %zero : tensor<64x32x)" +
                     f8 + ">, tensor<32x32x" + f8 + R"(>, tensor<64x32xf32>
    tile.store %r, %C[%m, %n] : tensor<64x32xf32>, !tile.tensor<2, f32>)");
  for (int warps : {1, 4}) {
    run(text, warps, 0, smallNumbers<e4m3>({64, 32}, 1), smallNumbers<e4m3>({32, 32}, 2), Host<f32>({64, 32}, -1.0f));
    Counts counts = run(text, warps, 1, smallNumbers<e4m3>({64, 32}, 1), smallNumbers<e4m3>({32, 32}, 2),
                        Host<f32>({64, 32}, -1.0f));
    INFO(warps << " warps");
    CHECK((warps == 1 ? counts.shuffles >= 1 : counts.shuffles + counts.buffers >= 1));
  }
}

TEST_CASE("transposes through swizzled buffers", "[passes][swizzle]") {
  auto check = [](auto zero, int rows, int columns, int warps) {
    using T = decltype(zero);
    const std::string e = typeName(dtypeOf<T>), r = std::to_string(rows), c = std::to_string(columns);
    const std::string view = "!tile.tensor<2, " + e + ">";
    // Rows are contiguous in both tensors.
    const std::string contiguous = " {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_div = "
                                   "array<i64: 16, 16>, tile.dim_div = array<i64: 16, 16>}";
    const std::string text = kernelText("%X: " + view + contiguous + ", %Y: " + view + contiguous, R"(
    %i, %j = tile.grid %X [)" + r + ", " + c + "] : " + view + R"( -> index, index
    %x = tile.load %X[%i, %j] : )" + view + " -> tensor<" + r + "x" + c + "x" + e + R"(>
    %t = tile.permute %x [1, 0] : tensor<)" + r + "x" + c + "x" + e + "> -> tensor<" + c + "x" + r + "x" +
                                                                                                       e +
                                                                                                       R"(>
    tile.store %t, %Y[%j, %i] : tensor<)" + c + "x" + r + "x" + e + ">, " + view);
    INFO(e << " " << rows << " x " << columns << ", " << warps << " warps");
    Counts counts = run(text, warps, 1, smallNumbers<T>({rows + 16, columns + 16}, 5),
                        Host<T>({columns + 16, rows + 16}, T(1.0f)));
    CHECK(counts.buffers + counts.shuffles == 1);
    return counts.swizzled;
  };
  int swizzled = 0;
  for (int warps : {1, 4, 8}) {
    swizzled += check(f32(), 32, 32, warps) + check(f32(), 64, 32, warps) + check(f32(), 32, 96, warps);
    swizzled += check(bf16(), 64, 64, warps) + check(bf16(), 128, 32, warps);
    swizzled += check(i8(), 64, 64, warps) + check(i8(), 128, 32, warps) + check(f64(), 32, 64, warps);
  }
  CHECK(swizzled >= 18);
}
