// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Cases.h"

namespace sectile::numerics {
namespace {

using Values = Kernel::Values;

/// Makes one random kernel. All choices come from the seed, so that a second run with the outputs declared
/// makes the same ops.
class Generator {
public:
  Generator(std::uint64_t seed, const std::vector<DType> &outputTypes)
      : random(seed), outputTypes(outputTypes) {}

  Kernel kernel;
  std::vector<DType> stored; ///< types of the stored values

  void run() {
    static const Shape rows = {1, 2, 4, 8, 16, 32, 6, 12, 24}, columns = {1, 4, 8, 16, 32, 64, 20, 40};
    tile = {any(rows), any(columns)};
    Shape outDims{1 + pick(3 * int(tile[0])), 1 + pick(2 * int(tile[1]) + 3)};
    int inputs = 2 + pick(3);
    for (int i = 0; i < inputs; ++i) {
      DType t = anyType();
      Fill f = pick(10) < 7 ? Fill::small : pick(2) ? Fill::special : Fill::unit;
      Shape dims{1 + pick(50), 1 + pick(70)};
      Layout layout;
      switch (pick(5)) {
      case 0:
        layout.strides = {dims[1] + pick(5), 1};
        break;
      case 1:
        layout.strides = {1, dims[0]};
        break;
      case 2:
        layout.strides = {-dims[1], 1};
        break;
      default:
        break;
      }
      if (pick(3) == 0)
        layout.misalign = int(byteSize(t)) * pick(8);
      views.push_back(kernel.input(t, dims, f, layout));
    }
    mmaA = kernel.input(any(mmaTypes), {40, 64}, Fill::small);
    mmaB = kernel.input(kernel.dtype(mmaA), {64, 70}, Fill::small);
    int trips = kernel.scalar(DType::index, std::uint64_t(pick(4)));
    bool wide = pick(3) == 0;
    std::vector<int> outs;
    for (DType t : outputTypes)
      outs.push_back(kernel.output(t, outDims, wide ? Layout{{outDims[1] + 3, 1}, 0} : Layout{}));
    if (outs.empty()) // to find out what is stored
      outs.push_back(kernel.output(DType::f32, outDims));
    at = kernel.grid(outs[0], tile);
    indices = {at[0], at[1], kernel.index(0), kernel.index(3), kernel.index(-2)};
    indices.push_back(kernel.binary("add", at[0], indices[4]));
    tripCount = trips;
    load();
    for (int n = 3 + pick(10); n > 0; --n)
      step();
    for (int n = 1 + pick(2); n > 0; --n) {
      int v = pool[pool.size() - 1 - std::size_t(pick(std::min<int>(3, int(pool.size()))))];
      if (stored.size() < outputTypes.size())
        kernel.store(v, outs[stored.size()], at);
      stored.push_back(kernel.dtype(v));
    }
  }

private:
  static inline const std::vector<DType> mmaTypes = {DType::f16,  DType::bf16, DType::f32, DType::f64,
                                                     DType::e4m3, DType::e5m2, DType::i8,  DType::u8};

  int pick(int n) { return int(random() % std::uint64_t(n)); }
  template <class T> const T &any(const std::vector<T> &v) { return v[std::size_t(pick(int(v.size())))]; }
  DType anyType() { return allTypes()[std::size_t(pick(numDTypes))]; }
  int index() { return any(indices); }
  int keepIn(int v) {
    if (kernel.shape(v) == tile)
      pool.push_back(v);
    return v;
  }
  int load() {
    int view = any(views);
    int row = index(), column = index();
    return keepIn(kernel.load(view, {row, column}, tile));
  }
  /// A value of the tile's shape; of this type, if one is given.
  int old() { return pool.empty() || pick(8) == 0 ? load() : any(pool); }
  int old(DType t) {
    std::vector<int> fitting;
    for (int v : pool)
      if (kernel.dtype(v) == t)
        fitting.push_back(v);
    if (!fitting.empty() && pick(6))
      return any(fitting);
    if (isBool(t)) {
      int x = old(), y = old(kernel.dtype(x));
      return keepIn(kernel.compare(any(predicates), x, y));
    }
    if (pick(3) == 0)
      return keepIn(kernel.constant(t, tile, sample(t, Fill::small, random, 0)));
    return keepIn(kernel.cast(old(), t));
  }

  void step() {
    int x = old();
    DType t = kernel.dtype(x);
    switch (pick(17)) {
    case 0:
    case 1:
    case 2: {
      std::vector<std::string> fns;
      for (const auto &fn : binaryFunctions)
        if (binaryTakes(fn, t) && fn != "pow")
          fns.push_back(fn);
      keepIn(kernel.binary(any(fns), x, old(t)));
      return;
    }
    case 3: {
      std::vector<std::string> fns;
      for (const auto &fn : unaryFunctions)
        if (unaryTakes(fn, t))
          fns.push_back(fn);
      if (!fns.empty())
        keepIn(kernel.unary(any(fns), x));
      return;
    }
    case 4:
      keepIn(kernel.compare(any(predicates), x, old(t)));
      return;
    case 5: {
      int c = old(DType::boolean);
      keepIn(kernel.select(c, x, old(t)));
      return;
    }
    case 6:
      keepIn(kernel.cast(x, anyType()));
      return;
    case 7: {
      int m = old(DType::boolean);
      keepIn(kernel.keep(m, x));
      return;
    }
    case 8:
      keepIn(kernel.fill(x, kernel.constant(t, {}, sample(t, Fill::small, random, 0))));
      return;
    case 9:
    case 10: {
      std::vector<std::string> kinds;
      for (const auto &kind : reduceKinds)
        if (reduceTakes(kind, t))
          kinds.push_back(kind);
      int r = kernel.reduce(any(kinds), x, pick(2));
      if (pick(4) == 0)
        r = kernel.reduce(isBool(kernel.dtype(r)) ? "any" : "max", r, pick(2));
      keepIn(kernel.broadcast(r, tile));
      return;
    }
    case 11: { // through the other order of axes
      int y = kernel.permute(x, {1, 0});
      if (pick(2) && !isBool(t))
        y = kernel.binary("max", y, y);
      if (pick(2))
        y = kernel.reshape(kernel.reshape(y, {tile[0] * tile[1]}), {tile[1], tile[0]});
      keepIn(kernel.permute(y, {1, 0}));
      return;
    }
    case 12: { // through another shape
      Shape shape = pick(2) ? Shape{tile[0] * tile[1]} : Shape{1, tile[0], 1, tile[1]};
      int y = kernel.reshape(x, shape);
      if (pick(2) && !isBool(t))
        y = kernel.binary("min", y, y);
      keepIn(kernel.reshape(y, tile));
      return;
    }
    case 13:
      product();
      return;
    case 14: { // gather
      int view = any(views);
      int i = kernel.iota(pick(2), tile), s = kernel.splat(index(), tile);
      i = kernel.binary("add", i, s);
      keepIn(kernel.gather(view, {index(), i}));
      return;
    }
    case 15:
      control(x);
      return;
    default:
      load();
    }
  }

  void product() {
    DType t = kernel.dtype(mmaA), acc = t == DType::f64              ? DType::f64
                                        : isInt(t)                   ? DType::i32
                                        : t == DType::f16 && pick(2) ? DType::f16
                                                                     : DType::f32;
    static const Shape lengths = {8, 16, 32, 48, 20};
    std::int64_t K = any(lengths);
    int a = kernel.load(mmaA, {index(), kernel.index(pick(40))}, {tile[0], K}),
        b = kernel.load(mmaB, {kernel.index(pick(40)), index()}, {K, tile[1]});
    if (pick(4) == 0) {
      int i = kernel.iota(1, {tile[0], K});
      a = kernel.keep(
          kernel.compare("ne", i, kernel.constant(DType::index, {tile[0], K}, std::uint64_t(pick(int(K))))),
          a);
    }
    keepIn(kernel.mma(a, b, old(acc), t == DType::f32 && pick(2) ? "tf32" : "exact"));
  }

  /// Body of a region: a few steps, then values of the carried types.
  Values body(const Values &start) {
    for (int v : start)
      pool.push_back(v);
    for (int n = 1 + pick(3); n > 0; --n)
      step();
    Values next;
    for (int v : start) {
      DType t = kernel.dtype(v);
      int x = old(t);
      next.push_back(pick(2) && !isBool(t) ? kernel.binary(pick(2) ? "max" : "add", x, v) : x);
    }
    return next;
  }

  void control(int x) {
    if (depth >= 2)
      return;
    ++depth;
    Values carried{x};
    if (pick(2))
      carried.push_back(old());
    auto savedPool = pool;
    auto savedIndices = indices;
    Values results;
    if (pick(2)) {
      int zero = kernel.index(0), count = pick(3) ? tripCount : kernel.index(pick(3)),
          stepBy = kernel.index(1 + pick(2));
      results = kernel.loop(zero, count, stepBy, carried, [&](int i, const Values &v) {
        indices.push_back(i);
        return body(v);
      });
    } else {
      int condition = kernel.compare(any(predicates), index(), index());
      results = kernel.branch(
          condition, [&] { return body(carried); },
          [&] {
            pool = savedPool;
            return body(carried);
          });
    }
    pool = savedPool;
    indices = savedIndices;
    for (int v : results)
      keepIn(v);
    --depth;
  }

  std::mt19937_64 random;
  std::vector<DType> outputTypes;
  Shape tile;
  std::vector<int> views, at, indices, pool;
  int mmaA = -1, mmaB = -1, tripCount = -1, depth = 0;
};

} // namespace

Kernel randomKernel(std::uint64_t seed) {
  Generator probe(seed, {});
  probe.run();
  Generator real(seed, probe.stored);
  real.run();
  real.kernel.name = "random_" + std::to_string(seed);
  return std::move(real.kernel);
}

} // namespace sectile::numerics
