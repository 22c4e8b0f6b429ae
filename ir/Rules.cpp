// SPDX-License-Identifier: Apache-2.0
#include "ir/Rules.h"

#include <fmt/core.h>

using namespace mlir;

namespace sectile::tileir {
namespace {

std::string list(llvm::ArrayRef<int64_t> values) {
  std::string text = "[";
  for (auto [i, v] : llvm::enumerate(values))
    text += (i ? ", " : "") + std::to_string(v);
  return text + "]";
}

/// Fills the violation; null, so that a rule is `return broken(...)`.
Inferred broken(Violation &v, llvm::StringRef op, std::string message, llvm::StringRef rule,
                std::string wayOut) {
  v = {op.str(), std::move(message), rule.str(), std::move(wayOut)};
  return {};
}

std::string nameOf(Type elementType) {
  if (auto dtype = dtypeOfType(elementType))
    return std::string(name(*dtype));
  return describe(elementType);
}

int64_t rankOf(Type t) { return int64_t(shapeOf(t).size()); }

Attribute encodingOf(Type t) {
  auto tile = dyn_cast<RankedTensorType>(t);
  return tile ? tile.getEncoding() : Attribute();
}

RankedTensorType tileOf(llvm::ArrayRef<int64_t> shape, Type element) {
  return RankedTensorType::get(shape, element);
}

/// Which element types a function takes.
enum class Domain { Floats, Integers, Numbers, IntegersAndBool, NumbersAndBool, Bool };

bool contains(Domain domain, DType t) {
  switch (domain) {
  case Domain::Floats:
    return isFloat(t);
  case Domain::Integers:
    return isInt(t);
  case Domain::Numbers:
    return isFloat(t) || isInt(t);
  case Domain::IntegersAndBool:
    return isInt(t) || t == DType::boolean;
  case Domain::NumbersAndBool:
    return !isStorage(t);
  case Domain::Bool:
    return t == DType::boolean;
  }
  return false;
}

std::string_view text(Domain domain) {
  switch (domain) {
  case Domain::Floats:
    return "floating-point types";
  case Domain::Integers:
    return "integers";
  case Domain::Numbers:
    return "numbers";
  case Domain::IntegersAndBool:
    return "integers and bool";
  case Domain::NumbersAndBool:
    return "every type that is computed with";
  case Domain::Bool:
    return "bool";
  }
  return "";
}

std::string castTo(Domain domain, llvm::StringRef operand, std::optional<DType> from) {
  if (from && isStorage(*from) && domain != Domain::Bool)
    domain = Domain::Floats;
  switch (domain) {
  case Domain::Floats:
    return fmt::format("cast it first: cast<f32>({})", operand.str());
  case Domain::Bool:
    return fmt::format("compare it with zero first: {} != 0", operand.str());
  default:
    return fmt::format("cast it first: cast<i32>({})", operand.str());
  }
}

Domain domainOf(UnaryFn fn) {
  switch (fn) {
  case UnaryFn::k_neg:
  case UnaryFn::k_abs:
    return Domain::Numbers;
  case UnaryFn::k_bitnot:
    return Domain::IntegersAndBool;
  default:
    return Domain::Floats;
  }
}

Domain domainOf(BinaryFn fn) {
  switch (fn) {
  case BinaryFn::k_add:
  case BinaryFn::k_sub:
  case BinaryFn::k_mul:
  case BinaryFn::k_div:
  case BinaryFn::k_rem:
  case BinaryFn::k_maxnum:
  case BinaryFn::k_minnum:
    return Domain::Numbers;
  case BinaryFn::k_max:
  case BinaryFn::k_min:
    return Domain::NumbersAndBool;
  case BinaryFn::k_pow:
    return Domain::Floats;
  case BinaryFn::k_floordiv:
  case BinaryFn::k_floormod:
  case BinaryFn::k_shl:
  case BinaryFn::k_shr:
    return Domain::Integers;
  case BinaryFn::k_bitand:
  case BinaryFn::k_bitor:
  case BinaryFn::k_bitxor:
    return Domain::IntegersAndBool;
  }
  return Domain::NumbersAndBool;
}

Domain domainOf(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::k_any:
  case ReduceKind::k_all:
    return Domain::Bool;
  default:
    return Domain::Numbers;
  }
}

llvm::StringRef userName(UnaryFn fn) {
  switch (fn) {
  case UnaryFn::k_neg:
    return "-";
  case UnaryFn::k_bitnot:
    return "~";
  default:
    return stringifyUnaryFn(fn);
  }
}

llvm::StringRef userName(BinaryFn fn) {
  switch (fn) {
  case BinaryFn::k_add:
    return "+";
  case BinaryFn::k_sub:
    return "-";
  case BinaryFn::k_mul:
    return "*";
  case BinaryFn::k_div:
    return "/";
  case BinaryFn::k_rem:
    return "%";
  case BinaryFn::k_floordiv:
    return "floorDiv";
  case BinaryFn::k_floormod:
    return "floorMod";
  case BinaryFn::k_maxnum:
    return "maxNum";
  case BinaryFn::k_minnum:
    return "minNum";
  case BinaryFn::k_bitand:
    return "&";
  case BinaryFn::k_bitor:
    return "|";
  case BinaryFn::k_bitxor:
    return "^";
  case BinaryFn::k_shl:
    return "<<";
  case BinaryFn::k_shr:
    return ">>";
  default:
    return stringifyBinaryFn(fn);
  }
}

llvm::StringRef userName(ComparePred pred) {
  switch (pred) {
  case ComparePred::k_eq:
    return "==";
  case ComparePred::k_ne:
    return "!=";
  case ComparePred::k_lt:
    return "<";
  case ComparePred::k_le:
    return "<=";
  case ComparePred::k_gt:
    return ">";
  case ComparePred::k_ge:
    return ">=";
  }
  return "";
}

llvm::StringRef userName(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::k_maxnum:
    return "maxNum";
  case ReduceKind::k_minnum:
    return "minNum";
  default:
    return stringifyReduceKind(kind);
  }
}

/// C1 and C2 of the elementwise ops of two operands.
bool sameElementAndShape(llvm::StringRef op, Type a, Type b, llvm::StringRef c1, llvm::StringRef c2,
                         Violation &v) {
  if (elementOf(a) != elementOf(b)) {
    broken(v, op, fmt::format("a is {}, b is {}", nameOf(elementOf(a)), nameOf(elementOf(b))), c1,
           fmt::format("cast one of them: cast<{}>(b)", nameOf(elementOf(a))));
    return false;
  }
  if (shapeOf(a) != shapeOf(b) || isa<RankedTensorType>(a) != isa<RankedTensorType>(b)) {
    broken(v, op, fmt::format("shape of a {} differs from shape of b {}", list(shapeOf(a)), list(shapeOf(b))),
           c2, "broadcast or reshape one of them first");
    return false;
  }
  if (encodingOf(a) != encodingOf(b)) {
    broken(v, op, "a and b have different layouts", c2, "convert one of them first");
    return false;
  }
  return true;
}

} // namespace

Inferred inferUnary(UnaryFn fn, Type x, Violation &v) {
  auto dtype = dtypeOfType(elementOf(x));
  Domain domain = domainOf(fn);
  if (!dtype || fn == UnaryFn::k_bits || !contains(domain, *dtype)) // unary_c1
    return broken(
        v, userName(fn),
        fmt::format("{} is defined on {}, x is {}", stringifyUnaryFn(fn).str(), text(domain), describe(x)),
        "unary_c1", castTo(domain, "x", dtype));
  if (fn == UnaryFn::k_isnan || fn == UnaryFn::k_isinf)
    return withElement(x, IntegerType::get(x.getContext(), 1));
  return x;
}

Inferred inferBits(Type x, DType to, Violation &v) {
  auto from = dtypeOfType(elementOf(x));
  auto hasBits = [](DType t) { return t != DType::boolean && t != DType::index; };
  if (!from || !hasBits(*from) || !hasBits(to) || byteSize(*from) != byteSize(to)) // unary_c3
    return broken(v, "bitsAs", fmt::format("x is {}, the result {}: they have no bytes in common", describe(x), name(to)),
                  "unary_c3", "name a type of equally many bytes, neither bool nor index");
  return withElement(x, elementType(x.getContext(), to));
}

Inferred inferBinary(BinaryFn fn, Type a, Type b, Violation &v) {
  if (!sameElementAndShape(userName(fn), a, b, "binary_c1", "binary_c2", v))
    return {};
  auto dtype = dtypeOfType(elementOf(a));
  Domain domain = domainOf(fn);
  if (!dtype || !contains(domain, *dtype)) // binary_c3
    return broken(
        v, userName(fn),
        fmt::format("{} is defined on {}, a is {}", stringifyBinaryFn(fn).str(), text(domain), describe(a)),
        "binary_c3", castTo(domain, "a", dtype) + ", and b likewise");
  return a;
}

Inferred inferCompare(ComparePred pred, Type a, Type b, Violation &v) {
  if (!sameElementAndShape(userName(pred), a, b, "compare_c1", "compare_c2", v))
    return {};
  if (auto dtype = dtypeOfType(elementOf(a)); dtype && isStorage(*dtype)) // compare_c4
    return broken(v, userName(pred), fmt::format("a and b are {}, which nothing is computed with", describe(a)), "compare_c4",
                  "cast both first: cast<f32>(a)");
  return withElement(a, IntegerType::get(a.getContext(), 1));
}

Inferred inferSelect(Type cond, Type a, Type b, Violation &v) {
  if (!elementOf(cond).isInteger(1)) // select_c1
    return broken(v, "select", fmt::format("the condition is {}, not bool", describe(cond)), "select_c1",
                  "compare it with zero first: cond != 0");
  if (isa<RankedTensorType>(cond) && (shapeOf(cond) != shapeOf(a) || encodingOf(cond) != encodingOf(a)))
    return broken(v, "select",
                  shapeOf(cond) != shapeOf(a)
                      ? fmt::format("shape of the condition {} differs from shape of a {}",
                                    list(shapeOf(cond)), list(shapeOf(a)))
                      : std::string("the condition and a have different layouts"),
                  "select_c1", "broadcast the condition first");
  if (a != b) // select_c2
    return broken(v, "select",
                  describe(a) == describe(b) ? std::string("a and b have different layouts")
                                             : fmt::format("a is {}, b is {}", describe(a), describe(b)),
                  "select_c2", fmt::format("cast or broadcast b to {}", describe(a)));
  return a;
}

Inferred inferFma(Type a, Type b, Type c, Violation &v) {
  if (!elementOf(a).isF32() && !elementOf(a).isF64()) // fma_c1
    return broken(v, "fma", fmt::format("fma is defined on f32 and f64, a is {}", describe(a)), "fma_c1",
                  "cast a, b and c to f32");
  for (auto [name, type] : {std::pair("b", b), std::pair("c", c)})
    if (type != a) // fma_c1
      return broken(v, "fma",
                    fmt::format("a is {}, {} is {}", describe(a), name, describe(type)),
                    "fma_c1", fmt::format("cast or broadcast {} to {}", name, describe(a)));
  return a;
}

Inferred inferCast(Type x, DType to, Violation &v) {
  (void)v; // every type can be cast to every other
  return withElement(x, elementType(x.getContext(), to));
}

std::optional<llvm::SmallVector<int64_t>> inferBroadcastShape(llvm::StringRef op, Type a, Type b,
                                                              Violation &v) {
  auto sa = shapeOf(a), sb = shapeOf(b);
  if (sa.empty() || sb.empty())
    return llvm::SmallVector<int64_t>(sa.empty() ? sb : sa);
  if (sa.size() != sb.size()) { // broadcast_c1
    broken(v, op, fmt::format("rank of a {} differs from rank of b {}", list(sa), list(sb)), "broadcast_c1",
           "reshape one of them so that both have the same number of axes");
    return std::nullopt;
  }
  llvm::SmallVector<int64_t> shape;
  for (auto [d, la] : llvm::enumerate(sa)) {
    int64_t lb = sb[d];
    if (la != lb && la != 1 && lb != 1) { // broadcast_c2
      broken(v, op,
             fmt::format("length {} of a {} differs from length {} of b {} along axis {}", la, list(sa), lb,
                         list(sb), d),
             "broadcast_c2", "only axes of length 1 repeat: make both lengths equal or one of them 1");
      return std::nullopt;
    }
    shape.push_back(la == 1 ? lb : la);
  }
  return shape;
}

Inferred inferBroadcast(Type x, llvm::ArrayRef<int64_t> shape, Violation &v) {
  auto from = shapeOf(x);
  if (from.size() != shape.size()) // broadcast_c1
    return broken(v, "broadcast",
                  fmt::format("rank of x {} differs from rank of the result {}", list(from), list(shape)),
                  "broadcast_c1", "reshape x so that both have the same number of axes");
  for (auto [d, length] : llvm::enumerate(from))
    if (length != 1 && length != shape[d]) // broadcast_c2
      return broken(v, "broadcast",
                    fmt::format("length {} of x {} cannot repeat to length {} of {} along axis {}", length,
                                list(from), shape[d], list(shape), d),
                    "broadcast_c2", "only axes of length 1 repeat");
  return tileOf(shape, elementOf(x));
}

Inferred inferReshape(Type x, llvm::ArrayRef<int64_t> shape, Violation &v) {
  int64_t from = 1, to = 1;
  for (int64_t length : shapeOf(x))
    from *= length;
  for (int64_t length : shape)
    to *= length;
  if (from != to) // reshape_c1
    return broken(
        v, "reshape",
        fmt::format("x {} has {} elements, the result {} has {}", list(shapeOf(x)), from, list(shape), to),
        "reshape_c1", "the products of both shapes must be equal");
  if (shape.empty())
    return elementOf(x);
  return tileOf(shape, elementOf(x));
}

Inferred inferPermute(Type x, llvm::ArrayRef<int64_t> perm, Violation &v) {
  auto from = shapeOf(x);
  llvm::SmallVector<bool> seen(from.size());
  bool good = perm.size() == from.size();
  for (int64_t axis : perm) {
    good = good && axis >= 0 && axis < int64_t(from.size()) && !seen[axis];
    if (good)
      seen[axis] = true;
  }
  if (!good) // permute_c1
    return broken(
        v, "permute",
        fmt::format("{} is no permutation of the {} axes of x {}", list(perm), from.size(), list(from)),
        "permute_c1", fmt::format("name every axis from 0 to {} once", int64_t(from.size()) - 1));
  llvm::SmallVector<int64_t> shape;
  for (int64_t axis : perm)
    shape.push_back(from[axis]);
  return tileOf(shape, elementOf(x));
}

Inferred inferReduce(ReduceKind kind, Type x, int64_t axis, Violation &v) {
  if (!checkAxis(userName(kind), axis, rankOf(x), "reduce_c1", v))
    return {};
  auto dtype = dtypeOfType(elementOf(x));
  Domain domain = domainOf(kind);
  if (!dtype || !contains(domain, *dtype)) // reduce_c2
    return broken(v, userName(kind),
                  fmt::format("{} is defined on {}, x is {}", stringifyReduceKind(kind).str(), text(domain),
                              describe(x)),
                  "reduce_c2", castTo(domain, "x", dtype));
  llvm::SmallVector<int64_t> shape(shapeOf(x));
  shape[axis] = 1;
  bool position = kind == ReduceKind::k_argmax || kind == ReduceKind::k_argmin;
  return tileOf(shape, position ? IndexType::get(x.getContext()) : elementOf(x));
}

Inferred inferMma(MmaPolicy policy, Type a, Type b, Type acc, Violation &v) {
  auto sa = shapeOf(a), sb = shapeOf(b), sc = shapeOf(acc);
  for (auto [operand, shape] : {std::pair("a", sa), std::pair("b", sb), std::pair("acc", sc)})
    if (shape.size() != 2) // mma_c5
      return broken(v, "mma", fmt::format("{} {} has rank {}, not 2", operand, list(shape), shape.size()),
                    "mma_c5", fmt::format("drop or reshape axes of {} until two are left", operand));
  if (sa[1] != sb[0]) // mma_c1
    return broken(v, "mma", fmt::format("K of a ({}) differs from K of b ({})", sa[1], sb[0]), "mma_c1",
                  fmt::format("load b as [{}, N]", sa[1]));
  if (sc[0] != sa[0] || sc[1] != sb[1]) // mma_c2
    return broken(v, "mma", fmt::format("acc is {}, a times b is {}", list(sc), list({sa[0], sb[1]})),
                  "mma_c2", fmt::format("make acc {}", list({sa[0], sb[1]})));
  auto da = dtypeOfType(elementOf(a)), db = dtypeOfType(elementOf(b)), dc = dtypeOfType(elementOf(acc));
  auto isFp8 = [](std::optional<DType> t) { return t == DType::e4m3 || t == DType::e5m2; };
  if (da != db && !(isFp8(da) && isFp8(db))) // mma_c3
    return broken(v, "mma", fmt::format("a is {}, b is {}", nameOf(elementOf(a)), nameOf(elementOf(b))),
                  "mma_c3", fmt::format("cast one of them: cast<{}>(b)", nameOf(elementOf(a))));
  llvm::SmallVector<DType, 2> fits; // mma_c4
  switch (da.value_or(DType::boolean)) {
  case DType::f16:
    fits = {DType::f32, DType::f16};
    break;
  case DType::bf16:
  case DType::e4m3:
  case DType::e5m2:
  case DType::f32:
    fits = {DType::f32};
    break;
  case DType::f64:
    fits = {DType::f64};
    break;
  case DType::i8:
  case DType::u8:
    fits = {DType::i32};
    break;
  default:
    return broken(v, "mma",
                  fmt::format("no product of {} and {} exists", nameOf(elementOf(a)), nameOf(elementOf(b))),
                  "mma_c4", "cast a and b to f16, bf16, e4m3, e5m2, f32, f64, i8 or u8");
  }
  if (!dc || !llvm::is_contained(fits, *dc)) {
    std::string names(name(fits[0]));
    if (fits.size() > 1)
      names += " or " + std::string(name(fits[1]));
    return broken(v, "mma",
                  fmt::format("acc is {}, a product of {} accumulates in {}", nameOf(elementOf(acc)),
                              nameOf(elementOf(a)), names),
                  "mma_c4", fmt::format("make acc {}", name(fits[0])));
  }
  if (policy == MmaPolicy::k_tf32 && da != DType::f32) // mma_c6
    return broken(v, "mma", fmt::format("the policy is tf32, a and b are {}", nameOf(elementOf(a))), "mma_c6",
                  "leave the policy away, or cast a and b to f32");
  return acc;
}

Inferred inferLoad(TensorType x, size_t numOffsets, llvm::ArrayRef<int64_t> shape, Violation &v) {
  if (int64_t(numOffsets) != x.getRank()) // load_c1
    return broken(v, "load", fmt::format("{} offsets for a tensor of rank {}", numOffsets, x.getRank()),
                  "load_c1", fmt::format("give {} offsets, one per axis", x.getRank()));
  if (int64_t(shape.size()) != x.getRank()) // load_c2
    return broken(
        v, "load",
        fmt::format("shape {} has rank {}, the tensor has rank {}", list(shape), shape.size(), x.getRank()),
        "load_c2",
        fmt::format("give {} lengths, one per axis; 1 for an axis to be dropped later", x.getRank()));
  for (auto [d, length] : llvm::enumerate(shape))
    if (length < 1) // load_c4
      return broken(v, "load",
                    fmt::format("length {} of axis {} in shape {} is below 1", length, d, list(shape)),
                    "load_c4", "every length is at least 1");
  return tileOf(shape, x.getElementType());
}

bool checkStore(Type value, TensorType x, size_t numOffsets, bool readOnly, Violation &v) {
  if (readOnly) { // store_c4
    broken(v, "store", fmt::format("the tensor of {} is read-only", nameOf(x.getElementType())), "store_c4",
           fmt::format("declare the parameter as Tensor<{}, {}> without const", nameOf(x.getElementType()),
                       x.getRank()));
    return false;
  }
  if (int64_t(numOffsets) != x.getRank()) { // store_c1
    broken(v, "store", fmt::format("{} offsets for a tensor of rank {}", numOffsets, x.getRank()), "store_c1",
           fmt::format("give {} offsets, one per axis", x.getRank()));
    return false;
  }
  if (rankOf(value) != x.getRank()) { // store_c2
    broken(v, "store",
           fmt::format("the tile {} has rank {}, the tensor has rank {}", list(shapeOf(value)), rankOf(value),
                       x.getRank()),
           "store_c2", "add axes of length 1 to the tile or drop them");
    return false;
  }
  if (elementOf(value) != x.getElementType()) { // store_c3
    broken(
        v, "store",
        fmt::format("the tile is {}, the tensor is {}", nameOf(elementOf(value)), nameOf(x.getElementType())),
        "store_c3", fmt::format("cast the tile: cast<{}>(value)", nameOf(x.getElementType())));
    return false;
  }
  return true;
}

Inferred inferGather(TensorType x, llvm::ArrayRef<Type> indices, Violation &v) {
  if (int64_t(indices.size()) != x.getRank()) // gather_c1
    return broken(v, "gather", fmt::format("{} indices for a tensor of rank {}", indices.size(), x.getRank()),
                  "gather_c1", fmt::format("give {} indices, one per axis", x.getRank()));
  Type first; // the first index that is a tile
  for (auto [i, t] : llvm::enumerate(indices)) {
    if (!isa<IndexType>(elementOf(t))) // gather_c2
      return broken(v, "gather", fmt::format("index {} is {}, not index", i, describe(t)), "gather_c2",
                    fmt::format("cast it first: cast<index>(i{})", i));
    if (!isa<RankedTensorType>(t))
      continue;
    if (!first)
      first = t;
    else if (shapeOf(first) != shapeOf(t))
      return broken(v, "gather",
                    fmt::format("index tiles have shapes {} and {}", list(shapeOf(first)), list(shapeOf(t))),
                    "gather_c2", "broadcast the index tiles to one shape first");
    else if (first != t)
      return broken(v, "gather", "index tiles have different layouts", "gather_c2",
                    "convert one of them first");
  }
  return first ? withElement(first, x.getElementType()) : x.getElementType();
}

Inferred inferKeep(Type mask, Type x, Violation &v) {
  if (!isa<RankedTensorType>(x)) // keep_c2
    return broken(v, "keep", fmt::format("x is a scalar of {}, not a tile of rank 1 or more", describe(x)),
                  "keep_c2", "use select for a scalar");
  if (!elementOf(mask).isInteger(1)) // keep_c1
    return broken(v, "keep", fmt::format("the mask is {}, not bool", describe(mask)), "keep_c1",
                  "compare it with zero first: mask != 0");
  if (shapeOf(mask) != shapeOf(x))
    return broken(
        v, "keep",
        fmt::format("shape of the mask {} differs from shape of x {}", list(shapeOf(mask)), list(shapeOf(x))),
        "keep_c1", "broadcast the mask first");
  if (encodingOf(mask) != encodingOf(x))
    return broken(v, "keep", "the mask and x have different layouts", "keep_c1", "convert one of them first");
  return x;
}

Inferred inferFill(Type x, Type value, Violation &v) {
  if (elementOf(x) != value) // fill_c1
    return broken(v, "fill",
                  fmt::format("the tile is {}, the value is {}", nameOf(elementOf(x)), describe(value)),
                  "fill_c1", fmt::format("cast the value: cast<{}>(value)", nameOf(elementOf(x))));
  return x;
}

Inferred inferIota(MLIRContext *context, int64_t axis, llvm::ArrayRef<int64_t> shape, Violation &v) {
  if (!checkAxis("iota", axis, int64_t(shape.size()), "iota_c1", v))
    return {};
  return tileOf(shape, IndexType::get(context));
}

bool checkAxis(llvm::StringRef op, int64_t axis, int64_t rank, llvm::StringRef rule, Violation &v) {
  if (axis >= 0 && axis < rank)
    return true;
  broken(v, op, fmt::format("axis {} of a rank {} operand", axis, rank), rule,
         rank ? fmt::format("axes are 0 to {}", rank - 1) : std::string("a scalar has no axes"));
  return false;
}

bool checkGrid(TensorType x, llvm::ArrayRef<int64_t> sizes, Violation &v) {
  if (sizes.empty() || int64_t(sizes.size()) > x.getRank()) { // grid_c2
    broken(v, "grid", fmt::format("{} sizes for a tensor of rank {}", sizes.size(), x.getRank()), "grid_c2",
           fmt::format("give 1 to {} sizes, one per leading axis", x.getRank()));
    return false;
  }
  for (auto [d, size] : llvm::enumerate(sizes))
    if (size < 1) { // grid_c3
      broken(v, "grid", fmt::format("size {} of axis {} is below 1", size, d), "grid_c3",
             "every size is at least 1");
      return false;
    }
  return true;
}

} // namespace sectile::tileir
