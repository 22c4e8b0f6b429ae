// SPDX-License-Identifier: Apache-2.0
// The public face of tuning: the record before and after a search.
#include <sectile/Tuner.h>

#include "autotune/Record.h"
#include "autotune/Search.h"
#include "autotune/Tune.h"
#include "dsl/Choice.h"
#include "runtime/Env.h"

#include <sectile/Error.h>
#include <sectile/Stream.h>
#include <sectile/Targets.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <unordered_set>

namespace sectile {

using namespace autotune;

std::string_view name(TunedCandidate::State state) {
  switch (state) {
  case TunedCandidate::State::measured: return "measured";
  case TunedCandidate::State::wrong: return "wrong";
  case TunedCandidate::State::failed: return "failed";
  case TunedCandidate::State::dropped: return "dropped";
  case TunedCandidate::State::skipped: return "skipped";
  }
  return "";
}

std::string TuneResult::table(std::size_t rows) const {
  auto shown = [](const std::string &t) { return t.empty() ? std::string("(default)") : t; };
  std::size_t width = 13;
  for (std::size_t i = 0; i < candidates.size() && i < rows; ++i)
    width = std::max(width, candidates[i].text.size());
  std::string out = fmt::format("{:<{}}  {:>10}  {:>21}  {:>8}  {:>10}\n", "configuration", width, "median us", "interval", "samples", "model us");
  std::size_t count = 0;
  std::map<std::string, std::size_t> others;
  for (const TunedCandidate &c : candidates) {
    if (c.state == TunedCandidate::State::measured && count < rows) {
      ++count;
      out += fmt::format("{:<{}}  {:>10.2f}  {:>10.2f}{:>11.2f}  {:>8}  {:>10}{}{}\n", shown(c.text), width, c.micros, c.lowMicros, c.highMicros,
                         c.samples ? std::to_string(c.samples) : "record", c.predictedMicros > 0 ? fmt::format("{:.2f}", c.predictedMicros) : "-",
                         c.text == text ? "  chosen" : "", c.isDefault ? "  default" : "");
    } else if (c.state == TunedCandidate::State::failed || c.state == TunedCandidate::State::wrong) {
      out += fmt::format("{:<{}}  {}: {}\n", shown(c.text), width, name(c.state), c.reason);
    } else {
      ++others[fmt::format("{}", name(c.state))];
    }
  }
  for (const auto &[what, n] : others)
    out += fmt::format("{} {}\n", n, what);
  return out;
}

std::string TuneResult::json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TunedCandidate &c : candidates) {
    nlohmann::ordered_json j = {{"configuration", c.text}, {"state", name(c.state)}};
    if (!c.reason.empty())
      j["reason"] = c.reason;
    if (c.isDefault)
      j["default"] = true;
    if (c.predictedMicros > 0)
      j["model_us"] = c.predictedMicros;
    if (c.state == TunedCandidate::State::measured) {
      j["median_us"] = c.micros;
      j["low_us"] = c.lowMicros;
      j["high_us"] = c.highMicros;
      j["samples"] = c.samples;
    }
    list.push_back(std::move(j));
  }
  nlohmann::ordered_json all = {{"device", device},        {"choice", text},          {"median_us", micros},   {"low_us", lowMicros},
                                {"high_us", highMicros},   {"default_us", defaultMicros}, {"bound_us", boundMicros},
                                {"flops", flops},          {"bytes", bytes},           {"peak_tflops", peakTflops}, {"memory_gbs", memoryGBs},
                                {"noisy", noisy},
                                {"from_record", fromRecord}, {"stored", stored},      {"ended_by", endedBy},   {"tried", tried},
                                {"compiled", compiled},    {"seconds", seconds},      {"candidates", std::move(list)}};
  return all.dump(2);
}

namespace {

std::vector<KernelArg> functionArgs(const detail::KernelDesc &kernel, std::span<const KernelArg> args) {
  std::vector<KernelArg> kept;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (kernel.params[i].kind != detail::ParamDesc::Kind::constant)
      kept.push_back(args[i]);
  return kept;
}

RecordRow rowOf(const RecordKey &key, RecordRow::Kind kind, const Config &config, std::string content, std::span<const KernelArg> args) {
  RecordRow row;
  row.kind = kind;
  row.key = key;
  row.choice = choiceText(config);
  row.choiceContent = std::move(content);
  row.dims = dimsText(args);
  row.date = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return row;
}

/// What tuning found, as rows: the choice, and every candidate that was looked at.
std::vector<RecordRow> rowsOf(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const RecordKey &key,
                              const TuneResult &result) {
  std::vector<RecordRow> rows;
  auto times = [](RecordRow &row, double median, double low, double high) {
    row.medianNs = median * 1e3;
    row.lowNs = low * 1e3;
    row.highNs = high * 1e3;
  };
  for (const TunedCandidate &c : result.candidates) {
    using State = TunedCandidate::State;
    if ((c.state == State::measured && c.samples == 0) || c.state == State::dropped || c.state == State::skipped)
      continue; // from the record already, or never looked at
    std::string content;
    try {
      content = contentOf(kernel, args, &c.config);
    } catch (const UserError &) {
      continue;
    }
    RecordKey own = key;
    own.content = content;
    RecordRow row = rowOf(own, RecordRow::Kind::candidate, c.config, content, args);
    if (c.state == State::measured)
      times(row, c.micros, c.lowMicros, c.highMicros);
    else
      row.note = c.reason;
    row.tried = 1;
    row.isFinal = !result.noisy;
    if (whyNoRow(row).empty())
      rows.push_back(std::move(row));
  }
  RecordRow choice = rowOf(key, RecordRow::Kind::choice, result.config, contentOf(kernel, args, &result.config), args);
  times(choice, result.micros, result.lowMicros, result.highMicros);
  choice.tried = static_cast<int>(result.tried);
  choice.isFinal = !result.noisy;
  rows.push_back(std::move(choice));
  return rows;
}

} // namespace

namespace {

/// A candidate that was measured for this key does something else by now, and was not measured since.
bool hasEditedCandidate(Record &record, const RecordKey &key, const detail::KernelDesc &kernel, std::span<const KernelArg> args) {
  std::map<std::string, bool> isCurrent; // by choice
  for (const auto &[id, row] : record.rows().all()) {
    RecordKey own = key;
    own.content = row.key.content;
    if (row.kind != RecordRow::Kind::candidate || own != row.key)
      continue;
    bool &current = isCurrent[row.choice];
    try {
      if (auto config = parseChoice(row.choice); !current && config)
        current = contentOf(kernel, args, &*config) == row.key.content;
    } catch (const UserError &) { // no candidate any more
      current = true;
    }
  }
  return std::any_of(isCurrent.begin(), isCurrent.end(), [](const auto &c) { return !c.second; });
}

/// What the record has of the candidates for these lengths, the quickest first.
std::vector<TunedCandidate> recordedCandidates(Record &record, const RecordKey &key, const std::string &dims) {
  std::vector<TunedCandidate> all;
  for (const auto &[id, row] : record.rows().all()) {
    RecordKey own = key;
    own.content = row.key.content;
    if (row.kind != RecordRow::Kind::candidate || own != row.key || row.dims != dims)
      continue;
    TunedCandidate c;
    c.text = row.choice;
    c.config = parseChoice(row.choice).value_or(Config());
    c.state = row.note.empty() ? TunedCandidate::State::measured : TunedCandidate::State::failed;
    c.reason = row.note;
    c.micros = row.medianNs / 1e3, c.lowMicros = row.lowNs / 1e3, c.highMicros = row.highNs / 1e3;
    all.push_back(std::move(c));
  }
  std::stable_sort(all.begin(), all.end(), [](const TunedCandidate &a, const TunedCandidate &b) {
    return std::pair(a.state != TunedCandidate::State::measured, a.micros) < std::pair(b.state != TunedCandidate::State::measured, b.micros);
  });
  return all;
}

} // namespace

void autotune::setBound(TuneResult &result, const Bound &bound, const Device &device) {
  result.boundMicros = bound.micros;
  result.flops = bound.flops;
  result.bytes = bound.bytes;
  result.peakTflops = bound.peakTflops;
  if (const Target *target = device.isInterpreter() ? nullptr : findTarget(device.arch()))
    result.memoryGBs = target->memoryGBs;
}

TuneResult autotune::tuneWith(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const TuneOptions &options,
                              const TuneHooks &hooks) {
  const CodePosition where = options.where;
  if (isTracing())
    throw UserError({where, kernel.name, "tune", fmt::format("kernel '{}' is tuned inside a kernel body", kernel.name), "launch_in_trace",
                     "tune it from host code"});
  if (!(options.seconds > 0) || !std::isfinite(options.seconds))
    throw UserError({where, kernel.name, "tune", fmt::format("a budget of {} s", options.seconds), "tune_budget", "give more than 0 seconds"});
  const Device device = options.device ? *options.device : Device::best();
  if (isCapturing(device.stream()))
    throw UserError({where, kernel.name, "tune", fmt::format("kernel '{}' is to be tuned while a stream of {} is being captured", kernel.name, device.name()),
                     "tune_capture", "tune before the capture begins"});

  // Without limits of the caller's own the search is about the kernel as such, which is what the record keeps.
  const bool isWhole = options.constraints.empty() && options.only.empty() && options.fixed == Config();
  RecordKey key = recordKey(kernel, args, device, contentOf(kernel, args, nullptr));
  RecordPlace place = recordPlace();
  std::unique_ptr<Record> record;
  if (!place.path.empty() && !options.again)
    record = std::make_unique<Record>(place.path, Record::Mode::readOnly, place.fileSystem);
  if (record && isWhole && !options.exhaustive && (hooks.forLaunch || !hasEditedCandidate(*record, key, kernel, args)))
    if (const RecordRow *row = record->find(key); row && row->isFinal)
      if (auto config = parseChoice(row->choice); config && row->choiceContent == contentOf(kernel, args, &*config)) {
        TuneResult known;
        known.config = *config;
        known.text = row->choice;
        known.micros = row->medianNs / 1e3;
        known.lowMicros = row->lowNs / 1e3;
        known.highMicros = row->highNs / 1e3;
        known.fromRecord = known.stored = true;
        known.device = device.name();
        known.endedBy = "record";
        if (!hooks.forLaunch) {
          known.candidates = recordedCandidates(*record, key, dimsText(args));
          setBound(known, boundOf(device.isInterpreter() ? nullptr : findTarget(device.arch()), traceWork(kernel, args, *config).work), device);
        }
        return known;
      }

  SearchSetup setup{options, device, nullptr, {}, nullptr, hooks.mostCompiles, nullptr};
  const std::vector<KernelArg> passed = functionArgs(kernel, args);
  setup.args = GeneratedArgs::forCall(passed, [&](const void *from, void *to, std::int64_t bytes) {
    return copyFromDevice(hooks.hostMemory ? Device::interpreter() : device, from, to, bytes);
  });
  std::vector<void *> memory; // of the caller's regions
  if (options.inPlace) {
    memory.resize(setup.args.regions.size());
    for (std::size_t i = 0; i < passed.size(); ++i)
      if (const GeneratedArg &g = setup.args.args[i]; g.region >= 0 && !memory[static_cast<std::size_t>(g.region)]) {
        if (!passed[i].data)
          throw UserError({where, kernel.name, "tune", fmt::format("argument {} is null, and inPlace times on the arguments themselves", i),
                           "null_pointer", "pass memory, or leave inPlace out"});
        memory[static_cast<std::size_t>(g.region)] = static_cast<std::uint8_t *>(passed[i].data) - g.offset;
      }
    setup.makeMeasurer = [&] { return measureHere(device, memory, hooks.script); };
  } else {
    setup.makeMeasurer = [&] { return startWorker({device, options.hangSeconds, hooks.workerProgram, hooks.script, where}); };
  }
  if (record)
    setup.known = [&](const Candidate &c) -> std::optional<KnownTime> {
      if (record->rows().size() == 0)
        return std::nullopt;
      RecordKey own = key;
      own.content = contentOf(kernel, args, &c.config);
      const RecordRow *row = record->findCandidate(own, choiceText(c.config));
      if (!row || !row->isFinal || !row->note.empty() || row->medianNs <= 0 || row->dims != dimsText(args))
        return std::nullopt;
      return KnownTime{row->medianNs / 1e3, row->lowNs / 1e3, row->highNs / 1e3};
    };
  TuneResult result = search(kernel, args, setup);
  if (options.store && isWhole)
    result.stored = noteInRecord(rowsOf(kernel, args, key, result)) && !result.noisy;
  return result;
}

namespace {

/// What tells two launches of a process apart, for tuning: device, lengths, strides, places of pointers in a vector,
/// constants. Run-time scalars do not count.
std::string launchText(const detail::KernelDesc &kernel, const Device &device, std::span<const KernelArg> args) {
  std::string text;
  auto add = [&](std::uint64_t word) { text.append(reinterpret_cast<const char *>(&word), sizeof word); };
  add(reinterpret_cast<std::uintptr_t>(kernel.id));
  add(static_cast<std::uint64_t>(device.ordinal()));
  for (std::size_t i = 0; i < args.size(); ++i) {
    const KernelArg &a = args[i];
    add(a.isTensor() ? reinterpret_cast<std::uintptr_t>(a.data) % 16 : kernel.params[i].kind == detail::ParamDesc::Kind::constant ? a.scalar : 0);
    for (int d = 0; d < a.rank; ++d) {
      add(static_cast<std::uint64_t>(a.dims[static_cast<std::size_t>(d)]));
      add(static_cast<std::uint64_t>(a.strides[static_cast<std::size_t>(d)]));
    }
  }
  return text;
}

/// Launches that were tuned for, or tried.
struct Attempts {
  std::mutex mutex;  ///< of the set
  std::mutex tuning; ///< one search at a time: two would disturb each other
  std::unordered_set<std::string> known;
};
Attempts &attempts() {
  static auto &one = *new Attempts;
  return one;
}

} // namespace

void autotune::tuneForLaunch(const detail::KernelDesc &kernel, const Stream &stream, std::span<const KernelArg> args, double seconds,
                             CodePosition where) {
  Attempts &a = attempts();
  const std::string text = launchText(kernel, stream.device(), args);
  auto isKnown = [&] {
    std::lock_guard<std::mutex> lock(a.mutex);
    return a.known.contains(text);
  };
  if (isKnown() || isCapturing(stream))
    return;
  std::lock_guard<std::mutex> turn(a.tuning);
  if (isKnown()) // by another thread meanwhile
    return;
  {
    std::lock_guard<std::mutex> lock(a.mutex);
    a.known.insert(text);
  }
  TuneOptions options;
  options.seconds = seconds;
  options.device = stream.device();
  try {
    stream.synchronize(); // integers among the arguments may have just been written
    TuneHooks hooks;
    hooks.forLaunch = true;
    tuneWith(kernel, args, options, hooks);
  } catch (const UserError &e) {
    std::fputs(fmt::format("sectile: {}:{}: kernel '{}' is launched untuned: {} [{}]; {}\n", where.file_name(), where.line(), kernel.name, e.message(),
                           e.rule(), e.wayOut())
                   .c_str(),
               stderr);
  }
}

TuneResult detail::tune(const KernelDesc &kernel, std::span<const KernelArg> args, const TuneOptions &options) {
  return tuneWith(kernel, args, options, {});
}

} // namespace sectile
