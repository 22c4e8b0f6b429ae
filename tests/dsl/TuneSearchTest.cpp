// SPDX-License-Identifier: Apache-2.0
// The search on the interpreter, in real worker processes, with a scripted clock: what is chosen, what is refused, what a
// candidate that crashes or hangs does to the others.
#include "autotune/Measure.h"
#include "autotune/Search.h"

#include <sectile/sectile.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

using namespace sectile;
using namespace sectile::autotune;

namespace {

constexpr auto scale = kernel("scale", [](Tensor<const float, 1> X, Tensor<float, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {256, 64, 1024});
  auto [i] = grid(X, {B});
  Y.store({i}, X.load({i}, {B}) * 2.0f);
});
constexpr auto inPlace = kernel("in_place", [](Tensor<float, 1> X, Config &cfg) {
  const int B = cfg.pick("B", {32, 64, 128});
  auto [i] = grid(X, {B});
  X.store({i}, X.load({i}, {B}) * 2.0f);
});
/// out[i] = table[index[i]] + c
constexpr auto lookUp = kernel("look_up", [](Tensor<const i32, 1> I, Tensor<const float, 1> T, Tensor<float, 1> Y, Scalar<float> c,
                                             Const<int> twice, Config &cfg) {
  const int B = cfg.pick("B", {32, 64});
  auto [i] = grid(I, {B});
  Tile v = T.at(cast<sectile::index>(I.load({i}, {B}))) + c;
  Y.store({i}, int(twice) ? v * 2.0f : v);
});
/// Right with B = 32 alone: the others leave out the last element of each tile.
constexpr auto partlyWrong = kernel("partly_wrong", [](Tensor<const float, 1> X, Tensor<float, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {32, 64, 128});
  auto [i] = grid(X, {B});
  Tile lane = iota(B);
  Tile x = X.load({i}, {B});
  Y.store({i}, B == 32 ? x : keep(lane < B - 1, x));
});

std::shared_ptr<const MeasureScript> script(std::map<std::string, ScriptedCandidate> candidates, unsigned seed = 1) {
  MeasureScript s;
  s.candidates = std::move(candidates);
  s.seed = seed;
  return std::make_shared<const MeasureScript>(std::move(s));
}

std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

template <class K, class... A> TuneResult searchFor(const K &k, std::shared_ptr<const MeasureScript> script, TuneOptions options, A &&...a) {
  options.seconds = 30; // a search ends by itself; a busy machine takes its time
  const auto packed = k.pack(std::forward<A>(a)...);
  const detail::KernelDesc desc = k.desc();
  std::vector<KernelArg> passed;
  for (std::size_t i = 0; i < packed.size(); ++i)
    if (desc.params[i].kind != detail::ParamDesc::Kind::constant)
      passed.push_back(packed[i]);
  const Device device = Device::interpreter();
  GeneratedArgs generated = GeneratedArgs::forCall(
      passed, [&](const void *from, void *to, std::int64_t bytes) { return copyFromDevice(device, from, to, bytes); });
  SearchSetup setup{options, device, nullptr, std::move(generated), nullptr, 0, nullptr};
  setup.makeMeasurer = [&] { return startWorker({device, options.hangSeconds, self(), script, {}}); };
  return search(desc, packed, setup);
}

const TunedCandidate &of(const TuneResult &r, const std::string &text) {
  auto it = std::find_if(r.candidates.begin(), r.candidates.end(), [&](const TunedCandidate &c) { return c.text == text; });
  REQUIRE(it != r.candidates.end());
  return *it;
}
template <class F> std::string ruleOf(F f) {
  try {
    f();
  } catch (const UserError &e) {
    return e.rule();
  }
  return "none";
}

struct Host {
  std::vector<float> x, y;
  explicit Host(std::int64_t n) : x(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(n), -1) { std::iota(x.begin(), x.end(), 1.0f); }
  Tensor<float, 1> X() { return {x.data(), {static_cast<std::int64_t>(x.size())}}; }
  Tensor<float, 1> Y() { return {y.data(), {static_cast<std::int64_t>(y.size())}}; }
};

} // namespace

TEST_CASE("The quickest candidate is chosen; the caller's memory is not touched", "[tune]") {
  Host h(5000);
  const std::vector<float> x = h.x, y = h.y;
  TuneResult r = searchFor(scale, script({{"B=256", {100, 0.01}}, {"B=64", {50, 0.01}}, {"B=1024", {80, 0.01}}}), {}, h.X(), h.Y());
  REQUIRE(r.text == "B=64");
  REQUIRE(r.config.get("B") == 64);
  REQUIRE(r.micros == Approx(50).epsilon(0.02));
  REQUIRE(r.lowMicros <= r.micros);
  REQUIRE(r.micros <= r.highMicros);
  REQUIRE(r.defaultMicros == Approx(100).epsilon(0.02));
  REQUIRE(r.tried == 3);
  REQUIRE_FALSE(r.noisy);
  REQUIRE(r.candidates.front().text == "B=64");
  REQUIRE(h.x == x);
  REQUIRE(h.y == y);
}

TEST_CASE("Kernels that read what they write are tuned on memory of their own (P20)", "[tune]") {
  Host h(1000);
  const std::vector<float> x = h.x;
  for (int call = 0; call < 2; ++call) {
    TuneResult r = searchFor(inPlace, nullptr, {}, h.X());
    REQUIRE(h.x == x);
    REQUIRE(of(r, r.text).state == TunedCandidate::State::measured);
  }
}

TEST_CASE("Tensors of integers are the caller's, for they may be indices; constants are part of the kernel", "[tune]") {
  std::vector<std::int32_t> index{3, 1, 2, 0, 7, 9999999, -5, 4};
  std::vector<float> table{10, 11, 12, 13, 14, 15, 16, 17}, out(8);
  auto args = lookUp.pack(Tensor<const i32, 1>(index.data(), {8}), Tensor<const float, 1>(table.data(), {8}),
                          Tensor<float, 1>(out.data(), {8}), 0.5f, 1);
  GeneratedArgs g = GeneratedArgs::forCall(args, [](const void *from, void *to, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return true;
  });
  auto image = g.image(g.args[0].region);
  REQUIRE(std::memcmp(image.data(), index.data(), image.size()) == 0);
  REQUIRE(g.args[3].arg.scalar == args[3].scalar);
  TuneResult r = searchFor(lookUp, script({{"B=32", {10}}, {"B=64", {20}}}), {}, Tensor<const i32, 1>(index.data(), {8}),
                           Tensor<const float, 1>(table.data(), {8}), Tensor<float, 1>(out.data(), {8}), 0.5f, 1);
  REQUIRE(r.text == "B=32");
}

TEST_CASE("A candidate that crashes, hangs or is refused is named, and the others go on", "[tune]") {
  Host h(2000);
  for (const auto &[fault, reason] : std::map<std::string, std::string>{
           {"crash", "faulted: the worker was brought down, ended by signal 6"}, {"hang", "hung: no sign of life for 2 s"}, {"refuse", "the driver does not take its code"}}) {
    TuneResult r = searchFor(scale, script({{"B=256", {100, 0.001}}, {"B=64", {50, 0, fault}}, {"B=1024", {80, 0.001}}}),
                             {.hangSeconds = 2}, h.X(), h.Y());
    CAPTURE(fault);
    REQUIRE(r.text == "B=1024");
    REQUIRE(of(r, "B=64").state == TunedCandidate::State::failed);
    REQUIRE(of(r, "B=64").reason.find(reason) != std::string::npos);
    REQUIRE(of(r, "B=256").state == TunedCandidate::State::measured);
  }
  // None is left.
  REQUIRE(ruleOf([&] { searchFor(scale, script({{"", {100, 0, "crash"}}}), {}, h.X(), h.Y()); }) == "tune_none");
}

TEST_CASE("A candidate with other results is rejected and named", "[tune]") {
  Host h(640);
  // By the worker: a byte of its results differs.
  TuneResult r = searchFor(scale, script({{"B=256", {100, 0.001}}, {"B=64", {50, 0.001, "wrong"}}, {"B=1024", {80, 0.001}}}), {}, h.X(), h.Y());
  REQUIRE(r.text == "B=1024");
  REQUIRE(of(r, "B=64").state == TunedCandidate::State::wrong);
  REQUIRE(of(r, "B=64").reason.starts_with("differs from the default configuration: argument 1: 1 of 640 elements, at 639:"));
  // By what the kernel itself does.
  TuneResult own = searchFor(partlyWrong, script({{"B=32", {100}}, {"B=64", {50}}, {"B=128", {40}}}), {}, h.X(), h.Y());
  REQUIRE(own.text == "B=32");
  REQUIRE(of(own, "B=64").state == TunedCandidate::State::wrong);
  REQUIRE(of(own, "B=128").state == TunedCandidate::State::wrong);
  // Without the comparison it would be taken.
  REQUIRE(searchFor(partlyWrong, script({{"B=32", {100}}, {"B=64", {50}}, {"B=128", {40}}}), {.verify = false}, h.X(), h.Y()).text == "B=128");
  // When the default itself is wrong, the interpreter tells.
  TuneResult small = searchFor(scale, script({{"B=256", {10, 0, "wrong"}}, {"B=64", {50, 0, "wrong"}}, {"B=1024", {80, 0.001}}}), {.only = {{"B", {256, 1024}}}}, h.X(), h.Y());
  REQUIRE(small.text == "B=1024");
  REQUIRE(of(small, "B=256").reason.starts_with("differs from the interpreter on a small shape"));
}

TEST_CASE("Two candidates 1.6x apart: the faster one in 10 of 10 runs (P21c)", "[tune]") {
  Host h(512);
  for (unsigned run = 0; run < 10; ++run)
    REQUIRE(searchFor(scale, script({{"B=256", {160, 0.05}}, {"B=64", {100, 0.05}}}, run), {.only = {{"B", {256, 64}}}}, h.X(), h.Y()).text == "B=64");
}

TEST_CASE("Ties inside the noise are settled by the text, the same in every process", "[tune]") {
  Host h(512);
  for (unsigned run = 0; run < 10; ++run)
    REQUIRE(searchFor(scale, script({{"B=256", {100, 0.01}}, {"B=64", {100, 0.01}}, {"B=1024", {100.2, 0.01}}}, run), {}, h.X(), h.Y()).text == "B=1024");
}

TEST_CASE("What stays noisy or drifts is not final", "[tune]") {
  Host h(512);
  REQUIRE(searchFor(scale, script({{"", {100, 0.6}}}), {}, h.X(), h.Y()).noisy);
  REQUIRE(searchFor(scale, script({{"", {100, 0, "drift"}}}), {}, h.X(), h.Y()).noisy);
  REQUIRE_FALSE(searchFor(scale, script({{"", {100, 0.005}}}), {}, h.X(), h.Y()).noisy);
}

TEST_CASE("The median's interval is that of its order statistics", "[tune]") {
  MedianInterval one = medianOf({7});
  REQUIRE(one.low == 7);
  REQUIRE(one.high == 7);
  std::vector<double> many(41);
  std::iota(many.begin(), many.end(), 0.0);
  std::reverse(many.begin(), many.end());
  MedianInterval m = medianOf(many);
  REQUIRE(m.median == 20);
  REQUIRE(m.low == 14);
  REQUIRE(m.high == 27);
  // In about 19 of 20 series the true median lies inside.
  int inside = 0;
  std::uint64_t state = 1;
  for (int series = 0; series < 1000; ++series) {
    std::vector<double> v;
    for (int i = 0; i < 21; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      v.push_back(static_cast<double>(state >> 11) * 0x1p-53);
    }
    MedianInterval r = medianOf(v);
    inside += r.low <= 0.5 && 0.5 <= r.high;
  }
  REQUIRE(inside > 930);
}

TEST_CASE("Generated arguments have the caller's alignment, strides and overlaps", "[tune]") {
  alignas(256) static float memory[4096];
  // Two that overlap, one of them backwards and misaligned by 4; one that repeats its only row.
  KernelArg a{DType::f32, 1, false, memory + 65, {100}, {-1}, 0}, b{DType::f32, 2, true, memory + 1, {8, 4}, {8, 1}, 0},
      c{DType::f32, 2, true, memory + 1024, {1000, 16}, {0, 1}, 0};
  a.data = memory + 1 + 99;
  GeneratedArgs g = GeneratedArgs::forCall(std::array{a, b, c}, nullptr);
  REQUIRE(g.regions.size() == 2);
  REQUIRE(g.args[0].region == g.args[1].region);
  REQUIRE(g.regions[static_cast<std::size_t>(g.args[0].region)].misalign == 4);
  REQUIRE(g.regions[static_cast<std::size_t>(g.args[0].region)].written);
  REQUIRE(g.regions[static_cast<std::size_t>(g.args[2].region)].bytes == 64);
  REQUIRE(g.args[0].offset == 99 * 4);
  REQUIRE(g.args[1].offset == 0);
  auto back = GeneratedArgs::deserialize(g.serialize());
  REQUIRE(back);
  REQUIRE(back->image(0) == g.image(0));
  REQUIRE_FALSE(GeneratedArgs::deserialize("rubbish"));
  REQUIRE_FALSE(GeneratedArgs::deserialize("5\n{}"));

  // Numbers look normal.
  KernelArg big{DType::bf16, 1, true, nullptr, {100000}, {1}, 0};
  GeneratedArgs n = GeneratedArgs::forCall(std::span(&big, 1), nullptr);
  auto image = n.image(0);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 100000; ++i) {
    bf16 v;
    std::memcpy(&v, image.data() + 2 * i, 2);
    sum += float(v);
    squares += double(float(v)) * float(v);
  }
  REQUIRE(std::abs(sum / 1e5) < 0.02);
  REQUIRE(std::abs(squares / 1e5 - 1) < 0.03);

  // Smaller shapes keep what divides lengths, what strides are modulo 16 bytes, and the axes that are to stay.
  KernelArg m{DType::bf16, 2, false, nullptr, {4096, 4099}, {4099, 1}, 0};
  GeneratedArgs s = GeneratedArgs::forCall(std::span(&m, 1), nullptr).shrunk(64, {});
  REQUIRE(s.args[0].arg.dims[0] == 64);
  REQUIRE(s.args[0].arg.dims[1] == 67);
  REQUIRE(s.args[0].arg.strides[0] % 8 == 4099 % 8);
  REQUIRE(s.args[0].arg.strides[0] >= 67);
  const std::pair<int, int> keep[] = {{0, 1}};
  REQUIRE(GeneratedArgs::forCall(std::span(&m, 1), nullptr).shrunk(64, keep).args[0].arg.dims[1] == 4099);
}

TEST_CASE("Results are compared by what another order of sums may change", "[tune]") {
  KernelArg y{DType::bf16, 1, false, nullptr, {1024}, {1}, 0};
  GeneratedArgs g = GeneratedArgs::forCall(std::span(&y, 1), nullptr);
  std::vector<std::vector<std::uint8_t>> a{g.image(0)}, b = a;
  auto set = [&](std::vector<std::vector<std::uint8_t>> &v, int i, float value) {
    bf16 x(value);
    std::memcpy(v[0].data() + 2 * i, &x, 2);
  };
  set(a, 5, 1.0f);
  set(b, 5, 1.0f + 1.0f / 128);
  REQUIRE_FALSE(compareResults(g, a, b).wrong); // one unit in the last place
  set(b, 5, 1.25f);
  REQUIRE(compareResults(g, a, b).wrong);
  REQUIRE(compareResults(g, a, b).text == "argument 0: 1 of 1024 elements, at 5: 1 instead of 1.25");
  set(b, 5, std::numeric_limits<float>::quiet_NaN());
  REQUIRE(compareResults(g, a, b).wrong);
  set(a, 5, std::numeric_limits<float>::quiet_NaN());
  REQUIRE_FALSE(compareResults(g, a, b).wrong);
  set(a, 5, std::numeric_limits<float>::infinity());
  REQUIRE(compareResults(g, a, b).wrong);
}

TEST_CASE("Timing here, on the arguments themselves, restores what was written", "[tune]") {
  std::vector<float> x(300);
  std::iota(x.begin(), x.end(), 1.0f);
  const std::vector<float> before = x;
  auto args = inPlace.pack(Tensor<float, 1>(x.data(), {300}));
  GeneratedArgs g = GeneratedArgs::forCall(args, nullptr);
  Config config;
  TracedWork traced = traceWork(inPlace.desc(), args, config);
  {
    void *memory[] = {x.data()};
    auto here = measureHere(Device::interpreter(), memory);
    here->setArguments(0, g);
    here->add(0, "B=32", traced.text);
    for (int i = 0; i < 3; ++i)
      REQUIRE(std::holds_alternative<double>(here->sample(0, 0)));
    REQUIRE(x[0] == 8); // on the memory itself
    REQUIRE(std::holds_alternative<Done>(here->run(0, 0, 0)));
    REQUIRE(x[0] == 2); // each run that counts begins with what was there
  }
  REQUIRE(x == before);
}

TEST_CASE("A worker that is no worker is a clear error", "[tune]") {
  auto start = [](std::string program) { return ruleOf([&] { startWorker({Device::interpreter(), 5, program, nullptr, {}}); }); };
  REQUIRE(start("/nowhere/sectile") == "tune_worker");
  REQUIRE(start("/bin/true") == "tune_worker");
  REQUIRE(start("/bin/echo") == "tune_worker");
  try {
    startWorker({Device::interpreter(), 5, "/bin/false", nullptr, {}});
  } catch (const UserError &e) {
    REQUIRE(e.message() == "/bin/false does not answer: exit status 1");
    REQUIRE(e.wayOut().find("inPlace") != std::string::npos);
  }
}
