// SPDX-License-Identifier: Apache-2.0
/// \file Tuning: the best configuration of a kernel for these arguments, measured on the device and kept.
#pragma once

#include <sectile/Device.h>
#include <sectile/Kernel.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

/// A condition that candidates must meet; its name is what messages call it.
struct TuneConstraint {
  std::string name;                         ///< "BM * BN <= 32768"
  std::function<bool(const Config &)> holds;
};

/// How far a tuning run has come.
struct TuneProgress {
  std::string stage;       ///< "space", "timing", "checking"
  std::size_t compiled = 0, measured = 0, candidates = 0;
  double seconds = 0, secondsLeft = 0;
  std::string best;        ///< the configuration that leads
  double bestMicros = 0;   ///< 0: none yet
};

/// What tuning may do. All fields have defaults: `tune(matmul, {.seconds = 2}, A, B, C)`.
struct TuneOptions {
  double seconds = 1;      ///< wall clock; the search ends earlier when no better candidate is likely
  bool exhaustive = false; ///< every candidate is compiled and timed, whatever it takes
  bool verify = true;      ///< the finalists' results are compared before one is chosen
  bool verifyAll = false;  ///< those of every candidate that was timed
  /// Times in this process, on the arguments themselves; every tensor that the kernel writes is saved and restored.
  bool inPlace = false;
  bool again = false;      ///< what the record says is not taken
  bool store = true;       ///< the choice is kept in the record
  std::vector<TuneConstraint> constraints = {};
  std::map<std::string, std::vector<int>> only = {}; ///< values to try, by name: {{"BM", {64, 128}}, {"warps", {8}}}
  Config fixed = {};                           ///< numbers set by hand, which are not searched
  std::optional<Device> device = {};           ///< default: Device::best()
  double hangSeconds = 5;                      ///< a candidate that shows no sign of life for so long is given up
  int threads = 0;                             ///< that compile; 0: one per processor
  std::function<void(const TuneProgress &)> progress = {};
  std::source_location where = std::source_location::current();
};

/// What became of one candidate.
struct TunedCandidate {
  enum class State {
    measured,
    wrong,    ///< its results differ from those of the default configuration
    failed,   ///< did not compile, faulted or hung
    dropped,  ///< ruled out before it was compiled
    skipped   ///< not looked at: the budget ended, or the model and the measurements spoke against it
  } state = State::skipped;
  std::string text;   ///< "BK=64 BM=128 BN=256 warps=8"; empty: the numbers a kernel without picks has
  std::string reason; ///< why it is out; empty if measured
  Config config;
  bool isDefault = false;
  double predictedMicros = 0;                          ///< by the model; 0: none
  double micros = 0, lowMicros = 0, highMicros = 0;    ///< median with its interval; 0: not measured
  int samples = 0;
};
SECTILE_API std::string_view name(TunedCandidate::State state);

struct TuneResult {
  Config config;      ///< the choice: `kernel.with(result.config)`
  std::string text;   ///< the same as text
  double micros = 0, lowMicros = 0, highMicros = 0;
  double defaultMicros = 0; ///< of the default configuration; 0: not measured
  double boundMicros = 0;   ///< no schedule can be quicker on this GPU; 0 on the interpreter
  double flops = 0, bytes = 0; ///< of a launch: of its products; of every argument once, as far as programs touch it
  double peakTflops = 0, memoryGBs = 0; ///< what the bound is made of: of the products' types, of the memory; 0 on the interpreter
  bool noisy = false;       ///< the intervals never became narrow: not stored as final
  bool fromRecord = false;  ///< nothing was measured: the record knew
  bool stored = false;
  std::string device, endedBy; ///< why the search ended: "budget", "no better one is likely", "all measured"
  std::size_t tried = 0, compiled = 0; ///< candidates timed; candidates compiled
  double seconds = 0;
  std::vector<TunedCandidate> candidates; ///< all of the space, the quickest first; fromRecord: those that the record has

  /// The candidates as a table, at most `rows` that were measured, and how many went why.
  SECTILE_API std::string table(std::size_t rows = 12) const;
  SECTILE_API std::string json() const;
};

namespace detail {
SECTILE_API TuneResult tune(const KernelDesc &kernel, std::span<const KernelArg> args, const TuneOptions &options);
} // namespace detail

/// Finds the configuration of `kernel` that is quickest for these arguments and keeps it in the record, where launches
/// find it. Candidates run in a process of their own, on generated arguments with the same shapes, strides and alignment;
/// tensors of integers are copied, for they may be indices. The arguments are not touched (but see inPlace).
///
/// UserErrors: [tune_empty], [tune_contradiction], [tune_only], [tune_constraint] for a space with nothing in it,
/// [tune_capture] while a stream is being captured, [tune_worker] when the worker program cannot be started,
/// [tune_none] when no candidate could be measured, and those of the device.
template <class K, class... A> TuneResult tune(const K &kernel, const TuneOptions &options, A &&...args) {
  const auto packed = kernel.pack(std::forward<A>(args)...);
  return detail::tune(kernel.desc(), packed, options);
}

} // namespace sectile
