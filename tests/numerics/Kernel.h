// SPDX-License-Identifier: Apache-2.0
/// \file Kernels as data: built from tables, printed as module text for the library, evaluated by the host
/// reference.
#pragma once

#include "tests/numerics/Number.h"

#include <functional>
#include <string>
#include <vector>

namespace sectile::numerics {

using Shape = std::vector<std::int64_t>;

enum class Op {
  constant,
  dim,
  slice,
  load,
  store,
  gather,
  keep,
  fill,
  unary,
  binary,
  compare,
  select,
  fma,
  cast,
  iota,
  splat,
  broadcast,
  reshape,
  permute,
  reduce,
  mma,
  forLoop,
  ifElse,
  whileLoop
};

/// Type of a value: a scalar (no shape), a tile, or a view (`view`, whose rank is `rank`).
struct Type {
  DType dtype = DType::f32;
  Shape shape;
  bool view = false;
  int rank = 0;
  bool scalar() const { return !view && shape.empty(); }
  std::string text() const;
};

struct Block;
struct Node {
  Op op;
  std::string fn;                 ///< function, predicate, kind or policy
  std::vector<int> in, out;       ///< values
  std::vector<std::int64_t> ints; ///< axis or permutation
  std::uint64_t bits = 0;         ///< of a constant
  std::vector<Block> regions;
};
struct Block {
  std::vector<int> args; ///< values
  std::vector<Node> nodes;
  std::vector<int> yields; ///< of the first region of a while loop: the condition, then what it passes on
};

/// An argument with its memory: the element at coordinate 0 lies `offset` elements after the lowest one,
/// which lies `misalign` bytes after a multiple of 256.
struct Argument {
  DType dtype = DType::f32;
  int rank = -1; ///< -1: scalar
  Shape dims, strides;
  Fill fill = Fill::normal;
  bool output = false;
  int misalign = 0;
  std::uint64_t bits = 0; ///< of a scalar
};

struct Layout {
  Shape strides;    ///< empty: row-major without gaps
  int misalign = 0; ///< bytes
};

/// Builds a kernel op by op. Values are numbered; a Builder method returns the number of its result.
class Kernel {
public:
  std::string name;
  std::vector<Argument> arguments;
  std::vector<Type> types; ///< of all values
  Block body;
  std::vector<int> argumentValues, gridValues;
  int gridArgument = -1;
  Shape gridSizes;

  // --- arguments, all before the first op
  int input(DType t, Shape dims, Fill fill, Layout layout = {}) {
    return tensor(t, std::move(dims), fill, false, std::move(layout));
  }
  int output(DType t, Shape dims, Layout layout = {}) {
    return tensor(t, std::move(dims), Fill::normal, true, std::move(layout));
  }
  int scalar(DType t, std::uint64_t bits);
  /// Element offsets of the program, one per size.
  std::vector<int> grid(int view, Shape sizes);

  // --- ops
  int constant(DType t, const Shape &shape, std::uint64_t bits);
  int index(std::int64_t v) { return constant(DType::index, {}, std::uint64_t(v)); }
  int dim(int view, std::int64_t axis);
  int slice(int view, std::int64_t axis, int lo, int hi);
  int load(int view, const std::vector<int> &offsets, const Shape &shape);
  void store(int value, int view, const std::vector<int> &offsets);
  int gather(int view, const std::vector<int> &indices);
  int keep(int mask, int x);
  int fill(int x, int value);
  int unary(const std::string &fn, int x);
  int binary(const std::string &fn, int a, int b);
  int compare(const std::string &predicate, int a, int b);
  int select(int condition, int a, int b);
  int fma(int a, int b, int c);
  int cast(int x, DType to);
  int iota(std::int64_t axis, const Shape &shape);
  int splat(int x, const Shape &shape);
  int broadcast(int x, const Shape &shape);
  int reshape(int x, const Shape &shape);
  int permute(int x, const std::vector<std::int64_t> &perm);
  int reduce(const std::string &kind, int x, std::int64_t axis);
  int mma(int a, int b, int acc, const std::string &policy = "exact");

  using Values = std::vector<int>;
  /// body(induction variable, carried) gives the next values.
  Values loop(int lo, int hi, int step, const Values &init,
              const std::function<Values(int, const Values &)> &body);
  Values branch(int condition, const std::function<Values()> &yes, const std::function<Values()> &no);
  /// condition(carried) gives the condition.
  Values loopWhile(const Values &init, const std::function<int(const Values &)> &condition,
                   const std::function<Values(const Values &)> &body);

  const Type &type(int value) const { return types[std::size_t(value)]; }
  const Shape &shape(int value) const { return type(value).shape; }
  DType dtype(int value) const { return type(value).dtype; }

  /// The module text.
  std::string text() const;
  std::size_t nodeCount() const;

private:
  int tensor(DType t, Shape dims, Fill fill, bool output, Layout layout);
  int value(Type t);
  Node &add(Op op, std::vector<int> in, std::vector<Type> results = {});
  int one(Op op, std::vector<int> in, Type result, std::string fn = {}, std::vector<std::int64_t> ints = {});
  Block &top() { return stack.empty() ? body : stack.back(); }

  std::vector<Block> stack; ///< open regions
};

/// Row-major strides.
Shape packed(const Shape &dims);
std::int64_t countOf(const Shape &shape);

} // namespace sectile::numerics
