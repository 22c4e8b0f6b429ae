// SPDX-License-Identifier: Apache-2.0
/// \file State of one emission: the LLVM module being built, the LLVM values of each MLIR value, thread
/// geometry.
///
/// An MLIR value maps to a list of LLVM values:
/// - a scalar to one; a tile to one per register of its layout (Layout::numRegs());
/// - a tensor view of rank R to 1 + 2R: pointer into address space 1, dims, strides (i64, in elements);
/// - a buffer to one: a pointer into address space 3.
/// Element types in registers: fp8 as i8, f16 half, bf16 bfloat, truth values i1, index i64, integers by
/// width.
#pragma once

#include "ir/AccessPlan.h"
#include "ir/base/Artifact.h"
#include "ir/base/Layout.h"
#include <sectile/Targets.h>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <map>
#include <memory>
#include <set>
#include <unordered_map>

namespace sectile {
class ShufflePlan;
}

namespace sectile::codegen {

struct PipeState;

using Regs = llvm::SmallVector<llvm::Value *, 8>;
inline bool isFp8(DType t) { return t == DType::e4m3 || t == DType::e5m2; }
/// Floats that f32 holds exactly.
inline bool isSmall(DType t) { return isFp8(t) || t == DType::f16 || t == DType::bf16; }

/// Folds constants only: folding by analysis would read phis that are not complete yet.
using Builder = llvm::IRBuilder<>;

/// The LLVM values of a tensor view.
struct View {
  llvm::Value *pointer;
  llvm::SmallVector<llvm::Value *, 5> dims, strides;
};

/// The part of a layout's coordinates that depends on the thread. Coordinate d of register r is
/// `thread[d] + regs[r][d]` where `disjoint[d]`, else the core parts are XORed.
struct Geometry {
  Layout layout;
  llvm::SmallVector<llvm::Value *, 5> thread;     ///< i32
  llvm::SmallVector<std::uint32_t, 5> threadMask; ///< the bits that `thread` can have
  llvm::SmallVector<bool, 5> disjoint;            ///< no bit comes from register and thread alike
  std::vector<Coords> regs;
};

class EmitContext {
public:
  EmitContext(llvm::Module &module, const Target &target, mlir::func::FuncOp func, tgpu::LaunchAttr launch);

  /// Fills the function: parameters, body. Failure has emitted a diagnostic.
  mlir::LogicalResult emitFunction(LaunchInfo &launch);

private:
  // --- EmitContext.cpp: values, types, geometry
  // ----------------------------------------------------------------
  llvm::Type *elementLlvm(DType t);
  llvm::Type *i(unsigned bits) { return b.getIntNTy(bits); }
  DType dtype(mlir::Type t);
  /// The registers of a value; a scalar has one.
  const Regs &regs(mlir::Value v);
  llvm::Value *scalar(mlir::Value v) { return regs(v).front(); }
  View view(mlir::Value v);
  void set(mlir::Value v, Regs r);
  int numRegs(mlir::Type t);
  llvm::Constant *constantOf(mlir::Attribute value, DType t);
  llvm::Value *i32(std::int64_t v) { return b.getInt32(std::uint32_t(v)); }
  llvm::Value *i64(std::int64_t v) { return b.getInt64(std::uint64_t(v)); }
  const Geometry &geometry(const Layout &l);
  /// Coordinate `axis` of register `reg`, i32.
  llvm::Value *coordinate(const Geometry &g, int reg, int axis);
  /// i1: this thread is the one that stores what the layout's places share, in all blocks of the cluster, or in
  /// each (`perBlock`); lanes in `others` do not count.
  llvm::Value *ownsElements(const Layout &l, bool perBlock = false, std::uint32_t others = 0);
  /// Registers whose free bits are 0.
  static bool ownsRegister(const Layout &l, int reg);
  mlir::LogicalResult bug(mlir::Operation *op, const llvm::Twine &what);

  // --- EmitControl.cpp: functions, blocks, loops, the iteration space
  // ----------------------------------------------
  mlir::LogicalResult emitBlock(mlir::Block &block);
  mlir::LogicalResult emitOp(mlir::Operation *op);
  mlir::LogicalResult emitTileOp(mlir::Operation *op);
  mlir::LogicalResult emitTgpuOp(mlir::Operation *op);
  mlir::LogicalResult emitArithOp(mlir::Operation *op);
  mlir::LogicalResult emitFor(mlir::scf::ForOp op);
  mlir::LogicalResult emitIf(mlir::scf::IfOp op);
  mlir::LogicalResult emitWhile(mlir::scf::WhileOp op);
  mlir::LogicalResult emitGrid(tileir::GridOp op);
  void emitSlice(tileir::SliceOp op);
  void emitParameters(LaunchInfo &launch);
  llvm::SmallVector<Regs> makePhis(llvm::ArrayRef<mlir::Value> like, unsigned incoming);
  void addIncoming(llvm::ArrayRef<Regs> phis, llvm::ArrayRef<Regs> values, llvm::BasicBlock *from);
  llvm::SmallVector<Regs> valuesOf(mlir::ValueRange values);
  void setFrom(mlir::Value v, const Regs &words);
  llvm::BasicBlock *newBlock(llvm::StringRef name);
  /// x if control comes from block `from`, y if from `other`.
  llvm::Value *joined(llvm::Value *x, llvm::BasicBlock *from, llvm::Value *y, llvm::BasicBlock *other) {
    llvm::PHINode *phi = b.CreatePHI(x->getType(), 2);
    phi->addIncoming(x, from);
    phi->addIncoming(y, other);
    return phi;
  }
  void dontUnroll(llvm::Instruction *latch);

  // --- EmitShape.cpp: renames of registers
  // -----------------------------------------------------------------------
  /// dst register r shows the element of `src` at map(coordinates of r).
  mlir::LogicalResult renameRegisters(mlir::Operation *op, mlir::Value src, mlir::Value dst,
                                      llvm::function_ref<Coords(const Coords &)> map);
  mlir::LogicalResult emitBroadcast(tileir::BroadcastOp op);
  mlir::LogicalResult emitReshape(tileir::ReshapeOp op);
  mlir::LogicalResult emitPermute(tileir::PermuteOp op);
  mlir::LogicalResult emitConvert(tgpu::ConvertLayoutOp op);
  mlir::LogicalResult emitShuffles(tgpu::ConvertLayoutOp op, const ShufflePlan &plan); ///< EmitShuffle.cpp
  void emitIota(tileir::IotaOp op);

  // --- EmitElementwise.cpp, EmitInteger.cpp, EmitCast.cpp, EmitMath.cpp: one register at a time
  // --------------------
  mlir::LogicalResult emitUnary(tileir::UnaryOp op);
  mlir::LogicalResult emitBinary(tileir::BinaryOp op);
  mlir::LogicalResult emitCompare(tileir::CompareOp op);
  mlir::LogicalResult emitSelect(tileir::SelectOp op);
  void emitFma(tileir::FmaOp op);
  void emitWarpAny(tgpu::WarpAnyOp op);
  bool worksInPairs(tileir::BinaryFn fn, DType t) const;
  llvm::Value *pair(llvm::Value *low, llvm::Value *high);
  llvm::Value *unary(tileir::UnaryFn fn, DType t, llvm::Value *x);
  llvm::Value *binary(tileir::BinaryFn fn, DType t, llvm::Value *x, llvm::Value *y);
  llvm::Value *integerBinary(tileir::BinaryFn fn, DType t, llvm::Value *x, llvm::Value *y);
  llvm::Value *floatBinary(tileir::BinaryFn fn, DType t, llvm::Value *x, llvm::Value *y);
  llvm::Value *compare(tileir::ComparePred pred, DType t, llvm::Value *x, llvm::Value *y);
  llvm::Value *maximum(llvm::Value *x, llvm::Value *y, bool isMin);
  llvm::Value *maxNum(llvm::Value *x, llvm::Value *y, bool isMin);
  /// The bf16 quotient of x and y (f32) from their f32 quotient.
  llvm::Value *divBf16(llvm::Value *x, llvm::Value *y, llvm::Value *q);
  Regs divideFloats(DType t, Regs x, Regs y);
  /// With `to`, f16 or bf16: the quotients as such.
  Regs divideF32(llvm::ArrayRef<llvm::Value *> x, llvm::ArrayRef<llvm::Value *> s, DType to = DType::f32);
  llvm::Value *mathFunction(tileir::UnaryFn fn, llvm::Value *x); ///< x is f32 or f64
  llvm::Value *power(llvm::Value *x, llvm::Value *y);
  llvm::Value *floatRemainder(llvm::Value *x, llvm::Value *y); ///< C's fmod, exact
  llvm::Value *callHelper(llvm::StringRef name, llvm::Type *result, llvm::ArrayRef<llvm::Value *> args,
                          llvm::function_ref<llvm::Value *(llvm::ArrayRef<llvm::Value *>)> body);

  mlir::LogicalResult emitCast(tileir::CastOp op);
  mlir::LogicalResult emitBits(tgpu::BitsOp op);
  llvm::Value *cast(DType from, DType to, llvm::Value *x);
  llvm::Value *toF32(DType from, llvm::Value *x);  ///< f8, f16, bf16, f32: exact
  llvm::Value *upperHalfOfWord(llvm::Value *x);
  llvm::Value *fromF32(DType to, llvm::Value *x);  ///< one rounding
  llvm::Value *oddF32(DType from, llvm::Value *x); ///< f64 and integers to f32, rounded to odd
  /// Two f32 to two fp8 in the low and high byte of an i16.
  llvm::Value *packFp8(DType to, llvm::Value *low, llvm::Value *high);
  llvm::Value *softFp8(DType to, llvm::Value *x);
  /// Two fp8 in an i16 to <2 x half>.
  llvm::Value *unpackFp8(DType from, llvm::Value *pair);
  llvm::Value *softFp8ToF16(DType from, llvm::Value *x);
  /// Types of storage (codegen/EmitStorage.cpp).
  llvm::Value *storageToF32(DType from, llvm::Value *x);
  llvm::Value *f32ToStorage(DType to, llvm::Value *x);
  /// Two codes in the halves of an i32 to <2 x half> or <2 x bfloat>, which hold them all. @pre not ue8m0
  llvm::Value *storagePair(DType from, DType to, llvm::Value *both);
  bool hasFp8Conversions() const { return target.has(Feature::mmaSyncFp8); }

  // --- EmitMemory.cpp: global memory
  // -----------------------------------------------------------------------------
  mlir::LogicalResult emitGlobalLoad(tgpu::GlobalLoadOp op);
  Regs loadElements(class GlobalEmission &access, llvm::Value *pad, llvm::Value *policy, int count);
  mlir::LogicalResult emitGlobalStore(tgpu::GlobalStoreOp op);
  mlir::LogicalResult emitGlobalGather(tgpu::GlobalGatherOp op);
  /// Registers of a vector in memory form: <n x element>, truth values as bytes.
  llvm::Value *packVector(DType t, llvm::ArrayRef<llvm::Value *> elements);
  void unpackVector(DType t, llvm::Value *vector, llvm::MutableArrayRef<llvm::Value *> elements);
  llvm::Type *memoryVector(DType t, int n);
  /// The same bits as one to four 32- or 64-bit words (or one 16-bit word).
  llvm::Type *wordType(llvm::Type *vector, int &count);
  /// With a `policy` (see evictPolicy) the L2 cache is told what to keep.
  llvm::Value *loadGlobal(DType t, int n, llvm::Value *pointer, llvm::Value *predicate, llvm::Value *pad,
                          llvm::Value *policy = nullptr);
  void storeGlobal(llvm::Value *vector, llvm::Value *pointer, llvm::Value *predicate, llvm::Value *policy = nullptr);
  /// What the access' tgpu.evict asks for, i64; null: nothing.
  llvm::Value *evictPolicy(mlir::Operation *access);
  friend class GlobalEmission;

  // --- EmitFill.cpp: elements outside a box
  // ----------------------------------------------------------------------
  mlir::LogicalResult emitFillOutside(tgpu::FillOutsideOp op);
  mlir::LogicalResult emitMisalign(tgpu::MisalignOp op);
  /// lo <= coordinate < hi along one axis of a tile; i32, less the thread's part of the coordinate where the
  /// registers' part has no bit of it. Null: all coordinates pass.
  struct AxisBound {
    int axis;
    llvm::Value *lo, *hi;
  };
  AxisBound axisBound(const Geometry &g, int axis, mlir::Value lo, mlir::Value hi);
  llvm::Value *isFromLow(const Geometry &g, int reg, const AxisBound &bound);
  llvm::Value *isBelowHigh(const Geometry &g, int reg, const AxisBound &bound);
  llvm::Value *isInside(const Geometry &g, int reg, llvm::ArrayRef<AxisBound> bounds);
  /// i1: all registers of the thread are inside, as far as bounds along each axis alone tell.
  llvm::Value *allInside(const Geometry &g, llvm::ArrayRef<AxisBound> bounds);
  /// i1: some of the neighbouring registers are inside.
  llvm::Value *overlaps(const Geometry &g, llvm::ArrayRef<int> vector, llvm::ArrayRef<AxisBound> bounds);
  /// i1: all of the neighbouring registers are inside; some are and some are not.
  llvm::Value *isWhole(const Geometry &g, llvm::ArrayRef<int> vector, llvm::ArrayRef<AxisBound> bounds);
  llvm::Value *isCut(const Geometry &g, llvm::ArrayRef<int> vector, llvm::ArrayRef<AxisBound> bounds);
  /// Most threads have nothing outside, and so much that code of their own pays: not where a layout is repeated along a
  /// bounded axis, as the last repetition is outside in almost every thread.
  static bool fewHaveOutside(const Layout &layout, llvm::ArrayRef<AxisBound> bounds);
  /// How a reduction takes over a fill_outside of its operand: whole vectors are left out after they have been
  /// folded, so that no filled tile is ever there. None: it does not.
  std::optional<tgpu::VectorPlan> foldedFill(tgpu::ReduceOp op);
  /// x with `fill` in the elements outside of those vectors that a bound cuts.
  Regs fillCutVectors(const Geometry &g, const tgpu::VectorPlan &plan, llvm::ArrayRef<AxisBound> bounds, Regs x,
                      llvm::Value *fill);
  /// A bound as i32, cut to [0, length]: coordinates lie in [0, length).
  llvm::Value *boundInTile(mlir::Value bound, std::int32_t length);

  // --- EmitShared.cpp
  // ------------------------------------------------------------------------------------------
  mlir::LogicalResult emitBufferAlloc(tgpu::BufferAllocOp op);
  mlir::LogicalResult emitCopy(tgpu::CopyOp op);
  mlir::LogicalResult emitCopyOut(tgpu::CopyOutOp op);
  void emitBarrier(bool cluster);
  /// The named barrier of the threads that `barrierThreads` counts.
  llvm::Value *barrierNumber();
  void emitGroups(int count);
  void emitTurn(bool pass);
  void emitFirstTurn();
  /// The block's shared memory, as a pointer.
  llvm::Value *sharedStart();
  /// Pointer to an element given by run-time coordinates (i32).
  llvm::Value *bufferElement(tgpu::BufferType type, llvm::Value *base, llvm::ArrayRef<llvm::Value *> coords);
  friend class SharedEmission;

  // --- EmitCluster.cpp: blocks that run one program together
  // -----------------------------------------------------------------
  void emitClusterSetup();
  mlir::LogicalResult emitPeerCopy(tgpu::PeerCopyOp op);
  mlir::LogicalResult emitPeerWait(tgpu::PeerWaitOp op);
  void assembly(llvm::StringRef text, llvm::StringRef constraints, llvm::ArrayRef<llvm::Value *> operands);

  // --- EmitPipe.cpp: roles, pipes, persistent blocks
  // -------------------------------------------------------------------------------
  llvm::SmallVector<std::pair<unsigned, tgpu::MapAttr>> collectMaps();
  TensorMap launchMap(unsigned arg, tgpu::MapAttr map);
  /// The kernel parameter that holds the map, as a pointer; null for a tensor that is no argument.
  llvm::Value *mapPointer(mlir::Value x, tgpu::MapAttr map);
  llvm::Value *sharedAddress(llvm::Value *pointer); ///< i32
  /// The number of the warp in the block, the same register in all its lanes.
  llvm::Value *uniformWarp();
  /// Assembly that all threads of a warp run together.
  llvm::CallInst *uniformAssembly(llvm::Type *result, llvm::StringRef text, llvm::StringRef constraints,
                                  llvm::ArrayRef<llvm::Value *> operands);
  void waitForParity(llvm::Value *barrier, llvm::Value *parity);
  PipeState &pipe(mlir::Value v);
  mlir::LogicalResult emitPipeCreate(tgpu::PipeCreateOp op);
  mlir::LogicalResult emitRoles(tgpu::RolesOp op);
  mlir::LogicalResult emitPipeAcquire(tgpu::PipeAcquireOp op);
  mlir::LogicalResult emitPipeCommit(tgpu::PipeCommitOp op);
  mlir::LogicalResult emitTmaLoad(tgpu::TmaLoadOp op);
  /// i1: the one of the producer's threads that does what one thread can do; null: only one runs.
  llvm::Value *leads = nullptr;
  /// Runs `emit` in one thread of the producer.
  void byOneThread(llvm::function_ref<void()> emit);
  /// Where buffer `index` of the slot that the producer fills starts, and the slot's `full`, a shared address.
  llvm::Value *bufferToFill(mlir::Value pipe, unsigned index);
  llvm::Value *fullBarrier(mlir::Value pipe);
  mlir::LogicalResult emitPipeWait(tgpu::PipeWaitOp op);
  mlir::LogicalResult emitPipeRelease(tgpu::PipeReleaseOp op);
  llvm::Value *programsAlong(mlir::Value x, unsigned axis, std::int64_t size);
  void emitPrograms(tgpu::ProgramsOp op);
  void emitBlockNumber(tgpu::BlockNumberOp op);
  /// Blocks work in pairs (tgpu.pair), and which of its pair this one is, i32.
  bool hasPairs() { return func->hasAttr(tgpu::pairAttr); }
  llvm::Value *pairRank();
  void emitProgram(tgpu::ProgramOp op);

  // --- EmitAsync.cpp: operands by copies of threads
  // -----------------------------------------------------------------------------------------------
  mlir::LogicalResult emitAsyncLoad(tgpu::AsyncLoadOp op);
  mlir::LogicalResult emitAsyncArrive(tgpu::AsyncArriveOp op);
  /// A number that the launch could compute, i64, in the entry block.
  llvm::Value *launchValue(llvm::StringRef text);
  /// Where a tensor ends along an axis for an access with this limit, at most its length: i32, not negative, in the entry
  /// block. Null: the limit is no expression.
  llvm::Value *axisLimit(llvm::StringRef text, const View &x, std::size_t axis);
  // EmitStrips.cpp
  /// The threads of a warp store a strip of a tgpu.bulk_store, which starts at a row and column of the tile. `placeOf`: the
  /// byte of a row's 16-byte piece in it.
  mlir::LogicalResult storeStrip(tgpu::BulkStoreOp op, llvm::Value *strip, llvm::Value *firstRow, llvm::Value *firstColumn,
                                 llvm::function_ref<llvm::Value *(llvm::Value *, llvm::Value *)> placeOf);
  friend class AsyncCopies;

  // --- EmitWgmma.cpp
  // ---------------------------------------------------------------------------------------------------
  mlir::LogicalResult emitWgmma(tgpu::WgmmaOp op);
  mlir::LogicalResult emitWgmmaWait(tgpu::WgmmaWaitOp op);
  /// wgmma.wait_group; afterwards the values are its outputs.
  void waitForGroups(std::int64_t pending, llvm::ArrayRef<Regs *> values);
  /// An f32 whose upper 19 bits are those of the nearest tf32, ties to even.
  llvm::Value *roundToTf32(llvm::Value *v);
  mlir::LogicalResult emitBulkStore(tgpu::BulkStoreOp op);
  llvm::Value *storePolicy(const View &x, std::int64_t elementBytes);

  // --- EmitReduce.cpp, EmitMma.cpp
  // --------------------------------------------------------------------------------
  mlir::LogicalResult emitReduce(tgpu::ReduceOp op);
  llvm::Value *shuffleXor(llvm::Value *v, int laneMask);
  mlir::LogicalResult emitMmaSync(tgpu::MmaSyncOp op);
  mlir::LogicalResult emitMmaFma(tgpu::MmaFmaOp op);

  // --- EmitSplit.cpp: several blocks per program
  // --------------------------------------------------------------
  void emitSplitRange(tgpu::SplitRangeOp op);
  void emitSharedPrograms(tgpu::SharedProgramsOp op);
  mlir::LogicalResult emitCombineParts(tgpu::CombinePartsOp op);
  friend class PartsInMemory;

  llvm::Module &mod;
  const Target &target;
  mlir::func::FuncOp func;
  int warps, cluster; ///< warps per block, blocks per program
  std::int64_t bytesOfBlock; ///< shared memory
  llvm::LLVMContext &ctx;
  Builder b;
  llvm::Function *fn = nullptr;
  llvm::Instruction *setupEnd =
      nullptr; ///< end of the entry block; what is inserted before it reaches everywhere
  llvm::Value *thread = nullptr;                ///< i32, in the block
  llvm::Value *lane = nullptr, *warp = nullptr; ///< i32; `warp` counts those of all blocks of the cluster
  std::map<std::int64_t, llvm::Value *> phases; ///< per count of arrivals: the address of its phase, 0 or 1
  llvm::GlobalVariable *shared = nullptr;
  llvm::MapVector<mlir::Value, std::shared_ptr<PipeState>> pipes;
  llvm::SmallVector<std::pair<unsigned, tgpu::MapAttr>> maps; ///< of arguments, as parameters from firstMap on
  unsigned firstMap = 0;
  llvm::Value *warpOfAll = nullptr; ///< see uniformWarp
  // Of a kernel whose consumers are groups of warps (ir/PingPong.h): `thread`, uniformWarp and sharedStart are those of the group.
  int groups = 1;
  llvm::Value *group = nullptr, *threadOfBlock = nullptr, *warpOfBlock = nullptr, *groupShared = nullptr;
  int barrierThreads = 0;           ///< that a barrier of the running role is for; 0: all of the block
  llvm::Value *workspace = nullptr, *partTrips = nullptr; ///< of a split kernel: pointer, i64; the latter the shared programs of Stream-K
  LaunchSplit split;                                      ///< what the launch must know of it
  llvm::DenseMap<mlir::Value, Regs> values;
  std::unordered_map<Layout, std::unique_ptr<Geometry>> geometries;
  tileir::IndexFacts indexFacts;
  std::map<std::string, llvm::Function *> helpers;
};

} // namespace sectile::codegen
