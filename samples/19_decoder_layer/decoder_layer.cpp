// SPDX-License-Identifier: Apache-2.0
// 19 decoder layer: all of a decoder's layer, for a prompt and for one token of each of many sequences. The idea: kernels that
// were written for themselves, in other samples, are one graph, and what one stores the next one sees as it wants to.
#include "samples/common/Sample.h"
#include "samples/common/Sums.h"

// 1. Kernels: `place`, and those of 04, 07, 10, 15 and 16; the graph of all of them: `decoderLayer`
#include "samples/19_decoder_layer/Layer.h"

using namespace sectile;

namespace {

constexpr f32 eps = 1e-5f;

template <class T> Buffer<T> upload(const Stream &stream, const std::vector<T> &host) {
  Buffer<T> there(stream, static_cast<std::int64_t>(host.size()));
  there.copyFrom(host);
  return there;
}
/// Weights of a product over `rows` terms, so that sums of normal numbers are normal again.
std::vector<bf16> weights(std::int64_t rows, std::int64_t columns, unsigned seed) {
  const float scale = 1 / std::sqrt(static_cast<float>(rows));
  std::vector<bf16> v;
  v.reserve(static_cast<std::size_t>(rows * columns));
  for (float x : sample::normal<float>(rows * columns, seed))
    v.push_back(bf16(x * scale));
  return v;
}

/// What a layer computes with, on the host.
struct Host {
  std::vector<bf16> x, firstNorm, qkv, out, secondNorm, gate, up, down, keys, values;
  std::vector<f32> cos, sin;
  std::vector<i32> sequence, position, table, lengths;
  explicit Host(const sample::LayerShape &s) {
    x = sample::normal<bf16>(s.tokens * s.width, 1);
    for (auto *norm : {&firstNorm, &secondNorm})
      for (float w : sample::normal<float>(s.width, norm == &firstNorm ? 2 : 3))
        norm->push_back(bf16(1 + 0.1f * w));
    qkv = weights(s.width, s.columns(), 4);
    out = weights(s.heads * s.dim, s.width, 5);
    gate = weights(s.width, s.inner, 6);
    up = weights(s.width, s.inner, 7);
    down = weights(s.inner, s.width, 8);
    for (std::int64_t p = 0; p < s.positions(); ++p)
      for (std::int64_t i = 0; i < s.dim / 2; ++i) {
        const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(s.dim));
        cos.push_back(static_cast<f32>(std::cos(angle)));
        sin.push_back(static_cast<f32>(std::sin(angle)));
      }
    for (std::int64_t p = 0; p < s.pages(); ++p)
      table.push_back(static_cast<i32>(p));
    if (s.isDecode)
      std::shuffle(table.begin(), table.end(), std::mt19937(9));
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      sequence.push_back(static_cast<i32>(s.isDecode ? t : 0));
      lengths.push_back(static_cast<i32>(s.positions() - t * s.positions() / (2 * s.tokens)));
      position.push_back(static_cast<i32>(s.isDecode ? lengths.back() - 1 : t));
    }
    // Of what was before, one page and another again and again.
    const std::int64_t page = s.groups * s.page * s.dim;
    const std::vector<bf16> some = sample::normal<bf16>(2 * page + s.pages(), 10);
    for (std::int64_t p = 0; p < s.pages(); ++p) {
      keys.insert(keys.end(), some.begin() + p, some.begin() + p + page);
      values.insert(values.end(), some.begin() + p + page, some.begin() + p + 2 * page);
    }
  }
};

/// 3. Host reference in double, token by token.
class Reference {
public:
  Reference(const sample::LayerShape &s, const Host &host) : s(s), host(host) {}

  /// The result of token t; of a prompt, tokens are asked for one after the other.
  std::vector<double> operator()(std::int64_t t) {
    const std::int64_t d = s.dim, C = s.columns(), H = s.heads, G = H / s.groups, p = host.position[t];
    const std::vector<double> x(host.x.data() + t * s.width, host.x.data() + (t + 1) * s.width);
    std::vector<double> qkv = product(normalised(x, host.firstNorm), host.qkv, C);
    for (std::int64_t h = 0; h < H + s.groups; ++h)
      for (std::int64_t i = 0; i < d / 2; ++i) {
        double &a = qkv[h * d + i], &b = qkv[h * d + i + d / 2];
        const double cos = host.cos[p * d / 2 + i], sin = host.sin[p * d / 2 + i], turned = a * cos - b * sin;
        b = b * cos + a * sin;
        a = turned;
      }
    news.push_back(qkv);
    std::vector<double> o(static_cast<std::size_t>(H * d));
    std::vector<double> weight(static_cast<std::size_t>(p + 1));
    for (std::int64_t h = 0; h < H; ++h) {
      double top = -1e300, total = 0;
      for (std::int64_t j = 0; j <= p; ++j) {
        weight[j] = 0;
        for (std::int64_t i = 0; i < d; ++i)
          weight[j] += qkv[h * d + i] * cached(host.keys, H, t, j, h / G, i);
        weight[j] /= std::sqrt(static_cast<double>(d));
        top = std::max(top, weight[j]);
      }
      for (double &w : weight)
        total += w = std::exp(w - top);
      for (std::int64_t j = 0; j <= p; ++j)
        for (std::int64_t i = 0; i < d; ++i)
          o[h * d + i] += weight[j] / total * cached(host.values, H + s.groups, t, j, h / G, i);
    }
    std::vector<double> middle = product(o, host.out, s.width);
    std::transform(middle.begin(), middle.end(), x.begin(), middle.begin(), std::plus<>());
    const std::vector<double> n = normalised(middle, host.secondNorm), up = product(n, host.up, s.inner);
    std::vector<double> inner = product(n, host.gate, s.inner);
    for (std::size_t i = 0; i < inner.size(); ++i)
      inner[i] *= up[i] / (1 + std::exp(-inner[i]));
    std::vector<double> y = product(inner, host.down, s.width);
    std::transform(y.begin(), y.end(), middle.begin(), y.begin(), std::plus<>());
    return y;
  }
  /// The key and value of the token asked for last: element i of [2, groups, dim].
  double written(std::int64_t i) const { return news.back()[s.heads * s.dim + i]; }
  /// Where they lie in a cache.
  std::int64_t slot(std::int64_t t, std::int64_t group) const { return place(t, host.position[t], group); }

private:
  std::int64_t place(std::int64_t t, std::int64_t position, std::int64_t group) const {
    const std::int64_t page = host.table[host.sequence[t] * s.pagesEach + position / s.page];
    return ((page * s.groups + group) * s.page + position % s.page) * s.dim;
  }
  /// Key or value j as token t sees it: its own, one of a token before it, or one of the cache.
  double cached(const std::vector<bf16> &cache, std::int64_t head, std::int64_t t, std::int64_t j, std::int64_t group, std::int64_t i) const {
    const bool isNew = !s.isDecode || j == host.position[t];
    return isNew ? news[s.isDecode ? news.size() - 1 : j][(head + group) * s.dim + i] : double(cache[place(t, j, group) + i]);
  }
  static std::vector<double> normalised(const std::vector<double> &x, const std::vector<bf16> &w) {
    double square = 0;
    for (double value : x)
      square += value * value / static_cast<double>(x.size());
    std::vector<double> y;
    for (std::size_t i = 0; i < x.size(); ++i)
      y.push_back(x[i] / std::sqrt(square + double(eps)) * double(w[i]));
    return y;
  }
  static std::vector<double> product(const std::vector<double> &x, const std::vector<bf16> &w, std::int64_t columns) {
    sample::Sums sums(columns);
    for (std::size_t k = 0; k < x.size(); ++k)
      sums.add(x[k], &w[k * static_cast<std::size_t>(columns)]);
    std::vector<double> y;
    for (std::int64_t n = 0; n < columns; ++n)
      y.push_back(sums.value(n));
    return y;
  }

  const sample::LayerShape s;
  const Host &host;
  std::vector<std::vector<double>> news; ///< queries, keys and values of the tokens so far
};

int runLayer(const sample::Options &options, const char *name, const sample::LayerShape &s) {
  const Stream stream = sample::device(options).stream();
  const Host host(s);
  const Buffer<bf16> x = upload(stream, host.x), firstNorm = upload(stream, host.firstNorm), qkv = upload(stream, host.qkv),
                     out = upload(stream, host.out), secondNorm = upload(stream, host.secondNorm), gate = upload(stream, host.gate),
                     up = upload(stream, host.up), down = upload(stream, host.down);
  Buffer<bf16> keys = upload(stream, host.keys), values = upload(stream, host.values), y(stream, s.tokens, s.width);
  const Buffer<f32> cos = upload(stream, host.cos), sin = upload(stream, host.sin), one = upload(stream, std::vector<f32>{1});
  const Buffer<i32> sequence = upload(stream, host.sequence), position = upload(stream, host.position), table = upload(stream, host.table),
                    lengths = upload(stream, host.lengths);
  const sample::LayerTensors at{x.data(),      firstNorm.data(), qkv.data(),      out.data(),   secondNorm.data(), gate.data(),
                                up.data(),     down.data(),      cos.data(),      sin.data(),   one.data(),        sequence.data(),
                                position.data(), table.data(),   lengths.data(),  keys.data(),  values.data(),     y.data()};
  const Composed fused = sample::decoderLayer(s, at, eps), apart = sample::decoderLayer(s, at, eps, fuse::none);
  fmt::print("{}", fused.explain());

  // 4. Compare: results have elements around 1; a dozen roundings to 8 bits lie on their way, the last one of their own size
  Reference reference(s, host);
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < (options.small ? s.tokens : 3); ++t)
    tokens.push_back(s.isDecode && !options.small ? t * (s.tokens - 1) / 2 : t);
  std::vector<std::vector<double>> wanted, written;
  for (std::int64_t t : tokens) {
    wanted.push_back(reference(t));
    written.emplace_back();
    for (std::int64_t i = 0; i < 2 * s.groups * s.dim; ++i)
      written.back().push_back(reference.written(i));
  }
  for (const Composed &graph : {fused, apart}) {
    keys.copyFrom(host.keys);
    values.copyFrom(host.values);
    y.fillBytes(0xFF);
    graph(stream);
    const std::vector<bf16> got = y.toHost(), gotKeys = keys.toHost(), gotValues = values.toHost();
    sample::Comparison compare;
    auto add = [&](bf16 value, double want) { compare.add(value, want, 0x1p-8 * std::abs(want) + 0.03); };
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::int64_t c = 0; c < s.width; ++c)
        add(got[tokens[i] * s.width + c], wanted[i][c]);
      for (std::int64_t group = 0; group < s.groups; ++group)
        for (std::int64_t c = 0; c < s.dim; ++c) {
          add(gotKeys[reference.slot(tokens[i], group) + c], written[i][group * s.dim + c]);
          add(gotValues[reference.slot(tokens[i], group) + c], written[i][(s.groups + group) * s.dim + c]);
        }
    }
    if (int failed = compare.report(fmt::format("{} of {} tokens, width {}, up to {} keys, in {} kernels on {}", name, s.tokens, s.width, s.positions(),
                                                graph.launches(), stream.device().name())))
      return failed;
  }

  // 5. Time
  const double inProducts = static_cast<double>(s.width * (s.columns() + s.heads * s.dim) + 3 * s.width * s.inner);
  double keysSeen = 0;
  for (std::int64_t t = 0; t < s.tokens; ++t)
    keysSeen += host.position[t] + 1;
  const double pairs = keysSeen * static_cast<double>(s.heads), cache = keysSeen * static_cast<double>(s.groups * s.dim) * 2 * sizeof(bf16);
  for (const Composed &graph : {fused, apart}) {
    const std::string what = fmt::format("{} in {} kernels", name, graph.launches());
    const sample::Time t = sample::time(stream, options, [&] { graph(stream); });
    if (s.isDecode)
      sample::printRate(what, t, inProducts * sizeof(bf16) + cache);
    else
      sample::printFlops(what, t, 2 * inProducts * static_cast<double>(s.tokens) + 4 * pairs * static_cast<double>(s.dim));
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    const sample::Options options = sample::parse(argc, argv, "a decoder's layer as one graph, for a prompt and for one token of many sequences");
    // 2. Shapes
    auto prefill = [&](std::int64_t tokens) {
      return options.small ? sample::LayerShape{64, 4, 2, 16, 88, 37, 64, 1, false, 1} : sample::LayerShape{4096, 32, 8, 128, 14336, tokens, tokens, 1, false, 1};
    };
    auto decode = [&](std::int64_t sequences) {
      sample::LayerShape s = options.small ? sample::LayerShape{64, 4, 2, 16, 88, sequences / 8 + 1, 64, 3, true, 2}
                                           : sample::LayerShape{4096, 32, 8, 128, 14336, sequences, 128, 32, true, 1};
      if (!options.small)
        s.shares = sample::sharesFor(s.tokens * s.groups, s.positions(), 264);
      return s;
    };
    const std::vector<std::pair<std::string, sample::LayerShape>> layers{{"prefill", prefill(8192)}, {"decode16", decode(16)}, {"decode64", decode(64)}};
    if (!options.emit.empty()) {
      std::vector<sample::Stage> stages; // those of decode64 are those of decode16
      for (const auto &[name, shape] : {layers[0], layers[1]}) {
        const Composed graph = sample::decoderLayer(shape, {}, eps);
        for (int k = 0; k < graph.launches(); ++k) {
          const std::string stage = fmt::format("{}.{}", name, graph.kernelName(k));
          if (std::none_of(stages.begin(), stages.end(), [&](const sample::Stage &s) { return s.name == stage; }))
            stages.push_back({stage, [&options, graph, k] { return graph.emit(options.emit, options.arch, k); }});
        }
      }
      return sample::emit(options, std::move(stages));
    }
    int failed = 0, ran = 0;
    for (const auto &[name, shape] : layers)
      if (options.wants(name)) {
        ++ran;
        failed |= runLayer(options, name.c_str(), shape);
      }
    if (ran == 0)
      std::cerr << "no kernel of this name: " << options.kernel << "\n";
    return ran == 0 ? 1 : failed;
  });
}
