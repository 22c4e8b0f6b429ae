// SPDX-License-Identifier: Apache-2.0
// A Tile kept from one trace to the next.
// EXPECT: another run
// EXPECT: [tile_trace]
#include "tests/support/ExpectError.h"

#include <optional>

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<f32, 1> X) {
  static std::optional<Tile> kept;
  if (kept)
    X.store({0}, *kept + 1.0f); // HERE
  else
    kept.emplace(zeros<f32>({16}));
  X.store({0}, zeros<f32>({16}));
});

WRONG_PROGRAM(stream) {
  Buffer<float> x(stream.device(), 64), longer(stream.device(), 4096);
  wrong(stream, x);
  wrong.with(Config().set("unused", 1))(stream, longer);
}
