// SPDX-License-Identifier: Apache-2.0
/// \file Counts heap allocations of a thread: malloc and its kin of this program take the place of the C
/// library's for everything that the process loads.
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace bench {

#if defined(__SANITIZE_ADDRESS__) || !defined(__GLIBC__)
void countAllocations(bool) {}
std::int64_t allocationCount() { return -1; }
#else
static thread_local bool counting = false;
static thread_local std::int64_t counted = 0;

void countAllocations(bool on) {
  if (on)
    counted = 0;
  counting = on;
}
std::int64_t allocationCount() { return counted; }
#endif

} // namespace bench

#if !defined(__SANITIZE_ADDRESS__) && defined(__GLIBC__)
extern "C" {
void *__libc_malloc(std::size_t);
void *__libc_calloc(std::size_t, std::size_t);
void *__libc_realloc(void *, std::size_t);
void *__libc_memalign(std::size_t, std::size_t);

static void count() { bench::counted += bench::counting; }

__attribute__((visibility("default"))) void *malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void *calloc(std::size_t n, std::size_t bytes) {
  count();
  return __libc_calloc(n, bytes);
}
__attribute__((visibility("default"))) void *realloc(void *p, std::size_t bytes) {
  count();
  return __libc_realloc(p, bytes);
}
__attribute__((visibility("default"))) void *memalign(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
__attribute__((visibility("default"))) void *aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return memalign(alignment, bytes);
}
__attribute__((visibility("default"))) int posix_memalign(void **out, std::size_t alignment,
                                                          std::size_t bytes) {
  void *p = memalign(alignment, bytes);
  if (!p)
    return ENOMEM;
  *out = p;
  return 0;
}
}
#endif
