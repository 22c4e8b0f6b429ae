// SPDX-License-Identifier: Apache-2.0
/// \file What crosses the line between compiler and runtime: arguments, specialisation, launch facts, code.
/// Plain C++: no MLIR, no CUDA.
#pragma once

#include <sectile/KernelArg.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sectile {

/// What a compiled variant may assume of one tensor argument. Alignment and divisors are powers of two up to 16.
struct ArgSpec {
  std::uint8_t alignBytes = 1;                    ///< the base pointer is a multiple of this
  std::int8_t unitStrideAxis = -1;                ///< the axis whose stride is exactly 1; -1: none
  bool small = false;                             ///< all dims are below 2^31, byte offsets of elements in [0, 2^31)
  std::array<std::uint8_t, maxRank> strideDiv{};  ///< stride d, in elements, is a multiple of this (1..16)
  std::array<std::uint8_t, maxRank> strideRem{};  ///< stride d modulo vectorElements(); 0 where never stepped over
  std::array<std::uint8_t, maxRank> dimDiv{};     ///< dim d is a multiple of this (1..16)
  std::array<std::int64_t, maxRank> dimMax{};     ///< dim d is at most this; 0: not known (see boundDims)
  bool operator==(const ArgSpec &) const = default;
};
/// The specialisation of these actual values, all but dimMax.
ArgSpec specialise(const KernelArg &arg);
/// All facts but dimMax in one word.
std::uint64_t packed(const ArgSpec &spec);

/// Elements of the widest access to memory: 16 bytes, or one element.
int vectorElements(DType dtype);
/// Rows along `axis` (of stride 1) start at multiples of 16 bytes and at other places.
bool hasSkewedRows(const KernelArg &arg, int axis);
/// The length of an axis, and what skewed rows need more to be covered from the 16 bytes they start in.
std::int64_t coverLength(const KernelArg &arg, int axis);

/// An axis of an argument that one tile of `tile` elements covers in every launch of the variant.
struct CoveredAxis {
  int arg = 0, axis = 0;
  std::int64_t tile = 0;
};
/// Fills dimMax of all arguments from the covered axes: for these and for the unit-stride axis of every tensor the
/// bound is the tile, less vectorElements() - 1 where the dims leave that room and some tensor has skewed rows or an
/// unaligned pointer (a row may then start that much inside the tile).
void boundDims(std::span<ArgSpec> specs, std::span<const KernelArg> args, std::span<const CoveredAxis> covers);

/// No tensor that is written shares memory with another argument. Says false for tensors whose elements interleave.
bool areApart(std::span<const KernelArg> args);
/// The bytes from a tensor's first element to its last one; `last` is before `first` for a tensor without elements.
struct MemoryRange {
  __int128 first = 0, last = -1;
  bool overlaps(const MemoryRange &o) const { return first <= o.last && o.first <= last; }
};
MemoryRange memoryRange(const KernelArg &arg);

/// One axis of the iteration space: ceil(dims[axis] of argument `arg` / tile) programs.
struct GridAxis {
  int arg = 0, axis = 0;
  std::int64_t tile = 1;
};

/// A number that the launch computes: dims[axis] of argument `arg`, the integer argument `arg` if there is no axis, or
/// `value` if there is no argument.
struct LaunchNumber {
  int arg = -1, axis = -1;
  std::int64_t value = 0;
};

/// A reduction that several blocks per program may share: gridDim.y is the number of parts. After the kernel's own
/// parameters come the workspace (a pointer) and the trips of one part (a 64-bit integer, -1 with one part).
struct LaunchSplit {
  /// The workspace begins with a 32-bit counter per program, 0 between launches.
  static constexpr std::int64_t counterBytes = 16384, maxPrograms = counterBytes / 4;

  bool possible = false;
  LaunchNumber lower, upper, step; ///< the range that is shared
  std::int64_t minTrips = 1;       ///< of one part
  std::int64_t parts = 0;          ///< 0: by rule
  std::int64_t partBytes = 0;      ///< that one part leaves in the workspace
  /// Of a persistent kernel: the blocks may share the trips of the last programs (Stream-K), or another variant of it lets them
  /// (not `possible`).
  bool stream = false;
  std::int64_t tripCycles = 0; ///< of a multiprocessor for one trip, at the best
};

/// A tensor map that the launch encodes for the TMA unit (PTX ISA, section Tensors; cuTensorMapEncodeTiled). Axis i of the
/// map is axis order[i] of the argument, order[0] that of stride 1.
struct TensorMap {
  int arg = 0;
  DType dtype = DType::bf16;
  std::vector<int> order;           ///< all axes of the argument
  std::vector<int> box;             ///< elements that a copy moves along order[i]
  int swizzle = 128;                ///< bytes: 16 (none), 32, 64, 128
  bool tf32 = false;                ///< f32 elements are rounded to tf32 as they are loaded
  std::vector<std::string> limits;  ///< LaunchExpr per axis of the argument: the map ends there, and at dims
  bool operator==(const TensorMap &) const = default;
};

/// A read-only tensor from which a product loads operands that the TMA unit could bring, or bring faster, if only the tensor lay
/// in memory otherwise: the launch may hand over a copy whose axis `unit` has stride 1 and whose rows start at lines of
/// memory, multiples of 128 bytes.
struct Repack {
  int arg = 0;
  int unit = 0;
  /// Per axis: the elements that one program reads; 0: it may read all of them.
  std::vector<std::int64_t> box;
  bool operator==(const Repack &) const = default;
};

/// How to launch the code of an artifact. Kernel parameters in order: per tensor its pointer, dims[0..rank),
/// strides[0..rank) as 64-bit integers; per scalar its value in its own size; then per tensor map its 128 bytes, at a
/// multiple of 64.
struct LaunchInfo {
  std::string symbol;          ///< entry name in PTX
  std::vector<GridAxis> grid;  ///< programs are numbered with the last axis fastest, along gridDim.x
  int threads = 0;             ///< per block
  int cluster = 1;             ///< blocks that run one program: neighbours along gridDim.x
  std::int64_t sharedBytes = 0;  ///< dynamic shared memory
  std::vector<int> argRanks;     ///< rank per argument, -1 for a scalar
  LaunchSplit split;
  std::vector<TensorMap> maps;
  std::vector<Repack> repacks;
  bool assumesApart = false; ///< right only for arguments that areApart()
  bool persistent = false; ///< as many blocks as the GPU runs at once, at most one per program; each takes several
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
