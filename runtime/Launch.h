// SPDX-License-Identifier: Apache-2.0
/// \file Launches compiled kernels on a GPU: grid, parameters, checks. No host allocation per launch.
#pragma once

#include "ir/base/Artifact.h"
#include "runtime/Module.h"

#include <sectile/Export.h>
#include <sectile/Stream.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace sectile::runtime {

/// The most programs of one launch: gridDim.x of every GPU.
inline constexpr std::int64_t maxPrograms = 2147483647;
/// The most bytes of kernel parameters that every driver takes.
inline constexpr std::size_t maxParameterBytes = 4096;

/// Who launches, for errors.
struct CallSite {
  std::string_view kernel;
  std::source_location loc;
};

/// Refuses arguments whose number or ranks are not those of `info`, negative dims, and null pointers of
/// tensors that have elements. InternalError for a wrong number or rank of arguments, which the types of a kernel rule
/// out; UserError [arg_dims], [arg_strides], [null_pointer], each naming the argument by number.
SECTILE_API void checkArguments(const LaunchInfo &info, std::span<const KernelArg> args,
                                const CallSite &site);

/// Number of programs of a launch, the product of ceil(dim / tile); 0 when an axis is empty. UserError
/// [grid_limit] over maxPrograms, naming both numbers.
SECTILE_API std::int64_t gridPrograms(const LaunchInfo &info, std::span<const KernelArg> args,
                                      const CallSite &site);

/// Blocks of a persistent kernel on a device that runs `most` at a time: so few that it needs no more rounds than with all,
/// whose programs then lie closer together.
SECTILE_API std::int64_t persistentBlocks(std::int64_t programs, std::int64_t most);

/// Bytes of kernel parameters: per tensor its pointer, dims and strides (8 bytes each), per scalar its own
/// size, each at its natural alignment.
SECTILE_API std::size_t parameterBytes(std::span<const KernelArg> args);

/// Writes the kernel parameters; `out` holds parameterBytes(args), aligned to 8.
SECTILE_API void packParameters(std::span<const KernelArg> args, std::byte *out);

/// Refuses tensors whose memory a kernel on this stream's device cannot use: host memory that is not pinned
/// and freed memory (UserError [host_pointer]), memory of another GPU (UserError [pointer_device], with both
/// numbers). Pinned host memory and managed memory pass, and so do tensors without elements. Bits of
/// `checked` that are set skip their argument unless SECTILE_CHECK=pointers; the bits of what passed are set.
SECTILE_API void checkPointers(std::span<const KernelArg> args, std::atomic<std::uint64_t> &checked,
                               const detail::StreamImpl &stream, const CallSite &site);

/// Launches at once: checks, packs on the stack, loads the code if need be. The caller's current context is
/// the same afterwards. A launch of 0 programs does nothing. UserErrors as above, [args_bytes] when the
/// parameters are over maxParameterBytes, and those of Module::load; [device_fault] when the device has
/// faulted earlier.
SECTILE_API void launch(Module &module, std::span<const KernelArg> args, const Stream &stream,
                        std::source_location loc = std::source_location::current());

/// Checks the pointers of a launch and calls `enqueue` with memory for `bytes` bytes on the stream's device, which nothing
/// uses but the stream's work that is enqueued in there; false, without the call, if the device has not that much left.
SECTILE_API bool withCopyMemory(Module &module, std::span<const KernelArg> args, const Stream &stream, std::int64_t bytes,
                                std::source_location loc, const std::function<void(void *)> &enqueue);

/// Calls `enqueue` with memory for `bytes` bytes on the stream's device, which nothing uses but the stream's work that is
/// enqueued in there. UserError [out_of_memory]. @pre the stream is a GPU's
SECTILE_API void withGraphMemory(const Stream &stream, std::int64_t bytes, const CallSite &site,
                                 const std::function<void(void *)> &enqueue);

/// A launch with everything looked up, checked and packed once; launching it touches neither the arguments
/// nor the heap. Keeps its module. May be called from several threads at once; copies are independent.
class SECTILE_API PreparedLaunch {
public:
  /// Checks and packs. UserErrors as for launch(), apart from those that need the device.
  PreparedLaunch(std::shared_ptr<Module> module, std::span<const KernelArg> args,
                 std::source_location loc = std::source_location::current());
  PreparedLaunch(const PreparedLaunch &other);
  PreparedLaunch &operator=(const PreparedLaunch &other);

  void operator()(const Stream &stream, std::source_location loc = std::source_location::current()) const;

  std::int64_t programs() const { return programCount; }
  std::span<const std::byte> parameters() const {
    return {reinterpret_cast<const std::byte *>(params.data()), paramBytes};
  }
  const Module &module() const { return *code; }

private:
  std::shared_ptr<Module> code;
  std::vector<KernelArg> args; ///< for pointer checks
  std::vector<std::uint64_t> params;
  std::size_t paramBytes = 0;
  std::int64_t programCount = 0;
  mutable std::atomic<std::uint64_t> checked{0};                   ///< as Module::Loaded::checkedArgs
  mutable std::atomic<const Module::Loaded *> checkedFor{nullptr}; ///< the context that `checked` is about
};

} // namespace sectile::runtime
