// SPDX-License-Identifier: Apache-2.0
#include "tests/perf/Bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace bench {
namespace {

constexpr std::int64_t flushBytes = std::int64_t(256) << 20;
constexpr double spinCyclesPerMicro = 1900;
constexpr unsigned flushThreads = 256;

/// Each thread writes 16 bytes.
constexpr const char *flushPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry bench_flush(.param .u64 data, .param .u32 value) .reqntid 256
{
  .reg .b32 %r<5>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [data];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r2, 256, %r3;
  mul.wide.u32 %d2, %r4, 16;
  add.u64 %d3, %d1, %d2;
  st.global.v4.u32 [%d3], {%r1, %r1, %r1, %r1};
  ret;
}
)";
constexpr const char *spinPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry bench_spin(.param .u64 cycles) .reqntid 1
{
  .reg .b64 %d<5>;
  .reg .pred %p;
  ld.param.u64 %d1, [cycles];
  mov.u64 %d2, %clock64;
WAIT:
  mov.u64 %d3, %clock64;
  sub.u64 %d4, %d3, %d2;
  setp.lt.u64 %p, %d4, %d1;
  @%p bra WAIT;
  ret;
}
)";

double rounded(double v, int digits) {
  double scale = std::pow(10.0, digits);
  return std::round(v * scale) / scale;
}

nlohmann::ordered_json head(const LineInfo &info) {
  return {{"suite", info.suite},
          {"op", info.op},
          {"dtype", info.dtype},
          {"shape", info.shape},
          {"impl", info.impl}};
}

void append(std::string &notes, const std::string &more) { notes += (notes.empty() ? "" : "; ") + more; }

} // namespace

bool Options::wants(const std::string &op) const {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string &part) {
           return op.find(part) != std::string::npos;
         });
}

Output::Output(const std::string &name) {
  if (!name.empty() && !(file = std::fopen(name.c_str(), "we")))
    throw std::runtime_error(fmt::format("'{}' cannot be written", name));
}
Output::~Output() {
  if (file)
    std::fclose(file);
}
void Output::line(const nlohmann::ordered_json &json) {
  for (std::FILE *to : {stdout, file})
    if (to) {
      fmt::print(to, "{}\n", json.dump());
      std::fflush(to);
    }
}
void Output::say(const std::string &text) {
  fmt::print("# {}\n", text);
  std::fflush(stdout);
}
void Output::failed(const std::string &what, const std::string &why) {
  ++failureCount;
  say(fmt::format("FAILED {}: {}", what, why));
}

Timing::Timing(std::vector<double> samples, double hostMicros)
    : millis(std::move(samples)), hostMicros(hostMicros) {
  if (millis.empty())
    throw std::logic_error("a timing has at least one sample");
  std::sort(millis.begin(), millis.end());
}
double Timing::median() const {
  std::size_t n = millis.size();
  return n % 2 ? millis[n / 2] : 0.5 * (millis[n / 2 - 1] + millis[n / 2]);
}

void printTiming(Output &out, const LineInfo &info, const Timing &timing) {
  nlohmann::ordered_json json = head(info);
  json["ms_median"] = rounded(timing.median(), 6);
  json["ms_min"] = rounded(timing.min(), 6);
  if (info.flops > 0)
    json["tflops"] = rounded(info.flops / timing.median() / 1e9, 2);
  if (info.bytes > 0)
    json["gbps"] = rounded(info.bytes / timing.median() / 1e6, 1);
  std::string notes = info.notes;
  append(notes, timing.hostMicros < 0
                    ? fmt::format("samples={}", timing.millis.size())
                    : fmt::format("reps={} host_us={:.1f}", timing.millis.size(), timing.hostMicros));
  json["notes"] = notes;
  out.line(json);
}

void printRatio(Output &out, const LineInfo &info, std::vector<double> perRound, const std::string &meaning) {
  Timing sorted(std::move(perRound));
  nlohmann::ordered_json json = head(info);
  json["ms_median"] = nullptr;
  json["ms_min"] = nullptr;
  json["ratio"] = rounded(sorted.median(), 4);
  std::string notes = info.notes;
  append(notes, fmt::format("{}; rounds={} spread={:.4f}..{:.4f}", meaning, sorted.millis.size(),
                            sorted.millis.front(), sorted.millis.back()));
  json["notes"] = notes;
  out.line(json);
}

double nowMicros() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Gpu::Gpu()
    : ours(sectile::Device::gpu(0)), flushed(ours, flushBytes), flushKernel(loadKernel(api, flushPtx)),
      spinKernel(loadKernel(api, spinPtx)) {}

void Gpu::launch(const BareKernel &kernel, unsigned blocks, void **params) {
  LaunchConfig config;
  config.gridX = blocks;
  config.blockX = kernel.threads;
  config.stream = native();
  api.check(api.cuLaunchKernelEx(&config, kernel.function, params, nullptr), "cuLaunchKernelEx");
}

void Gpu::flush() {
  void *data = flushed.data();
  ++flushValue;
  void *params[] = {&data, &flushValue};
  launch(flushKernel, static_cast<unsigned>(flushBytes / 16 / flushThreads), params);
}

void Gpu::spin(double micros) {
  auto cycles = static_cast<std::uint64_t>(micros * spinCyclesPerMicro);
  void *params[] = {&cycles};
  launch(spinKernel, 1, params);
}

std::vector<double> Gpu::samples(const std::function<void(int)> &call, int count, int sets,
                                 double spinMicros) {
  std::vector<EventPair> events;
  for (int i = 0; i < count; ++i)
    events.emplace_back(api);
  for (int i = 0; i < count; ++i) {
    flush();
    spin(spinMicros);
    events[static_cast<std::size_t>(i)].begin(native());
    call(i % sets);
    events[static_cast<std::size_t>(i)].end(native());
  }
  synchronize();
  std::vector<double> millis;
  for (const EventPair &e : events)
    millis.push_back(e.millis());
  return millis;
}

double Gpu::hostMicros(const std::function<void(int)> &call, int sets) const {
  double best = 1e9;
  for (int i = 0; i < 4; ++i) {
    synchronize();
    double start = nowMicros();
    call(i % sets);
    best = std::min(best, nowMicros() - start);
  }
  synchronize();
  return best;
}

/// Long enough for the host to enqueue everything; the flush in front of it takes about 60 us of its own.
static double spinFor(double hostMicros) { return std::clamp(1.6 * hostMicros + 12 - 60, 6.0, 3000.0); }

Timing Gpu::measure(const std::function<void(int)> &call, int sets, bool quick) {
  const double targetMillis = quick ? 100 : 200;
  const int least = quick ? 25 : 50, most = quick ? 100 : 200, warmUp = 20;
  call(0);
  synchronize();
  spin(5000); // clocks come up after an idle stretch
  EventPair rough(api);
  rough.begin(native());
  for (int i = 0; i < 3; ++i)
    call(i % sets);
  rough.end(native());
  synchronize();
  double estimate = std::max(1e-3, rough.millis() / 3);
  for (int i = 0; i < warmUp; ++i)
    call(i % sets);
  synchronize();
  double host = hostMicros(call, sets);
  int count = static_cast<int>(std::clamp(std::ceil(targetMillis / estimate), double(least), double(most)));
  if (count * estimate > 3 * targetMillis)
    count = std::max(10, static_cast<int>(std::ceil(targetMillis / estimate)));
  return Timing(samples(call, count, sets, spinFor(host)), host);
}

double Gpu::roughMillis(const std::function<void(int)> &call, int sets, int count) {
  call(0);
  spin(2000);
  synchronize();
  double host = hostMicros(call, sets);
  samples(call, 2, sets, spinFor(host));
  return Timing(samples(call, count, sets, spinFor(host))).median();
}

std::string nameOf(const sectile::Config &config) { return config.str().empty() ? "default" : config.str(); }

/// Prepares the candidates and runs each once, so that all compiling happens here, on all processors. The
/// calls of each, or what went wrong.
static std::vector<std::pair<std::vector<Call>, std::exception_ptr>>
compileAll(Gpu &gpu, const std::vector<Candidate> &candidates) {
  std::vector<std::pair<std::vector<Call>, std::exception_ptr>> all(candidates.size());
  std::atomic<std::size_t> next = 0;
  parallel(static_cast<std::int64_t>(candidates.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      std::size_t i = next++;
      try {
        all[i].first = candidates[i].prepare();
        all[i].first.front()(gpu.stream());
      } catch (...) {
        all[i].second = std::current_exception();
      }
    }
  });
  gpu.synchronize();
  return all;
}

namespace {
struct Contestant {
  Best best;
  double millis = 0, error = 0;
};
} // namespace

/// The fastest. Single measurements of a card at its power limit differ by more than the candidates do: those near the first one are
/// measured again, by turns, and the median decides.
static Contestant fastest(Gpu &gpu, std::vector<Contestant> all, int sets) {
  constexpr double near = 1.05;
  constexpr std::size_t most = 4;
  constexpr int turns = 5;
  std::stable_sort(all.begin(), all.end(), [](const Contestant &a, const Contestant &b) { return a.millis < b.millis; });
  while (all.size() > most || all.back().millis > near * all.front().millis)
    all.pop_back();
  if (all.size() == 1)
    return all.front();
  std::vector<std::vector<double>> times(all.size());
  for (int turn = 0; turn < turns; ++turn)
    for (std::size_t i = 0; i < all.size(); ++i)
      times[i].push_back(gpu.roughMillis([&](int set) { all[i].best.calls[static_cast<std::size_t>(set)](gpu.stream()); }, sets));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].millis = Timing(times[i]).median();
  return *std::min_element(all.begin(), all.end(), [](const Contestant &a, const Contestant &b) { return a.millis < b.millis; });
}

Best runCase(Gpu &gpu, Output &out, const Options &options, Case c) {
  const std::string what = fmt::format("{} {} {}", c.info.op, c.info.dtype, c.info.shape);
  if (!options.tune || options.quick)
    c.candidates.resize(1);
  std::vector<Contestant> contestants;
  int tried = 0, wrong = 0, unusable = 0;
  std::string lastProblem = "no candidate";
  auto compiled = compileAll(gpu, c.candidates);
  for (std::size_t i = 0; i < c.candidates.size(); ++i) {
    const std::string &name = c.candidates[i].name;
    try {
      if (compiled[i].second)
        std::rethrow_exception(compiled[i].second);
      const std::vector<Call> &calls = compiled[i].first;
      auto call = [&](int set) { calls[static_cast<std::size_t>(set)](gpu.stream()); };
      c.poison();
      call(0);
      gpu.synchronize();
      double error = c.error();
      if (!(error <= c.tolerance)) {
        ++wrong;
        lastProblem = fmt::format("relative error {:.3e} is over {:.1e} with {}", error, c.tolerance, name);
        out.failed(what, lastProblem);
        continue;
      }
      double millis = c.candidates.size() > 1 ? gpu.roughMillis(call, c.sets) : 0;
      ++tried;
      if (options.candidates)
        out.say(fmt::format("{} takes {:.1f} us with {}", what, millis * 1e3, name));
      contestants.push_back({{calls, name}, millis, error});
    } catch (const sectile::UserError &e) { // over a limit of the device: other candidates may fit
      if (e.rule() == "device_fault")
        throw;
      ++unusable;
      lastProblem = e.what();
      out.say(fmt::format("{} cannot use {}: {}", what, name, e.what()));
    } catch (const sectile::InternalError &e) {
      ++unusable;
      lastProblem = e.what();
      out.failed(fmt::format("{} with {}", what, name), e.what());
    }
  }
  if (contestants.empty()) {
    out.failed(what, "nothing to time: " + lastProblem);
    return {};
  }
  const auto [best, bestMillis, bestError] = fastest(gpu, std::move(contestants), c.sets);
  auto call = [&](int set) { best.calls[static_cast<std::size_t>(set)](gpu.stream()); };
  append(c.info.notes, fmt::format("cfg={}; tuned over {} ({} wrong, {} unusable); err={:.2e}", best.name,
                                   tried, wrong, unusable, bestError));
  std::string answer;
  do
    printTiming(out, c.info, gpu.measure(call, c.sets, options.quick));
  while (options.turns && std::getline(std::cin, answer) && answer == "again");
  return best;
}

void normalPair(std::uint64_t seed, std::uint64_t counter, float &a, float &b) {
  // splitmix64 of the counter, then Box and Muller.
  std::uint64_t z = (seed << 40) + (counter + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  float u = (static_cast<float>(z >> 40) + 0.5f) * 0x1p-24f, v = static_cast<float>(z & 0xFFFFFF) * 0x1p-24f;
  float radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi_v<float> * v;
  a = radius * std::cos(angle);
  b = radius * std::sin(angle);
}

} // namespace bench
