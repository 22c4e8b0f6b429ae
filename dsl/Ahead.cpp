// SPDX-License-Identifier: Apache-2.0
#include "dsl/Ahead.h"

#include "autotune/Record.h"
#include "dsl/Choice.h"
#include "dsl/ModelChoice.h"
#include "ir/base/TargetList.h"
#include "runtime/Launch.h"
#include "runtime/Module.h"
#include "runtime/Split.h"

#include <sectile/Targets.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

namespace sectile {
namespace {

using autotune::Record;
using autotune::RecordKey;
using autotune::RecordRow;
using autotune::RecordSet;

[[noreturn]] void fail(std::string message, const char *rule, std::string wayOut) {
  throw UserError({{}, {}, "build", std::move(message), rule, std::move(wayOut)});
}

bool isIdentifier(const std::string &name) {
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

/// What is compiled, and where it comes from. `row` is the row of the record it was taken from.
struct Chosen {
  std::optional<Config> config; ///< nullopt: the first values
  std::string origin;
  std::optional<RecordRow> row = {};
};

/// The record's choice for this kernel and these arguments on one kind of GPU, whatever its driver was.
std::optional<Chosen> chosenByRecord(const AheadJob &job, const std::vector<RecordRow> &rows, const std::string &gpu) {
  RecordKey key = recordKey(job.kernel, job.args, Device::interpreter(), contentOf(job.kernel, job.args));
  key.gpu = gpu;
  key.multiprocessors = 0;
  RecordSet fitting;
  std::map<std::string, RecordRow> asWritten; // by choice and lengths
  for (const RecordRow &row : rows) {
    RecordRow own = row;
    own.key.driver = own.key.assembler = {};
    own.key.multiprocessors = 0;
    if (own.key.kernel != key.kernel || own.key.gpu != gpu)
      continue;
    fitting.add(own);
    asWritten[own.choice + "\n" + own.dims] = row;
  }
  for (const RecordRow *row : {fitting.find(key), fitting.findNeighbour(key)}) {
    if (!row)
      continue;
    const std::optional<Config> config = parseChoice(row->choice);
    try {
      if (config && contentOf(job.kernel, job.args, &*config) == row->choiceContent)
        return Chosen{config, fmt::format("record of {}, {}", gpu, row->dims), asWritten[row->choice + "\n" + row->dims]};
    } catch (const UserError &) { // a choice that the kernel no longer has
    }
  }
  return std::nullopt;
}

Chosen choose(const AheadJob &job, const Target &target, const std::vector<RecordRow> &rows, const AheadOptions &options) {
  std::vector<std::string> gpus;
  for (const auto &[arch, gpu] : options.gpus)
    if (arch == target.arch)
      gpus.push_back(gpu);
  if (gpus.empty())
    for (const RecordRow &row : rows)
      if (row.key.gpu.find(target.chip) != std::string::npos && std::find(gpus.begin(), gpus.end(), row.key.gpu) == gpus.end())
        gpus.push_back(row.key.gpu);
  for (const std::string &gpu : gpus)
    if (auto chosen = chosenByRecord(job, rows, gpu))
      return *chosen;
  ModelChoice choice = modelChoice(job.kernel, job.args, target, target.smCount);
  if (choice.config)
    return {std::move(choice.config), "model: " + choice.why};
  return {std::nullopt, "first values: " + choice.why};
}

/// The same with programs of the last round shared, where a launch with the job's arguments on
/// the target's chip would take that.
std::shared_ptr<const CompiledKernel> fitted(const AheadJob &job, const Target &target, std::shared_ptr<const CompiledKernel> plain) {
  std::vector<KernelArg> passed;
  for (std::size_t i = 0; i < job.args.size(); ++i)
    if (job.kernel.params[i].kind != detail::ParamDesc::Kind::constant)
      passed.push_back(job.args[i]);
  for (const GridAxis &axis : plain->launch.grid)
    if (passed[static_cast<std::size_t>(axis.arg)].dims[static_cast<std::size_t>(axis.axis)] < 1)
      return plain;
  DeviceProperties device;
  device.multiprocessors = target.smCount;
  device.maxThreadsPerMultiprocessor = target.threadsPerSm;
  device.registersPerMultiprocessor = target.registersPerSm;
  device.sharedBytesPerMultiprocessor = target.sharedBytesPerSm;
  const LaunchInfo &info = plain->launch;
  const std::int64_t programs = runtime::gridPrograms(info, passed, {job.kernel.name, {}});
  if (!info.split.stream || info.split.possible || plain->config.streamk != 0 ||
      !runtime::sharingPays(info, passed, programs, plain->module->artifact().registers, device))
    return plain;
  Config config = parseChoice(choiceText(plain->config)).value_or(Config());
  config.streamk = 2;
  return compile(job.kernel, job.args, &config, std::string(target.arch), true, nullptr);
}

/// The variants of a job for a target, in the order of its configurations.
void compileJob(const AheadJob &job, const std::string &name, const Target &target, const Chosen &chosen, bool mayFallBack, std::vector<AheadVariant> &out) {
  const std::string arch(target.arch);
  Chosen used = chosen;
  std::shared_ptr<const CompiledKernel> compiled;
  if (mayFallBack && used.config) {
    try {
      compiled = compile(job.kernel, job.args, &*used.config, arch, true, nullptr);
      if (compiled->module->artifact().spillBytes > 0)
        compiled = nullptr;
    } catch (const UserError &) {
    }
    if (!compiled)
      used = {std::nullopt, "first values, for the choice of the " + chosen.origin + " spills or does not compile"};
  }
  const Config *config = used.config ? &*used.config : nullptr;
  if (!compiled)
    compiled = compile(job.kernel, job.args, config, arch, true, nullptr);
  compiled = fitted(job, target, compiled);
  const Config asCompiled = parseChoice(choiceText(compiled->config)).value_or(Config());
  out.push_back({&job, name, arch, used.origin, compiled, compiled->launch.assumesApart});
  if (compiled->launch.assumesApart)
    out.push_back({&job, name, arch, used.origin, compile(job.kernel, job.args, &asCompiled, arch, false, nullptr), false});
}

std::string tableOf(const std::vector<AheadVariant> &variants) {
  std::string text = fmt::format("{:<20} {:<8} {:<40} {:>5} {:>6} {:>9}  {}\n", "kernel", "target", "configuration", "regs", "spills", "code B", "from");
  for (const AheadVariant &v : variants) {
    const Artifact &a = v.compiled->module->artifact();
    text += fmt::format("{:<20} {:<8} {:<40} {:>5} {:>6} {:>9}  {}{}\n", v.kernel, v.arch, v.compiled->config.str(), a.registers, a.spillBytes,
                        a.cubin.empty() ? a.ptx.size() : a.cubin.size(), v.origin,
                        v.compiled->launch.assumesApart ? "" : v.compiled->facts.apart ? "" : ", for arguments that share memory");
  }
  return text;
}

} // namespace

AheadResult buildAhead(const std::vector<AheadJob> &jobs, const AheadOptions &options) {
  if (!isIdentifier(options.name))
    fail(fmt::format("'{}' is to begin every name in C", options.name), "build_name", "take letters, digits and _, a letter first");
  if (options.archs.empty())
    fail("no target is named", "build_target", fmt::format("name some of {}", targetList()));
  for (const std::string &arch : options.archs)
    if (!findTarget(arch))
      fail(fmt::format("'{}' is no target; targets are {}", arch, targetList()), "build_target", "`sectile targets` lists them");
  // By published name; in C other characters than letters, digits and _ become _, and no two kernels have one name.
  std::map<std::string, std::string> kernels;
  std::set<std::string> taken;
  for (const AheadJob &job : jobs)
    kernels[job.name];
  for (auto &[name, inC] : kernels) {
    inC = name;
    std::replace_if(inC.begin(), inC.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    while (!taken.insert(inC).second)
      inC += '_';
  }

  std::vector<RecordRow> rows;
  if (const autotune::RecordPlace place = autotune::recordPlace(); !place.path.empty()) {
    Record record(place.path, Record::Mode::readOnly, place.fileSystem);
    for (const auto &[id, row] : record.read().all())
      if (row.kind == RecordRow::Kind::choice)
        rows.push_back(row);
    for (const std::string &problem : record.takeProblems())
      fmt::print(stderr, "sectile: {}\n", problem);
  }
  AheadResult result;
  RecordSet used;
  for (const auto &[name, inC] : kernels)
    for (const AheadJob &job : jobs) {
      if (job.name != name)
        continue;
      for (const std::string &arch : options.archs) {
        const Target &target = *findTarget(arch);
        if (job.byHand.empty()) {
          const Chosen chosen = choose(job, target, rows, options);
          if (chosen.row)
            used.add(*chosen.row);
          compileJob(job, inC, target, chosen, true, result.variants);
        }
        for (const Config &config : job.byHand)
          compileJob(job, inC, target, {config, "by hand"}, false, result.variants);
      }
    }
  result.files = aheadText(result.variants, options, toJson(used));
  result.files.emplace_back("sectile_c.h", aheadRuntimeHeader);
  result.files.emplace_back("sectile_c.c", aheadRuntimeSource);
  result.table = tableOf(result.variants);
  return result;
}

} // namespace sectile
