// SPDX-License-Identifier: Apache-2.0
/// \file Convolution of images as a product: no matrix of windows is ever made.
#pragma once

#include <sectile/sectile.h>

#include <array>
#include <cstdint>
#include <source_location>
#include <string>

namespace sample {
using namespace sectile;

/// Y[n, y, x, o] = sum over dy, dx, c of X[n, y * stride + dy * dilation - padding, .., c] * W[dy, dx, c, o],
/// with sums in f32. X is images x height x width x channels, W is window height x window width x channels x
/// outputs. Pixels outside the image are zeros.
template <class T>
inline constexpr auto convolution = kernel("convolution", [](Tensor<const T, 4> X, Tensor<const T, 4> W,
                                                             Tensor<T, 4> Y, Const<i32> stride,
                                                             Const<i32> padding, Const<i32> dilation,
                                                             Config &cfg) {
  const int TY = cfg.pick("TY", {8, 4, 16, 2}), TX = cfg.pick("TX", {16, 8, 32, 4});
  const int BO = cfg.pick("BO", {128, 64, 256, 32});
      // Single elements take more registers on their way than windows that are loaded whole.
      const int BC =
          stride == 1 ? cfg.pick("BC", {64, 32, 128, 16}) : cfg.pick("BC", {32, 64, 128, 16});
  auto [n, y, x, o] = grid(Y, {1, TY, TX, BO});
  Tile acc = zeros<f32>({TY * TX, BO});
  for (Tile tap : range(0, W.dim(0) * W.dim(1)))
    for (Tile c : range(0, X.dim(3), BC)) {
      Tile dy = tap / W.dim(1), dx = tap % W.dim(1);
      Tile top = y * stride + dy * dilation - padding, left = x * stride + dx * dilation - padding;
      // Neighbours in Y have neighbours in X as their pixels, or pixels that are `stride` apart.
      Tile window = stride == 1 ? X.load({n, top, left, c}, {1, TY, TX, BC})
                                : X.at(n, top + iota(1, TY, 1, 1) * stride, left + iota(1, 1, TX, 1) * stride,
                                       c + iota(1, 1, 1, BC));
      Tile weights = W.load({dy, dx, c, o}, {1, 1, BC, BO}).drop(0, 1);
      acc = mma(reshape(window.fill(0), {TY * TX, BC}), weights.fill(0), acc);
    }
  Y.store({n, y, x, o}, reshape(cast<T>(acc), {1, TY, TX, BO}));
});

/// How a window moves over an image.
struct Moves {
  std::int64_t stride = 1, padding = 0, dilation = 1;
};

/// The shape of the result for these images and weights. A UserError [convolution_shape] says what does not
/// fit, at the caller's line.
inline std::array<std::int64_t, 4>
convolutionShape(const std::array<std::int64_t, 4> &images, const std::array<std::int64_t, 4> &weights,
                 Moves moves, std::source_location where = std::source_location::current()) {
  auto refuse = [&](const std::string &message, const std::string &wayOut) {
    throw UserError({where, "convolution", "convolutionShape", message, "convolution_shape", wayOut});
  };
  if (images[3] != weights[2])
    refuse("images have " + std::to_string(images[3]) + " channels, weights " + std::to_string(weights[2]),
           "store weights as window height x window width x channels x outputs");
  if (moves.stride < 1 || moves.dilation < 1 || moves.padding < 0)
    refuse("stride " + std::to_string(moves.stride) + ", padding " + std::to_string(moves.padding) +
               ", dilation " + std::to_string(moves.dilation),
           "strides and dilations of at least 1, padding of at least 0");
  std::array<std::int64_t, 4> result{images[0], 0, 0, weights[3]};
  for (int axis : {1, 2}) {
    const std::int64_t have = images[axis] + 2 * moves.padding;
    const std::int64_t needed = (weights[axis - 1] - 1) * moves.dilation + 1;
    if (weights[axis - 1] < 1 || have < needed)
      refuse("a window of " + std::to_string(needed) + " pixels, " + std::to_string(have) +
                 " with the padding",
             "more padding, or a smaller window");
    result[axis] = (have - needed) / moves.stride + 1;
  }
  return result;
}

} // namespace sample
