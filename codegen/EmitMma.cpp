// SPDX-License-Identifier: Apache-2.0
/// \file Matrix products: by mma.sync atoms through the table's intrinsics, or by scalar multiply-adds.
#include "codegen/EmitContext.h"
#include "ir/base/MmaTable.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <set>

namespace sectile::codegen {
namespace {

/// The registers of the thread at (lane 0, warp 0) by the coordinate they hold; the same offsets hold in
/// every thread.
class RegisterMap {
public:
  explicit RegisterMap(const Layout &l) {
    for (int r = 0; r < l.numRegs(); ++r) {
      Coords c = l.regCoords(r);
      byCoords.emplace(std::pair(c[0], c[1]), r);
    }
  }
  /// -1: another thread has it.
  int at(std::int32_t i, std::int32_t j) const {
    auto it = byCoords.find({i, j});
    return it == byCoords.end() ? -1 : it->second;
  }
  /// The multiples of `step` among coordinates of an axis.
  std::vector<std::int32_t> origins(int axis, std::int32_t step) const {
    std::set<std::int32_t> r;
    for (auto &[c, reg] : byCoords) {
      std::int32_t v = axis == 0 ? c.first : c.second;
      if (v % step == 0)
        r.insert(v);
    }
    return {r.begin(), r.end()};
  }

private:
  std::map<std::pair<std::int32_t, std::int32_t>, int> byCoords;
};

/// The registers of one atom: fragment element e sits at origin + regCoords(e). Empty if another thread has
/// one.
std::vector<int> atomRegisters(const RegisterMap &map, const Layout &fragment, std::int32_t i,
                               std::int32_t j) {
  std::vector<int> r;
  for (int e = 0; e < fragment.numRegs(); ++e) {
    Coords c = fragment.regCoords(e);
    int reg = map.at(i + c[0], j + c[1]);
    if (reg < 0)
      return {};
    r.push_back(reg);
  }
  return r;
}

/// Lanes lie in the tile as in the fragment.
bool sameLanes(const Layout &tile, const Layout &fragment) { return tile.lane() == fragment.lane(); }

} // namespace

llvm::Value *EmitContext::roundToTf32(llvm::Value *v) {
  // The instructions ignore the low 13 bits. The canonical NaN must not carry over.
  llvm::Value *bits = b.CreateBitCast(v, b.getInt32Ty());
  llvm::Value *even = b.CreateAnd(b.CreateLShr(bits, 13), i32(1));
  llvm::Value *rounded = b.CreateAdd(bits, b.CreateAdd(even, i32(0xfff)));
  return b.CreateBitCast(b.CreateSelect(b.CreateFCmpUNO(v, v), i32(0x7fc00000), rounded), v->getType());
}

mlir::LogicalResult EmitContext::emitMmaSync(tgpu::MmaSyncOp op) {
  const MmaRow *row = findMma(op.getAtom().getName().str());
  if (!row)
    return bug(op, "no row " + op.getAtom().getName() + " in the MMA table");
  llvm::Intrinsic::ID id = llvm::Intrinsic::lookupIntrinsicID(row->intrinsic);
  if (id == llvm::Intrinsic::not_intrinsic)
    return bug(op, "LLVM has no intrinsic " + row->intrinsic);
  auto a = tgpu::layoutOf(op.getA().getType()), bl = tgpu::layoutOf(op.getB().getType()),
       c = tgpu::layoutOf(op.getAcc().getType());
  if (!a || !bl || !c)
    return bug(op, "an operand has no layout");
  if (!sameLanes(*a, row->a.layout) || !sameLanes(*bl, row->b.layout) || !sameLanes(*c, row->c.layout))
    return bug(op, "an operand's lanes are not those of the atom");
  // Warps: rows of a and acc move together, columns of b and acc, and a warp has the whole of K.
  for (size_t w = 0; w < c->warp().size(); ++w)
    if (a->warp()[w] != Coords{c->warp()[w][0], 0} || bl->warp()[w] != Coords{0, c->warp()[w][1]})
      return bug(op, "the operands' warps do not meet");

  RegisterMap aMap(*a), bMap(*bl), cMap(*c);
  std::vector<std::int32_t> ms = cMap.origins(0, row->m), ns = cMap.origins(1, row->n),
                            ks = aMap.origins(1, row->k);
  Regs aRegs = regs(op.getA()), bRegs = regs(op.getB()), cRegs = regs(op.getAcc());

  auto pack = [&](const MmaFragment &f, const Regs &source, const std::vector<int> &atom) {
    Regs packed;
    for (int r = 0; r < f.regs(); ++r) {
      Regs elements;
      for (int k = 0; k < f.elemsPerReg; ++k) {
        llvm::Value *v = source[size_t(atom[size_t(r * f.elemsPerReg + k)])];
        if (row->policyOnly && v->getType()->isFloatTy() && &f != &row->c)
          v = roundToTf32(v);
        elements.push_back(v);
      }
      if (f.elemsPerReg == 1) {
        bool asInt = f.regType == MmaRegType::I32;
        packed.push_back(asInt ? b.CreateBitCast(elements[0], b.getInt32Ty()) : elements[0]);
        continue;
      }
      llvm::Value *vector = packVector(f.dtype, elements);
      packed.push_back(f.regType == MmaRegType::V2F16 ? vector : b.CreateBitCast(vector, b.getInt32Ty()));
    }
    return packed;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Regs> aPacked, bPacked, acc;
  auto fetch = [&](auto &cache, const RegisterMap &map, const MmaFragment &f, const Regs &source,
                   std::int32_t i, std::int32_t j) -> const Regs * {
    Regs &slot = cache[{i, j}];
    if (slot.empty()) {
      std::vector<int> atom = atomRegisters(map, f.layout, i, j);
      if (atom.empty())
        return nullptr;
      slot = pack(f, source, atom);
    }
    return &slot;
  };

  // K outermost: neighbouring instructions then add to different accumulators.
  for (std::int32_t k : ks)
    for (std::int32_t m : ms)
      for (std::int32_t n : ns) {
        const Regs *aAtom = fetch(aPacked, aMap, row->a, aRegs, m, k);
        const Regs *bAtom = fetch(bPacked, bMap, row->b, bRegs, k, n);
        if (!aAtom || !bAtom || !fetch(acc, cMap, row->c, cRegs, m, n))
          return bug(op, "an atom's registers are spread over threads");
        Regs &d = acc[{m, n}];
        Regs args = *aAtom;
        args.append(*bAtom);
        args.append(d);
        llvm::Value *result = b.CreateIntrinsic(id, args);
        for (unsigned r = 0; r < d.size(); ++r)
          d[r] = result->getType()->isStructTy() ? b.CreateExtractValue(result, r) : result;
      }

  Regs out = cRegs;
  for (auto &[origin, packed] : acc) {
    std::vector<int> atom = atomRegisters(cMap, row->c.layout, origin.first, origin.second);
    for (int e = 0; e < row->c.layout.numRegs(); ++e) {
      llvm::Value *reg = packed[size_t(e / row->c.elemsPerReg)];
      out[size_t(atom[size_t(e)])] =
          row->c.elemsPerReg == 1 ? reg : b.CreateExtractElement(reg, std::uint64_t(e % row->c.elemsPerReg));
    }
  }
  set(op.getResult(), std::move(out));
  return mlir::success();
}

/// A loop over k; per step one element of a for each row that this thread holds, one of b for each column.
mlir::LogicalResult EmitContext::emitMmaFma(tgpu::MmaFmaOp op) {
  auto layout = tgpu::layoutOf(op.getAcc().getType());
  if (!layout)
    return bug(op, "the accumulator has no layout");
  auto aType = llvm::cast<tgpu::BufferType>(op.getA().getType()),
       bType = llvm::cast<tgpu::BufferType>(op.getB().getType());
  DType accType = dtype(op.getAcc().getType()), aElement = dtype(aType), bElement = dtype(bType);
  // f16 sums in f32 and rounds once at the end.
  DType work = accType == DType::f16 || accType == DType::bf16 ? DType::f32 : accType;
  const Geometry &g = geometry(*layout);
  llvm::Value *aBase = scalar(op.getA()), *bBase = scalar(op.getB());
  Regs initial;
  for (llvm::Value *v : Regs(regs(op.getAcc())))
    initial.push_back(cast(accType, work, v));
  std::map<std::int32_t, llvm::Value *> rows, columns; // coordinates, computed before the loop
  for (int r = 0; r < layout->numRegs(); ++r) {
    const Coords &c = g.regs[size_t(r)];
    if (!rows.count(c[0]))
      rows[c[0]] = coordinate(g, r, 0);
    if (!columns.count(c[1]))
      columns[c[1]] = coordinate(g, r, 1);
  }

  llvm::BasicBlock *before = b.GetInsertBlock(), *body = newBlock("fma"), *done = newBlock("fma.end");
  b.CreateBr(body);
  b.SetInsertPoint(body);
  llvm::PHINode *k = b.CreatePHI(b.getInt32Ty(), 2, "k");
  k->addIncoming(i32(0), before);
  Regs carried;
  for (llvm::Value *v : initial) {
    llvm::PHINode *phi = b.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, before);
    carried.push_back(phi);
  }
  auto load = [&](tgpu::BufferType type, llvm::Value *base, DType element, llvm::Value *i, llvm::Value *j) {
    llvm::Value *pointer = bufferElement(type, base, {i, j}), *v;
    unpackVector(element,
                 b.CreateAlignedLoad(memoryVector(element, 1), pointer, llvm::Align(byteSize(element))), v);
    return cast(element, work, v);
  };
  std::map<std::int32_t, llvm::Value *> as, bs;
  for (auto [c, value] : rows)
    as[c] = load(aType, aBase, aElement, value, k);
  for (auto [c, value] : columns)
    bs[c] = load(bType, bBase, bElement, k, value);
  Regs sums;
  for (int r = 0; r < layout->numRegs(); ++r) {
    llvm::Value *x = as[g.regs[size_t(r)][0]], *y = bs[g.regs[size_t(r)][1]], *z = carried[size_t(r)];
    sums.push_back(isFloat(work) ? b.CreateIntrinsic(llvm::Intrinsic::fma, {z->getType()}, {x, y, z})
                                 : b.CreateAdd(b.CreateMul(x, y), z));
  }
  llvm::Value *next = b.CreateAdd(k, i32(1));
  llvm::Value *more = b.CreateICmpSLT(next, i32(aType.getShape()[1]));
  k->addIncoming(next, body);
  for (auto [phi, v] : llvm::zip_equal(carried, sums))
    llvm::cast<llvm::PHINode>(phi)->addIncoming(v, body);
  dontUnroll(b.CreateCondBr(more, body, done));

  b.SetInsertPoint(done);
  Regs result;
  for (llvm::Value *v : sums)
    result.push_back(cast(work, accType, v));
  set(op.getResult(), std::move(result));
  return mlir::success();
}

} // namespace sectile::codegen
