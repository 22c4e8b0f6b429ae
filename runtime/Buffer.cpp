// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Artifact.h"
#include "runtime/DeviceImpl.h"

#include <sectile/Buffer.h>

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace sectile::detail {

using namespace runtime;

namespace {

/// Alignment of host memory, as cuMemAlloc gives on a GPU.
constexpr std::size_t alignBytes = 256;

[[noreturn]] void refuse(std::string message, const char *rule, std::string wayOut,
                         std::source_location loc) {
  throw UserError({.loc = loc,
                   .kernel = {},
                   .op = "Buffer",
                   .message = std::move(message),
                   .rule = rule,
                   .wayOut = std::move(wayOut)});
}

std::string dimsText(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::size_t bytesOf(std::size_t elementBytes, std::span<const std::int64_t> dims, std::source_location loc) {
  if (dims.size() > maxRank)
    refuse(fmt::format("rank {} is over the limit of {}", dims.size(), maxRank), "buffer_dims",
           "merge axes, whose elements are contiguous", loc);
  bool empty = false;
  for (std::int64_t d : dims) {
    if (d < 0)
      refuse(fmt::format("dims {} hold the negative length {}", dimsText(dims), d), "buffer_dims",
             "give lengths of 0 or more", loc);
    empty |= d == 0;
  }
  if (empty)
    return 0;
  std::int64_t bytes = static_cast<std::int64_t>(elementBytes);
  for (std::int64_t d : dims)
    if (__builtin_mul_overflow(bytes, d, &bytes))
      refuse(
          fmt::format("dims {} of {}-byte elements are more than 2^63-1 bytes", dimsText(dims), elementBytes),
          "buffer_dims", "use a smaller buffer", loc);
  return static_cast<std::size_t>(bytes);
}

} // namespace

Memory::Memory(const Place &place, std::size_t elementBytes, std::span<const std::int64_t> dims)
    : owner(place.device), order(place.stream ? place.stream->handle() : nullptr),
      sizeBytes(bytesOf(elementBytes, dims, place.loc)) {
  const std::source_location loc = place.loc;
  if (sizeBytes == 0)
    return;
  const DeviceImpl &d = *owner.handle();
  if (d.isInterpreter()) {
    std::size_t rounded = (sizeBytes + alignBytes - 1) / alignBytes * alignBytes;
    pointer = std::aligned_alloc(alignBytes, rounded);
    if (!pointer)
      refuse(fmt::format("{} bytes for dims {} are more than the host gives; it has {} bytes of memory",
                         sizeBytes, dimsText(dims), d.properties.memoryBytes),
             "out_of_memory", "use a smaller buffer", loc);
    return;
  }
  const Driver &driver = d.driver(loc);
  ContextScope scope(driver, d.primary);
  CuDevicePtr address = 0;
  CuResult result = driver.call.memAlloc(&address, sizeBytes);
  if (result == cuErrorOutOfMemory) {
    std::size_t freeBytes = 0, totalBytes = 0;
    d.check(driver.call.memGetInfo(&freeBytes, &totalBytes), "cuMemGetInfo", "Buffer", loc);
    refuse(fmt::format("{} bytes for dims {} are more than GPU {} has free ({} of {} bytes)", sizeBytes,
                       dimsText(dims), d.ordinal, freeBytes, totalBytes),
           "out_of_memory", "use a smaller buffer, or free others first", loc);
  }
  d.check(result, "cuMemAlloc", "Buffer", loc);
  pointer = reinterpret_cast<void *>(address);
}

void Memory::release() noexcept {
  if (!pointer)
    return;
  if (owner.isInterpreter()) {
    std::free(pointer);
  } else if (const Driver *driver = Driver::ifOpen()) {
    // A destructor has nobody to tell: a context that is lost takes its memory along.
    try {
      ContextScope scope(*driver, owner.handle()->primary);
      driver->call.memFree(reinterpret_cast<CuDevicePtr>(pointer));
    } catch (...) {
    }
  }
  pointer = nullptr;
  sizeBytes = 0;
}

Memory::~Memory() { release(); }

Memory::Memory(Memory &&other) noexcept
    : owner(other.owner), order(std::move(other.order)), pointer(std::exchange(other.pointer, nullptr)),
      sizeBytes(std::exchange(other.sizeBytes, 0)) {}

Memory &Memory::operator=(Memory &&other) noexcept {
  if (this == &other)
    return *this;
  release();
  owner = other.owner;
  order = std::move(other.order);
  pointer = std::exchange(other.pointer, nullptr);
  sizeBytes = std::exchange(other.sizeBytes, 0);
  return *this;
}

namespace {

void checkCount(std::size_t given, std::size_t held, std::source_location loc) {
  if (given != held)
    refuse(fmt::format("{} bytes of host elements are given and the buffer holds {} bytes", given, held),
           "copy_size", "give a span of size() elements", loc);
}

/// The stream that a copy goes to: the one given, else the buffer's own, else the legacy default stream.
struct CopyStream {
  CuContext context;
  CuStream stream;
  CopyStream(const DeviceImpl &d, const StreamImpl *own, const Stream *on, std::source_location loc) {
    const StreamImpl *s = on ? on->handle().get() : own;
    if (on && s->device.handle().get() != &d)
      refuse(fmt::format("the buffer is on {} and the stream on {}", d.name, s->device.name()),
             "stream_device", "use a stream of buffer.device()", loc);
    context = s ? s->context : d.primary;
    stream = s ? s->stream : nullptr;
  }
};

/// Runs `call` on the stream of a copy and waits for it.
template <class F>
void copyAndWait(const DeviceImpl &d, const StreamImpl *own, const Stream *on, std::string_view function,
                 std::source_location loc, F call) {
  CopyStream to(d, own, on, loc);
  const Driver &driver = d.driver(loc);
  ContextScope scope(driver, to.context);
  std::uint64_t launched = d.recent.count();
  d.check(call(driver.call, to.stream), function, "Buffer", loc);
  d.check(driver.call.streamSynchronize(to.stream), "cuStreamSynchronize", "Buffer", loc);
  d.recent.finished(to.stream, launched);
}

} // namespace

void Memory::copyIn(const void *host, std::size_t count, const Stream *on, std::source_location loc) {
  checkCount(count, sizeBytes, loc);
  if (!count)
    return;
  if (owner.isInterpreter()) {
    CopyStream(*owner.handle(), order.get(), on, loc);
    std::memcpy(pointer, host, count);
    return;
  }
  copyAndWait(*owner.handle(), order.get(), on, "cuMemcpyHtoDAsync", loc,
              [&](const DriverApi &call, CuStream stream) {
                return call.memcpyHtoDAsync(reinterpret_cast<CuDevicePtr>(pointer), host, count, stream);
              });
}

void Memory::copyOut(void *host, std::size_t count, const Stream *on, std::source_location loc) const {
  checkCount(count, sizeBytes, loc);
  if (!count)
    return;
  if (owner.isInterpreter()) {
    CopyStream(*owner.handle(), order.get(), on, loc);
    std::memcpy(host, pointer, count);
    return;
  }
  copyAndWait(*owner.handle(), order.get(), on, "cuMemcpyDtoHAsync", loc,
              [&](const DriverApi &call, CuStream stream) {
                return call.memcpyDtoHAsync(host, reinterpret_cast<CuDevicePtr>(pointer), count, stream);
              });
}

void Memory::fill(std::uint8_t value, const Stream *on, std::source_location loc) {
  if (!sizeBytes)
    return;
  if (owner.isInterpreter()) {
    std::memset(pointer, value, sizeBytes);
    return;
  }
  copyAndWait(*owner.handle(), order.get(), on, "cuMemsetD8Async", loc,
              [&](const DriverApi &call, CuStream stream) {
                return call.memsetD8Async(reinterpret_cast<CuDevicePtr>(pointer), value, sizeBytes, stream);
              });
}

} // namespace sectile::detail
