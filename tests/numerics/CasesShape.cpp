// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Cases.h"

#include <fmt/format.h>

namespace sectile::numerics {

static std::vector<int> zeros(Kernel &k, std::size_t n) {
  int zero = k.index(0);
  return std::vector<int>(n, zero);
}

void addReductions(Cases &cases) {
  struct Form {
    Shape tile, dims; ///< dims shorter than the tile along an axis: missing lanes
    std::int64_t axis;
    bool masked;
    Fill fill;
  };
  const std::vector<Form> forms = {
      {{128}, {128}, 0, false, Fill::normal},        {{33}, {20}, 0, false, Fill::small},
      {{16, 64}, {16, 64}, 1, false, Fill::normal},  {{64, 16}, {64, 16}, 0, false, Fill::normal},
      {{24, 40}, {19, 37}, 1, false, Fill::special}, {{24, 40}, {19, 37}, 0, false, Fill::wide},
      {{7, 100}, {7, 99}, 1, true, Fill::small},     {{48, 12}, {41, 12}, 0, true, Fill::normal},
      {{4, 6, 32}, {4, 5, 31}, 1, true, Fill::unit}, {{1, 512}, {1, 300}, 1, false, Fill::normal},
      {{8, 256}, {8, 256}, 1, true, Fill::special},
  };
  for (const std::string &kind : reduceKinds)
    for (DType t : allTypes()) {
      if (!reduceTakes(kind, t))
        continue;
      for (const Form &f : forms) {
        DType result = kind.substr(0, 3) == "arg" ? DType::index : t;
        std::string name =
            fmt::format("reduce {} {} {} axis {}{}{} {}", kind, sectile::name(t), shapeText(f.tile), f.axis,
                        f.dims == f.tile ? "" : " tail", f.masked ? " masked" : "", fillName(f.fill));
        cases.add(name, countOf(f.tile), [=] {
          Kernel k;
          int in = k.input(t, f.dims, f.fill),
              mask = f.masked ? k.input(DType::boolean, f.tile, Fill::normal) : -1;
          Shape shape = f.tile;
          shape[std::size_t(f.axis)] = 1;
          int out = k.output(result, shape);
          auto at = zeros(k, f.tile.size());
          int x = k.load(in, at, f.tile);
          if (f.masked)
            x = k.keep(k.load(mask, at, f.tile), x);
          k.store(k.reduce(kind, x, f.axis), out, at);
          return k;
        });
      }
      // No lane at all: the identity.
      cases.add(fmt::format("reduce {} {} [32] none", kind, name(t)), 32, [=] {
        Kernel k;
        int in = k.input(t, {32}, Fill::normal),
            out = k.output(kind.substr(0, 3) == "arg" ? DType::index : t, {1});
        int x = k.load(in, {k.index(100)}, {32});
        k.store(k.reduce(kind, x, 0), out, {k.index(0)});
        return k;
      });
    }
}

namespace {

/// out[..] = f(load), everything in one program; `dims` may be shorter than the tile.
Kernel transform(DType t, const Shape &dims, const Shape &tile, const std::function<int(Kernel &, int)> &f,
                 DType result) {
  Kernel k;
  int in = k.input(t, dims, Fill::special);
  // The result's shape is known after the op is built, the argument before it: build twice.
  Kernel probe;
  int v = probe.input(t, dims, Fill::special);
  int r = f(probe, probe.load(v, zeros(probe, tile.size()), tile));
  Shape shape = probe.shape(r);
  int out = k.output(result, shape.empty() ? Shape{1} : shape);
  int y = f(k, k.load(in, zeros(k, tile.size()), tile));
  if (shape.empty())
    y = k.reshape(y, {1});
  k.store(y, out, zeros(k, std::max<std::size_t>(shape.size(), 1)));
  return k;
}

} // namespace

void addShapes(Cases &cases) {
  struct Pair {
    Shape from, to;
  };
  const std::vector<Pair> broadcasts = {{{1}, {64}},
                                        {{1, 32}, {16, 32}},
                                        {{16, 1}, {16, 48}},
                                        {{1, 1}, {8, 128}},
                                        {{4, 1, 8}, {4, 6, 8}},
                                        {{1, 3, 1, 5}, {2, 3, 4, 5}},
                                        {{2, 1, 2, 1, 8}, {2, 3, 2, 4, 8}}};
  const std::vector<Pair> reshapes = {
      {{64}, {64, 1}},          {{64}, {8, 8}},     {{8, 16}, {128}},
      {{12, 10}, {5, 24}},      {{1, 48}, {48}},    {{2, 3, 4}, {24}},
      {{6, 20}, {1, 6, 20, 1}}, {{1, 1}, {}},       {{2, 4, 2, 4, 2}, {8, 16}},
      {{32, 32}, {16, 64}},     {{3, 1, 7}, {3, 7}}};
  struct Order {
    Shape from;
    std::vector<std::int64_t> perm;
  };
  const std::vector<Order> permutes = {{{32, 16}, {1, 0}},
                                       {{5, 7}, {1, 0}},
                                       {{64, 64}, {1, 0}},
                                       {{4, 8, 16}, {2, 0, 1}},
                                       {{3, 5, 6}, {0, 2, 1}},
                                       {{2, 3, 4, 5}, {3, 1, 0, 2}},
                                       {{2, 3, 2, 4, 3}, {4, 2, 0, 3, 1}},
                                       {{128, 8}, {1, 0}}};
  for (DType t : allTypes())
    for (bool tail : {false, true}) {
      auto cut = [tail](Shape s) {
        if (tail)
          for (auto &d : s)
            d -= d > 2;
        return s;
      };
      const char *suffix = tail ? " tail" : "";
      for (const Pair &p : broadcasts)
        cases.add(fmt::format("broadcast {} {} to {}{}", name(t), shapeText(p.from), shapeText(p.to), suffix),
                  countOf(p.to), [=] {
                    return transform(
                        t, cut(p.from), p.from, [&](Kernel &k, int x) { return k.broadcast(x, p.to); }, t);
                  });
      for (const Pair &p : reshapes)
        cases.add(fmt::format("reshape {} {} to {}{}", name(t), shapeText(p.from), shapeText(p.to), suffix),
                  countOf(p.from), [=] {
                    return transform(
                        t, cut(p.from), p.from, [&](Kernel &k, int x) { return k.reshape(x, p.to); }, t);
                  });
      for (const Order &o : permutes)
        cases.add(fmt::format("permute {} {} by {}{}", name(t), shapeText(o.from), shapeText(o.perm), suffix),
                  countOf(o.from), [=] {
                    return transform(
                        t, cut(o.from), o.from, [&](Kernel &k, int x) { return k.permute(x, o.perm); }, t);
                  });
    }
  const std::vector<Shape> shapes = {{1}, {100}, {6, 32}, {3, 4, 5}, {2, 3, 2, 8}, {2, 1, 3, 2, 4}};
  for (const Shape &s : shapes) {
    for (std::int64_t axis = 0; axis < std::int64_t(s.size()); ++axis)
      cases.add(fmt::format("iota {} axis {}", shapeText(s), axis), countOf(s), [=] {
        Kernel k;
        int out = k.output(DType::index, s), zero = k.index(0);
        k.store(k.iota(axis, s), out, std::vector<int>(s.size(), zero));
        return k;
      });
    for (DType t : allTypes()) {
      cases.add(fmt::format("splat {} {}", name(t), shapeText(s)), countOf(s), [=] {
        Kernel k;
        std::mt19937_64 random(11);
        int x = k.scalar(t, sample(t, Fill::special, random, 1 << 20)), out = k.output(t, s);
        k.store(k.splat(x, s), out, zeros(k, s.size()));
        return k;
      });
      cases.add(fmt::format("constant {} {}", name(t), shapeText(s)), countOf(s), [=] {
        Kernel k;
        std::mt19937_64 random(13);
        int out = k.output(t, s);
        k.store(k.constant(t, s, sample(t, Fill::special, random, 1 << 20)), out, zeros(k, s.size()));
        return k;
      });
    }
  }
}

} // namespace sectile::numerics
