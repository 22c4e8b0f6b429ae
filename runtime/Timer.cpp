// SPDX-License-Identifier: Apache-2.0
#include "runtime/DeviceImpl.h"

#include <sectile/Timer.h>

#include <chrono>

namespace sectile::detail {

using namespace runtime;
using Clock = std::chrono::steady_clock;

class TimerImpl {
public:
  explicit TimerImpl(const Stream &stream) : stream(stream.handle()) {}
  ~TimerImpl() {
    const Driver *driver = events[0] ? Driver::ifOpen() : nullptr;
    if (!driver)
      return;
    for (CuEvent e : events)
      if (e)
        driver->call.eventDestroy(e);
  }
  TimerImpl(const TimerImpl &) = delete;
  TimerImpl &operator=(const TimerImpl &) = delete;

  const DeviceImpl &device() const { return *stream->device.handle(); }
  void mark(int which, std::source_location loc) {
    if (device().isInterpreter()) {
      times[which] = Clock::now();
      return;
    }
    const Driver &driver = device().driver(loc);
    ContextScope scope(driver, stream->context);
    device().check(driver.call.eventRecord(events[which], stream->stream), "cuEventRecord", "Timer", loc);
  }

  std::shared_ptr<const StreamImpl> stream;
  CuEvent events[2] = {};
  Clock::time_point times[2];
  int marks = 0; ///< 0: nothing, 1: started, 2: stopped
};

} // namespace sectile::detail

namespace sectile {

using namespace runtime;

namespace {
[[noreturn]] void badOrder(const char *message, const char *wayOut, std::source_location loc) {
  throw UserError(
      {.loc = loc, .kernel = {}, .op = "Timer", .message = message, .rule = "timer_order", .wayOut = wayOut});
}
} // namespace

Timer::Timer(const Stream &stream, std::source_location loc)
    : impl(std::make_unique<detail::TimerImpl>(stream)) {
  if (impl->device().isInterpreter())
    return;
  const Driver &driver = impl->device().driver(loc);
  ContextScope scope(driver, impl->stream->context);
  for (CuEvent &e : impl->events)
    impl->device().check(driver.call.eventCreate(&e, 0), "cuEventCreate", "Timer", loc);
}
Timer::~Timer() = default;
Timer::Timer(Timer &&) noexcept = default;
Timer &Timer::operator=(Timer &&) noexcept = default;

void Timer::start(std::source_location loc) {
  impl->mark(0, loc);
  impl->marks = 1;
}

void Timer::stop(std::source_location loc) {
  if (impl->marks != 1)
    badOrder("stop() without a start() before it", "call start() first", loc);
  impl->mark(1, loc);
  impl->marks = 2;
}

double Timer::micros(std::source_location loc) const {
  if (impl->marks != 2)
    badOrder("micros() without a finished measurement", "call start() and stop() first", loc);
  const detail::DeviceImpl &d = impl->device();
  if (d.isInterpreter())
    return std::chrono::duration<double, std::micro>(impl->times[1] - impl->times[0]).count();
  const Driver &driver = d.driver(loc);
  ContextScope scope(driver, impl->stream->context);
  d.check(driver.call.eventSynchronize(impl->events[1]), "cuEventSynchronize", "Timer", loc);
  float milliseconds = 0;
  d.check(driver.call.eventElapsedTime(&milliseconds, impl->events[0], impl->events[1]), "cuEventElapsedTime",
          "Timer", loc);
  return double(milliseconds) * 1000;
}

} // namespace sectile
