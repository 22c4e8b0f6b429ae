// SPDX-License-Identifier: Apache-2.0
/// \file Runs and their results; the blocks of a program; who touched memory when.
#include "ir/exec/Executor.h"

#include "ir/ProgramOrder.h"
#include "ir/exec/Program.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <numeric>
#include <utility>

using namespace mlir;
using namespace sectile;

namespace sectile::tgpu {

// --- results
// ----------------------------------------------------------------------------------------------------

OpCounts &OpCounts::operator+=(const OpCounts &o) {
  requests += o.requests;
  bytes += o.bytes;
  sectors += o.sectors;
  wavefronts += o.wavefronts;
  conflicts += o.conflicts;
  barriers += o.barriers;
  clusterBarriers += o.clusterBarriers;
  runs += o.runs;
  return *this;
}

OpCounts &OpCounts::operator*=(std::int64_t times) {
  for (std::int64_t *n : {&requests, &bytes, &sectors, &wavefronts, &conflicts, &barriers, &clusterBarriers, &runs})
    *n *= times;
  return *this;
}

const OpCounts *ExecResult::of(Operation *op) const {
  auto it = llvm::find_if(counts, [&](const OpCounts &c) { return c.op == op; });
  return it == counts.end() ? nullptr : &*it;
}

OpCounts ExecResult::total() const {
  OpCounts sum;
  for (const OpCounts &c : counts)
    sum += c;
  return sum;
}

std::string ExecFault::text() const {
  std::string line;
  op->getLoc()->walk([&](Location l) {
    auto at = dyn_cast<FileLineColLoc>(l);
    if (!at)
      return WalkResult::advance();
    line = exec::say(at.getFilename().getValue(), ":", at.getLine(), ":", at.getColumn(), ": ");
    return WalkResult::interrupt();
  });
  return line + op->getName().getStringRef().str() + ": " + what;
}

// --- blocks
// -----------------------------------------------------------------------------------------------------

namespace exec {

/// Pages that no program touches take no memory.
static Cell *zeroCells(std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Cell>);
  void *cells = std::calloc(std::max<std::size_t>(count, 1), sizeof(Cell));
  if (!cells)
    throw std::bad_alloc();
  return static_cast<Cell *>(cells);
}

RunState::RunState(std::span<const KernelArg> arguments) : args(arguments.begin(), arguments.end()) {
  // Arguments that overlap share one history.
  struct Extent {
    std::uintptr_t begin, end;
    std::int64_t size;
    std::size_t arg;
  };
  std::vector<Extent> extents;
  for (auto [n, a] : llvm::enumerate(args)) {
    if (!a.isTensor())
      continue;
    auto at = reinterpret_cast<std::uintptr_t>(a.data);
    std::int64_t size = std::int64_t(byteSize(a.dtype)), low = 0, high = size;
    for (int d = 0; d < a.rank; ++d) {
      std::int64_t reach = (a.dims[std::size_t(d)] - 1) * a.strides[std::size_t(d)] * size;
      if (a.dims[std::size_t(d)] == 0)
        low = high = 0;
      else
        (reach < 0 ? low : high) += reach;
    }
    extents.push_back({at + std::uintptr_t(low), at + std::uintptr_t(high), size, n});
  }
  llvm::sort(extents, [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
  std::vector<int> rangeOf(args.size(), 0);
  for (const Extent &e : extents) {
    if (ranges.empty() || e.begin >= ranges.back().end) {
      ranges.push_back({e.begin, e.end, e.size, {}});
    } else {
      GlobalRange &r = ranges.back();
      r.end = std::max(r.end, e.end);
      r.grain = std::gcd(std::gcd(r.grain, e.size), std::int64_t(e.begin - r.begin));
    }
    rangeOf[e.arg] = int(ranges.size()) - 1;
  }
  for (GlobalRange &r : ranges)
    r.cells.reset(zeroCells((r.end - r.begin) / std::uintptr_t(r.grain)));
  for (auto [n, a] : llvm::enumerate(args))
    if (a.isTensor())
      views.push_back({static_cast<char *>(a.data),
                       rangeOf[n],
                       {a.dims.begin(), a.dims.begin() + a.rank},
                       {a.strides.begin(), a.strides.begin() + a.rank}});
}

Cluster::Cluster(const Program &program, RunState &run)
    : program(program), run(run), views(std::size_t(program.numViews)),
      shared(std::size_t(program.sharedBytes * program.blocks)), values(std::size_t(program.valueBytes)),
      sharedCells(shared.size() / std::size_t(program.sharedGrain)) {
  for (auto &[slot, element] : program.constants)
    for (std::int64_t i = 0; i < slot.count; ++i)
      std::memcpy(data(slot) + i * slot.size, element.data(), std::size_t(slot.size));
  for (auto &[slot, arg] : program.scalarArguments)
    std::memcpy(data(slot), &run.args[std::size_t(arg)].scalar, std::size_t(slot.size));
  for (auto [n, view] : llvm::enumerate(run.views))
    views[std::size_t(program.viewOfArgument[n])] = view;
}

bool Cluster::runProgram(std::vector<std::int64_t> programNumber) {
  number = std::move(programNumber);
  parts = 1; // the first part finds out how many there are
  for (part = 0; part < parts; ++part)
    if (!runPart())
      return false;
  return true;
}

void Cluster::start() {
  firstEpoch = epoch = ++run.epoch; // nothing happens in these two
  firstAcross = across = ++run.across;
  barrier(/*ofCluster=*/true);
  started = false;
  next = 0;
  products.clear();
  unready.clear();
  fences = seenFences = 0;
  pipes.assign(program.pipes.size(), {});
  places.assign(std::size_t(program.numPlaces), {});
}

void Cluster::runActions(int end) {
  while (next < end && !failed()) {
    const Action &action = program.actions[std::size_t(next++)];
    action(*this);
  }
}

bool Cluster::runPart() {
  llvm::SmallVector<Cluster *, 2> blocks{this};
  if (peer) {
    peer->blockNumber = blockNumber;
    peer->blockCount = blockCount;
    blocks.push_back(peer);
  }
  for (Cluster *b : blocks)
    b->start();
  for (Cluster *b : blocks) // the first goes through the roles of all
    b->runActions(int(program.actions.size()));
  for (Cluster *b : blocks) {
    if (!b->underWay.empty())
      fail(program.func, "a block ends while copies into it are under way");
    if (!b->products.empty())
      fail(b->products.front()->op, "a block ends while the product is under way");
  }
  return !failed();
}

void Cluster::fail(Operation *op, const std::string &what) {
  if (!failed())
    run.result.fault = ExecFault{op, what};
}

void Cluster::barrier(bool ofCluster) {
  epoch = ++run.epoch;
  if (ofCluster)
    across = ++run.across;
  seenFences = fences;
}

bool Cluster::touch(Operation *op, Cell &c, int thread, bool write, const char *memory) {
  auto race = [&](const char *what, int other) {
    fail(op, say(what, " of ", memory, " by thread ", thread, " and ",
                 other == Cell::many ? std::string("others") : say("thread ", other),
                 " without a barrier between them"));
    return false;
  };
  if (c.underWay) {
    fail(op, say("thread ", thread, " accesses ", memory, " that is under way from another block"));
    return false;
  }
  int block = program.blockOf(thread);
  // A barrier of a block orders its own threads, one of the cluster all.
  if ((c.writeEpoch == epoch && c.writer != thread) ||
      (c.writeAcross == across && program.blockOf(c.writer) != block))
    return race(write ? "two writes" : "a read after a write", c.writer);
  if (write) {
    if ((c.readEpoch == epoch && c.reader != thread) ||
        (c.readAcross == across && c.readBlock != block))
      return race("a write after a read", c.reader);
    c.writeEpoch = epoch;
    c.writeAcross = across;
    c.writer = std::uint16_t(thread);
  } else {
    c.reader = c.readEpoch == epoch && c.reader != thread ? Cell::many : std::uint16_t(thread);
    c.readBlock = c.readAcross == across && c.readBlock != block ? Cell::manyBlocks : std::uint8_t(block);
    c.readEpoch = epoch;
    c.readAcross = across;
  }
  return true;
}

bool Cluster::touchGlobal(Operation *op, int range, const char *at, std::int64_t bytes, int thread,
                          bool write) {
  GlobalRange &r = run.ranges[std::size_t(range)];
  auto first = std::int64_t(reinterpret_cast<std::uintptr_t>(at) - r.begin);
  for (std::int64_t i = first / r.grain; i * r.grain < first + bytes; ++i)
    if (!touch(op, r.cells[std::size_t(i)], thread, write, "one element of global memory"))
      return false;
  return true;
}

char *Cluster::touchShared(Operation *op, const BufferAt &buffer, std::int64_t at, std::int64_t bytes,
                           int thread, int block, bool write) {
  if (at + bytes > program.sharedBytes) {
    fail(op, say("thread ", thread, " accesses bytes ", at, " to ", at + bytes - 1,
                 " of shared memory; the block has ", program.sharedBytes));
    return nullptr;
  }
  if (at % bytes) {
    fail(op, say("thread ", thread, " moves ", bytes, " bytes at once, from byte ", at, " of shared memory"));
    return nullptr;
  }
  if (write)
    if (const ProductGroup *reader = readerOf(at, at + bytes)) {
      fail(op, say("thread ", thread, " writes byte ", at,
                   " of shared memory, which a product under way reads: ", ExecFault{reader->op, {}}.text()));
      return nullptr;
    }
  char *memory = shared.data() + block * program.sharedBytes + at;
  for (std::int64_t i = 0; i < bytes; i += program.sharedGrain) {
    Cell &c = cellAt(memory + i);
    if (!write && c.writeEpoch < firstEpoch) {
      fail(op, say("thread ", thread, " reads byte ", at, " of shared memory, which nothing has written"));
      return nullptr;
    }
    if (!touch(op, c, thread, write, "one place in shared memory"))
      return nullptr;
    if (!write && c.buffer != buffer.number) {
      fail(op, say("thread ", thread, " reads byte ", at,
                   " of shared memory, which was last written through another buffer: both are live"));
      return nullptr;
    }
    if (write) {
      c.buffer = std::uint16_t(buffer.number);
      c.fence = fences + 1;
    }
  }
  return memory;
}

// Copies to other blocks are ordered by the wait for them alone.
bool Cluster::send(Operation *op, char *memory, std::int64_t bytes, std::vector<Cell *> &sent) {
  for (std::int64_t i = 0; i < bytes; i += program.sharedGrain) {
    Cell &c = cellAt(memory + i);
    if (c.sentAcross == across) {
      fail(op, "the same bytes are sent again without a barrier of the cluster between");
      return false;
    }
    c.writeEpoch = firstEpoch;
    c.writeAcross = firstAcross;
    c.sentAcross = across;
    c.underWay = true;
    sent.push_back(&c);
  }
  return true;
}

} // namespace exec

// --- runs
// -------------------------------------------------------------------------------------------------------

struct Executor::Impl {
  exec::Program program;
};

Executor::Executor(std::unique_ptr<Impl> i) : impl(std::move(i)) {}
Executor::~Executor() = default;

std::unique_ptr<Executor> Executor::build(ModuleOp module) {
  func::FuncOp kernel;
  module.walk([&](func::FuncOp f) {
    if (f->hasAttr(tileir::kernelAttr))
      kernel = f;
  });
  if (!kernel) {
    module.emitError("has no function with tile.kernel");
    return nullptr;
  }
  auto impl = std::make_unique<Impl>();
  if (!impl->program.decode(kernel))
    return nullptr;
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

std::vector<std::int64_t> Executor::grid(std::span<const KernelArg> args) const {
  std::vector<std::int64_t> programs;
  if (tileir::GridOp grid = impl->program.grid) {
    const KernelArg &x = args[cast<BlockArgument>(grid.getX()).getArgNumber()];
    for (auto [d, size] : llvm::enumerate(grid.getSizes()))
      programs.push_back((x.dims[d] + size - 1) / size);
  } else if (ProgramsOp space = impl->program.programs) {
    const KernelArg &x = args[cast<BlockArgument>(space.getX()).getArgNumber()];
    for (auto [d, size] : llvm::enumerate(space.getSizes()))
      programs.push_back((x.dims[d] + size - 1) / size);
  }
  return programs;
}

ExecResult Executor::run(std::span<const KernelArg> args, std::int64_t parts) const {
  std::int64_t total = 1;
  for (std::int64_t n : grid(args))
    total *= n;
  if (impl->program.persistent) {
    exec::RunState run(args);
    run.result.counts = impl->program.counted;
    exec::Cluster cluster(impl->program, run);
    cluster.wantedParts = parts;
    cluster.consumersFirst = consumersFirst;
    // Shared programs are for all blocks: each has a trip.
    cluster.wantedParts = std::min(parts, total);
    cluster.blockCount = impl->program.shares && cluster.wantedParts > 1 ? persistentBlocks : std::min(total, persistentBlocks);
    std::optional<exec::Cluster> second;
    if (impl->program.pairs)
      exec::Cluster::pairUp(cluster, second.emplace(impl->program, run));
    for (std::int64_t n = 0; n < cluster.blockCount; ++n) {
      cluster.blockNumber = n;
      if (!cluster.runProgram({}))
        break;
      run.result.programs += (total - n + cluster.blockCount - 1) / cluster.blockCount;
    }
    if (!cluster.sharedPartials.empty() && !cluster.failed())
      cluster.fail(impl->program.shares, "a shared program ends before all of its parts have come");
    return std::move(run.result);
  }
  std::vector<ProgramSample> all(static_cast<std::size_t>(total));
  for (std::int64_t at = 0; at < total; ++at)
    all[std::size_t(at)].number = at;
  return run(args, parts, all);
}

ExecResult Executor::run(std::span<const KernelArg> args, std::int64_t parts,
                         std::span<const ProgramSample> samples) const {
  const exec::Program &p = impl->program;
  exec::RunState run(args);
  run.result.counts = p.counted;
  std::vector<std::int64_t> programs = grid(args);
  exec::Cluster cluster(p, run);
  cluster.wantedParts = parts;
  cluster.consumersFirst = consumersFirst;
  std::optional<exec::Cluster> second;
  if (p.pairs)
    exec::Cluster::pairUp(cluster, second.emplace(p, run));
  std::vector<OpCounts> before;
  for (const ProgramSample &sample : samples) {
    std::vector<std::int64_t> number(programs.size());
    std::int64_t rest = sample.number;
    for (std::size_t d = programs.size(); d-- > 0; rest /= programs[d])
      number[d] = rest % programs[d];
    if (p.persistent) { // a block that takes this program alone
      cluster.blockCount = std::accumulate(programs.begin(), programs.end(), std::int64_t(1), std::multiplies<>());
      cluster.blockNumber = p.order.empty() ? exec::placeInOrder(number, programs, p.group)
                                            : blockInOrder(number, programs, p.order[0], p.order[1] != 0);
    }
    if (sample.times != 1)
      before = std::exchange(run.result.counts, p.counted);
    const std::int64_t productsBefore = run.result.total().runs;
    if (!cluster.runProgram(std::move(number)))
      break;
    ++run.result.programs;
    run.result.work.push_back({sample.number, run.result.total().runs - productsBefore});
    if (sample.times != 1)
      for (auto [counts, old] : llvm::zip_equal(run.result.counts, before)) {
        counts *= sample.times;
        counts += old;
      }
  }
  return std::move(run.result);
}

} // namespace sectile::tgpu
