// SPDX-License-Identifier: Apache-2.0
#include "ir/base/MmaTable.h"
#include "ir/base/Fragments.h"

#include <bit>
#include <cassert>

namespace sectile {

namespace {

/// A row as written: the rest follows from it.
struct RowSpec {
  int arch; ///< first compute capability, for the name
  Feature feature;
  int m, n, k;
  std::string_view c, a, b; ///< types as PTX spells them; D is as C
  std::string_view intrinsicTypes;
};

// clang-format off
constexpr RowSpec specs[] = {
  {80, Feature::mmaSyncF16,  16, 8,  8, "f32", "f16",  "f16",  "f32.f32"},
  {80, Feature::mmaSyncF16,  16, 8, 16, "f32", "f16",  "f16",  "f32.f32"},
  {80, Feature::mmaSyncF16,  16, 8,  8, "f16", "f16",  "f16",  "f16.f16"},
  {80, Feature::mmaSyncF16,  16, 8, 16, "f16", "f16",  "f16",  "f16.f16"},
  {80, Feature::mmaSyncF16,  16, 8,  8, "f32", "bf16", "bf16", "bf16"},
  {80, Feature::mmaSyncF16,  16, 8, 16, "f32", "bf16", "bf16", "bf16"},
  {80, Feature::mmaSyncTf32, 16, 8,  4, "f32", "tf32", "tf32", "tf32"},
  {80, Feature::mmaSyncTf32, 16, 8,  8, "f32", "tf32", "tf32", "tf32"},
  {80, Feature::mmaSyncInt8, 16, 8, 16, "s32", "s8",   "s8",   "s8"},
  {80, Feature::mmaSyncInt8, 16, 8, 32, "s32", "s8",   "s8",   "s8"},
  {80, Feature::mmaSyncInt8, 16, 8, 16, "s32", "s8",   "u8",   "s8.u8"},
  {80, Feature::mmaSyncInt8, 16, 8, 32, "s32", "s8",   "u8",   "s8.u8"},
  {80, Feature::mmaSyncInt8, 16, 8, 16, "s32", "u8",   "s8",   "u8.s8"},
  {80, Feature::mmaSyncInt8, 16, 8, 32, "s32", "u8",   "s8",   "u8.s8"},
  {80, Feature::mmaSyncInt8, 16, 8, 16, "s32", "u8",   "u8",   "u8"},
  {80, Feature::mmaSyncInt8, 16, 8, 32, "s32", "u8",   "u8",   "u8"},
  {80, Feature::mmaSyncF64,   8, 8,  4, "f64", "f64",  "f64",  "f64"},
  {89, Feature::mmaSyncFp8,  16, 8, 32, "f32", "e4m3", "e4m3", "f32.e4m3.e4m3.f32"},
  {89, Feature::mmaSyncFp8,  16, 8, 32, "f32", "e4m3", "e5m2", "f32.e4m3.e5m2.f32"},
  {89, Feature::mmaSyncFp8,  16, 8, 32, "f32", "e5m2", "e4m3", "f32.e5m2.e4m3.f32"},
  {89, Feature::mmaSyncFp8,  16, 8, 32, "f32", "e5m2", "e5m2", "f32.e5m2.e5m2.f32"},
};

/// wgmma: one line per types; n goes from 8 to 256 (PTX ISA, wgmma.mma_async, table of shapes).
struct WgmmaSpec {
  int k;
  std::string_view c, a, b;
  bool mnMajor;
};
constexpr WgmmaSpec wgmmaSpecs[] = {
  {16, "f32", "f16",  "f16",  true},
  {16, "f32", "bf16", "bf16", true},
  { 8, "f32", "tf32", "tf32", false},
  {32, "f32", "e4m3", "e4m3", false},
  {32, "f32", "e4m3", "e5m2", false},
  {32, "f32", "e5m2", "e4m3", false},
  {32, "f32", "e5m2", "e5m2", false},
  {32, "s32", "s8",   "s8",   false},
  {32, "s32", "s8",   "u8",   false},
  {32, "s32", "u8",   "s8",   false},
  {32, "s32", "u8",   "u8",   false},
};
// clang-format on

/// Integer products have no n between these steps.
bool isWgmmaN(int n, bool integers) {
  return n % 8 == 0 && (!integers || n % 16 == 0 || n == 8 || n == 24);
}

/// What PTX's type name means for an operand: element type, register type, elements per register.
struct OperandType {
  std::string_view ptx;
  DType dtype;
  MmaRegType regType;
  int perReg;
};
constexpr OperandType operandTypes[] = {
    {"f64", DType::f64, MmaRegType::F64, 1},   {"f32", DType::f32, MmaRegType::F32, 1},
    {"tf32", DType::f32, MmaRegType::I32, 1},  {"f16", DType::f16, MmaRegType::V2F16, 2},
    {"bf16", DType::bf16, MmaRegType::I32, 2}, {"s8", DType::i8, MmaRegType::I32, 4},
    {"u8", DType::u8, MmaRegType::I32, 4},     {"e4m3", DType::e4m3, MmaRegType::I32, 4},
    {"e5m2", DType::e5m2, MmaRegType::I32, 4}, {"s32", DType::i32, MmaRegType::I32, 1},
};

const OperandType &operandType(std::string_view ptx) {
  for (const OperandType &t : operandTypes)
    if (t.ptx == ptx)
      return t;
  assert(false && "a row names an unknown type");
  return operandTypes[0];
}

MmaRow expand(const RowSpec &s) {
  const OperandType &a = operandType(s.a), &b = operandType(s.b), &c = operandType(s.c);
  const std::string shape = "m" + std::to_string(s.m) + "n" + std::to_string(s.n) + "k" + std::to_string(s.k);
  const std::string cs(s.c), as(s.a), bs(s.b);
  MmaRow row;
  row.name = "sm" + std::to_string(s.arch) + "_" + shape + "_" + cs + as + bs + cs + "_tn";
  row.kind = MmaKind::MmaSync;
  row.feature = s.feature;
  row.m = s.m;
  row.n = s.n;
  row.k = s.k;
  row.policyOnly = s.a == "tf32";
  row.a = {a.dtype, a.regType, fragmentA(s.m, s.k, a.perReg), a.perReg};
  row.b = {b.dtype, b.regType, fragmentB(s.k, s.n, b.perReg), b.perReg};
  row.c = {c.dtype, c.regType, fragmentC(s.m, s.n), c.perReg};
  row.mnemonic = "mma.sync.aligned." + shape + ".row.col." + cs + "." + as + "." + bs + "." + cs;
  row.intrinsic = "llvm.nvvm.mma." + shape + ".row.col." + std::string(s.intrinsicTypes);
  return row;
}

MmaRow expand(const WgmmaSpec &s, int n) {
  const OperandType &a = operandType(s.a), &b = operandType(s.b), &c = operandType(s.c);
  const std::string shape = "m64n" + std::to_string(n) + "k" + std::to_string(s.k);
  const std::string cs(s.c), as(s.a), bs(s.b);
  MmaRow row;
  row.name = "sm90_" + shape + "_" + cs + as + bs;
  row.kind = MmaKind::Wgmma;
  row.feature = Feature::wgmma;
  row.m = 64;
  row.n = n;
  row.k = s.k;
  row.mnMajor = s.mnMajor;
  row.policyOnly = s.a == "tf32";
  row.a = {a.dtype, MmaRegType::I32, wgmmaA(int(byteSize(a.dtype))), a.perReg};
  row.b = {b.dtype, MmaRegType::I32, Layout(), b.perReg};
  row.c = {c.dtype, c.regType, wgmmaAccumulator(n), 1};
  row.mnemonic = "wgmma.mma_async.sync.aligned." + shape + "." + cs + "." + as + "." + bs;
  return row;
}

} // namespace

const MmaFragment &MmaRow::operand(MmaOperand which) const {
  return which == MmaOperand::A ? a : which == MmaOperand::B ? b : c;
}

std::span<const MmaRow> mmaRows() {
  static const std::vector<MmaRow> rows = [] {
    std::vector<MmaRow> r;
    for (const RowSpec &s : specs)
      r.push_back(expand(s));
    for (const WgmmaSpec &s : wgmmaSpecs)
      for (int n = 8; n <= 256; n += 8)
        if (isWgmmaN(n, s.c == "s32"))
          r.push_back(expand(s, n));
    return r;
  }();
  return rows;
}

const MmaRow *findMma(std::string_view name) {
  for (const MmaRow &row : mmaRows())
    if (row.name == name)
      return &row;
  return nullptr;
}

/// The best row of a kind that fits, by `better`.
template <class F>
static const MmaRow *selectRow(MmaKind kind, const Target &target, const MmaQuery &q, F better) {
  const MmaRow *best = nullptr;
  for (const MmaRow &row : mmaRows()) {
    if (row.kind != kind || !target.has(row.feature) || (row.policyOnly && !q.allowTf32))
      continue;
    if (row.a.dtype != q.a || row.b.dtype != q.b || row.c.dtype != q.c)
      continue;
    if (q.m % row.m || q.n % row.n || q.k % row.k)
      continue;
    if (!best || better(row, *best))
      best = &row;
  }
  return best;
}

const MmaRow *selectMma(const Target &target, const MmaQuery &q) {
  return selectRow(MmaKind::MmaSync, target, q, [](const MmaRow &x, const MmaRow &y) { return x.k > y.k; });
}

const MmaRow *selectWgmma(const Target &target, const MmaQuery &q) {
  return selectRow(MmaKind::Wgmma, target, q, [](const MmaRow &x, const MmaRow &y) { return x.n > y.n; });
}

// --- tiling
// -----------------------------------------------------------------------------------------------------

/// `bits` bases 1, 2, 4, ... along an axis.
static void appendAlong(std::vector<Coords> &bases, int axis, int bits) {
  for (int i = 0; i < bits; ++i) {
    Coords c;
    c[axis] = 1 << i;
    bases.push_back(c);
  }
}

std::optional<Layout> warpTiled(const Layout &fragment, std::span<const std::int32_t> shape, int warpsM,
                                int warpsN, MmaOperand which) {
  assert(fragment.rank() == 2 && shape.size() == 2 && fragment.numReps() == 1);
  assert(std::has_single_bit(unsigned(warpsM)) && std::has_single_bit(unsigned(warpsN)));
  const int bitsM = std::countr_zero(unsigned(warpsM)), bitsN = std::countr_zero(unsigned(warpsN));
  Coords warps{1, 1};
  std::vector<Coords> warpBases;
  if (which != MmaOperand::B) {
    warps[0] = warpsM;
    appendAlong(warpBases, 0, bitsM);
  }
  warpBases.resize(bitsM);
  if (which != MmaOperand::A) {
    warps[1] = warpsN;
    appendAlong(warpBases, 1, bitsN);
  }
  warpBases.resize(bitsM + bitsN);
  const Layout group = product(fragment, Layout::partial(2, warps, {}, {}, warpBases));

  Coords core, reps;
  std::vector<Coords> reg;
  for (int axis : {1, 0}) {
    if (shape[axis] < 1 || shape[axis] % group.dim(axis))
      return std::nullopt;
    const int atoms = shape[axis] / group.dim(axis);
    core[axis] = atoms & -atoms;
    reps[axis] = atoms / core[axis];
    appendAlong(reg, axis, std::countr_zero(unsigned(atoms)));
  }
  return product(group, Layout::partial(2, core, reg, {}, {}, reps));
}

/// The distance from one atom of a warp (or warpgroup, whose fragment has warps itself) to its next along an axis.
static int atomStep(const Layout &tiled, const Layout &fragment, int axis) {
  return fragment.dim(axis) << (std::popcount(tiled.warpsAlong(axis)) - std::popcount(fragment.warpsAlong(axis)));
}

int numAtoms(const Layout &tiled, const Layout &fragment, int axis) {
  return tiled.dim(axis) / atomStep(tiled, fragment, axis);
}

int atomReg(const Layout &tiled, const Layout &fragment, int i, int j) {
  assert(i >= 0 && i < numAtoms(tiled, fragment, 0) && j >= 0 && j < numAtoms(tiled, fragment, 1));
  const Place p = invert(tiled)({i * atomStep(tiled, fragment, 0), j * atomStep(tiled, fragment, 1)});
  assert(p.lane == 0 && p.warp == 0);
  return p.reg;
}

} // namespace sectile
