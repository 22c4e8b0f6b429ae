// SPDX-License-Identifier: Apache-2.0
/// \file P05, P07: attention over views, and where queries have no keys.
#include "tests/cases/Cases.h"

#include "samples/07_attention/variants.h"

using namespace cases;
using sample::Align, sample::attention, sample::packedAttention, sample::Variant;

namespace {

/// Scores are 0, so that a result is the mean of the values that a query sees.
struct Zeros {
  Guarded<f16> memory;
  Zeros(Run &run, std::int64_t count) : memory(run, std::vector<f16>(std::size_t(count), f16(0.0f))) {}
  Tensor<const f16, 4> view(std::int64_t H, std::int64_t S) { return {memory.data(), {1, H, S, 16}}; }
};

std::vector<f32> repeated(const std::vector<f32> &perRow, std::int64_t times) {
  std::vector<f32> all;
  for (f32 x : perRow)
    all.insert(all.end(), std::size_t(times), x);
  return all;
}

/// 16 keys, 2 heads, 16 elements; the result of every query of head h in element d is want(h, d).
template <class F> void means(Run &run, const Tensor<const f16, 4> &V, F want) {
  Zeros zeros(run, 512);
  Guarded<f32> o(run, 2 * 16 * 16), lse(run, 32);
  run.sweepPipelines(
      {&o, &lse},
      [&](const Config &c) {
        attention<f16, Variant{}, Align::start, f32>.with(c)(run.stream(), zeros.view(2, 16),
                                                             zeros.view(2, 16), V, o.view(1, 2, 16, 16),
                                                             lse.view(1, 2, 16), 0.25f);
      },
      [&] {
        run.same(o.get(), make<f32>(512, [&](auto i) { return want(i / 256, i % 16); }), "O");
        run.same(lse.get(), std::vector<f32>(32, lse.get()[0]), "Lse of every query");
        run.check(std::abs(lse.get()[0] - std::log(16.0f)) < 1e-5f, fmt::format("Lse: {}", lse.get()[0]));
      });
}

/// Values 1, 2, .. of keys, in all elements.
Guarded<f16> counted(Run &run, std::int64_t keys) {
  return Guarded<f16>(run, make<f16>(keys * 16, [](auto i) { return i / 16 + 1; }));
}

/// A head of `queries` against `keys` keys whose values are 1, 2, ..: results and log-sum-exps of the
/// queries.
template <auto variant, Align align, class... Extra>
void emptyRows(Run &run, std::int64_t queries, std::int64_t keys, const std::vector<f32> &want,
               const std::vector<f32> &wantLse, const Extra &...extra) {
  Zeros q(run, queries * 16), k(run, keys * 16);
  Guarded<f16> v = counted(run, keys);
  Guarded<f32> o(run, queries * 16), lse(run, queries);
  for (int stale : {0, 1})
    run.sweepPipelines(
        {&o, &lse},
        [&](const Config &c) {
          attention<f16, variant, align, f32>.with(Config(c).set("stale", stale))(
              run.stream(), q.view(1, queries), k.view(1, keys), v.view(1, 1, keys, 16),
              o.view(1, 1, queries, 16), lse.view(1, 1, queries), 1.0f, extra...);
        },
        [&] {
          const std::vector<f32> got = o.get(), l = lse.get(), all = repeated(want, 16);
          run.check(got.size() == all.size(), "as many results as queries have elements");
          for (std::size_t i = 0; i < all.size(); ++i)
            run.check(std::abs(got[i] - all[i]) <= 1e-6f * all[i],
                      fmt::format("O[{}]: {}/{}", i, got[i], all[i]));
          for (std::size_t i = 0; i < l.size(); ++i)
            run.check(l[i] == wantLse[i] || std::abs(l[i] - wantLse[i]) <= 1e-6f,
                      fmt::format("Lse[{}]: {}/{}", i, l[i], wantLse[i]));
        });
}

/// Sequences of such keys one after the other, some without keys, some without queries.
template <auto variant, Align align> void packed(Run &run, const std::vector<std::pair<int, int>> &lengths) {
  std::vector<i32> queryStarts{0}, keyStarts{0};
  int longest = 1;
  for (auto [queries, keys] : lengths) {
    queryStarts.push_back(queryStarts.back() + queries);
    keyStarts.push_back(keyStarts.back() + keys);
    longest = std::max(longest, queries);
  }
  const std::int64_t B = std::int64_t(lengths.size()), Q = queryStarts.back(), K = keyStarts.back();
  Zeros q(run, Q * 16), k(run, K * 16);
  Guarded<f16> v = counted(run, K);
  Guarded<f32> o(run, Q * 16), lse(run, B * longest);
  Guarded<i32> starts(run, queryStarts), others(run, keyStarts);
  run.sweepPipelines(
      {&o, &lse},
      [&](const Config &c) {
        packedAttention<f16, variant, align, f32>.with(c)(
            run.stream(), q.view(1, Q), k.view(1, K), v.view(1, 1, K, 16), o.view(1, 1, Q, 16),
            lse.view(B, 1, longest), starts.view(B + 1), others.view(B + 1), 1.0f);
      },
      [&] {
        const std::vector<f32> got = o.get(), l = lse.get();
        constexpr bool isCausal = !sample::isDefault(variant.mask, sample::noMask);
        for (std::int64_t b = 0; b < B; ++b)
          for (int i = 0; i < longest; ++i) {
            const auto [queries, keys] = lengths[std::size_t(b)];
            const f32 gotLse = l[std::size_t(b * longest + i)];
            if (i >= queries) {
              run.check(std::isnan(gotLse), fmt::format("Lse behind the end of sequence {}: {}", b, gotLse));
              continue;
            }
            const int seen =
                std::clamp(isCausal ? i + 1 + (align == Align::end ? keys - queries : 0) : keys, 0, keys);
            const f32 mean = seen ? f32(keyStarts[std::size_t(b)]) + f32(seen + 1) / 2 : 0;
            const f32 value = got[std::size_t(queryStarts[std::size_t(b)] + i) * 16 + 5];
            run.check(std::abs(value - mean) <= 1e-6f * mean,
                      fmt::format("O of {} {}: {}/{}", b, i, value, mean));
            const f32 want = std::log(f32(seen));
            run.check(gotLse == want || std::abs(gotLse - want) <= 1e-5f,
                      fmt::format("Lse of {} {}: {}/{}", b, i, gotLse, want));
          }
      });
}

} // namespace

// P05: strides of every kind.
SECTILE_CASE("P05a/attention") { // (key, head, d) in memory
  Guarded<f16> v(run, make<f16>(512, [](auto i) { return i; }));
  means(run, {v.data(), {1, 2, 16, 16}, {512, 16, 32, 1}}, [](auto h, auto d) { return 240 + 16 * h + d; });
}
SECTILE_CASE("P05a/d_before_key") { // (head, d, key)
  Guarded<f16> v(run, make<f16>(512, [](auto i) { return i; }));
  means(run, {v.data(), {1, 2, 16, 16}, {512, 256, 1, 16}},
        [](auto h, auto d) { return 256 * h + 16 * d + 7.5; });
}
SECTILE_CASE("P05a/backwards") { // keys and elements from last to first
  Guarded<f16> v(run, make<f16>(512, [](auto i) { return i; }));
  means(run, {v.data() + 511, {1, 2, 16, 16}, {512, -256, -16, -1}},
        [](auto h, auto d) { return 511 - 256 * h - 120 - d; });
}
SECTILE_CASE("P05a/one_value_for_all_keys") {
  Guarded<f16> v(run, make<f16>(32, [](auto i) { return i + 1; }));
  means(run, {v.data(), {1, 2, 16, 16}, {0, 16, 0, 1}}, [](auto h, auto d) { return 16 * h + d + 1; });
}
SECTILE_CASE("P05a/result_across") { // O is (d, query, head) in memory
  Zeros zeros(run, 512);
  Guarded<f16> v(run, make<f16>(512, [](auto i) { return i; }));
  Guarded<f32> o(run, 512), lse(run, 32);
  run.sweepPipelines(
      {&o, &lse},
      [&](const Config &c) {
        attention<f16, Variant{}, Align::start, f32>.with(c)(
            run.stream(), zeros.view(2, 16), zeros.view(2, 16),
            Tensor<const f16, 4>(v.data(), {1, 2, 16, 16}),
            Tensor<f32, 4>(o.data(), {1, 2, 16, 16}, {512, 1, 2, 32}), lse.view(1, 2, 16), 1.0f);
      },
      [&] { run.same(o.get(), make<f32>(512, [](auto i) { return 256 * (i % 2) + 120 + i / 32; }), "O"); });
}
SECTILE_CASE("P05b/attention") { // one head of keys shown twice, and the same data copied out
  const auto wave = [](double f) { return [f](auto i) { return std::sin(f * double(i)); }; };
  Guarded<bf16> q(run, make<bf16>(2 * 70 * 32, wave(0.37))), k(run, make<bf16>(90 * 32, wave(0.11))),
      v(run, make<bf16>(90 * 32, wave(0.23))),
      k2(run, make<bf16>(2 * 90 * 32, [&](auto i) { return wave(0.11)(i % (90 * 32)); })),
      v2(run, make<bf16>(2 * 90 * 32, [&](auto i) { return wave(0.23)(i % (90 * 32)); }));
  Guarded<bf16> a(run, 2 * 70 * 32), b(run, 2 * 70 * 32);
  Guarded<f32> la(run, 140), lb(run, 140);
  run.sweepPipelines(
      {&a, &b, &la, &lb},
      [&](const Config &c) {
        const auto kernel = attention<bf16, sample::causal>.with(c);
        kernel(run.stream(), q.view(1, 2, 70, 32),
               Tensor<const bf16, 4>(k.data(), {1, 2, 90, 32}, {0, 0, 32, 1}),
               Tensor<const bf16, 4>(v.data(), {1, 2, 90, 32}, {0, 0, 32, 1}), a.view(1, 2, 70, 32),
               la.view(1, 2, 70), 0.5f);
        kernel(run.stream(), q.view(1, 2, 70, 32), k2.view(1, 2, 90, 32), v2.view(1, 2, 90, 32),
               b.view(1, 2, 70, 32), lb.view(1, 2, 70), 0.5f);
      },
      [&] {
        run.same(a.get(), b.get(), "stride 0");
        run.same(la.get(), lb.get(), "stride 0, Lse");
        run.check(std::isfinite(la.get()[139]), "Lse is a number");
      });
}

// P07: queries without keys.
SECTILE_CASE("P07a") {
  emptyRows<sample::causal, Align::end>(run, 5, 3, {0, 0, 1, 1.5, 2}, {-inf, -inf, 0, 0.693147f, 1.098612f});
}
SECTILE_CASE("P07a/start") {
  emptyRows<sample::causal, Align::start>(run, 3, 5, {1, 1.5, 2}, {0, 0.693147f, 1.098612f});
}
SECTILE_CASE("P07a/window") { // the last queries are too far behind the last key
  emptyRows<sample::window<2>, Align::start>(run, 6, 3, {1, 1.5, 2.5, 3, 0, 0},
                                             {0, 0.693147f, 0.693147f, 0, -inf, -inf});
}
SECTILE_CASE("P07a/sink") { // a sink is a key of a value of 0
  Guarded<f32> sink(run, std::vector<f32>{0.0f});
  emptyRows<sample::sinks, Align::end>(run, 4, 2, {0, 0, 0.5, 1}, {0, 0, 0.693147f, 1.098612f}, sink.view(1));
}
SECTILE_CASE("P07a/blocks") { // no block, one block
  Guarded<i32> counts(run, std::vector<i32>{0, 1}), lists(run, std::vector<i32>{-1, 0});
  std::vector<f32> want, wantLse;
  for (int i = 0; i < 20; ++i) {
    want.push_back(i < 16 ? 0 : 8.5f);
    wantLse.push_back(i < 16 ? -inf : std::log(16.0f));
  }
  Zeros q(run, 20 * 16), k(run, 16 * 16);
  Guarded<f16> v = counted(run, 16);
  Guarded<f32> o(run, 20 * 16), lse(run, 20);
  run.byDefault(
      {&o, &lse},
      [&](const Config &c) {
        attention<f16, sample::blockMask<16>, Align::start, f32>.with(Config(c).set("BM", 16).set("BN", 16))(
            run.stream(), q.view(1, 20), k.view(1, 16), v.view(1, 1, 16, 16), o.view(1, 1, 20, 16),
            lse.view(1, 1, 20), 1.0f, counts.view(2), lists.view(2, 1));
      },
      [&] {
        run.same(o.get(), repeated(want, 16), "O");
        for (std::size_t i = 0; i < wantLse.size(); ++i)
          run.check(lse.get()[i] == wantLse[i] || std::abs(lse.get()[i] - wantLse[i]) < 1e-6f,
                    fmt::format("Lse[{}]: {}", i, lse.get()[i]));
      });
}
SECTILE_CASE("P07b/causal") {
  emptyRows<sample::causal, Align::end>(run, 4, 0, {0, 0, 0, 0}, {-inf, -inf, -inf, -inf});
}
SECTILE_CASE("P07b/full") {
  emptyRows<Variant{}, Align::start>(run, 4, 0, {0, 0, 0, 0}, {-inf, -inf, -inf, -inf});
}
SECTILE_CASE("P07b/no_queries") { // a grid of nothing, before and after
  emptyRows<sample::causal, Align::start>(run, 2, 2, {1, 1.5}, {0, 0.693147f});
  emptyRows<sample::causal, Align::start>(run, 0, 3, {}, {});
  emptyRows<sample::causal, Align::start>(run, 2, 2, {1, 1.5}, {0, 0.693147f});
}
SECTILE_CASE("P07b/between/causal") {
  packed<sample::causal, Align::end>(run, {{3, 3}, {4, 0}, {2, 5}, {0, 7}, {5, 3}});
}
SECTILE_CASE("P07b/between/full") {
  packed<Variant{}, Align::start>(run, {{3, 4}, {4, 0}, {1, 200}, {0, 0}, {140, 1}});
}

SECTILE_CASE("attention/dims") {
  using Dims = std::array<std::int64_t, 4>;
  const Dims q{2, 6, 10, 96}, k{2, 3, 20, 96}, v{2, 3, 20, 64};
  const Config fitted = sample::attentionConfig(q, k, v);
  run.check(fitted.get("D") == 96 && !fitted.get("DV"),
            "a tile of 96, where the bucket is 128: " + fitted.str());
  run.check(sample::attentionConfig({1, 1, 1, 75}, {1, 1, 1, 75}, {1, 1, 1, 200}).str() == "D=80 DV=208",
            "75 and 200");
  auto refused = [&](const Dims &a, const Dims &b, const Dims &c, const std::string &what) {
    run.refused([&] { sample::attentionConfig(a, b, c); }, {what, "attention_shape", "AttentionCases.cpp:"},
                what);
  };
  refused(q, {3, 3, 20, 96}, v, "batches of Q and K are 2 and 3");
  refused(q, k, {1, 3, 20, 64}, "batches of K and V are 2 and 1");
  refused(q, k, {2, 6, 20, 64}, "heads of K and V are 3 and 6");
  refused(q, k, {2, 3, 19, 64}, "lengths of K and V are 20 and 19");
  refused(q, {2, 3, 20, 64}, v, "d of Q and K are 96 and 64");
  refused(q, {2, 4, 20, 96}, {2, 4, 20, 64}, "6 heads of Q share 4 heads of K");
  refused(q, {2, 0, 20, 96}, {2, 0, 20, 64}, "6 heads of Q share 0 heads of K");

  // Heads of 80 with a tile of 80.
  const auto wave = [](double f) { return [f](auto i) { return std::sin(f * double(i)); }; };
  Guarded<bf16> Q(run, make<bf16>(40 * 80, wave(0.37))), K(run, make<bf16>(50 * 80, wave(0.11))),
      V(run, make<bf16>(50 * 80, wave(0.23))), a(run, 40 * 80), b(run, 40 * 80);
  Guarded<f32> la(run, 40), lb(run, 40);
  const auto qv = Q.view(1, 1, 40, 80), kv = K.view(1, 1, 50, 80), vv = V.view(1, 1, 50, 80);
  const Config narrow = sample::attentionConfig(qv.dims(), kv.dims(), vv.dims());
  run.check(narrow.str() == "D=80 DV=80", narrow.str());
  attention<bf16, sample::causal>.with(narrow)(run.stream(), qv, kv, vv, a.view(1, 1, 40, 80),
                                               la.view(1, 1, 40), 0.5f);
  attention<bf16, sample::causal>(run.stream(), qv, kv, vv, b.view(1, 1, 40, 80), lb.view(1, 1, 40), 0.5f);
  run.stream().synchronize();
  const std::vector<bf16> x = a.get(), y = b.get();
  for (std::size_t i = 0; i < x.size(); ++i)
    run.check(std::abs(float(x[i]) - float(y[i])) <= 0.02f, fmt::format("O[{}]", i));
}
