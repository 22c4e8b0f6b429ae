// SPDX-License-Identifier: Apache-2.0
#include "ir/CopyPlan.h"

namespace sectile::tgpu {

std::optional<CopyPlan> CopyPlan::make(MapAttr map, BufferType buffer, int64_t copyBytes) {
  const int64_t elementBytes = int64_t(byteSize(*tileir::dtypeOfType(buffer.getElementType())));
  CopyPlan plan;
  plan.panels = buffer.getShape()[0];
  plan.rows = buffer.getShape()[1];
  plan.pieces = buffer.getShape()[2] * elementBytes / copyBytes;
  if (plan.pieces < 1 || plan.pieces > copyThreads || copyThreads % plan.pieces)
    return std::nullopt;
  plan.rowsPerStep = copyThreads / plan.pieces;
  plan.steps = (plan.rows + plan.rowsPerStep - 1) / plan.rowsPerStep;

  // Rows are numbered in the order of the tensor's axes: from the last one on, each takes its part of thread and step.
  llvm::SmallVector<std::pair<int64_t, int64_t>> lengths; // axis, length
  for (auto [axis, length] : llvm::zip_equal(map.getOrder().drop_front(), map.getBox().drop_front()))
    if (length > 1)
      lengths.push_back({axis, length});
  llvm::sort(lengths);
  llvm::SmallVector<int64_t> left;
  for (int64_t step = 0; step < plan.steps; ++step)
    left.push_back(step * plan.rowsPerStep);
  int64_t together = plan.rowsPerStep, divisor = 1; // rows of the threads' part that is left, and what is in front of it
  for (size_t i = lengths.size(); i-- > 0;) {
    auto [axis, length] = lengths[i];
    Axis a{axis, divisor, 0, left};
    if (i > 0) {
      const bool inside = length % together == 0;
      if (!inside && together % length)
        return std::nullopt;
      for (auto [first, rest] : llvm::zip_equal(a.first, left)) {
        first = inside ? rest % length : 0;
        rest /= length;
      }
      a.modulus = inside ? 0 : length;
      divisor *= inside ? together : length;
      together = inside ? 1 : together / length;
    }
    plan.axes.push_back(std::move(a));
  }
  return plan;
}

} // namespace sectile::tgpu
