// SPDX-License-Identifier: Apache-2.0
// Kernels that are tuned where they are launched, on the interpreter with real worker processes: what they compute, what
// the record holds after them; and how a search ends.
#include "autotune/CompilePool.h"
#include "autotune/Record.h"
#include "autotune/Search.h"
#include "autotune/Tune.h"
#include "dsl/Choice.h"
#include "runtime/Env.h"

#include <sectile/sectile.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <unistd.h>

using namespace sectile;
using namespace sectile::autotune;

namespace {

constexpr auto twice = kernel("twice", [](Tensor<float, 1> X, Config &cfg) {
  const int B = cfg.pick("B", {32, 64, 128});
  auto [i] = grid(X, {B});
  X.store({i}, X.load({i}, {B}) * 2.0f);
});
constexpr auto addTo = kernel("add_to", [](Tensor<const float, 1> X, Tensor<float, 1> Out, Config &cfg) {
  const int B = cfg.pick("B", {32, 64, 128});
  auto [i] = grid(X, {B});
  Out.store({i}, Out.load({i}, {B}) + X.load({i}, {B}));
});
template <class T> constexpr auto product = kernel("product", [](Tensor<const T, 2> A, Tensor<const T, 2> B, Tensor<float, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {32, 16}), BK = cfg.pick("BK", {32, 16});
  auto [m, n] = grid(C, {BM, 32});
  Tile acc = zeros<f32>({BM, 32});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, 32}), acc);
  C.store({m, n}, acc);
});
/// What an edit of its source does: another number where B is 64.
int edited = 0;
constexpr auto editable = kernel("editable", [](Tensor<const float, 1> X, Tensor<float, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {32, 64, 128});
  auto [i] = grid(X, {B});
  Tile x = X.load({i}, {B});
  Y.store({i}, edited && B == 64 ? x + 1.0f - 1.0f : x + 0.0f);
});
/// Twelve candidates.
constexpr auto wide = kernel("wide", [](Tensor<const float, 1> X, Tensor<float, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192});
  auto [i] = grid(X, {B});
  Y.store({i}, X.load({i}, {B}));
});

/// A record of this test's own while it lives.
class OwnRecord {
public:
  OwnRecord() : folder(std::filesystem::temp_directory_path() / ("tune_cases_" + std::to_string(getpid()) + "_" + std::to_string(count++))) {
    std::filesystem::create_directories(folder);
    setenv("SECTILE_TUNE_RECORD", path().c_str(), 1);
    runtime::reloadEnv();
    reloadRecord();
  }
  ~OwnRecord() {
    unsetenv("SECTILE_TUNE_RECORD");
    runtime::reloadEnv();
    reloadRecord();
    std::filesystem::remove_all(folder);
  }
  std::string path() const { return folder / "record.sqlite"; }
  std::size_t choices() const {
    Record record(path(), Record::Mode::readOnly);
    std::size_t n = 0;
    for (const auto &[id, row] : record.rows().all())
      n += row.kind == RecordRow::Kind::choice;
    return n;
  }

private:
  static inline int count = 0;
  std::filesystem::path folder;
};

std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

template <class K, class... A> TuneResult tuned(const K &k, TuneOptions options, A &&...a) {
  const auto packed = k.pack(std::forward<A>(a)...);
  options.device = Device::interpreter();
  TuneHooks hooks;
  hooks.workerProgram = self();
  return tuneWith(k.desc(), packed, options, hooks);
}

} // namespace

TEST_CASE("x *= 2 tuned where it is launched: each launch doubles once (P20a)", "[tune]") {
  OwnRecord record;
  const Stream stream = Device::interpreter().stream();
  std::vector<float> x(100);
  std::iota(x.begin(), x.end(), 1.0f);
  Tensor<float, 1> view(x.data(), {100});
  for (float factor : {2.0f, 4.0f}) {
    twice.autotune(30)(stream, view);
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(x[i] == factor * static_cast<float>(i + 1));
  }
  REQUIRE(record.choices() == 1);
  // By hand: two launches of the choice.
  TuneResult r = tuned(twice, {.seconds = 30, .again = true}, view);
  twice.with(r.config)(stream, view);
  REQUIRE(x[9] == 80);
}

TEST_CASE("out += x tuned where it is launched: each launch adds once (P20b)", "[tune]") {
  OwnRecord record;
  const Stream stream = Device::interpreter().stream();
  std::vector<float> x(77), out(77, 0.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  for (float factor : {1.0f, 2.0f}) {
    addTo.autotune(30)(stream, Tensor<const float, 1>(x.data(), {77}), Tensor<float, 1>(out.data(), {77}));
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(out[i] == factor * x[i]);
  }
}

TEST_CASE("Each shape, place in memory and type of a product is tuned on its own (P21a)", "[tune]") {
  OwnRecord record;
  const Stream stream = Device::interpreter().stream();
  std::size_t choices = 0;
  auto run = [&]<class T>(const auto &kernelOf, std::int64_t m, std::int64_t n, std::int64_t k, int offset, bool isNew) {
    std::vector<T> a(static_cast<std::size_t>(m * k + 16)), b(static_cast<std::size_t>(k * n));
    std::vector<float> c(static_cast<std::size_t>(m * n), -1.0f);
    T *first = a.data() + offset;
    for (std::int64_t i = 0; i < m * k; ++i)
      first[i] = T(static_cast<float>(i % 5 - 2));
    for (std::size_t i = 0; i < b.size(); ++i)
      b[i] = T(static_cast<float>(i % 3));
    kernelOf.autotune(30)(stream, Tensor<const T, 2>(first, {m, k}), Tensor<const T, 2>(b.data(), {k, n}), Tensor<float, 2>(c.data(), {m, n}));
    for (std::int64_t i = 0; i < m; i += 7)
      for (std::int64_t j = 0; j < n; j += 5) {
        float sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += float(first[i * k + l]) * float(b[static_cast<std::size_t>(l * n + j)]);
        REQUIRE(c[static_cast<std::size_t>(i * n + j)] == sum);
      }
    choices += isNew;
    REQUIRE(record.choices() == choices);
  };
  run.template operator()<f16>(product<f16>, 32, 32, 32, 0, true);
  run.template operator()<f16>(product<f16>, 96, 64, 128, 0, true);
  run.template operator()<f16>(product<f16>, 96, 63, 128, 0, true);
  run.template operator()<f16>(product<f16>, 96, 64, 128, 1, true); // a pointer 2 bytes off
  run.template operator()<f16>(product<f16>, 96, 64, 128, 0, false); // known
  run.template operator()<e4m3>(product<e4m3>, 96, 64, 128, 0, true);
}

TEST_CASE("SECTILE_TUNE=1 tunes plain launches, and no configuration by hand; without it nothing is tuned", "[tune]") {
  OwnRecord record;
  const Stream stream = Device::interpreter().stream();
  std::vector<float> x(64, 1.0f);
  Tensor<float, 1> view(x.data(), {64});
  twice(stream, view);
  REQUIRE(record.choices() == 0);
  setenv("SECTILE_TUNE", "1", 1);
  runtime::reloadEnv();
  twice.with(Config().set("B", 64))(stream, view);
  REQUIRE(record.choices() == 0);
  twice(stream, view);
  twice(stream, view);
  unsetenv("SECTILE_TUNE");
  runtime::reloadEnv();
  REQUIRE(record.choices() == 1);
  REQUIRE(x[0] == 16);
}

TEST_CASE("Changing one candidate times that one alone", "[tune]") {
  OwnRecord record;
  std::vector<float> x(64, 1.0f), y(64);
  auto tune = [&] {
    TuneOptions options{.seconds = 30};
    options.device = Device::interpreter();
    TuneHooks hooks;
    hooks.workerProgram = self();
    MeasureScript script;
    for (const char *name : {"B=32", "B=64", "B=128"})
      script.candidates[name] = {name == std::string("B=128") ? 10.0 : 20.0, 0.001};
    hooks.script = std::make_shared<const MeasureScript>(script);
    return tuneWith(editable.desc(), editable.pack(Tensor<const float, 1>(x.data(), {64}), Tensor<float, 1>(y.data(), {64})), options, hooks);
  };
  edited = 0;
  TuneResult first = tune();
  REQUIRE(first.tried == 3);
  REQUIRE(first.text == "B=128");
  REQUIRE(tune().fromRecord);
  edited = 1;
  TuneResult second = tune();
  REQUIRE_FALSE(second.fromRecord);
  REQUIRE(second.tried == 1);
  for (const TunedCandidate &c : second.candidates) {
    REQUIRE(c.state == TunedCandidate::State::measured);
    REQUIRE((c.samples > 0) == (c.text == "B=64"));
  }
  REQUIRE(second.text == "B=128");
  REQUIRE(tune().fromRecord);
  edited = 0;
}

TEST_CASE("The record is asked first", "[tune]") {
  OwnRecord record;
  std::vector<float> x(64, 1.0f);
  Tensor<float, 1> view(x.data(), {64});
  TuneResult first = tuned(twice, {.seconds = 30}, view);
  REQUIRE_FALSE(first.fromRecord);
  REQUIRE(first.tried == 3);
  TuneResult second = tuned(twice, {.seconds = 30}, view);
  if (!first.noisy) {
    REQUIRE(second.fromRecord);
    REQUIRE(second.text == first.text);
    REQUIRE(second.micros == Approx(first.micros));
  }
  REQUIRE(tuned(twice, {.seconds = 30, .again = true}, view).tried == 3);
  // Limits of the caller's own: another search, which the record does not keep, but whose times it knows.
  TuneResult limited = tuned(twice, {.seconds = 30, .only = {{"B", {32, 64}}}}, view);
  REQUIRE_FALSE(limited.stored);
  if (!first.noisy)
    REQUIRE(limited.tried == 0);
  REQUIRE(x[0] == 1.0f);
}

TEST_CASE("A search ends by its budget, or when the model leaves nothing better", "[tune]") {
  std::vector<float> x(512), y(512);
  const auto args = wide.pack(Tensor<const float, 1>(x.data(), {512}), Tensor<float, 1>(y.data(), {512}));
  const Device device = Device::interpreter();
  MeasureScript script;
  auto micros = [](int b) { return 10.0 + b; }; // smaller is quicker
  for (int b = 16; b <= 192; b += 16)
    script.candidates["B=" + std::to_string(b)] = {micros(b) * 3, 0.001};
  auto run = [&](TuneOptions options, std::size_t mostCompiles, bool goodModel) {
    SearchSetup setup{options, device, nullptr, GeneratedArgs::forCall(args, nullptr), nullptr, mostCompiles, nullptr};
    setup.makeMeasurer = [&] { return startWorker({device, 5, self(), std::make_shared<const MeasureScript>(script), {}}); };
    setup.model = [&](const Candidate &c) { return goodModel ? micros(*c.config.get("B")) : 100.0 - *c.config.get("B") * 0.01; };
    return search(wide.desc(), args, setup);
  };
  // The model is right: half of the candidates are compiled, no other is likely better.
  TuneResult good = run({}, 8, true);
  CHECK(good.text == "B=16");
  CHECK(good.endedBy == "no better one is likely");
  CHECK(good.compiled < 8);
  // It is wrong, so that every candidate may be better: the limit of compiles ends it.
  TuneResult bad = run({}, 8, false);
  CHECK(bad.endedBy == "enough candidates");
  CHECK(bad.compiled == 8);
  // No time: what was measured at least once is chosen.
  TuneResult quick = run({.seconds = 1e-6}, 0, true);
  CHECK(quick.endedBy == "budget");
  CHECK(quick.tried >= 1);
  CHECK(quick.tried < 12);
  TuneResult all = run({.seconds = 1e-6, .exhaustive = true}, 8, true);
  CHECK(all.endedBy == "all measured");
  CHECK(all.tried == 12);
  CHECK(all.candidates.size() == 12);
}

TEST_CASE("Candidates are compiled at once, and handed over while others still compile", "[tune]") {
  std::atomic<int> inside{0};
  std::atomic<bool> go{false};
  CompilePool pool(2, [&](int id) {
    ++inside;
    while (id == 1 && !go) // the second one waits until the first was handed over
      std::this_thread::yield();
    if (id == 2)
      throw UserError({{}, {}, "x", "too large", "some_rule", "y"});
    return "code " + std::to_string(id);
  });
  pool.add(1);
  pool.add(0);
  auto first = pool.next(true);
  REQUIRE(first);
  REQUIRE(first->code == "code 0");
  REQUIRE(inside == 2);
  REQUIRE(pool.pending() == 1);
  REQUIRE_FALSE(pool.next(false));
  go = true;
  REQUIRE(pool.next(true)->code == "code 1");
  REQUIRE_FALSE(pool.next(true)); // nothing is under way: no waiting for ever
  pool.add(2);
  REQUIRE(pool.next(true)->reason == "too large [some_rule]");
}

TEST_CASE("Budgets that are none, and tuning inside a kernel's body, are refused", "[tune]") {
  std::vector<float> x(64);
  Tensor<float, 1> view(x.data(), {64});
  auto ruleOf = [&](double seconds) {
    try {
      tuned(twice, {.seconds = seconds}, view);
    } catch (const UserError &e) {
      return e.rule();
    }
    return std::string("none");
  };
  REQUIRE(ruleOf(0) == "tune_budget");
  REQUIRE(ruleOf(-1) == "tune_budget");
  REQUIRE(ruleOf(std::numeric_limits<double>::quiet_NaN()) == "tune_budget");

  static constexpr auto nested = kernel("nested", [](Tensor<float, 1> X) {
    auto [i] = grid(X, {32});
    tune(twice, {.device = Device::interpreter()}, Tensor<float, 1>(nullptr, {32}));
    X.store({i}, zeros<f32>({32}));
  });
  try {
    nested(Device::interpreter().stream(), view);
    FAIL("launched");
  } catch (const UserError &e) {
    REQUIRE(e.rule() == "launch_in_trace");
    REQUIRE(e.message() == "kernel 'twice' is tuned inside a kernel body");
    REQUIRE(e.loc().file.find("TuneCasesTest.cpp") != std::string::npos);
  }
}

TEST_CASE("Timing on the arguments themselves is asked for, needs memory, and leaves it as it was", "[tune]") {
  OwnRecord record;
  std::vector<float> x(300);
  std::iota(x.begin(), x.end(), 1.0f);
  const std::vector<float> before = x;
  TuneResult r = tuned(twice, {.seconds = 30, .inPlace = true, .again = true}, Tensor<float, 1>(x.data(), {300}));
  REQUIRE(r.tried == 3);
  REQUIRE(x == before);
  try {
    tuned(twice, {.seconds = 30, .inPlace = true, .again = true}, Tensor<float, 1>(nullptr, {300}));
    FAIL("tuned");
  } catch (const UserError &e) {
    REQUIRE(e.rule() == "null_pointer");
    REQUIRE(e.message() == "argument 0 is null, and inPlace times on the arguments themselves");
  }
}

TEST_CASE("A result says what became of every candidate, as a table and as JSON", "[tune]") {
  OwnRecord record;
  std::vector<float> x(64, 1.0f);
  TuneResult r = tuned(twice, {.seconds = 30, .store = false}, Tensor<float, 1>(x.data(), {64}));
  const std::string table = r.table();
  for (const char *text : {"B=32", "B=64", "B=128", "chosen", "default", "median us"})
    REQUIRE(table.find(text) != std::string::npos);
  const std::string json = r.json();
  REQUIRE(json.find("\"choice\": \"" + r.text + "\"") != std::string::npos);
  REQUIRE(json.find("\"state\": \"measured\"") != std::string::npos);
  REQUIRE(record.choices() == 0);
}
