// SPDX-License-Identifier: Apache-2.0
/// \file P24, P25: capture and replay, what a long-lived process costs.
#include "tests/cases/Cases.h"
#include "tests/cases/CudaDriver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace cases;

namespace {

using Clock = std::chrono::steady_clock;
double microsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

constexpr auto threeXPlusOne = kernel("captured", [](Tensor<const f32, 1> x, Tensor<f32, 1> y) {
  auto [i] = grid(y, {128});
  y.store({i}, x.load({i}, {128}) * 3.0f + 1.0f);
});

/// One program per slot; a slot beyond the count does nothing. An entry names the row of x to take.
constexpr auto slots = kernel("slots", [](Tensor<const i32, 1> count, Tensor<const i32, 1> entries,
                                          Tensor<const f32, 2> x, Tensor<f32, 2> y) {
  auto [s] = grid(y, {1});
  Tile used = count.load({0}, {1}).drop(0);
  when(cast<i32>(s) < used, [&] {
    Tile row = cast<Index>(entries.load({s}, {1}).drop(0));
    y.store({s, 0}, x.load({row, 0}, {1, 32}) * 2.0f);
  });
});

std::size_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  if (!(file >> total >> resident))
    throw std::runtime_error("/proc/self/statm cannot be read");
  return resident * std::size_t(sysconf(_SC_PAGESIZE));
}

constexpr auto variant =
    kernel("variant", [](Tensor<i32, 1> y, Const<i32> value) { y.store({0}, full<i32>({16}, value)); });
constexpr auto increment = kernel(
    "increment", [](Tensor<const f32, 1> x, Tensor<f32, 1> y) { y.store({0}, x.load({0}, {32}) + 1.0f); });
constexpr auto tenArguments =
    kernel("ten_arguments", [](Tensor<f32, 1> a, Tensor<f32, 1> b, Tensor<f32, 1> c, Tensor<f32, 1> d,
                               Tensor<f32, 1> e, Scalar<i32> f, Scalar<f32> g, Scalar<i64> h, Scalar<i32> i,
                               Scalar<f32> j) { auto [at] = grid(a, {32}); });

/// The driver's own view of an empty kernel with the same parameters: five views (pointer, dim, stride), five
/// numbers.
constexpr const char *emptyPtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry empty(.param .u64 a0, .param .u64 a1, .param .u64 a2, .param .u64 b0, .param .u64 b1, .param .u64 b2,
  .param .u64 c0, .param .u64 c1, .param .u64 c2, .param .u64 d0, .param .u64 d1, .param .u64 d2,
  .param .u64 e0, .param .u64 e1, .param .u64 e2, .param .u32 f, .param .f32 g, .param .u64 h, .param .u32 i, .param .f32 j)
{ ret; }
)";

/// A kernel that takes long to compile: another number, another variant.
constexpr auto slowToCompile =
    kernel("slow_to_compile", [](Tensor<const f32, 1> x, Tensor<f32, 1> y, Const<i32> value) {
      auto [i] = grid(y, {256});
      Tile v = x.load({i}, {256});
      for (int step = 0; step < 400; ++step)
        v = v * float(value.value) + x.load({i + step}, {256});
      y.store({i}, v);
    });

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

} // namespace

SECTILE_CASE_ALONE("P24a") {
  if (!run.isGpu())
    run.skip("the interpreter has no graphs");
  const std::int64_t n = 1000;
  Stream stream(Device::gpu(0));
  Buffer<f32> x(stream, n), y(stream, n);
  const auto want = make<f32>(n, [](auto i) { return 3 * i + 1; });
  x.copyFrom(make<f32>(n, [](auto i) { return i; }));
  y.fillBytes(0xFF);
  stream.synchronize();
  CudaDriver cuda;
  // Cold: a clear error that leaves the stream usable, or a graph that is right.
  try {
    DriverGraph graph(cuda, stream.native(), [&] { threeXPlusOne(stream, x, y); });
    graph.launch();
    stream.synchronize();
    run.same(y.toHost(), want, "cold");
  } catch (const UserError &e) {
    run.check(e.rule() == "capture", std::string("cold: ") + e.what());
  }
  threeXPlusOne(stream, x, y); // warm
  stream.synchronize();
  run.same(y.toHost(), want, "warm");
  DriverGraph graph(cuda, stream.native(), [&] { threeXPlusOne(stream, x, y); });
  for (int i = 0; i < 100; ++i) {
    y.fillBytes(0xFF);
    graph.launch();
    stream.synchronize();
    run.same(y.toHost(), want, "replay");
  }
  auto call = threeXPlusOne.prepare(x, y);
  call(stream);
  stream.synchronize();
  DriverGraph prepared(cuda, stream.native(), [&] { call(stream); });
  y.fillBytes(0xFF);
  prepared.launch();
  stream.synchronize();
  run.same(y.toHost(), want, "prepared");
}
SECTILE_CASE("P24b") {
  Guarded<i32> count(run, std::vector<i32>{8}), entries(run, 8);
  Guarded<f32> x(run, make<f32>(16 * 32, [](auto i) { return i; })), y(run, 8 * 32);
  const std::vector<f32> untouched = y.get();
  auto launch = [&] { slots(run.stream(), count.view(1), entries.view(8), x.view(16, 32), y.view(8, 32)); };
  auto verify = [&](int used) {
    const auto rows = entries.get();
    run.same(y.get(),
             make<f32>(8 * 32,
                       [&](auto i) {
                         return i / 32 < used ? float(rows[i / 32] * 32 + i % 32) * 2 : untouched[0];
                       }),
             fmt::format("{} slots", used));
    run.check(y.guardsHold(), "guards");
  };
  entries.set({7, 6, 5, 4, 3, 2, 1, 0});
  launch(); // warm, all slots
  run.stream().synchronize();
  verify(8);
  std::optional<CudaDriver> cuda;
  std::optional<DriverGraph> graph;
  if (run.isGpu()) {
    cuda.emplace();
    graph.emplace(*cuda, run.stream().native(), launch);
  }
  y.poison();
  count.set({2});
  entries.set({9, 15, -1, -1, -1, -1, -1, -1}); // unused entries are 0xFF bytes
  if (graph)
    graph->launch();
  else
    launch();
  run.stream().synchronize();
  verify(2);
}
SECTILE_CASE_ALONE("P25a") {
  const int variants = run.isQuick() ? 100 : 1000;
  Guarded<i32> y(run, 16);
  auto runVariant = [&](int value) {
    variant(run.stream(), y.view(16), value);
    run.stream().synchronize();
    if (value % 10 == 0)
      run.beat();
  };
  for (int i = 0; i < 20; ++i) // what every process needs once
    runVariant(10000 + i);
  std::optional<CudaDriver> cuda;
  std::size_t freeBefore = 0;
  void *context = nullptr;
  if (run.isGpu()) {
    cuda.emplace();
    (*cuda)("cuDevicePrimaryCtxRetain", &context, 0);
    (*cuda)("cuCtxSetCurrent", context);
    freeBefore = cuda->freeBytes();
  }
  const std::size_t before = residentBytes();
  for (int i = 1; i <= variants; ++i) {
    runVariant(i);
    if (i % 50 == 0 || i < 4)
      run.same(y.get(), std::vector<i32>(16, i), "variant");
  }
  const double grownMB = (double(residentBytes()) - double(before)) / 1e6;
  run.check(grownMB < 50, fmt::format("host memory grew by {:.1f} MB/50 MB", grownMB));
  if (cuda) {
    const double deviceMB = (double(freeBefore) - double(cuda->freeBytes())) / 1e6;
    run.check(deviceMB < 64, fmt::format("device memory grew by {:.1f} MB/64 MB", deviceMB));
  }
}
SECTILE_CASE_ALONE("P25b") {
  const int launches = (run.isGpu() ? 1000000 : 100000) / (run.isQuick() ? 10 : 1);
  Guarded<f32> x(run, make<f32>(32, [](auto i) { return i; })), y(run, 32);
  auto launch = [&](int count) {
    for (int i = 0; i < count; ++i) {
      increment(run.stream(), x.view(32), y.view(32));
      if (i % 1000 == 999) {
        run.stream().synchronize();
        run.beat();
      }
    }
    run.stream().synchronize();
  };
  launch(launches / 10);
  const std::size_t before = residentBytes();
  launch(launches);
  const double bytesEach = (double(residentBytes()) - double(before)) / launches;
  run.check(bytesEach < 4, fmt::format("{:.1f} bytes a launch/4", bytesEach));
  auto call = increment.prepare(x.view(32), y.view(32));
  call(run.stream());
  run.stream().synchronize();
  const std::size_t beforePrepared = residentBytes();
  for (int i = 0; i < launches; ++i) {
    call(run.stream());
    if (i % 1000 == 999) {
      run.stream().synchronize();
      run.beat();
    }
  }
  run.stream().synchronize();
  const double preparedBytes = (double(residentBytes()) - double(beforePrepared)) / launches;
  run.check(preparedBytes < 4, fmt::format("prepared: {:.1f} bytes a launch/4", preparedBytes));
  run.same(y.get(), make<f32>(32, [](auto i) { return i + 1; }), "y");
}
SECTILE_CASE_ALONE("P25c/time") {
  if (!run.isGpu())
    run.skip("it compares with a launch of the driver");
  Guarded<f32> m(run, 32);
  auto v = m.view(32);
  const Stream &stream = run.stream();
  auto ours = [&] { tenArguments(stream, v, v, v, v, v, 1, 2.0f, i64(3), 4, 5.0f); };
  ours();
  stream.synchronize();
  CudaDriver cuda;
  void *context = nullptr, *module = nullptr, *function = nullptr;
  cuda("cuDevicePrimaryCtxRetain", &context, 0);
  cuda("cuCtxSetCurrent", context);
  cuda("cuModuleLoadData", &module, static_cast<const void *>(emptyPtx));
  cuda("cuModuleGetFunction", &function, module, "empty");
  std::uint64_t words[20] = {};
  void *params[20];
  for (int i = 0; i < 20; ++i)
    params[i] = &words[i];
  auto *raw =
      reinterpret_cast<int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               void *, void **, void **)>(dlsym(RTLD_DEFAULT, "cuLaunchKernel"));
  if (!raw)
    raw = reinterpret_cast<decltype(raw)>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel"));
  auto bare = [&] {
    if (int result = raw(function, 1, 1, 1, 32, 1, 1, 0, stream.native(), params, nullptr))
      throw std::runtime_error("cuLaunchKernel returned " + std::to_string(result));
  };
  // Alternated rounds, so that both see the same machine; launches in groups that the queue takes without
  // waiting.
  std::vector<double> ratios, oursMicros, bareMicros;
  for (int round = 0; round < 20; ++round) {
    double group[2];
    for (int which = 0; which < 2; ++which) {
      std::vector<double> times;
      for (int i = 0; i < 500; ++i) {
        if (i % 100 == 0)
          stream.synchronize();
        const auto start = Clock::now();
        which ? ours() : bare();
        times.push_back(microsSince(start));
      }
      group[which] = median(times);
    }
    bareMicros.push_back(group[0]);
    oursMicros.push_back(group[1]);
    ratios.push_back(group[1] / group[0]);
    run.beat();
  }
  stream.synchronize();
  run.check(median(ratios) <= 2, fmt::format("{:.2f} times a launch of the driver ({:.2f} us, {:.2f} us)/2",
                                             median(ratios), median(oursMicros), median(bareMicros)));
}
SECTILE_CASE_ALONE("P25c/compiling") {
  // Warm launches go on while another thread compiles.
  Guarded<f32> x(run, std::vector<f32>(2048, 1.0f)), y(run, 256), z(run, 32);
  increment(run.stream(), x.view(32), z.view(32));
  run.stream().synchronize();
  std::atomic<bool> done{false};
  std::string wrong;
  std::thread compiler([&] {
    try {
      Stream other(run.device());
      slowToCompile(other, x.view(2048), y.view(256), 1);
      other.synchronize();
      slowToCompile.emit("ptx", "sm_90a", x.view(2048), y.view(256), 2);
      slowToCompile.emit("ptx", "sm_80", x.view(2048), y.view(256), 3);
    } catch (const std::exception &e) {
      wrong = e.what();
    }
    done = true;
  });
  int launches = 0;
  double longest = 0;
  const auto start = Clock::now();
  while (!done) {
    const auto each = Clock::now();
    increment(run.stream(), x.view(32), z.view(32));
    longest = std::max(longest, microsSince(each));
    if (++launches % 100 == 0) {
      run.stream().synchronize();
      run.beat();
    }
  }
  compiler.join();
  const double total = microsSince(start);
  run.stream().synchronize();
  run.check(wrong.empty(), wrong);
  run.check(launches > 100, fmt::format("{} launches in {:.0f} us of compiling/over 100", launches, total));
  // A lock held while compiling would stop one launch for about a third of the whole.
  run.check(longest < total / 6, fmt::format("one launch took {:.0f} of {:.0f} us", longest, total));
  run.same(z.get(), std::vector<f32>(32, 2.0f), "z");
}
