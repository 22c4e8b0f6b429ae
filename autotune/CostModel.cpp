// SPDX-License-Identifier: Apache-2.0
#include "autotune/CostModel.h"

#include "ir/base/MmaTable.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace sectile::autotune {
namespace {

// Constants of the model, the same for every GPU; what differs between GPUs is in the table of targets. Microseconds and
// bytes per microsecond (MB/s) unless said otherwise.
constexpr double launchMicros = 2.0;       ///< from one kernel to the next
constexpr double memoryLatency = 0.8;      ///< of a load that misses
constexpr double blockStart = 0.6;         ///< of a block: its threads, its barriers
constexpr double tripIssue = 0.04;         ///< of a trip of a pipelined loop: barriers, first instructions
constexpr double clockPerMicro = 1700;     ///< cycles
constexpr double sharedBytesPerMicro = 128 * clockPerMicro; ///< of a multiprocessor
constexpr double elementLanes = 128 * clockPerMicro * 0.6;  ///< of a multiprocessor; 0.6: conversions, moves, addresses
constexpr double specialLanes = 16 * clockPerMicro;
constexpr double sustained = 0.82;         ///< of the peak, which power does not allow for long
constexpr double memorySustained = 0.92;
constexpr double l2OverMemory = 2.3;       ///< bandwidth of the L2 cache over that of the memory
/// What products of warps reach of the peak: those of GPUs with products of warpgroups were made for the latter.
constexpr double syncOfPeak = 0.2, syncOfPeakAlone = 0.5;
constexpr double usualWork = 16, unusualWork = 0.004, clusterWait = 0.01; ///< elements of a thread; shares of the time
constexpr std::int64_t mostStages = 8, leastStages = 2;
constexpr int groupWarps = 4, mostSums = 200;
/// Blocks that share a program meet in memory: cycles, bytes per cycle that a multiprocessor moves of partial sums then, and the fewest
/// trips of a share (runtime/Split.cpp).
constexpr double meetCycles = 3000, meetBytesPerCycle = 16, leastSharedTrips = 4;

/// How one product runs.
struct ProductPlan {
  const MmaRow *row = nullptr; ///< null: multiply-adds
  bool groups = false;         ///< on warpgroups
  double micros = 0;           ///< once, on one multiprocessor
};

/// Accumulators of a thread.
double sums(const WorkProduct &p, int warps) { return static_cast<double>(p.m) * p.n / (warps * 32.0); }

/// Warpgroups can share a product among them.
bool groupsShare(const MmaRow &row, const WorkProduct &p, int warps) {
  const int groups = warps / groupWarps, alongM = std::min(groups, std::max(1, p.m / row.m));
  return warps % groupWarps == 0 && groups > 0 && p.m % row.m == 0 && (p.m / row.m) % alongM == 0 &&
         p.n % (groups / alongM * 8) == 0;
}
/// One or two of them have registers for its sums: the others are then for any number that shares it.
bool groupsFit(const MmaRow &row, const WorkProduct &p, int warps) {
  auto holds = [&](int w) { return groupsShare(row, p, w) && sums(p, w) <= mostSums; };
  return (holds(groupWarps) || holds(2 * groupWarps)) && groupsShare(row, p, warps);
}

ProductPlan planProduct(const Target &target, int multiprocessors, const WorkProduct &p, int warps, bool pipelined,
                        bool tmaReads) {
  const double flops = 2.0 * p.m * p.n * p.k;
  const double perSm = target.denseTflops(p.a, p.tf32) * 1e6 / target.smCount; // flop per microsecond
  ProductPlan plan;
  MmaQuery query{p.a, p.b, p.acc == DType::f16 ? DType::f32 : p.acc, p.m, p.n, p.k, false};
  if (pipelined && target.has(Feature::tma) && p.k * byteSize(p.a) % 32 == 0)
    if (const MmaRow *row = selectWgmma(target, query); row && groupsFit(*row, p, warps)) {
      const int groups = warps / groupWarps, alongM = std::min(groups, p.m / row->m);
      const double n = std::min(256.0, static_cast<double>(p.n) / (groups / alongM));
      const double tensor = 2.0 * row->m * n * row->k / perSm;
      const double bytes = static_cast<double>((row->m + n) * row->k) * static_cast<double>(byteSize(p.a));
      const double reach = std::min(1.0, tensor / (bytes / sharedBytesPerMicro));
      plan.row = row;
      plan.groups = true;
      // Sums that take most of a thread's registers leave too few for the rest; operands that threads make or copy
      // themselves are written to shared memory first.
      double copies = tmaReads ? 0 : static_cast<double>((p.m + p.n) * p.k) * 2.0 * static_cast<double>(byteSize(p.a)) / sharedBytesPerMicro;
      // One warpgroup alone has nobody to hide its waits.
      plan.micros = flops / (perSm * sustained * reach * (groups > 1 ? 1.0 : 0.85)) + copies;
      return plan;
    }
  query.allowTf32 = p.tf32;
  plan.row = selectMma(target, query);
  if (!plan.row || perSm <= 0) {
    const double fma = (p.acc == DType::f64 ? std::max(target.peak.f64, target.peak.f32 / 64) : target.peak.f32) * 1e6 / target.smCount;
    plan.row = nullptr;
    plan.micros = flops / (fma * 0.3);
    return plan;
  }
  const double reach = target.has(Feature::wgmma) ? syncOfPeak : syncOfPeakAlone;
  const double atoms = static_cast<double>(p.m / plan.row->m) * (p.n / plan.row->n);
  const double busy = std::min(1.0, std::min<double>(warps, atoms) / 4.0); // four parts of the multiprocessor
  // Every warp reads its rows of a and columns of b.
  const double along = std::sqrt(std::max(1.0, static_cast<double>(warps) * p.m / p.n));
  const double m = p.m / std::clamp(along, 1.0, static_cast<double>(warps)), n = p.n / std::max(1.0, warps / std::max(1.0, along));
  const double shared = warps * (m + n) * p.k * static_cast<double>(byteSize(p.a)) / sharedBytesPerMicro;
  plan.micros = std::max(flops / (perSm * reach * busy), shared);
  return plan;
}

/// What SelectMma takes where no number of warps is given.
int warpsByRule(const Target &target, const KernelWork &work, bool pipelined) {
  const int most = target.threadsPerBlock / target.warpSize;
  if (work.products.empty()) {
    auto blocks = [&](std::int64_t perWarp) {
      return std::bit_ceil(static_cast<std::uint64_t>((work.largestTile + perWarp - 1) / perWarp));
    };
    std::uint64_t warps = std::min<std::uint64_t>(blocks(256), 4);
    return static_cast<int>(std::min<std::uint64_t>(std::max(warps, std::min<std::uint64_t>(blocks(1024), 16)), most));
  }
  int groups = 2;
  std::int64_t largest = 0;
  for (const WorkProduct &p : work.products) {
    largest = std::max<std::int64_t>(largest, std::int64_t(p.m) * p.n);
    int fits = 0;
    if (pipelined && target.has(Feature::tma))
      if (const MmaRow *row = selectWgmma(target, {p.a, p.b, p.acc == DType::f16 ? DType::f32 : p.acc, p.m, p.n, p.k, false}))
        for (int g : {1, 2})
          fits = groupsShare(*row, p, g * groupWarps) && sums(p, g * groupWarps) <= mostSums ? g : fits;
    groups = std::min(groups, fits);
  }
  return groups ? groups * groupWarps : largest >= 128 * 128 ? 8 : 4;
}

/// The TMA unit reads tensors whose rows and base lie at multiples of 16 bytes.
bool tmaReads(const KernelArg &arg) {
  if (reinterpret_cast<std::uintptr_t>(arg.data) % 16)
    return false;
  bool unit = false;
  for (int d = 0; d < arg.rank; ++d) {
    const std::int64_t stride = arg.strides[static_cast<std::size_t>(d)];
    if (stride == 1)
      unit = true;
    else if (arg.dims[static_cast<std::size_t>(d)] > 1 && (stride <= 0 || stride * static_cast<std::int64_t>(byteSize(arg.dtype)) % 16))
      return false;
  }
  return unit;
}

} // namespace

Bound boundOf(const Target *target, const KernelWork &work) {
  Bound bound;
  double products = 0; // microseconds
  for (const WorkProduct &p : work.products) {
    const double flops = 2.0 * p.m * p.n * p.k * p.times * work.programs;
    bound.flops += flops;
    if (target) {
      const double peak = target->denseTflops(p.a, p.tf32);
      products += flops / ((peak > 0 ? peak : target->peak.f32) * 1e6);
    }
  }
  for (std::size_t i = 0; i < work.argumentBytes.size(); ++i) {
    double touched = 0;
    for (const WorkAccess &a : work.accesses)
      if (a.arg == static_cast<int>(i))
        touched += static_cast<double>(a.bytes) * a.times * work.programs;
    bound.bytes += std::min(touched, work.argumentBytes[i]);
  }
  if (!target)
    return bound;
  bound.micros = std::max(products, bound.bytes / (target->memoryGBs * 1e3));
  bound.peakTflops = products > 0 ? bound.flops / products * 1e-6 : 0;
  return bound;
}

Prediction predict(const Target &target, int multiprocessors, const TracedWork &traced, const Config &config) {
  const KernelWork &work = traced.work;
  Prediction out;
  const double sms = multiprocessors > 0 ? multiprocessors : target.smCount;
  const double l2PerSm = target.memoryGBs * 1e3 * l2OverMemory / target.smCount;
  const bool mayPipeline = config.stages != 1;
  out.warps = config.warps ? config.warps : warpsByRule(target, work, mayPipeline);
  const int threads = out.warps * target.warpSize;

  // Products, and what their operands take in shared memory.
  std::vector<ProductPlan> plans;
  std::int64_t stageBytes = 0, operandBytes = 0;
  for (const WorkProduct &p : work.products) {
    bool direct = p.loadsDirect;
    for (const WorkAccess &a : work.accesses)
      if (a.feedsProduct && a.arg >= 0)
        direct = direct && tmaReads(traced.args[static_cast<std::size_t>(a.arg)]);
    plans.push_back(planProduct(target, static_cast<int>(sms), p, out.warps, mayPipeline, direct));
    out.onTensorCores = out.onTensorCores || plans.back().row;
    operandBytes += static_cast<std::int64_t>(p.m + p.n) * p.k * static_cast<std::int64_t>(byteSize(p.a));
    out.pipelined = out.pipelined || (plans.back().groups && direct);
  }
  std::int64_t storedBytes = 0;
  for (const WorkAccess &a : work.accesses) {
    if (a.feedsProduct && a.loop >= 0)
      stageBytes += a.bytes;
    if (a.writes)
      storedBytes = std::max(storedBytes, a.bytes);
  }
  const int wantedBlocks = std::max(1, config.blocks); // per multiprocessor
  std::int64_t left = std::min<std::int64_t>(target.sharedBytesPerBlock, target.sharedBytesPerSm / wantedBlocks - target.sharedBytesReserved) - 1024;
  if (out.pipelined && stageBytes > 0) {
    // Results leave in pieces: a quarter of a tile at a time is enough room.
    left -= std::min<std::int64_t>(storedBytes, 32 * 1024) / 2;
    out.stages = static_cast<int>(config.stages > 1 ? config.stages : std::clamp(left / stageBytes, leastStages, mostStages));
    out.sharedBytes = out.stages * stageBytes + std::min<std::int64_t>(storedBytes, 32 * 1024) / 2;
  } else {
    out.sharedBytes = work.products.empty() ? work.largestReduced > 1 ? 1024 : 0 : operandBytes;
  }

  // Clusters and shared loops.
  double cluster = std::max(1, config.cluster), parts = std::max(1, config.split);
  if (config.cluster == 0 && work.products.empty() && work.largestReduced > 1)
    cluster = std::clamp<double>(static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(
                                     std::max<std::int64_t>(1, work.largestTile / (32ll * threads))))),
                                 1, target.clusterBlocks);
  out.cluster = static_cast<int>(cluster);
  if (work.grid.size() >= 2 && !work.products.empty())
    out.raster = static_cast<int>(config.raster > 0 ? config.raster : std::clamp(2048.0 / work.products.front().m, 1.0, 16.0));
  double trips = 1;
  for (const WorkLoop &l : work.loops)
    trips = std::max(trips, l.trips);
  if (config.split == 0 && work.products.empty() && work.canSplit)
    parts = std::clamp(std::floor(2 * sms / work.programs), 1.0, std::max(1.0, trips / 4));
  if (!work.canSplit || config.cluster > 1)
    parts = 1;
  out.blocks = static_cast<std::int64_t>(work.programs * cluster * parts);

  // Registers and residents.
  double live = static_cast<double>(work.liveBytes) / 4 / threads / cluster;
  out.registers = (out.pipelined ? 40 : 24) + live;
  const int blockThreads = threads + (out.pipelined ? groupWarps * target.warpSize : 0);
  double resident = std::min<double>(target.threadsPerSm / blockThreads, target.blocksPerSm);
  resident = std::min(resident, std::floor(target.registersPerSm / (std::min(out.registers, 255.0) * blockThreads)));
  if (out.sharedBytes > 0)
    resident = std::min(resident, std::floor(static_cast<double>(target.sharedBytesPerSm) /
                                             static_cast<double>(out.sharedBytes + target.sharedBytesReserved)));
  resident = std::max(1.0, resident);
  out.residentBlocks = static_cast<int>(resident);

  // One block: loop by loop, then what is outside of loops.
  const double share = 1 / (cluster * parts);
  std::vector<double> loopProducts(work.loops.size()), loopLoads(work.loops.size());
  double products = 0, l2 = 0, alone = blockStart, loadsOutside = 0, stores = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const WorkProduct &p = work.products[i];
    products += plans[i].micros * p.times * share;
    if (p.loop >= 0)
      loopProducts[static_cast<std::size_t>(p.loop)] += plans[i].micros;
    else
      alone += plans[i].micros * p.times;
  }
  for (const WorkAccess &a : work.accesses) {
    // A gather fetches a sector of 32 bytes per element.
    const double bytes = a.gathers ? static_cast<double>(a.bytes) / static_cast<double>(byteSize(a.dtype)) * 32 : static_cast<double>(a.bytes);
    const double micros = bytes / l2PerSm;
    l2 += micros * a.times * share;
    if (a.writes)
      stores += micros * a.times * share;
    else if (a.loop >= 0)
      loopLoads[static_cast<std::size_t>(a.loop)] += micros;
    else
      loadsOutside += micros * a.times * share;
  }
  double inTrips = 0; // of `alone`
  const double functions = (work.elementOps / elementLanes + work.specialOps / specialLanes) * share;
  for (std::size_t i = 0; i < work.loops.size(); ++i) {
    const double count = work.loops[i].entries * work.loops[i].trips / parts;
    const double m = loopProducts[i], l = loopLoads[i] / cluster;
    if (m == 0 && l == 0)
      continue;
    if (out.pipelined && m > 0) {
      const double latency = memoryLatency, allTrips = count * (std::max({m, l, (latency + l + m) / out.stages}) + tripIssue);
      alone += latency * work.loops[i].entries + allTrips;
      inTrips += allTrips;
    } else {
      alone += count * (memoryLatency + l + m);
    }
  }
  if (loadsOutside > 0)
    alone += memoryLatency + loadsOutside;
  alone += functions + stores * (out.pipelined ? 0.5 : 1) + 0.2;
  if (parts > 1) // partial sums go through the L2 cache, the last part adds them up
    alone += memoryLatency * 2 + static_cast<double>(work.liveBytes) * 2 / l2PerSm;
  if (out.registers > target.registersPerThread) // spills: every value twice through the L1 cache
    alone *= 1.5;
  const double shared = std::max({products + (out.pipelined ? functions * 0.3 : functions * 0.5), l2, functions});

  // Waves.
  const double perWave = sms * resident;
  const double full = std::floor(static_cast<double>(out.blocks) / perWave);
  const double rest = static_cast<double>(out.blocks) - full * perWave;
  double micros = full * std::max(alone, resident * shared);
  if (rest > 0) {
    double last = std::max(alone, std::ceil(rest / sms) * shared);
    // The programs of the last round shared by all blocks, where the launch would do that.
    const double most = std::min(perWave, std::floor(trips / leastSharedTrips) * rest);
    if (out.pipelined && work.canSplit && config.streamk != 1 && parts == 1 && cluster == 1 && most > rest) {
      double sumBytes = 0;
      for (const WorkProduct &p : work.products)
        sumBytes += static_cast<double>(p.m) * p.n * 4;
      const double meet = (meetCycles + (rest + most) / most * 2 * sumBytes / meetBytesPerCycle) / clockPerMicro;
      last = std::min(last, std::max(alone - inTrips + inTrips * rest / most, rest / sms * shared) + meet);
    }
    micros += last;
  }

  // The memory: every argument once, and again what a wave does not find in the L2 cache.
  double once = 0, moved = work.bytesMoved(), all = 0;
  for (std::size_t i = 0; i < work.argumentBytes.size(); ++i) {
    double touched = 0;
    for (const WorkAccess &a : work.accesses)
      if (a.arg == static_cast<int>(i))
        touched += static_cast<double>(a.bytes) * a.times * work.programs;
    once += std::min(touched, work.argumentBytes[i]);
    all += work.argumentBytes[i];
  }
  double again = 0;
  if (const double l2Bytes = static_cast<double>(target.l2Bytes); all > l2Bytes && moved > once) {
    // Programs of a wave form a block of rows by columns; the nearer to a square, the more of their operands they share.
    double shape = 1;
    if (work.grid.size() >= 2 && !work.products.empty()) {
      const WorkProduct &p = work.products.front();
      const double rows = std::min<double>(out.raster, static_cast<double>(work.grid[work.grid.size() - 2]));
      const double columns = std::max(1.0, perWave / rows), best = 2 * std::sqrt(perWave * p.m * p.n);
      shape = (rows * p.m + columns * p.n) / best;
    }
    again = (moved - once) * 0.06 * shape * (1 - l2Bytes / all);
  }
  const double memory = (once + again) / (target.memoryGBs * 1e3 * memorySustained);

  const double count = static_cast<double>(out.blocks) / sms;
  out.tensorMicros = products * count;
  out.l2Micros = l2 * count;
  out.elementMicros = functions * count;
  out.memoryMicros = memory;
  out.micros = launchMicros + std::max(micros, memory);
  // Of schedules that the units leave equal, the one with the usual work per thread; parts of a cluster wait for each other.
  if (work.products.empty()) {
    const double perThread = static_cast<double>(work.largestTile) / (threads * cluster);
    out.micros *= 1 + unusualWork * std::abs(std::log2(perThread / usualWork)) + clusterWait * std::log2(cluster);
  }
  const double most = std::max({out.tensorMicros, out.l2Micros, out.elementMicros, out.memoryMicros});
  out.bound = most < 0.5 * out.micros         ? "latency"
              : most == out.memoryMicros      ? "memory"
              : most == out.tensorMicros      ? out.onTensorCores ? "tensor cores" : "multiply-adds"
              : most == out.l2Micros          ? "L2 cache"
                                              : "functions";
  return out;
}

} // namespace sectile::autotune
