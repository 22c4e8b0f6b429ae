// SPDX-License-Identifier: Apache-2.0
#include "passes/LayoutCost.h"
#include "passes/Support.h"

#include "mlir/Interfaces/LoopLikeInterface.h"

#include <set>
#include <vector>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::passes {

namespace {

constexpr int64_t sectorBytes = 32;

/// Sectors of the first request of warp 0, if its first element is aligned: lanes meet in one where they differ by
/// less than a sector along the axis of stride 1 alone.
int64_t sectorsOf(const Layout &layout, int axis, int64_t width, int64_t bytes) {
  std::set<std::vector<int64_t>> sectors;
  for (int lane = 0; lane < 32; ++lane) {
    const Coords c = layout.coords(0, lane, 0);
    std::vector<int64_t> key;
    for (int d = 0; d < layout.rank(); ++d)
      key.push_back(d == axis ? c[d] * bytes / sectorBytes : c[d]);
    sectors.insert(std::move(key));
  }
  return int64_t(sectors.size()) * std::max<int64_t>(1, width * bytes / sectorBytes);
}

class Account {
public:
  explicit Account(func::FuncOp func) : func(func), layouts(func.getContext()) {}

  void run() {
    func.walk([&](Operation *op) {
      if (auto load = dyn_cast<tgpu::GlobalLoadOp>(op); load && isTile(load.getResult()))
        access(load, tgpu::GlobalAccess(load), load.getResult());
      else if (auto store = dyn_cast<tgpu::GlobalStoreOp>(op); store && isTile(store.getValue()))
        access(store, tgpu::GlobalAccess(store), store.getValue());
      else if (auto convert = dyn_cast<tgpu::ConvertLayoutOp>(op))
        conversion(convert);
    });
    if (!entries.empty())
      func->setAttr(layoutCostAttr, ArrayAttr::get(func.getContext(), entries));
  }

private:
  void add(Operation *op, StringRef way, int64_t bytes, int64_t vectorBytes, int64_t sectors) {
    Builder b(func.getContext());
    entries.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("at", cast<Attribute>(LocationAttr(op->getLoc()))), b.getNamedAttr("bytes", b.getI64IntegerAttr(bytes)),
         b.getNamedAttr("loop", b.getBoolAttr(op->getParentOfType<LoopLikeOpInterface>() != nullptr)),
         b.getNamedAttr("op", b.getStringAttr(op->getName().stripDialect())),
         b.getNamedAttr("sectors", b.getI64IntegerAttr(sectors)), b.getNamedAttr("vector", b.getI64IntegerAttr(vectorBytes)),
         b.getNamedAttr("way", b.getStringAttr(way))}));
  }

  void access(Operation *op, const tgpu::GlobalAccess &global, Value tile) {
    const Layout &layout = layouts.of(tile);
    const int64_t bytes = int64_t(byteSize(*dtypeOfType(elementOf(tile.getType()))));
    const int64_t width = tgpu::planGlobal(facts, global, layout).width();
    add(op, "", 0, width * bytes, sectorsOf(layout, tgpu::memoryRun(facts, global).axis, width, bytes));
  }

  void conversion(tgpu::ConvertLayoutOp op) {
    const Layout &from = layouts.of(op.getX()), &to = layouts.of(op.getResult());
    const ConversionKind kind = conversionKind(from, to);
    if (kind == ConversionKind::Same)
      return;
    const int64_t bytes = int64_t(byteSize(*dtypeOfType(elementOf(op.getType()))));
    // Each element is written once, and read by every thread that holds it.
    const int64_t read = int64_t(to.numRegs()) * 32 * (int64_t(1) << to.warp().size());
    const int64_t moved = (llvm::product_of(shapeOf(op.getType())) + read) * bytes;
    add(op, name(kind), kind == ConversionKind::SharedMemory ? moved : 0, 0, 0);
  }

  func::FuncOp func;
  LayoutCache layouts;
  IndexFacts facts;
  SmallVector<Attribute> entries;
};

} // namespace

void stateLayoutCost(func::FuncOp func) { Account(func).run(); }

SmallVector<LayoutCost> layoutCostOf(func::FuncOp func) {
  SmallVector<LayoutCost> costs;
  auto list = func->getAttrOfType<ArrayAttr>(layoutCostAttr);
  if (!list)
    return costs;
  for (Attribute attr : list) {
    auto entry = dyn_cast<DictionaryAttr>(attr);
    auto at = entry ? entry.getAs<LocationAttr>("at") : LocationAttr();
    auto op = entry ? entry.getAs<StringAttr>("op") : StringAttr(), way = entry ? entry.getAs<StringAttr>("way") : StringAttr();
    if (!at || !op || !way)
      continue;
    auto number = [&](StringRef name) {
      auto n = entry.getAs<IntegerAttr>(name);
      return n ? n.getInt() : 0;
    };
    auto loop = entry.getAs<BoolAttr>("loop");
    costs.push_back({Location(at), op.str(), way.str(), number("bytes"), number("vector"), number("sectors"),
                     loop && loop.getValue()});
  }
  return costs;
}

} // namespace sectile::passes
