// SPDX-License-Identifier: Apache-2.0
#include "autotune/RecordParts.h"
#include "autotune/RecordJson.h"
#include "runtime/Hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <set>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sectile::autotune {
namespace {

constexpr std::string_view partSuffix = ".rows", takenSuffix = ".taken", tempSuffix = ".write", turnSuffix = ".changing";

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

std::string errnoText() { return std::strerror(errno); }

/// Letters of a name that no other process makes; process numbers are not unique across machines.
std::string randomName() {
  runtime::Sha256 random{};
  if (getrandom(random.data(), 12, 0) != 12) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    random = runtime::sha256(fmt::format("{} {} {}", getpid(), now, std::time(nullptr)));
  }
  return runtime::hexText(random, 12);
}

/// Whether the folder of `path` lists it.
bool isListed(const std::string &path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  DIR *d = opendir(folder.c_str());
  bool found = false;
  while (dirent *e = d ? readdir(d) : nullptr)
    found |= path.compare(slash == std::string::npos ? 0 : slash + 1, std::string::npos, e->d_name) == 0;
  if (d)
    closedir(d);
  return found;
}

/// A whole file; false with errno set. A file that another machine has just replaced is opened again, and so is one that a
/// network file system does not find although it lists it. `flags` O_CREAT: an absent file is made and is empty; that is
/// answered by the server, not from memory.
bool readWhole(const std::string &path, std::string &out, int flags = 0) {
  constexpr int mostAttempts = 20;
  for (int attempt = 0;; ++attempt) {
    out.clear();
    File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags, 0666));
    struct stat info;
    bool ok = file.fd >= 0 && fstat(file.fd, &info) == 0;
    if (ok && !S_ISREG(info.st_mode)) {
      errno = EINVAL;
      return false;
    }
    char block[65536];
    for (ssize_t n = 1; ok && n != 0;) {
      n = ::read(file.fd, block, sizeof block);
      if (n > 0)
        out.append(block, static_cast<std::size_t>(n));
      ok = n >= 0 || errno == EINTR;
    }
    if (ok || attempt == mostAttempts)
      return ok;
    const int error = errno;
    const bool again = error == ESTALE || (error == ENOENT && isListed(path));
    errno = error;
    if (!again)
      return false;
  }
}

bool writeWhole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// Adds the rows in the text of a part; how many lines were none.
int addLines(std::string_view text, RecordSet &into) {
  int damaged = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    std::string why;
    if (!line.empty()) {
      std::optional<RecordRow> row = rowFromJson(line, why);
      if (row)
        into.add(*row);
      // The last line of a writer that is at work, or was killed there, is no damage.
      damaged += !row && end != std::string_view::npos;
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return damaged;
}

std::vector<RecordRow> rowsOf(const RecordSet &set) {
  std::vector<RecordRow> rows;
  for (const auto &[id, row] : set.all())
    rows.push_back(row);
  return rows;
}

/// What the clock of the file server says beside `path`: the clocks of two machines need not agree. 0: not known.
std::time_t timeOfNewFile(const std::string &path) {
  const std::string temp = path + "." + randomName() + std::string(tempSuffix);
  File file(::open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  struct stat info;
  const bool ok = file.fd >= 0 && fstat(file.fd, &info) == 0;
  unlink(temp.c_str());
  return ok ? info.st_mtim.tv_sec : 0;
}

bool isOlderThanGrace(const std::string &path, std::time_t now) {
  struct stat info;
  return now && stat(path.c_str(), &info) == 0 && info.st_mtim.tv_sec + graceSeconds < now;
}

} // namespace

std::vector<std::string> RecordParts::names() const {
  std::vector<std::string> found;
  DIR *d = opendir(folder.c_str());
  if (!d)
    return found;
  while (dirent *e = readdir(d))
    if (std::string_view name = e->d_name; name.ends_with(partSuffix) || name.ends_with(takenSuffix))
      found.push_back(folder + "/" + e->d_name);
  closedir(d);
  std::sort(found.begin(), found.end());
  return found;
}

void RecordParts::readParts(RecordSet &into, std::vector<std::string> &problems) const {
  // A part that is listed and then not there has been renamed, or its rows are in another part by now: the folder is read
  // again until everything in it has been seen.
  constexpr int mostPasses = 100;
  std::set<std::string> seen;
  for (int pass = 0; pass < mostPasses; ++pass) {
    bool isNew = false;
    for (const std::string &name : names()) {
      if (seen.contains(name))
        continue;
      isNew = true;
      std::string text;
      if (!readWhole(name, text)) {
        if (errno == ENOENT)
          continue;
        problems.push_back(fmt::format("'{}' cannot be read: {}", name, errnoText()));
      } else if (int damaged = addLines(text, into)) {
        problems.push_back(fmt::format("'{}': {} rows are damaged or were edited, and are not used", name, damaged));
      }
      seen.insert(name);
    }
    if (!isNew)
      return;
  }
  problems.push_back(fmt::format("'{}' changes all the time", folder));
}

DbResult RecordParts::read(RecordSet &into, std::vector<std::string> &problems) const {
  // Parts first: a row that a merge moves meanwhile is then seen in one place at least.
  readParts(into, problems);
  return readDbFile(mainPath, into);
}

std::string RecordParts::append(std::span<const RecordRow> rows, std::string &ownPart) const {
  if (rows.empty())
    return {};
  std::string text;
  for (const RecordRow &row : rows)
    text += rowJson(row) + "\n";
  for (int attempt = 0; attempt < 8; ++attempt) {
    const bool isNew = ownPart.empty();
    if (isNew) {
      if (!makeFolderOf(folder + "/x"))
        return errnoText();
      ownPart = folder + "/" + randomName() + std::string(partSuffix);
    }
    File file(::open(ownPart.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | (isNew ? O_CREAT | O_EXCL : 0), 0666));
    if (file.fd < 0) {
      const int error = errno;
      ownPart.clear();
      if (!isNew && (error == ENOENT || error == ESTALE))
        continue; // merged and removed: begin a new one
      return std::strerror(error);
    }
    struct stat before, after;
    const bool written = fstat(file.fd, &before) == 0 && writeWhole(file.fd, text) && fsync(file.fd) == 0;
    if (!written) {
      const int error = errno;
      ownPart.clear();
      return std::strerror(error);
    }
    if (stat(ownPart.c_str(), &after) == 0 && before.st_ino == after.st_ino && before.st_dev == after.st_dev)
      return {};
    ownPart.clear();
  }
  return "its parts are removed as fast as they are written";
}

/// Who changes a record alone, by a file that only one process can make; one that died does not keep the others out for
/// longer than a merge may take.
class RecordParts::Changing {
public:
  explicit Changing(const std::string &path) : name(path + std::string(turnSuffix)) {
    for (int attempt = 0; attempt < 2 && !held; ++attempt) {
      File file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      held = file.fd >= 0;
      if (held || errno != EEXIST)
        break;
      if (!isOlderThanGrace(name, timeOfNewFile(path)))
        break;
      unlink(name.c_str());
      errno = EEXIST;
    }
    error = held ? 0 : errno;
  }
  ~Changing() {
    if (held)
      unlink(name.c_str());
  }
  Changing(const Changing &) = delete;
  Changing &operator=(const Changing &) = delete;
  bool held = false;
  int error = 0;

private:
  std::string name;
};

DbResult RecordParts::readMainForMerge(RecordSet &into, std::vector<std::string> &problems) const {
  std::string bytes;
  // One that is there and is not found would be replaced by less than it holds.
  if (!readWhole(mainPath, bytes, O_CREAT))
    return {DbState::failed, errnoText(), 0};
  DbResult main = readDbBytes(std::move(bytes), into);
  if (main.state != DbState::damaged && main.state != DbState::older)
    return main;
  const std::string aside = setAside(mainPath, main.state == DbState::damaged ? "damaged" : "old");
  if (aside.empty() && errno != ENOENT)
    return {DbState::failed, errnoText(), 0};
  // Another process may have put a good one there in the meantime: whatever was moved is read as well. Its rows are in a
  // part before they are in a main file, which another merge may replace.
  if (!aside.empty()) {
    readDbFile(aside, into);
    std::string part;
    if (std::string why = append(rowsOf(into), part); !why.empty())
      problems.push_back(fmt::format("rows of '{}' are not kept: {}", aside, why));
  }
  problems.push_back(fmt::format("'{}' is set aside as '{}': {}", mainPath, aside, main.why));
  return {DbState::absent, {}, 0};
}

std::string RecordParts::replaceMain(const RecordSet &all, std::chrono::steady_clock::time_point began) const {
  const std::string temp = mainPath + "." + randomName() + std::string(tempSuffix);
  int error = 0;
  {
    File file(::open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.fd < 0 || !writeWhole(file.fd, dbBytes(all)) || fsync(file.fd) != 0)
      error = errno;
  }
  const bool late = std::chrono::steady_clock::now() - began > std::chrono::seconds(graceSeconds / 2);
  if (!error && !late) {
    if (rename(temp.c_str(), mainPath.c_str()) == 0)
      return {};
    error = errno;
    // A network file system whose answer was lost repeats the request, and then finds nothing to rename.
    if (error == ENOENT && access(temp.c_str(), F_OK) != 0 && access(mainPath.c_str(), F_OK) == 0)
      return {};
  }
  unlink(temp.c_str());
  return error ? std::strerror(error) : "the file system was too slow for a merge; the rows stay in their parts";
}

std::string RecordParts::merge(std::vector<std::string> &problems) const {
  const auto began = std::chrono::steady_clock::now();
  if (!makeFolderOf(mainPath))
    return errnoText();
  RecordSet before;
  const DbResult main = readMainForMerge(before, problems);
  if (main.state != DbState::good && main.state != DbState::absent)
    return main.why;
  RecordSet all = before;
  readParts(all, problems);
  if (all != before || (main.state == DbState::absent && all.size()))
    return replaceMain(all, began);

  // Nothing was new: the main file, as it was read, holds every part. Those that have been there for long go.
  const std::time_t now = timeOfNewFile(mainPath);
  if (isOlderThanGrace(mainPath, now))
    for (const std::string &name : names()) {
      RecordSet covered = before;
      std::string text;
      if (isOlderThanGrace(name, now) && readWhole(name, text) && (addLines(text, covered), covered == before))
        unlink(name.c_str());
    }
  return {};
}

std::string RecordParts::change(const std::function<void(RecordSet &)> &change, std::vector<std::string> &problems) const {
  const auto began = std::chrono::steady_clock::now();
  if (!makeFolderOf(mainPath))
    return errnoText();
  Changing turn(mainPath);
  if (!turn.held)
    return turn.error == EEXIST ? "another process is changing it" : std::strerror(turn.error);
  RecordSet all;
  const DbResult main = readMainForMerge(all, problems);
  if (main.state != DbState::good && main.state != DbState::absent)
    return main.why;
  // What is appended under the old name after it was read must not get lost: the part is renamed first, and its owner finds
  // it gone. One that a process left so and died is read like the others.
  std::vector<std::string> taken;
  for (const std::string &name : names()) {
    std::string moved = name.ends_with(takenSuffix) ? name : name + std::string(takenSuffix), text;
    if (moved != name && rename(name.c_str(), moved.c_str()) != 0) {
      if (errno == ENOENT)
        continue;
      return errnoText();
    }
    if (!readWhole(moved, text))
      return errnoText();
    addLines(text, all);
    taken.push_back(std::move(moved));
  }
  change(all);
  // A merge that runs meanwhile may have read the main file before and lists the parts after this: so that it finds what was
  // in those that go, all is in a part as well.
  std::string part;
  std::string why = append(rowsOf(all), part);
  if (why.empty())
    why = replaceMain(all, began);
  if (!why.empty())
    return why; // parts under their new names are still read
  for (const std::string &gone : taken)
    unlink(gone.c_str());
  return {};
}

std::string setAside(const std::string &path, const char *label) {
  char date[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (gmtime_r(&now, &parts))
    std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", &parts);
  const std::string aside = fmt::format("{}.{}-{}-{}", path, label, date, randomName().substr(0, 6));
  if (rename(path.c_str(), aside.c_str()) == 0)
    return aside;
  const int error = errno;
  const bool isDone = error == ENOENT && access(aside.c_str(), F_OK) == 0; // and the answer was lost
  errno = error;
  return isDone ? aside : std::string();
}

DbResult readDbFile(const std::string &path, RecordSet &into) {
  std::string bytes;
  if (!readWhole(path, bytes))
    return errno == ENOENT || errno == ENOTDIR ? DbResult{DbState::absent, {}, 0} : DbResult{DbState::failed, errnoText(), 0};
  return readDbBytes(std::move(bytes), into);
}

bool makeFolderOf(const std::string &path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0777) == 0 || errno == EEXIST)
      continue;
    const int error = errno;
    struct stat info;
    if (stat(part.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
      continue;
    errno = error;
    return false;
  }
  return true;
}

} // namespace sectile::autotune
