// SPDX-License-Identifier: Apache-2.0
#include "tests/generality/RandomProducts.h"
#include "tests/generality/ProductTypes.h"

#include <algorithm>
#include <random>
#include <string_view>

namespace generality {

std::int64_t Placement::span() const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0)
      return 0;
    n += (dims[d] - 1) * std::abs(strides[d]);
  }
  return n;
}

std::int64_t Placement::origin() const {
  std::int64_t n = 0;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (strides[d] < 0)
      n += std::max<std::int64_t>(dims[d] - 1, 0) * -strides[d];
  return n;
}

std::string Placement::text() const {
  return fmt::format("[{}]:[{}]+{}", fmt::join(dims, ","), fmt::join(strides, ","), offset);
}

std::string Product::text() const {
  static constexpr const char *forms[] = {"plain", "shared A", "A A^T"};
  static constexpr const char *epilogues[] = {"none", "bias", "gelu", "relu", "accumulate", "initial"};
  const ProductTypes &t = productTypes[types];
  return fmt::format("seed {}: {} {}x{}x{}x{} tile {}x{}x{} {}{}{}{} A {} B {} C {} {} epilogue {} {} config "
                     "[{}]",
                     seed, t.name, Z, M, N, K, BM, BN, BK, turnA ? "t" : "n", turnB ? "t" : "n",
                     filled ? " filled" : "", cut == 0 ? "" : cut == 1 ? " K[8:]" : " K[3:-1]", a.text(), b.text(), c.text(), forms[int(form)],
                     epilogues[int(epilogue)], whole ? "whole" : "normal", schedule.str());
}

namespace {

class Generator {
public:
  Generator(std::uint64_t seed, bool real) : random(seed * 0x9E3779B97F4A7C15u + 1), real(real) {
    p.seed = seed;
  }

  Product make() {
    p.types = std::size_t(pick(int(productTypes.size())));
    const ProductTypes &t = productTypes[p.types];
    p.whole = t.wholeOnly || pick(2);
    p.rank = pick(4) ? 2 : 3;
    chooseTile(t);
    p.form = pick(10) < 7 ? Form::plain : pick(2) && t.sameOperands ? Form::timesTranspose : Form::sharedA;
    if (p.form == Form::sharedA && p.BN > 128) // two accumulators
      p.BN = 64;
    static constexpr Epilogue all[] = {Epilogue::none, Epilogue::none,       Epilogue::bias,   Epilogue::relu,
                                       Epilogue::gelu, Epilogue::accumulate, Epilogue::initial};
    p.epilogue = all[pick(7)];
    if (t.wholeOnly && p.epilogue == Epilogue::gelu)
      p.epilogue = Epilogue::bias;
    chooseSchedule();
    p.schedule.async = p.seed % 4 == 1 ? 2 : p.seed % 16 == 2 ? 1 : 0; // draws nothing: other choices of a seed stay
    p.schedule.multicast = p.seed % 4 == 3 ? 2 : 0;
    chooseSizes(t);
    p.turnA = pick(2);
    p.turnB = pick(2);
    p.filled = pick(6) == 0;
    p.cut = pick(8) ? 0 : 1 + pick(2);
    p.a = place(p.turnA ? p.K : p.M, p.turnA ? p.M : p.K, t.bytesA, true);
    p.b = place(p.turnB ? p.N : p.K, p.turnB ? p.K : p.N, t.bytesB, true);
    p.c = place(p.M, p.N, t.bytesOut, false);
    return p;
  }

private:
  int pick(int n) { return int(random() % std::uint64_t(n)); }
  std::int64_t upTo(std::int64_t n) { return std::int64_t(random() % std::uint64_t(n + 1)); }
  template <std::size_t n> int any(const int (&list)[n]) { return list[pick(int(n))]; }

  void chooseTile(const ProductTypes &t) {
    // Mostly what the tensor cores like, else any length.
    const bool usual = pick(5) > 0;
    p.BM = usual ? any({64, 128, 64, 128, 192, 256, 16, 32}) : any({1, 8, 17, 20, 33, 40, 48, 72, 80, 96, 100, 112, 144, 176});
    p.BN = usual ? any({32, 64, 128, 256, 96, 192, 16, 8, 160}) : any({1, 4, 12, 17, 20, 24, 33, 40, 48, 72, 88, 100, 104, 136, 176, 224});
    p.BK = usual ? any({32, 64, 64, 128, 16}) : any({8, 17, 20, 24, 40, 48, 72, 80, 96, 100});
    if (t.bytesA == 1)
      p.BK *= pick(2) && p.BK <= 64 ? 2 : 1;
    if (!real) { // fewer lanes to go through one by one
      p.BM = std::min(p.BM, 128);
      p.BN = p.BN > 128 && pick(4) ? 64 : p.BN;
    }
    while (p.BM * p.BN > 128 * 256 || (!t.tensorCores && p.BM * p.BN > 64 * 128))
      (p.BM > p.BN ? p.BM : p.BN) = 64;
    if (!t.tensorCores)
      p.BK = std::min(p.BK, 64);
  }

  void chooseSchedule() {
    if (pick(3) < 2)
      return;
    Config &s = p.schedule;
    s.stages = any({0, 2, 3, 4, 5, 8});
    s.warps = any({0, 0, 4, 8, 1, 2});
    s.raster = any({0, 1, 2, 5});
    s.cluster = any({0, 0, 0, 0, 0, 0, 1, 1, 1, 2});
  }

  std::int64_t length(int tile) {
    switch (pick(12)) {
    case 0:
      return 1;
    case 1:
      return tile;
    case 2:
      return tile + 1;
    case 3:
      return std::max(1, tile - 1);
    case 4:
      return 2 * tile;
    case 5:
      return pick(4) ? 3 + upTo(tile) : 0;
    default:
      return 1 + upTo(real ? std::max(600, 2 * tile) : std::min(3 * tile, 150));
    }
  }

  void chooseSizes(const ProductTypes &t) {
    p.Z = p.rank == 2 ? 1 : pick(20) ? 1 + pick(real ? 5 : 3) : 0;
    p.M = length(p.BM);
    p.N = p.form == Form::timesTranspose ? p.M : length(p.BN);
    const int stages = p.schedule.stages ? p.schedule.stages : 4;
    const int trips = any({0, 1, 1, 2, 3, stages, stages + 1, stages + 1, 2 * stages + 1});
    p.K = std::int64_t(real && pick(4) == 0 ? 4 * trips : trips) * p.BK;
    if (trips && pick(2))
      p.K -= pick(p.BK);
    if (real && pick(12) == 0) { // a size that fills the GPU several times
      p.M = 1000 + upTo(1500);
      p.N = p.form == Form::timesTranspose ? p.M : 1000 + upTo(1500);
      p.K = 64 + upTo(1500);
      p.Z = 1;
    }
    const double most = real ? t.tensorCores ? 4e9 : 2e8 : 1.5e6;
    while (p.work() > most)
      if (std::int64_t &longest = p.K > 2 * p.BK && !(p.M > 2 * p.BM && pick(2)) ? p.K
                                  : p.Z > 1                                     ? p.Z
                                  : p.M >= p.N                                  ? p.M
                                                                                : p.N;
          longest > 1) {
        longest = (longest + 1) / 2;
        if (p.form == Form::timesTranspose)
          p.N = p.M = std::min(p.M, p.N);
      } else {
        break;
      }
  }

  /// The two axes of the product last. Most are what the TMA unit can read.
  Placement place(std::int64_t rows, std::int64_t columns, int bytes, bool input) {
    Placement place;
    const bool friendly = pick(10) < 7, columnsRun = pick(10) < 7;
    const std::int64_t vector = std::max(1, 16 / bytes), grain = friendly ? vector : 1;
    std::int64_t run = columnsRun ? columns : rows, others = columnsRun ? rows : columns;
    std::int64_t step = (run + grain - 1) / grain * grain + (pick(2) ? 0 : grain * pick(5)), z = 0;
    step = std::max(step, grain);
    if (p.rank == 3 && pick(6) == 0) { // batches between the rows
      z = step;
      step *= std::max<std::int64_t>(p.Z, 1);
    } else {
      z = step * std::max<std::int64_t>(others, 1) + (pick(2) ? 0 : grain * pick(5));
    }
    place.dims = {rows, columns};
    place.strides = columnsRun ? std::vector<std::int64_t>{step, 1} : std::vector<std::int64_t>{1, step};
    if (p.rank == 3) {
      place.dims.insert(place.dims.begin(), p.Z);
      place.strides.insert(place.strides.begin(), input && pick(8) == 0 ? 0 : z);
    }
    if (pick(16) == 0)
      for (std::int64_t &s : place.strides)
        s *= 2;
    if (pick(12) == 0)
      place.strides[std::size_t(pick(int(place.strides.size())))] *= -1;
    if (input && pick(24) == 0)
      place.strides[place.strides.size() - 2] = 0;
    place.offset = friendly ? (pick(2) ? 0 : vector * pick(16)) : pick(int(2 * vector));
    return place;
  }

  std::mt19937_64 random;
  bool real;
  Product p;
};

/// Dense row-major tensors of whole tiles.
Placement dense(std::int64_t rows, std::int64_t columns) { return {{rows, columns}, {columns, 1}, 0}; }

struct TileChoice {
  int m, n, k, warps, stages;
};

Variant variant(std::size_t types, int major, TileChoice c, Form form = Form::plain,
                Epilogue epilogue = Epilogue::none) {
  static constexpr const char *forms[] = {"", "_shared", "_times_transpose"};
  static constexpr const char *ends[] = {"", "_bias", "_gelu", "_relu", "_accumulate", "_initial"};
  Variant v;
  const ProductTypes &t = productTypes[types];
  Product &p = v.product;
  p.types = types;
  p.whole = t.wholeOnly;
  p.M = p.N = p.K = 3 * 256;
  p.BM = c.m;
  p.BN = c.n;
  p.BK = c.k;
  p.turnA = major & 1;
  p.turnB = major & 2;
  p.form = form;
  p.epilogue = epilogue;
  p.schedule.warps = c.warps;
  p.schedule.stages = c.stages;
  p.a = p.b = p.c = dense(p.M, p.N);
  // Short sums of fp8 lie beside those that they are added to: for wide tiles there are no registers, and warps multiply.
  const int threads = 32 * (c.warps ? c.warps : c.m >= 128 ? 8 : 4);
  const bool isTooWide = t.expect && t.expect == std::string_view("QGMMA") && (form == Form::sharedA ? 4 : 2) * c.m * c.n / threads > 200;
  v.expect = isTooWide ? nullptr : t.expect;
  // A whole tile of old values beside 128 sums; four conversions at a time beside as many.
  if (c.m * c.n == 128 * 256 && epilogue == Epilogue::accumulate)
    v.spillBytes = 256;
  if (std::string_view(t.name).ends_with("to e4m3"))
    v.spillBytes = 32;
  // Two operands that threads turn for the products, loaded before either is needed.
  if (t.bytesB == 1 && form == Form::sharedA)
    v.spillBytes = 1200;
  std::string name = t.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  v.name = fmt::format("{}_{}{}_{}x{}x{}_w{}_s{}{}{}", name, p.turnA ? "t" : "n", p.turnB ? "t" : "n", c.m, c.n, c.k, c.warps,
                       c.stages, forms[int(form)], ends[int(epilogue)]);
  return v;
}

} // namespace

std::vector<Variant> productVariants() {
  std::vector<Variant> all;
  for (std::size_t types = 0; types < productTypes.size(); ++types) {
    const ProductTypes &t = productTypes[types];
    const int deep = t.bytesA == 1 ? 2 : 1;
    const bool tensorCores = t.tensorCores;
    for (int major = 0; major < 4; ++major) {
      all.push_back(variant(types, major, {128, 128, 64 * deep / (t.bytesA == 4 ? 2 : 1), 0, 0}));
      if (t.bytesA == 2)
        for (TileChoice c : {TileChoice{128, 256, 64, 0, 0}, {256, 128, 64, 0, 0}, {64, 96, 128, 0, 0}, {192, 64, 32, 0, 0}})
          if (types == 0 || c.n == 256)
            all.push_back(variant(types, major, c));
    }
    if (!tensorCores || types > 8)
      continue;
    if (t.expect) // others have no pipelines whose stages can be chosen
      for (TileChoice c : {TileChoice{128, 256, 64, 8, 3}, {64, 256, 64, 4, 4}, {128, 128, 64, 4, 2}, {64, 64, 64, 4, 8}})
        if (Variant v = variant(types, 2, {c.m, c.n, c.k * deep, c.warps, c.stages}); v.expect)
          all.push_back(v);
    if (types == 0)
      for (Epilogue end : {Epilogue::bias, Epilogue::gelu, Epilogue::relu, Epilogue::accumulate, Epilogue::initial})
        all.push_back(variant(types, 2, {128, 256, 64, 0, 0}, Form::plain, end));
    // Operands that threads copy: 16, 8 and 4 bytes at a time, in rows that end inside a copy.
    if (t.expect && (types == 0 || t.bytesA == 1))
      for (int major : {0, 2})
        for (TileChoice c : {TileChoice{64, 128, 64, 0, 0}, {128, 256, 64, 0, 0}})
          for (std::int64_t bytes : {16, 8, 4}) {
            Variant v = variant(types, t.bytesA == 1 ? 2 : major, {c.m, c.n, c.k * deep, 0, 0});
            Product &p = v.product;
            p.schedule.async = 2;
            const std::int64_t length = p.K - 1, pitch = p.K + bytes / t.bytesA;
            p.M = p.N = p.K = length;
            p.a = p.b = {{length, length}, {pitch, 1}, 0};
            v.name += fmt::format("_copies{}", bytes);
            if (v.expect && (t.bytesA == 2 || major == 2))
              all.push_back(v);
          }
    if (t.sameOperands)
      all.push_back(variant(types, 2, {128, 128, 64 * deep, 0, 0}, Form::timesTranspose));
    all.push_back(variant(types, 0, {128, 128, 64 * deep, 0, 0}, Form::sharedA));
  }
  return all;
}

Product randomProduct(std::uint64_t seed, bool real) { return Generator(seed, real).make(); }

} // namespace generality
