// SPDX-License-Identifier: Apache-2.0
/// \file The same encoder on the host in double, one sentence at a time, written from the architecture and not from the kernels.
#pragma once

#include "samples/18_encoder/Encoder.h"

#include <algorithm>

namespace sample {

class HostEncoder {
public:
  HostEncoder(const EncoderShape &shape, const Checkpoint &from) : s(shape) {
    eachWeight(s, [&](const std::string &name, const std::vector<std::int64_t> &dims) { weights[name] = from.read<float>(name, dims); });
  }

  /// The embedding of a sentence, of length 1.
  std::vector<double> operator()(const std::vector<std::int32_t> &ids) const {
    const auto n = static_cast<std::int64_t>(ids.size()), d = s.width / s.heads;
    Rows x(ids.size());
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t c = 0; c < s.width; ++c)
        x[i].push_back(double(weights.at("embeddings.word_embeddings.weight")[ids[i] * s.width + c]) +
                       weights.at("embeddings.position_embeddings.weight")[i * s.width + c] +
                       weights.at("embeddings.token_type_embeddings.weight")[c]);
    normalise(x, "embeddings.LayerNorm");
    for (std::int64_t l = 0; l < s.layers; ++l) {
      const std::string layer = fmt::format("encoder.layer.{}.", l);
      const Rows q = dense(x, layer + "attention.self.query"), k = dense(x, layer + "attention.self.key"), v = dense(x, layer + "attention.self.value");
      Rows o(ids.size(), std::vector<double>(static_cast<std::size_t>(s.width)));
      std::vector<double> p(ids.size());
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            p[j] = 0;
            for (std::int64_t c = h * d; c < (h + 1) * d; ++c)
              p[j] += q[i][c] * k[j][c];
            p[j] /= std::sqrt(double(d));
          }
          const double top = *std::max_element(p.begin(), p.end());
          double total = 0;
          for (double &value : p)
            total += value = std::exp(value - top);
          for (std::int64_t j = 0; j < n; ++j)
            for (std::int64_t c = h * d; c < (h + 1) * d; ++c)
              o[i][c] += p[j] / total * v[j][c];
        }
      add(x, dense(o, layer + "attention.output.dense"));
      normalise(x, layer + "attention.output.LayerNorm");
      Rows inner = dense(x, layer + "intermediate.dense");
      for (auto &row : inner)
        for (double &value : row)
          value = 0.5 * value * (1 + std::erf(value / std::sqrt(2.0)));
      add(x, dense(inner, layer + "output.dense"));
      normalise(x, layer + "output.LayerNorm");
    }
    std::vector<double> mean(static_cast<std::size_t>(s.width));
    double square = 0;
    for (std::int64_t c = 0; c < s.width; ++c) {
      for (const auto &row : x)
        mean[c] += row[c] / static_cast<double>(n);
      square += mean[c] * mean[c];
    }
    for (double &value : mean)
      value /= std::sqrt(square);
    return mean;
  }

private:
  using Rows = std::vector<std::vector<double>>;
  Rows dense(const Rows &x, const std::string &name) const {
    const auto &w = weights.at(name + ".weight"), &b = weights.at(name + ".bias");
    Rows y;
    for (const auto &row : x) {
      y.emplace_back(b.begin(), b.end());
      for (std::size_t o = 0; o < b.size(); ++o)
        for (std::size_t c = 0; c < row.size(); ++c)
          y.back()[o] += row[c] * w[o * row.size() + c];
    }
    return y;
  }
  static void add(Rows &x, const Rows &y) {
    for (std::size_t i = 0; i < x.size(); ++i)
      std::transform(x[i].begin(), x[i].end(), y[i].begin(), x[i].begin(), std::plus<>());
  }
  void normalise(Rows &x, const std::string &name) const {
    const auto &w = weights.at(name + ".weight"), &b = weights.at(name + ".bias");
    for (auto &row : x) {
      double mean = 0, variance = 0;
      for (double value : row)
        mean += value / static_cast<double>(row.size());
      for (double value : row)
        variance += (value - mean) * (value - mean) / static_cast<double>(row.size());
      for (std::size_t c = 0; c < row.size(); ++c)
        row[c] = (row[c] - mean) / std::sqrt(variance + s.eps) * w[c] + b[c];
    }
  }

  const EncoderShape s;
  std::map<std::string, std::vector<float>> weights;
};

} // namespace sample
