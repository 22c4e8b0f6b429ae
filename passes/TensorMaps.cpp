// SPDX-License-Identifier: Apache-2.0
#include "passes/TensorMaps.h"

#include "ir/IndexFacts.h"
#include "passes/Support.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::passes {

namespace {

std::optional<int64_t> constantOf(Value v) {
  IntegerAttr value;
  if (matchPattern(v, m_Constant(&value)))
    return value.getInt();
  return std::nullopt;
}

std::string call(llvm::StringRef name, llvm::ArrayRef<std::string> operands) {
  return name.str() + "(" + llvm::join(operands, ",") + ")";
}

/// A sum of values with factors.
struct Linear {
  llvm::MapVector<Value, int64_t> terms;
  int64_t constant = 0;

  void add(const Linear &o, int64_t factor) {
    for (auto [v, f] : o.terms)
      terms[v] += f * factor;
    constant += o.constant * factor;
  }
};

Linear linear(Value v) {
  Linear r;
  if (auto c = constantOf(v)) {
    r.constant = *c;
    return r;
  }
  if (auto op = v.getDefiningOp<BinaryOp>()) {
    const BinaryFn fn = op.getFn();
    if (fn == BinaryFn::k_add || fn == BinaryFn::k_sub) {
      r = linear(op.getA());
      r.add(linear(op.getB()), fn == BinaryFn::k_add ? 1 : -1);
      return r;
    }
    if (fn == BinaryFn::k_mul) {
      if (auto c = constantOf(op.getB())) {
        r.add(linear(op.getA()), *c);
        return r;
      }
      if (auto c = constantOf(op.getA())) {
        r.add(linear(op.getB()), *c);
        return r;
      }
    }
  }
  r.terms[v] = 1;
  return r;
}

std::optional<std::string> comparison(Value v) {
  auto op = v.getDefiningOp<CompareOp>();
  if (!op)
    return std::nullopt;
  auto x = launchText(op.getA()), y = launchText(op.getB());
  if (!x || !y)
    return std::nullopt;
  switch (op.getPred()) {
  case ComparePred::k_lt:
    return call("lt", {*x, *y});
  case ComparePred::k_le:
    return call("le", {*x, *y});
  case ComparePred::k_gt:
    return call("lt", {*y, *x});
  case ComparePred::k_ge:
    return call("le", {*y, *x});
  case ComparePred::k_eq:
    return call("eq", {*x, *y});
  default:
    return std::nullopt;
  }
}

/// The sum of v and the offset, if the launch knows it.
std::optional<std::string> sumText(Value v, Value offset) {
  Linear sum = linear(v);
  sum.add(linear(offset), 1);
  std::string text;
  for (auto [term, factor] : sum.terms) {
    if (factor == 0)
      continue;
    auto inner = launchText(term);
    if (!inner)
      return std::nullopt;
    std::string part = factor == 1 ? *inner : call("mul", {std::to_string(factor), *inner});
    text = text.empty() ? part : call("add", {text, part});
  }
  if (text.empty())
    return std::to_string(sum.constant);
  return sum.constant ? call("add", {text, std::to_string(sum.constant)}) : text;
}

/// Limits of an access, as they are found.
class LimitsOf {
public:
  LimitsOf(ValueRange offsets, ArrayRef<int64_t> shape) : offsets(offsets), shape(shape) {
    found.limits.assign(offsets.size(), "inf");
  }

  /// The access ends along `axis` at the upper bound `hi`, which counts from the offset; false if no limits say that.
  bool add(size_t axis, Value hi) {
    auto limit = textOf(hi, axis);
    if (limit)
      found.limits[axis] = *limit;
    return limit.has_value();
  }
  AccessLimits take() { return std::move(found); }

private:
  /// Where an upper bound lies in the tensor. Bounds at or behind the end of the tile say nothing.
  std::optional<std::string> textOf(Value hi, size_t axis) {
    if (auto c = constantOf(hi); c && *c >= shape[axis])
      return "inf";
    if (auto sum = sumText(hi, offsets[axis]))
      return sum;
    if (auto op = hi.getDefiningOp<BinaryOp>(); op && op.getFn() == BinaryFn::k_min) {
      auto x = textOf(op.getA(), axis), y = textOf(op.getB(), axis);
      if (!x || !y)
        return std::nullopt;
      return *x == "inf" ? y : *y == "inf" || *x == *y ? x : call("min", {*x, *y});
    }
    if (auto op = hi.getDefiningOp<SelectOp>()) {
      auto c = comparison(op.getCond());
      if (auto none = constantOf(op.getB()); !c && none && *none <= 0) {
        found.conditions.push_back({op.getCond(), guards});
        return textOf(op.getA(), axis);
      }
      auto branch = [&](Value v, bool side) {
        guards.push_back({op.getCond(), side});
        auto text = textOf(v, axis);
        guards.pop_back();
        return text;
      };
      auto x = branch(op.getA(), true), y = branch(op.getB(), false);
      if (!x || !y)
        return std::nullopt;
      return *x == *y ? x : c ? std::optional(call("select", {*c, *x, *y})) : std::nullopt;
    }
    return std::nullopt;
  }

  ValueRange offsets;
  ArrayRef<int64_t> shape;
  AccessLimits found;
  llvm::SmallVector<std::pair<Value, bool>> guards; ///< of the branches of selects that are being looked at
};

/// A lower bound that says no more than that coordinates of the tensor are not negative.
bool isTensorStart(Value lo, Value offset) {
  if (auto c = constantOf(lo); c && *c <= 0)
    return true;
  Linear sum = linear(lo);
  sum.add(linear(offset), 1);
  if (sum.constant <= 0 && llvm::all_of(sum.terms, [](auto &t) { return t.second == 0; }))
    return true;
  auto op = lo.getDefiningOp<BinaryOp>();
  return op && op.getFn() == BinaryFn::k_max && isTensorStart(op.getA(), offset) && isTensorStart(op.getB(), offset);
}

} // namespace

std::optional<std::string> launchText(Value v) {
  if (auto number = tgpu::launchNumber(v)) {
    if (number->axis >= 0)
      return call("dim", {std::to_string(number->arg), std::to_string(number->axis)});
    return number->arg >= 0 ? call("arg", {std::to_string(number->arg)}) : std::to_string(number->value);
  }
  if (auto op = v.getDefiningOp<BinaryOp>(); op && v.getType().isIndex()) {
    llvm::StringRef name;
    switch (op.getFn()) {
    case BinaryFn::k_add:
      name = "add";
      break;
    case BinaryFn::k_sub:
      name = "sub";
      break;
    case BinaryFn::k_mul:
      name = "mul";
      break;
    case BinaryFn::k_min:
      name = "min";
      break;
    case BinaryFn::k_max:
      name = "max";
      break;
    default:
      return std::nullopt;
    }
    auto x = launchText(op.getA()), y = launchText(op.getB());
    if (x && y)
      return call(name, {*x, *y});
    return std::nullopt;
  }
  if (auto op = v.getDefiningOp<SelectOp>(); op && v.getType().isIndex()) {
    auto c = comparison(op.getCond()), x = launchText(op.getA()), y = launchText(op.getB());
    if (c && x && y)
      return call("select", {*c, *x, *y});
  }
  return std::nullopt;
}

std::optional<int64_t> stepAlong(Value offset, scf::ForOp loop) {
  auto step = constantOf(loop.getStep());
  int64_t factor = 0;
  for (auto [term, f] : linear(offset).terms) {
    if (term == loop.getInductionVar())
      factor = f;
    else if (loop->isAncestor(term.getParentRegion()->getParentOp()))
      return std::nullopt;
  }
  return step ? std::optional(factor * *step) : std::nullopt;
}

std::optional<int> tmaAxis(Value tensor) {
  auto arg = dyn_cast<BlockArgument>(tensor);
  auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  if (!func)
    return std::nullopt;
  const unsigned n = arg.getArgNumber();
  auto type = cast<tileir::TensorType>(arg.getType());
  auto align = func.getArgAttrOfType<IntegerAttr>(n, alignAttr), unit = func.getArgAttrOfType<IntegerAttr>(n, unitStrideAttr);
  auto strides = func.getArgAttrOfType<DenseI64ArrayAttr>(n, strideDivAttr);
  if (!align || align.getInt() < 16 || !unit || !strides || !func.getArgAttr(n, smallAttr) || type.getRank() < 1)
    return std::nullopt;
  const int64_t bytes = int64_t(byteSize(*dtypeOfType(type.getElementType())));
  for (auto [axis, divisor] : llvm::enumerate(strides.asArrayRef()))
    if (int64_t(axis) != unit.getInt() && divisor * bytes % 16)
      return std::nullopt;
  return int(unit.getInt());
}

bool startsAligned(Value tensor, Value offset) {
  const int64_t bytes = int64_t(byteSize(*dtypeOfType(cast<tileir::TensorType>(tensor.getType()).getElementType())));
  return IndexFacts().divisor(offset) * bytes % 16 == 0;
}

std::optional<AccessLimits> accessLimits(ValueRange offsets, ArrayRef<int64_t> shape, ArrayRef<int64_t> axes, ValueRange lo,
                                         ValueRange hi) {
  LimitsOf limits(offsets, shape);
  for (auto [i, axis] : llvm::enumerate(axes))
    if (!isTensorStart(lo[i], offsets[size_t(axis)]) || !limits.add(size_t(axis), hi[i]))
      return std::nullopt;
  return limits.take();
}

/// Splits "name(x,y,..)" into its name and arguments; a number or `inf` has none.
static llvm::SmallVector<llvm::StringRef> argumentsOf(llvm::StringRef text, llvm::StringRef &name) {
  llvm::SmallVector<llvm::StringRef> all;
  const size_t open = text.find('(');
  name = text.take_front(open);
  if (open == llvm::StringRef::npos)
    return all;
  llvm::StringRef inner = text.drop_front(open + 1).drop_back();
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < inner.size(); ++i) {
    depth += (inner[i] == '(') - (inner[i] == ')');
    if (inner[i] == ',' && depth == 0) {
      all.push_back(inner.slice(start, i));
      start = i + 1;
    }
  }
  all.push_back(inner.drop_front(start));
  return all;
}

bool isMultiple(func::FuncOp func, llvm::StringRef limit, int64_t multiple) {
  llvm::StringRef name;
  llvm::SmallVector<llvm::StringRef> parts = argumentsOf(limit, name);
  if (name == "inf")
    return true;
  if (name == "min" || name == "max" || name == "add" || name == "sub")
    return isMultiple(func, parts[0], multiple) && isMultiple(func, parts[1], multiple);
  if (name == "mul")
    return isMultiple(func, parts[0], multiple) || isMultiple(func, parts[1], multiple);
  if (name == "select")
    return isMultiple(func, parts[1], multiple) && isMultiple(func, parts[2], multiple);
  if (name == "dim") {
    unsigned arg = 0, axis = 0;
    if (parts[0].getAsInteger(10, arg) || parts[1].getAsInteger(10, axis))
      return false;
    auto divisors = func.getArgAttrOfType<DenseI64ArrayAttr>(arg, dimDivAttr);
    return divisors && axis < divisors.size() && divisors[axis] % multiple == 0;
  }
  int64_t number = 0;
  return parts.empty() && !limit.getAsInteger(10, number) && number % multiple == 0;
}

llvm::SmallVector<Value> AccessLimits::placed(OpBuilder &b, Location loc, ValueRange offsets) const {
  // Behind the end of every tensor; a box of up to 256 from there still has coordinates of 32 bits.
  constexpr int64_t farAway = (int64_t(1) << 31) - 512;
  llvm::SmallVector<Value> result(offsets);
  for (const Condition &condition : conditions) {
    Value holds = condition.holds;
    for (auto [guard, side] : llvm::reverse(condition.guards)) {
      Value yes = constant(b, loc, b.getI1Type(), b.getBoolAttr(true));
      holds = side ? select(b, loc, guard, holds, yes) : select(b, loc, guard, yes, holds);
    }
    result[0] = select(b, loc, holds, result[0], indexConstant(b, loc, farAway));
  }
  return result;
}

std::optional<size_t> slowestRows(tgpu::MapAttr map) {
  // Rows are numbered in the order of the tensor's axes.
  std::optional<size_t> slowest;
  for (size_t n = 1; n < map.getOrder().size(); ++n)
    if (map.getBox()[n] > 1 && (!slowest || map.getOrder()[n] < map.getOrder()[*slowest]))
      slowest = n;
  return slowest;
}

} // namespace sectile::passes
