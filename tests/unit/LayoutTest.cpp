// SPDX-License-Identifier: Apache-2.0
/// \file Layouts are checked by exhaustion: every place, every element.
#include "ir/base/Layout.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <set>

using namespace sectile;

namespace {

using Shape = std::vector<std::int32_t>;

std::int64_t flat(const Coords &c, const Shape &shape) {
  std::int64_t i = 0;
  for (std::size_t d = 0; d < shape.size(); ++d)
    i = i * shape[d] + c[int(d)];
  return i;
}
std::int64_t volume(const Shape &shape) {
  std::int64_t v = 1;
  for (std::int32_t s : shape)
    v *= s;
  return v;
}
template <class F> void eachPlace(const Layout &l, F f) {
  for (int w = 0; w < l.numWarps(); ++w)
    for (int lane = 0; lane < (1 << l.lane().size()); ++lane)
      for (int r = 0; r < l.numRegs(); ++r)
        f(Place{r, lane, w});
}

/// How often each element is held.
std::vector<int> holders(const Layout &l) {
  const Shape shape = l.shape();
  std::vector<int> count(std::size_t(volume(shape)));
  int outside = 0;
  eachPlace(l, [&](Place p) {
    const Coords c = l.coords(p);
    bool inside = true;
    for (int d = 0; d < l.rank(); ++d)
      inside = inside && c[d] >= 0 && c[d] < shape[d];
    outside += !inside;
    if (inside)
      ++count[std::size_t(flat(c, shape))];
  });
  REQUIRE(outside == 0);
  return count;
}

/// Everything that must hold of any layout, against plain enumeration.
void checkLayout(const Layout &l) {
  INFO(l.toString());
  const Shape shape = l.shape();
  const std::vector<int> count = holders(l);
  const auto [least, most] = std::minmax_element(count.begin(), count.end());
  CHECK(l.isSurjective() == (*least > 0));
  CHECK(l.isInjective() == (*most <= 1));
  CHECK(l.numThreads() == (1 << l.lane().size()) * l.numWarps());

  // Places without free bits hold every held element exactly once.
  std::vector<int> stored(count.size());
  int bad = 0;
  const InverseLayout inverse = invert(l);
  const std::uint32_t freeLanes = l.freeLanes(), freeWarps = l.freeWarps(), freeRegs = l.freeRegs();
  eachPlace(l, [&](Place p) {
    const Coords c = l.coords(p);
    const bool owns =
        !(unsigned(p.lane) & freeLanes) && !(unsigned(p.warp) & freeWarps) && !(unsigned(p.reg) & freeRegs);
    if (owns)
      ++stored[std::size_t(flat(c, shape))];
    const Place q = inverse(c);
    bad += l.coords(q) != c;
    bad += owns && q != p; // the inverse picks the owner
  });
  CHECK(bad == 0);
  for (std::size_t i = 0; i < count.size(); ++i)
    bad += stored[i] != (count[i] > 0);
  CHECK(bad == 0);

  std::string why;
  const std::optional<Layout> back = Layout::parse(l.toString(), &why);
  INFO(why);
  REQUIRE(back.has_value());
  CHECK(*back == l);
  CHECK(back->hash() == l.hash());
}

Layout accumulator() {
  return Layout(2, {16, 8}, {1, 1}, {{0, 1}, {8, 0}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {});
}

/// A random layout with any bases, dependent ones too.
Layout randomLayout(std::mt19937 &random, const Coords &core, const Coords &reps, int rank, int regBits,
                    int warpBits) {
  auto bases = [&](int n) {
    std::vector<Coords> b(n);
    for (Coords &c : b)
      for (int d = 0; d < rank; ++d)
        c[d] = std::int32_t(random() % unsigned(core[d]));
    return b;
  };
  return Layout(rank, core, reps, bases(regBits), bases(5), bases(warpBits));
}

/// A random bijective layout of the core: the bits of the coordinates dealt out to registers, lanes and
/// warps, then mixed by XORing some into others.
Layout randomBijection(std::mt19937 &random, const Coords &core, const Coords &reps, int rank, int warpBits) {
  std::vector<Coords> bits;
  for (int d = 0; d < rank; ++d)
    for (int step = 1; step < core[d]; step *= 2) {
      Coords c;
      c[d] = step;
      bits.push_back(c);
    }
  std::shuffle(bits.begin(), bits.end(), random);
  for (int i = 0; i < 4; ++i) {
    std::size_t a = random() % bits.size(), b = random() % bits.size();
    if (a != b)
      bits[a] ^= bits[b];
  }
  const auto lanes = bits.begin() + 5, warps = lanes + warpBits;
  return Layout(rank, core, reps, {warps, bits.end()}, {bits.begin(), lanes}, {lanes, warps});
}

} // namespace

TEST_CASE("the example of the header", "[layout]") {
  const Layout l = accumulator();
  CHECK(l.coords(3, 5, 0) == Coords{9, 3});
  const Layout wide(2, {16, 8}, {1, 3}, l.reg(), l.lane(), {});
  CHECK(wide.numRegs() == 12);
  CHECK(wide.coords(7, 5, 0) == Coords{9, 11});
  const Layout copies(2, {16, 8}, {1, 1}, l.reg(), l.lane(), {{0, 0}});
  CHECK(copies.freeWarps() == 1);
  CHECK_FALSE(copies.isInjective());
  CHECK(copies.isSurjective());
  checkLayout(l);
  checkLayout(wide);
  checkLayout(copies);
  CHECK(l.isBijective());
  CHECK(wide.toString() ==
        "core=[16,8] reps=[1,3] reg=[(0,1),(8,0)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[]");
}

TEST_CASE("a rank-0 layout is one element in every lane", "[layout]") {
  const Layout l;
  CHECK(l.numRegs() == 1);
  CHECK(l.freeLanes() == 31);
  checkLayout(l);
  checkLayout(Layout::blocked(Shape{}, -1, 1, 4));
}

TEST_CASE("blocked layouts hold every element for every shape", "[layout]") {
  const std::vector<Shape> shapes = {
      {24},     {48},     {80},       {96},      {176},        {192},           {1},
      {2},      {4096},   {1, 4096},  {4096, 1}, {24, 48},     {80, 96},        {176, 192},
      {64, 64}, {3, 5},   {15, 7},    {16, 1},   {2, 3, 4, 5}, {2, 1, 6, 4, 8}, {1, 1, 1, 1, 1},
      {128, 3}, {7, 256}, {6, 10, 12}};
  for (const Shape &shape : shapes)
    for (int warps : {1, 2, 4, 8})
      for (int vector : {1, 4, 8})
        for (int axis = 0; axis < int(shape.size()); ++axis) {
          const Layout l = Layout::blocked(shape, axis, vector, warps);
          REQUIRE(l.shape() == shape);
          REQUIRE(l.numWarps() == warps);
          REQUIRE(l.isSurjective());
          const int pow2 = shape[axis] & -shape[axis];
          REQUIRE(l.contiguousRun(axis) >= std::min(vector, pow2));
          checkLayout(l);
        }
}

TEST_CASE("blocked layouts coalesce", "[layout]") {
  // 64x64, vectors of 8: eight lanes cover a row, the four rows of a warp are neighbours, then warps.
  const Layout l = Layout::blocked(Shape{64, 64}, 1, 8, 4);
  for (int lane = 0; lane < 32; ++lane)
    for (int w = 0; w < 4; ++w)
      for (int r = 0; r < 8; ++r)
        CHECK(l.coords(r, lane, w) == Coords{lane / 8 + 4 * w, lane % 8 * 8 + r});
  CHECK(l.numRegs() == 32);
  CHECK(l.coords(8, 0, 0) == Coords{16, 0});
  CHECK(l.contiguousRun(1) == 8);
  CHECK(l.contiguousRun(0) == 1);
  // Warps dealt along another order: rows first for a reduction along columns.
  const std::vector<int> order = {1, 0}, warpOrder = {0, 1};
  const Layout rows = Layout::blocked(Shape{4, 512}, order, 4, 4, warpOrder);
  CHECK(rows.warpsAlong(0) == 3);
  CHECK(rows.warpsAlong(1) == 0);
  CHECK(rows.lanesAlong(1) == 31);
  // Fewer elements than threads: copies, and the copies are free bits.
  const Layout small = Layout::blocked(Shape{16}, 0, 1, 4);
  CHECK(small.numRegs() == 1);
  CHECK(small.freeLanes() == 16);
  CHECK(small.freeWarps() == 3);
}

TEST_CASE("random layouts, with dependent bases and repetitions", "[layout]") {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const Coords core{1 << random() % 4, 1 << random() % 4, 1 << random() % 3};
    const Coords reps{1 + int(random() % 4), 1 + int(random() % 4), 1 + int(random() % 6)};
    checkLayout(randomLayout(random, core, reps, 3, int(random() % 4), int(random() % 3)));
  }
  for (int i = 0; i < 100; ++i)
    checkLayout(randomBijection(random, {8, 16, 4}, {1 + int(random() % 3), 1 + int(random() % 3), 1}, 3, 2));
}

TEST_CASE("equal maps are equal layouts", "[layout]") {
  const Layout a = accumulator();
  const Layout byReps(2, {16, 8}, {1, 6}, a.reg(), a.lane(), {});
  const Layout byBasis(2, {16, 16}, {1, 3}, {{0, 1}, {8, 0}, {0, 8}}, a.lane(), {});
  CHECK(byReps == byBasis);
  CHECK(byReps.hash() == byBasis.hash());
  CHECK(byReps.numRegs() == 24);
  // [3, 2]: the last axis becomes a basis; [2, 3] numbers registers otherwise and stays.
  CHECK(Layout(2, {16, 8}, {3, 2}, a.reg(), a.lane(), {}).reps() == Coords{3, 1, 1, 1, 1, 1, 1, 1});
  CHECK(Layout(2, {16, 8}, {2, 3}, a.reg(), a.lane(), {}).reps() == Coords{2, 3, 1, 1, 1, 1, 1, 1});
  CHECK(Layout(2, {16, 8}, {4, 2}, a.reg(), a.lane(), {}).numReps() == 1);
  for (Coords reps : {Coords{3, 2}, Coords{2, 3}, Coords{4, 2}, Coords{2, 6}}) {
    const Layout l(2, {16, 8}, reps, a.reg(), a.lane(), {});
    for (int r = 0; r < l.numRegs(); ++r) {
      const int rep = r / 4;
      CHECK(l.coords(r, 9, 0) == Coords{a.coords(r % 4, 9, 0)[0] + 16 * (rep / reps[1]),
                                        a.coords(r % 4, 9, 0)[1] + 8 * (rep % reps[1])});
    }
  }
  CHECK(a != byReps);
}

TEST_CASE("malformed layouts are refused with the reason", "[layout]") {
  std::string why;
  CHECK_FALSE(Layout::create(1, {3}, {1}, {}, std::vector<Coords>(5), {}, &why));
  CHECK(why == "core size 3 of axis 0 is not a power of two");
  CHECK_FALSE(Layout::create(1, {4}, {0}, {}, std::vector<Coords>(5), {}, &why));
  CHECK(why == "repetition count 0 of axis 0 is not in range");
  CHECK_FALSE(Layout::create(1, {4}, {1}, {{4}}, std::vector<Coords>(5), {}, &why));
  CHECK(why == "basis entry 4 of axis 0 lies outside the core");
  CHECK_FALSE(Layout::create(1, {4}, {1}, {}, std::vector<Coords>(4), {}, &why));
  CHECK(why == "4 lane bases, not 5");
  CHECK_FALSE(Layout::create(9, {}, {}, {}, {}, {}, &why));
  CHECK(why == "rank 9 is not in 0..8");
  CHECK_FALSE(Layout::create(1, {4}, {1}, {{0, 1}}, std::vector<Coords>(5), {}, &why));

  const std::string good = accumulator().toString();
  CHECK(Layout::parse(
      " core=[16, 8] reps=[1,3]  reg=[(0,1), (8,0)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[] "));
  for (std::string bad :
       {std::string(), good + "x", good.substr(0, good.size() - 1),
        std::string("core=[16] reps=[1,1] reg=[] lane=[] warp=[]"),
        std::string("core=[16] reps=[1] reg=[(1,2)] lane=[(0),(0),(0),(0),(0)] warp=[]"),
        std::string("core=[99999999999] reps=[1] reg=[] lane=[(0),(0),(0),(0),(0)] warp=[]"),
        std::string("core=[-16] reps=[1] reg=[] lane=[(0),(0),(0),(0),(0)] warp=[]"),
        std::string("core=[1,1,1,1,1,1,1,1,1] reps=[1,1,1,1,1,1,1,1,1] reg=[] lane=[] warp=[]"),
        std::string("core=[16] reps=[1] reg=[(1] lane=[(0),(0),(0),(0),(0)] warp=[]")}) {
    INFO(bad);
    why.clear();
    CHECK_FALSE(Layout::parse(bad, &why));
    CHECK_FALSE(why.empty());
  }
}

TEST_CASE("F2 matrices: rank, solve and pseudo-inverse by exhaustion", "[layout]") {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    F2Matrix m{6, {}};
    for (int c = int(random() % 8); c > 0; --c)
      m.columns.push_back(random() % 64);
    std::set<std::uint64_t> image;
    for (std::uint64_t x = 0; x < (1u << m.cols()); ++x)
      image.insert(m.apply(x));
    CHECK((1u << m.rank()) == image.size());
    const F2Matrix inverse = m.pseudoInverse();
    int bad = 0;
    for (std::uint64_t y = 0; y < 64; ++y) {
      const std::optional<std::uint64_t> x = m.solve(y);
      bad += x.has_value() != (image.count(y) > 0);
      if (x)
        bad += m.apply(*x) != y || inverse.apply(y) != *x;
    }
    CHECK(bad == 0);
    CHECK((m * F2Matrix::identity(m.cols())) == m);
  }
}

TEST_CASE("compose(inverse(l), l) is the identity for bijections, and right for any pair", "[layout]") {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const Coords reps{1 + int(random() % 3), 1 + int(random() % 4)};
    const Layout a = randomBijection(random, {16, 32}, reps, 2, 1 + int(random() % 3));
    const LinearForm form(a);
    CHECK(compose(invert(a), a) == F2Matrix::identity(form.matrix.cols()));
    const Layout b = randomBijection(random, {16, 32}, reps, 2, int(a.warp().size()));
    const F2Matrix m = compose(invert(a), b);
    const LinearForm from(b);
    int bad = 0;
    eachPlace(b, [&](Place p) {
      Coords oddRep;
      std::uint64_t bits;
      from.splitReg(p.reg, oddRep, bits);
      const std::uint64_t x =
          m.apply(bits | std::uint64_t(p.lane) << from.regBits | std::uint64_t(p.warp) << (from.regBits + 5));
      const int reg = form.regNumber(oddRep, x & ((1u << form.regBits) - 1));
      bad += a.coords(reg, int(x >> form.regBits) & 31, int(x >> (form.regBits + 5))) != b.coords(p);
      bad += from.regNumber(oddRep, bits) != p.reg;
    });
    CHECK(bad == 0);
  }
}

TEST_CASE("product and left division", "[layout]") {
  const Layout a = accumulator();
  Coords down;
  down[0] = 1;
  const Layout warps = Layout::partial(2, {2, 1}, {}, {}, {down});
  const Layout two = product(a, warps);
  CHECK(two.shape() == Shape{32, 8});
  CHECK(two.numWarps() == 2);
  for (int r = 0; r < 4; ++r)
    for (int lane = 0; lane < 32; ++lane)
      for (int w = 0; w < 2; ++w)
        CHECK(two.coords(r, lane, w) == Coords{a.coords(r, lane, 0)[0] + 16 * w, a.coords(r, lane, 0)[1]});
  const Layout wide = product(two, Layout::partial(2, {1, 1}, {}, {}, {}, {2, 3}));
  CHECK(wide.shape() == Shape{64, 24});
  checkLayout(wide);
  REQUIRE(divideLeft(wide, two));
  CHECK(product(two, *divideLeft(wide, two)) == wide);
  REQUIRE(divideLeft(wide, a));
  CHECK(product(a, *divideLeft(wide, a)) == wide);
  CHECK(divideLeft(a, a)->numRegs() == 1);
  CHECK_FALSE(divideLeft(a, two));
  // The other way round its registers are not innermost.
  const Layout transposed = a.permute(std::vector<int>{1, 0});
  CHECK_FALSE(divideLeft(wide, transposed));
  // A basis that reaches below the tile.
  CHECK_FALSE(divideLeft(Layout(2, {16, 16}, {1, 1}, {{0, 1}, {8, 0}, {1, 8}}, a.lane(), {}), a));
}

TEST_CASE("collapse, broadcast, drop and insert", "[layout]") {
  std::mt19937 random(9);
  std::vector<Layout> layouts = {accumulator(), Layout::blocked(Shape{24, 48}, 1, 4, 4),
                                 Layout::blocked(Shape{6, 10, 12}, 0, 2, 2),
                                 Layout::blocked(Shape{64, 64}, 0, 8, 8)};
  for (int i = 0; i < 30; ++i)
    layouts.push_back(
        randomBijection(random, {8, 16, 4}, {1 + int(random() % 3), 2, 1 + int(random() % 3)}, 3, 2));
  for (const Layout &l : layouts)
    for (int axis = 0; axis < l.rank(); ++axis) {
      INFO(l.toString() << " axis " << axis);
      const Layout c = l.collapse(axis);
      CHECK(c.dim(axis) == 1);
      CHECK(c.freeRegs() == 0);
      CHECK(c.numWarps() == l.numWarps());
      checkLayout(c);
      int bad = 0;
      for (int r = 0; r < l.numRegs(); ++r) {
        const std::optional<int> from = regOfBroadcast(c, l, r);
        REQUIRE(from.has_value());
        for (int lane = 0; lane < 32; ++lane)
          for (int w = 0; w < l.numWarps(); ++w) {
            Coords wanted = l.coords(r, lane, w);
            wanted[axis] = 0;
            bad += c.coords(*from, lane, w) != wanted;
          }
      }
      CHECK(bad == 0);
      const Layout dropped = c.drop(axis);
      CHECK(dropped.rank() == l.rank() - 1);
      CHECK(dropped.insertUnit(axis) == c);
      checkLayout(dropped);
      // A unit-axis tile laid out otherwise must be converted first.
      Shape unit = l.shape();
      unit[axis] = 1;
      const Layout other = Layout::blocked(unit, (axis + 1) % l.rank(), 1, l.numWarps());
      if (other.lane() != c.lane())
        CHECK_FALSE(regOfBroadcast(other, l, 0));
    }
  CHECK_FALSE(regOfBroadcast(accumulator(), Layout::blocked(Shape{24, 8}, 1, 1, 1), 0));
}

TEST_CASE("permute keeps threads and says where registers go", "[layout]") {
  std::mt19937 random(13);
  for (int i = 0; i < 40; ++i) {
    const Layout l = randomBijection(
        random, {8, 16, 4}, {1 + int(random() % 4), 1 + int(random() % 4), 1 + int(random() % 4)}, 3, 1);
    std::vector<int> perm = {0, 1, 2};
    std::shuffle(perm.begin(), perm.end(), random);
    const Layout p = l.permute(perm);
    std::set<int> seen;
    int bad = 0;
    for (int r = 0; r < l.numRegs(); ++r) {
      const int moved = l.permutedReg(perm, r);
      seen.insert(moved);
      for (int lane = 0; lane < 32; ++lane)
        for (int w = 0; w < 2; ++w)
          for (int d = 0; d < 3; ++d)
            bad += p.coords(moved, lane, w)[d] != l.coords(r, lane, w)[perm[d]];
    }
    CHECK(bad == 0);
    CHECK(int(seen.size()) == l.numRegs());
  }
}

TEST_CASE("contiguous runs against plain search", "[layout]") {
  // A swizzle that flips the order of the register pair in odd lanes is no vector.
  const Layout flipped(1, {64}, {1}, {{1}}, {{3}, {4}, {8}, {16}, {32}}, {});
  CHECK(flipped.contiguousRun(0) == 1);
  // Run bits may lie anywhere among the registers.
  const Layout spread(2, {2, 128}, {1, 1}, {{0, 2}, {1, 0}, {0, 1}},
                      {{0, 4}, {0, 8}, {0, 16}, {0, 32}, {0, 64}}, {});
  CHECK(spread.contiguousBits(1) == std::vector<int>{2, 0});
  CHECK(spread.contiguousRun(1) == 4);
  CHECK(spread.contiguousRun(0) == 2);

  std::mt19937 random(17);
  for (int i = 0; i < 200; ++i) {
    const Layout l = randomBijection(random, {4, 32}, {1, 1 + int(random() % 3)}, 2, 0);
    for (int axis = 0; axis < 2; ++axis) {
      const std::vector<int> bits = l.contiguousBits(axis);
      const int run = l.contiguousRun(axis);
      int bad = 0;
      eachPlace(l, [&](Place p) {
        int start = p.reg, offset = 0;
        for (std::size_t b = 0; b < bits.size(); ++b) {
          offset |= (p.reg >> bits[b] & 1) << b;
          start &= ~(1 << bits[b]);
        }
        Coords first = l.coords(start, p.lane, p.warp);
        bad += first[axis] % run != 0;
        first[axis] += offset;
        bad += first != l.coords(p);
      });
      CHECK(bad == 0);
    }
  }
}

TEST_CASE("conversions: the kind, the maps and the sources, against enumeration", "[layout]") {
  std::mt19937 random(23);
  std::map<ConversionKind, int> seen;
  auto check = [&](const Layout &src, const Layout &dst) {
    INFO(src.toString() << "\n" << dst.toString());
    const ConversionKind kind = conversionKind(src, dst);
    ++seen[kind];
    // Plain answers: is there one source register for all threads? a place in the same warp for every place?
    bool renames = true, stays = true;
    for (int r = 0; r < dst.numRegs() && renames; ++r) {
      bool found = false;
      for (int q = 0; q < src.numRegs() && !found; ++q) {
        found = true;
        for (int lane = 0; lane < 32 && found; ++lane)
          for (int w = 0; w < dst.numWarps() && found; ++w)
            found = src.coords(q, lane, w) == dst.coords(r, lane, w);
      }
      renames = found;
    }
    std::vector<std::set<std::int64_t>> inWarp(dst.numWarps());
    eachPlace(src, [&](Place p) { inWarp[p.warp].insert(flat(src.coords(p), src.shape())); });
    eachPlace(dst, [&](Place p) { stays = stays && inWarp[p.warp].count(flat(dst.coords(p), dst.shape())); });
    const ConversionKind expected = src == dst ? ConversionKind::Same
                                    : renames  ? ConversionKind::RenameRegisters
                                    : stays    ? ConversionKind::ShuffleLanes
                                               : ConversionKind::SharedMemory;
    CHECK(name(kind) == name(expected));
    int bad = 0;
    if (kind <= ConversionKind::RenameRegisters) {
      const std::vector<int> map = registerMap(src, dst);
      REQUIRE(int(map.size()) == dst.numRegs());
      eachPlace(dst, [&](Place p) { bad += src.coords(map[p.reg], p.lane, p.warp) != dst.coords(p); });
      if (kind == ConversionKind::Same)
        for (int r = 0; r < dst.numRegs(); ++r)
          bad += map[r] != r;
    }
    eachPlace(dst, [&](Place p) {
      const std::optional<Place> from = sourceInWarp(src, dst, p);
      bad += from.has_value() != (inWarp[p.warp].count(flat(dst.coords(p), dst.shape())) > 0);
      if (from) {
        bad += src.coords(*from) != dst.coords(p) || from->warp != p.warp;
        bad += kind <= ConversionKind::RenameRegisters && from->lane != p.lane;
      }
    });
    CHECK(bad == 0);
  };
  for (int i = 0; i < 60; ++i) {
    const Coords reps{1 + int(random() % 3), 1 + int(random() % 3)};
    const Layout a = randomBijection(random, {16, 16}, reps, 2, 1);
    check(a, a);
    // The same threads, registers dealt otherwise.
    std::vector<Coords> reg = a.reg();
    std::shuffle(reg.begin(), reg.end(), random);
    check(a, Layout(2, a.core(), a.reps(), reg, a.lane(), a.warp()));
    reg.push_back(reg[0]); // a copy
    check(a, Layout(2, a.core(), a.reps(), reg, a.lane(), a.warp()));
    check(Layout(2, a.core(), a.reps(), reg, a.lane(), a.warp()), a);
    // Lanes and registers exchanged within a warp; a warp basis moved by a lane.
    std::vector<Coords> lane = a.lane();
    std::swap(lane[i % 5], reg[0]);
    reg.pop_back();
    std::vector<Coords> warp = a.warp();
    check(a, Layout(2, a.core(), a.reps(), reg, lane, warp));
    // The same registers in other lanes; in other warps.
    std::vector<Coords> turned = a.lane();
    std::rotate(turned.begin(), turned.begin() + 1 + i % 4, turned.end());
    check(a, Layout(2, a.core(), a.reps(), a.reg(), turned, a.warp()));
    turned = a.lane();
    std::swap(turned[i % 5], warp[0]);
    check(a, Layout(2, a.core(), a.reps(), a.reg(), turned, warp));
    warp = a.warp();
    warp[0] ^= lane[1];
    check(a, Layout(2, a.core(), a.reps(), reg, lane, warp));
    check(a, randomBijection(random, a.core(), a.reps(), 2, 1));
  }
  // Cores of different size under the same shape.
  check(Layout(2, {8, 8}, {2, 6}, {{0, 1}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {{0, 0}}),
        Layout(2, {16, 8}, {1, 6}, {{0, 1}, {8, 0}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {{0, 0}}));
  check(Layout::blocked(Shape{48, 96}, 1, 4, 2), Layout::blocked(Shape{48, 96}, 0, 4, 2));
  for (ConversionKind k : {ConversionKind::Same, ConversionKind::RenameRegisters,
                           ConversionKind::ShuffleLanes, ConversionKind::SharedMemory})
    CHECK(seen[k] > 0);
}
