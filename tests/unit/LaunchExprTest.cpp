// SPDX-License-Identifier: Apache-2.0
#include "ir/base/LaunchExpr.h"

#include <catch2/catch.hpp>

#include <limits>

using namespace sectile;

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       most = std::numeric_limits<std::int64_t>::max();

KernelArg tensor(std::int64_t rows, std::int64_t columns) {
  KernelArg a{};
  a.dims[0] = rows;
  a.dims[1] = columns;
  return a;
}
KernelArg integer(DType dtype, std::uint64_t bits) {
  KernelArg a{};
  a.dtype = dtype;
  a.scalar = bits;
  return a;
}

std::int64_t value(std::string_view text, std::span<const KernelArg> args = {}) {
  std::string whyNot;
  auto expr = LaunchExpr::parse(text, &whyNot);
  INFO(text << ": " << whyNot);
  REQUIRE(expr);
  CHECK(expr->text() == text);
  return expr->evaluate(args);
}

std::string wrong(std::string_view text) {
  std::string whyNot;
  INFO(text);
  CHECK_FALSE(LaunchExpr::parse(text, &whyNot));
  CHECK_FALSE(LaunchExpr::parse(text));
  return whyNot;
}

} // namespace

TEST_CASE("every function of a launch's expressions", "[launchexpr]") {
  CHECK(value("0") == 0);
  CHECK(value("-17") == -17);
  CHECK(value("9223372036854775807") == most);
  CHECK(value("-9223372036854775808") == least);
  CHECK(value("inf") == std::int64_t(1) << 62);
  CHECK(value("min(3,-4)") == -4);
  CHECK(value("min(-4,3)") == -4);
  CHECK(value("max(3,-4)") == 3);
  CHECK(value("max(-4,3)") == 3);
  CHECK(value("add(40,2)") == 42);
  CHECK(value("sub(40,2)") == 38);
  CHECK(value("mul(-6,7)") == -42);
  CHECK(value("lt(1,2)") == 1);
  CHECK(value("lt(2,2)") == 0);
  CHECK(value("le(2,2)") == 1);
  CHECK(value("le(3,2)") == 0);
  CHECK(value("eq(2,2)") == 1);
  CHECK(value("eq(2,3)") == 0);
  CHECK(value("select(1,5,6)") == 5);
  CHECK(value("select(0,5,6)") == 6);
  CHECK(value("select(-1,5,6)") == 5);
  const KernelArg args[] = {tensor(128, 64), tensor(32, 256)};
  CHECK(value("dim(0,0)", args) == 128);
  CHECK(value("dim(0,1)", args) == 64);
  CHECK(value("dim(1,1)", args) == 256);
  // Operands are taken in their order, however deep: of the branch that is not chosen too.
  CHECK(value("sub(mul(dim(0,0),sub(7,2)),select(lt(dim(1,0),dim(0,1)),add(1,min(2,3)),dim(1,1)))", args) == 637);
}

TEST_CASE("sums and products of a launch saturate", "[launchexpr]") {
  CHECK(value("add(9223372036854775807,1)") == most);
  CHECK(value("add(-9223372036854775808,-1)") == least);
  CHECK(value("sub(-9223372036854775808,1)") == least);
  CHECK(value("sub(0,-9223372036854775808)") == most);
  CHECK(value("mul(inf,inf)") == most);
  CHECK(value("mul(inf,-4)") == least);
  CHECK(value("mul(-9223372036854775808,-1)") == most);
  CHECK(value("add(inf,sub(inf,1))") == most);
  CHECK(value("min(add(inf,inf),5)") == 5);
}

TEST_CASE("integer arguments are sign-extended from their own width", "[launchexpr]") {
  const KernelArg args[] = {integer(DType::i8, 0xff), integer(DType::i8, 0x7f), integer(DType::i32, 0xfffffffe),
                            integer(DType::i32, 0x7fffffff), integer(DType::index, std::uint64_t(least)),
                            // Bits above the width mean nothing.
                            integer(DType::i8, 0xabcdef80), integer(DType::i32, 0xffffffff00000005)};
  CHECK(value("arg(0)", args) == -1);
  CHECK(value("arg(1)", args) == 127);
  CHECK(value("arg(2)", args) == -2);
  CHECK(value("arg(3)", args) == 2147483647);
  CHECK(value("arg(4)", args) == least);
  CHECK(value("arg(5)", args) == -128);
  CHECK(value("arg(6)", args) == 5);
}

TEST_CASE("what is no expression of a launch", "[launchexpr]") {
  CHECK(wrong("") == "a number is missing before \"\"");
  CHECK(wrong("-") == "a number is missing before \"-\"");
  CHECK(wrong("9223372036854775808") == "a number is missing before \"9223372036854775808\"");
  CHECK(wrong("pow(1,2)") == "\"pow\" is no function");
  CHECK(wrong("min") == "'(' is missing before \"\"");
  CHECK(wrong("min(1)") == "',' is missing before \")\"");
  CHECK(wrong("min(1,2,3)") == "')' is missing before \",3)\"");
  CHECK(wrong("select(1,2)") == "',' is missing before \")\"");
  CHECK(wrong("min(1, 2)") == "a number is missing before \" 2)\"");
  CHECK(wrong("1)") == "\")\" follows its end");
  CHECK(wrong("min(1,2)x") == "\"x\" follows its end");
  CHECK(wrong("dim(0)") == "',' is missing before \")\"");
  CHECK(wrong("dim(x,0)") == "a number is missing before \"x,0)\"");
  CHECK(wrong("dim(-1,0)") == "an argument or axis is out of range");
  CHECK(wrong("dim(0,-1)") == "an argument or axis is out of range");
  CHECK(wrong("dim(0," + std::to_string(maxRank) + ")") == "an argument or axis is out of range");
  CHECK(wrong("arg(-1)") == "an argument or axis is out of range");
  CHECK(wrong("arg(0,0)") == "')' is missing before \",0)\"");
  auto nested = [](int depth) {
    std::string text;
    for (int i = 1; i < depth; ++i)
      text += "add(1,";
    return text + "1" + std::string(std::size_t(depth - 1), ')');
  };
  CHECK(value(nested(64)) == 64);
  CHECK(wrong(nested(65)) == "it is nested deeper than 64");
}
