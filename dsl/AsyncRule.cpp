// SPDX-License-Identifier: Apache-2.0
#include "dsl/AsyncRule.h"

#include <algorithm>
#include <cstdint>

namespace sectile {
namespace {

constexpr std::int64_t lineBytes = 128;

/// Whether rows along the map's axis of stride 1 start inside lines of memory.
bool startsInsideLines(const TensorMap &map, const KernelArg &a) {
  const auto size = static_cast<std::int64_t>(byteSize(a.dtype));
  auto together = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(a.data));
  for (int d = 0; d < a.rank; ++d)
    if (const auto i = static_cast<std::size_t>(d); d != map.order.front() && a.dims[i] > 1)
      together |= a.strides[i] * size;
  return together % lineBytes != 0;
}

} // namespace

bool threadsCopyFaster(const LaunchInfo &launch, std::span<const KernelArg> args, std::int64_t programs, int multiprocessors) {
  if (!launch.persistent || programs > multiprocessors)
    return false;
  return std::any_of(launch.maps.begin(), launch.maps.end(), [&](const TensorMap &map) {
    const KernelArg &a = args[static_cast<std::size_t>(map.arg)];
    return a.readOnly && !map.tf32 && startsInsideLines(map, a);
  });
}

} // namespace sectile
