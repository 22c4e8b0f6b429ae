// SPDX-License-Identifier: Apache-2.0
#include "dsl/Trace.h"

#include "dsl/Composition.h"
#include "ir/base/Scalar.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringExtras.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace sectile::detail {

static thread_local Trace *active = nullptr;
static std::atomic<std::uint64_t> nextTrace{1};

//===--------------------------------------------------------------------===//
// Positions and errors
//===--------------------------------------------------------------------===//

/// Whether this is no file of the user's: a system header, or a header of Sectile's own.
static bool isForeign(llvm::StringRef file) {
  if (file.empty() || file.starts_with("/usr/") || file.contains("/include/c++/"))
    return true;
  if (file.ends_with("sectile/detail/Params.h") || file.ends_with("sectile/detail/Node.h"))
    return true;
  auto [folder, base] = file.rsplit('/');
  if (folder != "sectile" && !folder.ends_with("/sectile"))
    return false;
  for (const char *own :
       {"Tile.h", "Tensor.h", "Ops.h", "Control.h", "Config.h", "Kernel.h", "OnlineSoftmax.h", "Graph.h"})
    if (base == own)
      return true;
  return false;
}

static std::string shortPosition(Position p) {
  llvm::StringRef file = p.file_name();
  return (file.rsplit('/').second.empty() ? file : file.rsplit('/').second).str() + ":" +
         std::to_string(p.line());
}

Position Trace::resolve(Position loc) {
  if (isForeign(loc.file_name()))
    return lastUser;
  return lastUser = loc;
}

Location Trace::at(Position loc) {
  Position p = resolve(loc);
  return FileLineColLoc::get(context(), p.file_name(), p.line(), p.column());
}

void Trace::fail(Position loc, llvm::StringRef op, std::string message, llvm::StringRef rule,
                 std::string wayOut) {
  ErrorParts parts{SourceLoc(resolve(loc)), kernel.name, op.str(),
                   std::move(message),      rule.str(),  std::move(wayOut)};
  if (!sticky)
    sticky = parts; // a body that swallows the exception still fails
  throw UserError(std::move(parts));
}

void Trace::fail(Position loc, const tileir::Violation &v) { fail(loc, v.op, v.message, v.rule, v.wayOut); }

void Trace::failLater(ErrorParts parts) {
  parts.kernel = kernel.name;
  if (!sticky)
    sticky = std::move(parts);
}

//===--------------------------------------------------------------------===//
// Life of a trace
//===--------------------------------------------------------------------===//

Trace::Trace(MLIRContext &context, const KernelDesc &kernel, std::span<const KernelArg> hostArgs,
             Config &config)
    : kernel(kernel), hostArgs(hostArgs), config(config), id(nextTrace++), build(&context),
      lastUser(kernel.where) {
  if (active)
    throw InternalError(std::string("kernel ") + kernel.name + " is traced inside the trace of kernel " + active->kernel.name);
  active = this;
}

Trace::~Trace() {
  active = nullptr;
  // What is left of an unfinished trace: values of one block are used in others, so cut all ties first.
  std::vector<Block *> blocks;
  for (Frame &f : frames)
    if (f.owned)
      blocks.push_back(f.owned.get());
  for (BranchTrace &b : branches)
    if (b.thenFrame.owned)
      blocks.push_back(b.thenFrame.owned.get());
  for (auto &b : abandoned)
    blocks.push_back(b.get());
  if (module)
    for (Block &b : function.getBody())
      blocks.push_back(&b);
  for (Block *b : blocks)
    b->dropAllReferences();
}

Trace *Trace::current() { return active; }
bool tracing() { return active != nullptr; }

Trace &Trace::get(Position loc, llvm::StringRef op) {
  if (!active)
    throw UserError({SourceLoc(loc),
                     {},
                     op.str(),
                     "a Tile is used outside the body of a kernel",
                     "no_trace",
                     "Tiles exist only while a kernel is traced; use host data on the host"});
  if (active->sticky)
    throw UserError(*active->sticky);
  return *active;
}

static bool isIdentifier(llvm::StringRef s) {
  return !s.empty() && !llvm::isDigit(s.front()) &&
         llvm::all_of(s, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

OwningOpRef<ModuleOp> Trace::run() {
  if (!isIdentifier(kernel.name))
    fail(kernel.where, "kernel", "the name \"" + std::string(kernel.name) + "\" is no identifier",
         "kernel_name", "use letters, digits and underscores");
  context()->loadDialect<tileir::TileDialect, func::FuncDialect, scf::SCFDialect>();
  config.forgetAsked();

  Location loc = at(kernel.where);
  module = ModuleOp::create(loc);
  llvm::SmallVector<Type> types;
  llvm::SmallVector<bool> readOnly;
  for (const ParamDesc &p : kernel.params) {
    if (p.kind == ParamDesc::Kind::constant)
      continue;
    Type element = tileir::elementType(context(), p.dtype);
    types.push_back(p.kind == ParamDesc::Kind::tensor ? tileir::TensorType::get(context(), p.rank, element)
                                                      : element);
    readOnly.push_back(p.readOnly);
  }
  build.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(build, loc, kernel.name, build.getFunctionType(types, {}));
  function->setAttr(tileir::kernelAttr, build.getUnitAttr());
  for (auto [i, ro] : llvm::enumerate(readOnly))
    if (ro)
      function.setArgAttr(i, tileir::readOnlyAttr, build.getUnitAttr());
  Block *entry = function.addEntryBlock();
  push(Frame::Kind::function, kernel.where);
  frames.back().block = entry;

  BodyArgs::State state{*this, {}, {}};
  unsigned next = 0;
  for (const ParamDesc &p : kernel.params)
    state.cells.push_back(
        p.kind == ParamDesc::Kind::constant ? CellRef{} : define(entry->getArgument(next++), kernel.where));
  BodyArgs args(state);
  body = &args;
  kernel.body(args);

  if (sticky)
    throw UserError(*sticky);
  for (auto &[name, value] : config.values())
    if (value.byHand && !value.asked)
      fail(kernel.where, "Config",
           "\"" + name + "\" is set to " + std::to_string(value.value) +
               ", but the kernel does not ask for it",
           "config_unknown", "the kernel asks for: " + config.askedNames());
  func::ReturnOp::create(builder(), loc);
  orderCanonically(*entry);
  frames.clear();
  return std::move(module);
}

OwningOpRef<ModuleOp> trace(MLIRContext &context, const KernelDesc &kernel,
                            std::span<const KernelArg> hostArgs, Config &config) {
  if (kernel.parts)
    return traceComposition(context, kernel, hostArgs, config);
  return Trace(context, kernel, hostArgs, config).run();
}

//===--------------------------------------------------------------------===//
// Cells
//===--------------------------------------------------------------------===//

void Trace::push(Frame::Kind kind, Position where) {
  Frame f;
  f.kind = kind;
  f.id = nextFrame++;
  f.where = resolve(where);
  if (kind != Frame::Kind::function) {
    f.owned = std::make_unique<Block>();
    f.block = f.owned.get();
  }
  frames.push_back(std::move(f));
}

Frame Trace::pop() {
  Frame f = std::move(frames.back());
  frames.pop_back();
  return f;
}

CellRef Trace::newCell(Position loc) {
  ++events;
  Cell c;
  c.depth = frames.size() - 1;
  c.frameId = frames.back().id;
  c.where = resolve(loc);
  cells.push_back(c);
  std::uint32_t number = cells.size() - 1;
  frames.back().cells.emplace(number, CellState());
  return {id, number};
}

CellRef Trace::define(Value value, Position loc) {
  CellRef ref = newCell(loc);
  cells[ref.cell].type = value.getType();
  frames.back().cells[ref.cell].value = value;
  return ref;
}

Trace::Cell &Trace::cellOf(CellRef ref, llvm::StringRef op, Position loc) {
  if (ref.trace != id)
    fail(loc, op,
         "this Tile belongs to another run of a kernel's body",
         "tile_trace",
         "Tiles live only while their kernel is traced: make them inside the body, keep none in static "
         "or host variables");
  Cell &c = cells[ref.cell];
  if (!visible(c))
    fail(loc, op,
         "this Tile, declared at " + shortPosition(c.where) + " inside a loop or branch, is used at " +
             shortPosition(resolve(loc)) + " after that has ended",
         "cell_ended", "declare it before the loop or branch and assign it inside");
  return c;
}

CellState &Trace::lookup(std::size_t depth, std::uint32_t cell) {
  Frame &f = frames[depth];
  auto it = f.cells.find(cell);
  if (it != f.cells.end())
    return it->second;
  CellState s;
  if (depth > cells[cell].depth) {
    CellState &outer = lookup(depth - 1, cell);
    s.outer = s.value = outer.value;
    s.whyUnset = outer.whyUnset;
    s.written = outer.written;
    if (s.outer && f.hasArguments())
      s.value = f.block->addArgument(s.outer.getType(), at(cells[cell].where));
    s.entry = s.value;
  }
  return f.cells.emplace(cell, std::move(s)).first->second;
}

Value Trace::read(CellRef ref, llvm::StringRef op, Position loc) {
  Cell &c = cellOf(ref, op, loc);
  CellState &s = lookup(frames.size() - 1, ref.cell);
  if (!s.value)
    fail(loc, op,
         "this Tile, declared at " + shortPosition(c.where) + ", has no value at " +
             shortPosition(resolve(loc)) + (s.whyUnset.empty() ? "" : ": " + s.whyUnset),
         "cell_unset", "give it a value on every path before it is read");
  return s.value;
}

void Trace::write(CellRef ref, Value value, Position loc) {
  Cell &c = cellOf(ref, "=", loc);
  if (c.type && c.type != value.getType())
    fail(loc, "=",
         "a Tile declared at " + shortPosition(c.where) + " as " + tileir::describe(c.type) +
             " cannot become " + tileir::describe(value.getType()),
         "cell_type", "cast or reshape the value, or declare another Tile");
  c.type = value.getType();
  CellState &s = lookup(frames.size() - 1, ref.cell);
  s.value = value;
  s.written = resolve(loc);
  ++events;
}

CellRef Trace::copy(CellRef from, const void *object, Position loc) {
  Cell &c = cellOf(from, "copy", loc);
  CellState &s = lookup(frames.size() - 1, from.cell);
  CellRef ref;
  if (s.value) {
    ref = define(s.value, loc);
  } else {
    // An unset variable may travel (as a member of a struct that is returned); reading the copy is the error.
    std::string why = s.whyUnset;
    Type type = c.type;
    ref = newCell(loc);
    cells[ref.cell].type = type;
    frames.back().cells[ref.cell].whyUnset = why;
  }
  if (object)
    copies[reinterpret_cast<std::uintptr_t>(object)] = ref.cell;
  return ref;
}

void Trace::drop(CellRef ref, const void *object) {
  auto it = copies.find(reinterpret_cast<std::uintptr_t>(object));
  if (it != copies.end() && it->second == ref.cell)
    copies.erase(it);
  Cell &c = cells[ref.cell];
  if (visible(c))
    frames[c.depth].cells.erase(ref.cell);
}

void Trace::checkCapture(const void *lambda, std::size_t bytes, llvm::StringRef op, Position loc) {
  auto first = reinterpret_cast<std::uintptr_t>(lambda);
  auto it = copies.lower_bound(first);
  if (it == copies.end() || it->first >= first + bytes)
    return;
  fail(loc, op,
       "the lambda captures a copy of a Tile, made at " + shortPosition(cells[it->second].where) +
           "; what it assigns would be lost",
       "when_copy", "capture by reference: [&]");
}

//===--------------------------------------------------------------------===//
// Constants and index arithmetic
//===--------------------------------------------------------------------===//

static std::string literalText(const Literal &v) {
  switch (v.kind) {
  case Literal::Kind::signedInt:
    return std::to_string(v.i);
  case Literal::Kind::unsignedInt:
    return std::to_string(v.u);
  case Literal::Kind::boolean:
    return v.b ? "true" : "false";
  case Literal::Kind::floating:
    break;
  }
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", v.f);
  return text;
}

/// The literal as an integer of this dtype, if it is one.
static std::optional<llvm::APInt> exactInteger(DType d, const Literal &v) {
  const unsigned bits = d == DType::boolean ? 1 : 8 * byteSize(d);
  const bool isSigned = isSignedInt(d);
  llvm::APInt wide(66, 0);
  switch (v.kind) {
  case Literal::Kind::boolean:
    if (d != DType::boolean)
      return std::nullopt;
    return llvm::APInt(1, v.b);
  case Literal::Kind::signedInt:
    wide = llvm::APInt(66, static_cast<std::uint64_t>(v.i), true);
    break;
  case Literal::Kind::unsignedInt:
    wide = llvm::APInt(66, v.u);
    break;
  case Literal::Kind::floating:
    if (!std::isfinite(v.f) || std::trunc(v.f) != v.f || std::fabs(v.f) > 18446744073709551615.0)
      return std::nullopt;
    llvm::APSInt rounded(66, false);
    bool exact = true;
    llvm::APFloat(v.f).convertToInteger(rounded, llvm::APFloat::rmTowardZero, &exact);
    wide = rounded;
    break;
  }
  if (isSigned ? !wide.isSignedIntN(bits) : wide.isNegative() || wide.getActiveBits() > bits)
    return std::nullopt;
  return wide.trunc(bits);
}

template <class T> static std::uint64_t bitsOfStorage(T v) {
  if constexpr (StorageFloat<T>)
    return v.bits;
  else
    return 0;
}

/// The literal as a float of this type: numbers written as floats are rounded once, integers must be exact.
static std::optional<llvm::APFloat> asFloat(DType d, const llvm::fltSemantics &to, const Literal &v) {
  bool loses = false;
  if (v.kind == Literal::Kind::boolean)
    return std::nullopt;
  if (v.kind == Literal::Kind::floating) {
    if (d == DType::e4m3)
      return llvm::APFloat(to, llvm::APInt(8, e4m3FromDouble(v.f)));
    if (d == DType::e5m2)
      return llvm::APFloat(to, llvm::APInt(8, e5m2FromDouble(v.f)));
    if (isStorage(d))
      return visitAnyDType(d, [&]<class T>(std::type_identity<T>) {
        return llvm::APFloat(to, llvm::APInt(unsigned(usedBits(d)), bitsOfStorage(cast<T>(v.f))));
      });
    llvm::APFloat f(v.f);
    f.convert(to, llvm::APFloat::rmNearestTiesToEven, &loses);
    return f;
  }
  if (isStorage(d)) {
    const double number = v.kind == Literal::Kind::signedInt ? double(v.i) : double(v.u);
    return visitAnyDType(d, [&]<class T>(std::type_identity<T>) -> std::optional<llvm::APFloat> {
      const T code = cast<T>(number);
      if (cast<double>(code) != number)
        return std::nullopt;
      return llvm::APFloat(to, llvm::APInt(unsigned(usedBits(d)), bitsOfStorage(code)));
    });
  }
  llvm::APInt whole = v.kind == Literal::Kind::signedInt
                          ? llvm::APInt(66, static_cast<std::uint64_t>(v.i), true)
                          : llvm::APInt(66, v.u);
  llvm::APFloat f(to);
  if (f.convertFromAPInt(whole, true, llvm::APFloat::rmNearestTiesToEven) != llvm::APFloat::opOK)
    return std::nullopt;
  return f;
}

Value Trace::constant(Type element, llvm::ArrayRef<int64_t> shape, const Literal &v, llvm::StringRef op,
                      Position loc) {
  const DType d = *tileir::dtypeOfType(element);
  TypedAttr attr;
  if (auto type = llvm::dyn_cast<FloatType>(element)) {
    if (auto f = asFloat(d, type.getFloatSemantics(), v))
      attr = FloatAttr::get(element, *f);
  } else if (auto i = exactInteger(d, v)) {
    attr = IntegerAttr::get(element, *i);
  }
  if (!attr)
    fail(loc, op, "the number " + literalText(v) + " is no exact value of " + std::string(name(d)),
         "literal_exact",
         (isFloat(d) || isStorage(d)) && v.kind != Literal::Kind::boolean ? "write " + literalText(v) + ".0 to have it rounded"
                                                        : "cast the tile to a dtype that can hold it");
  if (!shape.empty())
    attr = DenseElementsAttr::get(RankedTensorType::get(shape, element), static_cast<Attribute>(attr));
  return tileir::ConstantOp::create(builder(), at(loc), attr);
}

Value Trace::indexConstant(int64_t v, Position loc) {
  return constant(IndexType::get(context()), {}, literal(v), "index", loc);
}

Value Trace::binary(tileir::BinaryFn fn, Value a, Value b, Position loc) {
  return tileir::BinaryOp::create(builder(), at(loc), fn, a, b);
}

//===--------------------------------------------------------------------===//
// What the public headers call
//===--------------------------------------------------------------------===//

CellRef newCell(std::source_location loc) { return Trace::get(loc, "Tile").newCell(loc); }

CellRef copyCell(CellRef from, const void *object, std::source_location loc) {
  return Trace::get(loc, "copy").copy(from, object, loc);
}

void assignCell(CellRef to, CellRef from) {
  Trace *t = Trace::current();
  Position loc = t && from.trace == t->id ? t->positionOf(from) : Position();
  Trace &trace = Trace::get(loc, "=");
  trace.write(to, trace.read(from, "=", loc), loc);
}

void dropCell(CellRef ref, const void *object) noexcept {
  Trace *t = Trace::current();
  if (t && t->id == ref.trace)
    t->drop(ref, object);
}

} // namespace sectile::detail
