// SPDX-License-Identifier: Apache-2.0
/// \file P22, P23b-d: many processes with one cache, threads, several GPUs, fork.
#include "tests/cases/Cases.h"
#include "tests/cases/CudaDriver.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace cases;

namespace {

constexpr auto threeXPlusOne = kernel("three_x_plus_one", [](Tensor<const f32, 1> x, Tensor<f32, 1> y) {
  auto [i] = grid(y, {128});
  y.store({i}, x.load({i}, {128}) * 3.0f + 1.0f);
});
/// The same source twice, edited in between.
constexpr auto addConstant =
    kernel("add_constant", [](Tensor<i32, 1> y) { y.store({0}, full<i32>({16}, 123)); });
constexpr auto addConstantEdited =
    kernel("add_constant", [](Tensor<i32, 1> y) { y.store({0}, full<i32>({16}, 1234)); });
constexpr auto addParameter =
    kernel("add_parameter", [](Tensor<i32, 1> y, Const<i32> value) { y.store({0}, full<i32>({16}, value)); });
/// A helper chosen by name, and its edited form.
template <auto helper>
constexpr auto withHelper = kernel<helper>("with_helper", [](Tensor<i32, 1> y) {
  y.store({0}, sectile::apply<helper>(full<i32>({16}, 5)));
});
constexpr auto twice = [](Tile x) -> Tile { return x * 2; };
constexpr auto twiceEdited = [](Tile x) -> Tile { return x * 3; };

/// "" if y = 3x + 1 is right for n values on the device, else what is wrong.
std::string compute(const Device &device, std::int64_t n = 1000) {
  Stream stream(device);
  Buffer<f32> x(stream, n), y(stream, n);
  x.copyFrom(make<f32>(n, [](auto i) { return i; }));
  y.fillBytes(0xFF);
  threeXPlusOne(stream, x, y);
  stream.synchronize();
  const std::vector<f32> got = y.toHost();
  for (std::int64_t i = 0; i < n; ++i)
    if (got[std::size_t(i)] != float(3 * i + 1))
      return fmt::format("y[{}]: {}/{}", i, got[std::size_t(i)], 3 * i + 1);
  return "";
}

Device deviceOf(const Run &run) { return run.isGpu() ? Device::gpu(0) : Device::interpreter(); }

/// Runs `work` in a child; gives what it returned, or how it ended.
class Child {
public:
  explicit Child(const std::function<std::string()> &work) {
    int ends[2];
    if (pipe(ends) != 0)
      throw std::runtime_error("pipe failed");
    pid = fork();
    if (pid < 0)
      throw std::runtime_error("fork failed");
    if (pid == 0) {
      std::string said;
      try {
        said = work();
      } catch (const std::exception &e) {
        said = std::string("threw ") + e.what();
      }
      const bool written = write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
      _exit(written ? 0 : 3);
    }
    close(ends[1]);
    from = ends[0];
  }
  std::string wait() {
    std::string said;
    char block[4096];
    for (ssize_t n; (n = read(from, block, sizeof block)) != 0;)
      if (n > 0)
        said.append(block, static_cast<std::size_t>(n));
      else if (errno != EINTR)
        break;
    close(from);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
      ;
    if (WIFSIGNALED(status))
      return fmt::format("ended by signal {}", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
      return fmt::format("ended with status {}", WEXITSTATUS(status));
    return said;
  }

private:
  pid_t pid;
  int from;
};

/// A cold cache directory for this process and its children.
class CacheDirectory {
public:
  CacheDirectory() {
    const char *base = std::getenv("TMPDIR");
    std::string pattern = std::string(base && *base ? base : "/tmp") + "/sectile-cases-XXXXXX";
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error("mkdtemp failed");
    path = pattern;
    setenv("SECTILE_CACHE_DIR", path.c_str(), 1);
    setenv("SECTILE_CACHE", "1", 1);
  }
  ~CacheDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  int files() const {
    int count = 0;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(path))
      count += entry.is_regular_file();
    return count;
  }

private:
  std::string path;
};

std::string valueOf(const Device &device,
                    const std::function<void(const Stream &, const Tensor<i32, 1> &)> &launch) {
  Stream stream(device);
  Buffer<i32> y(stream, 16);
  launch(stream, Tensor<i32, 1>(y));
  stream.synchronize();
  return std::to_string(y.toHost()[15]);
}

} // namespace

SECTILE_CASE_ALONE("P22a") {
  CacheDirectory cache;
  int gate[2];
  if (pipe(gate) != 0)
    throw std::runtime_error("pipe failed");
  std::vector<Child> children;
  for (int i = 0; i < 8; ++i)
    children.emplace_back([&]() -> std::string {
      close(gate[1]);
      char c; // released together when the parent closes its end
      if (read(gate[0], &c, 1) != 0)
        return "the gate broke";
      return compute(deviceOf(run));
    });
  close(gate[0]);
  usleep(300000);
  close(gate[1]);
  for (int i = 0; i < 8; ++i) {
    std::string wrong = children[std::size_t(i)].wait();
    run.check(wrong.empty(), fmt::format("process {}: {}", i, wrong));
    run.beat();
  }
  // The interpreter builds no code, so that nothing is kept.
  run.check(cache.files() >= (run.isGpu() ? 1 : 0), "nothing is in the cache");
  std::string wrong = Child([&] { return compute(deviceOf(run)); }).wait();
  run.check(wrong.empty(), "a ninth process, warm: " + wrong);
}
SECTILE_CASE_ALONE("P22b") {
  CacheDirectory cache;
  auto value = [&](auto launch) {
    run.beat();
    return Child([&, launch] { return valueOf(deviceOf(run), launch); }).wait();
  };
  auto expect = [&](const std::string &got, const std::string &want, const char *what) {
    run.check(got == want, fmt::format("{}: {}/{}", what, got, want));
  };
  for (int round = 0; round < 2; ++round) { // cold, then warm
    expect(value([](const Stream &s, const Tensor<i32, 1> &y) { addConstant(s, y); }), "123",
           "before the edit");
    expect(value([](const Stream &s, const Tensor<i32, 1> &y) { addConstantEdited(s, y); }), "1234",
           "after the edit");
    expect(value([](const Stream &s, const Tensor<i32, 1> &y) { addParameter(s, y, 123); }), "123",
           "constant");
    expect(value([](const Stream &s, const Tensor<i32, 1> &y) { addParameter(s, y, 1234); }), "1234",
           "another constant");
    expect(value([](const Stream &s, const Tensor<i32, 1> &y) { withHelper<twice>(s, y); }), "10", "helper");
    expect(value([](const Stream &s, const Tensor<i32, 1> &y) { withHelper<twiceEdited>(s, y); }), "15",
           "edited helper");
    // In one process, one after the other.
    expect(value([](const Stream &s, const Tensor<i32, 1> &y) {
             addParameter(s, y, 123);
             addParameter(s, y, 1234);
             addConstantEdited(s, y);
             addConstant(s, y);
           }),
           "123", "both in one process");
  }
}
SECTILE_CASE_ALONE("P23b") {
  std::string first = compute(deviceOf(run)); // here everything is compiled
  run.check(first.empty(), first);
  const Device device = deviceOf(run);
  for (int round = 0; round < (run.isGpu() ? 20 : 5); ++round) {
    std::vector<std::string> wrong(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        try {
          wrong[std::size_t(t)] = compute(device, 1000 + t);
        } catch (const std::exception &e) {
          wrong[std::size_t(t)] = e.what();
        }
      });
    for (std::thread &t : threads)
      t.join();
    for (int t = 0; t < 4; ++t)
      run.check(wrong[std::size_t(t)].empty(), fmt::format("thread {}: {}", t, wrong[std::size_t(t)]));
    run.beat();
  }
}
SECTILE_CASE_ALONE("P23b/cold") { // 8 threads meet at a kernel that nothing has compiled
  const Device device = deviceOf(run);
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      try {
        wrong[std::size_t(t)] = compute(device);
      } catch (const std::exception &e) {
        wrong[std::size_t(t)] = e.what();
      }
    });
  for (std::thread &t : threads)
    t.join();
  for (int t = 0; t < 8; ++t)
    run.check(wrong[std::size_t(t)].empty(), fmt::format("thread {}: {}", t, wrong[std::size_t(t)]));
}
SECTILE_CASE_ALONE("P23c") {
  if (!run.isGpu())
    run.skip("it is about two GPUs");
  if (Device::gpuCount() < 2)
    run.skip("one GPU alone");
  const Device zero = Device::gpu(0), one = Device::gpu(1);
  CudaDriver cuda;
  void *primary = nullptr;
  cuda("cuDevicePrimaryCtxRetain", &primary, 0);
  cuda("cuCtxSetCurrent", primary);
  auto current = [&] {
    void *context = nullptr;
    cuda("cuCtxGetCurrent", &context);
    return context;
  };
  std::string wrong = compute(one);
  run.check(wrong.empty(), "on GPU 1: " + wrong);
  run.check(current() == primary, "the current context has changed");
  Stream stream0(zero), stream1(one);
  Buffer<i32> y(stream1, 16);
  run.refused([&] { addConstant(stream0, Tensor<i32, 1>(y)); }, {"add_constant", "GPU 1", "GPU 0"},
              "memory of GPU 1 on GPU 0");
  run.check(current() == primary, "the current context has changed");
  addConstant(stream1, Tensor<i32, 1>(y));
  stream1.synchronize();
  run.same(y.toHost(), std::vector<i32>(16, 123), "on GPU 1 afterwards");
  wrong = compute(zero);
  run.check(wrong.empty(), "on GPU 0: " + wrong);
}
SECTILE_CASE_ALONE("P23d") {
  // This process has loaded the library and uses what needs no driver.
  const Tensor<const f32, 1> x(nullptr, {128});
  const Tensor<f32, 1> y(nullptr, {128});
  run.check(!threeXPlusOne.emit("ptx", "sm_90a", x, y).empty(), "emit");
  std::string host = compute(Device::interpreter());
  run.check(host.empty(), "on the interpreter: " + host);
  for (int i = 0; i < 2; ++i) {
    std::string wrong = Child([&] { return compute(deviceOf(run)); }).wait();
    run.check(wrong.empty(), fmt::format("child {}: {}", i, wrong));
    run.beat();
  }
}
SECTILE_CASE_ALONE("P23d/after-use") {
  if (!run.isGpu())
    run.skip("it is about a driver in use");
  run.check(compute(Device::gpu(0)).empty(), "before the fork");
  const std::string said = Child([&] { return compute(Device::gpu(0)); }).wait();
  run.check(said.find("forked_after_use") != std::string::npos, "the child: " + said);
  run.check(compute(Device::gpu(0)).empty(), "after the fork");
}
