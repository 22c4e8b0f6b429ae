// SPDX-License-Identifier: Apache-2.0
#include "ir/Interp.h"

#include "ir/InterpDecode.h"
#include "ir/TileDialect.h"

namespace sectile::tileir {

struct InterpProgram::Impl {
  std::unique_ptr<interp::Program> program;
};

InterpProgram::InterpProgram(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
InterpProgram::~InterpProgram() = default;

std::unique_ptr<InterpProgram> InterpProgram::build(mlir::ModuleOp module) {
  mlir::func::FuncOp kernel;
  for (auto func : module.getOps<mlir::func::FuncOp>()) {
    if (!func->hasAttr(kernelAttr))
      continue;
    if (kernel) {
      func.emitOpError() << "is the second kernel of the module";
      return nullptr;
    }
    kernel = func;
  }
  if (!kernel) {
    module.emitError() << "has no function with the attribute " << kernelAttr;
    return nullptr;
  }
  auto program = interp::decodeKernel(kernel);
  if (!program)
    return nullptr;
  auto impl = std::make_unique<Impl>();
  impl->program = std::move(program);
  return std::unique_ptr<InterpProgram>(new InterpProgram(std::move(impl)));
}

const std::vector<GridAxis> &InterpProgram::grid() const { return impl->program->grid; }

void InterpProgram::run(std::span<const KernelArg> args) const {
  const interp::Program &program = *impl->program;
  interp::Coords counts{};
  std::size_t axes = program.grid.size();
  for (std::size_t d = 0; d < axes; ++d) {
    const GridAxis &axis = program.grid[d];
    std::int64_t dim = args[std::size_t(axis.arg)].dims[std::size_t(axis.axis)];
    counts[d] = dim / axis.tile + (dim % axis.tile > 0);
    if (counts[d] <= 0)
      return;
  }

  interp::Frame f(program);
  for (auto [arg, slot] : llvm::zip_equal(args, program.arguments)) {
    if (arg.isTensor()) {
      f.value(slot).view = {static_cast<char *>(arg.data), arg.dims, arg.strides};
      continue;
    }
    DType dtype = f.slot(slot).dtype;
    std::uint64_t scalar = dtype == DType::boolean ? (arg.scalar & 0xff) != 0 : arg.scalar;
    std::memcpy(f.data(slot), &scalar, byteSize(dtype));
    f.setComplete(slot);
  }
  for (const interp::Step &step : program.once)
    step.run(step, f);

  interp::Coords at{};
  while (true) {
    interp::runBody(program.main, f);
    std::size_t d = axes;
    for (; d > 0; --d) {
      f.offsets[d - 1] += program.grid[d - 1].tile;
      if (++at[d - 1] < counts[d - 1])
        break;
      at[d - 1] = 0;
      f.offsets[d - 1] = 0;
    }
    if (d == 0)
      return;
  }
}

} // namespace sectile::tileir
