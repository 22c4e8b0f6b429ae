// SPDX-License-Identifier: Apache-2.0
#include "passes/Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <bit>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::passes {

// --- builders
// ---------------------------------------------------------------------------------------------------

Value indexConstant(OpBuilder &b, Location loc, int64_t value) {
  return ConstantOp::create(b, loc, b.getIndexAttr(value));
}

Value constant(OpBuilder &b, Location loc, Type type, TypedAttr scalar) {
  if (auto shaped = dyn_cast<RankedTensorType>(type))
    return ConstantOp::create(b, loc,
                              cast<TypedAttr>(Attribute(SplatElementsAttr::get(shaped, Attribute(scalar)))));
  return ConstantOp::create(b, loc, scalar);
}

Value binary(OpBuilder &b, Location loc, BinaryFn fn, Value x, Value y) {
  return b.createOrFold<BinaryOp>(loc, x.getType(), fn, x, y);
}

Value compare(OpBuilder &b, Location loc, ComparePred pred, Value x, Value y) {
  return b.createOrFold<CompareOp>(loc, withElement(x.getType(), b.getI1Type()), pred, x, y);
}

Value select(OpBuilder &b, Location loc, Value cond, Value x, Value y) {
  return b.createOrFold<SelectOp>(loc, x.getType(), cond, x, y);
}

TypedAttr zeroOf(Type element) {
  if (auto scale = dyn_cast<Float8E8M0FNUType>(element)) // has no zero: its smallest value
    return FloatAttr::get(scale, llvm::APFloat(scale.getFloatSemantics(), llvm::APInt(8, 0)));
  if (isa<FloatType>(element))
    return FloatAttr::get(element, 0.0);
  return IntegerAttr::get(element, 0);
}

bool isZero(Attribute attr) {
  if (auto splat = dyn_cast<SplatElementsAttr>(attr))
    attr = splat.getSplatValue<Attribute>();
  if (auto f = dyn_cast<FloatAttr>(attr))
    return f.getValue().isPosZero();
  if (auto i = dyn_cast<IntegerAttr>(attr))
    return i.getValue().isZero();
  return false;
}

// --- layouts
// ----------------------------------------------------------------------------------------------------

const Layout &LayoutCache::of(Type type) {
  Attribute encoding = cast<RankedTensorType>(type).getEncoding();
  std::unique_ptr<Layout> &entry = parsed[encoding];
  if (!entry)
    entry = std::make_unique<Layout>(cast<tgpu::LayoutAttr>(encoding).layout());
  return *entry;
}

Attribute LayoutCache::attribute(const Layout &layout) {
  Attribute &entry = printed[layout];
  if (!entry) {
    entry = tgpu::LayoutAttr::get(context, layout);
    std::unique_ptr<Layout> &back = parsed[entry];
    if (!back)
      back = std::make_unique<Layout>(layout);
  }
  return entry;
}

RankedTensorType LayoutCache::with(Type type, const Layout &layout) {
  auto tile = cast<RankedTensorType>(type);
  return RankedTensorType::get(tile.getShape(), tile.getElementType(), attribute(layout));
}

SmallVector<int32_t> shape32(Type type) {
  ArrayRef<int64_t> shape = shapeOf(type);
  return SmallVector<int32_t>(shape.begin(), shape.end());
}

std::optional<SmallVector<int>> unitReshapeMap(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<int> map(from.size(), -1);
  size_t j = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 1) {
      // Pair it with an axis of length 1 at the same place, if there is one.
      if (j < to.size() && to[j] == 1)
        map[i] = int(j++);
      continue;
    }
    while (j < to.size() && to[j] == 1)
      ++j;
    if (j == to.size() || to[j] != from[i])
      return std::nullopt;
    map[i] = int(j++);
  }
  for (; j < to.size(); ++j)
    if (to[j] != 1)
      return std::nullopt;
  return map;
}

namespace {

int64_t oddPart(int64_t n) { return n >> llvm::countr_zero(uint64_t(n)); }

/// A row-major index as a number in mixed radix, odd radices and powers of two in turn: odd, log2, odd, log2,
/// ...
SmallVector<int64_t> radices(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> r;
  bool lastWasOdd = false;
  for (int64_t n : shape) {
    int64_t odd = oddPart(n), log = llvm::countr_zero(uint64_t(n));
    if (odd != 1) {
      if (lastWasOdd)
        r.back() *= odd;
      else
        r.push_back(odd);
      lastWasOdd = true;
    }
    if (log != 0) {
      if (!lastWasOdd && !r.empty())
        r.back() += log;
      else {
        if (r.empty())
          r.push_back(1);
        r.push_back(log);
      }
      lastWasOdd = false;
    }
  }
  return r;
}

} // namespace

bool reshapeKeepsRegisters(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  return radices(from) == radices(to);
}

std::optional<Layout> reshapeLayout(const Layout &layout, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  if (from.size() > size_t(maxLayoutRank) || to.size() > size_t(maxLayoutRank))
    return std::nullopt;
  bool oddReps = true;
  for (int d = 0; d < layout.rank(); ++d)
    oddReps &= layout.reps()[d] % 2 == 1;
  if (!oddReps) {
    // Only axes of length 1 may come and go.
    auto map = unitReshapeMap(from, to);
    if (!map)
      return std::nullopt;
    Layout result = layout;
    for (int d = int(from.size()) - 1; d >= 0; --d)
      if ((*map)[d] < 0)
        result = result.drop(d);
    for (size_t d = 0; d < to.size(); ++d)
      if (!llvm::is_contained(*map, int(d))) {
        if (result.rank() == maxLayoutRank)
          return std::nullopt;
        result = result.insertUnit(int(d));
      }
    return result;
  }
  if (!reshapeKeepsRegisters(from, to))
    return std::nullopt;
  // Power-of-two bits of the row-major index, lowest first, as (axis, bit) in both shapes.
  auto bitsOf = [](ArrayRef<int64_t> shape) {
    SmallVector<std::pair<int, int>> bits;
    for (int d = int(shape.size()) - 1; d >= 0; --d)
      for (int i = 0, n = llvm::countr_zero(uint64_t(shape[d])); i < n; ++i)
        bits.push_back({d, i});
    return bits;
  };
  auto fromBits = bitsOf(from), toBits = bitsOf(to);
  auto translate = [&](const std::vector<Coords> &bases) {
    std::vector<Coords> result;
    for (const Coords &basis : bases) {
      Coords c;
      for (size_t i = 0; i < fromBits.size(); ++i)
        if ((basis[fromBits[i].first] >> fromBits[i].second) & 1)
          c[toBits[i].first] |= 1 << toBits[i].second;
      result.push_back(c);
    }
    return result;
  };
  Coords core, reps;
  for (size_t d = 0; d < to.size(); ++d) {
    reps[int(d)] = int32_t(oddPart(to[d]));
    core[int(d)] = int32_t(to[d] / oddPart(to[d]));
  }
  return Layout::create(int(to.size()), core, reps, translate(layout.reg()), translate(layout.lane()),
                        translate(layout.warp()));
}

bool mayShareMemory(func::FuncOp func, Value x, Value y) {
  if (tileir::rootTensor(x) == tileir::rootTensor(y))
    return true;
  if (!func->hasAttr(tileir::apartAttr))
    return true;
  func->setAttr(tgpu::assumesApartAttr, UnitAttr::get(func.getContext()));
  return false;
}

int blocksPerProgram(func::FuncOp func) {
  auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
  return launch ? int(launch.getCluster()) : 1;
}

bool crossesBlocks(const Layout &src, const Layout &dst, int blocks) {
  if (blocks == 1)
    return false;
  const LinearForm from(src), to(dst);
  // What a block of `src` holds: the span of all bases but the last, which number the blocks.
  int blockBits = llvm::countr_zero(unsigned(blocks));
  F2Matrix held = from.matrix;
  held.columns.resize(held.columns.size() - size_t(blockBits));
  size_t inBlock = to.matrix.columns.size() - size_t(blockBits);
  for (size_t i = 0; i < to.matrix.columns.size(); ++i) {
    uint64_t column = to.matrix.columns[i];
    if (i >= inBlock)
      column ^= from.matrix.columns[held.columns.size() + (i - inBlock)];
    if (!held.solve(column))
      return true;
  }
  return false;
}

// --- memory accesses
// --------------------------------------------------------------------------------------------

AccessFact accessFact(IndexFacts &facts, const tgpu::GlobalAccess &access) {
  ArrayRef<int64_t> shape = shapeOf(access.tile);
  tgpu::MemoryRun run = tgpu::memoryRun(facts, access);
  AccessFact fact;
  if (run.axis >= 0 && shape[run.axis] > 1) {
    fact.axis = run.axis;
    fact.elems = std::min(run.elems, shape[run.axis] & -shape[run.axis]);
    return fact;
  }
  // Without knowledge of strides: the last axis that moves.
  fact.axis = int(shape.size()) - 1;
  while (fact.axis > 0 && shape[fact.axis] == 1)
    --fact.axis;
  return fact;
}

// --- control flow
// ---------------------------------------------------------------------------------------------------

void forPassedOn(Operation *op, llvm::function_ref<void(Value, Value)> same) {
  auto all = [&](auto a, auto b) {
    for (auto [x, y] : llvm::zip_equal(a, b))
      same(x, y);
  };
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    all(loop.getInitArgs(), loop.getRegionIterArgs());
    all(loop.getInitArgs(), loop.getYieldedValues());
    all(loop.getInitArgs(), loop.getResults());
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    if (branch.getNumResults() == 0)
      return;
    all(branch.getResults(), branch.thenYield().getOperands());
    all(branch.getResults(), branch.elseYield().getOperands());
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    all(loop.getInits(), loop.getBeforeArguments());
    all(loop.getInits(), loop.getYieldOp().getOperands());
    all(loop.getResults(), loop.getAfterArguments());
    all(loop.getResults(), loop.getConditionOp().getArgs());
  }
}

// --- products
// ---------------------------------------------------------------------------------------------------

std::optional<std::pair<int, int>> warpGrid(const MmaRow &row, int m, int n, int k, int warps) {
  if (row.kind == MmaKind::Wgmma)
    warps /= 4; // of warpgroups
  std::optional<std::pair<int, int>> best;
  int64_t bestTraffic = 0;
  for (int warpsM = 1; warpsM <= warps; warpsM *= 2) {
    int warpsN = warps / warpsM;
    if (m % (warpsM * row.m) || n % (warpsN * row.n) || k % row.k)
      continue;
    // Each warp reads its rows of A and its columns of B. Equal: more warps along M keep rows in one warp.
    int64_t traffic = int64_t(m) * warpsN + int64_t(n) * warpsM;
    if (!best || traffic <= bestTraffic) {
      best = {warpsM, warpsN};
      bestTraffic = traffic;
    }
  }
  return best;
}

} // namespace sectile::passes
