/* SPDX-License-Identifier: Apache-2.0 */
/* Follows driver.c in sectile_c.c: which variant serves the arguments of a launch. */

/* ---- Arguments and what holds of them ---- */

sectile_tensor sectile_packed(void *data, int rank, const int64_t *dims) {
  sectile_tensor t = {.data = data};
  int64_t stride = 1;
  for (int d = rank < SECTILE_MAX_RANK ? rank : SECTILE_MAX_RANK; d-- > 0;) {
    t.dims[d] = dims[d];
    t.strides[d] = stride;
    stride *= dims[d] > 0 ? dims[d] : 1;
  }
  return t;
}

int64_t sectile_min(int64_t x, int64_t y) { return x < y ? x : y; }
int64_t sectile_max(int64_t x, int64_t y) { return x > y ? x : y; }
static int64_t saturated(wide v) { return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : (int64_t)v; }
int64_t sectile_add(int64_t x, int64_t y) { return saturated((wide)x + y); }
int64_t sectile_sub(int64_t x, int64_t y) { return saturated((wide)x - y); }
int64_t sectile_mul(int64_t x, int64_t y) { return saturated((wide)x * y); }
int64_t sectile_integer(const sectile_arg *arg, int bytes) {
  const int unused = 64 - 8 * bytes;
  return (int64_t)(arg->scalar << unused) >> unused;
}

static int is_empty(const sectile_param *p, const sectile_tensor *t) {
  for (int d = 0; d < p->rank; ++d)
    if (t->dims[d] <= 0)
      return 1;
  return 0;
}

static int64_t ceil_div(int64_t x, int64_t y) { return x / y + (x % y != 0); }

static int vector_elements(const sectile_param *p) { return p->bytes >= 16 ? 1 : 16 / p->bytes; }

static int fits_31_bits(const sectile_param *p, const sectile_tensor *t) {
  const int64_t limit = INT64_C(1) << 31;
  int64_t last = 0;
  for (int d = 0; d < p->rank; ++d)
    if (t->dims[d] >= limit)
      return 0;
  for (int d = 0; d < p->rank && !is_empty(p, t); ++d) {
    if (t->dims[d] == 1 || t->strides[d] == 0)
      continue;
    if (t->strides[d] < 0 || t->strides[d] >= limit)
      return 0;
    last += (t->dims[d] - 1) * t->strides[d];
    if (last >= limit)
      return 0;
  }
  return last * p->bytes < limit;
}

/* Rows along `axis`, of stride 1, start at multiples of 16 bytes and elsewhere. */
static int has_skewed_rows(const sectile_param *p, const sectile_tensor *t, int axis) {
  if (t->strides[axis] != 1)
    return 0;
  for (int d = 0; d < p->rank; ++d)
    if (d != axis && t->dims[d] > 1 && (t->strides[d] & (vector_elements(p) - 1)))
      return 1;
  return 0;
}

static int are_apart(const sectile_kernel *k, const sectile_arg *args) {
  for (int i = 0; i < k->param_count; ++i)
    for (int j = 0; j < k->param_count; ++j) {
      if (i == j || k->params[i].kind != 't' || k->params[j].kind != 't' || k->params[i].read_only)
        continue;
      wide first[2], last[2];
      int empty = 0;
      for (int n = 0; n < 2; ++n) {
        const sectile_param *p = &k->params[n ? j : i];
        const sectile_tensor *t = &args[n ? j : i].tensor;
        empty |= is_empty(p, t);
        first[n] = (wide)(uintptr_t)t->data;
        last[n] = first[n] + p->bytes - 1;
        for (int d = 0; d < p->rank; ++d) {
          const wide far = (wide)(t->dims[d] - 1) * t->strides[d] * p->bytes;
          *(far < 0 ? &first[n] : &last[n]) += far;
        }
      }
      if (!empty && first[0] <= last[1] && first[1] <= last[0])
        return 0;
    }
  return 1;
}

/* Sentences about the first facts that do not hold. */
typedef struct {
  char text[512];
  int count;
} complaints;
__attribute__((format(printf, 2, 3))) static void complain(complaints *c, const char *format, ...) {
  const size_t length = strlen(c->text);
  if (++c->count > 3)
    return;
  va_list list;
  va_start(list, format);
  const int n = snprintf(c->text + length, sizeof c->text - length, "%s", c->count > 1 ? "; " : "");
  if (n >= 0 && length + (size_t)n < sizeof c->text)
    vsnprintf(c->text + length + n, sizeof c->text - length - (size_t)n, format, list);
  va_end(list);
}

/* What of a variant's facts does not hold for these arguments. */
static void compare_facts(const sectile_kernel *k, const sectile_variant *v, const sectile_arg *args, int apart, complaints *c) {
  for (int i = 0; i < k->param_count; ++i) {
    const sectile_param *p = &k->params[i];
    const sectile_tensor *t = &args[i].tensor;
    const sectile_facts *f = &v->facts[i];
    if (p->kind == 'c' && args[i].scalar != v->constants[i])
      complain(c, "argument %d has the bits %llx, and the code has the constant %llx", i, (unsigned long long)args[i].scalar,
               (unsigned long long)v->constants[i]);
    if (p->kind != 't')
      continue;
    if ((uintptr_t)t->data % f->align)
      complain(c, "argument %d is at %p, which is no multiple of %d bytes", i, t->data, f->align);
    if (f->unit >= 0 && t->strides[f->unit] != 1)
      complain(c, "argument %d axis %d: the stride is %lld, not 1", i, f->unit, (long long)t->strides[f->unit]);
    if (f->small && !fits_31_bits(p, t))
      complain(c, "argument %d reaches over more than 2 GiB", i);
    for (int d = 0; d < p->rank; ++d) {
      if (t->dims[d] > 1 && (uint64_t)t->strides[d] % f->stride_div[d])
        complain(c, "argument %d axis %d: the stride %lld is no multiple of %d", i, d, (long long)t->strides[d], f->stride_div[d]);
      else if (t->dims[d] > 1 && ((uint64_t)t->strides[d] & (uint64_t)(vector_elements(p) - 1)) != f->stride_rem[d])
        complain(c, "argument %d axis %d: the stride %lld is not %d modulo %d", i, d, (long long)t->strides[d], f->stride_rem[d], vector_elements(p));
      if ((uint64_t)t->dims[d] % f->dim_div[d])
        complain(c, "argument %d axis %d: the length %lld is no multiple of %d", i, d, (long long)t->dims[d], f->dim_div[d]);
      if (f->dim_max[d] && t->dims[d] > f->dim_max[d])
        complain(c, "argument %d axis %d: the length %lld is over %lld", i, d, (long long)t->dims[d], (long long)f->dim_max[d]);
    }
  }
  for (int i = 0; i < v->cover_count; ++i) {
    const sectile_axis *a = &v->covers[i];
    const sectile_param *p = &k->params[a->arg];
    const sectile_tensor *t = &args[a->arg].tensor;
    if (t->dims[a->axis] + (has_skewed_rows(p, t, a->axis) ? vector_elements(p) - 1 : 0) > a->tile)
      complain(c, "argument %d axis %d: the length %lld is not covered by a tile of %lld", a->arg, a->axis, (long long)t->dims[a->axis], (long long)a->tile);
  }
  if (v->apart && !apart)
    complain(c, "a tensor that is written shares memory with another argument");
}

/* The bucket of a length: four per doubling above 8. */
static double bucket(int64_t length) {
  if (length <= 8)
    return length < 1 ? 1 : (double)length;
  int64_t step = 1;
  while (step * 8 < length)
    step *= 2;
  return (double)(ceil_div(length, step) * step);
}
/* How far the lengths lie from those that a variant was built for: the sum of |log2|, linear between powers of two. */
static double distance(const sectile_kernel *k, const sectile_variant *v, const sectile_arg *args) {
  double sum = 0;
  for (int i = 0; i < k->param_count; ++i)
    for (int d = 0; d < k->params[i].rank; ++d) {
      double x = bucket(args[i].tensor.dims[d]), y = bucket(v->facts[i].built[d]);
      double ratio = x > y ? x / y : y / x;
      for (; ratio >= 2; ratio /= 2)
        sum += 1;
      sum += ratio - 1;
    }
  return sum;
}
/* How much a variant counts on: of pointers and strides, and of lengths. */
static void strength(const sectile_kernel *k, const sectile_variant *v, int *memory, int *lengths) {
  *memory = 0, *lengths = v->apart;
  for (int i = 0; i < k->param_count; ++i) {
    const sectile_facts *f = &v->facts[i];
    if (k->params[i].kind != 't')
      continue;
    *memory += f->align + (f->unit >= 0 ? 16 : 0);
    *lengths += f->small;
    for (int d = 0; d < k->params[i].rank; ++d)
      *memory += f->stride_div[d], *lengths += f->dim_div[d];
  }
}

static sectile_status check_arguments(const sectile_kernel *k, const sectile_arg *args) {
  for (int i = 0; i < k->param_count; ++i) {
    const sectile_param *p = &k->params[i];
    const sectile_tensor *t = &args[i].tensor;
    if (p->kind != 't')
      continue;
    for (int d = 0; d < p->rank; ++d) {
      if (t->dims[d] < 0)
        return fail(SECTILE_BAD_ARGUMENT, "%s: argument %d axis %d: the length %lld is negative", k->name, i, d, (long long)t->dims[d]);
      if (!p->read_only && t->strides[d] == 0 && t->dims[d] > 1 && !is_empty(p, t))
        return fail(SECTILE_BAD_ARGUMENT, "%s: argument %d axis %d: it is written and the stride is 0: its %lld elements are one place in memory", k->name, i,
                    d, (long long)t->dims[d]);
    }
    if (!t->data && !is_empty(p, t))
      return fail(SECTILE_BAD_ARGUMENT, "%s: argument %d is null and has elements", k->name, i);
  }
  return SECTILE_OK;
}

/* The code for this GPU: of the same compute capability, else that of the newest lower minor one that may run here. */
static int best_minor(const sectile_kernel *k, const gpu *g) {
  int best = -1;
  for (int i = 0; i < k->variant_count; ++i) {
    const sectile_variant *v = &k->variants[i];
    if (v->major == g->major && (v->minor == g->minor || (!v->exact && v->minor < g->minor)) && v->minor > best)
      best = v->minor;
  }
  return best;
}
static sectile_status no_target(const sectile_kernel *k, const gpu *g) {
  return fail(SECTILE_NO_TARGET, "%s: GPU %d has compute capability %d.%d, and nothing was built for it", k->name, g->ordinal, g->major, g->minor);
}

static sectile_status choose(const sectile_kernel *k, const gpu *g, const sectile_arg *args, int *variant) {
  const int minor = best_minor(k, g), apart = are_apart(k, args);
  if (minor < 0)
    return no_target(k, g);
  complaints fewest = {.count = 0};
  const sectile_variant *nearest = NULL;
  int best = -1, best_memory = 0, best_lengths = 0;
  double best_distance = 0;
  for (int i = 0; i < k->variant_count; ++i) {
    const sectile_variant *v = &k->variants[i];
    if (v->major != g->major || v->minor != minor)
      continue;
    complaints c = {.count = 0};
    compare_facts(k, v, args, apart, &c);
    if (c.count) {
      if (!nearest || c.count < fewest.count)
        nearest = v, fewest = c;
      continue;
    }
    int memory, lengths;
    strength(k, v, &memory, &lengths);
    const double far = distance(k, v, args);
    if (best < 0 || memory > best_memory || (memory == best_memory && (far < best_distance || (far == best_distance && lengths > best_lengths))))
      best = i, best_memory = memory, best_lengths = lengths, best_distance = far;
  }
  if (best < 0)
    return fail(SECTILE_NO_VARIANT, "%s: none of the variants for %s serves these arguments; of the one that comes nearest (%s): %s", k->name, nearest->arch,
                nearest->config, fewest.text);
  *variant = best;
  return SECTILE_OK;
}
