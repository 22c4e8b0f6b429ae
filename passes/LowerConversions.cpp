// SPDX-License-Identifier: Apache-2.0
/// \file LowerConversions: conversions that move data between threads go through shared buffers.
///
/// Before: any tgpu.convert_layout. After: only those that rename registers; the others are buffer_alloc,
/// copy, copy_out, with a swizzle of least bank conflicts for the two layouts; where elements move between
/// blocks of a cluster, peer_copy, peer_wait, copy_out. Conversions that do not wait for each other first
/// write all their buffers, then read them: one barrier serves them all. Conversions of values from outside a
/// loop leave it.

#include "passes/Passes.h"
#include "passes/Support.h"

#include <array>
#include <bit>

namespace sectile::passes {
#define GEN_PASS_DEF_LOWERCONVERSIONSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

struct Swizzle {
  int64_t chunk = 0, span = 0, shift = 1; ///< chunk 0: none
};

constexpr int bankBytes = 4, banks = 32, widestAccess = 16;

/// One side of a buffer: the accesses of the first register of every lane of the first warp. The layout is
/// linear, so the others meet the same conflicts.
class Side {
public:
  Side(const Layout &layout, ArrayRef<int64_t> shape, int64_t elementBytes, bool writes)
      : last(shape.back()), elementBytes(elementBytes), registers(layout.numRegs()) {
    int rank = int(shape.size());
    run =
        std::min<int64_t>(layout.contiguousRun(rank - 1), std::max<int64_t>(1, widestAccess / elementBytes));
    run = std::min(run, last & -last);
    uint32_t copies = writes ? layout.freeLanes() : 0;
    for (int lane = 0; lane < warpSize; ++lane) {
      if (lane & copies)
        continue;
      Coords c = layout.coords(0, lane, 0);
      int64_t row = 0;
      for (int d = 0; d + 1 < rank; ++d)
        row = row * shape[d] + c[d];
      places.push_back({row, c[rank - 1]});
    }
  }

  /// Cycles of shared memory for all registers of a warp.
  int64_t cost(Swizzle s) const {
    int64_t width = s.chunk ? std::min(run, s.chunk) : run;
    int64_t bytes = width * elementBytes;
    size_t together = size_t(std::clamp<int64_t>(banks * bankBytes / bytes, 1, warpSize));
    int64_t cycles = 0;
    for (size_t first = 0; first < places.size(); first += together) {
      // Different words of one bank follow each other.
      std::array<SmallVector<int64_t, 4>, banks> words;
      for (size_t i = first; i < std::min(first + together, places.size()); ++i) {
        auto [row, column] = places[i];
        if (s.chunk)
          column = ((column / s.chunk) ^ ((row / s.shift) % (s.span / s.chunk))) * s.chunk + column % s.chunk;
        int64_t byte = (row * last + column) * elementBytes;
        for (int64_t word = byte / bankBytes; word <= (byte + bytes - 1) / bankBytes; ++word) {
          auto &bank = words[word % banks];
          if (!llvm::is_contained(bank, word))
            bank.push_back(word);
        }
      }
      size_t longest = 1;
      for (auto &bank : words)
        longest = std::max(longest, bank.size());
      cycles += int64_t(longest);
    }
    return cycles * std::max<int64_t>(1, registers / width);
  }

private:
  int64_t last, elementBytes, registers;
  int64_t run;
  SmallVector<std::pair<int64_t, int64_t>, warpSize> places; ///< row and column per lane
};

/// The swizzle of least cycles; none if nothing beats plain rows.
Swizzle bestSwizzle(const Layout &src, const Layout &dst, ArrayRef<int64_t> shape, int64_t elementBytes) {
  Side writer(src, shape, elementBytes, true), reader(dst, shape, elementBytes, false);
  Swizzle best;
  int64_t least = writer.cost(best) + reader.cost(best);
  int64_t row = shape.back() & -shape.back();
  for (int64_t chunk = std::max<int64_t>(1, widestAccess / elementBytes); chunk >= 1; chunk /= 2)
    for (int64_t span = 2 * chunk; span <= std::min<int64_t>(row, banks * bankBytes / elementBytes);
         span *= 2)
      for (int64_t shift = 1; shift <= 8; shift *= 2) {
        Swizzle s{chunk, span, shift};
        int64_t cycles = writer.cost(s) + reader.cost(s);
        if (cycles < least) {
          least = cycles;
          best = s;
        }
      }
  return best;
}

/// Of a result that is converted before the ops that stood in front of it.
constexpr int mostEarlyRegisters = 4;

class Lowering {
public:
  explicit Lowering(func::FuncOp func)
      : func(func), layouts(func.getContext()), blocks(blocksPerProgram(func)) {}

  void run() {
    func.walk([](tgpu::ConvertLayoutOp op) { hoist(op); });
    SmallVector<tgpu::ConvertLayoutOp> all;
    func.walk([&](tgpu::ConvertLayoutOp op) { all.push_back(op); });
    DenseSet<Operation *> done;
    for (tgpu::ConvertLayoutOp op : all)
      if (!done.contains(op) && movesData(op)) {
        SmallVector<tgpu::ConvertLayoutOp> group = gather(op);
        done.insert(group.begin(), group.end());
        lower(group);
      }
  }

private:
  /// What does not change in a loop is converted once, before it.
  static void hoist(tgpu::ConvertLayoutOp op) {
    while (auto loop = dyn_cast<LoopLikeOpInterface>(op->getParentOp())) {
      if (!loop.isDefinedOutsideOfLoop(op.getX()))
        return;
      op->moveBefore(loop);
    }
  }

  /// False where registers are renamed, or nothing is left to do.
  bool movesData(tgpu::ConvertLayoutOp op) {
    ConversionKind kind = conversionKind(layouts.of(op.getX()), layouts.of(op.getResult()));
    if (kind == ConversionKind::Same) {
      op.getResult().replaceAllUsesWith(op.getX());
      op.erase();
    }
    return kind > ConversionKind::RenameRegisters;
  }

  /// `first` and the conversions behind it that do not need its result, brought together: what stands between
  /// and does not depend on the group goes before it. Such are the sum and the sum of squares of one row. Only
  /// results of few registers come so early; larger ones would lie in registers for long.
  SmallVector<tgpu::ConvertLayoutOp> gather(tgpu::ConvertLayoutOp first) {
    SmallVector<tgpu::ConvertLayoutOp> group{first};
    SmallPtrSet<Operation *, 16> dependent{first};
    SmallVector<Operation *> between;
    for (Operation *op = first->getNextNode(), *next; op; op = next) {
      next = op->getNextNode();
      if (op->getNumRegions() || op->hasTrait<OpTrait::IsTerminator>())
        break;
      bool depends = llvm::any_of(op->getOperands(), [&](Value v) {
        return v.getDefiningOp() && dependent.contains(v.getDefiningOp());
      });
      // Reads may pass the group, which touches no global memory; what has other effects ends the search.
      if (!isMemoryEffectFree(op) && (depends || !isa<tgpu::GlobalLoadOp, tgpu::GlobalGatherOp>(op)))
        break;
      if (depends) {
        dependent.insert(op);
        continue;
      }
      auto convert = dyn_cast<tgpu::ConvertLayoutOp>(op);
      if (!convert || conversionKind(layouts.of(convert.getX()), layouts.of(convert.getResult())) <=
                          ConversionKind::RenameRegisters) {
        between.push_back(op);
        continue;
      }
      if (op != group.back()->getNextNode() && layouts.of(convert.getResult()).numRegs() > mostEarlyRegisters)
        break;
      for (Operation *other : between)
        other->moveBefore(first);
      between.clear();
      convert->moveAfter(group.back());
      group.push_back(convert);
      dependent.insert(convert);
    }
    return group;
  }

  void lower(ArrayRef<tgpu::ConvertLayoutOp> group) {
    OpBuilder b(group.front());
    SmallVector<std::pair<tgpu::ConvertLayoutOp, Value>> buffers;
    for (tgpu::ConvertLayoutOp op : group) {
      const Layout &src = layouts.of(op.getX()), &dst = layouts.of(op.getResult());
      ArrayRef<int64_t> shape = shapeOf(op.getType());
      Value x = op.getX();
      bool crosses = crossesBlocks(src, dst, blocks);
      if (crosses) // a copy to another block counts arrivals in whole words
        x = withElement(b, op.getLoc(), x, wordElement(b, elementOf(x.getType())));
      Type element = elementOf(x.getType());
      Swizzle s = bestSwizzle(src, dst, shape, int64_t(byteSize(*dtypeOfType(element))));
      SmallVector<int64_t, 3> swizzle;
      if (s.chunk)
        swizzle = {s.chunk, s.span, s.shift};
      auto type = tgpu::BufferType::get(b.getContext(), shape, element, swizzle);
      Value buffer = tgpu::BufferAllocOp::create(b, op.getLoc(), type, IntegerAttr());
      if (crosses)
        tgpu::PeerCopyOp::create(b, op.getLoc(), x, buffer);
      else
        tgpu::CopyOp::create(b, op.getLoc(), x, buffer);
      buffers.push_back({op, buffer});
    }
    for (auto [op, buffer] : buffers) {
      b.setInsertionPoint(op);
      Location loc = op.getLoc();
      auto type = cast<tgpu::BufferType>(buffer.getType());
      if (crossesBlocks(layouts.of(op.getX()), layouts.of(op.getResult()), blocks))
        tgpu::PeerWaitOp::create(b, loc, buffer);
      Value result =
          tgpu::CopyOutOp::create(b, loc, tileir::withElement(op.getType(), type.getElementType()), buffer);
      op.getResult().replaceAllUsesWith(withElement(b, loc, result, elementOf(op.getType())));
      op.erase();
    }
  }

  /// The narrowest type of at least 4 bytes that holds all values of `element`.
  static Type wordElement(OpBuilder &b, Type element) {
    if (byteSize(*dtypeOfType(element)) >= 4)
      return element;
    return isa<FloatType>(element) ? Type(b.getF32Type()) : Type(b.getI32Type());
  }
  static Value withElement(OpBuilder &b, Location loc, Value x, Type element) {
    if (elementOf(x.getType()) == element)
      return x;
    return CastOp::create(b, loc, tileir::withElement(x.getType(), element), x);
  }

  func::FuncOp func;
  LayoutCache layouts;
  int blocks;
};

struct LowerConversions : sectile::passes::impl::LowerConversionsPassBase<LowerConversions> {
  void runOnOperation() override { Lowering(getOperation()).run(); }
};

} // namespace
