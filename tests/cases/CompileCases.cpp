// SPDX-License-Identifier: Apache-2.0
/// \file P18b, P18e, P18f, P19: what the compiler makes of unusual tiles, wrong requests and too large ones.
#include "tests/cases/Cases.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <regex>

using namespace cases;

namespace {

template <class T, int width>
constexpr auto doubled = kernel("doubled", [](Tensor<const T, 1> d, Tensor<T, 2> x) {
  auto [i] = grid(x, {16});
  x.store({i, 0}, broadcast(reshape(d.load({0}, {width}) * 2, {1, width}), {16, width}));
});
template <class T, int width> void oddWidth(Run &run) {
  constexpr int rows = 20;
  Guarded<T> d(run, make<T>(width, [](auto j) { return j; })), x(run, rows * width);
  run.sweep(
      {&x},
      [&](const Config &c) { doubled<T, width>.with(c)(run.stream(), d.view(width), x.view(rows, width)); },
      [&] {
        run.same(x.get(), make<T>(rows * width, [](auto i) { return i % width * 2; }),
                 fmt::format("width {}", width));
      },
      run.isGpu() ? 10 : 3);
}
template <class T> void oddWidths(Run &run) {
  oddWidth<T, 24>(run);
  oddWidth<T, 40>(run);
  oddWidth<T, 48>(run);
  oddWidth<T, 96>(run);
  oddWidth<T, 1>(run);
  oddWidth<T, 7>(run);
}

constexpr auto wrongInner = kernel("wrong_inner", [](Tensor<f32, 2> X) {
  X.store({0, 0}, mma(X.load({0, 0}, {16, 64}), X.load({0, 0}, {32, 16})));
});
constexpr auto mixedRanks = kernel("mixed_ranks", [](Tensor<f32, 2> X) {
  Tile v = X.load({0, 0}, {16, 16});
  X.store({0, 0}, v + reshape(v, {256}));
});
constexpr auto wrongShape = kernel("wrong_shape", [](Tensor<f32, 2> X) {
  X.store({0, 0}, reshape(X.load({0, 0}, {16, 16}), {16, 15}));
});
constexpr auto wrongTypes = kernel("wrong_types", [](Tensor<f32, 2> X) {
  X.store({0, 0}, mma(cast<i16>(X.load({0, 0}, {16, 16})), cast<i16>(X.load({0, 0}, {16, 16}))));
});
constexpr auto rightAgain =
    kernel("right_again", [](Tensor<f32, 1> X) { X.store({0}, X.load({0}, {16}) * 2.0f); });

/// Three loads of a tile of 4 x 65536.
constexpr auto hugeTile = kernel("huge_tile", [](Tensor<const f32, 2> a, Tensor<const f32, 2> b,
                                                 Tensor<const f32, 2> c, Tensor<f32, 2> y) {
  auto [i] = grid(y, {4});
  y.store({i, 0}, a.load({i, 0}, {4, 65536}) * b.load({i, 0}, {4, 65536}) + c.load({i, 0}, {4, 65536}));
});
constexpr auto unrolled = kernel("unrolled", [](Tensor<const f32, 1> x, Tensor<f32, 1> y) {
  auto [i] = grid(y, {256});
  Tile v = x.load({i}, {256});
  for (int step = 0; step < 256; ++step)
    v = v * 1.5f + x.load({i + step}, {256});
  y.store({i}, v);
});

/// The call returns within 10 s, or refuses within 10 s with these words. True when it was not refused.
bool inTime(Run &run, const std::string &what, const std::function<void()> &call,
            const std::vector<std::string> &words) {
  const auto start = std::chrono::steady_clock::now();
  bool done = true;
  try {
    call();
  } catch (const UserError &e) {
    done = false;
    for (const std::string &word : words)
      run.check(std::string(e.what()).find(word) != std::string::npos,
                fmt::format("{}: the message lacks '{}': {}", what, word, e.what()));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.check(seconds < 10, fmt::format("{}: {:.1f} s/10 s", what, seconds));
  return done;
}

constexpr auto tooMuchShared =
    kernel("too_much_shared", [](Tensor<const f16, 2> A, Tensor<const f16, 2> B, Tensor<f32, 2> C) {
      auto [m, n] = grid(C, {256, 256});
      Tile acc = zeros<f32>({256, 256});
      for (Tile k : range(0, A.dim(1), 256)) // 4 tiles of 64: 2 * 256 * 256 * 2 bytes
        acc = mma(A.load({m, k}, {256, 256}), B.load({k, n}, {256, 256}), acc);
      C.store({m, n}, acc);
    });

/// A product whose tiles a tuner chooses.
constexpr auto tuned = kernel("tuned", [](Tensor<const f16, 2> A, Tensor<const f16, 2> B, Tensor<f32, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {64, 256, 128, 32}), BN = cfg.pick("BN", {64, 256}), BK = cfg.pick("BK", {64, 256, 512});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  C.store({m, n}, acc);
});

/// All of a tile that is too large for the registers of one warp.
constexpr auto tooManyRegisters =
    kernel("too_many_registers", [](Tensor<const f32, 2> x, Tensor<f32, 2> y, Config &cfg) {
      cfg.warps = 1;
      y.store({0, 0}, x.load({0, 0}, {256, 512}) + 1.0f);
    });
/// Sixteen tiles of 16 values per thread alive at once, on 512 threads: over 128 registers each if nothing
/// bounds it.
constexpr auto manyLive = kernel("many_live", [](Tensor<const f32, 3> x, Tensor<f32, 3> y) {
  Tile total = zeros<f32>({1, 64, 128});
  std::vector<Tile> parts;
  parts.reserve(16);
  for (int i = 0; i < 16; ++i)
    parts.push_back(x.load({i, 0, 0}, {1, 64, 128}));
  for (int i = 0; i < 16; ++i)
    total += parts[i] * parts[15 - i];
  for (int i = 0; i < 16; ++i)
    y.store({i, 0, 0}, total - parts[i]);
});

constexpr auto tooManyThreads = kernel("too_many_threads", [](Tensor<f32, 1> y, Config &cfg) {
  cfg.warps = 64;
  y.store({0}, zeros<f32>({4096}));
});

constexpr auto numbers = kernel("numbers", [](Tensor<i32, 3> out) {
  auto [a, b, c] = grid(out, {1, 1, 1});
  out.store({a, b, c}, cast<i32>(broadcast(reshape(b, {1, 1, 1}), {1, 1, 1})));
});

/// The driver is that of tests/support/FakeCuda.cpp, which runs no kernel.
bool runsNothing() {
  const char *library = std::getenv("SECTILE_CUDA_LIBRARY");
  void *handle = library ? dlopen(library, RTLD_NOW) : nullptr;
  return handle && dlsym(handle, "fakeCudaState");
}

std::vector<long long> numbersIn(const std::string &text) {
  std::vector<long long> all;
  const std::regex number("[0-9]+");
  for (auto i = std::sregex_iterator(text.begin(), text.end(), number); i != std::sregex_iterator(); ++i)
    all.push_back(std::stoll(i->str()));
  return all;
}

} // namespace

SECTILE_CASE("P18b/f32") { oddWidths<f32>(run); }
SECTILE_CASE("P18b/bf16") { oddWidths<bf16>(run); }
SECTILE_CASE("P18b/i8") { oddWidths<i8>(run); }
SECTILE_CASE("P18b/i64") { oddWidths<i64>(run); }
SECTILE_CASE("P18e") {
  Guarded<f32> x(run, make<f32>(16 * 16, [](auto i) { return i; }));
  auto view = x.view(16, 16);
  for (int round = 0; round < 20; ++round) {
    run.refused([&] { wrongInner(run.stream(), view); }, {"CompileCases.cpp:", "wrong_inner", "64", "32"},
                "K of a and b");
    run.refused([&] { mixedRanks(run.stream(), view); }, {"CompileCases.cpp:", "mixed_ranks"}, "ranks");
    run.refused([&] { wrongShape(run.stream(), view); }, {"CompileCases.cpp:", "wrong_shape", "256", "240"},
                "reshape");
    run.refused([&] { wrongTypes(run.stream(), view); }, {"CompileCases.cpp:", "wrong_types", "i16"},
                "types");
    run.refused([&] { wrongInner.emit("ptx", "sm_90a", view); }, {"wrong_inner"}, "emit");
    run.refused([&] { rightAgain.emit("ptx", "sm_91", x.view(16)); }, {"sm_91"}, "target");
    run.refused([&] { rightAgain.emit("asm", "sm_90a", x.view(16)); }, {"asm"}, "stage");
    x.set(make<f32>(16 * 16, [](auto i) { return i; }));
    rightAgain(run.stream(), x.view(16));
    run.stream().synchronize();
    run.same(x.get(), make<f32>(16 * 16, [](auto i) { return i < 16 ? 2 * i : i; }), "the next kernel");
    run.beat();
  }
}
SECTILE_CASE("P18f/tile") {
  const Tensor<const f32, 2> in(nullptr, {8, 65536});
  const Tensor<f32, 2> out(nullptr, {8, 65536});
  inTime(run, "emit", [&] { run.check(!hugeTile.emit("ptx", "sm_90a", in, in, in, out).empty(), "no PTX"); },
         {"huge_tile", "4x65536"});
  constexpr std::int64_t n = 5 * 65536; // 5 rows: the second tile has one
  Guarded<f32> a(run, make<f32>(n, [](auto i) { return i % 251; })),
      b(run, make<f32>(n, [](auto i) { return i % 13; })), c(run, make<f32>(n, [](auto i) { return i % 7; })),
      y(run, n);
  run.beat();
  auto launch = [&] {
    hugeTile(run.stream(), a.view(5, 65536), b.view(5, 65536), c.view(5, 65536), y.view(5, 65536));
    run.stream().synchronize();
  };
  if (inTime(run, "launch", launch, {"huge_tile", "4x65536"}))
    run.same(y.get(), make<f32>(n, [](auto i) { return (i % 251) * (i % 13) + i % 7; }), "y");
}
SECTILE_CASE("P18f/unrolled") {
  const Tensor<const f32, 1> in(nullptr, {4096});
  const Tensor<f32, 1> out(nullptr, {4096});
  inTime(run, "emit", [&] { run.check(!unrolled.emit("ptx", "sm_90a", in, out).empty(), "no PTX"); },
         {"unrolled", "256"});
  Guarded<f32> x(run, std::vector<f32>(1024, 0.0f)), y(run, 512);
  auto launch = [&] {
    unrolled(run.stream(), x.view(1024), y.view(512));
    run.stream().synchronize();
  };
  if (inTime(run, "launch", launch, {"unrolled", "256"}))
    run.same(y.get(), std::vector<f32>(512, 0.0f), "y");
}
SECTILE_CASE("P19a") {
  const Tensor<const f16, 2> a(nullptr, {512, 512}), b(nullptr, {512, 512});
  const Tensor<f32, 2> c(nullptr, {512, 512});
  for (auto [arch, limit] : {std::pair("sm_90a", 232448), std::pair("sm_86", 101376)}) {
    try {
      tooMuchShared.emit("ptx", arch, a, b, c);
      run.fail(std::string(arch) + ": not refused");
    } catch (const UserError &e) {
      const std::string text = e.what();
      run.check(e.kernel() == "too_much_shared", "kernel: " + e.kernel());
      run.check(text.find(std::to_string(limit)) != std::string::npos,
                fmt::format("{} is not named: {}", limit, text));
      bool needed = false; // operands of 262144 bytes, or more with what else the kernel keeps there
      for (long long n : numbersIn(e.message()))
        needed |= n >= 262144;
      run.check(needed, "the bytes needed are not named: " + text);
      run.check(!e.wayOut().empty() && !e.loc().file.empty(), "no way out, or no position: " + text);
    }
  }
}
SECTILE_CASE("P19a/stages") { // the same limit met by pipelines: the deepest that fits, one more, and far too many
  const Tensor<const f16, 2> a(nullptr, {512, 512}), b(nullptr, {512, 512});
  const Tensor<f32, 2> c(nullptr, {512, 512});
  auto refusal = [&](int bm, int bn, int stages, const char *arch) {
    Config config = Config().set("BM", bm).set("BN", bn).set("BK", 64);
    config.stages = stages;
    run.beat();
    try {
      run.check(!detail::emit(tuned.desc(), tuned.pack(a, b, c), &config, "ptx", arch, {}).empty(), "no PTX");
    } catch (const UserError &e) {
      const std::string name = fmt::format("{} x {}, {} stages, {}: {}", bm, bn, stages, arch, e.what());
      run.check(e.kernel() == "tuned" && !e.loc().file.empty() && !e.wayOut().empty(), name);
      run.check(e.message().find(fmt::format("stages={}", stages)) != std::string::npos, "the candidate is not named: " + name);
      return std::optional(e);
    }
    return std::optional<UserError>();
  };
  auto names = [&](const std::optional<UserError> &e, long long bytes, long long limit, const char *what) {
    const std::vector<long long> numbers = e ? numbersIn(e->message()) : std::vector<long long>();
    run.check(e && e->rule() == "check_resources_c1" && std::find(numbers.begin(), numbers.end(), limit) != numbers.end() &&
                  std::any_of(numbers.begin(), numbers.end(), [&](long long n) { return n >= bytes; }),
              fmt::format("{}: {}", what, e ? e->what() : "not refused"));
  };
  const long long slot = (64 + 256) * 64 * 2;
  int deepest = 1;
  while (deepest < 64 && !refusal(64, 256, deepest + 1, "sm_90a"))
    ++deepest;
  run.check(deepest >= 4 && deepest * slot <= 232448, fmt::format("{} stages fit", deepest));
  names(refusal(64, 256, deepest + 1, "sm_90a"), (deepest + 1) * slot, 232448, "one more than fits");
  names(refusal(64, 256, 60, "sm_90a"), 60 * slot, 232448, "sixty");
  // Tiles of 256 x 256 have no registers for a pipeline, older GPUs have none: said, and no number of bytes is at fault.
  for (const auto &e : {refusal(256, 256, 4, "sm_90a"), refusal(64, 256, 4, "sm_86")})
    run.check(e && e->rule() == "config_stages", e ? e->what() : "not refused");
}
SECTILE_CASE("P19a/tuner") { // goes through candidates, passes over those that are refused, keeps one of the rest
  if (!run.isGpu())
    run.skip("it is about the limits of a GPU");
  constexpr std::int64_t n = 80;
  Guarded<f16> a(run, make<f16>(n * n, [](auto i) { return i % 7 - 3; })), b(run, make<f16>(n * n, [](auto i) { return i % 5 - 2; }));
  Guarded<f32> c(run, n * n);
  std::vector<f32> want;
  for (std::int64_t i = 0; i < n * n; ++i) {
    float sum = 0;
    for (std::int64_t k = 0; k < n; ++k)
      sum += float((i / n * n + k) % 7 - 3) * float((k * n + i % n) % 5 - 2);
    want.push_back(sum);
  }
  struct Candidate {
    int bm, bn, bk;
    long long bytes; ///< of its operands; 0: it fits
  };
  std::optional<Config> kept;
  int refused = 0, ran = 0;
  for (int round = 0; round < 2; ++round)
    for (auto [bm, bn, bk, bytes] :
         {Candidate{256, 256, 256, 262144}, Candidate{64, 64, 64, 0}, Candidate{128, 256, 512, 393216}, Candidate{32, 64, 64, 0}}) {
      const Config config = Config().set("BM", bm).set("BN", bn).set("BK", bk);
      const std::string name = config.str();
      c.poison();
      run.beat();
      try {
        tuned.with(config)(run.stream(), a.view(n, n), b.view(n, n), c.view(n, n));
      } catch (const UserError &e) {
        ++refused;
        run.check(bytes > 0, name + " is refused: " + e.what());
        run.check(e.kernel() == "tuned" && e.rule() == "check_resources_c1" && !e.loc().file.empty(), e.what());
        for (int number : {bm, bn, bk})
          run.check(e.message().find("=" + std::to_string(number)) != std::string::npos, "the candidate is not named: " + e.message());
        const std::vector<long long> numbers = numbersIn(e.message());
        run.check(std::find(numbers.begin(), numbers.end(), run.device().properties().sharedBytesPerBlock) != numbers.end(),
                  "the limit is not named: " + e.message());
        run.check(std::any_of(numbers.begin(), numbers.end(), [&](long long v) { return v >= bytes; }),
                  "what is needed is not named: " + e.message());
        continue;
      }
      ++ran;
      run.check(bytes == 0, name + " is not refused");
      run.stream().synchronize();
      if (!runsNothing())
        run.same(c.get(), want, name);
      run.check(c.guardsHold(), "guards");
      if (!kept)
        kept = config;
    }
  run.check(refused == 4 && ran == 4 && kept && kept->get("BM") == 64, fmt::format("{} refused, {} ran", refused, ran));
}
SECTILE_CASE("P19b/refused") {
  const Tensor<const f32, 2> x(nullptr, {256, 512});
  const Tensor<f32, 2> y(nullptr, {256, 512});
  try {
    tooManyRegisters.emit("ptx", "sm_90a", x, y);
    run.fail("not refused");
  } catch (const UserError &e) {
    run.check(e.kernel() == "too_many_registers" && e.rule().starts_with("check_resources_"), e.what());
    for (const char *number : {"4096", "255", "32"}) // 256 * 512 / 32 threads
      run.check(e.message().find(number) != std::string::npos,
                fmt::format("{} is not named: {}", number, e.what()));
  }
  run.refused([&] { tooManyThreads.emit("ptx", "sm_90a", Tensor<f32, 1>(nullptr, {4096})); },
              {"too_many_threads", "64", "32"}, "threads");
}
SECTILE_CASE("P19b/512-threads") {
  // The number of threads is part of the code, so that the assembler keeps each within 65536 / 512 registers.
  Guarded<f32> x(run, make<f32>(16 * 64 * 128, [](auto i) { return i / (64 * 128) + 1; })),
      y(run, 16 * 64 * 128);
  Config c;
  c.warps = 16;
  float sum = 0;
  for (int i = 0; i < 16; ++i)
    sum += float((i + 1) * (16 - i));
  for (int round = 0; round < 3; ++round) {
    y.poison();
    manyLive.with(c)(run.stream(), x.view(16, 64, 128), y.view(16, 64, 128));
    run.stream().synchronize();
    run.same(y.get(), make<f32>(16 * 64 * 128, [&](auto i) { return sum - float(i / (64 * 128) + 1); }), "y");
    run.check(y.guardsHold(), "guards");
  }
}
SECTILE_CASE("P19c") {
  constexpr std::int64_t n = 65536;
  Guarded<i32> y(run, n);
  numbers(run.stream(), y.view(1, n, 1));
  run.stream().synchronize();
  run.same(y.get(), make<i32>(n, [](auto i) { return i; }), "out");
  run.check(y.guardsHold(), "guards");
}
SECTILE_CASE("P19c/axes") { // more programs along any axis than a launch has blocks along its second and third
  constexpr std::int64_t n = 65537;
  for (const auto &dims : {std::array<std::int64_t, 3>{n, 1, 1}, {1, n, 1}, {1, 1, n}, {3, n, 1}, {1, 257, 257}}) {
    const std::int64_t count = dims[0] * dims[1] * dims[2];
    Guarded<i32> y(run, count);
    numbers(run.stream(), y.view(dims[0], dims[1], dims[2]));
    run.stream().synchronize();
    run.same(y.get(), make<i32>(count, [&](auto i) { return i / dims[2] % dims[1]; }), fmt::format("{} x {} x {}", dims[0], dims[1], dims[2]));
    run.check(y.guardsHold(), "guards");
  }
}
SECTILE_CASE("P19c/overflow") { // products of lengths that no longer fit 32 bits, 63 bits, 64 bits, whose low bits are 0
  Guarded<i32> y(run, 1);
  const std::int64_t two31 = std::int64_t(1) << 31, two32 = two31 * 2;
  for (const auto &dims : {std::array<std::int64_t, 3>{1, two31, 1}, {1, two32, 1}, {65536, 65536, 1}, {two31, 1, 2}})
    run.refused([&] { numbers(run.stream(), Tensor<i32, 3>(y.data(), dims)); }, {"numbers", std::to_string(dims[0] * dims[1] * dims[2]), "2147483647"},
                fmt::format("{} x {} x {}", dims[0], dims[1], dims[2]));
  for (const auto &dims : {std::array<std::int64_t, 3>{two32, two32, 1}, {two31, two31, 4}, {two32, 1, two31}})
    run.refused([&] { numbers(run.stream(), Tensor<i32, 3>(y.data(), dims)); }, {"numbers"}, fmt::format("{} x {} x {}", dims[0], dims[1], dims[2]));
  run.check(y.guardsHold() && y.get() == std::vector<i32>(1, -1), "memory");
}
SECTILE_CASE("P19c/limit") {
  Guarded<i32> y(run, 1);
  const Tensor<i32, 3> many(y.data(), {1, 3000000000, 1}); // refused before anything is read
  run.refused([&] { numbers(run.stream(), many); }, {"numbers", "3000000000", "2147483647"}, "launch");
  auto call = [&] { numbers.prepare(many)(run.stream()); };
  run.refused(call, {"numbers", "3000000000", "2147483647"}, "prepared");
  run.check(y.guardsHold(), "guards");
}
