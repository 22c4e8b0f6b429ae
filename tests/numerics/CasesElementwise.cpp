// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Cases.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace sectile::numerics {

const std::vector<std::string> unaryFunctions = {
    "neg",  "abs", "exp",     "exp2",  "log",  "log2",  "sqrt",  "rsqrt",  "sin",   "cos",
    "tanh", "erf", "sigmoid", "floor", "ceil", "round", "trunc", "bitnot", "isnan", "isinf"};
const std::vector<std::string> binaryFunctions = {"add",      "sub",    "mul", "div",    "rem",    "floordiv",
                                                  "floormod", "max",    "min", "maxnum", "minnum", "bitand",
                                                  "bitor",    "bitxor", "shl", "shr",    "pow"};
const std::vector<std::string> predicates = {"eq", "ne", "lt", "le", "gt", "ge"};
const std::vector<std::string> reduceKinds = {"sum",    "prod", "max", "min",    "maxnum",
                                              "minnum", "any",  "all", "argmax", "argmin"};

static bool oneOf(const std::string &s, std::initializer_list<const char *> names) {
  return std::find(names.begin(), names.end(), s) != names.end();
}
static bool isNumber(DType t) { return isFloat(t) || isInt(t); }

bool unaryTakes(const std::string &fn, DType t) {
  if (oneOf(fn, {"neg", "abs"}))
    return isNumber(t);
  return fn == "bitnot" ? !isFloat(t) : isFloat(t);
}
bool binaryTakes(const std::string &fn, DType t) {
  if (oneOf(fn, {"max", "min"}))
    return true;
  if (oneOf(fn, {"floordiv", "floormod", "shl", "shr"}))
    return isInt(t);
  if (oneOf(fn, {"bitand", "bitor", "bitxor"}))
    return !isFloat(t);
  return fn == "pow" ? isFloat(t) : isNumber(t);
}
bool reduceTakes(const std::string &kind, DType t) {
  return oneOf(kind, {"any", "all"}) ? isBool(t) : isNumber(t);
}

std::string shapeText(const Shape &shape) { return fmt::format("[{}]", fmt::join(shape, "x")); }

void Cases::add(std::string name, std::int64_t work, std::function<Kernel()> make) {
  Case c;
  c.name = std::move(name);
  c.work = work;
  c.make = [make = std::move(make), text = c.name] {
    Kernel k = make();
    for (char ch : text)
      k.name += std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
    return k;
  };
  // Every few dozens are for every target.
  c.sample = list.size() % 37 == 5;
  list.push_back(std::move(c));
}

std::vector<Case> allCases() {
  Cases cases;
  addUnary(cases);
  addBinary(cases);
  addCompareSelectCast(cases);
  addReductions(cases);
  addShapes(cases);
  addMemory(cases);
  addMasks(cases);
  addMma(cases);
  addControl(cases);
  std::set<std::string> names;
  for (const Case &c : cases.list)
    if (!names.insert(c.name).second)
      throw std::logic_error("two cases are called " + c.name);
  std::stable_sort(cases.list.begin(), cases.list.end(),
                   [](const Case &a, const Case &b) { return a.work < b.work; });
  return std::move(cases.list);
}

namespace {

/// out = f(inputs) on a 1-d grid of tiles with a tail; every input is loaded whole or in part.
Kernel elementwise(const std::vector<DType> &inputs, DType result, Fill fill, std::int64_t tile,
                   std::int64_t length, const std::function<int(Kernel &, const std::vector<int> &)> &f) {
  Kernel k;
  std::vector<int> views;
  for (DType t : inputs)
    views.push_back(k.input(t, {length}, fill));
  int out = k.output(result, {length});
  auto at = k.grid(out, {tile});
  std::vector<int> loaded;
  for (int v : views)
    loaded.push_back(k.load(v, at, {tile}));
  k.store(f(k, loaded), out, at);
  return k;
}

/// The same on scalars.
Kernel scalars(const std::vector<DType> &inputs, DType result, Fill fill,
               const std::function<int(Kernel &, const std::vector<int> &)> &f) {
  Kernel k;
  std::mt19937_64 random(5);
  std::vector<int> in;
  for (DType t : inputs) {
    std::uint64_t bits = 0;
    for (int n = 0; n < 3; ++n)
      bits = sample(t, fill, random, 1000);
    in.push_back(k.scalar(t, bits));
  }
  int out = k.output(result, {1});
  int r = k.reshape(f(k, in), {1});
  k.store(r, out, {k.index(0)});
  return k;
}

const std::vector<Fill> valueSets = {Fill::normal, Fill::special, Fill::wide};

} // namespace

void addUnary(Cases &cases) {
  for (const std::string &fn : unaryFunctions)
    for (DType t : allTypes()) {
      if (!unaryTakes(fn, t))
        continue;
      bool tested = fn == "isnan" || fn == "isinf";
      DType result = tested ? DType::boolean : t;
      auto f = [fn](Kernel &k, const std::vector<int> &in) { return k.unary(fn, in[0]); };
      for (Fill fill : valueSets)
        cases.add(fmt::format("unary {} {} [256] {}", fn, name(t), fillName(fill)), 256,
                  [=] { return elementwise({t}, result, fill, 256, 700, f); });
      cases.add(fmt::format("unary {} {} scalar", fn, name(t)), 1,
                [=] { return scalars({t}, result, Fill::unit, f); });
    }
}

void addBinary(Cases &cases) {
  for (const std::string &fn : binaryFunctions)
    for (DType t : allTypes()) {
      if (!binaryTakes(fn, t))
        continue;
      auto f = [fn](Kernel &k, const std::vector<int> &in) { return k.binary(fn, in[0], in[1]); };
      for (Fill fill : valueSets)
        if (!(isBool(t) && fill != Fill::normal))
          cases.add(fmt::format("binary {} {} [192] {}", fn, name(t), fillName(fill)), 192, [=] {
            return elementwise({t, t}, t, fill, 192, 500, f);
          });
      // Every pair of special values.
      cases.add(fmt::format("binary {} {} pairs", fn, name(t)), 1024, [=] {
        auto n = std::int64_t(specials(t).size());
        Kernel k;
        int a = k.input(t, {n}, Fill::special), b = k.input(t, {n}, Fill::special), out = k.output(t, {n, n});
        auto at = k.grid(out, {32, 32});
        int x = k.broadcast(k.reshape(k.load(a, {at[0]}, {32}), {32, 1}), {32, 32});
        int y = k.broadcast(k.reshape(k.load(b, {at[1]}, {32}), {1, 32}), {32, 32});
        k.store(f(k, {x, y}), out, at);
        return k;
      });
      cases.add(fmt::format("binary {} {} scalar", fn, name(t)), 1, [=] {
        return scalars({t, t}, t, Fill::normal, f);
      });
      // A constant on the right, which folds and strength reduction see.
      for (std::uint64_t c : {0, 1, 2, 7, 8})
        if (isInt(t))
          cases.add(fmt::format("binary {} {} [64] by {}", fn, name(t), c), 64, [=] {
            return elementwise({t}, t, Fill::special, 64, 200, [&](Kernel &k, const std::vector<int> &in) {
              return k.binary(fn, in[0], k.constant(t, {64}, c));
            });
          });
    }
}

void addCompareSelectCast(Cases &cases) {
  for (const std::string &p : predicates)
    for (DType t : allTypes()) {
      cases.add(fmt::format("compare {} {} [192]", p, name(t)), 192, [=] {
        return elementwise({t, t}, DType::boolean, Fill::special, 192, 500,
                           [&](Kernel &k, const std::vector<int> &in) { return k.compare(p, in[0], in[1]); });
      });
      cases.add(fmt::format("compare {} {} same", p, name(t)), 192, [=] {
        return elementwise({t}, DType::boolean, Fill::special, 192, 500,
                           [&](Kernel &k, const std::vector<int> &in) { return k.compare(p, in[0], in[0]); });
      });
    }
  for (DType t : allTypes()) {
    cases.add(fmt::format("select {} [128]", name(t)), 128, [=] {
      return elementwise({DType::boolean, t, t}, t, Fill::special, 128, 500,
                         [](Kernel &k, const std::vector<int> &in) { return k.select(in[0], in[1], in[2]); });
    });
    for (std::uint64_t c : {0, 1})
      cases.add(fmt::format("select {} [128] scalar {}", name(t), c), 128, [=] {
        Kernel k;
        int a = k.input(t, {300}, Fill::special), b = k.input(t, {300}, Fill::special);
        int condition = k.scalar(DType::boolean, c);
        int out = k.output(t, {300});
        auto at = k.grid(out, {128});
        k.store(k.select(condition, k.load(a, at, {128}), k.load(b, at, {128})), out, at);
        return k;
      });
  }
  for (DType t : {DType::f32, DType::f64})
    for (Fill fill : valueSets)
      cases.add(fmt::format("fma {} [192] {}", name(t), int(fill)), 192, [=] {
        return elementwise({t, t, t}, t, fill, 192, 500,
                           [](Kernel &k, const std::vector<int> &in) { return k.fma(in[0], in[1], in[2]); });
      });
  for (DType from : allTypes())
    for (DType to : allTypes()) {
      auto f = [to](Kernel &k, const std::vector<int> &in) { return k.cast(in[0], to); };
      for (Fill fill : valueSets)
        if (!(isBool(from) && fill != Fill::normal))
          cases.add(fmt::format("cast {} to {} [256] {}", name(from), name(to), fillName(fill)), 256,
                    [=] { return elementwise({from}, to, fill, 256, 600, f); });
      cases.add(fmt::format("cast {} to {} scalar", name(from), name(to)), 1,
                [=] { return scalars({from}, to, Fill::normal, f); });
    }
}

} // namespace sectile::numerics
