/* SPDX-License-Identifier: Apache-2.0 */
/* Follows facts.c in sectile_c.c: code in contexts, workspaces, tensor maps, the launch. */

/* ---- Code ---- */

typedef struct loaded {
  context_t context;
  unsigned long long id;
  function_t function;
  int registers;
  uint64_t checked; /* bit i: the pointer of argument i was looked at */
  struct loaded *next;
} loaded;

static sectile_status load_in(const sectile_kernel *k, const sectile_variant *v, const gpu *g, loaded **out) {
  if (v->shared_bytes > g->shared_block || v->threads > g->threads_block)
    return fail(SECTILE_LAUNCH_LIMITS, "%s: %s needs %d threads and %lld bytes of shared memory per block, GPU %d has %d and %lld", k->name, v->config, v->threads,
                (long long)v->shared_bytes, g->ordinal, g->threads_block, (long long)g->shared_block);
  module_t module = NULL;
  char log[512] = "", ignored[16];
  int result = 200; /* no image */
  for (int i = 0; i < 2; ++i) {
    const unsigned char *image = i ? v->ptx : v->cubin;
    int options[] = {5, 6, 3, 4}; /* the error log and its bytes, the log of information */
    void *values[] = {log, (void *)sizeof log, ignored, (void *)sizeof ignored};
    if (image && (i == 0 || result != 0))
      result = cu.module_load(&module, image, 4, options, values);
  }
  log[sizeof log - 1] = 0;
  if (result == 200 || result == 209 || result == 218 || result == 221 || result == 222 || result == 223)
    return fail(SECTILE_LOAD_FAILED, "%s: the driver refuses the code for %s (error %d); its assembler says: %s", k->name, v->arch, result, *log ? log : "nothing");
  TRY(check(result, k->name, "cuModuleLoadDataEx"));
  loaded made = {.context = g->context, .id = g->id};
  int own_shared = 0, most_threads = 0;
  sectile_status status = check(cu.module_function(&made.function, module, v->symbol), k->name, "cuModuleGetFunction");
  if (status == SECTILE_OK)
    status = check(cu.function_get(&made.registers, 4, made.function), k->name, "cuFuncGetAttribute");
  if (status == SECTILE_OK)
    status = check(cu.function_get(&own_shared, 1, made.function), k->name, "cuFuncGetAttribute");
  if (status == SECTILE_OK)
    status = check(cu.function_get(&most_threads, 0, made.function), k->name, "cuFuncGetAttribute");
  if (status == SECTILE_OK && (v->shared_bytes + own_shared > g->shared_block || v->threads > most_threads))
    status = fail(SECTILE_LAUNCH_LIMITS, "%s: %s needs %d threads and %lld bytes of shared memory per block, its code leaves room for %d and GPU %d has %lld", k->name,
                  v->config, v->threads, (long long)(v->shared_bytes + own_shared), most_threads, g->ordinal, (long long)g->shared_block);
  if (status == SECTILE_OK && v->shared_bytes > 0)
    status = check(cu.function_set(made.function, 8, (int)v->shared_bytes), k->name, "cuFuncSetAttribute");
  loaded *kept = status == SECTILE_OK ? malloc(sizeof *kept) : NULL;
  if (!kept) {
    cu.module_unload(module);
    return status != SECTILE_OK ? status : fail(SECTILE_OUT_OF_MEMORY, "%s: no host memory", k->name);
  }
  *kept = made;
  kept->next = *v->loaded;
  __atomic_store_n(v->loaded, (void *)kept, __ATOMIC_RELEASE);
  *out = kept;
  return SECTILE_OK;
}

/* @pre the context is current */
static sectile_status load(const sectile_kernel *k, const sectile_variant *v, const gpu *g, loaded **out) {
  for (int turn = 0;; ++turn) {
    for (loaded *l = __atomic_load_n(v->loaded, __ATOMIC_ACQUIRE); l; l = l->next)
      if (l->context == g->context && l->id == g->id) {
        if (turn)
          pthread_mutex_unlock(&lock);
        *out = l;
        return SECTILE_OK;
      }
    if (turn)
      break;
    pthread_mutex_lock(&lock); /* and look again: another thread may have been here */
  }
  const int mode = relax();
  sectile_status status = load_in(k, v, g, out);
  restore(mode);
  pthread_mutex_unlock(&lock);
  return status;
}

/* Refuses pointers that a kernel on this GPU cannot follow, each argument once for every context. */
static sectile_status check_pointers(const sectile_kernel *k, const gpu *g, loaded *l, const sectile_arg *args) {
  uint64_t done = __atomic_load_n(&l->checked, __ATOMIC_RELAXED);
  for (int i = 0; i < k->param_count; ++i) {
    const uint64_t bit = i < 64 ? UINT64_C(1) << i : 0;
    const sectile_tensor *t = &args[i].tensor;
    if (k->params[i].kind != 't' || (done & bit) || is_empty(&k->params[i], t))
      continue;
    unsigned type = 0, managed = 0;
    int ordinal = -1, attributes[] = {2, 8, 9}; /* kind of memory, managed, number of the GPU */
    void *values[] = {&type, &managed, &ordinal};
    const int result = cu.pointer_attributes(3, attributes, values, (address_t)(uintptr_t)t->data);
    if (is_fault(result))
      return check(result, k->name, "cuPointerGetAttributes");
    if (result != 0 || type == 0)
      return fail(SECTILE_BAD_POINTER, "%s: argument %d points to %p, which is host memory or freed memory, and the launch is on GPU %d", k->name, i, t->data,
                  g->ordinal);
    if (type == 2 && !(managed & 0xff) && ordinal >= 0 && ordinal != g->ordinal)
      return fail(SECTILE_BAD_POINTER, "%s: argument %d is in the memory of GPU %d and the launch is on GPU %d", k->name, i, ordinal, g->ordinal);
    done |= bit;
  }
  __atomic_fetch_or(&l->checked, done, __ATOMIC_RELAXED);
  return SECTILE_OK;
}

/* ---- Memory that launches need ---- */

/* New memory whose first bytes are 0, whatever the stream is doing. */
static sectile_status zeroed(const char *kernel, size_t bytes, address_t *out) {
  const int mode = relax();
  stream_t own = NULL;
  *out = 0;
  sectile_status status = check(cu.mem_alloc(out, bytes), kernel, "cuMemAlloc");
  if (status == SECTILE_OK) {
    int result = cu.stream_create(&own, 1); /* waits for no other */
    if (result == 0) {
      result = cu.memset_async(*out, 0, bytes < counter_bytes ? bytes : counter_bytes, own);
      if (result == 0)
        result = cu.stream_wait(own);
      cu.stream_destroy(own);
    }
    status = check(result, kernel, "setting a workspace to 0");
    if (status != SECTILE_OK)
      cu.mem_free(*out);
  }
  restore(mode);
  return status;
}

/* Memory of a stream, or of a capture of it, in which parts of a sum meet. What was outgrown may be in use. */
typedef struct workspace {
  unsigned long long context, stream, capture;
  address_t memory;
  int64_t bytes;
  struct workspace *next;
} workspace;
static workspace *workspaces;

static sectile_status find_workspace(const char *kernel, const gpu *g, stream_t stream, int64_t bytes, address_t *out) {
  int state = 0;
  unsigned long long capture = 0, id = 0;
  TRY(check(cu.stream_capture(stream, &state, &capture, NULL, NULL, NULL), kernel, "cuStreamGetCaptureInfo"));
  if (state) /* a stream that is captured does not tell its id, but lives as long as the capture */
    id = (unsigned long long)(uintptr_t)stream;
  else
    TRY(check(cu.stream_id(stream, &id), kernel, "cuStreamGetId"));
  capture = state ? capture + 1 : 0;
  int64_t rounded = INT64_C(1) << 20;
  while (rounded < bytes)
    rounded *= 2;
  pthread_mutex_lock(&lock);
  workspace *w = workspaces; /* the newest of this stream, which is its largest */
  while (w && (w->context != g->id || w->stream != id || w->capture != capture))
    w = w->next;
  sectile_status status = SECTILE_OK;
  if (!w || w->bytes < rounded) {
    workspace *made = malloc(sizeof *made);
    status = made ? SECTILE_OK : fail(SECTILE_OUT_OF_MEMORY, "%s: no host memory", kernel);
    address_t memory = 0;
    if (made)
      status = zeroed(kernel, (size_t)rounded, &memory);
    if (status == SECTILE_OK) {
      *made = (workspace){g->id, id, capture, memory, rounded, workspaces};
      w = workspaces = made;
    } else {
      free(made);
    }
  }
  if (status == SECTILE_OK)
    *out = w->memory;
  pthread_mutex_unlock(&lock);
  return status;
}

sectile_status sectile_release_stream(struct CUstream_st *stream) {
  gpu *g;
  int pushed;
  unsigned long long id = 0;
  TRY(enter("sectile_release_stream", stream, &g, &pushed));
  sectile_status status = check(cu.stream_id(stream, &id), "sectile_release_stream", "cuStreamGetId");
  if (status == SECTILE_OK)
    status = check(cu.stream_wait(stream), "sectile_release_stream", "cuStreamSynchronize");
  if (status == SECTILE_OK) {
    pthread_mutex_lock(&lock);
    for (workspace **at = &workspaces; *at;) {
      workspace *w = *at;
      if (w->context != g->id || w->stream != id || w->capture) {
        at = &w->next;
        continue;
      }
      cu.mem_free(w->memory);
      *at = w->next;
      free(w);
    }
    pthread_mutex_unlock(&lock);
  }
  leave(pushed);
  return status;
}

/* ---- The launch ---- */

static int64_t number_of(const sectile_kernel *k, const sectile_number *n, const sectile_arg *args) {
  if (n->arg < 0)
    return n->value;
  if (n->axis >= 0)
    return args[n->arg].tensor.dims[n->axis];
  const sectile_param *p = &k->params[n->arg];
  const int unused = 64 - 8 * p->bytes;
  const uint64_t high = args[n->arg].scalar << unused;
  return p->is_signed ? (int64_t)high >> unused : (int64_t)(high >> unused);
}

static const int64_t most_workspace = INT64_C(256) << 20; /* bytes that the parts of one launch may leave */

/* Blocks of this code that the GPU holds at once, by threads, registers and shared memory. */
static int64_t blocks_in_flight(const sectile_variant *v, int registers, const gpu *g) {
  const int threads = v->threads > 1 ? v->threads : 1;
  int64_t blocks = sectile_min(16, g->threads_sm / threads);
  const int64_t of_block = ceil_div((int64_t)(registers > 1 ? registers : 1) * 32, 256) * 256 * ceil_div(threads, 32);
  blocks = sectile_min(blocks, g->registers_sm / of_block);
  blocks = sectile_min(blocks, g->shared_sm / (v->shared_bytes + 1024)); /* 1024: the system's */
  return sectile_max(blocks, 1) * sectile_max(g->multiprocessors, 1);
}

/* Trips of the loop that is shared. */
static int64_t trips_of(const sectile_kernel *k, const sectile_variant *v, const sectile_arg *args) {
  const int64_t most = INT64_C(1) << 60, lower = number_of(k, &v->split->lower, args), upper = number_of(k, &v->split->upper, args), step = v->split->step.value;
  return lower >= upper || lower < -most || upper > most || step > most ? 0 : ceil_div(upper - lower, step);
}

/* So few blocks that there are no more rounds than with all that the GPU holds. */
static int64_t persistent_blocks(int64_t programs, int64_t held) { return ceil_div(programs, ceil_div(programs, sectile_max(held, 1))); }

/* Blocks of a kernel whose blocks share its last programs, and how many of these. */
static int64_t choose_shared(const sectile_kernel *k, const sectile_variant *v, const sectile_arg *args, int64_t programs, int registers, const gpu *g,
                             int64_t *shared_out) {
  const int64_t least = 4, trips = trips_of(k, v, args), plain = persistent_blocks(programs, blocks_in_flight(v, registers, g) / v->cluster);
  int64_t blocks = blocks_in_flight(v, registers, g) / v->cluster, shared = programs;
  *shared_out = 0;
  if (trips < 2 || programs < 1 || blocks < 1 || programs % blocks == 0)
    return plain;
  if (programs < blocks) {
    blocks = sectile_min(blocks, programs * (trips / least));
  } else { /* the last round; with the one before it where its trips are few for so many blocks */
    shared = programs % blocks;
    if (shared * trips / blocks < least)
      shared += blocks;
  }
  if (blocks <= 0 || blocks <= programs % blocks || shared * trips / blocks < least || shared > counter_bytes / 4 ||
      (shared + blocks) * v->split->part_bytes > most_workspace)
    return plain;
  *shared_out = shared;
  return blocks;
}

/* How many blocks share the loop of a program, and its trips per block (-1: all). */
static int64_t choose_parts(const sectile_kernel *k, const sectile_variant *v, const sectile_arg *args, int64_t programs, int registers, const gpu *g,
                            int64_t *trips_each) {
  const int64_t trips = trips_of(k, v, args);
  *trips_each = -1;
  if (trips < 2 || programs < 1 || programs > counter_bytes / 4)
    return 1;
  int64_t parts = v->split->parts;
  if (parts == 0)
    parts = sectile_min(blocks_in_flight(v, registers, g) / programs, trips / v->split->min_trips);
  parts = sectile_min(sectile_min(parts, trips), 65535);
  if (v->split->part_bytes > 0)
    parts = sectile_min(parts, most_workspace / v->split->part_bytes / programs);
  if (parts < 2)
    return 1;
  *trips_each = ceil_div(trips, parts);
  return ceil_div(trips, *trips_each);
}

static sectile_status encode(const sectile_kernel *k, const sectile_map *m, const sectile_arg *args, gpu *g, unsigned char *out) {
  const sectile_param *p = &k->params[m->arg];
  const sectile_tensor *t = &args[m->arg].tensor;
  uint64_t dims[SECTILE_MAX_RANK], strides[SECTILE_MAX_RANK];
  uint32_t steps[SECTILE_MAX_RANK];
  void *address = t->data;
  int empty = 0;
  for (int i = 0; i < m->rank; ++i) {
    const int axis = m->order[i];
    const int64_t dim = sectile_min(t->dims[axis], m->limit[axis](args));
    empty |= dim <= 0;
    dims[i] = dim > 1 ? (uint64_t)dim : 1;
    steps[i] = 1;
    if (i > 0) /* an axis of one element is never stepped along */
      strides[i - 1] = dims[i] == 1 ? 16 : (uint64_t)t->strides[axis] * (uint64_t)p->bytes;
  }
  if (empty) {
    address_t *scratch = &g->scratch[!p->read_only];
    pthread_mutex_lock(&lock);
    sectile_status status = *scratch ? SECTILE_OK : zeroed(k->name, 256, scratch);
    if (status != SECTILE_OK)
      *scratch = 0;
    pthread_mutex_unlock(&lock);
    TRY(status);
    address = (void *)(uintptr_t)*scratch;
    for (int i = 0; i < m->rank; ++i)
      dims[i] = 1;
    for (int i = 0; i + 1 < m->rank; ++i)
      strides[i] = 16;
  }
  return check(cu.encode_map(out, m->type, (unsigned)m->rank, address, dims, strides, m->box, steps, 0, m->swizzle, 2, 0), k->name, "cuTensorMapEncodeTiled");
}

static size_t align_up(size_t offset, size_t align) { return (offset + align - 1) / align * align; }

/* The parameters of one launch: bytes, and a pointer to each. */
typedef struct {
  _Alignas(64) unsigned char bytes[max_parameter_bytes + 2 * map_alignment];
  void *each[max_parameter_bytes / 4];
  size_t used;
  int count;
} parameters;

/* Appends one; 0 where there is no room. */
static int append(parameters *p, const void *from, size_t bytes, size_t align) {
  p->used = align_up(p->used, align);
  if (p->used + bytes > max_parameter_bytes || p->count + 1 >= (int)(sizeof p->each / sizeof *p->each))
    return 0;
  memcpy(p->bytes + p->used, from, bytes);
  p->each[p->count++] = p->bytes + p->used;
  p->used += bytes;
  return 1;
}

static sectile_status launch_in(const sectile_kernel *k, int variant, gpu *g, stream_t stream, const sectile_arg *args) {
  TRY(check_arguments(k, args));
  if (variant < 0) {
    TRY(choose(k, g, args, &variant));
  } else {
    complaints c = {.count = 0};
    if (variant >= k->variant_count)
      return fail(SECTILE_BAD_ARGUMENT, "%s: variant %d of %d", k->name, variant, k->variant_count);
    const sectile_variant *v = &k->variants[variant];
    if (v->major != g->major || (v->minor != g->minor && (v->exact || v->minor > g->minor)))
      return fail(SECTILE_NO_TARGET, "%s: variant %d is for %s, and GPU %d has compute capability %d.%d", k->name, variant, v->arch, g->ordinal, g->major, g->minor);
    compare_facts(k, v, args, are_apart(k, args), &c);
    if (c.count)
      return fail(SECTILE_NO_VARIANT, "%s: variant %d (%s) does not serve these arguments: %s", k->name, variant, v->config, c.text);
  }
  const sectile_variant *v = &k->variants[variant];

  /* Programs: the product of ceil(length / tile). */
  const int64_t most = 2147483647 / v->cluster;
  wide programs = 1;
  int none = 0;
  for (int i = 0; i < v->grid_count; ++i) {
    const int64_t count = ceil_div(args[v->grid[i].arg].tensor.dims[v->grid[i].axis], v->grid[i].tile);
    none |= count == 0;
    if (programs <= most)
      programs *= count;
  }
  if (none)
    return SECTILE_OK;
  if (programs > most)
    return fail(SECTILE_GRID_LIMIT, "%s: the grid has over %lld programs, which is the limit", k->name, (long long)most);

  parameters p;
  p.used = 0, p.count = 0;
  int room = 1;
  for (int i = 0; i < k->param_count; ++i) {
    const sectile_tensor *t = &args[i].tensor;
    if (k->params[i].kind == 's')
      room &= append(&p, &args[i].scalar, (size_t)k->params[i].bytes, (size_t)k->params[i].bytes); /* little-endian: its low bytes */
    if (k->params[i].kind != 't')
      continue;
    room &= append(&p, &t->data, 8, 8);
    for (int d = 0; d < k->params[i].rank; ++d)
      room &= append(&p, &t->dims[d], 8, 8);
    for (int d = 0; d < k->params[i].rank; ++d)
      room &= append(&p, &t->strides[d], 8, 8);
  }
  loaded *code;
  TRY(load(k, v, g, &code));
  TRY(check_pointers(k, g, code, args));

  int64_t blocks = (int64_t)programs, parts = 1;
  if (v->split) {
    int64_t needed = 0, number = -1; /* the kernel's last parameter: trips of one part, or shared programs */
    address_t memory = 0;
    if (v->split->stream) {
      blocks = choose_shared(k, v, args, blocks, code->registers, g, &number);
      needed = number ? counter_bytes + (number + blocks) * v->split->part_bytes : 0;
    } else {
      parts = choose_parts(k, v, args, blocks, code->registers, g, &number);
      needed = parts > 1 ? counter_bytes + blocks * parts * v->split->part_bytes : 0;
    }
    if (needed)
      TRY(find_workspace(k->name, g, stream, needed, &memory));
    room &= append(&p, &memory, 8, 8);
    room &= append(&p, &number, 8, 8);
  }
  if (v->persistent && !v->split)
    blocks = persistent_blocks(blocks, blocks_in_flight(v, code->registers, g) / v->cluster);
  for (int i = 0; i < v->map_count; ++i) {
    _Alignas(64) unsigned char map[map_bytes];
    TRY(encode(k, &v->maps[i], args, g, map));
    room &= append(&p, map, map_bytes, map_alignment);
  }
  if (!room)
    return fail(SECTILE_BAD_ARGUMENT, "%s: its arguments take more than %d bytes of kernel parameters", k->name, max_parameter_bytes);
  /* Maps have to lie at multiples of 64, which the driver minds where parameters are given one by one. */
  p.each[p.count] = NULL;
  void *extra[] = {(void *)1, p.bytes, (void *)2, &p.used, NULL};
  const int result = cu.launch(code->function, (unsigned)(blocks * v->cluster), (unsigned)parts, 1, (unsigned)v->threads, 1, 1, (unsigned)v->shared_bytes, stream,
                               v->map_count ? p.each : NULL, v->map_count ? NULL : extra);
  if (result == 701)
    return fail(SECTILE_LAUNCH_LIMITS, "%s: %d threads with %d registers each and %lld bytes of shared memory per block are more than GPU %d has", k->name, v->threads,
                code->registers, (long long)v->shared_bytes, g->ordinal);
  return check(result, k->name, "cuLaunchKernel");
}

sectile_status sectile_launch(const sectile_kernel *kernel, int variant, struct CUstream_st *stream, const sectile_arg *args) {
  gpu *g;
  int pushed;
  TRY(enter(kernel->name, stream, &g, &pushed));
  const sectile_status status = launch_in(kernel, variant, g, stream, args);
  leave(pushed);
  return status;
}

sectile_status sectile_no_tensor(const char *kernel) { return fail(SECTILE_BAD_ARGUMENT, "%s: a tensor is passed as a null pointer", kernel); }

sectile_status sectile_choose(const sectile_kernel *kernel, struct CUstream_st *stream, const sectile_arg *args, int *variant) {
  gpu *g;
  int pushed;
  TRY(enter(kernel->name, stream, &g, &pushed));
  sectile_status status = check_arguments(kernel, args);
  if (status == SECTILE_OK)
    status = choose(kernel, g, args, variant);
  leave(pushed);
  return status;
}

sectile_status sectile_load(const sectile_kernel *kernel, struct CUstream_st *stream) {
  gpu *g;
  int pushed;
  TRY(enter(kernel->name, stream, &g, &pushed));
  const int minor = best_minor(kernel, g);
  sectile_status status = minor < 0 ? no_target(kernel, g) : SECTILE_OK;
  for (int i = 0; i < kernel->variant_count && status == SECTILE_OK; ++i) {
    loaded *code;
    if (kernel->variants[i].major == g->major && kernel->variants[i].minor == minor)
      status = load(kernel, &kernel->variants[i], g, &code);
  }
  leave(pushed);
  return status;
}
