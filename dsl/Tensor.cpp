// SPDX-License-Identifier: Apache-2.0
#include <sectile/Tensor.h>

#include "dsl/Trace.h"

using namespace mlir;

namespace sectile::detail {

using tileir::Violation;

TracedTensor::TracedTensor(const TracedTensor &other, std::source_location loc)
    : ref(other.ref.trace ? copyCell(other.ref, nullptr, loc) : CellRef()), param(other.param) {}

TracedTensor &TracedTensor::operator=(TracedTensor value) {
  if (ref.trace && value.ref.trace) {
    // A variable of the kernel: from here on it may be one tensor or another.
    assignCell(ref, value.ref);
    if (param != value.param)
      param = -1;
    return *this;
  }
  if (ref.trace)
    dropCell(ref, this);
  ref = value.ref.trace ? copyCell(value.ref, nullptr, std::source_location()) : CellRef();
  param = value.param;
  return *this;
}

static Value tensorOperand(Trace &t, CellRef ref, const char *op, Position loc) {
  if (!ref.trace)
    t.fail(loc, op, "this tensor is a host view, not a parameter of the kernel", "tile_trace",
           "take it as a parameter of the kernel's lambda");
  return t.read(ref, op, loc);
}

/// An offset or coordinate: a host number or a tile (a scalar if `scalar`) of dtype index.
static Value indexOperand(Trace &t, const TileAt &x, const char *op, int axis, bool scalar) {
  Type type = IndexType::get(t.context());
  if (x.isLiteral)
    return t.constant(type, {}, x.number, op, x.loc);
  Value v = t.read(x.cell, op, x.loc);
  if (!tileir::elementOf(v.getType()).isIndex())
    t.fail(x.loc, op,
           "the offset along axis " + std::to_string(axis) + " is " + tileText(v) + ", not of dtype index",
           "offset_index", "convert it with cast<Index>(x)");
  if (scalar && v.getType() != type)
    t.fail(x.loc, op,
           "the offset along axis " + std::to_string(axis) + " is " + tileText(v) + ", not a scalar",
           "offset_index", "use at(...) for coordinates lane by lane");
  return v;
}

static llvm::SmallVector<Value> offsetsOf(Trace &t, std::span<const TileAt> offsets, const char *op) {
  llvm::SmallVector<Value> values;
  for (const TileAt &o : offsets)
    values.push_back(indexOperand(t, o, op, values.size(), true));
  return values;
}

Tile TracedTensor::dim(int axis, std::source_location loc) const {
  Trace &t = Trace::get(loc, "dim");
  Value x = tensorOperand(t, ref, "dim", loc);
  Violation v;
  if (!tileir::checkAxis("dim", axis, llvm::cast<tileir::TensorType>(x.getType()).getRank(), "dim_c1", v))
    t.fail(loc, v);
  return Tile(t.define(tileir::DimOp::create(t.builder(), t.at(loc), x, axis), loc));
}

Tile TracedTensor::load(std::span<const TileAt> offsets, std::span<const int> shape, std::source_location loc) const {
  Trace &t = Trace::get(loc, "load");
  Value x = tensorOperand(t, ref, "load", loc);
  llvm::SmallVector<int64_t> lengths(shape.begin(), shape.end());
  Violation v;
  Type type = tileir::inferLoad(llvm::cast<tileir::TensorType>(x.getType()), offsets.size(), lengths, v);
  if (!type)
    t.fail(loc, v);
  llvm::SmallVector<Value> at = offsetsOf(t, offsets, "load");
  return Tile(t.define(tileir::LoadOp::create(t.builder(), t.at(loc), type, x, at), loc));
}

void TracedTensor::store(std::span<const TileAt> offsets, const TileAt &value, std::source_location loc) const {
  Trace &t = Trace::get(loc, "store");
  Value x = tensorOperand(t, ref, "store", loc);
  auto type = llvm::cast<tileir::TensorType>(x.getType());
  llvm::SmallVector<Value> at = offsetsOf(t, offsets, "store");
  Value v = value.isLiteral ? t.constant(type.getElementType(), {}, value.number, "store", value.loc)
                            : t.read(value.cell, "store", value.loc);
  llvm::ArrayRef<int64_t> shape = tileir::shapeOf(v.getType());
  if (int64_t(shape.size()) < type.getRank()) {
    llvm::SmallVector<int64_t> full(type.getRank() - shape.size(), 1);
    full.append(shape.begin(), shape.end());
    v = tileir::ReshapeOp::create(t.builder(), t.at(loc),
                                  RankedTensorType::get(full, tileir::elementOf(v.getType())), v);
  }
  Violation violation;
  if (!tileir::checkStore(v.getType(), type, offsets.size(), false, violation))
    t.fail(loc, violation);
  tileir::StoreOp::create(t.builder(), t.at(loc), v, x, at);
}

Tile TracedTensor::at(std::span<const TileAt> indices, std::source_location loc) const {
  Trace &t = Trace::get(loc, "at");
  Value x = tensorOperand(t, ref, "at", loc);
  llvm::SmallVector<Value> values;
  for (const TileAt &i : indices)
    values.push_back(indexOperand(t, i, "at", values.size(), false));
  // Tiles take one common shape; scalars mean the same coordinate for every lane.
  Type common = values.front().getType();
  for (Value v : values) {
    Violation violation;
    auto shape = tileir::inferBroadcastShape("at", common, v.getType(), violation);
    if (!shape)
      t.fail(loc, violation);
    if (!shape->empty())
      common = RankedTensorType::get(*shape, IndexType::get(t.context()));
  }
  llvm::SmallVector<Type> types;
  for (Value &v : values) {
    if (!tileir::shapeOf(v.getType()).empty() && v.getType() != common)
      v = tileir::BroadcastOp::create(t.builder(), t.at(loc), common, v);
    types.push_back(v.getType());
  }
  Violation violation;
  Type type = tileir::inferGather(llvm::cast<tileir::TensorType>(x.getType()), types, violation);
  if (!type)
    t.fail(loc, violation);
  return Tile(t.define(tileir::GatherOp::create(t.builder(), t.at(loc), type, x, values), loc));
}

CellRef TracedTensor::slice(int axis, const TileAt &lo, const TileAt &hi, std::source_location loc) const {
  Trace &t = Trace::get(loc, "slice");
  Value x = tensorOperand(t, ref, "slice", loc);
  Violation v;
  if (!tileir::checkAxis("slice", axis, llvm::cast<tileir::TensorType>(x.getType()).getRank(), "slice_c1", v))
    t.fail(loc, v);
  Value from = indexOperand(t, lo, "slice", axis, true), to = indexOperand(t, hi, "slice", axis, true);
  return t.define(tileir::SliceOp::create(t.builder(), t.at(loc), x, axis, from, to), loc);
}

void TracedTensor::grid(std::span<const int> sizes, std::span<CellRef> offsets, std::source_location loc) const {
  Trace &t = Trace::get(loc, "grid");
  Value x = tensorOperand(t, ref, "grid", loc);
  if (t.hasGrid)
    t.fail(loc, "grid", "the kernel already has a grid", "grid_c1", "declare one grid and use its offsets");
  if (t.frames.size() != 1)
    t.fail(loc, "grid", "the grid is declared inside a loop or branch", "grid_c1",
           "declare it at the top of the kernel's body");
  if (!llvm::isa<BlockArgument>(x))
    t.fail(loc, "grid", "the tensor is a slice, not a parameter of the kernel", "grid_c4",
           "cover the parameter that it was sliced from");
  llvm::SmallVector<int64_t> lengths(sizes.begin(), sizes.end());
  Violation v;
  if (!tileir::checkGrid(llvm::cast<tileir::TensorType>(x.getType()), lengths, v))
    t.fail(loc, v);
  t.hasGrid = true;
  llvm::SmallVector<Type> types(sizes.size(), IndexType::get(t.context()));
  auto op = tileir::GridOp::create(t.builder(), t.at(loc), types, x, lengths);
  for (auto [d, value] : llvm::enumerate(op.getOffsets()))
    offsets[d] = t.define(value, loc);
}

} // namespace sectile::detail
