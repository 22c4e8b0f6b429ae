// SPDX-License-Identifier: Apache-2.0
/// \file Kernels of final tgpu text on GPU 0, in a child process: a fault ends the child alone.
#pragma once

#include "runtime/Env.h"
#include "runtime/Launch.h"
#include "runtime/Module.h"
#include "tests/support/EmitKernel.h"
#include "tests/support/InChild.h"

#include <sectile/Buffer.h>

#include <catch2/catch.hpp>

namespace sectile::testing {

/// Runs `work` in a child on GPU 0; it returns what went wrong. Empty without a GPU.
inline std::string onGpu(const std::function<std::string()> &work) {
  static const bool have = sectile::test::inChild({}, [] {
                             runtime::reloadEnv();
                             return std::to_string(Device::gpuCount());
                           }).said != "0";
  if (!have) {
    WARN("skipped: no GPU");
    return "";
  }
  sectile::test::ChildResult r = sectile::test::inChild({}, [&] {
    runtime::reloadEnv();
    return work();
  });
  return r.said + (r.exitCode == 0 ? "" : "\nchild failed: " + r.errors);
}

/// A tensor on the GPU with its host bytes.
struct Array {
  DType dtype;
  std::vector<std::int64_t> dims;
  std::vector<std::byte> bytes;
  std::optional<Buffer<std::uint8_t>> device;

  Array(DType t, std::vector<std::int64_t> d) : dtype(t), dims(std::move(d)) {
    std::size_t n = byteSize(t);
    for (std::int64_t v : dims)
      n *= std::size_t(v);
    bytes.assign(n, std::byte(0xff));
  }
  std::size_t size() const { return bytes.size() / byteSize(dtype); }
  template <class T> T get(std::size_t k) const {
    T v;
    std::memcpy(&v, &bytes[k * sizeof(T)], sizeof(T));
    return v;
  }
  template <class T> void put(std::size_t k, T v) { std::memcpy(&bytes[k * sizeof(T)], &v, sizeof(T)); }
};

/// Emits, loads and runs a kernel of final tgpu text; the arrays come back changed. The reason if it does not
/// emit.
inline std::string runKernel(const std::string &text, std::vector<Array *> arrays) {
  Device gpu = Device::gpu(0);
  Emitted e = emitText(text);
  if (!e.ok)
    return e.errors + text;
  Stream stream = gpu.stream();
  std::vector<KernelArg> args;
  for (Array *a : arrays) {
    a->device.emplace(gpu, std::int64_t(a->bytes.size()));
    a->device->copyFrom(std::span(reinterpret_cast<const std::uint8_t *>(a->bytes.data()), a->bytes.size()));
    KernelArg arg;
    arg.dtype = a->dtype;
    arg.rank = int(a->dims.size());
    arg.data = a->device->data();
    std::int64_t stride = 1;
    for (std::size_t d = a->dims.size(); d-- > 0;) {
      arg.dims[d] = a->dims[d];
      arg.strides[d] = stride;
      stride *= a->dims[d];
    }
    args.push_back(arg);
  }
  runtime::Module module("test", std::make_shared<Artifact>(e.artifact));
  runtime::launch(module, args, stream);
  stream.synchronize();
  for (Array *a : arrays)
    a->device->copyTo(std::span(reinterpret_cast<std::uint8_t *>(a->bytes.data()), a->bytes.size()));
  return "";
}

inline std::string archOfGpu() {
  Device gpu = Device::gpu(0);
  return gpu.arch();
}

} // namespace sectile::testing
