// SPDX-License-Identifier: Apache-2.0
/// \file Verifiers of the `tgpu` ops of roles, pipes, asynchronous products and persistent kernels.
#include "ir/TgpuDialect.h"
#include "ir/base/MmaTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace sectile::tgpu {
namespace {

using tileir::dtypeOfType;
using tileir::elementOf;
using tileir::shapeOf;
using tileir::TensorType;

InFlightDiagnostic faultOf(Operation *op, llvm::StringRef rule, const llvm::Twine &message) {
  return op->emitOpError() << message << " [" << rule << "]";
}

std::string text(llvm::ArrayRef<int64_t> shape) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  stream << "[";
  llvm::interleaveComma(shape, stream);
  stream << "]";
  return result;
}

int64_t bytesOf(Type element) { return int64_t(byteSize(*dtypeOfType(element))); }

/// The buffer holds whole boxes of the map, in panels.
/// `parts`: of the buffer's rows that are boxes of their own.
LogicalResult verifyBox(Operation *op, const std::string &name, TensorType x, size_t offsets, MapAttr map,
                        BufferType buffer, int64_t parts = 1) {
  if (int64_t(offsets) != x.getRank())
    return faultOf(op, name + "_c1", llvm::Twine(offsets) + " offsets for a tensor of rank " + llvm::Twine(x.getRank()));
  if (int64_t(map.getOrder().size()) != x.getRank() || buffer.getElementType() != x.getElementType())
    return faultOf(op, name + "_c2",
                  "a map of " + llvm::Twine(map.getOrder().size()) + " axes and a buffer with other elements, or of "
                      "another rank, than the tensor of rank " + llvm::Twine(x.getRank()));
  llvm::ArrayRef<int64_t> shape = buffer.getShape();
  const int64_t rows = llvm::product_of(map.getBox().drop_front());
  const int64_t bytes = bytesOf(x.getElementType()), span = map.getSwizzle();
  const bool fits = shape.size() == 3 && shape[1] == rows * parts && shape[2] == map.getBox()[0] &&
                    (span == 16 ? shape[2] * bytes % 16 == 0 : shape[2] * bytes == span) &&
                    (span == 16 || rows % 8 == 0) && buffer.getSwizzle() == llvm::ArrayRef(tmaSwizzleOf(span, bytes));
  if (!fits)
    return faultOf(op, name + "_c3", "a buffer of " + text(shape) + " for boxes of " + text(map.getBox()) + " with a swizzle of " +
                                        llvm::Twine(span) + " bytes");
  return success();
}

RolesOp rolesOf(Operation *op, bool producer) {
  for (Operation *at = op; Operation *parent = at->getParentOp(); at = parent)
    if (auto roles = dyn_cast<RolesOp>(parent))
      return at->getParentRegion() == &(producer ? roles.getProducer() : roles.getConsumer()) ? roles : RolesOp();
  return {};
}

LogicalResult verifyRole(Operation *op, const char *rule, bool producer) {
  if (rolesOf(op, producer))
    return success();
  return faultOf(op, rule, producer ? "it stands outside the producer of a tgpu.roles"
                                   : "it stands outside the consumer of a tgpu.roles");
}

LogicalResult verifyPrograms(Operation *op, const char *rule, Value x, llvm::ArrayRef<int64_t> sizes, bool more = true) {
  auto type = cast<TensorType>(x.getType());
  if (!isa<BlockArgument>(x) || int64_t(sizes.size()) > type.getRank() || !more ||
      llvm::any_of(sizes, [](int64_t size) { return size < 1; }))
    return faultOf(op, rule, "sizes " + text(sizes) + " of a tensor of rank " + llvm::Twine(type.getRank()));
  return success();
}

} // namespace

llvm::SmallVector<int64_t> tmaSwizzleOf(int64_t spanBytes, int64_t elementBytes) {
  if (spanBytes <= 16)
    return {};
  // Line number, in 128 bytes, mod span / 16 moves 16-byte pieces; a row is one span.
  const int64_t piece = 16 / elementBytes, rowsPerLine = 128 / spanBytes;
  llvm::SmallVector<int64_t> masks;
  for (int64_t skipped = 1; skipped < rowsPerLine; skipped *= 2)
    masks.push_back(0);
  for (int64_t mask = 16; mask < spanBytes; mask *= 2)
    masks.push_back(mask / elementBytes);
  llvm::SmallVector<int64_t> swizzle{piece, int64_t(masks.size())};
  swizzle.append(masks);
  return swizzle;
}

/// What copies of threads move of a map's boxes.
static LogicalResult verifyCopies(Operation *op, llvm::StringRef rule, MapAttr map, BufferType buffer, int64_t copyBytes) {
  const int64_t bytes = bytesOf(buffer.getElementType());
  if (!llvm::is_contained({4, 8, 16}, copyBytes) || copyBytes % bytes || map.getBox()[0] * bytes % copyBytes || map.getTf32())
    return faultOf(op, rule, "copies of " + llvm::Twine(copyBytes) + " bytes for rows of " + llvm::Twine(map.getBox()[0]) +
                                        " elements of " + llvm::Twine(bytes) + " bytes" + (map.getTf32() ? " that are rounded" : ""));
  return success();
}

LogicalResult StageLoadOp::verify() {
  if (failed(verifyBox(*this, "stage_load", getX().getType(), getOffsets().size(), getMap(), getBuffer().getType())))
    return failure();
  return getCopyBytes() ? verifyCopies(*this, "stage_load_c4", getMap(), getBuffer().getType(), int64_t(*getCopyBytes())) : success();
}

bool RolesOp::hasProducerThreads() {
  return getProducer().walk([](AsyncLoadOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

LogicalResult RolesOp::verify() {
  auto func = dyn_cast<func::FuncOp>((*this)->getParentOp());
  if (!func || llvm::range_size(func.getOps<RolesOp>()) != 1)
    return faultOf(*this, "roles_c1", "it is not at the top level of the kernel, or not the only one");
  for (Operation *op = (*this)->getNextNode(); op; op = op->getNextNode())
    if (!op->hasTrait<OpTrait::IsTerminator>())
      return faultOf(*this, "roles_c1", "another op stands behind it");
  auto launch = func->getAttrOfType<LaunchAttr>(launchAttr);
  if (!launch || !launch.getProducers())
    return faultOf(*this, "roles_c2", "the launch has no producer warps");
  for (int64_t regs : {int64_t(getProducerRegs()), int64_t(getConsumerRegs())})
    if (regs && (regs % 8 || regs < 24 || regs > 256))
      return faultOf(*this, "roles_c3", llvm::Twine(regs) + " registers per thread");
  return success();
}

LogicalResult PipeCreateOp::verify() {
  if (!isa<func::FuncOp>((*this)->getParentOp()))
    return faultOf(*this, "pipe_create_c1", "it is not at the top level of the kernel");
  if ((getOffset() && *getOffset() % slotAlignment) || (getBarriers() && *getBarriers() % 8))
    return faultOf(*this, "pipe_create_c2", "its slots or barriers are not aligned");
  return success();
}

LogicalResult PipeAcquireOp::verify() { return verifyRole(*this, "pipe_acquire_c1", true); }
LogicalResult PipeCommitOp::verify() { return verifyRole(*this, "pipe_commit_c1", true); }

LogicalResult TmaLoadOp::verify() {
  if (failed(verifyRole(*this, "tma_load_c1", true)))
    return failure();
  llvm::ArrayRef<BufferType> buffers = getPipe().getType().getBuffers();
  if (getIndex() >= buffers.size())
    return faultOf(*this, "tma_load_c2", "the pipe has " + llvm::Twine(buffers.size()) + " buffers and no number " +
                                            llvm::Twine(getIndex()));
  const bool halvesRows = getMulticast() && filled().getShape().front() % 2;
  if (getMulticast() && (!(*this)->getParentOfType<func::FuncOp>()->hasAttr(pairAttr) || *getMulticast() < 1 || *getMulticast() > 3))
    return faultOf(*this, "tma_load_c3", "it fills blocks of the bits " + llvm::Twine(*getMulticast()) +
                                            ", and the kernel has " +
                                            ((*this)->getParentOfType<func::FuncOp>()->hasAttr(pairAttr) ? "two, 1 and 2" : "no pairs"));
  return verifyBox(*this, "stage_load", getX().getType(), getOffsets().size(), getMap(), buffers[getIndex()], halvesRows ? 2 : 1);
}

std::pair<int64_t, int64_t> TmaLoadOp::panelsAndRows() {
  const int64_t panels = filled().getShape()[0], rows = filled().getShape()[1];
  if (!getMulticast())
    return {panels, rows};
  return panels % 2 ? std::pair(panels, rows / 2) : std::pair(panels / 2, rows);
}

LogicalResult AsyncLoadOp::verify() {
  if (failed(verifyRole(*this, "async_load_c1", true)))
    return failure();
  llvm::ArrayRef<BufferType> buffers = getPipe().getType().getBuffers();
  if (getIndex() >= buffers.size())
    return faultOf(*this, "async_load_c2", "the pipe has " + llvm::Twine(buffers.size()) + " buffers and no number " +
                                              llvm::Twine(getIndex()));
  if (failed(verifyBox(*this, "stage_load", getX().getType(), getOffsets().size(), getMap(), buffers[getIndex()])))
    return failure();
  return verifyCopies(*this, "async_load_c2", getMap(), buffers[getIndex()], int64_t(getCopyBytes()));
}

LogicalResult AsyncArriveOp::verify() { return verifyRole(*this, "async_arrive_c1", true); }

LogicalResult PipeWaitOp::verify() {
  if (failed(verifyRole(*this, "pipe_wait_c1", false)))
    return failure();
  llvm::ArrayRef<BufferType> buffers = getPipe().getType().getBuffers();
  if (!llvm::equal(getResultTypes(), buffers, [](Type a, Type b) { return a == b; }))
    return faultOf(*this, "pipe_wait_c2", "its results are not the buffers of the pipe");
  return success();
}

LogicalResult PipeReleaseOp::verify() {
  if (int64_t(getKeep()) < 0)
    return faultOf(*this, "pipe_release_c1", llvm::Twine(int64_t(getKeep())) + " slots to keep");
  if (getPair() && !(*this)->getParentOfType<func::FuncOp>()->hasAttr(pairAttr))
    return faultOf(*this, "pipe_release_c1", "the kernel has no pairs of blocks");
  return verifyRole(*this, "pipe_release_c1", false);
}

/// [rows along M or N, columns along K] of an operand, whichever way it lies.
static llvm::SmallVector<int64_t, 2> operandShape(Type type, bool mn) {
  if (isa<RankedTensorType>(type))
    return llvm::SmallVector<int64_t, 2>(shapeOf(type));
  llvm::ArrayRef<int64_t> s = cast<BufferType>(type).getShape();
  if (s.size() != 3)
    return {0, 0};
  const int64_t contiguous = s[0] * s[2];
  return mn ? llvm::SmallVector<int64_t, 2>{contiguous, s[1]} : llvm::SmallVector<int64_t, 2>{s[1], contiguous};
}

LogicalResult WgmmaOp::verify() {
  llvm::SmallVector<int64_t, 2> a = operandShape(getA().getType(), getAMn()), b = operandShape(getB().getType(), getBMn());
  llvm::ArrayRef<int64_t> acc = shapeOf(getAcc().getType());
  if (a.size() != 2 || acc.size() != 2 || a[1] != b[1] || acc[0] != a[0] || acc[1] != b[0] || !a[0])
    return faultOf(*this, "wgmma_c1", "a is " + text(a) + ", b transposed " + text(b) + ", acc " + text(acc));
  const MmaRow &row = *findMma(std::string_view(getAtom().getName()));
  auto element = [](Type t) {
    if (auto buffer = dyn_cast<BufferType>(t))
      return dtypeOfType(buffer.getElementType());
    return dtypeOfType(elementOf(t));
  };
  if (row.kind != MmaKind::Wgmma || element(getA().getType()) != row.a.dtype || element(getB().getType()) != row.b.dtype ||
      element(getAcc().getType()) != row.c.dtype)
    return faultOf(*this, "wgmma_c2", "the atom " + getAtom().getName() + " has other element types, or is no wgmma");
  if (acc[0] % row.m || acc[1] % row.n || a[1] % row.k)
    return faultOf(*this, "wgmma_c3", "M, N, K = " + text({acc[0], acc[1], a[1]}) + " are no multiples of the atom's " +
                                         text({row.m, row.n, row.k}));
  if ((getAMn() && (isa<RankedTensorType>(getA().getType()) || !row.mnMajor)) || (getBMn() && !row.mnMajor))
    return faultOf(*this, "wgmma_c4", "an operand of atom " + getAtom().getName() + " cannot be MN-major");
  for (Type t : {getA().getType(), Type(getB().getType())})
    if (auto buffer = dyn_cast<BufferType>(t)) {
      const int64_t bytes = bytesOf(buffer.getElementType()), span = buffer.getShape()[2] * bytes;
      if (buffer.getShape()[1] % 8 || !llvm::is_contained({32, 64, 128}, span) ||
          buffer.getSwizzle() != llvm::ArrayRef(tmaSwizzleOf(span, bytes)))
        return faultOf(*this, "wgmma_c5", "a buffer of " + text(buffer.getShape()) + " is not swizzled as wgmma reads it");
    }
  return success();
}

LogicalResult WgmmaWaitOp::verify() {
  if (getPending() > 7)
    return faultOf(*this, "wgmma_wait_c1", llvm::Twine(getPending()) + " pending groups; the hardware counts up to 7");
  return success();
}

llvm::SmallVector<int64_t> BulkStoreOp::rowAxes() {
  if (auto rows = getRows())
    return llvm::to_vector(*rows);
  llvm::SmallVector<int64_t> rows(size_t(getX().getType().getRank()) - 1, 1);
  if (!rows.empty())
    rows.back() = shapeOf(getValue().getType())[0];
  return rows;
}

llvm::SmallVector<int64_t> BulkStoreOp::rowBox(llvm::ArrayRef<int64_t> rows, int64_t count) {
  llvm::SmallVector<int64_t> box;
  for (int64_t length : llvm::reverse(rows)) {
    const int64_t here = std::min(count, length);
    if (here < 1 || count % here || length % here)
      return {};
    box.push_back(here);
    count /= here;
  }
  return count == 1 ? box : llvm::SmallVector<int64_t>();
}

LogicalResult BulkStoreOp::verify() {
  auto x = getX().getType();
  llvm::ArrayRef<int64_t> value = shapeOf(getValue().getType()), box = getMap().getBox(),
                          staging = getStaging().getType().getShape();
  if (int64_t(getOffsets().size()) != x.getRank())
    return faultOf(*this, "bulk_store_c1", llvm::Twine(getOffsets().size()) + " offsets for a tensor of rank " +
                                              llvm::Twine(x.getRank()));
  const Type element = elementOf(getValue().getType());
  const int64_t bytes = bytesOf(element);
  const llvm::SmallVector<int64_t> rows = rowAxes();
  if (value.size() != 2 || box.size() < 2 || int64_t(rows.size()) + 1 != x.getRank() || llvm::product_of(rows) != value[0] ||
      llvm::ArrayRef(rowBox(rows, 16)) != box.drop_front() || element != x.getElementType() || (bytes != 2 && bytes != 4) || box[0] * bytes > 128)
    return faultOf(*this, "bulk_store_c2", "a tile of " + text(value) + " in boxes of " + text(box));
  if (staging.size() != 4 || staging[2] != 16 || staging[3] != box[0] || getStaging().getType().getElementType() != element)
    return faultOf(*this, "bulk_store_c3", "a staging buffer of " + text(staging) + " for boxes of " + text(box));
  return success();
}

LogicalResult ProgramsOp::verify() { return verifyPrograms(*this, "programs_c1", getX(), getSizes()); }
LogicalResult ProgramOp::verify() {
  return verifyPrograms(*this, "program_c1", getX(), getSizes(), getOffsets().size() == getSizes().size() && int64_t(getGroup()) >= 1);
}

} // namespace sectile::tgpu
