// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsTuneRecord.h"

#include "autotune/Record.h"
#include "dsl/BuildId.h"
#include "dsl/ToolsCommon.h"
#include "dsl/ToolsTuneReport.h"

#include <sectile/Error.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace sectile::tools {
namespace {

using autotune::PruneRule;
using autotune::Record;
using autotune::RecordKey;
using autotune::RecordPlace;
using autotune::RecordRow;
using autotune::RecordSet;

struct Options {
  std::string record;             ///< empty: the one in use
  std::vector<std::string> files; ///< that are read; "-" is standard input
  std::string kernel, gpu, out, html;
  bool all = false, json = false;
  PruneRule rule;
  double olderThanDays = -1;
  bool otherCompilers = false;
};

[[noreturn]] void fail(std::string message, const char *rule, std::string wayOut) {
  throw UserError({{}, {}, "tune", std::move(message), rule, std::move(wayOut)});
}

/// Says what was wrong and did not stop the work.
void warn(const std::vector<std::string> &problems) {
  for (const std::string &problem : problems)
    std::fputs(fmt::format("warning: {}\n", problem).c_str(), stderr);
}

std::string joined(const std::vector<std::string> &lines) { return fmt::format("{}", fmt::join(lines, "; ")); }

RecordPlace placeOf(const Options &options, Record::Mode mode) {
  RecordPlace place = autotune::recordPlace();
  if (!options.record.empty())
    place = {options.record, mode, autotune::FileSystem::detect};
  if (place.path.empty())
    fail("no tuning record can be named: SECTILE_TUNE_RECORD is none, or neither it nor SECTILE_CACHE_DIR nor HOME is set", "record_unnamed",
         "name it with --record");
  if (mode == Record::Mode::readOnly)
    place.mode = mode;
  return place;
}

/// All rows of a record that was named, or is in use. One that is not there is empty unless it was named.
RecordSet readRecord(const RecordPlace &place, bool isNamed) {
  struct stat info;
  if (isNamed && stat(place.path.c_str(), &info) != 0 && (errno != ENOENT || stat((place.path + ".parts").c_str(), &info) != 0))
    fail(fmt::format("'{}' cannot be read: {}", place.path, std::strerror(errno)), "record_file", "name a tuning record or an export of one");
  Record record(place.path, Record::Mode::readOnly, place.fileSystem);
  RecordSet rows = record.read();
  const std::vector<std::string> problems = record.takeProblems();
  if (rows.size() == 0 && !problems.empty())
    fail(joined(problems), "record_unusable", "set the file aside, or use the version of Sectile that wrote it");
  warn(problems);
  return rows;
}

std::string readText(const std::string &file) {
  std::string why;
  std::optional<std::string> text = readInput(file, why);
  if (!text)
    fail(fmt::format("'{}' cannot be read: {}", file, why), "record_file", "name a tuning record or an export of one");
  return std::move(*text);
}

/// The rows of an export; those that are none are appended to `rejected`.
RecordSet readExport(const std::string &file, std::vector<std::string> &rejected) {
  std::vector<std::string> here;
  std::string why;
  std::optional<RecordSet> rows = autotune::fromJson(readText(file), here, why);
  if (!rows)
    fail(fmt::format("'{}' is no exported record: {}", file, why), "record_json", "give a file that `sectile tune export` wrote");
  for (const std::string &text : here)
    rejected.push_back(fmt::format("'{}' {}", file, text));
  return std::move(*rows);
}

/// Rows of a record or an export, whichever the file is.
RecordSet readEither(const std::string &file, std::vector<std::string> &rejected) {
  if (file == "-" || !whyNoFile(file).empty()) // a pipe, or what readText refuses
    return readExport(file, rejected);
  char first = 0;
  if (std::unique_ptr<std::FILE, int (*)(std::FILE *)> f(std::fopen(file.c_str(), "rbe"), std::fclose); f)
    while (std::fread(&first, 1, 1, f.get()) == 1 && std::isspace(static_cast<unsigned char>(first)))
      ;
  if (first == '{')
    return readExport(file, rejected);
  return readRecord({file, Record::Mode::readOnly, autotune::FileSystem::detect}, true);
}

/// After everything else was done: what could not be.
int endWith(const std::vector<std::string> &rejected) {
  if (rejected.empty())
    return exitOk;
  constexpr std::size_t most = 5;
  std::vector<std::string> some(rejected.begin(), rejected.begin() + static_cast<std::ptrdiff_t>(std::min(most, rejected.size())));
  if (rejected.size() > most)
    some.push_back(fmt::format("and {} more", rejected.size() - most));
  fail(fmt::format("{} rows are not taken: {}", rejected.size(), joined(some)), "record_rows", "export them again where they were measured");
}

std::string timesText(const RecordRow &row) {
  if (row.medianNs <= 0)
    return "-";
  return fmt::format("{:.2f} us ({:.2f} to {:.2f})", row.medianNs / 1e3, row.lowNs / 1e3, row.highNs / 1e3);
}
std::string choiceText(const RecordRow &row) { return row.choice.empty() ? "(no numbers to choose)" : row.choice; }
std::string whereText(const RecordKey &key) {
  return key.multiprocessors ? fmt::format("{}, {} multiprocessors", key.gpu, key.multiprocessors) : key.gpu;
}

bool isShown(const RecordRow &row, const Options &options) {
  return (options.kernel.empty() || row.key.kernel == options.kernel) && (options.gpu.empty() || row.key.gpu == options.gpu);
}

/// The choices of a record with the candidates that were measured for the same lengths, as a report. What bounds a kernel the
/// record does not know.
std::string recordReport(const RecordSet &rows, const Options &options) {
  std::vector<ReportJob> jobs;
  for (const auto &[id, row] : rows.all()) {
    if (!isShown(row, options) || row.kind != RecordRow::Kind::choice || rows.find(row.key) != &row)
      continue;
    ReportJob job{row.key.kernel, row.dims, {}, {}};
    TuneResult &r = job.result;
    r.text = row.choice;
    r.micros = row.medianNs / 1e3, r.lowMicros = row.lowNs / 1e3, r.highMicros = row.highNs / 1e3;
    r.fromRecord = true;
    r.noisy = !row.isFinal;
    r.device = whereText(row.key);
    for (const auto &[otherId, other] : rows.all()) {
      RecordKey key = other.key;
      key.content = row.key.content;
      if (other.kind != RecordRow::Kind::candidate || key != row.key || other.dims != row.dims)
        continue;
      TunedCandidate c;
      c.text = other.choice;
      c.state = other.note.empty() ? TunedCandidate::State::measured : TunedCandidate::State::failed;
      c.reason = other.note;
      c.micros = other.medianNs / 1e3, c.lowMicros = other.lowNs / 1e3, c.highMicros = other.highNs / 1e3;
      r.candidates.push_back(std::move(c));
    }
    std::stable_sort(r.candidates.begin(), r.candidates.end(), [](const TunedCandidate &a, const TunedCandidate &b) { return a.micros < b.micros; });
    jobs.push_back(std::move(job));
  }
  return tuneReport(jobs);
}

int show(const Options &options) {
  const RecordPlace place = placeOf(options, Record::Mode::readOnly);
  const RecordSet rows = readRecord(place, !options.record.empty());
  if (!options.html.empty()) {
    writeFile(options.html, recordReport(rows, options));
    return exitOk;
  }
  RecordSet shown;
  for (const auto &[id, row] : rows.all())
    if (isShown(row, options) && (options.all || (row.kind == RecordRow::Kind::choice && rows.find(row.key) == &row)))
      shown.add(row);
  if (options.json) {
    printOut(autotune::toJson(shown));
    return exitOk;
  }
  std::vector<std::vector<std::string>> table(
      1, {"kernel", "arguments", "choice", "time", "state", "tried", "date", "device", "driver", "assembler", "compiler"});
  for (const auto &[id, row] : shown.all()) {
    const RecordRow *chosen = rows.find(row.key); // `shown` holds copies
    std::string state = row.kind == RecordRow::Kind::candidate ? "candidate" : chosen && *chosen == row ? "chosen" : "not chosen";
    if (!row.note.empty())
      state += ": " + row.note;
    else if (!row.isFinal)
      state += ", noisy";
    auto orNone = [](const std::string &text) { return text.empty() ? std::string("-") : text; };
    table.push_back({row.key.kernel, orNone(row.dims), choiceText(row), timesText(row), state, std::to_string(row.tried), timeText(row.date),
                     whereText(row.key), orNone(row.key.driver), orNone(row.key.assembler), row.key.compiler});
  }
  const std::string total = fmt::format("{}: {} of {} rows\n", place.path, shown.size(), rows.size());
  printOut(shown.size() ? tableText(table) + total : total);
  return exitOk;
}

/// The chosen rows of two records side by side.
int diff(const Options &options) {
  std::vector<std::string> rejected;
  const RecordSet a = readEither(options.files[0], rejected), b = readEither(options.files[1], rejected);
  std::vector<std::vector<std::string>> table(1, {"", "kernel", "arguments", "device", "first", "second", "ratio of times"});
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::size_t same = 0;
  auto entry = [&](const RecordRow *x, const RecordRow *y) {
    if (!isShown(x ? *x : *y, options))
      return;
    if (x && y && x->choice == y->choice && x->choiceContent == y->choiceContent && x->medianNs == y->medianNs && x->isFinal == y->isFinal) {
      ++same;
      return;
    }
    const char *what = !x ? "second only" : !y ? "first only" : x->choice != y->choice ? "other choice" : "other time";
    const RecordKey &key = (x ? x : y)->key;
    auto text = [](const RecordRow *row) {
      return row ? fmt::format("{}, {}{}", choiceText(*row), timesText(*row), row->isFinal ? "" : ", noisy") : std::string("-");
    };
    table.push_back({what, key.kernel, (x ? x : y)->dims, whereText(key), text(x), text(y),
                     x && y ? fmt::format("{:.3f}", y->medianNs / x->medianNs) : std::string("-")});
    nlohmann::ordered_json one{{"difference", what},   {"kernel", key.kernel}, {"content", key.content}, {"layout", key.layout},
                               {"shape", key.shape},   {"gpu", key.gpu},       {"multiprocessors", key.multiprocessors},
                               {"driver", key.driver}, {"compiler", key.compiler}, {"assembler", key.assembler}};
    for (auto [label, row] : {std::pair("first", x), std::pair("second", y)})
      if (row)
        one[label] = {{"choice", row->choice}, {"medianNs", row->medianNs}, {"lowNs", row->lowNs}, {"highNs", row->highNs}, {"final", row->isFinal}};
    list.push_back(std::move(one));
  };
  auto isChosen = [](const RecordSet &set, const RecordRow &row) { return row.kind == RecordRow::Kind::choice && set.find(row.key) == &row; };
  for (const auto &[id, row] : a.all())
    if (isChosen(a, row))
      entry(&row, b.find(row.key));
  for (const auto &[id, row] : b.all())
    if (isChosen(b, row) && !a.find(row.key))
      entry(nullptr, &row);
  if (options.json)
    printOut(nlohmann::ordered_json{{"same", same}, {"differences", list}}.dump(2) + "\n");
  else
    printOut((table.size() > 1 ? tableText(table) : std::string()) + fmt::format("{} choices differ, {} are the same\n", table.size() - 1, same));
  return endWith(rejected);
}

/// Adds rows to the record and says how many changed it.
int addAll(const Options &options, const RecordSet &rows, const std::vector<std::string> &rejected) {
  const RecordPlace place = placeOf(options, Record::Mode::readWrite);
  Record record(place.path, place.mode, place.fileSystem);
  RecordSet before = record.read();
  warn(record.takeProblems());
  std::vector<RecordRow> list;
  for (const auto &[id, row] : rows.all())
    list.push_back(row);
  const std::size_t changed = before.merge(rows);
  if (!record.put(list) || !record.merge())
    fail(joined(record.takeProblems()), "record_write", "check that you may write to the folder, and that there is room");
  warn(record.takeProblems());
  printOut(fmt::format("{}: {} rows read, {} of them new or better, {} rows now\n", place.path, rows.size(), changed, before.size()));
  return endWith(rejected);
}

int merge(const Options &options) {
  std::vector<std::string> rejected;
  RecordSet rows;
  for (const std::string &file : options.files)
    rows.merge(readEither(file, rejected));
  return addAll(options, rows, rejected);
}

int importRows(const Options &options) {
  std::vector<std::string> rejected;
  RecordSet rows;
  for (const std::string &file : options.files)
    rows.merge(readExport(file, rejected));
  return addAll(options, rows, rejected);
}

int exportRows(const Options &options) {
  const RecordSet rows = readRecord(placeOf(options, Record::Mode::readOnly), !options.record.empty());
  RecordSet kept;
  for (const auto &[id, row] : rows.all())
    if (isShown(row, options) && (options.all || row.kind == RecordRow::Kind::choice))
      kept.add(row);
  const std::string text = autotune::toJson(kept);
  if (options.out.empty())
    printOut(text);
  else
    writeFile(options.out, text);
  return exitOk;
}

int prune(const Options &options) {
  PruneRule rule = options.rule;
  rule.kernel = options.kernel;
  if (options.olderThanDays >= 0)
    rule.before = static_cast<std::int64_t>(std::time(nullptr)) - static_cast<std::int64_t>(options.olderThanDays * 86400);
  if (options.otherCompilers)
    rule.compiler = fmt::format("sectile {} {}", SECTILE_VERSION, buildId());
  if (!rule.before && !rule.compiler && rule.kernel.empty() && !rule.losers && !rule.candidates && !rule.noisy)
    fail("nothing says which rows to remove", "record_prune",
         "give some of --older-than, --other-compilers, --kernel, --losers, --candidates, --noisy");
  const RecordPlace place = placeOf(options, Record::Mode::readWrite);
  struct stat info;
  if (!options.record.empty() && stat(place.path.c_str(), &info) != 0 && stat((place.path + ".parts").c_str(), &info) != 0)
    fail(fmt::format("'{}' cannot be read: {}", place.path, std::strerror(errno)), "record_file", "name a tuning record or an export of one");
  Record record(place.path, place.mode, place.fileSystem);
  const std::optional<std::size_t> removed = record.prune(rule);
  if (!removed)
    fail(joined(record.takeProblems()), "record_write", "check that you may write to the folder, and that there is room");
  warn(record.takeProblems());
  printOut(fmt::format("{}: {} rows removed, {} kept\n", place.path, *removed, record.rows().size()));
  return exitOk;
}

} // namespace

void addTuneRecordCommands(CLI::App &tune, std::function<int()> &action) {
  auto options = std::make_shared<Options>();
  auto add = [&](const char *name, const char *about, int (*work)(const Options &)) {
    CLI::App *command = tune.add_subcommand(name, about);
    command->callback([&action, options, work] { action = [options, work] { return work(*options); }; });
    return command;
  };
  auto record = [&](CLI::App *command, const char *about) {
    command->add_option("--record", options->record, about)->type_name("FILE");
    return command;
  };
  auto filter = [&](CLI::App *command) {
    command->add_option("--kernel", options->kernel, "Rows of this kernel alone")->type_name("NAME");
    command->add_option("--gpu", options->gpu, "Rows of this device alone, such as \"NVIDIA H200\"")->type_name("NAME");
    return command;
  };
  const char *inUse = "The record; default: the one in use";

  CLI::App *showCommand = filter(record(add("show", "List what was chosen", show), inUse));
  showCommand->add_flag("--all", options->all, "Rows that are not chosen, and measurements of single candidates, too");
  showCommand->add_flag("--json", options->json, "As an export");
  showCommand->add_option("--html", options->html, "Write a report with drawings to a file, for a browser")->type_name("FILE");
  CLI::App *diffCommand = filter(add("diff", "Compare the choices of two records or exports", diff));
  diffCommand->add_option("files", options->files, "Two records or exports")->required()->expected(2)->type_name("FILE");
  diffCommand->add_flag("--json", options->json, "As JSON");
  CLI::App *mergeCommand = record(add("merge", "Add the rows of other records or exports", merge), "The record that takes them; default: the one in use");
  mergeCommand->add_option("files", options->files, "Records or exports; - is an export from standard input")->required()->type_name("FILE");
  CLI::App *exportCommand = filter(record(add("export", "Write the choices as JSON", exportRows), inUse));
  exportCommand->add_flag("--all", options->all, "Measurements of single candidates, too");
  exportCommand->add_option("--out", options->out, "A file; default: standard output")->type_name("FILE");
  CLI::App *importCommand = record(add("import", "Add the rows of exports", importRows), "The record that takes them; default: the one in use");
  importCommand->add_option("files", options->files, "Exports; - is standard input")->required()->type_name("FILE");
  CLI::App *pruneCommand = record(add("prune", "Remove the rows that any of these names, and damaged ones", prune), inUse);
  pruneCommand->add_option("--kernel", options->kernel, "Rows of this kernel")->type_name("NAME");
  pruneCommand->add_option("--older-than", options->olderThanDays, "Rows measured more than so many days ago")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("DAYS");
  pruneCommand->add_flag("--other-compilers", options->otherCompilers, "Rows of other builds of Sectile");
  pruneCommand->add_flag("--losers", options->rule.losers, "Choices that others have beaten");
  pruneCommand->add_flag("--candidates", options->rule.candidates, "Measurements of single candidates");
  pruneCommand->add_flag("--noisy", options->rule.noisy, "Rows that are not final");
}

} // namespace sectile::tools
