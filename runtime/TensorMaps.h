// SPDX-License-Identifier: Apache-2.0
/// \file Tensor maps of a launch, as the TMA unit takes them.
#pragma once

#include "runtime/DeviceImpl.h"
#include "runtime/Module.h"

#include <cstddef>
#include <span>

namespace sectile::runtime {

inline constexpr std::size_t tensorMapBytes = 128, tensorMapAlignment = 64;

/// What cuTensorMapEncodeTiled takes for one map.
struct EncodedBox {
  int dtype = 0; ///< CUtensorMapDataType
  unsigned rank = 0;
  void *address = nullptr;
  std::uint64_t dims[maxRank] = {}, strides[maxRank] = {}; ///< innermost first; strides in bytes, from the second axis on
  std::uint32_t box[maxRank] = {}, steps[maxRank] = {};
  int swizzle = 0; ///< CUtensorMapSwizzle
  bool empty = false; ///< no element lies inside: `address` is for the caller to fill in, dims are 1
};
/// From the arguments of a launch. `limits`: those of the map, one per axis of the argument.
SECTILE_API EncodedBox boxOf(const TensorMap &map, std::span<const LaunchExpr> limits, std::span<const KernelArg> args);

/// Writes the maps of a launch, `tensorMapBytes` each; `out` is aligned to 64. Those of a thread's last launch of the
/// same code with the same tensors are copied. A map without elements points at memory of its own that reads as zero and
/// that stores may write. InternalError for tensors that the unit cannot address: code has maps only where the facts of
/// its launches allow them.
void writeTensorMaps(const Driver &driver, const Module &module, std::span<const KernelArg> args,
                     const detail::StreamImpl &stream, std::byte *out, std::source_location loc);

} // namespace sectile::runtime
