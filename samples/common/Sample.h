// SPDX-License-Identifier: Apache-2.0
/// \file What every sample needs besides its kernel: options, random data, comparison, timing.
#pragma once

#include <sectile/sectile.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sample {

struct Options {
  bool small = false;
  std::string device, emit, kernel, arch = "sm_90a", out;
  int rounds = 7;
  /// --kernel names this kernel, all, or none.
  bool wants(std::string_view name) const { return kernel.empty() || kernel == "all" || kernel == name; }
};

/// An option of one sample alone, which may be given several times.
struct OwnOption {
  std::string name;
  std::vector<std::string> &values;
  std::string about;
};

/// Parses the command line; on `--help` or a mistake prints and exits.
Options parse(int argc, char **argv, const std::string &about, std::initializer_list<OwnOption> own = {});

inline sectile::Device device(const Options &o) {
  if (o.device == "interpreter")
    return sectile::Device::interpreter();
  if (o.device == "gpu")
    return sectile::Device::gpu(0);
  return sectile::Device::best();
}

/// A kernel of a sample, and what makes a stage of it for --emit.
struct Stage {
  std::string name;
  std::function<std::string()> text;
};

/// One of several jobs of a sample: a stage of its kernel for --emit, and a run with a check, which gives 0 if all is
/// right.
struct Job {
  std::string name;
  std::function<std::string()> text;
  std::function<int()> run;
};

/// Writes a stage of the kernel that --kernel names (the first if it names none, each if it says `all`) to
/// standard output or to --out; of several kernels each gets a file with its name before the ending.
inline int emit(const Options &o, std::vector<Stage> stages) {
  if (o.kernel.empty())
    stages.resize(1);
  std::erase_if(stages, [&](const Stage &s) { return !o.wants(s.name); });
  if (stages.empty() || (stages.size() > 1 && o.emit == "cubin" && o.out.empty())) {
    std::cerr << (stages.empty() ? "no kernel of this name: " + o.kernel : "several cubins need --out") << "\n";
    return 1;
  }
  for (const Stage &stage : stages) {
    std::string text = stage.text();
    if (o.out.empty()) {
      std::cout << text;
      continue;
    }
    std::filesystem::path name = o.out;
    if (stages.size() > 1)
      name.replace_filename(name.stem().string() + "." + stage.name + name.extension().string());
    std::ofstream file(name, std::ios::binary);
    file << text;
    if (!file.flush()) {
      std::cerr << name.string() << " cannot be written\n";
      return 1;
    }
  }
  return 0;
}

/// Emits or runs the jobs that --kernel names; all of them if it names none.
inline int runJobs(const Options &o, const std::vector<Job> &jobs) {
  if (!o.emit.empty()) {
    std::vector<Stage> stages;
    for (const Job &job : jobs)
      stages.push_back({job.name, job.text});
    return emit(o, std::move(stages));
  }
  int failed = 0, ran = 0;
  for (const Job &job : jobs)
    if (o.wants(job.name)) {
      ++ran;
      failed |= job.run();
    }
  if (ran == 0)
    std::cerr << "no kernel of this name: " << o.kernel << "\n";
  return ran == 0 ? 1 : failed;
}

/// Standard normal numbers.
template <class T> std::vector<T> normal(std::int64_t count, unsigned seed) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> draw;
  std::vector<T> v(static_cast<std::size_t>(count));
  for (T &x : v)
    x = T(draw(bits));
  return v;
}

/// The largest |got - want| / (bound per element); at most 1 is right. A NaN counts as infinite.
class Comparison {
public:
  void add(double got, double want, double bound) {
    double ratio = std::abs(got - want) / bound;
    worst = std::max(worst, std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio);
    ++count;
  }
  /// Prints one line; 0 if everything is within its bound, 1 otherwise or if nothing was compared.
  int report(const std::string &what) const {
    bool ok = count > 0 && worst <= 1;
    fmt::print("{}: {} values compared, largest error {:.3f} of its bound: {}\n", what, count, worst, ok ? "OK" : "FAILED");
    return ok ? 0 : 1;
  }

private:
  double worst = 0;
  std::int64_t count = 0;
};

struct Time {
  double medianMicros, minMicros, maxMicros;
};

/// Time of `run` on the device from a cold L2: the median over rounds, each after writing a 256 MB buffer.
template <class F> Time time(const sectile::Stream &stream, const Options &o, F run) {
  bool isGpu = !stream.device().isInterpreter();
  sectile::Buffer<std::uint8_t> flush(stream, isGpu ? std::int64_t(256) << 20 : 1);
  std::vector<double> micros;
  sectile::Timer timer(stream);
  int warmUp = isGpu ? 20 : 1;
  for (int i = -warmUp; i < o.rounds; ++i) {
    flush.fillBytes(static_cast<std::uint8_t>(i));
    timer.start();
    run();
    timer.stop();
    if (double t = timer.micros(); i >= 0)
      micros.push_back(t);
  }
  std::sort(micros.begin(), micros.end());
  return {micros[micros.size() / 2], micros.front(), micros.back()};
}

/// Prints the time of a kernel and its rate: `bytes` counts each input read once, each output written once.
inline void printRate(const std::string &kernel, const Time &t, double bytes) {
  fmt::print("{}: {:.1f} us ({:.1f} to {:.1f}) | {:.1f} GB/s\n", kernel, t.medianMicros, t.minMicros, t.maxMicros,
             bytes / t.medianMicros * 1e-3);
}

/// The same in floating-point operations.
inline void printFlops(const std::string &kernel, const Time &t, double flops) {
  fmt::print("{}: {:.1f} us ({:.1f} to {:.1f}) | {:.1f} TFLOP/s\n", kernel, t.medianMicros, t.minMicros, t.maxMicros,
             flops / t.medianMicros * 1e-6);
}

/// Runs `body`, turning errors into a message and exit status 1.
template <class F> int guarded(F body) {
  try {
    return body();
  } catch (const std::exception &e) {
    std::cerr << "error: " << e.what() << "\n";
    return 1;
  }
}

} // namespace sample
