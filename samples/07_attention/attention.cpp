// SPDX-License-Identifier: Apache-2.0
// 07 attention: O = softmax(score(scale Q K^T)) V. The idea: two products with a softmax between them are a
// plain loop over keys; what makes a variant of attention, a mask, a bias, a cap, is a lambda beside it.
// Heads that share keys and tensors that lie in memory in any order are a matter of views.
#include "samples/07_attention/reference.h"
#include "samples/common/Sample.h"

// 1. Kernel: `attention`; variants: `causal`, `window`, `alibi` and others
#include "samples/07_attention/kernels.h"
#include "samples/07_attention/variants.h"

using namespace sectile;

namespace {

// 2. Shapes
struct Shape {
  std::int64_t B, H, HK, Sq, Sk, d, dv;
};

/// Which of the positions and the heads comes first in memory.
enum class Order : std::uint8_t { heads, positions };

struct Layout {
  std::array<std::int64_t, 4> dims, strides;
  std::int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t x) const {
    return b * strides[0] + h * strides[1] + s * strides[2] + x;
  }
};
Layout layout(Order order, std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t d) {
  if (order == Order::heads)
    return {{B, H, S, d}, {H * S * d, S * d, d, 1}};
  return {{B, H, S, d}, {H * S * d, d, H * d, 1}};
}

template <class T> std::vector<T> numbers(std::int64_t count, unsigned seed) {
  return sample::normal<T>(count, seed);
}
template <class T> Buffer<T> upload(const Stream &stream, const std::vector<T> &host) {
  Buffer<T> there(stream, static_cast<std::int64_t>(host.size()));
  there.copyFrom(host);
  return there;
}

/// A job. `score(s, h, q, k)` is the variant on the host, -inf where a key does not exist; `share` the part
/// of all pairs that exist; `extra` the variant's tensors.
template <class T, class Out, class Kernel, class Score, class... Extra>
sample::Job job(const sample::Options &options, const char *name, const Kernel &kernel, Shape s, Order order,
                double share, Score score, const std::vector<Extra> &...extra) {
  const Layout q = layout(order, s.B, s.H, s.Sq, s.d), k = layout(order, s.B, s.HK, s.Sk, s.d),
               v = layout(order, s.B, s.HK, s.Sk, s.dv), o = layout(order, s.B, s.H, s.Sq, s.dv);
  const float scale = 1 / std::sqrt(static_cast<float>(s.d));
  auto text = [=, &options, &kernel] {
    return kernel.emit(options.emit, options.arch, Tensor<const T, 4>(nullptr, q.dims, q.strides),
                       Tensor<const T, 4>(nullptr, k.dims, k.strides),
                       Tensor<const T, 4>(nullptr, v.dims, v.strides),
                       Tensor<Out, 4>(nullptr, o.dims, o.strides), Tensor<f32, 3>(nullptr, {s.B, s.H, s.Sq}),
                       scale, Tensor<const Extra, 1>(nullptr, {static_cast<std::int64_t>(extra.size())})...);
  };
  auto run = [=, &options, &kernel] {
    Stream stream = sample::device(options).stream();
    const std::vector<T> hostQ = numbers<T>(q.count(), 1), hostK = numbers<T>(k.count(), 2),
                         hostV = numbers<T>(v.count(), 3);
    Buffer<T> Q = upload(stream, hostQ), K = upload(stream, hostK), V = upload(stream, hostV);
    Buffer<Out> O(stream, o.count());
    Buffer<f32> Lse(stream, s.B, s.H, s.Sq);
    O.fillBytes(0xFF);
    Lse.fillBytes(0xFF);
    std::tuple<Buffer<Extra>...> more{upload(stream, extra)...};
    auto call = std::apply(
        [&](auto &...tensors) {
          return kernel.with(sample::attentionConfig(q.dims, k.dims, v.dims))
              .prepare(Tensor<const T, 4>(Q.data(), q.dims, q.strides),
                       Tensor<const T, 4>(K.data(), k.dims, k.strides),
                       Tensor<const T, 4>(V.data(), v.dims, v.strides),
                       Tensor<Out, 4>(O.data(), o.dims, o.strides), Lse, scale, tensors...);
        },
        more);
    call(stream);
    const std::vector<Out> hostO = O.toHost();
    const std::vector<f32> lse = Lse.toHost();

    // 3. Host reference in double on sampled queries (every one when small), 4. compare
    sample::Comparison compare;
    const std::int64_t rows = s.B * s.H * s.Sq, step = options.small ? 1 : rows / 256 | 1;
    for (std::int64_t row = 0; row < rows; row += step) {
      const std::int64_t b = row / s.Sq / s.H, h = row / s.Sq % s.H, i = row % s.Sq, hk = h / (s.H / s.HK);
      auto onHost = [&](double value, auto j) { return score(value, h, i, j); };
      auto whole = [](auto) { return 1.0; };
      const sample::HostVariant<decltype(onHost), decltype(whole)> variant{onHost, whole,
                                                                           sample::rounding<T>};
      const sample::AttentionRow want = sample::attentionRow(
          s.Sk, s.d, s.dv, scale, [&](auto x) { return double(hostQ[q.at(b, h, i, x)]); },
          [&](auto j, auto x) { return double(hostK[k.at(b, hk, j, x)]); },
          [&](auto j, auto x) { return double(hostV[v.at(b, hk, j, x)]); }, variant);
      for (std::int64_t x = 0; x < s.dv; ++x)
        compare.add(hostO[o.at(b, h, i, x)], want.value[x],
                    want.error[x] + sample::rounding<Out>.of(std::abs(want.value[x]) + want.error[x]));
      compare.add(lse[row], want.lse, want.lseError);
    }
    if (int failed = compare.report(fmt::format("{} B{} H{} HK{} {} x {} d{} on {}", name, s.B, s.H, s.HK,
                                                s.Sq, s.Sk, s.d, stream.device().name())))
      return failed;

    // 5. Time: only products of pairs that exist are counted
    sample::printFlops(name, sample::time(stream, options, [&] { call(stream); }),
                       2.0 * s.B * s.H * s.Sq * s.Sk * (s.d + s.dv) * share);
    return 0;
  };
  return {name, text, run};
}

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    const sample::Options options = sample::parse(argc, argv, "O = softmax(score(scale Q K^T)) V");
    const bool small = options.small;
    const std::int64_t S = small ? 150 : 8192;
    const Shape plain{small ? 1 : 2,    small ? 2 : 16,  small ? 2 : 16, S, S,
                      small ? 64 : 128, small ? 64 : 128};
    Shape grouped = plain, narrow = plain, later = plain;
    grouped.HK = small ? 1 : 4;
    narrow.d = narrow.dv = 64;
    later.Sq = S / 2 + 1;
    std::vector<f32> slopes;
    for (std::int64_t h = 0; h < plain.H; ++h)
      slopes.push_back(std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(plain.H)));

    constexpr double none = -std::numeric_limits<double>::infinity();
    constexpr int width = 64;
    auto all = [](double s, auto, auto, auto) { return s; };
    auto past = [](double s, auto, auto q, auto k) { return k <= q ? s : none; };
    auto near = [](double s, auto, auto q, auto k) { return k <= q && q - k < width ? s : none; };
    auto fromEnd = [&](double s, auto, auto q, auto k) { return k <= q + S - later.Sq ? s : none; };
    auto sloped = [&](double s, auto h, auto q, auto k) {
      return k <= q ? s + slopes[h] * double(k - q) : none;
    };
    using sample::attention, sample::Align, sample::causal;
    return sample::runJobs(
        options,
        {job<bf16, bf16>(options, "attention", attention<bf16>, plain, Order::heads, 1, all),
         job<bf16, bf16>(options, "causal", attention<bf16, causal>, plain, Order::heads, 0.5, past),
         job<f16, f16>(options, "causal_f16", attention<f16, causal>, narrow, Order::heads, 0.5, past),
         job<bf16, bf16>(options, "causal_end", attention<bf16, causal, Align::end>, later, Order::heads,
                         0.75, fromEnd),
         job<bf16, bf16>(options, "grouped", attention<bf16, causal>, grouped, Order::positions, 0.5, past),
         job<bf16, bf16>(options, "window", attention<bf16, sample::window<width>>, plain, Order::heads,
                         double(width) / double(S), near),
         job<bf16, bf16>(options, "alibi", attention<bf16, sample::alibi>, plain, Order::heads, 0.5, sloped,
                         slopes)});
  });
}
