// SPDX-License-Identifier: Apache-2.0
/// \file Preloaded into a program, it gives the files under NETWORK_FILES the habits that make network file systems
/// different from local ones, at random but often:
///
///     x  O_CREAT | O_EXCL excludes nobody (NFS 2)
///     n  a file that exists is not found: an old negative answer of the client's is still believed
///     a  a size is an old one: the client's attributes are from before the last change
///     h  a read gives fewer bytes than asked for
///     s  a read of a file that has been replaced since it was opened fails with ESTALE
///     e  a read fails with EIO
///     v  what is written is on the server only when it is synchronised or closed
///     q  a quota that is over is said then, not by write, and half of the data is there
///     r  a rename is done, its answer is lost, and the repeated request says ENOENT
///     u  an unlink likewise
///     d  a mkdir likewise, with EEXIST
///     k  locks, hard links and mappings: there are none
///
/// NETWORK_FILES_SEED starts the random numbers (the process number). Each habit shown is one letter appended to NETWORK_FILES_LOG.
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace {

template <class F> F real(const char *name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

struct Open {
  std::string path, unwritten;
  ino_t inode;
  bool wasRead = false;
};
std::recursive_mutex mutex;
std::map<int, Open> &files() {
  static auto &all = *new std::map<int, Open>; // programs write at exit too
  return all;
}

bool isRemote(const char *path) {
  const char *root = std::getenv("NETWORK_FILES");
  return root && *root && path && std::strncmp(path, root, std::strlen(root)) == 0;
}
Open *remote(int fd) {
  auto at = files().find(fd);
  return at == files().end() ? nullptr : &at->second;
}

int openReal(const char *path, int flags, mode_t mode) {
  static auto call = real<int (*)(const char *, int, ...)>("open");
  return call(path, flags, mode);
}
ssize_t writeReal(int fd, const void *data, size_t bytes) {
  static auto call = real<ssize_t (*)(int, const void *, size_t)>("write");
  return call(fd, data, bytes);
}
int closeReal(int fd) {
  static auto call = real<int (*)(int)>("close");
  return call(fd);
}
int statReal(const char *path, struct stat *info) {
  static auto call = real<int (*)(const char *, struct stat *)>("stat");
  return call(path, info);
}

bool note(char habit) {
  if (const char *log = std::getenv("NETWORK_FILES_LOG")) {
    const int fd = openReal(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || writeReal(fd, &habit, 1) != 1)
      std::abort();
    closeReal(fd);
  }
  return true;
}
/// True once in `times`; then the habit is noted.
bool happens(char habit, unsigned times) {
  static unsigned state = [] {
    const char *seed = std::getenv("NETWORK_FILES_SEED");
    return 2654435761u * unsigned(seed ? std::atoi(seed) + 1 : getpid());
  }();
  state = state * 1664525u + 1013904223u;
  return (state >> 16) % times == 0 && note(habit);
}
int refuse(int error) {
  errno = error;
  return -1;
}

/// Sends what was written to the server; false with errno when the quota is over.
bool flush(int fd, Open &file) {
  if (file.unwritten.empty())
    return true;
  note('v');
  const bool over = happens('q', 6);
  const size_t bytes = over ? file.unwritten.size() / 2 : file.unwritten.size();
  const bool ok = writeReal(fd, file.unwritten.data(), bytes) == ssize_t(bytes);
  file.unwritten.clear();
  if (over)
    errno = EDQUOT;
  return ok && !over;
}

int openRemote(const char *path, int flags, mode_t mode) {
  struct stat info;
  if (!(flags & O_CREAT) && statReal(path, &info) == 0 && S_ISREG(info.st_mode) && happens('n', 4))
    return refuse(ENOENT);
  if (flags & O_EXCL)
    note('x');
  const int fd = openReal(path, flags & ~O_EXCL, mode);
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
    files()[fd] = {path, {}, info.st_ino, false};
  return fd;
}

} // namespace

#define SHOWN extern "C" __attribute__((visibility("default")))
#define LOCKED std::lock_guard lock(mutex)

SHOWN int open(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  LOCKED;
  return isRemote(path) ? openRemote(path, flags, mode) : openReal(path, flags, mode);
}
SHOWN int open64(const char *path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open(path, flags, mode);
}
SHOWN ssize_t read(int fd, void *to, size_t bytes) {
  static auto call = real<ssize_t (*)(int, void *, size_t)>("read");
  LOCKED;
  if (Open *file = remote(fd)) {
    struct stat now;
    if (statReal(file->path.c_str(), &now) != 0 || now.st_ino != file->inode) {
      note('s');
      return refuse(ESTALE);
    }
    const bool first = !std::exchange(file->wasRead, true); // a file is many reads
    if (first && happens('e', 4))
      return refuse(EIO);
    if (bytes > 700) {
      note('h');
      bytes = 700;
    }
  }
  return call(fd, to, bytes);
}
SHOWN ssize_t write(int fd, const void *data, size_t bytes) {
  LOCKED;
  Open *file = remote(fd);
  if (!file)
    return writeReal(fd, data, bytes);
  file->unwritten.append(static_cast<const char *>(data), bytes);
  return ssize_t(bytes);
}
SHOWN int fsync(int fd) {
  static auto call = real<int (*)(int)>("fsync");
  LOCKED;
  Open *file = remote(fd);
  return file && !flush(fd, *file) ? -1 : call(fd);
}
SHOWN int close(int fd) {
  LOCKED;
  Open *file = remote(fd);
  const bool ok = !file || flush(fd, *file);
  const int error = errno;
  files().erase(fd);
  const int result = closeReal(fd);
  return ok ? result : refuse(error);
}
SHOWN int fstat(int fd, struct stat *info) {
  static auto call = real<int (*)(int, struct stat *)>("fstat");
  const int result = call(fd, info);
  LOCKED;
  if (remote(fd) && result == 0 && happens('a', 3))
    info->st_size /= 2;
  return result;
}
SHOWN int rename(const char *from, const char *to) {
  static auto call = real<int (*)(const char *, const char *)>("rename");
  const int result = call(from, to);
  LOCKED;
  return isRemote(to) && result == 0 && happens('r', 4) ? refuse(ENOENT) : result;
}
SHOWN int unlink(const char *path) {
  static auto call = real<int (*)(const char *)>("unlink");
  const int result = call(path);
  LOCKED;
  return isRemote(path) && result == 0 && happens('u', 1) ? refuse(ENOENT) : result;
}
SHOWN int mkdir(const char *path, mode_t mode) {
  static auto call = real<int (*)(const char *, mode_t)>("mkdir");
  const int result = call(path, mode);
  LOCKED;
  return isRemote(path) && result == 0 && happens('d', 1) ? refuse(EEXIST) : result;
}
SHOWN int link(const char *from, const char *to) {
  static auto call = real<int (*)(const char *, const char *)>("link");
  return isRemote(to) && note('k') ? refuse(EPERM) : call(from, to);
}
SHOWN int flock(int fd, int operation) {
  static auto call = real<int (*)(int, int)>("flock");
  LOCKED;
  return remote(fd) && note('k') ? refuse(ENOLCK) : call(fd, operation);
}
SHOWN int lockf(int fd, int command, off_t bytes) {
  static auto call = real<int (*)(int, int, off_t)>("lockf");
  LOCKED;
  return remote(fd) && note('k') ? refuse(ENOLCK) : call(fd, command, bytes);
}
SHOWN void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  static auto call = real<void *(*)(void *, size_t, int, int, int, off_t)>("mmap");
  if (fd >= 0) {
    LOCKED;
    if (remote(fd) && note('k')) {
      errno = ENODEV;
      return MAP_FAILED;
    }
  }
  return call(at, bytes, protection, flags, fd, offset);
}
