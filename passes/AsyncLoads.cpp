// SPDX-License-Identifier: Apache-2.0
#include "passes/AsyncLoads.h"
#include "ir/CopyPlan.h"
#include "ir/IndexFacts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <numeric>

using namespace mlir;

namespace sectile::passes {

/// Of one thread for one load: all of them stand in the code one after the other.
static constexpr int64_t mostCopies = 64;

int64_t asyncCopyBytes(tgpu::GlobalLoadOp load, tgpu::MapAttr map, tgpu::BufferType buffer) {
  using namespace tileir;
  auto arg = dyn_cast<BlockArgument>(load.getX());
  auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  if (!func || map.getTf32())
    return 0;
  const unsigned n = arg.getArgNumber();
  auto align = func.getArgAttrOfType<IntegerAttr>(n, alignAttr), unit = func.getArgAttrOfType<IntegerAttr>(n, unitStrideAttr);
  auto strides = func.getArgAttrOfType<DenseI64ArrayAttr>(n, strideDivAttr);
  // Coordinates have 32 bits, as those of a tensor map.
  if (!align || !unit || unit.getInt() != map.getOrder()[0] || !strides || !func.getArgAttr(n, smallAttr))
    return 0;
  const int64_t bytes = int64_t(byteSize(*dtypeOfType(buffer.getElementType())));
  int64_t together = std::gcd(int64_t(16), align.getInt());
  for (auto [axis, divisor] : llvm::enumerate(strides.asArrayRef()))
    if (int64_t(axis) != unit.getInt())
      together = std::gcd(together, divisor * bytes);
  together = std::gcd(together, IndexFacts().divisor(load.getOffsets()[size_t(unit.getInt())]) * bytes);
  together = std::gcd(together, map.getBox()[0] * bytes);
  if (together < 4 || together % bytes)
    return 0;
  auto plan = tgpu::CopyPlan::make(map, buffer, together);
  return plan && plan->copies() <= mostCopies ? together : 0;
}

} // namespace sectile::passes
