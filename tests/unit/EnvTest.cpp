// SPDX-License-Identifier: Apache-2.0
#include "runtime/Env.h"
#include "tests/support/InChild.h"

#include <catch2/catch.hpp>

#include <set>

using namespace sectile::runtime;
using sectile::test::ChildResult;
using sectile::test::Environment;
using sectile::test::inChild;

namespace {
/// Every switch unset, then these.
Environment only(Environment set) {
  Environment all;
  for (const EnvSwitch &s : envTable())
    all.push_back({s.name, ""});
  all.push_back({"XDG_CACHE_HOME", ""});
  for (auto &e : set)
    all.push_back(e);
  return all;
}
std::string ask(Environment set, const std::function<std::string()> &work) {
  return inChild(only(std::move(set)),
                 [&] {
                   reloadEnv();
                   return work();
                 })
      .said;
}
} // namespace

TEST_CASE("Env: the table names each switch once, with its meaning", "[runtime][env]") {
  std::set<std::string> names;
  for (const EnvSwitch &s : envTable()) {
    CHECK(names.insert(s.name).second);
    CHECK(std::string(s.values).size() > 0);
    CHECK(std::string(s.meaning).size() > 10);
    CHECK(std::string(s.unset).size() > 0);
  }
  for (const char *name :
       {"SECTILE_DEVICE", "SECTILE_LOG", "SECTILE_DUMP", "SECTILE_PTXAS", "SECTILE_CACHE_DIR",
        "SECTILE_CACHE", "SECTILE_CHECK", "SECTILE_TUNE", "SECTILE_TUNE_RECORD", "SECTILE_CUDA_LIBRARY", "SECTILE_NVTX", "SECTILE_NVTX_LIBRARY", "CUDA_HOME"})
    CHECK(names.count(name) == 1);
}

TEST_CASE("Env: the printed table shows today's values", "[runtime][env]") {
  std::string text = ask({{"SECTILE_LOG", "1"}}, [] { return envTableText(); });
  CHECK(text.find("SECTILE_LOG") != std::string::npos);
  CHECK(text.find("now: 1\n") != std::string::npos);
  CHECK(text.find("now: (unset)") != std::string::npos);
}

TEST_CASE("Env: defaults", "[runtime][env]") {
  CHECK(ask({{"HOME", "/h"}}, [] {
          const Env &e = env();
          return e.device + "|" + std::to_string(e.log) + "|" + e.dump + "|" + e.ptxas + "|" + e.cacheDir +
                 "|" + std::to_string(e.cache) + std::to_string(e.checkPointers) + "|" + e.cudaLibrary;
        }) == "|0|||/h/.cache/sectile|10|libcuda.so.1");
}

TEST_CASE("Env: the cache directory", "[runtime][env]") {
  auto dir = [](Environment e) { return ask(std::move(e), [] { return env().cacheDir; }); };
  CHECK(dir({{"SECTILE_CACHE_DIR", "/c"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}) == "/c");
  CHECK(dir({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}) == "/x/sectile");
  CHECK(dir({{"XDG_CACHE_HOME", "relative"}, {"HOME", "/h"}}) == "/h/.cache/sectile");
  // Without HOME the password database knows; whatever it says is an absolute path.
  std::string fromPasswd = dir({{"HOME", ""}});
  CHECK((fromPasswd.empty() || fromPasswd.front() == '/'));
}

TEST_CASE("Env: lists of stages and checks", "[runtime][env]") {
  CHECK(ask({{"SECTILE_DUMP", "tile,,ptx"}}, [] {
          std::string s;
          for (const char *stage : {"tile", "tgpu", "llvm", "ptx"})
            s += env().dumps(stage) ? '1' : '0';
          return s;
        }) == "1001");
  CHECK(ask({{"SECTILE_DUMP", "all"}}, [] { return std::string(env().dumps("llvm") ? "yes" : "no"); }) ==
        "yes");
  CHECK(ask({{"SECTILE_CHECK", "pointers"}}, [] { return std::to_string(env().checkPointers); }) == "1");
}

TEST_CASE("Env: a word that is not known is said and counts as unset", "[runtime][env]") {
  for (auto [name, value] : {std::pair<const char *, const char *>{"SECTILE_LOG", "yes"},
                             {"SECTILE_CACHE", "off"},
                             {"SECTILE_CHECK", "pointer"},
                             {"SECTILE_DUMP", "ptxx"}}) {
    ChildResult r = inChild(only({{name, value}}), [] {
      reloadEnv();
      return std::to_string(env().log) + std::to_string(env().cache) + std::to_string(env().checkPointers);
    });
    CHECK(r.said == "010");
    CHECK(r.errors.find(std::string(name) + "=" + value + " is not known") != std::string::npos);
  }
}

TEST_CASE("Env: read once, and references outlive a second reading", "[runtime][env]") {
  CHECK(ask({{"SECTILE_DEVICE", "interpreter"}}, [] {
          const Env &before = env();
          setenv("SECTILE_DEVICE", "gpu", 1);
          std::string seen = env().device;
          reloadEnv();
          return seen + " " + env().device + " " + before.device;
        }) == "interpreter gpu interpreter");
}
