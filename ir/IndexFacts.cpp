// SPDX-License-Identifier: Apache-2.0
#include "ir/IndexFacts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;
using namespace sectile;

namespace sectile::tileir {

namespace {

/// Dims and grid offsets fit in device memory's address space.
constexpr unsigned addressBits = 48;
/// Those of tensors with `tile.small`.
constexpr unsigned smallBits = 31;

int64_t divisorOf(int64_t value) {
  if (value == 0)
    return IndexFacts::maxDivisor;
  return std::min(IndexFacts::maxDivisor, value & -value);
}
unsigned bitsOf(int64_t value) {
  if (value < 0)
    value = -(value + 1);
  return 64 - llvm::countl_zero(uint64_t(value));
}
IndexFact factOf(int64_t value) {
  return {divisorOf(value), value >= 0, std::min(63u, bitsOf(value) + (value < 0 ? 1 : 0))};
}
/// Both may happen.
IndexFact join(IndexFact a, IndexFact b) {
  return {std::min(a.divisor, b.divisor), a.nonNegative && b.nonNegative, std::max(a.bits, b.bits)};
}
/// Entry of an argument attribute that is a list by axis; 0 if there is none.
int64_t argumentEntry(Value tensor, StringRef name, int64_t axis) {
  auto arg = dyn_cast<BlockArgument>(tensor);
  if (!arg)
    return 0;
  auto func = dyn_cast_or_null<func::FuncOp>(arg.getOwner()->getParentOp());
  if (!func)
    return 0;
  auto entries = func.getArgAttrOfType<DenseI64ArrayAttr>(arg.getArgNumber(), name);
  if (!entries || axis >= entries.size())
    return 0;
  return std::max<int64_t>(0, entries[axis]);
}

} // namespace

Value rootAlongAxis(Value tensor, int64_t axis) {
  while (auto slice = tensor.getDefiningOp<SliceOp>()) {
    if (slice.getAxis() == uint64_t(axis))
      break;
    tensor = slice.getX();
  }
  return tensor;
}

Value rootTensor(Value tensor) {
  while (auto slice = tensor.getDefiningOp<SliceOp>())
    tensor = slice.getX();
  return tensor;
}

bool hasSmallOffsets(Value tensor) {
  auto arg = dyn_cast<BlockArgument>(rootTensor(tensor));
  auto func = arg ? dyn_cast_or_null<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  return func && func.getArgAttr(arg.getArgNumber(), smallAttr);
}

std::optional<int64_t> IndexFacts::constant(Value v) {
  Attribute attr;
  if (!matchPattern(v, m_Constant(&attr)))
    return std::nullopt;
  if (auto splat = dyn_cast<SplatElementsAttr>(attr))
    attr = splat.getSplatValue<Attribute>();
  if (auto integer = dyn_cast<IntegerAttr>(attr))
    return integer.getValue().getBitWidth() <= 64 ? std::optional(integer.getValue().getSExtValue())
                                                  : std::nullopt;
  return std::nullopt;
}

int64_t IndexFacts::dimDivisor(Value tensor, int64_t axis) {
  tensor = rootAlongAxis(tensor, axis);
  if (auto slice = tensor.getDefiningOp<SliceOp>())
    // The length is hi - lo where both are clamped to [0, dim], or 0.
    return std::min({divisor(slice.getLo()), divisor(slice.getHi()), dimDivisor(slice.getX(), axis)});
  return divisorOf(std::max<int64_t>(1, argumentEntry(tensor, dimDivAttr, axis)));
}

int64_t IndexFacts::dimMax(Value tensor, int64_t axis) {
  int64_t most = 0;
  for (auto slice = tensor.getDefiningOp<SliceOp>(); slice; slice = tensor.getDefiningOp<SliceOp>()) {
    tensor = slice.getX();
    if (slice.getAxis() != uint64_t(axis))
      continue;
    // Both ends are clamped to [0, dim]; at least 1, since 0 means that nothing is known.
    auto lo = constant(slice.getLo()), hi = constant(slice.getHi());
    if (!hi || *hi >= maxDivisor)
      continue;
    int64_t length = std::max<int64_t>(1, *hi - std::max<int64_t>(0, lo.value_or(0)));
    most = most ? std::min(most, length) : length;
  }
  int64_t whole = argumentEntry(tensor, dimMaxAttr, axis);
  return most && whole ? std::min(most, whole) : std::max(most, whole);
}

IndexFact IndexFacts::of(Value v) {
  if (auto it = known.find(v); it != known.end())
    return it->second;
  if (auto it = assumed.find(v); it != assumed.end())
    return it->second;
  IndexFact fact = compute(v);
  known[v] = fact;
  return fact;
}

/// A loop-carried value: assume what holds at the start, weaken until the loop keeps it.
IndexFact IndexFacts::ofCarried(Value carried, Value init, Value yielded) {
  IndexFact fact = of(init);
  while (true) {
    assumed[carried] = fact;
    IndexFact next = join(fact, of(yielded));
    // Sizes may creep up forever: one growth gives them up.
    if (next.bits > fact.bits) {
      next.bits = 63;
    }
    bool stable =
        next.divisor == fact.divisor && next.nonNegative == fact.nonNegative && next.bits == fact.bits;
    assumed.erase(carried);
    if (stable)
      return fact;
    known.clear(); // may rest on the assumption
    fact = next;
  }
}

void IndexSum::add(const IndexSum &other, int64_t factor) {
  constant += factor * other.constant;
  for (auto [v, n] : other.terms) {
    auto *it = llvm::find_if(terms, [&, v = v](const auto &term) { return term.first == v; });
    if (it == terms.end())
      terms.push_back({v, factor * n});
    else if (!(it->second += factor * n))
      terms.erase(it);
  }
}

llvm::SmallVector<IndexSum, 4> IndexFacts::atMost(Value v) {
  constexpr size_t most = 4;
  constexpr unsigned mostBits = 56; // nothing wraps
  using Sums = llvm::SmallVector<IndexSum, 4>;
  if (auto c = constant(v))
    return {IndexSum{{}, *c}};
  const Sums itself{IndexSum{{{v, 1}}, 0}};
  auto op = v.getDefiningOp<BinaryOp>();
  if (!op || of(v).bits > mostBits)
    return itself;
  Sums sums;
  switch (op.getFn()) {
  case BinaryFn::k_add:
    for (const IndexSum &a : atMost(op.getA()))
      for (const IndexSum &b : atMost(op.getB()))
        sums.emplace_back(a).add(b, 1);
    break;
  case BinaryFn::k_sub:
    for (const IndexSum &a : atMost(op.getA()))
      sums.emplace_back(a).add(constant(op.getB()) ? IndexSum{{}, *constant(op.getB())} : IndexSum{{{op.getB(), 1}}, 0}, -1);
    break;
  case BinaryFn::k_min:
    sums = atMost(op.getA());
    llvm::append_range(sums, atMost(op.getB()));
    break;
  case BinaryFn::k_mul: { // rounded down to a multiple: of every divisor of it, too
    auto down = op.getA().getDefiningOp<BinaryOp>();
    auto by = constant(op.getB());
    if (!down || !by || *by < 1 || (down.getFn() != BinaryFn::k_floordiv && down.getFn() != BinaryFn::k_div) || constant(down.getB()) != by)
      return itself;
    if (down.getFn() == BinaryFn::k_div && !nonNegative(down.getA()))
      return itself; // below 0 that rounds up
    sums = atMost(down.getA());
    for (IndexSum &s : sums) {
      int64_t common = divisorOf(*by);
      for (auto [term, n] : s.terms)
        common = std::min(common, divisor(term));
      s.constant -= ((s.constant % common) + common) % common;
    }
    break;
  }
  default:
    return itself;
  }
  if (sums.size() > most)
    sums.resize(most);
  return sums;
}

/// 2^bits is above the value, which may be negative.
unsigned IndexFacts::bitsAtMost(Value v) {
  unsigned bits = of(v).bits;
  for (const IndexSum &s : atMost(v)) {
    Value above; // what else is in the sum makes it less
    const bool isOne = s.constant <= 0 && llvm::all_of(s.terms, [&](const auto &term) {
      if (term.second < 0)
        return nonNegative(term.first);
      if (above || term.second > 1)
        return false;
      above = term.first;
      return true;
    });
    if (isOne)
      bits = std::min(bits, above ? of(above).bits : 0);
  }
  return bits;
}

/// The counter of a loop that ends at `first`, or before it, is at most that: what counts down from `first` does not pass 0.
bool IndexFacts::staysBelow(Value counter, Value first) {
  auto arg = dyn_cast<BlockArgument>(counter);
  auto loop = arg ? dyn_cast_or_null<scf::ForOp>(arg.getOwner()->getParentOp()) : scf::ForOp();
  if (!loop || counter != loop.getInductionVar())
    return false;
  // The end is one of first + n, n <= 1, first - n, n >= -1, or not behind one of them.
  auto endsThere = [&](auto &self, Value end) -> bool {
    if (end == first)
      return true;
    auto op = end.getDefiningOp<BinaryOp>();
    if (!op)
      return false;
    auto n = constant(op.getB());
    switch (op.getFn()) {
    case BinaryFn::k_min:
      return self(self, op.getA()) || self(self, op.getB());
    case BinaryFn::k_max:
      return self(self, op.getA()) && self(self, op.getB());
    case BinaryFn::k_add:
      return op.getA() == first && n && *n <= 1;
    case BinaryFn::k_sub: {
      if (op.getA() != first)
        return false;
      if (n || of(op.getB()).nonNegative)
        return !n || *n >= -1;
      // One less than what is not negative.
      auto less = op.getB().getDefiningOp<BinaryOp>();
      if (!less || (less.getFn() != BinaryFn::k_sub && less.getFn() != BinaryFn::k_add) || !of(less.getA()).nonNegative)
        return false;
      auto by = constant(less.getB());
      return by && (less.getFn() == BinaryFn::k_sub ? *by <= 1 : *by >= -1);
    }
    default:
      return false;
    }
  };
  return endsThere(endsThere, loop.getUpperBound());
}

IndexFact IndexFacts::ofBinary(BinaryOp op) {
  IndexFact a = of(op.getA()), b = of(op.getB());
  auto c = constant(op.getB());
  IndexFact none;
  switch (op.getFn()) {
  case BinaryFn::k_add: {
    unsigned bits = std::max(a.bits, b.bits) + 1;
    // A place in a tile that starts at a multiple of its length: nothing carries.
    auto fillsIn = [](const IndexFact &low, const IndexFact &high) {
      return low.nonNegative && high.nonNegative && low.bits < 31 && (int64_t(1) << low.bits) <= high.divisor;
    };
    if (fillsIn(a, b) || fillsIn(b, a))
      bits = std::max(a.bits, b.bits);
    // The same less another number.
    auto splat = op.getA().getDefiningOp<SplatOp>();
    auto less = splat ? splat.getX().getDefiningOp<BinaryOp>() : BinaryOp();
    if (less && less.getFn() == BinaryFn::k_sub && nonNegative(less.getB()) && fillsIn(b, of(less.getA())))
      bits = std::min(bits, std::max(of(less.getA()).bits, of(less.getB()).bits));
    return {std::min(a.divisor, b.divisor), a.nonNegative && b.nonNegative && bits < 63, std::min(bits, 63u)};
  }
  case BinaryFn::k_sub:
    if (b.nonNegative && staysBelow(op.getB(), op.getA()))
      return {std::min(a.divisor, b.divisor), true, bitsAtMost(op.getA())};
    return {std::min(a.divisor, b.divisor), false,
            std::min(std::max(a.bits, b.bits) + (a.nonNegative && b.nonNegative ? 0 : 1), 63u)};
  case BinaryFn::k_mul: {
    unsigned bits = a.bits + b.bits;
    return {std::min(maxDivisor, a.divisor * b.divisor), a.nonNegative && b.nonNegative && bits < 63,
            std::min(bits, 63u)};
  }
  case BinaryFn::k_max:
    return {std::min(a.divisor, b.divisor), a.nonNegative || b.nonNegative, std::max(a.bits, b.bits)};
  case BinaryFn::k_min: {
    IndexFact least = join(a, b);
    if (a.nonNegative && b.nonNegative)
      least.bits = std::min(a.bits, b.bits);
    return least;
  }
  case BinaryFn::k_div:
  case BinaryFn::k_floordiv:
    if (c && *c > 0 && divisorOf(*c) == *c)
      return {std::max<int64_t>(1, a.divisor / *c), a.nonNegative, a.bits};
    return {1, a.nonNegative && b.nonNegative, a.bits};
  case BinaryFn::k_rem:
    return {std::min(a.divisor, b.divisor), a.nonNegative, a.bits};
  case BinaryFn::k_bitor:
  case BinaryFn::k_bitxor: {
    bool nonNegative = a.nonNegative && b.nonNegative;
    return {std::min(a.divisor, b.divisor), nonNegative,
            std::min(63u, std::max(a.bits, b.bits) + (nonNegative ? 0 : 1))};
  }
  case BinaryFn::k_floormod:
    return {std::min(a.divisor, b.divisor), a.nonNegative && b.nonNegative, std::max(a.bits, b.bits)};
  case BinaryFn::k_bitand:
    return {std::max(a.divisor, b.divisor), a.nonNegative || b.nonNegative,
            a.nonNegative && b.nonNegative ? std::min(a.bits, b.bits) : 63u};
  case BinaryFn::k_shl:
    if (c && *c >= 0 && *c < 30)
      return {std::min(maxDivisor, a.divisor << *c), a.nonNegative && a.bits + *c < 63,
              unsigned(std::min<int64_t>(a.bits + *c, 63))};
    return none;
  case BinaryFn::k_shr:
    return {1, a.nonNegative, a.bits};
  default:
    return none;
  }
}

IndexFact IndexFacts::compute(Value v) {
  if (auto c = constant(v))
    return factOf(*c);
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    if (auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp())) {
      if (v == loop.getInductionVar()) {
        IndexFact lo = of(loop.getLowerBound()), hi = of(loop.getUpperBound()), step = of(loop.getStep());
        // lo <= v < hi, steps are positive.
        return {std::min(lo.divisor, step.divisor), lo.nonNegative, lo.nonNegative ? hi.bits : std::max(lo.bits, hi.bits)};
      }
      if (isa<IndexType>(v.getType())) {
        unsigned i = arg.getArgNumber() - 1;
        return ofCarried(v, loop.getInitArgs()[i], loop.getYieldedValues()[i]);
      }
    }
    return {};
  }
  Operation *op = v.getDefiningOp();
  return llvm::TypeSwitch<Operation *, IndexFact>(op)
      .Case([&](GridOp grid) -> IndexFact {
        int64_t size = grid.getSizes()[cast<OpResult>(v).getResultNumber()];
        return {divisorOf(size), true, hasSmallOffsets(grid.getX()) ? smallBits : addressBits};
      })
      .Case([&](tgpu::ProgramOp program) -> IndexFact { // as grid
        int64_t size = program.getSizes()[cast<OpResult>(v).getResultNumber()];
        return {divisorOf(size), true, hasSmallOffsets(program.getX()) ? smallBits : addressBits};
      })
      .Case([&](DimOp dim) -> IndexFact {
        return {dimDivisor(dim.getX(), dim.getAxis()), true,
                hasSmallOffsets(dim.getX()) ? smallBits : addressBits};
      })
      .Case([&](BinaryOp binary) { return ofBinary(binary); })
      .Case([&](UnaryOp unary) -> IndexFact {
        IndexFact x = of(unary.getX());
        if (unary.getFn() == UnaryFn::k_neg)
          return {x.divisor, false, x.bits};
        if (unary.getFn() == UnaryFn::k_abs)
          return {x.divisor, x.bits < 63, x.bits};
        return {};
      })
      .Case([&](SelectOp select) { return join(of(select.getA()), of(select.getB())); })
      .Case([&](SplatOp splat) { return of(splat.getX()); })
      .Case([&](BroadcastOp broadcast) { return of(broadcast.getX()); })
      .Case([&](ReshapeOp reshape) { return of(reshape.getX()); })
      .Case([&](PermuteOp permute) { return of(permute.getX()); })
      .Case([&](tgpu::ConvertLayoutOp convert) { return of(convert.getX()); })
      .Case([&](CastOp castOp) -> IndexFact {
        Type from = elementOf(castOp.getX().getType());
        // A narrower integer keeps the low bits, so the divisor holds, or the value is 0.
        int64_t divisor = from.isIntOrIndex() ? of(castOp.getX()).divisor : 1;
        if (auto integer = dyn_cast<IntegerType>(from)) {
          bool isUnsigned = integer.isUnsigned() || integer.getWidth() == 1;
          return {divisor, isUnsigned && integer.getWidth() < 64, std::min(63u, integer.getWidth())};
        }
        return {divisor};
      })
      .Case([&](IotaOp iota) -> IndexFact {
        int64_t length = shapeOf(iota.getType())[iota.getAxis()];
        return {length == 1 ? maxDivisor : 1, true, bitsOf(length - 1)};
      })
      .Case([&](scf::ForOp loop) -> IndexFact {
        unsigned i = cast<OpResult>(v).getResultNumber();
        return join(of(loop.getInitArgs()[i]), of(loop.getYieldedValues()[i]));
      })
      .Case([&](scf::IfOp branch) -> IndexFact {
        unsigned i = cast<OpResult>(v).getResultNumber();
        return join(of(branch.thenYield().getOperand(i)), of(branch.elseYield().getOperand(i)));
      })
      .Default([](Operation *) { return IndexFact(); });
}

bool IndexFacts::endsInside(Value tensor, int64_t axis, Value offset, int64_t length) {
  Value root = rootAlongAxis(tensor, axis);
  auto sameAxis = [&](Value other, int64_t otherAxis) {
    return otherAxis == axis && rootAlongAxis(other, axis) == root;
  };
  // offset = number * step and offset < dim: the last multiple of step below dim is dim - step if step
  // divides dim.
  auto fits = [&](int64_t step) {
    return length <= step && (step == 1 || dimDivisor(tensor, axis) % step == 0);
  };
  if (auto grid = offset.getDefiningOp<GridOp>()) {
    int64_t d = cast<OpResult>(offset).getResultNumber();
    return sameAxis(grid.getX(), d) && fits(grid.getSizes()[d]);
  }
  if (auto arg = dyn_cast<BlockArgument>(offset)) {
    auto loop = dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp());
    if (!loop || offset != loop.getInductionVar())
      return false;
    auto dim = loop.getUpperBound().getDefiningOp<DimOp>();
    auto step = constant(loop.getStep());
    if (!dim || !step || *step < 1 || !sameAxis(dim.getX(), dim.getAxis()))
      return false;
    if (*step == 1)
      return length == 1;
    auto lower = constant(loop.getLowerBound());
    return lower && *lower % *step == 0 && fits(*step);
  }
  return false;
}

} // namespace sectile::tileir
