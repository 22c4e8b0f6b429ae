// SPDX-License-Identifier: Apache-2.0
#include <sectile/Control.h>

#include "dsl/Trace.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <exception>
#include <set>

using namespace mlir;

namespace sectile::detail {

static std::string line(Position p) {
  llvm::StringRef file = p.file_name();
  return (file.contains('/') ? file.rsplit('/').second : file).str() + ":" + std::to_string(p.line());
}

namespace {
/// Cells of one region op while it is closed.
struct Carried {
  llvm::SmallVector<std::uint32_t> ids;
  llvm::SmallVector<Value> inits, yields;
  llvm::SmallVector<Type> types;
  llvm::SmallVector<Position> written;
};

/// Block arguments that were replaced while a region closes: states of cells still name the old ones.
struct Replaced {
  llvm::DenseMap<Value, Value> map;
  void replace(Value from, Value to) {
    from.replaceAllUsesWith(to);
    map[from] = to;
  }
  Value operator()(Value v) const {
    for (auto it = map.find(v); it != map.end(); it = map.find(v))
      v = it->second;
    return v;
  }
};
} // namespace

//===--------------------------------------------------------------------===//
// range
//===--------------------------------------------------------------------===//

std::uint32_t Trace::addLoop(LoopTrace loop) {
  loops.push_back(loop);
  return loops.size() - 1;
}

void Trace::openLoop(std::uint32_t loop) {
  push(Frame::Kind::loop, loops[loop].where);
  frames.back().block->addArgument(IndexType::get(context()), at(loops[loop].where));
}

CellRef Trace::loopCounter(std::uint32_t loop) {
  const LoopTrace &info = loops[loop];
  Value iv = frames.back().block->getArgument(0);
  if (info.reversed)
    iv = binary(tileir::BinaryFn::k_sub, info.base, iv, info.where);
  else if (info.factor)
    iv = binary(tileir::BinaryFn::k_add, info.base,
                binary(tileir::BinaryFn::k_mul, iv, info.factor, info.where), info.where);
  return define(iv, info.where);
}

void Trace::closeLoop(std::uint32_t loop) {
  Frame f = pop();
  const LoopTrace info = loops[loop];
  const std::size_t parent = frames.size() - 1;
  Block &block = *f.block;
  const unsigned oldArguments = block.getNumArguments();
  Carried carried;
  Replaced replaced;
  for (auto &[cell, s] : f.cells) {
    if (cells[cell].frameId == f.id)
      continue;
    if (!s.outer) {
      if (s.value)
        lookup(parent, cell).whyUnset = "the loop at " + line(info.where) + " may run zero times";
    } else if (!s.changed()) {
      replaced.replace(s.entry, s.outer);
    } else {
      replaced.replace(s.entry, block.addArgument(s.entry.getType(), s.entry.getLoc()));
      carried.ids.push_back(cell);
      carried.inits.push_back(s.outer);
      carried.yields.push_back(s.value);
      carried.types.push_back(s.outer.getType());
      carried.written.push_back(s.written);
    }
  }
  for (Value &v : carried.yields)
    v = replaced(v);
  block.eraseArguments(1, oldArguments - 1);

  end<scf::YieldOp>(&block, info.where, carried.yields);
  OperationState state(at(info.where), scf::ForOp::getOperationName());
  state.addOperands({info.lo, info.hi, info.step});
  state.addOperands(carried.inits);
  state.addTypes(carried.types);
  state.addRegion()->push_back(f.owned.release());
  Operation *op = builder().create(state);
  for (auto [i, cell] : llvm::enumerate(carried.ids)) {
    CellState &s = lookup(parent, cell);
    s.value = op->getResult(i);
    s.written = carried.written[i];
  }
  checkCarriedExtents(op, carried.yields, carried.ids, carried.written);
}

void Trace::leaveLoop(std::uint32_t loop, std::size_t depth) {
  failLater({SourceLoc(loops[loop].where),
             {},
             "range",
             "the loop is left by break, return or goto, but its body is traced once for all trips",
             "loop_left",
             "use when for what depends on traced values, and bounds or loopWhile for the number of trips"});
  while (frames.size() > depth) {
    Frame f = pop();
    if (f.owned)
      abandoned.push_back(std::move(f.owned));
  }
}

void Trace::checkCarriedExtents(Operation *loop, ValueRange yielded, llvm::ArrayRef<std::uint32_t> ids,
                                llvm::ArrayRef<Position> written) {
  for (auto [i, v] : llvm::enumerate(yielded)) {
    VaryingLanes varying = lanesThatVary(v, loop);
    if (!varying.op)
      continue;
    std::string source = "an operation";
    if (auto l = llvm::dyn_cast<FileLineColLoc>(varying.op->getLoc())) {
      llvm::StringRef file = l.getFilename().getValue();
      source =
          (file.contains('/') ? file.rsplit('/').second : file).str() + ":" + std::to_string(l.getLine());
    }
    fail(written[i], "=",
         "the Tile declared at " + line(cells[ids[i]].where) +
             " is carried round a loop, but which of its lanes exist "
             "depends on the trip, through the " +
             (varying.mask ? "mask" : "tail") + " of the value made at " + source +
             "; lanes missing in one trip would be lost with all they held",
         "carried_extent", "give missing lanes a value (.fill(0)), or reduce inside the loop");
  }
}

} // namespace sectile::detail

namespace sectile {

using detail::Trace;

/// A bound of a range as an index value.
static Value indexOperand(Trace &t, const TileAt &x, const char *what) {
  if (x.isLiteral)
    return t.constant(IndexType::get(t.context()), {}, x.number, "range", x.loc);
  Value v = t.read(x.cell, "range", x.loc);
  if (!v.getType().isIndex())
    t.fail(x.loc, "range", std::string(what) + " is " + detail::tileText(v) + ", not a scalar of dtype index",
           "range_index", "convert it with cast<Index>(x)");
  return v;
}

Range::Range(const TileAt &lo, const TileAt &hi, const TileAt &step)
    : exceptions(std::uncaught_exceptions()) {
  using tileir::BinaryFn;
  Trace &t = Trace::get(lo.loc, "range");
  trace = t.id;
  detail::LoopTrace l;
  l.where = t.resolve(lo.loc);
  Value first = indexOperand(t, lo, "the first bound"), last = indexOperand(t, hi, "the second bound");
  Value by = indexOperand(t, step, "the step");
  if (step.isLiteral) {
    llvm::APInt value(64, 0);
    if (auto constant = by.getDefiningOp<tileir::ConstantOp>())
      value = llvm::cast<IntegerAttr>(constant.getValue()).getValue();
    if (value.isZero())
      t.fail(step.loc, "range", "the step is 0", "range_step",
             "use a step above 0, or below 0 to count down");
    if (value.isNegative()) {
      // hi, hi + step, .. above lo: count the distance up and take it off.
      l.lo = t.indexConstant(0, l.where);
      l.hi = t.binary(BinaryFn::k_sub, first, last, l.where);
      l.step = t.indexConstant((-value).getSExtValue(), l.where);
      l.base = first;
      l.reversed = true;
    } else {
      l.lo = first;
      l.hi = last;
      l.step = by;
    }
  } else {
    // The sign is known at run time: count trips. Division is total, so a step of 0 gives none.
    Value zero = t.indexConstant(0, l.where), one = t.indexConstant(1, l.where);
    OpBuilder &b = t.builder();
    Location loc = t.at(l.where);
    Type i1 = b.getI1Type();
    Value up = tileir::CompareOp::create(b, loc, i1, tileir::ComparePred::k_gt, by, zero);
    Value span = tileir::SelectOp::create(b, loc, up, t.binary(BinaryFn::k_sub, last, first, l.where),
                                          t.binary(BinaryFn::k_sub, first, last, l.where));
    Value size = tileir::UnaryOp::create(b, loc, by.getType(), tileir::UnaryFn::k_abs, by);
    Value rounded = t.binary(BinaryFn::k_sub, t.binary(BinaryFn::k_add, span, size, l.where), one, l.where);
    l.lo = zero;
    l.hi = t.binary(BinaryFn::k_floordiv, rounded, size, l.where);
    l.step = one;
    l.base = first;
    l.factor = by;
  }
  loop = t.addLoop(l);
}

Range::~Range() {
  Trace *t = Trace::current();
  if (!isOpen || !t || t->id != trace || std::uncaught_exceptions() > exceptions)
    return;
  t->leaveLoop(loop, depth);
}

void Range::open() {
  Trace &t = Trace::get({}, "range");
  if (isOpen || t.id != trace)
    t.fail(t.id == trace ? t.loops[loop].where : std::source_location(), "range",
           "the range is already being gone through, or belongs to another trace", "range_once",
           "write range(...) in the for statement itself");
  depth = t.frames.size();
  t.openLoop(loop);
  isOpen = true;
}

void Range::close() {
  Trace &t = Trace::get({}, "range");
  if (t.frames.size() != depth + 1)
    t.fail({}, "range", "a loop or branch inside this loop is still open", "range_once",
           "end what was begun inside the loop");
  isOpen = false;
  t.closeLoop(loop);
}

detail::CellRef Range::counter() { return Trace::get({}, "range").loopCounter(loop); }

} // namespace sectile

//===--------------------------------------------------------------------===//
// when
//===--------------------------------------------------------------------===//

namespace sectile::detail {

std::uint32_t Trace::openBranch(Value condition, Position where) {
  BranchTrace b;
  b.condition = condition;
  b.where = resolve(where);
  branches.push_back(std::move(b));
  push(Frame::Kind::branch, where);
  return branches.size() - 1;
}

void Trace::closeBranch(std::uint32_t branch, Frame *otherwise) {
  BranchTrace &info = branches[branch];
  Frame &then = info.thenFrame;
  const std::size_t parent = frames.size() - 1;
  std::set<std::uint32_t> touched;
  for (Frame *f : {&then, otherwise})
    if (f)
      for (auto &[cell, s] : f->cells)
        if (cells[cell].frameId != f->id)
          touched.insert(cell);

  Carried carried;
  info.before.clear();
  auto stateIn = [&](Frame *f, std::uint32_t cell) -> CellState * {
    if (!f)
      return nullptr;
    auto it = f->cells.find(cell);
    return it == f->cells.end() ? nullptr : &it->second;
  };
  for (std::uint32_t cell : touched) {
    CellState &outer = lookup(parent, cell);
    CellState *a = stateIn(&then, cell), *b = stateIn(otherwise, cell);
    Value va = a ? a->value : outer.value, vb = b ? b->value : outer.value;
    if (va == vb && va == outer.value)
      continue;
    info.before.emplace_back(cell, outer);
    if (!va || !vb) {
      outer.whyUnset = "a branch of the when at " + line(info.where) + " gives it none";
    } else if (va == vb) {
      outer.value = va;
    } else {
      carried.ids.push_back(cell);
      carried.inits.push_back(va);
      carried.yields.push_back(vb);
      carried.types.push_back(va.getType());
      carried.written.push_back(a && a->changed() ? a->written : b->written);
    }
  }

  OperationState state(at(info.where), scf::IfOp::getOperationName());
  state.addOperands(info.condition);
  state.addTypes(carried.types);
  end<scf::YieldOp>(then.block, info.where, carried.inits);
  state.addRegion()->push_back(then.owned.release());
  Region *elseRegion = state.addRegion();
  if (otherwise || !carried.ids.empty()) {
    Block *block = otherwise ? otherwise->owned.release() : new Block();
    end<scf::YieldOp>(block, info.where, carried.yields);
    elseRegion->push_back(block);
  }
  info.op = builder().create(state);
  for (auto [i, cell] : llvm::enumerate(carried.ids)) {
    CellState &s = lookup(parent, cell);
    s.value = info.op->getResult(i);
    s.written = carried.written[i];
  }
}

void Trace::reopenBranch(std::uint32_t branch) {
  BranchTrace &info = branches[branch];
  Region &region = info.op->getRegion(0);
  Block *block = &region.front();
  block->getTerminator()->erase();
  region.getBlocks().remove(block);
  info.thenFrame.owned.reset(block);
  for (auto &[cell, s] : info.before)
    frames.back().cells[cell] = s;
  info.op->erase();
  info.op = nullptr;
}

/// Reads a condition: a scalar truth value.
static Value conditionOperand(Trace &t, const TileAt &c, const char *op, Position loc) {
  Type i1 = IntegerType::get(t.context(), 1);
  if (c.isLiteral)
    return t.constant(i1, {}, c.number, op, loc);
  Value v = t.read(c.cell, op, loc);
  if (v.getType() != i1)
    t.fail(loc, op, "the condition is " + tileText(v) + ", not a scalar of dtype bool", "condition_scalar",
           "reduce it with any or all and reshape, or choose lane by lane with select");
  return v;
}

WhenTrace::WhenTrace(const TileAt &cond, const void *lambda, std::size_t bytes) {
  Trace &t = Trace::get(cond.loc, "when");
  trace = t.id;
  t.checkCapture(lambda, bytes, "when", cond.loc);
  Value c = conditionOperand(t, cond, "when", cond.loc);
  index = t.openBranch(c, cond.loc);
  depth = t.frames.size();
}

/// Takes the branch's frame off; everything opened inside must have ended.
static Frame takeFrame(Trace &t, std::size_t depth, Position where) {
  if (t.frames.size() != depth)
    t.fail(where, "when", "a loop or branch inside is still open", "range_once", "end what was begun inside");
  return t.pop();
}

void WhenTrace::endThen() {
  Trace &t = Trace::get({}, "when");
  t.branches[index].thenFrame = takeFrame(t, depth, t.branches[index].where);
  t.closeBranch(index, nullptr);
  eventsAfterThen = t.events;
}

void WhenTrace::beginElse(const void *lambda, std::size_t bytes, std::source_location loc) {
  Trace &t = Trace::get(loc, "otherwise");
  t.checkCapture(lambda, bytes, "otherwise", loc); // first: making the copy counts as an operation
  if (t.id != trace || t.events != eventsAfterThen)
    t.fail(loc, "otherwise", "other operations lie between the when and its otherwise", "when_otherwise",
           "write when(c, [&] { ... }).otherwise([&] { ... }) in one statement");
  t.reopenBranch(index);
  t.push(Frame::Kind::branch, loc);
}

void WhenTrace::endElse() {
  Trace &t = Trace::get({}, "otherwise");
  Frame otherwise = takeFrame(t, depth, t.branches[index].where);
  t.closeBranch(index, &otherwise);
}

//===--------------------------------------------------------------------===//
// loopWhile
//===--------------------------------------------------------------------===//

WhileTrace::WhileTrace(std::source_location loc) {
  Trace &t = Trace::get(loc, "loopWhile");
  where = t.resolve(loc);
}

void WhileTrace::checkCapture(const void *lambda, std::size_t bytes) {
  Trace::get(where, "loopWhile").checkCapture(lambda, bytes, "loopWhile", where);
}

void WhileTrace::beginCondition() {
  Trace &t = Trace::get(where, "loopWhile");
  t.push(Frame::Kind::whileCondition, where);
  depth = t.frames.size();
}

void WhileTrace::beginBody(const Tile &cond) {
  Trace &t = Trace::get(where, "loopWhile");
  if (t.frames.size() != depth)
    t.fail(where, "loopWhile", "a loop or branch inside is still open", "range_once",
           "end what was begun inside");
  t.frames.back().condition = conditionOperand(t, TileAt(cond), "loopWhile", where);
  t.push(Frame::Kind::whileBody, where);
}

void WhileTrace::end() {
  Trace &t = Trace::get(where, "loopWhile");
  if (t.frames.size() != depth + 1)
    t.fail(where, "loopWhile", "a loop or branch inside is still open", "range_once",
           "end what was begun inside");
  t.closeWhile();
}

void Trace::closeWhile() {
  Frame body = pop(), test = pop();
  const std::size_t parent = frames.size() - 1;
  const unsigned oldBefore = test.block->getNumArguments(), oldAfter = body.block->getNumArguments();
  Replaced replaced;
  Carried carried; // initial values, and what the body hands back
  llvm::SmallVector<std::uint32_t>
      passed; // all cells that leave the condition: carried ones and those set there
  llvm::SmallVector<Value> passedValues;
  llvm::SmallVector<Position> passedWritten;

  for (auto &[cell, s] : test.cells) {
    auto inBody = body.cells.find(cell);
    CellState *b = inBody == body.cells.end() ? nullptr : &inBody->second;
    const bool own = cells[cell].frameId == test.id;
    const bool bodyWrites = b && b->changed();
    if (!own && !s.changed() && !bodyWrites) {
      if (s.outer) {
        if (b)
          replaced.replace(b->entry, s.entry);
        replaced.replace(s.entry, s.outer);
      }
      continue;
    }
    if (own ? !b || !b->entry : false)
      continue; // never leaves the condition
    if (!s.value) {
      // Set in the body alone, without a value before: there may be no trip.
      lookup(parent, cell).whyUnset = "the loop at " + line(test.where) + " may run zero times";
      continue;
    }
    passed.push_back(cell);
    passedValues.push_back(s.value);
    passedWritten.push_back(bodyWrites ? b->written : s.written);
    Value after = body.block->addArgument(s.value.getType(), s.value.getLoc());
    Value handedBack = after;
    if (b && b->entry)
      replaced.replace(b->entry, after);
    if (b)
      handedBack = b->value;
    if (own || !s.outer)
      continue;
    replaced.replace(s.entry, test.block->addArgument(s.entry.getType(), s.entry.getLoc()));
    carried.ids.push_back(cell);
    carried.inits.push_back(s.outer);
    carried.yields.push_back(handedBack);
    carried.written.push_back(passedWritten.back());
  }
  for (Value &v : carried.yields)
    v = replaced(v);
  for (Value &v : passedValues) {
    v = replaced(v);
    carried.types.push_back(v.getType());
  }
  test.block->eraseArguments(0, oldBefore);
  body.block->eraseArguments(0, oldAfter);

  Location loc = at(test.where);
  end<scf::ConditionOp>(test.block, test.where, replaced(test.condition), passedValues);
  end<scf::YieldOp>(body.block, test.where, carried.yields);
  OperationState state(loc, scf::WhileOp::getOperationName());
  state.addOperands(carried.inits);
  state.addTypes(carried.types);
  state.addRegion()->push_back(test.owned.release());
  state.addRegion()->push_back(body.owned.release());
  Operation *op = builder().create(state);
  for (auto [i, cell] : llvm::enumerate(passed)) {
    if (cells[cell].frameId == test.id)
      continue;
    CellState &s = lookup(parent, cell);
    s.value = op->getResult(i);
    s.written = passedWritten[i];
  }
  checkCarriedExtents(op, carried.yields, carried.ids, carried.written);
  checkCarriedExtents(op, passedValues, passed, passedWritten);
}

} // namespace sectile::detail
