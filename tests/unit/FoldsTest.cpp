// SPDX-License-Identifier: Apache-2.0
/// \file Folds of the `tile` ops against the interpreter: a folded constant is the value a kernel computes,
/// and an op that folds to its operand computes that operand, for every function, element type and special
/// value.
#include "ir/Rules.h"
#include "ir/base/Scalar.h"
#include "tests/support/InterpHarness.h"

#include "mlir/IR/Builders.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <set>

using namespace mlir;
using namespace sectile;
using namespace sectile::test;
using sectile::tileir::BinaryFn;
using sectile::tileir::ComparePred;
using sectile::tileir::UnaryFn;

namespace {

constexpr std::size_t numUnary = tileir::getMaxEnumValForUnaryFn() + 1;
constexpr std::size_t numBinary = tileir::getMaxEnumValForBinaryFn() + 1;
constexpr std::size_t numCompare = tileir::getMaxEnumValForComparePred() + 1;

std::vector<DType> allTypes() {
  std::vector<DType> types;
  for (int t = 0; t < numDTypes; ++t)
    types.push_back(DType(t));
  return types;
}

/// The bits of the values where types go wrong: zeros, ones, limits, halves, infinities, NaN, subnormals.
std::vector<std::uint64_t> specials(DType t) {
  std::vector<std::uint64_t> all;
  sectile::detail::visitDType(t, [&]<class T>(std::type_identity<T>) {
    auto add = [&](T value) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(T));
      all.push_back(bits);
    };
    if constexpr (std::same_as<T, bool>) {
      add(false);
      add(true);
    } else if constexpr (sectile::detail::FloatElement<T>) {
      constexpr double inf = std::numeric_limits<double>::infinity();
      for (double v :
           {0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, 1e30, 255.0, -129.0, inf, -inf, std::nan("")})
        add(sectile::detail::cast<T>(v));
      all.push_back(1);             // the least subnormal
      if constexpr (sizeof(T) == 1) // codes that no conversion gives: e5m2's infinities
        all.insert(all.end(), {0x7c, 0xfc});
    } else {
      for (T v : {T(0), T(1), T(-1), T(2), T(-7), T(sizeof(T) * 8), T(100), std::numeric_limits<T>::min(),
                  std::numeric_limits<T>::max()})
        add(v);
    }
  });
  return all;
}

bool isNan(DType t, std::uint64_t bits) {
  return sectile::detail::visitDType(t, [&]<class T>(std::type_identity<T>) {
    if constexpr (sectile::detail::FloatElement<T>) {
      T value;
      std::memcpy(static_cast<void *>(&value), &bits, sizeof(T));
      return sectile::detail::isNan(value);
    } else {
      return false;
    }
  });
}
bool sameValue(DType t, std::uint64_t a, std::uint64_t b) { return a == b || (isNan(t, a) && isNan(t, b)); }

std::uint64_t castBits(DType from, DType to, std::uint64_t bits) {
  return sectile::detail::visitDType(from, [&]<class From>(std::type_identity<From>) {
    From x;
    std::memcpy(static_cast<void *>(&x), &bits, sizeof(From));
    return sectile::detail::visitDType(to, [&]<class To>(std::type_identity<To>) {
      To y = sectile::detail::cast<To>(x);
      std::uint64_t result = 0;
      std::memcpy(&result, &y, sizeof(To));
      return result;
    });
  });
}

/// What the interpreter computes for `op`, a line that takes tiles %x0, %x1, .. and gives %y.
std::vector<std::uint64_t> interpreted(const std::string &op, std::vector<DType> types, DType result,
                                       const std::vector<std::vector<std::uint64_t>> &operands) {
  std::int64_t n = std::int64_t(operands[0].size());
  std::string arguments, body = "%z = tile.constant 0 : index\n";
  std::vector<std::vector<char>> memory;
  std::vector<KernelArg> args;
  types.push_back(result);
  for (std::size_t i = 0; i < types.size(); ++i) {
    std::string number = std::to_string(i), view = tensorType(1, types[i]);
    arguments += (i ? ", %a" : "%a") + number + ": " + view;
    std::size_t size = byteSize(types[i]);
    auto &bytes = memory.emplace_back(std::size_t(n) * size);
    if (i + 1 < types.size()) {
      body += "%x" + number + " = tile.load %a" + number + "[%z] : " + view + " -> " +
              tileType({n}, types[i]) + "\n";
      for (std::size_t lane = 0; lane < std::size_t(n); ++lane)
        std::memcpy(bytes.data() + lane * size, &operands[i][lane], size);
    } else {
      body += op + "\ntile.store %y, %a" + number + "[%z] : " + tileType({n}, result) + ", " + view;
    }
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    KernelArg arg;
    arg.dtype = types[i];
    arg.rank = 1;
    arg.data = memory[i].data();
    arg.dims[0] = n;
    arg.strides[0] = 1;
    args.push_back(arg);
  }
  Interpreted kernel(kernelText(arguments, body));
  INFO(kernel.messages);
  REQUIRE(kernel.program);
  kernel.program->run(args);
  std::vector<std::uint64_t> lanes(std::size_t(n), 0);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    std::memcpy(&lanes[lane], memory.back().data() + lane * byteSize(result), byteSize(result));
  return lanes;
}

/// Builds ops outside of any function and folds them.
struct Folder {
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  OpBuilder builder{&context};
  Location loc = UnknownLoc::get(&context);

  Folder() {
    context.loadDialect<tileir::TileDialect>();
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
  }
  Type type(DType t) { return tileir::elementType(&context, t); }
  Value constant(DType t, std::uint64_t bits) {
    Type element = type(t);
    TypedAttr value;
    if (auto floating = dyn_cast<FloatType>(element))
      value = FloatAttr::get(
          floating, llvm::APFloat(floating.getFloatSemantics(), llvm::APInt(floating.getWidth(), bits)));
    else
      value =
          IntegerAttr::get(element, llvm::APInt(t == DType::boolean ? 1 : unsigned(byteSize(t)) * 8, bits));
    return tileir::ConstantOp::create(builder, loc, value);
  }
  /// A value nothing is known of.
  Value unknown(DType t) {
    return UnrealizedConversionCastOp::create(builder, loc, TypeRange{type(t)}, ValueRange{}).getResult(0);
  }
  /// The folded result, null if the op does not fold.
  OpFoldResult fold(Operation *op) {
    llvm::SmallVector<OpFoldResult> results;
    return succeeded(op->fold(results)) && !results.empty() ? results[0] : OpFoldResult();
  }
};

std::uint64_t bitsOf(OpFoldResult result) {
  auto attr = cast<Attribute>(result);
  if (auto number = dyn_cast<FloatAttr>(attr))
    return number.getValue().bitcastToAPInt().getZExtValue();
  return cast<IntegerAttr>(attr).getValue().getZExtValue();
}

std::string spell(llvm::StringRef text) { return text.str(); }

} // namespace

TEST_CASE("a folded unary function is the interpreter's value") {
  std::set<std::string> folded;
  for (DType t : allTypes()) {
    Folder folder;
    for (std::size_t f = 0; f < numUnary; ++f) {
      auto fn = UnaryFn(f);
      tileir::Violation v;
      Type type = tileir::inferUnary(fn, folder.type(t), v);
      if (!type)
        continue;
      DType result = *tileir::dtypeOfType(type);
      auto values = specials(t);
      std::string name = spell(tileir::stringifyUnaryFn(fn));
      std::string tile = tileType({std::int64_t(values.size())}, t),
                  to = tileType({std::int64_t(values.size())}, result);
      auto want =
          interpreted("%y = tile.unary " + name + " %x0 : " + tile + " -> " + to, {t}, result, {values});
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto got = folder.fold(
            tileir::UnaryOp::create(folder.builder, folder.loc, type, fn, folder.constant(t, values[i])));
        if (!got)
          continue;
        folded.insert(name);
        INFO(name << " " << sectile::name(t) << " of bits " << values[i]);
        REQUIRE(sameValue(result, bitsOf(got), want[i]));
      }
    }
  }
  CHECK(folded == std::set<std::string>{"neg", "abs", "sqrt", "floor", "ceil", "round", "trunc", "bitnot",
                                        "isnan", "isinf"});
}

TEST_CASE("a folded binary function is the interpreter's value, and an identity is one") {
  std::set<std::string> folded, identities;
  for (DType t : allTypes()) {
    Folder folder;
    for (std::size_t f = 0; f < numBinary; ++f) {
      auto fn = BinaryFn(f);
      tileir::Violation v;
      if (!tileir::inferBinary(fn, folder.type(t), folder.type(t), v))
        continue;
      auto values = specials(t);
      std::vector<std::uint64_t> a, b;
      for (std::uint64_t x : values)
        for (std::uint64_t y : values)
          a.push_back(x), b.push_back(y);
      std::string name = spell(tileir::stringifyBinaryFn(fn));
      auto want =
          interpreted("%y = tile.binary " + name + " %x0, %x1 : " + tileType({std::int64_t(a.size())}, t),
                      {t, t}, t, {a, b});
      for (std::size_t i = 0; i < a.size(); ++i) {
        auto got = folder.fold(tileir::BinaryOp::create(folder.builder, folder.loc, fn,
                                                        folder.constant(t, a[i]), folder.constant(t, b[i])));
        if (!got)
          continue;
        folded.insert(name);
        INFO(name << " " << sectile::name(t) << " of bits " << a[i] << ", " << b[i]);
        REQUIRE(sameValue(t, bitsOf(got), want[i]));
      }
      Value x = folder.unknown(t);
      for (std::size_t c = 0; c < values.size(); ++c) {
        Value constant = folder.constant(t, values[c]);
        bool right(folder.fold(tileir::BinaryOp::create(folder.builder, folder.loc, fn, x, constant)));
        bool left(folder.fold(tileir::BinaryOp::create(folder.builder, folder.loc, fn, constant, x)));
        if (right || left)
          identities.insert(name);
        for (std::size_t i = 0; i < values.size(); ++i) {
          INFO(name << " " << sectile::name(t) << " with constant " << values[c] << " and x " << values[i]);
          REQUIRE((!right || sameValue(t, want[i * values.size() + c], values[i])));
          REQUIRE((!left || sameValue(t, want[c * values.size() + i], values[i])));
        }
      }
    }
  }
  CHECK(folded.size() == numBinary - 1); // all but pow
  CHECK(folded.count("pow") == 0);
  CHECK(identities == std::set<std::string>{"add", "sub", "mul", "div", "floordiv", "bitand", "bitor",
                                            "bitxor", "shl", "shr"});
}

TEST_CASE("a folded comparison is the interpreter's value") {
  for (DType t : allTypes()) {
    Folder folder;
    auto values = specials(t);
    std::vector<std::uint64_t> a, b;
    for (std::uint64_t x : values)
      for (std::uint64_t y : values)
        a.push_back(x), b.push_back(y);
    std::int64_t n = std::int64_t(a.size());
    for (std::size_t p = 0; p < numCompare; ++p) {
      auto pred = ComparePred(p);
      std::string name = spell(tileir::stringifyComparePred(pred));
      auto want = interpreted("%y = tile.compare " + name + " %x0, %x1 : " + tileType({n}, t) + " -> " +
                                  tileType({n}, DType::boolean),
                              {t, t}, DType::boolean, {a, b});
      for (std::size_t i = 0; i < a.size(); ++i) {
        auto got =
            folder.fold(tileir::CompareOp::create(folder.builder, folder.loc, folder.type(DType::boolean),
                                                  pred, folder.constant(t, a[i]), folder.constant(t, b[i])));
        REQUIRE(got);
        INFO(name << " " << sectile::name(t) << " of bits " << a[i] << ", " << b[i]);
        REQUIRE(bitsOf(got) == want[i]);
      }
    }
  }
}

TEST_CASE("folded casts are the interpreter's values, and casts compose only where that changes nothing") {
  int composed = 0;
  for (DType from : allTypes()) {
    Folder folder;
    auto values = specials(from);
    if (byteSize(from) == 1 && from != DType::boolean) {
      values.clear();
      for (std::uint64_t bits = 0; bits < 256; ++bits)
        values.push_back(bits);
    }
    std::int64_t n = std::int64_t(values.size());
    for (DType to : allTypes()) {
      auto want = interpreted("%y = tile.cast %x0 : " + tileType({n}, from) + " -> " + tileType({n}, to),
                              {from}, to, {values});
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto got = folder.fold(tileir::CastOp::create(folder.builder, folder.loc, folder.type(to),
                                                      folder.constant(from, values[i])));
        INFO(name(from) << " to " << name(to) << " of bits " << values[i]);
        REQUIRE((got || from == to));
        REQUIRE(sameValue(to, want[i], castBits(from, to, values[i])));
        if (isa<Attribute>(got))
          REQUIRE(sameValue(to, bitsOf(got), want[i]));
      }
      for (DType via : allTypes()) {
        if (via == from || via == to)
          continue;
        Value x = folder.unknown(from);
        auto inner = tileir::CastOp::create(folder.builder, folder.loc, folder.type(via), x);
        auto outer = tileir::CastOp::create(folder.builder, folder.loc, folder.type(to), inner);
        auto got = folder.fold(outer);
        bool toOperand = got && dyn_cast<Value>(got) == x;
        if (!toOperand && outer.getX() != x) // neither x itself nor one cast of x
          continue;
        ++composed;
        for (std::uint64_t bits : values) {
          INFO(name(from) << " to " << name(via) << " to " << name(to) << " of bits " << bits);
          REQUIRE(sameValue(to, toOperand ? bits : castBits(from, to, bits),
                            castBits(via, to, castBits(from, via, bits))));
        }
      }
    }
  }
  CHECK(composed > 100);
}
