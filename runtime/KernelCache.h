// SPDX-License-Identifier: Apache-2.0
/// \file Compiled kernels, kept in memory and on disk.
///
/// The key is a text that holds everything the code depends on (IR, config, target, compiler and assembler
/// versions, no paths); its SHA-256 names the entry. On disk an entry is one file, `<first 128 bits>.kernel`:
///
///     magic "SECTILEK" | u32 format | u32 0 | 32 bytes SHA-256 of the key | u64 payload bytes | u64 xxHash64
///     of the payload | payload: the artifact                                      (little-endian)
///
/// It appears by an atomic rename, whole or not at all. Everything that is not exactly such a file of this
/// format is a miss and is replaced. A directory that cannot be written means no writing, said once on
/// stderr.
#pragma once

#include "ir/base/Artifact.h"
#include "runtime/Hash.h"
#include "runtime/Module.h"

#include <sectile/Export.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sectile::runtime {

/// An artifact as bytes, and back; nullopt for anything that serialize() did not write.
SECTILE_API std::string serialize(const Artifact &artifact);
SECTILE_API std::optional<Artifact> deserialize(std::string_view bytes);

/// The part on disk. Safe for any number of threads and processes on one directory.
class SECTILE_API DiskCache {
public:
  /// What a look-up found: an artifact, or the reason of the miss ("not on disk", "damaged: ...", "disk cache
  /// off").
  struct Lookup {
    std::optional<Artifact> artifact;
    std::string missReason;
  };
  /// One file of the cache.
  struct Entry {
    std::string file; ///< its name in the directory
    std::int64_t bytes = 0;
    std::int64_t usedSeconds = 0; ///< last use, seconds since the epoch
    std::string symbol, arch;     ///< empty when the file is damaged
    std::string damage;           ///< why it is not a good entry; empty when it is one
  };

  /// An empty directory name means no disk cache. Nothing is touched before the first use.
  explicit DiskCache(std::string directory) : dir(std::move(directory)) {}

  Lookup find(const Sha256 &key);
  Lookup find(std::string_view keyText) { return find(sha256(keyText)); }
  /// Writes or replaces the entry; false when it could not.
  bool insert(const Sha256 &key, const Artifact &artifact);
  bool insert(std::string_view keyText, const Artifact &artifact) {
    return insert(sha256(keyText), artifact);
  }
  /// All entries, most recently used first.
  std::vector<Entry> list() const;
  /// Removes damaged entries, leftovers of writers that died, and the least recently used entries until the
  /// rest is within `maxBytes`. Returns the number of files removed.
  int prune(std::int64_t maxBytes);

  const std::string &directory() const { return dir; }
  /// False after writing has failed.
  bool canWrite() const;

private:
  void giveUpWriting(const std::string &why);

  std::string dir;
  mutable std::mutex mutex;
  bool writeFailed = false;
  std::atomic<bool> wroteBefore{false};
};

/// The part in memory, in front of the one on disk. Bounded: the least recently used module leaves; who still
/// holds it keeps it. Thread-safe.
class SECTILE_API KernelCache {
public:
  static constexpr std::size_t defaultCapacity = 1024;
  enum class Source : std::uint8_t { memory, disk, built };
  struct Result {
    std::shared_ptr<Module> module;
    Source source = Source::built;
    std::string missReason; ///< why the disk had none; empty for memory and disk
  };

  KernelCache(std::string directory, std::size_t capacity)
      : onDisk(std::move(directory)), capacity(capacity) {}
  /// The cache of the process: the directory of the Env table, none under SECTILE_CACHE=0.
  static KernelCache &global();

  /// The module of this key: from memory, else from disk, else from build(), which is then kept in both.
  /// `build` runs outside all locks, at most once at a time per key: other threads that ask for the key wait
  /// for it; what it throws goes to its caller, and a waiting thread tries in its turn. `build` receives the
  /// reason of the miss.
  Result get(std::string_view kernel, const std::string &keyText,
             const std::function<Artifact(const std::string &missReason)> &build);

  DiskCache &disk() { return onDisk; }
  std::size_t size() const;
  /// Drops everything in memory.
  void clear();

private:
  struct Pending {
    std::mutex mutex;
  };
  struct HashDigest {
    std::size_t operator()(const Sha256 &d) const;
  };
  using Order = std::list<std::pair<Sha256, std::shared_ptr<Module>>>; ///< most recently used first

  std::shared_ptr<Module> findInMemory(const Sha256 &key);
  void keep(const Sha256 &key, std::shared_ptr<Module> module);

  DiskCache onDisk;
  std::size_t capacity;
  mutable std::mutex mutex;
  Order order;
  std::unordered_map<Sha256, Order::iterator, HashDigest> index;
  std::unordered_map<Sha256, std::weak_ptr<Pending>, HashDigest> pending;
};

} // namespace sectile::runtime
