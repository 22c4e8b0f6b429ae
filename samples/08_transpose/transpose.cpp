// SPDX-License-Identifier: Apache-2.0
// 08 transpose: y[j, i] = x[i, j], and a copy to measure it by. The idea: reading along rows and writing
// along columns wants the data to change hands between threads; the kernel says `t()`, shared memory is the
// compiler's.
#include "samples/common/Sample.h"

// 1. Kernels: `copy`, `transpose`
#include "samples/08_transpose/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "transpose, and copy");
    const std::int64_t rows = options.small ? 201 : 8192, cols = options.small ? 333 : 8192, n = rows * cols;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, cols});
      Tensor<bf16, 2> y(nullptr, {cols, rows});
      Tensor<const bf16, 1> from(nullptr, {n});
      Tensor<bf16, 1> to(nullptr, {n});
      return sample::emit(
          options, {{"copy", [&] { return sample::copy.emit(options.emit, options.arch, from, to); }},
                    {"transpose", [&] { return sample::transpose.emit(options.emit, options.arch, x, y); }}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(n, 1);
    Buffer<bf16> X(stream, rows, cols), Y(stream, cols, rows);
    X.copyFrom(x);

    for (bool isCopy : {true, false}) {
      const char *name = isCopy ? "copy" : "transpose";
      if (!options.wants(name))
        continue;
      auto call =
          isCopy ? sample::copy.prepare(Tensor<const bf16, 1>(X.data(), {n}), Tensor<bf16, 1>(Y.data(), {n}))
                 : sample::transpose.prepare(X, Y);
      Y.fillBytes(0xFF);
      call(stream);
      auto y = Y.toHost();

      // 3. Host reference: the input itself, and 4. compare: bit for bit
      sample::Comparison compare;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t from = isCopy ? i : i % rows * cols + i / rows;
        compare.add(y[i].bits, x[from].bits, 0.5);
      }
      if (int failed =
              compare.report(fmt::format("{} {} x {} on {}", name, rows, cols, stream.device().name())))
        return failed;

      // 5. Time
      sample::printRate(name, sample::time(stream, options, [&] { call(stream); }), 2.0 * 2 * n);
    }
    return 0;
  });
}
