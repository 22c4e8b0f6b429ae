// SPDX-License-Identifier: Apache-2.0
#include "runtime/Nvtx.h"
#include "runtime/Env.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <dlfcn.h>
#include <string>

namespace sectile::runtime {
namespace {

/// The two functions of the NVTX C API that are used (NVTX 3, "Push/Pop ranges").
struct Library {
  int (*push)(const char *) = nullptr;
  int (*pop)() = nullptr;

  Library() {
    const std::string &named = env().nvtxLibrary;
    const std::array<const char *, 4> usual = {"libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1",
                                               "/usr/local/cuda/lib64/libnvtx3interop.so.1"};
    void *handle = nullptr;
    if (!named.empty())
      handle = dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL);
    else
      for (size_t i = 0; i < usual.size() && !handle; ++i)
        handle = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      push = reinterpret_cast<int (*)(const char *)>(dlsym(handle, "nvtxRangePushA"));
      pop = reinterpret_cast<int (*)()>(dlsym(handle, "nvtxRangePop"));
    }
    if (!push || !pop) {
      push = nullptr;
      fmt::print(stderr, "sectile: SECTILE_NVTX=1, but {} cannot be loaded; there are no ranges\n",
                 named.empty() ? "no NVTX library" : named);
    }
  }
};

const Library &library() {
  static const Library loaded;
  return loaded;
}

} // namespace

bool NvtxRange::active() { return env().nvtx; }

bool NvtxRange::push(const char *name) {
  if (!library().push)
    return false;
  // A prefix tells Sectile's ranges from others'; the buffer keeps a launch free of allocations.
  std::array<char, 128> text;
  std::snprintf(text.data(), text.size(), "sectile: %s", name);
  library().push(text.data());
  return true;
}

void NvtxRange::pop() { library().pop(); }

} // namespace sectile::runtime
