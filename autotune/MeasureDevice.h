// SPDX-License-Identifier: Apache-2.0
/// \file Where candidates run and are timed: a GPU, or the interpreter with a clock that a test may replace.
#pragma once

#include "autotune/TuneArgs.h"

#include <sectile/Device.h>
#include <sectile/Export.h>
#include <sectile/Stream.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::autotune {

/// What a test says that the interpreter's candidates do, instead of the clock. By the candidate's name; "" stands for
/// all others.
struct ScriptedCandidate {
  double micros = 100, noise = 0; ///< noise: relative, uniform to both sides
  std::string fault = {}; ///< "crash", "hang", "refuse", "wrong", "drift" (each sample takes longer than the last); or nothing
};
struct MeasureScript {
  std::map<std::string, ScriptedCandidate> candidates;
  unsigned seed = 1;
  std::string serialize() const;
  static MeasureScript deserialize(std::string_view text);
};

/// One device and the candidates loaded on it. Its methods throw UserError for what one candidate does wrong; after one
/// with the rule `device_fault` the device is lost. Not thread-safe.
class SECTILE_API MeasureDevice {
public:
  virtual ~MeasureDevice() = default;
  /// Numbers a set of arguments and lays them out on the device; another set of the same number is dropped.
  virtual void setArguments(int set, const GeneratedArgs &args) = 0;
  /// Takes a candidate: an artifact of the kernel cache (runtime::serialize), or, on the interpreter, a module as text.
  virtual void load(int id, const std::string &name, const std::string &code) = 0;
  virtual void unload(int id) = 0;
  /// Launches with cold caches; microseconds.
  virtual double sample(int id, int set) = 0;
  /// Launches for about this long, so that clocks are up.
  virtual void warm(int id, int set, double millis) = 0;
  /// Writes all regions of a set anew, launches once and waits.
  virtual void run(int id, int set) = 0;
  /// What the written regions of a set hold; empty vectors for the others.
  virtual std::vector<std::vector<std::uint8_t>> results(int set) = 0;
  /// Writes the written regions of a set anew.
  virtual void restore(int set) = 0;
};

/// `memory`: the caller's own regions, where results() and restore() work on copies made at setArguments; empty: memory
/// of the device's own.
SECTILE_API std::unique_ptr<MeasureDevice> makeGpuDevice(const Device &device, std::span<void *const> memory = {});
SECTILE_API std::unique_ptr<MeasureDevice> makeInterpreterDevice(std::shared_ptr<const MeasureScript> script,
                                                                 std::span<void *const> memory = {});

/// Fetches bytes of the caller's memory on this device, behind the work queued on its own stream so far; false where that
/// is no memory of it.
SECTILE_API bool copyFromDevice(const Device &device, const void *from, void *to, std::int64_t bytes);
/// A stream of this process is being captured, so that what tuning does on the device would break the capture.
SECTILE_API bool isCapturing(const Stream &stream);

} // namespace sectile::autotune
