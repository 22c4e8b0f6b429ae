// SPDX-License-Identifier: Apache-2.0
#include "dsl/Compile.h"

#include "dsl/BuildId.h"
#include "dsl/Context.h"
#include "dsl/Diagnostics.h"
#include "dsl/Trace.h"
#include "ir/Interp.h"
#include "runtime/Hash.h"
#include "runtime/KernelCache.h"
#include "runtime/Log.h"
#include "runtime/Nvtx.h"
#include "runtime/Ptxas.h"

#include "mlir/IR/Verifier.h"

#include <fmt/format.h>

namespace sectile {
namespace {

/// Arguments of the traced function: tensors and run-time scalars; constants are part of the code.
std::vector<KernelArg> functionArgs(const detail::KernelDesc &kernel, std::span<const KernelArg> args) {
  std::vector<KernelArg> kept;
  for (size_t i = 0; i < args.size(); ++i)
    if (kernel.params[i].kind != detail::ParamDesc::Kind::constant)
      kept.push_back(args[i]);
  return kept;
}

/// Everything an artifact depends on, and nothing else: no paths, no locations, no addresses.
std::string keyText(const std::string &moduleText, const Config &config, const std::string &arch, const SourceLoc &where) {
  static const std::string assembler = [&] {
    auto ptxas = runtime::Ptxas::find(where);
    return ptxas ? ptxas->version() : std::string("driver");
  }();
  return fmt::format("sectile {} {}\nllvm {}\nptxas {}\narch {}\nwarps {} stages {} cluster {} raster {} split {} blocks {}{}\n{}", SECTILE_VERSION,
                     buildId(), LLVM_VERSION_STRING, assembler, arch, config.warps, config.stages, config.cluster, config.raster, config.split, config.blocks,
                     fmt::format(" async {} pingpong {} multicast {} snake {} streamk {} overlap {} keep {}", config.async, config.pingpong, config.multicast, config.snake,
                                 config.streamk, config.overlap, config.keep) +
                         fmt::format(" persistent {} prefetch {} evict {}", config.persistent, config.prefetch, config.evict),
                     moduleText);
}

struct Traced {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<KernelArg> args; ///< of the function
};

/// Stages 1 and 2: runs the body once and checks what it built.
Traced traceAndVerify(mlir::MLIRContext &context, const detail::KernelDesc &kernel, std::span<const KernelArg> args,
                      Config &config, StageTimes &times) {
  Traced traced{{}, functionArgs(kernel, args)};
  {
    StageClock clock(times, "trace");
    traced.module = detail::trace(context, kernel, args, config);
  }
  DiagnosticCollector diagnostics(&context);
  if (mlir::failed(mlir::verify(*traced.module)))
    diagnostics.raise(kernel.name, "trace", moduleText(*traced.module, true), "--emit=tile");
  return traced;
}

/// Writes what this launch tells of its tensors as attributes of the function.
void specialiseModule(const Traced &traced, const detail::KernelDesc &kernel, std::span<const KernelArg> args,
                      const VariantFacts &facts) {
  if (facts.apart)
    for (auto func : mlir::ModuleOp(traced.module.get()).getOps<mlir::func::FuncOp>())
      if (func->hasAttr(tileir::kernelAttr))
        func->setAttr(tileir::apartAttr, mlir::UnitAttr::get(func.getContext()));
  unsigned next = 0; // among the function's arguments
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].isTensor())
      setSpecialisation(*traced.module, next, facts.specs[i], args[i].rank);
    next += kernel.params[i].kind != detail::ParamDesc::Kind::constant;
  }
}

LowerOptions lowerOptions(const detail::KernelDesc &kernel, const Config &config, const std::string &arch) {
  LowerOptions options;
  if (config.stages < 0 || config.stages > 64)
    throw UserError({kernel.where, kernel.name, "Config",
                     fmt::format("stages is set to {}, and code for {} has at most 64", config.stages, arch), "config_stages",
                     "leave stages at 0 for as many as fit"});
  if (config.raster < 0)
    throw UserError({kernel.where, kernel.name, "Config",
                     fmt::format("raster is set to {}, and code for {} takes 1 or more programs together", config.raster, arch),
                     "config_raster", "leave raster at 0 for the rule"});
  if (config.blocks < 0 || config.blocks > 2)
    throw UserError({kernel.where, kernel.name, "Config",
                     fmt::format("blocks is set to {}, and pipelined code for {} is made for 1 or 2 per multiprocessor", config.blocks, arch),
                     "config_blocks", "leave blocks at 0 for the rule, set it to 1 or 2"});
  if (config.repack < 0 || config.repack > 2)
    throw UserError({kernel.where, kernel.name, "Config",
                     fmt::format("repack is set to {}, and a launch for {} knows 0, 1 and 2", config.repack, arch),
                     "config_repack", "leave repack at 0 for the rule, set it to 1 for never or to 2 for wherever it can be done"});
  struct Choice {
    const char *name;
    int value;
  };
  for (const Choice &c : {Choice{"async", config.async}, {"pingpong", config.pingpong}, {"multicast", config.multicast}, {"snake", config.snake}, {"streamk", config.streamk}, {"overlap", config.overlap}, {"keep", config.keep}, {"persistent", config.persistent}, {"prefetch", config.prefetch}, {"evict", config.evict}})
    if (c.value < 0 || c.value > 2)
      throw UserError({kernel.where, kernel.name, "Config",
                       fmt::format("{} is set to {}, and code for {} knows 0, 1 and 2", c.name, c.value, arch),
                       "config_choice", fmt::format("leave {} at 0 for the rule, set it to 1 for never or to 2 for wherever it can be done", c.name)});
  if (config.split < 0 || config.split > 65535)
    throw UserError({kernel.where, kernel.name, "Config",
                     fmt::format("split is set to {}, and a launch for {} has at most 65535 blocks per program", config.split, arch),
                     "config_split", "leave split at 0 for as many as fill the GPU, set it to 1 for one block"});
  options.kernel = kernel.name;
  options.where = kernel.where;
  options.config = config.str();
  options.pipeline.arch = arch;
  options.pipeline.schedule.warps = config.warps;
  options.pipeline.schedule.cluster = config.cluster;
  options.pipeline.schedule.split = config.split;
  options.pipeline.schedule.stages = config.stages;
  options.pipeline.schedule.raster = config.raster;
  options.pipeline.schedule.blocks = config.blocks;
  options.pipeline.schedule.async = config.async;
  options.pipeline.schedule.pingpong = config.pingpong;
  options.pipeline.schedule.multicast = config.multicast;
  options.pipeline.schedule.snake = config.snake;
  options.pipeline.schedule.streamk = config.streamk;
  options.pipeline.schedule.overlap = config.overlap;
  options.pipeline.schedule.keep = config.keep;
  options.pipeline.schedule.persistent = config.persistent;
  options.pipeline.schedule.prefetch = config.prefetch;
  options.pipeline.schedule.evict = config.evict;
  return options;
}

std::shared_ptr<const CompiledKernel> compileForInterpreter(const detail::KernelDesc &kernel, Traced &traced, Config config) {
  auto compiled = std::make_shared<CompiledKernel>();
  DiagnosticCollector diagnostics(traced.module->getContext());
  compiled->program = tileir::InterpProgram::build(*traced.module);
  if (!compiled->program)
    diagnostics.raise(kernel.name, "interpreter", moduleText(*traced.module, true), "--device=interpreter");
  compiled->launch.symbol = kernel.name;
  compiled->launch.grid = compiled->program->grid();
  for (const KernelArg &arg : traced.args)
    compiled->launch.argRanks.push_back(arg.rank);
  compiled->config = std::move(config);
  return compiled;
}

} // namespace

std::shared_ptr<const CompiledKernel> compile(const detail::KernelDesc &kernel, std::span<const KernelArg> args,
                                              const Config *overrides, const std::string &arch, bool apart,
                                              const CompiledKernel *previous) {
  StageTimes times;
  ContextLease context;
  Config config = overrides ? *overrides : Config();
  runtime::NvtxRange range((std::string("compile ") + kernel.name).c_str());

  // 1 trace: the body runs once and builds a `tile` module. 2 verify.
  Traced traced = traceAndVerify(*context, kernel, args, config, times);
  if (arch == "interpreter")
    return compileForInterpreter(kernel, traced, std::move(config));
  VariantFacts facts = factsOf(kernel, args, config);
  facts.apart = apart;
  specialiseModule(traced, kernel, args, facts);

  // 3 cache lookup: in memory, then on disk, by content.
  std::string key = keyText(moduleText(*traced.module), config, arch, kernel.where);
  std::vector<std::string> warnings;
  auto found = runtime::KernelCache::global().get(kernel.name, key, [&](const std::string &) {
    // 4 passes, 5 code generation and assembler.
    Lowered lowered = lower(*traced.module, lowerOptions(kernel, config, arch), times);
    warnings = std::move(lowered.warnings);
    return std::move(lowered.artifact);
  });

  // 6 load: by the runtime, at the first launch in a context.
  auto compiled = std::make_shared<CompiledKernel>();
  compiled->module = found.module;
  compiled->launch = found.module->artifact().launch;
  compiled->config = config;
  compiled->arch = arch;
  compiled->facts = std::move(facts);

  // 7 report.
  if (found.source != runtime::KernelCache::Source::memory) {
    const Artifact &artifact = found.module->artifact();
    runtime::CompileReport report;
    report.kernel = kernel.name;
    report.key = runtime::hexText(runtime::sha256(key));
    report.arch = arch;
    report.config = config.str();
    report.stageMillis = times;
    report.registers = artifact.registers;
    report.spillBytes = artifact.spillBytes;
    report.sharedBytes = artifact.launch.sharedBytes;
    report.cache = found.source == runtime::KernelCache::Source::disk ? "disk hit" : "miss: " + found.missReason;
    if (previous && previous->arch == arch)
      report.change = differences(previous->facts, compiled->facts);
    report.warnings = std::move(warnings);
    runtime::logCompile(report);
  }
  return compiled;
}

std::string emitStage(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config *overrides,
                      const std::string &arch, Stage stage) {
  StageTimes times;
  ContextLease context;
  Config config = overrides ? *overrides : Config();
  Traced traced = traceAndVerify(*context, kernel, args, config, times);
  specialiseModule(traced, kernel, args, factsOf(kernel, args, config));
  LowerOptions options = lowerOptions(kernel, config, arch);
  options.until = stage;
  Lowered lowered = lower(*traced.module, options, times);
  if (stage == Stage::ptx)
    return lowered.artifact.ptx;
  if (stage != Stage::cubin)
    return lowered.text;
  if (lowered.artifact.cubin.empty())
    throw UserError({kernel.where, kernel.name, "emit", "no ptxas was found to assemble a cubin", "emit_ptxas",
                     "install it, or name it in SECTILE_PTXAS, or emit ptx"});
  return lowered.artifact.cubin;
}

} // namespace sectile
