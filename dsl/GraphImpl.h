// SPDX-License-Identifier: Apache-2.0
/// \file What a graph records, the lengths of what its nodes leave open, and how its nodes become kernels.
#pragma once

#include "dsl/Composition.h"

#include <sectile/Graph.h>
#include <sectile/Targets.h>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sectile::detail {

struct GraphValue {
  KernelArg arg;    ///< dims and strides; the pointer of tensors in memory
  GraphMemory kind = GraphMemory::between;
  bool isWritten = false;
  CodePosition where;
  int base = -1;             ///< of a view: the tensor that it shows, itself no view
  std::int64_t first = 0;    ///< of a view: its first element among those of `base`
  bool isViewed = false;     ///< of a tensor that views show
  /// Whether nodes read and write it in memory that is not its own alone.
  bool hasMemory() const { return kind != GraphMemory::between || base >= 0; }
};

struct GraphNode {
  KernelDesc kernel;
  std::vector<int> values;        ///< per parameter; -1: a number
  std::vector<KernelArg> numbers; ///< per parameter
  CodePosition where;             ///< of the call
  bool reads(int value) const;
  bool writes(int value) const;
  bool touches(int value) const;
};

class GraphState {
public:
  std::string name;
  CodePosition where;
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;
  /// The argument for a parameter of a node; tensors without memory have the pointer `between`.
  KernelArg argOf(const GraphNode &node, std::size_t param) const;
  /// The tensor whose memory a value lies in.
  int rootOf(int value) const {
    const int base = values[static_cast<std::size_t>(value)].base;
    return base < 0 ? value : base;
  }
};

/// Bytes from the first to behind the last element; first offset may be negative.
std::pair<std::int64_t, std::int64_t> byteRange(const KernelArg &arg);
std::int64_t byteCount(const KernelArg &arg);

/// Fills in the dims of the outputs that a call has left open, from the lanes of what the kernel stores, and refuses lengths
/// that do not fit each other. `isOpen` per parameter.
void inferLengths(const KernelDesc &kernel, std::vector<KernelArg> &args, const std::vector<bool> &isOpen, CodePosition where);

/// One launch of a plan.
struct PlanStep {
  KernelDesc kernel;
  std::vector<int> values;        ///< per parameter; -1: a number
  std::vector<KernelArg> numbers; ///< per parameter
  std::vector<int> nodes;         ///< in order
  std::optional<CompositionReport> fused;
  std::vector<int> vanished, unrounded, shared; ///< of the graph's values
  std::vector<int> inside;                      ///< nodes that run where others load
  std::int64_t bytesSaved = 0; ///< of what a node in several steps moves, those of the first one count
  int launchesSaved = 0;
};
/// Two nodes that are not fused, and why.
struct PlanRefusal {
  int first = 0, second = 0;
  CompositionRefusal why;
};
struct Plan {
  std::vector<PlanStep> steps;
  std::vector<PlanRefusal> refusals;
  std::vector<std::int64_t> offsets; ///< of values in the workspace; -1: none
  std::int64_t workspaceBytes = 0;
};

/// The argument that a value is, with the plan's workspace at `memory`.
KernelArg placedArg(const GraphState &graph, const Plan &plan, int value, void *memory);

/// Whose costs count until a graph runs on a GPU of another kind.
const Target &usualTarget();
/// How the nodes become kernels; compositions in `refused` are not among them. UserErrors as of Graph::build().
Plan planGraph(const GraphState &graph, Fuse how, const std::set<const Composition *> &refused, const Target &target = usualTarget());
std::string planText(const GraphState &graph, const Plan &plan);

} // namespace sectile::detail
