// SPDX-License-Identifier: Apache-2.0
/// \file Launches on the driver of tests/support/FakeCuda.cpp: children that open it, what it saw, kernels and arguments for it.
#pragma once

#include "runtime/Env.h"
#include "runtime/Launch.h"
#include "tests/support/FakeCuda.h"
#include "tests/support/InChild.h"

#include <sectile/Buffer.h>

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <memory>

namespace sectile::test {

/// What `work` says in a child with the fake driver.
inline std::string withFake(Environment e, const std::function<std::string()> &work) {
  e.insert(e.begin(),
           {{"SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA}, {"SECTILE_DEVICE", ""}, {"SECTILE_CHECK", ""}});
  return inChild(e,
                 [&] {
                   runtime::reloadEnv();
                   return work();
                 })
      .said;
}
/// A symbol of the fake driver, and its notes. @pre it has been opened
inline void *fakeSymbol(const char *name) {
  return dlsym(dlopen(SECTILE_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD), name);
}
inline FakeCudaState &fake() {
  return *reinterpret_cast<FakeCudaStateFn *>(fakeSymbol("fakeCudaState"))();
}

inline bool has(const std::string &text, const std::string &part) {
  INFO(text);
  INFO(part);
  return text.find(part) != std::string::npos;
}
template <class F> std::string thrown(F work) {
  try {
    work();
  } catch (const UserError &e) {
    return e.what();
  } catch (const InternalError &e) {
    return e.what();
  }
  return "nothing thrown";
}

inline KernelArg tensor(void *data, std::vector<std::int64_t> dims, DType dtype = DType::f32) {
  KernelArg a;
  a.dtype = dtype;
  a.rank = static_cast<int>(dims.size());
  a.data = data;
  std::uint64_t stride = 1; // wraps for dims that no memory has
  for (int d = a.rank - 1; d >= 0; --d) {
    a.dims[d] = dims[d];
    a.strides[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(dims[d]);
  }
  return a;
}
template <class T> KernelArg view(Buffer<T> &b) {
  return tensor(b.data(), {b.dims().begin(), b.dims().end()}, dtypeOf<T>);
}
inline void *const somewhere = reinterpret_cast<void *>(std::uintptr_t(4096));

/// A kernel of one tensor of rank 2, tiles of 4 x 8.
inline LaunchInfo info2d() {
  LaunchInfo info;
  info.symbol = "k";
  info.grid = {{0, 0, 4}, {0, 1, 8}};
  info.threads = 128;
  info.argRanks = {2};
  return info;
}
inline std::shared_ptr<Artifact> artifact(LaunchInfo info) {
  auto a = std::make_shared<Artifact>();
  a->launch = std::move(info);
  a->arch = "sm_90a";
  a->ptx = ".version 8.0";
  a->cubin = "\x7f"
             "ELF";
  return a;
}
inline std::shared_ptr<runtime::Module> module(LaunchInfo info, const char *name = "demo") {
  return std::make_shared<runtime::Module>(name, artifact(std::move(info)));
}

} // namespace sectile::test
