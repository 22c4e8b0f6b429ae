// SPDX-License-Identifier: Apache-2.0
#include "runtime/KernelCache.h"
#include "runtime/Log.h"
#include "tests/support/InChild.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>

using namespace sectile;
using namespace sectile::runtime;
using test::inChild;
using test::ScratchDir;
namespace fs = std::filesystem;

namespace {

/// An artifact whose every field depends on `seed`.
Artifact artifact(int seed, std::size_t codeBytes = 5000) {
  Artifact a;
  a.launch.symbol = "kernel_" + std::to_string(seed);
  a.launch.grid = {{0, 1, 128 + seed}, {2, 0, INT64_C(1) << 40}};
  a.launch.threads = 128 + seed;
  a.launch.sharedBytes = 100000 + seed;
  a.launch.argRanks = {2, -1, 5};
  a.launch.maps = {{.arg = 2, .dtype = DType::f16, .order = {1, 0}, .box = {64, seed}, .swizzle = 64, .limits = {"inf", "dim(0,1)"}},
                   {.arg = 0, .dtype = DType::bf16, .order = {0}, .box = {8}, .swizzle = 16, .limits = {"arg(1)"}}};
  a.launch.repacks = {{.arg = 2, .unit = 1, .box = {128, seed}}};
  a.launch.assumesApart = seed % 3 != 0;
  a.launch.persistent = seed % 2 != 0;
  a.arch = "sm_90a";
  a.ptx = "// ptx " + std::to_string(seed);
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < codeBytes; ++i)
    a.cubin += static_cast<char>(random());
  a.ptxasLog = std::string("log\0with a zero", 15);
  a.registers = 168;
  a.spillBytes = seed;
  return a;
}
bool same(const Artifact &a, const Artifact &b) { return serialize(a) == serialize(b); }
std::string key(int n) { return "key " + std::to_string(n); }
std::vector<std::string> namesIn(const std::string &dir) {
  std::vector<std::string> names;
  for (auto &e : fs::directory_iterator(dir))
    names.push_back(e.path().filename());
  return names;
}
std::string onlyFile(const std::string &dir) {
  auto names = namesIn(dir);
  return names.size() == 1 ? dir + "/" + names[0] : std::string("not one file");
}
std::string slurp(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void spill(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
bool has(const std::string &text, const std::string &part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}
int countOf(const std::string &text, const std::string &part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at)
    ++n;
  return n;
}

} // namespace

TEST_CASE("Hash: published vectors", "[runtime][hash]") {
  CHECK(hexText(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hexText(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hexText(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hexText(sha256(std::string(1000000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(hexText(sha256("abc"), 4) == "ba7816bf");
  CHECK(xxHash64("") == 0xEF46DB3751D8E999);
  CHECK(xxHash64("a") == 0xD24EC4F1A98C6E5B);
  CHECK(xxHash64("abc") == 0x44BC2CF5AD770999);
  // Lengths around the block sizes all differ, and so does each changed byte.
  std::string text(100, 'x');
  std::vector<std::uint64_t> seen;
  for (std::size_t n = 0; n <= text.size(); ++n)
    seen.push_back(xxHash64(std::string_view(text).substr(0, n)));
  for (std::size_t n = 0; n < text.size(); ++n) {
    std::string changed = text;
    changed[n] = 'y';
    seen.push_back(xxHash64(changed));
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("Artifact: bytes and back", "[runtime][cache]") {
  Artifact a = artifact(3);
  std::string bytes = serialize(a);
  std::optional<Artifact> b = deserialize(bytes);
  REQUIRE(b);
  CHECK(b->launch.symbol == a.launch.symbol);
  REQUIRE(b->launch.grid.size() == 2);
  CHECK((b->launch.grid[1].arg == 2 && b->launch.grid[1].axis == 0 &&
         b->launch.grid[1].tile == INT64_C(1) << 40));
  CHECK((b->launch.threads == 131 && b->launch.sharedBytes == 100003));
  CHECK(b->launch.argRanks == std::vector<int>{2, -1, 5});
  CHECK(b->launch.maps == a.launch.maps);
  CHECK(b->launch.repacks == a.launch.repacks);
  CHECK(b->launch.assumesApart == a.launch.assumesApart);
  CHECK(b->launch.persistent);
  CHECK((b->arch == a.arch && b->ptx == a.ptx && b->cubin == a.cubin && b->ptxasLog == a.ptxasLog));
  CHECK((b->registers == 168 && b->spillBytes == 3));
  CHECK(same(*deserialize(serialize(Artifact())), Artifact()));
  // No prefix and no continuation is an artifact, and damaged lengths are noticed rather than followed.
  bytes = serialize(artifact(3, 40));
  for (std::size_t n = 0; n < bytes.size(); ++n)
    CHECK_FALSE(deserialize(std::string_view(bytes).substr(0, n)));
  CHECK_FALSE(deserialize(bytes + "x"));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    std::string damaged = bytes;
    damaged[n] = static_cast<char>(0xff);
    deserialize(damaged); // any answer will do, as long as it comes
  }
}

TEST_CASE("DiskCache: finds what was inserted, in another cache object too", "[runtime][cache]") {
  ScratchDir dir;
  DiskCache cache(dir.file("a/b/c"));
  CHECK(cache.find(key(1)).missReason == "not on disk");
  CHECK(fs::is_empty(dir.path()));
  CHECK(cache.insert(key(1), artifact(1)));
  CHECK(cache.insert(key(2), artifact(2)));
  DiskCache other(dir.file("a/b/c"));
  DiskCache::Lookup found = other.find(key(1));
  REQUIRE(found.artifact);
  CHECK(found.missReason == "");
  CHECK(same(*found.artifact, artifact(1)));
  CHECK(same(*other.find(key(2)).artifact, artifact(2)));
  CHECK(other.find(key(3)).missReason == "not on disk");
  CHECK(other.insert(key(1), artifact(9)));
  CHECK(same(*cache.find(key(1)).artifact, artifact(9)));
  CHECK(namesIn(dir.file("a/b/c")).size() == 2);
  CHECK(DiskCache("").find(key(1)).missReason == "disk cache off");
  CHECK_FALSE(DiskCache("").insert(key(1), artifact(1)));
}

TEST_CASE("DiskCache: damaged, truncated and foreign entries are misses and are replaced",
          "[runtime][cache]") {
  ScratchDir dir;
  DiskCache cache(dir.path());
  REQUIRE(cache.insert(key(1), artifact(1, 300)));
  const std::string file = onlyFile(dir.path()), good = slurp(file);
  REQUIRE(cache.find(key(1)).artifact);
  auto missWith = [&](const std::string &bytes) {
    spill(file, bytes);
    DiskCache::Lookup found = cache.find(key(1));
    return found.artifact ? "hit" : found.missReason;
  };
  for (std::size_t n = 0; n < good.size(); ++n)
    REQUIRE(has(missWith(good.substr(0, n)), "damaged: "));
  for (std::size_t n = 0; n < good.size(); ++n)
    if (n < 12 || n >= 16) { // bytes 12 to 15 are the reserved zero
      std::string changed = good;
      changed[n] ^= 0x10;
      REQUIRE(has(missWith(changed), "damaged: "));
    }
  CHECK(has(missWith(good + "x"), "payload instead of"));
  CHECK(has(missWith(std::string(4096, 'x')), "not a file of this cache"));
  CHECK(has(missWith(good.substr(0, 63)), "63 bytes are less than a header"));
  std::string version = good;
  version[8] = 99;
  CHECK(has(missWith(version), "format 99, this version has 2"));
  DiskCache elsewhere(dir.file("other"));
  REQUIRE(elsewhere.insert(key(2), artifact(2)));
  CHECK(has(missWith(slurp(onlyFile(dir.file("other")))), "it belongs to another key"));

  CHECK(cache.insert(key(1), artifact(1)));
  CHECK(same(*cache.find(key(1)).artifact, artifact(1)));
  // Something that is no file at all.
  fs::remove(file);
  fs::create_directory(file);
  CHECK(has(cache.find(key(1)).missReason, "not readable"));
}

TEST_CASE("DiskCache: eight processes, and writers that are killed", "[runtime][cache]") {
  ScratchDir dir;
  std::vector<pid_t> writers;
  std::mt19937 random(7);
  auto writer = [&](unsigned seed) {
    pid_t pid = fork();
    if (pid)
      return pid;
    DiskCache cache(dir.path());
    std::mt19937 mine(seed);
    for (;;) {
      int n = static_cast<int>(mine() % 5);
      // Large enough that a writer is often killed in the middle.
      DiskCache::Lookup found = cache.find(key(n));
      if (found.artifact ? !same(*found.artifact, artifact(n, 200000)) : found.missReason != "not on disk")
        _exit(1);
      if (mine() % 2)
        cache.insert(key(n), artifact(n, 200000));
    }
  };
  for (unsigned i = 0; i < 8; ++i)
    writers.push_back(writer(i));
  int wrong = 0;
  for (unsigned round = 0; round < 40; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + random() % 20));
    pid_t &victim = writers[random() % writers.size()];
    kill(victim, SIGKILL);
    int status = 0;
    waitpid(victim, &status, 0);
    wrong += WIFEXITED(status);
    victim = writer(100 + round);
  }
  for (pid_t pid : writers) {
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    wrong += WIFEXITED(status);
  }
  CHECK(wrong == 0);
  DiskCache cache(dir.path());
  int entries = 0;
  for (int n = 0; n < 5; ++n)
    if (auto found = cache.find(key(n)).artifact) {
      ++entries;
      CHECK(same(*found, artifact(n, 200000)));
    }
  CHECK(entries == 5);
  for (auto &e : cache.list())
    CHECK(e.damage == "");
  // What the dead left behind goes once it is old.
  for (auto &name : namesIn(dir.path()))
    if (name.starts_with(".write-")) {
      timespec old[2] = {{0, 0}, {0, 0}};
      utimensat(AT_FDCWD, dir.file(name).c_str(), old, 0);
    }
  cache.prune(INT64_MAX);
  CHECK(namesIn(dir.path()).size() == 5);
}

TEST_CASE("DiskCache: a directory that cannot be written is said once", "[runtime][cache]") {
  ScratchDir dir;
  REQUIRE(DiskCache(dir.path()).insert(key(1), artifact(1)));
  fs::permissions(dir.path(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                                  fs::perms::others_exec);
  auto r = inChild({}, [&] {
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
      return std::string("cannot become nobody");
    DiskCache cache(dir.path());
    std::string said = cache.find(key(1)).artifact ? "hit " : "miss ";
    for (int n : {2, 3})
      said += std::to_string(cache.insert(key(n), artifact(n)));
    return said + std::to_string(cache.canWrite()) + std::to_string(cache.list().size());
  });
  fs::permissions(dir.path(), fs::perms::owner_all);
  CHECK(r.said == "hit 0001");
  CHECK(countOf(r.errors, "cannot be written (Permission denied); compiled kernels are not kept on disk") ==
        1);
  // A path that can never be a directory.
  spill(dir.file("file"), "x");
  auto under = inChild({}, [&] {
    DiskCache cache(dir.file("file/below"));
    std::string said = cache.find(key(1)).missReason;
    return said + std::to_string(cache.insert(key(1), artifact(1)));
  });
  CHECK(has(under.said, "not readable: Not a directory"));
  CHECK(has(under.errors, "(Not a directory)"));
}

TEST_CASE("DiskCache: a full disk leaves no half file", "[runtime][cache]") {
  ScratchDir dir;
  auto r = inChild({}, [&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{4096, 4096}; // a write beyond it fails with EFBIG, as one to a full disk does with ENOSPC
    setrlimit(RLIMIT_FSIZE, &limit);
    DiskCache cache(dir.path());
    std::string said;
    for (auto [n, codeBytes] : {std::pair<int, std::size_t>{1, 200}, {2, 100000}, {3, 200}})
      said += std::to_string(cache.insert(key(n), artifact(n, codeBytes)));
    return said + (cache.find(key(1)).artifact ? "hit" : "miss") + cache.find(key(2)).missReason;
  });
  CHECK(r.said == "100hitnot on disk");
  CHECK(countOf(r.errors, "cannot be written (File too large)") == 1);
  CHECK(namesIn(dir.path()).size() == 1);
}

TEST_CASE("DiskCache: list and prune", "[runtime][cache]") {
  ScratchDir dir;
  DiskCache cache(dir.path());
  CHECK(cache.list().empty());
  CHECK(cache.prune(0) == 0);
  for (int n = 0; n < 4; ++n)
    REQUIRE(cache.insert(key(n), artifact(n)));
  // Last uses: 0 oldest, 3 newest.
  auto entryOf = [&](int n) {
    for (auto &e : cache.list())
      if (e.symbol == "kernel_" + std::to_string(n))
        return e;
    return DiskCache::Entry();
  };
  for (int n = 0; n < 4; ++n) {
    timespec at[2] = {{1000 + n, 0}, {1000 + n, 0}};
    utimensat(AT_FDCWD, dir.file(entryOf(n).file).c_str(), at, 0);
  }
  auto entries = cache.list();
  REQUIRE(entries.size() == 4);
  CHECK(entries[0].symbol == "kernel_3");
  CHECK(entries[3].symbol == "kernel_0");
  CHECK(entries[0].usedSeconds == 1003);
  CHECK(entries[0].arch == "sm_90a");
  CHECK(entries[0].bytes == static_cast<std::int64_t>(fs::file_size(dir.file(entries[0].file))));
  // A hit counts as use.
  REQUIRE(cache.find(key(0)).artifact);
  CHECK(cache.list()[0].symbol == "kernel_0");
  // Damaged entries go first, files of others stay.
  spill(dir.file("0123.kernel"), "junk");
  spill(dir.file("README"), "mine");
  CHECK(entryOf(1).damage == "");
  CHECK(cache.prune(2 * entries[0].bytes + 10) == 3);
  entries = cache.list();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].symbol == "kernel_0");
  CHECK(entries[1].symbol == "kernel_3");
  CHECK(fs::exists(dir.file("README")));
  // A file that is being written now stays.
  spill(dir.file(".write-0011"), "x");
  CHECK(cache.prune(0) == 2);
  CHECK(fs::exists(dir.file(".write-0011")));
}

TEST_CASE("KernelCache: memory, disk, built", "[runtime][cache]") {
  ScratchDir dir;
  int builds = 0;
  auto build = [&](int n) {
    return [&builds, n](const std::string &) {
      ++builds;
      return artifact(n);
    };
  };
  KernelCache cache(dir.path(), 2);
  auto first = cache.get("k", key(1), build(1));
  CHECK(first.source == KernelCache::Source::built);
  CHECK(first.missReason == "not on disk");
  CHECK(same(first.module->artifact(), artifact(1)));
  CHECK(std::string(first.module->kernel()) == "k");
  auto second = cache.get("k", key(1), build(1));
  CHECK(second.source == KernelCache::Source::memory);
  CHECK(second.module == first.module);
  CHECK(builds == 1);
  // Bounded: the least recently used leaves, who holds it keeps it, the disk still has it.
  std::weak_ptr<Module> two = cache.get("k", key(2), build(2)).module;
  cache.get("k", key(1), build(1));
  cache.get("k", key(3), build(3));
  CHECK(cache.size() == 2);
  CHECK(two.expired());
  CHECK(cache.get("k", key(1), build(1)).source == KernelCache::Source::memory);
  CHECK(cache.get("k", key(2), build(2)).source == KernelCache::Source::disk);
  CHECK(builds == 3);
  cache.get("k", key(3), build(3));
  CHECK(same(first.module->artifact(), artifact(1)));
  cache.clear();
  CHECK(cache.size() == 0);
  CHECK(cache.get("k", key(1), build(1)).source == KernelCache::Source::disk);
  // Damage is a reason to build, and the entry is whole again afterwards.
  for (auto &name : namesIn(dir.path()))
    spill(dir.file(name), "junk");
  KernelCache again(dir.path(), 10);
  auto rebuilt = again.get("k", key(1), build(1));
  CHECK(rebuilt.source == KernelCache::Source::built);
  CHECK(has(rebuilt.missReason, "damaged: "));
  CHECK(KernelCache(dir.path(), 10).get("k", key(1), build(1)).source == KernelCache::Source::disk);
  KernelCache none("", 10);
  CHECK(none.get("k", key(1), build(1)).missReason == "disk cache off");
}

TEST_CASE("KernelCache: threads that want the same kernel build it once", "[runtime][cache]") {
  KernelCache cache("", 100);
  std::atomic<int> builds{0}, running{0}, atOnce{0};
  auto slow = [&](int n) {
    return [&, n](const std::string &) {
      int now = ++running;
      for (int seen = atOnce; now > seen && !atOnce.compare_exchange_weak(seen, now);)
        ;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      --running;
      ++builds;
      return artifact(n);
    };
  };
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<Module>> got(16);
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] { got[i] = cache.get("k", key(i % 2), slow(i % 2)).module; });
  for (auto &t : threads)
    t.join();
  CHECK(builds == 2);
  CHECK(atOnce == 2); // different keys do not wait for each other
  for (int i = 2; i < 16; ++i)
    CHECK(got[i] == got[i % 2]);
}

TEST_CASE("KernelCache: a build that throws leaves the next one its turn", "[runtime][cache]") {
  KernelCache cache("", 100);
  std::atomic<int> calls{0}, threw{0};
  auto build = [&](const std::string &) {
    if (++calls <= 3)
      throw std::runtime_error("no");
    return artifact(1);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      try {
        cache.get("k", key(1), build);
      } catch (const std::runtime_error &) {
        ++threw;
      }
    });
  for (auto &t : threads)
    t.join();
  CHECK(threw == 3);
  CHECK(calls == 4);
  CHECK(cache.size() == 1);
}

TEST_CASE("Log: the line of a compile", "[runtime][log]") {
  CompileReport r;
  r.kernel = "matmul";
  r.key = "e93e70f1aabbccdd";
  r.arch = "sm_90a";
  r.config = "128x256x64 s4 w8";
  r.stageMillis = {{"trace", 1.14}, {"ptxas", 210}};
  r.registers = 168;
  r.spillBytes = 0;
  r.sharedBytes = 196 * 1024;
  r.cache = "miss: not on disk";
  CHECK(compileLine(r) ==
        "matmul #e93e70f1 sm_90a cfg(128x256x64 s4 w8): trace 1.1 ms, ptxas 210.0 ms, 168 regs, "
        "0 spills, 196 KiB smem, cache miss: not on disk");
  r.registers = -1;
  r.spillBytes = 40;
  r.sharedBytes = 100;
  r.stageMillis.clear();
  r.change = "was cfg(w4)";
  CHECK(compileLine(r) == "matmul #e93e70f1 sm_90a cfg(128x256x64 s4 w8): 40 B spills, 100 B smem, "
                          "cache miss: not on disk, another variant: was cfg(w4)");
  r.change.clear();
  r.warnings = {"(C7510) slow"};
  CHECK(compileLine(r) == "matmul #e93e70f1 sm_90a cfg(128x256x64 s4 w8): 40 B spills, 100 B smem, "
                          "cache miss: not on disk\n  (C7510) slow");
}
