// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Artifact.h"

namespace sectile {

/// The largest power of two up to 16 that divides v; 16 for 0.
static std::uint8_t divisor(std::uint64_t v) {
  std::uint64_t low = v & (~v + 1);
  return std::uint8_t(low == 0 || low > 16 ? 16 : low);
}

ArgSpec specialise(const KernelArg &arg) {
  ArgSpec spec;
  spec.strideDiv.fill(1);
  spec.dimDiv.fill(1);
  if (!arg.isTensor())
    return spec;
  spec.alignBytes = divisor(reinterpret_cast<std::uintptr_t>(arg.data));
  for (int d = 0; d < arg.rank; ++d) {
    // Along an axis of 0 or 1 elements nothing is ever stepped over, so its stride promises everything.
    bool shortAxis = arg.dims[d] <= 1;
    spec.dimDiv[d] = divisor(std::uint64_t(arg.dims[d]));
    spec.strideDiv[d] = shortAxis ? 16 : divisor(std::uint64_t(arg.strides[d]));
    if (arg.strides[d] == 1 && (!shortAxis || spec.unitStrideAxis < 0 || arg.dims[spec.unitStrideAxis] <= 1))
      spec.unitStrideAxis = std::int8_t(d);
  }
  return spec;
}

} // namespace sectile
