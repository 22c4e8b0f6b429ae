// SPDX-License-Identifier: Apache-2.0
#include "dsl/GraphImpl.h"
#include "dsl/Trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace sectile::detail {

bool GraphNode::touches(int value) const { return std::find(values.begin(), values.end(), value) != values.end(); }
bool GraphNode::writes(int value) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] == value && !kernel.params[i].readOnly)
      return true;
  return false;
}
bool GraphNode::reads(int value) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] == value && kernel.params[i].readOnly)
      return true;
  return false;
}

KernelArg GraphState::argOf(const GraphNode &node, std::size_t param) const {
  const int value = node.values[param];
  if (value < 0)
    return node.numbers[param];
  KernelArg arg = values[static_cast<std::size_t>(value)].arg;
  arg.readOnly = node.kernel.params[param].readOnly;
  return arg;
}

KernelArg placedArg(const GraphState &graph, const Plan &plan, int value, void *memory) {
  const GraphValue &own = graph.values[static_cast<std::size_t>(value)];
  const int root = graph.rootOf(value);
  KernelArg arg = own.arg;
  arg.data = graph.values[static_cast<std::size_t>(root)].arg.data;
  if (const std::int64_t offset = plan.offsets[static_cast<std::size_t>(root)]; offset >= 0)
    arg.data = static_cast<std::byte *>(memory) + offset;
  if (arg.data)
    arg.data = static_cast<std::byte *>(arg.data) + own.first * static_cast<std::int64_t>(byteSize(arg.dtype));
  return arg;
}

std::pair<std::int64_t, std::int64_t> byteRange(const KernelArg &arg) {
  std::int64_t first = 0, last = 0;
  for (int d = 0; d < arg.rank; ++d) {
    if (arg.dims[static_cast<std::size_t>(d)] == 0)
      return {0, 0};
    const std::int64_t reach = (arg.dims[static_cast<std::size_t>(d)] - 1) * arg.strides[static_cast<std::size_t>(d)];
    (reach < 0 ? first : last) += reach;
  }
  const auto size = static_cast<std::int64_t>(byteSize(arg.dtype));
  return {first * size, (last + 1) * size};
}

std::int64_t byteCount(const KernelArg &arg) {
  auto bytes = static_cast<std::int64_t>(byteSize(arg.dtype));
  for (int d = 0; d < arg.rank; ++d)
    bytes *= arg.dims[static_cast<std::size_t>(d)];
  return bytes;
}

static std::string dimsText(const KernelArg &arg) {
  return fmt::format("[{}]", fmt::join(arg.dims.begin(), arg.dims.begin() + arg.rank, ", "));
}

std::shared_ptr<GraphState> makeGraph(const char *name, CodePosition where) {
  auto graph = std::make_shared<GraphState>();
  graph->name = name;
  graph->where = where;
  return graph;
}

const KernelArg &valueOf(const GraphState &graph, int value) { return graph.values[static_cast<std::size_t>(value)].arg; }

int addTensor(GraphState &graph, const KernelArg &arg, GraphMemory memory, std::source_location where) {
  for (int d = 0; d < arg.rank; ++d)
    if (arg.dims[static_cast<std::size_t>(d)] < 0)
      throw UserError({SourceLoc(where), {}, "graph", fmt::format("axis {} has length {}", d, arg.dims[static_cast<std::size_t>(d)]),
                       "graph_lengths", "lengths are 0 or more"});
  graph.values.push_back({arg, memory, memory != GraphMemory::between, CodePosition(where)});
  return static_cast<int>(graph.values.size()) - 1;
}

int addView(GraphState &graph, const NodeInput &of, const KernelArg &arg, std::int64_t first, std::source_location where) {
  if (of.graph.get() != &graph)
    throw UserError({SourceLoc(where), {}, "graph", fmt::format("the tensor that is viewed belongs to another graph than '{}'", graph.name),
                     "graph_mix", "use tensors of one graph"});
  for (int d = 0; d < arg.rank; ++d)
    if (arg.dims[static_cast<std::size_t>(d)] < 0)
      throw UserError({SourceLoc(where), {}, "graph", fmt::format("axis {} of the view has length {}", d, arg.dims[static_cast<std::size_t>(d)]),
                       "graph_lengths", "lengths are 0 or more"});
  const GraphValue &seen = graph.values[static_cast<std::size_t>(of.value)];
  const auto size = static_cast<std::int64_t>(byteSize(arg.dtype));
  const auto [begin, end] = byteRange(arg);
  const auto [least, most] = byteRange(seen.arg);
  if (begin < end && (first * size + begin < least || first * size + end > most))
    throw UserError({SourceLoc(where), {}, "graph",
                     fmt::format("the view has elements from {} to {}, the tensor of {} from {} to {}", first + begin / size, first + end / size - 1,
                                 dimsText(seen.arg), least / size, most / size - 1),
                     "graph_view", "dims, strides and the first element are in elements of the tensor that is viewed"});
  GraphValue view{arg, GraphMemory::between, false, CodePosition(where)};
  view.base = graph.rootOf(of.value);
  view.first = seen.first + first;
  graph.values[static_cast<std::size_t>(view.base)].isViewed = true;
  graph.values.push_back(view);
  return static_cast<int>(graph.values.size()) - 1;
}

void setOutput(GraphState &graph, const NodeInput &input, const KernelArg &memory, std::source_location where) {
  if (input.graph.get() != &graph)
    throw UserError({SourceLoc(where), {}, "graph", fmt::format("the tensor belongs to another graph than '{}'", graph.name), "graph_mix",
                     "use tensors of one graph"});
  GraphValue &value = graph.values[static_cast<std::size_t>(input.value)];
  if (value.hasMemory())
    throw UserError({SourceLoc(where), {}, "graph", fmt::format("the tensor of {} has memory already, given at line {}", dimsText(value.arg),
                     value.where.line()), "graph_output", "give each result one memory; copy it by a kernel for a second one"});
  if (!std::equal(memory.dims.begin(), memory.dims.begin() + memory.rank, value.arg.dims.begin()))
    throw UserError({SourceLoc(where), {}, "graph", fmt::format("the memory has lengths {}, the tensor {}", dimsText(memory), dimsText(value.arg)),
                     "graph_lengths", "give memory of the tensor's lengths"});
  for (int d = 0; d < memory.rank && value.isViewed; ++d)
    if (memory.strides[static_cast<std::size_t>(d)] != value.arg.strides[static_cast<std::size_t>(d)] && memory.dims[static_cast<std::size_t>(d)] > 1)
      throw UserError({SourceLoc(where), {}, "graph", fmt::format("the tensor of {} has views, and its memory gaps or another order", dimsText(value.arg)),
                       "graph_view", "give memory whose elements follow each other, or name the output where it is made"});
  value.arg = memory;
  value.kind = GraphMemory::output;
}

void addNode(const KernelDesc &kernel, std::span<NodeInput> args) {
  std::shared_ptr<GraphState> graph;
  CodePosition where = kernel.where;
  for (const NodeInput &a : args)
    if (a.graph) {
      if (!graph)
        where = a.loc;
      else if (graph != a.graph)
        throw UserError({SourceLoc(a.loc), kernel.name, "graph", fmt::format("tensors of two graphs, '{}' and '{}'", graph->name, a.graph->name),
                         "graph_mix", "use tensors of one graph"});
      graph = a.graph;
    }
  if (tracing())
    throw UserError({SourceLoc(where), kernel.name, "graph", fmt::format("kernel '{}' is called in a graph inside a kernel body", kernel.name),
                     "launch_in_trace", "call it as a C++ function on tiles, or build the graph in host code"});
  for (const NodeInput &a : args)
    if (!graph && a.loc.line()) {
      where = a.loc;
      break;
    }
  if (!graph)
    throw UserError({SourceLoc(where), kernel.name, "graph", fmt::format("no argument of '{}' is a tensor of a graph", kernel.name), "graph_mix",
                     "give its outputs, made by the graph, too"});

  GraphNode node{kernel, {}, {}, where};
  std::vector<KernelArg> all;
  std::vector<bool> isOpen;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ParamDesc &param = kernel.params[i];
    const bool isTensor = param.kind == ParamDesc::Kind::tensor;
    isOpen.push_back(isTensor && !args[i].graph);
    if (!isTensor || isOpen.back()) {
      KernelArg arg = args[i].number;
      if (isTensor) {
        arg = KernelArg{param.dtype, param.rank, false, nullptr, {}, {}, 0};
        arg.dims.fill(1);
        arg.strides.fill(1);
      }
      all.push_back(arg);
    } else {
      const GraphValue &value = graph->values[static_cast<std::size_t>(args[i].value)];
      if (param.readOnly && !graph->values[static_cast<std::size_t>(graph->rootOf(args[i].value))].isWritten)
        throw UserError({SourceLoc(args[i].loc), kernel.name, "graph",
                         fmt::format("'{}' reads the tensor of {} made at line {}, which no node before it writes", kernel.name,
                                     dimsText(value.arg), value.where.line()),
                         "graph_unwritten", "nodes run in the order of their calls, so a cycle has no beginning: write the tensor first"});
      all.push_back(value.arg);
    }
    node.numbers.push_back(all.back());
  }
  inferLengths(kernel, all, isOpen, where);
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (isOpen[i]) {
      std::int64_t stride = 1;
      for (int d = all[i].rank; d-- > 0; stride *= std::max<std::int64_t>(all[i].dims[static_cast<std::size_t>(d)], 1))
        all[i].strides[static_cast<std::size_t>(d)] = stride;
      args[i].graph = graph;
      args[i].loc = {};
      graph->values.push_back({all[i], GraphMemory::between, true, where});
      args[i].value = static_cast<int>(graph->values.size()) - 1;
    }
    node.values.push_back(args[i].value);
    if (args[i].value >= 0 && !kernel.params[i].readOnly)
      graph->values[static_cast<std::size_t>(graph->rootOf(args[i].value))].isWritten = true;
  }
  graph->nodes.push_back(std::move(node));
}

} // namespace sectile::detail
