// SPDX-License-Identifier: Apache-2.0
// 15 paged decode: attention of one new query per sequence over a cache of keys and values in pages. The
// idea: heads that share keys are rows of one product, several blocks share the keys of a sequence, and a
// page is found through a table inside the loop. 8-bit caches get their factors where they are used.
#include "samples/07_attention/reference.h"
#include "samples/common/Sample.h"

// 1. Kernels: `decode_shares` and `decode_join`
#include "samples/15_paged_decode/kernels.h"

using namespace sectile;

namespace {

// 2. Shapes: B sequences with different numbers of keys, HK heads of keys for G heads of queries each
struct Shape {
  std::int64_t B, HK, G, d, longest, shares;
};

/// Numbers of a cache and the factor that belongs to them.
template <class C> std::vector<C> numbers(std::int64_t count, unsigned seed) {
  std::vector<C> v;
  for (float x : sample::normal<float>(count, seed))
    v.push_back(C(std::is_integral_v<C> ? std::clamp(std::round(x * 40), -127.0f, 127.0f) : x));
  return v;
}
template <class C> constexpr float factorOf = std::is_integral_v<C> ? 1.0f / 40 : 1.0f;

template <class T> Buffer<T> upload(const Stream &stream, const std::vector<T> &host) {
  Buffer<T> there(stream, static_cast<std::int64_t>(host.size()));
  there.copyFrom(host);
  return there;
}

/// A job with pages of P keys, head by head or (`isByToken`) position by position.
template <class C, sample::Find find>
sample::Job job(const sample::Options &options, const char *name, std::int64_t P, bool isByToken) {
  using T = bf16;
  const Shape s = options.small ? Shape{2, 2, 4, 64, 200, 2} : Shape{64, 8, 4, 128, 8192, 4};
  const std::int64_t perSequence = (s.longest + P - 1) / P, pages = s.B * perSequence;
  const auto [SQ, columns] = sample::rowsOf(1, static_cast<int>(s.G));
  const std::int64_t rows = SQ * columns, H = s.HK * s.G;
  const std::array<std::int64_t, 4> dims{pages, s.HK, P, s.d},
      strides = isByToken ? std::array<std::int64_t, 4>{P * s.HK * s.d, s.d, s.HK * s.d, 1}
                          : std::array<std::int64_t, 4>{P * s.HK * s.d, P * s.d, s.d, 1};
  const std::array<std::int64_t, 5> queries{s.B, s.HK, 1, s.G, s.d};
  const float scale = 1 / std::sqrt(static_cast<float>(s.d));
  auto views = [=](const T *Q, const C *K, const C *V, const i32 *table, const i32 *lengths,
                   const f32 *factor, f32 *parts, f32 *partLse, auto use) {
    // One factor for all, shown as one per key.
    const Tensor<const f32, 3> factors(factor, {pages, s.HK, P}, {0, 0, 0});
    return use(Tensor<const T, 5>(Q, queries), Tensor<const C, 4>(K, dims, strides),
               Tensor<const C, 4>(V, dims, strides), Tensor<const i32, 2>(table, {s.B, perSequence}),
               Tensor<const i32, 1>(lengths, {s.B}), factors, factors,
               Tensor<f32, 5>(parts, {s.B, s.HK, s.shares, rows, s.d}),
               Tensor<f32, 4>(partLse, {s.B, s.HK, s.shares, rows}), scale, 1, static_cast<i32>(s.G));
  };
  auto text = [=, &options] {
    return views(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, [&](auto... x) {
      return sample::decodeShares<T, C, find>.emit(options.emit, options.arch, x...);
    });
  };
  auto run = [=, &options] {
    Stream stream = sample::device(options).stream();
    std::vector<i32> order(static_cast<std::size_t>(pages)), lengths;
    for (std::int64_t i = 0; i < pages; ++i)
      order[static_cast<std::size_t>(i)] = static_cast<i32>(i);
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    std::int64_t keys = 0;
    for (std::int64_t b = 0; b < s.B; ++b) {
      lengths.push_back(static_cast<i32>(s.longest - b * s.longest / (2 * s.B)));
      keys += lengths.back();
    }
    const std::vector<T> q = sample::normal<T>(s.B * H * s.d, 1);
    const std::vector<C> k = numbers<C>(pages * s.HK * P * s.d, 2), v = numbers<C>(pages * s.HK * P * s.d, 3);
    Buffer<T> Q = upload(stream, q);
    Buffer<C> K = upload(stream, k), V = upload(stream, v);
    Buffer<i32> table = upload(stream, order), filled = upload(stream, lengths);
    Buffer<f32> factor = upload(stream, std::vector<f32>{factorOf<C>}),
                parts(stream, s.B, s.HK, s.shares, rows, s.d), partLse(stream, s.B, s.HK, s.shares, rows),
                Lse(stream, s.B, s.HK, 1, s.G);
    Buffer<T> O(stream, s.B, s.HK, 1, s.G, s.d);
    O.fillBytes(0xFF);
    auto share =
        views(Q.data(), K.data(), V.data(), table.data(), filled.data(), factor.data(), parts.data(),
              partLse.data(), [](auto... x) { return sample::decodeShares<T, C, find>.prepare(x...); });
    auto join = sample::decodeJoin<T>.prepare(parts, partLse, O, Lse, static_cast<i32>(columns));
    auto call = [&] {
      share(stream);
      join(stream);
    };
    call();
    const std::vector<T> o = O.toHost();
    const std::vector<f32> lse = Lse.toHost();

    // 3. Host reference in double on some sequences (all when small), 4. compare
    sample::Comparison compare;
    for (std::int64_t row = 0; row < s.B * H; row += options.small ? 1 : 97) {
      const std::int64_t b = row / H, h = row % H, hk = h / s.G;
      auto at = [&](std::int64_t j, std::int64_t x) {
        const std::int64_t page = order[static_cast<std::size_t>(b * perSequence + j / P)];
        return page * strides[0] + hk * strides[1] + j % P * strides[2] + x;
      };
      auto same = [](double x, auto) { return x; };
      auto whole = [](auto) { return 1.0; };
      const sample::HostVariant<decltype(same), decltype(whole)> variant{same, whole, sample::rounding<T>};
      const sample::AttentionRow want = sample::attentionRow(
          lengths[static_cast<std::size_t>(b)], s.d, s.d, scale,
          [&](auto x) { return double(q[row * s.d + x]); },
          [&](auto j, auto x) { return double(k[at(j, x)]) * double(factorOf<C>); },
          [&](auto j, auto x) { return double(v[at(j, x)]) * double(factorOf<C>); }, variant);
      for (std::int64_t x = 0; x < s.d; ++x)
        compare.add(o[row * s.d + x], want.value[x],
                    want.error[x] + sample::rounding<T>.of(std::abs(want.value[x]) + want.error[x]));
      compare.add(lse[row], want.lse, want.lseError);
    }
    if (int failed = compare.report(fmt::format("{} B{} H{} HK{} up to {} keys d{} on {}", name, s.B, H, s.HK,
                                                s.longest, s.d, stream.device().name())))
      return failed;

    // 5. Time: keys and values are read once
    sample::printRate(name, sample::time(stream, options, call), 2.0 * double(keys * s.HK * s.d) * sizeof(C));
    return 0;
  };
  return {name, text, run};
}

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    const sample::Options options = sample::parse(argc, argv, "attention over a cache in pages");
    using sample::Find;
    return sample::runJobs(options, {job<bf16, Find::tiles>(options, "pages_of_64", 64, false),
                                     job<bf16, Find::keys>(options, "pages_of_16", 16, true),
                                     job<e4m3, Find::tiles>(options, "e4m3_cache", 64, false),
                                     job<i8, Find::tiles>(options, "i8_cache", 128, true)});
  });
}
