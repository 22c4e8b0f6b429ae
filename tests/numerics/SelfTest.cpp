// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/SelfTest.h"

#include "tests/numerics/Reference.h"
#include "tests/numerics/Workers.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

namespace sectile::numerics {
namespace {

/// Every code of the small formats means a value that is encoded as this code.
std::string codesRoundTrip() {
  for (DType t : {DType::f16, DType::bf16, DType::e4m3, DType::e5m2})
    for (std::uint64_t code = 0; code < std::uint64_t(1) << bitsOf(t); ++code) {
      long double v = decode(t, code).v;
      std::uint64_t back = encodeFloat(t, v);
      bool same =
          std::isnan(v) ? isNanBits(t, back) : back == code || (std::isinf(v) && formatOf(t).saturates);
      if (!same)
        return fmt::format("{} code 0x{:x} comes back as 0x{:x}", name(t), code, back);
    }
  return {};
}

/// The processor rounds to f32 as `encodeFloat` does, subnormals, ties and overflow included.
std::string roundsAsHardware() {
  std::mt19937_64 random(1);
  for (int n = 0; n < 200000; ++n) {
    auto d = std::bit_cast<double>(random());
    if (n % 2) // near the range of f32, with few bits so that ties are frequent
      d = std::ldexp(double(std::int64_t(random() % (1 << 27)) - (1 << 26)), int(random() % 300) - 176);
    auto want = std::bit_cast<std::uint32_t>(float(d));
    std::uint64_t got = encodeFloat(DType::f32, d);
    if (std::isnan(d) ? !isNanBits(DType::f32, got) : got != want)
      return fmt::format("{:a} as f32 is 0x{:x}, not 0x{:x}", d, want, got);
    if (!std::isnan(d) && encodeFloat(DType::f64, d) != std::bit_cast<std::uint64_t>(d))
      return fmt::format("{:a} as f64 is not itself", d);
  }
  return {};
}

/// Halfway cases and limits of e4m3 (largest 448, no infinity) and e5m2 (largest 57344), from the OCP
/// specification.
std::string smallFormats() {
  struct Row {
    DType t;
    double from, to;
  };
  for (Row r : {Row{DType::e4m3, 448, 448},
                {DType::e4m3, 464, 448},
                {DType::e4m3, 1e9, 448},
                {DType::e4m3, -INFINITY, -448},
                {DType::e4m3, 17, 16},
                {DType::e4m3, 19, 20},
                {DType::e4m3, 0x1p-10, 0},
                {DType::e4m3, 0x1.8p-9, 0x1p-8},
                {DType::e5m2, 57344, 57344},
                {DType::e5m2, 61440, 57344},
                {DType::e5m2, INFINITY, 57344},
                {DType::e5m2, 9, 8},
                {DType::e5m2, 11, 12},
                {DType::e5m2, 0x1p-17, 0},
                {DType::f16, 65519, 65504},
                {DType::f16, 65520, INFINITY},
                {DType::bf16, 257, 256},
                {DType::bf16, 259, 260}})
    if (double got = double(roundTo(r.t, r.from)); got != r.to)
      return fmt::format("{} rounds {} to {}, not {}", name(r.t), r.from, got, r.to);
  return {};
}

/// Workers that end, hang, throw or give up cost their own case and no other.
std::string workersSurvive() {
  WorkerOptions options;
  options.jobs = 2;
  options.batch = 8;
  options.stallSeconds = 0.5;
  std::vector<int> settled(40);
  options.settled = [&](std::size_t i, const Outcome &) { ++settled[i]; };
  auto outcomes = runInWorkers(40, options, [](std::size_t i) -> Outcome {
    switch (i) {
    case 3:
      std::raise(SIGKILL);
      break;
    case 9:
      std::this_thread::sleep_for(std::chrono::hours(1));
      break;
    case 17:
      throw std::runtime_error("thrown");
    case 18:
      return {Outcome::failed, "given up", true};
    case 23:
      std::_Exit(7);
    case 25:
      return {Outcome::skipped, "left out", false};
    default:
      break;
    }
    return {Outcome::passed, std::string(100000, 'x'), false};
  });
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const char *part = i == 3    ? "signal 9"
                       : i == 9  ? "stalled"
                       : i == 17 ? "thrown"
                       : i == 18 ? "given up; alone: given up"
                       : i == 23 ? "status 7"
                                 : nullptr;
    auto want = part ? Outcome::failed : i == 25 ? Outcome::skipped : Outcome::passed;
    const Outcome &o = outcomes[i];
    if (o.kind != want || (part && o.text.find(part) == std::string::npos) ||
        (want == Outcome::passed && o.text.size() != 100000))
      return fmt::format("case {}: {} '{}'", i, char(o.kind), o.text.substr(0, 80));
    if (settled[i] != 1)
      return fmt::format("case {} was settled {} times", i, settled[i]);
  }
  return {};
}

} // namespace

std::vector<SelfCheck> selfTest() {
  return {{"codes come back", codesRoundTrip()},
          {"rounding is the processor's", roundsAsHardware()},
          {"limits and ties of small formats", smallFormats()},
          {"workers that die or hang", workersSurvive()}};
}

} // namespace sectile::numerics
