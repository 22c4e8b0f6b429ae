// SPDX-License-Identifier: Apache-2.0
/// \file Runs candidates where they can do no harm, and tells what became of each.
///
/// The usual place is a worker process (Worker.cpp): a program of its own, started by posix_spawn and spoken to over a
/// socket, so that a candidate that faults, hangs or brings its process down costs that process alone; it is started
/// anew and goes on with the others. On request candidates run in this process, on the caller's memory.
#pragma once

#include "autotune/MeasureDevice.h"

#include <sectile/Device.h>
#include <sectile/Error.h>
#include <sectile/Export.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sectile::autotune {

/// Why a candidate cannot be used.
struct MeasureFailure {
  enum class Kind {
    refused, ///< the driver does not take it, or a launch is not possible; the device is as before
    faulted, ///< it brought the device or the process down
    hung,    ///< no sign of life for the time allowed
  } kind = Kind::refused;
  std::string text; ///< "faulted: CUDA_ERROR_ILLEGAL_ADDRESS ..."
};
template <class T> using Measured = std::variant<T, MeasureFailure>;
struct Done {};

/// Candidates by number, each with its name (the configuration's text). Methods that name no candidate throw UserError
/// [tune_worker] when there is no way to go on, and what the device says of the arguments, [out_of_memory] for example.
class SECTILE_API Measurer {
public:
  virtual ~Measurer() = default;
  virtual void setArguments(int set, const GeneratedArgs &args) = 0;
  virtual void add(int id, std::string name, std::string code) = 0;
  virtual void drop(int id) = 0;
  /// The time of one launch with cold caches, microseconds.
  virtual Measured<double> sample(int id, int set) = 0;
  virtual Measured<Done> warm(int id, int set, double millis) = 0;
  /// Runs once on the arguments as they were set, and keeps the results under the number `slot`.
  virtual Measured<Done> run(int id, int set, int slot) = 0;
  virtual Difference compare(int set, int slot, int reference) = 0;
  /// The kept results, by region.
  virtual std::vector<std::vector<std::uint8_t>> results(int slot) = 0;
  /// How often everything had to be started anew: kept results are gone each time.
  virtual int restarts() const = 0;
};

struct WorkerOptions {
  Device device;
  double hangSeconds = 5;
  std::string program;                         ///< empty: `sectile` beside this library
  std::shared_ptr<const MeasureScript> script; ///< of the interpreter's candidates, for tests
  CodePosition where;                          ///< of the user's call, for errors
};
/// Starts a worker. UserError [tune_worker] when its program is not found or does not answer.
SECTILE_API std::unique_ptr<Measurer> startWorker(const WorkerOptions &options);
/// Runs in this process; `memory` holds the regions of argument set 0, which are saved now and restored at the end.
SECTILE_API std::unique_ptr<Measurer> measureHere(const Device &device, std::span<void *const> memory,
                                                  std::shared_ptr<const MeasureScript> script = nullptr);

/// The program of the worker: serves on a socket until its other end closes. Returns the exit status.
SECTILE_API int workerMain(int socket);
/// The word by which `sectile` runs workerMain: `sectile tune-worker SOCKET`.
inline constexpr const char *workerWord = "tune-worker";

/// Numbers of a sorted list of samples: the median, and an interval that holds the true median in 19 of 20 cases, by the
/// order of the samples alone.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
  int samples = 0;
  /// Half the interval over the median.
  double spread() const { return median > 0 ? (high - low) / 2 / median : 0; }
};
SECTILE_API MedianInterval medianOf(std::vector<double> samples);

} // namespace sectile::autotune
