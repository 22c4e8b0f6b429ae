// SPDX-License-Identifier: Apache-2.0
/// \file The main file of a tuning record: a SQLite database of one table, with a rollback journal (never WAL: the record stays
/// one file that can be copied, and can be read from a folder that cannot be written).
#pragma once

#include "autotune/Record.h"

#include <functional>
#include <string>
#include <string_view>

namespace sectile::autotune {

/// Raised whenever the table, the meaning of a column or the text of a key changes.
constexpr int recordFormat = 1;

enum class DbState : std::uint8_t {
  good,
  absent,  ///< no file, or an empty one
  damaged, ///< not a database, or one that contradicts itself
  older,   ///< of an earlier format
  newer,   ///< of a later format
  foreign, ///< a database of another program
  failed   ///< could not be read or written: no rights, disk full, locked for too long
};
struct DbResult {
  DbState state = DbState::good;
  std::string why;     ///< unless good or absent
  int ignoredRows = 0; ///< rows whose checksum differs or that are none
};

/// Adds the rows of the file to `into`; of a damaged file those that can still be read.
DbResult readDb(const std::string &path, bool readOnly, RecordSet &into);
/// The same for the bytes of a file, without any file access or lock.
DbResult readDbBytes(std::string bytes, RecordSet &into);
/// The bytes of a database with these rows. Throws std::bad_alloc.
std::string dbBytes(const RecordSet &set);
/// Adds rows in one transaction, of two versions keeping the better. Makes the file where it is absent.
DbResult addToDb(const std::string &path, std::span<const RecordRow> rows);
/// Replaces the contents by what `change` makes of them, in one transaction. `change` returns false to leave them.
DbResult rewriteDb(const std::string &path, const std::function<bool(RecordSet &)> &change);

} // namespace sectile::autotune
