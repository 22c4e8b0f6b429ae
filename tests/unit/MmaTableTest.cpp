// SPDX-License-Identifier: Apache-2.0
/// \file Every row is checked against PTX's fragment formulas, written here a second time and independently,
/// and by exhaustion: the lanes' registers cover each operand exactly once.
#include "ir/base/MmaTable.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace sectile;

namespace {

/// PTX ISA, "Matrix Fragments for mma.m16n8k*" and m8n8k4 f64: the coordinates of element e of lane l.
Coords ptxA(const MmaRow &row, int l, int e) {
  const int group = l / 4, inGroup = l % 4;
  switch (byteSize(row.a.dtype)) {
  case 2: { // .f16/.bf16: a0..a3 (k8), a0..a7 (k16)
    const int r = e / 2;
    return {group + 8 * (r & 1), inGroup * 2 + (e & 1) + 8 * (r >> 1)};
  }
  case 1: { // .s8/.u8/.e4m3/.e5m2: a0..a7 (k16), a0..a15 (k32)
    const int r = e / 4;
    return {group + 8 * (r & 1), inGroup * 4 + (e & 3) + 16 * (r >> 1)};
  }
  case 4: // .tf32: a0..a1 (k4), a0..a3 (k8)
    return {group + 8 * (e & 1), inGroup + 4 * (e >> 1)};
  default: // .f64 m8n8k4
    return {group, inGroup};
  }
}
Coords ptxB(const MmaRow &row, int l, int e) {
  const int group = l / 4, inGroup = l % 4;
  switch (byteSize(row.b.dtype)) {
  case 2:
    return {inGroup * 2 + (e & 1) + 8 * (e >> 1), group};
  case 1:
    return {inGroup * 4 + (e & 3) + 16 * (e >> 2), group};
  case 4:
    return {inGroup + 4 * e, group};
  default:
    return {inGroup, group};
  }
}
Coords ptxC(const MmaRow &, int l, int e) { return {l / 4 + 8 * (e >> 1), l % 4 * 2 + (e & 1)}; }

/// PTX ISA, "Register Fragments for wgmma.mma_async": d of m64nN, and a in registers, of lane l of warp w.
Coords wgmmaD(int w, int l, int e) { return {16 * w + l / 4 + 8 * ((e >> 1) & 1), 8 * (e >> 2) + l % 4 * 2 + (e & 1)}; }
Coords wgmmaARegister(int w, int l, int e, int perReg) {
  const int r = e / perReg;
  return {16 * w + l / 4 + 8 * (r & 1), (l % 4) * perReg + e % perReg + 4 * perReg * (r >> 1)};
}

std::int64_t at(const Coords &c, int columns) { return std::int64_t(c[0]) * columns + c[1]; }

} // namespace

TEST_CASE("every fragment is PTX's and covers its operand exactly", "[mma]") {
  for (const MmaRow &row : mmaRows()) {
    if (row.kind != MmaKind::MmaSync)
      continue;
    INFO(row.name);
    struct Case {
      const MmaFragment *fragment;
      int rows, columns;
      Coords (*ptx)(const MmaRow &, int, int);
    };
    for (const Case &c : {Case{&row.a, row.m, row.k, ptxA}, Case{&row.b, row.k, row.n, ptxB},
                          Case{&row.c, row.m, row.n, ptxC}}) {
      const Layout &l = c.fragment->layout;
      CHECK(l.shape() == std::vector<std::int32_t>{c.rows, c.columns});
      CHECK(l.isBijective());
      CHECK(l.numWarps() == 1);
      CHECK(l.numRegs() * 32 == c.rows * c.columns);
      std::set<std::int64_t> covered;
      int bad = 0;
      for (int lane = 0; lane < 32; ++lane)
        for (int e = 0; e < l.numRegs(); ++e) {
          const Coords coords = l.coords(e, lane, 0);
          covered.insert(at(coords, c.columns));
          bad += coords != c.ptx(row, lane, e);
        }
      CHECK(bad == 0);
      CHECK(int(covered.size()) == c.rows * c.columns);

      // Packing: whole registers of 32 bits (64 for f64), elements of one register consecutive along k (A,
      // B).
      const MmaFragment &f = *c.fragment;
      const std::size_t regBits = f.dtype == DType::f64 ? 64 : 32;
      CHECK(byteSize(f.dtype) * 8 * f.elemsPerReg == regBits);
      CHECK(f.regs() * f.elemsPerReg == l.numRegs());
      const int along = c.fragment == &row.b ? 0 : 1;
      CHECK(l.contiguousRun(along) >= f.elemsPerReg);
      for (int i = 0; (1 << i) < f.elemsPerReg; ++i)
        CHECK(l.contiguousBits(along)[i] == i);
      CHECK((f.regType == MmaRegType::F64) == (f.dtype == DType::f64));
      CHECK((f.regType == MmaRegType::V2F16) == (f.dtype == DType::f16));
    }
  }
}

TEST_CASE("names, mnemonics and intrinsics of rows", "[mma]") {
  std::set<std::string> names, mnemonics, intrinsics;
  for (const MmaRow &row : mmaRows()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(mnemonics.insert(row.mnemonic).second);
    CHECK((row.kind == MmaKind::Wgmma ? row.intrinsic.empty() : intrinsics.insert(row.intrinsic).second));
    CHECK(findMma(row.name) == &row);
    CHECK(&row.operand(MmaOperand::A) == &row.a);
    CHECK(&row.operand(MmaOperand::B) == &row.b);
    CHECK(&row.operand(MmaOperand::C) == &row.c);
    const std::string shape =
        "m" + std::to_string(row.m) + "n" + std::to_string(row.n) + "k" + std::to_string(row.k);
    CHECK(row.name.find("_" + shape + "_") != std::string::npos);
    if (row.kind == MmaKind::Wgmma) {
      CHECK(row.mnemonic.find("wgmma.mma_async.sync.aligned." + shape + ".") == 0);
      continue;
    }
    CHECK(row.mnemonic.find("." + shape + ".row.col.") != std::string::npos);
    CHECK(row.intrinsic.find("." + shape + ".row.col.") != std::string::npos);
  }
  const MmaRow *bf = findMma("sm80_m16n8k16_f32bf16bf16f32_tn");
  REQUIRE(bf);
  CHECK(bf->mnemonic == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
  CHECK(bf->intrinsic == "llvm.nvvm.mma.m16n8k16.row.col.bf16");
  CHECK(bf->a.regs() == 4);
  CHECK(bf->b.regs() == 2);
  CHECK(bf->c.regs() == 4);
  const MmaRow *half = findMma("sm80_m16n8k16_f16f16f16f16_tn");
  REQUIRE(half);
  CHECK(half->c.regs() == 2);
  CHECK(half->intrinsic == "llvm.nvvm.mma.m16n8k16.row.col.f16.f16");
  REQUIRE(findMma("sm80_m16n8k8_f32tf32tf32f32_tn"));
  CHECK(findMma("sm80_m16n8k8_f32tf32tf32f32_tn")->policyOnly);
  CHECK(findMma("nothing") == nullptr);
}

TEST_CASE("selection by type, shape and target", "[mma]") {
  const Target &a100 = *findTarget("sm_80"), &h200 = *findTarget("sm_90a");
  auto pick = [](const Target &t, MmaQuery q) {
    const MmaRow *row = selectMma(t, q);
    return row ? row->name : std::string();
  };
  CHECK(pick(a100, {DType::bf16, DType::bf16, DType::f32, 64, 64, 64}) == "sm80_m16n8k16_f32bf16bf16f32_tn");
  CHECK(pick(a100, {DType::f16, DType::f16, DType::f16, 16, 8, 16}) == "sm80_m16n8k16_f16f16f16f16_tn");
  CHECK(pick(a100, {DType::f16, DType::f16, DType::f32, 48, 24, 24}) == "sm80_m16n8k8_f32f16f16f32_tn");
  CHECK(pick(a100, {DType::f16, DType::f16, DType::f32, 48, 24, 20}).empty());
  CHECK(pick(a100, {DType::f16, DType::f16, DType::f32, 8, 8, 16}).empty());
  CHECK(pick(a100, {DType::f16, DType::bf16, DType::f32, 64, 64, 64}).empty());
  CHECK(pick(a100, {DType::bf16, DType::bf16, DType::bf16, 64, 64, 64}).empty());
  CHECK(pick(a100, {DType::f32, DType::f32, DType::f32, 64, 64, 64}).empty());
  CHECK(pick(a100, {DType::f32, DType::f32, DType::f32, 64, 64, 64, true}) ==
        "sm80_m16n8k8_f32tf32tf32f32_tn");
  CHECK(pick(a100, {DType::f64, DType::f64, DType::f64, 24, 8, 12}) == "sm80_m8n8k4_f64f64f64f64_tn");
  CHECK(pick(a100, {DType::i8, DType::u8, DType::i32, 16, 8, 96}) == "sm80_m16n8k32_s32s8u8s32_tn");
  CHECK(pick(a100, {DType::i8, DType::i8, DType::i32, 16, 8, 48}) == "sm80_m16n8k16_s32s8s8s32_tn");
  CHECK(pick(a100, {DType::e4m3, DType::e4m3, DType::f32, 64, 64, 64}).empty());
  CHECK(pick(h200, {DType::e4m3, DType::e5m2, DType::f32, 64, 64, 64}) == "sm89_m16n8k32_f32e4m3e5m2f32_tn");
}

TEST_CASE("warp-tiled operands: coverage, owners and atoms by exhaustion", "[mma]") {
  struct Tile {
    int atomsM, atomsN, atomsK, warpsM, warpsN;
  };
  for (const MmaRow &row : mmaRows())
    for (Tile t : {Tile{1, 1, 1, 1, 1}, Tile{2, 4, 2, 2, 2}, Tile{3, 5, 3, 1, 1}, Tile{6, 12, 1, 2, 4},
                   Tile{4, 2, 5, 4, 1}, Tile{2, 6, 2, 1, 2}}) {
      if (row.kind != MmaKind::MmaSync)
        continue;
      const int m = row.m * t.atomsM, n = row.n * t.atomsN, k = row.k * t.atomsK;
      for (MmaOperand which : {MmaOperand::A, MmaOperand::B, MmaOperand::C}) {
        const std::vector<std::int32_t> shape = which == MmaOperand::A   ? std::vector<std::int32_t>{m, k}
                                                : which == MmaOperand::B ? std::vector<std::int32_t>{k, n}
                                                                         : std::vector<std::int32_t>{m, n};
        const Layout &fragment = row.operand(which).layout;
        const std::optional<Layout> tiled = warpTiled(fragment, shape, t.warpsM, t.warpsN, which);
        INFO(row.name << " " << int(which) << " " << t.atomsM << " " << t.atomsN << " " << t.atomsK);
        REQUIRE(tiled);
        CHECK(tiled->shape() == shape);
        CHECK(tiled->numWarps() == t.warpsM * t.warpsN);
        CHECK(tiled->isSurjective());
        CHECK(tiled->freeLanes() == 0);
        const int mask = which == MmaOperand::A   ? (t.warpsN - 1) * t.warpsM
                         : which == MmaOperand::B ? t.warpsM - 1
                                                  : 0;
        CHECK(int(tiled->freeWarps()) == mask);

        const bool moves0 = which != MmaOperand::B, moves1 = which != MmaOperand::A;
        const int step0 = moves0 ? t.warpsM : 1, step1 = moves1 ? t.warpsN : 1;
        const int atoms0 = shape[0] / fragment.dim(0) / step0, atoms1 = shape[1] / fragment.dim(1) / step1;
        REQUIRE(numAtoms(*tiled, fragment, 0) == atoms0);
        REQUIRE(numAtoms(*tiled, fragment, 1) == atoms1);
        std::set<int> registers;
        int bad = 0;
        for (int i = 0; i < atoms0; ++i)
          for (int j = 0; j < atoms1; ++j) {
            const int base = atomReg(*tiled, fragment, i, j);
            for (int e = 0; e < fragment.numRegs(); ++e) {
              registers.insert(base + e);
              for (int w = 0; w < tiled->numWarps(); ++w)
                for (int lane = 0; lane < 32; ++lane) {
                  const int wm = w % t.warpsM, wn = w / t.warpsM;
                  Coords c = fragment.coords(e, lane, 0);
                  c[0] += fragment.dim(0) * (i * step0 + (moves0 ? wm : 0));
                  c[1] += fragment.dim(1) * (j * step1 + (moves1 ? wn : 0));
                  bad += tiled->coords(base + e, lane, w) != c;
                }
            }
          }
        CHECK(bad == 0);
        CHECK(int(registers.size()) == tiled->numRegs());
      }
    }
}

TEST_CASE("atoms of a warp follow each other with the last dimension fastest", "[mma]") {
  const Layout &c = findMma("sm80_m16n8k16_f32bf16bf16f32_tn")->c.layout;
  for (int atomsM : {1, 2, 3})
    for (int atomsN : {1, 4, 6, 7}) {
      const std::vector<std::int32_t> shape = {16 * atomsM, 8 * atomsN};
      const Layout tiled = *warpTiled(c, shape, 1, 1, MmaOperand::C);
      // Powers of two come before odd factors: of 3 x 6 atoms, two columns are neighbours in each repetition.
      const int evenM = atomsM & -atomsM, evenN = atomsN & -atomsN;
      for (int i = 0; i < atomsM; ++i)
        for (int j = 0; j < atomsN; ++j) {
          const int repetition = i / evenM * (atomsN / evenN) + j / evenN;
          const int atom = (repetition * evenM + i % evenM) * evenN + j % evenN;
          CHECK(atomReg(tiled, c, i, j) == atom * c.numRegs());
        }
    }
}

TEST_CASE("warp tiling refuses what is not whole", "[mma]") {
  const MmaRow &row = *findMma("sm80_m16n8k16_f32bf16bf16f32_tn");
  const std::vector<std::int32_t> shape = {48, 24};
  CHECK(warpTiled(row.c.layout, shape, 1, 1, MmaOperand::C));
  CHECK_FALSE(warpTiled(row.c.layout, shape, 2, 1, MmaOperand::C));
  CHECK_FALSE(warpTiled(row.c.layout, shape, 1, 2, MmaOperand::C));
  CHECK_FALSE(warpTiled(row.c.layout, std::vector<std::int32_t>{40, 24}, 1, 1, MmaOperand::C));
}

TEST_CASE("the 16-bit accumulator is the next product's A operand", "[mma]") {
  // S = Q K^T in f32, converted in place to 16 bits, is A of P V: no data moves when warps lie along M.
  const MmaRow &row = *findMma("sm80_m16n8k16_f32bf16bf16f32_tn");
  for (std::int32_t keys : {32, 48, 64, 80}) {
    const std::vector<std::int32_t> shape = {64, keys};
    const Layout s = *warpTiled(row.c.layout, shape, 4, 1, MmaOperand::C);
    const Layout p = *warpTiled(row.a.layout, shape, 4, 1, MmaOperand::A);
    CHECK(conversionKind(s, p) <= ConversionKind::RenameRegisters);
  }
}

TEST_CASE("rows of wgmma: shapes, types and fragments", "[mma]") {
  std::map<std::string, std::vector<int>> lengths; // of n, by types
  for (const MmaRow &row : mmaRows()) {
    if (row.kind != MmaKind::Wgmma)
      continue;
    INFO(row.name);
    CHECK(row.feature == Feature::wgmma);
    CHECK(row.m == 64);
    CHECK(row.k * int(byteSize(row.a.dtype)) == 32);
    CHECK(row.mnMajor == (byteSize(row.a.dtype) == 2));
    CHECK(row.policyOnly == (row.a.dtype == DType::f32));
    CHECK(row.c.dtype == (row.a.dtype == DType::i8 || row.a.dtype == DType::u8 ? DType::i32 : DType::f32));
    const std::string types = row.name.substr(row.name.rfind('_') + 1);
    lengths[types].push_back(row.n);
    CHECK(row.name == "sm90_m64n" + std::to_string(row.n) + "k" + std::to_string(row.k) + "_" + types);

    const Layout &d = row.c.layout, &a = row.a.layout;
    CHECK(d.shape() == std::vector<std::int32_t>{64, row.n});
    CHECK(a.shape() == std::vector<std::int32_t>{64, row.k});
    CHECK(d.numWarps() == 4);
    CHECK(a.numWarps() == 4);
    CHECK(row.c.regs() == row.n / 2);
    CHECK(row.a.regs() == 4);
    REQUIRE(d.numRegs() == row.n / 2);
    int bad = 0;
    for (int w = 0; w < 4; ++w)
      for (int lane = 0; lane < 32; ++lane) {
        // Factors of n above a power of two are repetitions: registers are numbered by them last.
        for (int e = 0; e < d.numRegs(); ++e)
          bad += d.coords(e, lane, w) != wgmmaD(w, lane, e);
        for (int e = 0; e < a.numRegs(); ++e)
          bad += a.coords(e, lane, w) != wgmmaARegister(w, lane, e, row.a.elemsPerReg);
      }
    CHECK(bad == 0);
  }
  // PTX ISA, wgmma.mma_async: n of floats is any multiple of 8, of integers 8, 24 or a multiple of 16.
  std::vector<int> floats, integers = {8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256};
  for (int n = 8; n <= 256; n += 8)
    floats.push_back(n);
  CHECK(lengths.size() == 11);
  for (const auto &[types, n] : lengths) {
    INFO(types);
    CHECK(n == (types.substr(0, 3) == "s32" ? integers : floats));
  }
}

TEST_CASE("the widest wgmma that divides, by types and target", "[mma]") {
  const Target &a100 = *findTarget("sm_80"), &h200 = *findTarget("sm_90a");
  auto pick = [](const Target &t, MmaQuery q) {
    const MmaRow *row = selectWgmma(t, q);
    return row ? row->name : std::string();
  };
  CHECK(pick(h200, {DType::bf16, DType::bf16, DType::f32, 128, 256, 64}) == "sm90_m64n256k16_f32bf16bf16");
  CHECK(pick(h200, {DType::bf16, DType::bf16, DType::f32, 64, 512, 64}) == "sm90_m64n256k16_f32bf16bf16");
  CHECK(pick(h200, {DType::f16, DType::f16, DType::f32, 64, 8 * 17, 16}) == "sm90_m64n136k16_f32f16f16");
  CHECK(pick(h200, {DType::f16, DType::f16, DType::f32, 64, 8 * 37, 16}) == "sm90_m64n8k16_f32f16f16");
  CHECK(pick(h200, {DType::i8, DType::u8, DType::i32, 64, 40, 32}) == "sm90_m64n8k32_s32s8u8");
  CHECK(pick(h200, {DType::i8, DType::i8, DType::i32, 64, 72, 32}) == "sm90_m64n24k32_s32s8s8");
  CHECK(pick(h200, {DType::e4m3, DType::e5m2, DType::f32, 64, 64, 32}) == "sm90_m64n64k32_f32e4m3e5m2");
  CHECK(pick(h200, {DType::f32, DType::f32, DType::f32, 64, 64, 32}).empty());
  CHECK(pick(h200, {DType::f32, DType::f32, DType::f32, 64, 64, 32, true}) == "sm90_m64n64k8_f32tf32tf32");
  CHECK(pick(h200, {DType::bf16, DType::bf16, DType::f32, 32, 64, 64}).empty());
  CHECK(pick(h200, {DType::bf16, DType::bf16, DType::f32, 64, 12, 64}).empty());
  CHECK(pick(h200, {DType::bf16, DType::bf16, DType::f32, 64, 64, 24}).empty());
  CHECK(pick(h200, {DType::bf16, DType::bf16, DType::bf16, 64, 64, 64}).empty());
  CHECK(pick(a100, {DType::bf16, DType::bf16, DType::f32, 128, 256, 64}).empty());
}
