// SPDX-License-Identifier: Apache-2.0
/// \file Running passes in tests: what holds after all of them, and lowered kernels against the interpreter.
#pragma once

#include "ir/TgpuDialect.h"
#include "passes/Pipeline.h"
#include "tests/support/InterpHarness.h"
#include "tests/support/OnThreads.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace sectile::test {

inline std::string textOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

template <class F> bool runPasses(mlir::ModuleOp module, F add, std::string &messages) {
  mlir::ScopedDiagnosticHandler handler(module.getContext(),
                                        [&](mlir::Diagnostic &d) { messages += d.str() + "\n"; });
  mlir::PassManager pm(module.getContext());
  add(pm);
  return mlir::succeeded(pm.run(module));
}

/// A random walk through the kernel: branches either way, loops 0 to 3 times. Shared bytes touched since the
/// last barrier, with the number of writes, must not meet a conflicting access. Knows nothing of how barriers
/// were placed.
class PathWalk {
public:
  explicit PathWalk(unsigned seed) : gen(seed) {}
  bool run(mlir::func::FuncOp func) {
    block(func.getBody().front());
    return ok;
  }

private:
  void block(mlir::Block &b) {
    for (mlir::Operation &op : b)
      visit(op);
  }
  // What the asynchronous copies of a store read lies apart for each warp.
  void touch(mlir::Value buffer, bool write) {
    while (auto view = buffer.getDefiningOp<tgpu::BufferViewOp>())
      buffer = view.getBuffer();
    auto alloc = buffer.getDefiningOp<tgpu::BufferAllocOp>();
    if (!alloc)
      return; // a slot of a pipe, which has barriers of its own
    std::int64_t begin = std::int64_t(*alloc.getOffset()), end = begin + alloc.getBuffer().getType().bytes();
    for (auto &[from, to, wrote] : open)
      ok &= to <= begin || end <= from || (!wrote && !write);
    open.push_back({begin, end, write});
  }
  void visit(mlir::Operation &op) {
    if (llvm::isa<tgpu::BarrierOp>(op))
      open.clear();
    else if (auto copy = llvm::dyn_cast<tgpu::CopyOp>(op))
      touch(copy.getBuffer(), true);
    else if (auto copy = llvm::dyn_cast<tgpu::CopyOutOp>(op))
      touch(copy.getBuffer(), false);
    else if (auto mma = llvm::dyn_cast<tgpu::MmaFmaOp>(op))
      touch(mma.getA(), false), touch(mma.getB(), false);
    else if (auto product = llvm::dyn_cast<tgpu::WgmmaOp>(op)) {
      if (llvm::isa<tgpu::BufferType>(product.getA().getType()))
        touch(product.getA(), false);
      touch(product.getB(), false);
    } else if (auto roles = llvm::dyn_cast<tgpu::RolesOp>(op))
      block(roles.getConsumer().front()); // the producer touches slots alone
    else if (auto loop = llvm::dyn_cast<mlir::scf::ForOp>(op))
      for (unsigned n = gen() % 4; n > 0; --n)
        block(*loop.getBody());
    else if (auto loop = llvm::dyn_cast<mlir::scf::WhileOp>(op)) {
      for (unsigned n = gen() % 4; n > 0; --n)
        block(*loop.getBeforeBody()), block(*loop.getAfterBody());
      block(*loop.getBeforeBody());
    } else if (auto branch = llvm::dyn_cast<mlir::scf::IfOp>(op)) {
      if (gen() % 2)
        block(*branch.thenBlock());
      else if (branch.elseBlock())
        block(*branch.elseBlock());
    }
  }
  std::mt19937 gen;
  std::vector<std::tuple<std::int64_t, std::int64_t, bool>> open;
  bool ok = true;
};

/// Everything that holds after the pipeline and can be seen without running it.
inline void checkFinalForm(mlir::ModuleOp module) {
  module.walk([&](mlir::func::FuncOp func) {
    for (unsigned seed = 0; seed < 20; ++seed)
      CHECK(PathWalk(seed).run(func));
    auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
    func.walk([&](mlir::Operation *op) {
      auto hasLayout = [&](mlir::Type t) {
        auto layout = tgpu::layoutOf(t);
        CHECK((!llvm::isa<mlir::RankedTensorType>(t) || (layout && layout->numWarps() == launch.allWarps())));
      };
      for (mlir::Type t : op->getOperandTypes())
        hasLayout(t);
      for (mlir::Type t : op->getResultTypes())
        hasLayout(t);
      CHECK_FALSE((llvm::isa<tileir::LoadOp, tileir::StoreOp, tileir::GatherOp, tileir::KeepOp,
                             tileir::FillOp, tileir::ReduceOp, tileir::MmaOp>(op)));
      if (auto convert = llvm::dyn_cast<tgpu::ConvertLayoutOp>(op))
        CHECK(conversionKind(*tgpu::layoutOf(convert.getX().getType()), *tgpu::layoutOf(convert.getType())) <=
              ConversionKind::ShuffleLanes);
      if (auto alloc = llvm::dyn_cast<tgpu::BufferAllocOp>(op)) {
        REQUIRE(alloc.getOffset());
        CHECK(std::int64_t(*alloc.getOffset()) + alloc.getBuffer().getType().bytes() <=
              launch.getSharedBytes());
      }
    });
  });
}

/// Products of warps, each load waited for where it stands.
inline passes::PipelineOptions withoutPipelines() {
  passes::PipelineOptions options;
  options.schedule.stages = 1;
  return options;
}

/// A kernel and its arguments, run on the interpreter as written and thread by thread after the pipeline: with the stages of
/// `options`, and without pipelines. Barriers of the latter.
template <class... Hosts>
int checkOnThreads(const std::string &text, passes::PipelineOptions options, const Hosts &...hosts) {
  auto want = std::make_tuple(hosts...);
  {
    Interpreted kernel(text);
    INFO(text << kernel.messages);
    REQUIRE(kernel.program);
    std::apply([&](auto &...h) { kernel.program->run(std::vector<KernelArg>{h.arg()...}); }, want);
  }
  int barriers = 0;
  std::vector<int> allStages{1};
  if (options.schedule.stages != 1)
    allStages.push_back(options.schedule.stages);
  for (int stages : allStages) {
    options.schedule.stages = stages;
    auto got = std::make_tuple(hosts...);
    Interpreted kernel(text);
    std::string messages;
    bool ok = runPasses(
        *kernel.module, [&](mlir::OpPassManager &pm) { passes::buildPipeline(pm, options); }, messages);
    INFO("after the pipeline, stages " << stages << "\n" << messages << textOf(*kernel.module));
    REQUIRE(ok);
    checkFinalForm(*kernel.module);
    tgpu::ExecResult result = std::apply(
        [&](auto &...h) { return runOnThreads(*kernel.module, std::vector<KernelArg>{h.arg()...}); }, got);
    auto same = [](auto &a, auto &b) {
      return !std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(a.data[0]));
    };
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      CHECK((same(std::get<i>(want), std::get<i>(got)) && ...));
    }(std::index_sequence_for<Hosts...>());
    if (stages == 1)
      barriers = int(result.total().barriers);
  }
  return barriers;
}

template <class T> Host<T> smallNumbers(std::vector<std::int64_t> shape, unsigned seed) {
  Host<T> h(shape);
  std::mt19937 gen(seed);
  for (T &v : h.data)
    v = T(float(int(gen() % 7) - 3));
  return h;
}

} // namespace sectile::test
