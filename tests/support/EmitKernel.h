// SPDX-License-Identifier: Apache-2.0
/// \file Parse a module, emit PTX, assemble it with ptxas where there is one.
#pragma once

#include "codegen/Codegen.h"
#include "ir/TgpuDialect.h"
#include "runtime/Ptxas.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <optional>
#include <regex>
#include <string>

namespace sectile::testing {

struct Emitted {
  bool ok = false;
  Artifact artifact;
  std::string llvmIr, errors;
};

inline Emitted emitText(const std::string &text) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mlir::scf::SCFDialect, mlir::arith::ArithDialect,
                  tileir::TileDialect, tgpu::TgpuDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  Emitted r;
  mlir::ScopedDiagnosticHandler collect(&context, [&](mlir::Diagnostic &d) {
    r.errors += d.str() + "\n";
    return mlir::success();
  });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return r;
  r.ok = mlir::succeeded(codegen::emit(*module, r.artifact, {&r.llvmIr}));
  return r;
}

struct Assembled {
  bool ok = false;
  int registers = -1, spillBytes = -1, stackBytes = -1;
  std::string log;
};

/// What users get of the emitted PTX: assembled as compilation does. Nothing if there is no ptxas.
inline std::optional<Assembled> assemble(const Artifact &artifact) {
  std::optional<runtime::Ptxas> ptxas = runtime::Ptxas::find();
  if (!ptxas)
    return std::nullopt;
  std::string ptx = artifact.ptx;
  runtime::PtxasResult result = ptxas->assembleWithRoom(ptx, artifact.arch);
  Assembled r{result.ok, result.registers, result.spillBytes, -1, result.log};
  if (std::smatch m; std::regex_search(r.log, m, std::regex("(\\d+) bytes stack frame")))
    r.stackBytes = std::stoi(m[1]);
  return r;
}

} // namespace sectile::testing
