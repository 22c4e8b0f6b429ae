// SPDX-License-Identifier: Apache-2.0
// What a plain launch takes for a kernel's picks where the tuning record knows nothing: the cost model's choice, the same in every
// process; and what it leaves alone.
#include "dsl/Choice.h"
#include "dsl/Compile.h"
#include "dsl/ModelChoice.h"
#include "runtime/Env.h"
#include "runtime/KernelCache.h"
#include "tests/support/FakeCuda.h"
#include "tests/support/InChild.h"

#include <sectile/sectile.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <chrono>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>

using namespace sectile;
using test::ScratchDir;

namespace {

/// One kernel per N.
template <int N>
constexpr auto matmul = kernel("chosen_matmul", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64, 256}), BN = cfg.pick("BN", {256, 128, 64, 32}), BK = cfg.pick("BK", {64, 32, 128});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  C.store({m, n}, cast<bf16>(acc) + cast<bf16>(zeros<f32>({BM, BN}) * float(N)));
});
constexpr auto noPicks = kernel("chosen_none", [](Tensor<f32, 1> X, Config &cfg) {
  const int B = cfg.pick("B", {64}); // one value alone leaves nothing to choose
  auto [i] = grid(X, {B});
  X.store({i}, zeros<f32>({B}));
});
/// 6^4 combinations of values that cost the same.
constexpr auto many = kernel("chosen_many", [](Tensor<f32, 1> X, Config &cfg) {
  int sum = 0;
  for (const char *name : {"A", "B", "C", "D"})
    sum += cfg.pick(name, {1, 2, 3, 4, 5, 6});
  auto [i] = grid(X, {64});
  X.store({i}, full<f32>({64}, float(sum)));
});
/// Some combinations are mistakes.
constexpr auto partly = kernel("chosen_partly", [](Tensor<f32, 1> X, Config &cfg) {
  const int B = cfg.pick("B", {64, 128, 256});
  auto [i] = grid(X, {B});
  X.store({i}, B == 128 ? zeros<f32>({64}) : zeros<f32>({B}));
});
constexpr auto wrong = kernel("chosen_wrong", [](Tensor<f32, 1> X, Config &cfg) {
  const int B = cfg.pick("B", {64, 128});
  auto [i] = grid(X, {B});
  X.store({i}, zeros<f32>({B}) + zeros<f32>({3}));
});

const Target &h200() { return *findTarget("sm_90a"); }

template <class T = bf16> std::array<KernelArg, 3> product(std::int64_t m, std::int64_t n, std::int64_t k, std::uintptr_t a = 4096) {
  return matmul<0>.pack(Tensor<const bf16, 2>(reinterpret_cast<bf16 *>(a), {m, k}), Tensor<const bf16, 2>(reinterpret_cast<bf16 *>(1 << 20), {k, n}),
                        Tensor<bf16, 2>(reinterpret_cast<bf16 *>(1 << 21), {m, n}));
}
std::string textOf(const ModelChoice &choice) { return choice.config ? choice.config->str() : "first values"; }
std::string chosen(std::int64_t m, std::int64_t n, std::int64_t k) { return textOf(modelChoice(matmul<0>.desc(), product(m, n, k), h200(), 132)); }

test::Environment onFake(const std::string &cache = {}) {
  return {{"SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA}, {"SECTILE_PTXAS", "none"}, {"SECTILE_TUNE_RECORD", "none"},
          {"SECTILE_CACHE", cache.empty() ? "0" : "1"}, {"SECTILE_CACHE_DIR", cache}, {"SECTILE_LOG", "1"}};
}

} // namespace

TEST_CASE("The model's choice: first values where they are good, others where they are not", "[dsl][model]") {
  CHECK(chosen(4096, 4096, 4096) == "first values");
  CHECK(chosen(8192, 8192, 8192) == "first values");
  const std::string small = chosen(256, 256, 4096);
  CHECK(small != "first values");
  const ModelChoice choice = modelChoice(matmul<0>.desc(), product(256, 256, 4096), h200(), 132);
  REQUIRE(choice.config);
  // Every pick by hand, of the kernel's lists, and no schedule.
  CHECK(choice.config->get("BM").value() * choice.config->get("BN").value() < 128 * 256);
  CHECK(choice.config->values().size() == 3);
  CHECK(choice.config->warps + choice.config->stages + choice.config->split + choice.config->cluster == 0);
  CHECK(choice.why.starts_with("predicted "));
  // It follows from the buckets of the lengths.
  CHECK(chosen(250, 256, 4096) == small);
  // Operands that the TMA unit cannot read: no choice.
  const ModelChoice odd = modelChoice(matmul<0>.desc(), product(256, 256, 4095), h200(), 132);
  CHECK_FALSE(odd.config);
  CHECK(odd.why.find("TMA") != std::string::npos);
  CHECK_FALSE(modelChoice(matmul<0>.desc(), product(256, 256, 4096, 4098), h200(), 132).config);
}

TEST_CASE("What the model cannot rank keeps its first values", "[dsl][model]") {
  const Tensor<f32, 1> x(reinterpret_cast<f32 *>(4096), {100000});
  const ModelChoice none = modelChoice(noPicks.desc(), noPicks.pack(x), h200(), 132);
  CHECK_FALSE(none.config);
  CHECK(none.why == "nothing to choose");
  CHECK_FALSE(modelChoice(many.desc(), many.pack(x), h200(), 132).config);
  CHECK(textOf(modelChoice(partly.desc(), partly.pack(x), h200(), 132)) != "B=128");
  const ModelChoice bad = modelChoice(wrong.desc(), wrong.pack(x), h200(), 132);
  CHECK_FALSE(bad.config);
  CHECK(bad.why.find("[64]") != std::string::npos); // the launch itself says the same as an error
}

TEST_CASE("The model's choice is the same in every process, and comes from the cache on disk", "[dsl][model]") {
  const std::string want = chosen(256, 256, 4096);
  ScratchDir cache, other;
  for (const std::string &folder : {std::string(), cache.path(), cache.path(), other.path()}) {
    const auto child = test::inChild({}, [&] {
      runtime::DiskCache disk(folder);
      const auto text = [&](std::int64_t n) { return textOf(modelChoice(matmul<0>.desc(), product(n, n, 4096), h200(), 132, &disk)); };
      return text(256) + "|" + text(4096);
    });
    CHECK(child.said == want + "|first values");
  }
  runtime::DiskCache disk(cache.path());
  CHECK(disk.list().size() == 2);
  for (const runtime::DiskCache::Entry &entry : disk.list()) {
    CHECK(entry.symbol == "chosen_matmul (choice)");
    CHECK(entry.arch == "sm_90a");
    std::ofstream(cache.file(entry.file)) << "damaged"; // what is damaged is made again
  }
  CHECK(textOf(modelChoice(matmul<0>.desc(), product(256, 256, 4096), h200(), 132, &disk)) == want);
  // Another kernel of this name, another GPU: other entries.
  modelChoice(matmul<7>.desc(), product(256, 256, 4096), h200(), 132, &disk);
  modelChoice(matmul<0>.desc(), product(256, 256, 4096), h200(), 114, &disk);
  int good = 0;
  for (const runtime::DiskCache::Entry &entry : disk.list())
    good += entry.damage.empty();
  CHECK(good == 3);
}

TEST_CASE("A plain launch takes the model's choice; by hand, on the interpreter and with few lengths it does not", "[dsl][model]") {
  const std::string want = chosen(256, 256, 4096);
  const auto child = test::inChild(onFake(), [&]() -> std::string {
    runtime::reloadEnv();
    const Device gpu = Device::gpu(0);
    auto config = [&](const auto &k, std::int64_t m, std::int64_t n, std::int64_t l, const Config *by = nullptr, const Device &device = Device::gpu(0)) {
      return variantOfLaunch(k.desc(), device, product(m, n, l), by)->config.str();
    };
    const std::string first = "BK=64 BM=128 BN=256";
    const Config none, one = Config().set("BM", 64);
    std::string said;
    auto expect = [&](const std::string &is, const std::string &should, const char *what) {
      // A launch adds to it that programs of the last round are shared.
      if (is != should && is != should + " streamk=2")
        said += fmt::format("{}: {} instead of {}\n", what, is, should);
    };
    for (int round = 0; round < 2; ++round) {
      expect(config(matmul<1>, 4096, 4096, 4096), first, "large");
      expect(config(matmul<1>, 256, 256, 4096), want, "small");
      expect(config(matmul<1>, 256, 256, 4096, &none), first, "an empty configuration by hand");
      expect(config(matmul<1>, 256, 256, 4096, &one), "BK=64 BM=64 BN=256", "one number by hand");
      expect(config(matmul<1>, 256, 256, 4096, nullptr, Device::interpreter()), first, "the interpreter");
    }
    // The other way round, and from the launch itself.
    expect(config(matmul<2>, 256, 256, 4096), want, "small first");
    expect(config(matmul<2>, 4096, 4096, 4096), first, "large after it");
    // Lengths of one bucket share a variant.
    auto variant = [&](std::int64_t m) { return variantOfLaunch(matmul<2>.desc(), gpu, product(m, 256, 4096)); };
    if (variant(240) != variant(256) || variant(4096) == variant(256))
      said += "variants\n";
    Stream stream(gpu);
    Buffer<bf16> a(stream, 256, 4096), b(stream, 4096, 256), c(stream, 256, 256);
    matmul<3>(stream, a, b, c);
    auto call = matmul<3>.prepare(a, b, c);
    call(stream);
    auto &state = *reinterpret_cast<FakeCudaStateFn *>(dlsym(dlopen(SECTILE_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD), "fakeCudaState"))();
    if (state.launches != 2 || state.loads != 1)
      said += fmt::format("{} launches of {} modules\n", state.launches, state.loads);
    return said;
  });
  INFO(child.errors);
  CHECK(child.said == "");
  CHECK(child.errors.find(fmt::format("chosen_matmul: cfg({}) by the cost model: predicted ", want)) != std::string::npos);
}

TEST_CASE("The record comes before the model", "[dsl][model]") {
  ScratchDir dir;
  auto environment = onFake();
  environment.emplace_back("SECTILE_TUNE_RECORD", dir.file("record.sqlite"));
  const auto child = test::inChild(environment, [&] {
    runtime::reloadEnv();
    const Device gpu = Device::gpu(0);
    const auto args = product(256, 256, 4096);
    autotune::RecordRow row;
    const detail::KernelDesc k = matmul<4>.desc();
    row.key = recordKey(k, args, gpu, contentOf(k, args));
    row.choice = "BK=32 BM=64 BN=128 warps=4";
    const std::optional<Config> config = parseChoice(row.choice);
    row.choiceContent = contentOf(k, args, &*config);
    row.dims = dimsText(args);
    row.medianNs = 1000, row.lowNs = 990, row.highNs = 1010, row.date = 1700000000, row.tried = 3, row.isFinal = true;
    noteInRecord(std::vector{row});
    auto taken = [&](std::int64_t m) { return variantOfLaunch(k, gpu, product(m, 256, 4096))->config.str(); };
    return taken(256) + "|" + taken(320) + "|" + taken(4096 * 8);
  });
  INFO(child.errors);
  // Its own shape, a neighbour, and one that is too far.
  CHECK(child.said.starts_with("BK=32 BM=64 BN=128 warps=4"));
  CHECK(child.said.find("|BK=32 BM=64 BN=128 warps=4") != std::string::npos);
  CHECK(child.said.find("warps=4", child.said.rfind('|')) == std::string::npos);
}

TEST_CASE("A choice of the model whose code spills is not used", "[dsl][model]") {
  ScratchDir dir;
  const std::string program = dir.file("ptxas");
  std::ofstream(program) << "#!/bin/sh\n[ \"$1\" != --version ] || { echo 'release 13.0, V13.0.88'; exit 0; }\n"
                            "printf '\\177ELF' > $6\necho '    0 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads'\n"
                            "echo 'ptxas info    : Used 29 registers'\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  auto environment = onFake();
  environment.emplace_back("SECTILE_PTXAS", program);
  const auto child = test::inChild(environment, [&] {
    runtime::reloadEnv();
    return variantOfLaunch(matmul<5>.desc(), Device::gpu(0), product(256, 256, 4096))->config.str();
  });
  INFO(child.errors);
  CHECK(child.said.starts_with("BK=64 BM=128 BN=256"));
  CHECK(child.errors.find("; not used, 20 B spill") != std::string::npos);
}

TEST_CASE("What the model's choice costs a first launch", "[dsl][model][speed]") {
  ScratchDir cache;
  runtime::DiskCache disk(cache.path());
  auto millis = [&](std::int64_t m) {
    const auto begin = std::chrono::steady_clock::now();
    modelChoice(matmul<0>.desc(), product(m, 256, 4096), h200(), 132, &disk);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  millis(64); // the process is warm
  const double cold = millis(256);
  double known = 1e9;
  for (int i = 0; i < 5; ++i)
    known = std::min(known, millis(256));
  WARN(fmt::format("36 combinations: {:.1f} ms; from the cache on disk {:.2f} ms", cold, known));
  CHECK(cold < 250); // on a busy machine too
  CHECK(known < 5);
}
