// SPDX-License-Identifier: Apache-2.0
#include "autotune/RecordDb.h"
#include "runtime/Env.h"

#include <sectile/Error.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <sqlite3.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace sectile::autotune {
namespace {

constexpr int applicationId = 0x5EC71E; // "SECTILE", as far as digits go
constexpr int busyMillis = 10000;
/// These two statements make a file, and a good file has exactly them.
constexpr const char *tableText =
    "CREATE TABLE measurement (kind INTEGER, kernel TEXT, content TEXT, layout TEXT, shape TEXT, gpu TEXT, "
    "multiprocessors INTEGER, driver TEXT, compiler TEXT, assembler TEXT, choice TEXT, choice_content TEXT, dims TEXT, "
    "median_ns REAL, low_ns REAL, high_ns REAL, date INTEGER, tried INTEGER, final INTEGER, note TEXT, checksum TEXT)";
constexpr const char *indexText = "CREATE INDEX measurement_place ON measurement (content, choice, shape, layout, gpu)";
constexpr const char *selectText = "SELECT kind, kernel, content, layout, shape, gpu, multiprocessors, driver, compiler, assembler, choice, "
                                   "choice_content, dims, median_ns, low_ns, high_ns, date, tried, final, note, checksum FROM measurement ";
constexpr const char *sameRow = "WHERE kind = ?1 AND kernel = ?2 AND content = ?3 AND layout = ?4 AND shape = ?5 AND gpu = ?6 AND "
                                "multiprocessors = ?7 AND driver = ?8 AND compiler = ?9 AND assembler = ?10 AND choice = ?11";

/// What SQLite said, thrown within this file alone.
struct Failure {
  int code;
  std::string text;
};

DbState stateOf(int code) {
  switch (code & 0xff) {
  case SQLITE_NOTADB:
  case SQLITE_CORRUPT:
  case SQLITE_SCHEMA:
  case SQLITE_ERROR: // every statement is constant and fits a good file
    return DbState::damaged;
  case SQLITE_NOMEM:
    throw std::bad_alloc();
  default:
    return DbState::failed;
  }
}

/// A connection that closes itself.
class Db {
public:
  Db(const std::string &path, int flags, const char *vfs = nullptr) {
    int code = sqlite3_open_v2(path.c_str(), &handle, flags, vfs);
    if (code == SQLITE_OK)
      code = sqlite3_extended_result_codes(handle, 1);
    if (code != SQLITE_OK) {
      Failure f = failure(code);
      sqlite3_close(handle);
      throw f;
    }
    sqlite3_busy_timeout(handle, busyMillis);
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 1 << 24);
    sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  }
  ~Db() { sqlite3_close(handle); }
  Db(const Db &) = delete;
  Db &operator=(const Db &) = delete;

  Failure failure(int code) const {
    std::string text = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
    if (int error = handle ? sqlite3_system_errno(handle) : 0; error && (code & 0xff) != SQLITE_BUSY)
      text += fmt::format(" ({})", std::strerror(error));
    return {code, text};
  }
  void check(int code) const {
    if (code != SQLITE_OK)
      throw failure(code);
  }
  void run(const char *sql) { check(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr)); }
  sqlite3 *get() const { return handle; }

private:
  sqlite3 *handle = nullptr;
};

class Statement {
public:
  Statement(Db &db, const std::string &sql) : db(db) { db.check(sqlite3_prepare_v2(db.get(), sql.c_str(), -1, &handle, nullptr)); }
  ~Statement() { sqlite3_finalize(handle); }
  Statement(const Statement &) = delete;
  Statement &operator=(const Statement &) = delete;

  bool step() {
    const int code = sqlite3_step(handle);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
      throw db.failure(code);
    return code == SQLITE_ROW;
  }
  void reset() {
    sqlite3_reset(handle);
    next = 1;
  }
  void bind(const std::string &text) {
    db.check(sqlite3_bind_text64(handle, next++, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
  }
  void bind(std::int64_t n) { db.check(sqlite3_bind_int64(handle, next++, n)); }
  void bind(double x) { db.check(sqlite3_bind_double(handle, next++, x)); }
  std::string text(int column) const {
    const auto *bytes = reinterpret_cast<const char *>(sqlite3_column_text(handle, column));
    return bytes ? std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle, column))) : std::string();
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(handle, column); }
  double real(int column) const { return sqlite3_column_double(handle, column); }

private:
  Db &db;
  sqlite3_stmt *handle = nullptr;
  int next = 1;
};

std::int64_t pragma(Db &db, const char *name) {
  Statement s(db, fmt::format("PRAGMA {}", name));
  return s.step() ? s.integer(0) : 0;
}

/// What kind of file an open database is.
DbResult examine(Db &db) {
  const std::int64_t id = pragma(db, "application_id"), version = pragma(db, "user_version");
  int entries = 0, ours = 0;
  {
    Statement s(db, "SELECT sql FROM sqlite_schema");
    while (s.step()) {
      ++entries;
      ours += s.text(0) == tableText || s.text(0) == indexText;
    }
  }
  if (id == 0 && version == 0 && entries == 0)
    return {DbState::absent, {}, 0};
  if (id != applicationId)
    return {DbState::foreign, "it is a database of another program", 0};
  if (version < recordFormat)
    return {DbState::older, fmt::format("it has format {}, this version of Sectile has {}", version, recordFormat), 0};
  if (version > recordFormat)
    return {DbState::newer, fmt::format("it has format {}, this version of Sectile has {}", version, recordFormat), 0};
  if (entries != 2 || ours != 2)
    return {DbState::damaged, "its table is not the one of this format", 0};
  return {};
}

RecordRow rowOf(const Statement &s, bool &good) {
  RecordRow r;
  const std::int64_t kind = s.integer(0);
  r.kind = static_cast<RecordRow::Kind>(kind);
  RecordKey &k = r.key;
  k.kernel = s.text(1), k.content = s.text(2), k.layout = s.text(3), k.shape = s.text(4), k.gpu = s.text(5);
  k.multiprocessors = static_cast<int>(s.integer(6));
  k.driver = s.text(7), k.compiler = s.text(8), k.assembler = s.text(9);
  r.choice = s.text(10), r.choiceContent = s.text(11), r.dims = s.text(12);
  r.medianNs = s.real(13), r.lowNs = s.real(14), r.highNs = s.real(15);
  r.date = s.integer(16);
  r.tried = static_cast<int>(s.integer(17));
  r.isFinal = s.integer(18) != 0;
  r.note = s.text(19);
  good = kind >= 0 && kind <= 1 && s.text(20) == rowChecksum(r) && whyNoRow(r).empty();
  return r;
}

/// Rows are read forwards, and where that ends early backwards: a damaged page in the middle costs its own rows.
int readRows(Db &db, RecordSet &into) {
  int ignored = 0;
  std::optional<Failure> broken;
  for (const char *order : {"ORDER BY rowid", "ORDER BY rowid DESC"}) {
    try {
      Statement s(db, std::string(selectText) + order);
      while (s.step()) {
        bool good = false;
        const RecordRow row = rowOf(s, good);
        if (good)
          into.add(row);
        ignored += !good;
      }
      if (!broken)
        return ignored;
    } catch (const Failure &f) {
      if (stateOf(f.code) != DbState::damaged)
        throw;
      broken = f;
    }
  }
  throw *broken;
}

DbResult readOpen(Db &db, RecordSet &into) {
  DbResult result = examine(db);
  if (result.state != DbState::good)
    return result;
  result.ignoredRows = readRows(db, into);
  // What is left to notice: pages that contradict each other without any row being lost yet.
  Statement s(db, "PRAGMA quick_check(1)");
  if (const std::string said = s.step() ? s.text(0) : "nothing"; said != "ok")
    return {DbState::damaged, said, result.ignoredRows};
  return result;
}

void makeTable(Db &db) {
  db.run(tableText);
  db.run(indexText);
  db.run(fmt::format("PRAGMA application_id = {}", applicationId).c_str());
  db.run(fmt::format("PRAGMA user_version = {}", recordFormat).c_str());
}

void bindId(Statement &s, const RecordRow &r) {
  const RecordKey &k = r.key;
  s.bind(static_cast<std::int64_t>(r.kind));
  for (const std::string *text : {&k.kernel, &k.content, &k.layout, &k.shape, &k.gpu})
    s.bind(*text);
  s.bind(static_cast<std::int64_t>(k.multiprocessors));
  for (const std::string *text : {&k.driver, &k.compiler, &k.assembler, &r.choice})
    s.bind(*text);
}

class Inserter {
public:
  explicit Inserter(Db &db)
      : insert(db, "INSERT INTO measurement VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, "
                   "?20, ?21)") {}
  void operator()(const RecordRow &r) {
    const std::string checksum = rowChecksum(r);
    insert.reset();
    bindId(insert, r);
    insert.bind(r.choiceContent);
    insert.bind(r.dims);
    for (double time : {r.medianNs, r.lowNs, r.highNs})
      insert.bind(time);
    for (std::int64_t n : {r.date, std::int64_t(r.tried), std::int64_t(r.isFinal)})
      insert.bind(n);
    insert.bind(r.note);
    insert.bind(checksum);
    insert.step();
    insert.reset();
  }

private:
  Statement insert;
};

/// Runs `work` on the file inside a transaction. Nothing of it stays unless `work` returns a good result.
DbResult inTransaction(const std::string &path, const std::function<DbResult(Db &, DbResult)> &work) {
  try {
    Db db(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    db.run("PRAGMA synchronous = FULL");
    db.run("BEGIN IMMEDIATE");
    DbResult before = examine(db);
    if (before.state == DbState::absent)
      makeTable(db);
    else if (before.state != DbState::good)
      return before; // closing rolls back
    DbResult result = work(db, before);
    if (result.state == DbState::good)
      db.run("COMMIT");
    return result;
  } catch (const Failure &f) {
    return {stateOf(f.code), f.text, 0};
  }
}

/// Reads a file whose last writer was killed, where it may not be written: its journal is rolled back in a copy.
DbResult readCopy(const std::string &path, RecordSet &into) {
  namespace fs = std::filesystem;
  const std::string journal = path + "-journal";
  DbResult result{DbState::failed, "another process changes it all the time", 0};
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::string folder = runtime::env().tempDir + "/sectile-record-XXXXXX";
    if (!mkdtemp(folder.data()))
      return {DbState::failed, fmt::format("no copy can be made in '{}': {}", runtime::env().tempDir, std::strerror(errno)), 0};
    auto state = [&] { // of both files, to see whether they belong together
      struct stat a {}, b {};
      const bool hasBoth = stat(path.c_str(), &a) == 0 && stat(journal.c_str(), &b) == 0;
      return std::tuple(hasBoth, a.st_ino, a.st_mtim.tv_sec, a.st_mtim.tv_nsec, a.st_size, b.st_ino, b.st_mtim.tv_sec, b.st_mtim.tv_nsec, b.st_size);
    };
    const auto before = state();
    std::error_code error, ignored;
    const std::string copy = folder + "/r";
    fs::copy_file(path, copy, error);
    if (!error && std::get<0>(before))
      fs::copy_file(journal, copy + "-journal", error);
    const bool isOne = state() == before;
    RecordSet rows;
    if (!error && isOne) {
      fs::permissions(copy, fs::perms::owner_read | fs::perms::owner_write, ignored);
      fs::permissions(copy + "-journal", fs::perms::owner_read | fs::perms::owner_write, ignored);
      result = readDb(copy, false, rows);
    } else if (error) {
      result.why = error.message();
    }
    fs::remove_all(folder, ignored);
    if (!error && isOne) {
      into.merge(rows);
      return result;
    }
  }
  return result;
}

} // namespace

DbResult readDb(const std::string &path, bool readOnly, RecordSet &into) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0)
    return errno == ENOENT || errno == ENOTDIR ? DbResult{DbState::absent, {}, 0} : DbResult{DbState::failed, std::strerror(errno), 0};
  if (!S_ISREG(info.st_mode))
    return {DbState::failed, "it is not a regular file", 0};
  try {
    // A connection that may write rolls back what a killed writer left.
    Db db(path, readOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
    db.run("BEGIN"); // one state for all that follows
    return readOpen(db, into);
  } catch (const Failure &f) {
    if ((f.code & 0xff) == SQLITE_READONLY)
      return readCopy(path, into);
    return {stateOf(f.code), f.text, 0};
  }
}

DbResult readDbBytes(std::string bytes, RecordSet &into) {
  if (bytes.empty())
    return {DbState::absent, {}, 0};
  if (bytes.size() < 100)
    return {DbState::damaged, "file is not a database", 0};
  // A file written in WAL mode cannot be deserialized, and of one that was cut off nothing can be read before it has the
  // length that its header says; these bytes are ours to change.
  bytes[18] = bytes[19] = 1;
  auto number = [&](std::size_t at, std::size_t count) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < count; ++i)
      n = n << 8 | static_cast<unsigned char>(bytes[at + i]);
    return n;
  };
  constexpr std::size_t mostBytes = std::size_t(1) << 30;
  const std::size_t wholeBytes = number(16, 2) * number(28, 4);
  const bool isCut = bytes.size() < wholeBytes && wholeBytes <= mostBytes;
  const std::string cutText = fmt::format("{} bytes instead of {}", bytes.size(), wholeBytes);
  if (isCut)
    bytes.resize(wholeBytes);
  try {
    Db db(":memory:", SQLITE_OPEN_READWRITE);
    const auto size = static_cast<sqlite3_int64>(bytes.size());
    db.check(sqlite3_deserialize(db.get(), "main", reinterpret_cast<unsigned char *>(bytes.data()), size, size,
                                 SQLITE_DESERIALIZE_READONLY));
    DbResult result = readOpen(db, into);
    return isCut && result.state == DbState::good ? DbResult{DbState::damaged, cutText, result.ignoredRows} : result;
  } catch (const Failure &f) {
    return {stateOf(f.code), f.text, 0};
  }
}

std::string dbBytes(const RecordSet &set) {
  try {
    Db db(":memory:", SQLITE_OPEN_READWRITE);
    db.run("BEGIN");
    makeTable(db);
    Inserter insert(db);
    for (const auto &[id, row] : set.all())
      insert(row);
    db.run("COMMIT");
    sqlite3_int64 size = 0;
    std::unique_ptr<unsigned char, void (*)(void *)> bytes(sqlite3_serialize(db.get(), "main", &size, 0), sqlite3_free);
    if (!bytes)
      throw std::bad_alloc();
    return {reinterpret_cast<const char *>(bytes.get()), static_cast<std::size_t>(size)};
  } catch (const Failure &f) {
    throw InternalError("a database in memory: " + f.text);
  }
}

DbResult addToDb(const std::string &path, std::span<const RecordRow> rows) {
  return inTransaction(path, [&](Db &db, DbResult) {
    Statement find(db, std::string(selectText) + sameRow), erase(db, std::string("DELETE FROM measurement ") + sameRow);
    Inserter insert(db);
    for (const RecordRow &row : rows) {
      RecordSet versions;
      bindId(find, row);
      while (find.step()) {
        bool good = false;
        const RecordRow old = rowOf(find, good);
        if (good)
          versions.add(old);
      }
      find.reset();
      if (!versions.add(row))
        continue;
      bindId(erase, row);
      erase.step();
      erase.reset();
      insert(row);
    }
    return DbResult();
  });
}

DbResult rewriteDb(const std::string &path, const std::function<bool(RecordSet &)> &change) {
  return inTransaction(path, [&](Db &db, DbResult) {
    RecordSet set;
    DbResult result;
    result.ignoredRows = readRows(db, set);
    if (!change(set))
      return result;
    db.run("DELETE FROM measurement");
    Inserter insert(db);
    for (const auto &[id, row] : set.all())
      insert(row);
    return result;
  });
}

} // namespace sectile::autotune
