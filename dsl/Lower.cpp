// SPDX-License-Identifier: Apache-2.0
#include "dsl/Lower.h"

#include "codegen/Codegen.h"
#include "dsl/Diagnostics.h"
#include "ir/TileDialect.h"
#include "runtime/Env.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <fmt/format.h>

#include <array>

namespace sectile {

static constexpr std::array<std::string_view, 5> stageNames = {"tile", "tgpu", "llvm", "ptx", "cubin"};

std::string_view name(Stage stage) { return stageNames[static_cast<size_t>(stage)]; }

std::optional<Stage> parseStage(std::string_view text) {
  for (size_t i = 0; i < stageNames.size(); ++i)
    if (stageNames[i] == text)
      return static_cast<Stage>(i);
  return std::nullopt;
}

std::string moduleText(mlir::ModuleOp module, bool withLocations) {
  std::string text;
  llvm::raw_string_ostream os(text);
  mlir::OpPrintingFlags flags;
  if (withLocations)
    flags.enableDebugInfo(true, false);
  module->print(os, flags);
  os << "\n";
  return text;
}

void setSpecialisation(mlir::ModuleOp module, unsigned index, const ArgSpec &spec, int rank) {
  mlir::Builder b(module.getContext());
  module.walk([&](mlir::func::FuncOp func) {
    if (!func->hasAttr(tileir::kernelAttr) || index >= func.getNumArguments())
      return;
    llvm::SmallVector<int64_t> strideDiv(spec.strideDiv.begin(), spec.strideDiv.begin() + rank);
    llvm::SmallVector<int64_t> dimDiv(spec.dimDiv.begin(), spec.dimDiv.begin() + rank);
    func.setArgAttr(index, tileir::alignAttr, b.getI64IntegerAttr(spec.alignBytes));
    func.setArgAttr(index, tileir::strideDivAttr, b.getDenseI64ArrayAttr(strideDiv));
    func.setArgAttr(index, tileir::dimDivAttr, b.getDenseI64ArrayAttr(dimDiv));
    llvm::SmallVector<int64_t> strideRem(spec.strideRem.begin(), spec.strideRem.begin() + rank);
    func.setArgAttr(index, tileir::strideRemAttr, b.getDenseI64ArrayAttr(strideRem));
    llvm::ArrayRef<int64_t> dimMax(spec.dimMax.data(), static_cast<size_t>(rank));
    if (llvm::any_of(dimMax, [](int64_t most) { return most != 0; }))
      func.setArgAttr(index, tileir::dimMaxAttr, b.getDenseI64ArrayAttr(dimMax));
    if (spec.small)
      func.setArgAttr(index, tileir::smallAttr, b.getUnitAttr());
    if (spec.unitStrideAxis >= 0)
      func.setArgAttr(index, tileir::unitStrideAttr, b.getI64IntegerAttr(spec.unitStrideAxis));
  });
}

/// Prints the text of a stage to stderr when SECTILE_DUMP asks for it.
static void dumpStage(const std::string &kernel, std::string_view stage, const std::string &text) {
  fmt::print(stderr, "// ---- {} of {} ----\n{}\n", stage, kernel, text);
}

Lowered lower(mlir::ModuleOp module, const LowerOptions &options, StageTimes &times) {
  Lowered result;
  DiagnosticCollector diagnostics(module.getContext());
  std::string replay = fmt::format("--emit=cubin --arch={}", options.pipeline.arch);
  if (options.pipeline.schedule.warps)
    replay += fmt::format(" --warps={}", options.pipeline.schedule.warps);
  if (options.pipeline.schedule.cluster)
    replay += fmt::format(" --cluster={}", options.pipeline.schedule.cluster);
  if (options.pipeline.schedule.split)
    replay += fmt::format(" --split={}", options.pipeline.schedule.split);
  if (options.pipeline.schedule.stages)
    replay += fmt::format(" --stages={}", options.pipeline.schedule.stages);
  if (options.pipeline.schedule.blocks)
    replay += fmt::format(" --blocks={}", options.pipeline.schedule.blocks);
  if (options.pipeline.schedule.async)
    replay += fmt::format(" --async={}", options.pipeline.schedule.async);
  if (options.pipeline.schedule.pingpong)
    replay += fmt::format(" --pingpong={}", options.pipeline.schedule.pingpong);
  if (options.pipeline.schedule.multicast)
    replay += fmt::format(" --multicast={}", options.pipeline.schedule.multicast);
  if (options.pipeline.schedule.snake)
    replay += fmt::format(" --snake={}", options.pipeline.schedule.snake);
  if (options.pipeline.schedule.streamk)
    replay += fmt::format(" --streamk={}", options.pipeline.schedule.streamk);
  if (options.pipeline.schedule.overlap)
    replay += fmt::format(" --overlap={}", options.pipeline.schedule.overlap);
  if (options.pipeline.schedule.keep)
    replay += fmt::format(" --keep={}", options.pipeline.schedule.keep);
  if (options.pipeline.schedule.persistent)
    replay += fmt::format(" --persistent={}", options.pipeline.schedule.persistent);
  if (options.pipeline.schedule.prefetch)
    replay += fmt::format(" --prefetch={}", options.pipeline.schedule.prefetch);
  if (options.pipeline.schedule.evict)
    replay += fmt::format(" --evict={}", options.pipeline.schedule.evict);
  if (options.pipeline.schedule.raster)
    replay += fmt::format(" --raster={}", options.pipeline.schedule.raster);
  auto fail = [&](const char *stage, const std::string &text) {
    diagnostics.raise(options.kernel, stage, text, replay, options.config);
  };
  const runtime::Env &env = runtime::env();

  if (mlir::failed(mlir::verify(module)))
    fail("verify", moduleText(module, true));
  if (env.dumps("tile"))
    dumpStage(options.kernel, "tile", moduleText(module));
  if (options.until == Stage::tile) {
    result.text = moduleText(module, /*withLocations=*/true); // what is run or explained names the user's lines
    return result;
  }

  mlir::OwningOpRef<mlir::ModuleOp> original(module.clone()); // what a reproducer replays
  {
    StageClock clock(times, "passes");
    mlir::PassManager pm(module.getContext());
    passes::buildPipeline(pm, options.pipeline);
    if (mlir::failed(pm.run(module)))
      fail("passes", moduleText(*original, true));
  }
  if (env.dumps("tgpu"))
    dumpStage(options.kernel, "tgpu", moduleText(module));
  if (options.until == Stage::tgpu) {
    result.text = moduleText(module);
    return result;
  }

  std::string llvmIr;
  bool wantsIr = options.until == Stage::llvm || env.dumps("llvm");
  {
    StageClock clock(times, "codegen");
    codegen::Dumps dumps;
    if (wantsIr)
      dumps.llvmIr = &llvmIr;
    if (mlir::failed(codegen::emit(module, result.artifact, dumps)))
      fail("codegen", moduleText(*original, true));
  }
  if (env.dumps("llvm"))
    dumpStage(options.kernel, "llvm", llvmIr);
  if (env.dumps("ptx"))
    dumpStage(options.kernel, "ptx", result.artifact.ptx);
  if (options.until == Stage::llvm)
    result.text = std::move(llvmIr);
  if (options.until <= Stage::ptx || !options.assemble)
    return result;

  StageClock clock(times, "ptxas");
  auto ptxas = runtime::Ptxas::find(options.where);
  if (!ptxas)
    result.artifact.ptx = runtime::withLessRoom(result.artifact.ptx, /*drop=*/true); // the driver does not say what it spills
  if (ptxas) {
    // The plan of registers is an estimate: what spills gets more of them.
    runtime::PtxasResult assembled = ptxas->assembleWithRoom(result.artifact.ptx, result.artifact.arch);
    if (!assembled.ok) {
      llvm::StringRef log = llvm::StringRef(assembled.log).trim();
      throw InternalError(fmt::format("ptxas {} failed on kernel '{}' for {}: {}{}{}", ptxas->version(), options.kernel,
                                      result.artifact.arch, assembled.problem, log.empty() ? "" : "; all it said: ", log.str()),
                          writeReproducer(options.kernel, "ptxas", moduleText(*original, true), replay));
    }
    result.artifact.cubin = std::move(assembled.cubin);
    result.artifact.ptxasLog = std::move(assembled.log);
    result.artifact.registers = assembled.registers;
    result.artifact.spillBytes = assembled.spillBytes;
    result.warnings = std::move(assembled.performanceLosses);
  }
  return result;
}

} // namespace sectile
