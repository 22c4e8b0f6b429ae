// SPDX-License-Identifier: Apache-2.0
/// \file What every sample needs besides its kernel: options, random data, comparison, timing.
#pragma once

#include <sectile/sectile.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sample {

struct Options {
  bool small = false;
  std::string device, emit, arch = "sm_90a", out;
  int rounds = 7;
};

/// Parses the command line; on `--help` or a mistake prints and exits.
inline Options parse(int argc, char **argv, const std::string &about) {
  Options o;
  CLI::App app{about};
  app.add_flag("--small", o.small, "Small sizes, for the interpreter");
  app.add_option("--device", o.device, "interpreter or gpu; default: a GPU if there is one")
      ->check(CLI::IsMember({"interpreter", "gpu"}));
  app.add_option("--emit", o.emit, "Print a stage of the kernel instead of running it")
      ->check(CLI::IsMember({"tile", "tgpu", "llvm", "ptx", "cubin"}));
  app.add_option("--arch", o.arch, "Target of --emit");
  app.add_option("--out", o.out, "File for --emit");
  app.add_option("--rounds", o.rounds, "Timed rounds")->check(CLI::Range(5, 1000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    std::exit(app.exit(e));
  }
  return o;
}

inline sectile::Device device(const Options &o) {
  if (o.device == "interpreter")
    return sectile::Device::interpreter();
  if (o.device == "gpu")
    return sectile::Device::gpu(0);
  return sectile::Device::best();
}

/// Writes what --emit asked for to --out or standard output.
inline int emit(const Options &o, const std::string &text) {
  if (o.out.empty()) {
    std::cout << text;
    return 0;
  }
  std::ofstream file(o.out, std::ios::binary);
  file << text;
  return file.flush() ? 0 : (std::cerr << o.out << " cannot be written\n", 1);
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
