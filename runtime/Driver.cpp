// SPDX-License-Identifier: Apache-2.0
#include "runtime/Driver.h"

#include "runtime/Env.h"

#include <fmt/format.h>

#include <atomic>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>

namespace sectile::runtime {
namespace {

/// What opening the driver gave: a usable driver, or the reason why there is none.
struct Opened {
  Driver driver;
  bool usable = false;
  bool tooOld = false;
  std::string why;
};

std::atomic<const Opened *> opened{nullptr};
std::atomic<bool> forkedAfterOpen{false};

std::string versionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

template <class F> bool bind(void *library, const char *symbol, F &function) {
  function = reinterpret_cast<F>(dlsym(library, symbol));
  return function != nullptr;
}

void open(Opened &out) {
  const std::string &path = env().cudaLibrary;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *error = dlerror();
    out.why = fmt::format("the CUDA driver library {} cannot be opened ({})", path,
                          error ? error : "no reason given");
    return;
  }
  DriverApi &call = out.driver.call;
  // The version first: a driver that is too old lacks symbols, and its version is the more useful thing to
  // say.
  int version = 0;
  if (bind(library, "cuDriverGetVersion", call.driverGetVersion) &&
      call.driverGetVersion(&version) == cuSuccess && version < minDriverVersion) {
    out.tooOld = true;
    out.why = fmt::format("the CUDA driver supports CUDA {}, and at least {} is needed", versionText(version),
                          versionText(minDriverVersion));
    return;
  }
  const char *missing = nullptr;
#define SECTILE_BIND(member, symbol, args)                                                                   \
  if (!bind(library, #symbol, call.member) && !missing)                                                      \
    missing = #symbol;
  SECTILE_CUDA_FUNCTIONS(SECTILE_BIND)
#undef SECTILE_BIND
  if (missing) {
    out.tooOld = true;
    out.why = fmt::format("the CUDA driver library {} has no {}: the driver is too old", path, missing);
    return;
  }
  out.driver.version = version;
  CuResult result = call.init(0);
  if (result == cuSuccess)
    result = call.deviceGetCount(&out.driver.deviceCount);
  if (result == cuErrorNoDevice || (result == cuSuccess && out.driver.deviceCount == 0)) {
    out.why = "the CUDA driver sees no GPU";
    return;
  }
  if (result != cuSuccess) {
    out.why = "the CUDA driver does not start: " + out.driver.describe(result);
    return;
  }
  out.usable = true;
}

const Opened &openOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed: buffers and streams may outlive every static object of this library.
    auto *o = new Opened;
    open(*o);
    pthread_atfork(nullptr, nullptr, [] { forkedAfterOpen.store(true, std::memory_order_relaxed); });
    opened.store(o, std::memory_order_release);
  });
  return *opened.load(std::memory_order_acquire);
}

} // namespace

const Driver *Driver::tryGet(std::string *why) noexcept {
  try {
    const Opened &o = openOnce();
    if (!o.usable) {
      if (why)
        *why = o.why;
      return nullptr;
    }
    if (forkedAfterOpen.load(std::memory_order_relaxed)) {
      if (why)
        *why = "this process was forked after its parent first used a GPU, and CUDA does not survive that";
      return nullptr;
    }
    return &o.driver;
  } catch (...) {
    return nullptr;
  }
}

const Driver &Driver::get(std::source_location loc) {
  if (const Driver *driver = ifOpen()) // every launch passes here
    return *driver;
  std::string why;
  if (const Driver *driver = tryGet(&why))
    return *driver;
  const Opened &o = openOnce();
  const char *rule = "no_gpu",
             *wayOut = "install the NVIDIA driver, or use Device::best() or Device::interpreter()";
  if (o.tooOld) {
    rule = "driver_too_old";
    wayOut = "update the NVIDIA driver, or use Device::interpreter()";
  } else if (o.usable) {
    rule = "forked_after_use";
    wayOut = "fork before the first use of a GPU, or use the GPU in the children alone";
  }
  throw UserError({.loc = loc,
                   .kernel = {},
                   .op = "Device",
                   .message = "no usable GPU: " + why,
                   .rule = rule,
                   .wayOut = wayOut});
}

const Driver *Driver::ifOpen() noexcept {
  const Opened *o = opened.load(std::memory_order_acquire);
  return o && o->usable && !forkedAfterOpen.load(std::memory_order_relaxed) ? &o->driver : nullptr;
}

std::string Driver::describe(CuResult result) const {
  const char *name = nullptr, *text = nullptr;
  if (call.getErrorName)
    call.getErrorName(result, &name);
  if (call.getErrorString)
    call.getErrorString(result, &text);
  return fmt::format("{} ({}): {}", name ? name : "unknown CUDA error", result, text ? text : "no text");
}

void Driver::check(CuResult result, std::string_view function) const {
  if (result != cuSuccess)
    throw InternalError(fmt::format("{} failed with {}", function, describe(result)));
}

bool isStickyFault(CuResult result) {
  // CUDA_ERROR_ECC_UNCORRECTABLE, NVLINK_UNCORRECTABLE, CONTAINED; ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, ASSERT;
  // HARDWARE_STACK_ERROR to LAUNCH_FAILED; TENSOR_MEMORY_LEAK; EXTERNAL_DEVICE.
  return result == 214 || result == 220 || result == 226 || result == 700 || result == 702 || result == 710 ||
         (result >= 714 && result <= 719) || result == 721 || result == 911;
}

ContextScope::ContextScope(const Driver &driver, CuContext context) : driver(driver) {
  CuContext current = nullptr;
  if (driver.call.ctxGetCurrent(&current) == cuSuccess && current == context)
    return;
  CuResult result = driver.call.ctxPushCurrent(context);
  pushed = result == cuSuccess;
  if (!isStickyFault(result)) // else the call that this scope is for meets the fault too, and names it
    driver.check(result, "cuCtxPushCurrent");
}

ContextScope::~ContextScope() {
  CuContext popped;
  if (pushed)
    driver.call.ctxPopCurrent(&popped);
}

RelaxedCaptureScope::RelaxedCaptureScope(const Driver &driver) : driver(driver), mode(cuCaptureModeRelaxed) {
  CuResult result = driver.call.threadExchangeCaptureMode(&mode);
  if (!isStickyFault(result))
    driver.check(result, "cuThreadExchangeStreamCaptureMode");
}

RelaxedCaptureScope::~RelaxedCaptureScope() { driver.call.threadExchangeCaptureMode(&mode); }

} // namespace sectile::runtime
