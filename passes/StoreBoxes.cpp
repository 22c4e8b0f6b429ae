// SPDX-License-Identifier: Apache-2.0
/// \file StoreBoxes: sums of products leave by the TMA unit.
///
/// Before: tgpu.global_store of tiles in any layout. After: those whose layout is that of wgmma's accumulators, where
/// each warp holds whole rows of 16, are tgpu.bulk_store, if the TMA unit can write the tensor and nothing reads after the
/// store what it may have written.

#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "passes/Support.h"
#include "passes/TensorMaps.h"

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
      if (isLast(op))
        lower(op);
  }

private:
  /// At the top level of the kernel, the one store to its tensor, and nothing behind it reads memory.
  bool isLast(tgpu::GlobalStoreOp op) {
    if (op->getParentOp() != func.getOperation())
      return false;
    bool last = true;
    func.walk([&](Operation *other) {
      if (auto store = dyn_cast<tgpu::GlobalStoreOp>(other)) {
        last &= store == op || tileir::rootTensor(store.getX()) != tileir::rootTensor(op.getX());
      } else if (isa<tgpu::GlobalLoadOp, tgpu::GlobalGatherOp, tgpu::StageLoadOp>(other)) {
        Operation *top = other;
        while (top->getParentOp() != func.getOperation())
          top = top->getParentOp();
        last &= top->isBeforeInBlock(op);
      }
    });
    return last;
  }

  void lower(tgpu::GlobalStoreOp op) {
    if (op.getMask())
      return;
    // The tile in two axes: the last two of the store, the others of length 1.
    Value value = op.getValue();
    ArrayRef<int64_t> shape = shapeOf(value.getType());
    if (auto reshape = value.getDefiningOp<ReshapeOp>(); reshape && isTile(reshape.getX()) && shape.size() > 2 &&
                                                         shapeOf(reshape.getX().getType()) == shape.take_back(2))
      value = reshape.getX();
    if (shape.size() < 2 || llvm::product_of(shape.drop_back(2)) != 1 || shapeOf(value.getType()).size() != 2)
      return;
    if (!llvm::is_contained(accumulators, cast<RankedTensorType>(value.getType()).getEncoding()))
      return;
    const int64_t rank = int64_t(shape.size()), bytes = int64_t(byteSize(*dtypeOfType(elementOf(value.getType()))));
    auto unit = tmaAxis(op.getX());
    if (!unit || *unit != rank - 1 || (bytes != 2 && bytes != 4))
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
    if (span < 32 || columns % 16 || shape[size_t(rank) - 2] % 16)
      return;
    auto limits = accessLimits(op.getOffsets(), shape, op.getAxes(), op.getLo(), op.getHi());
    if (!limits)
      return;
    OpBuilder b(op);
    SmallVector<int64_t> order, box;
    for (int64_t d = rank; d-- > 0;) {
      order.push_back(d);
      box.push_back(d == rank - 1 ? columns : d == rank - 2 ? 16 : 1);
    }
    SmallVector<Attribute> texts;
    for (const std::string &limit : *limits)
      texts.push_back(b.getStringAttr(limit));
    auto map = tgpu::MapAttr::get(b.getContext(), order, box, span, b.getArrayAttr(texts));
    auto type = tgpu::BufferType::get(b.getContext(), {warps, stagingSlots, 16, columns}, elementOf(value.getType()), {});
    Value staging = tgpu::BufferAllocOp::create(b, op.getLoc(), type, IntegerAttr());
    tgpu::BulkStoreOp::create(b, op.getLoc(), value, op.getX(), op.getOffsets(), map, staging);
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
