// SPDX-License-Identifier: Apache-2.0
/// \file Parse a module, emit PTX, assemble it with ptxas where there is one.
#pragma once

#include "codegen/Codegen.h"
#include "ir/TgpuDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <unistd.h>

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

/// Path of ptxas: PATH, then CUDA_HOME, then /usr/local/cuda; empty if there is none.
inline std::string findPtxas() {
  std::vector<std::string> places;
  if (const char *path = std::getenv("PATH")) {
    std::stringstream parts(path);
    for (std::string p; std::getline(parts, p, ':');)
      places.push_back(p);
  }
  if (const char *home = std::getenv("CUDA_HOME"))
    places.push_back(std::string(home) + "/bin");
  places.push_back("/usr/local/cuda/bin");
  for (const std::string &p : places)
    if (std::error_code e; std::filesystem::exists(p + "/ptxas", e))
      return p + "/ptxas";
  return "";
}

/// Runs ptxas -v. Nothing if there is no ptxas.
inline std::optional<Assembled> assemble(const Artifact &artifact) {
  static const std::string ptxas = findPtxas();
  if (ptxas.empty())
    return std::nullopt;
  static int count = 0;
  std::string base = (std::filesystem::temp_directory_path() /
                      ("sectile_ptx_" + std::to_string(getpid()) + "_" + std::to_string(count++)))
                         .string();
  std::ofstream(base + ".ptx") << artifact.ptx;
  std::string command = ptxas + " -v -arch=" + artifact.arch + " " + base + ".ptx -o " + base + ".cubin > " +
                        base + ".log 2>&1";
  Assembled r;
  r.ok = std::system(command.c_str()) == 0;
  std::ifstream log(base + ".log");
  std::stringstream text;
  text << log.rdbuf();
  r.log = text.str();
  for (const char *end : {".ptx", ".cubin", ".log"})
    std::filesystem::remove(base + end);
  std::smatch m;
  if (std::regex_search(r.log, m, std::regex("Used (\\d+) registers")))
    r.registers = std::stoi(m[1]);
  if (std::regex_search(r.log, m, std::regex("(\\d+) bytes stack frame, (\\d+) bytes spill stores")))
    r.stackBytes = std::stoi(m[1]), r.spillBytes = std::stoi(m[2]);
  return r;
}

} // namespace sectile::testing
