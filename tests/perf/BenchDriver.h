// SPDX-License-Identifier: Apache-2.0
/// \file The CUDA driver as the benchmark itself uses it, beside the library under test: events, bare
/// launches, graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace bench {

/// CUlaunchConfig as the driver's ABI fixes it.
struct LaunchConfig {
  unsigned gridX = 1, gridY = 1, gridZ = 1, blockX = 1, blockY = 1, blockZ = 1, sharedBytes = 0;
  CUstream_st *stream = nullptr;
  void *attributes = nullptr;
  unsigned numAttributes = 0;
};
static_assert(offsetof(LaunchConfig, stream) == 32 && sizeof(LaunchConfig) == 56);

#define BENCH_CUDA_FUNCTIONS(X)                                                                              \
  X(cuInit, cuInit, (unsigned))                                                                              \
  X(cuGetErrorName, cuGetErrorName, (int, const char **))                                                    \
  X(cuDeviceGet, cuDeviceGet, (int *, int))                                                                  \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUctx_st **, int))                                  \
  X(cuCtxSetCurrent, cuCtxSetCurrent, (CUctx_st *))                                                          \
  X(cuModuleLoadData, cuModuleLoadData, (CUmod_st **, const void *))                                         \
  X(cuModuleGetFunction, cuModuleGetFunction, (CUfunc_st **, CUmod_st *, const char *))                      \
  X(cuLaunchKernelEx, cuLaunchKernelEx, (const LaunchConfig *, CUfunc_st *, void **, void **))               \
  X(cuStreamSynchronize, cuStreamSynchronize, (CUstream_st *))                                               \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (std::uint64_t, std::uint64_t, std::size_t, CUstream_st *))     \
  X(cuEventCreate, cuEventCreate, (CUevent_st **, unsigned))                                                 \
  X(cuEventDestroy, cuEventDestroy_v2, (CUevent_st *))                                                       \
  X(cuEventRecord, cuEventRecord, (CUevent_st *, CUstream_st *))                                             \
  X(cuEventElapsedTime, cuEventElapsedTime, (float *, CUevent_st *, CUevent_st *))                           \
  X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream_st *, int))                                     \
  X(cuStreamEndCapture, cuStreamEndCapture, (CUstream_st *, CUgraph_st **))                                  \
  X(cuGraphInstantiate, cuGraphInstantiateWithFlags, (CUgraphExec_st **, CUgraph_st *, unsigned long long))  \
  X(cuGraphLaunch, cuGraphLaunch, (CUgraphExec_st *, CUstream_st *))                                         \
  X(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec_st *))                                              \
  X(cuGraphDestroy, cuGraphDestroy, (CUgraph_st *))

/// The functions, by their names; device 0's primary context is current on the thread that constructs it.
struct Driver {
  /// Throws std::runtime_error when the driver cannot be opened or lacks a function.
  Driver();
#define BENCH_DECLARE(member, symbol, args) int(*member) args = nullptr;
  BENCH_CUDA_FUNCTIONS(BENCH_DECLARE)
#undef BENCH_DECLARE
  /// Throws std::runtime_error naming `what` unless `result` is 0.
  void check(int result, const char *what) const;
};

/// A pair of events around work on a stream.
class EventPair {
public:
  explicit EventPair(const Driver &driver);
  EventPair(EventPair &&other) noexcept;
  EventPair(const EventPair &) = delete;
  ~EventPair();
  void begin(CUstream_st *stream);
  void end(CUstream_st *stream);
  /// Milliseconds; the stream has been synchronised.
  double millis() const;

private:
  const Driver *driver;
  CUevent_st *events[2] = {nullptr, nullptr};
};

/// A kernel of PTX text that the benchmark launches itself.
struct BareKernel {
  CUfunc_st *function = nullptr;
  unsigned threads = 0; ///< of .reqntid; 0 when the text has none
  int parameters = 0;   ///< number of .param of the entry
};
/// Loads the first entry of the text.
BareKernel loadKernel(const Driver &driver, const std::string &ptx);

} // namespace bench
