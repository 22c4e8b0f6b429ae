// SPDX-License-Identifier: Apache-2.0
/// \file MLIR contexts, lent one thread at a time. Making one costs about a millisecond, so they are kept; since a
/// context never forgets a type or attribute, each is thrown away after a bounded number of uses.
#pragma once

#include "mlir/IR/MLIRContext.h"

#include <memory>

namespace sectile {

/// A context with every dialect of Sectile loaded, for one thread, until the lease ends.
class ContextLease {
public:
  ContextLease();
  ~ContextLease();
  ContextLease(const ContextLease &) = delete;
  ContextLease &operator=(const ContextLease &) = delete;
  mlir::MLIRContext &operator*() const { return *slot->context; }
  mlir::MLIRContext *get() const { return slot->context.get(); }

  struct Slot {
    std::unique_ptr<mlir::MLIRContext> context;
    int uses = 0;
  };

private:
  std::unique_ptr<Slot> slot;
};

/// Registers the dialects a module of Sectile may use.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace sectile
