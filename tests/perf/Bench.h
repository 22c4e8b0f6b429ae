// SPDX-License-Identifier: Apache-2.0
/// \file The measuring protocol, checking, and the lines that are printed. docs/performance.md states the
/// protocol.
#pragma once

#include "tests/perf/BenchDriver.h"

#include <sectile/sectile.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace bench {

struct Options {
  std::vector<std::string> suites;  ///< of memory, gemm, latency
  std::vector<std::string> only;    ///< parts of op names; empty: all
  std::vector<std::string> configs; ///< of products, instead of the lists: "BM=128,warps=8"
  bool turns = false; ///< after a line, a line "again" on standard input measures again, any other one goes on
  bool quick = false, tune = true, candidates = false, allowNoGpu = false;
  int rounds = 7;    ///< of ratios, at least 5
  double budget = 0; ///< seconds of the memory and the gemm suite; later shapes are left out. 0: no limit
  std::string out, program;
  bool wants(const std::string &op) const;
};

/// Where lines go: JSON to standard output and --out, remarks ("# ...") to standard output. Counts what
/// failed.
class Output {
public:
  explicit Output(const std::string &file);
  ~Output();
  void line(const nlohmann::ordered_json &json);
  void say(const std::string &text);
  /// A measurement that could not be made: said, and counted.
  void failed(const std::string &what, const std::string &why);
  int failures() const { return failureCount; }

private:
  std::FILE *file = nullptr;
  int failureCount = 0;
};

struct Timing {
  std::vector<double> millis; ///< sorted
  double hostMicros = -1;     ///< to enqueue one call; -1: does not apply
  explicit Timing(std::vector<double> samples, double hostMicros = -1);
  double median() const;
  double min() const { return millis.front(); }
};

/// What a line says besides its times.
struct LineInfo {
  std::string suite = {}, op = {}, dtype = {}, shape = {}, impl = "sectile", notes = {};
  double flops = 0, bytes = 0; ///< 0: no rate
};
void printTiming(Output &out, const LineInfo &info, const Timing &timing);
/// A ratio per round, printed as their median with the spread; `meaning` goes to the notes.
void printRatio(Output &out, const LineInfo &info, std::vector<double> perRound, const std::string &meaning);

double nowMicros();

/// A GPU with what the protocol needs on it: the buffer whose writing empties L2, the kernel that keeps it
/// busy.
class Gpu {
public:
  Gpu();
  const sectile::Stream &stream() const { return ours; }
  CUstream_st *native() const { return ours.native(); }
  const Driver &driver() const { return api; }
  const sectile::Device &device() const { return ours.device(); }

  void synchronize() const { ours.synchronize(); }
  void flush();
  void spin(double micros);
  /// One sample each: flush, spin, event, call(i % sets), event. Milliseconds, unsorted.
  std::vector<double> samples(const std::function<void(int)> &call, int count, int sets, double spinMicros);
  double hostMicros(const std::function<void(int)> &call, int sets) const;
  /// The full protocol: warm-up, clocks up, at least 50 samples or 200 ms (half when quick).
  Timing measure(const std::function<void(int)> &call, int sets, bool quick);
  /// A rough median for choosing among candidates and for rounds of a ratio.
  double roughMillis(const std::function<void(int)> &call, int sets, int count = 7);

private:
  void launch(const BareKernel &kernel, unsigned blocks, void **params);
  Driver api;
  sectile::Stream ours;
  sectile::Buffer<std::uint8_t> flushed;
  BareKernel flushKernel, spinKernel;
  std::uint32_t flushValue = 0;
};

/// Enqueues one operation, of one launch or several.
using Call = std::function<void(const sectile::Stream &)>;

/// One way to run an operation: its name in the notes, and what makes a call per set.
struct Candidate {
  std::string name;
  std::function<std::vector<Call>()> prepare;
};
/// "BM=64 warps=8", or "default".
std::string nameOf(const sectile::Config &config);
/// "BM=128,warps=8": numbers of the kernel, and fields of Config.
sectile::Config parseConfig(const std::string &text);

/// One operation at one shape with several ways to run it.
struct Case {
  LineInfo info;
  int sets = 1;
  double tolerance = 0;
  std::function<void()> poison; ///< fills set 0's output with NaN
  std::function<double()>
      error; ///< relative Frobenius error of set 0's output; infinite for a wrong element or NaN
  std::vector<Candidate> candidates; ///< the default first
};
/// The best candidate of a case.
struct Best {
  std::vector<Call> calls; ///< one per set; empty when no candidate is right
  std::string name;
};
/// Compiles the candidates on all processors, checks every one, times the right ones roughly, measures the
/// best by the full protocol and prints its line. That there is none is counted as a failure.
Best runCase(Gpu &gpu, Output &out, const Options &options, Case c);

/// Runs f(begin, end) on all processors' threads over [0, count).
template <class F> void parallel(std::int64_t count, F f) {
  std::int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> all;
  for (std::int64_t t = 0; t < threads; ++t)
    all.emplace_back([=, &f] { f(count * t / threads, count * (t + 1) / threads); });
  for (std::thread &t : all)
    t.join();
}

/// Two standard normal numbers of a counter: the same for every number of threads.
void normalPair(std::uint64_t seed, std::uint64_t counter, float &a, float &b);

template <class T> std::vector<T> normal(std::int64_t count, std::uint64_t seed) {
  std::vector<T> v(static_cast<std::size_t>(count));
  parallel((count + 1) / 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float a, b;
      normalPair(seed, static_cast<std::uint64_t>(i), a, b);
      v[static_cast<std::size_t>(2 * i)] = T(a);
      if (2 * i + 1 < count)
        v[static_cast<std::size_t>(2 * i + 1)] = T(b);
    }
  });
  return v;
}

/// Relative Frobenius error over rows: `row(r, sumSquaredError, sumSquaredReference)` adds one row's sums;
/// infinite if any sum is not a number.
template <class F> double relativeError(std::int64_t rows, F row) {
  std::mutex mutex;
  double errors = 0, references = 0;
  parallel(rows, [&](std::int64_t begin, std::int64_t end) {
    double e = 0, r = 0;
    for (std::int64_t i = begin; i < end; ++i)
      row(i, e, r);
    std::lock_guard<std::mutex> lock(mutex);
    errors += e;
    references += r;
  });
  double result = std::sqrt(errors / std::max(references, 1e-300));
  return std::isnan(result) ? std::numeric_limits<double>::infinity() : result;
}

// The suites.
void memorySuite(Gpu &gpu, Output &out, const Options &options);
void gemmSuite(Gpu &gpu, Output &out, const Options &options);
/// Without a GPU: every kind of product of the gemm suite once, small, on the interpreter; and that its check
/// finds a wrong element.
void gemmChecks(Output &out, const Options &options);
void attentionSuite(Gpu &gpu, Output &out, const Options &options);
void decodeSuite(Gpu &gpu, Output &out, const Options &options);
/// Without a GPU: both once, small, on the interpreter, and that their checks find a wrong element.
void attentionChecks(Output &out, const Options &options);
/// Launches against the bare driver, and graphs.
void launchSuite(Gpu &gpu, Output &out, const Options &options);
/// First runs of kernels, in processes of their own.
void firstRunSuite(Output &out, const Options &options);
/// The part of the latency suite that needs no GPU: times of cold compiles.
void compileSuite(Output &out, const Options &options);
/// What a child of the latency suite does: prints the times of first runs, one `NAME MILLIS` a line.
int firstRuns(const std::string &kind);

/// Heap allocations of this thread while counting; -1 where they cannot be counted (sanitizers).
void countAllocations(bool on);
std::int64_t allocationCount();

} // namespace bench
