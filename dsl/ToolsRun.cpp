// SPDX-License-Identifier: Apache-2.0
// `sectile-run`: runs a module as text on the interpreter, its lowered code on the executor or a GPU, with
// generated arguments, or prints a stage of it.
#include "dsl/ToolsRun.h"
#include "dsl/Context.h"
#include "dsl/Diagnostics.h"
#include "dsl/Lower.h"
#include "dsl/ToolArgs.h"
#include "dsl/Tools.h"
#include "dsl/ToolsCommon.h"
#include "ir/Interp.h"
#include "ir/TileDialect.h"
#include "ir/exec/Executor.h"
#include "runtime/Launch.h"

#include <sectile/Buffer.h>
#include <sectile/Device.h>
#include <sectile/Error.h>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace sectile::tools {
namespace {

std::string kernelName(mlir::ModuleOp module) {
  std::string found;
  module.walk([&](mlir::func::FuncOp f) {
    if (f->hasAttr(tileir::kernelAttr))
      found = f.getName().str();
  });
  return found;
}

mlir::func::FuncOp kernelOf(mlir::ModuleOp module) {
  mlir::func::FuncOp found;
  module.walk([&](mlir::func::FuncOp f) {
    if (f->hasAttr(tileir::kernelAttr))
      found = f;
  });
  return found;
}

/// The types and flags of the kernel's arguments, checked against what the command line gave.
void matchArguments(mlir::func::FuncOp func, std::vector<ToolArg> &args) {
  if (args.size() != func.getNumArguments())
    throw UserError(
        {{},
         func.getName().str(),
         "run",
         fmt::format("{} arguments given, the kernel has {}", args.size(), func.getNumArguments()),
         "run_args",
         "give one --arg per argument, such as --arg 64x128xbf16=normal:1"});
  for (unsigned i = 0; i < args.size(); ++i) {
    mlir::Type type = func.getArgument(i).getType();
    auto view = llvm::dyn_cast<tileir::TensorType>(type);
    int rank = view ? static_cast<int>(view.getRank()) : -1;
    auto dtype = tileir::dtypeOfType(view ? view.getElementType() : type);
    if (rank != args[i].arg.rank || !dtype || *dtype != args[i].arg.dtype)
      throw UserError({{},
                       func.getName().str(),
                       "run",
                       fmt::format("argument {} is {}, the kernel takes {} of rank {}", i, args[i].text,
                                   dtype ? name(*dtype) : "another type", rank),
                       "run_arg_type",
                       "correct its --arg"});
    args[i].arg.readOnly = static_cast<bool>(func.getArgAttr(i, tileir::readOnlyAttr));
  }
}

void printOutputs(const std::vector<ToolArg> &args) {
  std::string text;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].arg.isTensor() && !args[i].arg.readOnly)
      text += fmt::format("arg{} {}\n", i, describeData(args[i]));
  printOut(text);
}

LowerOptions loweringOf(mlir::ModuleOp module, const RunOptions &options, const std::string &arch, Stage until) {
  LowerOptions lowering;
  lowering.kernel = kernelName(module);
  lowering.pipeline.arch = arch;
  lowering.pipeline.schedule.warps = options.warps;
  lowering.pipeline.schedule.cluster = options.cluster;
  lowering.pipeline.schedule.split = options.split;
  lowering.until = until;
  return lowering;
}

int emitText(mlir::ModuleOp module, const RunOptions &options, Stage stage) {
  StageTimes times;
  LowerOptions lowering = loweringOf(module, options, options.arch, stage);
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

/// Calls `run` with the arguments in memory of a device.
void onDevice(const Stream &stream, std::vector<ToolArg> &args,
              llvm::function_ref<void(std::span<const KernelArg>)> run) {
  std::vector<Buffer<u8>> buffers;
  std::vector<KernelArg> passed;
  for (ToolArg &a : args) {
    passed.push_back(a.arg);
    if (!a.arg.isTensor())
      continue;
    buffers.emplace_back(stream, static_cast<std::int64_t>(a.bytes.size()));
    buffers.back().copyFrom(a.bytes);
    passed.back().data = buffers.back().data();
  }
  run(passed);
  stream.synchronize();
  size_t next = 0;
  for (ToolArg &a : args)
    if (a.arg.isTensor())
      buffers[next++].copyTo(a.bytes);
}

void runOnGpu(mlir::ModuleOp module, const Device &device, const RunOptions &options,
              std::vector<ToolArg> &args) {
  StageTimes times;
  LowerOptions lowering = loweringOf(module, options, device.arch(), Stage::cubin);
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
  LowerOptions lowering = loweringOf(module, options, options.arch, Stage::tgpu);
  std::string flags = fmt::format("--device=executor --arch={}", options.arch), before = moduleText(module, true);
  lower(module, lowering, times);
  DiagnosticCollector diagnostics(module.getContext());
  auto executor = tgpu::Executor::build(module);
  if (!executor)
    diagnostics.raise(lowering.kernel, "executor", before, flags);
  tgpu::ExecResult result;
  onDevice(Device::interpreter().stream(), args, [&](std::span<const KernelArg> passed) {
    result = executor->run(passed, std::max(1, options.split));
  });
  if (result.fault)
    throw InternalError(fmt::format("the lowered code of kernel '{}' is wrong: {}", lowering.kernel, result.fault->text()),
                        writeReproducer(lowering.kernel, "executor", before, flags));
  return options.counters ? countersText(result) : std::string();
}

void addCommonOptions(CLI::App &app, RunOptions &options, const std::string &whatFor) {
  app.add_option("file", options.file, "Module file, - for standard input")->required()->type_name("FILE");
  app.add_option("--arch", options.arch, "Target" + whatFor)
      ->check(CLI::IsMember(archNames()))
      ->capture_default_str();
  app.add_option("--warps", options.warps, "Warps per block; 0: by rule")->check(CLI::Range(0, 32));
  app.add_option("--cluster", options.cluster, "Blocks per cluster; 0: by rule")->check(CLI::Range(0, 16));
  app.add_option("--split", options.split, "Blocks that share a loop that only accumulates; 0: by rule, 1: never")
      ->check(CLI::Range(0, 65535));
  app.add_option("--out,-o", options.out, "File for the stage; default: standard output")->type_name("FILE");
  app.add_option("--arg", options.args,
                 "One per kernel argument: DIMSxDTYPE=FILL (FILL: zeros, iota, normal[:SEED], value:V, "
                 "bytes:B) or DTYPE=V")
      ->type_name("ARG")
      ->allow_extra_args(false);
}

CLI::IsMember isStage() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(Stage::cubin); ++i)
    names.emplace_back(name(static_cast<Stage>(i)));
  return CLI::IsMember(names);
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
  llvm::SourceMgr sources;
  auto input = llvm::MemoryBuffer::getFileOrSTDIN(options.file);
  if (!input)
    throw UserError({{},
                     {},
                     "run",
                     fmt::format("'{}': {}", options.file, input.getError().message()),
                     "run_file",
                     "name a module file, or - for standard input"});
  sources.AddNewSourceBuffer(std::move(*input), llvm::SMLoc());
  mlir::OwningOpRef<mlir::ModuleOp> module;
  {
    mlir::SourceMgrDiagnosticHandler show(sources, context.get());
    module = mlir::parseSourceFile<mlir::ModuleOp>(sources, context.get());
  }
  if (!module)
    return exitUserError;
  mlir::func::FuncOp func = kernelOf(*module);
  if (!func)
    throw UserError({{},
                     {},
                     "run",
                     fmt::format("'{}' holds no function with tile.kernel", options.file),
                     "run_kernel",
                     "mark the kernel: func.func @name(..) attributes {tile.kernel}"});

  std::vector<ToolArg> args;
  for (const std::string &text : options.args)
    args.push_back(parseToolArg(text));
  if (!options.emit.empty() && args.empty())
    return emitText(*module, options, *parseStage(options.emit));
  matchArguments(func, args);
  for (unsigned i = 0; i < args.size(); ++i)
    if (args[i].arg.isTensor() && !func.getArgAttr(i, tileir::alignAttr))
      setSpecialisation(*module, i, specialise(args[i].arg), args[i].arg.rank);
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
