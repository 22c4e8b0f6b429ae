/* SPDX-License-Identifier: Apache-2.0 */
/* P23a: a program in C with kernels that were compiled ahead of time. Runs on GPU 1 first, then on GPU 0, then on both from two
   threads (with one GPU: on that one, from two threads), compares with sums in double, and goes on after every error.
   Knows neither Sectile nor LLVM nor a CUDA toolkit.

       sectile_ahead_program [--no-values]      --no-values: on a driver that runs nothing */
#define _GNU_SOURCE
#include "kernels.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t address;

static int (*init)(unsigned), (*device_count)(int *), (*device_get)(int *, int), (*retain)(void **, int), (*push)(void *), (*pop)(void **),
    (*current)(void **), (*mem_alloc)(address *, size_t), (*mem_free)(address), (*to_device)(address, const void *, size_t, struct CUstream_st *),
    (*to_host)(void *, address, size_t, struct CUstream_st *), (*stream_create)(struct CUstream_st **, unsigned), (*stream_wait)(struct CUstream_st *),
    (*stream_destroy)(struct CUstream_st *);
static int compares_values = 1;
static _Thread_local int gpu_now;

static void need(int ok, const char *what) {
  if (ok)
    return;
  printf("FAILED on GPU %d: %s: %s\n", gpu_now, what, sectile_last_error());
  fflush(stdout);
  exit(1);
}

static void open_driver(void) {
  const char *path = getenv("SECTILE_CUDA_LIBRARY");
  void *library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW);
  if (!library) {
    printf("SKIPPED: no CUDA driver\n");
    exit(77);
  }
  const struct {
    const char *symbol;
    void *into;
  } all[] = {{"cuInit", &init}, {"cuDeviceGetCount", &device_count}, {"cuDeviceGet", &device_get}, {"cuDevicePrimaryCtxRetain", &retain},
             {"cuCtxPushCurrent_v2", &push}, {"cuCtxPopCurrent_v2", &pop}, {"cuCtxGetCurrent", &current}, {"cuMemAlloc_v2", &mem_alloc}, {"cuMemFree_v2", &mem_free},
             {"cuMemcpyHtoDAsync_v2", &to_device}, {"cuMemcpyDtoHAsync_v2", &to_host}, {"cuStreamCreate", &stream_create}, {"cuStreamSynchronize", &stream_wait},
             {"cuStreamDestroy_v2", &stream_destroy}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    void *f = dlsym(library, all[i].symbol);
    need(f != NULL, all[i].symbol);
    memcpy(all[i].into, &f, sizeof f);
  }
}

static float from_bf16(uint16_t bits) {
  const uint32_t u = (uint32_t)bits << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
/* Of small whole numbers, which are exact. */
static uint16_t to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return (uint16_t)(u >> 16);
}

typedef struct {
  void *host;
  address device;
  size_t bytes;
} memory;
static memory make(size_t bytes) {
  memory m = {calloc(bytes, 1), 0, bytes};
  need(m.host && mem_alloc(&m.device, bytes) == 0, "memory");
  return m;
}
static void send(memory *m, struct CUstream_st *stream) { need(to_device(m->device, m->host, m->bytes, stream) == 0, "copy"); }
static void fetch(memory *m, struct CUstream_st *stream) { need(to_host(m->host, m->device, m->bytes, stream) == 0 && stream_wait(stream) == 0, "copy back"); }
static void drop(memory *m) {
  mem_free(m->device);
  free(m->host);
}
static void *at(const memory *m) { return (void *)(uintptr_t)m->device; }

static void run_scale(struct CUstream_st *stream) {
  const int64_t n = 1 << 20;
  memory x = make((size_t)n * 4), y = make((size_t)n * 4);
  float *host = x.host;
  for (int64_t i = 0; i < n; ++i)
    host[i] = (float)(i % 1000);
  send(&x, stream);
  const sectile_tensor from = sectile_packed(at(&x), 1, &n), to = sectile_packed(at(&y), 1, &n);
  need(kernels_scale(stream, &from, &to, 2.5f) == SECTILE_OK, "scale");
  fetch(&y, stream);
  for (int64_t i = 0; i < n && compares_values; ++i)
    need(((float *)y.host)[i] == 2.5f * host[i], "a value of scale");
  /* Errors are values, and the next launch is right again. */
  const int64_t odd = n - 1;
  const sectile_tensor short_from = sectile_packed(at(&x), 1, &odd), in_host = sectile_packed(host, 1, &n);
  need(kernels_scale(stream, &short_from, &to, 1) == SECTILE_NO_VARIANT && strstr(sectile_last_error(), "no multiple of 16"), "a length that no variant serves");
  need(kernels_scale_with(0, stream, NULL, &to, 1) == SECTILE_BAD_ARGUMENT, "no tensor");
  (void)in_host;
  need(kernels_scale(stream, &from, &to, 1) == SECTILE_OK, "scale after errors");
  drop(&x);
  drop(&y);
}

static void run_column_sums(struct CUstream_st *stream) {
  const int64_t rows = 8192, columns = 256;
  memory x = make((size_t)(rows * columns) * 4), y = make((size_t)columns * 4);
  for (int64_t i = 0; i < rows * columns; ++i)
    ((float *)x.host)[i] = (float)(i / columns % 7) - (float)(i % columns % 5);
  send(&x, stream);
  const sectile_tensor from = sectile_packed(at(&x), 2, (const int64_t[]){rows, columns}), to = sectile_packed(at(&y), 1, &columns);
  for (int repeat = 0; repeat < 3; ++repeat) {
    need(kernels_column_sums(stream, &from, &to) == SECTILE_OK, "column_sums");
    fetch(&y, stream);
    for (int64_t c = 0; c < columns && compares_values; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r)
        sum += ((float *)x.host)[r * columns + c];
      need(fabs(((float *)y.host)[c] - sum) <= 1e-3 * rows, "a value of column_sums");
    }
  }
  drop(&x);
  drop(&y);
}

static void run_softmax(struct CUstream_st *stream) {
  const int64_t dims[] = {64, 1024};
  memory x = make(64 * 1024 * 2), y = make(64 * 1024 * 2);
  for (int i = 0; i < 64 * 1024; ++i)
    ((uint16_t *)x.host)[i] = to_bf16((float)(i % 13) - 6);
  send(&x, stream);
  const sectile_tensor from = sectile_packed(at(&x), 2, dims), to = sectile_packed(at(&y), 2, dims);
  need(kernels_softmax(stream, &from, &to) == SECTILE_OK, "softmax");
  fetch(&y, stream);
  for (int r = 0; r < 64 && compares_values; ++r) {
    double sum = 0;
    for (int c = 0; c < 1024; ++c)
      sum += exp(from_bf16(((uint16_t *)x.host)[r * 1024 + c]));
    for (int c = 0; c < 1024; ++c) {
      const double want = exp(from_bf16(((uint16_t *)x.host)[r * 1024 + c])) / sum;
      need(fabs(from_bf16(((uint16_t *)y.host)[r * 1024 + c]) - want) <= want / 128, "a value of softmax");
    }
  }
  drop(&x);
  drop(&y);
}

static void run_matmul(struct CUstream_st *stream, int64_t m, int64_t n, int64_t k) {
  memory a = make((size_t)(m * k) * 2), b = make((size_t)(k * n) * 2), c = make((size_t)(m * n) * 2);
  for (int64_t i = 0; i < m * k; ++i)
    ((uint16_t *)a.host)[i] = to_bf16((float)(i % 5) - 2);
  for (int64_t i = 0; i < k * n; ++i)
    ((uint16_t *)b.host)[i] = to_bf16((float)(i % 3) - 1);
  send(&a, stream);
  send(&b, stream);
  const sectile_tensor ta = sectile_packed(at(&a), 2, (const int64_t[]){m, k}), tb = sectile_packed(at(&b), 2, (const int64_t[]){k, n}),
                       tc = sectile_packed(at(&c), 2, (const int64_t[]){m, n});
  need(kernels_matmul(stream, &ta, &tb, &tc) == SECTILE_OK, "matmul");
  fetch(&c, stream);
  for (int64_t i = 0; i < m && compares_values; i += 7)
    for (int64_t j = 0; j < n; j += 5) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += (double)from_bf16(((uint16_t *)a.host)[i * k + l]) * from_bf16(((uint16_t *)b.host)[l * n + j]);
      need(fabs(from_bf16(((uint16_t *)c.host)[i * n + j]) - sum) <= fabs(sum) / 256, "a value of matmul");
    }
  drop(&a);
  drop(&b);
  drop(&c);
}

/* Everything on one GPU, on a stream of its own. */
static void *run_on(void *number) {
  void *context = NULL, *popped = NULL, *before = NULL, *after = NULL;
  struct CUstream_st *stream = NULL;
  int device = 0;
  gpu_now = *(int *)number;
  need(device_get(&device, gpu_now) == 0 && retain(&context, device) == 0 && push(context) == 0, "a context");
  need(stream_create(&stream, 1) == 0 && pop(&popped) == 0, "a stream");
  /* Launches find the GPU by the stream: no context is current here, and none is afterwards. */
  const int64_t one = 1 << 20;
  const sectile_tensor nothing = sectile_packed(NULL, 1, &one);
  current(&before);
  need(kernels_load(stream) == SECTILE_OK, "load");
  need(kernels_scale(stream, &nothing, &nothing, 1) == SECTILE_BAD_ARGUMENT, "a null pointer");
  current(&after);
  need(before == after, "the current context has changed");
  need(push(context) == 0, "push");
  for (int round = 0; round < 3; ++round) {
    run_scale(stream);
    run_softmax(stream);
    run_column_sums(stream);
    run_matmul(stream, 512, 768, 256);
    run_matmul(stream, 384, 256, 1024);
  }
  need(sectile_release_stream(stream) == SECTILE_OK, "release");
  stream_destroy(stream);
  pop(&popped);
  return NULL;
}

int main(int argc, char **argv) {
  int count = 0;
  compares_values = !(argc > 1 && strcmp(argv[1], "--no-values") == 0);
  open_driver();
  if (init(0) != 0 || device_count(&count) != 0 || count == 0) {
    printf("SKIPPED: no GPU\n");
    return 77;
  }
  int order[] = {count > 1 ? 1 : 0, 0};
  run_on(&order[0]);
  run_on(&order[1]);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    need(pthread_create(&threads[i], NULL, run_on, &order[i]) == 0, "a thread");
  for (int i = 0; i < 2; ++i)
    pthread_join(threads[i], NULL);
  printf("OK: %d GPU%s, %s\n", count, count > 1 ? "s" : "", compares_values ? "all values right" : "values not compared");
  return 0;
}
