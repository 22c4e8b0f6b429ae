// SPDX-License-Identifier: Apache-2.0
// Operands of a product that a block cannot hold.
// EXPECT: bytes of shared memory, sm_86 allows 101376, with BM=256
// EXPECT: [check_resources_c1]
#include "tests/support/ExpectError.h"

using namespace sectile;
using sectile::testing::nowhere;

static constexpr auto wrong = kernel("wrong", [](Tensor<const f16, 2> A, Tensor<const f16, 2> B, Tensor<f32, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {256, 64});
  Tile acc = zeros<f32>({BM, 256});
  for (Tile k : range(0, A.dim(1), 256))
    acc = mma(A.load({0, k}, {BM, 256}), B.load({k, 0}, {256, 256}), acc); // HERE
  C.store({0, 0}, acc);
});

WRONG_PROGRAM(stream) {
  wrong.emit("ptx", "sm_86", nowhere<const f16, 2>({512, 512}), nowhere<const f16, 2>({512, 512}), nowhere<f32, 2>({512, 512}));
}
