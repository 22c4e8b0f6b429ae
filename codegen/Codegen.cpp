// SPDX-License-Identifier: Apache-2.0
/// \file The entry: one LLVM context per emission, so emissions may run in several threads.
#include "codegen/Codegen.h"
#include "codegen/EmitContext.h"
#include "ir/PingPong.h"
#include "codegen/EmitPtx.h"

namespace sectile::codegen {
namespace {

/// A name that PTX accepts: letters, digits, _ and $; not starting with a digit.
std::string symbolOf(llvm::StringRef name) {
  std::string r;
  for (char c : name)
    r += llvm::isAlnum(c) || c == '_' ? std::string(1, c) : "_";
  return r.empty() || llvm::isDigit(r[0]) ? "k" + r : r;
}

mlir::func::FuncOp findKernel(mlir::ModuleOp module) {
  mlir::func::FuncOp kernel;
  for (auto func : module.getOps<mlir::func::FuncOp>())
    if (func->hasAttr(tileir::kernelAttr)) {
      if (kernel) {
        func.emitError() << "a module has one kernel; this is a second one";
        return nullptr;
      }
      kernel = func;
    }
  if (!kernel)
    module.emitError() << "no function has the attribute " << tileir::kernelAttr;
  return kernel;
}

} // namespace

mlir::LogicalResult emit(mlir::ModuleOp module, Artifact &out, const Dumps &dumps) {
  mlir::func::FuncOp func = findKernel(module);
  if (!func)
    return mlir::failure();
  auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
  auto arch = func->getAttrOfType<mlir::StringAttr>(tgpu::targetAttr);
  if (!launch || !arch)
    return func.emitError() << "the kernel is not in final tgpu form: it lacks " << tgpu::launchAttr << " or "
                            << tgpu::targetAttr;
  const Target *target = findTarget(arch.getValue().str());
  if (!target)
    return func.emitError() << "no row of the targets table is called " << arch.getValue();

  out.arch = arch.getValue().str();
  out.launch = {};
  out.launch.symbol = symbolOf(func.getName());
  auto groups = func->getAttrOfType<mlir::IntegerAttr>(tgpu::groupsAttr); // of consumers
  out.launch.threads = int(launch.getWarps() * (groups ? groups.getInt() : 1) + launch.getProducers()) * warpSize;
  out.launch.sharedBytes = launch.getSharedBytes();
  out.launch.cluster = int(launch.getCluster()) * (func->hasAttr(tgpu::pairAttr) ? 2 : 1); // one or the other

  std::string whyNot;
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(*target, whyNot);
  if (!machine)
    return func.emitError() << whyNot;
  llvm::LLVMContext context;
  llvm::Module llvmModule(func.getName(), context);
  llvmModule.setTargetTriple(machine->getTargetTriple());
  llvmModule.setDataLayout(machine->createDataLayout());
  EmitContext emission(llvmModule, *target, func, launch);
  if (mlir::failed(emission.emitFunction(out.launch)))
    return mlir::failure();
  if (!emitPtx(llvmModule, *machine, out.ptx, dumps.llvmIr, whyNot))
    return func.emitError() << "code generation for " << out.arch << ": " << whyNot;
  return mlir::success();
}

} // namespace sectile::codegen
