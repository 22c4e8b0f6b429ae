// SPDX-License-Identifier: Apache-2.0
#include "tests/dsl/two_files/Kernel.h"

void addOneElsewhere(sectile::Stream stream, sectile::Buffer<float> &x, sectile::Buffer<float> &y) {
  addOne(stream, x, y);
}
