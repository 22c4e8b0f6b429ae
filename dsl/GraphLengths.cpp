// SPDX-License-Identifier: Apache-2.0
// The lengths of outputs that a graph's node leaves open. A kernel says nothing of them; but what it stores has lanes only
// where the tensors that it was loaded from have elements, and so the output ends where they do.
#include "dsl/Context.h"
#include "dsl/GraphImpl.h"
#include "dsl/Trace.h"
#include "ir/IndexFacts.h"
#include "passes/LaneBounds.h"

#include <fmt/format.h>

using namespace mlir;

namespace sectile::detail {
namespace {

class Lengths {
public:
  Lengths(const KernelDesc &kernel, std::vector<KernelArg> &args, const std::vector<bool> &isOpen, CodePosition where)
      : kernel(kernel), args(args), isOpen(isOpen), where(where) {}

  void run(ModuleOp module) {
    auto func = *module.getOps<func::FuncOp>().begin();
    for (std::size_t i = 0; i < args.size(); ++i)
      if (kernel.params[i].kind != ParamDesc::Kind::constant)
        paramOf.push_back(i);
    func.walk([&](tileir::MmaOp mma) { checkProduct(mma); });
    std::vector<std::array<std::int64_t, maxRank>> found(args.size());
    for (auto &dims : found)
      dims.fill(-1);
    func.walk([&](tileir::StoreOp store) {
      auto arg = llvm::dyn_cast<BlockArgument>(store.getX());
      if (!arg || !isOpen[paramOf[arg.getArgNumber()]])
        return;
      const std::size_t param = paramOf[arg.getArgNumber()];
      for (int d = 0; d < args[param].rank; ++d) {
        const std::int64_t length = lengthOf(store, d, arg);
        std::int64_t &known = found[param][static_cast<std::size_t>(d)];
        if (known >= 0 && known != length)
          open(param, d);
        known = length;
      }
    });
    for (std::size_t i = 0; i < args.size(); ++i)
      for (int d = 0; isOpen[i] && d < args[i].rank; ++d) {
        if (found[i][static_cast<std::size_t>(d)] < 0)
          open(i, d);
        args[i].dims[static_cast<std::size_t>(d)] = found[i][static_cast<std::size_t>(d)];
      }
  }

private:
  [[noreturn]] void open(std::size_t param, int axis) {
    throw UserError({SourceLoc(where), kernel.name, "graph",
                     fmt::format("the length of axis {} of output {} of '{}' does not follow from what the kernel stores", axis, param, kernel.name),
                     "graph_open", "give the output: a tensor made by the graph's tensor<T, R>({..}), or one in memory"});
  }
  [[noreturn]] void differ(const passes::LaneBound &a, std::int64_t lengthA, const passes::LaneBound &b, std::int64_t lengthB, const char *what) {
    throw UserError({SourceLoc(where), kernel.name, "graph",
                     fmt::format("'{}' {} axis {} of argument {}, of length {}, and axis {} of argument {}, of length {}", kernel.name, what,
                                 a.axis, paramNumber(a), lengthA, b.axis, paramNumber(b), lengthB),
                     "graph_lengths", "give tensors of lengths that fit each other, or name the output"});
  }
  std::size_t paramNumber(const passes::LaneBound &b) { return paramOf[llvm::cast<BlockArgument>(b.tensor).getArgNumber()]; }
  std::int64_t lengthOf(const passes::LaneBound &b) { return args[paramNumber(b)].dims[static_cast<std::size_t>(b.axis)]; }

  std::int64_t lengthOf(tileir::StoreOp store, int axis, BlockArgument output) {
    const passes::AxisLanes lanes = maps.lanes(store.getValue(), axis);
    const passes::IndexForm offset = maps.form(store.getOffsets()[axis]);
    const std::size_t param = paramOf[output.getArgNumber()];
    if (lanes.unclear)
      open(param, axis);
    if (!lanes.bounds.empty()) {
      for (const passes::LaneBound &b : lanes.bounds) {
        if (b.offset != offset || isOpen[paramNumber(b)])
          open(param, axis);
        if (lengthOf(b) != lengthOf(lanes.bounds.front()))
          differ(lanes.bounds.front(), lengthOf(lanes.bounds.front()), b, lengthOf(b), "joins");
      }
      return lengthOf(lanes.bounds.front());
    }
    const std::int64_t count = tileir::shapeOf(store.getValue().getType())[axis];
    if (offset.isConstant())
      return static_cast<std::int64_t>(offset.constant) + count;
    // One element per program along an axis that the grid covers.
    if (auto grid = store.getOffsets()[axis].getDefiningOp<tileir::GridOp>()) {
      const unsigned d = llvm::cast<OpResult>(store.getOffsets()[axis]).getResultNumber();
      const std::size_t covered = paramOf[llvm::cast<BlockArgument>(grid.getX()).getArgNumber()];
      if (grid.getSizes()[d] == 1 && count == 1 && !isOpen[covered])
        return args[covered].dims[d];
    }
    open(param, axis);
  }

  /// A product goes along axes of one length.
  void checkProduct(tileir::MmaOp mma) {
    const passes::AxisLanes a = maps.lanes(mma.getA(), 1), b = maps.lanes(mma.getB(), 0);
    for (const passes::LaneBound &x : a.bounds)
      for (const passes::LaneBound &y : b.bounds)
        if (x.offset == y.offset && !isOpen[paramNumber(x)] && !isOpen[paramNumber(y)] && lengthOf(x) != lengthOf(y))
          differ(x, lengthOf(x), y, lengthOf(y), "multiplies along");
  }

  const KernelDesc &kernel;
  std::vector<KernelArg> &args;
  const std::vector<bool> &isOpen;
  CodePosition where;
  std::vector<std::size_t> paramOf; ///< per argument of the traced function
  passes::TileMaps maps;
};

} // namespace

void inferLengths(const KernelDesc &kernel, std::vector<KernelArg> &args, const std::vector<bool> &isOpen, CodePosition where) {
  ContextLease context;
  Config config;
  OwningOpRef<ModuleOp> module = trace(*context, kernel, args, config);
  Lengths(kernel, args, isOpen, where).run(*module);
}

} // namespace sectile::detail
