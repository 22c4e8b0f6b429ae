// SPDX-License-Identifier: Apache-2.0
#include <sectile/Ops.h>

#include "dsl/Trace.h"

using namespace mlir;

namespace sectile {

using detail::Position;
using detail::Trace;
using tileir::BinaryFn;
using tileir::ComparePred;
using tileir::UnaryFn;
using tileir::Violation;

namespace detail {

std::string tileText(Value v) {
  if (llvm::isa<tileir::TensorType>(v.getType()))
    return "a tensor";
  return (llvm::isa<RankedTensorType>(v.getType()) ? "a tile of " : "a scalar of ") +
         tileir::describe(v.getType());
}

} // namespace detail

/// The rules name the op; the user wrote `op`.
[[noreturn]] static void fail(Trace &t, Position loc, const char *op, Violation v) {
  v.op = op;
  t.fail(loc, v);
}

/// The value of an operand that has to be a Tile.
static Value tileOperand(Trace &t, const TileAt &x, const char *op) {
  if (x.isLiteral)
    t.fail(x.loc, op, "the operand is a host number, which has no dtype of its own", "literal_dtype",
           "write scalar<f32>(x) with the dtype you mean");
  return t.read(x.cell, op, x.loc);
}

static llvm::SmallVector<int64_t> shapeVector(std::span<const int> shape) {
  return {shape.begin(), shape.end()};
}

/// Repeats a scalar, or axes of length 1. @pre the shapes fit.
static Value repeatTo(Trace &t, Value v, llvm::ArrayRef<int64_t> shape, Position loc) {
  if (tileir::shapeOf(v.getType()) == shape)
    return v;
  Type type = RankedTensorType::get(shape, tileir::elementOf(v.getType()));
  if (tileir::shapeOf(v.getType()).empty())
    return tileir::SplatOp::create(t.builder(), t.at(loc), type, v);
  return tileir::BroadcastOp::create(t.builder(), t.at(loc), type, v);
}

/// Two operands of an elementwise op in one shape; a literal takes the other's dtype.
static std::pair<Value, Value> pairOf(Trace &t, const char *op, const TileAt &a, const TileAt &b) {
  Value x = a.isLiteral && !b.isLiteral ? Value() : tileOperand(t, a, op);
  Value y = b.isLiteral ? Value() : t.read(b.cell, op, b.loc);
  Value known = x ? x : y;
  if (!x || !y) {
    Type type = known.getType();
    Value number = t.constant(tileir::elementOf(type), tileir::shapeOf(type), (x ? b : a).number, op, a.loc);
    return x ? std::pair(x, number) : std::pair(number, y);
  }
  Violation v;
  auto shape = tileir::inferBroadcastShape(op, x.getType(), y.getType(), v);
  if (!shape)
    fail(t, a.loc, op, v);
  return {repeatTo(t, x, *shape, a.loc), repeatTo(t, y, *shape, a.loc)};
}

static Tile binary(BinaryFn fn, const char *op, const TileAt &a, const TileAt &b) {
  Trace &t = Trace::get(a.loc, op);
  auto [x, y] = pairOf(t, op, a, b);
  Violation v;
  if (!tileir::inferBinary(fn, x.getType(), y.getType(), v))
    fail(t, a.loc, op, v);
  return Tile(t.define(t.binary(fn, x, y, a.loc), a.loc));
}

static Tile compare(ComparePred pred, const char *op, const TileAt &a, const TileAt &b) {
  Trace &t = Trace::get(a.loc, op);
  auto [x, y] = pairOf(t, op, a, b);
  Violation v;
  Type type = tileir::inferCompare(pred, x.getType(), y.getType(), v);
  if (!type)
    fail(t, a.loc, op, v);
  return Tile(t.define(tileir::CompareOp::create(t.builder(), t.at(a.loc), type, pred, x, y), a.loc));
}

static Tile unary(UnaryFn fn, const char *op, const TileAt &x) {
  Trace &t = Trace::get(x.loc, op);
  Value in = tileOperand(t, x, op);
  Violation v;
  Type type = tileir::inferUnary(fn, in.getType(), v);
  if (!type)
    fail(t, x.loc, op, v);
  return Tile(t.define(tileir::UnaryOp::create(t.builder(), t.at(x.loc), type, fn, in), x.loc));
}

// Operators.

Tile operator+(TileAt a, TileAt b) { return binary(BinaryFn::k_add, "+", a, b); }
Tile operator-(TileAt a, TileAt b) { return binary(BinaryFn::k_sub, "-", a, b); }
Tile operator*(TileAt a, TileAt b) { return binary(BinaryFn::k_mul, "*", a, b); }
Tile operator/(TileAt a, TileAt b) { return binary(BinaryFn::k_div, "/", a, b); }
Tile operator%(TileAt a, TileAt b) { return binary(BinaryFn::k_rem, "%", a, b); }
Tile operator&(TileAt a, TileAt b) { return binary(BinaryFn::k_bitand, "&", a, b); }
Tile operator|(TileAt a, TileAt b) { return binary(BinaryFn::k_bitor, "|", a, b); }
Tile operator^(TileAt a, TileAt b) { return binary(BinaryFn::k_bitxor, "^", a, b); }
Tile operator<<(TileAt a, TileAt b) { return binary(BinaryFn::k_shl, "<<", a, b); }
Tile operator>>(TileAt a, TileAt b) { return binary(BinaryFn::k_shr, ">>", a, b); }
Tile operator==(TileAt a, TileAt b) { return compare(ComparePred::k_eq, "==", a, b); }
Tile operator!=(TileAt a, TileAt b) { return compare(ComparePred::k_ne, "!=", a, b); }
Tile operator<(TileAt a, TileAt b) { return compare(ComparePred::k_lt, "<", a, b); }
Tile operator<=(TileAt a, TileAt b) { return compare(ComparePred::k_le, "<=", a, b); }
Tile operator>(TileAt a, TileAt b) { return compare(ComparePred::k_gt, ">", a, b); }
Tile operator>=(TileAt a, TileAt b) { return compare(ComparePred::k_ge, ">=", a, b); }
Tile operator-(TileAt a) { return unary(UnaryFn::k_neg, "-", a); }
Tile operator~(TileAt a) { return unary(UnaryFn::k_bitnot, "~", a); }
Tile &Tile::operator+=(TileAt b) { return *this = binary(BinaryFn::k_add, "+=", TileAt(*this, b.loc), b); }
Tile &Tile::operator-=(TileAt b) { return *this = binary(BinaryFn::k_sub, "-=", TileAt(*this, b.loc), b); }
Tile &Tile::operator*=(TileAt b) { return *this = binary(BinaryFn::k_mul, "*=", TileAt(*this, b.loc), b); }
Tile &Tile::operator/=(TileAt b) { return *this = binary(BinaryFn::k_div, "/=", TileAt(*this, b.loc), b); }
Tile &Tile::operator%=(TileAt b) { return *this = binary(BinaryFn::k_rem, "%=", TileAt(*this, b.loc), b); }
Tile &Tile::operator&=(TileAt b) { return *this = binary(BinaryFn::k_bitand, "&=", TileAt(*this, b.loc), b); }
Tile &Tile::operator|=(TileAt b) { return *this = binary(BinaryFn::k_bitor, "|=", TileAt(*this, b.loc), b); }
Tile &Tile::operator^=(TileAt b) { return *this = binary(BinaryFn::k_bitxor, "^=", TileAt(*this, b.loc), b); }
Tile &Tile::operator<<=(TileAt b) { return *this = binary(BinaryFn::k_shl, "<<=", TileAt(*this, b.loc), b); }
Tile &Tile::operator>>=(TileAt b) { return *this = binary(BinaryFn::k_shr, ">>=", TileAt(*this, b.loc), b); }

// Elementwise.

Tile abs(TileAt x) { return unary(UnaryFn::k_abs, "abs", x); }
Tile exp(TileAt x) { return unary(UnaryFn::k_exp, "exp", x); }
Tile exp2(TileAt x) { return unary(UnaryFn::k_exp2, "exp2", x); }
Tile log(TileAt x) { return unary(UnaryFn::k_log, "log", x); }
Tile log2(TileAt x) { return unary(UnaryFn::k_log2, "log2", x); }
Tile sqrt(TileAt x) { return unary(UnaryFn::k_sqrt, "sqrt", x); }
Tile rsqrt(TileAt x) { return unary(UnaryFn::k_rsqrt, "rsqrt", x); }
Tile sin(TileAt x) { return unary(UnaryFn::k_sin, "sin", x); }
Tile cos(TileAt x) { return unary(UnaryFn::k_cos, "cos", x); }
Tile tanh(TileAt x) { return unary(UnaryFn::k_tanh, "tanh", x); }
Tile erf(TileAt x) { return unary(UnaryFn::k_erf, "erf", x); }
Tile sigmoid(TileAt x) { return unary(UnaryFn::k_sigmoid, "sigmoid", x); }
Tile floor(TileAt x) { return unary(UnaryFn::k_floor, "floor", x); }
Tile ceil(TileAt x) { return unary(UnaryFn::k_ceil, "ceil", x); }
Tile round(TileAt x) { return unary(UnaryFn::k_round, "round", x); }
Tile trunc(TileAt x) { return unary(UnaryFn::k_trunc, "trunc", x); }
Tile isnan(TileAt x) { return unary(UnaryFn::k_isnan, "isnan", x); }
Tile isinf(TileAt x) { return unary(UnaryFn::k_isinf, "isinf", x); }
Tile pow(TileAt a, TileAt b) { return binary(BinaryFn::k_pow, "pow", a, b); }
Tile floorDiv(TileAt a, TileAt b) { return binary(BinaryFn::k_floordiv, "floorDiv", a, b); }
Tile floorMod(TileAt a, TileAt b) { return binary(BinaryFn::k_floormod, "floorMod", a, b); }
Tile max(TileAt a, TileAt b) { return binary(BinaryFn::k_max, "max", a, b); }
Tile min(TileAt a, TileAt b) { return binary(BinaryFn::k_min, "min", a, b); }
Tile maxNum(TileAt a, TileAt b) { return binary(BinaryFn::k_maxnum, "maxNum", a, b); }
Tile minNum(TileAt a, TileAt b) { return binary(BinaryFn::k_minnum, "minNum", a, b); }

Tile select(TileAt cond, TileAt a, TileAt b) {
  Trace &t = Trace::get(cond.loc, "select");
  Value c = tileOperand(t, cond, "select");
  auto [x, y] = pairOf(t, "select", a, b);
  Violation v;
  auto shape = tileir::inferBroadcastShape("select", c.getType(), x.getType(), v);
  if (!shape)
    fail(t, cond.loc, "select", v);
  x = repeatTo(t, x, *shape, cond.loc);
  y = repeatTo(t, y, *shape, cond.loc);
  if (!tileir::shapeOf(c.getType()).empty())
    c = repeatTo(t, c, *shape, cond.loc);
  Type type = tileir::inferSelect(c.getType(), x.getType(), y.getType(), v);
  if (!type)
    fail(t, cond.loc, "select", v);
  return Tile(t.define(tileir::SelectOp::create(t.builder(), t.at(cond.loc), type, c, x, y), cond.loc));
}

Tile fma(TileAt a, TileAt b, TileAt c) {
  Trace &t = Trace::get(a.loc, "fma");
  // Numbers take the dtype of the tile beside them.
  auto [x, y] = pairOf(t, "fma", a, b);
  Value z = c.isLiteral ? pairOf(t, "fma", a.isLiteral ? b : a, c).second : tileOperand(t, c, "fma");
  Violation v;
  auto shape = tileir::inferBroadcastShape("fma", x.getType(), y.getType(), v);
  if (shape)
    shape = tileir::inferBroadcastShape("fma", RankedTensorType::get(*shape, tileir::elementOf(x.getType())), z.getType(), v);
  if (!shape)
    fail(t, a.loc, "fma", v);
  for (Value *operand : {&x, &y, &z})
    *operand = repeatTo(t, *operand, *shape, a.loc);
  Type type = tileir::inferFma(x.getType(), y.getType(), z.getType(), v);
  if (!type)
    fail(t, a.loc, "fma", v);
  return Tile(t.define(tileir::FmaOp::create(t.builder(), t.at(a.loc), type, x, y, z), a.loc));
}

Tile keep(TileAt mask, TileAt x) {
  Trace &t = Trace::get(mask.loc, "keep");
  Value m = tileOperand(t, mask, "keep"), in = tileOperand(t, x, "keep");
  Violation v;
  auto shape = tileir::inferBroadcastShape("keep", m.getType(), in.getType(), v);
  if (!shape)
    fail(t, mask.loc, "keep", v);
  m = repeatTo(t, m, *shape, mask.loc);
  in = repeatTo(t, in, *shape, mask.loc);
  Type type = tileir::inferKeep(m.getType(), in.getType(), v);
  if (!type)
    fail(t, mask.loc, "keep", v);
  return Tile(t.define(tileir::KeepOp::create(t.builder(), t.at(mask.loc), type, m, in), mask.loc));
}

Tile fill(TileAt x, TileAt value) {
  Trace &t = Trace::get(x.loc, "fill");
  Value in = tileOperand(t, x, "fill");
  Value number = value.isLiteral
                     ? t.constant(tileir::elementOf(in.getType()), {}, value.number, "fill", value.loc)
                     : t.read(value.cell, "fill", value.loc);
  Violation v;
  Type type = tileir::inferFill(in.getType(), number.getType(), v);
  if (!type)
    fail(t, x.loc, "fill", v);
  return Tile(t.define(tileir::FillOp::create(t.builder(), t.at(x.loc), type, in, number), x.loc));
}

Tile t(TileAt x) {
  Trace &trace = Trace::get(x.loc, "t");
  Value in = tileOperand(trace, x, "t");
  if (tileir::shapeOf(in.getType()).size() != 2)
    trace.fail(x.loc, "t", "the operand is " + detail::tileText(in) + ", not of rank 2", "t_rank",
               "use permute(x, {...}) for another rank");
  return detail::permuteTo(x, std::array{1, 0});
}

/// The shape of a tile of pairs or of their elements, with the lengths of its last axis as [.., count, inner].
static std::vector<int> splitLast(Trace &t, const TileAt &x, const char *op, DType wanted, int inner) {
  Value in = tileOperand(t, x, op);
  llvm::ArrayRef<int64_t> shape = tileir::shapeOf(in.getType());
  if (shape.empty() || shape.size() >= std::size_t(maxRank) || shape.back() % inner ||
      tileir::dtypeOfType(tileir::elementOf(in.getType())) != wanted)
    t.fail(x.loc, op, "the operand is " + detail::tileText(in), "packed_pairs",
           std::string("give a tile of ") + std::string(name(wanted)) + " of rank 1 to 4" +
               (inner > 1 ? ", its last axis of even length" : ""));
  std::vector<int> split(shape.begin(), shape.end());
  split.back() /= inner;
  split.push_back(inner);
  return split;
}

/// How far the elements of a pair are shifted: [1, .., 2] holding 0 and 4.
static Tile pairShift(std::size_t rank, std::source_location loc) {
  std::vector<int> shape(rank, 1);
  shape.back() = 2;
  Tile place = detail::castTo(DType::u8, TileAt(detail::iotaOf(shape, loc), loc));
  return TileAt(place, loc) * TileAt(4, loc);
}

Tile unpack(TileAt x) {
  Trace &t = Trace::get(x.loc, "unpack");
  std::vector<int> split = splitLast(t, x, "unpack", DType::u8, 1);
  const std::source_location loc = x.loc;
  Tile pairs = detail::reshapeTo(x, split);
  Tile codes = TileAt(pairs, loc) >> TileAt(pairShift(split.size(), loc), loc);
  split.pop_back();
  split.back() *= 2;
  return detail::bitsTo(DType::e2m1, TileAt(detail::reshapeTo(TileAt(codes, loc), split), loc));
}

Tile pack(TileAt x) {
  Trace &t = Trace::get(x.loc, "pack");
  std::vector<int> split = splitLast(t, x, "pack", DType::e2m1, 2);
  const std::source_location loc = x.loc;
  Tile codes = detail::reshapeTo(TileAt(detail::bitsTo(DType::u8, x), loc), split);
  Tile moved = TileAt(codes, loc) << TileAt(pairShift(split.size(), loc), loc);
  Tile both = detail::reduce(detail::Reduction::sum, TileAt(moved, loc), int(split.size()) - 1);
  split.pop_back();
  return detail::reshapeTo(TileAt(both, loc), split);
}

Tile mma(TileAt a, TileAt b, MmaPolicy policy) {
  Trace &t = Trace::get(a.loc, "mma");
  Value x = tileOperand(t, a, "mma"), y = tileOperand(t, b, "mma");
  Type element = tileir::elementOf(x.getType()), sum = t.builder().getF32Type();
  if (element.isF64())
    sum = element;
  else if (element.isInteger())
    sum = t.builder().getI32Type();
  llvm::ArrayRef<int64_t> m = tileir::shapeOf(x.getType()), n = tileir::shapeOf(y.getType());
  Violation v;
  if (m.size() != 2 || n.size() != 2) {
    tileir::inferMma(tileir::MmaPolicy(int(policy)), x.getType(), y.getType(), x.getType(), v);
    fail(t, a.loc, "mma", v);
  }
  Tile zero(t.define(t.constant(sum, {m[0], n[1]}, detail::literal(0), "mma", a.loc), a.loc));
  return mma(a, b, TileAt(zero, a.loc), policy);
}

Tile mma(TileAt a, TileAt b, TileAt acc, MmaPolicy policy) {
  Trace &t = Trace::get(a.loc, "mma");
  Value x = tileOperand(t, a, "mma"), y = tileOperand(t, b, "mma"), c = tileOperand(t, acc, "mma");
  const auto how = policy == MmaPolicy::exact ? tileir::MmaPolicy::k_exact : tileir::MmaPolicy::k_tf32;
  Violation v;
  Type type = tileir::inferMma(how, x.getType(), y.getType(), c.getType(), v);
  if (!type)
    fail(t, a.loc, "mma", v);
  return Tile(t.define(tileir::MmaOp::create(t.builder(), t.at(a.loc), type, how, x, y, c), a.loc));
}

namespace detail {

Tile reduce(Reduction kind, const TileAt &x, int axis) {
  static constexpr std::pair<tileir::ReduceKind, const char *> kinds[] = {
      {tileir::ReduceKind::k_sum, "sum"},       {tileir::ReduceKind::k_prod, "prod"},
      {tileir::ReduceKind::k_max, "max"},       {tileir::ReduceKind::k_min, "min"},
      {tileir::ReduceKind::k_maxnum, "maxNum"}, {tileir::ReduceKind::k_minnum, "minNum"},
      {tileir::ReduceKind::k_any, "any"},       {tileir::ReduceKind::k_all, "all"},
      {tileir::ReduceKind::k_argmax, "argmax"}, {tileir::ReduceKind::k_argmin, "argmin"}};
  auto [k, op] = kinds[int(kind)];
  Trace &t = Trace::get(x.loc, op);
  Value in = tileOperand(t, x, op);
  Violation v;
  Type type = tileir::inferReduce(k, in.getType(), axis, v);
  if (!type)
    fail(t, x.loc, op, v);
  return Tile(t.define(tileir::ReduceOp::create(t.builder(), t.at(x.loc), type, k, in, axis), x.loc));
}

/// Lengths of a new tile.
static void checkShape(Trace &t, Position loc, const char *op, std::span<const int> shape) {
  if (shape.size() > std::size_t(maxRank))
    t.fail(loc, op, "the shape has " + std::to_string(shape.size()) + " axes", "tile_rank",
           "use at most 5 axes");
  for (int d : shape)
    if (d < 1)
      t.fail(loc, op, "a length is " + std::to_string(d), "tile_length",
             "every length of a tile is at least 1");
}

Tile fullOf(DType dtype, std::span<const int> shape, const TileAt &value, std::source_location loc) {
  const char *op = shape.empty() ? "scalar" : "full";
  Trace &t = Trace::get(loc, op);
  checkShape(t, loc, op, shape);
  Type element = tileir::elementType(t.context(), dtype);
  if (value.isLiteral)
    return Tile(t.define(t.constant(element, shapeVector(shape), value.number, op, loc), loc));
  Value x = t.read(value.cell, op, value.loc);
  if (x.getType() != element)
    t.fail(loc, op, "the value is " + tileText(x) + ", not a scalar of " + std::string(name(dtype)),
           "full_scalar", "give a host number, or cast the scalar");
  return Tile(t.define(repeatTo(t, x, shapeVector(shape), loc), loc));
}

Tile castTo(DType dtype, const TileAt &x) {
  Trace &t = Trace::get(x.loc, "cast");
  Value in = tileOperand(t, x, "cast");
  Violation v;
  Type type = tileir::inferCast(in.getType(), dtype, v);
  if (!type)
    fail(t, x.loc, "cast", v);
  if (type == in.getType())
    return Tile(t.define(in, x.loc));
  return Tile(t.define(tileir::CastOp::create(t.builder(), t.at(x.loc), type, in), x.loc));
}

Tile bitsTo(DType dtype, const TileAt &x) {
  Trace &t = Trace::get(x.loc, "bitsAs");
  Value in = tileOperand(t, x, "bitsAs");
  Violation v;
  Type type = tileir::inferBits(in.getType(), dtype, v);
  if (!type)
    fail(t, x.loc, "bitsAs", v);
  if (type == in.getType())
    return Tile(t.define(in, x.loc));
  return Tile(t.define(tileir::UnaryOp::create(t.builder(), t.at(x.loc), type, UnaryFn::k_bits, in), x.loc));
}

Tile broadcastTo(const TileAt &x, std::span<const int> shape) {
  Trace &t = Trace::get(x.loc, "broadcast");
  Value in = tileOperand(t, x, "broadcast");
  checkShape(t, x.loc, "broadcast", shape);
  Violation v;
  if (!tileir::shapeOf(in.getType()).empty() && !tileir::inferBroadcast(in.getType(), shapeVector(shape), v))
    fail(t, x.loc, "broadcast", v);
  return Tile(t.define(repeatTo(t, in, shapeVector(shape), x.loc), x.loc));
}

Tile reshapeTo(const TileAt &x, std::span<const int> shape) {
  Trace &t = Trace::get(x.loc, "reshape");
  Value in = tileOperand(t, x, "reshape");
  checkShape(t, x.loc, "reshape", shape);
  Violation v;
  Type type = tileir::inferReshape(in.getType(), shapeVector(shape), v);
  if (!type)
    fail(t, x.loc, "reshape", v);
  if (type == in.getType())
    return Tile(t.define(in, x.loc));
  return Tile(t.define(tileir::ReshapeOp::create(t.builder(), t.at(x.loc), type, in), x.loc));
}

Tile permuteTo(const TileAt &x, std::span<const int> order) {
  Trace &t = Trace::get(x.loc, "permute");
  Value in = tileOperand(t, x, "permute");
  llvm::SmallVector<int64_t> perm = shapeVector(order);
  Violation v;
  Type type = tileir::inferPermute(in.getType(), perm, v);
  if (!type)
    fail(t, x.loc, "permute", v);
  return Tile(t.define(tileir::PermuteOp::create(t.builder(), t.at(x.loc), type, in, perm), x.loc));
}

Tile iotaOf(std::span<const int> shape, std::source_location loc) {
  Trace &t = Trace::get(loc, "iota");
  checkShape(t, loc, "iota", shape);
  int axis = 0, longer = 0;
  for (int d = 0; d < int(shape.size()); ++d)
    if (shape[d] > 1) {
      axis = d;
      ++longer;
    }
  if (longer > 1)
    t.fail(loc, "iota", "more than one length is above 1", "iota_axis",
           "give one length and 1 for the other axes: iota(BM, 1), and broadcast or add");
  Violation v;
  Type type = tileir::inferIota(t.context(), axis, shapeVector(shape), v);
  if (!type)
    fail(t, loc, "iota", v);
  return Tile(t.define(tileir::IotaOp::create(t.builder(), t.at(loc), type, axis), loc));
}

} // namespace detail
} // namespace sectile
