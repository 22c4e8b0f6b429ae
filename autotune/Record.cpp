// SPDX-License-Identifier: Apache-2.0
#include "autotune/Record.h"
#include "autotune/RecordParts.h"
#include "runtime/Env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <utility>

namespace sectile::autotune {
namespace {

/// Whose turn it is to write on a local file system: a lock on `<path>.lock`, which the kernel gives back when its holder
/// dies. SQLite's own locks order readers and writers of one file; this one also keeps a file from being set aside under a
/// writer.
class Turn {
public:
  explicit Turn(const std::string &path) : fd(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd < 0) {
      why = std::strerror(errno);
      return;
    }
    constexpr int waits = 2000, waitMicros = 5000;
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
      if (errno == EINTR)
        continue;
      if (errno != EWOULDBLOCK || i == waits) {
        why = errno == EWOULDBLOCK ? "another process holds its lock" : std::strerror(errno);
        return;
      }
      usleep(waitMicros);
    }
  }
  ~Turn() {
    if (fd >= 0)
      ::close(fd);
  }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
  std::string why; ///< empty: it is ours

private:
  int fd;
};

bool isUseless(DbState state) { return state == DbState::damaged || state == DbState::older; }

/// Sets the file aside with its journal, which belongs to it and to no other. @pre we have the turn
std::string setAsideWithJournal(const std::string &path, DbState state) {
  const char *label = state == DbState::damaged ? "damaged" : "old";
  const std::string journal = path + "-journal";
  if (setAside(journal, label).empty() && errno != ENOENT)
    return {};
  return setAside(path, label);
}

} // namespace

FileSystem fileSystemOf(const std::string &path) {
  struct statfs info;
  std::string at = path;
  while (statfs(at.c_str(), &info) != 0) {
    const std::size_t slash = at.find_last_not_of('/');
    const std::size_t end = slash == std::string::npos ? std::string::npos : at.rfind('/', slash);
    if (end == std::string::npos || at == "/") {
      if (at == "." || at == "/" || statfs(at.starts_with('/') ? "/" : ".", &info) != 0)
        return FileSystem::local;
      break;
    }
    at = end == 0 ? "/" : at.substr(0, end);
  }
  // linux/magic.h and the file systems' own sources.
  switch (static_cast<std::uint32_t>(info.f_type)) {
  case 0x6969:     // NFS
  case 0x517B:     // SMB
  case 0xFE534D42: // SMB 2 and 3
  case 0xFF534D42: // CIFS
  case 0x65735546: // FUSE: sshfs, object stores
  case 0x01021997: // 9P: shares of a virtual machine
  case 0x786F4256: // VirtualBox shares
  case 0x0BD00BD0: // Lustre
  case 0x00C36400: // Ceph
  case 0x47504653: // GPFS
  case 0x19830326: // BeeGFS
  case 0xAAD7AAEA: // PanFS
  case 0x5346414F: // AFS
  case 0x6B414653: // AFS of the kernel
  case 0x73757245: // Coda
  case 0x7461636F: // OCFS2
  case 0x01161970: // GFS2
    return FileSystem::shared;
  default:
    return FileSystem::local;
  }
}

Record::Record(std::string path, Mode mode, FileSystem fileSystem) : file(std::move(path)), access(mode), fileSystem(fileSystem) {}

bool Record::isShared() const { return (fileSystem == FileSystem::detect ? fileSystemOf(file) : fileSystem) == FileSystem::shared; }

std::vector<std::string> Record::takeProblems() { return std::exchange(problems, {}); }

const RecordSet &Record::read() {
  wasRead = true;
  RecordSet fresh;
  RecordParts parts(file);
  DbResult result = isShared() ? parts.read(fresh, problems) : readDb(file, access == Mode::readOnly, fresh);
  if (!isShared())
    parts.readParts(fresh, problems); // a copy of a record from a shared file system
  if (isUseless(result.state) && access == Mode::readWrite)
    repair(fresh);
  else if (result.state != DbState::good && result.state != DbState::absent)
    problems.push_back(fmt::format("the tuning record '{}' is not used: {}", file, result.why));
  if (result.ignoredRows)
    problems.push_back(fmt::format("{} rows of the tuning record '{}' were edited or damaged, and are not used", result.ignoredRows, file));
  if (result.state != DbState::failed)
    known = std::move(fresh);
  else
    known.merge(fresh);
  for (const RecordRow &row : unsaved)
    known.add(row);
  return known;
}

void Record::repair(RecordSet &readable) {
  if (isShared()) {
    if (std::string why = RecordParts(file).merge(problems); !why.empty())
      problems.push_back(fmt::format("the tuning record '{}' cannot be repaired: {}", file, why));
    return;
  }
  Turn turn(file);
  if (!turn.why.empty()) {
    problems.push_back(fmt::format("the tuning record '{}' is damaged or of an older format, and cannot be set aside: {}", file, turn.why));
    return;
  }
  setAsideInTurn(readable);
}

/// Looks again, since another process may have been faster, and sets the file aside; what can be read in it goes into a new
/// one. @pre we have the turn
void Record::setAsideInTurn(RecordSet &readable) {
  RecordSet kept;
  const DbResult now = readDb(file, false, kept);
  readable.merge(kept);
  if (!isUseless(now.state))
    return;
  const std::string aside = setAsideWithJournal(file, now.state);
  if (aside.empty()) {
    problems.push_back(fmt::format("the tuning record '{}' is not used, and cannot be set aside: {}", file, std::strerror(errno)));
    return;
  }
  if (now.state == DbState::damaged) {
    readDbFile(aside, kept); // of a file that was cut off this reads what is there
    readable.merge(kept);
  }
  problems.push_back(fmt::format("the tuning record '{}' is set aside as '{}': {}; {} of its rows are kept", file, aside, now.why, kept.size()));
  std::vector<RecordRow> rows;
  for (const auto &[id, row] : kept.all())
    rows.push_back(row);
  if (rows.empty())
    return;
  if (const DbResult written = addToDb(file, rows); written.state != DbState::good)
    problems.push_back(fmt::format("the tuning record '{}' cannot be written: {}", file, written.why));
}

const RecordSet &Record::rows() { return wasRead ? known : read(); }

bool Record::put(std::span<const RecordRow> rows) {
  bool good = true;
  for (const RecordRow &row : rows) {
    if (std::string why = whyNoRow(row); !why.empty()) {
      problems.push_back(fmt::format("a row for kernel '{}' is not kept: {}", row.key.kernel, why));
      good = false;
      continue;
    }
    known.add(row);
    unsaved.push_back(row);
  }
  return save() && good;
}

bool Record::save() {
  if (unsaved.empty())
    return true;
  auto fail = [&](const std::string &why) {
    problems.push_back(fmt::format("the tuning record '{}' cannot be written ({}); {} rows are kept in memory", file, why, unsaved.size()));
    return false;
  };
  if (access == Mode::readOnly)
    return fail("it is open for reading alone");
  if (isShared()) {
    // A child of fork() appends to a file of its own.
    if (getpid() != ownProcess)
      ownPart.clear();
    ownProcess = getpid();
    RecordParts parts(file);
    if (std::string why = parts.append(unsaved, ownPart); !why.empty())
      return fail(why);
    unsaved.clear();
    constexpr std::size_t manyParts = 16;
    if (parts.count() >= manyParts)
      if (std::string why = parts.merge(problems); !why.empty())
        problems.push_back(fmt::format("the parts of the tuning record '{}' are not merged: {}", file, why));
    return true;
  }
  if (!makeFolderOf(file))
    return fail(std::strerror(errno));
  Turn turn(file);
  if (!turn.why.empty())
    return fail(turn.why);
  DbResult result = addToDb(file, unsaved);
  if (isUseless(result.state)) {
    setAsideInTurn(known);
    result = addToDb(file, unsaved);
  }
  if (result.state != DbState::good)
    return fail(result.why);
  unsaved.clear();
  return true;
}

bool Record::merge() {
  if (!save())
    return false;
  if (!isShared() || access == Mode::readOnly)
    return true;
  const std::string why = RecordParts(file).merge(problems);
  if (!why.empty())
    problems.push_back(fmt::format("the parts of the tuning record '{}' are not merged: {}", file, why));
  return why.empty();
}

bool Record::change(const std::function<void(RecordSet &)> &work) {
  auto fail = [&](const std::string &why) {
    problems.push_back(fmt::format("the tuning record '{}' cannot be changed: {}", file, why));
    return false;
  };
  if (access == Mode::readOnly)
    return fail("it is open for reading alone");
  auto changeAll = [&](RecordSet &set) {
    for (const RecordRow &row : unsaved)
      set.add(row);
    work(set);
    known = set;
    wasRead = true;
    return true;
  };
  if (isShared()) {
    if (std::string why = RecordParts(file).change([&](RecordSet &set) { changeAll(set); }, problems); !why.empty())
      return fail(why);
  } else {
    if (!makeFolderOf(file))
      return fail(std::strerror(errno));
    Turn turn(file);
    if (!turn.why.empty())
      return fail(turn.why);
    DbResult result = rewriteDb(file, changeAll);
    if (isUseless(result.state)) {
      setAsideInTurn(known);
      result = rewriteDb(file, changeAll);
    }
    if (result.state != DbState::good)
      return fail(result.why);
  }
  unsaved.clear();
  return true;
}

std::optional<std::size_t> Record::prune(const PruneRule &rule) {
  std::size_t removed = 0;
  const bool done = change([&](RecordSet &set) {
    const std::vector<RecordSet::Id> gone = toPrune(set, rule);
    for (const RecordSet::Id &id : gone)
      set.erase(id);
    removed = gone.size();
  });
  return done ? std::optional(removed) : std::nullopt;
}

bool Record::forget(const RecordKey &key) {
  return change([&](RecordSet &set) {
    while (const RecordRow *row = set.find(key))
      set.erase({row->kind, row->key, row->choice});
  });
}

RecordPlace recordPlace() {
  const runtime::Env &env = runtime::env();
  RecordPlace place;
  place.path = env.tuneRecord;
  if (place.path == "none")
    return {};
  auto takeSuffix = [&](std::string_view suffix) {
    const bool has = place.path.ends_with(suffix);
    if (has)
      place.path.resize(place.path.size() - suffix.size());
    return has;
  };
  for (bool more = true; more;) {
    more = false;
    if (takeSuffix(":ro"))
      more = true, place.mode = Record::Mode::readOnly;
    if (takeSuffix(":shared"))
      more = true, place.fileSystem = FileSystem::shared;
  }
  if (place.path.empty() && !env.cacheDir.empty())
    place.path = env.cacheDir + "/tuning.sqlite";
  return place;
}

} // namespace sectile::autotune
