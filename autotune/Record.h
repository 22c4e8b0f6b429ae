// SPDX-License-Identifier: Apache-2.0
/// \file The tuning record: what was measured, for what, on what; on disk in one SQLite file that can be shipped.
///
/// Rows form a set. Two rows are the same row when kind, key and choice are equal; of two versions one is kept by a total
/// order (final before noisy, then the newer, then the faster, then by text). The choice for a key is derived from its
/// rows of kind `choice`:
///
///   1. where one of them is final, noisy ones do not count;
///   2. a row whose whole interval lies above another's does not count;
///   3. of the rest the one whose choice comes first as text.
///
/// So merging records in any order, any number of times, gives the same set and the same choices everywhere. Keys of
/// another GPU, driver, compiler or assembler are other keys: they live side by side.
#pragma once

#include <sectile/Export.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::autotune {

/// What a measurement holds for. Made by recordKey() (dsl/Choice.h).
struct RecordKey {
  std::string kernel;      ///< the kernel's name
  std::string content;     ///< SHA-256 of the kernel's content, hexadecimal (contentOf in dsl/Choice.h)
  std::string layout;      ///< of every argument: element type, rank, alignment, strides by class, constants
  std::string shape;       ///< of every axis: the bucket of its length and what divides it, "4096/16x4096/16;..."
  std::string gpu;         ///< "NVIDIA H200"; "interpreter"
  int multiprocessors = 0; ///< 0 on the interpreter
  std::string driver, compiler, assembler; ///< versions; the compiler's with its build id
  auto operator<=>(const RecordKey &) const = default;
};

/// The bucket of an axis: lengths up to 8 as they are, above in four steps per doubling (10, 12, 14, 16, 20 ..), rounded up.
SECTILE_API std::int64_t shapeBucket(std::int64_t length);

struct RecordRow {
  enum class Kind : std::uint8_t {
    choice,   ///< what tuning chose for the key
    candidate ///< what one candidate took; key.content is the content of the kernel with this candidate
  };
  Kind kind = Kind::choice;
  RecordKey key;
  std::string choice;        ///< the configuration as choiceText() writes it, "BK=64 BM=128 warps=8"; may be empty
  std::string choiceContent; ///< SHA-256 of the kernel's content with this configuration
  std::string dims;          ///< the lengths that were measured, "4096x4096;4096x4096;4096x4096"
  double medianNs = 0, lowNs = 0, highNs = 0; ///< low <= median <= high; all 0 for a candidate that is out
  std::int64_t date = 0;                      ///< seconds since the epoch
  int tried = 0;                              ///< candidates that were timed for this choice
  bool isFinal = false;                       ///< false: too noisy to decide for good
  std::string note;                           ///< why a candidate is out ("wrong result", "17 spills"); else empty
  bool operator==(const RecordRow &) const = default;
};

/// Why this is no row (times that are not numbers, an interval without its median, a text with control characters);
/// empty if it is one.
SECTILE_API std::string whyNoRow(const RecordRow &row);
/// xxHash64 of all fields, hexadecimal: a row that was edited by hand does not have it.
SECTILE_API std::string rowChecksum(const RecordRow &row);

/// A set of rows in memory. A value; not thread-safe.
class SECTILE_API RecordSet {
public:
  /// What identifies a row.
  struct Id {
    RecordRow::Kind kind;
    RecordKey key;
    std::string choice;
    auto operator<=>(const Id &) const = default;
  };
  /// Adds a row, or keeps the better of two versions. True if the set changed.
  bool add(const RecordRow &row);
  /// Adds all rows of another set; how many changed this one.
  std::size_t merge(const RecordSet &other);
  bool erase(const Id &id) { return rows.erase(id) != 0; }

  /// The chosen row for this key, by the rule above.
  const RecordRow *find(const RecordKey &key) const;
  /// The chosen row of the nearest shape: all of the key the same but the shape, whose buckets differ by at most a factor
  /// of four in all axes together (the sum of |log2| of the ratios; ties: the smaller shape by its text). Null: none.
  const RecordRow *findNeighbour(const RecordKey &key) const;
  /// The measurement of one candidate. `key.content` is that of the kernel with the candidate.
  const RecordRow *findCandidate(const RecordKey &key, const std::string &choice) const;
  /// Whether some choice is kept for a kernel of this name.
  bool knows(std::string_view kernel) const;

  const std::map<Id, RecordRow> &all() const { return rows; }
  std::size_t size() const { return rows.size(); }
  bool operator==(const RecordSet &) const = default;

private:
  std::map<Id, RecordRow> rows;
};

/// Rows as JSON, one object `{"format": 1, "rows": [..]}`; each row with its checksum.
SECTILE_API std::string toJson(const RecordSet &set);
/// Rows of such a text. Rows that are damaged, edited or unknown are left out and named in `rejected` ("row 3: .."). nullopt
/// where the text as a whole is none, with the reason in `why`.
SECTILE_API std::optional<RecordSet> fromJson(std::string_view text, std::vector<std::string> &rejected, std::string &why);

/// What prune() removes: rows that any of the set conditions names.
struct PruneRule {
  std::optional<std::int64_t> before = {};  ///< dated before this
  std::optional<std::string> compiler = {}; ///< made by another compiler than this
  std::string kernel = {};                  ///< of this kernel
  bool losers = false;                      ///< choices that are not the chosen row of their key
  bool candidates = false;                  ///< measurements of single candidates
  bool noisy = false;                       ///< not final
};

/// How a file system serves locks: `shared` ones (NFS, Lustre, FUSE ..) are trusted with atomic renames alone.
enum class FileSystem : std::uint8_t { detect, local, shared };
/// What `path` (or its nearest folder that exists) lies on, by statfs.
SECTILE_API FileSystem fileSystemOf(const std::string &path);

/// A record on disk. Every call opens the file, does its work and closes it, so that nothing is held across a fork, and a
/// process may be killed at any time.
///
/// On a local file system writers take turns by SQLite's locks. On a shared one each process appends to a file of its
/// own in `<path>.parts/`, and a whole new main file takes the old one's place by a rename (Parts.h).
/// A file that is damaged, or of an older format, is renamed to `<path>.damaged-<date>-<n>` or `<path>.old-..`; what can
/// still be read in it is kept. A file of a newer format is left alone and not used.
class SECTILE_API Record {
public:
  enum class Mode : std::uint8_t { readWrite, readOnly };
  /// Nothing is touched before the first use.
  explicit Record(std::string path, Mode mode = Mode::readWrite, FileSystem fileSystem = FileSystem::detect);

  /// Reads the file anew; what cannot be read or is damaged becomes a problem, and rows in memory stay. Never throws.
  /// An absent file is an empty record.
  const RecordSet &read();
  /// What was read last (read() if nothing was yet), and everything put since.
  const RecordSet &rows();
  const RecordRow *find(const RecordKey &key) { return rows().find(key); }
  const RecordRow *findNeighbour(const RecordKey &key) { return rows().findNeighbour(key); }
  const RecordRow *findCandidate(const RecordKey &key, const std::string &choice) { return rows().findCandidate(key, choice); }

  /// Adds rows, in memory at once and on disk. False where the disk does not take them (full, unwritable, read-only
  /// record, a row that is none): then the problems say why, and the rows stay in memory and go along with the next put().
  /// Never throws for what a disk does.
  bool put(std::span<const RecordRow> rows);
  bool put(const RecordRow &row) { return put(std::span(&row, 1)); }
  /// Removes rows; how many. nullopt where the disk does not allow it.
  std::optional<std::size_t> prune(const PruneRule &rule);
  /// Forgets the choices for one key, so that what is put next counts alone. False as for put().
  bool forget(const RecordKey &key);
  /// On a shared file system: brings the parts of all processes into the main file. False as for put().
  bool merge();

  const std::string &path() const { return file; }
  Mode mode() const { return access; }
  /// What went wrong since the last call, a line each.
  std::vector<std::string> takeProblems();

private:
  bool isShared() const;
  bool save();
  bool change(const std::function<void(RecordSet &)> &work);
  void repair(RecordSet &readable);
  void setAsideInTurn(RecordSet &readable);

  std::string file;
  Mode access;
  FileSystem fileSystem;
  bool wasRead = false;
  RecordSet known;
  std::vector<RecordRow> unsaved;
  std::vector<std::string> problems;
  std::string ownPart; ///< on a shared file system: the file that this process appends to
  int ownProcess = 0;  ///< whose it is
};

/// The rows that `rule` removes.
SECTILE_API std::vector<RecordSet::Id> toPrune(const RecordSet &set, const PruneRule &rule);

/// Where the record of this process is, as SECTILE_TUNE_RECORD says: `PATH`, `PATH:ro` for reading alone, `PATH:shared` for a
/// file system whose locks are not trusted, `none`. Unset: `tuning.sqlite` beside the kernel cache. An empty path: none.
struct RecordPlace {
  std::string path;
  Record::Mode mode = Record::Mode::readWrite;
  FileSystem fileSystem = FileSystem::detect;
};
SECTILE_API RecordPlace recordPlace();

} // namespace sectile::autotune
