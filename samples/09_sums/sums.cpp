// SPDX-License-Identifier: Apache-2.0
// 09 sums: of the rows and of the columns of a matrix. The idea: a sum that is carried round a loop may not
// lose lanes at the end, so the loads are filled with zeros there; additions keep one order, so results
// repeat bit for bit.
#include "samples/common/Sample.h"

// 1. Kernels: `row_sum` and, for rows that no tile covers, `row_sum_loop`; `col_sum`
#include "samples/09_sums/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "sums of rows and of columns");
    const std::int64_t rows = options.small ? 37 : 32768, cols = options.small ? 3000 : 4096;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, cols});
      Tensor<f32, 1> perRow(nullptr, {rows}), perCol(nullptr, {cols});
      return sample::emit(
          options,
          {{"row_sum", [&] { return sample::rowSum.emit(options.emit, options.arch, x, perRow); }},
           {"row_sum_loop", [&] { return sample::rowSumLoop.emit(options.emit, options.arch, x, perRow); }},
           {"col_sum", [&] { return sample::colSum.emit(options.emit, options.arch, x, perCol); }}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(rows * cols, 1);
    Buffer<bf16> X(stream, rows, cols);
    Buffer<f32> PerRow(stream, rows), PerCol(stream, cols);
    X.copyFrom(x);

    // 3. Host reference in double, with the sums of magnitudes that bound the error
    struct Sum {
      double value = 0, magnitude = 0;
    };
    std::vector<Sum> perRow(rows), perCol(cols);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const double v = x[r * cols + c];
        for (Sum *s : {&perRow[r], &perCol[c]}) {
          s->value += v;
          s->magnitude += std::abs(v);
        }
      }

    // 4. Run and compare: 64 units in 2^-24 of the sum of magnitudes; twice, with equal bits. 5. Time
    int failed = 0;
    auto check = [&](const char *name, const Prepared &call, Buffer<f32> &Y, const std::vector<Sum> &want) {
      if (!options.wants(name))
        return;
      Y.fillBytes(0xFF);
      call(stream);
      auto y = Y.toHost();
      call(stream);
      auto again = Y.toHost();
      sample::Comparison compare;
      for (std::size_t i = 0; i < y.size(); ++i) {
        compare.add(y[i], want[i].value, 64 * 0x1p-24 * want[i].magnitude);
        compare.add(again[i], y[i], std::numeric_limits<double>::min());
      }
      failed |= compare.report(fmt::format("{} {} x {} on {}", name, rows, cols, stream.device().name()));
      sample::printRate(name, sample::time(stream, options, [&] { call(stream); }), 2.0 * rows * cols);
    };
    Config pieces = options.small ? Config().set("BC", 1024) : Config();
    check("row_sum", sample::rowSum.prepare(X, PerRow), PerRow, perRow);
    check("row_sum_loop", sample::rowSumLoop.with(pieces).prepare(X, PerRow), PerRow, perRow);
    check("col_sum", sample::colSum.prepare(X, PerCol), PerCol, perCol);
    return failed;
  });
}
