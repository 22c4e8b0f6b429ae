// SPDX-License-Identifier: Apache-2.0
/// \file How a launch fills the GPU, what bounds it, and why it is not faster, from what an explanation holds.
#include "dsl/Explain.h"
#include "ir/base/TargetRates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sectile {

// --- the grid
// ----------------------------------------------------------------------------------------------------

std::int64_t Explanation::places() const {
  const std::int64_t blocks = std::max<std::int64_t>(1, occupancy().blocks());
  return std::max<std::int64_t>(1, target->smCount * blocks / (cluster * parts));
}
double Explanation::waves() const { return static_cast<double>(programs) / static_cast<double>(places()); }
double Explanation::waveEfficiency() const { return programs ? waves() / std::ceil(waves()) : 1; }

// --- time
// --------------------------------------------------------------------------------------------------------

double Explanation::flops() const {
  double n = 0;
  for (const ExplainedProduct &p : products)
    n += p.flops();
  return n;
}

double Explanation::computeMicroseconds() const {
  double micros = 0;
  for (const ExplainedProduct &p : products) {
    // Multiply-adds of narrow types are those of f32.
    const DType type = !p.instruction.empty() || p.a == DType::f64 ? p.a : DType::f32;
    const double peak = target->denseTflops(type, p.tf32);
    if (peak == 0)
      return 0;
    micros += p.flops() / (peak * 1e6);
  }
  return micros;
}

double Explanation::l2Microseconds() const {
  const double rate = l2GBs(*target);
  return rate == 0 ? 0 : static_cast<double>(sectorBytes()) / (rate * 1e3);
}

std::string_view Explanation::bound() const {
  const double compute = computeMicroseconds(), memory = onceMicroseconds(), l2 = l2Microseconds();
  return compute >= std::max(memory, l2) ? "compute" : memory >= l2 ? "memory" : "L2";
}

double Explanation::tensorClocks() const {
  double clocks = 0;
  for (const ExplainedProduct &p : products) {
    if (!p.tensorClocks)
      return 0;
    clocks += static_cast<double>(p.tensorClocks) * static_cast<double>(p.runs);
  }
  return programs ? clocks / static_cast<double>(programs) : 0;
}

double Explanation::sharedClocks() const {
  if (tensorClocks() == 0)
    return 0;
  double bytes = 0;
  for (const ExplainedProduct &p : products)
    bytes += static_cast<double>(p.sharedBytes) * static_cast<double>(p.runs);
  for (const ExplainedAccess &a : accesses)
    if (a.byTma)
      bytes += a.boxBytes() * static_cast<double>(a.counts.requests);
    else if (a.byCopies)
      bytes += static_cast<double>(a.counts.bytes);
    else if (!a.isGlobal())
      bytes += static_cast<double>(a.counts.wavefronts) * sharedBytesPerClock;
  return bytes / sharedBytesPerClock / static_cast<double>(programs);
}

// --- reasons
// -----------------------------------------------------------------------------------------------------

std::vector<ExplainedReason> Explanation::reasons() const {
  // Shares of the time from which something is worth a line.
  constexpr double littleArithmetic = 0.1, muchShared = 1.1, goodBoxes = 0.9, goodWaves = 0.9, uneven = 1.25;
  constexpr double fewTrips = 4, longer = 1.25;
  std::vector<ExplainedReason> all = decisions;
  if (products.empty() || programs == 0)
    return all;

  // One line per place: a product may come from several ops.
  auto add = [&](std::string_view by, const SourceLoc &at, std::string text) {
    all.push_back({std::string(by), at, std::move(text)});
  };
  if (programs < places())
    add("grid", {}, fmt::format("{} programs for {} places: {:.0f}% of the GPU has no work", programs, places(),
                                100 * (1 - waves())));
  else if (waveEfficiency() < goodWaves)
    add("grid", {}, fmt::format("the last of {:.0f} waves leaves places empty: {:.0f}% of the time is used",
                                std::ceil(waves()), 100 * waveEfficiency()));
  std::int64_t least = 0, most = 0;
  double sum = 0;
  for (const tgpu::ProgramWork &w : work) {
    least = &w == work.data() ? w.products : std::min(least, w.products);
    most = std::max(most, w.products);
    sum += static_cast<double>(w.products);
  }
  if (!work.empty() && static_cast<double>(most) * static_cast<double>(work.size()) > uneven * sum)
    add("grid", {}, fmt::format("of the programs that ran, each goes through {} to {} products: blocks with long ones end last",
                                least, most));
  for (const ExplainedProduct &p : products)
    if (const double trips = static_cast<double>(p.runs) / static_cast<double>(programs * parts); p.inLoop && trips < fewTrips)
      add("trips", p.at, fmt::format("trips a program: {:.3g}, of {} along K each, too few to hide the first loads and the last wait", trips, p.k));
  for (const ExplainedAccess &a : accesses)
    if (a.byTma && a.counts.requests && a.existingShare() < goodBoxes)
      add("boxes", a.at, fmt::format("{:.0f}% of the boxes of argument {} exist; products go through the rest as well",
                                     100 * a.existingShare(), a.tensor));
  const double tensor = tensorClocks(), shared = sharedClocks();
  if (tensor > 0 && shared > muchShared * tensor)
    add("shared memory", products.front().at,
        fmt::format("{:.0f} clocks a program for what products read and the TMA unit and threads move, at {} bytes a clock; "
                    "the tensor cores need {:.0f}",
                    shared, sharedBytesPerClock, tensor));
  auto arithmetic = [&](const std::optional<ExplainedArithmetic> &a, std::string_view by, std::string_view where) {
    if (a && tensor > 0 && a->clocks > littleArithmetic * tensor)
      add(by, a->first, fmt::format("about {:.0f} clocks of arithmetic a program {}; the tensor cores need {:.0f}", a->clocks,
                                    where, tensor));
  };
  arithmetic(inLoop, "operands", "between products");
  arithmetic(epilogue, "epilogue", "while no product of the same threads runs");
  if (const double bytes = std::max(onceMicroseconds(), l2Microseconds()); bytes > longer * computeMicroseconds())
    add("bound", {}, fmt::format("{}: {:.4g} us for bytes, {:.4g} us for the products", bound(), bytes, computeMicroseconds()));
  return all;
}

} // namespace sectile
