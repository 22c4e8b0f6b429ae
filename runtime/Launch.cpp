// SPDX-License-Identifier: Apache-2.0
#include "runtime/Launch.h"
#include "runtime/Nvtx.h"

#include "runtime/Env.h"
#include "runtime/Split.h"
#include "runtime/TensorMaps.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <mutex>

namespace sectile::runtime {
namespace {

[[noreturn]] void refuse(const CallSite &site, std::string message, const char *rule, std::string wayOut) {
  throw UserError({.loc = site.loc,
                   .kernel = std::string(site.kernel),
                   .op = "launch",
                   .message = std::move(message),
                   .rule = rule,
                   .wayOut = std::move(wayOut)});
}

bool hasElements(const KernelArg &a) {
  for (int d = 0; d < a.rank; ++d)
    if (a.dims[d] == 0)
      return false;
  return true;
}

std::string dimsText(const KernelArg &a) {
  return fmt::format("[{}]", fmt::join(a.dims.begin(), a.dims.begin() + a.rank, ", "));
}

std::size_t alignUp(std::size_t offset, std::size_t align) { return (offset + align - 1) / align * align; }

/// Calls put(offset, bytes, source) for every parameter and returns the end.
template <class F> std::size_t forEachParameter(std::span<const KernelArg> args, F put) {
  std::size_t offset = 0;
  auto add = [&](const void *source, std::size_t bytes) {
    offset = alignUp(offset, bytes);
    put(offset, source, bytes);
    offset += bytes;
  };
  for (const KernelArg &a : args) {
    if (!a.isTensor()) {
      add(&a.scalar, byteSize(a.dtype));
      continue;
    }
    add(&a.data, sizeof(void *));
    for (int d = 0; d < a.rank; ++d)
      add(&a.dims[d], sizeof(std::int64_t));
    for (int d = 0; d < a.rank; ++d)
      add(&a.strides[d], sizeof(std::int64_t));
  }
  return offset;
}

/// What a kernel whose loop blocks may share takes after its own parameters.
struct SplitParameters {
  CuDevicePtr workspace;
  std::int64_t trips;
};

/// Bytes of the arguments as parameters. What the runtime adds fits behind them.
std::size_t checkedParameterBytes(const LaunchInfo &info, std::span<const KernelArg> args, const CallSite &site) {
  std::size_t bytes = parameterBytes(args);
  std::size_t all = info.split.possible ? alignUp(bytes, 8) + sizeof(SplitParameters) : bytes;
  if (!info.maps.empty())
    all = alignUp(all, tensorMapAlignment) + info.maps.size() * tensorMapBytes;
  if (all > maxParameterBytes)
    refuse(site,
           fmt::format("the {} arguments take {} bytes of kernel parameters and the limit is {}", args.size(),
                       all, maxParameterBytes),
           "args_bytes", "pass fewer tensors, or several as one");
  return bytes;
}

const Driver &driverOf(const Stream &stream, const CallSite &site) {
  const detail::DeviceImpl &d = *stream.device().handle();
  if (d.isInterpreter())
    throw InternalError(fmt::format("kernel {}: GPU code was launched on the interpreter", site.kernel));
  return d.driver(site.loc);
}

/// The launch itself: everything is checked, the context is current. `pointers`: to every parameter, instead of the
/// buffer that holds them all.
void launchPacked(const Driver &driver, Module &module, const Module::Loaded &loaded, std::int64_t programs,
                  std::int64_t parts, const void *params, std::size_t paramBytes,
                  const detail::StreamImpl &stream, std::source_location loc, void **pointers = nullptr) {
  const detail::DeviceImpl &d = *stream.device.handle();
  if (!module.isPinned()) {
    int capturing = cuCaptureNone;
    if (driver.call.streamIsCapturing(stream.stream, &capturing) == cuSuccess && capturing != cuCaptureNone)
      module.pin();
  }
  const LaunchInfo &info = module.artifact().launch;
  std::array<void *, 5> extra = {reinterpret_cast<void *>(cuLaunchParamPointer), const_cast<void *>(params),
                                 reinterpret_cast<void *>(cuLaunchParamSize), &paramBytes,
                                 reinterpret_cast<void *>(cuLaunchParamEnd)};
  d.recent.add(module.kernel(), stream.stream);
  NvtxRange range(module.kernel());
  CuResult result =
      driver.call.launchKernel(loaded.function, static_cast<unsigned>(programs * info.cluster),
                               static_cast<unsigned>(parts), 1, info.threads, 1, 1,
                               static_cast<unsigned>(info.sharedBytes), stream.stream, pointers,
                               pointers ? nullptr : extra.data());
  if (result == cuErrorLaunchOutOfResources)
    refuse({module.kernel(), loc},
           fmt::format(
               "{} threads with {} registers each and {} bytes of shared memory per block are more than GPU "
               "{} has ({} registers, {} bytes)",
               info.threads, loaded.registers, info.sharedBytes, d.ordinal, d.properties.registersPerBlock,
               d.properties.sharedBytesPerBlock),
           "launch_limits", "use smaller tiles or fewer warps");
  if (result != cuSuccess)
    d.fail(result, fmt::format("cuLaunchKernel of {}", module.kernel()), "launch", loc);
}

/// Programs that go through one range are equally long. Of others a block may have fewer or longer ones.
std::int64_t blocksOf(const LaunchInfo &info, std::int64_t programs, std::int64_t most) {
  return info.split.stream ? persistentBlocks(programs, most) : std::min(programs, std::max<std::int64_t>(most, 1));
}

/// Whether the runtime adds parameters of its own, or decides how many blocks there are.
bool isPlain(const LaunchInfo &info) { return !info.split.possible && info.maps.empty() && !info.persistent; }

/// The same for a kernel whose loop several blocks may share, one with tensor maps, or one whose blocks take several
/// programs: adds its parameters behind the first `bytes` of `params`, which has room for them.
void launchMore(const Driver &driver, Module &module, const Module::Loaded &loaded, std::span<const KernelArg> args,
                std::int64_t programs, std::byte *params, std::size_t bytes, const detail::StreamImpl &stream,
                std::source_location loc) {
  const LaunchInfo &info = module.artifact().launch;
  const DeviceProperties &device = stream.device.properties();
  std::array<void *, maxParameterBytes / 4> pointers;
  std::size_t count = 0;
  auto add = [&](std::size_t offset) {
    if (count + 1 < pointers.size())
      pointers[count++] = params + offset;
  };
  if (!info.maps.empty())
    forEachParameter(args, [&](std::size_t offset, const void *, std::size_t) { add(offset); });
  SplitChoice choice;
  if (info.split.possible) {
    choice = info.split.stream ? chooseShared(info, args, programs, loaded.registers, device)
                               : chooseSplit(info, args, programs, loaded.registers, device);
    SplitParameters more{0, choice.trips};
    if (std::int64_t needed = workspaceBytes(info.split, programs, choice))
      more.workspace = workspaceOf(driver, stream, needed, loc);
    bytes = alignUp(bytes, 8);
    std::memcpy(params + bytes, &more, sizeof more);
    add(bytes);
    add(bytes + sizeof more.workspace);
    bytes += sizeof more;
  }
  if (info.persistent && info.split.possible)
    programs = choice.blocks;
  else if (info.persistent)
    programs = blocksOf(info, programs, blocksInFlight(info, loaded.registers, device) / info.cluster);
  if (info.maps.empty())
    return launchPacked(driver, module, loaded, programs, choice.parts, params, bytes, stream, loc);
  // The driver puts parameters from a buffer where the TMA unit cannot read maps (not at multiples of 64); given one by
  // one, it minds their alignment. Null ends the list, for whoever looks at it.
  bytes = alignUp(bytes, tensorMapAlignment);
  writeTensorMaps(driver, module, args, stream, params + bytes, loc);
  for (std::size_t i = 0; i < info.maps.size(); ++i, bytes += tensorMapBytes)
    add(bytes);
  if (count + 1 == pointers.size())
    throw InternalError(fmt::format("kernel {}: more than {} parameters beside tensor maps", module.kernel(), count));
  pointers[count] = nullptr;
  launchPacked(driver, module, loaded, programs, choice.parts, params, bytes, stream, loc, pointers.data());
}

} // namespace

void checkArguments(const LaunchInfo &info, std::span<const KernelArg> args, const CallSite &site) {
  if (args.size() != info.argRanks.size())
    throw InternalError(fmt::format("kernel {}: {} arguments are given and the kernel takes {}", site.kernel,
                                    args.size(), info.argRanks.size()));
  for (std::size_t i = 0; i < args.size(); ++i) {
    const KernelArg &a = args[i];
    if (a.rank != info.argRanks[i])
      throw InternalError(fmt::format("kernel {}: argument {} has rank {} and the kernel takes rank {} (-1: a scalar)",
                                      site.kernel, i, a.rank, info.argRanks[i]));
    for (int d = 0; d < a.rank; ++d)
      if (a.dims[d] < 0)
        refuse(
            site,
            fmt::format("argument {} has dims {}, and the length of axis {} is negative", i, dimsText(a), d),
            "arg_dims", "give lengths of 0 or more");
    for (int d = 0; d < a.rank && !a.readOnly && hasElements(a); ++d)
      if (a.strides[d] == 0 && a.dims[d] > 1)
        refuse(site,
               fmt::format("argument {} has dims {}, is written, and axis {} has stride 0: its {} elements are one place "
                           "in memory",
                           i, dimsText(a), d, a.dims[d]),
               "arg_strides", "give a tensor whose elements are places of their own, or declare it const");
    if (a.isTensor() && !a.data && hasElements(a))
      refuse(site, fmt::format("argument {} has dims {} and its data pointer is null", i, dimsText(a)),
             "null_pointer", "pass the memory of the tensor; a null pointer is for tensors without elements");
  }
}

std::int64_t gridPrograms(const LaunchInfo &info, std::span<const KernelArg> args, const CallSite &site) {
  // 128 bits hold the product of two; it is cut off as soon as it is over the limit, once no axis is empty.
  __int128 programs = 1;
  bool over = false;
  for (const GridAxis &axis : info.grid) {
    if (axis.arg < 0 || axis.arg >= static_cast<int>(args.size()) || axis.axis < 0 ||
        axis.axis >= args[axis.arg].rank || axis.tile < 1)
      throw InternalError(fmt::format("kernel {}: grid axis (argument {}, axis {}, tile {}) does not exist",
                                      site.kernel, axis.arg, axis.axis, axis.tile));
    std::int64_t dim = args[axis.arg].dims[axis.axis];
    std::int64_t count = dim / axis.tile + (dim % axis.tile != 0);
    if (count == 0)
      return 0;
    if (!over)
      programs *= count;
    over |= programs > (__int128(1) << 62);
  }
  const std::int64_t most = maxPrograms / info.cluster;
  if (over || programs > most)
    refuse(site,
           over ? fmt::format("the grid has over 2^62 programs and the limit is {}", most)
                : fmt::format("the grid has {} programs and the limit is {}",
                              static_cast<std::int64_t>(programs), most),
           "grid_limit", "use larger tiles, or launch over slices of the tensors");
  return static_cast<std::int64_t>(programs);
}

std::int64_t persistentBlocks(std::int64_t programs, std::int64_t most) {
  most = std::max<std::int64_t>(most, 1);
  const std::int64_t rounds = (programs + most - 1) / most;
  return rounds ? (programs + rounds - 1) / rounds : 0;
}

std::size_t parameterBytes(std::span<const KernelArg> args) {
  return forEachParameter(args, [](std::size_t, const void *, std::size_t) {});
}

void packParameters(std::span<const KernelArg> args, std::byte *out) {
  // Values are little-endian, as on every host with a CUDA driver: the low bytes of `scalar` are the value.
  forEachParameter(args, [&](std::size_t offset, const void *source, std::size_t bytes) {
    std::memcpy(out + offset, source, bytes);
  });
}

void checkPointers(std::span<const KernelArg> args, std::atomic<std::uint64_t> &checked,
                   const detail::StreamImpl &stream, const CallSite &site) {
  const bool always = env().checkPointers;
  const std::uint64_t done = always ? 0 : checked.load(std::memory_order_relaxed);
  // Arguments from number 64 on have no bit and are checked every time.
  auto bit = [](std::size_t i) { return i < 64 ? std::uint64_t(1) << i : 0; };
  const std::uint64_t all = args.size() >= 64 ? ~std::uint64_t(0) : bit(args.size()) - 1;
  if (done == all && args.size() <= 64)
    return;
  const detail::DeviceImpl &d = *stream.device.handle();
  const Driver &driver = d.driver(site.loc);
  std::uint64_t passed = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const KernelArg &a = args[i];
    if (done & bit(i))
      continue;
    if (!a.isTensor()) {
      passed |= bit(i);
      continue;
    }
    if (!hasElements(a)) // nothing was seen of this argument: its next use is its first
      continue;
    unsigned type = cuMemoryUnknown,
             managed = 0; // managed is a bool of the driver's: its low byte is written
    int ordinal = -1;
    std::array<int, 3> attributes = {cuPtrMemoryType, cuPtrIsManaged, cuPtrDeviceOrdinal};
    std::array<void *, 3> values = {&type, &managed, &ordinal};
    CuResult result = driver.call.pointerGetAttributes(attributes.size(), attributes.data(), values.data(),
                                                       reinterpret_cast<CuDevicePtr>(a.data));
    if (isStickyFault(result))
      d.fail(result, "cuPointerGetAttributes", "launch", site.loc);
    if (result != cuSuccess || type == cuMemoryUnknown)
      refuse(
          site,
          fmt::format("argument {} has dims {} and points to {}, which is host memory or freed memory, and "
                      "the launch is on GPU {}",
                      i, dimsText(a), a.data, d.ordinal),
          "host_pointer", "copy the elements into a Buffer of the device, or pin the host memory");
    if (type == cuMemoryDevice && !managed && ordinal >= 0 && ordinal != d.ordinal)
      refuse(site,
             fmt::format("argument {} is in the memory of GPU {} and the launch is on GPU {}", i, ordinal,
                         d.ordinal),
             "pointer_device", "launch on a stream of the GPU that holds the tensors, or copy them");
    passed |= bit(i);
  }
  checked.fetch_or(passed, std::memory_order_relaxed);
}

void launch(Module &module, std::span<const KernelArg> args, const Stream &stream, std::source_location loc) {
  const CallSite site{module.kernel(), loc};
  const LaunchInfo &info = module.artifact().launch;
  checkArguments(info, args, site);
  std::int64_t programs = gridPrograms(info, args, site);
  std::size_t bytes = checkedParameterBytes(info, args, site);
  if (programs == 0)
    return;
  const Driver &driver = driverOf(stream, site);
  const detail::StreamImpl &s = *stream.handle();
  alignas(tensorMapAlignment) std::byte params[maxParameterBytes];
  packParameters(args, params);
  ContextScope scope(driver, s.context);
  const Module::Loaded &loaded = module.load(s, loc);
  checkPointers(args, loaded.checkedArgs, s, site);
  if (isPlain(info))
    launchPacked(driver, module, loaded, programs, 1, params, bytes, s, loc);
  else
    launchMore(driver, module, loaded, args, programs, params, bytes, s, loc);
}

bool withCopyMemory(Module &module, std::span<const KernelArg> args, const Stream &stream, std::int64_t bytes,
                    std::source_location loc, const std::function<void(void *)> &enqueue) {
  const CallSite site{module.kernel(), loc};
  const Driver &driver = driverOf(stream, site);
  const detail::StreamImpl &s = *stream.handle();
  CuDevicePtr memory = 0;
  // Other threads may launch on this stream, with copies in the same memory.
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  {
    ContextScope scope(driver, s.context);
    checkPointers(args, module.load(s, loc).checkedArgs, s, site);
    memory = copyMemoryOf(driver, s, bytes, loc);
  }
  if (!memory)
    return false;
  enqueue(reinterpret_cast<void *>(memory));
  return true;
}

void withGraphMemory(const Stream &stream, std::int64_t bytes, const CallSite &site, const std::function<void(void *)> &enqueue) {
  const Driver &driver = driverOf(stream, site);
  const detail::StreamImpl &s = *stream.handle();
  CuDevicePtr memory = 0;
  // Other threads may run graphs on this stream, in the same memory.
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  {
    ContextScope scope(driver, s.context);
    memory = graphMemoryOf(driver, s, bytes, site.loc);
  }
  if (!memory)
    throw UserError({SourceLoc(site.loc), std::string(site.kernel), "graph", std::to_string(bytes) + " bytes for tensors between kernels are more than the device has left",
                     "out_of_memory", "free other memory, or run the graph on smaller tensors"});
  enqueue(reinterpret_cast<void *>(memory));
}

PreparedLaunch::PreparedLaunch(std::shared_ptr<Module> module, std::span<const KernelArg> arguments,
                               std::source_location loc)
    : code(std::move(module)), args(arguments.begin(), arguments.end()) {
  const CallSite site{code->kernel(), loc};
  checkArguments(code->artifact().launch, args, site);
  programCount = gridPrograms(code->artifact().launch, args, site);
  paramBytes = checkedParameterBytes(code->artifact().launch, args, site);
  params.resize((paramBytes + 7) / 8);
  packParameters(args, reinterpret_cast<std::byte *>(params.data()));
}

PreparedLaunch::PreparedLaunch(const PreparedLaunch &other)
    : code(other.code), args(other.args), params(other.params), paramBytes(other.paramBytes),
      programCount(other.programCount) {}

PreparedLaunch &PreparedLaunch::operator=(const PreparedLaunch &other) {
  if (this == &other)
    return *this;
  code = other.code;
  args = other.args;
  params = other.params;
  paramBytes = other.paramBytes;
  programCount = other.programCount;
  checkedFor.store(nullptr, std::memory_order_relaxed);
  return *this;
}

void PreparedLaunch::operator()(const Stream &stream, std::source_location loc) const {
  if (programCount == 0)
    return;
  const CallSite site{code->kernel(), loc};
  const Driver &driver = driverOf(stream, site);
  const detail::StreamImpl &s = *stream.handle();
  ContextScope scope(driver, s.context);
  const Module::Loaded &loaded = code->load(s, loc);
  if (checkedFor.load(std::memory_order_acquire) != &loaded) {
    checked.store(0, std::memory_order_relaxed);
    checkedFor.store(&loaded, std::memory_order_release);
  }
  checkPointers(args, checked, s, site);
  const LaunchInfo &info = code->artifact().launch;
  if (isPlain(info))
    return launchPacked(driver, *code, loaded, programCount, 1, params.data(), paramBytes, s, loc);
  // What comes behind is the stream's and its context's: other threads may launch this on others at the same time.
  alignas(tensorMapAlignment) std::byte copy[maxParameterBytes];
  std::memcpy(copy, params.data(), paramBytes);
  launchMore(driver, *code, loaded, args, programCount, copy, paramBytes, s, loc);
}

} // namespace sectile::runtime
