// SPDX-License-Identifier: Apache-2.0
/// \file What the PTX of a product on warpgroups must contain: sums that stay in their registers from the first
/// instruction to the wait, roles that hand registers over, results that leave by the TMA unit.
#include <sectile/sectile.h>

#include <catch2/catch.hpp>

using namespace sectile;

namespace {

constexpr auto product = kernel("product", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {128, 256});
  Tile acc = zeros<f32>({128, 256});
  for (Tile k : range(0, A.dim(1), 64))
    acc = mma(A.load({m, k}, {128, 64}), B.load({n, k}, {256, 64}).t(), acc);
  C.store({m, n}, cast<bf16>(acc));
});
/// With a choice of the schedule, and tiles of 128 x N.
template <int N, auto choice> constexpr auto tiled = kernel("tiled", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C, Config &cfg) {
  choice(cfg);
  auto [m, n] = grid(C, {128, N});
  Tile acc = zeros<f32>({128, N});
  for (Tile k : range(0, A.dim(1), 64))
    acc = mma(A.load({m, k}, {128, 64}), B.load({n, k}, {N, 64}).t(), acc);
  C.store({m, n}, cast<bf16>(acc));
});
constexpr auto inTurns = [](Config &cfg) { cfg.pingpong = 2; };
constexpr auto shared = [](Config &cfg) { cfg.streamk = 2; };
constexpr auto inPairs = [](Config &cfg) { cfg.multicast = 2; };
constexpr auto byRule = [](Config &) {};
constexpr auto neverInTurns = [](Config &cfg) { cfg.pingpong = 1; };
template <Maximum maximum, auto choice = byRule, class T = bf16>
constexpr auto softmax = kernel("softmax", [](Tensor<const T, 2> Q, Tensor<const T, 2> K, Tensor<const T, 2> V,
                                              Tensor<bf16, 2> O, Config &cfg) {
  choice(cfg);
  auto [i] = grid(Q, {128});
  Tile q = Q.load({i, 0}, {128, 64}), o = zeros<f32>({128, 64});
  OnlineSoftmax st(128, 0.125f, maximum);
  for (Tile j : range(0, K.dim(0), 128)) {
    Tile p = st.update(mma(q, K.load({j, 0}, {128, 64}).t()), o);
    o = mma(cast<T>(p), V.load({j, 0}, {128, 64}), o);
  }
  O.store({i, 0}, cast<bf16>(st.finish(o)));
});
/// Heads of queries, each with keys of its own.
constexpr auto heads = kernel("heads", [](Tensor<const bf16, 3> Q, Tensor<const bf16, 3> K, Tensor<f32, 3> O, Config &cfg) {
  cfg.split = 1;
  auto [h, i] = grid(Q, {1, 128});
  Tile q = Q.load({h, i, 0}, {1, 128, 64}).drop(0), all = zeros<f32>({128, 1});
  for (Tile j : range(0, K.dim(1), 128))
    all = max(all, max(mma(q, K.load({h, j, 0}, {1, 128, 64}).drop(0).t()), 1));
  O.store({h, i, 0}, reshape(all, {1, 128, 1}));
});
constexpr auto distance = kernel("distance", [](Tensor<f32, 2> O) {
  auto [i, j] = grid(O, {32, 32});
  O.store({i, j}, cast<f32>(j + iota(1, 32) - (i + iota(32, 1))));
});
int count(const std::string &text, std::string_view what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

template <class T> Tensor<T, 2> matrix(std::int64_t rows, std::int64_t columns) { return {nullptr, {rows, columns}}; }
template <class K> std::string ptxOf(const K &k) {
  return k.emit("ptx", "sm_90a", matrix<const bf16>(4096, 4096), matrix<const bf16>(4096, 4096), matrix<bf16>(4096, 4096));
}

} // namespace

TEST_CASE("The PTX of a product on warpgroups", "[codegen][products]") {
  const std::string ptx =
      product.emit("ptx", "sm_90a", matrix<const bf16>(4096, 4096), matrix<const bf16>(4096, 4096), matrix<bf16>(4096, 4096));
  INFO(ptx);
  // 4 steps of 16 along K, each one instruction over 64 x 256 of a warpgroup's rows.
  CHECK(count(ptx, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16") == 4);
  CHECK(count(ptx, "wgmma.wait_group.sync.aligned 1;") == 1);
  CHECK(count(ptx, "wgmma.wait_group.sync.aligned 0;") == 1);
  // The 128 sums of a thread are moved nowhere between the first instruction and the wait in the loop.
  const std::size_t first = ptx.find("wgmma.mma_async"), wait = ptx.find("wgmma.wait_group.sync.aligned 1;");
  REQUIRE(first < wait);
  CHECK(count(ptx.substr(first, wait - first), "\tmov.") == 0);
  CHECK(count(ptx, "setmaxnreg.dec.sync.aligned.u32 24;") == 1);
  CHECK(count(ptx, "setmaxnreg.inc.sync.aligned.u32 240;") == 1);
  // 16 rows of 256 columns per warp, in strips of 64 columns.
  CHECK(count(ptx, "stmatrix.sync.aligned.m8n8.x4.shared.b16") == 16);
  CHECK(count(ptx, "cp.async.bulk.tensor.2d.global.shared::cta") == 4);
  CHECK(count(ptx, "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes") == 2);
  CHECK(count(ptx, "st.global") == 0);
  // Results that nobody reads again leave the L2 cache first, if they are larger than half of it.
  CHECK(count(ptx, "bulk_group.L2::cache_hint") == 4);
  CHECK(count(ptx, "createpolicy.fractional.L2::evict_first.b64") == 2); // two strips at a time
}

TEST_CASE("The PTX of a product on warpgroups that take turns", "[codegen][products]") {
  const std::string ptx = ptxOf(tiled<128, inTurns>);
  INFO(ptx);
  CHECK(count(ptx, ".reqntid 384") == 1); // two groups of consumers, one of producers
  CHECK(count(ptx, "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16") == 8);
  CHECK(count(ptx, "setmaxnreg.inc.sync.aligned.u32 240;") == 1);
  // A turn begins before the loop and ends behind it; the second group lets the first begin.
  const std::size_t loop = ptx.find("wgmma.mma_async"), take = ptx.find("@P bar.sync 8, 256"), pass = ptx.rfind("bar.arrive");
  CHECK(count(ptx, "@P bar.arrive 9") == 2); // one or the other, by the group
  CHECK(count(ptx, "@!P bar.arrive 8") == 2);
  CHECK(take < loop);
  CHECK(loop < pass);
  CHECK(ptx.find("wgmma.wait_group.sync.aligned 0;") > loop);
  // A tile that is too large for the registers of one warpgroup stays with two.
  CHECK(count(ptxOf(tiled<256, inTurns>), "bar.arrive") == 0);
}

TEST_CASE("The PTX of a product whose last programs all blocks share", "[codegen][products]") {
  const std::string ptx = ptxOf(tiled<256, shared>);
  INFO(ptx);
  CHECK(count(ptx, "atom.acq_rel.gpu.global.inc.u32") == 1);
  CHECK(count(ptx, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16") == 4);
  CHECK(count(ptx, "cp.async.bulk.tensor.2d.global.shared::cta") == 4);
}

TEST_CASE("The PTX of a product whose blocks load in pairs", "[codegen][products]") {
  const std::string ptx = ptxOf(tiled<256, inPairs>);
  INFO(ptx);
  CHECK(count(ptx, ".reqnctapercluster 2") == 1);
  // A by each block, half of B by either for both.
  CHECK(count(ptx, "complete_tx::bytes.multicast::cluster [") == 1);
  CHECK(count(ptx, "complete_tx::bytes [") == 1);
  // Slots are released to both blocks, in the loop and behind it. No arrival has a release at the cluster's scope, which would flush memory.
  CHECK(count(ptx, "mapa.shared::cluster.u32") == 1);
  CHECK(count(ptx, "mbarrier.arrive.shared::cluster.b64 _") == 2);
  CHECK(count(ptx, "release.cluster") == 1); // of the barriers' initial values
  CHECK(count(ptx, "fence.mbarrier_init.release.cluster;") == 1);
  CHECK(count(ptx, "barrier.cluster.arrive.relaxed.aligned") == 1);
  CHECK(count(ptx, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16") == 4);
  // By rule there are no pairs here.
  CHECK(count(ptxOf(tiled<256, [](Config &) {}>), "multicast") == 0);
}

TEST_CASE("The PTX of two products with a softmax between them", "[codegen][products]") {
  auto emit = [](const auto &kernel) {
    return kernel.emit("ptx", "sm_90a", matrix<const bf16>(2048, 64), matrix<const bf16>(2048, 64), matrix<const bf16>(2048, 64),
                       matrix<bf16>(2048, 64));
  };
  const std::string exact = emit(softmax<Maximum::exact>), stale = emit(softmax<Maximum::stale>);
  for (const std::string &ptx : {exact, stale}) {
    INFO(ptx);
    // Two loops, of whole blocks and of the last one: scores are waited for while the product with V goes on.
    CHECK(count(ptx, "wgmma.wait_group.sync.aligned 1;") == 2);
    // 4 steps of Q K^T that start at zero, then 8 of P V behind a fence of their own; no sum or weight is moved on the way.
    const std::size_t wait = ptx.find("wgmma.wait_group.sync.aligned 1;"),
                      first = ptx.rfind("setp.ne.b32 p, 0, 0; wgmma.mma_async", wait);
    REQUIRE(first < wait);
    const std::string between = ptx.substr(first, wait - first);
    CHECK(count(between, "wgmma.mma_async") == 12);
    CHECK(count(between, "wgmma.fence") == 1);
    CHECK(count(between, "\tmov.") == 0);
    // Half of the weights or all are there before the loops wait for the product with V: an arrival that never happens needs their sum.
    const std::string_view never = "@P mbarrier.arrive.shared::cta.b64 _, [";
    for (std::size_t wait = ptx.find("wgmma.wait_group.sync.aligned 1;"); wait != std::string::npos;
         wait = ptx.find("wgmma.wait_group.sync.aligned 1;", wait + 1)) {
      const std::size_t end = ptx.find("wgmma.wait_group.sync.aligned 0;", wait), gate = ptx.rfind(never, end);
      REQUIRE(end != std::string::npos);
      CHECK(gate > wait);
      CHECK(gate > ptx.rfind("ex2.approx", end));
    }
    CHECK(count(ptx, "%ctaid.z;") == 1);
    // Weights go from the scores' registers into the product, results leave by the TMA unit.
    CHECK(count(ptx, "st.shared") == 0);
    CHECK(count(ptx, "st.global") == 0);
    CHECK(count(ptx, "cp.async.bulk.tensor.2d.global") == 1);
  }
  // Each loop asks its warp whether a weight has become too large.
  CHECK(count(stale, "vote.sync.any") == count(exact, "vote.sync.any") + 2);
}

TEST_CASE("The PTX of warpgroups that share a program and take turns", "[codegen][products]") {
  auto emit = [](const auto &kernel, std::int64_t d) {
    return kernel.emit("ptx", "sm_90a", matrix<const bf16>(2048, d), matrix<const bf16>(2048, d), matrix<const bf16>(2048, d), matrix<bf16>(2048, d));
  };
  const std::string ptx = emit(softmax<Maximum::stale>, 64);
  INFO(ptx);
  // In both loops a turn begins before the first product and ends behind the last one; the second warpgroup lets the first begin.
  CHECK(count(ptx, "@P bar.arrive 9, 256; @!P bar.arrive 8, 256;") == 3);
  const std::size_t wait = ptx.find("wgmma.wait_group.sync.aligned 1;"), pass = ptx.rfind("bar.arrive", wait), last = ptx.rfind("wgmma.mma_async", wait),
                    first = ptx.rfind("setp.ne.b32 p, 0, 0; wgmma.mma_async", wait), take = ptx.rfind("@P bar.sync 8, 256; @!P bar.sync 9, 256;", wait);
  REQUIRE(wait != std::string::npos);
  CHECK(take < first);
  CHECK(last < pass);
  CHECK(count(ptx.substr(take, wait - take), "wgmma.mma_async") == 12);
  CHECK(count(emit(softmax<Maximum::stale, neverInTurns>, 64), "bar.arrive") == 0);
  // Both warpgroups meet where 8-bit operands are transposed: in a turn they would wait for each other for ever.
  auto bytesOf = [] { return matrix<const e5m2>(2048, 64); };
  const std::string bytes = softmax<Maximum::exact, inTurns, e5m2>.emit("ptx", "sm_90a", bytesOf(), bytesOf(), bytesOf(), matrix<bf16>(2048, 64));
  CHECK(count(bytes, "bar.sync \t1, 256;") > 0);
  CHECK(count(bytes, "bar.arrive") == 0);
}

TEST_CASE("Programs of one head come one after the other, those of a product in groups", "[codegen][products]") {
  const std::array<std::int64_t, 3> dims{16, 2048, 64};
  CHECK(count(heads.emit("tgpu", "sm_90a", Tensor<const bf16, 3>(nullptr, dims), Tensor<const bf16, 3>(nullptr, dims),
                         Tensor<f32, 3>(nullptr, {16, 2048, 1})),
              "[1, 128] group 1 ") == 2);
  CHECK(count(product.emit("tgpu", "sm_90a", matrix<const bf16>(4096, 4096), matrix<const bf16>(4096, 4096), matrix<bf16>(4096, 4096)),
              "[128, 256] group 16 ") == 2);
}

TEST_CASE("Distances of places in small tensors are numbers of 32 bits", "[codegen]") {
  const std::string ptx = distance.emit("ptx", "sm_90a", matrix<f32>(4096, 4096));
  INFO(ptx);
  CHECK(count(ptx, "cvt.rn.f32.s32") > 0);
  CHECK(count(ptx, "cvt.rn.f32.s64") == 0);
}
