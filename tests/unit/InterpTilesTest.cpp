// SPDX-License-Identifier: Apache-2.0
/// \file Which lanes exist: random chains of ops against a model that keeps a truth value per axis coordinate
/// and per lane. Folds and matrix products on every type, with extents and masks.
#include "tests/support/InterpHarness.h"

#include "ir/base/Scalar.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <random>

using namespace sectile;
using namespace sectile::test;

namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t product(const Shape &s) {
  std::int64_t n = 1;
  for (std::int64_t length : s)
    n *= length;
  return n;
}
Shape coordinates(std::int64_t lane, const Shape &s) {
  Shape c(s.size());
  for (std::size_t d = s.size(); d-- > 0; lane /= s[d])
    c[d] = lane % s[d];
  return c;
}
std::int64_t laneOf(const Shape &c, const Shape &s) {
  std::int64_t lane = 0;
  for (std::size_t d = 0; d < s.size(); ++d)
    lane = lane * s[d] + c[d];
  return lane;
}
std::string tile(const Shape &s, const std::string &type = "i32") {
  std::string t = "tensor<";
  for (std::int64_t length : s)
    t += std::to_string(length) + "x";
  return t + type + ">";
}

/// A tile as the language means it, written the slow way.
struct Model {
  Shape shape;
  std::vector<i32> value;
  std::vector<std::vector<bool>> axis; ///< does the coordinate exist
  std::vector<bool> kept;

  explicit Model(Shape s)
      : shape(std::move(s)), value(std::size_t(product(shape))), kept(value.size(), true) {
    for (std::int64_t length : shape)
      axis.emplace_back(std::size_t(length), true);
  }
  bool extent(std::int64_t lane) const {
    Shape c = coordinates(lane, shape);
    for (std::size_t d = 0; d < c.size(); ++d)
      if (!axis[d][std::size_t(c[d])])
        return false;
    return true;
  }
  bool exists(std::int64_t lane) const { return extent(lane) && kept[std::size_t(lane)]; }
};

/// Builds a random chain of ops as text and as models side by side.
class Chain {
public:
  explicit Chain(unsigned seed) : gen(seed) {}

  std::string text;
  std::vector<std::vector<i32>> inputs;

  int below(int n) { return int(gen() % unsigned(n)); }
  std::string fresh() { return "%v" + std::to_string(count++); }

  /// A load from a fresh view that covers part of the tile.
  std::string load(const Shape &shape, Model &m) {
    m = Model(shape);
    std::string arg = "%A" + std::to_string(inputs.size()),
                view = fmt::format("!tile.tensor<{}, i32>", shape.size());
    Shape dims, offsets;
    std::string names;
    for (std::int64_t length : shape) {
      dims.push_back(1 + below(int(length) + 3));
      offsets.push_back(below(4) == 0 ? below(7) - 3 : 0);
      std::string name = fresh();
      text += fmt::format("{} = tile.constant {} : index\n", name, offsets.back());
      names += (names.empty() ? "" : ", ") + name;
    }
    std::vector<i32> data;
    for (std::int64_t i = 0; i < product(dims); ++i)
      data.push_back(below(2000) - 1000);
    for (std::int64_t lane = 0; lane < product(shape); ++lane) {
      Shape c = coordinates(lane, shape);
      bool in = true;
      for (std::size_t d = 0; d < c.size(); ++d) {
        bool here = c[d] + offsets[d] >= 0 && c[d] + offsets[d] < dims[d];
        if (!here)
          m.axis[d][std::size_t(c[d])] = false;
        in &= here;
        c[d] += offsets[d];
      }
      if (in)
        m.value[std::size_t(lane)] = data[std::size_t(laneOf(c, dims))];
    }
    inputs.push_back(data);
    views.push_back(dims);
    arguments += arg + ": " + view + ", ";
    std::string r = fresh();
    text += fmt::format("{} = tile.load {}[{}] : {} -> {}\n", r, arg, names, view, tile(shape));
    return r;
  }

  /// One random op on the value `x` of model `m`.
  std::string step(const std::string &x, Model &m) {
    std::string r = fresh(), t = tile(m.shape);
    std::int64_t rank = std::int64_t(m.shape.size());
    switch (below(8)) {
    case 0: { // with another load
      Model other(m.shape);
      std::string y = load(m.shape, other);
      text += fmt::format("{} = tile.binary sub {}, {} : {}\n", r, x, y, t);
      join(m, other, [](i32 a, i32 b) { return detail::subInt(a, b); });
      return r;
    }
    case 1: { // keep where another load is positive
      Model other(m.shape);
      std::string y = load(m.shape, other), zero = fresh(), mask = fresh();
      text += fmt::format("{} = tile.constant dense<0> : {}\n{} = tile.compare gt {}, {} : {} -> {}\n", zero,
                          t, mask, y, zero, t, tile(m.shape, "i1"));
      text += fmt::format("{} = tile.keep {}, {} : {}, {}\n", r, mask, x, tile(m.shape, "i1"), t);
      for (std::size_t i = 0; i < m.value.size(); ++i)
        m.kept[i] = m.kept[i] && other.exists(std::int64_t(i)) && other.value[i] > 0;
      return r;
    }
    case 2: { // permute
      std::vector<std::int64_t> perm(std::size_t(rank), 0);
      for (std::size_t d = 0; d < perm.size(); ++d)
        perm[d] = std::int64_t(d);
      std::shuffle(perm.begin(), perm.end(), gen);
      Shape s;
      for (std::int64_t d : perm)
        s.push_back(m.shape[std::size_t(d)]);
      Model n(s);
      for (std::int64_t lane = 0; lane < product(s); ++lane) {
        Shape c = coordinates(lane, s), from(c.size());
        for (std::size_t d = 0; d < c.size(); ++d)
          from[std::size_t(perm[d])] = c[d];
        std::size_t source = std::size_t(laneOf(from, m.shape));
        n.value[std::size_t(lane)] = m.value[source];
        n.kept[std::size_t(lane)] = m.kept[source];
      }
      for (std::size_t d = 0; d < perm.size(); ++d)
        n.axis[d] = m.axis[std::size_t(perm[d])];
      text += fmt::format("{} = tile.permute {} [{}] : {} -> {}\n", r, x, fmt::join(perm, ", "), t, tile(s));
      m = n;
      return r;
    }
    case 3: { // fold an axis, broadcast it back
      std::int64_t d = below(int(rank));
      Shape s = m.shape;
      s[std::size_t(d)] = 1;
      Model n(s);
      n.axis = m.axis;
      n.axis[std::size_t(d)] = {true};
      bool sum = below(2);
      std::vector<bool> seen(n.value.size());
      for (i32 &v : n.value)
        v = sum ? 0 : std::numeric_limits<i32>::min();
      for (std::int64_t lane = 0; lane < product(m.shape); ++lane) {
        Shape c = coordinates(lane, m.shape);
        // Only the folded axis and the mask decide: other axes keep their extents.
        if (!m.kept[std::size_t(lane)] || !m.axis[std::size_t(d)][std::size_t(c[std::size_t(d)])])
          continue;
        c[std::size_t(d)] = 0;
        i32 &v = n.value[std::size_t(laneOf(c, s))];
        v = sum ? detail::addInt(v, m.value[std::size_t(lane)]) : std::max(v, m.value[std::size_t(lane)]);
      }
      text +=
          fmt::format("{} = tile.reduce {} {}, {} : {} -> {}\n", r, sum ? "sum" : "max", x, d, t, tile(s));
      m = n;
      s[std::size_t(d)] = 1 + below(5);
      return broadcast(r, m, s);
    }
    case 4: { // length-1 axes come and go
      if (rank >= 4)
        return x;
      Shape s = m.shape;
      std::int64_t d = below(int(rank) + 1);
      while (d < rank &&
             s[std::size_t(d)] == 1) // among neighbours of length 1 the new one counts as the last
        ++d;
      s.insert(s.begin() + d, 1);
      Model n(s);
      n.value = m.value;
      n.kept = m.kept;
      n.axis = m.axis;
      n.axis.insert(n.axis.begin() + d, std::vector<bool>{true});
      text += fmt::format("{} = tile.reshape {} : {} -> {}\n", r, x, t, tile(s));
      m = n;
      return r;
    }
    case 5: { // any other shape: extents become a mask
      Shape s{product(m.shape)};
      Model n(s);
      n.value = m.value;
      for (std::size_t i = 0; i < m.value.size(); ++i)
        n.kept[i] = m.exists(std::int64_t(i));
      bool trivial = rank == 1;
      text += fmt::format("{} = tile.reshape {} : {} -> {}\n", r, x, t, tile(s));
      int units = 0;
      for (std::int64_t length : m.shape)
        units += length == 1;
      if (!trivial && rank - units > 1)
        m = n;
      else
        text.resize(text.rfind(r)); // the same lanes: axes would keep their extents
      return m.shape == s && !trivial ? r : x;
    }
    case 6: { // fill, with a constant that shows
      std::string c = fresh();
      text += fmt::format("{} = tile.constant 5000 : i32\n{} = tile.fill {}, {} : {}, i32\n", c, r, x, c, t);
      Model n(m.shape);
      for (std::size_t i = 0; i < m.value.size(); ++i)
        n.value[i] = m.exists(std::int64_t(i)) ? m.value[i] : 5000;
      m = n;
      return r;
    }
    default: { // choose between itself and another
      Model other(m.shape);
      std::string y = load(m.shape, other), mask = fresh();
      text += fmt::format("{} = tile.compare lt {}, {} : {} -> {}\n", mask, x, y, t, tile(m.shape, "i1"));
      text += fmt::format("{} = tile.select {}, {}, {} : {}, {}\n", r, mask, y, x, tile(m.shape, "i1"), t);
      join(m, other, [](i32 a, i32 b) { return std::max(a, b); });
      return r;
    }
    }
  }

  std::string broadcast(const std::string &x, Model &m, const Shape &s) {
    std::string r = fresh();
    text += fmt::format("{} = tile.broadcast {} : {} -> {}\n", r, x, tile(m.shape), tile(s));
    Model n(s);
    for (std::size_t d = 0; d < s.size(); ++d)
      n.axis[d] = m.shape[d] == s[d] ? m.axis[d] : std::vector<bool>(std::size_t(s[d]), m.axis[d][0]);
    for (std::int64_t lane = 0; lane < product(s); ++lane) {
      Shape c = coordinates(lane, s);
      for (std::size_t d = 0; d < s.size(); ++d)
        c[d] = m.shape[d] == 1 ? 0 : c[d];
      n.value[std::size_t(lane)] = m.value[std::size_t(laneOf(c, m.shape))];
      n.kept[std::size_t(lane)] = m.kept[std::size_t(laneOf(c, m.shape))];
    }
    m = n;
    return r;
  }

  /// Runs the chain and compares: a plain store must leave missing lanes alone.
  void check(const std::string &x, const Model &m) {
    std::string view = fmt::format("!tile.tensor<{}, i32>", m.shape.size()), zeros;
    for (std::size_t d = 0; d < m.shape.size(); ++d)
      zeros += d ? ", %zero" : "%zero";
    std::string whole =
        kernelText(arguments + "%Y: " + view,
                   "%zero = tile.constant 0 : index\n" + text +
                       fmt::format("tile.store {}, %Y[{}] : {}, {}", x, zeros, tile(m.shape), view));
    std::vector<KernelArg> args;
    std::vector<Host<i32>> hosts;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      hosts.emplace_back(views[i]);
      hosts.back().data = inputs[i];
    }
    hosts.emplace_back(m.shape, -9999);
    for (Host<i32> &h : hosts)
      args.push_back(h.arg());
    Interpreted k(whole);
    INFO(k.messages << whole);
    REQUIRE(k.program);
    k.program->run(args);
    std::vector<i32> expected;
    for (std::size_t i = 0; i < m.value.size(); ++i)
      expected.push_back(m.exists(std::int64_t(i)) ? m.value[i] : -9999);
    CHECK(hosts.back().data == expected);
  }

private:
  std::mt19937 gen;
  int count = 0;
  std::string arguments;
  std::vector<Shape> views;

  template <class F> static void join(Model &m, const Model &other, F f) {
    for (std::size_t i = 0; i < m.value.size(); ++i) {
      m.value[i] = f(m.value[i], other.value[i]);
      m.kept[i] = m.kept[i] && other.kept[i];
    }
    for (std::size_t d = 0; d < m.shape.size(); ++d)
      for (std::size_t c = 0; c < m.axis[d].size(); ++c)
        m.axis[d][c] = m.axis[d][c] && other.axis[d][c];
  }
};

} // namespace

TEST_CASE("random chains of ops keep track of the lanes that exist", "[interp]") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Chain chain(seed);
    Shape shape;
    for (int d = 1 + chain.below(3); d > 0; --d)
      shape.push_back(1 + chain.below(6));
    Model m(shape);
    std::string x = chain.load(shape, m);
    for (int n = 1 + chain.below(7); n > 0; --n)
      x = chain.step(x, m);
    INFO("seed " << seed);
    chain.check(x, m);
  }
}

TEST_CASE("lengths of 5 axes, and scalars from single lanes", "[interp]") {
  const std::string text =
      kernelText("%X: !tile.tensor<5, i16>, %Y: !tile.tensor<5, i16>, %S: !tile.tensor<1, i16>", R"(
    %zero = tile.constant 0 : index
    %x = tile.load %X[%zero, %zero, %zero, %zero, %zero] : !tile.tensor<5, i16> -> tensor<2x3x1x4x5xi16>
    %p = tile.permute %x [4, 0, 3, 1, 2] : tensor<2x3x1x4x5xi16> -> tensor<5x2x4x3x1xi16>
    tile.store %p, %Y[%zero, %zero, %zero, %zero, %zero] : tensor<5x2x4x3x1xi16>, !tile.tensor<5, i16>
    %f = tile.reshape %x : tensor<2x3x1x4x5xi16> -> tensor<120xi16>
    %s = tile.reduce sum %f, 0 : tensor<120xi16> -> tensor<1xi16>
    %r = tile.reshape %s : tensor<1xi16> -> i16
    %two = tile.constant 2 : i16
    %d = tile.binary mul %r, %two : i16
    %t = tile.splat %d : i16 -> tensor<3xi16>
    tile.store %t, %S[%zero] : tensor<3xi16>, !tile.tensor<1, i16>)");
  Host<i16> x({2, 3, 1, 4, 5}), y({5, 2, 4, 3, 1}), s({3});
  for (int i = 0; i < 120; ++i)
    x[std::size_t(i)] = i16(i * 7);
  interpret(text, x, y, s);
  for (std::int64_t lane = 0; lane < 120; ++lane) {
    Shape c = coordinates(lane, y.dims);
    CHECK(y[std::size_t(lane)] == x[std::size_t(laneOf({c[1], c[3], c[4], c[2], c[0]}, x.dims))]);
  }
  CHECK(s.data == std::vector<i16>(3, i16(119 * 120 / 2 * 7 * 2)));
}

TEST_CASE("a row whose lanes are all masked folds to the identity, a row past the end stays missing",
          "[interp]") {
  auto run = [](const std::string &kind, DType dtype, auto sample) {
    using T = decltype(sample);
    std::string t = typeName(dtype);
    bool position = kind == "argmax" || kind == "argmin";
    std::string out = position ? "index" : t;
    const std::string text = kernelText(
        fmt::format("%X: !tile.tensor<2, {0}>, %M: !tile.tensor<2, i1>, %Y: !tile.tensor<2, {1}>", t,
                    position ? "i64" : t),
        fmt::format(R"(
      %zero = tile.constant 0 : index
      %x = tile.load %X[%zero, %zero] : !tile.tensor<2, {0}> -> tensor<4x3x{0}>
      %m = tile.load %M[%zero, %zero] : !tile.tensor<2, i1> -> tensor<4x3xi1>
      %k = tile.keep %m, %x : tensor<4x3xi1>, tensor<4x3x{0}>
      %r = tile.reduce {1} %k, 1 : tensor<4x3x{0}> -> tensor<4x1x{2}>
      {3}
      tile.store %y, %Y[%zero, %zero] : tensor<4x1x{4}>, !tile.tensor<2, {4}>)",
                    t, kind, out,
                    position ? "%y = tile.cast %r : tensor<4x1xindex> -> tensor<4x1xi64>"
                             : fmt::format("%y = tile.reshape %r : tensor<4x1x{0}> -> tensor<4x1x{0}>", t),
                    position ? "i64" : t));
    Host<T> x({3, 3}, sample);
    Host<Truth> m({3, 3}, Truth{0});
    m[4].byte = 1; // only lane 1 of row 1 is kept
    if (position) {
      Host<i64> y({4, 1}, -5);
      interpret(text, x, m, y);
      return std::vector<double>{double(y[0]), double(y[1]), double(y[2]), double(y[3])};
    }
    Host<T> y({4, 1}, T(77));
    interpret(text, x, m, y);
    std::vector<double> r;
    for (T v : y.data)
      r.push_back(detail::FloatElement<T> ? detail::cast<double>(v) : detail::cast<double>(v));
    return r;
  };
  using V = std::vector<double>;
  const double inf = INFINITY;
  CHECK(run("sum", DType::f32, 3.0f) == V{0, 3, 0, 77});
  CHECK(run("prod", DType::f32, 3.0f) == V{1, 3, 1, 77});
  CHECK(run("max", DType::f32, 3.0f) == V{-inf, 3, -inf, 77});
  CHECK(run("min", DType::f32, 3.0f) == V{inf, 3, inf, 77});
  CHECK(run("maxnum", DType::f32, 3.0f) == V{-inf, 3, -inf, 77});
  CHECK(run("minnum", DType::f64, 3.0) == V{inf, 3, inf, 77});
  CHECK(run("argmax", DType::f32, 3.0f) == V{0, 1, 0, -5});
  CHECK(run("argmin", DType::i8, i8(3)) == V{0, 1, 0, -5});
  CHECK(run("max", DType::f16, f16(3.0f)) == V{-inf, 3, -inf, 77});
  CHECK(run("max", DType::bf16, bf16(3.0f)) == V{-inf, 3, -inf, 77});
  CHECK(run("max", DType::e5m2, e5m2(3.0f)) == V{-inf, 3, -inf, 80});
  CHECK(run("min", DType::e4m3, e4m3(3.0f)) == V{448, 3, 448, 80}); // e4m3 has no infinity
  CHECK(run("max", DType::i8, i8(3)) == V{-128, 3, -128, 77});
  CHECK(run("min", DType::i64, i64(3)) == V{9223372036854775807.0, 3, 9223372036854775807.0, 77});
  CHECK(run("max", DType::u16, u16(3)) == V{0, 3, 0, 77});
  CHECK(run("min", DType::u32, u32(3)) == V{4294967295.0, 3, 4294967295.0, 77});
}

namespace {

template <class T> void checkFolds() {
  const DType dtype = dtypeOf<T>;
  std::string t = typeName(dtype);
  std::mt19937 gen(11);
  for (Shape shape : {Shape{1, 1, 1}, {3, 17, 1}, {2, 40, 5}, {5, 1, 7}, {2, 33, 300}, {1, 1000, 1}}) {
    // Sums of small whole numbers are exact in every order and on every type wide enough.
    Host<T> x(shape);
    for (T &v : x.data)
      v = detail::cast<T>(i32(gen() % 3) - (isUnsignedInt(dtype) ? 0 : 1));
    for (std::string kind : {"sum", "max", "min", "argmax", "argmin"}) {
      bool position = kind[0] == 'a';
      std::string out = position ? "i64" : t;
      Shape r{shape[0], 1, shape[2]};
      const std::string text = kernelText(
          fmt::format("%X: !tile.tensor<3, {}>, %Y: !tile.tensor<3, {}>", t, out),
          fmt::format("%zero = tile.constant 0 : index\n%x = tile.load %X[%zero, %zero, %zero] : "
                      "!tile.tensor<3, {0}> -> {1}\n"
                      "%r = tile.reduce {2} %x, 1 : {1} -> {3}\n%y = tile.cast %r : {3} -> {4}\n"
                      "tile.store %y, %Y[%zero, %zero, %zero] : {4}, !tile.tensor<3, {5}>",
                      t, tile(shape, t), kind, tile(r, position ? "index" : t), tile(r, out), out));
      auto check = [&](auto y) {
        interpret(text, x, y);
        bool same = true;
        for (std::int64_t o = 0; o < shape[0]; ++o)
          for (std::int64_t i = 0; i < shape[2]; ++i) {
            double sum = 0, most = -1e9, least = 1e9;
            std::int64_t mostAt = 0, leastAt = 0;
            for (std::int64_t l = 0; l < shape[1]; ++l) {
              double v = detail::cast<double>(x[std::size_t((o * shape[1] + l) * shape[2] + i)]);
              sum += v;
              if (v > most)
                most = v, mostAt = l;
              if (v < least)
                least = v, leastAt = l;
            }
            double expected = kind == "sum"      ? detail::cast<double>(detail::cast<T>(sum))
                              : kind == "max"    ? most
                              : kind == "min"    ? least
                              : kind == "argmax" ? double(mostAt)
                                                 : double(leastAt);
            if (kind == "sum" && isInt(dtype)) // wraps
              expected = detail::cast<double>(detail::cast<T>(i64(sum)));
            same &= detail::cast<double>(y[std::size_t(o * shape[2] + i)]) == expected;
          }
        INFO(t << " " << kind << " " << tile(shape, t));
        CHECK(same);
      };
      if (position)
        check(Host<i64>(r));
      else
        check(Host<T>(r));
    }
  }
}

} // namespace

TEST_CASE("folds on every type and shape", "[interp]") {
  for (int d = 0; d < numDTypes; ++d)
    detail::visitDType(DType(d), []<class T>(std::type_identity<T>) {
      if constexpr (!std::same_as<T, bool>)
        checkFolds<T>();
    });
}

TEST_CASE("sums keep the order that is documented", "[interp]") {
  // 16 partial results, then pairs at distance 8, 4, 2, 1.
  const std::int64_t n = 1003;
  Host<f32> x({n}), y({1});
  std::mt19937 gen(12);
  for (f32 &v : x.data)
    v = std::ldexp(float(gen()), -20 - int(gen() % 20));
  interpret(kernelText("%X: !tile.tensor<1, f32>, %Y: !tile.tensor<1, f32>", R"(
    %zero = tile.constant 0 : index
    %x = tile.load %X[%zero] : !tile.tensor<1, f32> -> tensor<1024xf32>
    %y = tile.reduce sum %x, 0 : tensor<1024xf32> -> tensor<1xf32>
    tile.store %y, %Y[%zero] : tensor<1xf32>, !tile.tensor<1, f32>)"),
            x, y);
  float part[16] = {};
  for (std::int64_t i = 0; i < n; ++i)
    part[i % 16] += x[std::size_t(i)];
  for (int step = 8; step > 0; step /= 2)
    for (int p = 0; p < step; ++p)
      part[p] += part[p + step];
  CHECK(y[0] == part[0]);
}

namespace {

/// mma with views shorter than the tiles, masks on both sides, NaN or extremes in every lane that must not
/// count.
template <class In, class Acc, class Out> void checkMma(bool maskA, bool maskB) {
  std::string in = typeName(dtypeOf<In>), out = typeName(dtypeOf<Out>);
  const std::int64_t M = 13, N = 37, K = 21, m = 11, n = 34, k = 19;
  std::string keepA = maskA ? "%a = tile.keep %ma, %la : tensor<13x21xi1>, " + tile({M, K}, in)
                            : "%a = tile.reshape %la : " + tile({M, K}, in) + " -> " + tile({M, K}, in);
  std::string keepB = maskB ? "%b = tile.keep %mb, %lb : tensor<21x37xi1>, " + tile({K, N}, in)
                            : "%b = tile.reshape %lb : " + tile({K, N}, in) + " -> " + tile({K, N}, in);
  const std::string text =
      kernelText(fmt::format("%A: !tile.tensor<2, {0}>, %B: !tile.tensor<2, {0}>, %MA: !tile.tensor<2, i1>, "
                             "%MB: !tile.tensor<2, i1>, %C: "
                             "!tile.tensor<2, {1}>",
                             in, out),
                 fmt::format(R"(
    %zero = tile.constant 0 : index
    %la = tile.load %A[%zero, %zero] : !tile.tensor<2, {0}> -> tensor<13x21x{0}>
    %lb = tile.load %B[%zero, %zero] : !tile.tensor<2, {0}> -> tensor<21x37x{0}>
    %ma = tile.load %MA[%zero, %zero] : !tile.tensor<2, i1> -> tensor<13x21xi1>
    %mb = tile.load %MB[%zero, %zero] : !tile.tensor<2, i1> -> tensor<21x37xi1>
    {2}
    {3}
    %acc = tile.load %C[%zero, %zero] : !tile.tensor<2, {1}> -> tensor<13x37x{1}>
    %full = tile.constant {4} : {1}
    %start = tile.fill %acc, %full : tensor<13x37x{1}>, {1}
    %c = tile.mma exact %a, %b, %start : tensor<13x21x{0}>, tensor<21x37x{0}>, tensor<13x37x{1}>
    tile.store %c, %C[%zero, %zero] : tensor<13x37x{1}>, !tile.tensor<2, {1}>)",
                             in, out, keepA, keepB, isFloat(dtypeOf<Out>) ? "0.0" : "0"));
  std::mt19937 gen(13);
  auto poison = [] {
    if constexpr (detail::FloatElement<In>)
      return detail::quietNan<In>();
    else
      return std::numeric_limits<In>::max();
  };
  Host<In> a({m, k}), b({k, n});
  Host<Truth> ma({M, K}, Truth{1}), mb({K, N}, Truth{1});
  Host<Out> c({M, N});
  for (Out &v : c.data)
    v = detail::cast<Out>(i32(gen() % 9) - 4);
  auto fill = [&](Host<In> &x, Host<Truth> &mask, bool masked) {
    for (std::int64_t r = 0; r < x.dims[0]; ++r)
      for (std::int64_t i = 0; i < x.dims[1]; ++i) {
        In &v = x[std::size_t(r * x.dims[1] + i)];
        v = detail::cast<In>(float(i32(gen() % 17) - 8) / (detail::FloatElement<In> ? 4 : 1));
        if (masked && gen() % 3 == 0) {
          mask[std::size_t(r * mask.dims[1] + i)].byte = 0;
          v = poison();
        }
      }
  };
  fill(a, ma, maskA);
  fill(b, mb, maskB);
  std::vector<Out> expected = c.data;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      Acc sum = detail::cast<Acc>(c[std::size_t(i * N + j)]);
      for (std::int64_t l = 0; l < k; ++l)
        if (ma[std::size_t(i * K + l)].byte && mb[std::size_t(l * N + j)].byte) {
          Acc x = detail::cast<Acc>(a[std::size_t(i * k + l)]),
              y = detail::cast<Acc>(b[std::size_t(l * n + j)]);
          if constexpr (std::is_floating_point_v<Acc>)
            sum = std::fma(x, y, sum);
          else
            sum = detail::addInt(sum, detail::mulInt(x, y));
        }
      expected[std::size_t(i * N + j)] = detail::cast<Out>(sum);
    }
  interpret(text, a, b, ma, mb, c);
  INFO(in << " " << out << " " << maskA << maskB);
  bool same = true;
  for (std::size_t i = 0; i < expected.size(); ++i)
    same &= std::memcmp(&c[i], &expected[i], sizeof(Out)) == 0;
  CHECK(same);
}

template <class In, class Acc, class Out> void checkMmaMasks() {
  for (int masks = 0; masks < 4; ++masks)
    checkMma<In, Acc, Out>(masks & 1, masks & 2);
}

} // namespace

TEST_CASE("matrix products on every type, with tails and masks", "[interp]") {
  checkMmaMasks<f32, float, f32>();
  checkMmaMasks<f16, float, f32>();
  checkMmaMasks<f16, float, f16>();
  checkMmaMasks<bf16, float, f32>();
  checkMmaMasks<e4m3, float, f32>();
  checkMmaMasks<e5m2, float, f32>();
  checkMmaMasks<f64, double, f64>();
  checkMmaMasks<i8, i32, i32>();
  checkMmaMasks<u8, i32, i32>();
}

TEST_CASE("a product without K lanes leaves acc, even its minus zero", "[interp]") {
  const std::string text = kernelText("%A: !tile.tensor<2, f32>, %C: !tile.tensor<2, f32>", R"(
    %zero = tile.constant 0 : index
    %a = tile.load %A[%zero, %zero] : !tile.tensor<2, f32> -> tensor<4x8xf32>
    %b = tile.constant dense<1.0> : tensor<8x4xf32>
    %acc = tile.constant dense<-0.0> : tensor<4x4xf32>
    %c = tile.mma exact %a, %b, %acc : tensor<4x8xf32>, tensor<8x4xf32>, tensor<4x4xf32>
    tile.store %c, %C[%zero, %zero] : tensor<4x4xf32>, !tile.tensor<2, f32>)");
  Host<f32> a({3, 0}), c({4, 4}, 7.0f);
  interpret(text, a, c);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(c[i] == (i < 12 ? 0.0f : 7.0f)); // row 3 of a does not exist
    CHECK(std::signbit(c[i]) == (i < 12));
  }
}
