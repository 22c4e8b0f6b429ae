// SPDX-License-Identifier: Apache-2.0
#include "dsl/ModelChoice.h"

#include "autotune/CostModel.h"
#include "autotune/Record.h"
#include "autotune/Space.h"
#include "dsl/BuildId.h"
#include "dsl/Choice.h"
#include "dsl/Context.h"
#include "dsl/Lower.h"
#include "dsl/Trace.h"
#include "ir/base/Artifact.h"
#include "runtime/KernelCache.h"

#include <fmt/format.h>

#include <algorithm>

namespace sectile {
namespace {

/// The same arguments with lengths that stand for their buckets.
std::vector<KernelArg> withBuckets(std::span<const KernelArg> args) {
  std::vector<KernelArg> all(args.begin(), args.end());
  for (KernelArg &arg : all)
    for (int d = 0; d < arg.rank; ++d)
      arg.dims[static_cast<std::size_t>(d)] = autotune::shapeBucket(arg.dims[static_cast<std::size_t>(d)]);
  return all;
}

/// Everything that the choice follows from, but for what the kernel does under other picks than the first.
std::string keyText(const std::string &module, const Config &asked, std::span<const KernelArg> args, const Target &target, int multiprocessors) {
  std::string text = fmt::format("choice of the model\nsectile {} {}\narch {} {}\n", SECTILE_VERSION, buildId(), target.arch, multiprocessors);
  for (const auto &[name, value] : asked.values())
    text += fmt::format("{} {}\n", name, fmt::join(value.choices, " "));
  for (const KernelArg &arg : args) {
    text += arg.isTensor() ? fmt::format("{:x}", packed(specialise(arg))) : std::string("scalar");
    for (int d = 0; d < arg.rank; ++d)
      text += fmt::format(" {}", arg.dims[static_cast<std::size_t>(d)]);
    text += "\n";
  }
  return text + module;
}

/// Ranks the combinations. The first values come from `asked`, a trace that left them.
ModelChoice rank(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config &asked, const Target &target, int multiprocessors) {
  autotune::SpaceLimits limits;
  for (const autotune::ScheduleField &field : autotune::scheduleFields())
    limits.only[field.name] = {0};
  limits.mostTraces = modelTraces;
  const autotune::Space space = autotune::makeSpace(kernel, args, &target, multiprocessors, limits, kernel.where);
  const auto first = std::find_if(space.candidates.begin(), space.candidates.end(), [](const autotune::Candidate &c) { return c.isDefault; });
  const autotune::Candidate &best = space.candidates.front();
  if (first == space.candidates.end()) // the target cannot run it
    return {best.config, fmt::format("predicted {:.1f} us, the first values cannot run on {}", best.predicted.micros, target.arch)};
  if (target.has(Feature::wgmma) && first->predicted.onTensorCores && !first->predicted.pipelined)
    return {std::nullopt, "operands that the TMA unit cannot load as they lie may be copied first, which the model does not know"};
  if (best.predicted.micros > modelMargin * first->predicted.micros)
    return {std::nullopt, fmt::format("predicted {:.1f} us, no other value much less", first->predicted.micros)};
  return {best.config, fmt::format("predicted {:.1f} us, the first values {:.1f} us", best.predicted.micros, first->predicted.micros)};
}

} // namespace

bool hasOpenPicks(const Config &config) {
  return std::any_of(config.values().begin(), config.values().end(), [](const auto &named) { return named.second.choices.size() > 1; });
}

double modelMicros(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Target &target) {
  const TracedWork traced = traceWork(kernel, args, Config());
  return autotune::predict(target, 0, traced, traced.config).micros;
}

ModelChoice modelChoice(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Target &target, int multiprocessors,
                        runtime::DiskCache *onDisk) {
  try {
    const std::vector<KernelArg> standing = withBuckets(args);
    Config asked;
    std::string module;
    {
      ContextLease context;
      module = moduleText(*detail::trace(*context, kernel, standing, asked));
    }
    if (!hasOpenPicks(asked))
      return {std::nullopt, "nothing to choose"};
    // Kept beside the code on disk: an artifact without code, whose log is the choice and why.
    runtime::DiskCache &disk = onDisk ? *onDisk : runtime::KernelCache::global().disk();
    const std::string key = keyText(module, asked, standing, target, multiprocessors);
    if (auto known = disk.find(key).artifact) {
      const std::size_t end = known->ptxasLog.find('\n');
      const std::string text = known->ptxasLog.substr(0, end), why = end == std::string::npos ? "" : known->ptxasLog.substr(end + 1);
      if (text.empty())
        return {std::nullopt, why};
      if (std::optional<Config> config = parseChoice(text))
        return {std::move(config), why};
    }
    ModelChoice choice = rank(kernel, standing, asked, target, multiprocessors);
    Artifact kept;
    kept.launch.symbol = fmt::format("{} (choice)", kernel.name);
    kept.arch = target.arch;
    kept.ptxasLog = (choice.config ? choiceText(*choice.config) : std::string()) + "\n" + choice.why;
    disk.insert(key, kept);
    return choice;
  } catch (const UserError &e) {
    return {std::nullopt, e.message()}; // of a trace, or of an empty space: the launch itself tells
  }
}

} // namespace sectile
