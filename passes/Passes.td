// SPDX-License-Identifier: Apache-2.0
// Every pass with what holds before and after. The order, with reasons, is in Pipeline.cpp.
#ifndef SECTILE_PASSES
#define SECTILE_PASSES

include "mlir/Pass/PassBase.td"

class SectilePass<string flag, string cls> : Pass<flag, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::sectile::tileir::TileDialect", "::sectile::tgpu::TgpuDialect",
                           "::mlir::scf::SCFDialect", "::mlir::func::FuncDialect"];
}

def FuseKernelsPass : Pass<"sectile-fuse-kernels", "::mlir::ModuleOp"> {
  let summary = "Kernels of a chain become one";
  let description = [{
    Before: kernels in the order of their launches, whose arguments say what is one tensor and which lengths are equal. After:
    neighbours whose programs, tile maps, lanes and memory allow it are one kernel; a remark says why others are not.
  }];
  let options = [Option<"keepRounding", "keep-rounding", "bool", "false", "Every value is rounded as it would be in memory">];
}

def AlignRowsPass : SectilePass<"sectile-align-rows", "AlignRows"> {
  let summary = "Begin tiles over rows at aligned addresses";
  let description = [{
    Before: tile.load, tile.store with implicit tails. After: the same; tiles of whole rows that start at odd places in
    memory begin `tgpu.misalign` elements before the row, so that their accesses can be whole vectors.
  }];
}

def ResolveTailsPass : SectilePass<"sectile-resolve-tails", "ResolveTails"> {
  let summary = "Make missing lanes explicit";
  let description = [{
    Before: tile values carry implicit extents and masks. After: no tile.load, tile.store, tile.gather, tile.keep,
    tile.fill remains; memory ops name their bounds, reductions and mma see identities in missing lanes, every value is
    plain.
  }];
}

def PadTilesPass : SectilePass<"sectile-pad-tiles", "PadTiles"> {
  let summary = "Tile axes with an odd factor above 15 grow";
  let description = [{
    Before: plain values of any lengths; missing lanes are explicit. After: a length has an odd factor of at most 15, except
    where a reshape splits or joins the axis. The kernel lists what grew in `tgpu.padded`, accesses of grown tiles their true
    lengths in `tgpu.lengths`.
  }];
}

def SplitReductionPass : SectilePass<"sectile-split-reduction", "SplitReduction"> {
  let summary = "Share a loop that only accumulates among several blocks";
  let description = [{
    Before: resolved tails. After: if the kernel is one loop whose carried values only accumulate, and then what uses the
    results: every part of a program takes its share of the trips (tgpu.split_range), tgpu.combine_parts puts the parts
    together, and what follows runs in the part that arrives last. Other kernels are unchanged.
  }];
  let options = [Option<"parts", "parts", "int64_t", "0",
                        "Parts per program; 0: as many as fill the GPU, 1: never split">,
                 Option<"streamk", "streamk", "int64_t", "0",
                        "Loops of products are shared by all blocks; 0: the launch is told what it needs to ask for that, 1: never, 2: yes">];
}

def SelectMmaPass : SectilePass<"sectile-select-mma", "SelectMma"> {
  let summary = "Choose an MMA table row per tile.mma, or none";
  let description = [{
    Before: any tile.mma. After: each carries `tgpu.atom` when a row of the target fits types and shape; the others become
    scalar multiply-adds later. Sets the launch geometry (warps) of the kernel.
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90a\"", "Target row">,
                 Option<"warps", "warps", "int", "0", "Warps per block; 0: by rule">,
                 Option<"blocks", "blocks", "int", "0", "Blocks of a pipelined kernel per multiprocessor; 0: by rule">,
                 Option<"pingpong", "pingpong", "int", "0", "2: warpgroups take programs of their own, where each product fits one; 0, 1: never">,
                 Option<"pipelined", "pipelined", "bool", "true", "Asynchronous products, with operands loaded ahead">];
}

def OverlapProductsPass : SectilePass<"sectile-overlap-products", "OverlapProducts"> {
  let summary = "First products of an iteration before the last ones of the iteration before";
  let description = [{
    Before: loops with tile.mma whose atoms are chosen. After: loops whose first products need nothing of earlier iterations,
    and whose last ones only add to what is carried, are rotated: the last products of an iteration stand in the next one,
    behind its first products. Other loops are unchanged.
  }];
  let options = [Option<"overlap", "overlap", "int", "0",
                        "0: where sums and operands fit into registers, 1: never, 2: wherever it can be done">];
}

def SplitMasksPass : SectilePass<"sectile-split-masks", "SplitMasks"> {
  let summary = "Loops in parts, of which one needs no masks";
  let description = [{
    Before: loops of products in which masks compare coordinates. After: iterations in which all of those masks hold
    everywhere run in a loop of their own without them, those before and behind it in copies with them. Other loops are
    unchanged.
  }];
}

def PerWarpBranchesPass : SectilePass<"sectile-per-warp-branches", "PerWarpBranches"> {
  let summary = "Rare branches that each warp takes alone";
  let description = [{
    Before: branches on whether any element of a tile holds, known to all threads through shared memory. After: where both ways
    give the same for rows without such an element, and no thread waits for other warps inside, each warp goes its own way
    (tgpu.warp_any). Other branches are unchanged.
  }];
}

def StageOperandsPass : SectilePass<"sectile-stage-operands", "StageOperands"> {
  let summary = "Products on warpgroups, with operands in shared memory";
  let description = [{
    Before: tile.mma with the atom that SelectMma chose. After: those with a wgmma atom are tgpu.wgmma; operands that the
    TMA unit or copies of threads can read come by tgpu.stage_load, other bs through a buffer, other as in registers.
  }];
  let options = [Option<"async", "async", "int", "0",
                        "Copies of threads: 0: where the TMA unit cannot read, 1: never, 2: wherever they can">];
}

def ChooseClusterPass : SectilePass<"sectile-choose-cluster", "ChooseCluster"> {
  let summary = "How many blocks run one program together";
  let description = [{
    Before: launch geometry with the warps of a block. After: `cluster` in the launch geometry, layouts are to be made for
    the warps of all its blocks.
  }];
  let options = [Option<"cluster", "cluster", "int", "0", "Blocks per cluster; 0: by rule">];
}

def AssignLayoutsPass : SectilePass<"sectile-assign-layouts", "AssignLayouts"> {
  let summary = "Give every tile a thread layout";
  let description = [{
    Before: plain tensors. After: every tensor type has a #tgpu.layout; where a producer's and a consumer's layouts
    differ a tgpu.convert_layout stands between them.
  }];
}

def LowerTileToTgpuPass : SectilePass<"sectile-lower-tile-to-tgpu", "LowerTileToTgpu"> {
  let summary = "Reductions and products become tgpu ops";
  let description = [{
    Before: every tensor has a layout. After: no tile.mma, tile.reduce remains; elementwise and shape ops whose layouts need
    only register renaming stay.
  }];
}

def LowerConversionsPass : SectilePass<"sectile-lower-conversions", "LowerConversions"> {
  let summary = "Conversions between threads become shuffles or go through shared buffers";
  let description = [{
    Before: any tgpu.convert_layout. After: only those that rename registers, and those within warps where shuffles cost less
    than shared memory; the others are buffer_alloc, copy, copy_out, with a swizzle of least bank conflicts for the two
    layouts.
  }];
}

def StoreBoxesPass : SectilePass<"sectile-store-boxes", "StoreBoxes"> {
  let summary = "Sums of products leave by the TMA unit";
  let description = [{
    Before: tgpu.global_store of tiles in any layout. After: those of tiles that lie as wgmma's accumulators are
    tgpu.bulk_store, where the TMA unit can write the tensor and nothing reads afterwards.
  }];
}

def NarrowBranchesPass : SectilePass<"sectile-narrow-branches", "NarrowBranches"> {
  let summary = "What a branch gives is made narrower inside it";
  let description = [{
    Before: tiles that a branch gives in a wide type and that only a conversion to a narrower one uses. After: both sides
    give the narrow type; what a side hands on from in front of the branch is converted there.
  }];
}

def KeepOperandsPass : SectilePass<"sectile-keep-operands", "KeepOperands"> {
  let summary = "First operands of products that a loop does not change, in registers";
  let description = [{
    Before: products of warpgroups whose first operand is in shared memory. After: where the sums, what the loop carries and the operand
    fit into registers, one that was loaded before the loop is read into registers once, and its buffer is free from
    there on. Others are unchanged.
  }];
  let options = [Option<"keep", "keep", "int64_t", "0", "0: by rule, 1: never, 2: wherever it can be done">];
}

def OrderProductsPass : SectilePass<"sectile-order-products", "OrderProducts"> {
  let summary = "Waits for asynchronous products";
  let description = [{
    Before: tgpu.wgmma whose results anyone may use. After: every use but that as acc of the next product goes through
    tgpu.wgmma_wait; loops that only accumulate keep the products of one iteration under way.
  }];
}

def ShareLoadsPass : SectilePass<"sectile-share-loads", "ShareLoads"> {
  let summary = "Pairs of blocks load once what both need";
  let description = [{
    Before: one program per block, its staged loads. After: where neighbouring programs along an axis load the same, `tgpu.pair`
    names the axis and `tgpu.shared_load` marks those loads. Other kernels are unchanged.
  }];
  let options = [Option<"multicast", "multicast", "int64_t", "0",
                        "0: where products leave the shared memory time for it, 1: never, 2: wherever it can be done">];
}

def MakePersistentPass : SectilePass<"sectile-make-persistent", "MakePersistent"> {
  let summary = "Blocks that go through several programs";
  let description = [{
    Before: one program per block. After: kernels with staged loads are a loop over programs (tgpu.program), in an order
    that shares operands in the L2 cache. Other kernels are unchanged.
  }];
  let options = [Option<"raster", "raster", "int64_t", "0", "Programs of a group along the second-last axis; 0: by rule">,
                 Option<"snake", "snake", "int64_t", "0", "Every second program goes backwards through loops that only accumulate; 1: never">,
                 Option<"persistent", "persistent", "int64_t", "0",
                        "Kernels without staged loads become such a loop; 0: by rule, 1: never, 2: wherever they can">];
}

def PrefetchLoadsPass : SectilePass<"sectile-prefetch-loads", "PrefetchLoads"> {
  let summary = "What the next trip of a loop loads is under way while this one is computed";
  let description = [{
    Before: loops whose tiles are loaded in the trip that uses them. After: where it pays, loads whose place follows from
    the loop's counter are issued one trip ahead, and the loop carries what they bring. Each load keeps its bounds, so that
    the one behind the last trip moves nothing.
  }];
  let options = [Option<"prefetch", "prefetch", "int64_t", "0", "0: by rule, 1: never, 2: wherever it can be done">];
}

def HintEvictionPass : SectilePass<"sectile-hint-eviction", "HintEviction"> {
  let summary = "Accesses say what the L2 cache should keep";
  let description = [{
    Before: accesses without hints. After: accesses of global memory that move bytes once carry `tgpu.evict` "first", those
    whose bytes the kernel reads again "last", where that is known.
  }];
  let options = [Option<"evict", "evict", "int64_t", "0", "0: by rule, 1: never, 2: wherever a hint can be given">];
}

def SpecialiseWarpsPass : SectilePass<"sectile-specialise-warps", "SpecialiseWarps"> {
  let summary = "One thread loads ahead, the others compute";
  let description = [{
    Before: tgpu.stage_load with sequential meaning, ordered products. After: no stage_load remains; the kernel is a
    tgpu.roles whose producer fills pipes that the consumers empty. Kernels without staged loads are unchanged.
  }];
}

def PlaceMemoryPass : SectilePass<"sectile-place-memory", "PlaceMemory"> {
  let summary = "Offsets of shared buffers by lifetime, slots of pipes";
  let description = [{
    Before: buffers without offsets, pipes of one slot. After: every buffer has one, overlapping lifetimes never share
    bytes; pipes have their slots and places; the launch attribute has the total.
  }];
  let options = [Option<"stages", "stages", "int64_t", "0", "Slots of pipes in the innermost loops; 0: as many as fit">];
}

def InsertBarriersPass : SectilePass<"sectile-insert-barriers", "InsertBarriers"> {
  let summary = "Barriers between conflicting shared-memory accesses";
  let description = [{
    Before: placed buffers, no barriers. After: on every path, also around loops, two accesses to overlapping bytes of which
    one writes have a barrier between them.
  }];
}

def CheckPipelinePass : SectilePass<"sectile-check-pipeline", "CheckPipeline"> {
  let summary = "Pipes and asynchronous products, proved on every path";
  let description = [{
    Before: placed pipes, all barriers. After: unchanged; fails at the user's line unless arrivals, bytes, phases, reuse of
    slots and waits for products are right for any number of trips of every loop and both ways of every branch.
  }];
}

def PlanRegistersPass : SectilePass<"sectile-plan-registers", "PlanRegisters"> {
  let summary = "Blocks per multiprocessor that registers should leave room for";
  let description = [{
    Before: final ops. After: unchanged but for `tgpu.min_blocks` on the function.
  }];
}

def CheckResourcesPass : SectilePass<"sectile-check-resources", "CheckResources"> {
  let summary = "Target limits as errors at the user's line";
  let description = [{
    Before: placed memory. After: unchanged; fails with both numbers if shared memory or registers pass the target's
    limits.
  }];
}

def SimplifyPass : SectilePass<"sectile-simplify", "Simplify"> {
  let summary = "Folds, dead code, loop-carried values that do not change";
  let description = [{
    Before: anything. After: the same meaning in ops of the same dialects.
  }];
}

#endif
