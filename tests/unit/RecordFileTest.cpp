// SPDX-License-Identifier: Apache-2.0
// The tuning record on disk: what is kept, damage, other formats, folders and disks that do not take it.
#include "autotune/Record.h"
#include "autotune/RecordDb.h"
#include "runtime/Env.h"
#include "tests/support/InChild.h"
#include "tests/support/RecordRows.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

using namespace sectile;
using namespace sectile::autotune;
using test::inChild;
using test::readBytes;
using test::recordKeyOf;
using test::recordRow;
using test::recordSet;
using test::ScratchDir;
using test::writeBytes;
namespace fs = std::filesystem;

namespace {

std::string problemsOf(Record &record) {
  std::string text;
  for (const std::string &line : record.takeProblems())
    text += line + "\n";
  return text;
}
bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }
std::vector<std::string> namesIn(const std::string &dir) {
  std::vector<std::string> names;
  for (auto &e : fs::directory_iterator(dir))
    names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}
/// The file that was set aside; fails unless it is one.
std::string asideOf(const std::string &path, const std::string &label) {
  std::string found;
  for (auto &e : fs::directory_iterator(fs::path(path).parent_path()))
    if (has(e.path(), path + "." + label + "-"))
      found += e.path();
  return found;
}
void runSql(const std::string &path, const std::string &sql) {
  sqlite3 *db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  char *error = nullptr;
  sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error);
  INFO((error ? error : ""));
  CHECK(error == nullptr);
  sqlite3_free(error);
  sqlite3_close(db);
}
/// A file with `count` rows.
void makeRecord(const std::string &path, int count) {
  Record record(path);
  std::vector<RecordRow> rows;
  for (int i = 0; i < count; ++i)
    rows.push_back(recordRow(i));
  REQUIRE(record.put(rows));
  REQUIRE(problemsOf(record) == "");
}
constexpr FileSystem both[] = {FileSystem::local, FileSystem::shared};

} // namespace

TEST_CASE("Record: an absent file is empty, and is made with its folder by the first row", "[autotune][record]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    const std::string path = dir.file("a/b/tuning.sqlite");
    Record record(path, Record::Mode::readWrite, kind);
    CHECK(record.rows().size() == 0);
    CHECK(record.find(recordKeyOf(1)) == nullptr);
    CHECK(namesIn(dir.path()).empty());
    CHECK(record.put(recordRow(1)));
    RecordRow better = recordRow(1, "BM=64", 500), candidate = recordRow(1, "BM=32");
    candidate.kind = RecordRow::Kind::candidate;
    CHECK(record.put(std::vector{recordRow(2), better, candidate, recordRow(1)}));
    CHECK(problemsOf(record) == "");
    Record other(path, Record::Mode::readOnly, kind);
    CHECK(other.rows() == recordSet({recordRow(1), recordRow(2), better, candidate}));
    REQUIRE(other.find(recordKeyOf(1)));
    CHECK(*other.find(recordKeyOf(1)) == better);
    CHECK(other.findCandidate(recordKeyOf(1), "BM=32"));
    CHECK(problemsOf(other) == "");
    // The first sees what the second wrote when it reads again.
    CHECK(Record(path, Record::Mode::readWrite, kind).put(recordRow(3)));
    CHECK(record.find(recordKeyOf(3)) == nullptr);
    record.read();
    CHECK(record.find(recordKeyOf(3)));
  }
}

TEST_CASE("Record: of two versions the disk keeps the better, in any order", "[autotune][record]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    RecordRow old = recordRow(1), newer = recordRow(1), noisy = recordRow(1);
    newer.date++;
    noisy.isFinal = false;
    noisy.date += 100;
    Record record(dir.file("r"), Record::Mode::readWrite, kind);
    for (const RecordRow &row : {newer, old, noisy})
      CHECK(record.put(row));
    CHECK(Record(dir.file("r"), Record::Mode::readOnly, kind).rows() == recordSet({newer}));
  }
}

TEST_CASE("Record: a record for reading alone writes nothing, and is read where nothing can be written", "[autotune][record]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    const std::string path = dir.file("r");
    Record maker(path, Record::Mode::readWrite, kind);
    CHECK((maker.put(recordRow(1)) && maker.merge()));
    fs::remove(path + ".lock");
    const auto before = namesIn(dir.path());
    Record record(path, Record::Mode::readOnly, kind);
    CHECK(record.rows().size() == 1);
    CHECK_FALSE(record.put(recordRow(2)));
    CHECK(has(problemsOf(record), "it is open for reading alone"));
    CHECK(record.find(recordKeyOf(2))); // for this process
    CHECK_FALSE(record.prune({.kernel = "kernel_1"}));
    CHECK_FALSE(record.forget(recordKeyOf(1)));
    CHECK(namesIn(dir.path()) == before);
    // Another user, who may read alone.
    fs::permissions(path, fs::perms(0444), fs::perm_options::replace), fs::permissions(dir.path(), fs::perms(0555));
    auto other = [&](Record::Mode mode) {
      return inChild({}, [&] {
        if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
          return std::string("cannot become nobody");
        Record theirs(path, mode, kind);
        std::string said = fmt::format("{} rows, ", theirs.rows().size());
        said += fmt::format("{}, ", problemsOf(theirs).empty());
        said += fmt::format("{}, ", theirs.put(recordRow(2)));
        return said + problemsOf(theirs);
      });
    };
    if (kind == FileSystem::shared)
      fs::permissions(path + ".parts", fs::perms(0555));
    for (Record::Mode mode : {Record::Mode::readOnly, Record::Mode::readWrite}) {
      const auto result = other(mode);
      INFO(result.said);
      CHECK(result.said.starts_with("1 rows, true, false, "));
      CHECK(has(result.said, mode == Record::Mode::readOnly ? "open for reading alone" : "Permission denied"));
    }
    fs::permissions(dir.path(), fs::perms(0755));
  }
}

TEST_CASE("Record: what a killed writer left is read as it was before, also where nothing may be written", "[autotune][record]") {
  ScratchDir dir, copies;
  const std::string path = dir.file("r"), killed = copies.file("r");
  makeRecord(path, 200);
  // A writer that has changed pages on disk and is not done. What it has on disk now is what it would leave.
  sqlite3 *db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db, "PRAGMA cache_size = 2; BEGIN IMMEDIATE; UPDATE measurement SET choice = 'a longer choice than before';", nullptr,
                       nullptr, nullptr) == SQLITE_OK);
  fs::copy_file(path, killed);
  fs::copy_file(path + "-journal", killed + "-journal");
  sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  const std::string bytes = readBytes(killed);
  REQUIRE(bytes != readBytes(path));
  Record alone(killed, Record::Mode::readOnly);
  CHECK(alone.rows() == Record(path).rows());
  CHECK(alone.rows().size() == 200);
  CHECK(problemsOf(alone) == "");
  CHECK(readBytes(killed) == bytes);
  CHECK(fs::exists(killed + "-journal"));
  CHECK(namesIn(copies.path()).size() == 2);
  Record record(killed);
  CHECK(record.put(recordRow(1000)));
  CHECK(Record(killed).rows().size() == 201);
  CHECK_FALSE(fs::exists(killed + "-journal"));
}

TEST_CASE("Record: a file that may not be read is said, and nothing happens to it", "[autotune][record]") {
  ScratchDir dir;
  const std::string path = dir.file("r");
  makeRecord(path, 3);
  fs::permissions(path, fs::perms(0)), fs::permissions(dir.path(), fs::perms(0777));
  const auto result = inChild({}, [&] {
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
      return std::string("cannot become nobody");
    std::string said;
    for (FileSystem kind : both) {
      Record record(path, Record::Mode::readWrite, kind);
      said += fmt::format("{} rows: ", record.rows().size());
      said += problemsOf(record);
    }
    return said;
  });
  INFO(result.said);
  CHECK(result.exitCode == 0);
  CHECK(has(result.said, "0 rows: the tuning record '" + path + "' is not used: "));
  fs::permissions(path, fs::perms(0644));
  CHECK(Record(path).rows().size() == 3);
  // A folder where the file should be, and a file where the folder should be.
  fs::create_directory(dir.file("d"));
  for (FileSystem kind : both) {
    Record folder(dir.file("d"), Record::Mode::readWrite, kind), below(path + "/r", Record::Mode::readWrite, kind);
    CHECK(folder.rows().size() == 0);
    CHECK(has(problemsOf(folder), "is not used"));
    if (kind == FileSystem::local) {
      CHECK_FALSE(folder.put(recordRow(1)));
      CHECK(has(problemsOf(folder), "cannot be written"));
    }
    CHECK(below.rows().size() == 0);
    CHECK_FALSE(below.put(recordRow(1)));
    CHECK(has(problemsOf(below), "cannot be written (Not a directory)"));
  }
  CHECK(fs::is_directory(dir.file("d")));
}

TEST_CASE("Record: rows that were edited on disk are not used", "[autotune][record]") {
  ScratchDir dir;
  const std::string path = dir.file("r");
  makeRecord(path, 4);
  runSql(path, "UPDATE measurement SET choice = 'BM=999' WHERE kernel = 'kernel_1'");
  runSql(path, "UPDATE measurement SET median_ns = median_ns / 2, low_ns = 1 WHERE kernel = 'kernel_2'");
  runSql(path, "UPDATE measurement SET kind = 7 WHERE kernel = 'kernel_3'");
  Record record(path);
  CHECK(record.rows() == recordSet({recordRow(0)}));
  CHECK(has(problemsOf(record), "3 rows of the tuning record '" + path + "' were edited or damaged, and are not used"));
  // Measured again they are there again; what is left of the edited ones goes with the next prune.
  CHECK(record.put(std::vector{recordRow(1), recordRow(2), recordRow(3)}));
  CHECK(Record(path).rows().size() == 4);
  CHECK(record.prune({}) == std::size_t(0));
  Record again(path);
  CHECK(again.rows().size() == 4);
  CHECK(problemsOf(again) == "");
}

TEST_CASE("Record: a damaged file is set aside, what can be read of it is kept, and what is put next is kept", "[autotune][record]") {
  for (FileSystem kind : both)
    for (const char *what : {"garbage", "cut", "header", "schema"}) {
      INFO(what << static_cast<int>(kind));
      ScratchDir dir;
      const std::string path = dir.file("r");
      makeRecord(path, 200);
      writeBytes(dir.file("neighbour"), "untouched");
      std::string bytes = readBytes(path);
      if (what[0] == 'g')
        bytes = "not a database, and longer than the hundred bytes of the header of one; " + bytes;
      else if (what[0] == 'c')
        bytes.resize(bytes.size() / 2 / 4096 * 4096);
      else if (what[0] == 'h')
        bytes[16] = bytes[17] = 0x7f;
      else
        runSql(path, "CREATE TABLE extra (x)"), bytes = readBytes(path);
      writeBytes(path, bytes);
      Record record(path, Record::Mode::readWrite, kind);
      record.read();
      const std::string said = problemsOf(record);
      INFO(said);
      CHECK(has(said, "is set aside as '" + path + ".damaged-"));
      const std::string aside = asideOf(path, "damaged");
      CHECK(readBytes(aside) == bytes);
      CHECK(readBytes(dir.file("neighbour")) == "untouched");
      CHECK(record.put(recordRow(77)));
      CHECK(problemsOf(record) == "");
      Record again(path, Record::Mode::readOnly, kind);
      CHECK(again.find(recordKeyOf(77)));
      CHECK(again.rows() == record.rows());
      CHECK(problemsOf(again) == "");
      if (what[0] == 'c')
        CHECK(again.rows().size() > 10); // rows of the pages that are there
    }
}

TEST_CASE("Record: a damaged file is set aside by a put as well, and a reader alone leaves it", "[autotune][record]") {
  ScratchDir dir;
  const std::string path = dir.file("r");
  writeBytes(path, std::string(5000, 'x'));
  Record reader(path, Record::Mode::readOnly);
  CHECK(reader.rows().size() == 0);
  CHECK(has(problemsOf(reader), "is not used: file is not a database"));
  CHECK(readBytes(path) == std::string(5000, 'x'));
  Record record(path);
  CHECK(record.put(recordRow(1)));
  CHECK(has(problemsOf(record), "is set aside"));
  CHECK(Record(path).rows() == recordSet({recordRow(1)}));
  CHECK(readBytes(asideOf(path, "damaged")) == std::string(5000, 'x'));
}

TEST_CASE("Record: one damaged page costs its own rows alone", "[autotune][record]") {
  ScratchDir dir;
  const std::string path = dir.file("r");
  makeRecord(path, 800);
  std::string bytes = readBytes(path);
  const std::size_t pages = bytes.size() / 4096;
  REQUIRE(pages > 40);
  for (std::size_t at = pages / 2 * 4096; at < (pages / 2 + 1) * 4096; ++at)
    bytes[at] = static_cast<char>(0xa5);
  writeBytes(path, bytes);
  Record record(path);
  const std::size_t kept = record.rows().size();
  INFO(problemsOf(record));
  CHECK(kept >= 770);
  CHECK(Record(path).rows().size() == kept);
  CHECK_FALSE(asideOf(path, "damaged").empty());
}

TEST_CASE("Record: files damaged at random never crash, never give a row that was not there, and take new rows", "[autotune][record]") {
  ScratchDir dir;
  const std::string good = dir.file("good");
  makeRecord(good, 60);
  const std::string bytes = readBytes(good);
  RecordSet all = recordSet({recordRow(77)});
  all.merge(Record(good).rows());
  std::mt19937 random(11);
  for (int i = 0; i < 150; ++i) {
    std::string edited = bytes;
    if (i % 3 == 0)
      edited.resize(random() % edited.size());
    for (unsigned k = random() % 30; k > 0 && !edited.empty(); --k)
      edited[random() % (i % 2 ? edited.size() : std::min<std::size_t>(edited.size(), 4096))] = static_cast<char>(random());
    const std::string path = dir.file("r" + std::to_string(i));
    writeBytes(path, edited);
    const FileSystem kind = both[i / 2 % 2];
    Record record(path, Record::Mode::readWrite, kind);
    record.read();
    INFO(i << problemsOf(record));
    // A file whose header happens to say another format or program is left alone, with the row in memory.
    const bool put = record.put(recordRow(77));
    Record again(path, Record::Mode::readOnly, kind);
    CHECK((again.find(recordKeyOf(77)) != nullptr) == put);
    CHECK(record.find(recordKeyOf(77)));
    for (const auto &[id, row] : again.rows().all()) {
      const auto it = all.all().find(id);
      REQUIRE((it != all.all().end() && it->second == row));
    }
  }
}

TEST_CASE("Record: a file of an older format is set aside, one of a newer or of another program is left alone", "[autotune][record]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    const std::string path = dir.file("r");
    makeRecord(path, 3);
    runSql(path, "PRAGMA user_version = 0");
    const std::string old = readBytes(path);
    Record record(path, Record::Mode::readWrite, kind);
    CHECK(record.rows().size() == 0);
    CHECK(has(problemsOf(record), "it has format 0, this version of Sectile has 1"));
    CHECK(readBytes(asideOf(path, "old")) == old);
    CHECK(record.put(recordRow(1)));
    CHECK(Record(path, Record::Mode::readOnly, kind).rows().size() == 1);

    for (const char *sql : {"PRAGMA user_version = 2", "PRAGMA application_id = 17"}) {
      INFO(sql);
      const std::string other = dir.file(std::string("o") + sql[7]);
      makeRecord(other, 3);
      runSql(other, sql);
      const std::string bytes = readBytes(other);
      Record newer(other, Record::Mode::readWrite, kind);
      CHECK(newer.rows().size() == 0);
      const std::string why = sql[7] == 'u' ? "it has format 2, this version of Sectile has 1" : "it is a database of another program";
      CHECK(has(problemsOf(newer), "is not used: " + why));
      if (kind == FileSystem::local) {
        CHECK_FALSE(newer.put(recordRow(1)));
        CHECK(has(problemsOf(newer), "cannot be written (" + why + ")"));
      } else {
        CHECK(newer.put(recordRow(1))); // to a part of this version's
        CHECK_FALSE(newer.merge());
        CHECK(has(problemsOf(newer), "are not merged: " + why));
      }
      CHECK_FALSE(newer.prune({}));
      CHECK(newer.find(recordKeyOf(1)));
      CHECK(readBytes(other) == bytes);
    }
  }
}

TEST_CASE("Record: an empty file is an empty record", "[autotune][record]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    writeBytes(dir.file("r"), "");
    Record record(dir.file("r"), Record::Mode::readWrite, kind);
    CHECK(record.rows().size() == 0);
    CHECK(record.put(recordRow(1)));
    CHECK(problemsOf(record) == "");
    CHECK(Record(dir.file("r"), Record::Mode::readWrite, kind).rows().size() == 1);
  }
}

TEST_CASE("Record: a disk that is full loses nothing: rows wait in memory", "[autotune][record]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    const std::string path = dir.file("r");
    Record first(path, Record::Mode::readWrite, kind);
    REQUIRE(first.put(recordRow(1)));
    REQUIRE(first.merge());
    const auto result = inChild({}, [&]() -> std::string {
      signal(SIGXFSZ, SIG_IGN);
      Record record(path, Record::Mode::readWrite, kind);
      if (record.rows().size() != 1)
        return "unread";
      // No file may grow beyond this: what SQLite and a part need does not fit.
      rlimit limit{100, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &limit);
      for (int i = 2; i < 5; ++i)
        if (record.put(recordRow(i)))
          return "put succeeded";
      const bool pruned = record.prune({.kernel = "kernel_1"}).has_value();
      std::string said = problemsOf(record);
      if (pruned || !record.find(recordKeyOf(4)) || Record(path, Record::Mode::readOnly, kind).rows().size() != 1)
        return "wrong when full: " + said;
      limit.rlim_cur = RLIM_INFINITY;
      setrlimit(RLIMIT_FSIZE, &limit);
      if (!record.put(recordRow(5)))
        return "not written afterwards: " + problemsOf(record);
      return said;
    });
    INFO(result.said << result.errors);
    CHECK(result.exitCode == 0);
    CHECK(has(result.said, "cannot be written ("));
    CHECK(has(result.said, "3 rows are kept in memory"));
    Record after(path, Record::Mode::readOnly, kind);
    CHECK(after.rows() == recordSet({recordRow(1), recordRow(2), recordRow(3), recordRow(4), recordRow(5)}));
    CHECK(problemsOf(after) == "");
    for (const std::string &name : namesIn(dir.path()))
      CHECK_FALSE(has(name, ".write"));
  }
}

TEST_CASE("Record: thousands of rows of one kernel are put, added to and read without waiting", "[autotune][record]") {
  ScratchDir dir;
  Record record(dir.file("r"));
  std::vector<RecordRow> rows;
  for (int i = 0; i < 8000; ++i) {
    rows.push_back(recordRow(1, "BM=" + std::to_string(i % 10)));
    rows.back().key.shape = std::to_string(i) + "/1";
  }
  const auto began = std::chrono::steady_clock::now();
  REQUIRE(record.put(rows));
  REQUIRE(record.put(rows[17]));
  CHECK(Record(dir.file("r")).rows().size() == 8000);
  // Comparing each row with all others would take minutes.
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
}

TEST_CASE("Record: prune and forget", "[autotune][record]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    Record record(dir.file("r"), Record::Mode::readWrite, kind);
    REQUIRE(record.put(std::vector{recordRow(1, "A"), recordRow(1, "B", 900), recordRow(2), recordRow(3)}));
    CHECK(record.prune({.kernel = "kernel_3"}) == std::size_t(1));
    CHECK(record.prune({.losers = true}) == std::size_t(1));
    CHECK(record.prune({.losers = true}) == std::size_t(0));
    CHECK(Record(dir.file("r"), Record::Mode::readOnly, kind).rows() == recordSet({recordRow(1, "B", 900), recordRow(2)}));
    REQUIRE(record.put(recordRow(1, "A")));
    CHECK(record.forget(recordKeyOf(1)));
    CHECK(record.rows() == recordSet({recordRow(2)}));
    CHECK(record.put(recordRow(1, "C", 99999)));
    Record again(dir.file("r"), Record::Mode::readOnly, kind);
    REQUIRE(again.find(recordKeyOf(1)));
    CHECK(again.find(recordKeyOf(1))->choice == "C");
    CHECK(problemsOf(record) == "");
  }
}

TEST_CASE("Record: a row that is none is said and not kept, the others are", "[autotune][record]") {
  ScratchDir dir;
  Record record(dir.file("r"));
  RecordRow bad = recordRow(1);
  bad.lowNs = -1;
  CHECK_FALSE(record.put(std::vector{bad, recordRow(2)}));
  CHECK(problemsOf(record) == "a row for kernel 'kernel_1' is not kept: a time of -1 ns\n");
  CHECK(Record(dir.file("r")).rows() == recordSet({recordRow(2)}));
}

TEST_CASE("Record: a lock that is held for too long is said", "[autotune][record]") {
  ScratchDir dir;
  const std::string path = dir.file("r");
  makeRecord(path, 1);
  const int fd = open((path + ".lock").c_str(), O_RDWR);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  Record record(path);
  CHECK(record.rows().size() == 1); // readers do not wait
  CHECK_FALSE(record.put(recordRow(2)));
  CHECK(has(problemsOf(record), "another process holds its lock"));
  close(fd);
  CHECK(record.put(recordRow(3)));
  CHECK(Record(path).rows().size() == 3);
}

TEST_CASE("Record: on a shared file system a torn or damaged line costs itself alone", "[autotune][record]") {
  ScratchDir dir;
  const std::string path = dir.file("r");
  Record record(path, Record::Mode::readWrite, FileSystem::shared);
  REQUIRE(record.put(std::vector{recordRow(1), recordRow(2), recordRow(3)}));
  const std::string part = path + ".parts/" + namesIn(path + ".parts").at(0), text = readBytes(part);
  const std::size_t second = text.find('\n') + 1;
  auto readAgain = [&](const std::string &with, std::string &problems) {
    writeBytes(part, with);
    Record reader(path, Record::Mode::readOnly, FileSystem::shared);
    const std::size_t size = reader.rows().size();
    problems = problemsOf(reader);
    return size;
  };
  std::string problems;
  CHECK(readAgain(text.substr(0, text.size() - 20), problems) == 2); // killed in the middle of a line
  CHECK(problems == "");
  CHECK(readAgain(text.substr(0, second) + "{\"kind\": broken}\n" + text.substr(second), problems) == 3);
  CHECK(has(problems, "1 rows are damaged or were edited"));
  std::string edited = text;
  edited[text.find("BM=128") + 3] = '9';
  CHECK(readAgain(edited, problems) == 2);
  CHECK(readAgain(std::string("\0\n\n\xff\n", 5) + text, problems) == 3);
}

TEST_CASE("Record: on a shared file system parts are merged, and removed when they have long been merged", "[autotune][record]") {
  ScratchDir dir;
  const std::string path = dir.file("r");
  auto age = [](const std::string &file) {
    const timeval old[2] = {{1700000000, 0}, {1700000000, 0}};
    REQUIRE(utimes(file.c_str(), old) == 0);
  };
  auto parts = [&] { return namesIn(path + ".parts").size(); };
  Record a(path, Record::Mode::readWrite, FileSystem::shared), b(path, Record::Mode::readWrite, FileSystem::shared);
  CHECK((a.put(recordRow(1)) && a.put(recordRow(2)) && b.put(recordRow(3))));
  CHECK(parts() == 2);
  CHECK_FALSE(fs::exists(path));
  CHECK(a.merge());
  RecordSet main;
  CHECK(readDb(path, true, main).state == DbState::good);
  CHECK(main.size() == 3);
  CHECK(a.merge());
  CHECK(parts() == 2); // a merge that began before might still replace the main file by one without them
  for (auto &e : fs::directory_iterator(path + ".parts"))
    age(e.path());
  CHECK(a.merge());
  CHECK(parts() == 2); // the main file is new
  age(path);
  CHECK(b.put(recordRow(4))); // b's part is new again
  CHECK(a.merge());
  age(path);
  CHECK(a.merge());
  CHECK(parts() == 1);
  // a's part is gone: it begins another one.
  CHECK(a.put(recordRow(5)));
  CHECK(parts() == 2);
  CHECK(Record(path, Record::Mode::readOnly, FileSystem::shared).rows().size() == 5);
  // Sixteen parts are merged without being asked.
  for (int i = 10; i < 30; ++i)
    CHECK(Record(path, Record::Mode::readWrite, FileSystem::shared).put(recordRow(i)));
  RecordSet later;
  CHECK(readDb(path, true, later).state == DbState::good);
  CHECK(later.size() >= 20);
  CHECK(Record(path, Record::Mode::readOnly, FileSystem::shared).rows().size() == 25);
}

TEST_CASE("Record: a record of a shared file system that was copied elsewhere is read with its parts", "[autotune][record]") {
  ScratchDir dir;
  CHECK(Record(dir.file("r"), Record::Mode::readWrite, FileSystem::shared).put(recordRow(1)));
  Record record(dir.file("r"), Record::Mode::readWrite, FileSystem::local);
  CHECK(record.put(recordRow(2)));
  CHECK(record.read().size() == 2);
}

TEST_CASE("Record: the kind of a file system is found for files that do not exist yet", "[autotune][record]") {
  ScratchDir dir;
  CHECK(fileSystemOf(dir.file("a/b/c")) == fileSystemOf(dir.path()));
  CHECK(fileSystemOf("") == fileSystemOf("."));
  CHECK(fileSystemOf("nowhere") == fileSystemOf("."));
  CHECK(fileSystemOf("/nowhere/at/all") == fileSystemOf("/"));
  CHECK(fileSystemOf("/proc/self/status") == FileSystem::local);
}

TEST_CASE("Record: where SECTILE_TUNE_RECORD says", "[autotune][record]") {
  auto place = [](const std::string &value, const std::string &cache = "/c") {
    return inChild({{"SECTILE_TUNE_RECORD", value}, {"SECTILE_CACHE_DIR", cache}}, [] {
             runtime::reloadEnv();
             const RecordPlace p = recordPlace();
             return fmt::format("{}|{}{}", p.path, p.mode == Record::Mode::readOnly ? "ro" : "", p.fileSystem == FileSystem::shared ? " shared" : "");
           })
        .said;
  };
  CHECK(place("") == "/c/tuning.sqlite|");
  CHECK(place("none") == "|");
  CHECK(place("/a/b") == "/a/b|");
  CHECK(place("/a/b:ro") == "/a/b|ro");
  CHECK(place("/a/b:shared:ro") == "/a/b|ro shared");
  CHECK(place("/a/b:ro:shared") == "/a/b|ro shared");
  CHECK(place("/a:b") == "/a:b|");
  CHECK(place(":ro") == "/c/tuning.sqlite|ro");
}
