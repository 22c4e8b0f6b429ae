// SPDX-License-Identifier: Apache-2.0
/// \file What compiling costs: stages alone, which need no GPU, and first runs in processes of their own.
#include "tests/perf/Bench.h"
#include "tests/perf/BenchKernels.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <unistd.h>

namespace bench {
namespace {

/// A directory that is gone when its holder is.
class TempDir {
public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "sectile-bench-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw std::runtime_error("no directory for a cache can be made in " +
                               std::filesystem::temp_directory_path().string());
    path = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TempDir(const TempDir &) = delete;
  std::string path;
};

/// The kernels of the compile measurements, at the sizes of their first runs.
struct Jobs {
  std::int64_t n = 1 << 20, rows = 256, cols = 4096, size = 1024;
  std::string addStage(const char *stage, const char *arch) const {
    Tensor<const bf16, 1> x(nullptr, {n}), y(nullptr, {n});
    return addBf16.emit(stage, arch, x, y, Tensor<bf16, 1>(nullptr, {n}));
  }
  std::string softmaxStage(const char *stage, const char *arch) const {
    return softmax.emit(stage, arch, Tensor<const bf16, 2>(nullptr, {rows, cols}),
                        Tensor<bf16, 2>(nullptr, {rows, cols}));
  }
  std::string matmulStage(const char *stage, const char *arch) const {
    Tensor<const bf16, 2> a(nullptr, {size, size}), b(nullptr, {size, size});
    return matmul.emit(stage, arch, a, b, Tensor<bf16, 2>(nullptr, {size, size}));
  }
};

/// Runs this program as a child with a cache directory; what it printed, by name.
std::map<std::string, double> child(const Options &options, const std::string &kind,
                                    const std::string &cacheDir) {
  std::string command =
      fmt::format("CUDA_CACHE_DISABLE=1 SECTILE_CACHE=1 SECTILE_CACHE_DIR='{}' '{}' --child={}", cacheDir,
                  options.program, kind);
  std::FILE *pipe = popen(command.c_str(), "re");
  if (!pipe)
    throw std::runtime_error("no child process can be started");
  std::map<std::string, double> times;
  char name[64];
  double value;
  while (std::fscanf(pipe, "%63s %lf", name, &value) == 2)
    times[name] = value;
  if (int status = pclose(pipe); status != 0 || times.empty())
    throw std::runtime_error(fmt::format("the child process '{}' ended with status {}", kind, status));
  return times;
}

} // namespace

int firstRuns(const std::string &kind) {
  Stream stream = Device::gpu(0).stream();
  Jobs jobs;
  Buffer<bf16> x(stream, jobs.n), y(stream, jobs.n), z(stream, jobs.n);
  x.copyFrom(normal<bf16>(jobs.n, 1));
  y.copyFrom(normal<bf16>(jobs.n, 2));
  Buffer<bf16> m(stream, jobs.rows, jobs.cols), mo(stream, jobs.rows, jobs.cols);
  m.copyFrom(normal<bf16>(jobs.rows * jobs.cols, 3));
  Buffer<bf16> a(stream, jobs.size, jobs.size), b(stream, jobs.size, jobs.size),
      c(stream, jobs.size, jobs.size);
  a.copyFrom(normal<bf16>(jobs.size * jobs.size, 4));
  b.copyFrom(normal<bf16>(jobs.size * jobs.size, 5));
  Buffer<f32> v(stream, 1024);
  stream.synchronize();
  auto time = [&](const char *name, auto run) {
    stream.synchronize();
    double start = nowMicros();
    run();
    stream.synchronize();
    fmt::print("{} {:.6f}\n", name, (nowMicros() - start) / 1000);
  };
  if (kind == "process") {
    time("vector_add", [&] { addBf16(stream, x, y, z); });
    return 0;
  }
  tiny(stream, v, 5); // the process is warm from here on
  time("vector_add", [&] { addBf16(stream, x, y, z); });
  time("softmax", [&] { softmax(stream, m, mo); });
  time("matmul", [&] { matmul(stream, a, b, c); });
  return 0;
}

void compileSuite(Output &out, const Options &options) {
  if (!options.wants("compile"))
    return;
  const Jobs jobs;
  const char *arch = "sm_90a";
  struct Job {
    const char *name;
    std::string (Jobs::*emit)(const char *, const char *) const;
  };
  const int repeats = options.quick ? 3 : 15;
  for (const char *stage : {"ptx", "cubin"})
    for (Job job : {Job{"softmax", &Jobs::softmaxStage}, Job{"matmul", &Jobs::matmulStage},
                    Job{"vector_add", &Jobs::addStage}}) {
      try {
        std::vector<double> millis;
        double first = 0;
        for (int i = 0; i <= repeats; ++i) {
          double start = nowMicros();
          std::string code = (jobs.*job.emit)(stage, arch);
          double took = (nowMicros() - start) / 1000;
          if (code.find(*stage == 'p' ? ".entry" : "ELF") == std::string::npos)
            throw std::runtime_error(fmt::format("the {} is not one", stage));
          i ? millis.push_back(took) : void(first = took);
        }
        LineInfo info{.suite = "latency",
                      .op = "compile",
                      .dtype = "-",
                      .shape = job.name,
                      .impl = *stage == 'p' ? "sectile_without_ptxas" : "sectile_with_ptxas"};
        info.notes =
            fmt::format("trace to {} for {}, nothing cached, process warm; first of this kernel {:.1f} ms",
                        stage, arch, first);
        printTiming(out, info, Timing(millis));
      } catch (const sectile::UserError &e) {
        if (e.rule() != "emit_ptxas") {
          out.failed(fmt::format("compile {} {}", stage, job.name), e.what());
          continue;
        }
        out.say("no ptxas: compiling to cubin is skipped");
        return;
      } catch (const std::exception &e) {
        out.failed(fmt::format("compile {} {}", stage, job.name), e.what());
      }
    }
}

/// From the call to the end of the first run: with an empty cache, then from the cache on disk.
void firstRunSuite(Output &out, const Options &options) {
  if (!options.wants("jit_cold") && !options.wants("jit_disk_cached") &&
      !options.wants("first_launch_new_process"))
    return;
  const int repeats = std::max(options.quick ? 1 : 5, options.quick ? 1 : options.rounds);
  try {
    std::map<std::string, std::vector<double>> cold, disk;
    std::vector<double> empty, filled;
    for (int r = 0; r < repeats; ++r) {
      TempDir warm, fresh;
      for (const auto &[name, millis] : child(options, "warm", warm.path))
        cold[name].push_back(millis);
      for (const auto &[name, millis] : child(options, "warm", warm.path))
        disk[name].push_back(millis);
      empty.push_back(child(options, "process", fresh.path).at("vector_add"));
      filled.push_back(child(options, "process", fresh.path).at("vector_add"));
    }
    LineInfo info{.suite = "latency", .op = "jit_cold", .dtype = "-"};
    for (const auto &[name, millis] : cold) {
      info.shape = name;
      info.notes = "fresh cache, process already warm; a process per sample";
      printTiming(out, info, Timing(millis));
    }
    info.op = "jit_disk_cached";
    for (const auto &[name, millis] : disk) {
      info.shape = name;
      info.notes = "found in the on-disk cache; a process per sample";
      printTiming(out, info, Timing(millis));
    }
    info.op = "first_launch_new_process";
    info.notes = "vector add, after the context and the buffers exist";
    info.shape = "empty_cache";
    printTiming(out, info, Timing(empty));
    info.shape = "filled_cache";
    printTiming(out, info, Timing(filled));
  } catch (const std::exception &e) {
    out.failed("first runs", e.what());
  }
}

} // namespace bench
