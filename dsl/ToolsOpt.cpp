// SPDX-License-Identifier: Apache-2.0
#include "dsl/Tools.h"
#include "dsl/ToolsCommon.h"

#include "ir/TgpuDialect.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

namespace sectile::tools {

int optMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<tileir::TileDialect, tgpu::TgpuDialect, mlir::func::FuncDialect, mlir::scf::SCFDialect,
                  mlir::arith::ArithDialect>();
  mlir::registerTransformsPasses();
  passes::registerAll();
  const auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "Sectile's passes on modules as text\n", registry);
  if (std::string why = input == "-" ? std::string() : whyNoFile(input); !why.empty()) { // it would be read to an end that may not come
    llvm::errs() << "error: '" << input << "': " << why << "\n";
    return EXIT_FAILURE;
  }
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}

} // namespace sectile::tools
