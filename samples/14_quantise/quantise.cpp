// SPDX-License-Identifier: Apache-2.0
// 14 quantise: bf16 to fp8 (e4m3) with a scale per row, or per block of columns of a row. The idea: the width
// of a block belongs to the format of the data, so it is a constant parameter, not a number to tune; casts
// saturate.
#include "samples/common/Sample.h"

// 1. Kernels: `quantise_rows`, `quantise_blocks`
#include "samples/14_quantise/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "quantising to fp8");
    const std::int64_t rows = options.small ? 37 : 8192, cols = options.small ? 1000 : 4096;
    const std::int64_t width = 128, blocks = (cols + width - 1) / width;
    const auto block = static_cast<i32>(width);
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, cols});
      Tensor<e4m3, 2> q(nullptr, {rows, cols});
      Tensor<f32, 1> perRow(nullptr, {rows});
      Tensor<f32, 2> perBlock(nullptr, {rows, blocks});
      auto byRow = [&] { return sample::quantiseRows.emit(options.emit, options.arch, x, q, perRow); };
      auto byBlock = [&] {
        return sample::quantiseBlocks.emit(options.emit, options.arch, x, q, perBlock, block);
      };
      return sample::emit(options, {{"quantise_rows", byRow}, {"quantise_blocks", byBlock}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(rows * cols, 1);
    std::fill_n(x.begin(), cols, bf16(0.0f)); // a row of zeros
    Buffer<bf16> X(stream, rows, cols);
    Buffer<e4m3> Q(stream, rows, cols);
    Buffer<f32> PerRow(stream, rows), PerBlock(stream, rows, blocks);
    X.copyFrom(x);

    for (bool isRow : {true, false}) {
      const char *name = isRow ? "quantise_rows" : "quantise_blocks";
      if (!options.wants(name))
        continue;
      auto call = isRow ? sample::quantiseRows.prepare(X, Q, PerRow)
                        : sample::quantiseBlocks.prepare(X, Q, PerBlock, block);
      Buffer<f32> &S = isRow ? PerRow : PerBlock;
      Q.fillBytes(0xFF);
      S.fillBytes(0xFF);
      call(stream);
      auto q = Q.toHost();
      auto s = S.toHost();

      // 3. Host reference in double, 4. compare: the scale has one rounding; a quantised value lies at most
      // half a unit of e4m3 (2^-4 of its size, 2^-10 below its normal numbers) from x / scale, which has a
      // few roundings in f32
      sample::Comparison compare;
      const std::int64_t length = isRow ? cols : width;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t first = 0, i = r * (isRow ? 1 : blocks); first < cols; first += length, ++i) {
          const std::int64_t end = std::min(first + length, cols);
          double largest = 1e-12f;
          for (std::int64_t c = first; c < end; ++c)
            largest = std::max(largest, std::abs(double(x[r * cols + c])));
          compare.add(s[i], largest / 448, 2 * 0x1p-24 * largest / 448);
          for (std::int64_t c = first; c < end; ++c) {
            const double want = double(x[r * cols + c]) / largest * 448;
            compare.add(float(q[r * cols + c]), want,
                        std::max(std::abs(want) * 0x1p-4, 0x1p-10) + 4 * 0x1p-24 * std::abs(want));
          }
        }
      if (int failed =
              compare.report(fmt::format("{} {} x {} on {}", name, rows, cols, stream.device().name())))
        return failed;

      // 5. Time
      sample::printRate(name, sample::time(stream, options, [&] { call(stream); }),
                        3.0 * rows * cols + 4.0 * double(S.size()));
    }
    return 0;
  });
}
