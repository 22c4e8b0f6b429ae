// SPDX-License-Identifier: Apache-2.0
// Running a graph: per device the plan whose kernels that device can run, per piece of memory the launches bound to it.
#include "dsl/Choice.h"
#include "dsl/GraphImpl.h"
#include "runtime/Launch.h"
#include "runtime/Log.h"

#include <sectile/Buffer.h>

#include <fmt/format.h>

#include <deque>
#include <memory>
#include <mutex>

namespace sectile {
namespace detail {

class ComposedState {
public:
  ComposedState(const GraphState &graph, Fuse how, const Config *numbers, CodePosition where)
      : graph(graph), how(how), where(where), asBuilt(planGraph(graph, how, {})) {
    if (numbers)
      byHand = *numbers;
  }

  void run(const Stream &stream, std::source_location loc) {
    Ready &ready = readyFor(stream.device());
    if (ready.plan.workspaceBytes == 0)
      return runSteps(ready, nullptr, stream, loc);
    if (!stream.device().isInterpreter())
      return runtime::withGraphMemory(stream, ready.plan.workspaceBytes, {graph.name.c_str(), loc},
                                      [&](void *memory) { runSteps(ready, memory, stream, loc); });
    std::lock_guard<std::mutex> lock(ready.hostMutex);
    if (!ready.hostMemory)
      ready.hostMemory.emplace(stream.device(), ready.plan.workspaceBytes);
    runSteps(ready, ready.hostMemory->data(), stream, loc);
  }

  const GraphState graph;
  const Fuse how;
  const CodePosition where;
  const Plan asBuilt;
  std::optional<Config> byHand; ///< of kernels made of several nodes

  std::vector<KernelArg> argsOf(const PlanStep &step, const Plan &plan, void *memory) const {
    std::vector<KernelArg> args = step.numbers;
    for (std::size_t p = 0; p < args.size(); ++p) {
      const int value = step.values[p];
      if (value < 0)
        continue;
      args[p] = placedArg(graph, plan, value, memory);
      args[p].readOnly = step.kernel.params[p].readOnly;
    }
    return args;
  }
  const Config *configOf(const PlanStep &step) const { return step.fused && byHand ? &*byHand : nullptr; }
  /// Stands for memory in calls that run nothing.
  static void *nowhere() { return reinterpret_cast<void *>(std::uintptr_t(1) << 40); }

private:
  using Calls = std::vector<std::shared_ptr<PreparedState>>;
  struct Ready {
    Device device;
    Plan plan;
    std::mutex mutex; ///< of `bound`
    std::deque<std::pair<void *, std::shared_ptr<const Calls>>> bound;
    std::mutex hostMutex; ///< held while the interpreter runs in hostMemory
    std::optional<Buffer<std::uint8_t>> hostMemory;
    Ready(Device device, Plan plan) : device(std::move(device)), plan(std::move(plan)) {}
  };

  Ready &readyFor(const Device &device) {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto &r : all)
      if (r->device == device)
        return *r;
    std::set<const Composition *> refused;
    const Target *target = device.isInterpreter() ? nullptr : findTarget(device.arch());
    if (!target)
      target = &usualTarget();
    Plan plan = target == &usualTarget() || how.mode() != Fuse::Mode::automatic ? asBuilt : planGraph(graph, how, {}, *target);
    for (std::size_t before = ~std::size_t(0); !byHand && how.mode() == Fuse::Mode::automatic && before != refused.size();) {
      before = refused.size();
      for (const PlanStep &step : plan.steps)
        if (step.fused && !fits(step, plan, device))
          refused.insert(step.kernel.parts);
      if (before != refused.size())
        plan = planGraph(graph, how, refused, *target);
    }
    return *all.emplace_back(std::make_unique<Ready>(device, std::move(plan)));
  }

  /// Whether the device can run a kernel that its nodes do not have to be.
  bool fits(const PlanStep &step, const Plan &plan, const Device &device) const {
    try {
      variantOfLaunch(step.kernel, device, argsOf(step, plan, nowhere()), nullptr);
      return true;
    } catch (const UserError &e) {
      runtime::logLine(fmt::format("graph {}: the nodes of {} stay apart: {}", graph.name, step.kernel.name, e.what()));
      return false;
    }
  }

  void runSteps(Ready &ready, void *memory, const Stream &stream, std::source_location loc) {
    const std::shared_ptr<const Calls> calls = callsOf(ready, memory);
    for (const std::shared_ptr<PreparedState> &call : *calls)
      runPrepared(*call, stream, loc);
  }

  std::shared_ptr<const Calls> callsOf(Ready &ready, void *memory) {
    constexpr std::size_t mostBound = 64; // each stream, and each capture, has memory of its own
    std::lock_guard<std::mutex> lock(ready.mutex);
    for (const auto &[place, calls] : ready.bound)
      if (place == memory)
        return calls;
    auto calls = std::make_shared<Calls>();
    for (const PlanStep &step : ready.plan.steps)
      calls->push_back(prepare(step.kernel, argsOf(step, ready.plan, memory), configOf(step), where));
    ready.bound.emplace_back(memory, calls);
    if (ready.bound.size() > mostBound)
      ready.bound.pop_front();
    return calls;
  }

  std::mutex mutex;
  std::vector<std::unique_ptr<Ready>> all;
};

std::shared_ptr<ComposedState> buildGraph(const GraphState &graph, Fuse how, const Config *numbers, CodePosition where) {
  if (graph.nodes.empty())
    throw UserError({SourceLoc(where), {}, "graph", fmt::format("graph '{}' has no node", graph.name), "graph_empty",
                     "call kernels with tensors of the graph before it is built"});
  auto state = std::make_shared<ComposedState>(graph, how, numbers, where);
  runtime::logLine(planText(graph, state->asBuilt));
  return state;
}

void runComposed(ComposedState &state, const Stream &stream, std::source_location where) { state.run(stream, where); }

} // namespace detail

int Composed::launches() const { return static_cast<int>(state->asBuilt.steps.size()); }
std::int64_t Composed::workspaceBytes() const { return state->asBuilt.workspaceBytes; }
std::string Composed::explain() const { return detail::planText(state->graph, state->asBuilt); }

/// A kernel by its number.
static const detail::PlanStep &stepOf(const detail::Plan &plan, int kernel, std::source_location loc) {
  const auto count = static_cast<int>(plan.steps.size());
  if (kernel < 0 || kernel >= count)
    throw UserError({SourceLoc(loc), {}, "graph", fmt::format("kernel {} of a graph of {} kernels", kernel, count), "graph_kernel",
                     fmt::format("kernels are numbered from 0 to {}", count - 1)});
  return plan.steps[static_cast<std::size_t>(kernel)];
}

std::string Composed::kernelName(int kernel, std::source_location loc) const { return stepOf(state->asBuilt, kernel, loc).kernel.name; }

std::string Composed::emit(std::string_view stage, std::string_view arch, int kernel, std::source_location loc) const {
  const detail::PlanStep &step = stepOf(state->asBuilt, kernel, loc);
  return detail::emit(step.kernel, state->argsOf(step, state->asBuilt, detail::ComposedState::nowhere()), state->configOf(step), stage, arch, CodePosition(loc));
}

} // namespace sectile
