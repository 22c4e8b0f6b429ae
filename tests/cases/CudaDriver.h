// SPDX-License-Identifier: Apache-2.0
/// \file The CUDA driver as a program beside the library uses it: captures, graphs, its own launches, memory
/// in use.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace cases {

/// Functions of libcuda by name. Everything is looked up at first use.
class CudaDriver {
public:
  CudaDriver() : library(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (!library)
      throw std::runtime_error("libcuda.so.1 cannot be opened");
    // Graphs and memory figures are those of the calling thread's current context, and Sectile leaves none current.
    void *context = nullptr;
    (*this)("cuInit", 0u);
    (*this)("cuDevicePrimaryCtxRetain", &context, 0);
    (*this)("cuCtxSetCurrent", context);
  }
  /// Calls `name`; throws with its name unless it returns 0.
  template <class... A> void operator()(const char *name, A... args) const {
    if (int result = status(name, args...))
      throw std::runtime_error(std::string(name) + " returned " + std::to_string(result));
  }
  template <class... A> int status(const char *name, A... args) const {
    auto *function = reinterpret_cast<int (*)(A...)>(dlsym(library, name));
    if (!function)
      throw std::runtime_error(std::string(name) + " is not in libcuda.so.1");
    return function(args...);
  }
  std::size_t freeBytes() const {
    std::size_t free = 0, total = 0;
    (*this)("cuMemGetInfo_v2", &free, &total);
    return free;
  }

private:
  void *library;
};

/// Captures what `work` puts on the stream; replays it.
class DriverGraph {
public:
  template <class F> DriverGraph(const CudaDriver &cuda, void *stream, F work) : cuda(cuda), stream(stream) {
    constexpr int threadLocal = 1;
    cuda("cuStreamBeginCapture_v2", stream, threadLocal);
    try {
      work();
    } catch (...) {
      cuda.status("cuStreamEndCapture", stream, &graph);
      destroy();
      throw;
    }
    cuda("cuStreamEndCapture", stream, &graph);
    cuda("cuGraphInstantiateWithFlags", &exec, graph, 0ull);
  }
  ~DriverGraph() { destroy(); }
  DriverGraph(const DriverGraph &) = delete;
  DriverGraph &operator=(const DriverGraph &) = delete;
  void launch() { launch(stream); }
  void launch(void *on) { cuda("cuGraphLaunch", exec, on); }

private:
  void destroy() {
    if (exec)
      cuda.status("cuGraphExecDestroy", exec);
    if (graph)
      cuda.status("cuGraphDestroy", graph);
  }
  const CudaDriver &cuda;
  void *stream;
  void *graph = nullptr, *exec = nullptr;
};

} // namespace cases
