// SPDX-License-Identifier: Apache-2.0
// `sectile-run`: runs a module as text on the interpreter, its lowered code on the executor or a GPU, with
// generated arguments, or prints a stage of it.
#include "dsl/ToolsRun.h"
#include "dsl/Diagnostics.h"
#include "dsl/Lower.h"
#include "dsl/ToolArgs.h"
#include "dsl/Tools.h"
#include "dsl/ToolsCommon.h"
#include "dsl/ToolsInput.h"
#include "ir/Interp.h"
#include "ir/exec/Executor.h"
#include "runtime/Launch.h"

#include <sectile/Device.h>
#include <sectile/Error.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace sectile::tools {
namespace {

void printOutputs(const std::vector<ToolArg> &args) {
  std::string text;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].arg.isTensor() && !args[i].arg.readOnly)
      text += fmt::format("arg{} {}\n", i, describeData(args[i]));
  printOut(text);
}

int emitText(mlir::ModuleOp module, const RunOptions &options, Stage stage) {
  StageTimes times;
  LowerOptions lowering = loweringOf(module, options.schedule, options.arch, stage);
  Lowered lowered = lower(module, lowering, times);
  const std::string &text = stage == Stage::ptx     ? lowered.artifact.ptx
                            : stage == Stage::cubin ? lowered.artifact.cubin
                                                    : lowered.text;
  if (text.empty())
    throw UserError({{},
                     lowering.kernel,
                     "emit",
                     "no ptxas was found to assemble a cubin",
                     "emit_ptxas",
                     "install it, or name it in SECTILE_PTXAS, or emit ptx"});
  if (options.out.empty())
    printOut(text);
  else
    writeFile(options.out, text);
  return exitOk;
}

void runOnGpu(mlir::ModuleOp module, const Device &device, const RunOptions &options,
              std::vector<ToolArg> &args) {
  StageTimes times;
  LowerOptions lowering = loweringOf(module, options.schedule, device.arch(), Stage::cubin);
  auto artifact = std::make_shared<Artifact>(lower(module, lowering, times).artifact);
  runtime::Module code(lowering.kernel, artifact);
  Stream stream = device.stream();
  onDevice(stream, args, [&](std::span<const KernelArg> passed) { runtime::launch(code, passed, stream); });
}

/// One line per op: its place, what it moved, what that cost.
std::string countersText(const tgpu::ExecResult &result) {
  std::string text = fmt::format("{} programs\n{:>10} {:>12} {:>10} {:>8} {:>10} {:>10} {:>8}  op\n", result.programs,
                                 "requests", "bytes", "sectors", "per req", "wavefronts", "conflicts", "barriers");
  for (const tgpu::OpCounts &c : result.counts) {
    if (llvm::isa<tgpu::WgmmaOp, tgpu::MmaSyncOp>(c.op))
      continue; // moves nothing itself
    SourceLoc at = sourceLocOf(c.op->getLoc());
    double perRequest = c.requests ? static_cast<double>(c.sectors) / static_cast<double>(c.requests) : 0;
    text += fmt::format("{:10} {:12} {:10} {:8.1f} {:10} {:10} {:8}  {} {}:{}:{}\n", c.requests, c.bytes, c.sectors,
                        perRequest, c.wavefronts, c.conflicts, c.barriers, c.op->getName().getStringRef().str(),
                        at.file, at.line, at.column);
  }
  return text;
}

std::string runOnExecutor(mlir::ModuleOp module, const RunOptions &options, std::vector<ToolArg> &args) {
  StageTimes times;
  LowerOptions lowering = loweringOf(module, options.schedule, options.arch, Stage::tgpu);
  std::string flags = fmt::format("--device=executor --arch={}", options.arch), before = moduleText(module, true);
  lower(module, lowering, times);
  DiagnosticCollector diagnostics(module.getContext());
  auto executor = tgpu::Executor::build(module);
  if (!executor)
    diagnostics.raise(lowering.kernel, "executor", before, flags);
  tgpu::ExecResult result;
  onDevice(Device::interpreter().stream(), args, [&](std::span<const KernelArg> passed) {
    result = executor->run(passed, std::max(1, options.schedule.split));
  });
  if (result.fault)
    throw InternalError(fmt::format("the lowered code of kernel '{}' is wrong: {}", lowering.kernel, result.fault->text()),
                        writeReproducer(lowering.kernel, "executor", before, flags));
  return options.counters ? countersText(result) : std::string();
}

CLI::IsMember isStage() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(Stage::cubin); ++i)
    names.emplace_back(name(static_cast<Stage>(i)));
  return CLI::IsMember(names);
}

void addCommonOptions(CLI::App &app, RunOptions &options, const std::string &whatFor) {
  addInputOptions(app, options, whatFor);
  app.add_option("--out,-o", options.out, "File for the stage; default: standard output")->type_name("FILE");
}

} // namespace

void addRunOptions(CLI::App &app, RunOptions &options) {
  addCommonOptions(app, options, " of --emit and --device=executor");
  app.add_option("--device", options.device, "Where to run")
      ->check(CLI::IsMember({"interpreter", "executor", "gpu"}))
      ->capture_default_str();
  app.add_flag("--counters", options.counters,
               "With --device=executor: print what each memory op moved, and what that cost");
  app.add_option("--emit", options.emit, "Print a stage instead of running")->check(isStage());
}

void addEmitOptions(CLI::App &app, RunOptions &options) {
  addCommonOptions(app, options, "");
  app.add_option("--stage", options.emit, "The stage to print")->required()->check(isStage());
}

int runFile(const RunOptions &options) {
  ContextLease context;
  mlir::OwningOpRef<mlir::ModuleOp> module = parseFile(options.file, context);
  if (!module)
    return exitUserError;
  std::vector<ToolArg> args;
  for (const std::string &text : options.args)
    args.push_back(parseToolArg(text));
  if (!options.emit.empty() && args.empty())
    return emitText(*module, options, *parseStage(options.emit));
  bindArguments(*module, args);
  if (!options.emit.empty())
    return emitText(*module, options, *parseStage(options.emit));

  std::string counters;
  if (options.device == "gpu") {
    runOnGpu(*module, Device::gpu(0), options, args);
  } else if (options.device == "executor") {
    counters = runOnExecutor(*module, options, args);
  } else {
    DiagnosticCollector diagnostics(context.get());
    auto program = tileir::InterpProgram::build(*module);
    if (!program)
      diagnostics.raise(kernelName(*module), "interpreter", moduleText(*module, true),
                        "--device=interpreter");
    std::vector<KernelArg> passed;
    for (ToolArg &a : args)
      passed.push_back(a.arg);
    program->run(passed);
  }
  printOutputs(args);
  printOut(counters);
  return exitOk;
}

int runMain(int argc, char **argv) {
  RunOptions options;
  CLI::App app{"Runs a kernel given as MLIR text, or prints one of its stages"};
  app.footer(exitStatusText);
  addRunOptions(app, options);
  return runTool(app, argc, argv, [&] { return runFile(options); });
}

} // namespace sectile::tools
