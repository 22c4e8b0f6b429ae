// SPDX-License-Identifier: Apache-2.0
#include "runtime/Env.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <pwd.h>
#include <unistd.h>
#include <vector>

namespace sectile::runtime {
namespace {

constexpr EnvSwitch table[] = {
    {"SECTILE_DEVICE", "interpreter | gpu | gpu:N", "the device that Device::best() returns",
     "the first usable GPU, else the interpreter"},
    {"SECTILE_LOG", "0 | 1", "1: one line on stderr per compiled kernel", "0"},
    {"SECTILE_DUMP", "stages of tile,tgpu,llvm,ptx or all", "print these stages of every compile to stderr",
     "none"},
    {"SECTILE_CHECK", "pointers", "check every tensor pointer at every launch, not at first use alone",
     "first use"},
    {"SECTILE_PTXAS", "path | none", "the assembler; none: the driver assembles the PTX",
     "PATH, CUDA_HOME/bin, /usr/local/cuda/bin, .deps of the build"},
    {"SECTILE_CACHE", "0 | 1", "0: compiled kernels are neither read from disk nor kept there", "1"},
    {"SECTILE_CACHE_DIR", "directory", "where compiled kernels are kept",
     "$XDG_CACHE_HOME/sectile, ~/.cache/sectile"},
    {"SECTILE_TUNE", "0 | 1", "1: a launch that the tuning record does not know tunes its kernel first", "0"},
    {"SECTILE_TUNE_RECORD", "path, path:ro, path:shared or none",
     "the tuning record; ro: it is never written; shared: locks of its file system are not trusted",
     "tuning.sqlite where compiled kernels are kept"},
    {"SECTILE_CUDA_LIBRARY", "path", "the CUDA driver library that is opened", "libcuda.so.1"},
    {"SECTILE_NVTX", "0 | 1", "1: an NVTX range around every launch and compile", "0"},
    {"SECTILE_NVTX_LIBRARY", "path", "the NVTX library that is opened under SECTILE_NVTX=1",
     "libnvtx3interop.so.1, libnvToolsExt.so.1"},
    {"CUDA_HOME", "directory", "the CUDA toolkit in which ptxas is looked for", "none"},
};

std::string read(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Switches with a fixed set of values: a word outside it is said once and counts as unset.
void complain(const char *name, const std::string &value, const char *expected) {
  fmt::print(stderr, "sectile: {}={} is not known and counts as unset; write {}\n", name, value, expected);
}

bool readBool(const char *name, bool unset) {
  std::string value = read(name);
  if (value.empty())
    return unset;
  if (value == "1" || value == "0")
    return value == "1";
  complain(name, value, "0 or 1");
  return unset;
}

/// Calls `each` with every part of a comma-separated list that is not empty.
template <class F> void forEachPart(std::string_view list, F each) {
  while (!list.empty()) {
    std::size_t comma = std::min(list.find(','), list.size());
    if (comma)
      each(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

std::string homeDir() {
  if (std::string home = read("HOME"); !home.empty())
    return home;
  passwd entry{}, *found = nullptr;
  std::vector<char> storage(16384);
  if (getpwuid_r(getuid(), &entry, storage.data(), storage.size(), &found) == 0 && found && found->pw_dir)
    return found->pw_dir;
  return {};
}

std::string cacheDir() {
  if (std::string dir = read("SECTILE_CACHE_DIR"); !dir.empty())
    return dir;
  // The XDG base directory specification asks to ignore relative paths.
  if (std::string xdg = read("XDG_CACHE_HOME"); !xdg.empty() && xdg.front() == '/')
    return xdg + "/sectile";
  std::string home = homeDir();
  return home.empty() ? home : home + "/.cache/sectile";
}

std::unique_ptr<const Env> readAll() {
  auto e = std::make_unique<Env>();
  e->device = read("SECTILE_DEVICE");
  e->log = readBool("SECTILE_LOG", false);
  e->dump = read("SECTILE_DUMP");
  forEachPart(e->dump, [](std::string_view stage) {
    if (stage != "tile" && stage != "tgpu" && stage != "llvm" && stage != "ptx" && stage != "all")
      complain("SECTILE_DUMP", std::string(stage), "some of tile,tgpu,llvm,ptx or all");
  });
  e->ptxas = read("SECTILE_PTXAS");
  e->cache = readBool("SECTILE_CACHE", true);
  e->cacheDir = cacheDir();
  e->tune = readBool("SECTILE_TUNE", false);
  e->tuneRecord = read("SECTILE_TUNE_RECORD");
  forEachPart(read("SECTILE_CHECK"), [&](std::string_view check) {
    if (check == "pointers")
      e->checkPointers = true;
    else
      complain("SECTILE_CHECK", std::string(check), "pointers");
  });
  e->cudaLibrary = read("SECTILE_CUDA_LIBRARY");
  if (e->cudaLibrary.empty())
    e->cudaLibrary = "libcuda.so.1";
  e->nvtx = readBool("SECTILE_NVTX", false);
  e->nvtxLibrary = read("SECTILE_NVTX_LIBRARY");
  e->cudaHome = read("CUDA_HOME");
  e->path = read("PATH");
  e->tempDir = read("TMPDIR");
  if (e->tempDir.empty())
    e->tempDir = "/tmp";
  return e;
}

std::atomic<const Env *> current{nullptr};
std::mutex reading;

/// Every Env ever read: earlier references stay good. Never destroyed, so that code running at exit may read
/// it.
const Env *keep(std::unique_ptr<const Env> e) {
  static auto &all = *new std::vector<std::unique_ptr<const Env>>;
  all.push_back(std::move(e));
  return all.back().get();
}

} // namespace

std::span<const EnvSwitch> envTable() { return table; }

std::string envTableText() {
  std::string text;
  for (const EnvSwitch &s : table) {
    const char *value = std::getenv(s.name);
    text += fmt::format("{:<21} {}\n{:<21} values: {}; unset: {}; now: {}\n", s.name, s.meaning, "", s.values,
                        s.unset, value ? value : "(unset)");
  }
  return text;
}

bool Env::dumps(std::string_view stage) const {
  bool found = false;
  forEachPart(dump, [&](std::string_view part) { found |= part == stage || part == "all"; });
  return found;
}

const Env &env() {
  if (const Env *e = current.load(std::memory_order_acquire))
    return *e;
  std::lock_guard lock(reading);
  if (!current.load(std::memory_order_relaxed))
    current.store(keep(readAll()), std::memory_order_release);
  return *current.load(std::memory_order_relaxed);
}

void reloadEnv() {
  std::lock_guard lock(reading);
  current.store(keep(readAll()), std::memory_order_release);
}

} // namespace sectile::runtime
