// SPDX-License-Identifier: Apache-2.0
#include "ir/base/LaunchExpr.h"

#include <algorithm>
#include <charconv>

namespace sectile {
namespace {

constexpr std::int64_t infinity = std::int64_t(1) << 62;

std::int64_t saturated(__int128 v) {
  constexpr __int128 least = INT64_MIN, most = INT64_MAX;
  return std::int64_t(std::clamp(v, least, most));
}

} // namespace

std::optional<LaunchExpr> LaunchExpr::parse(std::string_view text, std::string *whyNot) {
  struct Name {
    std::string_view name;
    Op op;
    int operands; ///< -1: one number, -2: two numbers
  };
  static constexpr Name names[] = {{"dim", Op::Dim, -2}, {"arg", Op::Arg, -1},  {"min", Op::Min, 2},
                                   {"max", Op::Max, 2},  {"add", Op::Add, 2},   {"sub", Op::Sub, 2},
                                   {"mul", Op::Mul, 2},  {"lt", Op::Lt, 2},     {"le", Op::Le, 2},
                                   {"eq", Op::Eq, 2},    {"select", Op::Select, 3}};
  LaunchExpr result;
  result.source = std::string(text);
  std::string_view rest = text;
  std::string why;
  auto fail = [&](std::string what) {
    if (why.empty())
      why = std::move(what);
    return false;
  };
  auto eat = [&](char c) {
    if (rest.empty() || rest.front() != c)
      return fail(std::string("'") + c + "' is missing before \"" + std::string(rest) + "\"");
    rest.remove_prefix(1);
    return true;
  };
  auto number = [&](std::int64_t &v) {
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), v);
    if (error != std::errc())
      return fail("a number is missing before \"" + std::string(rest) + "\"");
    rest.remove_prefix(std::size_t(end - rest.data()));
    return true;
  };
  int depth = 0;
  auto expression = [&](auto &self) -> bool {
    if (++depth > 64)
      return fail("it is nested deeper than 64");
    bool good = true;
    std::size_t length = 0;
    while (length < rest.size() && rest[length] >= 'a' && rest[length] <= 'z')
      ++length;
    const std::string_view word = rest.substr(0, length);
    if (word.empty()) {
      std::int64_t v = 0;
      good = number(v);
      result.nodes.push_back({Op::Constant, v});
    } else if (word == "inf") {
      rest.remove_prefix(length);
      result.nodes.push_back({Op::Constant, infinity});
    } else {
      const Name *name = std::find_if(std::begin(names), std::end(names), [&](const Name &n) { return n.name == word; });
      if (name == std::end(names))
        return fail("\"" + std::string(word) + "\" is no function");
      rest.remove_prefix(length);
      const std::size_t at = result.nodes.size();
      result.nodes.push_back({name->op});
      good = eat('(');
      if (name->operands < 0) {
        std::int64_t v = 0, axis = 0;
        good = good && number(v) && (name->operands == -1 || (eat(',') && number(axis)));
        if (good && (v < 0 || axis < 0 || axis >= maxRank))
          return fail("an argument or axis is out of range");
        result.nodes[at].value = v;
        result.nodes[at].axis = axis;
      }
      for (int i = 0; good && i < name->operands; ++i)
        good = (i == 0 || eat(',')) && self(self);
      good = good && eat(')');
    }
    --depth;
    return good;
  };
  if (expression(expression) && !rest.empty())
    fail("\"" + std::string(rest) + "\" follows its end");
  if (why.empty())
    return result;
  if (whyNot)
    *whyNot = why;
  return std::nullopt;
}

std::int64_t LaunchExpr::evaluate(std::span<const KernelArg> args) const {
  std::size_t at = 0;
  auto value = [&](auto &self) -> std::int64_t {
    const Node &n = nodes[at++];
    switch (n.op) {
    case Op::Constant:
      return n.value;
    case Op::Dim:
      return args[std::size_t(n.value)].dims[std::size_t(n.axis)];
    case Op::Arg: {
      const KernelArg &a = args[std::size_t(n.value)];
      const unsigned unused = 64 - 8 * unsigned(byteSize(a.dtype));
      return std::int64_t(a.scalar << unused) >> unused;
    }
    default:
      break;
    }
    const std::int64_t x = self(self), y = self(self);
    switch (n.op) {
    case Op::Min:
      return std::min(x, y);
    case Op::Max:
      return std::max(x, y);
    case Op::Add:
      return saturated(__int128(x) + y);
    case Op::Sub:
      return saturated(__int128(x) - y);
    case Op::Mul:
      return saturated(__int128(x) * y);
    case Op::Lt:
      return x < y;
    case Op::Le:
      return x <= y;
    case Op::Eq:
      return x == y;
    default: {
      const std::int64_t z = self(self);
      return x ? y : z;
    }
    }
  };
  return value(value);
}

} // namespace sectile
