// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsInput.h"
#include "dsl/ToolsCommon.h"
#include "ir/TileDialect.h"

#include <sectile/Buffer.h>
#include <sectile/Error.h>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace sectile::tools {
namespace {

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

/// Where arguments of the tools lie in memory, on every device: at multiples of so many bytes.
constexpr int64_t placedAt = 256;

/// What the file says of argument i must be true of what was given.
void checkFacts(mlir::func::FuncOp func, unsigned i, const ToolArg &given) {
  const KernelArg &arg = given.arg;
  auto fail = [&](const std::string &what, llvm::StringRef attr, const std::string &claim) {
    throw UserError({{},
                     func.getName().str(),
                     "run",
                     fmt::format("argument {}, {}, {}, and the file says {} = {}", i, given.text, what, attr.str(), claim),
                     "run_arg_fact",
                     "give an argument that is so, or take the attribute out of the file"});
  };
  auto list = [&](llvm::StringRef name, auto check) {
    if (auto attr = func.getArgAttrOfType<mlir::DenseI64ArrayAttr>(i, name))
      for (size_t d = 0; d < std::min<size_t>(attr.size(), static_cast<size_t>(arg.rank)); ++d)
        if (std::string what = check(d, attr[d]); !what.empty())
          fail(what, name, fmt::format("[{}]", fmt::join(attr.asArrayRef(), ", ")));
  };
  // Along an axis of 0 or 1 elements nothing is stepped over: its stride may be promised to be anything.
  auto steps = [&](size_t d) { return arg.dims[d] > 1; };
  list(tileir::dimDivAttr, [&](size_t d, int64_t divisor) {
    return divisor > 1 && arg.dims[d] % divisor ? fmt::format("has {} elements along axis {}", arg.dims[d], d) : std::string();
  });
  list(tileir::dimMaxAttr, [&](size_t d, int64_t most) {
    return most > 0 && arg.dims[d] > most ? fmt::format("has {} elements along axis {}", arg.dims[d], d) : std::string();
  });
  list(tileir::strideDivAttr, [&](size_t d, int64_t divisor) {
    return steps(d) && divisor > 1 && arg.strides[d] % divisor ? fmt::format("has stride {} along axis {}", arg.strides[d], d) : std::string();
  });
  list(tileir::strideRemAttr, [&](size_t d, int64_t rest) {
    return steps(d) && arg.strides[d] % vectorElements(arg.dtype) != rest ? fmt::format("has stride {} along axis {}", arg.strides[d], d)
                                                                          : std::string();
  });
  if (auto unit = func.getArgAttrOfType<mlir::IntegerAttr>(i, tileir::unitStrideAttr))
    if (const int64_t d = unit.getInt(); d >= 0 && d < arg.rank && steps(static_cast<size_t>(d)) && arg.strides[static_cast<size_t>(d)] != 1)
      fail(fmt::format("has stride {} along axis {}", arg.strides[static_cast<size_t>(d)], d), tileir::unitStrideAttr, std::to_string(d));
  if (auto align = func.getArgAttrOfType<mlir::IntegerAttr>(i, tileir::alignAttr); align && align.getInt() > 0 && placedAt % align.getInt())
    fail(fmt::format("lies at a multiple of {} bytes", placedAt), tileir::alignAttr, std::to_string(align.getInt()));
  if (func.getArgAttr(i, tileir::smallAttr) && !specialise(arg).small)
    fail("has lengths or bytes of 2^31 or more", tileir::smallAttr, "unit");
}

} // namespace

std::string kernelName(mlir::ModuleOp module) {
  std::string found;
  module.walk([&](mlir::func::FuncOp f) {
    if (f->hasAttr(tileir::kernelAttr))
      found = f.getName().str();
  });
  return found;
}

void addInputOptions(CLI::App &app, InputOptions &options, const std::string &whatFor) {
  app.add_option("file", options.file, "Module file, - for standard input")->required()->type_name("FILE");
  app.add_option("--arch", options.arch, "Target" + whatFor)
      ->check(CLI::IsMember(archNames()))
      ->capture_default_str();
  app.add_option("--warps", options.schedule.warps, "Warps per block; 0: by rule")->check(CLI::Range(0, 32));
  app.add_option("--cluster", options.schedule.cluster, "Blocks per cluster; 0: by rule")->check(CLI::Range(0, 16));
  app.add_option("--stages", options.schedule.stages, "Slots of pipelined loads; 0: as many as fit")->check(CLI::Range(0, 64));
  app.add_option("--blocks", options.schedule.blocks, "Blocks of a pipelined kernel per multiprocessor; 0: by rule")
      ->check(CLI::Range(0, 2));
  app.add_option("--raster", options.schedule.raster, "Programs along rows that blocks take together; 0: by rule")
      ->check(CLI::Range(0, 1 << 20));
  struct Choice {
    const char *option;
    int *value;
    const char *text;
  };
  for (const Choice &choice : std::initializer_list<Choice>{
           {"--async", &options.schedule.async, "Threads copy operands of pipelined products to shared memory; 0: where the TMA unit cannot, 1: never, 2: wherever they can"},
           {"--pingpong", &options.schedule.pingpong, "Warpgroups of a pipelined kernel each take a program of their own, in turns; 0: by rule, 1: never, 2: wherever it can be done"},
           {"--multicast", &options.schedule.multicast, "Two blocks load what both need once; 0: by rule, 1: never, 2: wherever it can be done"},
           {"--snake", &options.schedule.snake, "Every second program of a block goes through a loop that only accumulates backwards; 0: by rule, 1: never, 2: wherever it can be done"},
           {"--streamk", &options.schedule.streamk, "Blocks share the programs of the last round in equal parts; 0: by rule, 1: never, 2: wherever it can be done"},
           {"--overlap", &options.schedule.overlap, "The first product of the next iteration runs while the rest of this one does; 0: by rule, 1: never, 2: wherever it can be done"},
           {"--keep", &options.schedule.keep, "First operands of products that a loop does not change stay in registers; 0: by rule, 1: never, 2: wherever it can be done"},
           {"--persistent", &options.schedule.persistent, "Blocks of a kernel without pipelines go through several programs; 0: by rule, 1: never, 2: wherever it can be done"},
           {"--prefetch", &options.schedule.prefetch, "What the next trip of a loop loads is under way while this one is computed; 0: by rule, 1: never, 2: wherever it can be done"},
           {"--evict", &options.schedule.evict, "Hints for the L2 cache; 0: by rule, 1: never, 2: wherever they can be given"}})
    app.add_option(choice.option, *choice.value, choice.text)->check(CLI::Range(0, 2));
  app.add_option("--split", options.schedule.split, "Blocks that share a loop that only accumulates; 0: by rule, 1: never")
      ->check(CLI::Range(0, 65535));
  app.add_option("--arg", options.args,
                 "One per kernel argument: DIMSxDTYPE=FILL (FILL: zeros, iota, normal[:SEED], value:V, "
                 "bytes:B) or DTYPE=V")
      ->type_name("ARG")
      ->allow_extra_args(false);
}

mlir::OwningOpRef<mlir::ModuleOp> parseFile(const std::string &file, ContextLease &context) {
  llvm::SourceMgr sources;
  std::string why;
  std::optional<std::string> text = readInput(file, why);
  if (!text)
    throw UserError({{}, {}, "run", fmt::format("'{}': {}", file, why), "run_file", "name a module file, or - for standard input"});
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(*text, file == "-" ? "<stdin>" : file), llvm::SMLoc());
  mlir::OwningOpRef<mlir::ModuleOp> module;
  {
    mlir::SourceMgrDiagnosticHandler show(sources, context.get());
    module = mlir::parseSourceFile<mlir::ModuleOp>(sources, context.get());
  }
  if (!module)
    return nullptr;
  if (!kernelOf(*module))
    throw UserError({{},
                     {},
                     "run",
                     fmt::format("'{}' holds no function with tile.kernel", file),
                     "run_kernel",
                     "mark the kernel: func.func @name(..) attributes {tile.kernel}"});
  return module;
}

void bindArguments(mlir::ModuleOp module, std::vector<ToolArg> &args) {
  mlir::func::FuncOp func = kernelOf(module);
  matchArguments(func, args);
  for (unsigned i = 0; i < args.size(); ++i) {
    if (!args[i].arg.isTensor())
      continue;
    checkFacts(func, i, args[i]);
    if (!func.getArgAttr(i, tileir::alignAttr))
      setSpecialisation(module, i, specialise(args[i].arg), args[i].arg.rank);
  }
  func->setAttr(tileir::apartAttr, mlir::UnitAttr::get(func.getContext())); // each has a buffer of its own
}

LowerOptions loweringOf(mlir::ModuleOp module, const passes::Schedule &schedule, const std::string &arch,
                        Stage until) {
  LowerOptions lowering;
  lowering.kernel = kernelName(module);
  lowering.pipeline.arch = arch;
  lowering.pipeline.schedule = schedule;
  lowering.until = until;
  return lowering;
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

} // namespace sectile::tools
