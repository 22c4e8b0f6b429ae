// SPDX-License-Identifier: Apache-2.0
#include "passes/Pipeline.h"
#include "passes/Passes.h"

#include <sectile/Targets.h>

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace sectile::passes {

namespace {
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"
} // namespace

void buildPipeline(OpPassManager &module, const PipelineOptions &options) {
  OpPassManager &pm = module.nest<func::FuncOp>();
  auto clean = [&](bool folds) {
    if (folds) {
      pm.addPass(createLoopInvariantCodeMotionPass());
      pm.addPass(createSimplifyPass());
    }
    pm.addPass(createCSEPass());
  };
  SelectMmaPassOptions select;
  select.arch = options.arch;
  select.warps = options.schedule.warps;
  select.blocks = options.schedule.blocks;
  select.pingpong = options.schedule.pingpong;
  select.pipelined = options.schedule.stages != 1;
  ChooseClusterPassOptions choose;
  choose.cluster = options.schedule.cluster;
  SplitReductionPassOptions split;
  split.parts = options.schedule.cluster > 1 ? 1 : options.schedule.split; // one or the other
  StageOperandsPassOptions stage;
  stage.async = options.schedule.async;
  const Target *target = findTarget(options.arch); // SelectMma says where there is none
  const bool pipelines = options.schedule.stages != 1 && target && target->has(Feature::wgmma);
  split.streamk = options.schedule.cluster > 1 || !pipelines ? 1 : options.schedule.streamk;
  if (options.schedule.multicast == 2 && split.streamk == 0) // what is asked for comes before what a launch may ask for
    split.streamk = 1;
  OverlapProductsPassOptions overlap;
  overlap.overlap = options.schedule.stages == 1 ? 1 : options.schedule.overlap;
  KeepOperandsPassOptions keep;
  keep.keep = options.schedule.keep;
  PlaceMemoryPassOptions place;
  place.stages = options.schedule.stages;
  MakePersistentPassOptions persist;
  persist.raster = options.schedule.raster;
  persist.snake = options.schedule.snake;
  ShareLoadsPassOptions share;
  share.multicast = options.schedule.multicast;
  persist.persistent = options.schedule.persistent;
  PrefetchLoadsPassOptions ahead;
  ahead.prefetch = options.schedule.prefetch;
  HintEvictionPassOptions hint;
  hint.evict = options.schedule.evict;

  clean(true); // fewer values to reason about
  pm.addPass(createAlignRowsPass()); // what it moves before the row does not exist, by the rules of tails
  pm.addPass(
      createResolveTailsPass()); // while tiles are still values: existence is a property of the program
  pm.addPass(createPadTilesPass()); // missing lanes are explicit; atoms and layouts come after
  clean(true);                   // bounds of several accesses are often one value
  pm.addPass(createSplitReductionPass(split)); // while sums are still one op, and extents plain numbers
  pm.addPass(createSelectMmaPass(select));  // the number of warps and the atoms decide the layouts
  pm.addPass(createOverlapProductsPass(overlap)); // atoms say which products are asynchronous; loads are still values
  pm.addPass(createSplitMasksPass());       // what is overlapped has its first iteration in front of the loop
  clean(true);                              // masks that hold, values that only overlapped products needed
  pm.addPass(createNarrowBranchesPass());   // the sums of products are still under way where branches are
  pm.addPass(createStageOperandsPass(stage)); // operands in shared memory have no layouts
  pm.addPass(createKeepOperandsPass(keep)); // operands in registers need layouts
  pm.addPass(createChooseClusterPass(choose)); // needs the warps of a block; layouts need those of all blocks
  pm.addPass(createAssignLayoutsPass());    // once all tiles, masks included, are there
  clean(false);                             // values made anew per user that got one layout; folding is over
  pm.addPass(createLowerTileToTgpuPass());  // needs layouts: which warps share an axis; makes conversions
  clean(false);                             // equal conversions
  pm.addPass(createStoreBoxesPass());       // layouts are known, the loop over programs is not there yet
  pm.addPass(createLowerConversionsPass()); // all conversions are there now
  pm.addPass(createPerWarpBranchesPass()); // what warps wait for each other for is known
  pm.addPass(createOrderProductsPass());    // every use of a result is there now
  pm.addPass(createShareLoadsPass(share)); // which programs are neighbours is MakePersistent's affair, of whom it must know
  pm.addPass(createMakePersistentPass(persist));
  pm.addPass(createHintEvictionPass(hint)); // which access is which program's is still to be seen
  pm.addPass(createPrefetchLoadsPass(ahead)); // loops are final; barriers come after
  pm.addPass(createSpecialiseWarpsPass());  // needs waits: a slot is free when its products have ended
  clean(false);                             // what both roles have of the program
  pm.addPass(createPlaceMemoryPass(place)); // all buffers are there now
  pm.addPass(createInsertBarriersPass());   // needs offsets: buffers may share bytes
  pm.addPass(createCheckPipelinePass());    // every op of pipes and products is there now
  pm.addPass(createCheckResourcesPass());   // the last word on memory and threads
  pm.addPass(createPlanRegistersPass());    // the final ops and shared memory decide
}

void registerAll() {
  registerSectilePasses();
  PassPipelineRegistration<>("sectile-lower", "From tile to final tgpu, for sm_90a with default choices",
                             [](OpPassManager &pm) { buildPipeline(pm, {}); });
  PassPipelineRegistration<>("sectile-lower-warps", "The same without pipelines and products of warpgroups",
                             [](OpPassManager &pm) {
                               PipelineOptions options;
                               options.schedule.stages = 1;
                               buildPipeline(pm, options);
                             });
}

} // namespace sectile::passes
