// SPDX-License-Identifier: Apache-2.0
/// \file sectile_whitebox numerics: every op x dtype x shape, on the interpreter against the host reference, on a GPU
/// against both, and through the assembler.
#include "tests/numerics/Cases.h"
#include "tests/numerics/Engine.h"
#include "tests/numerics/Reference.h"
#include "tests/numerics/SelfTest.h"
#include "tests/numerics/Workers.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

using namespace sectile;
using namespace sectile::numerics;

namespace {

struct Options {
  enum Mode { interp, threads, assemble, gpu, list, text, self } mode = interp;
  std::string arch, only;
  std::uint64_t seed = 1, random = 0;
  int jobs = 0, workers = 4, part = 0, parts = 1;
  bool brief = false;
};

constexpr const char *usage = R"(usage: sectile_whitebox numerics [mode] [options]
Modes:
  --interp          every case on the interpreter against the host reference (default)
  --threads         every case lowered with each schedule (warps per block, blocks of a cluster, shared loops, slots of
                    pipelines, persistent blocks that load ahead) and run thread by thread on the executor, against the host reference
  --assemble        every case lowered and assembled; a part of them for every target
  --gpu             every case on GPU 0, against the host reference and the interpreter
  --list            names of the cases
  --self-test       checks the checker: rounding, workers
  --text            module text of the cases that --only picks
Options:
  --random N        N random kernels instead of the table. --interp: before and after sectile-resolve-tails, and
                    through all passes to PTX; --assemble and --gpu as above
  --only TEXT       cases whose name contains TEXT
  --seed N          of the data and of random kernels (1)
  --arch ARCH       target of --assemble and of the PTX of random kernels (sm_90a)
  --brief           the first case of every op and dtype, and a ninth of the others
  --part I/N        every N-th case, from the I-th (counted from 0)
  --workers N       processes that use the GPU at a time (4)
  --jobs N          processes or threads (one per processor)
)";

[[noreturn]] void wrongUsage(const std::string &what) {
  fmt::print(stderr, "sectile_whitebox numerics: {}\n{}", what, usage);
  std::exit(2);
}

Options parse(int argc, char **argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i], value;
    bool hasValue = false;
    if (auto equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
      hasValue = true;
    }
    auto get = [&]() -> const std::string & {
      if (!hasValue) {
        if (++i >= argc)
          wrongUsage(flag + " needs a value");
        value = argv[i];
      }
      return value;
    };
    auto number = [&] {
      char *end = nullptr;
      std::uint64_t v = std::strtoull(get().c_str(), &end, 10);
      if (value.empty() || *end)
        wrongUsage(fmt::format("{} '{}' is not a number", flag, value));
      return v;
    };
    if (flag == "--interp")
      o.mode = Options::interp;
    else if (flag == "--threads")
      o.mode = Options::threads;
    else if (flag == "--assemble")
      o.mode = Options::assemble;
    else if (flag == "--gpu")
      o.mode = Options::gpu;
    else if (flag == "--list")
      o.mode = Options::list;
    else if (flag == "--text")
      o.mode = Options::text;
    else if (flag == "--self-test")
      o.mode = Options::self;
    else if (flag == "--brief")
      o.brief = true;
    else if (flag == "--arch")
      o.arch = get();
    else if (flag == "--only")
      o.only = get();
    else if (flag == "--seed")
      o.seed = number();
    else if (flag == "--random")
      o.random = number();
    else if (flag == "--jobs")
      o.jobs = int(number());
    else if (flag == "--workers")
      o.workers = std::max(1, int(number()));
    else if (flag == "--part") {
      if (std::sscanf(get().c_str(), "%d/%d", &o.part, &o.parts) != 2 || o.parts < 1 || o.part < 0 ||
          o.part >= o.parts)
        wrongUsage("--part is I/N");
    } else
      wrongUsage("unknown option " + flag);
  }
  if (o.jobs < 1)
    o.jobs = std::max(1, int(std::thread::hardware_concurrency()));
  if (!o.arch.empty()) {
    auto names = archNames();
    if (std::find(names.begin(), names.end(), o.arch) == names.end())
      wrongUsage("no target " + o.arch);
  }
  return o;
}

std::vector<Case> chosenCases(const Options &o) {
  std::vector<Case> all;
  if (o.random) {
    for (std::uint64_t n = 0; n < o.random; ++n) {
      Case c;
      c.name = fmt::format("random {}", o.seed + n);
      c.make = [seed = o.seed + n] { return randomKernel(seed); };
      c.sample = n % 37 == 5;
      all.push_back(std::move(c));
    }
  } else {
    all = allCases();
  }
  std::vector<Case> chosen;
  for (Case &c : all)
    if (c.name.find(o.only) != std::string::npos)
      chosen.push_back(std::move(c));
  std::vector<Case> part;
  for (std::size_t i = std::size_t(o.part); i < chosen.size(); i += std::size_t(o.parts))
    part.push_back(std::move(chosen[i]));
  return part;
}

std::uint64_t seedOf(const Options &o, const Case &c) {
  std::uint64_t h = 1469598103934665603u ^ o.seed;
  for (char ch : c.name)
    h = (h ^ std::uint8_t(ch)) * 1099511628211u;
  return h;
}

/// A case made ready, with what the interpreter says about it.
struct Prepared {
  Kernel kernel;
  std::string text;
  std::vector<Memory> before;
  std::vector<Expected> expected;
  Compiled code;
  Outcome outcome; ///< failed or skipped already
};

Outcome failure(const std::string &what) { return {Outcome::failed, what, false}; }

Prepared prepare(const Options &o, const Case &c, Where where) {
  Prepared p;
  p.kernel = c.make();
  p.text = p.kernel.text();
  p.before = makeMemory(p.kernel, seedOf(o, c));
  try {
    p.expected = evaluate(p.kernel, p.before, where);
    if (storedLanes(p.expected) > 0 && knownLanes(p.expected) == 0)
      p.outcome = {Outcome::skipped, "no result is known", false};
  } catch (const Undecidable &e) {
    p.outcome = {Outcome::skipped, e.what(), false};
  }
  return p;
}

Outcome checkInterpreter(const Prepared &p, const std::vector<Expected> &expected, bool resolved) {
  std::vector<Memory> memory = p.before;
  std::string problem = interpret(p.kernel, p.text, memory, resolved);
  if (problem.empty())
    problem = compare(p.kernel, expected, p.before, memory);
  return problem.empty()
             ? Outcome()
             : failure((resolved ? "interpreter after sectile-resolve-tails: " : "interpreter: ") + problem);
}

/// What the check would be worth: with one stored lane turned over, or one byte that nothing is stored to, it
/// must fail.
Outcome checkTheCheck(const Prepared &p) {
  std::vector<Memory> memory = p.before;
  interpret(p.kernel, p.text, memory, false);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Argument &a = p.kernel.arguments[i];
    if (!a.output)
      continue;
    auto bytes = memory[i].bytes();
    bytes[0] ^= 1;
    if (compare(p.kernel, p.expected, p.before, memory).empty())
      return failure("a wrong guard byte passes");
    bytes[0] ^= 1;
    const Expected &e = p.expected[i];
    for (std::size_t n = 0; n < e.numbers.size(); ++n) {
      if (!e.written[n] || unknown(e.numbers[n]) || e.numbers[n].error > 0)
        continue;
      auto *at = bytes.data() + memory[i].lowestAt() + std::int64_t(n * byteSize(a.dtype));
      std::uint64_t was = readBits(at, a.dtype);
      writeBits(at, a.dtype, ~was);
      if (compare(p.kernel, p.expected, p.before, memory).empty())
        return failure("a wrong lane passes");
      writeBits(at, a.dtype, was);
      break;
    }
  }
  return {};
}

Outcome interpCase(const Options &o, const Case &c) {
  Prepared p = prepare(o, c, Where::interpreter);
  if (p.outcome.kind != Outcome::passed)
    return p.outcome;
  Outcome r = checkInterpreter(p, p.expected, false);
  if (r.kind == Outcome::passed)
    r = checkInterpreter(p, p.expected, true);
  if (r.kind == Outcome::passed)
    r = checkTheCheck(p);
  if (r.kind == Outcome::passed && o.random) {
    Compiled code =
        compile(p.text, launchArguments(p.kernel, p.before), o.arch.empty() ? "sm_90a" : o.arch, false);
    if (!code.problem.empty())
      return failure("lowering: " + code.problem);
  }
  return r;
}

Outcome threadsCase(const Options &o, const Case &c) {
  Prepared p = prepare(o, c, Where::interpreter);
  if (p.outcome.kind != Outcome::passed)
    return p.outcome;
  Outcome r = checkInterpreter(p, p.expected, false);
  // The last ones: with pipelines and products of warpgroups.
  static constexpr Schedule schedules[] = {{},        {1},       {2},       {4},          {8},          {16},
                                           {0, 2},    {2, 4},    {4, 8},    {0, 0, 1},    {0, 0, 2},    {2, 0, 5},
                                           {0, 0, 0, 1, 2}, {2, 0, 0, 1, 2}, {2, 4, 0, 1, 2},
                                           {0, 0, 0, 0}, {4, 0, 0, 2}, {8, 0, 0, 3}};
  const bool products = p.text.find("tile.mma") != std::string::npos;
  int ran = 0;
  for (const Schedule &schedule : schedules) {
    if (schedule.stages != 1 && !products)
      continue; // the same code
    std::vector<Memory> memory = p.before;
    bool limit = false;
    std::string problem = runOnThreads(p.text, launchArguments(p.kernel, memory),
                                       o.arch.empty() ? "sm_90a" : o.arch, schedule, limit);
    if (limit && (schedule.warps || schedule.cluster || schedule.split || schedule.stages > 1))
      continue; // too few threads for its registers, a product on a cluster
    if (problem.empty())
      problem = compare(p.kernel, p.expected, p.before, memory);
    if (!problem.empty())
      return failure(fmt::format("warps {}, cluster {}, split {}, stages {}, ahead {}: {}", schedule.warps, schedule.cluster,
                                 schedule.split, schedule.stages, schedule.ahead, problem));
    ++ran;
  }
  return ran > 1 ? r : failure("no schedule was possible");
}

Outcome assembleCase(const Options &o, const Case &c) {
  Kernel kernel = c.make();
  std::string text = kernel.text(), problems, remarks;
  std::vector<Memory> memory = makeMemory(kernel, seedOf(o, c));
  std::vector<std::string> archs{o.arch.empty() ? "sm_90a" : o.arch};
  if (c.sample && o.arch.empty())
    archs = archNames();
  for (const std::string &arch : archs) {
    Compiled code = compile(text, launchArguments(kernel, memory), arch, true);
    if (!code.problem.empty())
      problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ", arch, code.problem);
    else if (code.artifact->cubin.empty())
      problems += fmt::format("{}{}: no cubin", problems.empty() ? "" : "; ", arch);
    for (const std::string &w : code.warnings)
      remarks += fmt::format("{}: {} ", arch, w);
  }
  return problems.empty() ? Outcome{Outcome::passed, remarks, false} : failure(problems);
}

/// Cases that differ in their data alone give the same code.
std::vector<Case> distinctKernels(std::vector<Case> cases) {
  std::set<std::string> seen;
  std::vector<Case> kept;
  for (Case &c : cases) {
    Kernel k = c.make();
    k.name = "k";
    if (seen.insert(k.text()).second)
      kept.push_back(std::move(c));
  }
  return kept;
}

/// The first case of every op and dtype, and a ninth of the others.
std::vector<Case> representatives(std::vector<Case> cases) {
  std::set<std::string> seen;
  std::vector<Case> kept;
  std::size_t others = 0;
  for (Case &c : cases) {
    // "reduce sum f32", "cast f16 to i8", "mma f16 f16 f32 exact": up to the shape or a bare number.
    std::size_t end = c.name.find('[');
    for (std::size_t i = 1; i < std::min(end, c.name.size()); ++i)
      if (c.name[i - 1] == ' ' && std::isdigit(static_cast<unsigned char>(c.name[i])))
        end = i;
    if (seen.insert(c.name.substr(0, end)).second || others++ % 9 == 0)
      kept.push_back(std::move(c));
  }
  return kept;
}

/// What has to be asked in a process that may use the GPU, so that workers can be forked from this one.
std::string askWorker(const std::function<std::string()> &question) {
  WorkerOptions options;
  options.stallSeconds = 120;
  auto answers = runInWorkers(1, options, [&](std::size_t) {
    return Outcome{Outcome::passed, question(), false};
  });
  if (answers[0].kind != Outcome::passed)
    throw std::runtime_error(answers[0].text);
  return answers[0].text;
}

std::vector<Outcome> runGpu(const Options &o, const std::vector<Case> &cases) {
  std::string arch = askWorker([] { return gpuCount() > 0 ? gpuArch() : std::string(); });
  if (arch.empty())
    return std::vector<Outcome>(cases.size(), Outcome{Outcome::skipped, "no GPU", false});
  fmt::print("target {}\n", arch);
  std::vector<Prepared> prepared(cases.size());
  {
    std::atomic<std::size_t> next{0};
    auto work = [&] {
      for (std::size_t i; (i = next++) < cases.size();) {
        Prepared &p = prepared[i];
        try {
          p = prepare(o, cases[i], Where::gpu);
          if (p.outcome.kind != Outcome::passed)
            continue;
          p.outcome = checkInterpreter(p, evaluate(p.kernel, p.before, Where::interpreter), false);
          p.code = compile(p.text, launchArguments(p.kernel, p.before), arch, true);
          if (!p.code.problem.empty())
            p.outcome = failure("compiling: " + p.code.problem);
        } catch (const std::exception &e) {
          p.outcome = failure(e.what());
        }
      }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < o.jobs; ++t)
      threads.emplace_back(work);
    for (auto &t : threads)
      t.join();
  }
  fmt::print("{} cases compiled\n", cases.size());
  std::fflush(stdout);
  WorkerOptions options;
  options.jobs = o.workers;
  options.start = [] { gpuArch(); };
  return runInWorkers(cases.size(), options, [&](std::size_t i) {
    const Prepared &p = prepared[i];
    if (p.outcome.kind != Outcome::passed)
      return p.outcome;
    std::vector<Memory> memory = p.before;
    try {
      runOnGpu(p.code, p.kernel, memory);
    } catch (const std::exception &e) {
      return Outcome{Outcome::failed, std::string("gpu: ") + e.what(), true};
    }
    std::string problem = compare(p.kernel, p.expected, p.before, memory);
    return problem.empty() ? Outcome() : failure("gpu: " + problem);
  });
}

int runSelfTest() {
  std::size_t passed = 0, failed = 0;
  for (const SelfCheck &c : selfTest()) {
    if (!c.problem.empty())
      fmt::print("failed: {}: {}\n", c.name, c.problem);
    ++(c.problem.empty() ? passed : failed);
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed != 0;
}

int run(const Options &o) {
  if (o.mode == Options::self)
    return runSelfTest();
  std::vector<Case> cases = chosenCases(o);
  if (o.mode == Options::assemble)
    cases = distinctKernels(std::move(cases));
  if (o.brief)
    cases = representatives(std::move(cases));
  if (o.mode == Options::list || o.mode == Options::text) {
    for (const Case &c : cases)
      fmt::print("{}", o.mode == Options::list ? c.name + "\n" : "// " + c.name + "\n" + c.make().text());
    return 0;
  }
  std::vector<Outcome> outcomes;
  if (o.mode == Options::gpu) {
    outcomes = runGpu(o, cases);
  } else if (o.mode == Options::assemble && !havePtxas()) {
    outcomes.assign(cases.size(), {Outcome::skipped, "no ptxas", false});
  } else {
    WorkerOptions options;
    options.jobs = o.jobs;
    options.stallSeconds = 120; // a loaded machine
    outcomes = runInWorkers(cases.size(), options, [&](std::size_t i) {
      return o.mode == Options::interp    ? interpCase(o, cases[i])
             : o.mode == Options::threads ? threadsCase(o, cases[i])
                                          : assembleCase(o, cases[i]);
    });
  }
  std::size_t passed = 0, failed = 0, skipped = 0;
  std::map<std::string, std::size_t> skips;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Outcome &r = outcomes[i];
    (r.kind == Outcome::passed ? passed : r.kind == Outcome::failed ? failed : skipped)++;
    if (r.kind == Outcome::failed)
      fmt::print("failed: {}: {}\n", cases[i].name, r.text);
    else if (r.kind == Outcome::skipped)
      ++skips[r.text];
    else if (!r.text.empty())
      fmt::print("note: {}: {}\n", cases[i].name, r.text);
  }
  for (const auto &[why, n] : skips)
    fmt::print("not run: {} cases: {}\n", n, why);
  fmt::print("{} passed, {} failed{}\n", passed, failed,
             skipped ? fmt::format(", {} skipped", skipped) : std::string());
  return failed || cases.empty() ? 1 : 0;
}

} // namespace

int numericsMain(int argc, char **argv) {
  Options o = parse(argc, argv);
  try {
    return run(o);
  } catch (const std::exception &e) {
    fmt::print(stderr, "sectile_whitebox numerics: {}\n", e.what());
    return 3;
  }
}
