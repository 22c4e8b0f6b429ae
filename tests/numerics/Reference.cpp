// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Reference.h"

#include "tests/numerics/Bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace sectile::numerics {
namespace {

constexpr long double largestTf32 = (2 - 0x1p-10L) * 0x1p127L;

/// A tile or scalar with what exists of it: per axis an interval of coordinates, and a mask where one was
/// made.
struct Lanes {
  DType dtype = DType::f32;
  Shape shape, lo, hi;
  std::vector<Number> x;
  std::vector<std::uint8_t> mask; ///< empty: all

  Lanes() = default;
  Lanes(DType t, Shape s) : dtype(t), shape(std::move(s)), lo(shape.size(), 0), hi(shape) {
    x.resize(std::size_t(countOf(shape)));
  }
  std::size_t count() const { return x.size(); }
  bool masked(std::size_t n) const { return !mask.empty() && !mask[n]; }
  bool inExtents(const Shape &at) const {
    for (std::size_t d = 0; d < at.size(); ++d)
      if (at[d] < lo[d] || at[d] >= hi[d])
        return false;
    return true;
  }
  bool exists(std::size_t n, const Shape &at) const { return inExtents(at) && !masked(n); }
  void remove(std::size_t n) {
    if (mask.empty())
      mask.assign(count(), 1);
    mask[n] = 0;
  }
  void intersect(const Lanes &o) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      lo[d] = std::max(lo[d], o.lo[d]);
      hi[d] = std::min(hi[d], o.hi[d]);
    }
    for (std::size_t n = 0; n < count(); ++n)
      if (o.masked(n))
        remove(n);
  }
};

/// Calls f(lane number, coordinates) for every lane of a shape, row-major.
template <class F> void forLanes(const Shape &shape, F &&f) {
  Shape at(shape.size(), 0);
  for (std::size_t n = 0;; ++n) {
    f(n, at);
    std::size_t d = shape.size();
    for (; d > 0; --d) {
      if (++at[d - 1] < shape[d - 1])
        break;
      at[d - 1] = 0;
    }
    if (d == 0)
      return;
  }
}

std::size_t laneAt(const Shape &shape, const Shape &at) {
  std::int64_t n = 0;
  for (std::size_t d = 0; d < shape.size(); ++d)
    n = n * shape[d] + at[d];
  return std::size_t(n);
}

struct View {
  std::size_t argument = 0;
  std::int64_t origin = 0; ///< element number, in the argument's memory, of coordinate 0
  Shape dims, strides;
};

class Evaluator {
public:
  Evaluator(const Kernel &k, const std::vector<Memory> &memory, Where where)
      : k(k), memory(memory), where(where), lanes(k.types.size()), views(k.types.size()) {}

  std::vector<Expected> run() {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const Argument &a = k.arguments[i];
      Expected e;
      if (a.rank >= 0) {
        e.numbers.resize(std::size_t(memory[i].elements()));
        e.written.assign(e.numbers.size(), 0);
        views[std::size_t(k.argumentValues[i])] = {i, memory[i].originElement(), a.dims, a.strides};
      } else {
        setScalar(k.argumentValues[i], decode(a.dtype, a.bits));
      }
      expected.push_back(std::move(e));
    }
    Shape counts;
    for (std::size_t d = 0; d < k.gridSizes.size(); ++d)
      counts.push_back((views[std::size_t(k.gridArgument)].dims[d] + k.gridSizes[d] - 1) / k.gridSizes[d]);
    for (std::int64_t c : counts)
      if (c == 0)
        return std::move(expected);
    forLanes(counts, [&](std::size_t, const Shape &at) {
      for (std::size_t d = 0; d < at.size(); ++d)
        setIndex(k.gridValues[d], at[d] * k.gridSizes[d]);
      block(k.body);
    });
    return std::move(expected);
  }

private:
  Lanes &at(int v) { return lanes[std::size_t(v)]; }
  View &view(int v) { return views[std::size_t(v)]; }
  void setScalar(int v, Number n) {
    Lanes l(k.dtype(v), {});
    l.x[0] = n;
    at(v) = std::move(l);
  }
  void setIndex(int v, std::int64_t i) {
    Number n;
    n.i = i;
    setScalar(v, n);
  }
  /// A scalar that decides what happens.
  std::int64_t certain(int v) {
    if (unknown(at(v).x[0]) || at(v).masked(0))
      throw Undecidable("control flow or an offset is not known exactly");
    return std::int64_t(at(v).x[0].i);
  }

  void block(const Block &b) {
    for (const Node &n : b.nodes)
      node(n);
  }
  void bind(const std::vector<int> &to, std::size_t toFrom, const std::vector<int> &from,
            std::size_t fromFrom) {
    std::vector<Lanes> values;
    for (std::size_t i = fromFrom; i < from.size(); ++i)
      values.push_back(at(from[i]));
    for (std::size_t i = 0; i < values.size(); ++i)
      at(to[toFrom + i]) = std::move(values[i]);
  }

  void node(const Node &n) {
    if (n.op == Op::forLoop) {
      const Block &b = n.regions[0];
      std::int64_t hi = certain(n.in[1]), step = certain(n.in[2]);
      bind(n.out, 0, n.in, 3);
      for (std::int64_t i = certain(n.in[0]); i < hi; i += step) {
        setIndex(b.args[0], i);
        bind(b.args, 1, n.out, 0);
        block(b);
        bind(n.out, 0, b.yields, 0);
      }
      return;
    }
    if (n.op == Op::ifElse) {
      const Block &b = n.regions[certain(n.in[0]) ? 0 : 1];
      block(b);
      return bind(n.out, 0, b.yields, 0);
    }
    if (n.op == Op::whileLoop) {
      const Block &before = n.regions[0], &after = n.regions[1];
      bind(n.out, 0, n.in, 0);
      for (int trips = 0;; ++trips) {
        if (trips > 10000)
          throw Undecidable("a loop that does not end");
        bind(before.args, 0, n.out, 0);
        block(before);
        bind(n.out, 0, before.yields, 1);
        if (!certain(before.yields[0]))
          return;
        bind(after.args, 0, n.out, 0);
        block(after);
        bind(n.out, 0, after.yields, 0);
      }
    }
    switch (n.op) {
    case Op::dim:
      return setIndex(n.out[0], view(n.in[0]).dims[std::size_t(n.ints[0])]);
    case Op::slice:
      return slice(n);
    case Op::store:
      return store(n);
    default:
      at(n.out[0]) = result(n);
    }
  }

  void slice(const Node &n) {
    View v = view(n.in[0]);
    auto axis = std::size_t(n.ints[0]);
    std::int64_t dim = v.dims[axis];
    auto clamp = [&](std::int64_t c) { return std::min(std::max<std::int64_t>(c, 0), dim); };
    std::int64_t lo = clamp(certain(n.in[1])), hi = clamp(certain(n.in[2]));
    v.origin += lo * v.strides[axis];
    v.dims[axis] = std::max<std::int64_t>(0, hi - lo);
    view(n.out[0]) = v;
  }

  void store(const Node &n) {
    const Lanes &value = at(n.in[0]);
    const View &v = view(n.in[1]);
    forLanes(value.shape, [&](std::size_t lane, const Shape &c) {
      if (!value.exists(lane, c))
        return;
      std::int64_t element = v.origin;
      for (std::size_t d = 0; d < c.size(); ++d) {
        std::int64_t where = certain(n.in[2 + d]) + c[d];
        if (where < 0 || where >= v.dims[d])
          return;
        element += where * v.strides[d];
      }
      Expected &e = expected[v.argument];
      e.written[std::size_t(element)] = 1;
      e.numbers[std::size_t(element)] = value.x[lane];
    });
  }

  Number read(const View &v, std::int64_t element) {
    const Expected &e = expected[v.argument];
    if (e.written[std::size_t(element)])
      return e.numbers[std::size_t(element)];
    const Memory &m = memory[v.argument];
    DType t = k.arguments[v.argument].dtype;
    return decode(t, readBits(m.bytes().data() + m.lowestAt() + element * std::int64_t(byteSize(t)), t));
  }

  Lanes load(const Node &n, Lanes r) {
    const View &v = view(n.in[0]);
    for (std::size_t d = 0; d < r.shape.size(); ++d) {
      std::int64_t offset = certain(n.in[1 + d]);
      r.lo[d] = std::max<std::int64_t>(0, -offset);
      r.hi[d] = std::min(r.shape[d], v.dims[d] - offset);
    }
    forLanes(r.shape, [&](std::size_t lane, const Shape &c) {
      if (!r.inExtents(c))
        return;
      std::int64_t element = v.origin;
      for (std::size_t d = 0; d < c.size(); ++d)
        element += (certain(n.in[1 + d]) + c[d]) * v.strides[d];
      r.x[lane] = read(v, element);
    });
    return r;
  }

  Lanes gather(const Node &n, Lanes r) {
    const View &v = view(n.in[0]);
    for (std::size_t d = 0; d < v.dims.size(); ++d) {
      const Lanes &i = at(n.in[1 + d]);
      if (!i.shape.empty() || r.shape.empty())
        r.intersect(i);
      else
        certain(n.in[1 + d]);
    }
    forLanes(r.shape, [&](std::size_t lane, const Shape &c) {
      if (!r.exists(lane, c))
        return;
      std::int64_t element = v.origin;
      for (std::size_t d = 0; d < v.dims.size(); ++d) {
        const Lanes &i = at(n.in[1 + d]);
        const Number &where = i.x[i.shape.empty() ? 0 : lane];
        if (unknown(where))
          throw Undecidable("a coordinate is not known exactly");
        if (where.i < 0 || where.i >= v.dims[d])
          return r.remove(lane);
        element += std::int64_t(where.i) * v.strides[d];
      }
      r.x[lane] = read(v, element);
    });
    return r;
  }

  Lanes elementwise(const Node &n, Lanes r) {
    for (int operand : n.in) {
      const Lanes &o = at(operand);
      if (o.shape == r.shape)
        r.intersect(o);
      else if (o.masked(0))
        r.mask.assign(r.count(), 0);
    }
    auto in = [&](std::size_t operand, std::size_t lane) -> const Number & {
      const Lanes &o = at(n.in[operand]);
      return o.x[o.count() == 1 ? 0 : lane];
    };
    DType t = at(n.in.back()).dtype;
    for (std::size_t lane = 0; lane < r.count(); ++lane) {
      Number &out = r.x[lane];
      switch (n.op) {
      case Op::unary:
        out = unaryOf(n.fn, t, in(0, lane));
        break;
      case Op::binary:
        out = binaryOf(n.fn, t, in(0, lane), in(1, lane));
        break;
      case Op::compare:
        if (in(0, lane).error != 0 || in(1, lane).error != 0)
          out = unknownNumber();
        else
          out.i = compareOf(n.fn, t, in(0, lane), in(1, lane));
        break;
      case Op::select:
        out = unknown(in(0, lane)) ? unknownNumber() : in(in(0, lane).i ? 1 : 2, lane);
        break;
      case Op::fma:
        if (unknown(in(0, lane)) || unknown(in(1, lane)) || unknown(in(2, lane)) ||
            in(0, lane).error + in(1, lane).error + in(2, lane).error != 0)
          out = unknownNumber();
        else // of the C library, which rounds once
          out.v = t == DType::f32 ? std::fma(float(in(0, lane).v), float(in(1, lane).v), float(in(2, lane).v))
                                  : std::fma(double(in(0, lane).v), double(in(1, lane).v), double(in(2, lane).v));
        break;
      default:
        out = castOf(t, r.dtype, in(0, lane));
      }
    }
    return r;
  }

  Lanes reshape(const Node &n, Lanes r) {
    const Lanes &x = at(n.in[0]);
    r.x = x.x;
    r.mask = x.mask;
    // Axes of length 1 come and go, the others keep their intervals. Without its one lane, an axis that goes
    // leaves none.
    bool units = true, gone = false;
    std::size_t i = 0, j = 0;
    Lanes kept(r.dtype, r.shape);
    while (units && (i < x.shape.size() || j < r.shape.size())) {
      if (i < x.shape.size() && j < r.shape.size() && x.shape[i] == r.shape[j]) {
        kept.lo[j] = x.lo[i];
        kept.hi[j++] = x.hi[i++];
      } else if (i < x.shape.size() && x.shape[i] == 1) {
        gone |= x.lo[i] > 0 || x.hi[i] < 1;
        ++i;
      } else if (j < r.shape.size() && r.shape[j] == 1) {
        ++j;
      } else {
        units = false;
      }
    }
    if (units) {
      r.lo = kept.lo;
      r.hi = gone ? Shape(r.shape.size(), 0) : kept.hi;
      if (gone && r.shape.empty())
        r.remove(0);
      return r;
    }
    forLanes(x.shape, [&](std::size_t lane, const Shape &c) {
      if (!x.inExtents(c))
        r.remove(lane);
    });
    return r;
  }

  Lanes reduce(const Node &n, Lanes r) {
    const Lanes &x = at(n.in[0]);
    auto axis = std::size_t(n.ints[0]);
    for (std::size_t d = 0; d < r.shape.size(); ++d)
      if (d != axis) {
        r.lo[d] = x.lo[d];
        r.hi[d] = x.hi[d];
      }
    forLanes(r.shape, [&](std::size_t lane, const Shape &c) {
      std::vector<Number> terms;
      Shape at = c;
      std::vector<std::int64_t> positions;
      for (at[axis] = std::max<std::int64_t>(0, x.lo[axis]); at[axis] < x.hi[axis]; ++at[axis]) {
        std::size_t from = laneAt(x.shape, at);
        if (x.masked(from))
          continue;
        terms.push_back(x.x[from]);
        positions.push_back(at[axis]);
      }
      r.x[lane] = reduceOf(n.fn, x.dtype, terms);
      if (n.fn.substr(0, 3) == "arg" && !terms.empty() && !unknown(r.x[lane]))
        r.x[lane].i = positions[std::size_t(r.x[lane].i)];
    });
    return r;
  }

  Lanes mma(const Node &n, Lanes r) {
    const Lanes &a = at(n.in[0]), &b = at(n.in[1]), &c = at(n.in[2]);
    r.lo = {std::max(a.lo[0], c.lo[0]), std::max(b.lo[1], c.lo[1])};
    r.hi = {std::min(a.hi[0], c.hi[0]), std::min(b.hi[1], c.hi[1])};
    r.mask = c.mask;
    std::int64_t K = a.shape[1], N = r.shape[1], k0 = std::max(a.lo[1], b.lo[0]),
                 k1 = std::min(a.hi[1], b.hi[0]);
    DType t = r.dtype, in = t == DType::f16 ? DType::f32 : t;
    bool tf32 = n.fn == "tf32", fp8 = byteSize(a.dtype) == 1 && isFloat(a.dtype);
    double u = isFloat(t) ? std::ldexp(1.0, -formatOf(in).fractionBits - 1) : 0;
    double factor = isFloat(t) ? (t == DType::f64 ? boundOf("mma")->f64 : boundOf("mma")->f32) : 0;
    forLanes(r.shape, [&](std::size_t lane, const Shape &at) {
      if (!r.inExtents(at))
        return;
      const Number &start = c.x[lane];
      Number &out = r.x[lane];
      bool any = unknown(start), whole = isFloat(t) && start.v == std::trunc(start.v) && start.error == 0,
           finite = std::isfinite(start.v);
      long double sum = start.v, size = finite ? std::fabs(start.v) : 0, error = start.error;
      Int total = start.i;
      std::int64_t terms = 1;
      ShortSums chains;
      for (std::int64_t i = 0; i < k0; ++i)
        chains.add(0);
      for (std::int64_t i = k0; i < k1; ++i) {
        auto left = std::size_t(at[0] * K + i), right = std::size_t(i * N + at[1]);
        if (a.masked(left) || b.masked(right)) {
          chains.add(0);
          continue;
        }
        const Number &x = a.x[left], &y = b.x[right];
        any |= unknown(x) || unknown(y);
        ++terms;
        if (!isFloat(t)) {
          total += x.i * y.i;
          continue;
        }
        long double product = x.v * y.v;
        sum += product;
        chains.add(double(product));
        if (std::isfinite(product))
          size += std::fabs(product);
        else
          finite = false;
        error += std::fabs(x.v) * y.error + std::fabs(y.v) * x.error + x.error * y.error;
        whole &= x.v == std::trunc(x.v) && y.v == std::trunc(y.v) && x.error == 0 && y.error == 0;
        if (tf32) { // whole numbers past 11 bits do not fit; the largest may round to infinity
          whole &= std::fabs(x.v) <= 2048 && std::fabs(y.v) <= 2048;
          for (long double v : {x.v, y.v})
            any |= std::isfinite(v) && std::fabs(v) > largestTf32;
          // A subnormal may round to 0, whose product with an infinity is NaN.
          any |= std::isinf(product) && (std::fabs(x.v) < 0x1p-126L || std::fabs(y.v) < 0x1p-126L);
        }
      }
      if (any) {
        out = unknownNumber();
        return;
      }
      if (!isFloat(t)) {
        out.i = wrap(t, total);
        return;
      }
      if (size >= formatOf(in).largest()) {
        out = unknownNumber();
        return;
      }
      if (!finite) {
        out.v = roundTo(t, sum);
        return;
      }
      int exactBits = fp8 && where == Where::gpu ? 13 : formatOf(in).fractionBits;
      if (whole && size <= std::ldexp(1.0L, exactBits)) {
        out.v = roundTo(t, sum);
        if (out.v == 0) // the sign of a zero depends on the order
          out.error = std::numeric_limits<double>::denorm_min();
        return;
      }
      out.v = sum;
      out.error = double(error) + factor * double(terms) * u * double(size + error) +
                  double(ulpAt(in, 0)) * double(terms);
      if (tf32)
        out.error += tf32Product * double(size);
      if (fp8 && where == Where::gpu)
        out.error += fp8TensorCore * double(size) + chains.lost();
      if (t == DType::f16)
        out.error += double(0.5001L * ulpAt(t, std::fabs(sum) + out.error));
    });
    return r;
  }

  Lanes result(const Node &n) {
    const Type &type = k.type(n.out[0]);
    Lanes r(type.dtype, type.shape);
    switch (n.op) {
    case Op::constant:
      std::fill(r.x.begin(), r.x.end(), decode(type.dtype, n.bits));
      return r;
    case Op::load:
      return load(n, std::move(r));
    case Op::gather:
      return gather(n, std::move(r));
    case Op::keep: {
      const Lanes &m = at(n.in[0]);
      r = at(n.in[1]);
      forLanes(r.shape, [&](std::size_t lane, const Shape &c) {
        if (!m.exists(lane, c))
          return r.remove(lane);
        if (unknown(m.x[lane]))
          throw Undecidable("a mask is not known exactly");
        if (!m.x[lane].i)
          r.remove(lane);
      });
      return r;
    }
    case Op::fill: {
      const Lanes &x = at(n.in[0]);
      forLanes(r.shape, [&](std::size_t lane, const Shape &c) {
        r.x[lane] = x.exists(lane, c) ? x.x[lane] : at(n.in[1]).x[0];
      });
      return r;
    }
    case Op::iota:
      forLanes(r.shape, [&](std::size_t lane, const Shape &c) { r.x[lane].i = c[std::size_t(n.ints[0])]; });
      return r;
    case Op::splat:
      std::fill(r.x.begin(), r.x.end(), at(n.in[0]).x[0]);
      return r;
    case Op::broadcast:
    case Op::permute: {
      const Lanes &x = at(n.in[0]);
      bool permute = n.op == Op::permute;
      for (std::size_t d = 0; d < r.shape.size(); ++d) {
        std::size_t from = permute ? std::size_t(n.ints[d]) : d;
        bool repeated = !permute && x.shape[d] != r.shape[d];
        r.lo[d] = repeated ? 0 : x.lo[from];
        r.hi[d] = repeated ? (x.lo[from] <= 0 && x.hi[from] >= 1 ? r.shape[d] : 0) : x.hi[from];
      }
      forLanes(r.shape, [&](std::size_t lane, const Shape &c) {
        Shape source(c.size());
        for (std::size_t d = 0; d < c.size(); ++d)
          source[permute ? std::size_t(n.ints[d]) : d] = !permute && x.shape[d] == 1 ? 0 : c[d];
        std::size_t from = laneAt(x.shape, source);
        r.x[lane] = x.x[from];
        if (x.masked(from))
          r.remove(lane);
      });
      return r;
    }
    case Op::reshape:
      return reshape(n, std::move(r));
    case Op::reduce:
      return reduce(n, std::move(r));
    case Op::mma:
      return mma(n, std::move(r));
    default:
      return elementwise(n, std::move(r));
    }
  }

  const Kernel &k;
  const std::vector<Memory> &memory;
  Where where;
  std::vector<Lanes> lanes;
  std::vector<View> views;
  std::vector<Expected> expected;
};

} // namespace

std::vector<Expected> evaluate(const Kernel &kernel, const std::vector<Memory> &before, Where where) {
  return Evaluator(kernel, before, where).run();
}

/// The coordinates of an element of an argument, for messages.
static std::string coordinates(const Argument &a, std::int64_t relative) {
  std::string text = fmt::format("element {}", relative);
  Shape at(a.dims.size(), 0);
  forLanes(a.dims, [&](std::size_t, const Shape &c) {
    std::int64_t where = 0;
    for (std::size_t d = 0; d < c.size(); ++d)
      where += c[d] * a.strides[d];
    if (where == relative && text[0] == 'e')
      text = fmt::format("[{}]", fmt::join(c, ", "));
  });
  return text;
}

std::string compare(const Kernel &kernel, const std::vector<Expected> &expected,
                    const std::vector<Memory> &before, const std::vector<Memory> &after) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Argument &a = kernel.arguments[i];
    if (a.rank < 0)
      continue;
    auto was = before[i].bytes(), is = after[i].bytes();
    std::vector<std::uint8_t> stored(was.size(), 0);
    auto size = std::int64_t(byteSize(a.dtype));
    std::string first;
    std::int64_t wrong = 0, firstAt = 0;
    for (std::int64_t e = 0; e < before[i].elements(); ++e) {
      if (!expected[i].written[std::size_t(e)])
        continue;
      std::int64_t at = before[i].lowestAt() + e * size;
      std::fill(stored.begin() + at, stored.begin() + at + size, 1);
      std::uint64_t bits = readBits(is.data() + at, a.dtype);
      const Number &want = expected[i].numbers[std::size_t(e)];
      if (accepts(a.dtype, want, bits))
        continue;
      if (!wrong++) {
        firstAt = e - before[i].originElement();
        first =
            fmt::format("got {}, want {}", describe(a.dtype, bits), describe(a.dtype, encode(a.dtype, want)));
        if (want.error != 0)
          first += fmt::format(" within {:.3g}, off by {:.3g}", want.error,
                               std::fabs(double(decode(a.dtype, bits).v - want.v)));
      }
    }
    if (wrong)
      return fmt::format("argument {} {} at {}: {}; {} wrong", i, name(a.dtype), coordinates(a, firstAt),
                         first, wrong);
    for (std::size_t b = 0; b < was.size(); ++b)
      if (!stored[b] && was[b] != is[b]) {
        std::int64_t relative = (std::int64_t(b) - before[i].lowestAt()) / size - before[i].originElement();
        return fmt::format("argument {} {}: byte {} of its memory, {}, is 0x{:02x}; nothing is stored there",
                           i, name(a.dtype), b, coordinates(a, relative), is[b]);
      }
  }
  return {};
}

std::int64_t storedLanes(const std::vector<Expected> &expected) {
  std::int64_t n = 0;
  for (const Expected &e : expected)
    n += std::count(e.written.begin(), e.written.end(), 1);
  return n;
}

std::int64_t knownLanes(const std::vector<Expected> &expected) {
  std::int64_t n = 0;
  for (const Expected &e : expected)
    for (std::size_t i = 0; i < e.numbers.size(); ++i)
      n += e.written[i] && !unknown(e.numbers[i]);
  return n;
}

} // namespace sectile::numerics
