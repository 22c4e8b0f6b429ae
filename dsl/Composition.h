// SPDX-License-Identifier: Apache-2.0
/// \file A kernel made of several: its parts, what they share, and its `tile` module. To the rest of the main path it is a
/// kernel like any other, with a KernelDesc whose `parts` is the composition.
#pragma once

#include <sectile/Kernel.h>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sectile::detail {

/// A tensor or number of a composition, known by its place in `values`.
struct CompositionValue {
  ParamDesc desc;
  std::vector<int> lengths; ///< of a tensor, by axis: equal numbers, equal lengths
  int param = -1;           ///< of the composed kernel; -1: between parts alone, it has no memory
};

struct CompositionPart {
  KernelDesc kernel;
  std::vector<int> values; ///< per parameter
  std::string prefix;      ///< of its numbers in the composed kernel's Config; empty for the leader
};

/// Parts in the order of their launches. The leader chooses its numbers as it would alone, if the others can follow; theirs
/// follow from its programs.
struct Composition {
  std::string name;
  std::vector<CompositionPart> parts;
  std::vector<CompositionValue> values; ///< in the order of their first use
  std::vector<ParamDesc> params;
  std::size_t leader = 0;
  bool keepRounding = false;
  KernelDesc desc; ///< of the composed kernel; its id is this object
};

/// What a fusion of all parts has left out, by value.
struct CompositionReport {
  std::vector<int> forwarded; ///< values that go from part to part in registers
  std::vector<int> vanished, unrounded;
  std::vector<int> shared;    ///< values whose tiles one loop loads once for several parts
  std::vector<int> inside;    ///< parts that run where later ones load
};
/// Why the parts cannot be one kernel, at the line of the user's that decides it.
struct CompositionRefusal {
  SourceLoc at;
  std::string why;
};
struct ComposedModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  CompositionReport report;
};

/// The one lasting composition that equals this one, with its `desc`, name and params filled in.
/// @pre parts, values, leader and keepRounding are set
const Composition &intern(Composition composition, CodePosition where);

/// Traces the parts and fuses them. `config` as for trace(). Throws UserError for mistakes in the parts.
std::variant<ComposedModule, CompositionRefusal> composeModule(mlir::MLIRContext &context, const Composition &composition,
                                                               std::span<const KernelArg> args, Config &config);
/// The same where it has been possible before: a refusal is a UserError [fuse_numbers].
mlir::OwningOpRef<mlir::ModuleOp> traceComposition(mlir::MLIRContext &context, const KernelDesc &kernel,
                                                   std::span<const KernelArg> args, Config &config);

} // namespace sectile::detail
