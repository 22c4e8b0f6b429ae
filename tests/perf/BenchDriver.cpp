// SPDX-License-Identifier: Apache-2.0
#include "tests/perf/BenchDriver.h"

#include <fmt/format.h>

#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <utility>

namespace bench {

Driver::Driver() {
  const char *name = std::getenv("SECTILE_CUDA_LIBRARY");
  void *library = dlopen(name && *name ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error(fmt::format("the CUDA driver cannot be opened: {}", dlerror()));
#define BENCH_LOAD(member, symbol, args)                                                                     \
  member = reinterpret_cast<int(*) args>(dlsym(library, #symbol));                                           \
  if (!member)                                                                                               \
    throw std::runtime_error("the CUDA driver has no " #symbol);
  BENCH_CUDA_FUNCTIONS(BENCH_LOAD)
#undef BENCH_LOAD
  int device = 0;
  CUctx_st *context = nullptr;
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

void Driver::check(int result, const char *what) const {
  if (result == 0)
    return;
  const char *name = nullptr;
  cuGetErrorName(result, &name);
  throw std::runtime_error(fmt::format("{}: {} ({})", what, name ? name : "unknown error", result));
}

EventPair::EventPair(const Driver &driver) : driver(&driver) {
  for (CUevent_st *&event : events)
    driver.check(driver.cuEventCreate(&event, 0), "cuEventCreate");
}
EventPair::EventPair(EventPair &&other) noexcept : driver(other.driver) {
  std::swap(events[0], other.events[0]);
  std::swap(events[1], other.events[1]);
}
EventPair::~EventPair() {
  for (CUevent_st *event : events)
    if (event)
      driver->cuEventDestroy(event);
}
void EventPair::begin(CUstream_st *stream) {
  driver->check(driver->cuEventRecord(events[0], stream), "cuEventRecord");
}
void EventPair::end(CUstream_st *stream) {
  driver->check(driver->cuEventRecord(events[1], stream), "cuEventRecord");
}
double EventPair::millis() const {
  float ms = 0;
  driver->check(driver->cuEventElapsedTime(&ms, events[0], events[1]), "cuEventElapsedTime");
  return ms;
}

BareKernel loadKernel(const Driver &driver, const std::string &ptx) {
  BareKernel kernel;
  constexpr std::string_view entry = ".entry ";
  std::size_t at = ptx.find(entry), open = ptx.find('(', at);
  if (at == std::string::npos || open == std::string::npos)
    throw std::runtime_error("the PTX has no entry");
  std::string name = ptx.substr(at + entry.size(), open - at - entry.size());
  name.erase(name.find_last_not_of(" \t\n") + 1);
  std::size_t body = ptx.find('{', open), close = ptx.find(')', open);
  for (std::size_t p = ptx.find(".param", open); p < close; p = ptx.find(".param", p + 1))
    ++kernel.parameters;
  constexpr std::string_view threads = ".reqntid ";
  if (std::size_t p = ptx.find(threads, close); p < body)
    kernel.threads = static_cast<unsigned>(std::strtoul(ptx.c_str() + p + threads.size(), nullptr, 10));
  CUmod_st *module = nullptr; // stays loaded to the end of the process
  driver.check(driver.cuModuleLoadData(&module, ptx.c_str()), "cuModuleLoadData");
  driver.check(driver.cuModuleGetFunction(&kernel.function, module, name.c_str()), "cuModuleGetFunction");
  return kernel;
}

} // namespace bench
