/* SPDX-License-Identifier: Apache-2.0 */
/* The C side of kernels that `sectile build` has compiled ahead of time. A program needs this file, sectile_c.c, what was
   generated, and the NVIDIA driver; no Sectile, no LLVM, no CUDA toolkit. C11 with GCC or Clang, or C++.

   Errors are values: every function returns a status and leaves a sentence for sectile_last_error(); nothing is printed and
   no program is ended. All functions may be called from several threads at once. A launch goes to the GPU of its stream; the
   current context is the same afterwards. */
#ifndef SECTILE_C_H
#define SECTILE_C_H

#include <stddef.h>
#include <stdint.h>

/* Raised whenever generated code and this runtime would not fit together. */
#define SECTILE_C_VERSION 1
#define SECTILE_MAX_RANK 5

#ifdef __cplusplus
extern "C" {
#endif

/* CUstream and cudaStream_t point to it. Null: the legacy default stream of the current context. */
struct CUstream_st;

typedef enum {
  SECTILE_OK = 0,
  SECTILE_NO_DRIVER,     /* no CUDA driver that can be used, or no GPU */
  SECTILE_NO_CONTEXT,    /* the stream is null and the thread has no current context */
  SECTILE_NO_TARGET,     /* nothing was built for this GPU */
  SECTILE_NO_VARIANT,    /* no variant serves these arguments; the text names the facts that do not hold */
  SECTILE_BAD_ARGUMENT,  /* negative lengths, a null pointer, elements that are one place in memory and are written */
  SECTILE_BAD_POINTER,   /* host memory, freed memory, or memory of another GPU */
  SECTILE_GRID_LIMIT,    /* more programs than a launch can have */
  SECTILE_LAUNCH_LIMITS, /* more threads or shared memory than this GPU has */
  SECTILE_LOAD_FAILED,   /* the driver refuses the code */
  SECTILE_OUT_OF_MEMORY,
  SECTILE_DEVICE_FAULT,  /* the GPU has faulted, in this launch or before it */
  SECTILE_DRIVER_ERROR   /* anything else that the driver says */
} sectile_status;

/* "SECTILE_NO_VARIANT". Never null. */
const char *sectile_status_name(sectile_status status);
/* What the last call of this thread that failed has to say; empty if none did. Valid until this thread's next call. */
const char *sectile_last_error(void);

/* A tensor in device memory: lengths and strides (in elements) of its axes; those beyond the rank do not count. */
typedef struct {
  void *data;
  int64_t dims[SECTILE_MAX_RANK], strides[SECTILE_MAX_RANK];
} sectile_tensor;
/* A tensor whose elements lie row by row: sectile_packed(p, 2, (int64_t[]){m, n}). */
sectile_tensor sectile_packed(void *data, int rank, const int64_t *dims);

/* Waits for the stream and frees the memory that launches on it were given. Before the stream is destroyed. */
sectile_status sectile_release_stream(struct CUstream_st *stream);

/* ---- For generated code: what a kernel is made of. Arguments are numbered as the kernel's parameters. ---- */

/* An argument: of a scalar or a constant the bits. */
typedef struct {
  sectile_tensor tensor;
  uint64_t scalar;
} sectile_arg;

typedef struct {
  char kind;        /* 't': tensor, 's': scalar, 'c': constant, which is part of the code */
  char read_only;   /* tensors */
  int rank;         /* -1 unless a tensor */
  int bytes;        /* of an element */
  int is_signed;    /* integers */
  const char *type; /* "bf16" */
} sectile_param;

/* What a variant counts on, per tensor. Alignment and divisors are powers of two up to 16. */
typedef struct {
  uint8_t align;    /* the pointer is a multiple of so many bytes */
  int8_t unit;      /* the axis of stride 1; -1: not known */
  uint8_t small;    /* dims and offsets of elements are below 2^31 */
  uint8_t stride_div[SECTILE_MAX_RANK], stride_rem[SECTILE_MAX_RANK], dim_div[SECTILE_MAX_RANK];
  int64_t dim_max[SECTILE_MAX_RANK]; /* 0: none */
  int64_t built[SECTILE_MAX_RANK];   /* lengths that it was built for */
} sectile_facts;

typedef struct {
  int arg, axis;
  int64_t tile;
} sectile_axis;

/* A number of the launch: a length, an integer argument (axis -1), or a value (arg -1). */
typedef struct {
  int arg, axis;
  int64_t value;
} sectile_number;

typedef struct {
  sectile_number lower, upper, step;
  int64_t min_trips, parts, part_bytes;
  int stream; /* the blocks of a persistent kernel share its last programs */
} sectile_split;

typedef struct {
  int arg, rank, type, swizzle; /* CUtensorMapDataType, CUtensorMapSwizzle */
  int order[SECTILE_MAX_RANK];  /* axis i of the map is this axis of the argument */
  uint32_t box[SECTILE_MAX_RANK];
  int64_t (*limit[SECTILE_MAX_RANK])(const sectile_arg *args); /* per axis of the argument: where the map ends */
} sectile_map;

typedef struct {
  const char *config, *arch, *symbol;
  int major, minor, exact; /* compute capability; exact: runs on no later minor one */
  const sectile_facts *facts;    /* per parameter */
  const uint64_t *constants;     /* per parameter */
  const sectile_axis *covers;    /* axes that one tile must cover */
  int cover_count, apart;        /* apart: no tensor that is written shares memory with another argument */
  const unsigned char *cubin, *ptx; /* null: none */
  const sectile_axis *grid;
  int grid_count, threads, cluster, persistent;
  int64_t shared_bytes;
  const sectile_map *maps;
  int map_count;
  const sectile_split *split; /* null: none */
  void **loaded;              /* the code in each context */
} sectile_variant;

typedef struct {
  const char *name;
  const sectile_param *params;
  int param_count;
  const sectile_variant *variants;
  int variant_count;
} sectile_kernel;

/* Launches variant number `variant`, or for -1 the one that fits best. */
sectile_status sectile_launch(const sectile_kernel *kernel, int variant, struct CUstream_st *stream, const sectile_arg *args);
/* A launch without one of its tensors: SECTILE_BAD_ARGUMENT. */
sectile_status sectile_no_tensor(const char *kernel);
/* The variant that a launch on this stream takes, into *variant. */
sectile_status sectile_choose(const sectile_kernel *kernel, struct CUstream_st *stream, const sectile_arg *args, int *variant);
/* Loads all variants for the GPU of this stream, so that no launch has to. */
sectile_status sectile_load(const sectile_kernel *kernel, struct CUstream_st *stream);

/* Limits of maps are computed with these; sums and products saturate. */
int64_t sectile_min(int64_t x, int64_t y);
int64_t sectile_max(int64_t x, int64_t y);
int64_t sectile_add(int64_t x, int64_t y);
int64_t sectile_sub(int64_t x, int64_t y);
int64_t sectile_mul(int64_t x, int64_t y);
int64_t sectile_integer(const sectile_arg *arg, int bytes); /* sign-extended */

#ifdef __cplusplus
}
#endif
#endif
