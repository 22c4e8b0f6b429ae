// SPDX-License-Identifier: Apache-2.0
/// \file What is known of views and index values from the attributes of the kernel's arguments.
#include "ir/IndexFacts.h"

#include "tests/support/InterpHarness.h"

#include <catch2/catch.hpp>

using namespace mlir;
using namespace sectile;
using namespace sectile::test;
using tileir::IndexFacts;

namespace {

template <class Op> std::vector<Op> opsOf(ModuleOp module) {
  std::vector<Op> all;
  module.walk([&](Op op) { all.push_back(op); });
  return all;
}

} // namespace

TEST_CASE("The most elements of an axis: the argument's bound and slices between constants", "[passes][facts]") {
  Interpreted k(kernelText("%x: !tile.tensor<2, f32> {tile.dim_max = array<i64: 0, 1017>}, %y: !tile.tensor<2, f32>, %n: index",
                           "%c3 = tile.constant 3 : index\n%c9 = tile.constant 9 : index\n%c5000 = tile.constant 5000 : index\n"
                           "%low = tile.constant -4 : index\n"
                           "%a = tile.slice %x, 1 [%n to %c5000] : !tile.tensor<2, f32>\n"
                           "%b = tile.slice %a, 0 [%c3 to %c9] : !tile.tensor<2, f32>\n"
                           "%c = tile.slice %b, 0 [%low to %n] : !tile.tensor<2, f32>\n"
                           "%d = tile.slice %y, 1 [%c9 to %c3] : !tile.tensor<2, f32>\n"
                           "%e = tile.slice %y, 1 [%low to %c9] : !tile.tensor<2, f32>\n"));
  REQUIRE(k.module);
  auto slices = opsOf<tileir::SliceOp>(*k.module);
  REQUIRE(slices.size() == 5);
  auto func = *k.module->getOps<func::FuncOp>().begin();
  IndexFacts facts;
  CHECK(facts.dimMax(func.getArgument(0), 0) == 0);
  CHECK(facts.dimMax(func.getArgument(0), 1) == 1017);
  CHECK(facts.dimMax(func.getArgument(1), 1) == 0);
  CHECK(facts.dimMax(slices[0], 1) == 1017);
  CHECK(facts.dimMax(slices[0], 0) == 0);
  CHECK(facts.dimMax(slices[1], 0) == 6);
  CHECK(facts.dimMax(slices[1], 1) == 1017);
  CHECK(facts.dimMax(slices[2], 0) == 6);
  CHECK(facts.dimMax(slices[3], 1) == 1); // empty: at most 1 is true
  CHECK(facts.dimMax(slices[4], 1) == 9);
}

TEST_CASE("Index values of small tensors fit in 32 bits", "[passes][facts]") {
  Interpreted k(kernelText("%x: !tile.tensor<2, f32> {tile.small}, %y: !tile.tensor<2, f32>, %i: index",
                           "%s = tile.slice %x, 1 [%i to %i] : !tile.tensor<2, f32>\n"
                           "%a, %b = tile.grid %x [64, 64] : !tile.tensor<2, f32> -> index, index\n"
                           "%m = tile.dim %s, 1 : !tile.tensor<2, f32>\n"
                           "%n = tile.dim %y, 0 : !tile.tensor<2, f32>\n"
                           "%d = tile.binary sub %m, %a : index\n"
                           "%e = tile.binary sub %n, %a : index\n"
                           "%f = tile.binary sub %d, %a : index\n"));
  INFO(k.messages);
  REQUIRE(k.module);
  auto func = *k.module->getOps<func::FuncOp>().begin();
  CHECK(tileir::hasSmallOffsets(func.getArgument(0)));
  CHECK_FALSE(tileir::hasSmallOffsets(func.getArgument(1)));
  CHECK(tileir::hasSmallOffsets(opsOf<tileir::SliceOp>(*k.module)[0]));
  IndexFacts facts;
  auto dims = opsOf<tileir::DimOp>(*k.module);
  auto subs = opsOf<tileir::BinaryOp>(*k.module);
  auto grid = opsOf<tileir::GridOp>(*k.module)[0];
  CHECK(facts.of(grid.getResult(0)).bits == 31);
  CHECK(facts.of(dims[0]).bits == 31);
  CHECK(facts.of(dims[1]).bits > 32);
  CHECK(facts.of(subs[0]).bits == 31); // of two that are not negative
  CHECK_FALSE(facts.of(subs[0]).nonNegative);
  CHECK(facts.of(subs[1]).bits > 32);
  CHECK(facts.of(subs[2]).bits == 32);
}

TEST_CASE("What a loop counts down from a multiple of its step does not pass 0 and has no more bits than what that was made from", "[passes][facts]") {
  const std::string start = "%n = tile.dim %x, 0 : !tile.tensor<2, f32>\n%one = tile.constant 1 : index\n%step = tile.constant 96 : index\n"
                            "%zero = tile.constant 0 : index\n%two = tile.constant 2 : index\n"
                            "%last = tile.binary sub %n, %one : index\n%block = tile.binary floordiv %last, %step : index\n"
                            "%first = tile.binary mul %block, %step : index\n";
  auto factOf = [&](const std::string &end) {
    Interpreted k(kernelText("%x: !tile.tensor<2, f32> {tile.small}", start + end +
                             "scf.for %i = %zero to %end step %step {\n%j = tile.binary sub %first, %i : index\n}\n"));
    REQUIRE(k.module);
    IndexFacts facts;
    return facts.of(opsOf<tileir::BinaryOp>(*k.module).back().getResult());
  };
  const tileir::IndexFact down = factOf("%end = tile.binary add %first, %one : index\n");
  CHECK(down.nonNegative);
  CHECK(down.bits == 31);
  CHECK(down.divisor == 32);
  CHECK(factOf("%more = tile.binary add %first, %one : index\n%end = tile.binary min %more, %n : index\n").nonNegative);
  CHECK(factOf("%m = tile.dim %x, 1 : !tile.tensor<2, f32>\n%end = tile.binary sub %first, %m : index\n").nonNegative);
  CHECK_FALSE(factOf("%end = tile.binary add %first, %two : index\n").nonNegative);
  CHECK_FALSE(factOf("%more = tile.binary add %first, %one : index\n%end = tile.binary max %more, %n : index\n").nonNegative);
}
