// SPDX-License-Identifier: Apache-2.0
#include "ir/base/TargetList.h"
#include "runtime/DeviceImpl.h"
#include "runtime/Env.h"
#include "runtime/Log.h"

#include <sectile/Targets.h>

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

namespace sectile {

using detail::DeviceImpl;
using namespace runtime;

namespace {

/// All devices of the process, each made at its first use and kept to the end.
struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<DeviceImpl>> gpus;
};
Registry &registry() {
  static auto &r = *new Registry;
  return r;
}

std::shared_ptr<DeviceImpl> makeInterpreter() {
  auto d = std::make_shared<DeviceImpl>();
  d->name = d->arch = "interpreter";
  d->properties.multiprocessors = static_cast<int>(std::thread::hardware_concurrency());
  d->properties.memoryBytes = std::int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return d;
}

std::shared_ptr<DeviceImpl> makeGpu(const Driver &driver, int ordinal, std::source_location loc) {
  auto d = std::make_shared<DeviceImpl>();
  d->ordinal = ordinal;
  const DriverApi &call = driver.call;
  driver.check(call.deviceGet(&d->device, ordinal), "cuDeviceGet");
  char name[256] = "";
  driver.check(call.deviceGetName(name, sizeof name, d->device), "cuDeviceGetName");
  d->name = name;
  auto attribute = [&](int which) {
    int value = 0;
    driver.check(call.deviceGetAttribute(&value, which, d->device), "cuDeviceGetAttribute");
    return value;
  };
  DeviceProperties &p = d->properties;
  p.computeMajor = attribute(cuAttrComputeMajor);
  p.computeMinor = attribute(cuAttrComputeMinor);
  p.multiprocessors = attribute(cuAttrMultiprocessorCount);
  p.maxThreadsPerBlock = attribute(cuAttrMaxThreadsPerBlock);
  p.maxThreadsPerMultiprocessor = attribute(cuAttrMaxThreadsPerMultiprocessor);
  p.warpThreads = attribute(cuAttrWarpSize);
  p.registersPerMultiprocessor = attribute(cuAttrRegistersPerMultiprocessor);
  p.registersPerBlock = attribute(cuAttrMaxRegistersPerBlock);
  p.sharedBytesPerBlock = attribute(cuAttrSharedBytesPerBlockOptin);
  p.sharedBytesPerMultiprocessor = attribute(cuAttrSharedBytesPerMultiprocessor);
  p.l2Bytes = attribute(cuAttrL2CacheBytes);
  p.clockKHz = attribute(cuAttrClockRateKHz);
  p.driverVersion = driver.version;
  std::size_t memory = 0;
  driver.check(call.deviceTotalMem(&memory, d->device), "cuDeviceTotalMem");
  p.memoryBytes = static_cast<std::int64_t>(memory);
  const Target *target = targetForComputeCapability(p.computeMajor, p.computeMinor);
  if (!target)
    throw UserError(
        {.loc = loc,
         .kernel = {},
         .op = "Device::gpu",
         .message = fmt::format("GPU {} ({}) has compute capability {}.{}, for which there is no target; targets are {}",
                                ordinal, d->name, p.computeMajor, p.computeMinor, targetList()),
         .rule = "gpu_unsupported",
         .wayOut = "use another GPU, or Device::interpreter()"});
  d->arch = std::string(target->arch);
  RelaxedCaptureScope relaxed(driver);
  d->check(call.primaryCtxRetain(&d->primary, d->device), "cuDevicePrimaryCtxRetain", "Device::gpu", loc);
  return d;
}

[[noreturn]] void badDevice(const std::string &value, std::source_location loc) {
  throw UserError({.loc = loc,
                   .kernel = {},
                   .op = "Device::best",
                   .message = fmt::format("SECTILE_DEVICE is '{}', which names no device", value),
                   .rule = "bad_device",
                   .wayOut = "set it to interpreter, gpu or gpu:N"});
}

} // namespace

Device Device::best(std::source_location loc) {
  const std::string &wanted = env().device;
  if (wanted.empty()) {
    for (int ordinal = 0, count = gpuCount(); ordinal < count; ++ordinal)
      try {
        return gpu(ordinal, loc);
      } catch (const UserError &e) {
        logLine(fmt::format("GPU {} is passed over: {}", ordinal, e.message()));
      }
    return interpreter();
  }
  if (wanted == "interpreter")
    return interpreter();
  if (wanted == "gpu")
    return gpu(0, loc);
  int ordinal = -1;
  const char *end = wanted.data() + wanted.size();
  if (!wanted.starts_with("gpu:"))
    badDevice(wanted, loc);
  auto [rest, error] = std::from_chars(wanted.data() + 4, end, ordinal);
  if (error != std::errc() || rest != end || ordinal < 0)
    badDevice(wanted, loc);
  return gpu(ordinal, loc);
}

Device Device::interpreter() {
  static auto &device = *new std::shared_ptr<DeviceImpl>(makeInterpreter());
  return Device(device);
}

int Device::gpuCount() noexcept {
  const Driver *driver = Driver::tryGet();
  return driver ? driver->deviceCount : 0;
}

Device Device::gpu(int ordinal, std::source_location loc) {
  const Driver &driver = Driver::get(loc);
  if (ordinal < 0 || ordinal >= driver.deviceCount)
    throw UserError(
        {.loc = loc,
         .kernel = {},
         .op = "Device::gpu",
         .message = fmt::format("GPU {} is asked for and there {} {}", ordinal,
                                driver.deviceCount == 1 ? "is" : "are", driver.deviceCount),
         .rule = "gpu_range",
         .wayOut = fmt::format("use 0 to {}; CUDA_VISIBLE_DEVICES hides GPUs", driver.deviceCount - 1)});
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  if (r.gpus.empty())
    r.gpus.resize(driver.deviceCount);
  std::shared_ptr<DeviceImpl> &d = r.gpus[ordinal];
  if (!d)
    d = makeGpu(driver, ordinal, loc);
  return Device(d);
}

bool Device::isInterpreter() const { return impl->isInterpreter(); }
int Device::ordinal() const { return impl->ordinal; }
const std::string &Device::name() const { return impl->name; }
const std::string &Device::arch() const { return impl->arch; }
const DeviceProperties &Device::properties() const { return impl->properties; }

Stream Device::stream() const {
  std::lock_guard lock(impl->streamMutex);
  if (!impl->ownStream) // the device keeps its stream and the stream its device: both live as long as the
                        // process
    impl->ownStream = Stream(*this).handle();
  return Stream(impl->ownStream);
}

const Driver &DeviceImpl::driver(std::source_location loc) const { return Driver::get(loc); }

void DeviceImpl::fail(CuResult result, std::string_view function, std::string_view op,
                      std::source_location loc) const {
  const Driver *driver = Driver::tryGet();
  std::string what = driver ? driver->describe(result) : fmt::format("CUDA error {}", result);
  auto user = [&](std::string message, const char *rule, const char *wayOut) -> UserError {
    return UserError({.loc = loc,
                      .kernel = {},
                      .op = std::string(op),
                      .message = std::move(message),
                      .rule = rule,
                      .wayOut = wayOut});
  };
  if (isStickyFault(result)) {
    std::string kernels = recent.text();
    throw user(
        fmt::format("GPU {} has faulted with {}; {}", ordinal, what,
                    kernels.empty()
                        ? "no kernel of Sectile was running"
                        : "kernels launched and not known to have finished, newest last: " + kernels),
        "device_fault",
        "the GPU is lost to this process; run again with SECTILE_CHECK=pointers, and compare the dims and "
        "strides given with the memory behind them");
  }
  if (result >= 900 && result <= 908)
    throw user(fmt::format("{} is not possible during a stream capture: {}", function, what), "capture",
               "launch each kernel once before the capture, and allocate, copy and wait outside it");
  if (result == cuErrorDeviceUnavailable)
    throw user(fmt::format("GPU {} is taken by another process: {}", ordinal, what), "gpu_unavailable",
               "wait for it, or ask for another compute mode (nvidia-smi -c)");
  if (result == cuErrorOutOfMemory)
    throw user(fmt::format("GPU {} has no memory left for {}: {}", ordinal, function, what), "out_of_memory",
               "free buffers that are no longer needed");
  throw InternalError(fmt::format("{} failed on GPU {} with {}", function, ordinal, what));
}

} // namespace sectile

namespace sectile::detail {

void RecentLaunches::finished(CuStream stream, std::uint64_t count) {
  // Launches that came after `count` sit in slots that were taken over; they stay.
  std::uint64_t now = next.load(std::memory_order_acquire);
  std::uint64_t first = now > entries.size() ? now - entries.size() : 0;
  for (std::uint64_t i = first; i < count && i < now; ++i) {
    Entry &e = entries[i % entries.size()];
    if (e.stream.load(std::memory_order_relaxed) == stream)
      e.kernel.store(nullptr, std::memory_order_release);
  }
}

std::string RecentLaunches::text() const {
  std::string out;
  std::uint64_t now = next.load(std::memory_order_acquire);
  for (std::uint64_t i = now > entries.size() ? now - entries.size() : 0; i < now; ++i)
    if (const char *kernel = entries[i % entries.size()].kernel.load(std::memory_order_acquire)) {
      out += out.empty() ? "" : ", ";
      out += kernel;
    }
  return out;
}

} // namespace sectile::detail

namespace sectile::runtime {

const char *internName(std::string_view name) {
  static auto &mutex = *new std::mutex;
  static auto &names = *new std::set<std::string, std::less<>>;
  std::lock_guard lock(mutex);
  auto found = names.find(name);
  return (found != names.end() ? found : names.emplace(name).first)->c_str();
}

} // namespace sectile::runtime
