// SPDX-License-Identifier: Apache-2.0
#include "dsl/Work.h"

#include "dsl/Context.h"
#include "dsl/Lower.h"
#include "dsl/Trace.h"
#include "ir/IndexFacts.h"
#include "ir/Interp.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace sectile {

using namespace tileir;

double KernelWork::flops() const {
  double sum = 0;
  for (const WorkProduct &p : products)
    sum += 2.0 * p.m * p.n * p.k * p.times;
  return sum * programs;
}
double KernelWork::bytesMoved() const {
  double sum = 0;
  for (const WorkAccess &a : accesses)
    sum += static_cast<double>(a.bytes) * a.times;
  return sum * programs;
}

namespace {

/// Trips of a loop whose bounds depend on data that only the device has.
constexpr double unknownTrips = 16;
/// Of a long axis of programs, so many are looked at.
constexpr std::int64_t samplesPerAxis = 3;

/// Index values of one program. Values that depend on memory are not known.
class IndexValues {
public:
  IndexValues(mlir::func::FuncOp func, std::span<const KernelArg> args, std::span<const std::int64_t> program)
      : func(func), args(args), program(program) {}

  std::optional<double> of(mlir::Value v) {
    auto [it, isNew] = known.try_emplace(v, std::nullopt);
    if (!isNew)
      return it->second;
    std::optional<double> value = compute(v);
    return known[v] = value;
  }
  void set(mlir::Value v, double value) { known[v] = value; }

private:
  std::optional<double> compute(mlir::Value v) {
    if (auto constant = IndexFacts::constant(v))
      return static_cast<double>(*constant);
    if (auto arg = llvm::dyn_cast<mlir::BlockArgument>(v)) {
      if (arg.getOwner() != &func.getBody().front() || arg.getArgNumber() >= args.size())
        return std::nullopt;
      const KernelArg &a = args[arg.getArgNumber()];
      if (a.isTensor() || isFloat(a.dtype))
        return std::nullopt;
      return static_cast<double>(static_cast<std::int64_t>(byteSize(a.dtype) == 4 ? static_cast<std::int32_t>(a.scalar)
                                                                                  : static_cast<std::int64_t>(a.scalar)));
    }
    mlir::Operation *op = v.getDefiningOp();
    return llvm::TypeSwitch<mlir::Operation *, std::optional<double>>(op)
        .Case([&](GridOp grid) -> std::optional<double> {
          unsigned d = llvm::cast<mlir::OpResult>(v).getResultNumber();
          return static_cast<double>(program[d] * grid.getSizes()[d]);
        })
        .Case([&](DimOp dim) { return lengthOf(dim.getX(), static_cast<std::int64_t>(dim.getAxis())); })
        .Case([&](CastOp cast) { return of(cast.getX()); })
        .Case([&](SelectOp select) -> std::optional<double> {
          auto a = of(select.getA()), b = of(select.getB());
          return a && b ? std::optional((*a + *b) / 2) : std::nullopt;
        })
        .Case([&](BinaryOp binary) -> std::optional<double> {
          auto a = of(binary.getA()), b = of(binary.getB());
          return a && b ? apply(binary.getFn(), *a, *b) : std::nullopt;
        })
        .Default([](mlir::Operation *) { return std::nullopt; });
  }
  static std::optional<double> apply(BinaryFn fn, double a, double b) {
    switch (fn) {
    case BinaryFn::k_add: return a + b;
    case BinaryFn::k_sub: return a - b;
    case BinaryFn::k_mul: return a * b;
    case BinaryFn::k_max: case BinaryFn::k_maxnum: return std::max(a, b);
    case BinaryFn::k_min: case BinaryFn::k_minnum: return std::min(a, b);
    case BinaryFn::k_div: return b == 0 ? 0 : std::trunc(a / b);
    case BinaryFn::k_floordiv: return b == 0 ? 0 : std::floor(a / b);
    case BinaryFn::k_rem: return b == 0 ? a : std::fmod(a, b);
    case BinaryFn::k_floormod: return b == 0 ? a : a - std::floor(a / b) * b;
    default: return std::nullopt;
    }
  }
  std::optional<double> lengthOf(mlir::Value view, std::int64_t axis) {
    if (auto slice = view.getDefiningOp<SliceOp>()) {
      auto whole = lengthOf(slice.getX(), axis);
      if (static_cast<std::int64_t>(slice.getAxis()) != axis)
        return whole;
      auto lo = of(slice.getLo()), hi = of(slice.getHi());
      if (lo && hi && whole)
        return std::max(0.0, std::min(*hi, *whole) - std::max(0.0, *lo));
      return std::nullopt;
    }
    auto arg = llvm::dyn_cast<mlir::BlockArgument>(view);
    if (!arg || arg.getOwner() != &func.getBody().front() || arg.getArgNumber() >= args.size())
      return std::nullopt;
    return static_cast<double>(args[arg.getArgNumber()].dims[static_cast<std::size_t>(axis)]);
  }

  mlir::func::FuncOp func;
  std::span<const KernelArg> args;
  std::span<const std::int64_t> program;
  llvm::DenseMap<mlir::Value, std::optional<double>> known;
};

std::int64_t elementsOf(mlir::Type t) {
  auto tile = llvm::dyn_cast<mlir::RankedTensorType>(t);
  return tile ? tile.getNumElements() : 1;
}
/// Bytes in registers: coordinates and truth values cost next to nothing, narrow numbers are packed.
std::int64_t registerBytes(mlir::Type t) {
  auto tile = llvm::dyn_cast<mlir::RankedTensorType>(t);
  if (!tile || tile.getElementType().isIndex() || tile.getElementType().isInteger(1))
    return 0;
  auto dtype = dtypeOfType(tile.getElementType());
  return dtype ? tile.getNumElements() * static_cast<std::int64_t>(byteSize(*dtype)) : 0;
}

class Counter {
public:
  Counter(mlir::func::FuncOp func, std::span<const KernelArg> args, KernelWork &out) : func(func), args(args), out(out) {}

  void run() {
    findGrid();
    listOps();
    std::vector<std::vector<std::int64_t>> programs = samples();
    for (const auto &program : programs) {
      IndexValues values(func, args, program);
      count(func.getBody().front(), 1, 1.0 / static_cast<double>(programs.size()), -1, values);
    }
    out.liveBytes = liveThrough(func.getBody().front(), 0);
    out.canSplit = onlyAccumulates();
    for (const KernelArg &a : args) {
      double bytes = a.isTensor() ? static_cast<double>(byteSize(a.dtype)) : 0;
      for (int d = 0; d < a.rank; ++d) // an axis of stride 0 repeats the same elements
        bytes *= static_cast<double>(a.strides[static_cast<std::size_t>(d)] ? a.dims[static_cast<std::size_t>(d)] : 1);
      out.argumentBytes.push_back(bytes);
    }
  }

private:
  void findGrid() {
    for (GridOp grid : func.getOps<GridOp>()) {
      auto arg = llvm::dyn_cast<mlir::BlockArgument>(grid.getX());
      for (auto [d, size] : llvm::enumerate(grid.getSizes())) {
        std::int64_t length = arg ? args[arg.getArgNumber()].dims[d] : 1;
        out.grid.push_back((length + size - 1) / size);
        out.programs *= static_cast<double>(out.grid.back());
      }
    }
  }

  /// Programs from the first, the middle and the last of every axis, at most 3^3.
  std::vector<std::vector<std::int64_t>> samples() const {
    std::vector<std::vector<std::int64_t>> list{{}};
    int wide = 0;
    for (std::int64_t n : out.grid) {
      std::vector<std::int64_t> places{n / 2};
      if (n > 1 && ++wide <= 3)
        places = n == 2 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{0, (n - 1) / 2, n - 1};
      std::vector<std::vector<std::int64_t>> next;
      for (const auto &head : list)
        for (std::int64_t place : places) {
          next.push_back(head);
          next.back().push_back(place);
        }
      list = std::move(next);
    }
    return list;
  }

  /// True if a tile is nothing but an operand of products, by moving axes alone.
  bool onlyFeedsProducts(mlir::Value v) {
    if (v.use_empty())
      return false;
    return llvm::all_of(v.getUses(), [&](mlir::OpOperand &use) {
      if (auto mma = llvm::dyn_cast<MmaOp>(use.getOwner()))
        return use.get() != mma.getAcc();
      return llvm::isa<PermuteOp, ReshapeOp>(use.getOwner()) && onlyFeedsProducts(use.getOwner()->getResult(0));
    });
  }
  static bool comesFromMemory(mlir::Value v) {
    mlir::Operation *op = v.getDefiningOp();
    if (op && llvm::isa<PermuteOp, ReshapeOp>(op))
      return comesFromMemory(op->getOperand(0));
    return op && llvm::isa<LoadOp>(op);
  }

  void access(mlir::Operation *op, mlir::Value view, mlir::Type tile, bool writes, bool gathers) {
    WorkAccess a;
    if (auto arg = llvm::dyn_cast<mlir::BlockArgument>(rootTensor(view)))
      if (arg.getOwner() == &func.getBody().front())
        a.arg = static_cast<int>(arg.getArgNumber());
    a.writes = writes;
    a.gathers = gathers;
    a.dtype = *dtypeOfType(elementOf(tile));
    a.shape = shapeOf(tile).vec();
    a.bytes = elementsOf(tile) * static_cast<std::int64_t>(byteSize(a.dtype));
    a.feedsProduct = !writes && !gathers && onlyFeedsProducts(op->getResult(0));
    if (a.feedsProduct)
      operands.insert(op->getResult(0));
    accessOf[op] = out.accesses.size();
    out.accesses.push_back(std::move(a));
  }

  void listOps() {
    func.walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) {
      llvm::TypeSwitch<mlir::Operation *>(op)
          .Case([&](LoadOp o) { access(o, o.getX(), o.getType(), false, false); })
          .Case([&](StoreOp o) { access(o, o.getX(), o.getValue().getType(), true, false); })
          .Case([&](GatherOp o) { access(o, o.getX(), o.getType(), false, true); })
          .Case([&](MmaOp o) {
            WorkProduct p;
            p.m = static_cast<int>(shapeOf(o.getA().getType())[0]);
            p.k = static_cast<int>(shapeOf(o.getA().getType())[1]);
            p.n = static_cast<int>(shapeOf(o.getB().getType())[1]);
            p.a = *dtypeOfType(elementOf(o.getA().getType()));
            p.b = *dtypeOfType(elementOf(o.getB().getType()));
            p.acc = *dtypeOfType(elementOf(o.getType()));
            p.tf32 = o.getPolicy() == tileir::MmaPolicy::k_tf32;
            p.loadsDirect = comesFromMemory(o.getA()) && comesFromMemory(o.getB());
            productOf[op] = out.products.size();
            out.products.push_back(p);
          })
          .Case([&](ReduceOp o) { out.largestReduced = std::max(out.largestReduced, elementsOf(o.getX().getType())); })
          .Case([&](mlir::scf::ForOp) {
            loopOf[op] = static_cast<int>(out.loops.size());
            out.loops.push_back({0, 0});
          })
          .Case([&](mlir::scf::WhileOp) {
            loopOf[op] = static_cast<int>(out.loops.size());
            out.loops.push_back({0, 0});
          });
      for (mlir::Value v : op->getResults())
        if (registerBytes(v.getType()) > 0 && !llvm::isa<ConstantOp, SplatOp, BroadcastOp>(op))
          out.largestTile = std::max(out.largestTile, elementsOf(v.getType()));
    });
  }

  static double specialCost(UnaryFn fn) {
    switch (fn) {
    case UnaryFn::k_exp: case UnaryFn::k_exp2: case UnaryFn::k_log: case UnaryFn::k_log2: case UnaryFn::k_sqrt:
    case UnaryFn::k_rsqrt: case UnaryFn::k_sin: case UnaryFn::k_cos: case UnaryFn::k_tanh: case UnaryFn::k_erf:
    case UnaryFn::k_sigmoid:
      return 1;
    default:
      return 0;
    }
  }

  /// Adds what `times` runs of a block do, with the weight of this program.
  void count(mlir::Block &block, double times, double weight, int loop, IndexValues &values) {
    for (mlir::Operation &op : block) {
      if (auto it = accessOf.find(&op); it != accessOf.end()) {
        out.accesses[it->second].times += times * weight;
        out.accesses[it->second].loop = loop;
        continue;
      }
      if (auto it = productOf.find(&op); it != productOf.end()) {
        out.products[it->second].times += times * weight;
        out.products[it->second].loop = loop;
        continue;
      }
      llvm::TypeSwitch<mlir::Operation *>(&op)
          .Case([&](mlir::scf::ForOp f) {
            auto lo = values.of(f.getLowerBound()), hi = values.of(f.getUpperBound()), step = values.of(f.getStep());
            double trips = unknownTrips;
            if (lo && hi && step && *step > 0)
              trips = std::max(0.0, std::ceil((*hi - *lo) / *step));
            if (lo && step) // loops inside see the middle trip
              values.set(f.getInductionVar(), *lo + std::floor(trips / 2) * *step);
            inside(f.getOperation(), *f.getBody(), times, trips, weight, values);
          })
          .Case([&](mlir::scf::WhileOp w) {
            for (mlir::Region &region : w->getRegions())
              inside(w.getOperation(), region.front(), times, unknownTrips, weight, values);
          })
          .Case([&](mlir::scf::IfOp branch) {
            // Which one runs is known on the device: half the work of each, all of a single one.
            bool both = branch.elseBlock() && !branch.elseBlock()->without_terminator().empty();
            count(*branch.thenBlock(), times * (both ? 0.5 : 1), weight, loop, values);
            if (both)
              count(*branch.elseBlock(), times * 0.5, weight, loop, values);
          })
          .Case([&](UnaryOp u) {
            double lanes = static_cast<double>(elementsOf(u.getType())) * times * weight;
            out.elementOps += lanes;
            out.specialOps += lanes * specialCost(u.getFn());
          })
          .Case([&](BinaryOp b) {
            if (registerBytes(b.getType()) == 0)
              return;
            double lanes = static_cast<double>(elementsOf(b.getType())) * times * weight;
            out.elementOps += lanes;
            if (b.getFn() == BinaryFn::k_div || b.getFn() == BinaryFn::k_pow)
              out.specialOps += lanes;
          })
          .Case<CompareOp, SelectOp, FmaOp, CastOp, KeepOp>([&](mlir::Operation *o) {
            if (elementsOf(o->getResult(0).getType()) > 1)
              out.elementOps += static_cast<double>(elementsOf(o->getResult(0).getType())) * times * weight;
          })
          .Case([&](ReduceOp r) {
            out.elementOps += static_cast<double>(elementsOf(r.getX().getType())) * times * weight;
          });
    }
  }
  void inside(mlir::Operation *op, mlir::Block &body, double times, double trips, double weight, IndexValues &values) {
    int loop = loopOf.lookup(op);
    out.loops[static_cast<std::size_t>(loop)].entries += times * weight;
    out.loops[static_cast<std::size_t>(loop)].trips += trips * weight;
    count(body, times * trips, weight, loop, values);
  }

  /// The most bytes of tiles alive at some place of the block, `around` of them outside of it.
  std::int64_t liveThrough(mlir::Block &block, std::int64_t around) {
    llvm::DenseSet<mlir::Value> live;
    std::int64_t now = around, most = around;
    auto begin = [&](mlir::Value v) {
      std::int64_t bytes = operands.contains(v) ? 0 : registerBytes(v.getType());
      mlir::Operation *def = v.getDefiningOp();
      bool cheap = def && llvm::isa<ConstantOp, SplatOp, BroadcastOp, IotaOp>(def);
      if (bytes && !cheap && v.getParentBlock() == &block && live.insert(v).second)
        now += bytes;
      most = std::max(most, now);
    };
    for (mlir::Operation &op : llvm::reverse(block)) {
      for (mlir::Value v : op.getResults())
        if (live.erase(v))
          now -= registerBytes(v.getType());
      std::int64_t results = 0;
      for (mlir::Value v : op.getResults())
        results += operands.contains(v) ? 0 : registerBytes(v.getType());
      // Elementwise ops write where their operands were; only what outlives them counts.
      if (op.getNumRegions()) {
        for (mlir::Region &region : op.getRegions())
          for (mlir::Block &inner : region)
            most = std::max(most, liveThrough(inner, now));
      }
      most = std::max(most, now + (llvm::isa<LoadOp, MmaOp>(op) ? results : 0));
      for (mlir::Value v : op.getOperands())
        if (!llvm::isa<mlir::scf::ForOp>(op)) // carried values live on inside, where they are counted
          begin(v);
    }
    for (mlir::BlockArgument arg : block.getArguments())
      if (!live.contains(arg))
        most = std::max(most, now + (arg.use_empty() ? 0 : registerBytes(arg.getType())));
    return most;
  }

  /// One loop at the top level that writes nothing, and no other.
  bool onlyAccumulates() {
    mlir::scf::ForOp only;
    for (mlir::Operation &op : func.getBody().front()) {
      if (auto loop = llvm::dyn_cast<mlir::scf::ForOp>(op)) {
        if (only || loop.getNumResults() == 0 ||
            loop.walk([](StoreOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted())
          return false;
        only = loop;
      } else if (op.getNumRegions()) {
        return false;
      } else if (!only && llvm::isa<StoreOp>(op)) {
        return false;
      }
    }
    return static_cast<bool>(only);
  }

  mlir::func::FuncOp func;
  std::span<const KernelArg> args;
  KernelWork &out;
  llvm::DenseMap<mlir::Operation *, std::size_t> accessOf, productOf;
  llvm::DenseMap<mlir::Operation *, int> loopOf;
  llvm::DenseSet<mlir::Value> operands;
};

mlir::func::FuncOp kernelFunction(mlir::ModuleOp module) {
  mlir::func::FuncOp func;
  module.walk([&](mlir::func::FuncOp f) {
    if (f->hasAttr(kernelAttr))
      func = f;
  });
  return func;
}

} // namespace

TracedWork traceWork(const sectile::detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config &config,
                     Config *asked) {
  ContextLease context;
  TracedWork traced;
  traced.config = config;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  try {
    module = sectile::detail::trace(*context, kernel, args, traced.config);
  } catch (const UserError &) {
    if (asked)
      *asked = traced.config;
    throw;
  }
  for (std::size_t i = 0; i < args.size(); ++i)
    if (kernel.params[i].kind != sectile::detail::ParamDesc::Kind::constant)
      traced.args.push_back(args[i]);
  traced.text = moduleText(*module);
  Counter(kernelFunction(*module), traced.args, traced.work).run();
  return traced;
}

bool isTracing() { return sectile::detail::tracing(); }

std::function<void(std::span<const KernelArg>)> interpreterProgram(const std::string &text) {
  ContextLease context;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(context.get()));
  std::shared_ptr<const tileir::InterpProgram> program;
  if (module && kernelFunction(*module))
    program = tileir::InterpProgram::build(*module);
  if (!program)
    throw InternalError("a module for the interpreter cannot be read back");
  return [program](std::span<const KernelArg> args) { program->run(args); };
}

} // namespace sectile
