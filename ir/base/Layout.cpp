// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Layout.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdio>
#include <cstdlib>

namespace sectile {

/// 32 warps in each of 16 blocks that run one program together.
static constexpr std::size_t maxWarpBits = 9;

static int log2Exact(std::int64_t v) {
  assert(v > 0 && std::has_single_bit(std::uint64_t(v)));
  return std::countr_zero(std::uint64_t(v));
}
static std::int32_t powerOfTwoPart(std::int32_t v) { return v & -v; }

Coords::Coords(std::initializer_list<std::int32_t> l) : Coords(std::span(l.begin(), l.size())) {}
Coords::Coords(std::span<const std::int32_t> s) {
  assert(s.size() <= maxLayoutRank);
  std::copy(s.begin(), s.end(), v.begin());
}

// --- F2
// ---------------------------------------------------------------------------------------------------------

namespace {
/// A reduced basis of the span of the columns inserted so far: the leading bit of each vector occurs in no
/// other. `combination` says which columns XOR to it; only columns that were independent take part.
struct Echelon {
  struct Entry {
    std::uint64_t vector, combination;
    int lead;
  };
  std::vector<Entry> entries;

  /// Reduces v by the basis and collects the columns used.
  std::uint64_t reduce(std::uint64_t v, std::uint64_t &combination) const {
    std::uint64_t result = v;
    for (const Entry &e : entries)
      if (v >> e.lead & 1) {
        result ^= e.vector;
        combination ^= e.combination;
      }
    return result;
  }
  bool spans(std::uint64_t v) const {
    std::uint64_t unused = 0;
    return reduce(v, unused) == 0;
  }
  /// True if column number `index` was independent of the earlier ones.
  bool insert(std::uint64_t column, int index) {
    std::uint64_t combination = std::uint64_t(1) << index;
    column = reduce(column, combination);
    if (!column)
      return false;
    int lead = 63 - std::countl_zero(column);
    for (Entry &e : entries)
      if (e.vector >> lead & 1) {
        e.vector ^= column;
        e.combination ^= combination;
      }
    entries.push_back({column, combination, lead});
    return true;
  }
};

Echelon echelonOf(std::span<const std::uint64_t> columns) {
  assert(columns.size() <= 64);
  Echelon e;
  for (std::size_t i = 0; i < columns.size(); ++i)
    e.insert(columns[i], int(i));
  return e;
}
std::optional<std::uint64_t> solveIn(std::span<const std::uint64_t> columns, std::uint64_t y) {
  std::uint64_t x = 0;
  if (echelonOf(columns).reduce(y, x))
    return std::nullopt;
  return x;
}
} // namespace

std::uint64_t F2Matrix::apply(std::uint64_t x) const {
  std::uint64_t y = 0;
  for (; x; x &= x - 1) {
    int bit = std::countr_zero(x);
    assert(bit < cols());
    y ^= columns[bit];
  }
  return y;
}
int F2Matrix::rank() const { return int(echelonOf(columns).entries.size()); }
std::optional<std::uint64_t> F2Matrix::solve(std::uint64_t y) const { return solveIn(columns, y); }
F2Matrix F2Matrix::pseudoInverse() const {
  F2Matrix inverse{cols(), std::vector<std::uint64_t>(rows, 0)};
  for (const Echelon::Entry &e : echelonOf(columns).entries)
    inverse.columns[e.lead] = e.combination;
  return inverse;
}
F2Matrix F2Matrix::operator*(const F2Matrix &other) const {
  assert(cols() == other.rows);
  F2Matrix result{rows, {}};
  for (std::uint64_t c : other.columns)
    result.columns.push_back(apply(c));
  return result;
}
F2Matrix F2Matrix::identity(int n) {
  F2Matrix m{n, {}};
  for (int i = 0; i < n; ++i)
    m.columns.push_back(std::uint64_t(1) << i);
  return m;
}

std::string_view name(ConversionKind kind) {
  switch (kind) {
  case ConversionKind::Same:
    return "same";
  case ConversionKind::RenameRegisters:
    return "rename_registers";
  case ConversionKind::ShuffleLanes:
    return "shuffle_lanes";
  case ConversionKind::SharedMemory:
    break;
  }
  return "shared_memory";
}

// --- building
// ---------------------------------------------------------------------------------------------------

Layout::Layout() : laneBases(laneBits) {}

/// The layout, or the end: a malformed one is a bug of the caller, and nothing sensible can follow.
static Layout mustCreate(int rank, const Coords &core, const Coords &reps, std::vector<Coords> reg,
                         std::vector<Coords> lane, std::vector<Coords> warp, bool partial) {
  std::string why;
  std::optional<Layout> l =
      Layout::create(rank, core, reps, std::move(reg), std::move(lane), std::move(warp), &why, partial);
  if (!l) {
    std::fprintf(stderr, "sectile: internal error: malformed layout: %s\n", why.c_str());
    std::abort();
  }
  return std::move(*l);
}

Layout::Layout(int rank, Coords core, Coords reps, std::vector<Coords> reg, std::vector<Coords> lane,
               std::vector<Coords> warp)
    : Layout(mustCreate(rank, core, reps, std::move(reg), std::move(lane), std::move(warp), false)) {}

Layout Layout::partial(int rank, Coords core, std::vector<Coords> reg, std::vector<Coords> lane,
                       std::vector<Coords> warp, Coords reps) {
  return mustCreate(rank, core, reps, std::move(reg), std::move(lane), std::move(warp), true);
}

std::optional<Layout> Layout::create(int rank, Coords core, Coords reps, std::vector<Coords> reg,
                                     std::vector<Coords> lane, std::vector<Coords> warp, std::string *whyNot,
                                     bool partial) {
  auto fail = [&](std::string why) {
    if (whyNot)
      *whyNot = std::move(why);
    return std::nullopt;
  };
  if (rank < 0 || rank > maxLayoutRank)
    return fail("rank " + std::to_string(rank) + " is not in 0.." + std::to_string(maxLayoutRank));
  for (int d = 0; d < rank; ++d) {
    if (core[d] < 1 || !std::has_single_bit(std::uint32_t(core[d])))
      return fail("core size " + std::to_string(core[d]) + " of axis " + std::to_string(d) +
                  " is not a power of two");
    if (reps[d] < 1 || std::int64_t(reps[d]) * core[d] > (std::int64_t(1) << 30))
      return fail("repetition count " + std::to_string(reps[d]) + " of axis " + std::to_string(d) +
                  " is not in range");
  }
  for (int d = rank; d < maxLayoutRank; ++d)
    core[d] = reps[d] = 1;
  std::int64_t totalReps = 1;
  int coreBits = 0;
  for (int d = 0; d < rank; ++d) {
    totalReps *= reps[d];
    coreBits += log2Exact(core[d]);
    if (totalReps > (1 << 20))
      return fail("more than 2^20 repetitions");
  }
  if (coreBits > 40)
    return fail("the core has more than 2^40 elements");
  if (reg.size() > 20)
    return fail(std::to_string(reg.size()) + " register bases; at most 20");
  if (partial ? lane.size() > laneBits : lane.size() != laneBits)
    return fail(std::to_string(lane.size()) + " lane bases, not 5");
  if (warp.size() > maxWarpBits)
    return fail(std::to_string(warp.size()) + " warp bases; at most " + std::to_string(maxWarpBits));
  for (const auto *bases : {&reg, &lane, &warp})
    for (const Coords &b : *bases)
      for (int d = 0; d < maxLayoutRank; ++d)
        if (b[d] < 0 || b[d] >= core[d])
          return fail("basis entry " + std::to_string(b[d]) + " of axis " + std::to_string(d) +
                      " lies outside the core");
  Layout l;
  l.rankValue = rank;
  l.coreValue = core;
  l.repsValue = reps;
  l.regBases = std::move(reg);
  l.laneBases = std::move(lane);
  l.warpBases = std::move(warp);
  l.normalise();
  return l;
}

void Layout::normalise() {
  // The last axis that repeats is the fastest digit of the repetition number. While its count is even, its
  // lowest bit is the lowest bit of the whole number: the next register bit.
  for (int d = rankValue - 1; d >= 0; --d) {
    while (repsValue[d] % 2 == 0) {
      Coords b;
      b[d] = coreValue[d];
      regBases.push_back(b);
      coreValue[d] *= 2;
      repsValue[d] /= 2;
    }
    if (repsValue[d] != 1)
      break;
  }
}

Layout Layout::blocked(std::span<const std::int32_t> shape, std::span<const int> order, int vectorElems,
                       int warps, std::span<const int> warpOrder) {
  const int rank = int(shape.size());
  assert(rank <= maxLayoutRank && order.size() == shape.size());
  assert(warpOrder.empty() || warpOrder.size() == shape.size());
  Coords core, reps, left, next;
  for (int d = 0; d < rank; ++d) {
    assert(shape[d] >= 1);
    core[d] = left[d] = powerOfTwoPart(shape[d]);
    reps[d] = shape[d] / core[d];
    next[d] = 1;
  }
  auto take = [&](int d, std::size_t upTo, std::vector<Coords> &bases) {
    for (; bases.size() < upTo && left[d] > 1; left[d] /= 2, next[d] *= 2) {
      Coords b;
      b[d] = next[d];
      bases.push_back(b);
    }
  };
  std::vector<Coords> reg, lane, warp;
  if (rank)
    take(order[0], std::size_t(log2Exact(vectorElems)), reg);
  for (int d : order)
    take(d, laneBits, lane);
  lane.resize(laneBits);
  const std::size_t warpBits = std::size_t(log2Exact(warps));
  for (int d : warpOrder.empty() ? order : warpOrder)
    take(d, warpBits, warp);
  warp.resize(warpBits);
  for (int d : order)
    take(d, 64, reg);
  return Layout(rank, core, reps, std::move(reg), std::move(lane), std::move(warp));
}

Layout Layout::blocked(std::span<const std::int32_t> shape, int contiguousAxis, int vectorElems, int warps) {
  assert(shape.empty() || (contiguousAxis >= 0 && contiguousAxis < int(shape.size())));
  std::vector<int> order;
  if (!shape.empty())
    order.push_back(contiguousAxis);
  for (int d = int(shape.size()) - 1; d >= 0; --d)
    if (d != contiguousAxis)
      order.push_back(d);
  return blocked(shape, order, vectorElems, warps);
}

// --- reading
// ----------------------------------------------------------------------------------------------------

std::vector<std::int32_t> Layout::shape() const {
  std::vector<std::int32_t> s;
  for (int d = 0; d < rankValue; ++d)
    s.push_back(dim(d));
  return s;
}

int Layout::numReps() const {
  int n = 1;
  for (int d = 0; d < rankValue; ++d)
    n *= repsValue[d];
  return n;
}

static void addBases(Coords &c, const std::vector<Coords> &bases, unsigned bits) {
  for (; bits; bits &= bits - 1)
    c ^= bases[std::countr_zero(bits)];
}

Coords Layout::coords(int reg, int lane, int warp) const {
  assert(reg >= 0 && reg < numRegs() && lane >= 0 && lane < (1 << laneBases.size()) && warp >= 0 &&
         warp < numWarps());
  Coords c;
  addBases(c, regBases, unsigned(reg) & ((1u << regBases.size()) - 1));
  addBases(c, laneBases, unsigned(lane));
  addBases(c, warpBases, unsigned(warp));
  int rep = reg >> regBases.size();
  for (int d = rankValue - 1; d >= 0 && rep; --d) {
    c[d] += rep % repsValue[d] * coreValue[d];
    rep /= repsValue[d];
  }
  return c;
}

namespace {
/// Bits of register, lane and warp numbers whose basis depends on earlier ones; and the rank of all.
struct Dependence {
  std::uint32_t reg = 0, lane = 0, warp = 0;
  int rank = 0;
  explicit Dependence(const Layout &l) {
    LinearForm form(l);
    Echelon e;
    int index = 0;
    // Only the core registers: repetitions are independent of everything.
    for (auto [bases, mask] :
         {std::pair(&l.reg(), &reg), std::pair(&l.lane(), &lane), std::pair(&l.warp(), &warp)})
      for (std::size_t i = 0; i < bases->size(); ++i)
        if (e.insert(form.pack((*bases)[i]), index++))
          ++rank;
        else
          *mask |= 1u << i;
  }
};
} // namespace

bool Layout::isInjective() const {
  return Dependence(*this).rank == int(regBases.size() + laneBases.size() + warpBases.size());
}
bool Layout::isSurjective() const {
  int coreBits = 0;
  for (int d = 0; d < rankValue; ++d)
    coreBits += log2Exact(coreValue[d]);
  return Dependence(*this).rank == coreBits;
}
std::uint32_t Layout::freeRegs() const { return Dependence(*this).reg; }
std::uint32_t Layout::freeLanes() const { return Dependence(*this).lane; }
std::uint32_t Layout::freeWarps() const { return Dependence(*this).warp; }

static std::uint32_t basesAlong(const std::vector<Coords> &bases, int axis) {
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < bases.size(); ++i)
    if (bases[i][axis])
      mask |= 1u << i;
  return mask;
}
std::uint32_t Layout::lanesAlong(int axis) const { return basesAlong(laneBases, axis); }
std::uint32_t Layout::warpsAlong(int axis) const { return basesAlong(warpBases, axis); }

std::vector<int> Layout::contiguousBits(int axis) const {
  assert(axis >= 0 && axis < rankValue);
  std::vector<int> bits;
  for (;;) {
    Coords wanted;
    wanted[axis] = 1 << bits.size();
    auto it = std::find(regBases.begin(), regBases.end(), wanted);
    if (it == regBases.end())
      break;
    bits.push_back(int(it - regBases.begin()));
  }
  // Any other basis with low bits on the axis would reorder or displace the run.
  auto disturbed = [&] {
    const std::int32_t low = (1 << bits.size()) - 1;
    for (std::size_t i = 0; i < regBases.size(); ++i)
      if ((regBases[i][axis] & low) && std::find(bits.begin(), bits.end(), int(i)) == bits.end())
        return true;
    for (const auto *bases : {&laneBases, &warpBases})
      for (const Coords &b : *bases)
        if (b[axis] & low)
          return true;
    return false;
  };
  while (!bits.empty() && disturbed())
    bits.pop_back();
  return bits;
}
int Layout::contiguousRun(int axis) const { return 1 << contiguousBits(axis).size(); }

// --- axes
// -------------------------------------------------------------------------------------------------------

Layout Layout::collapse(int axis) const {
  assert(axis >= 0 && axis < rankValue);
  auto zeroed = [&](std::vector<Coords> bases) {
    for (Coords &b : bases)
      b[axis] = 0;
    return bases;
  };
  Layout l = *this;
  l.coreValue[axis] = l.repsValue[axis] = 1;
  l.laneBases = zeroed(laneBases);
  l.warpBases = zeroed(warpBases);
  l.regBases.clear();
  LinearForm form(l);
  Echelon e;
  for (const Coords &b : zeroed(regBases))
    if (e.insert(form.pack(b), int(l.regBases.size())))
      l.regBases.push_back(b);
  l.normalise();
  return l;
}

/// Moves the axes: result entry i is entry source(i), or `unit` if that is -1.
template <class Source> static Coords moved(const Coords &c, int rank, Source source, std::int32_t unit) {
  Coords r;
  for (int i = 0; i < maxLayoutRank; ++i) {
    int s = i < rank ? source(i) : -1;
    r[i] = s < 0 ? unit : c[s];
  }
  return r;
}
template <class Source>
static std::vector<Coords> movedAll(const std::vector<Coords> &v, int rank, Source source) {
  std::vector<Coords> r;
  for (const Coords &c : v)
    r.push_back(moved(c, rank, source, 0));
  return r;
}
template <class Source> static Layout movedLayout(const Layout &l, int rank, Source source) {
  return Layout::partial(rank, moved(l.core(), rank, source, 1), movedAll(l.reg(), rank, source),
                         movedAll(l.lane(), rank, source), movedAll(l.warp(), rank, source),
                         moved(l.reps(), rank, source, 1));
}

Layout Layout::drop(int axis) const {
  assert(axis >= 0 && axis < rankValue && dim(axis) == 1);
  return movedLayout(*this, rankValue - 1, [&](int i) { return i < axis ? i : i + 1; });
}
Layout Layout::insertUnit(int axis) const {
  assert(axis >= 0 && axis <= rankValue && rankValue < maxLayoutRank);
  return movedLayout(*this, rankValue + 1, [&](int i) { return i < axis ? i : i == axis ? -1 : i - 1; });
}
Layout Layout::permute(std::span<const int> perm) const {
  assert(int(perm.size()) == rankValue);
  return movedLayout(*this, rankValue, [&](int i) { return perm[i]; });
}
int Layout::permutedReg(std::span<const int> perm, int reg) const {
  assert(int(perm.size()) == rankValue && reg >= 0 && reg < numRegs());
  int rep = reg >> regBases.size(), result = 0;
  Coords digit;
  for (int d = rankValue - 1; d >= 0; --d) {
    digit[d] = rep % repsValue[d];
    rep /= repsValue[d];
  }
  for (int i = 0; i < rankValue; ++i)
    result = result * repsValue[perm[i]] + digit[perm[i]];
  return result << regBases.size() | (reg & ((1 << regBases.size()) - 1));
}

// --- text
// -------------------------------------------------------------------------------------------------------

static std::string listText(const Coords &c, int rank, char open, char close) {
  std::string s(1, open);
  for (int d = 0; d < rank; ++d)
    s += (d ? "," : "") + std::to_string(c[d]);
  return s + close;
}

std::string Layout::toString() const {
  std::string s = "core=" + listText(coreValue, rankValue, '[', ']') +
                  " reps=" + listText(repsValue, rankValue, '[', ']');
  auto add = [&](const char *what, const std::vector<Coords> &bases) {
    s += what;
    for (std::size_t i = 0; i < bases.size(); ++i)
      s += (i ? "," : "") + listText(bases[i], rankValue, '(', ')');
    s += ']';
  };
  add(" reg=[", regBases);
  add(" lane=[", laneBases);
  add(" warp=[", warpBases);
  return s;
}

namespace {
/// A scanner over the text of a layout; blanks are skipped.
struct Scanner {
  std::string_view rest;
  bool take(char c) {
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\n' || rest[0] == '\t'))
      rest.remove_prefix(1);
    if (rest.empty() || rest[0] != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  bool word(std::string_view w) {
    if (w.empty() || !take(w[0]) || rest.substr(0, w.size() - 1) != w.substr(1))
      return false;
    rest.remove_prefix(w.size() - 1);
    return true;
  }
  bool number(std::int32_t &out) {
    std::int64_t v = 0;
    int digits = 0;
    for (char c = '0'; c <= '9'; ++c)
      if (take(c)) {
        v = c - '0';
        digits = 1;
        break;
      }
    for (; digits && digits < 10 && !rest.empty() && rest[0] >= '0' && rest[0] <= '9'; ++digits) {
      v = v * 10 + (rest[0] - '0');
      rest.remove_prefix(1);
    }
    out = std::int32_t(v);
    return digits && v <= (std::int64_t(1) << 30);
  }
  /// `open` n, n, ... `close`
  bool list(char open, char close, std::vector<std::int32_t> &out) {
    out.clear();
    if (!take(open))
      return false;
    if (take(close))
      return true;
    do {
      std::int32_t v;
      if (!number(v))
        return false;
      out.push_back(v);
    } while (take(','));
    return take(close);
  }
  bool bases(std::size_t rank, std::vector<Coords> &out) {
    if (!take('['))
      return false;
    if (take(']'))
      return true;
    std::vector<std::int32_t> one;
    do {
      if (!list('(', ')', one) || one.size() != rank)
        return false;
      out.push_back(Coords(std::span<const std::int32_t>(one)));
    } while (take(','));
    return take(']');
  }
};
} // namespace

std::optional<Layout> Layout::parse(std::string_view text, std::string *whyNot) {
  Scanner s{text};
  auto fail = [&](std::string_view expected) {
    if (whyNot)
      *whyNot = "expected " + std::string(expected) + " before `" + std::string(s.rest.substr(0, 20)) + "`";
    return std::nullopt;
  };
  std::vector<std::int32_t> core, reps;
  if (!s.word("core=") || !s.list('[', ']', core) || core.size() > maxLayoutRank)
    return fail("core=[size, ...]");
  if (!s.word("reps=") || !s.list('[', ']', reps) || reps.size() != core.size())
    return fail("reps=[count, ...] with as many entries as core");
  std::vector<Coords> reg, lane, warp;
  if (!s.word("reg=") || !s.bases(core.size(), reg))
    return fail("reg=[(..), ...] with as many entries in each basis as in core");
  if (!s.word("lane=") || !s.bases(core.size(), lane))
    return fail("lane=[(..), ...] with as many entries in each basis as in core");
  if (!s.word("warp=") || !s.bases(core.size(), warp))
    return fail("warp=[(..), ...] with as many entries in each basis as in core");
  s.take(' ');
  if (!s.rest.empty())
    return fail("the end");
  return create(int(core.size()), Coords(std::span<const std::int32_t>(core)),
                Coords(std::span<const std::int32_t>(reps)), std::move(reg), std::move(lane), std::move(warp),
                whyNot);
}

std::size_t Layout::hash() const {
  std::uint64_t h = 0xcbf29ce484222325;
  auto mix = [&](std::uint64_t v) { h = (h ^ v) * 0x100000001b3; };
  auto mixCoords = [&](const Coords &c) {
    for (int d = 0; d < rankValue; ++d)
      mix(std::uint64_t(c[d]));
  };
  mix(std::uint64_t(rankValue));
  mixCoords(coreValue);
  mixCoords(repsValue);
  for (const auto *bases : {&regBases, &laneBases, &warpBases}) {
    mix(bases->size());
    for (const Coords &b : *bases)
      mixCoords(b);
  }
  return std::size_t(h ^ (h >> 32));
}

// --- linear form
// ------------------------------------------------------------------------------------------------

LinearForm::LinearForm(const Layout &l)
    : rank(l.rank()), laneBits(int(l.lane().size())), warpBits(int(l.warp().size())), reps(l.reps()),
      coreRegBits(int(l.reg().size())) {
  for (int d = 0; d < maxLayoutRank; ++d) {
    repPow2[d] = powerOfTwoPart(reps[d]);
    odd[d] = reps[d] / repPow2[d];
    pow2[d] = l.core()[d] * repPow2[d];
  }
  for (int d = 0; d < rank; ++d)
    matrix.rows += log2Exact(pow2[d]);
  for (const Coords &b : l.reg())
    matrix.columns.push_back(pack(b));
  for (int d = rank - 1; d >= 0; --d)
    for (std::int32_t step = 1; step < repPow2[d]; step *= 2) {
      Coords b;
      b[d] = l.core()[d] * step;
      matrix.columns.push_back(pack(b));
    }
  regBits = matrix.cols();
  for (const auto *bases : {&l.lane(), &l.warp()})
    for (const Coords &b : *bases)
      matrix.columns.push_back(pack(b));
}

std::uint64_t LinearForm::pack(const Coords &c) const {
  std::uint64_t bits = 0;
  for (int d = 0; d < rank; ++d) {
    assert(c[d] >= 0 && c[d] < pow2[d]);
    bits = bits << log2Exact(pow2[d]) | std::uint64_t(c[d]);
  }
  return bits;
}
Coords LinearForm::unpack(std::uint64_t bits) const {
  Coords c;
  for (int d = rank - 1; d >= 0; --d) {
    c[d] = std::int32_t(bits & std::uint64_t(pow2[d] - 1));
    bits >>= log2Exact(pow2[d]);
  }
  return c;
}

int LinearForm::regNumber(const Coords &oddRep, std::uint64_t regBitsValue) const {
  std::uint64_t repBits = regBitsValue >> coreRegBits;
  Coords digit;
  for (int d = rank - 1; d >= 0; --d) {
    digit[d] = oddRep[d] * repPow2[d] + std::int32_t(repBits & std::uint64_t(repPow2[d] - 1));
    repBits >>= log2Exact(repPow2[d]);
  }
  int rep = 0;
  for (int d = 0; d < rank; ++d)
    rep = rep * reps[d] + digit[d];
  return rep << coreRegBits | int(regBitsValue & ((std::uint64_t(1) << coreRegBits) - 1));
}
void LinearForm::splitReg(int reg, Coords &oddRep, std::uint64_t &regBitsValue) const {
  regBitsValue = std::uint64_t(reg) & ((std::uint64_t(1) << coreRegBits) - 1);
  int rep = reg >> coreRegBits, shift = coreRegBits;
  oddRep = Coords();
  for (int d = rank - 1; d >= 0; --d) {
    int digit = rep % reps[d];
    rep /= reps[d];
    oddRep[d] = digit / repPow2[d];
    regBitsValue |= std::uint64_t(digit % repPow2[d]) << shift;
    shift += log2Exact(repPow2[d]);
  }
}

} // namespace sectile
