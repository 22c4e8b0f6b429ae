// SPDX-License-Identifier: Apache-2.0
// 18 encoder: sentences to vectors by a published model, from its file of weights to its embeddings. The idea: a whole model
// is one graph of ordinary kernels, and what another library trained runs here because both say what each number means.
#include "samples/common/Sample.h"

// 1. Kernels: `embed`, `layerNormOf`, what follows products, `meanPool`; the graph of all of them: `encoder`
#include "samples/18_encoder/Encoder.h"
#include "samples/18_encoder/WordPiece.h"
#include "samples/18_encoder/reference.h"

#include <numeric>
#include <optional>
#include <random>

using namespace sectile;

namespace {

/// How far an element may be off: an embedding has length 1, so elements are about 1 / sqrt(width).
template <class T> constexpr double tolerance = 5e-6;
template <> constexpr double tolerance<bf16> = 1e-2;

struct Sentence {
  std::string text;
  std::vector<std::int32_t> ids;
  std::vector<double> embedding; ///< wanted, of the framework; empty: not known
};

// 2. A model of random weights in the files of a published one, where none is named

class RandomModel {
public:
  explicit RandomModel(bool isSmall) : folder(std::filesystem::temp_directory_path() / fmt::format("sectile-encoder-{}", std::random_device()())) {
    std::filesystem::create_directories(folder);
    const std::vector<std::string> pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a",    "tile", "##s", "##d", "is",  "not",  "row", "of",
                                          "thread", ".",    ",",     "!",     "cafe", "##ny", "un",  "##ti", "##l", "\xE5\xAD\x97"};
    std::ofstream vocabulary(folder / "vocab.txt");
    for (const std::string &piece : pieces)
      vocabulary << piece << "\n";
    const nlohmann::json config{{"hidden_act", "gelu"}, {"hidden_size", isSmall ? 64 : 384}, {"num_attention_heads", isSmall ? 4 : 12},
                                {"num_hidden_layers", isSmall ? 2 : 6}, {"intermediate_size", isSmall ? 136 : 1536}, {"vocab_size", pieces.size()},
                                {"max_position_embeddings", isSmall ? 40 : 512}, {"type_vocab_size", 2}, {"layer_norm_eps", 1e-12}};
    std::ofstream(folder / "config.json") << config.dump();
    std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> tensors;
    eachWeight(sample::EncoderShape::of(config), [&](const std::string &name, const std::vector<std::int64_t> &dims) {
      std::int64_t count = 1;
      for (std::int64_t length : dims)
        count *= length;
      std::vector<float> values = sample::normal<float>(count, static_cast<unsigned>(tensors.size() + 1));
      const bool isScale = name.ends_with("LayerNorm.weight");
      for (float &x : values)
        x = isScale ? 1 + 0.1f * x : x * (dims.size() == 2 ? 1 / std::sqrt(static_cast<float>(dims[1])) : 0.1f);
      tensors[name] = {dims, std::move(values)};
    });
    sample::writeCheckpoint(folder / "model.safetensors", tensors);
  }
  ~RandomModel() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  RandomModel(const RandomModel &) = delete;
  const std::filesystem::path folder;
};

/// Words of the random model, and the numbers of their pieces.
std::vector<Sentence> knownSentences() {
  return {{"A tile is not a thread.", {2, 4, 5, 8, 9, 4, 12, 13, 3}, {}},
          {"Tiled rows!", {2, 5, 7, 10, 6, 15, 3}, {}},
          {"CAFE\xCC\x81, caf\xC3\xA9\tis canny \xE5\xAD\x97\xE5\xAD\x97", {2, 16, 14, 16, 8, 1, 21, 21, 3}, {}},
          {"untiled, until", {2, 1, 14, 18, 19, 20, 3}, {}}};
}

// 3. Host reference in double, or the embeddings of the framework; 4. compare

template <class T>
int runModel(const sample::Options &options, const Stream &stream, const std::filesystem::path &folder, const std::vector<Sentence> &sentences, std::size_t own) {
  const auto shape = sample::EncoderShape::of(sample::readJson(folder / "config.json"));
  const sample::Checkpoint checkpoint(folder / "model.safetensors");
  const sample::EncoderWeights<T> weights(shape, checkpoint, stream);
  const auto B = static_cast<std::int64_t>(sentences.size());
  std::size_t longest = 0;
  for (const Sentence &s : sentences)
    longest = std::max(longest, s.ids.size());
  const auto S = static_cast<std::int64_t>(longest);
  std::vector<i32> ids(sentences.size() * longest), lengths;
  for (std::size_t b = 0; b < sentences.size(); ++b) {
    std::copy(sentences[b].ids.begin(), sentences[b].ids.end(), ids.begin() + static_cast<std::ptrdiff_t>(b * longest));
    lengths.push_back(static_cast<i32>(sentences[b].ids.size()));
  }
  Buffer<i32> Ids(stream, B, S), Lengths(stream, B);
  Buffer<f32> E(stream, B, shape.width);
  Ids.copyFrom(ids);
  Lengths.copyFrom(lengths);
  E.fillBytes(0xFF);
  const Composed graph = sample::encoder<T>(weights, Ids, Lengths, E);
  graph(stream);
  const std::vector<f32> got = E.toHost();

  const auto width = static_cast<std::size_t>(shape.width);
  const sample::HostEncoder reference(shape, checkpoint);
  sample::Comparison toReference, toFramework;
  const std::size_t step = stream.device().isInterpreter() ? 1 : sentences.size() / 4 | 1;
  for (std::size_t b = 0; b < sentences.size(); ++b) {
    auto compare = [&](sample::Comparison &with, const std::vector<double> &want) {
      for (std::size_t c = 0; c < want.size(); ++c)
        with.add(got[b * want.size() + c], want[c], tolerance<T>);
    };
    compare(toFramework, sentences[b].embedding);
    if (b % step == 0)
      compare(toReference, reference(sentences[b].ids));
  }
  const std::string what = fmt::format("encoder {} {} x {} in {} kernels on {}", name(dtypeOf<T>), B, S, graph.launches(), stream.device().name());
  int failed = toReference.report(what + ", to double");
  if (!sentences.front().embedding.empty())
    failed |= toFramework.report(what + ", to the framework");
  if (failed)
    return failed;
  for (std::size_t a = sentences.size() - own; a < sentences.size(); ++a)
    for (std::size_t b = a + 1; b < sentences.size(); ++b)
      fmt::print("{:.3f} '{}' and '{}'\n", std::inner_product(got.data() + a * width, got.data() + (a + 1) * width, got.data() + b * width, 0.0), sentences[a].text, sentences[b].text);

  // 5. Time
  const sample::Time t = sample::time(stream, options, [&] { graph(stream); });
  fmt::print("encoder {}: {:.1f} us ({:.1f} to {:.1f}) | {:.0f} sentences/s\n", name(dtypeOf<T>), t.medianMicros, t.minMicros, t.maxMicros,
             static_cast<double>(B) / t.medianMicros * 1e6);
  return 0;
}

/// The kernels of one layer, on tensors that are nowhere.
template <class T> void addStages(const sample::Options &options, std::vector<sample::Stage> &stages) {
  const bool isSmall = options.small;
  const sample::EncoderWeights<T> weights({isSmall ? 64 : 384, isSmall ? 4 : 12, 1, isSmall ? 136 : 1536, 30522, 512, 2, 1e-12});
  const std::int64_t B = isSmall ? 4 : 32, S = isSmall ? 11 : 128;
  const Composed graph = sample::encoder<T>(weights, {nullptr, {B, S}}, {nullptr, {B}}, {nullptr, {B, weights.shape.width}});
  for (int k = 0; k < graph.launches(); ++k) {
    const std::string stage = fmt::format("{}.{}", name(dtypeOf<T>), graph.kernelName(k));
    if (std::none_of(stages.begin(), stages.end(), [&](const sample::Stage &s) { return s.name == stage; }))
      stages.push_back({stage, [&options, graph, k] { return graph.emit(options.emit, options.arch, k); }});
  }
}

/// Texts of a file of the framework's embeddings, made by reference.py.
std::vector<Sentence> readReference(const std::filesystem::path &path) {
  std::vector<Sentence> sentences;
  const nlohmann::json file = sample::readJson(path);
  for (const auto &s : file.at("sentences"))
    sentences.push_back({s.at("text"), s.at("ids"), s.at("embedding")});
  return sentences;
}

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    std::vector<std::string> models, references, texts;
    const sample::Options options =
        sample::parse(argc, argv, "Sentences to vectors by an encoder, one graph of kernels",
                      {{"--model", models, "Folder with model.safetensors, config.json, vocab.txt; default: random weights"},
                       {"--reference", references, "Embeddings of a framework to compare with: samples/18_encoder/reference.json"},
                       {"--text", texts, "A sentence of your own; several are compared with each other"}});
    if (!options.emit.empty()) {
      std::vector<sample::Stage> stages;
      addStages<f32>(options, stages);
      addStages<bf16>(options, stages);
      return sample::emit(options, std::move(stages));
    }
    std::optional<RandomModel> random;
    if (models.empty())
      models = {random.emplace(options.small).folder.string()};
    const std::filesystem::path folder = models.back();
    const sample::WordPiece pieces(folder / "vocab.txt");
    const auto shape = sample::EncoderShape::of(sample::readJson(folder / "config.json"));
    const auto most = static_cast<std::size_t>(std::min<std::int64_t>(shape.places, 256));

    // What the words are, where somebody knows.
    std::vector<Sentence> sentences;
    if (!references.empty())
      sentences = readReference(references.back());
    else if (random && texts.empty())
      sentences = knownSentences();
    for (const Sentence &s : sentences)
      if (pieces(s.text, most) != s.ids) {
        fmt::print("pieces of '{}': {}, not {}: FAILED\n", s.text, fmt::join(pieces(s.text, most), " "), fmt::join(s.ids, " "));
        return 1;
      }
    if (!sentences.empty())
      fmt::print("pieces of {} sentences: OK\n", sentences.size());
    for (const std::string &text : texts)
      sentences.push_back({text, pieces(text, most), {}});
    // Without a name and at full size: a batch for the time.
    if (random && !options.small && texts.empty())
      for (std::size_t b = sentences.size(); b < 32; ++b) {
        std::vector<std::int32_t> ids(128 - b);
        for (std::size_t i = 0; i < ids.size(); ++i)
          ids[i] = static_cast<std::int32_t>((7 * i + b) % 22);
        sentences.push_back({"", ids, {}});
      }

    const Stream stream = sample::device(options).stream();
    int failed = 0;
    if (options.wants("f32"))
      failed |= runModel<f32>(options, stream, folder, sentences, texts.size());
    if (options.wants("bf16"))
      failed |= runModel<bf16>(options, stream, folder, sentences, texts.size());
    return failed;
  });
}
