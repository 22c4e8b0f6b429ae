// SPDX-License-Identifier: Apache-2.0
#include "tests/dsl/two_files/Kernel.h"

#include <cstdio>

int main() {
  sectile::Stream stream = sectile::Device::interpreter().stream();
  sectile::Buffer<float> x(stream, 5), y(stream, 5);
  x.fillBytes(0);
  addOne(stream, x, y);
  addOneElsewhere(stream, y, x);
  for (float v : x.toHost())
    if (v != 2)
      return std::printf("got %g, want 2\n", v), 1;
  return 0;
}
