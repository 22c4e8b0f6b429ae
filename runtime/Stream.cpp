// SPDX-License-Identifier: Apache-2.0
#include "runtime/DeviceImpl.h"
#include "runtime/Split.h"

#include <fmt/format.h>

namespace sectile {

using detail::DeviceImpl;
using detail::StreamImpl;
using namespace runtime;

namespace {

std::uint64_t contextId(const Driver &driver, CuContext context) {
  unsigned long long id = 0;
  driver.check(driver.call.ctxGetId(context, &id), "cuCtxGetId");
  return id;
}

/// The device of a context.
CuDevice deviceOf(const Driver &driver, CuContext context) {
  ContextScope scope(driver, context);
  CuDevice device = 0;
  driver.check(driver.call.ctxGetDevice(&device), "cuCtxGetDevice");
  return device;
}

/// Handles of the default streams: null and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD.
bool isDefaultStream(CuStream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

} // namespace

Stream::Stream(const Device &device, std::source_location loc) {
  const DeviceImpl &d = *device.handle();
  if (d.isInterpreter()) {
    impl = std::make_shared<StreamImpl>(device, nullptr, nullptr, 0, false);
    return;
  }
  const Driver &driver = d.driver(loc);
  ContextScope scope(driver, d.primary);
  RelaxedCaptureScope relaxed(driver);
  CuStream stream = nullptr;
  d.check(driver.call.streamCreate(&stream, 0), "cuStreamCreate", "Stream", loc);
  impl = std::make_shared<StreamImpl>(device, stream, d.primary, contextId(driver, d.primary), true);
}

Stream Stream::wrap(const Device &device, CUstream_st *stream, std::source_location loc) {
  const DeviceImpl &d = *device.handle();
  auto refuse = [&](std::string message, std::string wayOut) {
    throw UserError({.loc = loc,
                     .kernel = {},
                     .op = "Stream::wrap",
                     .message = std::move(message),
                     .rule = "stream_device",
                     .wayOut = std::move(wayOut)});
  };
  if (d.isInterpreter())
    refuse("a CUDA stream cannot be a stream of the interpreter", "use Device::gpu(i), or Stream(device)");
  const Driver &driver = d.driver(loc);
  CuContext context = nullptr;
  if (isDefaultStream(stream)) {
    driver.check(driver.call.ctxGetCurrent(&context), "cuCtxGetCurrent");
    if (!context || deviceOf(driver, context) != d.device)
      context = d.primary;
  } else {
    d.check(driver.call.streamGetCtx(stream, &context), "cuStreamGetCtx", "Stream::wrap", loc);
    CuDevice other = deviceOf(driver, context);
    if (other != d.device)
      refuse(fmt::format("the stream belongs to GPU {} and the device is GPU {}", other, d.ordinal),
             fmt::format("wrap it with Device::gpu({})", other));
  }
  return Stream(std::make_shared<StreamImpl>(device, stream, context, contextId(driver, context), false));
}

void Stream::synchronize(std::source_location loc) const {
  const DeviceImpl &d = *impl->device.handle();
  if (d.isInterpreter())
    return;
  const Driver &driver = d.driver(loc);
  ContextScope scope(driver, impl->context);
  std::uint64_t launched = d.recent.count();
  d.check(driver.call.streamSynchronize(impl->stream), "cuStreamSynchronize", "Stream::synchronize", loc);
  d.recent.finished(impl->stream, launched);
}

const Device &Stream::device() const { return impl->device; }
CUstream_st *Stream::native() const { return impl->stream; }

bool Stream::operator==(const Stream &other) const {
  return impl == other.impl ||
         (!impl->owned && !other.impl->owned && impl->device == other.impl->device &&
          impl->stream == other.impl->stream && impl->contextId == other.impl->contextId);
}

StreamImpl::~StreamImpl() {
  const Driver *driver = owned ? Driver::ifOpen() : nullptr;
  if (!driver)
    return;
  // A destructor has nobody to tell: a context that is lost takes its streams along.
  try {
    ContextScope scope(*driver, context);
    if (hasWorkspace.load(std::memory_order_relaxed))
      releaseWorkspace(*driver, *this);
    driver->call.streamDestroy(stream);
  } catch (const InternalError &) {
  }
}

} // namespace sectile
