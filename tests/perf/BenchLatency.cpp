// SPDX-License-Identifier: Apache-2.0
/// \file What launching costs, against the driver alone with the same kernel and arguments.
#include "tests/perf/Bench.h"
#include "tests/perf/BenchKernels.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <stdexcept>

namespace bench {
namespace {

constexpr int callsPerRound = 500; // fewer than the launch queue holds, so that nothing blocks
constexpr int graphNodes = 1000;
constexpr std::int64_t elements = 1024; // one program of every kernel here

/// Kernel parameters as the library passes them: each at its natural alignment.
class Parameters {
public:
  template <class T> void add(T value) {
    bytes = (bytes + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    pointers.push_back(storage.data() + bytes);
    std::memcpy(storage.data() + bytes, &value, sizeof(T));
    bytes += sizeof(T);
  }
  void addVector(const void *data) {
    add(data);
    add(elements);
    add(std::int64_t(1));
  }
  int count() const { return static_cast<int>(pointers.size()); }
  void **each() { return pointers.data(); }
  void **packed() {
    extra = {reinterpret_cast<void *>(1), storage.data(), reinterpret_cast<void *>(2), &bytes, nullptr};
    return extra.data();
  }

private:
  alignas(8) std::array<std::byte, 256> storage{};
  std::vector<void *> pointers;
  std::array<void *, 5> extra{};
  std::size_t bytes = 0;
};

/// One kernel with its three ways to be launched, and the driver's two.
struct Launches {
  std::string shape;
  std::function<void()> prepared, plain, bareEach, barePacked;
};

/// Microseconds per call, one number per round; the order of the ways turns from round to round.
std::vector<std::vector<double>> hostCosts(Gpu &gpu, const std::vector<std::function<void()>> &ways,
                                           int rounds) {
  for (const auto &way : ways)
    for (int i = 0; i < 200; ++i)
      way();
  gpu.synchronize();
  std::vector<std::vector<double>> micros(ways.size());
  for (int r = 0; r < rounds; ++r)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      std::size_t way = (w + static_cast<std::size_t>(r)) % ways.size();
      double start = nowMicros();
      for (int i = 0; i < callsPerRound; ++i)
        ways[way]();
      micros[way].push_back((nowMicros() - start) / callsPerRound);
      gpu.synchronize();
    }
  return micros;
}

double allocationsPerCall(Gpu &gpu, const std::function<void()> &way) {
  way();
  gpu.synchronize();
  countAllocations(true);
  for (int i = 0; i < callsPerRound; ++i)
    way();
  countAllocations(false);
  gpu.synchronize();
  std::int64_t count = allocationCount();
  return count < 0 ? -1 : static_cast<double>(count) / callsPerRound;
}

Timing millis(std::vector<double> micros) {
  for (double &v : micros)
    v /= 1000;
  return Timing(std::move(micros));
}

void launchCosts(Gpu &gpu, Output &out, const Options &options, const Launches &l) {
  std::vector<std::function<void()>> ways = {l.prepared, l.plain, l.barePacked};
  if (l.bareEach)
    ways.push_back(l.bareEach);
  const int rounds = std::max(options.rounds, options.quick ? 5 : 25);
  std::vector<std::vector<double>> micros = hostCosts(gpu, ways, rounds);
  const char *impls[] = {"sectile", "sectile_plain", "bare_cuLaunchKernelEx",
                         "bare_cuLaunchKernelEx_pointers"};
  const char *texts[] = {"prepared call", "plain call", "bare cuLaunchKernelEx, arguments packed by hand",
                         "bare cuLaunchKernelEx, a pointer per argument"};
  LineInfo info{.suite = "latency", .op = "launch_host", .dtype = "-", .shape = l.shape};
  for (std::size_t w = 0; w < ways.size(); ++w) {
    double allocations = allocationsPerCall(gpu, ways[w]);
    info.impl = impls[w];
    info.notes = fmt::format("{}; {}", texts[w],
                             allocations < 0 ? std::string("allocations not counted in this build")
                                             : fmt::format("host_allocations_per_call={:.3f}", allocations));
    printTiming(out, info, millis(micros[w]));
    if (w < 2 && allocations > allocationsPerCall(gpu, l.barePacked))
      out.failed("launch_host " + l.shape,
                 fmt::format("the {} allocates {:.3f} times per launch", texts[w], allocations));
  }
  for (std::size_t w = 0; w < 2; ++w) {
    std::vector<double> ratios;
    for (std::size_t r = 0; r < micros[w].size(); ++r)
      ratios.push_back(micros[w][r] / (l.bareEach ? std::min(micros[2][r], micros[3][r]) : micros[2][r]));
    info.op = "ratio";
    info.impl = impls[w];
    info.notes.clear();
    info.shape = fmt::format("launch_host_{}/bare", l.shape);
    printRatio(out, info, ratios,
               fmt::format("host time of a {} over the quicker bare cuLaunchKernelEx", texts[w]));
  }
}

void launchAndSync(Gpu &gpu, Output &out, const Launches &l) {
  for (auto [impl, way] : {std::pair{"sectile", l.prepared}, {"bare_cuLaunchKernelEx", l.barePacked}}) {
    std::vector<double> micros;
    for (int r = 0; r < 300; ++r) {
      double start = nowMicros();
      way();
      gpu.driver().cuStreamSynchronize(gpu.native());
      micros.push_back(nowMicros() - start);
    }
    printTiming(out,
                {.suite = "latency", .op = "launch_and_sync", .dtype = "-", .shape = l.shape, .impl = impl},
                millis(micros));
  }
}

void chain(Gpu &gpu, Output &out, const Launches &l) {
  for (auto [impl, way] : {std::pair{"sectile", l.prepared}, {"bare_cuLaunchKernelEx", l.barePacked}}) {
    std::vector<double> perNode;
    for (int r = 0; r < 30; ++r) {
      gpu.synchronize();
      EventPair events(gpu.driver());
      events.begin(gpu.native());
      for (int i = 0; i < callsPerRound; ++i)
        way();
      events.end(gpu.native());
      gpu.synchronize();
      perNode.push_back(events.millis() / callsPerRound);
    }
    printTiming(out,
                {.suite = "latency",
                 .op = "stream_chain_node",
                 .dtype = "-",
                 .shape = "500launches",
                 .impl = impl,
                 .notes = "device time per kernel of 500 launches in a row"},
                Timing(perNode));
  }
}

/// Launches under capture, and the graph that they make.
void graphs(Gpu &gpu, Output &out, const Launches &l) {
  const Driver &d = gpu.driver();
  for (auto [impl, way] : {std::pair{"sectile", l.prepared},
                           {"sectile_plain", l.plain},
                           {"bare_cuLaunchKernelEx", l.barePacked}}) {
    std::vector<double> capture, instantiate, device, host;
    for (int g = 0; g < 5; ++g) {
      gpu.synchronize();
      CUgraph_st *graph = nullptr;
      CUgraphExec_st *ready = nullptr;
      d.check(d.cuStreamBeginCapture(gpu.native(), 1), "cuStreamBeginCapture");
      double start = nowMicros();
      for (int i = 0; i < graphNodes; ++i)
        way();
      capture.push_back((nowMicros() - start) / 1000 / graphNodes);
      d.check(d.cuStreamEndCapture(gpu.native(), &graph), "cuStreamEndCapture");
      start = nowMicros();
      d.check(d.cuGraphInstantiate(&ready, graph, 0), "cuGraphInstantiate");
      instantiate.push_back((nowMicros() - start) / 1000 / graphNodes);
      for (int r = 0; r < 8; ++r) {
        gpu.synchronize();
        EventPair events(d);
        events.begin(gpu.native());
        start = nowMicros();
        d.check(d.cuGraphLaunch(ready, gpu.native()), "cuGraphLaunch");
        double took = (nowMicros() - start) / 1000;
        events.end(gpu.native());
        gpu.synchronize();
        if (r < 2)
          continue;
        host.push_back(took);
        device.push_back(events.millis() / graphNodes);
      }
      d.cuGraphExecDestroy(ready);
      d.cuGraphDestroy(graph);
    }
    LineInfo info{.suite = "latency",
                  .op = "launch_host_captured",
                  .dtype = "-",
                  .shape = l.shape,
                  .impl = impl,
                  .notes = "host time per launch under stream capture"};
    printTiming(out, info, Timing(capture));
    info.shape = "1000nodes";
    info.op = "graph_node";
    info.notes = "device time per node of a chain";
    printTiming(out, info, Timing(device));
    info.op = "graph_launch_host";
    info.notes = "host time of one cuGraphLaunch";
    printTiming(out, info, Timing(host));
    info.op = "graph_instantiate_per_node";
    info.notes = "one cuGraphInstantiate";
    printTiming(out, info, Timing(instantiate));
  }
}

std::function<void()> bareLaunch(Gpu &gpu, const BareKernel &kernel, void **each, void **packed) {
  LaunchConfig config;
  config.blockX = kernel.threads;
  config.stream = gpu.native();
  return [&gpu, config, function = kernel.function, each, packed] {
    if (int result = gpu.driver().cuLaunchKernelEx(&config, function, each, packed))
      gpu.driver().check(result, "cuLaunchKernelEx");
  };
}

/// Runs every way once on a poisoned vector and looks at what it wrote: a launch that does nothing is no
/// baseline.
void checkWays(Gpu &gpu, const Launches &l, Buffer<f32> &result,
               const std::function<float(std::int64_t)> &want) {
  for (const auto *way : {&l.prepared, &l.plain, &l.barePacked, &l.bareEach}) {
    if (!*way)
      continue;
    result.fillBytes(0xFF);
    (*way)();
    gpu.synchronize();
    std::vector<f32> got = result.toHost();
    for (std::int64_t i = 0; i < elements; ++i)
      if (got[static_cast<std::size_t>(i)] != want(i))
        throw std::runtime_error(fmt::format("{}: element {} is {} instead of {}", l.shape, i,
                                             got[static_cast<std::size_t>(i)], want(i)));
  }
}

BareKernel ownKernel(Gpu &gpu, Output &out, const std::string &ptx, Parameters &parameters, bool &hasEach) {
  BareKernel kernel = loadKernel(gpu.driver(), ptx);
  if (!kernel.threads)
    throw std::runtime_error("the kernel's PTX does not say how many threads a block has");
  hasEach = kernel.parameters == parameters.count();
  if (!hasEach)
    out.say(fmt::format("the kernel has {} parameters, not {}: the bare launch passes them packed only",
                        kernel.parameters, parameters.count()));
  return kernel;
}

void tinyLaunches(Gpu &gpu, Output &out, const Options &options) {
  Buffer<f32> x(gpu.stream(), elements);
  std::int32_t n = -1; // writes zeros: what checkWays looks for
  Parameters check, timed;
  for (auto [p, value] : {std::pair{&check, -1}, {&timed, 5}}) {
    p->addVector(x.data());
    p->add(std::int32_t(value));
  }
  bool hasEach = false;
  BareKernel kernel = ownKernel(gpu, out, tiny.emit("ptx", gpu.device().arch(), x, n), check, hasEach);
  auto ways = [&](Parameters &p, std::int32_t value) {
    auto call = std::make_shared<Prepared>(tiny.prepare(x, value));
    return Launches{"2args", [&gpu, call] { (*call)(gpu.stream()); },
                    [&gpu, &x, value] { tiny(gpu.stream(), x, value); },
                    hasEach ? bareLaunch(gpu, kernel, p.each(), nullptr) : std::function<void()>(),
                    bareLaunch(gpu, kernel, nullptr, p.packed())};
  };
  checkWays(gpu, ways(check, n), x, [](std::int64_t) { return 0.0f; });
  Launches l = ways(timed, 5);
  launchCosts(gpu, out, options, l);
  launchAndSync(gpu, out, l);
  chain(gpu, out, l);
  graphs(gpu, out, l);
}

void addLaunches(Gpu &gpu, Output &out, const Options &options) {
  Buffer<f32> x(gpu.stream(), elements), y(gpu.stream(), elements), z(gpu.stream(), elements);
  std::vector<f32> a = normal<f32>(elements, 1), b = normal<f32>(elements, 2);
  x.copyFrom(a);
  y.copyFrom(b);
  Parameters p;
  for (const void *data : {x.data(), y.data(), z.data()})
    p.addVector(data);
  bool hasEach = false;
  BareKernel kernel = ownKernel(gpu, out, addF32.emit("ptx", gpu.device().arch(), x, y, z), p, hasEach);
  Prepared call = addF32.prepare(x, y, z);
  Launches l{"3tensors", [&] { call(gpu.stream()); }, [&] { addF32(gpu.stream(), x, y, z); },
             hasEach ? bareLaunch(gpu, kernel, p.each(), nullptr) : std::function<void()>(),
             bareLaunch(gpu, kernel, nullptr, p.packed())};
  checkWays(gpu, l, z,
            [&](std::int64_t i) { return a[static_cast<std::size_t>(i)] + b[static_cast<std::size_t>(i)]; });
  launchCosts(gpu, out, options, l);
}

} // namespace

void launchSuite(Gpu &gpu, Output &out, const Options &options) {
  if (!options.wants("launch_host"))
    return;
  using Body = void (*)(Gpu &, Output &, const Options &);
  for (auto [name, body] :
       {std::pair<const char *, Body>{"2args", tinyLaunches}, {"3tensors", addLaunches}}) {
    try {
      body(gpu, out, options);
    } catch (const std::exception &e) {
      out.failed(std::string("launch_host ") + name, e.what());
    }
  }
}

} // namespace bench
