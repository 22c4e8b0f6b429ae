// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Engine.h"

#include "dsl/Context.h"
#include "dsl/Diagnostics.h"
#include "dsl/Lower.h"
#include "ir/Interp.h"
#include "ir/TileDialect.h"
#include "ir/exec/Executor.h"
#include "passes/Passes.h"
#include "runtime/Launch.h"

#include <sectile/Buffer.h>
#include <sectile/Device.h>
#include <sectile/Error.h>
#include <sectile/Targets.h>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <optional>

namespace sectile::numerics {

std::string interpret(const Kernel &kernel, const std::string &text, std::vector<Memory> &memory,
                      bool resolved) {
  ContextLease context;
  std::string messages;
  mlir::ScopedDiagnosticHandler collect(context.get(),
                                        [&](mlir::Diagnostic &d) { messages += d.str() + "; "; });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  if (!module)
    return "does not parse: " + messages;
  if (resolved) {
    mlir::PassManager pm(context.get());
    pm.addNestedPass<mlir::func::FuncOp>(passes::createResolveTailsPass());
    if (mlir::failed(pm.run(*module)))
      return "sectile-resolve-tails fails: " + messages;
  }
  auto program = tileir::InterpProgram::build(*module);
  if (!program)
    return "the interpreter refuses it: " + messages;
  program->run(launchArguments(kernel, memory));
  return {};
}

Compiled compile(const std::string &text, const std::vector<KernelArg> &args, const std::string &arch,
                 bool assemble) {
  Compiled result;
  try {
    ContextLease context;
    std::string messages;
    mlir::OwningOpRef<mlir::ModuleOp> module;
    {
      mlir::ScopedDiagnosticHandler collect(context.get(),
                                            [&](mlir::Diagnostic &d) { messages += d.str() + "; "; });
      module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
    }
    if (!module) {
      result.problem = "does not parse: " + messages;
      return result;
    }
    for (std::size_t i = 0; i < args.size(); ++i)
      if (args[i].isTensor())
        setSpecialisation(*module, unsigned(i), specialise(args[i]), args[i].rank);
    LowerOptions options;
    module->walk([&](mlir::func::FuncOp f) { options.kernel = f.getName().str(); });
    options.pipeline.arch = arch;
    options.assemble = assemble;
    if (!assemble)
      options.until = Stage::ptx;
    StageTimes times;
    Lowered lowered = lower(*module, options, times);
    result.warnings = std::move(lowered.warnings);
    result.artifact = std::make_shared<Artifact>(std::move(lowered.artifact));
  } catch (const UserError &e) {
    result.problem = e.what();
    result.limit = true;
  } catch (const std::exception &e) {
    result.problem = e.what();
  }
  return result;
}

std::string runOnThreads(const std::string &text, const std::vector<KernelArg> &args, const std::string &arch,
                         const Schedule &schedule, bool &limit) {
  ContextLease context;
  std::string messages;
  mlir::ScopedDiagnosticHandler collect(context.get(),
                                        [&](mlir::Diagnostic &d) { messages += d.str() + "; "; });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  if (!module)
    return "does not parse: " + messages;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (args[i].isTensor())
      setSpecialisation(*module, unsigned(i), specialise(args[i]), args[i].rank);
  passes::PipelineOptions options;
  options.arch = arch;
  options.schedule.warps = schedule.warps;
  options.schedule.cluster = schedule.cluster;
  options.schedule.split = schedule.split;
  options.schedule.stages = schedule.stages;
  options.schedule.persistent = options.schedule.prefetch = options.schedule.evict = schedule.ahead;
  mlir::PassManager pm(context.get());
  passes::buildPipeline(pm, options);
  if (mlir::failed(pm.run(*module))) {
    ErrorParts parts;
    limit = splitDiagnostic(messages, parts);
    return "lowering: " + messages;
  }
  auto executor = tgpu::Executor::build(*module);
  if (!executor)
    return "the executor refuses it: " + messages;
  tgpu::ExecResult result = executor->run(args);
  return result.fault ? result.fault->text() : std::string();
}

bool havePtxas() { return runtime::Ptxas::find().has_value(); }

std::vector<std::string> archNames() {
  std::vector<std::string> names;
  for (const Target &t : targets())
    names.emplace_back(t.arch);
  return names;
}

void runOnGpu(const Compiled &code, const Kernel &kernel, std::vector<Memory> &memory) {
  Device device = Device::gpu(0);
  Stream stream = device.stream();
  runtime::Module module(kernel.name, code.artifact);
  std::vector<Buffer<u8>> buffers;
  std::vector<KernelArg> args = launchArguments(kernel, memory);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!args[i].isTensor())
      continue;
    buffers.emplace_back(stream, std::int64_t(memory[i].bytes().size()));
    buffers.back().copyFrom(memory[i].bytes());
    args[i].data = buffers.back().data() + memory[i].origin();
  }
  runtime::launch(module, args, stream);
  stream.synchronize();
  std::size_t next = 0;
  for (std::size_t i = 0; i < memory.size(); ++i)
    if (args[i].isTensor())
      buffers[next++].copyTo(memory[i].bytes());
}

int gpuCount() { return Device::gpuCount(); }
std::string gpuArch() { return Device::gpu(0).arch(); }

} // namespace sectile::numerics
