// SPDX-License-Identifier: Apache-2.0
/// \file P20, P21, P24: kernels that are tuned where they are launched, from outside: what they compute, and that the record is asked.
#include "tests/cases/Cases.h"
#include "tests/cases/CudaDriver.h"

#include <sectile/Tuner.h>

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

using namespace cases;

namespace {

constexpr auto twice = kernel("tuned_twice", [](Tensor<f32, 1> x, Config &cfg) {
  const int B = cfg.pick("B", {128, 64, 256});
  auto [i] = grid(x, {B});
  x.store({i}, x.load({i}, {B}) * 2.0f);
});
constexpr auto addTo = kernel("tuned_add_to", [](Tensor<const f32, 1> x, Tensor<f32, 1> out, Config &cfg) {
  const int B = cfg.pick("B", {128, 64, 256});
  auto [i] = grid(x, {B});
  out.store({i}, out.load({i}, {B}) + x.load({i}, {B}));
});
template <class T>
constexpr auto product = kernel("tuned_product", [](Tensor<const T, 2> a, Tensor<const T, 2> b, Tensor<f32, 2> c, Config &cfg) {
  const int BM = cfg.pick("BM", {32, 64}), BK = cfg.pick("BK", {32, 64});
  auto [m, n] = grid(c, {BM, 32});
  Tile acc = zeros<f32>({BM, 32});
  for (Tile k : range(0, a.dim(1), BK))
    acc = mma(a.load({m, k}, {BM, BK}), b.load({k, n}, {BK, 32}), acc);
  c.store({m, n}, acc);
});

/// A record of this process' own. @pre nothing of the library was used yet
class OwnRecord {
public:
  OwnRecord() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sectile-cases-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error("mkdtemp failed");
    folder = pattern;
    setenv("SECTILE_TUNE_RECORD", path().c_str(), 1);
  }
  ~OwnRecord() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::string path() const { return folder + "/record.sqlite"; }
  bool isThere() const { return std::filesystem::exists(path()); }

private:
  std::string folder;
};

/// Seconds within which a search of three candidates ends by itself.
constexpr double enough = 20;

} // namespace

SECTILE_CASE_ALONE("P20a") {
  OwnRecord record;
  const std::int64_t n = 1000;
  Guarded<f32> x(run, make<f32>(n, [](auto i) { return i + 1; }));
  for (int factor : {2, 4}) {
    twice.autotune(enough)(run.stream(), x.view(n));
    run.stream().synchronize();
    run.same(x.get(), make<f32>(n, [&](auto i) { return factor * (i + 1); }), fmt::format("times {}", factor));
    run.beat();
  }
  run.check(x.guardsHold(), "bytes beside x");
  run.check(record.isThere(), "nothing was tuned");
}
SECTILE_CASE_ALONE("P20b") {
  OwnRecord record;
  const std::int64_t n = 777;
  Guarded<f32> x(run, make<f32>(n, [](auto i) { return i; })), out(run, make<f32>(n, [](auto) { return 0; }));
  for (int factor : {1, 2}) {
    addTo.autotune(enough)(run.stream(), x.view(n), out.view(n));
    run.stream().synchronize();
    run.same(out.get(), make<f32>(n, [&](auto i) { return factor * i; }), fmt::format("call {}", factor));
    run.beat();
  }
  run.check(record.isThere(), "nothing was tuned");
}
SECTILE_CASE_ALONE("P21a") {
  OwnRecord record;
  std::vector<std::string> chosen;
  auto check = [&]<class T>(const auto &k, std::int64_t m, std::int64_t n, std::int64_t l, std::int64_t offset, bool isKnown) {
    auto a = make<T>(m * l, [](auto i) { return i % 5 - 2; }), b = make<T>(l * n, [](auto i) { return i % 3 - 1; });
    Guarded<T> A(run, a, offset), B(run, b);
    Guarded<f32> C(run, m * n);
    TuneOptions options{.seconds = enough};
    options.device = run.device();
    const Tensor<const T, 2> av(A.data(), {m, l}), bv(B.data(), {l, n});
    const TuneResult r = tune(k, options, av, bv, C.view(m, n));
    run.check(r.fromRecord == isKnown || r.noisy, fmt::format("{}x{}x{}: {} the record", m, n, l, r.fromRecord ? "from" : "not from"));
    k(run.stream(), av, bv, C.view(m, n));
    run.stream().synchronize();
    const auto got = C.get();
    for (std::int64_t i = 0; i < m; i += 7)
      for (std::int64_t j = 0; j < n; j += 5) {
        float sum = 0;
        for (std::int64_t x = 0; x < l; ++x)
          sum += float(a[std::size_t(i * l + x)]) * float(b[std::size_t(x * n + j)]);
        run.check(got[std::size_t(i * n + j)] == sum, fmt::format("{}x{}x{} [{}, {}]: {}/{}", m, n, l, i, j, got[std::size_t(i * n + j)], sum));
      }
    run.check(C.guardsHold(), "bytes beside C");
    run.beat();
  };
  check.template operator()<f16>(product<f16>, 32, 32, 32, 0, false);
  check.template operator()<f16>(product<f16>, 128, 96, 64, 0, false);
  check.template operator()<f16>(product<f16>, 128, 95, 64, 0, false);
  check.template operator()<f16>(product<f16>, 128, 96, 64, 1, false); // a pointer 2 bytes off
  check.template operator()<f16>(product<f16>, 128, 96, 64, 0, true);
  check.template operator()<e4m3>(product<e4m3>, 128, 96, 64, 0, false);
}
SECTILE_CASE_ALONE("P24a/tuned") { // the first call of a tuned kernel comes while its stream is captured
  if (!run.isGpu())
    run.skip("the interpreter has no graphs");
  OwnRecord record;
  const std::int64_t n = 1000;
  Stream stream(Device::gpu(0));
  Buffer<f32> x(stream, n), out(stream, n);
  const auto from = make<f32>(n, [](auto i) { return i; });
  x.copyFrom(from);
  out.fillBytes(0);
  stream.synchronize();
  CudaDriver cuda;
  DriverGraph cold(cuda, stream.native(), [&] { addTo.autotune(enough)(stream, x, out); });
  run.check(!record.isThere(), "it was tuned during the capture");
  cold.launch();
  stream.synchronize();
  run.same(out.toHost(), from, "cold");
  addTo.autotune(enough)(stream, x, out); // tuned here, and launched once
  stream.synchronize();
  run.check(record.isThere(), "nothing was tuned");
  run.same(out.toHost(), make<f32>(n, [](auto i) { return 2 * i; }), "warm");
  DriverGraph graph(cuda, stream.native(), [&] { addTo.autotune(enough)(stream, x, out); });
  for (int i = 0; i < 100; ++i)
    graph.launch();
  stream.synchronize();
  run.same(out.toHost(), make<f32>(n, [](auto i) { return 102 * i; }), "100 replays");
}
