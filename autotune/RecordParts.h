// SPDX-License-Identifier: Apache-2.0
/// \file A tuning record on a file system whose locks are not trusted (NFS, Lustre, FUSE ..): appends and atomic renames alone.
///
/// Each process appends to a file of its own, `<path>.parts/<random>.rows`, a row of JSON a line. A merge reads the main
/// file and all parts and puts a new main file in the old one's place by a rename. Two merges may run at once: the later
/// rename wins, and nothing is lost, because
///
///   - a part is removed only when the main file that holds all its rows, and the part itself, are older than `graceSeconds`;
///   - a merge that took longer than half of that since it read the main file gives up before its rename;
///   - a row is in a part before it is in a main file, and parts are listed again until none has vanished while it was read;
///   - who appends looks whether its file is still there afterwards, and if not appends to a new one.
#pragma once

#include "autotune/RecordDb.h"

#include <chrono>
#include <string>
#include <vector>

namespace sectile::autotune {

constexpr int graceSeconds = 600;

class RecordParts {
public:
  explicit RecordParts(const std::string &mainPath) : mainPath(mainPath), folder(mainPath + ".parts") {}

  /// Adds the rows of the main file and of all parts. Lines that are torn or damaged are counted, the rest of their part
  /// is read. `problems` gets what could not be read.
  DbResult read(RecordSet &into, std::vector<std::string> &problems) const;
  /// The rows of the parts alone.
  void readParts(RecordSet &into, std::vector<std::string> &problems) const;
  /// Appends to `ownPart`, which is named at the first call. Empty, or why not.
  std::string append(std::span<const RecordRow> rows, std::string &ownPart) const;
  /// Puts the rows of all parts into the main file; removes parts that have long been in it. Empty, or why not.
  std::string merge(std::vector<std::string> &problems) const;
  /// Makes the main file of what `change` makes of all rows, and removes the parts. One process at a time. Empty, or why not.
  /// A merge that runs at the same time may bring back what `change` took out.
  std::string change(const std::function<void(RecordSet &)> &change, std::vector<std::string> &problems) const;
  std::size_t count() const { return names().size(); }

private:
  class Changing;
  std::vector<std::string> names() const;
  DbResult readMainForMerge(RecordSet &into, std::vector<std::string> &problems) const;
  std::string replaceMain(const RecordSet &all, std::chrono::steady_clock::time_point began) const;

  std::string mainPath, folder;
};

/// Renames a file that is no use as a record to `<path>.<label>-<date>-<random>`; the new name, empty with errno set.
std::string setAside(const std::string &path, const char *label);
/// readDbBytes() of a whole file.
DbResult readDbFile(const std::string &path, RecordSet &into);
/// Makes the folder that `path` lies in. False with errno set.
bool makeFolderOf(const std::string &path);

} // namespace sectile::autotune
