// SPDX-License-Identifier: Apache-2.0
// 17 chains: what stands before, between and behind the products of a model. The idea: kernels whose tiles a product loads run in
// its loop, products of one matrix share a loop, and a product runs in the loop of what reads its rows; each of that where it is
// legal, and where the cost model does not expect it to take longer.
#include "samples/common/Sample.h"
#include "samples/common/Sums.h"

// 1. Kernels: small ones of this sample, `matmulOf` of 04, `attention` of 07, `rmsNorm` of 10, those of 16
#include "samples/07_attention/kernels.h"
#include "samples/10_rms_norm/kernels.h"
#include "samples/16_fused_layer/kernels.h"
#include "samples/17_chains/kernels.h"

#include <sectile/Graph.h>

#include <array>

using namespace sectile;

namespace {

constexpr auto matmul = sample::matmulOf<bf16>;
constexpr double unit = 0x1p-8; ///< of rounding to bf16

/// Memory of a tensor of a chain: random numbers, or the place of a result.
template <class T> struct Memory {
  std::vector<std::int64_t> dims;
  std::vector<T> host;
  std::optional<Buffer<T>> buffer;
  Memory(std::vector<std::int64_t> lengths) : dims(std::move(lengths)) {}
  std::int64_t count() const {
    std::int64_t n = 1;
    for (std::int64_t d : dims)
      n *= d;
    return n;
  }
  /// Numbers f(i) on the device.
  template <class F> void fill(const Stream &stream, F f) {
    buffer.emplace(stream, std::span<const std::int64_t>(dims));
    for (std::int64_t i = 0; i < count(); ++i)
      host.push_back(f(i));
    buffer->copyFrom(host);
  }
  void normal(const Stream &stream, unsigned seed, float scale = 1) {
    const auto numbers = sample::normal<f32>(count(), seed);
    fill(stream, [&](std::int64_t i) { return T(numbers[static_cast<std::size_t>(i)] * scale); });
  }
  void result(const Stream &stream) {
    fill(stream, [](std::int64_t) { return T(); });
  }
  template <int R> Tensor<T, R> view() const {
    std::array<std::int64_t, R> lengths;
    std::copy(dims.begin(), dims.end(), lengths.begin());
    return Tensor<T, R>(buffer ? const_cast<T *>(static_cast<const T *>(buffer->data())) : nullptr, lengths);
  }
  double at(std::int64_t i) const { return double(host[static_cast<std::size_t>(i)]); }
  void copyBack() { host = buffer->toHost(); }
};

/// Runs a chain fused and apart, with a check of each and its time.
template <class Chain> int runChain(const sample::Options &options, const char *name) {
  Stream stream = sample::device(options).stream();
  Chain chain(options.small);
  chain.prepare(stream);
  for (const bool isFused : {true, false}) {
    Composed graph = chain.build(isFused ? fuse::automatic : fuse::none);
    if (isFused)
      fmt::print("{}", graph.explain());
    graph(stream);
    sample::Comparison compare;
    chain.check(compare, graph.launches() == 1);
    if (int failed = compare.report(fmt::format("{} in {} kernels on {}", name, graph.launches(), stream.device().name())))
      return failed;
    sample::printFlops(fmt::format("{}{}", name, isFused ? "" : ", kernels apart"), sample::time(stream, options, [&] { graph(stream); }),
                       chain.flops());
  }
  return 0;
}
/// The last kernel of a chain without memory.
template <class Chain> std::string emitChain(const sample::Options &options) {
  Composed graph = Chain(options.small).build(fuse::automatic);
  return graph.emit(options.emit, options.arch, graph.launches() - 1);
}
template <class Chain> sample::Job job(const sample::Options &options, const char *name) {
  return {name, [=] { return emitChain<Chain>(options); }, [=] { return runChain<Chain>(options, name); }};
}

/// Rows that are compared: all of few, else 32 of them.
template <class F> void someRows(std::int64_t rows, F f) {
  for (std::int64_t r = 0; r < rows; r += rows > 64 ? rows / 32 | 1 : 1)
    f(r);
}

/// RMSNorm, then queries, keys and values, then the rotary embedding of queries and keys.
struct QueriesKeysValues {
  std::int64_t T, D, N;
  int width;
  Memory<bf16> x, w, wq, wk, wv, q, k, v;
  Memory<f32> cos, sin;
  QueriesKeysValues(bool small)
      : T(small ? 40 : 2048), D(small ? 96 : 4096), N(small ? 96 : 4096), width(small ? 32 : 128), x({T, D}), w({D}), wq({D, N}), wk({D, N}),
        wv({D, N}), q({T, N}), k({T, N}), v({T, N}), cos({T, width}), sin({T, width}) {}
  void prepare(const Stream &stream) {
    x.normal(stream, 1);
    w.normal(stream, 2);
    wq.normal(stream, 3, 0.05f), wk.normal(stream, 4, 0.05f), wv.normal(stream, 5, 0.05f);
    auto angle = [&](std::int64_t i) { return double(i / width) * std::pow(10000.0, -double(i % (width / 2)) / (width / 2)); };
    cos.fill(stream, [&](std::int64_t i) { return f32(std::cos(angle(i))); });
    sin.fill(stream, [&](std::int64_t i) { return f32(std::sin(angle(i))); });
    q.result(stream), k.result(stream), v.result(stream);
  }
  Composed build(Fuse how) const {
    Graph g("qkv");
    auto in = g.input(x.view<2>());
    auto y = sample::normalise(in, sample::rmsOfRows(in, 1e-5f), g.input(w.view<1>()));
    auto c = g.input(cos.view<2>()), s = g.input(sin.view<2>());
    auto queries = matmul(y, g.input(wq.view<2>())), keys = matmul(y, g.input(wk.view<2>())), values = matmul(y, g.input(wv.view<2>()));
    g.output(sample::rotaryHeads(queries, c, s, width), q.view<2>());
    g.output(sample::rotaryHeads(keys, c, s, width), k.view<2>());
    g.output(values, v.view<2>());
    return g.build(how);
  }
  void check(sample::Comparison &compare, bool) {
    q.copyBack(), k.copyBack(), v.copyBack();
    sample::Sums sums(N);
    std::vector<double> y(static_cast<std::size_t>(D));
    someRows(T, [&](std::int64_t t) {
      double squares = 0;
      for (std::int64_t d = 0; d < D; ++d)
        squares += x.at(t * D + d) * x.at(t * D + d);
      const double scale = 1 / std::sqrt(squares / double(D) + 1e-5);
      for (std::int64_t d = 0; d < D; ++d)
        y[static_cast<std::size_t>(d)] = double(bf16(float(x.at(t * D + d) * scale * w.at(d))));
      for (const auto *m : {&wq, &wk, &wv}) {
        sums.clear();
        for (std::int64_t d = 0; d < D; ++d)
          sums.add(y[static_cast<std::size_t>(d)], &m->host[static_cast<std::size_t>(d * N)]);
        // Normalised values next to the middle of two bf16 may be rounded the other way: a unit of some terms. Then one rounding
        // of the sums, where the rotation reads them, and one at the end.
        auto off = [&](std::int64_t n) { return sums.error(n) + unit * sums.magnitude(n) / std::sqrt(double(D)) + unit * std::abs(sums.value(n)); };
        for (std::int64_t n = 0; n < N; ++n) {
          const bool turns = m != &wv, isFirst = n % width < width / 2;
          const std::int64_t other = isFirst ? n + width / 2 : n - width / 2, p = t * width + n % width;
          const double c = turns ? cos.at(p) : 1, s = !turns ? 0 : isFirst ? -sin.at(p) : sin.at(p);
          const double want = sums.value(n) * c + (turns ? sums.value(other) * s : 0);
          const double bound = off(n) * std::abs(c) + (turns ? off(other) * std::abs(s) : 0) + unit * std::abs(want) + 1e-6;
          compare.add((m == &wq ? q : m == &wk ? k : v).at(t * N + n), want, bound);
        }
      }
    });
  }
  double flops() const { return 6.0 * double(T) * double(D) * double(N); }
};

/// silu(x V) (x W), rounded to 8 bits, times a third matrix.
struct GatedLayer {
  std::int64_t T, D, H;
  Memory<bf16> x, gate, up, y;
  Memory<e4m3> down;
  Memory<f32> scale, scaleOfDown;
  GatedLayer(bool small)
      : T(small ? 40 : 2048), D(small ? 96 : 4096), H(small ? 128 : 14336), x({T, D}), gate({D, H}), up({D, H}), y({T, D}), down({H, D}),
        scale({1}), scaleOfDown({1}) {}
  void prepare(const Stream &stream) {
    x.normal(stream, 1);
    gate.normal(stream, 2, 0.05f), up.normal(stream, 3, 0.05f), down.normal(stream, 4);
    scale.fill(stream, [](std::int64_t) { return 0.125f; });
    scaleOfDown.fill(stream, [](std::int64_t) { return 0.02f; });
    y.result(stream);
  }
  Composed build(Fuse how) const {
    Graph g("gated");
    auto in = g.input(x.view<2>());
    auto s = g.input(scale.view<1>());
    auto h = sample::siluTimes(matmul(in, g.input(gate.view<2>())), matmul(in, g.input(up.view<2>())));
    auto eight = sample::quantise(h, s);
    g.output(sample::matmulOf<e4m3, bf16, sample::scaled>(eight, g.input(down.view<2>()), s, g.input(scaleOfDown.view<1>())), y.view<2>());
    return g.build(how);
  }
  void check(sample::Comparison &compare, bool) {
    y.copyBack();
    sample::Sums a(H), b(H), sums(D), off(D);
    someRows(T, [&](std::int64_t t) {
      a.clear(), b.clear(), sums.clear(), off.clear();
      for (std::int64_t d = 0; d < D; ++d) {
        a.add(x.at(t * D + d), &gate.host[static_cast<std::size_t>(d * H)]);
        b.add(x.at(t * D + d), &up.host[static_cast<std::size_t>(d * H)]);
      }
      for (std::int64_t n = 0; n < H; ++n) {
        const double h = a.value(n) / (1 + std::exp(-a.value(n))) * b.value(n), eight = h / scale.at(0);
        const auto *row = &down.host[static_cast<std::size_t>(n * D)];
        sums.add(std::clamp(eight, -448.0, 448.0), row);
        // Rounding to 8 bits, and what may be off before it.
        const double error = std::abs(eight) * (0x1p-4 + 4 * unit) + 0x1p-10 + (a.error(n) * std::abs(b.value(n)) + b.error(n) * std::abs(a.value(n))) * 1.2 / scale.at(0);
        std::vector<float> sizes;
        for (std::int64_t d = 0; d < D; ++d)
          sizes.push_back(std::abs(float(row[d])));
        off.add(error, sizes.data());
      }
      const double scales = scale.at(0) * scaleOfDown.at(0);
      for (std::int64_t d = 0; d < D; ++d)
        compare.add(y.at(t * D + d), sums.value(d) * scales,
                    (off.value(d) + sums.magnitude(d) * 0x1p-9) * scales + unit * std::abs(sums.value(d) * scales));
    });
  }
  double flops() const { return 6.0 * double(T) * double(D) * double(H); }
};

/// gelu(x w + b) with elements left out at random.
struct GeluDropout {
  std::int64_t M, N, K;
  static constexpr std::uint32_t seed = 17, limit = 1u << 30; ///< a quarter is left out
  Memory<bf16> x, w, b, y;
  GeluDropout(bool small) : M(small ? 70 : 8192), N(small ? 150 : 4096), K(small ? 100 : 4096), x({M, K}), w({K, N}), b({N}), y({M, N}) {}
  void prepare(const Stream &stream) {
    x.normal(stream, 1), w.normal(stream, 2), b.normal(stream, 3), y.result(stream);
  }
  Composed build(Fuse how) const {
    Graph g("gelu_dropout");
    auto h = sample::addBiasGelu(matmul(g.input(x.view<2>()), g.input(w.view<2>())), g.input(b.view<1>()));
    g.output(sample::dropout(h, seed, limit, 4.0f / 3), y.view<2>());
    return g.build(how);
  }
  void check(sample::Comparison &compare, bool isFused) {
    y.copyBack();
    sample::Sums sums(N);
    someRows(M, [&](std::int64_t m) {
      sums.clear();
      for (std::int64_t k = 0; k < K; ++k)
        sums.add(x.at(m * K + k), &w.host[static_cast<std::size_t>(k * N)]);
      for (std::int64_t n = 0; n < N; ++n) {
        const bool isKept = sample::mixed(static_cast<std::uint32_t>(m * N + n) ^ seed) >= limit;
        const double before = sums.value(n) + b.at(n);
        const double act = 0.5 * before * (1 + std::tanh(0.7978845608028654 * (before + 0.044715 * before * before * before)));
        const double want = isKept ? act * 4 / 3 : 0;
        const double error = 1.2 * (sums.error(n) + (isFused ? 0 : unit * std::abs(sums.value(n)))) + 0x1p-20 * std::abs(before) +
                             (isFused ? 0 : unit * std::abs(act));
        compare.add(y.at(m * N + n), want, isKept ? std::abs(want) * unit + error * 1.4 + 1e-30 : 1e-30);
      }
    });
  }
  double flops() const { return 2.0 * double(M) * double(N) * double(K); }
};

/// Rows of a table, plus those of positions, then RMSNorm.
struct Embedding {
  std::int64_t T, V, D;
  Memory<i32> ids;
  Memory<bf16> table, positions, w, y;
  Embedding(bool small) : T(small ? 33 : 16384), V(small ? 50 : 32000), D(small ? 100 : 4096), ids({T}), table({V, D}), positions({T, D}), w({D}), y({T, D}) {}
  void prepare(const Stream &stream) {
    ids.fill(stream, [&](std::int64_t i) { return static_cast<std::int32_t>(i * 7919 % V); });
    table.normal(stream, 1), positions.normal(stream, 2), w.normal(stream, 3), y.result(stream);
  }
  Composed build(Fuse how) const {
    Graph g("embedding");
    auto rows = g.tensor<bf16, 2>({T, D});
    sample::embed(g.input(ids.view<1>()), g.input(table.view<2>()), rows);
    g.output(sample::rmsNorm(sample::addRows(rows, g.input(positions.view<2>())), g.input(w.view<1>()), 1e-5f), y.view<2>());
    return g.build(how);
  }
  void check(sample::Comparison &compare, bool isFused) {
    y.copyBack();
    std::vector<double> sums(static_cast<std::size_t>(D));
    someRows(T, [&](std::int64_t t) {
      double squares = 0;
      for (std::int64_t d = 0; d < D; ++d) {
        double &sum = sums[static_cast<std::size_t>(d)] = table.at(std::int64_t(ids.at(t)) * D + d) + positions.at(t * D + d);
        if (!isFused)
          sum = double(bf16(float(sum)));
        squares += sum * sum;
      }
      for (std::int64_t d = 0; d < D; ++d) {
        const double want = sums[static_cast<std::size_t>(d)] / std::sqrt(squares / double(D) + 1e-5) * w.at(d);
        compare.add(y.at(t * D + d), want, std::abs(want) * (unit + 0x1p-16) + 1e-30);
      }
    });
  }
  double flops() const { return 5.0 * double(T) * double(D); }
};

/// Cross-entropy of a linear layer, whose logits are nowhere.
struct LinearLoss {
  std::int64_t T, D, V;
  Memory<bf16> x, w;
  Memory<i32> target;
  Memory<f32> loss;
  LinearLoss(bool small) : T(small ? 40 : 8192), D(small ? 96 : 2048), V(small ? 300 : 32000), x({T, D}), w({D, V}), target({T, 1}), loss({T, 1}) {}
  void prepare(const Stream &stream) {
    x.normal(stream, 1), w.normal(stream, 2, 0.05f), loss.result(stream);
    target.fill(stream, [&](std::int64_t i) { return static_cast<std::int32_t>(i * 7919 % V); });
  }
  Composed build(Fuse how) const {
    Graph g("linear_loss");
    g.output(sample::lossOfRows(sample::matmulOf<bf16, f32>(g.input(x.view<2>()), g.input(w.view<2>())), g.input(target.view<2>())), loss.view<2>());
    if (how.mode() == Fuse::Mode::none)
      return g.build(how);
    return g.build(fuse::require, Config().set("BN", 128)); // for the memory, not for the time; sums of 128x256 and a softmax beside them would spill
  }
  void check(sample::Comparison &compare, bool) {
    loss.copyBack();
    sample::Sums sums(V);
    someRows(T, [&](std::int64_t t) {
      sums.clear();
      for (std::int64_t d = 0; d < D; ++d)
        sums.add(x.at(t * D + d), &w.host[static_cast<std::size_t>(d * V)]);
      double top = -std::numeric_limits<double>::infinity(), total = 0, error = 0;
      for (std::int64_t v = 0; v < V; ++v) {
        top = std::max(top, sums.value(v));
        error = std::max(error, sums.error(v));
      }
      for (std::int64_t v = 0; v < V; ++v)
        total += std::exp(sums.value(v) - top);
      const double want = top + std::log(total) - sums.value(std::int64_t(target.at(t)));
      compare.add(loss.at(t), want, 2 * error + 1e-5 * (std::abs(top) + std::abs(want) + 1));
    });
  }
  double flops() const { return 2.0 * double(T) * double(D) * double(V); }
};

/// Attention, the projection of its heads, and the residual.
struct Attended {
  std::int64_t S, H, D;
  float scale;
  Memory<bf16> q, k, v, o, w, r, y;
  Memory<f32> lse;
  Attended(bool small)
      : S(small ? 33 : 4096), H(small ? 2 : 32), D(small ? 32 : 128), scale(1 / std::sqrt(float(D))), q({S, H * D}), k({S, H * D}), v({S, H * D}),
        o({S, H * D}), w({H * D, H * D}), r({S, H * D}), y({S, H * D}), lse({1, H, S}) {}
  void prepare(const Stream &stream) {
    q.normal(stream, 1), k.normal(stream, 2), v.normal(stream, 3), w.normal(stream, 4, 0.05f), r.normal(stream, 5);
    o.result(stream), y.result(stream), lse.result(stream);
  }
  /// [1, H, S, D] of rows that hold the heads side by side.
  Tensor<bf16, 4> heads(const Memory<bf16> &m) const {
    return Tensor<bf16, 4>(m.view<2>().data(), {1, H, S, D}, {S * H * D, D, H * D, 1});
  }
  Composed build(Fuse how) const {
    Graph g("attended");
    auto all = g.output(heads(o));
    sample::attention<bf16>(g.input(heads(q)), g.input(heads(k)), g.input(heads(v)), all, g.output(lse.view<3>()), scale);
    g.output(sample::addTensors(g.input(r.view<2>()), matmul(g.input(o.view<2>()), g.input(w.view<2>()))), y.view<2>());
    return g.build(how);
  }
  void check(sample::Comparison &compare, bool) {
    y.copyBack();
    const std::int64_t C = H * D;
    sample::Sums sums(C), off(C);
    std::vector<double> p(static_cast<std::size_t>(S));
    someRows(S, [&](std::int64_t s) {
      sums.clear(), off.clear();
      for (std::int64_t h = 0; h < H; ++h) {
        double top = -std::numeric_limits<double>::infinity(), total = 0;
        for (std::int64_t j = 0; j < S; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < D; ++d)
            score += q.at(s * C + h * D + d) * k.at(j * C + h * D + d);
          p[static_cast<std::size_t>(j)] = score * scale;
          top = std::max(top, score * scale);
        }
        for (double &x : p)
          total += x = std::exp(x - top);
        for (std::int64_t d = 0; d < D; ++d) {
          double out = 0, size = 0;
          for (std::int64_t j = 0; j < S; ++j) {
            const double term = p[static_cast<std::size_t>(j)] / total * v.at(j * C + h * D + d);
            out += term;
            size += std::abs(term);
          }
          const auto *row = &w.host[static_cast<std::size_t>((h * D + d) * C)];
          std::vector<float> sizes;
          for (std::int64_t n = 0; n < C; ++n)
            sizes.push_back(std::abs(float(row[n])));
          sums.add(out, row);
          off.add(unit * (size + std::abs(out)) * 1.1, sizes.data()); // of the weights, and of the result
        }
      }
      for (std::int64_t n = 0; n < C; ++n) {
        const double want = r.at(s * C + n) + sums.value(n);
        compare.add(y.at(s * C + n), want, off.value(n) + sums.error(n) + unit * (std::abs(want) + std::abs(sums.value(n))));
      }
    });
  }
  double flops() const { return 4.0 * double(S) * double(S) * double(H * D) + 2.0 * double(S) * double(H * D) * double(H * D); }
};

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    const sample::Options options = sample::parse(argc, argv, "chains around the products of a model");
    return sample::runJobs(options, {job<QueriesKeysValues>(options, "qkv"), job<GatedLayer>(options, "gated"),
                                     job<GeluDropout>(options, "gelu_dropout"), job<Embedding>(options, "embedding"),
                                     job<LinearLoss>(options, "linear_loss"), job<Attended>(options, "attended")});
  });
}
