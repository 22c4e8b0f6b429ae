// SPDX-License-Identifier: Apache-2.0
/// \file Kernels whose speed is that of memory. Rates count the fewest bytes: every input once, every output
/// once.
#include "tests/perf/Bench.h"
#include "tests/perf/BenchKernels.h"

#include <fmt/format.h>

#include <algorithm>

namespace bench {
namespace {

/// How many sets of inputs and outputs rotate from sample to sample.
int setsFor(double bytes) { return bytes < (300 << 20) ? 3 : 2; }

template <class T> struct Vectors {
  std::vector<Buffer<T>> buffers;
  std::vector<T> host; ///< of set 0
  Vectors(Gpu &gpu, int sets, std::vector<std::int64_t> dims, std::uint64_t seed) {
    std::int64_t count = 1;
    for (std::int64_t d : dims)
      count *= d;
    for (int s = 0; s < sets; ++s) {
      buffers.emplace_back(gpu.stream(), std::span<const std::int64_t>(dims));
      std::vector<T> values = normal<T>(count, seed * 16 + static_cast<std::uint64_t>(s));
      buffers.back().copyFrom(values);
      if (s == 0)
        host = std::move(values);
    }
  }
};
template <class T> std::vector<Buffer<T>> outputs(Gpu &gpu, int sets, std::vector<std::int64_t> dims) {
  std::vector<Buffer<T>> all;
  for (int s = 0; s < sets; ++s)
    all.emplace_back(gpu.stream(), std::span<const std::int64_t>(dims));
  return all;
}

/// Error of an elementwise result against `want(i)` in double, in slices of 2^16 elements.
template <class T, class F> double elementError(const Buffer<T> &result, F want) {
  std::vector<T> got = result.toHost();
  constexpr std::int64_t slice = 1 << 16;
  const std::int64_t count = result.size();
  return relativeError((count + slice - 1) / slice, [&](std::int64_t s, double &errors, double &references) {
    for (std::int64_t i = s * slice; i < std::min(count, (s + 1) * slice); ++i) {
      double w = want(i), e = double(got[static_cast<std::size_t>(i)]) - w;
      errors += e * e;
      references += w * w;
    }
  });
}

std::vector<Config> blockCandidates() {
  std::vector<Config> all{Config()};
  for (int b : {1024, 2048, 4096, 8192})
    for (int warps : {4, 8}) {
      Config c;
      c.set("B", b).warps = warps;
      all.push_back(c);
    }
  return all;
}

void copyCase(Gpu &gpu, Output &out, const Options &options, std::int64_t n) {
  const double bytes = 2.0 * 2 * static_cast<double>(n);
  const int sets = setsFor(bytes);
  Vectors<bf16> x(gpu, sets, {n}, 1);
  std::vector<Buffer<bf16>> y = outputs<bf16>(gpu, sets, {n});
  Case c;
  c.info = {.suite = "memory", .op = "copy", .dtype = "bf16", .shape = fmt::format("{}", n), .bytes = bytes};
  c.sets = sets;
  c.tolerance = 0;
  c.candidates = blockCandidates();
  c.poison = [&] { y[0].fillBytes(0xFF); };
  c.error = [&] {
    return elementError(y[0], [&](std::int64_t i) { return double(x.host[static_cast<std::size_t>(i)]); });
  };
  c.prepare = [&](const Config &config) {
    std::vector<Prepared> calls;
    for (std::size_t s = 0; s < y.size(); ++s)
      calls.push_back(copyBf16.with(config).prepare(x.buffers[s], y[s]));
    return calls;
  };
  runCase(gpu, out, options, c);
}

/// Addition; in f32 also against the driver's copy of as many bytes, alternating.
template <class T, class K>
void addCase(Gpu &gpu, Output &out, const Options &options, const K &add, std::int64_t n, const char *dtype,
             double tolerance) {
  const double bytes = 3.0 * sizeof(T) * static_cast<double>(n);
  const int sets = setsFor(bytes);
  Vectors<T> x(gpu, sets, {n}, 2), y(gpu, sets, {n}, 3);
  std::vector<Buffer<T>> z = outputs<T>(gpu, sets, {n});
  Case c;
  c.info = {.suite = "memory", .op = "add", .dtype = dtype, .shape = fmt::format("{}", n), .bytes = bytes};
  c.sets = sets;
  c.tolerance = tolerance;
  c.candidates = blockCandidates();
  c.poison = [&] { z[0].fillBytes(0xFF); };
  c.error = [&] {
    return elementError(z[0], [&](std::int64_t i) {
      return double(x.host[static_cast<std::size_t>(i)]) + double(y.host[static_cast<std::size_t>(i)]);
    });
  };
  c.prepare = [&](const Config &config) {
    std::vector<Prepared> calls;
    for (std::size_t s = 0; s < z.size(); ++s)
      calls.push_back(add.with(config).prepare(x.buffers[s], y.buffers[s], z[s]));
    return calls;
  };
  std::vector<Prepared> calls = runCase(gpu, out, options, c);
  if (calls.empty() || !std::is_same_v<T, f32>)
    return;

  const auto half =
      static_cast<std::int64_t>(bytes / 2); // a copy reads half of its bytes and writes the other
  std::vector<Buffer<std::uint8_t>> to = outputs<std::uint8_t>(gpu, sets, {half}), from;
  for (int s = 0; s < sets; ++s) {
    std::vector<f32> noise = normal<f32>(half / 4, 40 + static_cast<std::uint64_t>(s));
    from.emplace_back(gpu.stream(), half);
    from.back().copyFrom(
        std::span(reinterpret_cast<const std::uint8_t *>(noise.data()), static_cast<std::size_t>(half)));
  }
  const Driver &driver = gpu.driver();
  auto copy = [&](int s) {
    auto i = static_cast<std::size_t>(s);
    driver.check(driver.cuMemcpyDtoDAsync(reinterpret_cast<std::uint64_t>(to[i].data()),
                                          reinterpret_cast<std::uint64_t>(from[i].data()),
                                          static_cast<std::size_t>(half), gpu.native()),
                 "cuMemcpyDtoDAsync");
  };
  auto run = [&](int s) { calls[static_cast<std::size_t>(s)](gpu.stream()); };
  LineInfo info{.suite = "memory",
                .op = "copy_driver",
                .dtype = "bytes",
                .shape = fmt::format("{}", half),
                .impl = "cuMemcpyDtoDAsync",
                .bytes = bytes};
  printTiming(out, info, gpu.measure(copy, sets, options.quick));
  std::vector<double> ratios;
  for (int r = 0; r < options.rounds; ++r) {
    double first = gpu.roughMillis(r % 2 ? std::function<void(int)>(copy) : run, sets, 25);
    double second = gpu.roughMillis(r % 2 ? std::function<void(int)>(run) : copy, sets, 25);
    ratios.push_back(r % 2 ? first / second : second / first);
  }
  printRatio(out, {.suite = "memory", .op = "ratio", .dtype = dtype, .shape = fmt::format("add_{}/copy", n)},
             ratios, "rate of the addition over that of the driver's copy of the same bytes");
}

void softmaxCase(Gpu &gpu, Output &out, const Options &options, std::int64_t rows, std::int64_t cols) {
  const double bytes = 2.0 * 2 * static_cast<double>(rows * cols);
  const int sets = setsFor(bytes);
  Vectors<bf16> x(gpu, sets, {rows, cols}, 4);
  std::vector<Buffer<bf16>> y = outputs<bf16>(gpu, sets, {rows, cols});
  Case c;
  c.info = {.suite = "memory",
            .op = "softmax",
            .dtype = "bf16",
            .shape = fmt::format("{}x{}", rows, cols),
            .bytes = bytes};
  c.sets = sets;
  c.tolerance = 6e-3;
  c.poison = [&] { y[0].fillBytes(0xFF); };
  c.error = [&] {
    std::vector<bf16> got = y[0].toHost();
    return relativeError(rows, [&](std::int64_t r, double &errors, double &references) {
      const bf16 *in = x.host.data() + r * cols, *result = got.data() + r * cols;
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t i = 0; i < cols; ++i)
        top = std::max(top, double(in[i]));
      for (std::int64_t i = 0; i < cols; ++i)
        total += std::exp(double(in[i]) - top);
      for (std::int64_t i = 0; i < cols; ++i) {
        double want = std::exp(double(in[i]) - top) / total, e = double(result[i]) - want;
        errors += e * e;
        references += want * want;
      }
    });
  };
  const bool isWhole = cols <= 16384;
  for (int warps : {0, 4, 8, 16})
    for (int v : isWhole ? std::vector<int>{1, 2, 4} : std::vector<int>{4096, 8192}) {
      Config config;
      config.set(isWhole ? "BR" : "BC", v).warps = warps;
      c.candidates.push_back(config);
    }
  c.prepare = [&, isWhole](const Config &config) {
    std::vector<Prepared> calls;
    for (std::size_t s = 0; s < y.size(); ++s)
      calls.push_back(isWhole ? softmax.with(config).prepare(x.buffers[s], y[s])
                              : softmaxLoop.with(config).prepare(x.buffers[s], y[s]));
    return calls;
  };
  runCase(gpu, out, options, c);
}

} // namespace

void memorySuite(Gpu &gpu, Output &out, const Options &options) {
  auto attempt = [&](const std::string &op, const std::string &shape, auto body) {
    if (!options.wants(op))
      return;
    try {
      body();
    } catch (const std::exception &e) {
      out.failed(op + " " + shape, e.what());
    }
  };
  auto pick = [&](auto all, std::size_t quick) {
    if (options.quick)
      all.resize(quick);
    return all;
  };
  for (std::int64_t n : pick(std::vector<std::int64_t>{1 << 28, 1 << 25}, 1))
    attempt("copy", std::to_string(n), [&] { copyCase(gpu, out, options, n); });
  attempt("add", "f32", [&] { addCase<f32>(gpu, out, options, addF32, 1 << 27, "fp32", 1e-6); });
  for (std::int64_t n : pick(std::vector<std::int64_t>{1 << 28, 1 << 25}, 1))
    attempt("add", std::to_string(n), [&] { addCase<bf16>(gpu, out, options, addBf16, n, "bf16", 5e-3); });
  using Shape = std::pair<std::int64_t, std::int64_t>;
  for (auto [rows, cols] : pick(std::vector<Shape>{{8192, 8192},
                                                   {4096, 12345},
                                                   {8192, 50257},
                                                   {32768, 1024},
                                                   {16384, 4096},
                                                   {4096, 256},
                                                   {4096, 32768},
                                                   {32768, 2048},
                                                   {32768, 8192}},
                                3))
    attempt("softmax", fmt::format("{}x{}", rows, cols), [&] { softmaxCase(gpu, out, options, rows, cols); });
}

} // namespace bench
