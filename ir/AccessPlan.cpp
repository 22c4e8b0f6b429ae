// SPDX-License-Identifier: Apache-2.0
#include "ir/AccessPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::tgpu {

// --- vectors
// ----------------------------------------------------------------------------------------------------

VectorPlan::VectorPlan(const Layout &layout, int axis, int64_t elems, int64_t whole) : runAxis(axis) {
  if (axis < 0)
    return;
  for (int bit : layout.contiguousBits(axis)) {
    if ((int64_t(2) << bits.size()) > elems)
      break;
    bits.push_back(bit);
    mask |= 1u << bit;
  }
  mayBeCut = width() > whole;
}

SmallVector<int> VectorPlan::vector(int first) const {
  SmallVector<int> registers;
  for (int k = 0; k < width(); ++k) {
    int reg = first;
    for (auto [bit, place] : llvm::enumerate(bits))
      if (k >> bit & 1)
        reg |= 1 << place;
    registers.push_back(reg);
  }
  return registers;
}

// --- global memory
// ----------------------------------------------------------------------------------------------

namespace {

template <class A> A argumentAttr(Value tensor, StringRef name) {
  auto arg = dyn_cast<BlockArgument>(tensor);
  auto func = arg ? dyn_cast_or_null<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  return func ? func.getArgAttrOfType<A>(arg.getArgNumber(), name) : A();
}

int64_t powerOfTwoIn(int64_t n) { return n <= 0 ? 1 : n & -n; }
int64_t times(int64_t x, int64_t y) { return std::min(IndexFacts::maxDivisor, x * y); }

} // namespace

MemoryRun memoryRun(IndexFacts &facts, const GlobalAccess &access) {
  ArrayRef<int64_t> shape = shapeOf(access.tile);
  Value root = rootTensor(access.tensor);
  auto unit = argumentAttr<IntegerAttr>(root, unitStrideAttr);
  if (!unit || unit.getInt() < 0 || unit.getInt() >= int64_t(shape.size()))
    return {};
  MemoryRun run;
  run.axis = int(unit.getInt());
  int64_t bytes = int64_t(byteSize(*dtypeOfType(elementOf(access.tile))));
  auto strides = argumentAttr<DenseI64ArrayAttr>(root, strideDivAttr);
  auto strideDivisor = [&](int64_t d) {
    return d != run.axis && strides && d < strides.size() ? powerOfTwoIn(strides[d]) : 1;
  };

  // The start of the view, in bytes.
  int64_t align = bytes;
  if (auto attr = argumentAttr<IntegerAttr>(root, alignAttr))
    align = std::max(align, powerOfTwoIn(attr.getInt()));
  for (auto slice = access.tensor.getDefiningOp<SliceOp>(); slice;
       slice = slice.getX().getDefiningOp<SliceOp>()) {
    int64_t axis = int64_t(slice.getAxis()), lo = facts.divisor(slice.getLo());
    if (lo != IndexFacts::maxDivisor) // clamped to 0, itself or the length
      lo = std::min(lo, facts.dimDivisor(slice.getX(), axis));
    align = std::min(align, times(lo, times(strideDivisor(axis), bytes)));
  }

  run.elems = std::max<int64_t>(1, std::min(align, widestAccess) / bytes);
  for (int64_t d = 0; d < int64_t(shape.size()); ++d) {
    int64_t offset = facts.divisor(access.offsets[size_t(d)]);
    if (d != run.axis) // any coordinate may occur, unless there is only one
      offset = times(strideDivisor(d), shape[size_t(d)] == 1 ? offset : 1);
    run.elems = std::min(run.elems, offset);
  }
  if (access.alignedBytes)
    run.elems = std::max(run.elems, std::min(access.alignedBytes, widestAccess) / bytes);
  run.whole = run.elems;
  for (auto [k, axis] : llvm::enumerate(access.axes))
    if (axis == run.axis)
      run.whole = std::min({run.whole, facts.divisor(access.lo[k]), facts.divisor(access.hi[k])});
  return run;
}

VectorPlan planGlobal(IndexFacts &facts, const GlobalAccess &access, const Layout &layout) {
  MemoryRun run = memoryRun(facts, access);
  // One predicate per vector.
  if (run.axis >= 0 && access.mask && !equalAlong(access.mask, run.axis))
    run.elems = 1;
  return VectorPlan(layout, run.axis, run.elems, run.whole);
}

bool equalAlong(Value tile, int64_t axis) {
  if (shapeOf(tile.getType())[size_t(axis)] == 1)
    return true;
  Operation *op = tile.getDefiningOp();
  if (!op)
    return false;
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<ConstantOp, SplatOp>([](auto) { return true; })
      .Case([&](IotaOp iota) { return int64_t(iota.getAxis()) != axis; })
      .Case([&](BroadcastOp o) { return equalAlong(o.getX(), axis); })
      .Case([&](PermuteOp o) { return equalAlong(o.getX(), o.getPerm()[size_t(axis)]); })
      .Case([&](ConvertLayoutOp o) { return equalAlong(o.getX(), axis); })
      .Case<UnaryOp, BinaryOp, CompareOp, SelectOp, FmaOp, CastOp>([&](auto o) {
        return llvm::all_of(o->getOperands(), [&](Value v) { return equalAlong(v, axis); });
      })
      .Default([](Operation *) { return false; });
}

// --- shared memory
// ----------------------------------------------------------------------------------------------

Swizzle swizzleOf(BufferType buffer) {
  ArrayRef<int64_t> p = buffer.getSwizzle(), shape = buffer.getShape();
  return *Swizzle::parse({p.data(), p.size()}, llvm::product_of(shape.drop_back()), shape.back(),
                         int64_t(byteSize(*dtypeOfType(buffer.getElementType()))));
}

VectorPlan planShared(BufferType buffer, const Layout &layout) {
  int64_t length = buffer.getShape().back();
  int64_t elems = widestAccess / int64_t(byteSize(*dtypeOfType(buffer.getElementType())));
  if (int64_t chunk = swizzleOf(buffer).chunk)
    elems = std::min(elems, chunk);
  return VectorPlan(layout, int(buffer.getShape().size()) - 1, std::min(elems, length & -length));
}

std::optional<MatrixLoads> planMatrixLoads(BufferType type, const Layout &l) {
  DType dtype = *dtypeOfType(type.getElementType());
  int64_t elementBytes = int64_t(byteSize(dtype));
  if (dtype == DType::boolean || planShared(type, l).width() * elementBytes >= widestAccess)
    return std::nullopt;
  ArrayRef<int64_t> shape = type.getShape();
  int last = int(shape.size()) - 1;
  int64_t row = widestAccess / elementBytes; // elements of a row of a matrix
  Swizzle swizzle = swizzleOf(type);
  if (elementBytes > 4 || shape[size_t(last)] % row != 0 || (swizzle.chunk && swizzle.chunk % row != 0))
    return std::nullopt;
  auto isStep = [&](const Coords &basis, int64_t step) {
    Coords c;
    c[last] = int32_t(step);
    return basis == c;
  };
  for (bool transposed : {false, true}) {
    if (transposed && elementBytes != 2)
      continue;
    MatrixLoads m;
    m.transposed = transposed;
    std::vector<Coords> rowBases;
    if (transposed) {
      // Columns from the upper lane bits, rows from a register bit and the lower ones.
      if (!isStep(l.lane()[2], 1) || !isStep(l.lane()[3], 2) || !isStep(l.lane()[4], 4) || l.reg().empty())
        continue;
      m.pieceBits = {0};
      rowBases = {l.reg()[0], l.lane()[0], l.lane()[1]};
    } else {
      for (int64_t step = 1; step * elementBytes < 4; step *= 2)
        for (int bit = 0; bit < int(l.reg().size()); ++bit)
          if (isStep(l.reg()[size_t(bit)], step)) {
            m.pieceBits.push_back(bit);
            break;
          }
      if ((1 << m.pieceBits.size()) * elementBytes != 4 || !isStep(l.lane()[0], 4 / elementBytes) ||
          !isStep(l.lane()[1], 8 / elementBytes))
        continue;
      rowBases = {l.lane()[2], l.lane()[3], l.lane()[4]};
    }
    // Everything else moves by whole rows.
    bool whole = l.core()[last] % row == 0;
    auto check = [&](const Coords &basis) { whole &= basis[last] % row == 0; };
    llvm::for_each(rowBases, check);
    llvm::for_each(l.warp(), check);
    for (int bit = 0; bit < int(l.reg().size()); ++bit)
      if (!llvm::is_contained(m.pieceBits, bit)) {
        check(l.reg()[size_t(bit)]);
        (m.matrixBits.size() < 2 ? m.matrixBits : m.otherBits).push_back(bit);
      }
    if (!whole)
      continue;
    std::vector<Coords> otherBases;
    for (int bit : m.matrixBits)
      rowBases.push_back(l.reg()[size_t(bit)]);
    for (int bit : m.otherBits)
      otherBases.push_back(l.reg()[size_t(bit)]);
    rowBases.resize(laneBits); // unused lanes name rows that are there
    std::optional<Layout> rows = Layout::create(l.rank(), l.core(), l.reps(), otherBases, rowBases, l.warp());
    if (!rows)
      continue;
    m.rows = *rows;
    return m;
  }
  return std::nullopt;
}

} // namespace sectile::tgpu
