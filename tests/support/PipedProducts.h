// SPDX-License-Identifier: Apache-2.0
/// \file Products through pipes: kernels as text, lowered by the default schedule, and matrices for them.
#pragma once

#include "passes/Pipeline.h"
#include "tests/support/InterpHarness.h"
#include "tests/support/OnThreads.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <fmt/format.h>

namespace sectile::test {

/// A matrix that starts `offset` elements behind a multiple of 256 bytes.
template <class T> class Matrix {
public:
  Matrix(std::int64_t rows, std::int64_t columns, int salt, std::int64_t offset = 0)
      : rows(rows), columns(columns), memory(std::size_t(rows * columns + offset) * sizeof(T) + 512) {
    auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    data = reinterpret_cast<T *>((at + 255) / 256 * 256) + offset;
    for (std::int64_t i = 0; i < rows * columns; ++i)
      data[i] = T(float(int((i * 7 + i / 13 + salt) % 9) - 4)); // sums are exact
  }
  KernelArg arg() {
    KernelArg a;
    a.dtype = dtypeOf<T>;
    a.rank = 2;
    a.data = data;
    a.dims = {rows, columns};
    a.strides = {columns, 1};
    return a;
  }
  double at(std::int64_t r, std::int64_t c) const { return double(float(data[r * columns + c])); }

  std::int64_t rows, columns;
  T *data;

private:
  std::vector<char> memory;
};

/// C = A B, or A transpose(B), over tiles of 128 x `n` in steps of 64.
struct PipedProduct {
  int n = 128;
  bool bRows = false;     ///< B is [N, K]
  bool aComputed = false; ///< |A|: in registers
  bool bComputed = false; ///< |B|: from registers to shared memory
  DType out = DType::f32;
  int stages = 3, raster = 0, snake = 0, streamk = 0, pingpong = 0;
  int multicast = 1; ///< not by rule, which would form pairs: the strides here are known as multiples of 8 alone

  int async = 0;
  int align = 16, alignB = 16; ///< of A, and of B, and of their rows, in bytes
  int divisor = 8;             ///< of their lengths along rows
  int alignC = 16, divisorC = 8; ///< the same of C

  std::string text() const {
    auto argument = [&](const char *name, DType t) {
      const bool isC = name[0] == 'C';
      const int bytes = isC ? alignC : name[0] == 'A' ? align : alignB, size = int(byteSize(t));
      return fmt::format("%{}: {} {{tile.align = {} : i64, tile.unit_stride = 1 : i64, tile.stride_div = array<i64: {}, 1>, "
                         "tile.stride_rem = array<i64: {}, 1>, tile.dim_div = array<i64: 1, {}>, tile.small{}}}",
                         name, tensorType(2, t), bytes, isC && bytes == 16 ? 8 : bytes / size, bytes == 16 ? 0 : bytes / size,
                         isC ? divisorC : divisor, isC ? "" : ", tile.readonly");
    };
    const std::string in = tensorType(2, DType::bf16), c = tensorType(2, out), a = tileType({128, 64}, DType::bf16),
                      b = tileType({64, n}, DType::bf16), bt = tileType({n, 64}, DType::bf16),
                      sum = tileType({128, n}, DType::f32), result = tileType({128, n}, out);
    std::string loadB =
        bRows ? fmt::format("%bt = tile.load %B[%n, %k] : {0} -> {1}\n %b = tile.permute %bt [1, 0] : {1} -> {2}", in, bt, b)
              : fmt::format("%b = tile.load %B[%k, %n] : {} -> {}", in, b);
    if (bComputed)
      loadB = fmt::format("%b0 = tile.load %B[%k, %n] : {0} -> {1}\n %b = tile.unary abs %b0 : {1} -> {1}", in, b);
    const std::string loadA = aComputed ? fmt::format("%a0 = tile.load %A[%m, %k] : {0} -> {1}\n "
                                                      "%a = tile.unary abs %a0 : {1} -> {1}",
                                                      in, a)
                                        : fmt::format("%a = tile.load %A[%m, %k] : {} -> {}", in, a);
    return kernelText(argument("A", DType::bf16) + ", " + argument("B", DType::bf16) + ", " + argument("C", out),
                      fmt::format(R"(
    %m, %n = tile.grid %C [128, {0}] : {1} -> index, index
    %c0 = tile.constant 0 : index
    %step = tile.constant 64 : index
    %K = tile.dim %A, 1 : {2}
    %zero = tile.constant dense<0.0> : {3}
    %r = scf.for %k = %c0 to %K step %step iter_args(%acc = %zero) -> {3} {{
      {4}
      {5}
      %next = tile.mma exact %a, %b, %acc : {6}, {7}, {3}
      scf.yield %next : {3}
    }}
    {8}
    tile.store %out, %C[%m, %n] : {9}, {1})",
                                  n, c, in, sum, loadA, loadB, a, b,
                                  out == DType::f32 ? fmt::format("%out = tile.cast %r : {0} -> {0}", sum)
                                                    : fmt::format("%out = tile.cast %r : {} -> {}", sum, result),
                                  result));
  }
};

struct LoweredProduct {
  Interpreted kernel;
  explicit LoweredProduct(const PipedProduct &k) : kernel(k.text()) {
    INFO(k.text() << kernel.messages);
    REQUIRE(kernel.module);
    passes::PipelineOptions options;
    options.schedule.stages = k.stages;
    options.schedule.raster = k.raster;
    options.schedule.snake = k.snake;
    options.schedule.streamk = k.streamk;
    options.schedule.pingpong = k.pingpong;
    options.schedule.multicast = k.multicast;
    options.schedule.async = k.async;
    mlir::PassManager pm(&kernel.context);
    passes::buildPipeline(pm, options);
    REQUIRE(mlir::succeeded(pm.run(*kernel.module)));
    REQUIRE(all<tgpu::RolesOp>().size() == 1);
  }
  tgpu::ExecResult run(const std::vector<KernelArg> &args, bool consumersFirst, std::int64_t parts = 1) {
    auto executor = tgpu::Executor::build(*kernel.module);
    REQUIRE(executor);
    executor->consumersFirst = consumersFirst;
    return executor->run(args, parts);
  }
  template <class Op> std::vector<Op> all() {
    std::vector<Op> ops;
    kernel.module->walk([&](Op op) { ops.push_back(op); });
    return ops;
  }
  template <class Op> Op only() {
    auto ops = all<Op>();
    REQUIRE(ops.size() == 1);
    return ops.front();
  }
};

} // namespace sectile::test
