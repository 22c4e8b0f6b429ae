// SPDX-License-Identifier: Apache-2.0
#include "passes/TensorMaps.h"
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

/// Where an upper bound in a tile at `offset` lies in the tensor. Bounds at or behind the end of the tile say nothing.
std::optional<std::string> limitText(Value hi, Value offset, int64_t length) {
  if (auto c = constantOf(hi); c && *c >= length)
    return "inf";
  if (auto sum = sumText(hi, offset))
    return sum;
  if (auto op = hi.getDefiningOp<BinaryOp>(); op && op.getFn() == BinaryFn::k_min) {
    auto x = limitText(op.getA(), offset, length), y = limitText(op.getB(), offset, length);
    if (!x || !y)
      return std::nullopt;
    return *x == "inf" ? y : *y == "inf" || *x == *y ? x : call("min", {*x, *y});
  }
  if (auto op = hi.getDefiningOp<SelectOp>()) {
    auto c = comparison(op.getCond()), x = limitText(op.getA(), offset, length),
         y = limitText(op.getB(), offset, length);
    if (!x || !y)
      return std::nullopt;
    return *x == *y ? x : c ? std::optional(call("select", {*c, *x, *y})) : std::nullopt;
  }
  return std::nullopt;
}

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

std::optional<llvm::SmallVector<std::string>> accessLimits(ValueRange offsets, ArrayRef<int64_t> shape,
                                                           ArrayRef<int64_t> axes, ValueRange lo, ValueRange hi) {
  llvm::SmallVector<std::string> limits(offsets.size(), "inf");
  for (auto [i, axis] : llvm::enumerate(axes)) {
    const size_t d = size_t(axis);
    if (!isTensorStart(lo[i], offsets[d]))
      return std::nullopt;
    auto limit = limitText(hi[i], offsets[d], shape[d]);
    if (!limit)
      return std::nullopt;
    limits[d] = *limit;
  }
  return limits;
}

} // namespace sectile::passes
