// SPDX-License-Identifier: Apache-2.0
/// \file Tuning on a GPU: against the fake driver everywhere, against a real one where there is one. Each case in a child
/// process, whose own driver state shows that the caller's context is left alone.
#include "autotune/MeasureDevice.h"
#include "autotune/Tune.h"
#include "runtime/Driver.h"
#include "runtime/KernelCache.h"
#include "tests/support/FakeLaunch.h"

#include <sectile/sectile.h>

#include <fmt/format.h>

#include <cstdlib>

using namespace sectile;
using namespace sectile::autotune;
using test::ChildResult;
using test::Environment;
using test::fake;
using test::inChild;

namespace {

constexpr auto scale = kernel("scale", [](Tensor<const float, 1> X, Tensor<float, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {256, 1024});
  auto [i] = grid(X, {B});
  Y.store({i}, X.load({i}, {B}) * 3.0f + 1.0f);
});
constexpr auto matmul = kernel("matmul", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64}), BN = cfg.pick("BN", {256, 128}), BK = cfg.pick("BK", {64, 128});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  C.store({m, n}, cast<bf16>(acc));
});

constexpr auto lookUp = kernel("look_up", [](Tensor<const i32, 1> I, Tensor<const float, 1> T, Tensor<float, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {128, 256});
  auto [i] = grid(I, {B});
  Y.store({i}, T.at(cast<sectile::index>(I.load({i}, {B}))));
});

std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

ChildResult onFake(Environment more, const std::function<std::string()> &work) {
  more.insert(more.end(), {{"SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA}, {"SECTILE_CACHE", "0"}, {"SECTILE_TUNE_RECORD", "none"}});
  return inChild(more, [&] {
    runtime::reloadEnv();
    return work();
  });
}
bool haveGpu() {
  static const bool have = inChild({{"SECTILE_CUDA_LIBRARY", ""}}, [] {
                             runtime::reloadEnv();
                             return std::to_string(Device::gpuCount());
                           }).said != "0";
  return have;
}
#define NEEDS_GPU                                                                                            \
  if (!haveGpu()) {                                                                                          \
    WARN("skipped: no GPU");                                                                                 \
    return;                                                                                                  \
  }

/// Tunes scale on views without memory; the results of the fake driver's kernels are nobody's.
TuneResult tuneScale(TuneOptions options) {
  options.seconds = 60; // compiles on a busy machine
  options.verify = false;
  options.only = {{"warps", {0, 8}}, {"split", {0}}, {"cluster", {0}}};
  const auto args = scale.pack(Tensor<const float, 1>(nullptr, {1 << 20}), Tensor<float, 1>(nullptr, {1 << 20}));
  TuneHooks hooks;
  hooks.workerProgram = self();
  return tuneWith(scale.desc(), args, options, hooks);
}

} // namespace

TEST_CASE("Tuning on a GPU happens in the worker's context", "[tune][fake]") {
  ChildResult r = onFake({}, [] {
    TuneResult result = tuneScale({});
    const FakeCudaState &s = fake();
    return fmt::format("{} tried, {:.0f} us, noisy {}; here: {} launches, {} modules, {} allocations", result.tried, result.micros, result.noisy,
                       s.launches, s.loads, s.liveAllocations);
  });
  INFO(r.errors);
  CHECK(r.said == "4 tried, 250 us, noisy false; here: 0 launches, 0 modules, 0 allocations");
}

TEST_CASE("Switches of the schedule are tried at what leads", "[tune][fake]") {
  ChildResult r = onFake({}, [] {
    TuneOptions options;
    options.seconds = 120; // compiles on a busy machine
    options.verify = false;
    options.only = {{"BM", {128}}, {"BN", {128}}, {"BK", {64}}, {"warps", {0}}, {"stages", {0}}, {"raster", {0}}, {"split", {0}}, {"blocks", {0}}};
    const auto args = matmul.pack(Tensor<const bf16, 2>(nullptr, {4096, 4096}), Tensor<const bf16, 2>(nullptr, {4096, 4096}), Tensor<bf16, 2>(nullptr, {4096, 4096}));
    TuneHooks hooks;
    hooks.workerProgram = self();
    const TuneResult result = tuneWith(matmul.desc(), args, options, hooks);
    std::string said;
    for (const char *choice : {"pingpong=2", "multicast=2", "snake=1", "streamk=2"}) {
      const std::string text = std::string("BK=64 BM=128 BN=128 ") + choice;
      for (const TunedCandidate &c : result.candidates)
        if (c.text == text)
          said += fmt::format("{} {}; ", choice, c.reason.empty() ? name(c.state) : std::string_view(c.reason));
    }
    return said;
  });
  INFO(r.errors);
  CHECK(r.said == "pingpong=2 measured; multicast=2 measured; snake=1 measured; streamk=2 measured; ");
}

TEST_CASE("Before every sample twice the L2 cache is overwritten; clocks are warmed first", "[tune][fake]") {
  ChildResult r = onFake({}, [] {
    const auto args = scale.pack(Tensor<const float, 1>(nullptr, {4096}), Tensor<float, 1>(nullptr, {4096}));
    const Device gpu = Device::gpu(0);
    auto here = makeGpuDevice(gpu);
    here->setArguments(0, GeneratedArgs::forCall(args, nullptr));
    Artifact code;
    code.launch.symbol = "scale";
    code.launch.grid = {{0, 0, 256}};
    code.launch.threads = 128;
    code.launch.argRanks = {1, 1};
    code.arch = gpu.arch();
    code.ptx = ".version 8.0";
    code.cubin = "\x7f"
                 "ELF";
    here->load(7, "scale", runtime::serialize(code));
    const std::int64_t flush = 2 * std::max<std::int64_t>(gpu.properties().l2Bytes, 32ll << 20);
    const FakeCudaState before = fake();
    for (int i = 0; i < 3; ++i)
      here->sample(7, 0);
    const FakeCudaState after = fake();
    here->warm(7, 0, 20);
    return fmt::format("{} launches, {} flushes, warm {}", after.launches - before.launches, (after.setBytes - before.setBytes) / flush,
                       fake().launches > after.launches);
  });
  INFO(r.errors);
  CHECK(r.said == "3 launches, 3 flushes, warm true");
}

TEST_CASE("What a GPU makes of a candidate is that candidate's state", "[tune][fake]") {
  auto outcome = [](const char *failures) {
    return onFake({{"FAKECUDA_FAIL", failures}}, [] {
             try {
               tuneScale({});
             } catch (const UserError &e) {
               return fmt::format("{} [{}]", e.message(), e.rule());
             }
             return std::string("tuned");
           }).said;
  };
  const std::string faulted = outcome("cuEventSynchronize=700");
  INFO(faulted);
  CHECK(faulted.starts_with("none of 4 candidates can be used; 1 of them: faulted: GPU 0 has faulted with CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK(faulted.find("[device_fault]") != std::string::npos);
  CHECK(faulted.ends_with("[tune_none]"));
  const std::string refused = outcome("cubin=209,ptx=218");
  INFO(refused);
  CHECK(refused.find("[load_failed]") != std::string::npos);
}

TEST_CASE("Nothing is tuned while a stream is being captured (P24a)", "[tune][fake]") {
  ChildResult r = onFake({{"FAKECUDA_CAPTURE", "7"}}, [] {
    try {
      tuneScale({});
    } catch (const UserError &e) {
      return fmt::format("[{}] {}; {} launches", e.rule(), e.wayOut(), fake().launches);
    }
    return std::string("tuned");
  });
  CHECK(r.said == "[tune_capture] tune before the capture begins; 0 launches");
  // A launch that may tune does not: it takes what is known.
  ChildResult launch = onFake({{"FAKECUDA_CAPTURE", "7"}, {"SECTILE_TUNE", "1"}}, [] {
    Device gpu = Device::gpu(0);
    setenv("FAKECUDA_CAPTURE", "0", 1);
    Buffer<float> x(gpu, 1024), y(gpu, 1024);
    setenv("FAKECUDA_CAPTURE", "7", 1);
    scale(gpu.stream(), x, y);
    scale.autotune(0.5)(gpu.stream(), x, y);
    return fmt::format("{} launches", fake().launches);
  });
  INFO(launch.errors);
  CHECK(launch.said == "2 launches");
}

TEST_CASE("Without a GPU, asking for one says so", "[tune][fake]") {
  ChildResult r = inChild({{"SECTILE_CUDA_LIBRARY", "/nowhere/libcuda.so"}}, [] {
    runtime::reloadEnv();
    try {
      tuneScale({.device = Device::gpu(0)});
    } catch (const UserError &e) {
      return e.rule();
    }
    return std::string("tuned");
  });
  CHECK(r.said == "no_gpu");
}

TEST_CASE("On a real GPU products are tuned within their budget, and the choice is right", "[tune][gpu]") {
  NEEDS_GPU
  ChildResult r = inChild({{"SECTILE_CUDA_LIBRARY", ""}, {"SECTILE_CACHE", "0"}, {"SECTILE_TUNE_RECORD", "none"}}, [] {
    runtime::reloadEnv();
    const auto args = matmul.pack(Tensor<const bf16, 2>(nullptr, {2048, 2048}), Tensor<const bf16, 2>(nullptr, {2048, 2048}),
                                  Tensor<bf16, 2>(nullptr, {2048, 2048}));
    TuneHooks hooks;
    hooks.workerProgram = self();
    TuneOptions options{.seconds = 3, .store = false};
    TuneResult result = tuneWith(matmul.desc(), args, options, hooks);
    std::string wrong;
    for (const TunedCandidate &c : result.candidates)
      if (c.state == TunedCandidate::State::wrong)
        wrong += c.text + ": " + c.reason + "\n";
    return fmt::format("{}{}", result.micros > 0 && result.micros <= result.defaultMicros * 1.02 ? "good" : "slower than the default", wrong);
  });
  INFO(r.errors);
  CHECK(r.said == "good");
}

TEST_CASE("On a real GPU the caller's tensors stay as they are, in place too", "[tune][gpu]") {
  NEEDS_GPU
  for (bool inPlace : {false, true}) {
    ChildResult r = inChild({{"SECTILE_CUDA_LIBRARY", ""}, {"SECTILE_CACHE", "0"}, {"SECTILE_TUNE_RECORD", "none"}}, [&] {
      runtime::reloadEnv();
      Device gpu = Device::gpu(0);
      Buffer<float> x(gpu, 100000), y(gpu, 100000);
      std::vector<float> values(100000), before(100000, -7.0f);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i);
      x.copyFrom(values);
      y.copyFrom(before);
      TuneOptions options{.seconds = 1, .inPlace = inPlace, .store = false, .device = gpu};
      TuneHooks hooks;
      hooks.workerProgram = self();
      TuneResult result = tuneWith(scale.desc(), scale.pack(x, y), options, hooks);
      if (x.toHost() != values || y.toHost() != before)
        return std::string("changed");
      scale.with(result.config)(gpu.stream(), x, y);
      std::vector<float> got = y.toHost();
      for (std::size_t i = 0; i < got.size(); ++i)
        if (got[i] != values[i] * 3.0f + 1.0f)
          return fmt::format("wrong at {}", i);
      return std::string("kept");
    });
    INFO(r.errors);
    CHECK(r.said == "kept");
  }
}

TEST_CASE("On a real GPU tensors of integers come from the caller's memory", "[tune][gpu]") {
  NEEDS_GPU
  ChildResult r = inChild({{"SECTILE_CUDA_LIBRARY", ""}, {"SECTILE_CACHE", "0"}, {"SECTILE_TUNE_RECORD", "none"}}, [&] {
    runtime::reloadEnv();
    Device gpu = Device::gpu(0);
    constexpr int n = 10000;
    Buffer<i32> index(gpu, n);
    Buffer<float> table(gpu, n), y(gpu, n);
    std::vector<std::int32_t> places(n);
    std::vector<float> values(n);
    for (int i = 0; i < n; ++i) {
      places[static_cast<std::size_t>(i)] = (i * 7919) % n;
      values[static_cast<std::size_t>(i)] = static_cast<float>(i);
    }
    index.copyFrom(places);
    table.copyFrom(values);
    std::vector<std::int32_t> copied(n);
    if (!copyFromDevice(gpu, index.data(), copied.data(), n * 4) || copied != places)
      return std::string("the copy differs");
    TuneOptions options{.seconds = 1, .store = false, .device = gpu};
    TuneHooks hooks;
    hooks.workerProgram = self();
    TuneResult result = tuneWith(lookUp.desc(), lookUp.pack(index, table, y), options, hooks);
    lookUp.with(result.config)(gpu.stream(), index, table, y);
    std::vector<float> got = y.toHost();
    for (int i = 0; i < n; ++i)
      if (got[static_cast<std::size_t>(i)] != static_cast<float>((i * 7919) % n))
        return fmt::format("wrong at {}", i);
    return std::string("right");
  });
  INFO(r.errors);
  CHECK(r.said == "right");
}
