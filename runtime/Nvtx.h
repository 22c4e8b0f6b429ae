// SPDX-License-Identifier: Apache-2.0
/// \file NVTX ranges around launches and compiles, for profilers. Off unless SECTILE_NVTX=1; the library that carries the
/// API (libnvtx3interop of CUDA 12 and 13, libnvToolsExt before) is opened at run time, and its absence is said once.
#pragma once

#include <sectile/Export.h>

namespace sectile::runtime {

/// A range of the calling thread from construction to destruction: "sectile: matmul". Costs one load and a branch when
/// ranges are off. `name` is copied.
class SECTILE_API NvtxRange {
public:
  explicit NvtxRange(const char *name) : pushed(active() && push(name)) {}
  ~NvtxRange() {
    if (pushed)
      pop();
  }
  NvtxRange(const NvtxRange &) = delete;
  NvtxRange &operator=(const NvtxRange &) = delete;

private:
  static bool active();
  static bool push(const char *name);
  static void pop();
  bool pushed;
};

} // namespace sectile::runtime
