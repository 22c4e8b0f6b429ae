// SPDX-License-Identifier: Apache-2.0
#include "autotune/Space.h"

#include <sectile/Error.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

namespace sectile::autotune {
namespace {

constexpr ScheduleField fields[] = {
    {"warps", &Config::warps},
    {"stages", &Config::stages},
    {"cluster", &Config::cluster},
    {"raster", &Config::raster},
    {"split", &Config::split},
    {"blocks", &Config::blocks},
    {"repack", &Config::repack},
    {"async", &Config::async, true},
    {"pingpong", &Config::pingpong, true},
    {"multicast", &Config::multicast, true},
    {"snake", &Config::snake, true},
    {"streamk", &Config::streamk, true},
    {"overlap", &Config::overlap, true},
    {"keep", &Config::keep, true},
    {"persistent", &Config::persistent, true},
    {"prefetch", &Config::prefetch, true},
    {"evict", &Config::evict, true},
};

using Values = std::vector<int>;

[[noreturn]] void fail(const detail::KernelDesc &kernel, CodePosition where, std::string message, const char *rule,
                       std::string wayOut) {
  throw UserError({where, kernel.name, "tune", std::move(message), rule, std::move(wayOut)});
}

const ScheduleField *fieldOf(std::string_view name) {
  for (const ScheduleField &f : fields)
    if (f.name == name)
      return &f;
  return nullptr;
}

std::string fieldNames() {
  std::string text;
  for (const ScheduleField &f : fields)
    text += (text.empty() ? "" : ", ") + std::string(f.name);
  return text;
}

std::string listText(const Values &list) { return fmt::format("{{{}}}", fmt::join(list, ", ")); }

/// One combination of picks, traced.
struct Combination {
  Config config; ///< picks by hand
  std::shared_ptr<const TracedWork> traced;
  std::string error;
  Config seen; ///< of a trace that failed: with what it had asked for
  bool hasUnasked = false; ///< it sets numbers that the kernel does not ask for in this combination
};

class Builder {
public:
  Builder(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Target *target, int multiprocessors,
          const SpaceLimits &limits, CodePosition where)
      : kernel(kernel), args(args), target(target), multiprocessors(multiprocessors), limits(limits), where(where) {}

  Space run() {
    for (const auto &[name, values] : limits.only)
      if (values.empty())
        fail(kernel, where, fmt::format("\"{}\" is to have no value", name), "tune_only", "list at least one value");
    traceAll();
    checkNames();
    for (const Combination &c : combinations) {
      if (c.traced)
        addSchedules(c);
      else
        space.dropped.push_back({configText(c.config), c.error});
    }
    if (space.candidates.empty())
      failEmpty();
    markDefault();
    std::stable_sort(space.candidates.begin(), space.candidates.end(), [](const Candidate &a, const Candidate &b) {
      if (a.predicted.micros != b.predicted.micros)
        return a.predicted.micros < b.predicted.micros;
      return std::pair(!a.isDefault, a.text) < std::pair(!b.isDefault, b.text);
    });
    return std::move(space);
  }

private:
  /// The values of a pick that may be tried, in the kernel's order.
  Values choicesOf(const std::string &name, const Values &choices) {
    auto it = limits.only.find(name);
    if (it == limits.only.end())
      return choices;
    for (int v : it->second)
      if (std::find(choices.begin(), choices.end(), v) == choices.end())
        fail(kernel, where, fmt::format("\"{}\" is to be {}, and the kernel picks from {}", name, v, listText(choices)), "tune_only",
             "name values that the kernel lists");
    Values kept;
    std::copy_if(choices.begin(), choices.end(), std::back_inserter(kept), [&](int v) {
      return std::find(it->second.begin(), it->second.end(), v) != it->second.end();
    });
    return kept;
  }

  /// Traces the configurations in `wave` on all processors.
  void trace(std::vector<Combination> &wave) {
    std::atomic<std::size_t> next{0};
    auto work = [&] {
      for (std::size_t i; (i = next.fetch_add(1)) < wave.size();) {
        try {
          wave[i].traced = std::make_shared<const TracedWork>(traceWork(kernel, args, wave[i].config, &wave[i].seen));
        } catch (const UserError &e) {
          wave[i].error = fmt::format("{} [{}]", e.message(), e.rule());
          wave[i].hasUnasked = e.rule() == "config_unknown";
        }
      }
    };
    const std::size_t count = std::min<std::size_t>({wave.size() / 8 + 1, std::max(1u, std::thread::hardware_concurrency()), 16});
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < count; ++i)
      threads.emplace_back(work);
    work();
    for (std::thread &t : threads)
      t.join();
  }

  /// All combinations of picks. Names that only some combinations ask for are found on the way: what a trace asks for
  /// and was not set branches into its choices.
  void traceAll() {
    Combination first;
    first.config = limits.fixed;
    for (const ScheduleField &f : fields)
      first.config.*f.member = 0;
    first.traced = std::make_shared<const TracedWork>(traceWork(kernel, args, first.config)); // its errors are the caller's
    std::set<std::string> seen;
    std::vector<Combination> wave{std::move(first)};
    std::size_t traces = 1;
    while (!wave.empty()) {
      std::vector<Combination> next;
      for (Combination &c : wave) {
        if (!c.traced) {
          // Numbers that this combination does not ask for are no part of it.
          Config asked = limits.fixed;
          for (const auto &[name, value] : c.seen.values())
            if (value.asked && value.byHand && value.coverArg < 0)
              asked.set(name, value.value);
          if (std::string text = configText(asked); !c.hasUnasked || text == configText(c.config))
            combinations.push_back(std::move(c));
          else if (seen.insert(text).second)
            next.push_back({std::move(asked), nullptr, {}, {}, false});
          continue;
        }
        // The names that this trace asked for and that are still open.
        std::vector<std::pair<std::string, Values>> open;
        for (const auto &[name, value] : c.traced->config.values())
          if (value.coverArg < 0) {
            asked[name].insert(value.choices.begin(), value.choices.end());
            if (!c.config.get(name))
              open.emplace_back(name, choicesOf(name, value.choices));
          }
        if (open.empty()) {
          combinations.push_back(std::move(c));
          continue;
        }
        std::vector<Config> configs{c.config};
        std::size_t total = 1;
        for (const auto &[name, choices] : open)
          total *= choices.size();
        const int mostChanges = changesThatFit(open, total, traces);
        for (const auto &[name, choices] : open) {
          std::vector<Config> longer;
          for (const Config &head : configs)
            for (int v : choices) {
              Config config = head;
              config.set(name, v);
              longer.push_back(std::move(config));
            }
          configs = std::move(longer);
        }
        for (Config &config : configs) {
          int changes = 0;
          for (const auto &[name, choices] : open)
            changes += config.get(name) != choices.front();
          if (changes > mostChanges)
            continue;
          if (std::string text = configText(config); seen.insert(text).second) {
            next.push_back({std::move(config), nullptr, {}, {}, false});
            ++traces;
          }
        }
      }
      wave = std::move(next);
      trace(wave);
    }
    std::stable_sort(combinations.begin(), combinations.end(),
                     [](const Combination &a, const Combination &b) { return configText(a.config) < configText(b.config); });
  }

  /// Of more combinations than may be traced, those that differ from the default in the fewest numbers.
  int changesThatFit(const std::vector<std::pair<std::string, Values>> &open, std::size_t total, std::size_t traces) {
    if (total + traces <= limits.mostTraces)
      return static_cast<int>(open.size());
    std::vector<double> ways{1}; // by number of changes
    for (const auto &[name, choices] : open) {
      ways.push_back(0);
      for (std::size_t k = ways.size() - 1; k > 0; --k)
        ways[k] += ways[k - 1] * static_cast<double>(choices.size() - 1);
    }
    double sum = ways[0];
    int changes = 0;
    while (changes + 1 < static_cast<int>(ways.size()) && sum + ways[static_cast<std::size_t>(changes) + 1] <= static_cast<double>(limits.mostTraces))
      sum += ways[static_cast<std::size_t>(++changes)];
    space.dropped.push_back({fmt::format("{} combinations", total - static_cast<std::size_t>(sum)),
                             fmt::format("more than {} numbers differ from the default: not looked at", changes)});
    return changes;
  }

  void checkNames() {
    for (const auto &[name, values] : limits.only)
      if (!fieldOf(name) && !asked.contains(name)) {
        std::string names;
        for (const auto &[n, v] : asked)
          names += n + ", ";
        fail(kernel, where, fmt::format("\"{}\" is no number of this kernel", name), "tune_only",
             fmt::format("name one of {}{}", names, fieldNames()));
      }
  }

  /// What is worth trying of a schedule choice; 0, the rule, first.
  Values valuesOf(const ScheduleField &field, const TracedWork &traced, const Prediction &rule) const {
    const KernelWork &work = traced.work;
    if (limits.fixed.*field.member)
      return {limits.fixed.*field.member};
    if (!target)
      return {0};
    if (auto it = limits.only.find(field.name); it != limits.only.end())
      return it->second;
    const std::string_view name = field.name;
    if (field.isSwitch) {
      Values values = switchValues(*target, multiprocessors, traced, rule, name);
      values.insert(values.begin(), 0);
      return values;
    }
    const bool products = !work.products.empty();
    if (name == "warps")
      return products ? Values{0, 4, 8, 16} : Values{0, 1, 2, 4, 8, 16, 32};
    if (name == "stages")
      return products && target->has(Feature::tma) ? Values{0, 2, 3, 4, 1} : Values{0};
    if (name == "raster")
      return products && work.grid.size() >= 2 && work.grid[work.grid.size() - 2] > 1 ? Values{0, 2, 4, 8, 16} : Values{0};
    if (name == "blocks")
      return products && target->has(Feature::tma) ? Values{0, 2} : Values{0};
    if (name == "cluster")
      return !products && target->clusterBlocks > 1 && work.largestReduced >= 2048 ? Values{0, 1, 2, 4, 8} : Values{0};
    if (name == "split")
      return work.canSplit && work.programs < 2.0 * (multiprocessors > 0 ? multiprocessors : target->smCount)
                 ? products ? Values{0, 2, 4, 8, 16} : Values{0, 1, 4, 16, 64}
                 : Values{0};
    return {0};
  }

  void addSchedules(const Combination &c) {
    std::vector<Config> configs{c.config};
    const Prediction rule = target ? predict(*target, multiprocessors, *c.traced, c.config) : Prediction();
    for (const ScheduleField &field : fields) {
      std::vector<Config> longer;
      const Values values = valuesOf(field, *c.traced, rule);
      for (const Config &head : configs)
        for (int v : values) {
          if (!limits.allSchedules && v && isFree(field) && (changedFields(head) >= 2 || (field.isSwitch && hasSwitch(head))))
            continue;
          Config config = head;
          config.*field.member = v;
          longer.push_back(std::move(config));
        }
      configs = std::move(longer);
    }
    for (Config &config : configs)
      add(c, std::move(config));
  }
  /// The caller left it to the search.
  bool isFree(const ScheduleField &f) const { return !(limits.fixed.*f.member) && !limits.only.contains(f.name); }
  int changedFields(const Config &config) const {
    return static_cast<int>(std::count_if(std::begin(fields), std::end(fields), [&](const ScheduleField &f) { return config.*f.member && isFree(f); }));
  }
  bool hasSwitch(const Config &config) const {
    return std::any_of(std::begin(fields), std::end(fields), [&](const ScheduleField &f) { return f.isSwitch && config.*f.member && isFree(f); });
  }

  void add(const Combination &c, Config config) {
    Candidate candidate{std::move(config), {}, c.traced, false, {}};
    candidate.text = configText(candidate.config);
    if (std::string name = violated(candidate.config, *c.traced); !name.empty()) {
      space.dropped.push_back({candidate.text, "breaks the constraint " + name});
      return;
    }
    if (target) {
      candidate.predicted = predict(*target, multiprocessors, *c.traced, candidate.config);
      if (std::string reason = whyNot(*target, *c.traced, candidate.config, candidate.predicted); !reason.empty()) {
        space.dropped.push_back({candidate.text, std::move(reason)});
        return;
      }
    }
    space.candidates.push_back(std::move(candidate));
  }

  /// The first constraint that does not hold; also counts who dropped what.
  std::string violated(const Config &config, const TracedWork &traced) {
    Config seen = traced.config; // with the numbers that cover axes
    for (const ScheduleField &f : fields)
      seen.*f.member = config.*f.member;
    std::string first;
    bool all = true;
    met.resize(limits.constraints.size());
    for (std::size_t i = 0; i < limits.constraints.size(); ++i) {
      const TuneConstraint &constraint = limits.constraints[i];
      bool holds = false;
      try {
        holds = constraint.holds && constraint.holds(seen);
      } catch (const std::exception &e) {
        fail(kernel, where, fmt::format("the constraint {} throws for {}: {}", constraint.name, configText(config), e.what()),
             "tune_constraint", "ask with get() whether a number is there");
      }
      met[i] += holds;
      all = all && holds;
      if (!holds && first.empty())
        first = constraint.name.empty() ? fmt::format("number {}", i + 1) : constraint.name;
    }
    constrained += !all;
    return first;
  }

  [[noreturn]] void failEmpty() {
    // Constraints alone empty the space: one that never holds, or several that never hold together.
    if (constrained && constrained == space.dropped.size()) {
      std::string names;
      for (std::size_t i = 0; i < limits.constraints.size(); ++i) {
        names += (i ? ", " : "") + limits.constraints[i].name;
        if (met[i] == 0)
          fail(kernel, where, fmt::format("none of {} configurations meets the constraint {}", constrained, limits.constraints[i].name),
               "tune_empty", "loosen it, or add values to the picks that it is about");
      }
      fail(kernel, where, fmt::format("none of {} configurations meets the constraints {} together, though some meet each", constrained, names),
           "tune_contradiction", "drop or loosen one of them");
    }
    std::map<std::string, std::size_t> reasons;
    for (const Dropped &d : space.dropped)
      ++reasons[d.reason];
    auto most = std::max_element(reasons.begin(), reasons.end(), [](const auto &a, const auto &b) { return a.second < b.second; });
    fail(kernel, where,
         most == reasons.end() ? std::string("no configuration is there to tune")
                               : fmt::format("no configuration is left of {}; {} of them: {}", space.dropped.size(), most->second, most->first),
         "tune_empty", "list smaller values in the picks, or set fewer by hand");
  }

  void markDefault() {
    Config config = combinationDefault();
    const std::string text = configText(config);
    for (Candidate &c : space.candidates)
      c.isDefault = c.text == text;
  }
  /// The first value of every pick, schedules by rule.
  Config combinationDefault() const {
    Config start = limits.fixed;
    TracedWork first = traceWork(kernel, args, start);
    for (const auto &[name, value] : first.config.values())
      if (value.coverArg < 0)
        start.set(name, value.value);
    return start;
  }

  const detail::KernelDesc &kernel;
  std::span<const KernelArg> args;
  const Target *target;
  int multiprocessors;
  const SpaceLimits &limits;
  CodePosition where;
  std::vector<Combination> combinations;
  std::map<std::string, std::set<int>> asked;
  std::vector<std::size_t> met;
  std::size_t constrained = 0;
  Space space;
};

} // namespace

std::span<const ScheduleField> scheduleFields() { return fields; }

std::string configText(const Config &config) { return config.str(); }

Space makeSpace(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Target *target, int multiprocessors,
                const SpaceLimits &limits, CodePosition where) {
  return Builder(kernel, args, target, multiprocessors, limits, where).run();
}

} // namespace sectile::autotune
