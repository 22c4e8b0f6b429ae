// SPDX-License-Identifier: Apache-2.0
/// \file What the threads of a warp compute together: reductions over registers and lanes in the order of
/// code generation, matrix products.
#include "ir/InterpKernels.h"
#include "ir/base/MmaTable.h"
#include "ir/exec/Program.h"

#include <numeric>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::tgpu::exec {

// --- reductions
// -------------------------------------------------------------------------------------------------

namespace {

std::optional<BinaryFn> functionOf(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::k_sum:
    return BinaryFn::k_add;
  case ReduceKind::k_prod:
    return BinaryFn::k_mul;
  case ReduceKind::k_max:
    return BinaryFn::k_max;
  case ReduceKind::k_min:
    return BinaryFn::k_min;
  case ReduceKind::k_maxnum:
    return BinaryFn::k_maxnum;
  case ReduceKind::k_minnum:
    return BinaryFn::k_minnum;
  case ReduceKind::k_any:
    return BinaryFn::k_bitor;
  case ReduceKind::k_all:
    return BinaryFn::k_bitand;
  default:
    return std::nullopt;
  }
}

/// One register of all threads, with its positions for argmax and argmin.
struct Row {
  std::vector<char> values;
  std::vector<std::int64_t> positions;
};

/// Folds rows pairwise: `p` becomes the combination of p and q.
class Combiner {
public:
  Combiner(ReduceKind kind, DType work)
      : isMax(kind == ReduceKind::k_argmax), withPositions(isMax || kind == ReduceKind::k_argmin),
        size(std::int64_t(byteSize(work))), isReal(isFloat(work)) {
    auto isa = interp::hostIsa();
    if (auto fn = functionOf(kind))
      fold = interp::binaryKernel(*fn, work, isa);
    beyond = interp::compareKernel(isMax ? ComparePred::k_gt : ComparePred::k_lt, work, isa);
    equal = interp::compareKernel(ComparePred::k_eq, work, isa);
    if (isReal)
      isNan = interp::unaryKernel(UnaryFn::k_isnan, work, isa);
  }
  bool exists() const { return withPositions ? beyond && equal : fold != nullptr; }

  void operator()(Row &p, const Row &q) const {
    auto n = std::int64_t(p.values.size()) / size;
    if (!withPositions) {
      std::vector<char> r(p.values.size());
      fold(p.values.data(), q.values.data(), r.data(), n);
      p.values = std::move(r);
      return;
    }
    // q wins if it is beyond p, or equal at a smaller position. NaN is beyond everything and equal to NaN.
    std::vector<char> isBeyond(std::size_t(n), 0), isEqual = isBeyond, pNan = isBeyond, qNan = isBeyond;
    beyond(q.values.data(), p.values.data(), isBeyond.data(), n);
    equal(q.values.data(), p.values.data(), isEqual.data(), n);
    if (isReal) {
      isNan(p.values.data(), pNan.data(), n);
      isNan(q.values.data(), qNan.data(), n);
    }
    for (std::size_t i = 0; i < std::size_t(n); ++i)
      if (isBeyond[i] || (qNan[i] && !pNan[i]) ||
          ((isEqual[i] || (qNan[i] && pNan[i])) && q.positions[i] < p.positions[i])) {
        std::memcpy(&p.values[i * std::size_t(size)], &q.values[i * std::size_t(size)], std::size_t(size));
        p.positions[i] = q.positions[i];
      }
  }

private:
  bool isMax, withPositions;
  std::int64_t size;
  bool isReal;
  interp::BinaryKernel fold = nullptr, beyond = nullptr, equal = nullptr;
  interp::UnaryKernel isNan = nullptr;
};

/// The row with the value of the lane whose number differs in one bit.
Row shuffled(const Row &row, std::size_t size, int laneMask) {
  Row r = row;
  for (std::size_t t = 0; t < row.values.size() / size; ++t) {
    std::memcpy(&r.values[t * size], &row.values[(t ^ std::size_t(laneMask)) * size], size);
    if (!row.positions.empty())
      r.positions[t] = row.positions[t ^ std::size_t(laneMask)];
  }
  return r;
}

} // namespace

Action make(Program &p, tgpu::ReduceOp op) {
  Slot x = p.slot(op.getX()), r = p.define(op.getResult()), positions, resultPositions;
  ReduceKind kind = op.getKind();
  bool withPositions = bool(op.getPositions());
  if (withPositions) {
    positions = p.slot(op.getPositions());
    resultPositions = p.define(op.getResultPositions());
  }
  const Layout &layout = x.table->layout;
  int axis = int(op.getAxis()), threads = p.threads;
  std::uint32_t lanes = layout.lanesAlong(axis);
  for (int bit = 0; bit < laneBits; ++bit)
    for (int d = 0; d < layout.rank(); ++d)
      if ((lanes >> bit & 1) && d != axis && layout.lane()[std::size_t(bit)][d] != 0)
        return refuse(op, "a lane bit moves along two axes");
  if (lanes & layout.freeLanes())
    return refuse(op, "lanes hold copies along the axis");
  Layout collapsed = layout.collapse(axis);
  if (collapsed.numRegs() != r.table->regs)
    return refuse(op, "the result has another number of registers");
  std::vector<std::vector<int>> parts(std::size_t(collapsed.numRegs()));
  for (int reg = 0; reg < layout.numRegs(); ++reg) {
    if (std::uint32_t(reg) & layout.freeRegs())
      continue;
    std::optional<int> to = regOfBroadcast(collapsed, layout, reg);
    if (!to)
      return refuse(op, "registers do not collapse");
    parts[std::size_t(*to)].push_back(reg);
  }
  // Small floats add up in f32.
  bool adds = kind == ReduceKind::k_sum || kind == ReduceKind::k_prod;
  bool widens = adds && isFloat(x.dtype) && x.size <= 2;
  DType work = widens ? DType::f32 : x.dtype;
  auto isa = interp::hostIsa();
  auto widen = widens ? interp::castKernel(work, x.dtype, isa) : nullptr;
  auto narrow = widens ? interp::castKernel(x.dtype, work, isa) : nullptr;
  Combiner combine(kind, work);
  if (!combine.exists() || (widens && (!widen || !narrow)))
    return refuse(op, "no such reduction on this type");
  std::size_t size = byteSize(work);

  return [=](Cluster &b) {
    for (auto [to, registers] : llvm::enumerate(parts)) {
      std::vector<Row> rows;
      for (int reg : registers) {
        const char *data = b.data(x) + std::int64_t(reg) * threads * x.size;
        Row row;
        row.values.resize(std::size_t(threads) * size);
        if (widens)
          widen(data, row.values.data(), threads);
        else
          std::memcpy(row.values.data(), data, row.values.size());
        if (withPositions) {
          auto *at = reinterpret_cast<const std::int64_t *>(b.data(positions)) + std::int64_t(reg) * threads;
          row.positions.assign(at, at + threads);
        }
        rows.push_back(std::move(row));
      }
      while (rows.size() > 1) { // neighbours first
        std::vector<Row> half;
        for (std::size_t k = 0; k < rows.size(); k += 2) {
          if (k + 1 < rows.size())
            combine(rows[k], rows[k + 1]);
          half.push_back(std::move(rows[k]));
        }
        rows = std::move(half);
      }
      Row &all = rows.front();
      for (int bit = 0; bit < laneBits; ++bit)
        if (lanes >> bit & 1)
          combine(all, shuffled(all, size, 1 << bit));
      char *out = b.data(r) + std::int64_t(to) * threads * r.size;
      if (widens)
        narrow(all.values.data(), out, threads);
      else
        std::memcpy(out, all.values.data(), all.values.size());
      if (withPositions)
        std::memcpy(b.data(resultPositions) + std::int64_t(to) * threads * 8, all.positions.data(),
                    std::size_t(threads) * 8);
    }
  };
}

// --- parts of a program
// -------------------------------------------------------------------------------------------

Action make(Program &p, CombinePartsOp op) {
  struct Total {
    Slot value, total;
    interp::BinaryKernel kernel;
  };
  std::vector<Total> totals;
  Slot last = p.define(op.getLast());
  for (auto [fn, value, total] : llvm::zip_equal(op.functionList(), op.getValues(), op.getTotals())) {
    Slot s = p.slot(value);
    totals.push_back({s, p.define(total), interp::binaryKernel(fn, s.dtype, interp::hostIsa())});
    if (!totals.back().kernel)
      return refuse(op, "no such function on this type");
  }
  SmallVector<Slot> share;
  for (Value v : op.getShare())
    share.push_back(p.slot(v));
  return [=, op = op.getOperation()](Cluster &b) {
    const std::int64_t part = share.empty() ? b.part : b.index(share[2]), parts = share.empty() ? b.parts : b.index(share[3]);
    if (part < 0 || part >= parts)
      return b.fail(op, say("is part ", part, " of ", parts));
    bool isLast = part == parts - 1;
    const bool isShared = !share.empty() && parts > 1;
    auto &partials = isShared ? b.sharedPartials[b.index(share[0])] : b.partials;
    if (part > 0 && partials.empty())
      return b.fail(op, say("part ", part, " of ", parts, " comes before the first"));
    partials.resize(totals.size());
    for (auto [t, kept] : llvm::zip_equal(totals, partials)) {
      if (t.value.table && !copiesAgree(b, op, t.value))
        return;
      const char *mine = b.data(t.value);
      auto bytes = std::size_t(t.value.count * t.value.size);
      if (part == 0)
        kept.assign(mine, mine + bytes);
      else
        t.kernel(kept.data(), mine, kept.data(), t.value.count);
      std::memcpy(b.data(t.total), isLast ? kept.data() : mine, bytes);
    }
    b.set(last, isLast);
    if (isLast && isShared)
      b.sharedPartials.erase(b.index(share[0]));
  };
}

// --- products
// ---------------------------------------------------------------------------------------------------

namespace {

/// result = acc + a * b on whole row-major operands, in the types of the interpreter.
class Product {
public:
  Product(DType a, DType b, bool tf32, Slot acc, Slot result, ArrayRef<int64_t> shape, std::int64_t k)
      : acc(acc), result(result), m(shape[0]), n(shape[1]), k(k) {
    auto isa = interp::hostIsa();
    DType work = isFloat(acc.dtype) && acc.size == 2 ? DType::f32 : acc.dtype;
    workSize = std::int64_t(byteSize(work));
    kernel = interp::mmaKernel(work, isa);
    auto widener = [&](DType t) {
      return tf32 && t == DType::f32 ? interp::tf32Kernel(isa)
             : t == work             ? nullptr
                                     : interp::widenKernel(t, isa);
    };
    widenA = widener(a);
    widenB = widener(b);
    if (work != acc.dtype) {
      widenAcc = interp::castKernel(work, acc.dtype, isa);
      narrow = interp::castKernel(acc.dtype, work, isa);
    }
    fits = kernel && (widenA || a == work) && (widenB || b == work);
  }
  bool exists() const { return fits; }

  void operator()(Cluster &block, std::vector<char> a, std::vector<char> b) const {
    auto widen = [&](std::vector<char> &x, interp::UnaryKernel kernel, std::int64_t count) {
      if (!kernel)
        return;
      std::vector<char> wide(std::size_t(count * workSize));
      kernel(x.data(), wide.data(), count);
      x = std::move(wide);
    };
    widen(a, widenA, m * k);
    widen(b, widenB, k * n);
    std::vector<char> c(std::size_t(m * n * acc.size));
    const std::vector<std::int32_t> &from = acc.table->linear, &to = result.table->linear;
    for (std::int64_t i = 0; i < acc.count; ++i)
      std::memcpy(&c[std::size_t(from[std::size_t(i)] * acc.size)], block.data(acc) + i * acc.size,
                  std::size_t(acc.size));
    widen(c, widenAcc, m * n);
    kernel({a.data(), b.data(), c.data(), nullptr, nullptr, k, n, 0, m, 0, k});
    if (narrow) {
      std::vector<char> r(std::size_t(m * n * acc.size));
      narrow(c.data(), r.data(), m * n);
      c = std::move(r);
    }
    for (std::int64_t i = 0; i < result.count; ++i)
      std::memcpy(block.data(result) + i * result.size, &c[std::size_t(to[std::size_t(i)] * result.size)],
                  std::size_t(result.size));
  }

private:
  Slot acc, result;
  std::int64_t m, n, k, workSize;
  interp::MmaKernel kernel;
  interp::UnaryKernel widenA, widenB, widenAcc = nullptr, narrow = nullptr;
  bool fits;
};

} // namespace

Action make(Program &p, MmaSyncOp op) {
  const MmaRow *row = findMma(std::string_view(op.getAtom().getName()));
  Slot a = p.slot(op.getA()), b = p.slot(op.getB()), acc = p.slot(op.getAcc()), r = p.define(op.getResult());
  bool fits = false;
  for (int wm = 1; wm <= p.warps; wm *= 2) {
    auto matches = [&](const Slot &s, MmaOperand which) {
      auto tiled = warpTiled(row->operand(which).layout, s.table->layout.shape(), wm, p.warps / wm, which);
      return tiled && *tiled == s.table->layout;
    };
    fits |= matches(a, MmaOperand::A) && matches(b, MmaOperand::B) && matches(acc, MmaOperand::C) &&
            matches(r, MmaOperand::C);
  }
  if (!fits)
    return refuse(op, "operands are not in the atom's fragments");
  Product product(a.dtype, b.dtype, row->policyOnly, acc, r, shapeOf(op.getAcc().getType()),
                  shapeOf(op.getA().getType())[1]);
  if (!product.exists())
    return refuse(op, "no such product");
  return [=, counts = p.count(op), op = op.getOperation()](Cluster &block) {
    auto whole = [&](const Slot &s) {
      std::vector<char> bytes;
      if (!copiesAgree(block, op, s))
        return bytes;
      std::int64_t elements = 1;
      for (int d = 0; d < 2; ++d)
        elements *= s.table->layout.dim(d);
      bytes.resize(std::size_t(elements * s.size));
      for (std::int64_t i = 0; i < s.count; ++i)
        std::memcpy(&bytes[std::size_t(s.table->linear[std::size_t(i)] * s.size)], block.data(s) + i * s.size,
                    std::size_t(s.size));
      return bytes;
    };
    std::vector<char> left = whole(a), right = whole(b);
    if (copiesAgree(block, op, acc) && !block.failed())
      product(block, std::move(left), std::move(right));
    ++block.counts(counts).runs;
  };
}

ProductInto makeProduct(DType a, DType b, bool rounded, const Slot &sum, std::int64_t k) {
  const Layout &layout = sum.table->layout;
  Product product(a, b, rounded, sum, sum, {layout.dim(0), layout.dim(1)}, k);
  if (!product.exists())
    return nullptr;
  return [=](Cluster &block, std::vector<char> left, std::vector<char> right) {
    product(block, std::move(left), std::move(right));
  };
}

// mma_fma's operands come through shared memory: Shared.cpp has the reads.
Action makeFmaProduct(Program &p, MmaFmaOp op, std::function<std::vector<char>(Cluster &, bool)> operand) {
  Slot acc = p.slot(op.getAcc()), r = p.define(op.getResult());
  if (acc.table->layout != r.table->layout)
    return refuse(op, "accumulator and result have different layouts");
  auto dtype = [](Value v) { return *dtypeOfType(cast<BufferType>(v.getType()).getElementType()); };
  Product product(dtype(op.getA()), dtype(op.getB()), false, acc, r, shapeOf(op.getAcc().getType()),
                  cast<BufferType>(op.getA().getType()).getShape()[1]);
  if (!product.exists())
    return refuse(op, "no such product");
  return [=, op = op.getOperation()](Cluster &block) {
    std::vector<char> left = operand(block, true), right = operand(block, false);
    if (!block.failed() && copiesAgree(block, op, acc))
      product(block, std::move(left), std::move(right));
  };
}

} // namespace sectile::tgpu::exec
