// SPDX-License-Identifier: Apache-2.0
// 06 convolution: windows of images times weights, as a product without a matrix of windows. The idea: a tile
// of the product's left side is a window of the image that is loaded where it lies; pixels outside the image
// are lanes that do not exist, and `fill` makes zeros of them.
#include "samples/common/Sample.h"
#include "samples/common/Sums.h"

// 1. Kernel: `convolution`
#include "samples/06_convolution/kernels.h"

using namespace sectile;

namespace {

inline constexpr auto &convolution = sample::convolution<bf16>;

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    sample::Options options = sample::parse(argc, argv, "convolution of images");

    auto job = [&](const char *name, int size, sample::Moves moves) {
      // 2. Shapes
      const bool small = options.small;
      const std::array<std::int64_t, 4> images{small ? 2 : 32, small ? 9 : 56, small ? 19 : 56,
                                               small ? 24 : 256};
      const std::array<std::int64_t, 4> weights{size, size, images[3], small ? 40 : 256};
      const auto results = sample::convolutionShape(images, weights, moves);
      const auto elements = [](const auto &dims) { return dims[0] * dims[1] * dims[2] * dims[3]; };
      auto text = [=, &options] {
        return convolution.emit(options.emit, options.arch, Tensor<const bf16, 4>(nullptr, images),
                                Tensor<const bf16, 4>(nullptr, weights), Tensor<bf16, 4>(nullptr, results),
                                moves.stride, moves.padding, moves.dilation);
      };
      auto run = [=, &options] {
        Stream stream = sample::device(options).stream();
        const auto x = sample::normal<bf16>(elements(images), 1),
                   w = sample::normal<bf16>(elements(weights), 2);
        Buffer<bf16> X(stream, elements(images)), W(stream, elements(weights)), Y(stream, elements(results));
        X.copyFrom(x);
        W.copyFrom(w);
        Y.fillBytes(0xFF);
        auto call = convolution.prepare(
            Tensor<const bf16, 4>(X.data(), images), Tensor<const bf16, 4>(W.data(), weights),
            Tensor<bf16, 4>(Y.data(), results), moves.stride, moves.padding, moves.dilation);
        call(stream);
        const auto got = Y.toHost();

        // 3. Host reference in double on sampled pixels (every one when small), 4. compare: the error of sums
        // in f32, one rounding to bf16
        sample::Comparison compare;
        const auto [N, H, Wide, C] = images;
        const auto [_, rows, columns, O] = results;
        const std::int64_t pixels = N * rows * columns, step = std::max<std::int64_t>(1, pixels / 1024 | 1);
        sample::Sums sums(O);
        for (std::int64_t pixel = 0; pixel < pixels; pixel += step) {
          const std::int64_t image = pixel / (rows * columns), row = pixel / columns % rows,
                             column = pixel % columns;
          sums.clear();
          for (std::int64_t tap = 0; tap < size * size; ++tap) {
            const std::int64_t r = row * moves.stride + tap / size * moves.dilation - moves.padding;
            const std::int64_t q = column * moves.stride + tap % size * moves.dilation - moves.padding;
            for (std::int64_t c = 0; c < C; ++c) {
              const bool inside = r >= 0 && r < H && q >= 0 && q < Wide;
              sums.add(inside ? double(x[((image * H + r) * Wide + q) * C + c]) : 0.0, &w[(tap * C + c) * O]);
            }
          }
          for (std::int64_t o = 0; o < O; ++o)
            compare.add(got[pixel * O + o], sums.value(o),
                        std::abs(sums.value(o)) * 0x1p-8 + sums.error(o) + 0x1p-133);
        }
        if (int failed = compare.report(fmt::format("{} {} x {} x {} x {} to {} x {} x {} on {}", name, N, H,
                                                    Wide, C, rows, columns, O, stream.device().name())))
          return failed;

        // 5. Time
        sample::printFlops(name, sample::time(stream, options, [&] { call(stream); }),
                           2.0 * pixels * O * C * size * size);
        return 0;
      };
      return sample::Job{name, text, run};
    };
    return sample::runJobs(
        options, {job("convolution", 3, {.padding = 1}), job("strided", 3, {.stride = 2, .padding = 1}),
                  job("dilated", 3, {.padding = 2, .dilation = 2}), job("pointwise", 1, {})});
  });
}
