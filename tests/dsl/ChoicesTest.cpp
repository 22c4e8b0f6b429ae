// SPDX-License-Identifier: Apache-2.0
// Schedule choices set by hand where they cannot be had: what only says "wherever it can be done" leaves the code that the rule makes,
// what is a number that code cannot have is refused, with the label that docs/language.md has for it.
#include <sectile/sectile.h>

#include <catch2/catch.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

using namespace sectile;

namespace {

struct Choice {
  const char *name;
  int Config::*member;
};
/// "2: wherever it can be done", of kernels whose products run on warpgroups, and of all others.
constexpr Choice ofGroups[] = {{"async", &Config::async}, {"pingpong", &Config::pingpong}, {"multicast", &Config::multicast}, {"snake", &Config::snake},
                               {"streamk", &Config::streamk}, {"overlap", &Config::overlap}, {"keep", &Config::keep}};
constexpr Choice ofOthers[] = {{"persistent", &Config::persistent}, {"prefetch", &Config::prefetch}, {"evict", &Config::evict}};

constexpr auto add = kernel("add", [](Tensor<const f32, 2> X, Tensor<const f32, 2> Y, Tensor<f32, 2> Z) {
  auto [r] = grid(Z, {8});
  Z.store({r, 0}, X.load({r, 0}, {8, 64}) + Y.load({r, 0}, {8, 64}));
});
constexpr auto softmax = kernel("softmax", [](Tensor<const f32, 2> X, Tensor<const f32, 2>, Tensor<f32, 2> Z) {
  auto [r] = grid(Z, {1});
  Tile e = exp(X.load({r, 0}, {1, 1024}));
  Z.store({r, 0}, e / sum(e, 1));
});
template <int BN> constexpr auto product = kernel("product", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {128, BN});
  Tile acc = zeros<f32>({128, BN});
  for (Tile k : range(0, A.dim(1), 64))
    acc = mma(A.load({m, k}, {128, 64}), B.load({k, n}, {64, BN}), acc);
  C.store({m, n}, cast<bf16>(acc));
});
/// A loop that does more than accumulate.
constexpr auto decaying = kernel("decaying", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {128, 128});
  Tile acc = zeros<f32>({128, 128});
  for (Tile k : range(0, A.dim(1), 64))
    acc = mma(A.load({m, k}, {128, 64}), B.load({k, n}, {64, 128}), acc) * 0.5f;
  C.store({m, n}, cast<bf16>(acc));
});

/// A row of 65536 elements, sums down columns, rows that a loop loads and stores: what they are made into is chosen, they say nothing of it.
constexpr auto longRows = kernel("long_rows", [](Tensor<const f32, 2> X, Tensor<const f32, 2>, Tensor<f32, 2> Z) {
  auto [r] = grid(Z, {1});
  Tile x = X.load({r, 0}, {1, 65536});
  Z.store({r, 0}, x - max(x, 1));
});
constexpr auto columnSums = kernel("column_sums", [](Tensor<const f32, 2> X, Tensor<const f32, 2>, Tensor<f32, 2> Z) {
  auto [r, c] = grid(Z, {1, 128});
  Tile s = zeros<f32>({1, 128});
  for (Tile i : range(0, X.dim(0), 32))
    s += sum(X.load({i, c}, {32, 128}), 0);
  Z.store({0, c}, s);
});
constexpr auto manyRows = kernel("many_rows", [](Tensor<const f32, 2> X, Tensor<const f32, 2> Y, Tensor<f32, 2> Z) {
  auto [first] = grid(Z, {64});
  for (Tile r : range(0, 64)) {
    Tile x = X.load({first + r, 0}, {1, 1024});
    Z.store({first + r, 0}, x / sum(x, 1) * Y.load({0, 0}, {1, 1024}));
  }
});

struct Outcome {
  std::string ptx, rule, message;
};
template <class T, class K> Outcome outcome(const K &k, const char *arch, const Config &config) {
  const Tensor<const T, 2> in(nullptr, {1024, 1024});
  const Tensor<T, 2> out(nullptr, {1024, 1024});
  try {
    return {detail::emit(k.desc(), k.pack(in, in, out), &config, "ptx", arch, {}), {}, {}};
  } catch (const UserError &e) {
    CHECK((!e.loc().file.empty() && !e.wayOut().empty()));
    return {{}, e.rule(), e.message()};
  }
}
Config with(int Config::*member, int value) {
  Config config;
  config.*member = value;
  return config;
}
/// These choices, wherever they can be had, change nothing.
template <class T, class K> void checkLeftAlone(const K &k, const char *arch, const std::vector<Choice> &choices) {
  const Outcome rule = outcome<T>(k, arch, Config());
  REQUIRE_FALSE(rule.ptx.empty());
  for (const Choice &choice : choices) {
    INFO(choice.name << " of " << k.desc().name << " for " << arch);
    const Outcome asked = outcome<T>(k, arch, with(choice.member, 2));
    CHECK(asked.rule == "");
    CHECK(asked.ptx == rule.ptx);
  }
}
template <std::size_t N> std::vector<Choice> list(const Choice (&choices)[N]) { return {choices, choices + N}; }

} // namespace

TEST_CASE("Choices of products on warpgroups leave kernels and targets without them alone", "[dsl][choices]") {
  for (const char *arch : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    checkLeftAlone<f32>(add, arch, list(ofGroups));
    checkLeftAlone<f32>(softmax, arch, list(ofGroups));
  }
  for (const char *arch : {"sm_80", "sm_120a"})
    checkLeftAlone<bf16>(product<128>, arch, list(ofGroups));
}

TEST_CASE("Choices of kernels without pipelines leave those with pipelines alone", "[dsl][choices]") {
  checkLeftAlone<bf16>(product<128>, "sm_90a", {ofOthers[0], ofOthers[1]});
}

TEST_CASE("A choice of which the kernel lacks the part that it acts on leaves it alone", "[dsl][choices]") {
  checkLeftAlone<bf16>(product<256>, "sm_90a", {{"pingpong", &Config::pingpong}, {"overlap", &Config::overlap}, {"keep", &Config::keep}}); // sums for two warpgroups; one product
  checkLeftAlone<bf16>(decaying, "sm_90a", {{"snake", &Config::snake}, {"streamk", &Config::streamk}, {"split", &Config::split}});
  checkLeftAlone<f32>(add, "sm_90a", {{"raster", &Config::raster}, {"split", &Config::split}, {"repack", &Config::repack}});
  // They do act where there is something: else these comparisons would show nothing.
  const std::string rule = outcome<bf16>(product<128>, "sm_90a", Config()).ptx;
  for (const Choice &choice : {ofGroups[0], ofGroups[1], ofGroups[2], ofGroups[4], Choice{"blocks", &Config::blocks}}) {
    INFO(choice.name);
    const Outcome asked = outcome<bf16>(product<128>, "sm_90a", with(choice.member, 2));
    CHECK(asked.rule == "");
    CHECK(asked.ptx != rule);
  }
  CHECK(outcome<bf16>(product<128>, "sm_90a", with(&Config::snake, 1)).ptx != rule);
  CHECK(outcome<bf16>(product<128>, "sm_90a", with(&Config::raster, 2)).ptx != rule);
}

TEST_CASE("How kernels without products are laid out is chosen, by rule and by Config, and the source is one", "[dsl][choices]") {
  auto ptx = [](const auto &k, const Config &config) {
    const Outcome o = outcome<f32>(k, "sm_90a", config);
    INFO(o.message);
    REQUIRE(o.rule == "");
    return o.ptx;
  };
  auto has = [](const std::string &text, const char *what) { return text.find(what) != std::string::npos; };
  // Long rows: the blocks of a cluster by rule, one block by hand; a number of them by hand.
  CHECK(has(ptx(longRows, {}), ".reqnctapercluster"));
  CHECK_FALSE(has(ptx(longRows, with(&Config::cluster, 1)), ".reqnctapercluster"));
  CHECK(has(ptx(longRows, with(&Config::cluster, 8)), ".reqnctapercluster 8"));
  CHECK_FALSE(has(ptx(softmax, {}), ".reqnctapercluster"));
  // Sums over rows: blocks share them by rule, and meet through a counter in memory; by hand one block does all.
  CHECK(has(ptx(columnSums, {}), "atom."));
  CHECK_FALSE(has(ptx(columnSums, with(&Config::split, 1)), "atom."));
  // Warps of a block, blocks for several programs, loads ahead, hints: each by hand is other code than by rule.
  const std::string rows = ptx(manyRows, {});
  CHECK(has(ptx(manyRows, with(&Config::warps, 2)), ".reqntid 64"));
  CHECK(ptx(softmax, with(&Config::persistent, 2)) != ptx(softmax, {}));
  CHECK(ptx(softmax, with(&Config::persistent, 1)) == ptx(softmax, {})); // by rule never
  CHECK((ptx(manyRows, with(&Config::prefetch, 1)) != rows || ptx(manyRows, with(&Config::prefetch, 2)) != rows));
  CHECK_FALSE(has(rows, "createpolicy"));
  CHECK(has(ptx(manyRows, with(&Config::evict, 2)), "createpolicy"));
}

TEST_CASE("Numbers that no code for the target can have are refused, named", "[dsl][choices]") {
  auto refused = [](const Outcome &o, const std::string &rule, const std::string &part) {
    INFO(o.rule << ": " << o.message);
    CHECK(o.rule == rule);
    CHECK(o.message.find(part) != std::string::npos);
  };
  refused(outcome<bf16>(product<128>, "sm_80", with(&Config::stages, 3)), "config_stages", "3");
  refused(outcome<f32>(add, "sm_90a", with(&Config::stages, 3)), "config_stages", "3");
  refused(outcome<bf16>(product<128>, "sm_90a", with(&Config::stages, 65)), "config_stages", "65");
  refused(outcome<bf16>(product<128>, "sm_90a", with(&Config::cluster, 2)), "choose_cluster_c3", "cluster");
  refused(outcome<f32>(softmax, "sm_80", with(&Config::cluster, 2)), "choose_cluster_c2", "2");
  refused(outcome<f32>(add, "sm_90a", with(&Config::warps, 3)), "select_mma_c2", "3");
  refused(outcome<f32>(add, "sm_90a", with(&Config::blocks, 3)), "config_blocks", "3");
  for (const Choice &choice : ofGroups)
    refused(outcome<f32>(add, "sm_90a", with(choice.member, 3)), "config_choice", choice.name);
  for (const Choice &choice : ofOthers)
    refused(outcome<f32>(add, "sm_90a", with(choice.member, -1)), "config_choice", choice.name);
}
