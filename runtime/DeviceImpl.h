// SPDX-License-Identifier: Apache-2.0
/// \file What is behind Device and Stream.
#pragma once

#include "runtime/Driver.h"

#include <sectile/Stream.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace sectile::detail {

/// The last kernels launched on a device that are not known to have finished. Written at every launch without
/// locks or allocation; read when the device has faulted.
class RecentLaunches {
public:
  /// `kernel` lives as long as the process (runtime::internName).
  void add(const char *kernel, runtime::CuStream stream) {
    Entry &e = entries[next.fetch_add(1, std::memory_order_relaxed) % entries.size()];
    e.kernel.store(nullptr, std::memory_order_relaxed);
    e.stream.store(stream, std::memory_order_relaxed);
    e.kernel.store(kernel, std::memory_order_release);
  }
  /// How many were added so far: what `finished` takes.
  std::uint64_t count() const { return next.load(std::memory_order_acquire); }
  /// Everything on `stream` among the first `count` launches has finished without a fault.
  void finished(runtime::CuStream stream, std::uint64_t count);
  /// "softmax, matmul, matmul", newest last; empty when none is left.
  std::string text() const;

private:
  struct Entry {
    std::atomic<const char *> kernel{nullptr};
    std::atomic<runtime::CuStream> stream{nullptr};
  };
  std::array<Entry, 8> entries;
  std::atomic<std::uint64_t> next{0};
};

class DeviceImpl {
public:
  int ordinal = -1; ///< -1: the interpreter
  std::string name, arch;
  DeviceProperties properties;
  runtime::CuDevice device = 0;
  /// Retained once and kept; the driver takes it down with the process.
  runtime::CuContext primary = nullptr;
  mutable RecentLaunches recent;

  bool isInterpreter() const { return ordinal < 0; }
  /// The driver of a GPU. UserError [forked_after_use] in a child forked after the parent's first use.
  const runtime::Driver &driver(std::source_location loc) const;
  /// Throws what a failed driver call on this device means to the user: [device_fault] with the last kernels,
  /// [capture] during a stream capture, [out_of_memory]; InternalError for what only a bug of ours can cause.
  [[noreturn]] void fail(runtime::CuResult result, std::string_view function, std::string_view op,
                         std::source_location loc) const;
  void check(runtime::CuResult result, std::string_view function, std::string_view op,
             std::source_location loc) const {
    if (result != runtime::cuSuccess)
      fail(result, function, op, loc);
  }

private:
  friend class sectile::Device;
  std::mutex streamMutex;
  std::shared_ptr<const StreamImpl> ownStream;
};

class StreamImpl {
public:
  StreamImpl(Device device, runtime::CuStream stream, runtime::CuContext context, std::uint64_t contextId,
             bool owned)
      : device(std::move(device)), stream(stream), context(context), contextId(contextId), owned(owned) {}
  ~StreamImpl();
  StreamImpl(const StreamImpl &) = delete;
  StreamImpl &operator=(const StreamImpl &) = delete;

  const Device device;
  const runtime::CuStream stream;
  const runtime::CuContext context; ///< the context that the stream belongs to; null for the interpreter
  const std::uint64_t contextId;    ///< the driver's number of that context, never used twice
  const bool owned;
  mutable std::atomic<bool> hasWorkspace{false}; ///< see runtime/Split.h
};

} // namespace sectile::detail

namespace sectile::runtime {

/// A copy of the name that lives as long as the process; equal names give the same pointer.
const char *internName(std::string_view name);

} // namespace sectile::runtime
