// SPDX-License-Identifier: Apache-2.0
#include "runtime/Module.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace sectile::runtime {
namespace {

UserError error(const char *kernel, std::source_location loc, std::string message, const char *rule,
                std::string wayOut) {
  return UserError({.loc = loc,
                    .kernel = kernel,
                    .op = "launch",
                    .message = std::move(message),
                    .rule = rule,
                    .wayOut = std::move(wayOut)});
}

/// Loads an image (a cubin or zero-terminated PTX) into the current context; `log` receives what the driver's
/// assembler said.
CuResult loadImage(const Driver &driver, const std::string &image, CuModule &module, std::string &log) {
  std::array<char, 8192> errorLog{}, infoLog{};
  std::array<int, 4> options = {cuJitErrorLog, cuJitErrorLogBytes, cuJitInfoLog, cuJitInfoLogBytes};
  std::array<void *, 4> values = {errorLog.data(), reinterpret_cast<void *>(errorLog.size()), infoLog.data(),
                                  reinterpret_cast<void *>(infoLog.size())};
  CuResult result =
      driver.call.moduleLoadDataEx(&module, image.c_str(), options.size(), options.data(), values.data());
  errorLog.back() = infoLog.back() = 0;
  log = errorLog.data();
  if (infoLog[0])
    log += (log.empty() ? "" : "\n") + std::string(infoLog.data());
  return result;
}

bool isRefusedImage(CuResult r) {
  return r == cuErrorInvalidImage || r == cuErrorNoBinaryForGpu || r == cuErrorInvalidPtx ||
         r == cuErrorUnsupportedPtxVersion || r == 221 ||
         r == 223; // JIT_COMPILER_NOT_FOUND, JIT_COMPILATION_DISABLED
}

/// Refuses limits that no launch on this device can meet, before anything is loaded.
void checkLimits(const char *kernel, const Artifact &a, const detail::DeviceImpl &d,
                 std::source_location loc) {
  if (a.arch != d.arch)
    throw InternalError(fmt::format("kernel {}: the code is for {} and GPU {} ({}) runs {}", kernel, a.arch, d.ordinal,
                                    d.name, d.arch));
  if (a.launch.sharedBytes > d.properties.sharedBytesPerBlock)
    throw error(kernel, loc,
                fmt::format("the tiles need {} bytes of shared memory per block and GPU {} has {}",
                            a.launch.sharedBytes, d.ordinal, d.properties.sharedBytesPerBlock),
                "launch_limits", "use smaller tiles or fewer stages");
  if (a.launch.threads > d.properties.maxThreadsPerBlock)
    throw error(kernel, loc,
                fmt::format("the schedule has {} threads per block and GPU {} allows {}", a.launch.threads,
                            d.ordinal, d.properties.maxThreadsPerBlock),
                "launch_limits", "use fewer warps");
}

} // namespace

Module::Module(std::string_view kernel, std::shared_ptr<const Artifact> artifact)
    : kernelName(internName(kernel)), code(std::move(artifact)) {
  static std::atomic<std::uint64_t> modules{0};
  number = ++modules;
  for (const TensorMap &map : code->launch.maps) {
    std::vector<LaunchExpr> &of = limits.emplace_back();
    for (const std::string &text : map.limits) {
      auto limit = LaunchExpr::parse(text);
      if (!limit)
        throw InternalError(fmt::format("kernel {}: the limit \"{}\" of a tensor map is no expression", kernelName, text));
      of.push_back(std::move(*limit));
    }
  }
}

const Module::Loaded &Module::loadSlow(const detail::StreamImpl &stream, std::source_location loc) {
  std::lock_guard lock(loading);
  for (const Loaded *l = first.load(std::memory_order_acquire); l; l = l->next)
    if (l->context == stream.context && l->contextId == stream.contextId)
      return *l;
  const detail::DeviceImpl &d = *stream.device.handle();
  checkLimits(kernelName, *code, d, loc);
  const Driver &driver = d.driver(loc);
  ContextScope scope(driver, stream.context);
  RelaxedCaptureScope relaxed(driver);

  auto loaded = std::make_unique<Loaded>();
  loaded->context = stream.context;
  loaded->contextId = stream.contextId;
  std::string log;
  CuResult result = cuErrorInvalidImage;
  if (!code->cubin.empty())
    result = loadImage(driver, code->cubin, loaded->module, log);
  if (isRefusedImage(result) && !code->ptx.empty()) {
    std::string ptxLog;
    result = loadImage(driver, code->ptx, loaded->module, ptxLog);
    log += (log.empty() || ptxLog.empty() ? "" : "\n") + ptxLog;
  }
  if (isRefusedImage(result))
    throw error(kernelName, loc,
                fmt::format("the driver refuses the code for {}: {}{}{}", code->arch, driver.describe(result),
                            log.empty() ? "" : "; its assembler says: ", log),
                "load_failed",
                "update the NVIDIA driver, or set SECTILE_PTXAS to the ptxas of a toolkit it supports");
  d.check(result, "cuModuleLoadDataEx", "launch", loc);

  // From here on the driver's module must go when something fails.
  struct Unload {
    const Driver &driver;
    CuModule module;
    ~Unload() {
      if (module)
        driver.call.moduleUnload(module);
    }
  } unload{driver, loaded->module};
  driver.check(driver.call.moduleGetFunction(&loaded->function, loaded->module, code->launch.symbol.c_str()),
               fmt::format("cuModuleGetFunction({})", code->launch.symbol));
  auto attribute = [&](int which) {
    int value = 0;
    driver.check(driver.call.funcGetAttribute(&value, which, loaded->function), "cuFuncGetAttribute");
    return value;
  };
  loaded->registers = attribute(cuFuncNumRegs);
  loaded->localBytes = attribute(cuFuncLocalBytes);
  loaded->maxThreadsPerBlock = attribute(cuFuncMaxThreadsPerBlock);
  std::int64_t sharedBytes = attribute(cuFuncSharedBytes) + code->launch.sharedBytes;
  if (sharedBytes > d.properties.sharedBytesPerBlock)
    throw error(kernelName, loc,
                fmt::format("the code needs {} bytes of shared memory per block and GPU {} has {}",
                            sharedBytes, d.ordinal, d.properties.sharedBytesPerBlock),
                "launch_limits", "use smaller tiles or fewer stages");
  if (code->launch.threads > loaded->maxThreadsPerBlock)
    throw error(
        kernelName, loc,
        fmt::format("the schedule has {} threads per block and its {} registers per thread leave room for {}",
                    code->launch.threads, loaded->registers, loaded->maxThreadsPerBlock),
        "launch_limits", "use smaller tiles or fewer warps");
  if (code->launch.sharedBytes > 0)
    driver.check(driver.call.funcSetAttribute(loaded->function, cuFuncMaxDynamicSharedBytes,
                                              static_cast<int>(code->launch.sharedBytes)),
                 "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
  unload.module = nullptr;
  loaded->next = first.load(std::memory_order_relaxed);
  first.store(loaded.get(), std::memory_order_release);
  return *loaded.release();
}

Module::~Module() {
  const Driver *driver = isPinned() ? nullptr : Driver::ifOpen();
  for (const Loaded *l = first.load(std::memory_order_acquire); l;) {
    if (driver) {
      // A destructor has nobody to tell. A context that is gone took its code along; one that cannot be
      // waited for (a capture is going on, or it has faulted) keeps it.
      try {
        unsigned long long id = 0;
        if (driver->call.ctxGetId(l->context, &id) == cuSuccess && id == l->contextId) {
          ContextScope scope(*driver, l->context);
          RelaxedCaptureScope relaxed(*driver);
          if (driver->call.ctxSynchronize() == cuSuccess)
            driver->call.moduleUnload(l->module);
        }
      } catch (const InternalError &) {
      }
    }
    delete std::exchange(l, l->next);
  }
}

} // namespace sectile::runtime
