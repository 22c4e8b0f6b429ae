// SPDX-License-Identifier: Apache-2.0
#include "runtime/KernelCache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sectile::runtime {
namespace {

constexpr char magic[8] = {'S', 'E', 'C', 'T', 'I', 'L', 'E', 'K'};
/// Raised whenever the header or the artifact's bytes change.
constexpr std::uint32_t formatVersion = 2;
constexpr std::string_view entrySuffix = ".kernel", tempPrefix = ".write-";
/// A file of a writer that is this old belongs to one that died.
constexpr std::int64_t staleSeconds = 600;

struct Header {
  char magic[8];
  std::uint32_t format, zero;
  std::uint8_t key[32];
  std::uint64_t payloadBytes, payloadHash;
};
static_assert(sizeof(Header) == 64);

/// A file descriptor that closes itself.
struct File {
  int fd;
  explicit File(int fd) : fd(fd) {}
  ~File() {
    if (fd >= 0)
      ::close(fd);
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
};

std::string errnoText(int error) { return std::strerror(error); }

std::string fileName(const Sha256 &key) { return hexText(key, 16) + std::string(entrySuffix); }

/// Reads a whole file; false with errno set when it cannot.
bool readFile(const std::string &path, std::string &out) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0)
    return false;
  struct stat info;
  if (fstat(file.fd, &info) != 0)
    return false;
  if (!S_ISREG(info.st_mode)) {
    errno = EINVAL;
    return false;
  }
  out.resize(static_cast<std::size_t>(info.st_size));
  std::size_t have = 0;
  while (have < out.size()) {
    ssize_t n = ::read(file.fd, out.data() + have, out.size() - have);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    if (n == 0)
      break;
    have += static_cast<std::size_t>(n);
  }
  out.resize(have);
  return true;
}

bool writeAll(int fd, const void *data, std::size_t bytes) {
  const char *p = static_cast<const char *>(data);
  while (bytes) {
    ssize_t n = ::write(fd, p, bytes);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

/// The artifact in the bytes of a file, or why it is not a good entry. `key` null: any key.
std::optional<Artifact> parseEntry(const std::string &bytes, const Sha256 *key, std::string &damage) {
  Header h;
  if (bytes.size() < sizeof h) {
    damage = fmt::format("{} bytes are less than a header", bytes.size());
    return std::nullopt;
  }
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, magic, sizeof magic) != 0)
    damage = "not a file of this cache";
  else if (h.format != formatVersion)
    damage = fmt::format("format {}, this version has {}", h.format, formatVersion);
  else if (key && std::memcmp(h.key, key->data(), key->size()) != 0)
    damage = "it belongs to another key";
  else if (h.payloadBytes != bytes.size() - sizeof h)
    damage = fmt::format("{} bytes of payload instead of {}", bytes.size() - sizeof h, h.payloadBytes);
  else if (std::string_view payload = std::string_view(bytes).substr(sizeof h);
           xxHash64(payload) != h.payloadHash)
    damage = "the checksum differs";
  else if (std::optional<Artifact> a = deserialize(payload))
    return a;
  else
    damage = "the payload is not an artifact";
  return std::nullopt;
}

/// Makes the directory and its parents; false with errno set.
bool makeDirectories(const std::string &path) {
  for (std::size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/')
      continue;
    std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      // A parent that exists but cannot be written (EROFS, EACCES) is in order; what follows tells.
      struct stat info;
      int error = errno;
      if (stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        errno = error;
        return false;
      }
    }
  }
  return true;
}

/// Names in a directory; empty when it cannot be read.
std::vector<std::string> namesIn(const std::string &dir) {
  std::vector<std::string> names;
  DIR *d = dir.empty() ? nullptr : opendir(dir.c_str());
  if (!d)
    return names;
  while (dirent *e = readdir(d))
    names.push_back(e->d_name);
  closedir(d);
  return names;
}

/// Removes files of writers that died before their rename; returns how many.
int removeLeftovers(const std::string &dir) {
  int removed = 0;
  for (const std::string &name : namesIn(dir)) {
    struct stat info;
    std::string path = dir + "/" + name;
    if (name.starts_with(tempPrefix) && stat(path.c_str(), &info) == 0 &&
        info.st_mtim.tv_sec + staleSeconds < std::time(nullptr))
      removed += unlink(path.c_str()) == 0;
  }
  return removed;
}

} // namespace

bool DiskCache::canWrite() const {
  std::lock_guard lock(mutex);
  return !dir.empty() && !writeFailed;
}

void DiskCache::giveUpWriting(const std::string &why) {
  std::lock_guard lock(mutex);
  if (std::exchange(writeFailed, true))
    return;
  fmt::print(stderr,
             "sectile: the kernel cache {} cannot be written ({}); compiled kernels are not kept on disk\n",
             dir, why);
}

DiskCache::Lookup DiskCache::find(const Sha256 &key) {
  if (dir.empty())
    return {std::nullopt, "disk cache off"};
  std::string path = dir + "/" + fileName(key), bytes, damage;
  if (!readFile(path, bytes)) {
    int error = errno;
    return {std::nullopt, error == ENOENT ? "not on disk" : "not readable: " + errnoText(error)};
  }
  std::optional<Artifact> artifact = parseEntry(bytes, &key, damage);
  if (!artifact)
    return {std::nullopt, "damaged: " + damage};
  // The time of last use is what prune() goes by. A cache that cannot be written simply does not record it.
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return {std::move(artifact), {}};
}

bool DiskCache::insert(const Sha256 &key, const Artifact &artifact) {
  if (!canWrite())
    return false;
  if (!makeDirectories(dir)) {
    giveUpWriting(errnoText(errno));
    return false;
  }
  if (!wroteBefore.exchange(true))
    removeLeftovers(dir);
  std::string payload = serialize(artifact);
  Header h{};
  std::memcpy(h.magic, magic, sizeof magic);
  h.format = formatVersion;
  std::memcpy(h.key, key.data(), key.size());
  h.payloadBytes = payload.size();
  h.payloadHash = xxHash64(payload);

  // A name of its own per writer (process numbers are not unique across containers), in the same directory,
  // so that the rename is atomic.
  Sha256 random{};
  if (getrandom(random.data(), 12, 0) != 12) {
    giveUpWriting("no random numbers: " + errnoText(errno));
    return false;
  }
  std::string temp = dir + "/" + std::string(tempPrefix) + hexText(random, 12);
  std::string path = dir + "/" + fileName(key);
  int error = 0;
  {
    File file(::open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.fd < 0)
      error = errno;
    else if (!writeAll(file.fd, &h, sizeof h) || !writeAll(file.fd, payload.data(), payload.size()) ||
             fsync(file.fd) != 0)
      error = errno;
  }
  if (!error && rename(temp.c_str(), path.c_str()) != 0) {
    error = errno;
    // A network file system whose answer was lost repeats the request, and then finds nothing to rename.
    if (error == ENOENT && access(temp.c_str(), F_OK) != 0 && access(path.c_str(), F_OK) == 0)
      return true;
  }
  if (!error)
    return true;
  unlink(temp.c_str());
  giveUpWriting(errnoText(error));
  return false;
}

std::vector<DiskCache::Entry> DiskCache::list() const {
  std::vector<Entry> entries;
  for (const std::string &name : namesIn(dir)) {
    if (!name.ends_with(entrySuffix) || name.starts_with("."))
      continue;
    Entry e;
    e.file = name;
    std::string bytes, path = dir + "/" + name;
    struct stat info;
    if (stat(path.c_str(), &info) != 0)
      continue; // removed in the meantime
    e.bytes = info.st_size;
    e.usedSeconds = info.st_mtim.tv_sec;
    if (!readFile(path, bytes)) {
      e.damage = "not readable: " + errnoText(errno);
    } else if (std::optional<Artifact> a = parseEntry(bytes, nullptr, e.damage)) {
      e.symbol = a->launch.symbol;
      e.arch = a->arch;
    }
    entries.push_back(std::move(e));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return a.usedSeconds != b.usedSeconds ? a.usedSeconds > b.usedSeconds : a.file < b.file;
  });
  return entries;
}

int DiskCache::prune(std::int64_t maxBytes) {
  int removed = removeLeftovers(dir);
  std::int64_t kept = 0;
  for (const Entry &e : list()) {
    if (e.damage.empty() && kept + e.bytes <= maxBytes)
      kept += e.bytes;
    else
      removed += unlink((dir + "/" + e.file).c_str()) == 0;
  }
  return removed;
}

} // namespace sectile::runtime
