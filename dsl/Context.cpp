// SPDX-License-Identifier: Apache-2.0
#include "dsl/Context.h"

#include "ir/TgpuDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <mutex>
#include <vector>

namespace sectile {
namespace {

constexpr int usesPerContext = 64;
constexpr size_t keptContexts = 4;

struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<ContextLease::Slot>> idle;
};
/// Never destroyed: a kernel may be launched from a destructor of static duration.
Pool &pool() {
  static Pool *p = new Pool;
  return *p;
}

} // namespace

void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<tileir::TileDialect, tgpu::TgpuDialect, mlir::func::FuncDialect, mlir::scf::SCFDialect>();
}

ContextLease::ContextLease() {
  {
    std::lock_guard<std::mutex> lock(pool().mutex);
    if (!pool().idle.empty()) {
      slot = std::move(pool().idle.back());
      pool().idle.pop_back();
    }
  }
  if (!slot) {
    slot = std::make_unique<Slot>();
    mlir::DialectRegistry registry;
    registerDialects(registry);
    slot->context = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
    slot->context->loadAllAvailableDialects();
  }
  ++slot->uses;
}

ContextLease::~ContextLease() {
  if (slot->uses >= usesPerContext)
    return;
  std::lock_guard<std::mutex> lock(pool().mutex);
  if (pool().idle.size() < keptContexts)
    pool().idle.push_back(std::move(slot));
}

} // namespace sectile
