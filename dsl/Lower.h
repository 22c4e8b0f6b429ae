// SPDX-License-Identifier: Apache-2.0
/// \file Stages 4 and 5 of the main path, shared by kernels and the command line: a `tile` module becomes an artifact.
#pragma once

#include "ir/base/Artifact.h"
#include "passes/Pipeline.h"
#include "runtime/Ptxas.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sectile {

/// The stages a user can stop or look at, in order.
enum class Stage { tile, tgpu, llvm, ptx, cubin };
/// "tile", "tgpu", "llvm", "ptx", "cubin".
std::optional<Stage> parseStage(std::string_view name);
std::string_view name(Stage stage);

/// Milliseconds per stage, in order.
using StageTimes = std::vector<std::pair<std::string, double>>;

/// Adds its own lifetime to `times` under `name`.
class StageClock {
public:
  StageClock(StageTimes &times, std::string name)
      : times(times), name(std::move(name)), begin(std::chrono::steady_clock::now()) {}
  ~StageClock() {
    times.emplace_back(std::move(name), std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }

private:
  StageTimes &times;
  std::string name;
  std::chrono::steady_clock::time_point begin;
};

struct LowerOptions {
  std::string kernel;            ///< for errors
  SourceLoc where;               ///< of the kernel, for errors that are about no op
  std::string config;            ///< the candidate, "BM=64 warps=8", for errors
  passes::PipelineOptions pipeline;
  Stage until = Stage::cubin;    ///< where to stop; `text` receives what that stage made
  bool assemble = true;          ///< run ptxas where it is found; else the driver assembles at load
};

struct Lowered {
  Artifact artifact;
  std::string text; ///< of the stage `until`, when it is tile, tgpu or llvm
  std::vector<std::string> warnings; ///< C75xx lines of ptxas
};

/// Runs passes, code generation and the assembler on `module` (which is changed). Throws UserError for limits of the
/// target, InternalError with a reproducer for bugs; never aborts.
Lowered lower(mlir::ModuleOp module, const LowerOptions &options, StageTimes &times);

/// Writes the facts of argument `index` of the kernel as its attributes: tile.align, tile.stride_div, tile.stride_rem,
/// tile.dim_div, and where known tile.unit_stride, tile.dim_max, tile.small.
void setSpecialisation(mlir::ModuleOp module, unsigned index, const ArgSpec &spec, int rank);

/// The module as text without locations: what the cache key is made of.
std::string moduleText(mlir::ModuleOp module, bool withLocations = false);

} // namespace sectile
