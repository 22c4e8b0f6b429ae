// SPDX-License-Identifier: Apache-2.0
/// \file The way from `tile` to `tgpu`, in order. Pipeline.cpp is the table of contents: one line per pass.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <string>

namespace sectile::passes {

/// What the passes may choose; every field is a schedule choice a user can set by hand.
struct Schedule {
  int warps = 0; ///< warps per block; 0: the default rule chooses from tile sizes
  int cluster = 0; ///< blocks that run one program together; 0: by rule
  int stages = 0; ///< slots of pipelined loads; 0: as many as fit, 1: no pipelines and no asynchronous products
  int raster = 0; ///< programs of a group along rows, see MakePersistent; 0: by rule
  int blocks = 0; ///< of a kernel with roles, per multiprocessor; 0: by rule, two where threads make operands
  // 0: by rule, 1: never, 2: wherever it can be done.
  int async = 0; ///< operands by copies of threads, see AsyncLoads
  int pingpong = 0; ///< warpgroups take programs of their own
  int multicast = 0; ///< pairs of blocks load once what both need
  int snake = 0; ///< every second program goes backwards through its loop
  int streamk = 0; ///< all blocks share the programs of the last round
  int overlap = 0; ///< products of two iterations at a time, see OverlapProducts
  int keep = 0; ///< first operands of products in registers, see KeepOperands
  int persistent = 0; ///< blocks of kernels without pipelines go through several programs, see MakePersistent
  int prefetch = 0; ///< what the next trip loads is under way, see PrefetchLoads
  int evict = 0; ///< hints for the L2 cache, see HintEviction
  int split = 0; ///< parts that share a reduction; 0: by rule at the launch, 1: never
};

struct PipelineOptions {
  std::string arch = "sm_90a"; ///< a row of the targets table
  Schedule schedule;
};

/// Appends the passes from `tile` (with argument specialisations as attributes) to final `tgpu`.
void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);
/// Registers every pass and the pipeline `sectile-lower` for the command line tools.
void registerAll();

} // namespace sectile::passes
