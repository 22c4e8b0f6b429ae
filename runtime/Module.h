// SPDX-License-Identifier: Apache-2.0
/// \file The code of one compiled kernel, loaded into each context that it is launched in.
#pragma once

#include "ir/base/Artifact.h"
#include "ir/base/LaunchExpr.h"
#include "runtime/DeviceImpl.h"

#include <sectile/Export.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace sectile::runtime {

/// An artifact and what the driver made of it. Held by shared_ptr: a launch, a prepared call and the kernel
/// cache each keep it. Code is loaded at the first launch in a context and unloaded with the last holder,
/// after the work that may use it has finished; a module that was launched during a stream capture stays
/// loaded, for the graph points at it. Thread-safe.
class SECTILE_API Module {
public:
  /// The code in one context.
  struct Loaded {
    CuContext context = nullptr;
    std::uint64_t contextId = 0;
    CuModule module = nullptr;
    CuFunction function = nullptr;
    int registers = 0;          ///< per thread
    int localBytes = 0;         ///< per thread: stack and spills
    int maxThreadsPerBlock = 0; ///< what the registers leave room for
    const Loaded *next = nullptr;
    /// Bit i: the pointer of argument i was checked at an earlier launch here.
    mutable std::atomic<std::uint64_t> checkedArgs{0};
  };

  /// `kernel` is the name that errors use.
  Module(std::string_view kernel, std::shared_ptr<const Artifact> artifact);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  const Artifact &artifact() const { return *code; }
  /// Limits of each tensor map, one per axis of its argument.
  const std::vector<std::vector<LaunchExpr>> &mapLimits() const { return limits; }
  /// Of no other module of the process; from 1.
  std::uint64_t serial() const { return number; }
  /// The kernel's name, which lives as long as the process.
  const char *kernel() const { return kernelName; }

  /// The code in the stream's context; loads it when it is not there yet. The cubin is tried first, and the
  /// PTX when the driver refuses the cubin or there is none. InternalError when the code is for another
  /// architecture; UserError [launch_limits] when it needs more threads or shared memory than the device has,
  /// [load_failed] with the driver's assembler log when the driver takes neither.
  const Loaded &load(const detail::StreamImpl &stream, std::source_location loc) {
    for (const Loaded *l = first.load(std::memory_order_acquire); l; l = l->next)
      if (l->context == stream.context && l->contextId == stream.contextId)
        return *l;
    return loadSlow(stream, loc);
  }

  /// Keeps the code loaded for the rest of the process.
  void pin() { pinned.store(true, std::memory_order_relaxed); }
  bool isPinned() const { return pinned.load(std::memory_order_relaxed); }

private:
  const Loaded &loadSlow(const detail::StreamImpl &stream, std::source_location loc);

  const char *kernelName;
  std::shared_ptr<const Artifact> code;
  std::vector<std::vector<LaunchExpr>> limits;
  std::uint64_t number;
  std::mutex loading;
  std::atomic<const Loaded *> first{nullptr}; ///< grows at the front; entries stay
  std::atomic<bool> pinned{false};
};

} // namespace sectile::runtime
