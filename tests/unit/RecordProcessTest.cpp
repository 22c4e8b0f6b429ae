// SPDX-License-Identifier: Apache-2.0
// One tuning record and many processes, some of which are killed.
#include "autotune/Record.h"
#include "tests/support/InChild.h"
#include "tests/support/RecordRows.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

using namespace sectile;
using namespace sectile::autotune;
using test::recordKeyOf;
using test::recordRow;
using test::ScratchDir;
namespace fs = std::filesystem;

namespace {

constexpr FileSystem both[] = {FileSystem::local, FileSystem::shared};

/// A process that works until it is done or killed, and tells numbers through a pipe.
class Worker {
public:
  explicit Worker(const std::function<void(const std::function<void(int)> &tell)> &work) {
    int ends[2];
    if (pipe(ends) != 0)
      throw std::runtime_error("pipe failed");
    pid = fork();
    if (pid == 0) {
      close(ends[0]);
      work([&](int n) {
        if (write(ends[1], &n, sizeof n) != sizeof n)
          _exit(98);
      });
      _exit(0);
    }
    close(ends[1]);
    from = ends[0];
  }
  void kill() { ::kill(pid, SIGKILL); }
  /// All that it told; `status` as waitpid gives it.
  std::vector<int> end(int *status = nullptr) {
    std::vector<int> told;
    for (int n; ;) {
      const ssize_t got = ::read(from, &n, sizeof n);
      if (got == sizeof n)
        told.push_back(n);
      else if (got >= 0 || errno != EINTR)
        break;
    }
    close(from);
    int ended = 0;
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR)
      ;
    if (status)
      *status = ended;
    return told;
  }

private:
  pid_t pid;
  int from;
};

/// Lets processes start together: they wait until the parent closes its end.
class Gate {
public:
  Gate() {
    if (pipe(ends) != 0)
      throw std::runtime_error("pipe failed");
  }
  void wait() {
    close(ends[1]);
    char c;
    while (::read(ends[0], &c, 1) < 0 && errno == EINTR)
      ;
  }
  void open() {
    close(ends[1]);
    close(ends[0]);
  }

private:
  int ends[2];
};

std::string problemsOf(Record &record) {
  std::string text;
  for (const std::string &line : record.takeProblems())
    text += line + "\n";
  return text;
}

int asides(const std::string &dir) {
  int count = 0;
  for (auto &e : fs::directory_iterator(dir))
    count += e.path().string().find("damaged-") != std::string::npos && e.path().string().find("-journal") == std::string::npos;
  return count;
}

} // namespace

TEST_CASE("Record: eight processes write at once and every row is there", "[autotune][record][processes]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    const std::string path = dir.file("r");
    constexpr int processes = 8, each = 25;
    Gate gate;
    std::vector<Worker> workers;
    for (int p = 0; p < processes; ++p)
      workers.emplace_back([&](const auto &tell) {
        gate.wait();
        Record record(path, Record::Mode::readWrite, kind);
        for (int i = 0; i < each; ++i) {
          // Every second row is one that all of them write.
          const bool own = record.put(recordRow(1000 * p + i)), common = record.put(recordRow(100000 + i, "BM=128", 1000 + p));
          if (!own || !common || !problemsOf(record).empty())
            _exit(97);
        }
        tell(p);
      });
    gate.open();
    for (Worker &w : workers) {
      int status = 0;
      CHECK(w.end(&status).size() == 1);
      CHECK(status == 0);
    }
    Record record(path, Record::Mode::readOnly, kind);
    CHECK(record.rows().size() == processes * each + each);
    CHECK(problemsOf(record) == "");
    for (int i = 0; i < each; ++i) {
      REQUIRE(record.find(recordKeyOf(100000 + i)));
      CHECK(record.find(recordKeyOf(100000 + i))->medianNs == 1000.1);
    }
    CHECK(asides(dir.path()) == 0);
  }
}

TEST_CASE("Record: processes are killed at any time, and every row that was taken is there", "[autotune][record][processes]") {
  std::mt19937 random(5);
  for (FileSystem kind : both) {
    ScratchDir dir;
    const std::string path = dir.file("r");
    std::set<int> taken;
    for (int round = 0; round < 40; ++round) {
      std::vector<Worker> workers;
      for (int p = 0; p < 3; ++p)
        workers.emplace_back([&, p](const auto &tell) {
          Record record(path, Record::Mode::readWrite, kind);
          for (int i = 0;; ++i) {
            const int n = round * 100000 + p * 10000 + i;
            if (!record.put(recordRow(n)) || !problemsOf(record).empty())
              _exit(97);
            tell(n);
            // Changes of the whole file in between. On a shared file system one that was killed keeps the others from
            // changing it, not from writing.
            if (p == 0 && i % 4 == 3 && !record.prune({.noisy = true}) &&
                (kind == FileSystem::local || problemsOf(record).find("another process is changing it") == std::string::npos))
              _exit(96);
            if (p == 1 && i % 4 == 3 && !record.merge())
              _exit(95);
          }
        });
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
      for (Worker &w : workers)
        w.kill();
      for (Worker &w : workers) {
        int status = 0;
        for (int n : w.end(&status))
          taken.insert(n);
        CHECK(WIFSIGNALED(status));
      }
      // What a killed one held does not keep out the next for longer than a moment.
      Record record(path, Record::Mode::readWrite, kind);
      const auto began = std::chrono::steady_clock::now();
      REQUIRE(record.put(recordRow(-round - 1)));
      CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
      taken.insert(-round - 1);
      record.read();
      INFO(problemsOf(record));
      for (int n : taken) {
        INFO(n);
        REQUIRE(record.find(recordKeyOf(n)));
      }
      CHECK(asides(dir.path()) == 0);
    }
    CHECK(taken.size() > 45); // five more than the parent's own
  }
}

TEST_CASE("Record: processes that find a damaged file together lose nothing of each other's", "[autotune][record][processes]") {
  for (FileSystem kind : both)
    for (int round = 0; round < 8; ++round) {
      ScratchDir dir;
      const std::string path = dir.file("r");
      test::writeBytes(path, std::string(20000, 'x'));
      Gate gate;
      std::vector<Worker> workers;
      for (int p = 0; p < 8; ++p)
        workers.emplace_back([&, p](const auto &tell) {
          gate.wait();
          Record record(path, Record::Mode::readWrite, kind);
          if (p % 2)
            record.read();
          if (record.put(recordRow(p)) && (kind == FileSystem::local || record.merge()))
            tell(p);
        });
      gate.open();
      for (Worker &w : workers)
        CHECK(w.end().size() == 1);
      Record record(path, Record::Mode::readOnly, kind);
      CHECK(record.rows().size() == 8);
      CHECK(problemsOf(record) == "");
      CHECK(asides(dir.path()) >= 1);
      if (kind == FileSystem::local)
        CHECK(asides(dir.path()) == 1);
    }
}

TEST_CASE("P21d: ranks that measured different winners take one choice from their record", "[autotune][record][processes]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    const std::string path = dir.file("r");
    constexpr int ranks = 8;
    std::vector<Worker> workers;
    for (int rank = 0; rank < ranks; ++rank)
      workers.emplace_back([&, rank](const auto &) {
        std::mt19937 random(rank);
        Record record(path, Record::Mode::readWrite, kind);
        // Each finds another winner, within the noise of the others.
        RecordRow row = recordRow(1, fmt::format("BM={}", 64 + random() % 5), 1000 + random() % 20, 30);
        row.date += rank;
        if (!record.put(row))
          _exit(97);
      });
    for (Worker &w : workers) {
      int status = 0;
      w.end(&status);
      CHECK(status == 0);
    }
    std::set<std::string> choices;
    for (int rank = 0; rank < ranks; ++rank)
      choices.insert(test::inChild({}, [&] {
                       Record record(path, rank % 2 ? Record::Mode::readOnly : Record::Mode::readWrite, kind);
                       const RecordRow *row = record.find(recordKeyOf(1));
                       return row ? row->choice : std::string("none");
                     }).said);
    CHECK(choices.size() == 1);
    CHECK(choices.count("none") == 0);
  }
}

TEST_CASE("Record: a child of fork writes to the record of its parent", "[autotune][record][processes]") {
  for (FileSystem kind : both) {
    ScratchDir dir;
    Record record(dir.file("r"), Record::Mode::readWrite, kind);
    REQUIRE(record.put(recordRow(1)));
    CHECK(test::inChild({}, [&] { return std::string(record.put(recordRow(2)) ? "yes" : "no"); }).said == "yes");
    CHECK(record.put(recordRow(3)));
    CHECK(record.read().size() == 3);
    if (kind == FileSystem::shared)
      CHECK(std::distance(fs::directory_iterator(dir.file("r.parts")), fs::directory_iterator()) == 2);
  }
}
