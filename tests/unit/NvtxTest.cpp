// SPDX-License-Identifier: Apache-2.0
#include "runtime/Nvtx.h"
#include "tests/support/InChild.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <string>

using namespace sectile::runtime;
using sectile::test::Environment;
using sectile::test::inChild;

namespace {
std::string recorded() {
  void *fake = dlopen(SECTILE_FAKE_NVTX, RTLD_NOW | RTLD_NOLOAD);
  auto *record = fake ? reinterpret_cast<const char *(*)()>(dlsym(fake, "fakeNvtxRecord")) : nullptr;
  return record ? record() : "not loaded";
}
std::string nested() {
  NvtxRange outer("matmul");
  {
    NvtxRange inner("softmax");
  }
  return recorded();
}
} // namespace

TEST_CASE("Nvtx: ranges nest and carry the kernel's name", "[runtime][nvtx]") {
  auto on = inChild({{"SECTILE_NVTX", "1"}, {"SECTILE_NVTX_LIBRARY", SECTILE_FAKE_NVTX}}, nested);
  CHECK(on.said == "(sectile: matmul(sectile: softmax)");
}

TEST_CASE("Nvtx: off by default, and then nothing is loaded", "[runtime][nvtx]") {
  auto off = inChild({{"SECTILE_NVTX", ""}, {"SECTILE_NVTX_LIBRARY", SECTILE_FAKE_NVTX}}, nested);
  CHECK(off.said == "not loaded");
}

TEST_CASE("Nvtx: a library that is not there is said once, and launches go on", "[runtime][nvtx]") {
  auto gone = inChild({{"SECTILE_NVTX", "1"}, {"SECTILE_NVTX_LIBRARY", "/nowhere/libnvtx.so"}}, [] {
    NvtxRange first("a");
    NvtxRange second("b");
    return std::string("alive");
  });
  CHECK(gone.said == "alive");
  CHECK(gone.errors.find("/nowhere/libnvtx.so cannot be loaded") != std::string::npos);
  CHECK(gone.errors.find("sectile: SECTILE_NVTX=1") == gone.errors.rfind("sectile: SECTILE_NVTX=1"));
}
