// SPDX-License-Identifier: Apache-2.0
/// \file FuseKernels: kernels launched one after the other become one kernel.
///
/// Before: kernels of a chain, in the order of their launches; arguments with one tile.chain_tensor are one tensor, axes with
/// one number in tile.chain_lengths have one length. After: where it is legal, the programs of the second are appended to
/// those of the first, and what the second loads of a tensor that the first stores is the stored value itself. A tensor that
/// only the second reads (tile.chain_temporary) is no argument any more.
///
/// Legal means, proved here:
/// - Programs: both grids have the same sizes over axes of the same lengths, so that program p of one is program p of the
///   other.
/// - Tile maps: each load of a tensor that the first stores has the shape and, as linear forms of grid offsets, lengths and
///   numbers, the offsets of its one store, which every program runs.
/// - Lanes: the store leaves out no lane that lies in the tensor, and what it stores has no lanes beyond it. So the loaded
///   tile has exactly the lanes of the stored one.
/// - Memory: the second writes nothing that the first reads or writes, and reads nothing else that the first writes.
///   (Programs of the first may still run when this one's second part begins.)
/// Without keepRounding, a value that the first rounds to f16 or bf16 for memory, and the second casts back to f32, stays f32.

#include "passes/FuseKernels.h"

#include "passes/LaneBounds.h"
#include "passes/Passes.h"
#include "passes/Support.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sectile::passes {
#define GEN_PASS_DEF_FUSEKERNELSPASS
#include "passes/Passes.h.inc"
} // namespace sectile::passes

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;
using namespace sectile::passes;

namespace {

int64_t numberOf(func::FuncOp func, unsigned arg) {
  auto number = func.getArgAttrOfType<IntegerAttr>(arg, chainTensorAttr);
  return number ? number.getInt() : -1;
}

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

GridOp gridOf(func::FuncOp func) {
  for (Operation &op : func.getBody().front())
    if (auto grid = llvm::dyn_cast<GridOp>(op))
      return grid;
  return {};
}

/// What one of the two kernels does with a tensor.
struct Uses {
  llvm::SmallVector<LoadOp> loads;
  llvm::SmallVector<StoreOp> stores;
  Operation *other = nullptr; ///< a slice, or single elements: somewhere in the tensor
  bool reads() const { return !loads.empty() || other; }
  bool writes() const { return !stores.empty() || writesOther; }
  bool writesOther = false; ///< through a slice
};

class Fuser {
public:
  Fuser(func::FuncOp first, func::FuncOp second, const FusionOptions &options)
      : first(first), second(second), options(options) {}

  std::variant<Fusion, FusionRefusal> run() {
    if (!sameGrid() || !join()) {
      discard();
      return FusionRefusal{refusedAt, why};
    }
    for (BlockArgument arg : fused.getArguments())
      if (llvm::isa<tileir::TensorType>(arg.getType()) && !checkTensor(arg)) {
        discard();
        return FusionRefusal{refusedAt, why};
      }
    if (options.needsForwarding && forwards.empty()) {
      apart(second.getLoc(), fmt::format("'{}' loads nothing that '{}' stores", second.getName().str(), first.getName().str()));
      discard();
      return FusionRefusal{refusedAt, why};
    }
    if (!vanish()) {
      discard();
      return FusionRefusal{refusedAt, why};
    }
    forward();
    first.erase();
    second.erase();
    result.kernel = fused;
    return std::move(result);
  }

private:
  struct Forward {
    int64_t number;
    BlockArgument tensor;
    StoreOp store;
    llvm::SmallVector<LoadOp> loads;
    bool vanishes = false;
  };

  bool apart(Location at, std::string text) {
    refusedAt = at;
    why = std::move(text);
    return false;
  }
  void discard() {
    if (fused)
      fused.erase();
  }

  /// Program p of one kernel is program p of the other.
  bool sameGrid() {
    GridOp a = gridOf(first), b = gridOf(second);
    const std::string from = first.getName().str(), to = second.getName().str();
    if (!a && !b)
      return true;
    if (!a || !b)
      return apart((a ? a : b).getLoc(), fmt::format("'{}' has a grid and '{}' has none", (a ? from : to), (a ? to : from)));
    if (a.getSizes() != b.getSizes())
      return apart(b.getLoc(), fmt::format("programs of '{}' cover {} elements, those of '{}' {}", to, shapeText(b.getSizes()), from,
                                            shapeText(a.getSizes())));
    TileMaps maps;
    for (int64_t d = 0, n = a.getSizes().size(); d < n; ++d)
      if (maps.length(a.getX(), d) != maps.length(b.getX(), d))
        return apart(b.getLoc(), fmt::format("axis {} of the grids of '{}' and '{}' has different lengths", d, from, to));
    return true;
  }

  /// Makes `fused` of both bodies, with one argument per number and one grid.
  bool join() {
    OpBuilder b(first);
    b.setInsertionPointAfter(second);
    llvm::SmallVector<Type> types;
    llvm::SmallVector<DictionaryAttr> attrs;
    llvm::DenseMap<int64_t, unsigned> place;
    for (func::FuncOp func : {first, second})
      for (unsigned i = 0; i < func.getNumArguments(); ++i) {
        auto [it, isNew] = place.try_emplace(numberOf(func, i), unsigned(types.size()));
        if (isNew) {
          types.push_back(func.getArgumentTypes()[i]);
          attrs.push_back(func.getArgAttrDict(i));
          continue;
        }
        // Read-only where both say so; temporary is what the later kernel says.
        NamedAttrList merged(attrs[it->second]);
        if (!func.getArgAttr(i, readOnlyAttr))
          merged.erase(readOnlyAttr);
        merged.erase(chainTemporaryAttr);
        if (func.getArgAttr(i, chainTemporaryAttr))
          merged.set(chainTemporaryAttr, b.getUnitAttr());
        attrs[it->second] = merged.getDictionary(b.getContext());
      }
    fused = func::FuncOp::create(b, FusedLoc::get(b.getContext(), {first.getLoc(), second.getLoc()}),
                                 (first.getName() + "_" + second.getName()).str(), b.getFunctionType(types, {}));
    fused->setAttr(kernelAttr, b.getUnitAttr());
    for (auto [i, dict] : llvm::enumerate(attrs))
      fused.setArgAttrs(i, dict);
    Block *body = fused.addEntryBlock();
    GridOp grid;
    for (func::FuncOp func : {first, second}) {
      IRMapping map;
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        map.map(func.getArgument(i), body->getArgument(place[numberOf(func, i)]));
      b.setInsertionPointToEnd(body);
      for (Operation &op : func.getBody().front()) {
        if (op.hasTrait<OpTrait::IsTerminator>()) {
          if (func == second)
            b.clone(op, map);
          continue;
        }
        if (auto own = llvm::dyn_cast<GridOp>(op); own && grid) {
          map.map(own.getOffsets(), grid.getOffsets());
          continue;
        }
        Operation *copy = b.clone(op, map);
        if (auto own = llvm::dyn_cast<GridOp>(copy))
          grid = own;
        copy->walk([&](Operation *inner) { isSecond[inner] = func == second; });
      }
    }
    return true;
  }

  Uses usesOf(BlockArgument tensor, bool inSecond) {
    Uses uses;
    llvm::SmallVector<Value> views{tensor};
    for (size_t i = 0; i < views.size(); ++i)
      for (Operation *user : views[i].getUsers()) {
        if (isSecond.lookup(user) != inSecond || llvm::isa<DimOp, GridOp>(user))
          continue;
        const bool whole = i == 0;
        if (auto load = llvm::dyn_cast<LoadOp>(user); load && whole)
          uses.loads.push_back(load);
        else if (auto store = llvm::dyn_cast<StoreOp>(user); store && whole)
          uses.stores.push_back(store);
        else if (llvm::isa<StoreOp>(user))
          uses.writesOther = true;
        else if (llvm::isa<LoadOp, GatherOp>(user))
          uses.other = user;
        else if (auto slice = llvm::dyn_cast<SliceOp>(user))
          views.push_back(slice.getResult());
        else { // carried by a loop or branch: anything may happen to it
          uses.other = user;
          uses.writesOther = !isReadOnly(tensor);
        }
      }
    return uses;
  }

  bool isReadOnly(BlockArgument tensor) { return bool(fused.getArgAttr(tensor.getArgNumber(), readOnlyAttr)); }

  /// Whether what both kernels do with one tensor may be done by one; notes what is forwarded.
  bool checkTensor(BlockArgument tensor) {
    Uses a = usesOf(tensor, false), b = usesOf(tensor, true);
    const std::string from = first.getName().str(), to = second.getName().str();
    if (!a.writes() && !b.writes())
      return true;
    if (b.writes() && (a.reads() || a.writes())) {
      Operation *at = b.stores.empty() ? b.other : b.stores.front();
      return apart(at ? at->getLoc() : second.getLoc(),
                    fmt::format("'{}' writes a tensor that programs of '{}' may still {}", to, from, a.writes() ? "write" : "read"));
    }
    if (!a.writes() || !b.reads())
      return true; // each writes for itself
    if (b.other)
      return apart(b.other->getLoc(), fmt::format("'{}' reads elements that other programs of '{}' store", to, from));
    if (a.stores.size() != 1 || a.writesOther || a.reads())
      return apart(a.stores.empty() ? first.getLoc() : a.stores.back().getLoc(),
                    fmt::format("'{}' does not store its tile of this tensor once and never read it", from));
    StoreOp store = a.stores.front();
    if (store->getBlock() != &fused.getBody().front())
      return apart(store.getLoc(), fmt::format("'{}' stores inside a loop or branch what '{}' loads", from, to));
    for (LoadOp load : b.loads)
      if (!sameTile(store, load))
        return false;
    if (!sameLanes(store))
      return false;
    forwards.push_back({numberOf(fused, tensor.getArgNumber()), tensor, store, b.loads});
    return true;
  }

  bool sameTile(StoreOp store, LoadOp load) {
    const std::string from = first.getName().str(), to = second.getName().str();
    auto stored = shapeOf(store.getValue().getType()), loaded = shapeOf(load.getType());
    if (stored != loaded)
      return apart(load.getLoc(), fmt::format("'{}' loads tiles of {} of what '{}' stores as tiles of {}", to, shapeText(loaded), from,
                                               shapeText(stored)));
    for (auto [d, pair] : llvm::enumerate(llvm::zip_equal(store.getOffsets(), load.getOffsets())))
      if (maps.form(std::get<0>(pair)) != maps.form(std::get<1>(pair)))
        return apart(load.getLoc(), fmt::format("'{}' loads at another offset along axis {} than '{}' stores", to, d, from));
    return true;
  }

  /// The lanes of what is stored are those that a load of the tensor at this place has.
  bool sameLanes(StoreOp store) {
    const std::string from = first.getName().str();
    if (Operation *mask = maps.mask(store.getValue()))
      return apart(mask->getLoc(), fmt::format("'{}' may leave out lanes of the tile that it stores", from));
    for (int64_t d = 0, n = store.getOffsets().size(); d < n; ++d) {
      const auto length = maps.length(store.getX(), d);
      const IndexForm offset = maps.form(store.getOffsets()[d]);
      const int64_t count = shapeOf(store.getValue().getType())[d];
      const bool always = maps.alwaysInside(offset, *length, count) || (count == 1 && offset == IndexForm());
      const AxisLanes lanes = maps.lanes(store.getValue(), d);
      if (lanes.unclear)
        return apart(lanes.unclear->getLoc(), fmt::format("which lanes of axis {} '{}' stores does not follow from its loads", d, from));
      if (lanes.bounds.empty() && !always)
        return apart(store.getLoc(), fmt::format("'{}' stores lanes of axis {} that the tensor does not have", from, d));
      for (const LaneBound &bound : lanes.bounds)
        if (bound.length != *length || bound.offset != offset)
          return apart(store.getLoc(), fmt::format("what '{}' stores ends along axis {} where another tensor does", from, d));
    }
    return true;
  }

  /// Finds what takes over the lengths of tensors that are no argument any more.
  bool vanish() {
    llvm::DenseSet<Value> gone;
    for (Forward &f : forwards)
      if (fused.getArgAttr(f.tensor.getArgNumber(), chainTemporaryAttr)) {
        f.vanishes = true;
        gone.insert(f.tensor);
      }
    for (Value tensor : gone)
      for (Operation *user : llvm::make_early_inc_range(tensor.getUsers())) {
        const int64_t axes = llvm::isa<GridOp>(user) ? llvm::cast<GridOp>(user).getSizes().size() : 1;
        const int64_t begin = llvm::isa<DimOp>(user) ? int64_t(llvm::cast<DimOp>(user).getAxis()) : 0;
        if (!llvm::isa<DimOp, GridOp>(user))
          continue;
        auto stand = standIn(tensor, begin, axes, llvm::isa<GridOp>(user), gone);
        if (!stand)
          return apart(user->getLoc(), fmt::format("no other tensor has the lengths of the one between '{}' and '{}'",
                                                    first.getName().str(), second.getName().str()));
        replacements.push_back({user, *stand});
      }
    return true;
  }

  /// A tensor that stays, and the axis from which on its lengths are those of `tensor` from `begin` on.
  std::optional<std::pair<Value, int64_t>> standIn(Value tensor, int64_t begin, int64_t axes, bool fromFirst,
                                                   const llvm::DenseSet<Value> &gone) {
    // Equal lengths may be so by chance: those of a result along the same axes come first.
    for (bool isResult : {true, false})
      for (BlockArgument other : llvm::reverse(fused.getArguments())) {
        auto type = llvm::dyn_cast<tileir::TensorType>(other.getType());
        if (!type || gone.contains(other) || isReadOnly(other) == isResult)
          continue;
        for (int64_t at = isResult ? begin : 0; at + axes <= type.getRank() && (at == 0 || !fromFirst) && (!isResult || at == begin); ++at) {
          bool same = true;
          for (int64_t d = 0; d < axes; ++d)
            same &= maps.length(other, at + d) == maps.length(tensor, begin + d);
          if (same)
            return std::pair<Value, int64_t>(other, at);
        }
      }
    return std::nullopt;
  }

  void forward() {
    for (auto &[user, stand] : replacements) {
      if (auto dim = llvm::dyn_cast<DimOp>(user)) {
        dim.getXMutable().assign(stand.first);
        dim.setAxis(stand.second);
      } else {
        llvm::cast<GridOp>(user).getXMutable().assign(stand.first);
      }
    }
    llvm::BitVector erased(fused.getNumArguments());
    for (Forward &f : forwards) {
      result.forwarded.push_back(f.number);
      bool unrounded = false;
      for (LoadOp load : f.loads) {
        if (!options.keepRounding)
          unrounded |= leaveOutRounding(f.store.getValue(), load);
        load.getResult().replaceAllUsesWith(f.store.getValue());
        load.erase();
      }
      if (unrounded)
        result.unrounded.push_back(f.number);
      if (!f.vanishes)
        continue;
      f.store.erase();
      result.vanished.push_back(f.number);
      erased.set(f.tensor.getArgNumber());
    }
    (void)fused.eraseArguments(erased);
    IRRewriter rewriter(fused.getContext());
    DominanceInfo dominance(fused);
    eliminateCommonSubExpressions(rewriter, dominance, fused); // what both kernels load, and their offsets
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(fused.getBody().front())))
      if (isOpTriviallyDead(&op))
        rewriter.eraseOp(&op);
  }

  /// Uses of `load` that cast 16 bits back to the type from which `stored` was rounded take the value from before.
  static bool leaveOutRounding(Value stored, LoadOp load) {
    ReshapeOp reshape = stored.getDefiningOp<ReshapeOp>();
    auto narrow = (reshape ? reshape.getX() : stored).getDefiningOp<CastOp>();
    auto isHalf = [](Type t) { return t.isF16() || t.isBF16(); };
    if (!narrow || !isHalf(elementOf(narrow.getType())) || !elementOf(narrow.getX().getType()).isF32())
      return false;
    bool any = false;
    for (Operation *user : llvm::make_early_inc_range(load->getUsers())) {
      auto wide = llvm::dyn_cast<CastOp>(user);
      if (!wide || !elementOf(wide.getType()).isF32())
        continue;
      Value before = narrow.getX();
      if (reshape) {
        OpBuilder b(wide);
        before = ReshapeOp::create(b, wide.getLoc(), withElement(stored.getType(), elementOf(before.getType())), before);
      }
      wide.getResult().replaceAllUsesWith(before);
      wide.erase();
      any = true;
    }
    return any;
  }

  func::FuncOp first, second, fused;
  const FusionOptions &options;
  TileMaps maps;
  Fusion result;
  std::string why;
  Location refusedAt = UnknownLoc::get(first.getContext());
  llvm::DenseMap<Operation *, bool> isSecond;
  std::vector<Forward> forwards;
  llvm::SmallVector<std::pair<Operation *, std::pair<Value, int64_t>>> replacements;
};

struct FuseKernels : sectile::passes::impl::FuseKernelsPassBase<FuseKernels> {
  using Base::Base;
  void runOnOperation() override {
    FusionOptions options;
    options.keepRounding = keepRounding;
    llvm::SmallVector<func::FuncOp> kernels;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr(kernelAttr))
        kernels.push_back(func);
    func::FuncOp last;
    for (func::FuncOp next : kernels) {
      if (!last) {
        last = next;
        continue;
      }
      auto fused = fuse(last, next, options);
      if (auto *refusal = std::get_if<FusionRefusal>(&fused)) {
        emitRemark(refusal->at) << "not fused: " << refusal->why;
        last = next;
      } else {
        last = std::get<Fusion>(fused).kernel;
      }
    }
  }
};

} // namespace

namespace sectile::passes {

std::variant<Fusion, FusionRefusal> fuse(func::FuncOp first, func::FuncOp second, const FusionOptions &options) {
  return Fuser(first, second, options).run();
}

} // namespace sectile::passes
