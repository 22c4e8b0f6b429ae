// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Bounds.h"
#include "tests/numerics/Reference.h"

#include <cmath>
#include <limits>

namespace sectile::numerics {

static constexpr long double infinity = std::numeric_limits<long double>::infinity();
static constexpr long double nan = std::numeric_limits<long double>::quiet_NaN();

Number unknownNumber() {
  Number n;
  n.error = std::numeric_limits<double>::infinity();
  return n;
}

namespace {

bool isZero(long double v) { return v == 0; }
bool isSmall(DType t) { return byteSize(t) < 4; }
/// The type that functions of `t` compute in.
DType computing(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

/// A result of arithmetic, known exactly: rounded in the computing type, then to the element's.
Number computed(DType t, long double v) {
  Number n;
  n.v = roundTo(t, roundTo(computing(t), v));
  return n;
}

/// The reference `v` of a function in the table.
Number bounded(std::string_view op, DType t, long double v) {
  Number n;
  if (std::isnan(v) || std::isinf(v) || isZero(v)) {
    n.v = roundTo(t, v);
    return n;
  }
  const Bound *b = boundOf(op);
  n.v = v;
  n.error = double((t == DType::f64 ? b->f64 : b->f32) * ulpAt(computing(t), v));
  if (b->flushes && t != DType::f64 && std::fabs(v) < 0x1.00001p-126L)
    n.error = std::fmax(n.error, double(std::fabs(v)));
  if (isSmall(t))
    n.error += double(0.5001L * ulpAt(t, std::fabs(v) + n.error));
  return n;
}

long double sigmoid(long double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

/// -0 < +0.
bool before(long double a, long double b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }

Int floorDivide(Int a, Int b) {
  Int q = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

Number integer(DType t, Int v) {
  Number n;
  n.i = wrap(t, v);
  return n;
}

Number binaryInteger(const std::string &fn, DType t, Int a, Int b) {
  int bits = bitsOf(t);
  if (fn == "add")
    return integer(t, a + b);
  if (fn == "sub")
    return integer(t, a - b);
  if (fn == "mul")
    return integer(t, Int((unsigned __int128)(a) * (unsigned __int128)(b)));
  if (fn == "div")
    return integer(t, b == 0 ? 0 : a / b);
  if (fn == "rem")
    return integer(t, b == 0 ? a : a % b);
  if (fn == "floordiv")
    return integer(t, b == 0 ? 0 : floorDivide(a, b));
  if (fn == "floormod")
    return integer(t, b == 0 ? a : a - floorDivide(a, b) * b);
  if (fn == "max" || fn == "maxnum")
    return integer(t, a < b ? b : a);
  if (fn == "min" || fn == "minnum")
    return integer(t, b < a ? b : a);
  if (fn == "bitand")
    return integer(t, a & b);
  if (fn == "bitor")
    return integer(t, a | b);
  if (fn == "bitxor")
    return integer(t, a ^ b);
  if (fn == "shl")
    return integer(t, b < 0 || b >= bits ? Int(0) : Int((unsigned __int128)(a) << int(b)));
  if (fn == "shr")
    return integer(t, b < 0 || b >= bits ? Int(a < 0 ? -1 : 0) : a >> int(b));
  throw std::logic_error("no meaning of " + fn);
}

} // namespace

Number unaryOf(const std::string &fn, DType t, const Number &x) {
  if (unknown(x))
    return unknownNumber();
  Number n;
  if (!isFloat(t)) {
    if (fn == "neg")
      return integer(t, -x.i);
    if (fn == "abs")
      return integer(t, x.i < 0 ? -x.i : x.i);
    if (fn == "bitnot")
      return integer(t, ~x.i);
    throw std::logic_error("no meaning of " + fn);
  }
  long double v = x.v;
  if (fn == "neg" || fn == "abs") {
    n.v = fn == "neg" ? -v : std::fabs(v);
    n.error = x.error;
    return n;
  }
  if (x.error != 0)
    return unknownNumber();
  if (fn == "isnan" || fn == "isinf") {
    n.i = fn == "isnan" ? std::isnan(v) : std::isinf(v);
    return n;
  }
  if (fn == "floor")
    return computed(t, std::floor(v));
  if (fn == "ceil")
    return computed(t, std::ceil(v));
  if (fn == "trunc")
    return computed(t, std::trunc(v));
  if (fn == "round")
    return computed(t, std::nearbyint(v));
  if (fn == "sqrt")
    return computed(t, t == DType::f64 ? (long double)(std::sqrt(double(v))) : std::sqrt(v));
  if (fn == "exp")
    return bounded(fn, t, std::exp(v));
  if (fn == "exp2")
    return bounded(fn, t, std::exp2(v));
  if (fn == "log")
    return bounded(fn, t, std::log(v));
  if (fn == "log2")
    return bounded(fn, t, std::log2(v));
  if (fn == "rsqrt")
    return bounded(fn, t, isZero(v) ? std::copysign(infinity, v) : 1 / std::sqrt(v));
  if (fn == "sin")
    return bounded(fn, t, std::sin(v));
  if (fn == "cos")
    return bounded(fn, t, std::cos(v));
  if (fn == "tanh")
    return bounded(fn, t, std::tanh(v));
  if (fn == "erf")
    return bounded(fn, t, std::erf(v));
  if (fn == "sigmoid")
    return bounded(fn, t, sigmoid(v));
  throw std::logic_error("no meaning of " + fn);
}

Number binaryOf(const std::string &fn, DType t, const Number &a, const Number &b) {
  if (unknown(a) || unknown(b))
    return unknownNumber();
  if (!isFloat(t)) {
    if (isBool(t) && fn == "max")
      return binaryInteger("bitor", t, a.i, b.i);
    if (isBool(t) && fn == "min")
      return binaryInteger("bitand", t, a.i, b.i);
    return binaryInteger(fn, t, a.i, b.i);
  }
  long double x = a.v, y = b.v;
  bool chooses = fn == "max" || fn == "min" || fn == "maxnum" || fn == "minnum";
  if (a.error != 0 || b.error != 0) {
    Number n;
    if (chooses && !std::isnan(x) && !std::isnan(y)) {
      n = (fn[1] == 'a') == before(x, y) ? b : a;
      n.error = std::max(a.error, b.error);
      return n;
    }
    if (fn != "add" && fn != "sub" && fn != "mul")
      return unknownNumber();
    n.v = fn == "add" ? x + y : fn == "sub" ? x - y : x * y;
    double spread = fn == "mul" ? double(std::fabs(x) * b.error + std::fabs(y) * a.error) + a.error * b.error
                                : a.error + b.error;
    if (!std::isfinite(n.v) || std::fabs(n.v) + spread >= formatOf(t).largest())
      return unknownNumber();
    n.error = 1.001 * spread + double(ulpAt(t, std::fabs(n.v) + spread));
    return n;
  }
  if (chooses) {
    Number n;
    bool number = fn.size() > 3, greatest = fn[1] == 'a';
    if (std::isnan(x) || std::isnan(y))
      n.v = number ? (std::isnan(x) ? y : x) : nan;
    else
      n.v = (greatest ? before(x, y) : before(y, x)) ? y : x;
    return n;
  }
  auto p = double(x), q = double(y);
  if (fn == "add")
    return computed(t, p + q);
  if (fn == "sub")
    return computed(t, p - q);
  if (fn == "mul")
    return computed(t, p * q);
  if (fn == "div")
    return computed(t, p / q);
  if (fn == "rem")
    return computed(t, std::fmod(p, q));
  if (fn == "pow") // at infinities not every powl is right
    return bounded(fn, t,
                   std::isfinite(x) && std::isfinite(y) && !isZero(x) ? std::pow(x, y) : std::pow(p, q));
  throw std::logic_error("no meaning of " + fn);
}

bool compareOf(const std::string &predicate, DType t, const Number &a, const Number &b) {
  auto decide = [&](auto x, auto y) {
    if (predicate == "eq")
      return x == y;
    if (predicate == "ne")
      return x != y;
    if (predicate == "lt")
      return x < y;
    if (predicate == "le")
      return x <= y;
    if (predicate == "gt")
      return x > y;
    return x >= y;
  };
  return isFloat(t) ? decide(a.v, b.v) : decide(a.i, b.i);
}

Number castOf(DType from, DType to, const Number &x) {
  if (unknown(x) || from == to)
    return x;
  Number n;
  if (x.error != 0) {
    if (!isFloat(to) || std::fabs(x.v) + x.error >= formatOf(to).largest())
      return unknownNumber();
    n.v = x.v;
    n.error = x.error * 1.0001 + double(0.5001L * ulpAt(to, std::fabs(x.v) + x.error));
    return n;
  }
  if (isBool(to))
    n.i = isFloat(from) ? !(x.v == 0) : x.i != 0;
  else if (isFloat(to))
    n.v = roundTo(to, isFloat(from) ? x.v : (long double)(x.i));
  else if (!isFloat(from))
    n.i = wrap(to, x.i);
  else if (!std::isnan(x.v)) {
    long double whole = std::trunc(x.v);
    if (whole <= (long double)(leastOf(to)))
      n.i = leastOf(to);
    else if (whole >= (long double)(greatestOf(to)))
      n.i = greatestOf(to);
    else
      n.i = Int(whole);
  }
  return n;
}

namespace {

Number floatSum(DType t, const std::vector<Number> &terms) {
  long double sum = 0, size = 0, error = 0;
  bool whole = true, finite = true;
  for (const Number &x : terms) {
    sum += x.v;
    if (std::isfinite(x.v))
      size += std::fabs(x.v);
    else
      finite = false;
    error += x.error;
    whole &= x.v == std::trunc(x.v) && x.error == 0;
  }
  DType in = computing(t);
  if (size >= formatOf(in).largest())
    return unknownNumber();
  Number n;
  n.v = sum;
  if (!finite) { // NaN, or one sign of infinity
    n.v = roundTo(t, sum);
    return n;
  }
  if (whole && size <= std::ldexp(1.0L, formatOf(in).fractionBits)) {
    n.v = roundTo(t, sum);
    if (isZero(n.v)) // the sign of a zero depends on the order
      n.error = std::numeric_limits<double>::denorm_min();
    return n;
  }
  double u = std::ldexp(1.0, -formatOf(in).fractionBits - 1),
         c = t == DType::f64 ? boundOf("reduce sum")->f64 : boundOf("reduce sum")->f32;
  n.error = double(error) + c * double(terms.size()) * u * double(size + error) + double(ulpAt(in, 0));
  if (isSmall(t))
    n.error += double(0.5001L * ulpAt(t, std::fabs(sum) + n.error));
  return n;
}

Number floatProduct(DType t, const std::vector<Number> &terms) {
  DType in = computing(t);
  long double product = 1, above = 1, below = 1;
  for (const Number &x : terms) {
    if (x.error != 0)
      return unknownNumber();
    product *= x.v;
    if (std::isfinite(x.v) && !isZero(x.v)) {
      above *= std::max(1.0L, std::fabs(x.v));
      below *= std::min(1.0L, std::fabs(x.v));
    }
  }
  if (above >= formatOf(in).largest() || below < std::ldexp(1.0L, formatOf(in).leastExponent()))
    return std::isnan(product) ? computed(t, nan) : unknownNumber();
  Number n;
  n.v = roundTo(t, product);
  if (!std::isfinite(product) || isZero(product))
    return n;
  n.v = product;
  double u = std::ldexp(1.0, -formatOf(in).fractionBits - 1),
         c = t == DType::f64 ? boundOf("reduce prod")->f64 : boundOf("reduce prod")->f32;
  n.error = c * double(terms.size()) * u * double(std::fabs(product));
  if (isSmall(t))
    n.error += double(0.5001L * ulpAt(t, std::fabs(product) + n.error));
  return n;
}

} // namespace

Number reduceOf(const std::string &kind, DType t, const std::vector<Number> &terms) {
  for (const Number &x : terms)
    if (unknown(x))
      return unknownNumber();
  Number n;
  if (kind == "argmax" || kind == "argmin") {
    bool greatest = kind == "argmax";
    for (std::size_t k = 0; k < terms.size(); ++k) {
      const Number &x = terms[k], &best = terms[std::size_t(n.i)];
      if (x.error != 0)
        return unknownNumber();
      bool wins = isFloat(t)
                      ? (std::isnan(x.v) ? !std::isnan(best.v)
                                         : !std::isnan(best.v) && (greatest ? x.v > best.v : x.v < best.v))
                      : (greatest ? x.i > best.i : x.i < best.i);
      if (wins)
        n.i = Int(k);
    }
    return n;
  }
  if (kind == "any" || kind == "all") {
    bool all = kind == "all";
    n.i = all;
    for (const Number &x : terms)
      n.i = all ? n.i & x.i : n.i | x.i;
    return n;
  }
  if (kind == "sum" || kind == "prod") {
    if (isFloat(t))
      return kind == "sum" ? floatSum(t, terms) : floatProduct(t, terms);
    n.i = kind == "prod";
    for (const Number &x : terms)
      n = binaryInteger(kind == "sum" ? "add" : "mul", t, n.i, x.i);
    return n;
  }
  bool greatest = kind[1] == 'a';
  if (terms.empty()) {
    n.i = greatest ? leastOf(t) : greatestOf(t);
    if (isFloat(t))
      n.v = (greatest ? -1 : 1) * (formatOf(t).hasInfinity ? infinity : formatOf(t).largest());
    return n;
  }
  n = terms[0];
  for (const Number &x : terms)
    n = binaryOf(kind, t, n, x);
  return n;
}

bool accepts(DType t, const Number &want, std::uint64_t bits) {
  if (unknown(want))
    return true;
  if (!isFloat(t))
    return bits == encode(t, want);
  if (std::isnan(want.v))
    return isNanBits(t, bits);
  const Format &f = formatOf(t);
  long double got = decode(t, bits).v;
  if (want.error == 0) // an infinity of e5m2 that was chosen, not computed, has a code of its own
    return std::isinf(want.v) ? got == want.v : bits == encodeFloat(t, want.v);
  if (std::isnan(got))
    return false;
  long double reach = std::fabs(want.v) + want.error, half = ulpAt(t, f.largest()) / 2;
  bool sameSign = std::signbit(got) == std::signbit(want.v);
  if (std::isinf(got))
    return !f.saturates && sameSign && reach >= f.largest() + half * 0.999L;
  if (f.saturates && sameSign && std::fabs(got) == f.largest() && reach >= f.largest() - half)
    return true;
  return std::fabs(got - want.v) <= want.error;
}

} // namespace sectile::numerics
