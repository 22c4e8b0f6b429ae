// SPDX-License-Identifier: Apache-2.0
/// \file What crosses the line between compiler and runtime: arguments, specialisation, launch facts, code.
/// Plain C++: no MLIR, no CUDA.
#pragma once

#include <sectile/KernelArg.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sectile {

/// What a compiled variant may assume of one tensor argument. A power of two each, capped at 16.
struct ArgSpec {
  std::uint8_t alignBytes = 1;                    ///< the base pointer is a multiple of this
  std::int8_t unitStrideAxis = -1;                ///< the axis whose stride is exactly 1; -1: none
  std::array<std::uint8_t, maxRank> strideDiv{};  ///< stride d, in elements, is a multiple of this (1..16)
  std::array<std::uint8_t, maxRank> dimDiv{};     ///< dim d is a multiple of this (1..16)
  bool operator==(const ArgSpec &) const = default;
};
/// The specialisation of these actual values.
ArgSpec specialise(const KernelArg &arg);

/// One axis of the iteration space: ceil(dims[axis] of argument `arg` / tile) programs.
struct GridAxis {
  int arg = 0, axis = 0;
  std::int64_t tile = 1;
};

/// How to launch the code of an artifact. Kernel parameters in order: per tensor its pointer, dims[0..rank),
/// strides[0..rank) as 64-bit integers; per scalar its value in its own size.
struct LaunchInfo {
  std::string symbol;          ///< entry name in PTX
  std::vector<GridAxis> grid;  ///< programs are numbered with the last axis fastest, along gridDim.x
  int threads = 0;
  std::int64_t sharedBytes = 0;  ///< dynamic shared memory
  std::vector<int> argRanks;     ///< rank per argument, -1 for a scalar
};

struct Artifact {
  LaunchInfo launch;
  std::string arch;  ///< "sm_90a"
  std::string ptx;
  std::string cubin;     ///< empty when no assembler was there: the driver assembles the PTX
  std::string ptxasLog;
  int registers = -1, spillBytes = -1;  ///< -1: not known
};

} // namespace sectile
