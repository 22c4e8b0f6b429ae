// SPDX-License-Identifier: Apache-2.0
#include "dsl/Choice.h"

#include "autotune/Space.h"
#include "dsl/BuildId.h"
#include "dsl/Context.h"
#include "dsl/Lower.h"
#include "dsl/Trace.h"
#include "ir/base/Artifact.h"
#include "runtime/Hash.h"
#include "runtime/Log.h"
#include "runtime/Ptxas.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace sectile {
namespace {

using autotune::Record;
using autotune::RecordKey;
using autotune::RecordRow;
using autotune::RecordSet;

/// `text` without its first word, which becomes `word`. False at the end.
bool nextWord(std::string_view &text, std::string_view &word) {
  if (text.empty())
    return false;
  const std::size_t end = std::min(text.find(' '), text.size());
  word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return true;
}

/// The same arguments with one length for all axes, packed row by row, at a place that every vector may start at.
std::vector<KernelArg> withFixedLengths(std::span<const KernelArg> args) {
  constexpr std::int64_t length = 1024;
  std::vector<KernelArg> fixed(args.begin(), args.end());
  for (KernelArg &arg : fixed) {
    if (!arg.isTensor())
      continue;
    arg.data = reinterpret_cast<void *>(std::uintptr_t(4096));
    std::int64_t stride = 1;
    for (int d = arg.rank; d-- > 0;) {
      arg.dims[static_cast<std::size_t>(d)] = length;
      arg.strides[static_cast<std::size_t>(d)] = stride;
      stride = d > 0 && stride > (INT64_C(1) << 40) ? stride : stride * length;
    }
  }
  return fixed;
}

std::string tracedText(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config *choice) {
  ContextLease context;
  Config config = choice ? *choice : Config();
  return moduleText(*detail::trace(*context, kernel, args, config));
}

/// Of the driver's kernel module, where it says: two drivers of one CUDA version are two.
std::string driverText(const Device &device) {
  static const std::string module = [] {
    std::ifstream in("/sys/module/nvidia/version");
    std::string text;
    in >> text;
    return text;
  }();
  const int version = device.properties().driverVersion;
  return fmt::format("{}.{}{}{}", version / 1000, version % 1000 / 10, module.empty() ? "" : " ", module);
}

/// The record of this process. Rows are read once and looked up in memory.
struct ProcessRecord {
  std::mutex mutex;
  std::unique_ptr<Record> record; ///< null: there is none
  std::shared_ptr<const RecordSet> rows;
  std::map<std::string, std::uint64_t, std::less<>> versions; ///< of kernels whose rows changed since they were read
  std::uint64_t reads = 0;
  std::set<std::string> said;
  std::atomic<std::uint64_t> generation{0};

  /// @pre mutex is held
  void open() {
    if (rows)
      return;
    const autotune::RecordPlace place = autotune::recordPlace();
    if (!place.path.empty())
      record = std::make_unique<Record>(place.path, place.mode, place.fileSystem);
    auto choices = std::make_shared<RecordSet>(); // what launches look at
    if (record)
      for (const auto &[id, row] : record->read().all())
        if (row.kind == RecordRow::Kind::choice)
          choices->add(row);
    rows = std::move(choices);
    ++reads;
    sayProblems();
  }
  void sayProblems() {
    for (const std::string &problem : record ? record->takeProblems() : std::vector<std::string>())
      if (said.insert(problem).second)
        std::fputs(fmt::format("sectile: {}\n", problem).c_str(), stderr);
  }
};

ProcessRecord &process() {
  static auto &one = *new ProcessRecord; // launches may happen at exit
  return one;
}

std::shared_ptr<const RecordSet> processRows() {
  ProcessRecord &p = process();
  std::lock_guard lock(p.mutex);
  p.open();
  return p.rows;
}

/// The configuration of a row, if the kernel still has it and does the same with it.
std::optional<Config> usable(const RecordRow &row, const detail::KernelDesc &kernel, std::span<const KernelArg> args, std::string &why) {
  std::optional<Config> config = parseChoice(row.choice);
  if (!config) {
    why = "it is no configuration";
    return std::nullopt;
  }
  try {
    if (contentOf(kernel, args, &*config) == row.choiceContent)
      return config;
    why = "the kernel was edited";
  } catch (const UserError &e) {
    why = e.message();
  }
  return std::nullopt;
}

} // namespace

std::string choiceText(const Config &config) {
  const std::string all = config.str();
  std::string kept;
  std::string_view rest = all, word;
  while (nextWord(rest, word)) {
    const auto it = config.values().find(word.substr(0, word.find('=')));
    if (it != config.values().end() && it->second.coverArg >= 0 && !it->second.byHand)
      continue;
    if (!kept.empty())
      kept += ' ';
    kept += word;
  }
  return kept;
}

std::optional<Config> parseChoice(std::string_view text) {
  Config config;
  std::set<std::string_view> names;
  for (std::string_view word; nextWord(text, word);) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return std::nullopt;
    const std::string_view name = word.substr(0, equals), digits = word.substr(equals + 1);
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || !names.insert(name).second)
      return std::nullopt;
    bool isField = false;
    for (const autotune::ScheduleField &field : autotune::scheduleFields())
      if (field.name == name) {
        config.*field.member = value;
        isField = true;
      }
    if (!isField)
      config.set(name, value);
  }
  return config;
}

std::string contentOf(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config *choice) {
  std::string text = fmt::format("{}\n", kernel.name);
  for (const detail::ParamDesc &p : kernel.params)
    text += fmt::format("{} {} {} {}\n", static_cast<int>(p.kind), name(p.dtype), p.rank, p.readOnly);
  std::string body;
  try {
    body = tracedText(kernel, withFixedLengths(args), choice);
  } catch (const UserError &) {
    // Some kernels are not for that length: their content is that for these arguments.
    body = tracedText(kernel, args, choice);
  }
  return runtime::hexText(runtime::sha256(text + body));
}

RecordKey recordKey(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Device &device, std::string content) {
  RecordKey key;
  key.kernel = kernel.name;
  key.content = std::move(content);
  for (std::size_t i = 0; i < args.size(); ++i) {
    const KernelArg &arg = args[i];
    key.layout += i ? "; " : "";
    key.shape += i ? ";" : "";
    key.layout += name(arg.dtype);
    if (kernel.params[i].kind == detail::ParamDesc::Kind::constant)
      key.layout += fmt::format("={:x}", arg.scalar);
    if (!arg.isTensor())
      continue;
    const ArgSpec spec = specialise(arg);
    key.layout += fmt::format(" align {}{}{}", spec.alignBytes, arg.readOnly ? "" : " written", spec.small ? "" : " large");
    for (std::size_t d = 0; d < static_cast<std::size_t>(arg.rank); ++d) {
      const bool isSpread = arg.strides[d] == 0 && arg.dims[d] > 1;
      key.layout += d ? "," : " strides ";
      key.layout += static_cast<int>(d) == spec.unitStrideAxis ? "1" : isSpread ? "0" : fmt::format("{}+{}", spec.strideDiv[d], spec.strideRem[d]);
      key.shape += fmt::format("{}{}/{}", d ? "x" : "", autotune::shapeBucket(arg.dims[d]), spec.dimDiv[d]);
    }
  }
  key.gpu = device.name();
  key.compiler = fmt::format("sectile {} {}", SECTILE_VERSION, buildId());
  if (device.isInterpreter())
    return key;
  key.multiprocessors = device.properties().multiprocessors;
  key.driver = driverText(device);
  static const std::string assembler = [&] {
    auto ptxas = runtime::Ptxas::find(kernel.where);
    return ptxas ? ptxas->version() : std::string("driver");
  }();
  key.assembler = assembler;
  return key;
}

std::string dimsText(std::span<const KernelArg> args) {
  std::string text;
  for (std::size_t i = 0; i < args.size(); ++i) {
    text += i ? ";" : "";
    for (int d = 0; d < args[i].rank; ++d)
      text += fmt::format("{}{}", d ? "x" : "", args[i].dims[static_cast<std::size_t>(d)]);
  }
  return text;
}

RecordedChoice recordedChoice(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Device &device) {
  try {
    const std::shared_ptr<const RecordSet> rows = processRows();
    if (!rows->knows(kernel.name))
      return {std::nullopt, "no row for the kernel"};
    const RecordKey key = recordKey(kernel, args, device, contentOf(kernel, args));
    std::string said;
    auto look = [&](const RecordRow *row, const std::string &origin) -> std::optional<Config> {
      if (!row)
        return std::nullopt;
      std::string why;
      std::optional<Config> config = usable(*row, kernel, args, why);
      if (!config) {
        said += fmt::format("{}'{}' of the {} is not used: {}", said.empty() ? "" : "; ", row->choice, origin, why);
        runtime::logLine(fmt::format("{}: '{}' of the tuning {} is not used: {}", kernel.name, row->choice, origin, why));
      }
      return config;
    };
    if (std::optional<Config> config = look(rows->find(key), "record"))
      return {std::move(config), "record"};
    const RecordRow *neighbour = rows->findNeighbour(key);
    const std::string origin = neighbour ? fmt::format("record of {}", neighbour->dims) : std::string();
    if (std::optional<Config> config = look(neighbour, origin))
      return {std::move(config), origin};
    return {std::nullopt, said.empty() ? "no row for these arguments on this device" : said};
  } catch (const std::exception &e) {
    runtime::logLine(fmt::format("{}: the tuning record is not used: {}", kernel.name, e.what()));
    return {std::nullopt, e.what()};
  }
}

bool recordKnows(const detail::KernelDesc &kernel) { return processRows()->knows(kernel.name); }

std::uint64_t recordGeneration() { return process().generation.load(std::memory_order_acquire); }

std::uint64_t recordVersion(const detail::KernelDesc &kernel) {
  ProcessRecord &p = process();
  std::lock_guard lock(p.mutex);
  p.open();
  const auto it = p.versions.find(std::string_view(kernel.name));
  return p.reads << 32 | (it == p.versions.end() ? 0 : it->second);
}

bool noteInRecord(std::span<const RecordRow> rows) {
  ProcessRecord &p = process();
  std::lock_guard lock(p.mutex);
  p.open();
  auto all = std::make_shared<RecordSet>(*p.rows);
  for (const RecordRow &row : rows)
    if (row.kind == RecordRow::Kind::choice && autotune::whyNoRow(row).empty() && all->add(row))
      ++p.versions[row.key.kernel];
  p.rows = std::move(all);
  const bool stored = p.record && p.record->put(rows);
  p.sayProblems();
  p.generation.fetch_add(1, std::memory_order_release);
  return stored;
}

void reloadRecord() {
  ProcessRecord &p = process();
  std::lock_guard lock(p.mutex);
  p.rows.reset();
  p.record.reset();
  p.versions.clear();
  p.generation.fetch_add(1, std::memory_order_release);
}

} // namespace sectile
