// SPDX-License-Identifier: Apache-2.0
/// \file How long a candidate should take, before it is compiled. It ranks; what is chosen is measured.
///
/// Of a launch with P programs on S multiprocessors, R of whose blocks each runs at once:
///
///     alone     = what one program takes by itself: latencies of its phases, loads, products, functions
///     shared    = what a program needs of the multiprocessor's slowest unit: tensor cores (or FMA pipes), the path to
///                 the L2 cache, the shared memory, the issue of element operations
///     wave      = max(alone, R * shared);  time = full waves * wave + a last wave of fewer programs
///     predicted = launch + max(time, bytes / bandwidth of the memory)
///
/// The last wave of a pipelined loop that only accumulates may be shared by all blocks: its trips divided among them, and what it takes
/// them to meet. A loop over products whose operands the TMA unit loads takes, per trip, max(products, loads, (latency + loads +
/// products) / stages) plus an issue cost; any other loop the sum of latency, loads and products. A product's rate is the
/// table's peak, times what its instructions reach: min(1, tensor time / shared-memory time of one instruction). Bytes of
/// the memory are those of every argument once, and what programs of one wave do not find in the L2 cache. Kernels without
/// products whose schedules come out equal are told apart by the elements of a thread, 16 being best, and by clusters.
#pragma once

#include "dsl/Work.h"

#include <sectile/Config.h>
#include <sectile/Export.h>
#include <sectile/Targets.h>

#include <cstdint>
#include <string>

namespace sectile::autotune {

/// A launch as the model sees it.
struct Prediction {
  double micros = 0;
  double tensorMicros = 0, l2Micros = 0, memoryMicros = 0, elementMicros = 0; ///< of all programs, each unit alone
  int warps = 1, stages = 1, cluster = 1, raster = 1, residentBlocks = 1; ///< what is by rule is filled in
  std::int64_t blocks = 1, sharedBytes = 0;
  double registers = 0;    ///< per thread, estimated
  bool onTensorCores = false, pipelined = false;
  const char *bound = "";  ///< the unit that decides: "tensor cores", "L2 cache", "memory", "functions", "latency"
};

/// What the kernel's schedule will be for this configuration, and what that costs on a GPU with `multiprocessors`.
SECTILE_API Prediction predict(const Target &target, int multiprocessors, const TracedWork &traced, const Config &config);

/// What no schedule can be quicker than: products at the peak rate, every argument's bytes once.
struct Bound {
  double micros = 0;     ///< 0 without a target
  double flops = 0;      ///< of products, all programs
  double bytes = 0;      ///< of every argument once, as far as programs touch it
  double peakTflops = 0; ///< dense, of the products' types; 0 without products or target
};
/// `target` null: flops and bytes alone.
SECTILE_API Bound boundOf(const Target *target, const KernelWork &work);
inline double boundMicros(const Target &target, const KernelWork &work) { return boundOf(&target, work).micros; }

} // namespace sectile::autotune
