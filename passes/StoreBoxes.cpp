// SPDX-License-Identifier: Apache-2.0
/// \file StoreBoxes: sums of products leave by the TMA unit, or in whole rows by threads.
///
/// Before: tgpu.global_store of tiles in any layout. After: those whose values were in the layout of wgmma's accumulators,
/// where each warp holds whole rows of 16, are tgpu.bulk_store, if nothing reads after the store what it may have written,
/// and no place is written twice. Where the TMA unit cannot write the tensor, and threads would write pieces of less than
/// 8 bytes from the accumulators, the op has tgpu.by_threads.

#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "passes/Support.h"
#include "passes/TensorMaps.h"

#include "ir/StripStores.h"

#include <numeric>

namespace sectile::passes {
#define GEN_PASS_DEF_STOREBOXESPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

/// Strips of a warp that may be under way at a time.
constexpr int64_t stagingSlots = 2;

class Storer {
public:
  explicit Storer(func::FuncOp func) : func(func), layouts(func.getContext()) {}

  void run() {
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    if (!launch || launch.getCluster() > 1)
      return;
    warps = launch.getWarps();
    func.walk([&](tgpu::WgmmaOp op) {
      Attribute layout = cast<RankedTensorType>(op.getType()).getEncoding();
      if (!llvm::is_contained(accumulators, layout))
        accumulators.push_back(layout);
    });
    if (accumulators.empty())
      return;
    SmallVector<tgpu::GlobalStoreOp> stores;
    func.walk([&](tgpu::GlobalStoreOp op) { stores.push_back(op); });
    for (tgpu::GlobalStoreOp op : stores)
      lower(op);
  }

private:
  Operation *topOf(Operation *op) {
    while (op->getParentOp() != func.getOperation())
      op = op->getParentOp();
    return op;
  }

  /// Copies may be under way while the program goes on: nothing else writes what the store writes, nothing reads it later,
  /// and each run of the store has elements of its own.
  bool mayLinger(tgpu::GlobalStoreOp op) {
    Operation *top = topOf(op);
    SmallVector<scf::ForOp> loops;
    for (Operation *parent = op->getParentOp(); parent != func.getOperation(); parent = parent->getParentOp()) {
      if (auto loop = dyn_cast<scf::ForOp>(parent))
        loops.push_back(loop);
      else if (!isa<scf::IfOp>(parent))
        return false;
    }
    ArrayRef<int64_t> shape = shapeOf(op.getValue().getType());
    auto movesOn = [&](scf::ForOp loop) {
      return llvm::any_of(llvm::enumerate(op.getOffsets()), [&](auto offset) {
        auto step = stepAlong(offset.value(), loop);
        return step && std::abs(*step) >= shape[offset.index()];
      });
    };
    if (!llvm::all_of(loops, movesOn))
      return false;
    bool free = true;
    func.walk([&](Operation *other) {
      Value x;
      if (auto store = dyn_cast<tgpu::GlobalStoreOp>(other))
        x = store == op ? Value() : store.getX();
      else if (auto load = dyn_cast<tgpu::GlobalLoadOp>(other))
        x = load.getX();
      else if (auto gather = dyn_cast<tgpu::GlobalGatherOp>(other))
        x = gather.getX();
      else if (auto stage = dyn_cast<tgpu::StageLoadOp>(other))
        x = stage.getX();
      if (!x || !free)
        return;
      const bool isStore = isa<tgpu::GlobalStoreOp>(other);
      Operation *otherTop = topOf(other);
      free = (!isStore && otherTop != top && otherTop->isBeforeInBlock(top)) || !mayShareMemory(func, x, op.getX());
    });
    return free;
  }

  /// The length of an argument's axis as a limit.
  static std::string dimText(Value tensor, int64_t axis) {
    return "dim(" + std::to_string(cast<BlockArgument>(tensor).getArgNumber()) + "," + std::to_string(axis) + ")";
  }

  template <class A> A attributeOf(Value tensor, StringRef name) {
    auto arg = dyn_cast<BlockArgument>(tensor);
    if (!arg || arg.getOwner()->getParentOp() != func.getOperation())
      return {};
    return func.getArgAttrOfType<A>(arg.getArgNumber(), name);
  }
  /// The axis of stride 1 of an argument whose coordinates have 32 bits; -1: there is none.
  int64_t unitAxis(Value tensor) {
    auto unit = attributeOf<IntegerAttr>(tensor, unitStrideAttr);
    return unit && attributeOf<UnitAttr>(tensor, smallAttr) ? unit.getInt() : -1;
  }
  /// Of its start and its rows, in bytes.
  int64_t alignmentOf(Value tensor) {
    auto align = attributeOf<IntegerAttr>(tensor, alignAttr);
    auto strides = attributeOf<DenseI64ArrayAttr>(tensor, strideDivAttr);
    const int64_t bytes = int64_t(byteSize(*dtypeOfType(cast<tileir::TensorType>(tensor.getType()).getElementType())));
    int64_t together = align ? align.getInt() : bytes;
    for (auto [axis, divisor] : llvm::enumerate(strides ? strides.asArrayRef() : ArrayRef<int64_t>()))
      if (int64_t(axis) != unitAxis(tensor))
        together = std::gcd(together, divisor * bytes);
    return strides ? together : bytes;
  }

  void lower(tgpu::GlobalStoreOp op) {
    if (op.getMask())
      return;
    // Rows and columns of the product: reshapes and changes of layout move no element to another row-major place.
    Value value = op.getValue();
    ArrayRef<int64_t> shape = shapeOf(value.getType());
    while (shapeOf(value.getType()).size() != 2 ||
           !llvm::is_contained(accumulators, cast<RankedTensorType>(value.getType()).getEncoding())) {
      if (auto reshape = value.getDefiningOp<ReshapeOp>(); reshape && isTile(reshape.getX()))
        value = reshape.getX();
      else if (auto convert = value.getDefiningOp<tgpu::ConvertLayoutOp>())
        value = convert.getX();
      else
        return;
    }
    if (shape.size() < 2 || shapeOf(value.getType())[1] != shape.back())
      return;
    const int64_t rank = int64_t(shape.size()), bytes = int64_t(byteSize(*dtypeOfType(elementOf(value.getType()))));
    if (unitAxis(op.getX()) != rank - 1 || (bytes != 2 && bytes != 4))
      return;
    // Strips do not cross from one warpgroup's columns to the next one's.
    int64_t together = shape.back();
    const Layout &layout = layouts.of(value);
    for (size_t bit = 2; bit < layout.warp().size(); ++bit)
      if (int64_t step = layout.warp()[bit][1])
        together = std::gcd(together, step);
    int64_t span = 128;
    while (span > 16 && together * bytes % span)
      span /= 2;
    // Strips are rows of 16, whole columns of 8-row matrices.
    const int64_t columns = span / bytes;
    const ArrayRef<int64_t> rows = shape.drop_back();
    const SmallVector<int64_t> rowBox = tgpu::BulkStoreOp::rowBox(rows, 16);
    if (span < 32 || columns % 16 || rowBox.empty())
      return;
    auto limits = accessLimits(op.getOffsets(), shape, op.getAxes(), op.getLo(), op.getHi());
    if (!limits || !mayLinger(op))
      return;
    // The unit writes 16 bytes whole, also those that a row ends in.
    const std::string &limit = limits->limits[size_t(rank) - 1];
    const bool byUnit = tmaAxis(op.getX()) && startsAligned(op.getX(), op.getOffsets()[size_t(rank) - 1]) &&
                        isMultiple(func, limit == "inf" ? dimText(op.getX(), rank - 1) : limit, 16 / bytes);
    if (!byUnit && bytes > 2 && alignmentOf(op.getX()) >= 2 * bytes)
      return; // neighbours in a thread go together
    OpBuilder b(op);
    SmallVector<int64_t> order, box{columns};
    for (int64_t d = rank; d-- > 0;)
      order.push_back(d);
    box.append(rowBox);
    SmallVector<Attribute> texts;
    for (const std::string &limit : limits->limits)
      texts.push_back(b.getStringAttr(limit));
    auto map = tgpu::MapAttr::get(b.getContext(), order, box, span, b.getArrayAttr(texts), /*tf32=*/false);
    auto type = tgpu::BufferType::get(b.getContext(), {warps, byUnit ? stagingSlots : 1, 16, columns}, elementOf(value.getType()), {});
    Value staging = tgpu::BufferAllocOp::create(b, op.getLoc(), type, IntegerAttr());
    auto store = tgpu::BulkStoreOp::create(b, op.getLoc(), value, op.getX(), limits->placed(b, op.getLoc(), op.getOffsets()), map,
                                           staging, rank == 2 ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(rows));
    if (!byUnit)
      store->setAttr(tgpu::byThreadsAttr, b.getUnitAttr());
    op.erase();
  }

  func::FuncOp func;
  LayoutCache layouts;
  int64_t warps = 0;
  SmallVector<Attribute> accumulators;
};

struct StoreBoxes : sectile::passes::impl::StoreBoxesPassBase<StoreBoxes> {
  void runOnOperation() override {
    Storer(getOperation()).run();
    remarkStores(getOperation());
  }
};

} // namespace
