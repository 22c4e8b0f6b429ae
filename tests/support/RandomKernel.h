// SPDX-License-Identifier: Apache-2.0
/// \file Random kernels as text, for checking passes against the interpreter. All arithmetic is exact
/// (wrapping integers, chosen floats), so any order of evaluation gives the same bits.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace sectile::test {

/// A kernel of signature (X: i32 rank 2, Y: f32 rank 2, I: i8 rank 2, O: i32 rank 2, P: f32 rank 2): loads,
/// elementwise ops, masks, reductions, products, loops, branches and stores in random order.
class RandomKernel {
public:
  explicit RandomKernel(unsigned seed) : gen(seed) { build(); }
  std::string text;

private:
  using Shape = std::vector<std::int64_t>;
  struct Tile {
    std::string name;
    Shape shape;
    std::string element;
  };

  int pick(int n) { return int(gen() % unsigned(n)); }
  template <class T> const T &any(const std::vector<T> &v) { return v[std::size_t(pick(int(v.size())))]; }
  std::string fresh() { return "%v" + std::to_string(counter++); }
  static std::string type(const Shape &shape, const std::string &element) {
    std::string s = "tensor<";
    for (auto n : shape)
      s += std::to_string(n) + "x";
    return s + element + ">";
  }
  static std::string type(const Tile &t) { return type(t.shape, t.element); }
  void line(const std::string &s) { text += std::string(std::size_t(2 * depth), ' ') + s + "\n"; }
  /// Emits `name = body` and remembers the tile.
  Tile emit(const Shape &shape, const std::string &element, const std::string &body) {
    Tile t{fresh(), shape, element};
    line(t.name + " = " + body);
    pool.push_back(t);
    return t;
  }

  std::string index() { return any(indices); }
  Shape shape() {
    static const std::vector<std::int64_t> lengths = {1, 2, 3, 4, 6, 8, 12, 16, 24, 40};
    return {any(lengths), any(lengths)};
  }
  Tile load(const Shape &shape, const std::string &element) {
    if (shape.size() != 2) {
      std::int64_t count = 1;
      for (auto n : shape)
        count *= n;
      Tile flat = load({1, count}, element);
      return emit(shape, element,
                  "tile.reshape " + flat.name + " : " + type(flat) + " -> " + type(shape, element));
    }
    std::string tensor = element == "i32" ? "%X" : element == "f32" ? "%Y" : "%I";
    return emit(shape, element,
                "tile.load " + tensor + "[" + index() + ", " + index() + "] : !tile.tensor<2, " + element +
                    "> -> " + type(shape, element));
  }
  Tile constant(const Shape &shape, const std::string &element, const std::string &value) {
    return emit(shape, element, "tile.constant dense<" + value + "> : " + type(shape, element));
  }
  /// Some tile of this shape and type: an old one, or a new one.
  Tile some(const Shape &shape, const std::string &element) {
    std::vector<Tile> fitting;
    for (const Tile &t : pool)
      if (t.shape == shape && t.element == element)
        fitting.push_back(t);
    if (!fitting.empty() && pick(4) != 0)
      return any(fitting);
    if (element == "i1") {
      Tile a = some(shape, "i32"), b = some(shape, "i32");
      return emit(shape, "i1",
                  "tile.compare lt " + a.name + ", " + b.name + " : " + type(a) + " -> " + type(shape, "i1"));
    }
    if (pick(4) == 0 && element != "i8")
      return constant(shape, element, element == "i32" ? "3" : "2.0");
    return load(shape, element);
  }
  /// An existing number tile of rank 2 at least.
  Tile old() {
    std::vector<Tile> numbers;
    for (const Tile &t : pool)
      if (t.element == "i32" || t.element == "f32")
        numbers.push_back(t);
    if (numbers.empty() || pick(6) == 0)
      return load(shape(), pick(2) ? "i32" : "f32");
    return any(numbers);
  }

  void store(const Tile &t) {
    if (t.shape.size() != 2)
      return;
    std::string tensor = t.element == "i32" ? "%O" : "%P";
    line("tile.store " + t.name + ", " + tensor + "[" + index() + ", " + index() + "] : " + type(t) +
         ", !tile.tensor<2, " + t.element + ">");
  }

  void step() {
    Tile x = old();
    bool isFloat = x.element == "f32";
    switch (pick(15)) {
    case 0:
    case 1: {
      Tile y = some(x.shape, x.element);
      static const std::vector<std::string> ints = {"add", "sub",    "mul", "max",
                                                    "min", "bitxor", "shr", "div"};
      static const std::vector<std::string> floats = {"max", "min", "maxnum", "minnum"};
      emit(x.shape, x.element,
           "tile.binary " + any(isFloat ? floats : ints) + " " + x.name + ", " + y.name + " : " + type(x));
      return;
    }
    case 2: {
      Tile y = some(x.shape, x.element);
      emit(x.shape, "i1",
           "tile.compare " + any<std::string>({"lt", "ge", "eq"}) + " " + x.name + ", " + y.name + " : " +
               type(x) + " -> " + type(x.shape, "i1"));
      return;
    }
    case 3: {
      Tile m = some(x.shape, "i1"), y = some(x.shape, x.element);
      emit(x.shape, x.element,
           "tile.select " + m.name + ", " + x.name + ", " + y.name + " : " + type(m) + ", " + type(x));
      return;
    }
    case 4:
    case 5: {
      Tile m = some(x.shape, "i1");
      emit(x.shape, x.element, "tile.keep " + m.name + ", " + x.name + " : " + type(m) + ", " + type(x));
      return;
    }
    case 6: {
      std::string value = fresh();
      line(value + " = tile.constant " + (isFloat ? "7.0 : f32" : "7 : i32"));
      emit(x.shape, x.element, "tile.fill " + x.name + ", " + value + " : " + type(x) + ", " + x.element);
      return;
    }
    case 7:
    case 8: {
      std::size_t axis = std::size_t(pick(int(x.shape.size())));
      static const std::vector<std::string> ints = {"sum", "prod", "max", "min", "argmax", "argmin"};
      static const std::vector<std::string> floats = {"max", "min", "maxnum", "minnum", "argmax", "argmin"};
      std::string kind = any(isFloat ? floats : ints);
      Shape shape = x.shape;
      shape[axis] = 1;
      bool isArg = kind[0] == 'a';
      std::string element = isArg ? "index" : x.element;
      Tile r = emit(shape, element,
                    "tile.reduce " + kind + " " + x.name + ", " + std::to_string(axis) + " : " + type(x) +
                        " -> " + type(shape, element));
      if (isArg) {
        r = emit(shape, "i32", "tile.cast " + r.name + " : " + type(r) + " -> " + type(shape, "i32"));
      }
      if (pick(3) != 0)
        emit(x.shape, r.element,
             "tile.broadcast " + r.name + " : " + type(r) + " -> " + type(x.shape, r.element));
      return;
    }
    case 9: {
      if (x.shape.size() != 2)
        return;
      Shape shape = {x.shape[1], x.shape[0]};
      emit(shape, x.element,
           "tile.permute " + x.name + " [1, 0] : " + type(x) + " -> " + type(shape, x.element));
      return;
    }
    case 10: {
      Shape shape;
      std::int64_t count = 1;
      for (auto n : x.shape)
        count *= n;
      switch (pick(4)) {
      case 0:
        shape = {count};
        break;
      case 1:
        shape = x.shape, shape.insert(shape.begin() + pick(int(shape.size()) + 1), 1);
        break;
      case 2:
        shape = {count, 1};
        break;
      default: {
        std::int64_t f = 1;
        for (std::int64_t d : {2, 3, 4, 6, 8})
          if (count % d == 0 && pick(2))
            f = d;
        shape = {f, count / f};
      }
      }
      if (shape.size() > 5)
        return;
      emit(shape, x.element, "tile.reshape " + x.name + " : " + type(x) + " -> " + type(shape, x.element));
      return;
    }
    case 11: {
      static const std::vector<std::int64_t> ms = {8, 16, 32}, ns = {8, 24}, ks = {8, 16, 40, 48};
      std::int64_t m = any(ms), n = any(ns), k = any(ks);
      Tile a = some({m, k}, "i8"), b = some({k, n}, "i8"), c = some({m, n}, "i32");
      if (pick(3) == 0) {
        Tile mask = some(a.shape, "i1");
        a = emit(a.shape, "i8",
                 "tile.keep " + mask.name + ", " + a.name + " : " + type(mask) + ", " + type(a));
      }
      emit({m, n}, "i32",
           "tile.mma exact " + a.name + ", " + b.name + ", " + c.name + " : " + type(a) + ", " + type(b) +
               ", " + type(c));
      return;
    }
    case 12: {
      Tile i =
          emit(x.shape, "index",
               "tile.iota " + std::to_string(pick(int(x.shape.size()))) + " : " + type(x.shape, "index"));
      std::string s = fresh();
      line(s + " = tile.splat " + index() + " : index -> " + type(i));
      i = emit(i.shape, "index", "tile.binary add " + i.name + ", " + s + " : " + type(i));
      emit(x.shape, "i32",
           "tile.gather %X[" + index() + ", " + i.name + "] : !tile.tensor<2, i32>, (index, " + type(i) +
               ") -> " + type(x.shape, "i32"));
      return;
    }
    case 13:
      control(x);
      return;
    default:
      store(x);
      return;
    }
  }

  /// A loop or a branch that carries `x` and perhaps a second tile.
  void control(const Tile &x) {
    if (depth > 2)
      return;
    std::vector<Tile> carried{x};
    if (pick(2))
      carried.push_back(old());
    auto savedIndices = indices;
    std::string results = fresh(), types;
    for (const Tile &t : carried)
      types += (types.empty() ? "" : ", ") + type(t);
    auto body = [&](const std::vector<Tile> &start, const std::string &first = "",
                    const std::string &firstType = "") {
      auto savedPool = pool;
      ++depth;
      pool.insert(pool.end(), start.begin(), start.end());
      for (int i = 0, n = 1 + pick(3); i < n; ++i)
        step();
      std::string yield = "scf.yield " + first, yieldTypes = firstType;
      for (std::size_t i = 0; i < carried.size(); ++i) {
        Tile t = some(carried[i].shape, carried[i].element);
        if (pick(2) && carried[i].element == "i32")
          t = emit(t.shape, t.element, "tile.binary add " + t.name + ", " + start[i].name + " : " + type(t));
        yield += (i ? ", " : "") + t.name;
        yieldTypes += (i ? ", " : "") + type(t);
      }
      line(yield + " : " + yieldTypes);
      --depth;
      pool = savedPool;
    };
    std::string count = carried.size() > 1 ? ":2" : "";
    int kind = pick(5);
    if (kind == 0) {
      // A counted while loop; `before` hands its values on, once in a while changed.
      std::string args, names;
      std::vector<Tile> start, middle;
      for (const Tile &t : carried) {
        Tile a{fresh(), t.shape, t.element};
        args += ", " + a.name + " = " + t.name;
        names += ", " + a.name;
        start.push_back(a);
        middle.push_back({fresh(), t.shape, t.element});
      }
      std::string i = fresh(), j = fresh(), more = fresh();
      line(results + ":" + std::to_string(carried.size() + 1) + " = scf.while (" + i + " = %c0" + args +
           ") : (index, " + types + ") -> (index, " + types + ") {");
      line("  " + more + " = tile.compare lt " + i + ", %c16 : index -> i1");
      line("  scf.condition(" + more + ") " + i + names + " : index, " + types);
      line("} do {");
      std::string block = "^bb0(" + j + " : index";
      for (const Tile &t : middle)
        block += ", " + t.name + " : " + type(t);
      line(block + "):");
      indices.push_back(j);
      std::string next = fresh();
      line("  " + next + " = tile.binary add " + j + ", %c8 : index");
      body(middle, next + ", ", "index, ");
      line("}");
      indices = savedIndices;
      for (std::size_t k = 0; k < carried.size(); ++k)
        pool.push_back({results + "#" + std::to_string(k + 1), carried[k].shape, carried[k].element});
      return;
    }
    if (kind < 3) {
      std::string args;
      std::vector<Tile> start;
      for (const Tile &t : carried) {
        Tile a{fresh(), t.shape, t.element};
        args += (args.empty() ? "" : ", ") + a.name + " = " + t.name;
        start.push_back(a);
      }
      std::string iv = fresh();
      line(results + count + " = scf.for " + iv + " = %c0 to " + any<std::string>({"%dim", "%c8", "%c0"}) +
           " step %c8 iter_args(" + args + ") -> (" + types + ") {");
      indices.push_back(iv);
      body(start);
    } else {
      std::string c = fresh();
      line(c + " = tile.compare lt " + index() + ", %c8 : index -> i1");
      line(results + count + " = scf.if " + c + " -> (" + types + ") {");
      body(carried);
      line("} else {");
      body(carried);
    }
    line("}");
    indices = savedIndices;
    for (std::size_t i = 0; i < carried.size(); ++i)
      pool.push_back({results + (carried.size() > 1 ? "#" + std::to_string(i) : ""), carried[i].shape,
                      carried[i].element});
  }

  void build() {
    text = "func.func @k(%X: !tile.tensor<2, i32>, %Y: !tile.tensor<2, f32>, %I: !tile.tensor<2, i8>, "
           "%O: !tile.tensor<2, i32>, %P: !tile.tensor<2, f32>) attributes {tile.kernel} {\n";
    line("%g0, %g1 = tile.grid %O [8, 16] : !tile.tensor<2, i32> -> index, index");
    line("%c0 = tile.constant 0 : index");
    line("%c8 = tile.constant 8 : index");
    line("%c16 = tile.constant 16 : index");
    line("%cm = tile.constant -3 : index");
    line("%dim = tile.dim %X, 1 : !tile.tensor<2, i32>");
    line("%s0 = tile.binary add %g0, %cm : index");
    indices = {"%g0", "%g1", "%c0", "%c0", "%c8", "%cm", "%s0"};
    for (int i = 0, n = 4 + pick(10); i < n; ++i)
      step();
    for (int i = 0; i < 4; ++i)
      store(old());
    text += "  return\n}\n";
  }

  std::mt19937 gen;
  int counter = 0, depth = 1;
  std::vector<Tile> pool;
  std::vector<std::string> indices;
};

} // namespace sectile::test
