// SPDX-License-Identifier: Apache-2.0
/// \file Numbers that the host computes from the arguments of a launch, such as the limits of a tensor map.
#pragma once

#include <sectile/KernelArg.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

/// An expression over 64-bit integers, written as nested calls without spaces: an integer, `inf` (2^62),
/// `dim(arg,axis)`, `arg(n)` (an integer argument, sign-extended), `min(x,y)`, `max(x,y)`, `add(x,y)`, `sub(x,y)`,
/// `mul(x,y)`, `lt(x,y)`, `le(x,y)`, `eq(x,y)` (1 or 0), `select(c,x,y)`. add, sub and mul saturate.
class LaunchExpr {
public:
  static std::optional<LaunchExpr> parse(std::string_view text, std::string *whyNot = nullptr);
  /// @pre `args` fit the kernel the expression was made for
  std::int64_t evaluate(std::span<const KernelArg> args) const;
  const std::string &text() const { return source; }

  enum class Op : std::uint8_t { Constant, Dim, Arg, Min, Max, Add, Sub, Mul, Lt, Le, Eq, Select };
  struct Node {
    Op op;
    std::int64_t value = 0, axis = 0; ///< of a constant, dim or arg
  };
  /// In prefix order: for those who compute it elsewhere.
  std::span<const Node> prefix() const { return nodes; }

private:
  std::string source;
  std::vector<Node> nodes;
};

} // namespace sectile
