// SPDX-License-Identifier: Apache-2.0
/// \file FuseKernels: kernels launched one after the other become one kernel.
///
/// Before: kernels of a chain, in the order of their launches; arguments with one tile.chain_tensor are one tensor, axes with
/// one number in tile.chain_lengths have one length. After: where it is legal, one kernel. A tensor that only the second
/// reads (tile.chain_temporary) is no argument any more. There are two ways, tried in this order:
///
/// Behind each other: the programs of the second are appended to those of the first; what the second loads of a tensor that
/// the first stores is the stored value itself. Loops of both over one range that load a tile in common become one loop.
/// - Programs: both grids have the same sizes over axes of the same lengths, so that program p of one is program p of the
///   other.
/// - Tile maps: each load of a tensor that the first stores has the shape and, as linear forms of grid offsets, lengths and
///   numbers, the offsets of its one store, which every program runs.
///
/// Inside: wherever the second loads a tile that the first stores, in a loop or not, the program of the first that stores it
/// runs there. What several programs of the second load is computed by each of them.
/// - Programs: the first stores at its grid's offsets, tiles that do not overlap. The tile loaded has the shape of a stored one, and
///   an offset that is a multiple of its length: so one program of the first has stored it, and the offset says which.
/// - Nobody else needs what the first stores.
///
/// Legal means, proved here, for both:
/// - Lanes: the store leaves out no lane that lies in the tensor. If what it stores has lanes beyond it, these are left out of
///   the value that takes the place of the load. So that has exactly the lanes that memory would have given.
/// - Memory: the second writes nothing that the first reads or writes, and reads nothing else that the first writes.
///   (Programs of the first may still run when this one's second part begins.)
/// Without keepRounding, a value that the first rounds to f16 or bf16 for memory, and the second casts back to f32, stays f32.

#include "passes/FuseKernels.h"

#include "ir/IndexFacts.h"
#include "passes/LaneBounds.h"
#include "passes/MergeLoops.h"
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
    if (!append()) {
      const FusionRefusal behind{refusedAt, why};
      reset();
      bool isSame = false;
      if (!runInside(isSame)) {
        const FusionRefusal inside{refusedAt, why};
        reset();
        // Where the second loads tiles as the first stores them, what is in the way of its programs is in the way of all.
        return isSame ? inside : behind;
      }
    }
    tidy();
    first.erase();
    second.erase();
    result.kernel = fused;
    return std::move(result);
  }

private:
  struct Forward {
    int64_t number;
    BlockArgument tensor;
    StoreOp store; ///< null: it has not been taken over
    llvm::SmallVector<LoadOp> loads;
    llvm::SmallVector<int64_t> beyond; ///< axes along which the stored tile may have lanes that the tensor does not have
    bool vanishes = false;
  };

  bool append() {
    if (!sameGrid())
      return false;
    join();
    for (BlockArgument arg : fused.getArguments())
      if (llvm::isa<tileir::TensorType>(arg.getType()) && !checkTensor(arg))
        return false;
    forward();
    for (Value tensor : mergeLoops(fused))
      result.shared.push_back(numberOf(fused, llvm::cast<BlockArgument>(tensor).getArgNumber()));
    if (!retire())
      return false;
    if (options.needsForwarding && result.forwarded.empty() && result.shared.empty())
      return apart(second.getLoc(),
                   fmt::format("'{}' loads nothing that '{}' stores, and no loops of both load the same tiles", second.getName().str(), first.getName().str()));
    return true;
  }

  /// Programs of the first run inside the second. `isSame`: all tiles loaded have the shape of the stored ones.
  bool runInside(bool &isSame) {
    const std::string from = first.getName().str(), to = second.getName().str();
    makeFused();
    IRMapping ofSecond = argumentsOf(second);
    OpBuilder b(first);
    b.setInsertionPointToEnd(&fused.getBody().front());
    for (Operation &op : second.getBody().front()) {
      Operation *copy = b.clone(op, ofSecond);
      copy->walk([&](Operation *inner) { isSecond[inner] = true; });
    }
    llvm::SmallVector<StoreOp> stores;
    first.walk([&](StoreOp store) { stores.push_back(store); });
    for (StoreOp store : stores)
      if (!addInside(store))
        return false;
    if (forwards.empty())
      return apart(second.getLoc(), fmt::format("'{}' loads nothing that '{}' stores", to, from));
    for (BlockArgument arg : first.getArguments()) {
      BlockArgument both = fused.getArgument(place[numberOf(first, arg.getArgNumber())]);
      if (!llvm::isa<tileir::TensorType>(arg.getType()) || llvm::any_of(forwards, [&](const Forward &f) { return f.tensor == both; }))
        continue;
      if (Uses uses = usesOf(both, true); uses.writes())
        return apart(uses.stores.empty() ? second.getLoc() : uses.stores.front()->getLoc(),
                     fmt::format("'{}' writes a tensor that programs of '{}' may still read", to, from));
    }
    isSame = true;
    for (Forward &f : forwards) {
      StoreOp store = std::exchange(f.store, {});
      bool unrounded = false;
      for (LoadOp load : f.loads) {
        llvm::SmallVector<Value> at;
        if (!programOf(store, load, at))
          return false;
        OpBuilder body(load);
        Value value = cloneProgram(body, store, at);
        llvm::SmallVector<int64_t> beyond;
        if (!sameLanes(value, f.tensor, load.getOffsets(), store.getLoc(), beyond))
          return false;
        unrounded |= replaceLoad(load, within(body, value, f.tensor, load.getOffsets(), beyond, store.getLoc()));
      }
      if (unrounded)
        result.unrounded.push_back(f.number);
    }
    result.inside = true;
    return retire();
  }

  /// Notes a tensor that the first stores, and the loads of it.
  bool addInside(StoreOp store) {
    const std::string from = first.getName().str(), to = second.getName().str();
    auto arg = llvm::dyn_cast<BlockArgument>(store.getX());
    if (!arg || arg.getOwner() != &first.getBody().front() || store->getBlock() != &first.getBody().front())
      return apart(store.getLoc(), fmt::format("'{}' stores inside a loop, a branch or a slice what '{}' loads", from, to));
    for (Operation *user : arg.getUsers())
      if (user != store && !llvm::isa<DimOp, GridOp>(user))
        return apart(user->getLoc(), fmt::format("'{}' does not store its tile of this tensor once and never read it", from));
    BlockArgument tensor = fused.getArgument(place[numberOf(first, arg.getArgNumber())]);
    Uses uses = usesOf(tensor, true);
    if (uses.other || uses.writes())
      return apart(uses.other ? uses.other->getLoc() : uses.stores.front()->getLoc(),
                   fmt::format("'{}' {} elements that other programs of '{}' store", to, uses.other ? "reads" : "writes", from));
    if (!fused.getArgAttr(tensor.getArgNumber(), chainTemporaryAttr) || uses.loads.empty())
      return apart(store.getLoc(), fmt::format("what '{}' stores is needed elsewhere than in '{}', too", from, to));
    for (LoadOp load : uses.loads)
      if (shapeOf(load.getType()) != shapeOf(store.getValue().getType()))
        return apart(load.getLoc(), fmt::format("'{}' loads tiles of {} of what '{}' stores as tiles of {}", to, shapeText(shapeOf(load.getType())), from,
                                                shapeText(shapeOf(store.getValue().getType()))));
    forwards.push_back({numberOf(first, arg.getArgNumber()), tensor, store, uses.loads, {}});
    return true;
  }

  /// The grid offsets of the program of the first that stores what `load` loads.
  bool programOf(StoreOp store, LoadOp load, llvm::SmallVector<Value> &at) {
    const std::string from = first.getName().str(), to = second.getName().str();
    GridOp grid = gridOf(first);
    if (!grid)
      return true;
    at.assign(grid.getSizes().size(), Value());
    auto shape = shapeOf(load.getType());
    for (auto [axis, offset] : llvm::enumerate(store.getOffsets())) {
      const IndexForm form = maps.form(offset);
      Value wanted = load.getOffsets()[axis];
      int64_t d = grid.getSizes().size() - 1;
      while (d >= 0 && form != maps.form(grid.getOffsets()[d]))
        --d;
      if (d < 0) {
        // Constants and lengths mean the same in both kernels, other values do not.
        if (form != maps.form(wanted))
          return apart(load.getLoc(), fmt::format("'{}' loads at another offset along axis {} than '{}' stores", to, axis, from));
        continue;
      }
      if (shape[axis] != grid.getSizes()[d] || maps.length(store.getX(), axis) != maps.length(grid.getX(), d))
        return apart(store.getLoc(), fmt::format("tiles of axis {} that programs of '{}' store are not side by side", axis, from));
      if (!isMultiple(wanted, shape[axis]))
        return apart(load.getLoc(), fmt::format("'{}' loads along axis {} at offsets that need not be multiples of {}, as those of '{}' are", to, axis,
                                                shape[axis], from));
      if (at[d] && maps.form(at[d]) != maps.form(wanted))
        return apart(load.getLoc(), fmt::format("'{}' loads at another offset along axis {} than '{}' stores", to, axis, from));
      at[d] = wanted;
    }
    if (!llvm::all_of(at, [](Value v) { return bool(v); }))
      return apart(store.getLoc(), fmt::format("several programs of '{}' store one tile", from));
    return true;
  }

  static bool isMultiple(Value v, int64_t of) {
    if (auto constant = IndexFacts::constant(v))
      return *constant % of == 0;
    if (auto grid = v.getDefiningOp<GridOp>())
      return grid.getSizes()[llvm::cast<OpResult>(v).getResultNumber()] % of == 0;
    if (auto op = v.getDefiningOp<BinaryOp>()) {
      const bool a = isMultiple(op.getA(), of), b = isMultiple(op.getB(), of);
      if (op.getFn() == BinaryFn::k_mul)
        return a || b;
      return a && b && (op.getFn() == BinaryFn::k_add || op.getFn() == BinaryFn::k_sub);
    }
    auto arg = llvm::dyn_cast<BlockArgument>(v);
    auto loop = arg ? llvm::dyn_cast_or_null<scf::ForOp>(arg.getOwner()->getParentOp()) : scf::ForOp();
    if (loop && v == loop.getInductionVar())
      return isMultiple(loop.getLowerBound(), of) && isMultiple(loop.getStep(), of);
    return llvm::isPowerOf2_64(of) && IndexFacts().divisor(v) % of == 0;
  }

  /// The program of the first at these grid offsets, without its stores; gives what it would store.
  Value cloneProgram(OpBuilder &b, StoreOp store, ValueRange at) {
    IRMapping map = argumentsOf(first);
    for (Operation &op : first.getBody().front()) {
      if (auto grid = llvm::dyn_cast<GridOp>(op))
        map.map(grid.getOffsets(), at);
      else if (!llvm::isa<StoreOp>(op) && !op.hasTrait<OpTrait::IsTerminator>())
        b.clone(op, map)->walk([&](Operation *inner) { isSecond[inner] = false; });
    }
    return map.lookup(store.getValue());
  }

  bool apart(Location at, std::string text) {
    refusedAt = at;
    why = std::move(text);
    return false;
  }
  void reset() {
    if (fused)
      fused.erase();
    fused = {};
    result = {};
    isSecond.clear();
    forwards.clear();
    replacements.clear();
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

  /// Makes `fused`, empty, with one argument per number.
  void makeFused() {
    OpBuilder b(first);
    b.setInsertionPointAfter(second);
    llvm::SmallVector<Type> types;
    llvm::SmallVector<DictionaryAttr> attrs;
    place.clear();
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
    fused.addEntryBlock();
  }
  /// Maps the arguments of one of both kernels to those of `fused`.
  IRMapping argumentsOf(func::FuncOp func) {
    IRMapping map;
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      map.map(func.getArgument(i), fused.getArgument(place[numberOf(func, i)]));
    return map;
  }

  /// Both bodies, one behind the other, with one grid.
  void join() {
    makeFused();
    GridOp grid;
    OpBuilder b(first);
    for (func::FuncOp func : {first, second}) {
      IRMapping map = argumentsOf(func);
      b.setInsertionPointToEnd(&fused.getBody().front());
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
    Forward f{numberOf(fused, tensor.getArgNumber()), tensor, store, b.loads, {}};
    if (!sameLanes(store.getValue(), tensor, store.getOffsets(), store.getLoc(), f.beyond))
      return false;
    forwards.push_back(std::move(f));
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

  /// The lanes of a value that the first stores are those that a load of the tensor at this place has, but for lanes along
  /// axes in `beyond` that the tensor does not have.
  bool sameLanes(Value value, Value tensor, ValueRange offsets, Location at, llvm::SmallVector<int64_t> &beyond) {
    const std::string from = first.getName().str();
    if (Operation *mask = maps.mask(value))
      return apart(mask->getLoc(), fmt::format("'{}' may leave out lanes of the tile that it stores", from));
    for (int64_t d = 0, n = offsets.size(); d < n; ++d) {
      const auto length = maps.length(tensor, d);
      const IndexForm offset = maps.form(offsets[d]);
      const int64_t count = shapeOf(value.getType())[d];
      const bool always = maps.alwaysInside(offset, *length, count) || (count == 1 && offset == IndexForm());
      const AxisLanes lanes = maps.lanes(value, d);
      if (lanes.unclear)
        return apart(lanes.unclear->getLoc(), fmt::format("which lanes of axis {} '{}' stores does not follow from its loads", d, from));
      if (lanes.bounds.empty() && !always) {
        if (!IndexFacts().nonNegative(offsets[d]))
          return apart(at, fmt::format("'{}' stores lanes of axis {} that the tensor does not have", from, d));
        beyond.push_back(d);
      }
      for (const LaneBound &bound : lanes.bounds)
        if (bound.length != *length || bound.offset != offset)
          return apart(at, fmt::format("what '{}' stores ends along axis {} where another tensor does", from, d));
    }
    return true;
  }

  /// `value` without lanes beyond the tensor along these axes.
  static Value within(OpBuilder &b, Value value, Value tensor, ValueRange offsets, llvm::ArrayRef<int64_t> axes, Location loc) {
    for (int64_t d : axes) {
      auto type = withElement(value.getType(), b.getIndexType());
      Value length = DimOp::create(b, loc, b.getIndexType(), tensor, d);
      Value left = BinaryOp::create(b, loc, b.getIndexType(), BinaryFn::k_sub, length, offsets[d]);
      Value lane = IotaOp::create(b, loc, type, d), end = SplatOp::create(b, loc, type, left);
      Value exists = CompareOp::create(b, loc, withElement(type, b.getI1Type()), ComparePred::k_lt, lane, end);
      value = KeepOp::create(b, loc, value.getType(), exists, value);
    }
    return value;
  }

  /// Tensors that nobody reads any more are no argument; another one takes over their lengths.
  bool retire() {
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
      if (!f.vanishes)
        continue;
      if (f.store)
        f.store.erase();
      result.vanished.push_back(f.number);
      erased.set(f.tensor.getArgNumber());
    }
    (void)fused.eraseArguments(erased);
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

  /// Loads of the second take the stored values of the first.
  void forward() {
    for (Forward &f : forwards) {
      OpBuilder b(f.store);
      Value value = within(b, f.store.getValue(), f.tensor, f.store.getOffsets(), f.beyond, f.store.getLoc());
      bool unrounded = false;
      for (LoadOp load : f.loads)
        unrounded |= replaceLoad(load, value);
      if (unrounded)
        result.unrounded.push_back(f.number);
    }
  }
  /// Whether a rounding is left out.
  bool replaceLoad(LoadOp load, Value value) {
    const bool unrounded = !options.keepRounding && leaveOutRounding(value, load);
    load.getResult().replaceAllUsesWith(value);
    load.erase();
    return unrounded;
  }
  void tidy() {
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
  llvm::DenseMap<int64_t, unsigned> place; ///< argument of `fused` by number
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
