// SPDX-License-Identifier: Apache-2.0
/// \file Global memory: bounded loads and stores in vectors as wide as is proved, masked gathers.
///
/// Address of register r = base of the thread + the register's own part. The base is summed once per op; the
/// register's part is a constant along the axis of stride 1 and constant * stride along the others.
/// Where the tensor is known to be small the sums are in 32 bits, and one addition of 64 bits makes the pointer.
/// A bounded access is one predicated instruction, so that many are in flight at once.
#include "codegen/EmitContext.h"
#include "ir/LooseLoads.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/MDBuilder.h"

#include <bit>

namespace sectile::codegen {

// --- vectors in memory form
// ---------------------------------------------------------------------------------------

llvm::Type *EmitContext::memoryVector(DType t, int n) {
  llvm::Type *element = t == DType::boolean ? b.getInt8Ty() : elementLlvm(t);
  return llvm::FixedVectorType::get(element, unsigned(n));
}

llvm::Value *EmitContext::packVector(DType t, llvm::ArrayRef<llvm::Value *> elements) {
  llvm::Value *r = llvm::PoisonValue::get(memoryVector(t, int(elements.size())));
  for (auto [k, e] : llvm::enumerate(elements))
    r = b.CreateInsertElement(r, t == DType::boolean ? b.CreateZExt(e, b.getInt8Ty()) : e, std::uint64_t(k));
  return r;
}

void EmitContext::unpackVector(DType t, llvm::Value *vector, llvm::MutableArrayRef<llvm::Value *> elements) {
  for (auto [k, e] : llvm::enumerate(elements)) {
    e = b.CreateExtractElement(vector, std::uint64_t(k));
    if (t == DType::boolean)
      e = b.CreateICmpNE(e, b.getInt8(0));
  }
}

llvm::Type *EmitContext::wordType(llvm::Type *vector, int &count) {
  unsigned bits = unsigned(vector->getPrimitiveSizeInBits());
  unsigned word = vector->getScalarSizeInBits() == 64 ? 64 : std::min(bits, 32u);
  count = int(bits / word);
  llvm::Type *type = b.getIntNTy(word);
  return count == 1 ? type : llvm::FixedVectorType::get(type, unsigned(count));
}

namespace {
/// "v4.b32", "b16", ...
std::string accessSuffix(unsigned wordBits, int count) {
  std::string bits = "b" + std::to_string(wordBits);
  return count == 1 ? bits : "v" + std::to_string(count) + "." + bits;
}
/// Register class of a word; bytes travel in 16-bit registers.
std::string constraintOf(unsigned wordBits) { return wordBits == 64 ? "l" : wordBits == 32 ? "r" : "h"; }
/// "{$0, $1}" or "$0".
std::string operandList(int first, int count) {
  std::string r;
  for (int k = 0; k < count; ++k)
    r += (k ? ", $" : "$") + std::to_string(first + k);
  return count == 1 ? r : "{" + r + "}";
}
} // namespace

llvm::Value *EmitContext::loadGlobal(DType t, int n, llvm::Value *pointer, llvm::Value *predicate,
                                     llvm::Value *pad, llvm::Value *policy) {
  llvm::Type *vector = memoryVector(t, n);
  llvm::Align align(byteSize(t) * std::uint64_t(n));
  if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(predicate); known && (known->isZero() || !policy)) {
    if (known->isZero())
      return pad;
    return b.CreateAlignedLoad(vector, pointer, align);
  }
  int count = 0;
  llvm::Type *words = wordType(vector, count);
  unsigned wordBits = words->getScalarSizeInBits();
  llvm::Type *reg = b.getIntNTy(std::max(16u, wordBits));
  llvm::Value *padWords = b.CreateBitCast(pad, words);

  llvm::SmallVector<llvm::Value *> args;
  llvm::SmallVector<llvm::Type *> argTypes, results;
  std::string outs, ties;
  for (int k = 0; k < count; ++k) {
    llvm::Value *word = count == 1 ? padWords : b.CreateExtractElement(padWords, std::uint64_t(k));
    args.push_back(b.CreateZExt(word, reg));
    argTypes.push_back(reg);
    results.push_back(reg);
    outs += "=" + constraintOf(wordBits) + ",";
    ties += std::to_string(k) + ",";
  }
  args.append({predicate, pointer});
  argTypes.append({predicate->getType(), pointer->getType()});
  std::string text = "@$" + std::to_string(2 * count) + " ld.global." + (policy ? "L2::cache_hint." : "") +
                     accessSuffix(wordBits, count) + " " + operandList(0, count) + ", [$" + std::to_string(2 * count + 1) + "]";
  if (policy) {
    args.push_back(policy);
    argTypes.push_back(policy->getType());
    text += ", $" + std::to_string(2 * count + 2);
  }
  text += ";";
  llvm::Type *result = count == 1 ? reg : llvm::StructType::get(ctx, results);
  llvm::InlineAsm *load = llvm::InlineAsm::get(llvm::FunctionType::get(result, argTypes, false), text,
                                               outs + ties + (policy ? "b,l,l" : "b,l"), /*hasSideEffects=*/true);
  llvm::CallInst *call = b.CreateCall(load, args);
  call->setDoesNotThrow();
  call->setOnlyReadsMemory();
  llvm::Value *loaded;
  if (count == 1) {
    loaded = b.CreateTrunc(call, words);
  } else {
    loaded = llvm::PoisonValue::get(words);
    for (int k = 0; k < count; ++k)
      loaded = b.CreateInsertElement(loaded, b.CreateExtractValue(call, unsigned(k)), std::uint64_t(k));
  }
  return b.CreateBitCast(loaded, vector);
}

llvm::Value *EmitContext::evictPolicy(mlir::Operation *access) {
  auto hint = access->getAttrOfType<mlir::StringAttr>(tgpu::evictAttr);
  if (!hint)
    return nullptr;
  auto *type = llvm::FunctionType::get(b.getInt64Ty(), {}, false);
  return b.CreateCall(llvm::InlineAsm::get(type, ("createpolicy.fractional.L2::evict_" + hint.getValue() + ".b64 $0;").str(), "=l",
                                           /*hasSideEffects=*/false),
                      {});
}

void EmitContext::storeGlobal(llvm::Value *vector, llvm::Value *pointer, llvm::Value *predicate, llvm::Value *policy) {
  std::uint64_t bytes = vector->getType()->getPrimitiveSizeInBits() / 8;
  if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(predicate); known && (known->isZero() || !policy)) {
    if (!known->isZero())
      b.CreateAlignedStore(vector, pointer, llvm::Align(bytes));
    return;
  }
  int count = 0;
  llvm::Type *words = wordType(vector->getType(), count);
  unsigned wordBits = words->getScalarSizeInBits();
  llvm::Type *reg = b.getIntNTy(std::max(16u, wordBits));
  llvm::Value *asWords = b.CreateBitCast(vector, words);
  llvm::SmallVector<llvm::Value *> args{predicate, pointer};
  llvm::SmallVector<llvm::Type *> argTypes{predicate->getType(), pointer->getType()};
  std::string constraints = "b,l";
  for (int k = 0; k < count; ++k) {
    llvm::Value *word = count == 1 ? asWords : b.CreateExtractElement(asWords, std::uint64_t(k));
    args.push_back(b.CreateZExt(word, reg));
    argTypes.push_back(reg);
    constraints += "," + constraintOf(wordBits);
  }
  std::string text = std::string("@$0 st.global.") + (policy ? "L2::cache_hint." : "") + accessSuffix(wordBits, count) + " [$1], " +
                     operandList(2, count);
  if (policy) {
    args.push_back(policy);
    argTypes.push_back(policy->getType());
    constraints += ",l";
    text += ", $" + std::to_string(2 + count);
  }
  text += ";";
  llvm::InlineAsm *store = llvm::InlineAsm::get(llvm::FunctionType::get(b.getVoidTy(), argTypes, false), text,
                                                constraints + ",~{memory}", /*hasSideEffects=*/true);
  b.CreateCall(store, args)->setDoesNotThrow();
}

// --- addresses and bounds of one access
// ---------------------------------------------------------------------------

/// Addresses, predicates and vector groups of a bounded access to a tensor view.
class GlobalEmission {
public:
  GlobalEmission(EmitContext &e, const tgpu::GlobalAccess &access, const Layout &layout)
      : plan(tgpu::planGlobal(e.indexFacts, access, layout)), e(e), b(e.b), g(e.geometry(layout)),
        view(e.view(access.tensor)), element(e.dtype(access.tensor.getType())), rank(layout.rank()),
        unitAxis(tgpu::memoryRun(e.indexFacts, access).axis) {
    isSmall = tileir::hasSmallOffsets(access.tensor);
    base = isSmall ? e.i32(0) : view.pointer;
    for (int d = 0; d < rank; ++d) {
      llvm::Value *c = b.CreateTrunc(e.scalar(access.offsets[size_t(d)]), offsetType());
      if (g.disjoint[size_t(d)])
        c = b.CreateAdd(c, b.CreateZExt(g.thread[size_t(d)], offsetType()));
      base = plus(base, scaled(c, d));
    }
    for (auto [k, axis] : llvm::enumerate(access.axes))
      bounds.push_back(e.axisBound(g, int(axis), access.lo[k], access.hi[k]));
  }
  const tgpu::VectorPlan plan;

  /// A vector as 32- or 64-bit words, or what a shorter one has; and back.
  void appendWords(llvm::Value *vector, Regs &words) {
    int count = 0;
    llvm::Value *all = b.CreateBitCast(vector, e.wordType(vector->getType(), count));
    for (int k = 0; k < count; ++k)
      words.push_back(count == 1 ? all : b.CreateExtractElement(all, std::uint64_t(k)));
  }
  Regs elementsOf(llvm::ArrayRef<llvm::Value *> words) {
    llvm::Value *all = words.front();
    if (words.size() > 1) {
      all = llvm::PoisonValue::get(llvm::FixedVectorType::get(all->getType(), unsigned(words.size())));
      for (auto [k, word] : llvm::enumerate(words))
        all = b.CreateInsertElement(all, word, std::uint64_t(k));
    }
    Regs elements(size_t(plan.width()), nullptr);
    e.unpackVector(element, b.CreateBitCast(all, e.memoryVector(element, plan.width())), elements);
    return elements;
  }

  /// i1, the same for all threads: see looseVectorsInside.
  llvm::Value *vectorsInside(const tgpu::GlobalAccess &access) {
    llvm::Value *first = e.i64(0), *last = e.i64(0), *end = e.i64(1), *positive = b.getTrue();
    for (int d = 0; d < rank; ++d) {
      const std::int32_t length = g.layout.dim(d);
      llvm::Value *lo = e.i64(0), *hi = e.i64(length);
      if (const auto *at = llvm::find(access.axes, d); at != access.axes.end()) {
        const size_t k = size_t(at - access.axes.begin());
        lo = b.CreateZExt(e.boundInTile(access.lo[k], length), b.getInt64Ty());
        hi = b.CreateZExt(e.boundInTile(access.hi[k], length), b.getInt64Ty());
      }
      if (d == plan.axis()) {
        lo = b.CreateAnd(lo, e.i64(-plan.width()));
        hi = b.CreateAnd(b.CreateAdd(hi, e.i64(plan.width() - 1)), e.i64(-plan.width()));
      }
      llvm::Value *stride = view.strides[size_t(d)], *offset = e.scalar(access.offsets[size_t(d)]);
      auto plusScaled = [&](llvm::Value *to, llvm::Value *c) { return b.CreateAdd(to, b.CreateMul(c, stride)); };
      first = plusScaled(first, b.CreateAdd(offset, lo));
      last = plusScaled(last, b.CreateAdd(offset, b.CreateSub(hi, e.i64(1))));
      end = plusScaled(end, b.CreateSub(view.dims[size_t(d)], e.i64(1)));
      positive = b.CreateAnd(positive, b.CreateICmpSGE(stride, e.i64(0)));
    }
    return b.CreateAnd(positive, b.CreateAnd(b.CreateICmpSGE(first, e.i64(0)), b.CreateICmpSLT(last, end)));
  }
  /// i1: the thread's elements all exist.
  llvm::Value *allInside() { return e.allInside(g, bounds); }
  bool fewHaveOutside() const { return EmitContext::fewHaveOutside(g.layout, bounds); }
  /// i1: some of the vector exists.
  llvm::Value *someOf(llvm::ArrayRef<int> registers) { return e.overlaps(g, registers, bounds); }

  llvm::Value *pointer(int reg) {
    // Rows first: registers of one row share the pointer and differ by a constant.
    std::vector<std::int32_t> key;
    for (int d = 0; d < rank; ++d)
      key.push_back(d == unitAxis && g.disjoint[size_t(d)] ? 0 : g.regs[size_t(reg)][d]);
    llvm::Value *&row = made.rows[key];
    if (!row) {
      row = base;
      for (int d = 0; d < rank; ++d)
        if (!(d == unitAxis && g.disjoint[size_t(d)]))
          row = plus(row, term(reg, d));
      // An element's offset is below 2^31 bytes, and the row's start is less than a tile before that: it may be
      // negative, but fits.
      if (isSmall)
        row = b.CreateGEP(b.getIntNTy(unsigned(8 * byteSize(element))), view.pointer,
                          b.CreateSExt(row, b.getInt64Ty()));
    }
    if (unitAxis < 0 || !g.disjoint[size_t(unitAxis)])
      return row;
    return b.CreateGEP(b.getInt8Ty(), row,
                       e.i64(std::int64_t(g.regs[size_t(reg)][unitAxis]) * std::int64_t(byteSize(element))));
  }

  /// i1: the register's coordinates lie inside the bounds.
  llvm::Value *inside(int reg) {
    std::vector<std::int32_t> key;
    for (const EmitContext::AxisBound &bound : bounds)
      key.push_back(g.regs[size_t(reg)][bound.axis]);
    llvm::Value *&known = made.predicates[key];
    if (!known) {
      known = b.getTrue();
      for (auto [k, bound] : llvm::enumerate(bounds)) {
        llvm::Value *&one = made.axisPredicates[{int(k), g.regs[size_t(reg)][bound.axis]}];
        if (!one)
          one = b.CreateAnd(e.isFromLow(g, reg, bound), e.isBelowHigh(g, reg, bound));
        known = b.CreateAnd(known, one);
      }
    }
    return known;
  }
  DType dtype() const { return element; }

  /// Runs `emit`; what it makes on the way stays in its blocks.
  void apart(llvm::function_ref<void()> emit) {
    Made before = made, before2 = outside;
    emit();
    made = std::move(before);
    outside = std::move(before2);
  }

  /// Registers that are moved at once, and whether all of them are inside.
  struct Vector {
    llvm::SmallVector<int> registers;
    llvm::Value *whole, *cut = nullptr; ///< i1: all of it is inside; a part
    int first() const { return registers.front(); }
  };
  llvm::SmallVector<Vector> vectors(bool copiesToo) {
    llvm::SmallVector<Vector> all;
    for (int r = 0; r < g.layout.numRegs(); ++r) {
      if (!plan.startsVector(r) || (!copiesToo && !EmitContext::ownsRegister(g.layout, r)))
        continue;
      Vector v{plan.vector(r), inside(r)};
      if (plan.cut())
        v.whole = b.CreateAnd(v.whole, inside(v.registers.back()));
      all.push_back(std::move(v));
    }
    return all;
  }
  /// Where bounds may cut vectors: a branch around what follows, for threads that have none; returns the block
  /// after it. Null: no vector is cut. Pointers and bounds made inside are for one vector alone.
  llvm::BasicBlock *enterCut(llvm::MutableArrayRef<Vector> vectors) {
    if (!plan.cut())
      return nullptr;
    llvm::Value *any = b.getFalse();
    for (Vector &v : vectors) {
      v.cut = b.CreateAnd(b.CreateNot(v.whole), e.overlaps(g, v.registers, bounds));
      any = b.CreateOr(any, v.cut);
    }
    outside = made;
    return enter(any);
  }
  /// A branch around what follows unless the vector is cut; returns the block after it.
  llvm::BasicBlock *enterVector(const Vector &vector) {
    made = outside; // values made for another vector do not reach here
    return enter(vector.cut);
  }
  /// i1: the register is inside, its vector is not.
  llvm::Value *inCut(const Vector &vector, int reg) {
    return b.CreateAnd(inside(reg), b.CreateNot(vector.whole));
  }

private:
  llvm::BasicBlock *enter(llvm::Value *condition) {
    llvm::BasicBlock *inside = e.newBlock("cut"), *after = e.newBlock("whole");
    b.CreateCondBr(condition, inside, after);
    b.SetInsertPoint(inside);
    return after;
  }
  /// Offsets of small tensors are elements in 32 bits, right modulo 2^32 and so right for every element there
  /// is; those of others are bytes in 64 bits.
  llvm::Type *offsetType() { return isSmall ? b.getInt32Ty() : b.getInt64Ty(); }
  llvm::Value *plus(llvm::Value *to, llvm::Value *offset) {
    return isSmall ? b.CreateAdd(to, offset) : b.CreateGEP(b.getInt8Ty(), to, offset);
  }
  /// c * stride of axis d.
  llvm::Value *scaled(llvm::Value *c, int d) {
    llvm::Value *elements = b.CreateMul(c, b.CreateTrunc(view.strides[size_t(d)], offsetType()));
    return isSmall ? elements : b.CreateMul(elements, e.i64(std::int64_t(byteSize(element))));
  }
  /// The offset that register `reg` adds along d.
  llvm::Value *term(int reg, int d) {
    llvm::Value *&known = made.terms[{d, g.regs[size_t(reg)][d]}];
    if (!known)
      known = scaled(g.disjoint[size_t(d)]
                         ? llvm::ConstantInt::get(offsetType(), std::uint64_t(g.regs[size_t(reg)][d]))
                         : b.CreateZExt(e.coordinate(g, reg, d), offsetType()),
                     d);
    return known;
  }

  EmitContext &e;
  Builder &b;
  const Geometry &g;
  View view;
  DType element;
  int rank, unitAxis;
  bool isSmall;
  llvm::Value *base; ///< of the thread: an offset where the tensor is small, else a pointer
  llvm::SmallVector<EmitContext::AxisBound> bounds;
  /// Values that serve several registers.
  struct Made {
    std::map<std::vector<std::int32_t>, llvm::Value *> rows, predicates;
    std::map<std::pair<int, std::int32_t>, llvm::Value *> terms, axisPredicates;
  } made, outside;
};

// --- ops
// -----------------------------------------------------------------------------------------------------------

mlir::LogicalResult EmitContext::emitGlobalLoad(tgpu::GlobalLoadOp op) {
  auto layout = tgpu::layoutOf(op.getResult().getType());
  if (!layout)
    return bug(op, "the tile has no layout");
  GlobalEmission access(*this, tgpu::GlobalAccess(op), *layout);
  DType t = access.dtype();
  llvm::Value *padElement = constantOf(op.getPad(), t);
  llvm::Value *pad = packVector(t, Regs(size_t(access.plan.width()), padElement));
  llvm::Value *policy = evictPolicy(op);
  if (access.plan.cut() && op->hasAttr(tgpu::looseAttr)) {
    llvm::SmallVector<llvm::SmallVector<int>> groups;
    for (int r = 0; r < layout->numRegs(); ++r)
      if (access.plan.startsVector(r))
        groups.push_back(access.plan.vector(r));
    llvm::BasicBlock *quick = newBlock("vectors"), *exact = newBlock("elements"), *after = newBlock("loaded");
    b.CreateCondBr(access.vectorsInside(tgpu::GlobalAccess(op)), quick, exact, llvm::MDBuilder(ctx).createLikelyBranchWeights());
    Regs whole, single;
    b.SetInsertPoint(quick);
    access.apart([&] {
      llvm::Value *anything = b.CreateFreeze(llvm::PoisonValue::get(memoryVector(t, access.plan.width())));
      for (llvm::ArrayRef<int> group : groups)
        access.appendWords(loadGlobal(t, access.plan.width(), access.pointer(group.front()), access.someOf(group), anything, policy), whole);
    });
    quick = b.GetInsertBlock();
    b.CreateBr(after);
    b.SetInsertPoint(exact);
    access.apart([&] {
      Regs elements = loadElements(access, pad, policy, layout->numRegs());
      for (llvm::ArrayRef<int> group : groups) {
        Regs some;
        for (int reg : group)
          some.push_back(elements[size_t(reg)]);
        access.appendWords(packVector(t, some), single);
      }
    });
    exact = b.GetInsertBlock();
    b.CreateBr(after);
    b.SetInsertPoint(after);
    Regs words, result(size_t(layout->numRegs()));
    for (auto [x, y] : llvm::zip_equal(whole, single))
      words.push_back(joined(x, quick, y, exact));
    const size_t each = words.size() / groups.size();
    for (auto [i, group] : llvm::enumerate(groups)) {
      for (auto [reg, v] : llvm::zip_equal(group, access.elementsOf(llvm::ArrayRef(words).slice(i * each, each))))
        result[size_t(reg)] = v;
    }
    set(op.getResult(), std::move(result));
    return mlir::success();
  }
  set(op.getResult(), loadElements(access, pad, policy, layout->numRegs()));
  return mlir::success();
}

/// Whole vectors, and element by element those that bounds cut: as words, so that branches do not take vectors apart.
Regs EmitContext::loadElements(GlobalEmission &access, llvm::Value *pad, llvm::Value *policy, int count) {
  const DType t = access.dtype();
  const int width = access.plan.width();
  llvm::SmallVector<GlobalEmission::Vector> vectors = access.vectors(/*copiesToo=*/true);
  llvm::SmallVector<Regs> words(vectors.size()); // of each vector
  for (auto [vector, all] : llvm::zip_equal(vectors, words))
    access.appendWords(loadGlobal(t, width, access.pointer(vector.first()), vector.whole, pad, policy), all);
  const llvm::SmallVector<Regs> before = words;
  llvm::BasicBlock *from = b.GetInsertBlock();
  if (llvm::BasicBlock *after = access.enterCut(vectors)) {
    for (auto [vector, all] : llvm::zip_equal(vectors, words)) {
      llvm::BasicBlock *around = b.GetInsertBlock(), *next = access.enterVector(vector);
      const Regs whole = std::exchange(all, {});
      Regs elements = access.elementsOf(whole);
      for (auto [reg, v] : llvm::zip_equal(vector.registers, elements)) {
        llvm::Value *known = packVector(t, v);
        unpackVector(t, loadGlobal(t, 1, access.pointer(reg), access.inCut(vector, reg), known, policy), v);
      }
      access.appendWords(packVector(t, elements), all);
      llvm::BasicBlock *edge = b.GetInsertBlock();
      b.CreateBr(next);
      b.SetInsertPoint(next);
      for (auto [v, was] : llvm::zip_equal(all, whole))
        v = joined(was, around, v, edge);
    }
    llvm::BasicBlock *edge = b.GetInsertBlock();
    b.CreateBr(after);
    b.SetInsertPoint(after);
    for (auto [all, was] : llvm::zip_equal(words, before))
      for (auto [v, w] : llvm::zip_equal(all, was))
        v = joined(w, from, v, edge);
  }
  Regs result(size_t(count), nullptr);
  for (auto [vector, all] : llvm::zip_equal(vectors, words))
    for (auto [reg, v] : llvm::zip_equal(vector.registers, access.elementsOf(all)))
      result[size_t(reg)] = v;
  return result;
}

mlir::LogicalResult EmitContext::emitGlobalStore(tgpu::GlobalStoreOp op) {
  auto layout = tgpu::layoutOf(op.getValue().getType());
  if (!layout)
    return bug(op, "the tile has no layout");
  GlobalEmission access(*this, tgpu::GlobalAccess(op), *layout);
  DType t = access.dtype();
  Regs value = regs(op.getValue()), mask;
  if (op.getMask())
    mask = regs(op.getMask());
  llvm::Value *owns = ownsElements(*layout);
  auto writes = [&](llvm::Value *inside, int reg) {
    inside = b.CreateAnd(owns, inside);
    return mask.empty() ? inside : b.CreateAnd(inside, mask[size_t(reg)]);
  };
  llvm::Value *policy = evictPolicy(op);
  llvm::BasicBlock *stored = nullptr;
  if (access.plan.cut() && mask.empty() && access.fewHaveOutside()) { // most threads have nothing outside
    llvm::BasicBlock *whole = newBlock("whole"), *edge = newBlock("edge");
    stored = newBlock("stored");
    b.CreateCondBr(access.allInside(), whole, edge);
    b.SetInsertPoint(whole);
    access.apart([&] {
      for (int r = 0; r < layout->numRegs(); ++r)
        if (access.plan.startsVector(r) && ownsRegister(*layout, r)) {
          Regs elements;
          for (int reg : access.plan.vector(r))
            elements.push_back(value[size_t(reg)]);
          storeGlobal(packVector(t, elements), access.pointer(r), owns, policy);
        }
    });
    b.CreateBr(stored);
    b.SetInsertPoint(edge);
  }
  llvm::SmallVector<GlobalEmission::Vector> vectors = access.vectors(/*copiesToo=*/false);
  for (const auto &vector : vectors) {
    int first = vector.first();
    Regs elements;
    for (int reg : vector.registers)
      elements.push_back(value[size_t(reg)]);
    storeGlobal(packVector(t, elements), access.pointer(first), writes(vector.whole, first), policy);
  }
  if (llvm::BasicBlock *after = access.enterCut(vectors)) {
    for (const auto &vector : vectors) {
      llvm::BasicBlock *next = access.enterVector(vector);
      for (int reg : vector.registers)
        storeGlobal(packVector(t, value[size_t(reg)]), access.pointer(reg),
                    writes(access.inCut(vector, reg), reg), policy);
      b.CreateBr(next);
      b.SetInsertPoint(next);
    }
    b.CreateBr(after);
    b.SetInsertPoint(after);
  }
  if (stored) {
    b.CreateBr(stored);
    b.SetInsertPoint(stored);
  }
  return mlir::success();
}

mlir::LogicalResult EmitContext::emitGlobalGather(tgpu::GlobalGatherOp op) {
  View x = view(op.getX());
  DType t = dtype(op.getX().getType());
  Regs mask = regs(op.getMask()), result;
  llvm::SmallVector<Regs> indices;
  for (mlir::Value v : op.getIndices())
    indices.push_back(regs(v));
  int n = numRegs(op.getResult().getType());
  auto pick = [](const Regs &r, int k) { return r[r.size() == 1 ? 0 : size_t(k)]; };
  llvm::Value *zero = llvm::Constant::getNullValue(memoryVector(t, 1));
  llvm::Type *offsetType = tileir::hasSmallOffsets(op.getX()) ? b.getInt32Ty() : b.getInt64Ty();
  for (int r = 0; r < n; ++r) {
    llvm::Value *offset = llvm::ConstantInt::get(offsetType, 0);
    for (size_t d = 0; d < indices.size(); ++d)
      offset = b.CreateAdd(offset, b.CreateMul(b.CreateTrunc(pick(indices[d], r), offsetType),
                                               b.CreateTrunc(x.strides[d], offsetType)));
    llvm::Value *pointer = b.CreateGEP(b.getIntNTy(unsigned(8 * byteSize(t))), x.pointer, b.CreateSExt(offset, b.getInt64Ty()));
    llvm::Value *element;
    unpackVector(t, loadGlobal(t, 1, pointer, pick(mask, r), zero), element);
    result.push_back(element);
  }
  set(op.getResult(), std::move(result));
  return mlir::success();
}

} // namespace sectile::codegen
