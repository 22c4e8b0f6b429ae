// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsExplain.h"

#include "dsl/Diagnostics.h"
#include "dsl/Explain.h"
#include "dsl/ToolsCommon.h"
#include "ir/exec/Executor.h"

#include <sectile/Device.h>
#include <sectile/Error.h>
#include <sectile/Stream.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace sectile::tools {

/// Blocks per multiprocessor that the code asks the assembler to leave room for, after the trials of lower().
static std::int64_t roomOf(const std::string &ptx) {
  const std::string_view directive = ".minnctapersm ";
  std::size_t at = ptx.find(directive);
  return at == std::string::npos ? 0 : std::strtoll(ptx.c_str() + at + directive.size(), nullptr, 10);
}

void addExplainOptions(CLI::App &app, ExplainOptions &options) {
  addInputOptions(app, options, "");
  app.add_flag("--json", options.json, "As one JSON object");
  app.add_option("--bandwidth", options.bandwidthGBs, "GB/s of the memory; default: that of the target")
      ->check(CLI::Range(1.0, 1e6))
      ->type_name("GBS");
}

int explainFile(const ExplainOptions &options) {
  ContextLease context;
  mlir::OwningOpRef<mlir::ModuleOp> module = parseFile(options.file, context);
  if (!module)
    return exitUserError;
  std::vector<ToolArg> args;
  for (const std::string &text : options.args)
    args.push_back(parseToolArg(text));
  bindArguments(*module, args);

  StageTimes times;
  mlir::OwningOpRef<mlir::ModuleOp> forCode(module->clone());
  Lowered code =
      lower(*forCode, loweringOf(*forCode, options.schedule, options.arch, Stage::cubin), times);
  std::string kernel = kernelName(*module), flags = fmt::format("--device=executor --arch={}", options.arch),
              before = moduleText(*module, true);
  lower(*module, loweringOf(*module, options.schedule, options.arch, Stage::tgpu), times);

  DiagnosticCollector diagnostics(context.get());
  auto executor = tgpu::Executor::build(*module);
  if (!executor)
    diagnostics.raise(kernel, "executor", before, flags);
  Explanation explanation;
  double bandwidth = options.bandwidthGBs > 0 ? options.bandwidthGBs : findTarget(options.arch)->memoryGBs;
  onDevice(Device::interpreter().stream(), args, [&](std::span<const KernelArg> passed) {
    explanation = explain(*module, *executor, passed, std::max(1, options.schedule.split), bandwidth);
  });
  if (explanation.fault)
    throw InternalError(fmt::format("the lowered code of kernel '{}' is wrong: {}", kernel, explanation.fault->text()),
                        writeReproducer(kernel, "executor", before, flags));
  explanation.minBlocks = roomOf(code.artifact.ptx);
  explanation.registers = code.artifact.registers;
  explanation.spillBytes = code.artifact.spillBytes;
  printOut(options.json ? explanationJson(explanation) : explanationText(explanation));
  return exitOk;
}

} // namespace sectile::tools
