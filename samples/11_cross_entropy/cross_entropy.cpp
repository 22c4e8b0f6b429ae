// SPDX-License-Identifier: Apache-2.0
// 11 cross-entropy: loss = log(sum of exp(x)) - x[target] for each row of logits. The idea: single elements
// are read by their coordinates with `at`; a row of any length is a loop that corrects its maximum and sum as
// it goes.
#include "samples/common/Sample.h"

// 1. Kernels: `cross_entropy` and, for rows that no tile covers, `cross_entropy_loop`
#include "samples/11_cross_entropy/kernels.h"

using namespace sectile;

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes
    sample::Options options = sample::parse(argc, argv, "cross-entropy of logits");
    const std::int64_t rows = options.small ? 37 : 2048, cols = options.small ? 1000 : 32000;
    if (!options.emit.empty()) {
      Tensor<const bf16, 2> x(nullptr, {rows, cols});
      Tensor<const i64, 1> target(nullptr, {rows});
      Tensor<f32, 1> loss(nullptr, {rows});
      auto whole = [&] { return sample::crossEntropy.emit(options.emit, options.arch, x, target, loss); };
      auto loop = [&] { return sample::crossEntropyLoop.emit(options.emit, options.arch, x, target, loss); };
      return sample::emit(options, {{"cross_entropy", whole}, {"cross_entropy_loop", loop}});
    }
    Stream stream = sample::device(options).stream();
    auto x = sample::normal<bf16>(rows * cols, 1);
    std::vector<std::int64_t> target;
    for (std::int64_t r = 0; r < rows; ++r)
      target.push_back(r * 7919 % cols);
    target.back() = cols - 1;
    Buffer<bf16> X(stream, rows, cols);
    Buffer<i64> Target(stream, rows);
    Buffer<f32> Loss(stream, rows);
    X.copyFrom(x);
    Target.copyFrom(target);

    // 3. Host reference in double
    std::vector<double> want;
    for (std::int64_t r = 0; r < rows; ++r) {
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t c = 0; c < cols; ++c)
        top = std::max(top, double(x[r * cols + c]));
      for (std::int64_t c = 0; c < cols; ++c)
        total += std::exp(double(x[r * cols + c]) - top);
      want.push_back(top + std::log(total) - double(x[r * cols + target[r]]));
    }

    for (bool isLoop : {false, true}) {
      const char *name = isLoop ? "cross_entropy_loop" : "cross_entropy";
      if (!options.wants(name))
        continue;
      // 4. Run and compare: f32 inside; the terms are a few units large
      Config pieces = options.small ? Config().set("BC", 512) : Config();
      auto call = isLoop ? sample::crossEntropyLoop.with(pieces).prepare(X, Target, Loss)
                         : sample::crossEntropy.prepare(X, Target, Loss);
      Loss.fillBytes(0xFF);
      call(stream);
      auto loss = Loss.toHost();
      sample::Comparison compare;
      for (std::int64_t r = 0; r < rows; ++r)
        compare.add(loss[r], want[r], 64 * 0x1p-24 * (std::abs(want[r]) + 1));
      if (int failed =
              compare.report(fmt::format("{} {} x {} on {}", name, rows, cols, stream.device().name())))
        return failed;

      // 5. Time
      sample::printRate(name, sample::time(stream, options, [&] { call(stream); }), 2.0 * rows * cols);
    }
    return 0;
  });
}
