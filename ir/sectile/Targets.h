// SPDX-License-Identifier: Apache-2.0
/// \file One row per GPU: limits, features and peak rates as data. Code asks `target.has(Feature)` and
/// reads limits from here; it never compares compute capabilities.
#pragma once

#include <sectile/DType.h>
#include <sectile/Export.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace sectile {

enum class Feature : std::uint8_t {
  mmaSyncF16,   ///< mma.sync f16 and bf16
  mmaSyncTf32,  ///< mma.sync tf32
  mmaSyncInt8,  ///< mma.sync s8 and u8
  mmaSyncF64,   ///< mma.sync f64
  mmaSyncFp8,   ///< mma.sync e4m3 and e5m2
  cpAsync,      ///< cp.async, 4 to 16 bytes per thread
  ldmatrix,
  stmatrix,
  mbarrier,
  tma,              ///< cp.async.bulk.tensor and its mbarrier completion
  multicast,        ///< TMA loads to several blocks of a cluster
  gather4,          ///< TMA tile::gather4
  clusters,         ///< thread block clusters and distributed shared memory
  setmaxnreg,
  dependentLaunch,  ///< griddepcontrol
  wgmma,
  tcgen05,
  tcgen05Int8,
  blockScaleMma,  ///< mma with scale factors: tcgen05, or mma.sync where mmaSyncBlockScale is there too
  mmaSyncBlockScale,
  reduxF32,  ///< redux.sync on f32
};
inline constexpr int numFeatures = int(Feature::reduxF32) + 1;
SECTILE_API std::string_view name(Feature f);

/// Published dense peaks in TFLOPS (TOPS for int8) of the flagship with f32 (s32) accumulation; 0: no figure.
struct PeakTflops {
  double f64, f32, tf32, f16, fp8, fp4, int8;
};

/// A GPU architecture with the numbers of its flagship.
struct SECTILE_API Target {
  std::string_view arch;  ///< "sm_90a", as for ptxas and LLVM
  std::string_view chip;  ///< the flagship: "H200"
  int major, minor;       ///< compute capability
  int ptxVersion;         ///< least PTX version with all its features: LLVM's +ptx84 (8.4 for fp8 mma.sync)
  std::uint32_t features; ///< bit mask over Feature

  int smCount;
  int warpSize;
  int sharedBytesPerBlock;     ///< most, with opt-in
  int sharedBytesPerSm;
  int sharedBytesReserved;     ///< taken by the system per resident block
  int registersPerSm;
  int registersPerThread;      ///< most that one thread can have
  int threadsPerBlock;
  int threadsPerSm;
  int blocksPerSm;
  int clusterBlocks;           ///< most blocks of a cluster that every such GPU runs; 1: no clusters
  int clusterBlocksOptIn;      ///< most with the non-portable attribute
  std::int64_t l2Bytes;
  double memoryGBs;            ///< peak bandwidth of device memory, 10^9 bytes per second
  PeakTflops peak;

  bool has(Feature f) const { return (features >> unsigned(f)) & 1; }
  /// Dense peak of a matrix product on elements of type t; for f32 the FMA pipes, or the tensor cores if
  /// tf32. 0 if unknown for t.
  double denseTflops(DType t, bool tf32 = false) const;
};

/// All rows, oldest first.
SECTILE_API std::span<const Target> targets();
/// The row with this arch name ("sm_90a"), or null.
SECTILE_API const Target *findTarget(std::string_view arch);
/// The row whose code runs on a device of this compute capability: the exact one, or, where code is not
/// bound to one chip, the newest lower minor of the same major. Null if none.
SECTILE_API const Target *targetForComputeCapability(int major, int minor);

} // namespace sectile
