// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph become one kernel. Nodes are taken in order; each is joined, where that is legal, to the groups
// before it that make what it reads, and to those that load the same tiles in a loop. A group that moves down to a node passes others
// that have nothing to do with it. What is left and could run inside every kernel that reads it then does. With fuse::automatic kernels run
// inside others, and share loops, only where the cost model does not expect it to take longer.
#include "dsl/Context.h"
#include "dsl/Diagnostics.h"
#include "dsl/GraphImpl.h"
#include "dsl/ModelChoice.h"
#include "dsl/Trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

using namespace mlir;

namespace sectile::detail {

/// Fills in `offsets` and `workspaceBytes`: tensors whose lifetimes meet do not overlap.
static void planMemory(const GraphState &graph, Plan &plan);

namespace {

constexpr std::int64_t workspaceAlignment = 256;

struct Group {
  std::vector<int> nodes; ///< in order
  const Composition *composition = nullptr;
  CompositionReport report;
  std::vector<std::pair<int, std::size_t>> origins = {}; ///< node and parameter behind each value of the composition
};

class Planner {
public:
  Planner(const GraphState &graph, Fuse how, const std::set<const Composition *> &refused, const Target &target)
      : graph(graph), how(how), refused(refused), target(target) {}

  Plan run() {
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
      place(n);
    for (std::size_t i = groups.size(); i-- > 0 && how.mode() != Fuse::Mode::none;)
      runInReaders(i);
    std::set<int> counted;
    for (const Group &g : groups)
      plan.steps.push_back(stepOf(g, counted));
    if (how.mode() == Fuse::Mode::require && groups.size() > 1)
      requireFailed();
    planMemory(graph, plan);
    return std::move(plan);
  }

private:
  const GraphNode &node(int n) const { return graph.nodes[static_cast<std::size_t>(n)]; }

  /// Tensors that are one piece of memory or share some.
  bool shareMemory(int x, int y) const {
    if (x == y)
      return true;
    const GraphValue &a = graph.values[static_cast<std::size_t>(x)], &b = graph.values[static_cast<std::size_t>(y)];
    const int rootA = graph.rootOf(x), rootB = graph.rootOf(y);
    const void *dataA = graph.values[static_cast<std::size_t>(rootA)].arg.data, *dataB = graph.values[static_cast<std::size_t>(rootB)].arg.data;
    if (rootA != rootB && (!dataA || !dataB))
      return false;
    const auto [aFirst, aEnd] = byteRange(a.arg);
    const auto [bFirst, bEnd] = byteRange(b.arg);
    const auto p = reinterpret_cast<std::intptr_t>(dataA) + a.first * static_cast<std::int64_t>(byteSize(a.arg.dtype)),
               q = reinterpret_cast<std::intptr_t>(dataB) + b.first * static_cast<std::int64_t>(byteSize(b.arg.dtype));
    return p + aFirst < q + bEnd && q + bFirst < p + aEnd;
  }
  /// Whether the order of two nodes matters.
  bool conflict(int x, int y) const {
    for (int a : node(x).values)
      for (int b : node(y).values)
        if (a >= 0 && b >= 0 && (node(x).writes(a) || node(y).writes(b)) && shareMemory(a, b))
          return true;
    return false;
  }
  bool conflict(const Group &x, const Group &y) const {
    return std::any_of(x.nodes.begin(), x.nodes.end(), [&](int a) {
      return std::any_of(y.nodes.begin(), y.nodes.end(), [&](int b) { return conflict(a, b); });
    });
  }
  /// A tensor that `from` writes and `to` reads.
  bool feeds(const Group &from, const Group &to) const {
    for (int a : from.nodes)
      for (int b : to.nodes)
        for (int v : node(b).values)
          if (v >= 0 && node(a).writes(v) && node(b).reads(v))
            return true;
    return false;
  }
  /// The same, where one of them sees it as another view.
  bool feedsView(const Group &from, const Group &to) const {
    for (int a : from.nodes)
      for (int written : node(a).values)
        for (int b : to.nodes)
          for (int read : node(b).values)
            if (written >= 0 && read >= 0 && node(a).writes(written) && node(b).reads(read) && graph.rootOf(written) == graph.rootOf(read))
              return true;
    return false;
  }

  bool mayMove(std::size_t i, std::size_t end) const {
    return std::none_of(groups.begin() + static_cast<std::ptrdiff_t>(i) + 1, groups.begin() + static_cast<std::ptrdiff_t>(end),
                        [&](const Group &between) { return conflict(groups[i], between); });
  }

  void place(int n) {
    Group next{{n}, nullptr, {}};
    if (how.mode() != Fuse::Mode::none) {
      for (std::size_t i = groups.size(); i-- > 0;) {
        if (!feeds(groups[i], next)) {
          if (feedsView(groups[i], next))
            stayApart(groups[i], n, {SourceLoc(node(n).where), "one of them sees the tensor between them as another view"});
          continue;
        }
        if (!mayMove(i, groups.size()))
          stayApart(groups[i], n, {SourceLoc(node(n).where), "a kernel between the two needs to run behind the first and before the second"});
        else if (auto no = join(groups[i], next))
          stayApart(groups[i], n, std::move(*no));
        else
          groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
      }
      for (std::size_t i = groups.size(); i-- > 0;) {
        if (!readTogether(groups[i], next) || conflict(groups[i], next) || !mayMove(i, groups.size()))
          continue;
        if (auto no = join(groups[i], next, true)) {
          if (hasProduct(groups[i]) && hasProduct(next))
            stayApart(groups[i], n, std::move(*no));
        } else {
          groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
    }
    groups.push_back(std::move(next));
  }
  /// A tensor that both read.
  bool readTogether(const Group &x, const Group &y) const {
    for (int a : x.nodes)
      for (int v : node(a).values)
        for (int b : y.nodes)
          if (v >= 0 && node(a).reads(v) && node(b).reads(v))
            return true;
    return false;
  }

  /// A group whose results have no memory of the caller's runs inside each group that reads them, once or several times, if all of them agree.
  void runInReaders(std::size_t i) {
    const Group from = groups[i];
    std::set<int> made;
    for (int n : from.nodes)
      for (int v : node(n).values)
        if (v >= 0 && node(n).writes(v)) {
          if (const GraphValue &value = graph.values[static_cast<std::size_t>(v)]; value.hasMemory() || value.isViewed)
            return;
          made.insert(v);
        }
    std::vector<std::pair<std::size_t, Group>> readers;
    double apart = 0, together = 0;
    for (std::size_t r = i + 1; r < groups.size(); ++r) {
      // What it reads has to be as it was, and it is the only one to write its results.
      for (int n : from.nodes)
        for (int v : node(n).values)
          for (int m : groups[r].nodes)
            for (int w : node(m).values)
              if (v >= 0 && w >= 0 && node(m).writes(w) && shareMemory(v, w) && !recomputed.contains(w))
                return;
      if (feeds(from, groups[r]))
        readers.emplace_back(r, groups[r]);
    }
    for (auto &[r, reader] : readers) {
      apart += micros(reader);
      if (auto no = join(from, reader, false, &made)) {
        if (readers.size() > 1 || plan.refusals.empty()) // of a single one, it was said before
          stayApart(from, reader.nodes.back(), std::move(*no));
        return;
      }
      together += micros(reader);
    }
    if (readers.empty())
      return;
    if (auto no = slower(together, apart + micros(from), readers.front().second.nodes.back())) {
      stayApart(from, readers.front().second.nodes.back(), std::move(*no));
      return;
    }
    std::erase_if(plan.refusals, [&](const PlanRefusal &r) { return r.first == from.nodes.back(); });
    for (auto &[r, reader] : readers)
      groups[r] = std::move(reader);
    recomputed.insert(made.begin(), made.end());
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void stayApart(const Group &first, int second, CompositionRefusal why) {
    if (std::none_of(plan.refusals.begin(), plan.refusals.end(), [&](const PlanRefusal &r) {
          return r.first == first.nodes.back() && r.second == second && r.why.why == why.why;
        }))
      plan.refusals.push_back({first.nodes.back(), second, std::move(why)});
  }

  /// Makes `next` the group of both, if that is legal and the cost model has nothing against it; else says why not. `siblings`: only if
  /// a loop loads for both. `inside`: tensors without memory although others read them, of which the caller sees to the cost.
  std::optional<CompositionRefusal> join(const Group &before, Group &next, bool siblings = false, const std::set<int> *inside = nullptr) {
    Group both;
    both.nodes = before.nodes;
    both.nodes.insert(both.nodes.end(), next.nodes.begin(), next.nodes.end());
    std::sort(both.nodes.begin(), both.nodes.end());
    both.nodes.erase(std::unique(both.nodes.begin(), both.nodes.end()), both.nodes.end());
    const int second = next.nodes.back();
    Composition c;
    if (!describe(both, c, inside))
      return why;
    // Who has a product keeps its tiles; among others, somebody's tiles may suit all.
    std::optional<CompositionRefusal> first;
    const std::size_t leaders = hasProduct(both.nodes[c.leader]) ? 1 : both.nodes.size();
    for (std::size_t i = 0; i < leaders; ++i) {
      Composition led = c;
      led.leader = (c.leader + i) % both.nodes.size();
      auto no = compose(both, intern(std::move(led), node(second).where));
      if (!no && siblings && both.report.shared.size() <= before.report.shared.size() + next.report.shared.size())
        no = CompositionRefusal{SourceLoc(node(second).where), "their loops do not load the same tiles"};
      if (!no && how.mode() == Fuse::Mode::automatic && std::any_of(both.report.inside.begin(), both.report.inside.end(), [&](int part) {
            return hasProduct(both.nodes[static_cast<std::size_t>(part)]);
          }))
        no = CompositionRefusal{SourceLoc(node(second).where), "a product would run where its tiles are loaded, which fuse::require alone does"};
      // Appended, nothing is computed twice and traffic is saved; else it has to be worth it.
      const bool isAppended = !siblings && both.report.inside.size() <= before.report.inside.size() + next.report.inside.size();
      if (!no && !inside && !isAppended)
        no = slower(micros(both), micros(before) + micros(next), second);
      if (!no) {
        next = std::move(both);
        return std::nullopt;
      }
      first = first.value_or(*no);
    }
    return first;
  }

  /// What the cost model expects of a group's kernel.
  double micros(const Group &g) {
    auto [it, isNew] = expected.try_emplace(std::pair(g.composition, g.composition ? -1 : g.nodes.front()), 0);
    if (isNew)
      it->second = modelMicros(g.composition ? g.composition->desc : node(g.nodes.front()).kernel, argsOf(g), target);
    return it->second;
  }
  /// fuse::automatic computes nothing where that takes longer.
  std::optional<CompositionRefusal> slower(double one, double several, int second) const {
    if (how.mode() != Fuse::Mode::automatic || one <= several)
      return std::nullopt;
    return CompositionRefusal{SourceLoc(node(second).where),
                              fmt::format("the cost model expects {:.1f} us of the one kernel, {:.1f} us of those that it would replace", one, several)};
  }

  std::optional<CompositionRefusal> compose(Group &both, const Composition &kept) {
    if (refused.contains(&kept))
      return CompositionRefusal{SourceLoc(kept.desc.where), "the one kernel needs more than the GPU has"};
    both.composition = &kept;
    ContextLease context;
    Config config;
    auto composed = composeModule(*context, kept, argsOf(both), config);
    if (auto *no = std::get_if<CompositionRefusal>(&composed))
      return *no;
    both.report = std::get<ComposedModule>(composed).report;
    return std::nullopt;
  }
  /// Arguments of the group's kernel.
  std::vector<KernelArg> argsOf(const Group &g) const {
    std::vector<KernelArg> args;
    if (!g.composition)
      for (std::size_t p = 0; p < node(g.nodes.front()).values.size(); ++p)
        args.push_back(graph.argOf(node(g.nodes.front()), p));
    for (std::size_t v = 0; v < g.origins.size(); ++v)
      if (g.composition->values[v].param >= 0)
        args.push_back(graph.argOf(node(g.origins[v].first), g.origins[v].second));
    return args;
  }

  /// The composition of these nodes; `why` if there can be none.
  bool describe(Group &g, Composition &c, const std::set<int> *inside) {
    g.origins.clear();
    std::map<int, int> ofValue;                 // graph's value -> composition's
    std::map<std::int64_t, int> classes;        // lengths
    c.keepRounding = how.keepsRounding();
    c.leader = leaderOf(g);
    for (int n : g.nodes) {
      CompositionPart part{node(n).kernel, {}, {}};
      for (std::size_t p = 0; p < node(n).values.size(); ++p) {
        const int value = node(n).values[p];
        auto known = value < 0 ? ofValue.end() : ofValue.find(value);
        if (known != ofValue.end()) {
          part.values.push_back(known->second);
          c.values[static_cast<std::size_t>(known->second)].desc.readOnly &= node(n).kernel.params[p].readOnly;
          continue;
        }
        const int number = static_cast<int>(c.values.size());
        if (value >= 0)
          ofValue[value] = number;
        CompositionValue own{node(n).kernel.params[p], {}, 0};
        if (value >= 0)
          for (int d = 0; d < own.desc.rank; ++d) {
            const std::int64_t length = graph.values[static_cast<std::size_t>(value)].arg.dims[static_cast<std::size_t>(d)];
            if (length == 0)
              return because(n, "a tensor has no elements");
            own.lengths.push_back(classes.try_emplace(length, static_cast<int>(classes.size())).first->second);
          }
        c.values.push_back(std::move(own));
        g.origins.emplace_back(n, p);
        part.values.push_back(number);
      }
      c.parts.push_back(std::move(part));
    }
    for (const auto &[x, a] : ofValue)
      for (const auto &[y, b] : ofValue)
        if (x < y && !(c.values[static_cast<std::size_t>(a)].desc.readOnly && c.values[static_cast<std::size_t>(b)].desc.readOnly) &&
            shareMemory(x, y))
          return because(g.nodes.back(), "a tensor that one of them writes shares memory with another one");
    for (const auto &[value, number] : ofValue)
      if (isBetween(g, value) || recomputed.contains(value) || (inside && inside->contains(value)))
        c.values[static_cast<std::size_t>(number)].param = -1;
    int next = 0;
    for (CompositionValue &v : c.values)
      if (v.param >= 0)
        v.param = next++;
    for (const CompositionValue &v : c.values)
      for (int length : v.param < 0 ? v.lengths : std::vector<int>())
        if (std::none_of(c.values.begin(), c.values.end(), [&](const CompositionValue &o) {
              return o.param >= 0 && std::find(o.lengths.begin(), o.lengths.end(), length) != o.lengths.end();
            }))
          return because(g.nodes.back(), "a length of the tensor between them is no other tensor's");
    return true;
  }
  bool because(int n, std::string text) {
    why = {SourceLoc(node(n).where), std::move(text)};
    return false;
  }

  /// Written and read by nodes of this group alone, with no memory of its own.
  bool isBetween(const Group &g, int value) const {
    if (const GraphValue &v = graph.values[static_cast<std::size_t>(value)]; v.hasMemory() || v.isViewed)
      return false;
    bool isRead = false;
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
      if (node(n).touches(value)) {
        if (std::find(g.nodes.begin(), g.nodes.end(), n) == g.nodes.end())
          return false;
        isRead |= node(n).reads(value);
      }
    return isRead;
  }

  /// The node whose programs the others take over: the first with a product, else the first.
  std::size_t leaderOf(const Group &g) {
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
      if (hasProduct(g.nodes[i]))
        return i;
    return 0;
  }
  bool hasProduct(const Group &g) {
    return std::any_of(g.nodes.begin(), g.nodes.end(), [&](int n) { return hasProduct(n); });
  }
  bool hasProduct(int n) {
    auto [it, isNew] = products.try_emplace(n, false);
    if (isNew) {
      std::vector<KernelArg> args;
      for (std::size_t p = 0; p < node(n).values.size(); ++p)
        args.push_back(graph.argOf(node(n), p));
      ContextLease context;
      Config config;
      trace(*context, node(n).kernel, args, config)->walk([&](tileir::MmaOp) { it->second = true; });
    }
    return it->second;
  }

  /// `counted`: nodes of steps before it.
  PlanStep stepOf(const Group &g, std::set<int> &counted) {
    PlanStep step;
    step.nodes = g.nodes;
    if (!g.composition) {
      const GraphNode &only = node(g.nodes.front());
      step.kernel = only.kernel;
      step.values = only.values;
      step.numbers = only.numbers;
      return step;
    }
    step.kernel = g.composition->desc;
    step.fused = g.report;
    for (std::size_t v = 0; v < g.origins.size(); ++v) {
      const auto [n, p] = g.origins[v];
      if (g.composition->values[v].param < 0)
        continue;
      step.values.push_back(node(n).values[p]);
      step.numbers.push_back(node(n).numbers[p]);
    }
    auto valuesOf = [&](const std::vector<int> &numbers) {
      std::vector<int> values;
      for (int number : numbers) {
        const auto [n, p] = g.origins[static_cast<std::size_t>(number)];
        values.push_back(node(n).values[p]);
      }
      return values;
    };
    step.vanished = valuesOf(g.report.vanished);
    step.unrounded = valuesOf(g.report.unrounded);
    step.shared = valuesOf(g.report.shared);
    for (int part : g.report.inside)
      step.inside.push_back(g.nodes[static_cast<std::size_t>(part)]);
    std::sort(step.inside.begin(), step.inside.end());
    // A kernel moves each of its tensors once.
    auto bytesOf = [&](const std::vector<int> &values) {
      std::int64_t bytes = 0;
      for (int v : std::set<int>(values.begin(), values.end()))
        bytes += v < 0 ? 0 : byteCount(graph.values[static_cast<std::size_t>(v)].arg);
      return bytes;
    };
    step.bytesSaved = -bytesOf(step.values);
    step.launchesSaved = -1;
    for (int n : g.nodes)
      if (counted.insert(n).second) {
        step.bytesSaved += bytesOf(node(n).values);
        ++step.launchesSaved;
      }
    return step;
  }

  [[noreturn]] void requireFailed() {
    const std::string nodes = fmt::format("{} nodes become {} kernels", graph.nodes.size(), groups.size());
    if (plan.refusals.empty())
      throw UserError({SourceLoc(graph.where), {}, "graph", fmt::format("{}: some have no tensor in common", nodes), "fuse_require",
                       "build a graph of each, or with fuse::automatic"});
    const PlanRefusal &r = plan.refusals.front();
    throw UserError({r.why.at, node(r.second).kernel.name, "graph",
                     fmt::format("{}: '{}' and '{}' are not fused: {}", nodes, node(r.first).kernel.name, node(r.second).kernel.name, r.why.why),
                     "fuse_require", "change the kernels so that they agree, or build with fuse::automatic"});
  }

  const GraphState &graph;
  Fuse how;
  const std::set<const Composition *> &refused;
  const Target &target;
  std::vector<Group> groups;
  std::map<int, bool> products;
  std::map<std::pair<const Composition *, int>, double> expected; ///< microseconds, of a composition or a node
  std::set<int> recomputed;                                       ///< values that each group that reads them computes for itself
  CompositionRefusal why;                           ///< if it could not be described
  Plan plan;
};

} // namespace

static void planMemory(const GraphState &graph, Plan &plan) {
  struct Piece {
    int value;
    std::int64_t bytes, first, last, offset;
  };
  std::vector<Piece> pieces;
  plan.offsets.assign(graph.values.size(), -1);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].hasMemory())
      continue;
    Piece piece{static_cast<int>(v), byteCount(graph.values[v].arg), -1, -1, 0};
    piece.bytes = (std::max<std::int64_t>(piece.bytes, 1) + workspaceAlignment - 1) / workspaceAlignment * workspaceAlignment;
    for (std::size_t s = 0; s < plan.steps.size(); ++s)
      if (const auto &values = plan.steps[s].values;
          std::any_of(values.begin(), values.end(), [&](int used) { return used >= 0 && graph.rootOf(used) == piece.value; })) {
        piece.first = piece.first < 0 ? static_cast<std::int64_t>(s) : piece.first;
        piece.last = static_cast<std::int64_t>(s);
      }
    if (piece.first >= 0)
      pieces.push_back(piece);
  }
  // The largest first, each at the lowest place that is free while it lives.
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece &a, const Piece &b) { return a.bytes > b.bytes; });
  std::vector<Piece> placed;
  for (Piece &piece : pieces) {
    std::vector<Piece> others;
    for (const Piece &p : placed)
      if (p.first <= piece.last && piece.first <= p.last)
        others.push_back(p);
    std::sort(others.begin(), others.end(), [](const Piece &a, const Piece &b) { return a.offset < b.offset; });
    for (const Piece &p : others)
      if (piece.offset < p.offset + p.bytes && p.offset < piece.offset + piece.bytes)
        piece.offset = p.offset + p.bytes;
    placed.push_back(piece);
    plan.offsets[static_cast<std::size_t>(piece.value)] = piece.offset;
    plan.workspaceBytes = std::max(plan.workspaceBytes, piece.offset + piece.bytes);
  }
}

static std::string sizeText(std::int64_t bytes) {
  return std::abs(bytes) >= 1'000'000 ? fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6) : fmt::format("{} B", bytes);
}

std::string planText(const GraphState &graph, const Plan &plan) {
  std::int64_t saved = 0;
  for (const PlanStep &step : plan.steps)
    saved += step.bytesSaved;
  std::string text = fmt::format("graph {}: nodes: {}, kernels: {}; saved: launches: {}, memory traffic: {}; workspace: {}\n", graph.name,
                                 graph.nodes.size(), plan.steps.size(), graph.nodes.size() - plan.steps.size(), sizeText(saved),
                                 sizeText(plan.workspaceBytes));
  auto lines = [&](const std::vector<int> &values) {
    std::vector<std::uint32_t> list;
    for (int v : values)
      list.push_back(graph.values[static_cast<std::size_t>(v)].where.line());
    return fmt::format("{}", fmt::join(list, ", "));
  };
  for (const PlanStep &step : plan.steps) {
    if (!step.fused) {
      text += fmt::format("  {}\n", step.kernel.name);
      continue;
    }
    text += fmt::format("  {}: nodes: {}; saved: launches: {}, memory traffic: {}", step.kernel.name, step.nodes.size(), step.launchesSaved, sizeText(step.bytesSaved));
    if (!step.vanished.empty())
      text += fmt::format("; without memory: the tensors made at lines {}", lines(step.vanished));
    if (!step.inside.empty()) {
      std::vector<std::string> names;
      for (int n : step.inside)
        names.push_back(fmt::format("'{}'", graph.nodes[static_cast<std::size_t>(n)].kernel.name));
      text += fmt::format("; computed where it is loaded: {}", fmt::join(names, ", "));
    }
    if (!step.shared.empty())
      text += fmt::format("; loaded once in a loop for several: the tensors made at lines {}", lines(step.shared));
    if (!step.unrounded.empty())
      text += fmt::format("; not rounded to 16 bits on the way: those of lines {}", lines(step.unrounded));
    text += "\n";
  }
  for (const PlanRefusal &r : plan.refusals)
    text += fmt::format("  not fused: {}:{}: '{}' and '{}': {}\n", r.why.at.file, r.why.at.line,
                        graph.nodes[static_cast<std::size_t>(r.first)].kernel.name, graph.nodes[static_cast<std::size_t>(r.second)].kernel.name, r.why.why);
  return text;
}

const Target &usualTarget() {
  static const Target &target = *findTarget("sm_90a");
  return target;
}

Plan planGraph(const GraphState &graph, Fuse how, const std::set<const Composition *> &refused, const Target &target) {
  return Planner(graph, how, refused, target).run();
}

} // namespace sectile::detail
