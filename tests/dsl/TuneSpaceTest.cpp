// SPDX-License-Identifier: Apache-2.0
// The space of a kernel's configurations: what is a candidate, what is dropped and why; what the cost model says.
#include "autotune/CostModel.h"
#include "autotune/Space.h"

#include <sectile/sectile.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

using namespace sectile;
using namespace sectile::autotune;

namespace {

constexpr auto matmul = kernel("matmul", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64, 256, 16}), BN = cfg.pick("BN", {256, 128, 192, 64, 32});
  const int BK = cfg.pick("BK", {64, 32, 128, 256});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  C.store({m, n}, cast<bf16>(acc));
});

/// U is asked for in some configurations alone; V in the others.
constexpr auto branchy = kernel("branchy", [](Tensor<const float, 1> X, Tensor<float, 1> Y, Config &cfg) {
  const int mode = cfg.pick("MODE", {0, 1});
  const int B = mode ? cfg.pick("V", {32, 64, 128}) : cfg.pick("U", {256, 512});
  auto [i] = grid(X, {B});
  Y.store({i}, X.load({i}, {B}) + 1.0f);
});

constexpr auto softmaxLike = kernel("softmax_like", [](Tensor<const bf16, 2> X, Tensor<bf16, 2> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {1, 2, 4}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(X, {BR});
  Tile x = cast<f32>(X.load({r, 0}, {BR, BC})), e = exp(x - max(x, 1));
  Y.store({r, 0}, cast<bf16>(e / sum(e, 1)));
});

/// Lower triangle: as many trips as the row has blocks.
constexpr auto triangle = kernel("triangle", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<float, 2> C) {
  auto [m, n] = grid(C, {64, 64});
  Tile acc = zeros<f32>({64, 64});
  for (Tile k : range(0, m + 64, 64))
    acc = mma(A.load({m, k}, {64, 64}), B.load({k, n}, {64, 64}), acc);
  C.store({m, n}, acc);
});

/// Keys that a query meets, without softmax: two products in one loop, one operand that the loop keeps.
constexpr auto chain = kernel("chain", [](Tensor<const bf16, 2> Q, Tensor<const bf16, 2> K, Tensor<bf16, 2> O) {
  auto [m] = grid(O, {128});
  Tile q = Q.load({m, 0}, {128, 128}), o = zeros<f32>({128, 128});
  for (Tile j : range(0, K.dim(0), 128)) {
    Tile keys = K.load({j, 0}, {128, 128});
    o = mma(cast<bf16>(mma(q, keys.t())), keys, o);
  }
  O.store({m, 0}, cast<bf16>(o));
});
constexpr auto columnSums = kernel("column_sums", [](Tensor<const float, 2> X, Tensor<float, 1> Y) {
  auto [c] = grid(Y, {128});
  Tile s = zeros<f32>({128});
  for (Tile r : range(0, X.dim(0), 32))
    s += sum(X.load({r, c}, {32, 128}), 0).drop(0);
  Y.store({c}, s);
});

const Target &h200() { return *findTarget("sm_90a"); }

/// Views without memory: dims and strides are all that is asked for.
template <class T> Tensor<T, 2> matrix(std::int64_t rows, std::int64_t columns) { return {nullptr, {rows, columns}}; }
template <class T> Tensor<T, 1> vector(std::int64_t n) { return {nullptr, {n}}; }

auto product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return matmul.pack(matrix<const bf16>(m, k), matrix<const bf16>(k, n), matrix<bf16>(m, n));
}
Space productSpace(std::int64_t size, SpaceLimits limits = {}) {
  auto args = product(size, size, size);
  return makeSpace(matmul.desc(), args, &h200(), 132, limits, {});
}
double predicted(std::int64_t size, int bm, int bn, int bk, int warps = 0) {
  auto args = product(size, size, size);
  Config config;
  config.set("BM", bm).set("BN", bn).set("BK", bk);
  config.warps = warps;
  return predict(h200(), 132, traceWork(matmul.desc(), args, config), config).micros;
}
double teraflops(std::int64_t size, double micros) { return 2.0 * size * size * size / micros * 1e-6; }

std::string reasonOf(const Space &space, const std::string &text) {
  for (const Dropped &d : space.dropped)
    if (d.text == text)
      return d.reason;
  return "not dropped";
}
template <class F> std::string ruleOf(F f) {
  try {
    f();
  } catch (const UserError &e) {
    return e.rule();
  }
  return "none";
}

} // namespace

TEST_CASE("What a traced kernel has to do", "[tune]") {
  auto args = product(4096, 2048, 1024);
  TracedWork t = traceWork(matmul.desc(), args, Config());
  REQUIRE(t.work.programs == 32 * 8); // 128 x 256
  REQUIRE(t.work.flops() == Approx(2.0 * 4096 * 2048 * 1024));
  REQUIRE(t.work.bytesMoved() == Approx(256 * (16.0 * (128 * 64 + 64 * 256) * 2 + 128 * 256 * 2)));
  REQUIRE(t.work.products.size() == 1);
  REQUIRE(t.work.products[0].loadsDirect);
  REQUIRE(t.work.canSplit);
  REQUIRE(t.work.argumentBytes == std::vector<double>{4096.0 * 1024 * 2, 1024.0 * 2048 * 2, 4096.0 * 2048 * 2});
  // Sums in f32 stay alive, operands go through shared memory.
  REQUIRE(t.work.liveBytes >= 128 * 256 * 4);
  REQUIRE(t.work.liveBytes < 2 * 128 * 256 * 4);

  // Trips that depend on the program: on average (1 + 64) / 2 of 64 blocks.
  auto tri = triangle.pack(matrix<const bf16>(4096, 4096), matrix<const bf16>(4096, 4096), matrix<float>(4096, 4096));
  TracedWork half = traceWork(triangle.desc(), tri, Config());
  REQUIRE(half.work.flops() == Approx(2.0 * 4096 * 4096 * 4096 * 65 / 128).epsilon(0.02));

  auto rows = softmaxLike.pack(matrix<const bf16>(8192, 4096), matrix<bf16>(8192, 4096));
  TracedWork soft = traceWork(softmaxLike.desc(), rows, Config());
  REQUIRE(soft.work.bytesMoved() == Approx(2.0 * 8192 * 4096 * 2));
  REQUIRE(soft.work.specialOps == Approx(2 * 4096)); // exp and the quotient of one row
  REQUIRE_FALSE(soft.work.canSplit);
}

TEST_CASE("The space is every combination of picks and schedules, each kept or dropped with a reason", "[tune]") {
  Space space = productSpace(4096);
  REQUIRE(std::count_if(space.candidates.begin(), space.candidates.end(), [](const Candidate &c) { return c.isDefault; }) == 1);
  for (const Dropped &d : space.dropped)
    REQUIRE_FALSE(d.reason.empty());
  REQUIRE(space.size() > 200);
  REQUIRE(reasonOf(space, "BK=64 BM=256 BN=256 warps=4") ==
          "its sums take 512 registers of each of 128 threads, sm_90a has 255");
  REQUIRE(reasonOf(space, "BK=256 BM=128 BN=256 stages=2") ==
          "409600 bytes of shared memory for 2 stages, sm_90a has 232448 per block");
  REQUIRE(reasonOf(space, "BK=64 BM=16 BN=32 warps=16") ==
          "16 warps, and a product of bf16 16x32x64 is 4 of 16x8x16");
  REQUIRE(reasonOf(space, "BK=64 BM=16 BN=32 stages=2") ==
          "2 stages, and no loads that the TMA unit of sm_90a makes ahead");

  REQUIRE(reasonOf(space, "BK=64 BM=128 BN=256 blocks=2").starts_with("about 1"));
  REQUIRE(reasonOf(space, "BK=64 BM=128 BN=128 blocks=2") == "not dropped");

  // The same text twice would be compiled twice.
  std::vector<std::string> texts;
  for (const Candidate &c : space.candidates)
    texts.push_back(c.text);
  std::sort(texts.begin(), texts.end());
  REQUIRE(std::adjacent_find(texts.begin(), texts.end()) == texts.end());
}

/// The switches that candidates of this kernel set, beside `picks`, as text.
template <class Args>
std::set<std::string> switchesOf(const detail::KernelDesc &kernel, const Args &args, const std::string &picks = "", const Target &target = h200()) {
  std::set<std::string> found;
  for (const Candidate &c : makeSpace(kernel, args, &target, 0, {}, {}).candidates)
    if (c.text.starts_with(picks) && c.text.size() > picks.size()) {
      const std::string rest = c.text.substr(picks.empty() ? 0 : picks.size() + 1);
      for (const ScheduleField &f : scheduleFields())
        if (f.isSwitch && rest.starts_with(std::string(f.name) + "=") && rest.find(' ') == std::string::npos)
          found.insert(rest);
    }
  return found;
}

TEST_CASE("Switches are candidates where the kernel has something for them to act on, and the machine something to gain", "[tune]") {
  using Set = std::set<std::string>;
  const std::string large = "BK=64 BM=128 BN=256", square = "BK=64 BM=128 BN=128";
  // Operands of 100 MB, four rounds of which the last is not full; sums of 128 x 256 are too many for one warpgroup.
  CHECK(switchesOf(matmul.desc(), product(4096, 4096, 4096), large) == Set{"multicast=2", "snake=1", "streamk=1", "streamk=2"});
  CHECK(switchesOf(matmul.desc(), product(4096, 4096, 4096), square).contains("pingpong=2"));
  // What lies in the L2 cache is not read in another order; one round needs no turns.
  CHECK(switchesOf(matmul.desc(), product(1024, 1024, 1024), square) == Set{"streamk=1", "streamk=2"});
  CHECK(switchesOf(matmul.desc(), product(1000, 1000, 1000), square) == Set{"multicast=1", "streamk=1", "streamk=2"});
  // Whole rounds leave nothing to share.
  CHECK_FALSE(switchesOf(matmul.desc(), product(128 * 132, 512, 4096), large).contains("streamk=2"));
  // Operands that the TMA unit cannot read: threads copy them, or warps load them.
  CHECK(switchesOf(matmul.desc(), product(4095, 4097, 4099), large) == Set{"async=1", "async=2"});
  // Two products in a loop that keeps an operand of theirs; the loop does not only accumulate.
  const Set two = switchesOf(chain.desc(), chain.pack(matrix<const bf16>(65536, 128), matrix<const bf16>(65536, 128), matrix<bf16>(65536, 128)));
  for (const char *choice : {"overlap=1", "overlap=2", "keep=1", "keep=2"})
    CHECK(two.contains(choice));
  // Kernels without products: more rows than run at once, more bytes than the L2 cache has, loops that load.
  CHECK(switchesOf(softmaxLike.desc(), softmaxLike.pack(matrix<const bf16>(16384, 2048), matrix<bf16>(16384, 2048)), "BR=1") == Set{"evict=2", "persistent=2"});
  CHECK(switchesOf(softmaxLike.desc(), softmaxLike.pack(matrix<const bf16>(64, 2048), matrix<bf16>(64, 2048)), "BR=1").empty());
  CHECK(switchesOf(columnSums.desc(), columnSums.pack(matrix<const float>(512, 512), vector<float>(512))) == Set{"prefetch=1", "prefetch=2"});
  // Without products on warpgroups none of theirs.
  CHECK(switchesOf(matmul.desc(), product(4096, 4096, 4096), large, *findTarget("sm_80")).empty());
}

TEST_CASE("Switches keep the space small: one of them at a time, beside one other choice", "[tune]") {
  SpaceLimits without;
  std::size_t switches = 0, fields = 0;
  for (const ScheduleField &f : scheduleFields())
    if (f.isSwitch)
      without.only[f.name] = {0};
  const Space plain = productSpace(4096, without), all = productSpace(4096);
  for (const Candidate &c : all.candidates) {
    std::size_t set = 0, others = 0;
    for (const ScheduleField &f : scheduleFields())
      (f.isSwitch ? set : others) += c.config.*f.member != 0;
    switches += set;
    fields += set > 0;
    CHECK((set <= 1 && set + others <= 2));
  }
  CHECK(switches > 0);
  CHECK(switches == fields);
  CHECK(all.candidates.size() < 3 * plain.candidates.size());
  // Chosen by the caller, they are what the caller says.
  SpaceLimits limits;
  limits.fixed.snake = 1;
  limits.only = {{"overlap", {2}}, {"BM", {128}}, {"BN", {128}}, {"BK", {64}}};
  const Space byHand = productSpace(4096, limits);
  REQUIRE_FALSE(byHand.candidates.empty());
  for (const Candidate &c : byHand.candidates)
    CHECK((c.config.snake == 1 && c.config.overlap == 2));
}

TEST_CASE("Numbers that only some configurations ask for belong to those alone", "[tune]") {
  auto args = branchy.pack(vector<const float>(4096), vector<float>(4096));
  Space space = makeSpace(branchy.desc(), args, nullptr, 0, {}, {});
  std::vector<std::string> texts;
  for (const Candidate &c : space.candidates)
    texts.push_back(c.text);
  REQUIRE(texts == std::vector<std::string>{"MODE=0 U=256", "MODE=0 U=512", "MODE=1 V=128", "MODE=1 V=32", "MODE=1 V=64"});
  REQUIRE(space.dropped.empty());
}

TEST_CASE("A kernel without picks is its schedules; the interpreter has none", "[tune]") {
  auto args = triangle.pack(matrix<const bf16>(512, 512), matrix<const bf16>(512, 512), matrix<float>(512, 512));
  Space onGpu = makeSpace(triangle.desc(), args, &h200(), 132, {}, {});
  REQUIRE(onGpu.candidates.size() > 3);
  Space onHost = makeSpace(triangle.desc(), args, nullptr, 0, {}, {});
  REQUIRE(onHost.candidates.size() == 1);
  REQUIRE(onHost.candidates[0].text.empty());
  REQUIRE(onHost.candidates[0].isDefault);
}

TEST_CASE("The caller limits the space by values, by hand and by conditions", "[tune]") {
  SpaceLimits limits;
  for (const ScheduleField &field : scheduleFields())
    limits.only[field.name] = {0};
  limits.only["BM"] = {64, 128}, limits.only["BN"] = {128}, limits.only["BK"] = {64}, limits.only["warps"] = {4, 8};
  Space four = productSpace(4096, limits);
  REQUIRE(four.size() == 4);

  limits = {};
  limits.fixed.set("BM", 128).set("BN", 256);
  limits.fixed.stages = 3;
  for (const Candidate &c : productSpace(4096, limits).candidates) {
    REQUIRE(c.config.get("BM") == 128);
    REQUIRE(c.config.stages == 3);
  }

  limits = {};
  limits.constraints = {{"BM * BN <= 16384", [](const Config &c) { return *c.get("BM") * *c.get("BN") <= 16384; }}};
  Space small = productSpace(4096, limits);
  for (const Candidate &c : small.candidates)
    REQUIRE(*c.config.get("BM") * *c.config.get("BN") <= 16384);
  REQUIRE(reasonOf(small, "BK=64 BM=128 BN=256") == "breaks the constraint BM * BN <= 16384");
}

TEST_CASE("An empty space says why, and how to fill it", "[tune]") {
  SpaceLimits limits;
  auto build = [&] { productSpace(1024, limits); };
  limits.constraints = {{"BM > 1000", [](const Config &c) { return *c.get("BM") > 1000; }}};
  REQUIRE(ruleOf(build) == "tune_empty");
  try {
    build();
  } catch (const UserError &e) {
    REQUIRE(e.message().find("meets the constraint BM > 1000") != std::string::npos);
    REQUIRE_FALSE(e.wayOut().empty());
  }
  limits.constraints = {{"BM >= 128", [](const Config &c) { return *c.get("BM") >= 128; }},
                        {"BM < 128", [](const Config &c) { return *c.get("BM") < 128; }}};
  REQUIRE(ruleOf(build) == "tune_contradiction");
  try {
    build();
  } catch (const UserError &e) {
    REQUIRE(e.message().find("BM >= 128, BM < 128 together") != std::string::npos);
  }
  limits.constraints = {{"asks for what is not there", [](const Config &c) { return c.get("NO").value() > 0; }}};
  REQUIRE(ruleOf(build) == "tune_constraint");
  limits.constraints.clear();
  limits.only = {{"BM", {100}}};
  REQUIRE(ruleOf(build) == "tune_only");
  limits.only = {{"BQ", {64}}};
  REQUIRE(ruleOf(build) == "tune_only");
  limits.only = {{"BM", {}}};
  REQUIRE(ruleOf(build) == "tune_only");
  // Nothing that the GPU can run.
  limits.only = {{"BM", {256}}, {"BN", {256}}, {"warps", {4}}};
  REQUIRE(ruleOf(build) == "tune_empty");
}

TEST_CASE("Of very many combinations those near the default are looked at, and that is said", "[tune]") {
  SpaceLimits limits;
  limits.mostTraces = 20;
  Space space = productSpace(4096, limits);
  REQUIRE(space.dropped.front().reason == "more than 1 numbers differ from the default: not looked at");
  for (const Candidate &c : space.candidates) {
    int changes = (c.config.get("BM") != 128) + (c.config.get("BN") != 256) + (c.config.get("BK") != 64);
    REQUIRE(changes <= 1);
  }
}

TEST_CASE("The model ranks products of an H200 as measured", "[tune]") {
  // Measured: 128x256x64 on two warpgroups about 750 to 800 TFLOP/s at 4096 and 8192 cubed, products of single warps
  // about 200, small tiles far less than large ones.
  const double best = predicted(4096, 128, 256, 64, 8);
  REQUIRE(teraflops(4096, best) > 650);
  REQUIRE(teraflops(4096, best) < 850);
  REQUIRE(teraflops(8192, predicted(8192, 128, 256, 64, 8)) > 650);
  REQUIRE(best < predicted(4096, 128, 128, 64));
  REQUIRE(predicted(4096, 128, 128, 64) < predicted(4096, 64, 64, 64));
  REQUIRE(predicted(4096, 64, 64, 32) > 1.7 * best);
  REQUIRE(predicted(4096, 16, 64, 64) > 4 * best); // no product of warpgroups
  // 1024 cubed: 32 tiles of 128x256 leave a hundred multiprocessors without work.
  REQUIRE(predicted(1024, 64, 128, 64) < predicted(1024, 128, 256, 64));
  REQUIRE(predicted(1024, 64, 64, 64) < predicted(1024, 256, 192, 64));
  // The first candidate of the space is among the known good ones.
  Candidate first = productSpace(4096).candidates.front();
  REQUIRE(*first.config.get("BM") * *first.config.get("BN") >= 128 * 192);
  // Nothing is quicker than the bound.
  auto args = product(4096, 4096, 4096);
  TracedWork t = traceWork(matmul.desc(), args, Config());
  REQUIRE(boundMicros(h200(), t.work) == Approx(2.0 * 4096 * 4096 * 4096 / 989e6));
  REQUIRE(boundMicros(h200(), t.work) < best);
}

TEST_CASE("The model knows operands that the TMA unit cannot read, and long rows", "[tune]") {
  Config config;
  auto odd = product(4095, 4097, 4099);
  Prediction without = predict(h200(), 132, traceWork(matmul.desc(), odd, config), config);
  Prediction with = predict(h200(), 132, traceWork(matmul.desc(), product(4096, 4096, 4096), config), config);
  REQUIRE(with.pipelined);
  REQUIRE_FALSE(without.pipelined);
  REQUIRE(without.micros > 1.5 * with.micros);

  // Memory-bound: near the time of the bytes, and one row per block is not slower than four of 16 KiB.
  auto args = softmaxLike.pack(matrix<const bf16>(16384, 8192), matrix<bf16>(16384, 8192));
  auto rows = [&](int count) {
    Config c;
    c.set("BR", count);
    return predict(h200(), 132, traceWork(softmaxLike.desc(), args, c), c);
  };
  const double bytes = 2.0 * 16384 * 8192 * 2 / 4800e3;
  REQUIRE(rows(1).micros < 1.8 * bytes);
  REQUIRE(rows(1).micros >= bytes);
  REQUIRE(rows(1).micros <= rows(4).micros);
  // On a GPU without tensor cores of these types, or with other limits, the row of the table decides.
  for (const Target &target : targets()) {
    Prediction p = predict(target, 0, traceWork(matmul.desc(), product(4096, 4096, 4096), config), config);
    REQUIRE(p.micros > 0);
    REQUIRE(p.micros < 1e6);
  }
}
