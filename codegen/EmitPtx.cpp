// SPDX-License-Identifier: Apache-2.0
#include "codegen/EmitPtx.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace sectile::codegen {
namespace {

/// Holds LLVM's crash recovery on while anyone emits, and puts the process's signal handlers back afterwards.
class CrashGuard {
public:
  CrashGuard() {
    std::lock_guard lock(mutex());
    if (users()++ == 0)
      llvm::CrashRecoveryContext::Enable();
  }
  ~CrashGuard() {
    std::lock_guard lock(mutex());
    if (--users() == 0)
      llvm::CrashRecoveryContext::Disable();
  }
  CrashGuard(const CrashGuard &) = delete;

private:
  static std::mutex &mutex() {
    static std::mutex m;
    return m;
  }
  static int &users() {
    static int n = 0;
    return n;
  }
};

/// Collects errors; LLVM's own handler would end the process.
class CollectErrors : public llvm::DiagnosticHandler {
public:
  explicit CollectErrors(std::string &text) : text(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream os(text);
      llvm::DiagnosticPrinterRawOStream printer(os);
      info.print(printer);
      os << '\n';
    }
    return true;
  }

private:
  std::string &text;
};

/// What pays on straight-line tile code; the full O3 pipeline takes three times as long for the same
/// registers. Spelled as text, instcombine ends the process where one round was not enough, unless told not
/// to.
constexpr llvm::StringLiteral pipeline =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),gvn,"
    "instcombine<no-verify-fixpoint>)";

void optimise(llvm::Module &module, llvm::TargetMachine &machine, std::string &errors) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error e = builder.parsePassPipeline(passes, pipeline)) {
    errors += llvm::toString(std::move(e));
    return;
  }
  passes.run(module, modules);
}

/// Puts what LLVM left between the end of a loop and the wait for its last products behind that wait. Plain instructions alone move:
/// none of them reads memory, and the wait has no operands in the text. ptxas takes any instruction there for one that
/// reads sums under way, and then waits after every product (C7514).
std::string waitsFirst(llvm::StringRef ptx) {
  constexpr llvm::StringLiteral begin = "\t// begin inline asm", wait = "\twgmma.wait_group.sync.aligned ", end = "\t// end inline asm";
  auto isPlain = [](llvm::StringRef line) {
    for (const char *name : {"setp.", "selp.", "add.", "sub.", "and.", "or.", "xor.", "shl.", "shr.", "cvt.", "mov.b", "mul.", "mad."})
      if (line.starts_with(std::string("\t") + name))
        return !line.contains("wgmma");
    return false;
  };
  llvm::SmallVector<llvm::StringRef, 0> lines;
  ptx.split(lines, '\n');
  for (size_t i = 0; i + 2 < lines.size(); ++i) {
    if (lines[i] != begin || !lines[i + 1].starts_with(wait) || lines[i + 2] != end)
      continue;
    size_t first = i;
    while (first > 0 && isPlain(lines[first - 1]))
      --first;
    // Behind the branch back of a loop only; elsewhere the order is LLVM's.
    if (first > 0 && first < i && lines[first - 1].starts_with("\t@%p"))
      std::rotate(lines.begin() + long(first), lines.begin() + long(i), lines.begin() + long(i + 3));
  }
  return llvm::join(lines, "\n");
}

} // namespace

std::unique_ptr<llvm::TargetMachine> makeMachine(const Target &target, std::string &whyNot) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *backEnd = llvm::TargetRegistry::lookupTarget(triple, whyNot);
  if (!backEnd)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // a fused multiply-add only where the program has one
  std::unique_ptr<llvm::TargetMachine> machine(backEnd->createTargetMachine(
      triple, llvm::StringRef(target.arch), "+ptx" + std::to_string(target.ptxVersion), options,
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    whyNot = "LLVM has no machine for " + std::string(target.arch);
  return machine;
}

bool emitPtx(llvm::Module &module, llvm::TargetMachine &machine, std::string &ptx, std::string *llvmIr,
             std::string &whyNot) {
  std::string errors;
  {
    llvm::raw_string_ostream os(errors);
    if (llvm::verifyModule(module, &os)) {
      whyNot = "malformed LLVM IR: " + errors;
      return false;
    }
  }
  module.getContext().setDiagnosticHandler(std::make_unique<CollectErrors>(errors), /*RespectFilters=*/false);
  CrashGuard guard;
  llvm::CrashRecoveryContext recovery;
  llvm::SmallString<0> text;
  bool alive = recovery.RunSafely([&] {
    optimise(module, machine, errors);
    if (llvmIr) {
      llvm::raw_string_ostream os(*llvmIr);
      module.print(os, nullptr);
    }
    llvm::raw_svector_ostream os(text);
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::AssemblyFile))
      errors += "the target does not print assembly";
    else
      passes.run(module);
  });
  if (!alive)
    errors += "LLVM gave up with code " + std::to_string(recovery.RetCode);
  if (!errors.empty()) {
    whyNot = errors;
    return false;
  }
  ptx = waitsFirst(text.str());
  return true;
}

} // namespace sectile::codegen
