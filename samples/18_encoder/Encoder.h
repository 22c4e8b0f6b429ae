// SPDX-License-Identifier: Apache-2.0
/// \file An encoder of the BERT family as one graph of kernels per shape of its input.
#pragma once

#include "samples/18_encoder/Checkpoint.h"
#include "samples/18_encoder/kernels.h"

#include <sectile/Graph.h>

#include <cmath>
#include <memory>

namespace sample {

/// The numbers of config.json.
struct EncoderShape {
  std::int64_t width, heads, layers, inner, words, places, kinds;
  double eps;
  static EncoderShape of(const nlohmann::json &config) {
    if (config.at("hidden_act") != "gelu")
      throw std::runtime_error("hidden_act is " + config.at("hidden_act").dump() + ", not gelu with the error function");
    return {config.at("hidden_size"), config.at("num_attention_heads"), config.at("num_hidden_layers"), config.at("intermediate_size"),
            config.at("vocab_size"), config.at("max_position_embeddings"), config.at("type_vocab_size"), config.at("layer_norm_eps")};
  }
};

/// The tensors of a model of this shape, by name: `take(name, shape)` for each, in the order in which they are used. The three
/// products of attention stand behind each other as one.
template <class Take> void eachWeight(const EncoderShape &s, Take take) {
  using Dims = std::vector<std::int64_t>;
  auto norm = [&](const std::string &name) {
    take(name + ".weight", Dims{s.width});
    take(name + ".bias", Dims{s.width});
  };
  auto dense = [&](const std::string &name, std::int64_t in, std::int64_t out) {
    take(name + ".weight", Dims{out, in});
    take(name + ".bias", Dims{out});
  };
  take("embeddings.word_embeddings.weight", Dims{s.words, s.width});
  take("embeddings.position_embeddings.weight", Dims{s.places, s.width});
  take("embeddings.token_type_embeddings.weight", Dims{s.kinds, s.width});
  norm("embeddings.LayerNorm");
  for (std::int64_t l = 0; l < s.layers; ++l) {
    const std::string layer = fmt::format("encoder.layer.{}.", l);
    for (const char *part : {"query", "key", "value"})
      dense(layer + "attention.self." + part, s.width, s.width);
    dense(layer + "attention.output.dense", s.width, s.width);
    norm(layer + "attention.output.LayerNorm");
    dense(layer + "intermediate.dense", s.width, s.inner);
    dense(layer + "output.dense", s.inner, s.width);
    norm(layer + "output.LayerNorm");
  }
}

/// The weights of an encoder as T on a device, or nowhere at all, which is enough for its code.
template <class T> class EncoderWeights {
public:
  explicit EncoderWeights(const EncoderShape &shape) : shape(shape) {}
  EncoderWeights(const EncoderShape &shape, const Checkpoint &from, const Stream &stream) : shape(shape) {
    eachWeight(shape, [&](const std::string &name, const std::vector<std::int64_t> &dims) {
      const std::vector<T> values = from.read<T>(name, dims);
      auto &joined = host[joinedName(name)];
      joined.insert(joined.end(), values.begin(), values.end());
    });
    for (auto &[name, values] : host) {
      Buffer<T> there(stream, static_cast<std::int64_t>(values.size()));
      there.copyFrom(values);
      buffers.emplace(name, std::move(there));
    }
    host.clear();
  }

  Tensor<const T, 1> vector(const std::string &name, std::int64_t length) const { return {at(name), {length}}; }
  Tensor<const T, 2> table(const std::string &name, std::int64_t rows) const { return {at(name), {rows, shape.width}}; }
  /// A weight [out, in] as the second operand of a product: [in, out], by columns.
  Tensor<const T, 2> turned(const std::string &name, std::int64_t in, std::int64_t out) const { return {at(name), {in, out}, {1, in}}; }

  const EncoderShape shape;

private:
  /// query, key and value are one tensor: "..self.query.weight" and the others become "..self.weight".
  static std::string joinedName(std::string name) {
    for (const char *part : {".query", ".key", ".value"})
      if (const auto at = name.find(std::string(".self") + part); at != std::string::npos)
        return name.erase(at + 5, std::string(part).size());
    return name;
  }
  const T *at(const std::string &name) const { return buffers.empty() ? nullptr : buffers.at(name).data(); }

  std::map<std::string, std::vector<T>> host;
  std::map<std::string, Buffer<T>> buffers;
};

/// Embeddings [B, width], each of length 1, of sentences of up to S tokens: ids [B, S], lengths [B].
template <class T>
Composed encoder(const EncoderWeights<T> &w, Tensor<const i32, 2> ids, Tensor<const i32, 1> lengths, Tensor<f32, 2> embeddings,
                 Fuse how = fuse::automatic) {
  const EncoderShape &s = w.shape;
  const std::int64_t B = ids.dims()[0], S = ids.dims()[1], D = s.width, H = s.heads, d = D / H, rows = B * S;
  const auto eps = static_cast<f32>(s.eps);
  constexpr auto &product = matmulOf<T>;
  Graph g("encoder");
  auto vector = [&](const std::string &name, std::int64_t length) { return g.input(w.vector(name, length)); };
  auto weight = [&](const std::string &name, std::int64_t in, std::int64_t out) { return g.input(w.turned(name, in, out)); };
  auto norm = [&](const GraphTensor<T, 2> &x, const std::string &name) {
    return layerNormOf<T>(x, vector(name + ".weight", D), vector(name + ".bias", D), eps);
  };
  auto heads = [&](const GraphTensor<T, 2> &x, std::int64_t columns, std::int64_t first) { // [B, H, S, d] of columns of x
    return g.view(x, {B, H, S, d}, {S * columns, d, columns, 1}, first);
  };

  auto seen = g.input(lengths);
  auto x = g.tensor<T, 2>({rows, D});
  embed<T>(g.input(ids), g.input(w.table("embeddings.word_embeddings.weight", s.words)),
           g.input(w.table("embeddings.position_embeddings.weight", s.places)),
           g.input(w.table("embeddings.token_type_embeddings.weight", s.kinds)), vector("embeddings.LayerNorm.weight", D),
           vector("embeddings.LayerNorm.bias", D), g.view(x, {B, S, D}, {S * D, D, 1}), eps);
  for (std::int64_t l = 0; l < s.layers; ++l) {
    const std::string layer = fmt::format("encoder.layer.{}.", l), self = layer + "attention.self", out = layer + "attention.output.dense",
                      up = layer + "intermediate.dense", down = layer + "output.dense";
    auto qkv = addBias<T>(product(x, weight(self + ".weight", D, 3 * D)), vector(self + ".bias", 3 * D));
    auto o = g.tensor<T, 2>({rows, D});
    attention<T, upToLength>(heads(qkv, 3 * D, 0), heads(qkv, 3 * D, D), heads(qkv, 3 * D, 2 * D), heads(o, D, 0), g.tensor<f32, 3>({B, H, S}),
                             1 / std::sqrt(static_cast<f32>(d)), seen, seen);
    x = norm(addBiasTo<T>(product(o, weight(out + ".weight", D, D)), vector(out + ".bias", D), x), layer + "attention.output.LayerNorm");
    auto h = addBiasErfGelu<T>(product(x, weight(up + ".weight", D, s.inner)), vector(up + ".bias", s.inner));
    x = norm(addBiasTo<T>(product(h, weight(down + ".weight", s.inner, D)), vector(down + ".bias", D), x), layer + "output.LayerNorm");
  }
  meanPool<T>(g.view(x, {B, S, D}, {S * D, D, 1}), seen, g.output(embeddings));
  return g.build(how);
}

} // namespace sample
