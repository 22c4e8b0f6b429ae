// SPDX-License-Identifier: Apache-2.0
/// \file Runs final `tgpu` kernels thread by thread on the host: every register of every lane of every warp
/// by its layout, shared memory byte by byte. Finds what the interpreter of values cannot see: data in the
/// wrong thread, copies that disagree, buffers that share bytes while both are live, missing barriers. The
/// blocks of a cluster run in step; each has shared memory of its own.
#pragma once

#include "ir/InterpKernels.h"
#include "ir/TgpuDialect.h"
#include "ir/base/Artifact.h"
#include "ir/base/MmaTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <stdexcept>
#include <unordered_map>

namespace sectile::test {

class BlockSim {
public:
  explicit BlockSim(mlir::ModuleOp module) {
    module.walk([&](mlir::func::FuncOp f) { func = f; });
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    warps = int(launch.allWarps());
    blocks = int(launch.getCluster());
    threads = warps * warpSize;
    sharedBytes = launch.getSharedBytes();
  }

  /// Runs all programs; throws std::runtime_error with the op at fault.
  void run(std::vector<KernelArg> args) {
    arguments = std::move(args);
    tileir::GridOp grid;
    func.walk([&](tileir::GridOp g) { grid = g; });
    std::vector<std::int64_t> counts;
    if (grid) {
      const KernelArg &x = arguments[llvm::cast<mlir::BlockArgument>(grid.getX()).getArgNumber()];
      for (auto [d, size] : llvm::enumerate(grid.getSizes()))
        counts.push_back((x.dims[d] + size - 1) / size);
    }
    std::int64_t total = 1;
    for (auto n : counts)
      total *= n;
    bool splits = false;
    func.walk([&](tgpu::SplitRangeOp) { splits = true; });
    for (std::int64_t p = 0; p < total; ++p) {
      program.assign(counts.size(), 0);
      for (std::int64_t rest = p, d = std::int64_t(counts.size()) - 1; d >= 0; --d) {
        program[std::size_t(d)] = rest % counts[std::size_t(d)];
        rest /= counts[std::size_t(d)];
      }
      partials.clear();
      launchedParts = 1;
      for (part = 0; part < (splits ? launchedParts : 1); ++part) // the first one finds out how many there are
        runProgram();
    }
  }
  /// Barriers that were passed, and those of whole clusters among them.
  int barriers = 0, acrossBarriers = 0;
  /// Blocks per program of a kernel whose loop may be shared, at most one per trip.
  std::int64_t parts = 1;

private:
  /// A value: one element, or an element per thread and register (thread-major).
  struct Cells {
    DType dtype = DType::i32;
    std::optional<Layout> layout;
    int regs = 1;
    std::vector<char> bytes;
    std::size_t size() const { return byteSize(dtype); }
    char *at(int thread, int reg) {
      return bytes.data() + (std::size_t(thread) * std::size_t(regs) + std::size_t(reg)) * size();
    }
  };
  struct View {
    char *data = nullptr;
    std::vector<std::int64_t> dims, strides;
  };
  struct BufferAt {
    std::int64_t offset = 0;
    tgpu::BufferType type;
  };
  /// Who touched a byte since the last barrier.
  struct Touch {
    int writeEpoch = -1, writer = -1, readEpoch = -1, reader = -1; ///< reader -2: several
    int writeAcross = -1, readAcross = -1, sentAcross = -1; ///< barriers of the whole cluster until then
    int readBlock = -1;                                     ///< -2: several
    bool underWay = false;                                  ///< sent by a block, not waited for by the owner
  };

  [[noreturn]] void fail(mlir::Operation *op, const std::string &what) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << what << " at ";
    op->print(stream);
    throw std::runtime_error(text);
  }

  Cells make(mlir::Type type) {
    Cells c;
    c.dtype = *tileir::dtypeOfType(tileir::elementOf(type));
    if (llvm::isa<mlir::RankedTensorType>(type)) {
      c.layout = tgpu::layoutOf(type);
      c.regs = c.layout->numRegs();
      c.bytes.resize(std::size_t(threads) * std::size_t(c.regs) * c.size());
    } else {
      c.bytes.resize(c.size());
    }
    return c;
  }
  std::int64_t count(const Cells &c) { return std::int64_t(c.bytes.size() / c.size()); }
  Cells &get(mlir::Value v) {
    auto it = values.find(v);
    if (it == values.end())
      throw std::runtime_error("value without cells");
    return it->second;
  }
  std::int64_t indexOf(mlir::Value v) {
    std::int64_t r;
    std::memcpy(&r, get(v).bytes.data(), 8);
    return r;
  }
  Coords coordsOf(const Cells &c, int thread, int reg) {
    return c.layout->coords(reg, thread % warpSize, thread / warpSize);
  }
  using Key = std::vector<std::int32_t>;
  static Key key(const Coords &c, int rank) { return Key(c.v.begin(), c.v.begin() + rank); }

  /// Every element once; copies must agree.
  std::map<Key, std::string> elements(mlir::Operation *op, Cells &c) {
    std::map<Key, std::string> all;
    for (int t = 0; t < threads; ++t)
      for (int r = 0; r < c.regs; ++r) {
        std::string bytes(c.at(t, r), c.size());
        auto [it, isNew] = all.try_emplace(key(coordsOf(c, t, r), c.layout->rank()), bytes);
        if (!isNew && it->second != bytes)
          fail(op, "copies of one element differ");
      }
    return all;
  }

  // --- memory with its history
  // ------------------------------------------------------------------------------------

  int blockOf(int thread) const { return thread / (threads / blocks); }
  /// Barriers of a block order its own threads, those of the cluster all.
  void touch(mlir::Operation *op, Touch &t, int thread, bool write) {
    if (t.underWay)
      fail(op, "access to bytes that are under way from another block");
    int block = blockOf(thread);
    if ((t.writeEpoch == epoch && t.writer != thread) ||
        (t.writeAcross == across && blockOf(t.writer) != block))
      fail(op,
           write ? "two threads write one byte without a barrier" : "read without a barrier after a write");
    if (write) {
      if ((t.readEpoch == epoch && t.reader != thread) || (t.readAcross == across && t.readBlock != block))
        fail(op, "write without a barrier after a read");
      t.writeEpoch = epoch;
      t.writeAcross = across;
      t.writer = thread;
    } else {
      t.reader = t.readEpoch == epoch && t.reader != thread ? -2 : thread;
      t.readBlock = t.readAcross == across && t.readBlock != block ? -2 : block;
      t.readEpoch = epoch;
      t.readAcross = across;
    }
  }
  void touchGlobal(mlir::Operation *op, char *p, std::size_t n, int thread, bool write) {
    for (std::size_t i = 0; i < n; ++i)
      touch(op, global[p + i], thread, write);
  }
  std::int64_t sharedAddress(const BufferAt &b, const Coords &c) {
    auto shape = b.type.getShape();
    std::int64_t row = 0, last = std::int64_t(shape.size()) - 1, column = c[int(last)];
    for (std::int64_t d = 0; d < last; ++d)
      row = row * shape[std::size_t(d)] + c[int(d)];
    if (auto s = b.type.getSwizzle(); !s.empty())
      column = ((column / s[0]) ^ (row / s[2] % (s[1] / s[0]))) * s[0] + column % s[0];
    return b.offset + (row * shape[std::size_t(last)] + column) *
                          std::int64_t(byteSize(*tileir::dtypeOfType(b.type.getElementType())));
  }
  /// A byte of the thread's own block.
  char *sharedByte(mlir::Operation *op, std::int64_t at, int thread, bool write) {
    return sharedByte(op, blockOf(thread), at, thread, write);
  }
  char *sharedByte(mlir::Operation *op, int block, std::int64_t at, int thread, bool write) {
    if (at < 0 || at >= sharedBytes)
      fail(op, "outside of the block's shared memory");
    at += block * sharedBytes;
    Touch &t = sharedTouch[std::size_t(at)];
    if (!write && t.writer < 0)
      fail(op, "read of shared memory that nobody wrote");
    touch(op, t, thread, write);
    return shared.data() + at;
  }

  View &view(mlir::Value v) { return views[v]; }
  // --- ops
  // ----------------------------------------------------------------------------------------------------------

  void runProgram() {
    values.clear();
    views.clear();
    buffers.clear();
    global.clear();
    shared.assign(std::size_t(sharedBytes) * std::size_t(blocks), char(0x7f));
    sharedTouch.assign(shared.size(), {});
    epoch = across = 0;
    started = false;
    underWay.clear();
    for (auto [i, arg] : llvm::enumerate(func.getArguments())) {
      const KernelArg &a = arguments[i];
      if (a.isTensor()) {
        View w{static_cast<char *>(a.data), {}, {}};
        for (int d = 0; d < a.rank; ++d) {
          w.dims.push_back(a.dims[std::size_t(d)]);
          w.strides.push_back(a.strides[std::size_t(d)]);
        }
        views[arg] = w;
      } else {
        Cells c = make(arg.getType());
        std::memcpy(c.bytes.data(), &a.scalar, c.size());
        values[arg] = c;
      }
    }
    runBlock(func.getBody().front());
    if (!underWay.empty())
      throw std::runtime_error("a block ends while copies into it are under way");
  }

  /// Values given to the terminator.
  std::vector<Cells> runBlock(mlir::Block &block) {
    for (mlir::Operation &op : block) {
      if (op.hasTrait<mlir::OpTrait::IsTerminator>()) {
        std::vector<Cells> result;
        for (mlir::Value v : op.getOperands())
          result.push_back(get(v));
        return result;
      }
      step(&op);
    }
    return {};
  }
  template <class R> void assign(R to, const std::vector<Cells> &from, std::size_t skip = 0) {
    for (auto [i, v] : llvm::enumerate(to))
      values[v] = from[i + skip];
  }

  void checkLayouts(mlir::Operation *op) {
    mlir::Attribute encoding;
    auto check = [&](mlir::Type t) {
      auto tile = llvm::dyn_cast<mlir::RankedTensorType>(t);
      if (!tile)
        return;
      if (!tile.getEncoding() || (encoding && encoding != tile.getEncoding()))
        fail(op, "operands of an elementwise op have different layouts, or none");
      encoding = tile.getEncoding();
    };
    for (mlir::Type t : op->getOperandTypes())
      check(t);
    for (mlir::Type t : op->getResultTypes())
      check(t);
  }

  /// Registers move within their thread: the result's element at c is x's at map(c).
  template <class M> void rename(mlir::Operation *op, mlir::Value x, mlir::Value result, M map) {
    Cells &from = get(x), to = make(result.getType());
    for (int t = 0; t < threads; ++t) {
      std::map<Key, int> held;
      for (int r = 0; from.layout && r < from.regs; ++r)
        held.try_emplace(key(coordsOf(from, t, r), from.layout->rank()), r);
      int copies = to.layout ? to.regs : 1;
      for (int r = 0; r < copies; ++r) {
        int source = 0;
        if (from.layout) {
          auto it = held.find(key(map(to.layout ? coordsOf(to, t, r) : Coords()), from.layout->rank()));
          if (it == held.end())
            fail(op, "needs an element that the thread does not hold");
          source = it->second;
        }
        const char *data = from.layout ? from.at(t, source) : from.bytes.data();
        if (to.layout)
          std::memcpy(to.at(t, r), data, to.size());
        else if (t == 0)
          std::memcpy(to.bytes.data(), data, to.size());
        else if (std::memcmp(to.bytes.data(), data, to.size()))
          fail(op, "threads disagree on a scalar");
      }
    }
    values[result] = to;
  }

  void step(mlir::Operation *op) {
    using namespace tileir;
    auto isa = interp::hostIsa();
    auto shape = [](mlir::Value v) { return shapeOf(v.getType()); };
    llvm::TypeSwitch<mlir::Operation *>(op)
        .Case([&](ConstantOp o) {
          Cells c = make(o.getType());
          mlir::Attribute a = o.getValue();
          if (auto splat = llvm::dyn_cast<mlir::SplatElementsAttr>(a))
            a = splat.getSplatValue<mlir::Attribute>();
          llvm::APInt bits = llvm::isa<mlir::FloatAttr>(a)
                                 ? llvm::cast<mlir::FloatAttr>(a).getValue().bitcastToAPInt()
                                 : llvm::cast<mlir::IntegerAttr>(a).getValue();
          std::uint64_t v = bits.getZExtValue();
          for (std::int64_t i = 0; i < count(c); ++i)
            std::memcpy(c.bytes.data() + std::size_t(i) * c.size(), &v, c.size());
          values[o.getResult()] = c;
        })
        .Case([&](SplatOp o) {
          Cells c = make(o.getType()), &x = get(o.getX());
          for (std::int64_t i = 0; i < count(c); ++i)
            std::memcpy(c.bytes.data() + std::size_t(i) * c.size(), x.bytes.data(), c.size());
          values[o.getResult()] = c;
        })
        .Case([&](IotaOp o) {
          Cells c = make(o.getType());
          for (int t = 0; t < threads; ++t)
            for (int r = 0; r < c.regs; ++r) {
              std::int64_t v = coordsOf(c, t, r)[int(o.getAxis())];
              std::memcpy(c.at(t, r), &v, 8);
            }
          values[o.getResult()] = c;
        })
        .Case([&](UnaryOp o) {
          checkLayouts(o);
          Cells c = make(o.getType()), &x = get(o.getX());
          interp::unaryKernel(o.getFn(), x.dtype, isa)(x.bytes.data(), c.bytes.data(), count(c));
          values[o.getResult()] = c;
        })
        .Case([&](CastOp o) {
          checkLayouts(o);
          Cells c = make(o.getType()), &x = get(o.getX());
          if (c.dtype == x.dtype)
            c = x;
          else
            interp::castKernel(c.dtype, x.dtype, isa)(x.bytes.data(), c.bytes.data(), count(c));
          values[o.getResult()] = c;
        })
        .Case([&](BinaryOp o) {
          checkLayouts(o);
          Cells c = make(o.getType()), &a = get(o.getA()), &b = get(o.getB());
          interp::binaryKernel(o.getFn(), a.dtype, isa)(a.bytes.data(), b.bytes.data(), c.bytes.data(),
                                                        count(c));
          values[o.getResult()] = c;
        })
        .Case([&](CompareOp o) {
          checkLayouts(o);
          Cells c = make(o.getType()), &a = get(o.getA()), &b = get(o.getB());
          interp::compareKernel(o.getPred(), a.dtype, isa)(a.bytes.data(), b.bytes.data(), c.bytes.data(),
                                                           count(c));
          values[o.getResult()] = c;
        })
        .Case([&](SelectOp o) {
          checkLayouts(o);
          Cells &cond = get(o.getCond()), &a = get(o.getA()), &b = get(o.getB()), c = make(o.getType());
          if (!cond.layout)
            c = cond.bytes[0] ? a : b;
          else
            interp::selectKernel(c.dtype, isa)(reinterpret_cast<const bool *>(cond.bytes.data()),
                                               a.bytes.data(), b.bytes.data(), c.bytes.data(), count(c));
          values[o.getResult()] = c;
        })
        .Case([&](BroadcastOp o) {
          auto from = shape(o.getX());
          rename(o, o.getX(), o.getResult(), [&](Coords c) {
            for (std::size_t d = 0; d < from.size(); ++d)
              if (from[d] == 1)
                c[int(d)] = 0;
            return c;
          });
        })
        .Case([&](PermuteOp o) {
          rename(o, o.getX(), o.getResult(), [&](Coords c) {
            Coords r;
            for (auto [d, from] : llvm::enumerate(o.getPerm()))
              r[int(from)] = c[int(d)];
            return r;
          });
        })
        .Case([&](ReshapeOp o) {
          auto from = shape(o.getX()), to = shape(o.getResult());
          rename(o, o.getX(), o.getResult(), [&](Coords c) {
            std::int64_t n = 0;
            for (std::size_t d = 0; d < to.size(); ++d)
              n = n * to[d] + c[int(d)];
            Coords r;
            for (std::size_t d = from.size(); d-- > 0; n /= from[d])
              r[int(d)] = std::int32_t(n % from[d]);
            return r;
          });
        })
        .Case(
            [&](tgpu::ConvertLayoutOp o) { rename(o, o.getX(), o.getResult(), [](Coords c) { return c; }); })
        .Case([&](GridOp o) {
          for (auto [d, v] : llvm::enumerate(o.getOffsets())) {
            Cells c = make(v.getType());
            std::int64_t offset = program[d] * o.getSizes()[d];
            std::memcpy(c.bytes.data(), &offset, 8);
            values[v] = c;
          }
        })
        .Case([&](DimOp o) {
          Cells c = make(o.getType());
          std::memcpy(c.bytes.data(), &view(o.getX()).dims[std::size_t(o.getAxis())], 8);
          values[o.getResult()] = c;
        })
        .Case([&](SliceOp o) {
          View w = view(o.getX());
          std::size_t d = std::size_t(o.getAxis());
          std::int64_t lo = std::clamp<std::int64_t>(indexOf(o.getLo()), 0, w.dims[d]);
          std::int64_t hi = std::clamp<std::int64_t>(indexOf(o.getHi()), 0, w.dims[d]);
          w.data +=
              lo * w.strides[d] * std::int64_t(byteSize(*dtypeOfType(o.getX().getType().getElementType())));
          w.dims[d] = std::max<std::int64_t>(0, hi - lo);
          views[o.getResult()] = w;
        })
        .Case([&](tgpu::GlobalLoadOp o) { globalLoad(o); })
        .Case([&](tgpu::FillOutsideOp o) { fillOutside(o); })
        .Case([&](tgpu::MisalignOp o) {
          View &w = view(o.getX());
          Cells c = make(o.getType());
          std::int64_t size = std::int64_t(byteSize(*tileir::dtypeOfType(o.getX().getType().getElementType())));
          auto at = std::int64_t(reinterpret_cast<std::uintptr_t>(w.data));
          for (auto [d, offset] : llvm::enumerate(o.getOffsets()))
            at += indexOf(offset) * w.strides[d] * size;
          at = (at & (std::int64_t(o.getBytes()) - 1)) / size;
          std::memcpy(c.bytes.data(), &at, 8);
          values[o.getResult()] = c;
        })
        .Case([&](tgpu::GlobalStoreOp o) { globalStore(o); })
        .Case([&](tgpu::GlobalGatherOp o) { globalGather(o); })
        .Case([&](tgpu::BufferAllocOp o) {
          buffers[o.getBuffer()] = {std::int64_t(*o.getOffset()), o.getBuffer().getType()};
        })
        .Case([&](tgpu::BufferViewOp o) {
          buffers[o.getResult()] = {buffers[o.getBuffer()].offset, o.getResult().getType()};
        })
        .Case([&](tgpu::CopyOp o) { copy(o); })
        .Case([&](tgpu::CopyOutOp o) { copyOut(o); })
        .Case([&](tgpu::BarrierOp o) {
          ++epoch, ++barriers;
          across += o.getCluster();
          acrossBarriers += o.getCluster();
        })
        .Case([&](tgpu::ClusterStartOp o) {
          if (started)
            fail(o, "a second start");
          started = true;
        })
        .Case([&](tgpu::PeerCopyOp o) { peerCopy(o); })
        .Case([&](tgpu::PeerWaitOp o) {
          auto sent = underWay.find(std::int64_t(*o.getArrival()));
          if (sent == underWay.end())
            fail(o, "nothing is under way");
          for (std::int64_t at : sent->second)
            sharedTouch[std::size_t(at)].underWay = false;
          underWay.erase(sent);
        })
        .Case([&](tgpu::ReduceOp o) { reduce(o); })
        .Case([&](tgpu::MmaSyncOp o) { mmaSync(o); })
        .Case([&](tgpu::MmaFmaOp o) { mmaFma(o); })
        .Case([&](tgpu::SplitRangeOp o) {
          std::int64_t lower = indexOf(o.getLower()), upper = indexOf(o.getUpper()), step = indexOf(o.getStep());
          std::int64_t all = lower < upper ? (upper - lower + step - 1) / step : 0, trips = -1;
          launchedParts = std::min(parts, all);
          if (launchedParts > 1) {
            trips = (all + launchedParts - 1) / launchedParts;
            launchedParts = (all + trips - 1) / trips;
          } else {
            launchedParts = 1;
          }
          for (auto [v, number] : {std::pair(o.getPart(), part), std::pair(o.getFirst(), part * trips),
                                   std::pair(o.getTrips(), trips)}) {
            Cells c = make(v.getType());
            std::memcpy(c.bytes.data(), &number, 8);
            values[v] = c;
          }
        })
        .Case([&](tgpu::CombinePartsOp o) {
          bool last = part == launchedParts - 1;
          if (partials.empty())
            partials.resize(o.getValues().size());
          for (auto [fn, v, total, kept] : llvm::zip_equal(o.functionList(), o.getValues(), o.getTotals(), partials)) {
            Cells mine = get(v);
            if (mine.layout)
              elements(o, mine); // copies must agree: one of them is kept
            if (part == 0)
              kept = mine;
            else
              interp::binaryKernel(fn, mine.dtype, isa)(kept.bytes.data(), mine.bytes.data(), kept.bytes.data(),
                                                        count(mine));
            values[total] = last ? kept : mine;
          }
          Cells flag = make(o.getLast().getType());
          flag.bytes[0] = last;
          values[o.getLast()] = flag;
        })
        .Case([&](mlir::scf::ForOp o) {
          std::vector<Cells> carried;
          for (mlir::Value v : o.getInitArgs())
            carried.push_back(get(v));
          for (std::int64_t i = indexOf(o.getLowerBound()); i < indexOf(o.getUpperBound());
               i += indexOf(o.getStep())) {
            Cells iv = make(o.getInductionVar().getType());
            std::memcpy(iv.bytes.data(), &i, 8);
            values[o.getInductionVar()] = iv;
            assign(o.getRegionIterArgs(), carried);
            carried = runBlock(*o.getBody());
          }
          assign(o.getResults(), carried);
        })
        .Case([&](mlir::scf::IfOp o) {
          if (get(o.getCondition()).bytes[0])
            assign(o.getResults(), runBlock(*o.thenBlock()));
          else if (o.elseBlock())
            assign(o.getResults(), runBlock(*o.elseBlock()));
        })
        .Case([&](mlir::scf::WhileOp o) {
          std::vector<Cells> carried;
          for (mlir::Value v : o.getInits())
            carried.push_back(get(v));
          while (true) {
            assign(o.getBeforeArguments(), carried);
            std::vector<Cells> next = runBlock(*o.getBeforeBody()); // the condition comes first
            if (!next[0].bytes[0]) {
              assign(o.getResults(), next, 1);
              break;
            }
            assign(o.getAfterArguments(), next, 1);
            carried = runBlock(*o.getAfterBody());
          }
        })
        .Default([&](mlir::Operation *o) { fail(o, "no op of final tgpu form"); });
  }

  /// Byte offset of coordinates in a view; false if out of the given bounds.
  template <class Op> bool inBounds(Op o, const Coords &c) {
    for (auto [i, axis] : llvm::enumerate(o.getAxes()))
      if (c[int(axis)] < indexOf(o.getLo()[i]) || c[int(axis)] >= indexOf(o.getHi()[i]))
        return false;
    return true;
  }
  template <class Op> char *address(Op o, const Coords &c, std::size_t size) {
    View &w = view(o.getX());
    char *p = w.data;
    for (std::size_t d = 0; d < w.dims.size(); ++d) {
      std::int64_t at = indexOf(o.getOffsets()[d]) + c[int(d)];
      if (at < 0 || at >= w.dims[d])
        fail(o, "access outside the tensor");
      p += at * w.strides[d] * std::int64_t(size);
    }
    return p;
  }

  void globalLoad(tgpu::GlobalLoadOp o) {
    Cells c = make(o.getType());
    mlir::Attribute pad = o.getPad();
    llvm::APInt bits = llvm::isa<mlir::FloatAttr>(pad)
                           ? llvm::cast<mlir::FloatAttr>(pad).getValue().bitcastToAPInt()
                           : llvm::cast<mlir::IntegerAttr>(pad).getValue();
    std::uint64_t padding = bits.getZExtValue();
    for (int t = 0; t < threads; ++t)
      for (int r = 0; r < c.regs; ++r) {
        Coords at = coordsOf(c, t, r);
        std::memcpy(c.at(t, r), &padding, c.size());
        if (!inBounds(o, at))
          continue;
        char *p = address(o, at, c.size());
        touchGlobal(o, p, c.size(), t, false);
        std::memcpy(c.at(t, r), p, c.size());
      }
    values[o.getResult()] = c;
  }

  void globalStore(tgpu::GlobalStoreOp o) {
    Cells &c = get(o.getValue());
    Cells *mask = o.getMask() ? &get(o.getMask()) : nullptr;
    elements(o, c);
    for (int t = 0; t < threads; ++t)
      for (int r = 0; r < c.regs; ++r) {
        Coords at = coordsOf(c, t, r);
        // One of the threads that hold a copy writes, the one whose free bits are 0.
        if ((unsigned(t % warpSize) & c.layout->freeLanes()) ||
            (unsigned(t / warpSize) & c.layout->freeWarps()))
          continue;
        if (!inBounds(o, at) || (mask && !*mask->at(t, r)))
          continue;
        char *p = address(o, at, c.size());
        touchGlobal(o, p, c.size(), t, true);
        std::memcpy(p, c.at(t, r), c.size());
      }
  }

  void fillOutside(tgpu::FillOutsideOp o) {
    Cells c = get(o.getX());
    mlir::Attribute fill = o.getFill();
    llvm::APInt bits = llvm::isa<mlir::FloatAttr>(fill)
                           ? llvm::cast<mlir::FloatAttr>(fill).getValue().bitcastToAPInt()
                           : llvm::cast<mlir::IntegerAttr>(fill).getValue();
    std::uint64_t element = bits.getZExtValue();
    for (int t = 0; t < threads; ++t)
      for (int r = 0; r < c.regs; ++r)
        if (!inBounds(o, coordsOf(c, t, r)))
          std::memcpy(c.at(t, r), &element, c.size());
    values[o.getResult()] = c;
  }

  void globalGather(tgpu::GlobalGatherOp o) {
    Cells c = make(o.getType()), &mask = get(o.getMask());
    View &w = view(o.getX());
    for (int t = 0; t < (c.layout ? threads : 1); ++t)
      for (int r = 0; r < c.regs; ++r) {
        auto cell = [&](Cells &x) { return x.layout ? x.at(t, r) : x.bytes.data(); };
        if (!*cell(mask))
          continue;
        char *p = w.data;
        for (auto [d, index] : llvm::enumerate(o.getIndices())) {
          std::int64_t i;
          std::memcpy(&i, cell(get(index)), 8);
          if (i < 0 || i >= w.dims[d])
            fail(o, "access outside the tensor");
          p += i * w.strides[d] * std::int64_t(c.size());
        }
        touchGlobal(o, p, c.size(), t, false);
        std::memcpy(cell(c), p, c.size());
      }
    values[o.getResult()] = c;
  }

  void copy(tgpu::CopyOp o) {
    Cells &c = get(o.getValue());
    elements(o, c);
    const BufferAt &buffer = buffers[o.getBuffer()];
    for (int t = 0; t < threads; ++t) {
      // Every block writes what it holds into its own memory.
      if ((unsigned(t % warpSize) & c.layout->freeLanes()) ||
          (unsigned(t / warpSize % (warps / blocks)) & c.layout->freeWarps()))
        continue;
      for (int r = 0; r < c.regs; ++r) {
        std::int64_t at = sharedAddress(buffer, coordsOf(c, t, r));
        for (std::size_t i = 0; i < c.size(); ++i)
          *sharedByte(o, at + std::int64_t(i), t, true) = c.at(t, r)[i];
      }
    }
  }

  void peerCopy(tgpu::PeerCopyOp o) {
    if (!started)
      fail(o, "another block may not run yet");
    Cells &c = get(o.getValue());
    elements(o, c);
    const BufferAt &buffer = buffers[o.getBuffer()];
    auto [sent, isNew] = underWay.try_emplace(std::int64_t(*o.getArrival()));
    if (!isNew)
      fail(o, "the last copy was not waited for");
    for (int t = 0; t < threads; ++t) {
      if ((unsigned(t % warpSize) & c.layout->freeLanes()) ||
          (unsigned(t / warpSize) & c.layout->freeWarps()))
        continue;
      for (int r = 0; r < c.regs; ++r) {
        if (unsigned(r) & c.layout->freeRegs())
          continue;
        std::int64_t at = sharedAddress(buffer, coordsOf(c, t, r));
        for (int block = 0; block < blocks; ++block)
          for (std::size_t i = 0; i < c.size(); ++i) {
            *sharedByte(o, block, at + std::int64_t(i), t, true) = c.at(t, r)[i];
            Touch &touched = sharedTouch[std::size_t(block * sharedBytes + at) + i];
            if (touched.sentAcross == across)
              fail(o, "sent again without a barrier of the cluster");
            touched.writeEpoch = touched.writeAcross = -1; // ordered by the wait alone
            touched.sentAcross = across;
            touched.underWay = true;
            sent->second.push_back(block * sharedBytes + at + std::int64_t(i));
          }
      }
    }
    if (std::int64_t(sent->second.size()) != buffer.type.bytes() * blocks)
      fail(o, "not every byte of the buffer is sent");
  }

  void copyOut(tgpu::CopyOutOp o) {
    Cells c = make(o.getType());
    const BufferAt &buffer = buffers[o.getBuffer()];
    for (int t = 0; t < threads; ++t)
      for (int r = 0; r < c.regs; ++r) {
        std::int64_t at = sharedAddress(buffer, coordsOf(c, t, r));
        for (std::size_t i = 0; i < c.size(); ++i)
          c.at(t, r)[i] = *sharedByte(o, at + std::int64_t(i), t, false);
      }
    values[o.getResult()] = c;
  }

  void reduce(tgpu::ReduceOp o) {
    Cells &x = get(o.getX()), c = make(o.getResult().getType());
    Cells *positions = o.getPositions() ? &get(o.getPositions()) : nullptr;
    Cells newPositions = positions ? make(o.getResultPositions().getType()) : Cells();
    int axis = int(o.getAxis()), rank = x.layout->rank();
    auto kernel = tileir::interp::reduceKernel(o.getKind(), x.dtype, tileir::interp::hostIsa());
    for (int w = 0; w < warps; ++w) {
      // By the other coordinates: the axis' elements of this warp, each once, in ascending order.
      std::map<Key, std::map<std::int32_t, std::pair<std::string, std::int64_t>>> lines;
      for (int t = w * warpSize; t < (w + 1) * warpSize; ++t)
        for (int r = 0; r < x.regs; ++r) {
          Coords at = coordsOf(x, t, r);
          std::int32_t along = at[axis];
          at[axis] = 0;
          std::int64_t position = 0;
          if (positions)
            std::memcpy(&position, positions->at(t, r), 8);
          lines[key(at, rank)].try_emplace(along, std::string(x.at(t, r), x.size()), position);
        }
      std::optional<std::int32_t> part;
      for (int t = w * warpSize; t < (w + 1) * warpSize; ++t)
        for (int r = 0; r < c.regs; ++r) {
          Coords at = coordsOf(c, t, r);
          if (part && *part != at[axis])
            fail(o, "a warp's result lies at two places of the axis");
          part = at[axis];
          at[axis] = 0;
          auto line = lines.find(key(at, rank));
          if (line == lines.end())
            fail(o, "a warp has no element of the result");
          std::vector<std::pair<std::int64_t, std::string>> list;
          for (auto &[along, element] : line->second)
            list.push_back({positions ? element.second : along, element.first});
          std::sort(list.begin(), list.end(), [](auto &a, auto &b) { return a.first < b.first; });
          std::string bytes;
          for (auto &[position, element] : list)
            bytes += element;
          std::int64_t n = std::int64_t(list.size());
          if (!positions) {
            kernel(bytes.data(), nullptr, c.at(t, r), 1, n, 0, n, 1);
          } else {
            std::int64_t best = 0;
            kernel(bytes.data(), nullptr, &best, 1, n, 0, n, 1);
            std::memcpy(c.at(t, r), list[std::size_t(best)].second.data(), c.size());
            std::memcpy(newPositions.at(t, r), &list[std::size_t(best)].first, 8);
          }
        }
    }
    values[o.getResult()] = c;
    if (positions)
      values[o.getResultPositions()] = newPositions;
  }

  /// acc += a * b on whole row-major operands, then back to the threads.
  void product(mlir::Operation *op, std::string a, DType da, std::string b, DType db, mlir::Value acc,
               mlir::Value result) {
    using namespace tileir::interp;
    Cells &c = get(acc), to = make(result.getType());
    auto all = elements(op, c);
    auto shape = tileir::shapeOf(acc.getType());
    std::int64_t m = shape[0], n = shape[1], k = std::int64_t(a.size() / byteSize(da)) / m;
    std::string whole;
    for (auto &[at, bytes] : all)
      whole += bytes;
    auto widen = [&](std::string &bytes, DType d) {
      if (d == c.dtype)
        return;
      std::string wide(bytes.size() / byteSize(d) * 4, 0);
      widenKernel(d, hostIsa())(bytes.data(), wide.data(), std::int64_t(bytes.size() / byteSize(d)));
      bytes = wide;
    };
    widen(a, da);
    widen(b, db);
    MmaCall call{a.data(), b.data(), whole.data(), nullptr, nullptr, k, n, 0, m, 0, k};
    mmaKernel(c.dtype, hostIsa())(call);
    for (int t = 0; t < threads; ++t)
      for (int r = 0; r < to.regs; ++r) {
        Coords at = coordsOf(to, t, r);
        std::memcpy(to.at(t, r),
                    whole.data() + (std::size_t(at[0]) * std::size_t(n) + std::size_t(at[1])) * to.size(),
                    to.size());
      }
    values[result] = to;
  }

  void mmaSync(tgpu::MmaSyncOp o) {
    const MmaRow &row = *findMma(std::string_view(o.getAtom().getName()));
    bool fits = false;
    for (int wm = 1; wm <= warps; wm *= 2) {
      auto matches = [&](mlir::Value v, MmaOperand which) {
        auto s = tileir::shapeOf(v.getType());
        std::vector<std::int32_t> shape(s.begin(), s.end());
        auto tiled = warpTiled(row.operand(which).layout, shape, wm, warps / wm, which);
        return tiled && *tiled == *get(v).layout;
      };
      fits |= matches(o.getA(), MmaOperand::A) && matches(o.getB(), MmaOperand::B) &&
              matches(o.getAcc(), MmaOperand::C);
    }
    if (!fits)
      fail(o, "operands are not in the atom's fragments");
    auto flat = [&](mlir::Value v) {
      std::string bytes;
      for (auto &[at, element] : elements(o, get(v)))
        bytes += element;
      return bytes;
    };
    product(o, flat(o.getA()), get(o.getA()).dtype, flat(o.getB()), get(o.getB()).dtype, o.getAcc(),
            o.getResult());
  }

  void mmaFma(tgpu::MmaFmaOp o) {
    auto flat = [&](mlir::Value v) {
      const BufferAt &buffer = buffers[v];
      auto shape = buffer.type.getShape();
      std::size_t size = byteSize(*tileir::dtypeOfType(buffer.type.getElementType()));
      std::string bytes;
      for (std::int32_t i = 0; i < shape[0]; ++i)
        for (std::int32_t j = 0; j < shape[1]; ++j)
          for (std::size_t k = 0; k < size; ++k) {
            std::int64_t at = sharedAddress(buffer, {i, j}) + std::int64_t(k);
            for (int t : {0, threads - 1}) // stands for several readers
              sharedByte(o, at, t, false);
            bytes += shared[std::size_t(at)];
          }
      return bytes;
    };
    auto dtype = [&](mlir::Value v) { return *tileir::dtypeOfType(buffers[v].type.getElementType()); };
    product(o, flat(o.getA()), dtype(o.getA()), flat(o.getB()), dtype(o.getB()), o.getAcc(), o.getResult());
  }

  mlir::func::FuncOp func;
  int warps = 0, blocks = 1, threads = 0; ///< warps and threads of all blocks
  std::int64_t sharedBytes = 0;
  std::vector<KernelArg> arguments;
  std::vector<std::int64_t> program;
  std::int64_t part = 0, launchedParts = 1;
  std::vector<Cells> partials; ///< of the parts so far, put together
  llvm::DenseMap<mlir::Value, Cells> values;
  llvm::DenseMap<mlir::Value, View> views;
  llvm::DenseMap<mlir::Value, BufferAt> buffers;
  std::vector<char> shared;
  std::vector<Touch> sharedTouch;
  std::unordered_map<char *, Touch> global;
  int epoch = 0, across = 0;
  bool started = false;
  std::map<std::int64_t, std::vector<std::int64_t>> underWay; ///< per count of arrivals: bytes
};

} // namespace sectile::test
