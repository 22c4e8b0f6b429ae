// SPDX-License-Identifier: Apache-2.0
/// \file Reductions that several blocks share: how many, and the memory in which they meet.
#pragma once

#include "ir/base/Artifact.h"
#include "runtime/DeviceImpl.h"
#include "runtime/Module.h"

#include <sectile/Export.h>

#include <span>

namespace sectile::runtime {

/// How one launch shares the loop of a program.
struct SplitChoice {
  std::int64_t parts = 1;  ///< blocks per program
  std::int64_t trips = -1; ///< of the loop, per part; -1: all
  std::int64_t blocks = 0, shared = 0; ///< of a kernel with shared programs: how many blocks, and how many programs they share
};

/// Blocks of this kernel that the device holds at once, by threads, registers and shared memory.
SECTILE_API std::int64_t blocksInFlight(const LaunchInfo &info, int registers, const DeviceProperties &device);

/// The parts of a launch of `programs` programs: those that the kernel names, else as many as the device holds
/// at once beside each other; no more than the trips allow. A function of the kernel, the arguments' dims and
/// scalars, and the device's properties alone, so equal launches add up in equal order.
/// @pre info.split.possible; `args` fit `info`
SECTILE_API SplitChoice chooseSplit(const LaunchInfo &info, std::span<const KernelArg> args, std::int64_t programs,
                                    int registers, const DeviceProperties &device);

/// Blocks of a persistent kernel whose blocks can share programs (Stream-K, Osama et al., PPoPP 2023), and how many of the last
/// programs they share: none where whole rounds of programs fill the device. Depends on the same as chooseSplit().
/// @pre info.split.stream and .possible
SECTILE_API SplitChoice chooseShared(const LaunchInfo &info, std::span<const KernelArg> args, std::int64_t programs, int registers,
                                     const DeviceProperties &device);

/// Whether a variant with shared programs would be faster than this one without, by the trips of the last round that it saves
/// and the bytes that its parts move. @pre info.split.stream, not .possible; info.persistent
SECTILE_API bool sharingPays(const LaunchInfo &info, std::span<const KernelArg> args, std::int64_t programs, int registers,
                             const DeviceProperties &device);

/// Bytes of workspace that a launch needs: 0 for one part.
SECTILE_API std::int64_t workspaceBytes(const LaunchSplit &split, std::int64_t programs, const SplitChoice &choice);

/// Device memory of at least `bytes` bytes that nothing else uses until the work that `stream` has now and gets
/// next from this thread is done; its counters are 0. Each stream has its own, kept for its next launches; what
/// a capture is given stays with its graph, so it is kept to the end of the process. Allocates only where a
/// stream or a capture needs more than ever before. @pre the stream's context is current
CuDevicePtr workspaceOf(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes,
                        std::source_location loc);

/// Device memory of at least `bytes` bytes for copies that a launch makes of its arguments, other than that of
/// workspaceOf() and kept like it; 0 if the device has not that much left. Launches of several threads on one stream share
/// it: their copies and kernels must not mix. @pre the stream's context is current
SECTILE_API CuDevicePtr copyMemoryOf(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes,
                                     std::source_location loc);

/// The same for tensors between the kernels of a graph.
CuDevicePtr graphMemoryOf(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes,
                          std::source_location loc);

/// New device memory of `bytes` bytes whose first LaunchSplit::counterBytes are 0, whatever the stream is doing, captures
/// included; for the caller to keep. @pre the stream's context is current
CuDevicePtr zeroedMemory(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes,
                         std::source_location loc);

/// Waits for the stream and frees what it was given. For the destructor of an owned stream.
void releaseWorkspace(const Driver &driver, const detail::StreamImpl &stream) noexcept;

} // namespace sectile::runtime
