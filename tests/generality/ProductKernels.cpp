// SPDX-License-Identifier: Apache-2.0
/// \file The kernels of random products, one for each row of types and each rank, and their comparison.
#include "tests/generality/ProductTypes.h"
#include "tests/numerics/Bounds.h"

#include <atomic>
#include <random>
#include <thread>

using sectile::numerics::Outcome;

namespace generality {
namespace {

/// Half the least subnormal, and the largest number where conversions saturate.
template <class T> constexpr double halfLeast = 0x1p-134;
template <> constexpr double halfLeast<f32> = 0x1p-126; // sums may be flushed
template <> constexpr double halfLeast<f16> = 0x1p-25;
template <> constexpr double halfLeast<e4m3> = 0x1p-10;
template <class T> constexpr double halfUnit = unit<T>;
template <> constexpr double halfUnit<e4m3> = 0x1p-4;

#define SECTILE_LENGTHS                                                                                      \
  {                                                                                                          \
    64, 1, 4, 8, 12, 16, 17, 20, 24, 32, 33, 34, 40, 48, 72, 80, 88, 96, 100, 104, 112, 128, 136, 144, 160,  \
        176, 192, 224, 256                                                                                   \
  }

/// C (and D) from A and B (and E), by the choices in `cfg`; z is null for tensors of rank 2.
template <class TA, class TB, class Acc, class Out, MmaPolicy policy, int R>
void trace(const Tensor<const TA, R> &allA, const Tensor<const TB, R> &allB, const Tensor<const TB, R> &allE,
           Tensor<const Acc, 1> bias, Tensor<Out, R> C, Tensor<Out, R> D, Config &cfg) {
  const int BM = cfg.pick("BM", SECTILE_LENGTHS), BN = cfg.pick("BN", SECTILE_LENGTHS),
            BK = cfg.pick("BK", SECTILE_LENGTHS);
  const bool turnA = cfg.pick("TA", {0, 1}), turnB = cfg.pick("TB", {0, 1}), filled = cfg.pick("FILL", {0, 1});
  const int cut = cfg.pick("CUT", {0, 1, 2});
  auto cutK = [&]<class T>(const Tensor<T, R> &x, int axis) {
    return cut == 0 ? x : x.slice(axis, cut == 1 ? 8 : 3, cut == 1 ? x.dim(axis) : x.dim(axis) - 1);
  };
  const Tensor<const TA, R> A = cutK(allA, turnA ? R - 2 : R - 1);
  const Tensor<const TB, R> B = cutK(allB, turnB ? R - 1 : R - 2), E = cutK(allE, turnB ? R - 1 : R - 2);
  const Form form = Form(cfg.pick("FORM", {0, 1, 2}));
  const Epilogue epilogue = Epilogue(cfg.pick("END", {0, 1, 2, 3, 4, 5}));
  auto place = [&] {
    if constexpr (R == 2)
      return grid(C, {BM, BN});
    else
      return grid(C, {1, BM, BN});
  }();
  Tile m = place[R - 2], n = place[R - 1];
  auto load = [&]<class T>(const Tensor<T, R> &x, const Tile &row, const Tile &column, int rows, int columns) {
    if constexpr (R == 2) {
      Tile v = x.load({row, column}, {rows, columns});
      return filled ? v.fill(0) : v;
    } else {
      Tile v = x.load({place[0], row, column}, {1, rows, columns});
      return (filled ? v.fill(0) : v).drop(0);
    }
  };
  auto old = [&](const Tensor<Out, R> &x) {
    if constexpr (R == 2)
      return cast<Acc>(x.load({m, n}, {BM, BN}));
    else
      return cast<Acc>(x.load({place[0], m, n}, {1, BM, BN}).drop(0));
  };
  auto start = [&](const Tensor<Out, R> &x) {
    return epilogue == Epilogue::initial ? old(x) : zeros<Acc>({BM, BN});
  };
  auto finish = [&](const Tensor<Out, R> &x, Tile sum) {
    if (epilogue == Epilogue::bias)
      sum = sum + broadcast(reshape(bias.load({n}, {BN}), {1, BN}), {BM, BN});
    if (epilogue == Epilogue::relu)
      sum = max(sum, zeros<Acc>({BM, BN}));
    if (epilogue == Epilogue::accumulate)
      sum = old(x) + sum;
    if constexpr (std::is_same_v<Acc, f32>)
      if (epilogue == Epilogue::gelu) {
        Tile inner = (sum + sum * sum * sum * 0.044715f) * 0.7978845608f;
        sum = sum * 0.5f * (tanh(inner) + 1.0f);
      }
    Tile out = cast<Out>(sum);
    if constexpr (R == 2)
      x.store({m, n}, out);
    else
      x.store({place[0], m, n}, reshape(out, {1, BM, BN}));
  };
  Tile sum = start(C);
  auto a = [&](const Tile &k) {
    return turnA ? t(load(A, k, m, BK, BM)) : load(A, m, k, BM, BK);
  };
  auto b = [&](const Tensor<const TB, R> &x, const Tile &k) {
    return turnB ? t(load(x, n, k, BN, BK)) : load(x, k, n, BK, BN);
  };
  Tile depth = A.dim(turnA ? R - 2 : R - 1);
  if (form == Form::sharedA) {
    Tile other = start(D);
    for (Tile k : range(0, depth, BK)) {
      Tile left = a(k);
      sum = mma(left, b(B, k), sum, policy);
      other = mma(left, b(E, k), other, policy);
    }
    finish(C, sum);
    finish(D, other);
    return;
  }
  for (Tile k : range(0, depth, BK)) {
    if constexpr (std::is_same_v<TA, TB>)
      if (form == Form::timesTranspose) {
        sum = mma(a(k), turnA ? load(A, k, n, BK, BN) : t(load(A, n, k, BN, BK)), sum, policy);
        continue;
      }
    sum = mma(a(k), b(B, k), sum, policy);
  }
  finish(C, sum);
}

template <class TA, class TB, class Acc, class Out, MmaPolicy policy, int R>
constexpr auto product =
    kernel("random_product",
           [](Tensor<const TA, R> A, Tensor<const TB, R> B, Tensor<const TB, R> E, Tensor<const Acc, 1> bias,
              Tensor<Out, R> C, Tensor<Out, R> D,
              Config &cfg) { trace<TA, TB, Acc, Out, policy, R>(A, B, E, bias, C, D, cfg); });

/// Memory of one tensor: its elements from the lowest to the highest, 0xFF where nothing lies.
template <class T> struct Placed {
  Placement place;
  std::vector<T> raw;
  Guarded<T> memory;
  Placed(Run &run, const Placement &place) : place(place), memory(run, place.span(), place.offset) {
    raw = memory.get();
  }
  template <class F> void fill(std::int64_t Z, std::int64_t rows, std::int64_t columns, F next) {
    for (std::int64_t z = 0; z < Z; ++z)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          raw[std::size_t(place.at(z, i, j))] = number<T>(next());
    memory.set(raw);
  }
  double at(std::int64_t z, std::int64_t i, std::int64_t j) const {
    return double(raw[std::size_t(place.at(z, i, j))]);
  }
  template <class V, int R> Tensor<V, R> view() {
    std::array<std::int64_t, R> dims, strides;
    std::copy(place.dims.begin(), place.dims.end(), dims.begin());
    std::copy(place.strides.begin(), place.strides.end(), strides.begin());
    return Tensor<V, R>(memory.data() + place.origin(), dims, strides);
  }
  /// What is wrong with memory that nobody writes.
  std::string untouched() const {
    if (!memory.guardsHold())
      return "guard bytes of an operand were written";
    const std::vector<T> now = memory.get();
    return now.empty() || !std::memcmp(now.data(), raw.data(), now.size() * sizeof(T))
               ? ""
               : "an operand was written";
  }
};

template <class TA, class TB, class Acc, class Out, MmaPolicy policy, int R> class Case {
public:
  Case(Run &run, const Product &p)
      : p(p), a(run, p.a), b(run, p.form == Form::timesTranspose ? empty() : p.b),
        e(run, p.form == Form::sharedA ? p.b : empty()), bias(run, line()), c(run, p.c),
        d(run, p.form == Form::sharedA ? p.c : empty()), run(run) {
    std::mt19937_64 bits(p.seed);
    std::normal_distribution<double> normal;
    auto draw = [&]() -> double {
      if (p.whole)
        return double(bits() % 7) - (std::is_unsigned_v<TA> ? 0 : 3);
      return normal(bits);
    };
    a.fill(p.Z, p.turnA ? p.K : p.M, p.turnA ? p.M : p.K, draw);
    if (p.form != Form::timesTranspose)
      b.fill(p.Z, p.turnB ? p.N : p.K, p.turnB ? p.K : p.N, draw);
    if (p.form == Form::sharedA)
      e.fill(p.Z, p.turnB ? p.N : p.K, p.turnB ? p.K : p.N, draw);
    bias.fill(1, 1, p.N, draw);
    if (readsC()) {
      c.fill(p.Z, p.M, p.N, draw);
      if (p.form == Form::sharedA)
        d.fill(p.Z, p.M, p.N, draw);
    }
  }

  Config config(bool pipelines = true) const {
    Config config = p.schedule;
    if (!pipelines)
      config.stages = 1;
    config.set("BM", p.BM).set("BN", p.BN).set("BK", p.BK).set("TA", p.turnA).set("TB", p.turnB);
    config.set("CUT", p.cut).set("FILL", p.filled).set("FORM", int(p.form)).set("END", int(p.epilogue));
    return config;
  }

  void launch() {
    call([&](auto... args) { kernelOf().with(config())(run.stream(), args...); });
    run.stream().synchronize();
  }
  void onThreads(bool pipelines) {
    call([&](auto... args) {
      const auto packed = kernelOf().pack(args...);
      const Config chosen = config(pipelines);
      executor()(detail::emit(kernelOf().desc(), packed, &chosen, "tgpu", "sm_90a", {}), packed);
    });
  }
  std::string emit(const char *stage, const char *arch) {
    return call([&](auto... args) {
      const Config chosen = config();
      return detail::emit(kernelOf().desc(), kernelOf().pack(args...), &chosen, stage, arch, {});
    });
  }
  Prepared prepare() {
    return call([&](auto... args) { return kernelOf().with(config()).prepare(args...); });
  }

  /// Results as they were before the launch.
  void reset() {
    c.memory.poison();
    c.memory.set(c.raw);
    d.memory.poison();
    d.memory.set(d.raw);
  }
  std::string bits() const { return c.memory.bits() + d.memory.bits(); }

  /// What is wrong after a launch.
  std::string wrong(bool onGpu) const {
    for (const std::string &what : {a.untouched(), b.untouched(), e.untouched(), bias.untouched()})
      if (!what.empty())
        return what;
    std::string what = wrongIn("C", c, p.form == Form::timesTranspose, false, onGpu);
    if (what.empty() && p.form == Form::sharedA)
      what = wrongIn("D", d, false, true, onGpu);
    return what;
  }
  /// Which change of one byte after a launch is not noticed; on the interpreter, whose memory is the host's.
  std::string blindSpot() {
    launch();
    if (const std::string what = wrong(false); !what.empty())
      return "a right product counts as wrong: " + what;
    std::string blind;
    auto change = [&](std::byte *at, const char *what) {
      *at ^= std::byte(0x40);
      if (wrong(false).empty())
        blind = what;
      *at ^= std::byte(0x40);
    };
    std::byte *const begin = c.memory.begin();
    const std::int64_t span = c.place.span() * std::int64_t(sizeof(Out));
    change(begin - 1, "a byte before the result");
    change(begin + span, "a byte behind the result");
    if (p.Z * p.M * p.N > 0)
      change(begin + (c.place.at(p.Z - 1, p.M / 2, p.N - 1) + 1) * std::int64_t(sizeof(Out)) - 1, "a result");
    std::vector<char> stored(std::size_t(c.place.span()));
    for (std::int64_t z = 0; z < p.Z; ++z)
      for (std::int64_t m = 0; m < p.M; ++m)
        for (std::int64_t n = 0; n < p.N; ++n)
          stored[std::size_t(c.place.at(z, m, n))] = 1;
    if (auto gap = std::find(stored.begin(), stored.end(), 0); gap != stored.end())
      change(begin + (gap - stored.begin()) * std::int64_t(sizeof(Out)), "a byte between results");
    if (a.place.span() > 0)
      change(a.memory.begin(), "a byte of an operand");
    change(a.memory.begin() - 1, "a byte before an operand");
    return blind;
  }
  /// Sums of whole numbers, and what follows keeps them whole.
  bool exact() const {
    return p.whole && p.epilogue != Epilogue::gelu;
  }

private:
  static const auto &kernelOf() { return product<TA, TB, Acc, Out, policy, R>; }
  static Placement empty() {
    return {std::vector<std::int64_t>(R, 0), std::vector<std::int64_t>(R, 1), 0};
  }
  Placement line() const { return {{1, p.N}, {0, 1}, std::int64_t(p.seed % 5)}; }
  bool readsC() const { return p.epilogue == Epilogue::accumulate || p.epilogue == Epilogue::initial; }

  template <class F> auto call(F f) {
    return f(a.template view<const TA, R>(), b.template view<const TB, R>(), e.template view<const TB, R>(),
             Tensor<const Acc, 1>(bias.memory.data(), {p.N}), c.template view<Out, R>(),
             d.template view<Out, R>());
  }

  double left(std::int64_t z, std::int64_t m, std::int64_t k) const {
    return p.turnA ? a.at(z, k, m) : a.at(z, m, k);
  }
  double right(const Placed<TB> &x, std::int64_t z, std::int64_t k, std::int64_t n) const {
    return p.turnB ? x.at(z, n, k) : x.at(z, k, n);
  }

  static constexpr bool fp8 = sizeof(TA) == 1 && !std::is_integral_v<TA>;

  std::string wrongIn(const char *name, const Placed<Out> &x, bool turned, bool other, bool onGpu) const {
    if (!x.memory.guardsHold())
      return fmt::format("guard bytes of {} were written", name);
    const std::vector<Out> got = x.memory.get();
    std::vector<char> stored(got.size());
    // Every element of small products; of large ones whole rows and columns apart.
    const bool all = p.work() <= 1e8;
    const std::int64_t stepM = all ? 1 : p.M / 40 + 1;
    std::vector<double> sums(std::size_t(p.N)), sizes(std::size_t(p.N));
    std::vector<numerics::ShortSums> chains(std::size_t(fp8 ? p.N : 0));
    std::vector<double> table(std::size_t(p.K * p.N));
    for (std::int64_t z = 0; z < p.Z; ++z) {
      for (std::int64_t k = 0; k < p.K; ++k)
        for (std::int64_t n = 0; n < p.N; ++n)
          table[std::size_t(k * p.N + n)] = turned ? left(z, n, k) : right(other ? e : b, z, k, n);
      for (std::int64_t m = 0; m < p.M; ++m) {
        for (std::int64_t n = 0; n < p.N; ++n)
          stored[std::size_t(x.place.at(z, m, n))] = 1;
        if (m % stepM != 0 && m != p.M - 1)
          continue;
        run.beat();
        std::fill(sums.begin(), sums.end(), 0.0);
        std::fill(sizes.begin(), sizes.end(), 0.0);
        std::fill(chains.begin(), chains.end(), numerics::ShortSums());
        for (std::int64_t k = fp8 ? 0 : p.firstK(); k < p.endK(); ++k) {
          const bool exists = k >= p.firstK();
          const double v = exists ? left(z, m, k) : 0, *of = exists ? &table[std::size_t(k * p.N)] : nullptr;
          for (std::int64_t n = 0; n < p.N; ++n) {
            const double term = exists ? v * of[n] : 0;
            sums[std::size_t(n)] += term;
            sizes[std::size_t(n)] += std::abs(term);
            if (fp8)
              chains[std::size_t(n)].add(term);
          }
        }
        for (std::int64_t n = 0; n < p.N; ++n) {
          const std::size_t at = std::size_t(x.place.at(z, m, n));
          const std::string what =
              wrongElement(got[at], sums[std::size_t(n)], sizes[std::size_t(n)], fp8 ? chains[std::size_t(n)].lost() : 0,
                           readsC() ? double(x.raw[at]) : 0, double(bias.raw[std::size_t(n)]), onGpu);
          if (!what.empty())
            return fmt::format("{}[{}, {}, {}]: {}", name, z, m, n, what);
        }
      }
    }
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!stored[i] && std::memcmp(&got[i], &x.raw[i], sizeof(Out)))
        return fmt::format("{}: element {} of the memory, which is none of the tensor, was written", name, i);
    return {};
  }

  std::string wrongElement(Out got, double value, double size, double lost, double before, double add, bool onGpu) const {
    using namespace sectile::numerics;
    double terms = double(p.K) + 1, error = 0;
    if (p.epilogue == Epilogue::initial) {
      value += before;
      size += std::abs(before);
    }
    const bool sumsExact = std::is_integral_v<Acc> || (p.whole && size < 0x1p23 && !(fp8 && onGpu));
    if (!sumsExact) {
      error = boundOf("mma")->f32 * terms * 0x1p-24 * size;
      if (policy == MmaPolicy::tf32)
        error += tf32Product * size;
      if (fp8 && onGpu)
        error += fp8TensorCore * size + lost;
    }
    if (p.epilogue == Epilogue::bias)
      value += add;
    if (p.epilogue == Epilogue::accumulate)
      value += before;
    if (p.epilogue == Epilogue::relu)
      value = std::max(value, 0.0);
    if (error > 0)
      error += 0x1p-24 * (std::abs(value) + error);
    if (p.epilogue == Epilogue::gelu) {
      const double x = value;
      value = 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
      error = 1.2 * error + 0x1p-20 * std::abs(x); // the slope is below 1.13; near tanh = -1 its error counts against x
    }
    const double g = double(got);
    if (error == 0) {
      const double want = double(number<Out>(value));
      return g == want ? std::string() : fmt::format("{} / {}", g, want);
    }
    if constexpr (std::is_same_v<Out, e4m3>)
      value = std::clamp(value, -448.0, 448.0);
    const double bound = error + halfUnit<Out> * (std::abs(value) + error) + halfLeast<Out>;
    return std::abs(g - value) <= bound ? std::string() : fmt::format("{} / {} +- {}", g, value, bound);
  }

  const Product &p;
  Placed<TA> a;
  Placed<TB> b, e;
  Placed<Acc> bias;
  Placed<Out> c, d;
  Run &run;
};

/// A schedule chosen by hand may be too much for the target.
bool isRefusal(const Product &p, const UserError &e) {
  return p.byHand() && (e.rule().starts_with("check_resources_") || e.rule().starts_with("choose_cluster_") ||
                        (e.rule() == "config_stages" && p.schedule.stages > 1));
}

Outcome failure(std::string what, bool fatal = false) { return {Outcome::failed, std::move(what), fatal}; }

template <class F> Outcome guarded(const Product &p, bool onGpu, F work) {
  try {
    const std::string what = work();
    return what.empty() ? Outcome() : failure(what);
  } catch (const UserError &e) {
    if (isRefusal(p, e))
      return {Outcome::skipped, e.rule(), false};
    return failure(std::string("threw ") + e.what(), e.rule().starts_with("device_"));
  } catch (const std::exception &e) {
    return failure(std::string("threw ") + e.what(), onGpu);
  }
}

template <class TA, class TB, class Acc, class Out, MmaPolicy policy, int R>
std::string checkOf(const Product &p, Engine engine) {
  Run run(engine == Engine::gpu, true);
  Case<TA, TB, Acc, Out, policy, R> test(run, p);
  test.launch();
  std::string what = test.wrong(engine == Engine::gpu);
  if (!what.empty() || engine != Engine::executor)
    return what.empty() ? what : (engine == Engine::gpu ? "" : "interpreter: ") + what;
  const std::string interpreted = test.bits();
  for (bool pipelines : {false, true}) {
    test.reset();
    try {
      test.onThreads(pipelines);
    } catch (const UserError &e) {
      if (isRefusal(p, e))
        throw;
      what = std::string("threw ") + e.what();
    } catch (const std::exception &e) {
      what = e.what();
    }
    if (what.empty())
      what = test.wrong(false);
    if (what.empty() && test.exact() && test.bits() != interpreted)
      what = "other bits than the interpreter's";
    if (!what.empty())
      return (pipelines ? "executor: " : "executor, stages 1: ") + what;
  }
  return {};
}

template <class TA, class TB, class Acc, class Out, MmaPolicy policy>
Outcome check(const Product &p, Engine engine) {
  const Outcome outcome = guarded(p, engine == Engine::gpu, [&] {
    return p.rank == 2 ? checkOf<TA, TB, Acc, Out, policy, 2>(p, engine)
                       : checkOf<TA, TB, Acc, Out, policy, 3>(p, engine);
  });
  if (outcome.kind != Outcome::skipped || outcome.text != "config_stages")
    return outcome;
  Product unstaged = p; // nothing of it can be loaded ahead
  unstaged.schedule.stages = 0;
  return check<TA, TB, Acc, Out, policy>(unstaged, engine);
}

/// Other work for the GPU: this much of it at a time, by a thread with a stream of its own.
constexpr auto otherWork = kernel("other_work", [](Tensor<f32, 1> x) {
  auto [i] = grid(x, {1024});
  Tile v = x.load({i}, {1024});
  for ([[maybe_unused]] Tile r : range(0, 64))
    v = sin(v) + 0.5f;
  x.store({i}, v);
});

class BusyStream {
public:
  BusyStream() : worker([this] { work(); }) {
    while (rounds < 2 && problem.empty() && !over)
      std::this_thread::yield();
  }
  ~BusyStream() {
    if (worker.joinable())
      end();
  }
  /// Rounds so far.
  std::int64_t count() const { return rounds; }
  /// Empty, or what went wrong.
  std::string end() {
    stop = true;
    worker.join();
    return problem;
  }

private:
  void work() {
    try {
      Stream stream(Device::gpu(0));
      Buffer<f32> x(stream, std::int64_t(1) << 22);
      x.fillBytes(0);
      while (!stop) {
        for (int i = 0; i < 4; ++i)
          otherWork(stream, x);
        stream.synchronize();
        ++rounds;
      }
    } catch (const std::exception &e) {
      problem = e.what();
    }
    over = true;
  }
  std::atomic<bool> stop{false}, over{false};
  std::atomic<std::int64_t> rounds{0};
  std::string problem;
  std::thread worker; // last: it uses the others
};

template <class TA, class TB, class Acc, class Out, MmaPolicy policy, int R>
std::string repeatOf(const Product &p, int times) {
  Run run(true, true);
  Case<TA, TB, Acc, Out, policy, R> test(run, p);
  const Prepared call = test.prepare();
  std::string first;
  BusyStream other;
  const std::int64_t before = other.count();
  for (int i = 0; i < times; ++i) {
    test.reset();
    call(run.stream());
    run.stream().synchronize();
    std::string bits = test.bits();
    if (i == 0) {
      if (std::string what = test.wrong(true); !what.empty())
        return what;
      first = std::move(bits);
    } else if (bits != first) {
      return fmt::format("run {} gives other bits than the first", i);
    }
  }
  const std::int64_t rounds = other.count() - before;
  if (const std::string what = other.end(); !what.empty())
    return "the other stream: " + what;
  return rounds > 0 ? "" : "the other stream did nothing meanwhile";
}

template <class TA, class TB, class Acc, class Out, MmaPolicy policy> Outcome repeat(const Product &p, int times) {
  return guarded(p, true, [&] {
    return p.rank == 2 ? repeatOf<TA, TB, Acc, Out, policy, 2>(p, times)
                       : repeatOf<TA, TB, Acc, Out, policy, 3>(p, times);
  });
}

template <class TA, class TB, class Acc, class Out, MmaPolicy policy> std::string blindSpotOf(const Product &p) {
  Run run(false, true);
  return p.rank == 2 ? Case<TA, TB, Acc, Out, policy, 2>(run, p).blindSpot()
                     : Case<TA, TB, Acc, Out, policy, 3>(run, p).blindSpot();
}

template <class TA, class TB, class Acc, class Out, MmaPolicy policy, int R>
std::string emitOf(const Product &p, const char *stage, const char *arch) {
  Run run(false, true);
  return Case<TA, TB, Acc, Out, policy, R>(run, p).emit(stage, arch);
}

template <class TA, class TB, class Acc, class Out, MmaPolicy policy>
std::string emit(const Product &p, const char *stage, const char *arch) {
  return p.rank == 2 ? emitOf<TA, TB, Acc, Out, policy, 2>(p, stage, arch)
                     : emitOf<TA, TB, Acc, Out, policy, 3>(p, stage, arch);
}

template <class TA, class TB, class Acc, class Out, MmaPolicy policy = MmaPolicy::exact>
constexpr ProductTypes row(const char *name) {
  return {name,
          std::is_integral_v<TA> ? "IGMMA" : sizeof(TA) == 2 ? "HGMMA" : sizeof(TA) == 1 ? "QGMMA" : nullptr,
          std::is_integral_v<TA>,
          std::is_same_v<TA, TB>,
          !std::is_same_v<TA, f32> || policy == MmaPolicy::tf32,
          sizeof(TA),
          sizeof(TB),
          sizeof(Out),
          check<TA, TB, Acc, Out, policy>,
          repeat<TA, TB, Acc, Out, policy>,
          blindSpotOf<TA, TB, Acc, Out, policy>,
          emit<TA, TB, Acc, Out, policy>};
}

constexpr ProductTypes rows[] = {
    row<bf16, bf16, f32, bf16>("bf16"),
    row<bf16, bf16, f32, f32>("bf16 to f32"),
    row<f16, f16, f32, f16>("f16"),
    row<f16, f16, f32, bf16>("f16 to bf16"),
    row<bf16, bf16, f32, e4m3>("bf16 to e4m3"),
    row<e4m3, e4m3, f32, bf16>("e4m3 to bf16"),
    row<e4m3, e5m2, f32, f16>("e4m3 e5m2 to f16"),
    row<e5m2, e5m2, f32, f32>("e5m2 to f32"),
    row<i8, i8, i32, i32>("i8"),
    row<u8, u8, i32, i32>("u8"),
    row<i8, i8, i32, f32>("i8 to f32"),
    row<f32, f32, f32, f32>("f32"),
    row<f32, f32, f32, f32, MmaPolicy::tf32>("tf32"),
    row<f32, f32, f32, bf16, MmaPolicy::tf32>("tf32 to bf16"),
};

} // namespace

const std::span<const ProductTypes> productTypes = rows;

Outcome checkProduct(const Product &product, Engine engine) {
  return productTypes[product.types].check(product, engine);
}
std::string emitProduct(const Product &product, const char *stage, const char *arch) {
  return productTypes[product.types].emit(product, stage, arch);
}
std::string blindSpot(const Product &product) { return productTypes[product.types].blindSpot(product); }
Outcome repeatProduct(const Product &product, int times) {
  return productTypes[product.types].repeat(product, times);
}

} // namespace generality
