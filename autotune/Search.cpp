// SPDX-License-Identifier: Apache-2.0
#include "autotune/Search.h"

#include "autotune/CompilePool.h"
#include "dsl/Compile.h"
#include "runtime/KernelCache.h"
#include "runtime/Module.h"

#include <sectile/Error.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <set>
#include <unordered_map>

namespace sectile::autotune {
namespace {

using Clock = std::chrono::steady_clock;
using State = TunedCandidate::State;

constexpr int quickSamples = 3;       ///< before a candidate is a finalist
constexpr int leastSamples = 7, mostSamples = 41; ///< of a finalist
constexpr double quickMargin = 1.10;  ///< a finalist's quick median is within this of the best
constexpr double unpromising = 3;     ///< by the model, over its best: not compiled
constexpr double narrow = 0.01;       ///< spread of an interval that decides
constexpr double noisySpread = 0.03, noisyDrift = 0.05;
constexpr double tieMargin = 1.01;    ///< of medians whose intervals meet
constexpr double warmMillis = 20;
constexpr std::size_t mostFinalists = 12;
constexpr double smallWork = 2e7;     ///< operations of a launch that the interpreter checks

/// A candidate on its way.
struct Entry {
  std::size_t index = 0; ///< in the space
  TunedCandidate out;
  std::vector<double> samples;
  bool asked = false, live = false, isKnown = false;
  std::string code;
  MedianInterval interval;
};

class Searcher {
public:
  Searcher(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const SearchSetup &setup)
      : kernel(kernel), args(args), setup(setup), options(setup.options), where(options.where), begin(Clock::now()) {}

  TuneResult run() {
    auto starting = std::async(std::launch::async, setup.makeMeasurer); // beside the traces
    const Target *target = setup.device.isInterpreter() ? nullptr : findTarget(setup.device.arch());
    SpaceLimits limits{options.fixed, options.only, options.constraints, 4096, options.exhaustive};
    try {
      space = makeSpace(kernel, args, target, setup.device.properties().multiprocessors, limits, where);
    } catch (...) {
      starting.wait(); // its error, if any, is not the first
      throw;
    }
    if (setup.model) {
      for (Candidate &c : space.candidates)
        c.predicted.micros = setup.model(c);
      std::stable_sort(space.candidates.begin(), space.candidates.end(),
                       [](const Candidate &a, const Candidate &b) { return a.predicted.micros < b.predicted.micros; });
    }
    for (std::size_t i = 0; i < space.candidates.size(); ++i) {
      const Candidate &c = space.candidates[i];
      Entry e;
      e.index = i;
      e.out.text = c.text;
      e.out.config = c.config;
      e.out.isDefault = c.isDefault;
      e.out.predictedMicros = c.predicted.micros;
      e.out.reason = "not looked at";
      entries.push_back(std::move(e));
    }
    if (!space.candidates.empty())
      bound = boundOf(target, space.candidates.front().traced->work);
    const int threads = options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    {
      CompilePool pool(threads, [this](int id) { return codeOf(space.candidates[static_cast<std::size_t>(id)]); });
      this->pool = &pool;
      askFirst();
      measurer = starting.get();
      measurer->setArguments(0, setup.args);
      explore();
      for (int id : pool.cancel())
        entries[static_cast<std::size_t>(id)].asked = false;
      finalRounds();
      this->pool = nullptr;
    }
    return finish();
  }

private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  double left() const { return options.exhaustive ? 1e9 : options.seconds - seconds(); }

  std::string codeOf(const Candidate &c) {
    return setup.device.isInterpreter() ? c.traced->text : compiledFor(c, args);
  }
  /// As a launch compiles it for these arguments.
  std::string compiledFor(const Candidate &c, std::span<const KernelArg> given) {
    auto compiled = compile(kernel, given, &c.config, setup.device.arch(), /*apart=*/true, nullptr);
    if (compiled->launch.assumesApart && !areApart(placed(wholeArgs())))
      compiled = compile(kernel, given, &c.config, setup.device.arch(), /*apart=*/false, nullptr);
    return runtime::serialize(compiled->module->artifact());
  }
  /// Arguments at addresses that lie as those of the device will; there is no memory there.
  static std::vector<KernelArg> placed(const GeneratedArgs &generated) {
    std::vector<void *> places;
    for (std::size_t r = 0; r < generated.regions.size(); ++r)
      places.push_back(reinterpret_cast<void *>((r + 1) << 40 | static_cast<std::size_t>(generated.regions[r].misalign)));
    return generated.at(places);
  }

  // --- which candidates are compiled -------------------------------------------------------------

  std::size_t compileLimit() const {
    if (options.exhaustive || (setup.device.isInterpreter() && !setup.mostCompiles))
      return entries.size();
    return setup.mostCompiles ? setup.mostCompiles : std::clamp<std::size_t>(entries.size() / 12, 10, 40);
  }

  /// What the model takes the candidate for: schedules that say what the rule does anyway come out like the rule.
  std::string shapeOf(const Entry &e) const {
    Config picks = e.out.config; // and switches, which the model does not tell apart
    for (const ScheduleField &f : scheduleFields())
      if (!f.isSwitch)
        picks.*f.member = 0;
    const Prediction &p = space.candidates[e.index].predicted;
    return fmt::format("{} {} {} {} {} {} {}", configText(picks), p.warps, p.stages, p.cluster, p.raster, p.blocks, e.out.config.stages == 1);
  }
  /// Likely the same code as one that was asked for: not worth a compile.
  bool isLikelyKnown(const Entry &e) const {
    return !options.exhaustive && e.out.predictedMicros > 0 && !setup.model && askedShapes.contains(shapeOf(e));
  }

  void ask(Entry &e) {
    if (e.asked)
      return;
    e.asked = true;
    ++askedCount;
    askedShapes.insert(shapeOf(e));
    if (setup.known)
      if (auto known = setup.known(space.candidates[e.index])) {
        e.isKnown = true;
        e.interval = {known->micros, known->low, known->high, 0};
        e.out.state = State::measured;
        e.out.reason.clear();
        return;
      }
    pool->add(static_cast<int>(e.index));
  }

  /// The default, and of every combination of picks the most promising by the model with the rule's schedule.
  void askFirst() {
    const std::size_t limit = compileLimit(), first = options.exhaustive ? limit : std::max<std::size_t>(4, limit * 6 / 10);
    for (Entry &e : entries)
      if (e.out.isDefault)
        ask(e);
    const double best = entries.front().out.predictedMicros;
    for (int round = 0; round < 2; ++round)
      for (Entry &e : entries) {
        if (askedCount >= std::min(entries.size(), limit == entries.size() ? limit : first))
          return;
        if (!options.exhaustive && best > 0 && e.out.predictedMicros > unpromising * best && askedCount >= 4)
          continue;
        if (round == 0 && changedFields(e.out.config)) // schedules come second
          continue;
        if (!options.exhaustive && hasFreeSwitch(e.out.config)) // worth it at the leaders alone
          continue;
        if (!isLikelyKnown(e))
          ask(e);
      }
  }

  static int changedFields(const Config &config) {
    int count = 0;
    for (const ScheduleField &f : scheduleFields())
      count += config.*f.member != 0;
    return count;
  }
  /// A switch that the caller left to the search is not at its rule.
  bool hasFreeSwitch(const Config &config) const {
    return std::ranges::any_of(scheduleFields(), [&](const ScheduleField &f) {
      return f.isSwitch && config.*f.member && !(options.fixed.*f.member) && !options.only.contains(f.name);
    });
  }
  /// In how many numbers two candidates differ.
  static int distance(const Config &a, const Config &b) {
    int count = 0;
    for (const ScheduleField &f : scheduleFields())
      count += a.*f.member != b.*f.member;
    for (const auto &[name, value] : a.values())
      count += b.get(name) != value.value;
    for (const auto &[name, value] : b.values())
      count += !a.get(name).has_value();
    return count;
  }

  /// Neighbours of the leading candidates, by the model. True if there are some.
  bool askNeighbours() {
    const std::size_t limit = compileLimit();
    std::vector<Entry *> leaders = measuredByTime();
    if (leaders.size() > 2)
      leaders.resize(2);
    std::vector<Entry *> near;
    for (Entry &e : entries)
      if (!e.asked && std::any_of(leaders.begin(), leaders.end(), [&](Entry *l) { return distance(l->out.config, e.out.config) == 1; }) &&
          (likelyBetter(e) || hasFreeSwitch(e.out.config)) && !isLikelyKnown(e)) // of switches the model has no opinion
        near.push_back(&e); // entries are in the model's order
    // A batch may not be all alike: of each number that changes, one after the other.
    std::size_t count = 0;
    for (Entry *e : near) {
      if (askedCount >= limit || count >= std::max<std::size_t>(8, limit / 4))
        break;
      if (isLikelyKnown(*e)) // as one of this batch
        continue;
      ask(*e);
      ++count;
    }
    return count > 0;
  }

  /// The best time that the model's error so far leaves to a candidate is below what leads.
  bool likelyBetter(const Entry &e) const {
    const Entry *best = bestEntry();
    if (!best || e.out.predictedMicros <= 0)
      return true;
    double ratio = 1e9;
    int count = 0;
    for (const Entry &m : entries)
      if (m.interval.median > 0 && m.out.predictedMicros > 0) {
        ratio = std::min(ratio, m.interval.median / m.out.predictedMicros);
        ++count;
      }
    return count < 3 || e.out.predictedMicros * ratio < best->interval.low;
  }
  bool anyLikelyBetter() const {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry &e) { return !e.asked && !isLikelyKnown(e) && likelyBetter(e); });
  }

  // --- timing -------------------------------------------------------------------------------------

  void out(Entry &e, State state, std::string reason) {
    e.live = false;
    e.out.state = state;
    e.out.reason = std::move(reason);
    measurer->drop(static_cast<int>(e.index));
    e.code.clear();
  }
  bool failed(Entry &e, const MeasureFailure *failure) {
    if (failure)
      out(e, State::failed, failure->text);
    return failure != nullptr;
  }
  bool sample(Entry &e) {
    auto t = measurer->sample(static_cast<int>(e.index), 0);
    if (failed(e, std::get_if<MeasureFailure>(&t)))
      return false;
    e.samples.push_back(std::get<double>(t));
    return true;
  }
  void take(CompilePool::Result result) {
    Entry &e = entries[static_cast<std::size_t>(result.id)];
    if (result.code.empty()) {
      e.out.state = State::failed;
      e.out.reason = "does not build: " + result.reason;
      return;
    }
    ++compiledCount;
    // Two configurations may lead to the same code, where a choice is what the rule chose.
    auto [same, isNew] = byCode.try_emplace(result.code, e.index);
    if (!isNew) {
      Entry &first = entries[same->second];
      e.out.reason = fmt::format("the same code as {}", first.out.text.empty() ? "the default" : first.out.text);
      e.out.state = State::dropped;
      return;
    }
    e.code = std::move(result.code);
    measurer->add(result.id, e.out.text, e.code);
    e.live = true;
    if (!isWarm) {
      auto done = measurer->warm(result.id, 0, warmMillis);
      if (failed(e, std::get_if<MeasureFailure>(&done)))
        return;
      isWarm = true;
    }
    const Entry *best = bestEntry();
    for (int i = 0; i < quickSamples; ++i) {
      if (!sample(e))
        return;
      if (best && e.samples.back() > 3 * best->interval.median) // far behind: one is enough
        break;
    }
    e.interval = medianOf(e.samples);
    e.out.state = State::measured;
    e.out.reason.clear();
    report("timing");
  }

  /// Compiles and times until the budget ends or nothing better is likely.
  void explore() {
    for (;;) {
      if (left() <= 0.2 * options.seconds && bestEntry() && !options.exhaustive) { // the rest is for the finalists
        endedBy = "budget";
        return;
      }
      auto result = pool->next(true);
      if (result) {
        take(std::move(*result));
        continue;
      }
      if (options.exhaustive) {
        endedBy = "all measured";
        return;
      }
      if (askedCount >= compileLimit() || !askNeighbours()) {
        const bool all = std::all_of(entries.begin(), entries.end(), [](const Entry &e) { return e.asked; });
        endedBy = all ? "all measured" : anyLikelyBetter() ? "enough candidates" : "no better one is likely";
        return;
      }
    }
  }

  const Entry *bestEntry() const {
    const Entry *best = nullptr;
    for (const Entry &e : entries)
      if (e.out.state == State::measured && (!best || e.interval.median < best->interval.median))
        best = &e;
    return best;
  }
  std::vector<Entry *> measuredByTime() {
    std::vector<Entry *> list;
    for (Entry &e : entries)
      if (e.out.state == State::measured)
        list.push_back(&e);
    std::stable_sort(list.begin(), list.end(), [](Entry *a, Entry *b) {
      return std::pair(a->interval.median, a->out.text) < std::pair(b->interval.median, b->out.text);
    });
    return list;
  }

  /// Rounds in which the finalists take turns, until their intervals are narrow or apart.
  void rounds(std::vector<Entry *> &finalists) {
    for (int round = 0; round < mostSamples; ++round) {
      for (std::size_t i = 0; i < finalists.size(); ++i) {
        Entry &e = *finalists[(i + static_cast<std::size_t>(round)) % finalists.size()];
        if (e.live && static_cast<int>(e.samples.size()) < mostSamples && sample(e))
          e.interval = medianOf(e.samples);
      }
      std::erase_if(finalists, [](Entry *e) { return e->out.state != State::measured; });
      if (finalists.empty())
        return;
      if (round + quickSamples < leastSamples)
        continue;
      const Entry *best = *std::min_element(finalists.begin(), finalists.end(), [](Entry *a, Entry *b) { return a->interval.median < b->interval.median; });
      std::erase_if(finalists, [&](Entry *e) { return e != best && e->interval.low > best->interval.high; });
      const bool settled = std::all_of(finalists.begin(), finalists.end(), [](Entry *e) { return !e->live || e->interval.spread() < narrow; });
      if (settled || (left() <= 0 && round >= leastSamples))
        return;
      report("timing");
    }
  }

  bool isNoisy(const Entry &e) const {
    if (e.isKnown || e.samples.size() < 4)
      return !e.isKnown;
    const std::size_t half = e.samples.size() / 2;
    const auto middle = e.samples.begin() + static_cast<std::ptrdiff_t>(half);
    const double first = medianOf({e.samples.begin(), middle}).median, second = medianOf({middle, e.samples.end()}).median;
    return e.interval.spread() > noisySpread || std::abs(first - second) > noisyDrift * std::min(first, second);
  }

  void finalRounds() {
    if (options.verify && options.verifyAll)
      for (Entry *e : measuredByTime()) {
        report("checking");
        matchesDefault(*e);
      }
    std::vector<Entry *> all = measuredByTime();
    while (!chosen) {
      std::erase_if(all, [](Entry *e) { return e->out.state != State::measured; });
      if (all.empty())
        failNone();
      const double limit = all.front()->interval.median * quickMargin;
      std::vector<Entry *> finalists;
      for (Entry *e : all)
        if (finalists.size() < mostFinalists && e->interval.median <= limit)
          finalists.push_back(e);
      rounds(finalists);
      if (finalists.empty()) {
        std::stable_sort(all.begin(), all.end(), [](Entry *a, Entry *b) { return a->interval.median < b->interval.median; });
        continue;
      }
      Entry *winner = decide(finalists);
      if (isNoisy(*winner)) { // once more, from the start
        for (Entry *e : finalists)
          if (e->live)
            e->samples.clear();
        rounds(finalists);
        if (finalists.empty())
          continue;
        winner = decide(finalists);
        noisy = isNoisy(*winner);
      }
      report("checking");
      if (!options.verify || verified(*winner))
        chosen = winner;
    }
  }

  /// Of those whose intervals meet that of the quickest, and whose medians are as good as equal: the first by text.
  static Entry *decide(const std::vector<Entry *> &finalists) {
    Entry *best = *std::min_element(finalists.begin(), finalists.end(), [](Entry *a, Entry *b) { return a->interval.median < b->interval.median; });
    Entry *first = best;
    for (Entry *e : finalists)
      if (e->interval.low <= best->interval.high && e->interval.median <= tieMargin * best->interval.median && e->out.text < first->out.text)
        first = e;
    return first;
  }

  [[noreturn]] void failNone() {
    std::map<std::string, int> reasons;
    for (const Entry &e : entries)
      if (e.out.state == State::failed || e.out.state == State::wrong)
        ++reasons[e.out.reason];
    auto most = std::max_element(reasons.begin(), reasons.end(), [](const auto &a, const auto &b) { return a.second < b.second; });
    throw UserError({where, kernel.name, "tune",
                     most == reasons.end() ? fmt::format("no candidate of {} was measured within {:g} s", entries.size(), options.seconds)
                                           : fmt::format("none of {} candidates can be used; {} of them: {}", askedCount, most->second, most->first),
                     "tune_none", most == reasons.end() ? "give a larger budget" : "launch the kernel untuned to see the whole error"});
  }

  // --- checking -----------------------------------------------------------------------------------

  /// Results kept by the measurer.
  enum Slot : int { reference = 0, other = 1, smallSlot = 2 };

  bool verified(Entry &e) {
    return e.isKnown || (matchesDefault(e) && matchesInterpreter(e)); // what is known was compared when it was measured
  }

  bool matchesDefault(Entry &e) {
    if (e.isKnown)
      return true;
    const int id = static_cast<int>(e.index);
    Entry *base = nullptr;
    for (Entry &d : entries)
      if (d.out.isDefault && d.live)
        base = &d;
    for (int attempt = 0; base && base != &e && attempt < 2; ++attempt) {
      const int before = measurer->restarts();
      auto ofBase = measurer->run(static_cast<int>(base->index), 0, reference);
      if (failed(*base, std::get_if<MeasureFailure>(&ofBase))) {
        base = nullptr;
        break;
      }
      auto own = measurer->run(id, 0, other);
      if (failed(e, std::get_if<MeasureFailure>(&own)))
        return false;
      if (measurer->restarts() != before)
        continue; // kept results are gone
      if (Difference d = measurer->compare(0, other, reference); d.wrong) {
        out(e, State::wrong, "differs from the default configuration: " + d.text);
        return false;
      }
      break;
    }
    return true;
  }

  /// The candidate on a small shape, on the device and on the interpreter.
  bool matchesInterpreter(Entry &e) {
    const Candidate &c = space.candidates[e.index];
    std::vector<std::pair<int, int>> keep;
    for (const auto &[name, value] : c.traced->config.values())
      if (value.coverArg >= 0)
        keep.emplace_back(value.coverArg, value.coverAxis);
    for (std::int64_t bound = 512; bound >= 1; bound /= 2) {
      GeneratedArgs small = wholeArgs().shrunk(bound, keep);
      std::vector<std::vector<std::uint8_t>> want;
      std::vector<void *> places;
      for (std::size_t r = 0; r < small.regions.size(); ++r)
        want.push_back(small.image(static_cast<int>(r)));
      for (auto &region : want)
        places.push_back(region.data());
      std::vector<KernelArg> host = small.at(places);
      std::string code;
      try {
        TracedWork traced = traceWork(kernel, host, c.config);
        if (traced.work.flops() + traced.work.elementOps * traced.work.programs + traced.work.bytesMoved() > smallWork && bound > 1)
          continue;
        interpreterProgram(traced.text)(traced.args);
        code = setup.device.isInterpreter() ? traced.text : compiledFor(c, placed(small));
      } catch (const UserError &) {
        return true; // lengths that belong together no longer do: the comparison with the default stands alone
      }
      const int id = static_cast<int>(entries.size());
      measurer->setArguments(1, withoutConstants(small));
      measurer->add(id, e.out.text, code);
      auto done = measurer->run(id, 1, smallSlot);
      if (failed(e, std::get_if<MeasureFailure>(&done)))
        return false;
      Difference d = compareResults(withoutConstants(small), measurer->results(smallSlot), onlyWritten(small, std::move(want)));
      measurer->drop(id);
      if (d.wrong) {
        out(e, State::wrong, "differs from the interpreter on a small shape: " + d.text);
        return false;
      }
      return true;
    }
    return true;
  }
  static std::vector<std::vector<std::uint8_t>> onlyWritten(const GeneratedArgs &args, std::vector<std::vector<std::uint8_t>> images) {
    for (std::size_t r = 0; r < images.size(); ++r)
      if (!args.regions[r].written)
        images[r].clear();
    return images;
  }
  /// The kernel's arguments, constants among them; setup.args has those of the function.
  GeneratedArgs wholeArgs() const {
    GeneratedArgs all = setup.args;
    all.args.clear();
    std::size_t next = 0;
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (kernel.params[i].kind != detail::ParamDesc::Kind::constant)
        all.args.push_back(setup.args.args[next++]);
      else
        all.args.push_back({args[i], -1, 0, 0, 0, {}});
    }
    return all;
  }
  GeneratedArgs withoutConstants(GeneratedArgs all) const {
    std::vector<GeneratedArg> kept;
    for (std::size_t i = 0; i < all.args.size(); ++i)
      if (kernel.params[i].kind != detail::ParamDesc::Kind::constant)
        kept.push_back(std::move(all.args[i]));
    all.args = std::move(kept);
    return all;
  }

  // --- results ------------------------------------------------------------------------------------

  void report(const char *stage) {
    if (!options.progress)
      return;
    TuneProgress p;
    p.stage = stage;
    p.compiled = compiledCount;
    p.candidates = options.exhaustive ? entries.size() : std::min(entries.size(), compileLimit());
    for (const Entry &e : entries)
      p.measured += e.out.state == State::measured;
    p.seconds = seconds();
    p.secondsLeft = options.exhaustive && p.measured ? p.seconds / static_cast<double>(p.measured) * static_cast<double>(entries.size() - p.measured)
                                                     : std::max(0.0, options.seconds - p.seconds);
    if (const Entry *best = bestEntry()) {
      p.best = best->out.text;
      p.bestMicros = best->interval.median;
    }
    options.progress(p);
  }

  TuneResult finish() {
    TuneResult r;
    r.config = chosen->out.config;
    r.text = chosen->out.text;
    r.micros = chosen->interval.median;
    r.lowMicros = chosen->interval.low;
    r.highMicros = chosen->interval.high;
    r.noisy = noisy;
    setBound(r, bound, setup.device);
    r.device = setup.device.name();
    r.endedBy = endedBy;
    r.compiled = compiledCount;
    for (Entry &e : entries) {
      e.out.micros = e.interval.median;
      e.out.lowMicros = e.interval.low;
      e.out.highMicros = e.interval.high;
      e.out.samples = static_cast<int>(e.samples.size());
      if (e.out.state != State::measured)
        e.out.micros = e.out.lowMicros = e.out.highMicros = 0;
      r.tried += e.out.samples > 0;
      if (e.out.isDefault)
        r.defaultMicros = e.out.micros;
      r.candidates.push_back(std::move(e.out));
    }
    for (const Dropped &d : space.dropped) {
      TunedCandidate c;
      c.state = State::dropped;
      c.text = d.text;
      c.reason = d.reason;
      r.candidates.push_back(std::move(c));
    }
    std::stable_sort(r.candidates.begin(), r.candidates.end(), [](const TunedCandidate &a, const TunedCandidate &b) {
      const bool am = a.state == State::measured, bm = b.state == State::measured;
      return am != bm ? am : am && a.micros < b.micros;
    });
    r.seconds = seconds();
    return r;
  }

  const detail::KernelDesc &kernel;
  std::span<const KernelArg> args;
  const SearchSetup &setup;
  const TuneOptions &options;
  const CodePosition where;
  const Clock::time_point begin;
  Space space;
  std::vector<Entry> entries; ///< of the space's candidates
  CompilePool *pool = nullptr;
  std::unique_ptr<Measurer> measurer;
  std::unordered_map<std::string, std::size_t> byCode;
  std::set<std::string> askedShapes;
  std::size_t askedCount = 0, compiledCount = 0;
  bool isWarm = false, noisy = false;
  Bound bound;
  std::string endedBy = "budget";
  Entry *chosen = nullptr;
};

} // namespace

TuneResult search(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const SearchSetup &setup) {
  return Searcher(kernel, args, setup).run();
}

} // namespace sectile::autotune
