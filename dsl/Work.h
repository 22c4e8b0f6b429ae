// SPDX-License-Identifier: Apache-2.0
/// \file What a traced kernel has to do, as numbers: what a cost model needs, before anything is compiled.
#pragma once

#include "ir/base/Artifact.h"

#include <sectile/Config.h>
#include <sectile/Kernel.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sectile {

/// A tile that is read or written. Numbers named `times` are averages over programs.
struct WorkAccess {
  int arg = -1;                    ///< of the function, -1: not known
  bool writes = false, gathers = false;
  bool feedsProduct = false;       ///< nothing but operands of products is made of it, by moving axes alone
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;          ///< of one tile
  double times = 0;                ///< per program
  int loop = -1;                   ///< index into KernelWork::loops, -1: outside of loops
};

/// A product of tiles.
struct WorkProduct {
  int m = 0, n = 0, k = 0;
  DType a = DType::f32, b = DType::f32, acc = DType::f32;
  bool tf32 = false;
  bool loadsDirect = true; ///< both operands come from memory as they lie there, or turned
  double times = 0;
  int loop = -1;
};

/// A loop that holds products or accesses directly.
struct WorkLoop {
  double entries = 1; ///< per program
  double trips = 0;   ///< per entry
};

/// The work of one launch.
struct KernelWork {
  double programs = 1;
  std::vector<std::int64_t> grid; ///< programs along each axis
  std::vector<WorkAccess> accesses;
  std::vector<WorkProduct> products;
  std::vector<WorkLoop> loops;
  double elementOps = 0; ///< lanes of elementwise functions and reductions, per program
  double specialOps = 0; ///< of those, lanes of functions that the special function units compute
  std::int64_t largestTile = 1; ///< elements of the largest tile that is a value of its own
  std::int64_t liveBytes = 0;   ///< most bytes of tiles that are alive at once, operands of products left out
  std::int64_t largestReduced = 0; ///< elements of the largest tile that is reduced
  bool canSplit = false;           ///< its one loop only feeds what comes after it
  std::vector<double> argumentBytes; ///< per argument of the function: of the elements of a tensor, 0 for a scalar

  double flops() const; ///< of products, all programs
  double bytesMoved() const; ///< by accesses, all programs
};

/// A kernel traced for one configuration.
struct TracedWork {
  Config config;        ///< with every number that the kernel asked for
  KernelWork work;
  std::string text;     ///< the module without locations: its content
  std::vector<KernelArg> args; ///< of the function: those of the kernel without constants
};

/// Traces `kernel` and counts. Throws what tracing throws; `asked`, unless null, then receives the configuration with
/// what the kernel had asked for.
TracedWork traceWork(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config &config,
                     Config *asked = nullptr);

/// Whether this thread is tracing a kernel.
bool isTracing();

/// A module as text, made ready to run on the interpreter: call it with the function's arguments, in host memory.
/// InternalError when the text is none that `traceWork` gave.
std::function<void(std::span<const KernelArg>)> interpreterProgram(const std::string &text);

} // namespace sectile
