// SPDX-License-Identifier: Apache-2.0
#include "passes/Remarks.h"
#include "passes/Promotion.h"
#include "passes/RoleSlice.h"
#include "passes/Support.h"
#include "passes/TensorMaps.h"

#include "ir/StripStores.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::passes {

// --- the list
// ----------------------------------------------------------------------------------------------------

void addRemark(func::FuncOp func, StringRef pass, Location at, const Twine &text) {
  Builder b(func.getContext());
  auto entry = b.getDictionaryAttr({b.getNamedAttr("at", cast<Attribute>(LocationAttr(at))),
                                    b.getNamedAttr("pass", b.getStringAttr(pass)),
                                    b.getNamedAttr("text", b.getStringAttr(text))});
  SmallVector<Attribute> all;
  if (auto list = func->getAttrOfType<ArrayAttr>(remarksAttr))
    all.assign(list.begin(), list.end());
  if (llvm::is_contained(all, entry))
    return;
  all.push_back(entry);
  func->setAttr(remarksAttr, b.getArrayAttr(all));
}

void noteChoice(func::FuncOp func, const Twine &text) {
  Builder b(func.getContext());
  SmallVector<Attribute> all;
  if (auto list = func->getAttrOfType<ArrayAttr>(choicesAttr))
    all.assign(list.begin(), list.end());
  all.push_back(b.getStringAttr(text));
  func->setAttr(choicesAttr, b.getArrayAttr(all));
}

SmallVector<Remark> remarksOf(func::FuncOp func) {
  SmallVector<Remark> remarks;
  if (auto list = func->getAttrOfType<ArrayAttr>(remarksAttr))
    for (Attribute attr : list)
      if (auto entry = dyn_cast<DictionaryAttr>(attr)) {
        auto at = entry.getAs<LocationAttr>("at");
        auto pass = entry.getAs<StringAttr>("pass"), text = entry.getAs<StringAttr>("text");
        if (at && pass && text)
          remarks.push_back({pass.str(), Location(at), text.str()});
      }
  return remarks;
}

namespace {

std::string typeName(Value v) { return std::string(name(*dtypeOfType(elementOf(v.getType())))); }

int64_t bytesOf(Value v) { return int64_t(byteSize(*dtypeOfType(elementOf(v.getType())))); }

/// The largest power of two up to `most` that divides n.
int64_t dividing(int64_t n, int64_t most) { return n ? std::min(n & -n, most) : most; }

/// Why the TMA unit cannot serve a tensor; empty if it can. As tmaAxis.
std::string whyNoMap(Value tensor) {
  auto arg = dyn_cast<BlockArgument>(tensor);
  auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  if (!func)
    return "the tensor is a slice made in the kernel, and tensor maps are made of arguments at the launch";
  if (tmaAxis(tensor))
    return {};
  const unsigned n = arg.getArgNumber();
  const std::string which = "argument " + std::to_string(n);
  auto type = cast<tileir::TensorType>(arg.getType());
  auto align = func.getArgAttrOfType<IntegerAttr>(n, alignAttr), unit = func.getArgAttrOfType<IntegerAttr>(n, unitStrideAttr);
  auto strides = func.getArgAttrOfType<DenseI64ArrayAttr>(n, strideDivAttr);
  if (!align || align.getInt() < 16)
    return which + " starts at a multiple of " + std::to_string(align ? align.getInt() : 1) +
           " bytes, a tensor map at one of 16";
  if (!unit)
    return which + " has no axis of stride 1";
  const int64_t bytes = int64_t(byteSize(*dtypeOfType(type.getElementType())));
  if (strides)
    for (auto [axis, divisor] : llvm::enumerate(strides.asArrayRef()))
      if (int64_t(axis) != unit.getInt() && divisor * bytes % 16)
        return which + " has a stride along axis " + std::to_string(axis) + " that is a multiple of " +
               std::to_string(dividing(divisor * bytes, 16)) + " bytes, in a tensor map it is one of 16";
  if (!func.getArgAttr(n, smallAttr))
    return which + " has 2^31 bytes or more, and coordinates of a tensor map have 32 bits";
  return which + " is not known to start and step at multiples of 16 bytes";
}

Operation *topIn(func::FuncOp func, Operation *op) {
  while (op->getParentOp() != func.getOperation())
    op = op->getParentOp();
  return op;
}

/// "file.cpp:12" of the first position in a location; empty if there is none.
std::string placeOf(Location loc) {
  std::string place;
  loc->walk([&](Location l) {
    auto at = dyn_cast<FileLineColLoc>(l);
    if (!at)
      return WalkResult::advance();
    place = at.getFilename().getValue().rsplit('/').second.str();
    if (place.empty())
      place = at.getFilename().str();
    place += ":" + std::to_string(at.getLine());
    return WalkResult::interrupt();
  });
  return place;
}

/// What a bound depends on that the launch cannot compute; null if nothing does.
Value unknownOf(Value v) {
  if (launchText(v))
    return {};
  Operation *op = v.getDefiningOp();
  if (op && isa<BinaryOp, CompareOp, SelectOp>(op))
    for (Value operand : op->getOperands())
      if (Value unknown = unknownOf(operand))
        return unknown;
  return v;
}

/// Why the launch cannot make the limits of a tensor map for a bounded access; empty if it can.
template <class Op> std::string whyNoLimits(Op op) {
  ArrayRef<int64_t> shape;
  if constexpr (std::is_same_v<Op, tgpu::GlobalStoreOp>)
    shape = shapeOf(op.getValue().getType());
  else
    shape = shapeOf(op.getType());
  if (accessLimits(op.getOffsets(), shape, op.getAxes(), op.getLo(), op.getHi()))
    return {};
  std::string where;
  auto seek = [&](ValueRange bounds) {
    for (Value bound : bounds)
      if (Value unknown = unknownOf(bound); unknown && where.empty())
        if (Operation *def = unknown.getDefiningOp(); def && !isa<GridOp>(def))
          where = placeOf(def->getLoc());
  };
  seek(op.getHi());
  seek(op.getLo());
  return "the launch cannot make a tensor map that ends where its elements do: that depends on " +
         (where.empty() ? std::string("the place of the program in the grid") : "what the kernel finds at " + where);
}

/// Why a load is no box that one thread can ask the TMA unit for.
std::string whyNotStaged(tgpu::GlobalLoadOp load) {
  if (std::string why = whyNoMap(load.getX()); !why.empty())
    return why;
  if (!isZero(load.getPad()))
    return "elements that do not exist are no zeros there, and the TMA unit fills with zeros";
  ArrayRef<int64_t> shape = shapeOf(load.getType());
  if (std::string why = whyNoLimits(load); !why.empty())
    return why;
  auto func = load->getParentOfType<func::FuncOp>();
  bool first = true;
  func.walk([&](tgpu::GlobalStoreOp store) {
    Operation *top = topIn(func, load), *other = topIn(func, store);
    first &= other != top && top->isBeforeInBlock(other);
  });
  if (!first)
    return "a store of this kernel may come before it";
  if (!RoleSlice().add(load))
    return "its place depends on tiles, or on memory that this kernel writes";
  const int64_t unit = *tmaAxis(load.getX());
  for (auto [axis, length] : llvm::enumerate(shape))
    if (int64_t(axis) != unit && length > 256)
      return "it takes " + std::to_string(length) + " elements along axis " + std::to_string(axis) +
             ", a box at most 256";
  const int64_t run = shape[size_t(unit)] * bytesOf(load.getResult());
  if (run % 32)
    return "its rows have " + std::to_string(run) + " bytes, and those of a swizzled box a multiple of 32";
  return "its rows of stride 1 run along an axis of the product that the instruction cannot read so: K always can, M and N "
         "of 16-bit types";
}

/// What a tile is computed from in its own block: loads, and what computes.
void collectSources(Value v, Block *block, llvm::SetVector<Operation *> &loads, llvm::SetVector<Operation *> &computes) {
  Operation *op = v.getDefiningOp();
  if (!op || op->getBlock() != block)
    return;
  if (isa<tgpu::GlobalLoadOp>(op)) {
    if (isTile(v))
      loads.insert(op);
    return;
  }
  if (isa<tgpu::CopyOutOp, tgpu::WgmmaOp, MmaOp>(op))
    return;
  if (!isa<PermuteOp, ReshapeOp, ConstantOp>(op))
    computes.insert(op);
  for (Value operand : op->getOperands())
    if (isTile(operand))
      collectSources(operand, block, loads, computes);
}

} // namespace

// --- SelectMma
// ---------------------------------------------------------------------------------------------------

void remarkProduct(func::FuncOp func, MmaOp op, const Target &target, const MmaRow *row, bool pipelined, int warps) {
  if (row && (row->kind == MmaKind::Wgmma || !(target.has(Feature::wgmma) || target.has(Feature::tcgen05))))
    return;
  const int m = int(shapeOf(op.getA().getType())[0]), k = int(shapeOf(op.getA().getType())[1]),
            n = int(shapeOf(op.getB().getType())[1]);
  auto dtype = [](Value v) { return *dtypeOfType(elementOf(v.getType())); };
  const std::string types = typeName(op.getA()) + " x " + typeName(op.getB()) + " into " + typeName(op.getAcc());
  const std::string instead =
      row ? "mma.sync on warps, operands in registers" : "multiply-adds of single elements, no tensor core";
  auto say = [&](const Twine &why) { addRemark(func, "SelectMma", op.getLoc(), why + ": " + instead); };

  const bool tf32 = op.getPolicy() == MmaPolicy::k_tf32;
  // A shape that every instruction divides tells types from shapes.
  const int any = 5376; // 2^8 * 3 * 7
  MmaQuery query{dtype(op.getA()), dtype(op.getB()), dtype(op.getAcc()), any, any, any, tf32};
  if (!row && !selectMma(target, query)) {
    if (query.a == DType::f32 && query.b == DType::f32 && !tf32)
      return say("f32 operands are exact products, which no tensor core makes (MmaPolicy::tf32 allows rounding)");
    return say(llvm::Twine(target.arch) + " has no matrix instruction for " + types);
  }
  if (!row) {
    query.m = m, query.n = n, query.k = k;
    if (selectMma(target, query))
      return say(Twine(warps) + " warps cannot share " + Twine(m) + " x " + Twine(n) + " x " + Twine(k) +
                 " by whole instructions");
    return say("a tile of " + Twine(m) + " x " + Twine(n) + " x " + Twine(k) + " is no whole number of instructions for " +
               types);
  }
  if (target.has(Feature::tcgen05))
    return say("no code is made for tcgen05");
  if (!pipelined)
    return say("stages is set to 1, no pipelines");
  if (!selectWgmma(target, query))
    return say("no instruction of warpgroups takes " + types);
  const int64_t rowBytes = int64_t(k) * bytesOf(op.getA());
  if (rowBytes % 32)
    return say("K of the tile has " + Twine(rowBytes) + " bytes, wgmma takes 32 at a time");
  query.m = m, query.n = n, query.k = k;
  const MmaRow *shaped = selectWgmma(target, query);
  if (!shaped)
    return say("a tile of " + Twine(m) + " x " + Twine(n) + " is no whole number of instructions of 64 x 8");
  if (warps % 4)
    return say(Twine(warps) + " warps are no whole warpgroups of 4");
  if (!warpGrid(*shaped, m, n, k, warps))
    return say(Twine(warps / 4) + " warpgroups cannot share " + Twine(m) + " x " + Twine(n) + " by whole instructions");
  if (tf32 && query.a == DType::f32)
    return say("wgmma cuts low bits of f32 operands in shared memory, tf32 promises the nearest number");
  if (keepsFewBits(*shaped) && k > mostShortTerms)
    return say("tensor cores keep few bits of a sum of " + types + ", whose products of warpgroups have at most " + Twine(mostShortTerms) +
               " terms in one tile, not " + Twine(k));
  const int64_t sums = int64_t(m) * n / (warps * target.warpSize) * (isPromoted(op, *shaped) ? 2 : 1);
  say("its sums take " + Twine(sums) + " registers of each thread of " + Twine(warps) + " warps");
}

// --- StageOperands
// -----------------------------------------------------------------------------------------------

void remarkOperands(func::FuncOp func) {
  constexpr StringLiteral pass = "StageOperands";
  func.walk([&](tgpu::StageLoadOp op) {
    if (auto bytes = op.getCopyBytes()) {
      const std::string why = whyNoMap(op.getX());
      addRemark(func, pass, op->getLoc(),
                "threads of the producer copy an operand to shared memory, " + std::to_string(int64_t(*bytes)) +
                    " bytes at a time: " + (why.empty() ? "async is set to 2" : why));
    }
  });
  func.walk([&](tgpu::WgmmaOp op) {
    const bool isRepeated = op->getParentOp() != func.getOperation();
    auto remark = [&](Value tile, StringRef which, StringRef where) {
      llvm::SetVector<Operation *> loads, computes;
      collectSources(tile, op->getBlock(), loads, computes);
      if (!computes.empty() && isRepeated) {
        const bool fills = llvm::all_of(computes, llvm::IsaPred<tgpu::FillOutsideOp>);
        addRemark(func, pass, computes.back()->getLoc(),
                  "operand " + which +
                      (fills ? " has zeros put by threads where the other operand ends before it" : " is computed by threads") +
                      (loads.empty() ? "" : " from what they load") + where);
      }
      for (Operation *load : loads)
        addRemark(func, pass, load->getLoc(),
                  (computes.empty() ? "operand " : "a source of operand ") + which + " is loaded by threads" +
                      (computes.empty() && isRepeated ? where : StringRef()) + ": " +
                      whyNotStaged(cast<tgpu::GlobalLoadOp>(load)));
    };
    if (isTile(op.getA()))
      remark(op.getA(), "A", ", in registers, which change when the product has read them");
    if (op.getB().getDefiningOp<tgpu::BufferAllocOp>())
      for (Operation *user : op.getB().getUsers())
        if (auto copy = dyn_cast<tgpu::CopyOp>(user))
          remark(copy.getValue(), "B", ", and copied to shared memory before each product, between barriers");
  });
}

// --- StoreBoxes
// --------------------------------------------------------------------------------------------------

static std::string whyNotBulk(tgpu::GlobalStoreOp op, ArrayRef<Attribute> accumulators) {
  auto func = op->getParentOfType<func::FuncOp>();
  if (blocksPerProgram(func) > 1)
    return "a cluster runs the program";
  if (op.getMask())
    return "it has a mask";
  // Reshapes and conversions in front of the store are left out where they are all that is in the way.
  Value value = op.getValue();
  auto isSum = [&](Value v) {
    return shapeOf(v.getType()).size() == 2 &&
           llvm::is_contained(accumulators, cast<RankedTensorType>(v.getType()).getEncoding());
  };
  while (!isSum(value) && value.getDefiningOp() && isa<ReshapeOp, tgpu::ConvertLayoutOp>(value.getDefiningOp()) &&
         isTile(value.getDefiningOp()->getOperand(0)))
    value = value.getDefiningOp()->getOperand(0);
  if (!isSum(value))
    return "threads do not hold it as a product leaves its sums";
  if (std::string why = whyNoMap(op.getX()); !why.empty())
    return why;
  ArrayRef<int64_t> shape = shapeOf(op.getValue().getType());
  const int64_t rank = int64_t(shape.size()), bytes = bytesOf(value);
  if (rank < 2 || *tmaAxis(op.getX()) != rank - 1)
    return "the tensor's axis of stride 1 is not the last of two or more";
  if (bytes != 2 && bytes != 4)
    return "elements have " + std::to_string(bytes) + " bytes, strips are moved in 2 or 4";
  if (shape.back() * bytes % 32 || llvm::product_of(shape.drop_back()) % 16)
    return "its rows of " + std::to_string(shape.back() * bytes) + " bytes make no strips of 16 rows and a multiple of 32 bytes";
  if (std::string why = whyNoLimits(op); !why.empty())
    return why;
  if (auto limits = accessLimits(op.getOffsets(), shape, op.getAxes(), op.getLo(), op.getHi());
      limits && !isMultiple(func, limits->limits.back(), 16 / bytes))
    return "rows may end inside 16 bytes, which the TMA unit writes whole";
  if (rank > 2 && op->getParentOp() == func.getOperation())
    return "rows of a tile of rank " + std::to_string(rank) + " are no strips of 16 along one axis";
  return "the kernel may write or read the same elements again while copies of the TMA unit are under way";
}

void remarkStores(func::FuncOp func) {
  SmallVector<Attribute> accumulators;
  func.walk([&](tgpu::WgmmaOp op) { accumulators.push_back(cast<RankedTensorType>(op.getType()).getEncoding()); });
  if (accumulators.empty())
    return;
  func.walk([&](tgpu::GlobalStoreOp op) {
    if (isTile(op.getValue()))
      addRemark(func, "StoreBoxes", op.getLoc(), "threads store the tile: " + whyNotBulk(op, accumulators));
  });
  func.walk([&](tgpu::BulkStoreOp op) {
    if (!op->hasAttr(tgpu::byThreadsAttr))
      return;
    const std::string why = whyNoMap(op.getX());
    addRemark(func, "StoreBoxes", op.getLoc(),
              "threads store the tile, in whole rows through shared memory: " +
                  (why.empty() ? "rows may end inside 16 bytes, which the TMA unit writes whole" : why));
  });
}

// --- SpecialiseWarps
// ---------------------------------------------------------------------------------------------

/// A value decides a branch in its own loop that holds products.
static bool decidesProducts(Value v) {
  return llvm::any_of(v.getUsers(), [](Operation *user) {
    if (auto branch = dyn_cast<scf::IfOp>(user))
      return branch->walk([](tgpu::WgmmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
    return user->getNumRegions() == 0 && user->getNumResults() == 1 && !isTile(user->getResult(0)) &&
           decidesProducts(user->getResult(0));
  });
}

void remarkReads(func::FuncOp func) {
  func.walk([&](tgpu::RolesOp roles) {
    roles.getConsumer().walk([&](Operation *load) {
      if (!isa<tgpu::GlobalLoadOp, tgpu::GlobalGatherOp>(load) || isTile(load->getResult(0)) ||
          !decidesProducts(load->getResult(0)))
        return;
      auto loopOf = [&](Operation *op) {
        do
          op = op->getParentOp();
        while (op != roles && !isa<scf::ForOp, scf::WhileOp>(op));
        return op;
      };
      Operation *loop = loopOf(load);
      bool isProgram = loop == roles;
      if (auto programs = dyn_cast<scf::ForOp>(loop))
        isProgram = !programs.getBody()->getOps<tgpu::ProgramOp>().empty();
      const bool hasProducts = loop->walk([&](tgpu::WgmmaOp op) {
                                     return loopOf(op) == loop ? WalkResult::interrupt() : WalkResult::advance();
                                   }).wasInterrupted();
      if (hasProducts && !isProgram)
        addRemark(func, "SpecialiseWarps", load->getLoc(),
                  "read from memory in every trip to decide about its product, which waits for it");
    });
  });
}

} // namespace sectile::passes
