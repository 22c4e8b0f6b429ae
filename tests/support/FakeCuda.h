// SPDX-License-Identifier: Apache-2.0
/// \file What the fake CUDA driver (FakeCuda.cpp, opened through SECTILE_CUDA_LIBRARY) lets a test see and
/// steer.
///
/// Environment, read at every call, so that a test may change it:
///   FAKECUDA_VERSION   what cuDriverGetVersion says (13000)
///   FAKECUDA_DEVICES   number of GPUs (1), each with 132 SMs
///   FAKECUDA_MAJOR     their compute capability, before ".0" (9)
///   FAKECUDA_FAIL      comma-separated function=code: that function returns that code. `cubin` and `ptx`
///   stand for
///                      cuModuleLoadDataEx of an image that starts with the byte 0x7f, or with another
///   FAKECUDA_FREE      bytes of free memory (1 << 30); cuMemAlloc beyond it is out of memory
///   FAKECUDA_CAPTURE   N: every stream is capturing, as capture number N
///   FAKECUDA_MANAGED   1: all memory is managed
///   FAKECUDA_THREADS   most threads per block of every function (1024)
///   FAKECUDA_IMAGES    file to which each cuModuleLoadDataEx appends a line: bytes and hash of the image
///   FAKECUDA_SHARED    bytes of shared memory that a block of a GPU can have (232448)
///   FAKECUDA_BLOCK_THREADS  most threads per block of a GPU (1024)
///   FAKECUDA_STATIC_SHARED  bytes of shared memory that every function takes of itself (0)
#pragma once

#include <cstddef>
#include <cstdint>

/// What cuTensorMapEncodeTiled writes here: its arguments.
struct FakeTensorMap {
  void *address;
  std::uint64_t strides[4]; ///< bytes, from the second axis on
  std::uint32_t dims[5];
  std::uint16_t box[5];
  int type, rank, swizzle;
};

struct FakeCudaState {
  int inits;              ///< calls of cuInit
  int launches;           ///< kernels that were launched
  int modulesLoaded;      ///< modules that are loaded now
  int loads;              ///< calls of cuModuleLoadDataEx
  int streams;            ///< streams that exist now
  int events;             ///< events that exist now
  int liveAllocations;    ///< allocations that exist now
  int pointerQueries;     ///< calls of cuPointerGetAttributes
  int synchronizations;   ///< calls of cuCtxSynchronize
  int relaxedLoads;       ///< modules loaded with the thread's capture mode relaxed
  int dynamicSharedBytes; ///< last cuFuncSetAttribute of that attribute
  // The last launch:
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void *stream;
  void *contextAtLaunch; ///< the current context of the thread
  void *functionContext; ///< the context that the function was loaded in
  int encodedMaps; ///< calls of cuTensorMapEncodeTiled
  long long setBytes; ///< by cuMemsetD8Async
  std::size_t paramBytes;
  unsigned char params[4096];
};

/// The functions that the library adds to the driver's: `fakeCudaState` and `fakeCudaCreateContext`.
using FakeCudaStateFn = FakeCudaState *();
/// A context of GPU `device` that is not its primary one; not made current.
using FakeCudaCreateContextFn = void *(int device);
