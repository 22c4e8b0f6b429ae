// SPDX-License-Identifier: Apache-2.0
/// \file Small inputs with their right values, as programs against the public headers and the shared library
/// alone.
///
///     SECTILE_CASE("P04b") {
///       Guarded<i32> x(run, counting), y(run, 64);
///       run.sweep({&y}, [&](const Config &c) { rotate.with(c)(run.stream(), x.view(64), y.view(64)); },
///                 [&] { run.same(y.get(), want, "out"); });
///     }
#pragma once

#include <sectile/sectile.h>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace cases {

using namespace sectile;

inline constexpr float inf = std::numeric_limits<float>::infinity();
inline constexpr float qnan = std::numeric_limits<float>::quiet_NaN();

/// Thrown by a case that cannot run here.
struct Skip {
  std::string reason;
};

/// Memory of a case: `count` elements with guard bytes on both sides, 0xFF everywhere at first.
class GuardedMemory {
public:
  GuardedMemory(const Stream &stream, std::size_t bytes, std::size_t offset);
  /// Sets every byte of the elements and guards to 0xFF.
  void poison() { memory.fillBytes(0xFF); }
  void write(const void *from);
  void read(void *to) const;
  std::string bits() const;
  /// Whether every guard byte is still 0xFF.
  bool guardsHold() const;
  std::byte *begin() { return reinterpret_cast<std::byte *>(memory.data()) + before; }

private:
  static constexpr std::size_t guard = 256;
  std::size_t before, bytes;
  Buffer<std::uint8_t> memory;
};

/// One case while it runs: its device, its checks.
class Run {
public:
  /// A null device: the case makes its own (nothing touches the driver before).
  Run(bool gpu, bool quick) : gpu(gpu), quick(quick) {}
  bool isGpu() const { return gpu; }
  bool isQuick() const { return quick; }
  /// Whether cases that can measure themselves shall print their rates.
  bool wantsRates() const { return rates; }
  const Stream &stream();
  const Device &device() { return stream().device(); }

  void fail(const std::string &what);
  void check(bool ok, const std::string &what) {
    if (!ok)
      fail(what);
    ++checks;
  }
  /// Equal values; NaN equals NaN, and -0 differs from 0.
  template <class T>
  void same(const std::vector<T> &got, const std::vector<T> &want, const std::string &what);
  template <class T> void same(const T &got, const T &want, const std::string &what) {
    same(std::vector<T>{got}, std::vector<T>{want}, what);
  }
  /// The call throws a UserError of this kernel whose message holds every one of `parts`.
  void refused(const std::function<void()> &call, const std::vector<std::string> &parts,
               const std::string &what);
  [[noreturn]] void skip(const std::string &reason) { throw Skip{reason}; }
  /// Tells the supervisor that the case is alive.
  void beat();

  using Outs = std::vector<GuardedMemory *>;
  /// Runs `launch` with 1, 2, 4 and 8 warps and the compiler's own choice (one choice on the interpreter,
  /// which has no warps), each time on poisoned outputs; after the first run of each `verify` looks at the
  /// values, further runs must give identical bits. A number of warps that the kernel cannot have is refused
  /// by name and passed over.
  void sweep(const Outs &outs, const std::function<void(const Config &)> &launch,
             const std::function<void()> &verify, int repeats = 0);
  /// The same for kernels with products, and then with pipelines of 1 to 5 stages (1: no roles) and the
  /// compiler's own number of warps, and of 3 stages with 4 and 8 warps. A depth that the kernel cannot have
  /// is refused by name and passed over.
  void sweepPipelines(const Outs &outs, const std::function<void(const Config &)> &launch,
                      const std::function<void()> &verify, int repeats = 0);

  /// The same with the compiler's own choice alone.
  void byDefault(const Outs &outs, const std::function<void(const Config &)> &launch,
                 const std::function<void()> &verify, int repeats = 0);

  std::string message; ///< the first failure
  int failures = 0;
  int checks = 0;
  int beatFd = -1;
  bool rates = false;
  std::string name;      ///< of the case
  std::string ptxFolder; ///< cases that can write their kernel's PTX to this folder do so, and no more

private:
  void sweepOver(const std::vector<Config> &schedules, const Outs &outs,
                 const std::function<void(const Config &)> &launch, const std::function<void()> &verify,
                 int repeats);
  bool gpu, quick;
  std::optional<Stream> own;
};

/// Typed GuardedMemory. `offset` moves the first element so many elements off its alignment.
template <class T> class Guarded : public GuardedMemory {
public:
  Guarded(Run &run, std::int64_t count, std::int64_t offset = 0)
      : GuardedMemory(run.stream(), std::size_t(count) * sizeof(T), std::size_t(offset) * sizeof(T)),
        count(count) {}
  Guarded(Run &run, const std::vector<T> &values, std::int64_t offset = 0)
      : Guarded(run, std::int64_t(values.size()), offset) {
    set(values);
  }
  T *data() { return reinterpret_cast<T *>(begin()); }
  void set(const std::vector<T> &values) { write(values.data()); }
  std::vector<T> get() const {
    std::vector<T> values(static_cast<std::size_t>(count));
    read(values.data());
    return values;
  }
  /// A row-major view of the first elements.
  template <class... D> Tensor<T, sizeof...(D)> view(D... dims) {
    return Tensor<T, int(sizeof...(D))>(data(), {std::int64_t(dims)...});
  }

private:
  std::int64_t count;
};

struct CaseInfo {
  const char *name;
  void (*body)(Run &);
  bool ownProcess; ///< runs in a process that has touched no driver and started no thread
};
std::vector<CaseInfo> &registry();
struct Register {
  Register(const char *name, void (*body)(Run &), bool ownProcess = false) {
    registry().push_back({name, body, ownProcess});
  }
};

#define SECTILE_CASE_JOIN2(a, b) a##b
#define SECTILE_CASE_JOIN(a, b) SECTILE_CASE_JOIN2(a, b)
#define SECTILE_CASE_OF(id, ...)                                                                             \
  static void SECTILE_CASE_JOIN(caseBody, __LINE__)(::cases::Run & run);                                     \
  static const ::cases::Register SECTILE_CASE_JOIN(caseEntry, __LINE__)(                                     \
      id, SECTILE_CASE_JOIN(caseBody, __LINE__), __VA_ARGS__);                                               \
  static void SECTILE_CASE_JOIN(caseBody, __LINE__)([[maybe_unused]] ::cases::Run & run)
/// A case, run in one process with others.
#define SECTILE_CASE(id) SECTILE_CASE_OF(id, false)
/// A case that needs a process of its own.
#define SECTILE_CASE_ALONE(id) SECTILE_CASE_OF(id, true)

template <class T, class N> T number(N n) {
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, N>)
    return static_cast<T>(n);
  else
    return T(static_cast<double>(n));
}

/// f(0), f(1), .., as elements of type T.
template <class T, class F> std::vector<T> make(std::int64_t count, F f) {
  std::vector<T> v;
  v.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    v.push_back(number<T>(f(i)));
  return v;
}

template <class T> std::string show(const T &v) {
  if constexpr (std::is_integral_v<T>)
    return std::to_string(v);
  else if constexpr (std::is_same_v<T, double>)
    return fmt::format("{}", v);
  else
    return fmt::format("{}", float(v));
}

template <class T> bool sameValue(const T &a, const T &b) {
  if (std::memcmp(&a, &b, sizeof(T)) == 0)
    return true;
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(double(a)) && std::isnan(double(b));
}

template <class T>
void Run::same(const std::vector<T> &got, const std::vector<T> &want, const std::string &what) {
  ++checks;
  if (got.size() != want.size())
    return fail(fmt::format("{}: {} values / {} values", what, got.size(), want.size()));
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!sameValue(got[i], want[i]))
      return fail(fmt::format("{}[{}]: {}/{}", what, i, show(got[i]), show(want[i])));
}

} // namespace cases
