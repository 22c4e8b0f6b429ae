// SPDX-License-Identifier: Apache-2.0
#include "runtime/Split.h"
#include "runtime/Launch.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <tuple>
#include <unordered_map>

namespace sectile::runtime {
namespace {

/// A workspace of fewer bytes is not worth a second allocation later.
constexpr std::int64_t leastWorkspace = std::int64_t(1) << 20;
/// The most bytes that the parts of one launch may leave.
constexpr std::int64_t mostWorkspace = std::int64_t(256) << 20;
/// gridDim.y
constexpr std::int64_t mostParts = 65535;
/// Shared memory that the system takes of every block.
constexpr std::int64_t systemSharedBytes = 1024;
/// Blocks of one multiprocessor that every supported GPU holds.
constexpr std::int64_t mostBlocks = 16;

std::int64_t ceilDiv(std::int64_t x, std::int64_t y) { return x / y + (x % y != 0); }

std::int64_t valueOf(const LaunchNumber &n, std::span<const KernelArg> args) {
  if (n.arg < 0)
    return n.value;
  const KernelArg &a = args[static_cast<std::size_t>(n.arg)];
  if (n.axis >= 0)
    return a.dims[static_cast<std::size_t>(n.axis)];
  const int bits = static_cast<int>(byteSize(a.dtype)) * 8;
  const std::uint64_t high = a.scalar << (64 - bits);
  return isSignedInt(a.dtype) ? static_cast<std::int64_t>(high) >> (64 - bits)
                              : static_cast<std::int64_t>(high >> (64 - bits));
}

/// Trips of the loop; 0 for a range that is empty or so long that its end cannot be computed safely.
std::int64_t tripsOf(const LaunchSplit &split, std::span<const KernelArg> args) {
  constexpr std::int64_t most = std::int64_t(1) << 60;
  std::int64_t lower = valueOf(split.lower, args), upper = valueOf(split.upper, args), step = split.step.value;
  if (lower >= upper || lower < -most || upper > most || step > most)
    return 0;
  return ceilDiv(upper - lower, step);
}

/// Which function's memory.
enum class Use : std::uint64_t { workspace, copies, graph };

/// What a stream, or a capture of a stream, was given.
struct Key {
  std::uint64_t context, stream, capture; ///< capture 0: none
  Use use = Use::workspace;
  bool operator==(const Key &) const = default;
};
struct HashKey {
  std::size_t operator()(const Key &k) const {
    std::uint64_t h = (k.context * 0x9E3779B97F4A7C15ull) ^ (k.stream + (k.capture << 24)) ^ std::uint64_t(k.use) << 62;
    return static_cast<std::size_t>(h * 0x9E3779B97F4A7C15ull);
  }
};
struct Workspace {
  CuDevicePtr memory = 0;
  std::int64_t bytes = 0;
  std::vector<CuDevicePtr> outgrown; ///< launches that are under way may use them
};

struct Table {
  std::mutex mutex;
  std::unordered_map<Key, Workspace, HashKey> of;
};
/// Never destroyed: streams may outlive every static object of this library.
Table &table() {
  static auto *t = new Table;
  return *t;
}

std::uint64_t streamId(const Driver &driver, const detail::StreamImpl &stream) {
  unsigned long long id = 0;
  driver.check(driver.call.streamGetId(stream.stream, &id), "cuStreamGetId");
  return id;
}

} // namespace

CuDevicePtr zeroedMemory(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes,
                   std::source_location loc) {
  const detail::DeviceImpl &d = *stream.device.handle();
  RelaxedCaptureScope relaxed(driver);
  CuDevicePtr memory = 0;
  d.check(driver.call.memAlloc(&memory, static_cast<std::size_t>(bytes)), "cuMemAlloc", "launch", loc);
  // A stream of its own that waits for no other.
  CuStream own = nullptr;
  CuResult result = driver.call.streamCreate(&own, cuStreamNonBlocking);
  if (result == cuSuccess) {
    result = driver.call.memsetD8Async(memory, 0, static_cast<std::size_t>(std::min(bytes, LaunchSplit::counterBytes)), own);
    if (result == cuSuccess)
      result = driver.call.streamSynchronize(own);
    driver.call.streamDestroy(own);
  }
  if (result != cuSuccess)
    driver.call.memFree(memory);
  d.check(result, "setting a workspace to 0", "launch", loc);
  return memory;
}

std::int64_t blocksInFlight(const LaunchInfo &info, int registers, const DeviceProperties &device) {
  std::int64_t blocks = mostBlocks;
  blocks = std::min<std::int64_t>(blocks, device.maxThreadsPerMultiprocessor / std::max(info.threads, 1));
  // Registers are given to warps in units of 256.
  const std::int64_t warps = ceilDiv(info.threads, 32);
  const std::int64_t registersPerBlock = ceilDiv(std::int64_t(std::max(registers, 1)) * 32, 256) * 256 * warps;
  blocks = std::min(blocks, device.registersPerMultiprocessor / std::max<std::int64_t>(registersPerBlock, 1));
  blocks = std::min(blocks, device.sharedBytesPerMultiprocessor / (info.sharedBytes + systemSharedBytes));
  return std::max<std::int64_t>(blocks, 1) * std::max(device.multiprocessors, 1);
}

SplitChoice chooseSplit(const LaunchInfo &info, std::span<const KernelArg> args, std::int64_t programs, int registers,
                        const DeviceProperties &device) {
  const LaunchSplit &split = info.split;
  const std::int64_t trips = tripsOf(split, args);
  SplitChoice choice;
  if (trips < 2 || programs < 1 || programs > LaunchSplit::maxPrograms)
    return choice;
  std::int64_t parts = split.parts;
  if (parts == 0)
    parts = std::min(blocksInFlight(info, registers, device) / programs, trips / split.minTrips);
  parts = std::min({parts, trips, mostParts});
  if (split.partBytes > 0)
    parts = std::min(parts, mostWorkspace / split.partBytes / programs);
  if (parts < 2)
    return choice;
  // Equal shares, the last one what is left; none is empty.
  choice.trips = ceilDiv(trips, parts);
  choice.parts = ceilDiv(trips, choice.trips);
  return choice;
}

namespace {

/// A share of fewer trips is not worth the start of a pipeline.
constexpr std::int64_t leastSharedTrips = 4;

SplitChoice shareLast(const LaunchInfo &info, std::span<const KernelArg> args, std::int64_t programs, int registers,
                      const DeviceProperties &device) {
  const LaunchSplit &split = info.split;
  const std::int64_t trips = tripsOf(split, args);
  std::int64_t blocks = blocksInFlight(info, registers, device) / info.cluster;
  SplitChoice choice;
  choice.trips = 0; // shared programs, as a parameter
  choice.blocks = persistentBlocks(programs, blocks);
  if (trips < 2 || programs < 1 || blocks < 1 || programs % blocks == 0)
    return choice;
  std::int64_t shared = programs;
  if (programs < blocks) {
    blocks = std::min(blocks, programs * (trips / leastSharedTrips));
  } else { // the last round; with the one before it where its trips are few for so many blocks
    shared = programs % blocks;
    if (shared * trips / blocks < leastSharedTrips)
      shared += blocks;
  }
  if (blocks <= 0 || blocks <= programs % blocks || shared * trips / blocks < leastSharedTrips || shared > LaunchSplit::maxPrograms ||
      (shared + blocks) * split.partBytes > mostWorkspace)
    return choice;
  choice.blocks = blocks;
  choice.shared = choice.trips = shared;
  return choice;
}

} // namespace

SplitChoice chooseShared(const LaunchInfo &info, std::span<const KernelArg> args, std::int64_t programs, int registers,
                         const DeviceProperties &device) {
  return shareLast(info, args, programs, registers, device);
}

bool sharingPays(const LaunchInfo &info, std::span<const KernelArg> args, std::int64_t programs, int registers,
                 const DeviceProperties &device) {
  // Bytes of partial sums per cycle that a multiprocessor writes, or reads back, while all do; cycles to meet.
  constexpr double bytesPerCycle = 7, meetCycles = 3000, margin = 1.1;
  const SplitChoice choice = shareLast(info, args, programs, registers, device);
  if (!choice.shared)
    return false;
  const auto trips = static_cast<double>(tripsOf(info.split, args));
  const std::int64_t most = blocksInFlight(info, registers, device) / info.cluster;
  const auto rounds = static_cast<double>(ceilDiv(programs, most));
  const double saved = (rounds - static_cast<double>(programs) / static_cast<double>(choice.blocks)) * trips;
  const double parts = static_cast<double>(choice.shared + choice.blocks) / static_cast<double>(choice.blocks);
  const double cost = meetCycles + parts * 2 * static_cast<double>(info.split.partBytes) / bytesPerCycle;
  return saved * static_cast<double>(info.split.tripCycles) > margin * cost;
}

std::int64_t workspaceBytes(const LaunchSplit &split, std::int64_t programs, const SplitChoice &choice) {
  if (split.stream)
    return choice.shared ? LaunchSplit::counterBytes + (choice.shared + choice.blocks) * split.partBytes : 0;
  return choice.parts == 1 ? 0 : LaunchSplit::counterBytes + programs * choice.parts * split.partBytes;
}

namespace {

/// Memory of this stream, or of its capture, of at least `bytes` bytes; more is allocated by `allocate`, which gives 0 if it
/// cannot.
template <class F>
CuDevicePtr memoryOf(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes, Use use, F allocate,
                     std::source_location loc) {
  int status = cuCaptureNone;
  unsigned long long capture = 0;
  const detail::DeviceImpl &d = *stream.device.handle();
  d.check(driver.call.streamGetCaptureInfo(stream.stream, &status, &capture, nullptr, nullptr, nullptr),
          "cuStreamGetCaptureInfo", "launch", loc);
  // A stream that is captured does not tell its id (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), but lives as long as the capture.
  const bool isCaptured = status != cuCaptureNone;
  const Key key{stream.contextId, isCaptured ? reinterpret_cast<std::uintptr_t>(stream.stream) : streamId(driver, stream), isCaptured ? capture + 1 : 0, use};
  Table &t = table();
  std::lock_guard lock(t.mutex);
  Workspace &w = t.of[key];
  if (w.bytes < bytes) {
    CuDevicePtr memory = allocate();
    if (!memory)
      return 0;
    if (w.memory)
      w.outgrown.push_back(w.memory);
    w.memory = memory;
    w.bytes = bytes;
    stream.hasWorkspace.store(true, std::memory_order_relaxed);
  }
  return w.memory;
}

} // namespace

CuDevicePtr workspaceOf(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes,
                        std::source_location loc) {
  bytes = std::max(leastWorkspace, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes))));
  return memoryOf(driver, stream, bytes, Use::workspace, [&] { return zeroedMemory(driver, stream, bytes, loc); }, loc);
}

/// 0 if the device has not that much left. Also while the stream is being captured.
static CuDevicePtr plainMemory(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes, std::source_location loc) {
  RelaxedCaptureScope relaxed(driver);
  CuDevicePtr memory = 0;
  CuResult result = driver.call.memAlloc(&memory, static_cast<std::size_t>(bytes));
  if (result == cuErrorOutOfMemory)
    return CuDevicePtr(0);
  stream.device.handle()->check(result, "cuMemAlloc", "launch", loc);
  return memory;
}

CuDevicePtr copyMemoryOf(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes,
                         std::source_location loc) {
  return memoryOf(driver, stream, bytes, Use::copies, [&] { return plainMemory(driver, stream, bytes, loc); }, loc);
}

CuDevicePtr graphMemoryOf(const Driver &driver, const detail::StreamImpl &stream, std::int64_t bytes,
                          std::source_location loc) {
  return memoryOf(driver, stream, bytes, Use::graph, [&] { return plainMemory(driver, stream, bytes, loc); }, loc);
}

void releaseWorkspace(const Driver &driver, const detail::StreamImpl &stream) noexcept {
  try {
    const std::uint64_t id = streamId(driver, stream);
    if (driver.call.streamSynchronize(stream.stream) != cuSuccess)
      return; // the memory stays: something may still use it
    Table &t = table();
    std::lock_guard lock(t.mutex);
    for (Use use : {Use::workspace, Use::copies, Use::graph}) {
      auto found = t.of.find(Key{stream.contextId, id, 0, use});
      if (found == t.of.end())
        continue;
      for (CuDevicePtr memory : found->second.outgrown)
        driver.call.memFree(memory);
      if (found->second.memory)
        driver.call.memFree(found->second.memory);
      t.of.erase(found);
    }
  } catch (const InternalError &) { // a context that is lost took its memory along
  }
}

} // namespace sectile::runtime
