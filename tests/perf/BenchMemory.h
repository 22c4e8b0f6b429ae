// SPDX-License-Identifier: Apache-2.0
/// \file What the files of the memory suite share: inputs out of one pool of random numbers, checks on
/// sampled rows, lists of configurations, and running a case with its ratio to a copy.
#pragma once

#include "tests/perf/Bench.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <set>
#include <span>
#include <utility>

namespace bench {

inline double number(double v) { return v; }
inline double number(float v) { return v; }
inline double number(sectile::e4m3 v) { return float(v); }
/// As the type's own conversion, but without a call into the library: references read billions of these.
inline double number(sectile::bf16 v) { return std::bit_cast<float>(std::uint32_t(v.bits) << 16); }

/// How many sets of inputs and outputs rotate from sample to sample.
inline int setsFor(double bytes) { return bytes < (300 << 20) ? 3 : 2; }

/// Normal numbers, made once: inputs are filled from the copy on the device, references read the one on the
/// host. An input longer than the pool repeats it; the length is odd, so that no row or tile divides it.
template <class T> class Pool {
public:
  Pool(Gpu &gpu, double scale, std::uint64_t seed)
      : gpu(gpu), host(normal<T>(length, seed)), device(gpu.stream(), length) {
    if (scale != 1)
      parallel(length, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          host[static_cast<std::size_t>(i)] = T(float(number(host[static_cast<std::size_t>(i)]) * scale));
      });
    device.copyFrom(host);
  }
  static constexpr std::int64_t length = (std::int64_t(1) << 28) / std::int64_t(sizeof(T)) - 39;

  /// Elements from `offset` on, round and round.
  void fill(void *to, std::int64_t count, std::int64_t offset) const {
    for (std::int64_t done = 0, n; done < count; done += n, offset += n) {
      n = std::min(count - done, length - offset % length);
      gpu.driver().check(
          gpu.driver().cuMemcpyDtoDAsync(reinterpret_cast<std::uint64_t>(static_cast<T *>(to) + done),
                                         reinterpret_cast<std::uint64_t>(device.data() + offset % length),
                                         static_cast<std::size_t>(n) * sizeof(T), gpu.native()),
          "cuMemcpyDtoDAsync");
    }
  }
  double at(std::int64_t i) const { return number(host[static_cast<std::size_t>(i % length)]); }
  /// Elements i to i + to.size().
  void read(std::int64_t i, std::span<double> to) const {
    i %= length;
    for (double &v : to) {
      v = number(host[static_cast<std::size_t>(i)]);
      if (++i == length)
        i = 0;
    }
  }

private:
  Gpu &gpu;
  std::vector<T> host;
  sectile::Buffer<T> device;
};

/// One input in `sets` versions; the host sees version 0 unless it asks for another.
template <class T> class Input {
public:
  Input(Gpu &gpu, const Pool<T> &pool, int sets, std::vector<std::int64_t> dims, std::int64_t seed)
      : pool(pool), seed(seed) {
    for (int s = 0; s < sets; ++s) {
      buffers.emplace_back(gpu.stream(), std::span<const std::int64_t>(dims));
      pool.fill(buffers.back().data(), buffers.back().size(), offset(s));
    }
    cols = dims.back();
  }
  sectile::Buffer<T> &operator[](std::size_t set) { return buffers[set]; }
  double at(std::int64_t i) const { return pool.at(offset(0) + i); }
  /// Row r of the last axis.
  std::vector<double> row(std::int64_t r, int set = 0) const {
    std::vector<double> v(static_cast<std::size_t>(cols));
    pool.read(offset(set) + r * cols, v);
    return v;
  }

private:
  std::int64_t offset(int set) const { return seed * 8'388'617 + set * 20'000'003; }
  const Pool<T> &pool;
  std::int64_t seed, cols;
  std::vector<sectile::Buffer<T>> buffers;
};

template <class T>
std::vector<sectile::Buffer<T>> outputs(Gpu &gpu, int sets, std::vector<std::int64_t> dims) {
  std::vector<sectile::Buffer<T>> all;
  for (int s = 0; s < sets; ++s)
    all.emplace_back(gpu.stream(), std::span<const std::int64_t>(dims));
  return all;
}

/// An output of set 0 and what it should hold.
class Check {
public:
  virtual ~Check() = default;
  virtual void poison() = 0;
  /// Relative Frobenius error on the sampled rows; infinite if it is over the output's own tolerance.
  virtual double error() = 0;
};

/// An output as rows x cols, compared on every 16th row at least (fewer of long vectors: an odd step, so that
/// every place within a tile of rows is met), with references in double that are computed once.
template <class T> class RowCheck final : public Check {
public:
  /// `reference(r, want)` writes row r.
  RowCheck(Gpu &gpu, sectile::Buffer<T> &result, std::int64_t rows, double tolerance,
           std::function<void(std::int64_t, std::span<double>)> reference, std::int64_t most = 2048)
      : gpu(gpu), result(result), cols(result.size() / rows), tolerance(tolerance),
        reference(std::move(reference)) {
    std::int64_t step = rows <= 512 ? 1 : std::max(std::min<std::int64_t>(16, rows / 512), rows / most);
    for (std::int64_t r = 0; r<rows; r += step> 16 ? step | 1 : step)
      sampled.push_back(r);
    if (sampled.back() != rows - 1)
      sampled.push_back(rows - 1);
  }
  void poison() override { result.fillBytes(0xFF); }
  double error() override {
    auto count = static_cast<std::int64_t>(sampled.size());
    if (want.empty()) {
      want.resize(static_cast<std::size_t>(count * cols));
      parallel(count, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          reference(sampled[static_cast<std::size_t>(i)], wantedRow(i));
      });
    }
    std::vector<T> got = download();
    double e = relativeError(count, [&](std::int64_t i, double &errors, double &references) {
      std::span<const double> row = wantedRow(i);
      for (std::int64_t c = 0; c < cols; ++c) {
        double w = row[static_cast<std::size_t>(c)],
               d = number(got[static_cast<std::size_t>(i * cols + c)]) - w;
        errors += d * d;
        references += w * w;
      }
    });
    return e <= tolerance ? e : std::numeric_limits<double>::infinity();
  }

private:
  std::span<double> wantedRow(std::int64_t i) {
    return {want.data() + i * cols, static_cast<std::size_t>(cols)};
  }
  /// The sampled rows, gathered on the device first.
  std::vector<T> download() {
    auto count = static_cast<std::int64_t>(sampled.size());
    if (!gathered)
      gathered.emplace(gpu.stream(), count * cols);
    for (std::int64_t i = 0; i < count; ++i)
      gpu.driver().check(
          gpu.driver().cuMemcpyDtoDAsync(
              reinterpret_cast<std::uint64_t>(gathered->data() + i * cols),
              reinterpret_cast<std::uint64_t>(result.data() + sampled[static_cast<std::size_t>(i)] * cols),
              static_cast<std::size_t>(cols) * sizeof(T), gpu.native()),
          "cuMemcpyDtoDAsync");
    return gathered->toHost();
  }

  Gpu &gpu;
  sectile::Buffer<T> &result;
  std::int64_t cols;
  double tolerance;
  std::function<void(std::int64_t, std::span<double>)> reference;
  std::vector<std::int64_t> sampled;
  std::vector<double> want;
  std::optional<sectile::Buffer<T>> gathered;
};
using Checks = std::vector<std::unique_ptr<Check>>;

/// An output that is small enough to be compared whole; its reference comes at once.
template <class T> class WholeCheck final : public Check {
public:
  WholeCheck(sectile::Buffer<T> &result, double tolerance, std::function<std::vector<double>()> reference)
      : result(result), tolerance(tolerance), reference(std::move(reference)) {}
  void poison() override { result.fillBytes(0xFF); }
  double error() override {
    if (want.empty())
      want = reference();
    std::vector<T> got = result.toHost();
    double e = relativeError(1, [&](std::int64_t, double &errors, double &references) {
      for (std::size_t i = 0; i < got.size(); ++i) {
        double d = number(got[i]) - want[i];
        errors += d * d;
        references += want[i] * want[i];
      }
    });
    return e <= tolerance ? e : std::numeric_limits<double>::infinity();
  }

private:
  sectile::Buffer<T> &result;
  double tolerance;
  std::function<std::vector<double>()> reference;
  std::vector<double> want;
};

/// Column sums in double: `addRow(r, total)` adds row r.
template <class F> std::vector<double> sumRows(std::int64_t rows, std::size_t cols, F addRow) {
  std::vector<double> total(cols);
  std::mutex mutex;
  parallel(rows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> part(cols);
    for (std::int64_t r = begin; r < end; ++r)
      addRow(r, std::span<double>(part));
    std::lock_guard<std::mutex> lock(mutex);
    for (std::size_t i = 0; i < cols; ++i)
      total[i] += part[i];
  });
  return total;
}

/// The suite while it runs.
class MemoryBench {
public:
  MemoryBench(Gpu &gpu, Output &out, const Options &options);
  Gpu &gpu;
  Output &out;
  const Options &options;

  /// Pools are made when the first case needs them.
  const Pool<sectile::bf16> &noise();
  const Pool<sectile::bf16> &wideNoise(); ///< standard deviation 2, for logits
  const Pool<sectile::f32> &noiseF32();

  /// Runs a case with the outputs `checks`. `ratio`: moved bytes of at least 64 MB are also compared with the
  /// driver's copy of as many bytes, taking turns.
  Best run(Case c, Checks checks, bool ratio);
  /// Runs `body` if the op is wanted and the budget lasts; what it throws is a failure of the op.
  void attempt(const std::string &op, const std::string &shape, const std::function<void()> &body);

private:
  void ratioToCopy(const LineInfo &info, int sets, const std::vector<Call> &calls);
  std::unique_ptr<Pool<sectile::bf16>> normalPool, widePool;
  std::unique_ptr<Pool<sectile::f32>> f32Pool;
  std::set<std::int64_t> copiesPrinted;
  double endMicros;
  bool saidOver = false;
};

/// Every combination of the values, each with every number of warps (0: the compiler's choice), behind the
/// default.
std::vector<sectile::Config> product(std::vector<std::pair<const char *, std::vector<int>>> picks,
                                     std::vector<int> warps);
/// For kernels of whole rows: rows per tile BR, warps, and for long rows clusters, such that a thread has 8
/// to 64 elements; behind the default.
std::vector<sectile::Config> wholeRows(std::int64_t cols);
/// For sums over rows: tiles BR x BC, warps, blocks that share the rows; behind the default.
std::vector<sectile::Config> columnStrips();

/// A candidate of a kernel: one call per set, `prepare(config, set)`.
template <class F>
Candidate candidate(const sectile::Config &config, int sets, F prepare, const char *prefix = "") {
  return {prefix + nameOf(config), [=] {
            std::vector<Call> calls;
            for (int s = 0; s < sets; ++s)
              calls.emplace_back(prepare(config, static_cast<std::size_t>(s)));
            return calls;
          }};
}
template <class F>
void addCandidates(Case &c, const std::vector<sectile::Config> &configs, F prepare, const char *prefix = "") {
  for (const sectile::Config &config : configs)
    c.candidates.push_back(candidate(config, c.sets, prepare, prefix));
}

/// The first `quick` elements in quick mode, else all.
template <class V> V pickShapes(const Options &options, V all, std::size_t quick = 1) {
  if (options.quick)
    all.resize(std::min(all.size(), quick));
  return all;
}

using Shape = std::pair<std::int64_t, std::int64_t>; ///< rows, columns
std::string str(Shape shape);

// The cases.
void copyAndAddCases(MemoryBench &bench);
void softmaxCases(MemoryBench &bench);
void normCases(MemoryBench &bench);
void normBackwardCases(MemoryBench &bench);
void crossEntropyCases(MemoryBench &bench);
void fusionCases(MemoryBench &bench);
void quantiseCases(MemoryBench &bench);
void moveAndSumCases(MemoryBench &bench);
void viewCases(MemoryBench &bench);

} // namespace bench
