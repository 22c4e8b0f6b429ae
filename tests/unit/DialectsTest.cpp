// SPDX-License-Identifier: Apache-2.0
/// \file Types, layouts and rules of both dialects as C++ code uses them.
#include "ir/Rules.h"
#include "ir/TgpuDialect.h"

#include "mlir/IR/MLIRContext.h"

#include <catch2/catch.hpp>

#include <set>

using namespace mlir;
using namespace sectile;

namespace {

struct Context : MLIRContext {
  Context() : MLIRContext(Threading::DISABLED) { loadDialect<tileir::TileDialect, tgpu::TgpuDialect>(); }
  Type element(DType t) { return tileir::elementType(this, t); }
  RankedTensorType tile(llvm::ArrayRef<int64_t> shape, DType t) {
    return RankedTensorType::get(shape, element(t));
  }
};

Layout parse(const char *text) {
  std::string whyNot;
  auto layout = Layout::parse(text, &whyNot);
  INFO(whyNot);
  REQUIRE(layout);
  return *layout;
}

} // namespace

TEST_CASE("every dtype has a type of its own, and back") {
  Context context;
  for (int i = 0; i < numDTypes; ++i)
    CHECK(tileir::dtypeOfType(context.element(DType(i))) == DType(i));
  CHECK(!tileir::dtypeOfType(IntegerType::get(&context, 24)));
  CHECK(!tileir::dtypeOfType(IntegerType::get(&context, 8, IntegerType::Signed)));
  CHECK(!tileir::dtypeOfType(Float8E4M3Type::get(&context)));
  CHECK(tileir::describe(context.tile({128, 64}, DType::bf16)) == "bf16 [128, 64]");
  CHECK(tileir::describe(context.element(DType::boolean)) == "bool");
  CHECK(tileir::describe(tileir::TensorType::get(&context, 3, context.element(DType::e4m3))) ==
        "e4m3 tensor of rank 3");
}

TEST_CASE("a tile has rank 1 to 5, lengths of 1 or more and an element type of the language") {
  Context context;
  CHECK(tileir::isTile(context.tile({1, 1, 1, 1, 8}, DType::index)));
  CHECK(!tileir::isTile(context.tile({1, 1, 1, 1, 1, 8}, DType::f32)));
  CHECK(!tileir::isTile(context.tile({}, DType::f32)));
  CHECK(!tileir::isTile(context.tile({4, 0}, DType::f32)));
  CHECK(!tileir::isTile(context.tile({ShapedType::kDynamic}, DType::f32)));
  CHECK(!tileir::isTile(RankedTensorType::get({4}, IntegerType::get(&context, 24))));
  CHECK(!tileir::isTile(context.element(DType::f32)));
}

TEST_CASE("layouts go into types and come back") {
  Context context;
  Layout layout = Layout::blocked(std::vector<std::int32_t>{24, 80}, 1, 4, 4);
  auto type = tgpu::withLayout(context.tile({24, 80}, DType::f16), layout);
  CHECK(tgpu::layoutOf(type) == layout);
  CHECK(tgpu::layoutOf(tileir::withElement(type, context.element(DType::f32))) == layout);
  CHECK(!tgpu::layoutOf(context.tile({24, 80}, DType::f16)));
  CHECK(!tgpu::layoutOf(context.element(DType::f16)));
  auto attr = tgpu::LayoutAttr::get(&context, layout);
  CHECK(attr == type.getEncoding());
}

TEST_CASE("bytes of a buffer") {
  Context context;
  auto bytes = [&](DType t) {
    return tgpu::BufferType::get(&context, {3, 8}, context.element(t), {}).bytes();
  };
  CHECK(bytes(DType::f64) == 192);
  CHECK(bytes(DType::bf16) == 48);
  CHECK(bytes(DType::boolean) == 24);
  CHECK(bytes(DType::index) == 192);
}

TEST_CASE("a reduction inside warps gives one coordinate per distinct part of the axis") {
  // Warp bits 0 and 2 split the axis; bit 1 splits rows; bit 3 holds copies; bit 4 is bits 0 and 2 together.
  Layout x = parse("core=[32,32] reps=[1,3] reg=[(0,1)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] "
                   "warp=[(0,8),(8,0),(0,16),(0,0),(16,24)]");
  Layout r = tgpu::reducedLayout(x, 1);
  CHECK(r.shape() == std::vector<std::int32_t>{32, 4});
  CHECK(r.numRegs() == 1);
  // Warps of one part of the axis, and only those, have one coordinate on it.
  for (int w = 0; w < x.numWarps(); ++w)
    for (int u = 0; u < x.numWarps(); ++u)
      CHECK((x.threadCoords(0, w)[1] == x.threadCoords(0, u)[1]) ==
            (r.threadCoords(0, w)[1] == r.threadCoords(0, u)[1]));
  // Coordinates on the other axis stay.
  for (int w = 0; w < x.numWarps(); ++w)
    for (int lane = 0; lane < warpSize; ++lane)
      CHECK(r.threadCoords(lane, w)[0] == x.threadCoords(lane, w)[0]);
  // No warp bit on the axis: length 1.
  CHECK(tgpu::reducedLayout(Layout::blocked(std::vector<std::int32_t>{4, 128}, 1, 4, 1), 1).dim(1) == 1);
}

TEST_CASE("the shape of two operands of an elementwise op") {
  Context context;
  tileir::Violation v;
  auto shape = [&](llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b) {
    auto type = [&](llvm::ArrayRef<int64_t> s) -> Type {
      return s.empty() ? context.element(DType::f32) : context.tile(s, DType::f32);
    };
    return tileir::inferBroadcastShape("+", type(a), type(b), v);
  };
  using Shape = llvm::SmallVector<int64_t>;
  CHECK(*shape({64, 1}, {1, 128}) == Shape{64, 128});
  CHECK(*shape({}, {8}) == Shape{8});
  CHECK(*shape({8}, {}) == Shape{8});
  CHECK(shape({}, {})->empty());
  CHECK(!shape({64}, {64, 1}));
  CHECK(v.op == "+");
  CHECK(v.text() ==
        "rank of a [64] differs from rank of b [64, 1] [broadcast_c1]; reshape one of them so that both have "
        "the same number of axes");
  CHECK(!shape({64, 2}, {64, 4}));
  CHECK(v.text() ==
        "length 2 of a [64, 2] differs from length 4 of b [64, 4] along axis 1 [broadcast_c2]; only axes of "
        "length 1 repeat: make both lengths equal or one of them 1");
}

TEST_CASE("a violation names the op as the user writes it") {
  Context context;
  tileir::Violation v;
  Type f = context.element(DType::f32), i = context.element(DType::i32), b = context.element(DType::boolean);
  CHECK(!tileir::inferBinary(tileir::BinaryFn::k_add, f, i, v));
  CHECK(v.op == "+");
  CHECK(!tileir::inferBinary(tileir::BinaryFn::k_floordiv, f, f, v));
  CHECK(v.op == "floorDiv");
  CHECK(!tileir::inferUnary(tileir::UnaryFn::k_neg, b, v));
  CHECK(v.op == "-");
  CHECK(!tileir::inferCompare(tileir::ComparePred::k_ge, f, i, v));
  CHECK(v.op == ">=");
  CHECK(!tileir::inferReduce(tileir::ReduceKind::k_maxnum, context.tile({4}, DType::f32), 1, v));
  CHECK(v.op == "maxNum");
  CHECK(v.text() == "axis 1 of a rank 1 operand [reduce_c1]; axes are 0 to 0");
}
