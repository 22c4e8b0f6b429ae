// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Kernel.h"

#include <fmt/format.h>

namespace sectile::numerics {

Shape packed(const Shape &dims) {
  Shape strides(dims.size(), 1);
  for (std::size_t d = dims.size(); d-- > 1;)
    strides[d - 1] = strides[d] * std::max<std::int64_t>(dims[d], 1);
  return strides;
}

std::int64_t countOf(const Shape &shape) {
  std::int64_t n = 1;
  for (std::int64_t length : shape)
    n *= length;
  return n;
}

std::string Type::text() const {
  if (view)
    return fmt::format("!tile.tensor<{}, {}>", rank, typeText(dtype));
  if (shape.empty())
    return typeText(dtype);
  return fmt::format("tensor<{}x{}>", fmt::join(shape, "x"), typeText(dtype));
}

// --- building
// ---------------------------------------------------------------------------------------------------------

int Kernel::value(Type t) {
  types.push_back(std::move(t));
  return int(types.size()) - 1;
}

int Kernel::tensor(DType t, Shape dims, Fill fill, bool output, Layout layout) {
  Argument a;
  a.dtype = t;
  a.rank = int(dims.size());
  a.strides = layout.strides.empty() ? packed(dims) : std::move(layout.strides);
  a.dims = std::move(dims);
  a.fill = fill;
  a.output = output;
  a.misalign = layout.misalign;
  arguments.push_back(std::move(a));
  argumentValues.push_back(value({t, {}, true, arguments.back().rank}));
  return argumentValues.back();
}

int Kernel::scalar(DType t, std::uint64_t bits) {
  Argument a;
  a.dtype = t;
  a.bits = bits;
  arguments.push_back(a);
  argumentValues.push_back(value({t, {}}));
  return argumentValues.back();
}

std::vector<int> Kernel::grid(int view, Shape sizes) {
  gridArgument = view;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    gridValues.push_back(value({DType::index, {}}));
  gridSizes = std::move(sizes);
  return gridValues;
}

Node &Kernel::add(Op op, std::vector<int> in, std::vector<Type> results) {
  Node n;
  n.op = op;
  n.in = std::move(in);
  for (Type &t : results)
    n.out.push_back(value(std::move(t)));
  top().nodes.push_back(std::move(n));
  return top().nodes.back();
}

int Kernel::one(Op op, std::vector<int> in, Type result, std::string fn, std::vector<std::int64_t> ints) {
  Node &n = add(op, std::move(in), {std::move(result)});
  n.fn = std::move(fn);
  n.ints = std::move(ints);
  return n.out[0];
}

int Kernel::constant(DType t, const Shape &shape, std::uint64_t bits) {
  int r = one(Op::constant, {}, {t, shape});
  top().nodes.back().bits = bits;
  return r;
}
int Kernel::dim(int view, std::int64_t axis) { return one(Op::dim, {view}, {DType::index, {}}, {}, {axis}); }
int Kernel::slice(int view, std::int64_t axis, int lo, int hi) {
  return one(Op::slice, {view, lo, hi}, type(view), {}, {axis});
}
int Kernel::load(int view, const std::vector<int> &offsets, const Shape &shape) {
  std::vector<int> in{view};
  in.insert(in.end(), offsets.begin(), offsets.end());
  return one(Op::load, std::move(in), {dtype(view), shape});
}
void Kernel::store(int value, int view, const std::vector<int> &offsets) {
  std::vector<int> in{value, view};
  in.insert(in.end(), offsets.begin(), offsets.end());
  add(Op::store, std::move(in));
}
int Kernel::gather(int view, const std::vector<int> &indices) {
  std::vector<int> in{view};
  Shape s;
  for (int i : indices) {
    in.push_back(i);
    if (!shape(i).empty())
      s = shape(i);
  }
  return one(Op::gather, std::move(in), {dtype(view), s});
}
int Kernel::keep(int mask, int x) { return one(Op::keep, {mask, x}, type(x)); }
int Kernel::fill(int x, int v) { return one(Op::fill, {x, v}, type(x)); }
int Kernel::unary(const std::string &fn, int x) {
  Type t = type(x);
  if (fn == "isnan" || fn == "isinf")
    t.dtype = DType::boolean;
  return one(Op::unary, {x}, t, fn);
}
int Kernel::binary(const std::string &fn, int a, int b) { return one(Op::binary, {a, b}, type(a), fn); }
int Kernel::compare(const std::string &predicate, int a, int b) {
  return one(Op::compare, {a, b}, {DType::boolean, shape(a)}, predicate);
}
int Kernel::select(int c, int a, int b) { return one(Op::select, {c, a, b}, type(a)); }
int Kernel::fma(int a, int b, int c) { return one(Op::fma, {a, b, c}, type(a)); }
int Kernel::cast(int x, DType to) { return one(Op::cast, {x}, {to, shape(x)}); }
int Kernel::iota(std::int64_t axis, const Shape &shape) {
  return one(Op::iota, {}, {DType::index, shape}, {}, {axis});
}
int Kernel::splat(int x, const Shape &shape) { return one(Op::splat, {x}, {dtype(x), shape}); }
int Kernel::broadcast(int x, const Shape &shape) { return one(Op::broadcast, {x}, {dtype(x), shape}); }
int Kernel::reshape(int x, const Shape &shape) { return one(Op::reshape, {x}, {dtype(x), shape}); }
int Kernel::permute(int x, const std::vector<std::int64_t> &perm) {
  Shape s;
  for (std::int64_t axis : perm)
    s.push_back(shape(x)[std::size_t(axis)]);
  return one(Op::permute, {x}, {dtype(x), s}, {}, perm);
}
int Kernel::reduce(const std::string &kind, int x, std::int64_t axis) {
  Type t = type(x);
  t.shape[std::size_t(axis)] = 1;
  if (kind == "argmax" || kind == "argmin")
    t.dtype = DType::index;
  return one(Op::reduce, {x}, t, kind, {axis});
}
int Kernel::mma(int a, int b, int acc, const std::string &policy) {
  return one(Op::mma, {a, b, acc}, type(acc), policy);
}

Kernel::Values Kernel::loop(int lo, int hi, int step, const Values &init,
                            const std::function<Values(int, const Values &)> &body) {
  Block b;
  b.args.push_back(value({DType::index, {}}));
  std::vector<Type> results;
  for (int v : init) {
    results.push_back(type(v));
    b.args.push_back(value(type(v)));
  }
  stack.push_back(b);
  Values carried(b.args.begin() + 1, b.args.end());
  Values next = body(b.args[0], carried);
  stack.back().yields = next;
  Block done = std::move(stack.back());
  stack.pop_back();
  std::vector<int> in{lo, hi, step};
  in.insert(in.end(), init.begin(), init.end());
  Node &n = add(Op::forLoop, std::move(in), std::move(results));
  n.regions.push_back(std::move(done));
  return n.out;
}

Kernel::Values Kernel::branch(int condition, const std::function<Values()> &yes,
                              const std::function<Values()> &no) {
  std::vector<Block> regions;
  for (const auto *side : {&yes, &no}) {
    stack.emplace_back();
    Values out = (*side)();
    stack.back().yields = out;
    regions.push_back(std::move(stack.back()));
    stack.pop_back();
  }
  std::vector<Type> results;
  for (int v : regions[0].yields)
    results.push_back(type(v));
  Node &n = add(Op::ifElse, {condition}, std::move(results));
  n.regions = std::move(regions);
  return n.out;
}

Kernel::Values Kernel::loopWhile(const Values &init, const std::function<int(const Values &)> &condition,
                                 const std::function<Values(const Values &)> &body) {
  std::vector<Block> regions;
  std::vector<Type> results;
  for (int v : init)
    results.push_back(type(v));
  for (int side = 0; side < 2; ++side) {
    Block b;
    for (int v : init)
      b.args.push_back(value(type(v)));
    stack.push_back(b);
    if (side == 0) {
      int c = condition(b.args);
      stack.back().yields = {c};
      stack.back().yields.insert(stack.back().yields.end(), b.args.begin(), b.args.end());
    } else {
      Values out = body(b.args);
      stack.back().yields = out;
    }
    regions.push_back(std::move(stack.back()));
    stack.pop_back();
  }
  Node &n = add(Op::whileLoop, init, std::move(results));
  n.regions = std::move(regions);
  return n.out;
}

// --- printing
// ---------------------------------------------------------------------------------------------------------

namespace {

class Printer {
public:
  explicit Printer(const Kernel &k) : k(k) {}

  std::string run() {
    out = fmt::format("func.func @{}(", k.name);
    for (std::size_t i = 0; i < k.arguments.size(); ++i) {
      int v = k.argumentValues[i];
      const Argument &a = k.arguments[i];
      out += fmt::format("{}{}: {}{}", i ? ", " : "", n(v), t(v),
                         a.rank >= 0 && !a.output ? " {tile.readonly}" : "");
    }
    out += ") attributes {tile.kernel} {\n";
    if (!k.gridValues.empty())
      line(fmt::format("{} = tile.grid {} [{}] : {} -> {}", names(k.gridValues), n(k.gridArgument),
                       fmt::join(k.gridSizes, ", "), t(k.gridArgument), typesOf(k.gridValues)));
    block(k.body);
    line("return");
    return out + "}\n";
  }

private:
  static std::string n(int v) { return fmt::format("%v{}", v); }
  std::string t(int v) const { return k.type(v).text(); }
  static std::string names(const std::vector<int> &v, std::size_t from = 0) {
    std::string s;
    for (std::size_t i = from; i < v.size(); ++i)
      s += (i > from ? ", " : "") + n(v[i]);
    return s;
  }
  std::string typesOf(const std::vector<int> &v, std::size_t from = 0) const {
    std::string s;
    for (std::size_t i = from; i < v.size(); ++i)
      s += (i > from ? ", " : "") + t(v[i]);
    return s;
  }
  void line(const std::string &s) { out += std::string(std::size_t(depth) * 2, ' ') + s + "\n"; }
  void block(const Block &b) {
    for (const Node &node : b.nodes)
      print(node);
  }
  static std::string number(DType type, std::uint64_t bits) {
    if (isBool(type))
      return bits ? "true" : "false";
    if (isFloat(type))
      return fmt::format("0x{:0{}X}", bits, byteSize(type) * 2);
    return isSignedInt(type) ? fmt::format("{}", std::int64_t(decode(type, bits).i))
                             : fmt::format("{}", bits);
  }

  void print(const Node &node) {
    const auto &in = node.in;
    std::string head = node.out.empty() ? "" : names(node.out) + " = ";
    auto axis = [&] { return node.ints[0]; };
    switch (node.op) {
    case Op::constant: {
      const Type &type = k.type(node.out[0]);
      std::string v = number(type.dtype, node.bits);
      if (type.scalar())
        return line(head + "tile.constant " + v + (isBool(type.dtype) ? "" : " : " + type.text()));
      return line(head + "tile.constant dense<" + v + "> : " + type.text());
    }
    case Op::dim:
      return line(fmt::format("{}tile.dim {}, {} : {}", head, n(in[0]), axis(), t(in[0])));
    case Op::slice:
      return line(fmt::format("{}tile.slice {}, {} [{} to {}] : {}", head, n(in[0]), axis(), n(in[1]),
                              n(in[2]), t(in[0])));
    case Op::load:
      return line(fmt::format("{}tile.load {}[{}] : {} -> {}", head, n(in[0]), names(in, 1), t(in[0]),
                              t(node.out[0])));
    case Op::store:
      return line(fmt::format("tile.store {}, {}[{}] : {}, {}", n(in[0]), n(in[1]), names(in, 2), t(in[0]),
                              t(in[1])));
    case Op::gather:
      return line(fmt::format("{}tile.gather {}[{}] : {}, ({}) -> {}", head, n(in[0]), names(in, 1), t(in[0]),
                              typesOf(in, 1), t(node.out[0])));
    case Op::keep:
      return line(fmt::format("{}tile.keep {} : {}", head, names(in), typesOf(in)));
    case Op::fill:
      return line(fmt::format("{}tile.fill {} : {}", head, names(in), typesOf(in)));
    case Op::unary:
      return line(
          fmt::format("{}tile.unary {} {} : {} -> {}", head, node.fn, n(in[0]), t(in[0]), t(node.out[0])));
    case Op::binary:
      return line(fmt::format("{}tile.binary {} {} : {}", head, node.fn, names(in), t(in[0])));
    case Op::compare:
      return line(
          fmt::format("{}tile.compare {} {} : {} -> {}", head, node.fn, names(in), t(in[0]), t(node.out[0])));
    case Op::select:
      return line(fmt::format("{}tile.select {} : {}, {}", head, names(in), t(in[0]), t(in[1])));
    case Op::fma:
      return line(fmt::format("{}tile.fma {} : {}", head, names(in), t(in[0])));
    case Op::cast:
      return line(fmt::format("{}tile.cast {} : {} -> {}", head, n(in[0]), t(in[0]), t(node.out[0])));
    case Op::iota:
      return line(fmt::format("{}tile.iota {} : {}", head, axis(), t(node.out[0])));
    case Op::splat:
      return line(fmt::format("{}tile.splat {} : {} -> {}", head, n(in[0]), t(in[0]), t(node.out[0])));
    case Op::broadcast:
      return line(fmt::format("{}tile.broadcast {} : {} -> {}", head, n(in[0]), t(in[0]), t(node.out[0])));
    case Op::reshape:
      return line(fmt::format("{}tile.reshape {} : {} -> {}", head, n(in[0]), t(in[0]), t(node.out[0])));
    case Op::permute:
      return line(fmt::format("{}tile.permute {} [{}] : {} -> {}", head, n(in[0]), fmt::join(node.ints, ", "),
                              t(in[0]), t(node.out[0])));
    case Op::reduce:
      return line(fmt::format("{}tile.reduce {} {}, {} : {} -> {}", head, node.fn, n(in[0]), axis(), t(in[0]),
                              t(node.out[0])));
    case Op::mma:
      return line(fmt::format("{}tile.mma {} {} : {}", head, node.fn, names(in), typesOf(in)));
    case Op::forLoop:
    case Op::ifElse:
    case Op::whileLoop:
      return control(node);
    }
  }

  /// "%a = %x, %b = %y"
  std::string bindings(const std::vector<int> &args, std::size_t from, const std::vector<int> &init,
                       std::size_t initFrom) {
    std::string s;
    for (std::size_t i = from; i < args.size(); ++i)
      s += fmt::format("{}{} = {}", i > from ? ", " : "", n(args[i]), n(init[initFrom + i - from]));
    return s;
  }
  void yield(const Block &b) {
    if (!b.yields.empty())
      line(fmt::format("scf.yield {} : {}", names(b.yields), typesOf(b.yields)));
  }
  void region(const Block &b) {
    ++depth;
    block(b);
    yield(b);
    --depth;
  }

  /// Results of multi-result ops are printed as one name each, as `%a, %b = ...`.
  void control(const Node &node) {
    const auto &in = node.in;
    std::string head = node.out.empty() ? "" : names(node.out) + " = ",
                results = "(" + typesOf(node.out) + ")";
    if (node.op == Op::forLoop) {
      const Block &b = node.regions[0];
      std::string carried =
          node.out.empty() ? "" : fmt::format(" iter_args({}) -> {}", bindings(b.args, 1, in, 3), results);
      line(fmt::format("{}scf.for {} = {} to {} step {}{} {{", head, n(b.args[0]), n(in[0]), n(in[1]),
                       n(in[2]), carried));
      region(b);
      return line("}");
    }
    if (node.op == Op::ifElse) {
      line(fmt::format("{}scf.if {}{} {{", head, n(in[0]), node.out.empty() ? "" : " -> " + results));
      region(node.regions[0]);
      line("} else {");
      region(node.regions[1]);
      return line("}");
    }
    const Block &before = node.regions[0], &after = node.regions[1];
    line(fmt::format("{}scf.while ({}) : {} -> {} {{", head, bindings(before.args, 0, in, 0), results,
                     results));
    ++depth;
    block(before);
    line(fmt::format("scf.condition({}) {} : {}", n(before.yields[0]), names(before.yields, 1),
                     typesOf(before.yields, 1)));
    --depth;
    line("} do {");
    std::string args;
    for (std::size_t i = 0; i < after.args.size(); ++i)
      args += fmt::format("{}{}: {}", i ? ", " : "", n(after.args[i]), t(after.args[i]));
    line("^bb0(" + args + "):");
    region(after);
    line("}");
  }

  const Kernel &k;
  std::string out;
  int depth = 1;
};

std::size_t countNodes(const Block &b) {
  std::size_t n = b.nodes.size();
  for (const Node &node : b.nodes)
    for (const Block &r : node.regions)
      n += countNodes(r);
  return n;
}

} // namespace

std::string Kernel::text() const { return Printer(*this).run(); }
std::size_t Kernel::nodeCount() const { return countNodes(body); }

} // namespace sectile::numerics
