// SPDX-License-Identifier: Apache-2.0
/// \file The configurations that a kernel may be tuned over, each either a candidate or dropped for a stated reason.
///
/// A candidate fixes every number that the kernel picks (`cfg.pick`) and the schedule choices of Config. Numbers that cover
/// an axis (`cfg.cover`) follow from the arguments. A kernel may ask for other numbers in some configurations: each is
/// traced, and what it does not ask for is no part of it.
#pragma once

#include "autotune/CostModel.h"
#include "dsl/Work.h"

#include <sectile/Config.h>
#include <sectile/Export.h>
#include <sectile/Kernel.h>
#include <sectile/Targets.h>
#include <sectile/Tuner.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::autotune {

/// A schedule choice of Config, by name.
struct ScheduleField {
  const char *name;
  int Config::*member;
  bool isSwitch = false; ///< 0 by rule, 1 never, 2 wherever it can be done
};
SECTILE_API std::span<const ScheduleField> scheduleFields();

/// The text of a configuration that decides ties: names in order, "BK=64 BM=128 warps=8"; what is left to the compiler
/// is not in it.
SECTILE_API std::string configText(const Config &config);

struct Candidate {
  Config config;                            ///< what to compile with
  std::string text;                         ///< configText of it
  std::shared_ptr<const TracedWork> traced; ///< the same for all schedules
  bool isDefault = false;                   ///< what a launch takes that nothing is known of
  Prediction predicted;                     ///< micros 0 where there is no model (the interpreter)
};
struct Dropped {
  std::string text, reason;
};

struct Space {
  std::vector<Candidate> candidates; ///< the quickest by the model first; without a model, the default first, then by text
  std::vector<Dropped> dropped;
  std::size_t size() const { return candidates.size() + dropped.size(); }
};

/// What limits the space.
struct SpaceLimits {
  Config fixed;                                   ///< set by hand: not searched
  std::map<std::string, std::vector<int>> only;   ///< values of a name or schedule choice
  std::vector<TuneConstraint> constraints;
  std::size_t mostTraces = 4096;                  ///< of combinations of picks; beyond it, those near the default
  bool allSchedules = false;                      ///< also schedules that differ from the rule in several choices
};

/// All configurations of `kernel` for these arguments. `target` null: the interpreter, where schedules mean nothing.
/// UserErrors [tune_only] for a list that the kernel or schedule does not have, [tune_constraint] for a constraint that
/// throws, [tune_empty] when nothing is left, [tune_contradiction] when constraints that can each be met cannot be together.
SECTILE_API Space makeSpace(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Target *target,
                            int multiprocessors, const SpaceLimits &limits, CodePosition where);

/// The values of a switch that are worth a measurement beside the rule, which stands for 0 (Switches.cpp): the kernel has something
/// for it to act on, and the machine leaves it something to gain. `rule` is what the model says of the rule's schedule.
SECTILE_API std::vector<int> switchValues(const Target &target, int multiprocessors, const TracedWork &traced, const Prediction &rule,
                                          std::string_view name);

/// Why the target cannot run this configuration (Filter.cpp): more threads, registers or shared memory than it has, no
/// instruction of this shape. Empty if nothing speaks against it.
SECTILE_API std::string whyNot(const Target &target, const TracedWork &traced, const Config &config,
                               const Prediction &predicted);

} // namespace sectile::autotune
