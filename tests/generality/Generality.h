// SPDX-License-Identifier: Apache-2.0
/// \file Kernels with products in them that no pass was written for: their data, launches, references and
/// rates. The cases run on the supervisor of tests/cases; sizes are small on the interpreter and on the
/// executor of lowered code, real on a GPU.
#pragma once

#include "tests/cases/Cases.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>

namespace generality {

using namespace cases;

/// Tiles of the kernels here, where a kernel has no reason for others.
inline constexpr int BM = 128, BN = 128, BK = 64;

/// Runs a kernel's lowered text on these arguments; null: launches go to the device of the case.
using Executor = void (*)(const std::string &tgpu, std::span<const KernelArg> args);
Executor &executor();
/// Config::stages of kernels that the executor runs: 0 by rule, 1 products of warps without pipelines.
int &executorStages();
/// Config::async of kernels that the executor runs: 2 operands are copied by threads wherever they can be.
int &executorAsync();
/// Config::multicast of kernels that the executor runs: 2 in pairs of blocks wherever it can be.
int &executorMulticast();

/// Takes a kernel's text before the passes, and the arguments, instead of running it; null: kernels run.
using Reader = void (*)(const std::string &tile, std::span<const KernelArg> args);
Reader &reader();

/// Whether kernels are those of real sizes: on a GPU, for a reader, as PTX; not on the interpreter and the executor.
inline bool isReal(Run &run) { return run.isGpu() || reader() || !run.ptxFolder.empty(); }
/// A length for each of the two.
inline std::int64_t size(Run &run, std::int64_t small, std::int64_t real) { return isReal(run) ? real : small; }

/// Standard normal numbers times `scale`. They repeat after a prime number of elements.
template <class T> std::vector<T> normal(std::int64_t count, unsigned seed, double scale = 1);

/// A sum of products in double: its value, the sum of magnitudes, the number of terms.
struct Sum {
  double value = 0, magnitude = 0;
  std::int64_t terms = 0;
  void add(double product) {
    value += product;
    magnitude += std::abs(product);
    ++terms;
  }
  /// What sums in f32 may be off.
  double error() const { return static_cast<double>(terms) * 0x1p-23 * magnitude; }
};

/// A right value and what f32 sums and roundings before the last may be off.
struct Want {
  double value, error;
  Want(const Sum &s) : value(s.value), error(s.error()) {}
  Want(double value, double error) : value(value), error(error) {}
};

template <class T> inline constexpr double unit = 0;
template <> inline constexpr double unit<bf16> = 0x1p-8;
template <> inline constexpr double unit<f16> = 0x1p-11;
template <> inline constexpr double unit<f32> = 0x1p-24;

/// Compares elements with `want(i)`: every one of small arrays, about 3000 spread over large ones.
template <class T, class F> void compare(Run &run, const Guarded<T> &memory, F want) {
  const std::vector<T> got = memory.get();
  const auto count = static_cast<std::int64_t>(got.size());
  const std::int64_t step = count <= 100'000 ? 1 : (count / 3000) | 1;
  run.check(memory.guardsHold(), "guard bytes were written");
  for (std::int64_t i = 0; i < count; i += step) {
    if (i % (64 * step) == 0)
      run.beat();
    const Want w = want(i);
    const double value = double(got[static_cast<std::size_t>(i)]);
    const double bound = unit<T> * (std::abs(w.value) + w.error) + w.error + 0x1p-126;
    run.check(std::abs(value - w.value) <= bound,
              fmt::format("element {}: {} / {} +- {}", i, value, w.value, bound));
  }
}

/// Times `call` against a plain product of as many flops and the same tile, taking turns.
void printRate(Run &run, const char *name, double flops, const std::function<void()> &call);

/// The kernel's PTX for sm_90a, in a file whose first line says which instruction it must have and how many bytes may
/// be spilled; ends the case.
template <class K, class... A>
[[noreturn]] void writePtx(Run &run, const K &kernel, const Config &config, const char *instruction, int spills,
                           const A &...args) {
  const auto packed = kernel.pack(args...);
  std::string file = run.name;
  std::replace(file.begin(), file.end(), '/', '_');
  std::ofstream(run.ptxFolder + "/" + file + ".ptx")
      << "// expects " << instruction << ", spills at most " << spills << " bytes\n"
      << detail::emit(kernel.desc(), packed, &config, "ptx", "sm_90a", {});
  run.skip("its PTX was written");
}

/// Launches once with numbers chosen by hand, and measures the kernel where rates are asked for and `flops` is above 0.
template <class K, class... A>
void launchWith(Run &run, const K &kernel, Config config, double flops, const A &...args) {
  run.beat();
  constexpr int fewSpills = 8; // two registers of what a program needs behind its loop
  if (!run.ptxFolder.empty())
    writePtx(run, kernel, config, byteSize(kernel.pack(args...)[0].dtype) == 2 ? "HGMMA" : "nothing", fewSpills, args...);
  if (Reader read = reader()) {
    const auto packed = kernel.pack(args...);
    return read(detail::emit(kernel.desc(), packed, &config, "tile", "sm_90a", {}), packed);
  }
  if (Executor threads = executor()) {
    const auto packed = kernel.pack(args...);
    config.stages = executorStages();
    config.async = executorAsync();
    config.multicast = executorMulticast();
    threads(detail::emit(kernel.desc(), packed, &config, "tgpu", "sm_90a", {}), packed);
    return;
  }
  const Prepared call = kernel.with(config).prepare(args...);
  call(run.stream());
  run.stream().synchronize();
  if (run.isGpu() && run.wantsRates() && flops > 0)
    printRate(run, kernel.desc().name, flops, [&] { call(run.stream()); });
}

/// The same by default.
template <class K, class... A> void launch(Run &run, const K &kernel, double flops, const A &...args) {
  launchWith(run, kernel, Config(), flops, args...);
}

} // namespace generality
