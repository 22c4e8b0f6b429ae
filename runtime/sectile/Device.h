// SPDX-License-Identifier: Apache-2.0
/// \file Where kernels run: a GPU, or the interpreter on this machine's processor.
#pragma once

#include <sectile/Export.h>

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>

namespace sectile {

class Stream;
namespace detail {
class DeviceImpl;
}

/// Facts of a device, as its driver states them. For the interpreter `multiprocessors` is the number of
/// processor threads, `memoryBytes` the machine's memory, and the rest is 0.
struct DeviceProperties {
  int computeMajor = 0, computeMinor = 0; ///< compute capability, 9 and 0 for an H200
  int multiprocessors = 0;
  int maxThreadsPerBlock = 0;
  int maxThreadsPerMultiprocessor = 0;
  int warpThreads = 0;
  int registersPerMultiprocessor = 0;   ///< 32-bit registers
  int registersPerBlock = 0;            ///< 32-bit registers
  std::int64_t sharedBytesPerBlock = 0; ///< the most that a block can opt in to
  std::int64_t sharedBytesPerMultiprocessor = 0;
  std::int64_t memoryBytes = 0;
  std::int64_t l2Bytes = 0;
  int clockKHz = 0;      ///< 0 where the driver does not say
  int driverVersion = 0; ///< CUDA version of the driver, major * 1000 + minor * 10
};

/// A device. A small value that is cheap to copy; copies name the same device. Thread-safe. Nothing touches
/// the CUDA driver before the first call that needs it, so a process may fork before that.
class SECTILE_API Device {
public:
  /// What SECTILE_DEVICE names (`interpreter`, `gpu`, `gpu:N`); unset: the first usable GPU, else the
  /// interpreter. UserError [bad_device] for another text; the errors of gpu() when SECTILE_DEVICE asks for a
  /// GPU.
  static Device best(std::source_location loc = std::source_location::current());
  /// The interpreter: kernels run on this machine's processor with the exact meaning of every operation.
  static Device interpreter();
  /// GPU number `ordinal`, 0 <= ordinal < gpuCount(). UserError [no_gpu] when there is no GPU or no driver,
  /// [driver_too_old], [forked_after_use] (the parent used a GPU before the fork), [gpu_range],
  /// [gpu_unsupported] (its compute capability is no target), or [gpu_unavailable] (another process has it
  /// for itself).
  static Device gpu(int ordinal, std::source_location loc = std::source_location::current());
  /// Number of GPUs that the driver shows; 0 without a driver that can be used. Never throws.
  static int gpuCount() noexcept;

  bool isInterpreter() const;
  /// The number given to gpu(); -1 for the interpreter.
  int ordinal() const;
  /// "NVIDIA H200"; "interpreter".
  const std::string &name() const;
  /// The compile target of this device as ptxas spells it, "sm_90a"; "interpreter" for the interpreter.
  const std::string &arch() const;
  const DeviceProperties &properties() const;

  /// The device's own stream, the same at every call; Stream(device) makes another. Work on it is ordered
  /// with work on the legacy default stream.
  Stream stream() const;

  /// Same device.
  bool operator==(const Device &other) const { return impl == other.impl; }

  /// For the runtime itself.
  explicit Device(std::shared_ptr<detail::DeviceImpl> impl) : impl(std::move(impl)) {}
  const std::shared_ptr<detail::DeviceImpl> &handle() const { return impl; }

private:
  std::shared_ptr<detail::DeviceImpl> impl;
};

} // namespace sectile
