// SPDX-License-Identifier: Apache-2.0
/// \file Which launches let threads copy operands to shared memory in place of the TMA unit.
#include "dsl/AsyncRule.h"
#include "runtime/Env.h"
#include "tests/support/FakeCuda.h"
#include "tests/support/InChild.h"

#include <sectile/sectile.h>

#include <catch2/catch.hpp>

#include <dlfcn.h>

using namespace sectile;
using test::inChild;

namespace {

constexpr auto product = kernel("product", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {128, 128});
  Tile acc = zeros<f32>({128, 128});
  for (Tile k : range(0, A.dim(1), 64))
    acc = mma(A.load({m, k}, {128, 64}), B.load({n, k}, {128, 64}).t(), acc);
  C.store({m, n}, cast<bf16>(acc));
});

FakeCudaState &fake() {
  return *reinterpret_cast<FakeCudaStateFn *>(dlsym(dlopen(SECTILE_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD), "fakeCudaState"))();
}

KernelArg matrix(std::uintptr_t address, std::int64_t rows, std::int64_t columns, std::int64_t pitch, bool readOnly = true) {
  KernelArg a;
  a.dtype = DType::bf16;
  a.rank = 2;
  a.readOnly = readOnly;
  a.data = reinterpret_cast<void *>(address);
  a.dims[0] = rows, a.dims[1] = columns;
  a.strides[0] = pitch, a.strides[1] = 1;
  return a;
}

} // namespace

TEST_CASE("Threads copy where all programs run at once and rows start inside lines", "[async]") {
  LaunchInfo launch;
  launch.persistent = true;
  for (int arg : {0, 1})
    launch.maps.push_back({.arg = arg, .order = {1, 0}, .box = {64, 128}, .limits = {"inf", "inf"}});
  auto faster = [&](std::int64_t pitch, std::int64_t programs, std::uintptr_t address = 1 << 20, bool readOnly = true) {
    const std::vector<KernelArg> args{matrix(address, 1000, 1000, pitch, readOnly), matrix(1 << 24, 1024, 1024, 1024)};
    return threadsCopyFaster(launch, args, programs, 132);
  };
  CHECK(faster(1000, 64));
  CHECK(faster(1000, 132));
  CHECK_FALSE(faster(1000, 133));
  CHECK_FALSE(faster(1024, 64));
  CHECK(faster(1024, 64, (1 << 20) + 16));
  CHECK_FALSE(faster(1000, 64, 1 << 20, false)); // a map of what is stored
  launch.maps[0].tf32 = true; // which the unit rounds
  CHECK_FALSE(faster(1000, 64));
  launch.maps[0].tf32 = false;
  launch.persistent = false;
  CHECK_FALSE(faster(1000, 64));
}

TEST_CASE("The launch takes the variant in which threads copy", "[async]") {
  const auto said = inChild({{"SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA}, {"SECTILE_DEVICE", ""}, {"SECTILE_CHECK", ""},
                             {"SECTILE_PTXAS", "none"}, {"SECTILE_CACHE", "0"}},
                            [] {
                              runtime::reloadEnv();
                              Stream s{Device::gpu(0)};
                              Buffer<bf16> a(s, 1000, 1032), b(s, 1000, 1032), c(s, 1000, 1000);
                              // Tensor maps that a launch encodes: of A, B and C, or of C alone.
                              auto maps = [&](std::int64_t pitch, int async, int repack = 0) {
                                Tensor<const bf16, 2> A(a.data(), {1000, 1000}, {pitch, 1}), B(b.data(), {1000, 1000}, {pitch, 1});
                                Config config;
                                config.async = async;
                                config.repack = repack;
                                const int before = fake().encodedMaps;
                                if (async || repack)
                                  product.with(config)(s, A, B, c);
                                else
                                  product(s, A, B, c);
                                return std::to_string(fake().encodedMaps - before);
                              };
                              std::string text = maps(1000, 0) + maps(1024, 0) + maps(1000, 1) + maps(1024, 2);
                              text += maps(1000, 0);    // again: they are there
                              text += maps(1004, 0, 1); // rows that the unit cannot load
                              text += maps(1004, 0);    // copied whole, into rows that it can
                              return text;
                            })
                        .said;
  CHECK(said == "1331013");
}
