/* SPDX-License-Identifier: Apache-2.0 */
/* Launches code that was compiled ahead of time. Link with -ldl -lpthread where the C library asks for it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sectile_c.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide;

/* ---- Errors ---- */

static _Thread_local char error_text[1024];

const char *sectile_last_error(void) { return error_text; }

const char *sectile_status_name(sectile_status status) {
  static const char *const names[] = {"SECTILE_OK",          "SECTILE_NO_DRIVER",     "SECTILE_NO_CONTEXT",    "SECTILE_NO_TARGET",  "SECTILE_NO_VARIANT",
                                      "SECTILE_BAD_ARGUMENT", "SECTILE_BAD_POINTER",   "SECTILE_GRID_LIMIT",    "SECTILE_LAUNCH_LIMITS", "SECTILE_LOAD_FAILED",
                                      "SECTILE_OUT_OF_MEMORY", "SECTILE_DEVICE_FAULT", "SECTILE_DRIVER_ERROR"};
  return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

__attribute__((format(printf, 2, 3))) static sectile_status fail(sectile_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(error_text, sizeof error_text, format, list);
  va_end(list);
  return status;
}

/* ---- The driver, opened at first use. Numbers are those of its ABI. ---- */

typedef struct CUctx_st *context_t;
typedef struct CUmod_st *module_t;
typedef struct CUfunc_st *function_t;
typedef struct CUstream_st *stream_t;
typedef uint64_t address_t;

#define FUNCTIONS(X)                                                                                                        \
  X(init, cuInit, (unsigned))                                                                                               \
  X(driver_version, cuDriverGetVersion, (int *))                                                                            \
  X(error_name, cuGetErrorName, (int, const char **))                                                                       \
  X(error_string, cuGetErrorString, (int, const char **))                                                                   \
  X(device_count, cuDeviceGetCount, (int *))                                                                                \
  X(device_attribute, cuDeviceGetAttribute, (int *, int, int))                                                              \
  X(context_current, cuCtxGetCurrent, (context_t *))                                                                        \
  X(context_push, cuCtxPushCurrent_v2, (context_t))                                                                         \
  X(context_pop, cuCtxPopCurrent_v2, (context_t *))                                                                         \
  X(context_device, cuCtxGetDevice, (int *))                                                                                \
  X(context_id, cuCtxGetId, (context_t, unsigned long long *))                                                              \
  X(mem_alloc, cuMemAlloc_v2, (address_t *, size_t))                                                                        \
  X(mem_free, cuMemFree_v2, (address_t))                                                                                    \
  X(memset_async, cuMemsetD8Async, (address_t, unsigned char, size_t, stream_t))                                            \
  X(pointer_attributes, cuPointerGetAttributes, (unsigned, int *, void **, address_t))                                      \
  X(stream_create, cuStreamCreate, (stream_t *, unsigned))                                                                  \
  X(stream_destroy, cuStreamDestroy_v2, (stream_t))                                                                         \
  X(stream_wait, cuStreamSynchronize, (stream_t))                                                                           \
  X(stream_context, cuStreamGetCtx, (stream_t, context_t *))                                                                \
  X(stream_id, cuStreamGetId, (stream_t, unsigned long long *))                                                             \
  X(stream_capture, cuStreamGetCaptureInfo_v2, (stream_t, int *, unsigned long long *, void **, const void **, size_t *))   \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *))                                                               \
  X(module_load, cuModuleLoadDataEx, (module_t *, const void *, unsigned, int *, void **))                                  \
  X(module_unload, cuModuleUnload, (module_t))                                                                              \
  X(module_function, cuModuleGetFunction, (function_t *, module_t, const char *))                                           \
  X(function_get, cuFuncGetAttribute, (int *, int, function_t))                                                             \
  X(function_set, cuFuncSetAttribute, (function_t, int, int))                                                               \
  X(encode_map, cuTensorMapEncodeTiled,                                                                                     \
    (void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *, int, int, int, int)) \
  X(launch, cuLaunchKernel, (function_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream_t, void **, void **))

static struct {
#define DECLARE(member, symbol, args) int(*member) args;
  FUNCTIONS(DECLARE)
#undef DECLARE
  int usable;
  char why[256];
} cu;

enum {
  out_of_memory = 2, no_device = 100,
  least_version = 12000, /* 12.0 */
  max_parameter_bytes = 4096, map_bytes = 128, map_alignment = 64,
  counter_bytes = 16384, /* of a workspace: a 32-bit counter per program */
};

static void open_driver(void) {
  const char *path = getenv("SECTILE_CUDA_LIBRARY");
  void *library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(cu.why, sizeof cu.why, "the CUDA driver cannot be opened: %s", dlerror());
    return;
  }
  int version = 0;
  *(void **)&cu.driver_version = dlsym(library, "cuDriverGetVersion");
  if (cu.driver_version && cu.driver_version(&version) == 0 && version < least_version) {
    snprintf(cu.why, sizeof cu.why, "the CUDA driver supports CUDA %d.%d, and at least 12.0 is needed", version / 1000, version % 1000 / 10);
    return;
  }
#define BIND(member, symbol, args)                                                                 \
  if (!(*(void **)&cu.member = dlsym(library, #symbol))) {                                         \
    snprintf(cu.why, sizeof cu.why, "the CUDA driver has no %s: it is too old", #symbol);           \
    return;                                                                                        \
  }
  FUNCTIONS(BIND)
#undef BIND
  int count = 0, result = cu.init(0);
  if (result == 0)
    result = cu.device_count(&count);
  if (result == no_device || (result == 0 && count == 0))
    snprintf(cu.why, sizeof cu.why, "the CUDA driver sees no GPU");
  else if (result != 0)
    snprintf(cu.why, sizeof cu.why, "the CUDA driver does not start: error %d", result);
  cu.usable = result == 0 && count > 0;
}

static sectile_status driver(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_driver);
  return cu.usable ? SECTILE_OK : fail(SECTILE_NO_DRIVER, "%s", cu.why);
}

static int is_fault(int r) {
  return r == 214 || r == 220 || r == 226 || r == 700 || r == 702 || r == 710 || (r >= 714 && r <= 719) || r == 721 || r == 911;
}

/* What the driver says of a call, as a status. */
static sectile_status check(int result, const char *kernel, const char *what) {
  if (result == 0)
    return SECTILE_OK;
  const char *name = NULL, *text = NULL;
  cu.error_name(result, &name);
  cu.error_string(result, &text);
  sectile_status status = result == out_of_memory ? SECTILE_OUT_OF_MEMORY : is_fault(result) ? SECTILE_DEVICE_FAULT : SECTILE_DRIVER_ERROR;
  return fail(status, "%s: %s gives %s (%d): %s", kernel, what, name ? name : "an unknown error", result, text ? text : "no text");
}
#define TRY(call)                                    \
  do {                                               \
    sectile_status status_ = (call);                 \
    if (status_ != SECTILE_OK)                       \
      return status_;                                \
  } while (0)

/* ---- Contexts ---- */

typedef struct gpu {
  context_t context;
  unsigned long long id;
  int ordinal, major, minor, multiprocessors, threads_sm, threads_block, registers_sm;
  int64_t shared_sm, shared_block;
  address_t scratch[2]; /* that maps without elements load from, and store to */
  struct gpu *next;
} gpu;

static gpu *gpus; /* grows at the front; entries stay */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Capture elsewhere in the process forbids loading and allocating, but for threads that say they know. */
static int relax(void) {
  int mode = 2;
  cu.capture_mode(&mode);
  return mode;
}
static void restore(int mode) { cu.capture_mode(&mode); }

/* @pre the context is current */
static sectile_status find_gpu(const char *kernel, context_t context, gpu **out) {
  unsigned long long id = 0;
  TRY(check(cu.context_id(context, &id), kernel, "cuCtxGetId"));
  for (gpu *g = __atomic_load_n(&gpus, __ATOMIC_ACQUIRE); g; g = g->next)
    if (g->context == context && g->id == id) {
      *out = g;
      return SECTILE_OK;
    }
  gpu made = {.context = context, .id = id};
  TRY(check(cu.context_device(&made.ordinal), kernel, "cuCtxGetDevice"));
  int shared_sm = 0, shared_block = 0;
  const struct {
    int attribute, *into;
  } asked[] = {{75, &made.major},      {76, &made.minor},         {16, &made.multiprocessors}, {39, &made.threads_sm},
               {1, &made.threads_block}, {82, &made.registers_sm}, {81, &shared_sm},            {97, &shared_block}};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; ++i)
    TRY(check(cu.device_attribute(asked[i].into, asked[i].attribute, made.ordinal), kernel, "cuDeviceGetAttribute"));
  made.shared_sm = shared_sm, made.shared_block = shared_block;
  gpu *kept = malloc(sizeof *kept);
  if (!kept)
    return fail(SECTILE_OUT_OF_MEMORY, "%s: no host memory", kernel);
  *kept = made;
  pthread_mutex_lock(&lock);
  kept->next = gpus;
  __atomic_store_n(&gpus, kept, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&lock);
  *out = kept;
  return SECTILE_OK;
}

/* Makes the stream's context current; *pushed says whether leave() has to undo it. */
static sectile_status enter(const char *kernel, stream_t stream, gpu **out, int *pushed) {
  *pushed = 0;
  error_text[0] = 0;
  TRY(driver());
  context_t current = NULL, wanted = NULL;
  TRY(check(cu.context_current(&current), kernel, "cuCtxGetCurrent"));
  if ((uintptr_t)stream <= 2) { /* the default streams belong to the current context */
    if (!current)
      return fail(SECTILE_NO_CONTEXT, "%s: the stream is null and this thread has no current context", kernel);
    wanted = current;
  } else {
    TRY(check(cu.stream_context(stream, &wanted), kernel, "cuStreamGetCtx"));
  }
  if (wanted != current) {
    TRY(check(cu.context_push(wanted), kernel, "cuCtxPushCurrent"));
    *pushed = 1;
  }
  sectile_status status = find_gpu(kernel, wanted, out);
  if (status != SECTILE_OK && *pushed) {
    cu.context_pop(&wanted);
    *pushed = 0;
  }
  return status;
}
static void leave(int pushed) {
  context_t popped;
  if (pushed)
    cu.context_pop(&popped);
}
