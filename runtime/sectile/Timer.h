// SPDX-License-Identifier: Apache-2.0
/// \file Times work on a stream.
#pragma once

#include <sectile/Stream.h>

namespace sectile {

namespace detail {
class TimerImpl;
}

/// Time between two points of a stream: CUDA events on a GPU, the steady clock on the interpreter.
///
///     Timer timer(stream);
///     timer.start(); call(stream); timer.stop();
///     double us = timer.micros();
class SECTILE_API Timer {
public:
  explicit Timer(const Stream &stream, std::source_location loc = std::source_location::current());
  ~Timer();
  Timer(Timer &&) noexcept;
  Timer &operator=(Timer &&) noexcept;

  /// Marks the first point behind the work queued so far. May be called again for a new measurement.
  void start(std::source_location loc = std::source_location::current());
  /// Marks the second point. UserError [timer_order] without a start().
  void stop(std::source_location loc = std::source_location::current());
  /// Microseconds from start to stop; waits for the work in between. UserError [timer_order] without a
  /// stop(), [device_fault] when that work faulted.
  double micros(std::source_location loc = std::source_location::current()) const;

private:
  std::unique_ptr<detail::TimerImpl> impl;
};

} // namespace sectile
