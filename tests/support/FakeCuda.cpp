// SPDX-License-Identifier: Apache-2.0
/// \file A CUDA driver for machines without a GPU: keeps contexts, memory, streams and modules as the real
/// one does, runs no kernel, and notes each launch. Device memory is host memory. See FakeCuda.h.
#include "tests/support/FakeCuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace {

using Result = int;
enum : Result {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  invalidDevice = 101,
  invalidImage = 200,
  invalidContext = 201,
  invalidHandle = 400,
  captureUnsupported = 900,
  notFound = 500
};

struct Context {
  int device;
  unsigned long long id;
};
struct Stream {
  Context *context;
  unsigned long long id;
};
struct Module {
  Context *context;
};
struct Event {
  Context *context;
  bool recorded = false;
};
struct Allocation {
  std::size_t bytes;
  int device;
};

std::recursive_mutex mutex;
FakeCudaState state;
std::map<int, Context *> primaries;
std::map<std::uintptr_t, Allocation> allocations;
std::set<Stream *> streams;
std::set<Module *> modules;
unsigned long long nextContextId = 1, nextStreamId = 3;
thread_local std::vector<Context *> current;
thread_local int captureMode = 0;

long number(const char *name, long unset) {
  const char *v = std::getenv(name);
  return v && *v ? std::atol(v) : unset;
}

/// The code that FAKECUDA_FAIL gives a function; success when it does not name it. Allocates nothing: a test
/// counts.
Result failure(const char *function) {
  const std::size_t length = std::strlen(function);
  for (const char *at = std::getenv("FAKECUDA_FAIL"); at && *at;) {
    if (std::strncmp(at, function, length) == 0 && at[length] == '=')
      return std::atoi(at + length + 1);
    const char *comma = std::strchr(at, ',');
    at = comma ? comma + 1 : nullptr;
  }
  return success;
}

/// Notes which image is loaded. One is text that ends in a zero, or an ELF file that says itself how long it is.
void noteImage(const unsigned char *image) {
  const char *path = std::getenv("FAKECUDA_IMAGES");
  if (!path)
    return;
  std::size_t bytes = std::strlen(reinterpret_cast<const char *>(image));
  if (*image == 0x7f) {
    Elf64_Ehdr header;
    std::memcpy(&header, image, sizeof header);
    bytes = header.e_shoff + std::size_t(header.e_shentsize) * header.e_shnum;
  }
  std::uint64_t hash = 14695981039346656037u;
  for (std::size_t i = 0; i < bytes; ++i)
    hash = (hash ^ image[i]) * 1099511628211u;
  if (std::FILE *log = std::fopen(path, "ae")) {
    std::fprintf(log, "%zu %016llx\n", bytes, static_cast<unsigned long long>(hash));
    std::fclose(log);
  }
}

Context *makeContext(int device) { return new Context{device, nextContextId++}; }
Context *now() { return current.empty() ? nullptr : current.back(); }
int deviceCount() { return static_cast<int>(number("FAKECUDA_DEVICES", 1)); }

#define FAKE(name, ...) extern "C" __attribute__((visibility("default"))) Result name(__VA_ARGS__)
#define ENTER(name)                                                                                          \
  std::lock_guard lock(mutex);                                                                               \
  if (Result r = failure(#name))                                                                             \
    return r;
#define ENTER_IN_CONTEXT(name)                                                                               \
  ENTER(name)                                                                                                \
  if (!now())                                                                                                \
    return invalidContext;

} // namespace

extern "C" __attribute__((visibility("default"))) FakeCudaState *fakeCudaState() { return &state; }
extern "C" __attribute__((visibility("default"))) void *fakeCudaCreateContext(int device) {
  std::lock_guard lock(mutex);
  return makeContext(device);
}

FAKE(cuInit, unsigned) {
  ++state.inits;
  ENTER(cuInit)
  return success;
}
FAKE(cuDriverGetVersion, int *version) {
  *version = static_cast<int>(number("FAKECUDA_VERSION", 13000));
  return success;
}
FAKE(cuGetErrorName, Result code, const char **out) {
  *out = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return *out ? success : invalidValue;
}
FAKE(cuGetErrorString, Result code, const char **out) {
  *out = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : nullptr;
  return *out ? success : invalidValue;
}
FAKE(cuDeviceGetCount, int *count) {
  ENTER(cuDeviceGetCount)
  *count = deviceCount();
  return success;
}
FAKE(cuDeviceGet, int *device, int ordinal) {
  ENTER(cuDeviceGet)
  *device = ordinal;
  return ordinal >= 0 && ordinal < deviceCount() ? success : invalidDevice;
}
FAKE(cuDeviceGetName, char *name, int bytes, int) {
  std::strncpy(name, "Fake H200", bytes);
  return success;
}
FAKE(cuDeviceGetAttribute, int *value, int attribute, int) {
  ENTER(cuDeviceGetAttribute)
  static const std::map<int, int> values = {{10, 32},       {12, 65536}, {13, 1980000},
                                            {16, 132},    {38, 62914560}, {39, 2048},  {76, 0},
                                            {81, 233472}, {82, 65536}};
  if (attribute == 75) {
    *value = static_cast<int>(number("FAKECUDA_MAJOR", 9));
    return success;
  }
  if (attribute == 1 || attribute == 97) {
    *value = static_cast<int>(attribute == 1 ? number("FAKECUDA_BLOCK_THREADS", 1024) : number("FAKECUDA_SHARED", 232448));
    return success;
  }
  auto found = values.find(attribute);
  if (found == values.end())
    return invalidValue;
  *value = found->second;
  return success;
}
FAKE(cuDeviceTotalMem_v2, std::size_t *bytes, int) {
  *bytes = std::size_t(141) << 30;
  return success;
}
FAKE(cuDevicePrimaryCtxRetain, Context **context, int device) {
  ENTER(cuDevicePrimaryCtxRetain)
  Context *&primary = primaries[device];
  if (!primary)
    primary = makeContext(device);
  *context = primary;
  return success;
}
FAKE(cuCtxGetCurrent, Context **context) {
  *context = now();
  return success;
}
FAKE(cuCtxPushCurrent_v2, Context *context) {
  ENTER(cuCtxPushCurrent)
  current.push_back(context);
  return success;
}
FAKE(cuCtxPopCurrent_v2, Context **context) {
  if (current.empty())
    return invalidContext;
  *context = current.back();
  current.pop_back();
  return success;
}
FAKE(cuCtxGetDevice, int *device) {
  ENTER_IN_CONTEXT(cuCtxGetDevice)
  *device = now()->device;
  return success;
}
FAKE(cuCtxGetId, Context *context, unsigned long long *id) {
  ENTER(cuCtxGetId)
  *id = context->id;
  return success;
}
FAKE(cuCtxSynchronize) {
  ENTER_IN_CONTEXT(cuCtxSynchronize)
  ++state.synchronizations;
  return success;
}
FAKE(cuMemGetInfo_v2, std::size_t *freeBytes, std::size_t *totalBytes) {
  ENTER_IN_CONTEXT(cuMemGetInfo)
  *freeBytes = number("FAKECUDA_FREE", 1 << 30);
  *totalBytes = std::size_t(141) << 30;
  return success;
}
FAKE(cuMemAlloc_v2, std::uint64_t *address, std::size_t bytes) {
  ENTER_IN_CONTEXT(cuMemAlloc)
  if (bytes == 0)
    return invalidValue;
  if (bytes > static_cast<std::size_t>(number("FAKECUDA_FREE", 1 << 30)))
    return outOfMemory;
  void *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *address = reinterpret_cast<std::uintptr_t>(p);
  allocations[*address] = {bytes, now()->device};
  state.liveAllocations = static_cast<int>(allocations.size());
  return success;
}
FAKE(cuMemFree_v2, std::uint64_t address) {
  ENTER_IN_CONTEXT(cuMemFree)
  if (!allocations.erase(address))
    return invalidValue;
  std::free(reinterpret_cast<void *>(address));
  state.liveAllocations = static_cast<int>(allocations.size());
  return success;
}
FAKE(cuMemcpyHtoDAsync_v2, std::uint64_t to, const void *from, std::size_t bytes, Stream *) {
  ENTER_IN_CONTEXT(cuMemcpyHtoDAsync)
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return success;
}
FAKE(cuMemcpyDtoHAsync_v2, void *to, std::uint64_t from, std::size_t bytes, Stream *) {
  ENTER_IN_CONTEXT(cuMemcpyDtoHAsync)
  std::memcpy(to, reinterpret_cast<void *>(from), bytes);
  return success;
}
FAKE(cuMemsetD8Async, std::uint64_t to, unsigned char value, std::size_t bytes, Stream *) {
  ENTER_IN_CONTEXT(cuMemsetD8Async)
  std::memset(reinterpret_cast<void *>(to), value, bytes);
  state.setBytes += static_cast<long long>(bytes);
  return success;
}
FAKE(cuPointerGetAttributes, unsigned count, int *attributes, void **values, std::uint64_t address) {
  ++state.pointerQueries;
  ENTER_IN_CONTEXT(cuPointerGetAttributes)
  auto at = allocations.upper_bound(address);
  bool known = at != allocations.begin() && address < std::prev(at)->first + std::prev(at)->second.bytes;
  for (unsigned i = 0; i < count; ++i)
    if (attributes[i] == 2)
      *static_cast<unsigned *>(values[i]) = known ? 2 : 0;
    else if (attributes[i] == 8)
      *static_cast<unsigned char *>(values[i]) = known && number("FAKECUDA_MANAGED", 0);
    else if (attributes[i] == 9)
      *static_cast<int *>(values[i]) = known ? std::prev(at)->second.device : -2;
    else
      return invalidValue;
  return success;
}
FAKE(cuStreamCreate, Stream **stream, unsigned) {
  ENTER_IN_CONTEXT(cuStreamCreate)
  *stream = new Stream{now(), nextStreamId++};
  streams.insert(*stream);
  state.streams = static_cast<int>(streams.size());
  return success;
}
FAKE(cuStreamDestroy_v2, Stream *stream) {
  ENTER(cuStreamDestroy)
  if (!streams.erase(stream))
    return invalidHandle;
  delete stream;
  state.streams = static_cast<int>(streams.size());
  return success;
}
FAKE(cuStreamSynchronize, Stream *) {
  ENTER_IN_CONTEXT(cuStreamSynchronize)
  return success;
}
FAKE(cuStreamGetCtx, Stream *stream, Context **context) {
  ENTER(cuStreamGetCtx)
  if (!streams.count(stream))
    return invalidHandle;
  *context = stream->context;
  return success;
}
FAKE(cuStreamIsCapturing, Stream *, int *status) {
  *status = number("FAKECUDA_CAPTURE", 0) != 0;
  return success;
}
FAKE(cuStreamGetId, Stream *stream, unsigned long long *id) {
  ENTER_IN_CONTEXT(cuStreamGetId)
  if (reinterpret_cast<std::uintptr_t>(stream) > 2 && !streams.count(stream))
    return invalidHandle;
  if (number("FAKECUDA_CAPTURE", 0) != 0)
    return captureUnsupported;
  *id = reinterpret_cast<std::uintptr_t>(stream) > 2 ? stream->id : reinterpret_cast<std::uintptr_t>(stream);
  return success;
}
FAKE(cuStreamGetCaptureInfo_v2, Stream *, int *status, unsigned long long *id, void **, const void **, std::size_t *) {
  ENTER(cuStreamGetCaptureInfo)
  long capture = number("FAKECUDA_CAPTURE", 0); // its number
  *status = capture != 0;
  *id = static_cast<unsigned long long>(capture);
  return success;
}
FAKE(cuThreadExchangeStreamCaptureMode, int *mode) {
  std::swap(*mode, captureMode);
  return success;
}
FAKE(cuEventCreate, Event **event, unsigned) {
  ENTER_IN_CONTEXT(cuEventCreate)
  *event = new Event{now()};
  ++state.events;
  return success;
}
FAKE(cuEventDestroy_v2, Event *event) {
  ENTER(cuEventDestroy)
  delete event;
  --state.events;
  return success;
}
FAKE(cuEventRecord, Event *event, Stream *) {
  ENTER_IN_CONTEXT(cuEventRecord)
  event->recorded = true;
  return success;
}
FAKE(cuEventSynchronize, Event *) {
  ENTER(cuEventSynchronize)
  return success;
}
FAKE(cuEventElapsedTime, float *milliseconds, Event *a, Event *b) {
  ENTER(cuEventElapsedTime)
  *milliseconds = 0.25f;
  return a->recorded && b->recorded ? success : invalidHandle;
}
FAKE(cuModuleLoadDataEx, Module **module, const void *image, unsigned count, int *options, void **values) {
  ++state.loads;
  ENTER_IN_CONTEXT(cuModuleLoadDataEx)
  bool cubin = *static_cast<const char *>(image) == 0x7f;
  if (Result r = failure(cubin ? "cubin" : "ptx")) {
    for (unsigned i = 0; i + 1 < count; ++i)
      if (options[i] == 5) // the error log, followed by its size
        std::strncpy(static_cast<char *>(values[i]), cubin ? "" : "ptxas fatal: fake",
                     std::size_t(values[i + 1]));
    return r;
  }
  noteImage(static_cast<const unsigned char *>(image));
  *module = new Module{now()};
  modules.insert(*module);
  state.modulesLoaded = static_cast<int>(modules.size());
  state.relaxedLoads += captureMode == 2;
  return success;
}
FAKE(cuModuleUnload, Module *module) {
  ENTER_IN_CONTEXT(cuModuleUnload)
  if (!modules.erase(module))
    return invalidHandle;
  delete module;
  state.modulesLoaded = static_cast<int>(modules.size());
  return success;
}
FAKE(cuModuleGetFunction, Module **function, Module *module, const char *name) {
  ENTER_IN_CONTEXT(cuModuleGetFunction)
  *function = module;
  return std::strcmp(name, "missing") == 0 ? notFound : success;
}
FAKE(cuFuncGetAttribute, int *value, int attribute, Module *) {
  ENTER(cuFuncGetAttribute)
  *value = attribute == 0   ? static_cast<int>(number("FAKECUDA_THREADS", 1024))
           : attribute == 1 ? static_cast<int>(number("FAKECUDA_STATIC_SHARED", 0))
           : attribute == 4 ? 168
                            : 0;
  return success;
}
FAKE(cuFuncSetAttribute, Module *, int attribute, int value) {
  ENTER(cuFuncSetAttribute)
  if (attribute != 8 || value > 232448)
    return invalidValue;
  state.dynamicSharedBytes = value;
  return success;
}
FAKE(cuTensorMapEncodeTiled, void *map, int type, unsigned rank, void *address, const std::uint64_t *dims,
     const std::uint64_t *strides, const std::uint32_t *box, const std::uint32_t *steps, int interleave, int swizzle,
     int promotion, int fill) {
  ENTER(cuTensorMapEncodeTiled)
  if (!map || reinterpret_cast<std::uintptr_t>(map) % 64 || rank < 1 || rank > 5 || !address ||
      reinterpret_cast<std::uintptr_t>(address) % 16 || interleave || fill || promotion != 2)
    return invalidValue;
  for (unsigned i = 0; i < rank; ++i)
    if (dims[i] < 1 || box[i] < 1 || box[i] > 256 || steps[i] != 1 ||
        (i > 0 && (strides[i - 1] % 16 || strides[i - 1] >> 40)))
      return invalidValue;
  FakeTensorMap m{};
  m.address = address;
  m.type = type, m.rank = int(rank), m.swizzle = swizzle;
  for (unsigned i = 0; i < rank; ++i) {
    m.dims[i] = std::uint32_t(dims[i]);
    m.box[i] = std::uint16_t(box[i]);
    if (i > 0)
      m.strides[i - 1] = strides[i - 1];
  }
  static_assert(sizeof m <= 128);
  std::memset(map, 0, 128);
  std::memcpy(map, &m, sizeof m);
  ++state.encodedMaps;
  return success;
}
FAKE(cuLaunchKernel, Module *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
     unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream *stream, void **params, void **extra) {
  ENTER_IN_CONTEXT(cuLaunchKernel)
  if (!modules.count(function) || function->context != now() || !params == !extra || gridX == 0)
    return invalidValue;
  state.gridX = gridX, state.gridY = gridY, state.gridZ = gridZ;
  state.blockX = blockX, state.blockY = blockY, state.blockZ = blockZ;
  state.sharedBytes = sharedBytes;
  state.stream = stream;
  state.contextAtLaunch = now();
  state.functionContext = function->context;
  const void *buffer = nullptr;
  std::size_t bytes = 0;
  if (params) { // one by one, in one piece of memory, the last one a map
    buffer = params[0];
    for (; *params; ++params)
      bytes = std::size_t(static_cast<const char *>(*params) - static_cast<const char *>(buffer)) + 128;
  }
  for (; extra && *extra != nullptr; extra += 2)
    if (extra[0] == reinterpret_cast<void *>(1))
      buffer = extra[1];
    else if (extra[0] == reinterpret_cast<void *>(2))
      bytes = *static_cast<std::size_t *>(extra[1]);
  state.paramBytes = bytes;
  std::memcpy(state.params, buffer, bytes);
  ++state.launches;
  return success;
}
