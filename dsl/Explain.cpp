// SPDX-License-Identifier: Apache-2.0
#include "dsl/Explain.h"

#include "dsl/Diagnostics.h"
#include "dsl/ExplainPipes.h"
#include "ir/AccessPlan.h"
#include "ir/PingPong.h"
#include "ir/CopyPlan.h"
#include "ir/StripStores.h"
#include "ir/base/ShufflePlan.h"
#include "passes/LayoutCost.h"
#include "passes/SharedAccesses.h"
#include "passes/Remarks.h"
#include "passes/Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <algorithm>

namespace sectile {
namespace {

using Kind = ExplainedAccess::Kind;

constexpr std::int64_t sectorSize = 32;
/// Grids up to this size are run whole; of larger ones, so many programs of each kind: few where each takes long.
constexpr std::int64_t wholeGrid = 64, perKind = 16, perKindOfProducts = 4;

/// Shuffle instructions of a warp for a conversion.
std::int64_t shufflesOf(const ShufflePlan &plan, int bytes) {
  std::uint64_t packed = 0;
  for (auto [source, result] : plan.packedBits(bytes))
    packed |= std::uint64_t(1) << result;
  std::int64_t count = 0;
  for (std::uint64_t k = 0; k < std::uint64_t(1) << plan.resultBits(); ++k)
    if (!(k & packed) && !plan.stays(k))
      count += std::max(1, bytes / 4);
  return count * static_cast<std::int64_t>(plan.oddReps().size());
}

class Explainer {
public:
  Explainer(mlir::func::FuncOp func, const tgpu::ExecResult &result, Explanation &out)
      : func(func), result(result), out(out) {}

  void run() {
    findRoles();
    func.walk([&](mlir::Operation *op) {
      llvm::TypeSwitch<mlir::Operation *>(op)
          .Case([&](tgpu::GlobalLoadOp o) { global(o, Kind::load, o.getType()); })
          .Case([&](tgpu::GlobalStoreOp o) { global(o, Kind::store, o.getValue().getType()); })
          .Case([&](tgpu::GlobalGatherOp o) {
            ExplainedAccess &a = add(o, Kind::gather, o.getType());
            a.tensor = argumentOf(o.getX());
            a.vectorBytes = elementBytes(a);
          })
          .Case([&](tgpu::CopyOp o) { shared(o, o.getBuffer(), o.getValue().getType(), Feature::stmatrix); })
          .Case([&](tgpu::CopyOutOp o) { shared(o, o.getBuffer(), o.getType(), Feature::ldmatrix); })
          .Case([&](tgpu::PeerCopyOp o) {
            ExplainedAccess &a = add(o, roles.lookup(passes::allocOf(o.getBuffer())), o.getValue().getType());
            a.vectorBytes = elementBytes(a);
            a.note = "to every block of the cluster";
          })
          .Case([&](tgpu::TmaLoadOp o) { tmaLoad(o); })
          .Case([&](tgpu::AsyncLoadOp o) { asyncLoad(o); })
          .Case([&](tgpu::BulkStoreOp o) { bulkStore(o); })
          .Case([&](tgpu::MmaFmaOp o) {
            ExplainedAccess &a = add(o, Kind::product, o.getType());
            a.dtype = *tileir::dtypeOfType(o.getA().getType().getElementType());
            a.vectorBytes = elementBytes(a);
            a.note = "tile and bytes are those of the sum";
          })
          .Case([&](tgpu::ConvertLayoutOp o) { convert(o); })
          .Case([&](tgpu::MisalignOp) { out.hasAlignedRows = true; })
          .Case([&](tgpu::SplitRangeOp o) {
            out.mayShareLoop = true;
            if (o.getParts())
              out.parts = static_cast<std::int64_t>(o.getParts());
          });
    });
    listBuffers();
    explainProducts(func, result, accessOf, out);
    std::stable_sort(out.buffers.begin(), out.buffers.end(),
                     [](const ExplainedBuffer &a, const ExplainedBuffer &b) { return a.offset < b.offset; });
  }

private:
  static std::int64_t elementBytes(const ExplainedAccess &a) {
    return static_cast<std::int64_t>(byteSize(a.dtype));
  }

  ExplainedAccess &add(mlir::Operation *op, Kind kind, mlir::Type tile) {
    ExplainedAccess a;
    a.kind = kind;
    a.op = op->getName().stripDialect().str();
    a.at = sourceLocOf(op->getLoc());
    a.shape = tileir::shapeOf(tile).vec();
    a.dtype = *tileir::dtypeOfType(tileir::elementOf(tile));
    a.tileBytes = elementBytes(a);
    for (std::int64_t n : a.shape)
      a.tileBytes *= n;
    if (const tgpu::OpCounts *counts = result.of(op))
      a.counts = *counts;
    if (auto roles = op->getParentOfType<tgpu::RolesOp>(); roles && roles.getProducer().isAncestor(op->getParentRegion()))
      a.note = "by the producer";
    accessOf[op] = out.accesses.size();
    out.accesses.push_back(std::move(a));
    return out.accesses.back();
  }

  static void say(ExplainedAccess &a, const std::string &text) { a.note += (a.note.empty() ? "" : ", ") + text; }

  static std::int64_t argumentOf(mlir::Value tensor) {
    auto arg = llvm::dyn_cast<mlir::BlockArgument>(tileir::rootTensor(tensor));
    return arg ? static_cast<std::int64_t>(arg.getArgNumber()) : -1;
  }

  /// What is said of a tensor map: "4 copies of 64x64, swizzle 128 bytes".
  static std::string copiesText(tgpu::MapAttr map, std::int64_t copies) {
    std::vector<std::int64_t> box(map.getBox().begin(), map.getBox().end());
    std::reverse(box.begin(), box.end()); // the axis of stride 1 last
    return fmt::format("{} {} of {}, swizzle {}", copies, copies == 1 ? "copy" : "copies", fmt::join(box, "x"),
                       map.getSwizzle() > 16 ? fmt::format("{} bytes", map.getSwizzle()) : "none");
  }

  /// A load of a box of a map into a buffer of a pipe.
  template <class Op> ExplainedAccess &boxLoad(Op op) {
    tgpu::BufferType buffer = op.getPipe().getType().getBuffers()[op.getIndex()];
    tgpu::MapAttr map = op.getMap();
    llvm::SmallVector<std::int64_t> shape(map.getOrder().size());
    for (auto [axis, length] : llvm::zip_equal(map.getOrder(), map.getBox()))
      shape[static_cast<std::size_t>(axis)] = length;
    const std::int64_t copies = buffer.getShape()[0];
    shape[static_cast<std::size_t>(map.getOrder()[0])] *= copies;
    ExplainedAccess &a = add(op, Kind::load, mlir::RankedTensorType::get(shape, buffer.getElementType()));
    a.tensor = argumentOf(op.getX());
    a.copiesPerTile = copies;
    return a;
  }

  void tmaLoad(tgpu::TmaLoadOp op) {
    ExplainedAccess &a = boxLoad(op);
    a.byTma = true;
    a.note = copiesText(op.getMap(), a.copiesPerTile);
  }

  void asyncLoad(tgpu::AsyncLoadOp op) {
    ExplainedAccess &a = boxLoad(op);
    a.byCopies = true;
    a.vectorBytes = static_cast<std::int64_t>(op.getCopyBytes());
    a.note = fmt::format("cp.async of {} bytes by {} threads of the producer", a.vectorBytes, tgpu::copyThreads);
  }

  void bulkStore(tgpu::BulkStoreOp op) {
    ExplainedAccess &a = add(op, Kind::store, op.getValue().getType());
    a.tensor = argumentOf(op.getX());
    a.byTma = !op->hasAttr(tgpu::byThreadsAttr);
    a.vectorBytes = a.byTma ? 0 : elementBytes(a);
    a.copiesPerTile = a.tileBytes / elementBytes(a);
    for (std::int64_t length : op.getMap().getBox())
      a.copiesPerTile /= length;
    a.note = a.byTma ? copiesText(op.getMap(), a.copiesPerTile) : "rows by warps, through shared memory";
  }

  template <class Op> void global(Op op, Kind kind, mlir::Type tile) {
    ExplainedAccess &a = add(op, kind, tile);
    a.tensor = argumentOf(op.getX());
    tgpu::GlobalAccess access(op);
    tgpu::VectorPlan plan = tgpu::planGlobal(facts, access, *tgpu::layoutOf(tile));
    a.vectorBytes = plan.width() * elementBytes(a);
    if (access.mask)
      say(a, "masked");
    if (plan.cut())
      say(a, "vectors may be cut at the end of a row");
    if (access.alignedBytes)
      say(a, fmt::format("starts at a multiple of {} bytes", access.alignedBytes));
    if (auto lengths = op->template getAttrOfType<mlir::DenseI64ArrayAttr>(tgpu::lengthsAttr)) {
      std::vector<std::int64_t> list(lengths.asArrayRef().begin(), lengths.asArrayRef().end());
      say(a, fmt::format("true lengths {}", fmt::join(list, "x")));
    }
  }

  void shared(mlir::Operation *op, mlir::Value buffer, mlir::Type tile, Feature byMatrices) {
    ExplainedAccess &a = add(op, roles.lookup(passes::allocOf(buffer)), tile);
    auto type = llvm::cast<tgpu::BufferType>(buffer.getType());
    Layout layout = *tgpu::layoutOf(tile);
    a.vectorBytes = tgpu::planShared(type, layout).width() * elementBytes(a);
    bool writes = byMatrices == Feature::stmatrix;
    if (out.target->has(byMatrices) && (!writes || layout.isInjective()) && tgpu::planMatrixLoads(type, layout)) {
      a.vectorBytes = tgpu::widestAccess;
      say(a, fmt::format("by {}", name(byMatrices)));
    }
    if (!type.getSwizzle().empty())
      say(a, "swizzled");
  }

  void convert(tgpu::ConvertLayoutOp op) {
    auto from = tgpu::layoutOf(op.getX().getType()), to = tgpu::layoutOf(op.getType());
    if (!from || !to)
      return;
    ExplainedAccess &a = add(op, Kind::conversion, op.getType());
    std::optional<ShufflePlan> plan;
    if (conversionKind(*from, *to) == ConversionKind::ShuffleLanes)
      plan = ShufflePlan::make(*from, *to);
    a.note = plan ? fmt::format("{} shuffles of a warp", shufflesOf(*plan, static_cast<int>(elementBytes(a))))
                  : "registers renamed";
  }

  /// What each buffer is for, by those who write and read it.
  void findRoles() {
    llvm::DenseMap<mlir::Operation *, bool> isExchange;
    llvm::SmallVector<mlir::Operation *> products;
    auto writes = [&](mlir::Value buffer, mlir::Value value) {
      bool part = value.getDefiningOp<tgpu::ReduceOp>() != nullptr;
      auto [it, isNew] = isExchange.try_emplace(passes::allocOf(buffer), part);
      it->second = it->second && part;
    };
    func.walk([&](mlir::Operation *op) {
      if (auto copy = llvm::dyn_cast<tgpu::CopyOp>(op))
        writes(copy.getBuffer(), copy.getValue());
      else if (auto copy = llvm::dyn_cast<tgpu::PeerCopyOp>(op))
        writes(copy.getBuffer(), copy.getValue());
      else if (auto mma = llvm::dyn_cast<tgpu::MmaFmaOp>(op))
        for (mlir::Value v : {mma.getA(), mma.getB()})
          products.push_back(passes::allocOf(v));
    });
    for (auto [alloc, exchange] : isExchange)
      roles[alloc] = exchange ? Kind::exchange : Kind::conversion;
    for (mlir::Operation *alloc : products)
      roles[alloc] = Kind::product;
  }

  /// Lifetimes as PlaceMemory sees them: from the first to the last op of the buffer's block that uses it.
  void listBuffers() {
    llvm::DenseMap<mlir::Operation *, std::int64_t> number;
    std::int64_t next = 0;
    func.walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) { number[op] = next++; });
    llvm::DenseMap<mlir::Operation *, std::size_t> indexOf;
    func.walk([&](tgpu::BufferAllocOp alloc) {
      tgpu::BufferType type = alloc.getType();
      indexOf[alloc] = out.buffers.size();
      ExplainedBuffer b;
      b.use = roles.count(alloc) ? std::string(name(roles.lookup(alloc))) : std::string();
      for (mlir::Operation *user : alloc->getUsers()) {
        if (llvm::isa<tgpu::BulkStoreOp>(user)) {
          b.use = "strips on their way out";
          b.whole = true;
        } else if (llvm::isa<tgpu::WgmmaOp>(user)) {
          b.use = "operand that threads write";
        }
      }
      b.shape = type.getShape().vec();
      b.dtype = *tileir::dtypeOfType(type.getElementType());
      b.bytes = type.bytes();
      b.firstOp = b.lastOp = -1;
      b.offset = static_cast<std::int64_t>(alloc.getOffset().value_or(0));
      out.buffers.push_back(std::move(b));
    });
    func.walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) {
      passes::forEachBuffer(op, [&](mlir::Value v, bool) {
        tgpu::BufferAllocOp alloc = passes::allocOf(v);
        ExplainedBuffer &b = out.buffers[indexOf.lookup(alloc)];
        mlir::Operation *user = alloc->getBlock()->findAncestorOpInBlock(*op), *last = op;
        if (user != op) // within a loop: through all of it
          user->walk([&](mlir::Operation *inner) { last = number[inner] > number[last] ? inner : last; });
        if (b.firstOp < 0 || number[user] < b.firstOp) {
          b.firstOp = number[user];
          b.first = sourceLocOf(op->getLoc());
        }
        if (number[last] > b.lastOp) {
          b.lastOp = number[last];
          b.last = sourceLocOf(op->getLoc());
        }
      });
    });
  }

  mlir::func::FuncOp func;
  const tgpu::ExecResult &result;
  Explanation &out;
  tileir::IndexFacts facts;
  llvm::DenseMap<mlir::Operation *, Kind> roles; ///< of allocations
  llvm::DenseMap<mlir::Operation *, std::size_t> accessOf;
};

} // namespace

std::string_view name(Kind kind) {
  switch (kind) {
  case Kind::load:
    return "load";
  case Kind::store:
    return "store";
  case Kind::gather:
    return "gather";
  case Kind::conversion:
    return "conversion";
  case Kind::exchange:
    return "exchange";
  case Kind::product:
    return "product";
  }
  return "";
}

std::int64_t Occupancy::blocks() const {
  std::int64_t least = -1;
  for (std::int64_t n : {byRegisters, byShared, byThreads, byBlocks})
    if (n >= 0)
      least = least < 0 ? n : std::min(least, n);
  return least;
}

Occupancy occupancyOf(const Target &target, std::int64_t threads, std::int64_t registers, std::int64_t sharedBytes) {
  // Registers are given out to warps in units of 256, from those of one of four parts of the multiprocessor.
  constexpr std::int64_t unit = 256, parts = 4;
  Occupancy o;
  std::int64_t warps = (threads + target.warpSize - 1) / target.warpSize;
  if (registers > 0) {
    std::int64_t perWarp = (registers * target.warpSize + unit - 1) / unit * unit;
    o.byRegisters = target.registersPerSm / parts / perWarp * parts / warps;
  }
  o.byShared = target.sharedBytesPerSm / (sharedBytes + target.sharedBytesReserved);
  o.byThreads = target.threadsPerSm / threads;
  o.byBlocks = target.blocksPerSm;
  return o;
}

Occupancy Explanation::occupancy() const {
  return occupancyOf(*target, (warps + producers) * target->warpSize, registers, sharedBytes);
}
std::int64_t Explanation::bytesRead() const {
  std::int64_t n = 0;
  for (const ExplainedAccess &a : accesses)
    n += a.kind == Kind::load || a.kind == Kind::gather ? a.counts.bytes : 0;
  return n;
}
std::int64_t Explanation::bytesWritten() const {
  std::int64_t n = 0;
  for (const ExplainedAccess &a : accesses)
    n += a.kind == Kind::store ? a.counts.bytes : 0;
  return n;
}
std::int64_t Explanation::sectorBytes() const {
  std::int64_t n = 0;
  for (const ExplainedAccess &a : accesses)
    n += a.counts.sectors * sectorSize;
  return n;
}
std::int64_t Explanation::sharedConflicts() const {
  std::int64_t n = 0;
  for (const ExplainedAccess &a : accesses)
    n += a.counts.conflicts;
  return n;
}
double Explanation::onceMicroseconds() const {
  return static_cast<double>(argumentBytes) / (bandwidthGBs * 1e3);
}
double Explanation::sectorMicroseconds() const {
  return static_cast<double>(sectorBytes()) / (bandwidthGBs * 1e3);
}

std::vector<tgpu::ProgramSample> sampleGrid(const std::vector<std::int64_t> &grid, std::int64_t most) {
  std::int64_t total = 1;
  for (std::int64_t n : grid)
    total *= n;
  std::vector<tgpu::ProgramSample> samples;
  if (total <= std::min(wholeGrid, 4 * most)) {
    for (std::int64_t i = 0; i < total; ++i)
      samples.push_back({i, 1});
    return samples;
  }
  // A kind: the set of axes along which a program is the last.
  for (unsigned kind = 0; kind < 1u << grid.size(); ++kind) {
    auto isLast = [&](std::size_t d) { return (kind >> d & 1) != 0; };
    std::int64_t size = 1;
    for (std::size_t d = 0; d < grid.size(); ++d)
      size *= isLast(d) ? 1 : grid[d] - 1;
    if (size == 0)
      continue;
    // By odd steps: rows that start at every place of a vector are among them.
    const std::int64_t count = std::min(size, most), step = (size / count - 1) | 1, first = (size - (count - 1) * step) / 2;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = first + i * step, number = 0, stride = 1;
      for (std::size_t d = grid.size(); d-- > 0; stride *= grid[d]) {
        number += stride * (isLast(d) ? grid[d] - 1 : rest % (grid[d] - 1));
        if (!isLast(d))
          rest /= grid[d] - 1;
      }
      samples.push_back({number, size * (i + 1) / count - size * i / count});
    }
  }
  std::sort(samples.begin(), samples.end(), [](const auto &a, const auto &b) { return a.number < b.number; });
  return samples;
}

Explanation explain(mlir::ModuleOp module, const tgpu::Executor &executor, std::span<const KernelArg> args,
                    std::int64_t parts, double bandwidthGBs) {
  mlir::func::FuncOp func;
  module.walk([&](mlir::func::FuncOp f) {
    if (f->hasAttr(tileir::kernelAttr))
      func = f;
  });
  Explanation e;
  e.kernel = func.getName().str();
  e.bandwidthGBs = bandwidthGBs;
  if (auto arch = func->getAttrOfType<mlir::StringAttr>(tgpu::targetAttr))
    e.target = findTarget(std::string_view(arch.getValue()));
  if (auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr)) {
    auto groups = func->getAttrOfType<mlir::IntegerAttr>(tgpu::groupsAttr);
    e.warps = launch.getWarps() * (groups ? groups.getInt() : 1);
    e.producers = launch.getProducers();
    e.cluster = launch.getCluster() * (func->hasAttr(tgpu::pairAttr) ? 2 : 1);
    e.sharedBytes = launch.getSharedBytes();
  }
  e.parts = parts;
  e.isPersistent = func->hasAttr(tgpu::persistentAttr);
  if (auto blocks = func->getAttrOfType<mlir::IntegerAttr>(tgpu::minBlocksAttr))
    e.minBlocks = blocks.getInt();
  if (auto reason = func->getAttrOfType<mlir::StringAttr>(passes::clusterReasonAttr))
    e.clusterReason = reason.getValue().str();
  if (auto choices = func->getAttrOfType<mlir::ArrayAttr>(passes::choicesAttr))
    for (mlir::Attribute text : choices)
      e.choices.push_back(llvm::cast<mlir::StringAttr>(text).getValue().str());
  if (auto padded = func->getAttrOfType<mlir::ArrayAttr>(tgpu::paddedAttr))
    for (mlir::Attribute pair : padded) {
      llvm::ArrayRef<int64_t> lengths = llvm::cast<mlir::DenseI64ArrayAttr>(pair).asArrayRef();
      e.padded.emplace_back(lengths[0], lengths[1]);
    }
  for (const KernelArg &a : args)
    if (a.isTensor()) {
      auto bytes = static_cast<std::int64_t>(byteSize(a.dtype));
      for (int d = 0; d < a.rank; ++d)
        bytes *= a.dims[static_cast<std::size_t>(d)];
      e.argumentBytes += bytes;
    }

  for (const passes::LayoutCost &c : passes::layoutCostOf(func)) {
    std::string way = c.way;
    std::replace(way.begin(), way.end(), '_', ' ');
    e.layouts.push_back({c.op, way, sourceLocOf(c.at), c.bytes, c.vectorBytes, c.sectors, c.inLoop});
  }

  std::vector<std::int64_t> grid = executor.grid(args);
  e.programs = 1;
  for (std::int64_t n : grid)
    e.programs *= n;
  const bool hasProducts = func.walk([](mlir::Operation *op) {
                                 return llvm::isa<tgpu::WgmmaOp, tgpu::MmaSyncOp, tgpu::MmaFmaOp>(op)
                                            ? mlir::WalkResult::interrupt()
                                            : mlir::WalkResult::advance();
                               }).wasInterrupted();
  tgpu::ExecResult result = executor.run(args, parts, sampleGrid(grid, hasProducts ? perKindOfProducts : perKind));
  e.ran = result.programs;
  e.fault = result.fault;
  e.work = result.work;
  Explainer(func, result, e).run();
  return e;
}

} // namespace sectile
