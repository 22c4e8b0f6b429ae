// SPDX-License-Identifier: Apache-2.0
#include <sectile/Tile.h>

#include <sectile/Ops.h>

#include "dsl/Trace.h"

using namespace mlir;

namespace sectile {

using detail::Trace;

DType Tile::dtype(std::source_location loc) const {
  return *tileir::dtypeOfType(tileir::elementOf(Trace::get(loc, "dtype").read(ref, "dtype", loc).getType()));
}

int Tile::rank(std::source_location loc) const {
  return tileir::shapeOf(Trace::get(loc, "rank").read(ref, "rank", loc).getType()).size();
}

int Tile::length(int axis, std::source_location loc) const {
  Trace &t = Trace::get(loc, "length");
  llvm::ArrayRef<int64_t> shape = tileir::shapeOf(t.read(ref, "length", loc).getType());
  tileir::Violation v;
  if (!tileir::checkAxis("length", axis, shape.size(), "length_c1", v))
    t.fail(loc, v);
  return shape[axis];
}

Tile Tile::fill(TileAt value) const { return sectile::fill(TileAt(*this, value.loc), value); }
Tile Tile::t(std::source_location loc) const { return sectile::t(TileAt(*this, loc)); }

Tile Tile::dropAxes(const int *axes, int count, std::source_location loc) const {
  Trace &t = Trace::get(loc, "drop");
  Value x = t.read(ref, "drop", loc);
  llvm::ArrayRef<int64_t> shape = tileir::shapeOf(x.getType());
  llvm::SmallVector<bool> gone(shape.size(), false);
  for (int axis : llvm::ArrayRef<int>(axes, count)) {
    tileir::Violation v;
    if (!tileir::checkAxis("drop", axis, shape.size(), "drop_c1", v))
      t.fail(loc, v);
    if (shape[axis] != 1)
      t.fail(loc, "drop",
             "axis " + std::to_string(axis) + " of " + detail::tileText(x) + " has length " +
                 std::to_string(shape[axis]),
             "drop_c2", "drop axes of length 1, or reduce the axis first");
    gone[axis] = true;
  }
  llvm::SmallVector<int64_t> left;
  for (auto [d, length] : llvm::enumerate(shape))
    if (!gone[d])
      left.push_back(length);
  Type element = tileir::elementOf(x.getType());
  Type type = left.empty() ? element : Type(RankedTensorType::get(left, element));
  return Tile(t.define(tileir::ReshapeOp::create(t.builder(), t.at(loc), type, x), loc));
}

} // namespace sectile
