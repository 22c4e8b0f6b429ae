// SPDX-License-Identifier: Apache-2.0
/// \file The CUDA driver, opened at first use. No CUDA header: the few types and numbers that are needed are
/// declared here as the driver's ABI fixes them.
#pragma once

#include <sectile/Error.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;

namespace sectile::runtime {

using CuResult = int;
using CuDevice = int;
using CuDevicePtr = std::uint64_t;
using CuContext = ::CUctx_st *;
using CuModule = ::CUmod_st *;
using CuFunction = ::CUfunc_st *;
using CuStream = ::CUstream_st *;
using CuEvent = ::CUevent_st *;

/// Result codes that the runtime treats in their own way.
enum : CuResult {
  cuSuccess = 0,
  cuErrorOutOfMemory = 2,
  cuErrorDeinitialized = 4,
  cuErrorDeviceUnavailable = 46,
  cuErrorNoDevice = 100,
  cuErrorInvalidImage = 200,
  cuErrorNoBinaryForGpu = 209,
  cuErrorInvalidPtx = 218,
  cuErrorUnsupportedPtxVersion = 222,
  cuErrorLaunchOutOfResources = 701,
};

/// CUdevice_attribute
enum : int {
  cuAttrMaxThreadsPerBlock = 1,
  cuAttrWarpSize = 10,
  cuAttrMaxRegistersPerBlock = 12,
  cuAttrClockRateKHz = 13,
  cuAttrMultiprocessorCount = 16,
  cuAttrL2CacheBytes = 38,
  cuAttrMaxThreadsPerMultiprocessor = 39,
  cuAttrComputeMajor = 75,
  cuAttrComputeMinor = 76,
  cuAttrSharedBytesPerMultiprocessor = 81,
  cuAttrRegistersPerMultiprocessor = 82,
  cuAttrSharedBytesPerBlockOptin = 97,
};
/// CUfunction_attribute
enum : int {
  cuFuncMaxThreadsPerBlock = 0,
  cuFuncSharedBytes = 1,
  cuFuncLocalBytes = 3,
  cuFuncNumRegs = 4,
  cuFuncMaxDynamicSharedBytes = 8
};
/// CUpointer_attribute
enum : int { cuPtrMemoryType = 2, cuPtrIsManaged = 8, cuPtrDeviceOrdinal = 9 };
/// CUmemorytype; 0 means an address that the driver does not know.
enum : unsigned { cuMemoryUnknown = 0, cuMemoryHost = 1, cuMemoryDevice = 2 };
/// CUjit_option
enum : int { cuJitInfoLog = 3, cuJitInfoLogBytes = 4, cuJitErrorLog = 5, cuJitErrorLogBytes = 6 };
/// CUstreamCaptureStatus, CUstreamCaptureMode
enum : int { cuCaptureNone = 0, cuCaptureModeRelaxed = 2 };
/// CUstream_flags
enum : unsigned { cuStreamNonBlocking = 1 };
/// Keys of cuLaunchKernel's `extra` array.
inline constexpr std::uintptr_t cuLaunchParamEnd = 0, cuLaunchParamPointer = 1, cuLaunchParamSize = 2;

/// The driver functions in use: X(member, exported symbol, arguments). The symbol carries the version whose
/// signature is declared.
#define SECTILE_CUDA_FUNCTIONS(X)                                                                            \
  X(init, cuInit, (unsigned))                                                                                \
  X(driverGetVersion, cuDriverGetVersion, (int *))                                                           \
  X(getErrorName, cuGetErrorName, (CuResult, const char **))                                                 \
  X(getErrorString, cuGetErrorString, (CuResult, const char **))                                             \
  X(deviceGetCount, cuDeviceGetCount, (int *))                                                               \
  X(deviceGet, cuDeviceGet, (CuDevice *, int))                                                               \
  X(deviceGetName, cuDeviceGetName, (char *, int, CuDevice))                                                 \
  X(deviceGetAttribute, cuDeviceGetAttribute, (int *, int, CuDevice))                                        \
  X(deviceTotalMem, cuDeviceTotalMem_v2, (std::size_t *, CuDevice))                                          \
  X(primaryCtxRetain, cuDevicePrimaryCtxRetain, (CuContext *, CuDevice))                                     \
  X(ctxGetCurrent, cuCtxGetCurrent, (CuContext *))                                                           \
  X(ctxPushCurrent, cuCtxPushCurrent_v2, (CuContext))                                                        \
  X(ctxPopCurrent, cuCtxPopCurrent_v2, (CuContext *))                                                        \
  X(ctxGetDevice, cuCtxGetDevice, (CuDevice *))                                                              \
  X(ctxGetId, cuCtxGetId, (CuContext, unsigned long long *))                                                 \
  X(ctxSynchronize, cuCtxSynchronize, ())                                                                    \
  X(memGetInfo, cuMemGetInfo_v2, (std::size_t *, std::size_t *))                                             \
  X(memAlloc, cuMemAlloc_v2, (CuDevicePtr *, std::size_t))                                                   \
  X(memFree, cuMemFree_v2, (CuDevicePtr))                                                                    \
  X(memcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CuDevicePtr, const void *, std::size_t, CuStream))               \
  X(memcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *, CuDevicePtr, std::size_t, CuStream))                     \
  X(memsetD8Async, cuMemsetD8Async, (CuDevicePtr, unsigned char, std::size_t, CuStream))                     \
  X(pointerGetAttributes, cuPointerGetAttributes, (unsigned, int *, void **, CuDevicePtr))                   \
  X(streamCreate, cuStreamCreate, (CuStream *, unsigned))                                                    \
  X(streamDestroy, cuStreamDestroy_v2, (CuStream))                                                           \
  X(streamSynchronize, cuStreamSynchronize, (CuStream))                                                      \
  X(streamGetCtx, cuStreamGetCtx, (CuStream, CuContext *))                                                   \
  X(streamIsCapturing, cuStreamIsCapturing, (CuStream, int *))                                               \
  X(streamGetId, cuStreamGetId, (CuStream, unsigned long long *))                                            \
  X(streamGetCaptureInfo, cuStreamGetCaptureInfo_v2,                                                         \
    (CuStream, int *, unsigned long long *, void **, const void **, std::size_t *))                          \
  X(threadExchangeCaptureMode, cuThreadExchangeStreamCaptureMode, (int *))                                   \
  X(eventCreate, cuEventCreate, (CuEvent *, unsigned))                                                       \
  X(eventDestroy, cuEventDestroy_v2, (CuEvent))                                                              \
  X(eventRecord, cuEventRecord, (CuEvent, CuStream))                                                         \
  X(eventSynchronize, cuEventSynchronize, (CuEvent))                                                         \
  X(eventElapsedTime, cuEventElapsedTime, (float *, CuEvent, CuEvent))                                       \
  X(moduleLoadDataEx, cuModuleLoadDataEx, (CuModule *, const void *, unsigned, int *, void **))              \
  X(moduleUnload, cuModuleUnload, (CuModule))                                                                \
  X(moduleGetFunction, cuModuleGetFunction, (CuFunction *, CuModule, const char *))                          \
  X(funcGetAttribute, cuFuncGetAttribute, (int *, int, CuFunction))                                          \
  X(funcSetAttribute, cuFuncSetAttribute, (CuFunction, int, int))                                            \
  X(tensorMapEncodeTiled, cuTensorMapEncodeTiled,                                                            \
    (void *, int, unsigned, void *, const std::uint64_t *, const std::uint64_t *, const std::uint32_t *,     \
     const std::uint32_t *, int, int, int, int))                                                             \
  X(launchKernel, cuLaunchKernel,                                                                            \
    (CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CuStream, void **,    \
     void **))

/// The driver functions, by name without the prefix.
struct DriverApi {
#define SECTILE_DECLARE(member, symbol, args) CuResult(*member) args = nullptr;
  SECTILE_CUDA_FUNCTIONS(SECTILE_DECLARE)
#undef SECTILE_DECLARE
};

/// The oldest driver that is accepted, as cuDriverGetVersion writes it: 12.0.
inline constexpr int minDriverVersion = 12000;

/// The opened driver. One per process, opened by the first `get` or `tryGet`, kept to the end.
class Driver {
public:
  /// The driver, or null when there is none, it is too old, it fails to start, no GPU is there, or this
  /// process was forked after its parent opened the driver. Never throws. `why`, when given, receives the
  /// reason.
  static const Driver *tryGet(std::string *why = nullptr) noexcept;
  /// The driver. UserError [no_gpu] with the reason when `tryGet` gives null.
  static const Driver &get(std::source_location loc = std::source_location::current());
  /// The driver when it is already open and usable in this process, else null. For destructors.
  static const Driver *ifOpen() noexcept;

  DriverApi call;
  int version = 0;     ///< major * 1000 + minor * 10
  int deviceCount = 0; ///< at least 1

  /// `CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered`
  std::string describe(CuResult result) const;
  /// InternalError naming the function unless `result` is success. For calls that only a bug of ours can
  /// fail; the callers name everything else.
  void check(CuResult result, std::string_view function) const;
};

/// True for the results after which the context of the device is lost.
bool isStickyFault(CuResult result);

/// Makes a context current for the life of the scope; the caller's own is current again afterwards.
class ContextScope {
public:
  ContextScope(const Driver &driver, CuContext context);
  ~ContextScope();
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;

private:
  const Driver &driver;
  bool pushed = false;
};

/// Lets this thread call what stream capture elsewhere in the process would forbid (loading code,
/// allocating).
class RelaxedCaptureScope {
public:
  explicit RelaxedCaptureScope(const Driver &driver);
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope &) = delete;
  RelaxedCaptureScope &operator=(const RelaxedCaptureScope &) = delete;

private:
  const Driver &driver;
  int mode;
};

} // namespace sectile::runtime
