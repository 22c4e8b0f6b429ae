// SPDX-License-Identifier: Apache-2.0
/// \file What the attention and decode suites share: rows, references in double, their measuring.
#pragma once

#include "tests/perf/Bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace bench {

/// One operation at one shape on one stream; it owns its memory.
struct Row {
  int sets = 1;
  std::function<void()> poison;      ///< fills set 0's result with bytes 0xFF
  std::function<double(bool)> error; ///< of set 0's result; with true, of that with one wrong element
  std::function<Call(const sectile::Config &, int set)> prepare;
};

/// Rows of results by softmax(scale q k^T) v in double. q(r, x), k(r, j, x) and v(r, j, x) are elements for
/// row r, which sees keys(r) keys by score(r, j, s), -inf where it does not.
template <class Q, class K, class V, class Keys, class Score>
std::vector<double> references(std::int64_t rows, std::int64_t d, double scale, Q q, K k, V v, Keys keys,
                               Score score) {
  std::vector<double> all(static_cast<std::size_t>(rows * d));
  parallel(rows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> s, mine(static_cast<std::size_t>(d));
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t n = keys(r);
      s.assign(static_cast<std::size_t>(n), 0);
      for (std::int64_t x = 0; x < d; ++x)
        mine[static_cast<std::size_t>(x)] = q(r, x) * scale;
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < d; ++x)
          sum += mine[static_cast<std::size_t>(x)] * k(r, j, x);
        s[static_cast<std::size_t>(j)] = score(r, j, sum);
        top = std::max(top, s[static_cast<std::size_t>(j)]);
      }
      double *out = &all[static_cast<std::size_t>(r * d)];
      for (std::int64_t j = 0; j < n; ++j) {
        const double p = std::exp(s[static_cast<std::size_t>(j)] - top);
        total += p;
        for (std::int64_t x = 0; x < d; ++x)
          out[x] += p * v(r, j, x);
      }
      for (std::int64_t x = 0; x < d; ++x)
        out[x] /= total;
    }
  });
  return all;
}

/// Relative Frobenius error of the rows of `got` that start at `starts`; with `spoil` one element is off.
template <class T>
double errorOf(const std::vector<T> &got, const std::vector<std::int64_t> &starts, std::int64_t d,
               const std::vector<double> &want, bool spoil) {
  return relativeError(static_cast<std::int64_t>(starts.size()), [&](std::int64_t r, double &e, double &sum) {
    for (std::int64_t x = 0; x < d; ++x) {
      const double w = want[static_cast<std::size_t>(r * d + x)];
      double g = double(got[static_cast<std::size_t>(starts[static_cast<std::size_t>(r)] + x)]);
      if (spoil && r == 0 && x == 0)
        g += 100;
      e += (g - w) * (g - w);
      sum += w * w;
    }
  });
}

/// Set i of a tensor holds the same numbers as the others, in memory of its own.
template <class T>
std::vector<sectile::Buffer<T>> copies(const sectile::Stream &stream, const std::vector<T> &values,
                                       int sets) {
  std::vector<sectile::Buffer<T>> all;
  for (int i = 0; i < sets; ++i)
    all.emplace_back(stream, static_cast<std::int64_t>(values.size())).copyFrom(values);
  return all;
}

/// Tunes and measures a row over these configurations. Its calls need the row's memory.
inline Best measure(Gpu &gpu, Output &out, const Options &options, Case test, const Row &row,
                    const std::vector<sectile::Config> &configs) {
  test.sets = row.sets;
  test.poison = row.poison;
  test.error = [&] { return row.error(false); };
  for (const sectile::Config &config : configs)
    test.candidates.push_back({nameOf(config), [&, config] {
                                 std::vector<Call> calls;
                                 for (int i = 0; i < row.sets; ++i)
                                   calls.push_back(row.prepare(config, i));
                                 return calls;
                               }});
  return runCase(gpu, out, options, test);
}

/// A row that was measured and stays to be compared with.
struct Measured {
  Row row;
  Best best;
};
/// Prints time of one over time of the other, each times its factor, by turns.
inline void compareTimes(Gpu &gpu, Output &out, const Options &options, const LineInfo &info,
                         const Measured &one, const Measured &other, double factor,
                         const std::string &meaning) {
  if (one.best.calls.empty() || other.best.calls.empty())
    return;
  std::vector<double> ratios;
  auto millis = [&](const Measured &m) {
    return gpu.roughMillis([&](int set) { m.best.calls[static_cast<std::size_t>(set)](gpu.stream()); },
                           m.row.sets);
  };
  for (int round = 0; round < options.rounds; ++round) {
    const double a = millis(one), b = millis(other);
    ratios.push_back(a / b * factor);
  }
  printRatio(out, info, ratios, meaning);
}

/// Runs `body` for each of the suite's rows that is asked for, within the budget; failures are said and
/// counted.
class SuiteRows {
public:
  SuiteRows(Output &out, const Options &options)
      : out(out), options(options), end(nowMicros() + options.budget * 1e6) {}
  template <class F>
  void each(const std::string &op, const std::string &dtype, const std::string &shape, F body) {
    if (!options.wants(fmt::format("{}/{}/{}", op, dtype, shape)))
      return;
    const std::string what = fmt::format("{} {} {}", op, dtype, shape);
    if (options.budget > 0 && nowMicros() > end) {
      if (!saidOver)
        out.say(fmt::format("the budget of {} s is used up: from {} on, shapes are left out", options.budget,
                            what));
      saidOver = true;
      return;
    }
    try {
      body();
    } catch (const std::exception &e) {
      out.failed(what, e.what());
    }
  }

private:
  Output &out;
  const Options &options;
  double end;
  bool saidOver = false;
};

/// Checks a row once on the interpreter, and that a wrong element is noticed.
inline void checkRow(Output &out, const std::string &what, const Row &row, const sectile::Stream &stream,
                     double tolerance) {
  row.poison();
  row.prepare(sectile::Config(), 0)(stream);
  stream.synchronize();
  const double error = row.error(false), spoiled = row.error(true);
  if (!(error <= tolerance))
    out.failed(what, fmt::format("relative error {:.3e} is over {:.1e}", error, tolerance));
  if (spoiled <= tolerance)
    out.failed(what, fmt::format("a wrong element goes unnoticed: relative error {:.3e}", spoiled));
}

// Parts of the suites, in files of their own.
void variantRows(Gpu &gpu, Output &out, const Options &options, SuiteRows &rows);
/// Small on the interpreter; how many were checked.
int variantChecks(Output &out, SuiteRows &rows, const sectile::Stream &stream);
int decodeChecks(Output &out, SuiteRows &rows, const sectile::Stream &stream);

} // namespace bench
