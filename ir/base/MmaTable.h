// SPDX-License-Identifier: Apache-2.0
/// \file One row per matrix instruction: name, shape, types, fragment layouts, PTX and LLVM spelling.
/// Adding an instruction of a known kind is adding a row to MmaTable.cpp.
///
/// Coordinates: A is (m, k), B is (k, n), C and D are (m, n). All rows compute D = A * B + C. Rows of the kind
/// MmaSync take A row-major and B column-major in registers ("row.col"), so a lane's packed elements run along k
/// for both operands. Rows of the kind Wgmma work on the four warps of a warpgroup, take B from shared memory and
/// A from there or from registers.
#pragma once

#include "ir/base/Layout.h"
#include <sectile/Targets.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sectile {

enum class MmaKind : std::uint8_t { MmaSync, Wgmma };
enum class MmaOperand : std::uint8_t { A, B, C };
/// Type of one register operand in PTX and in the LLVM intrinsic.
enum class MmaRegType : std::uint8_t { I32, V2F16, F32, F64 };

/// One operand of an instruction. Element register e of `layout` sits in operand register e / elemsPerReg, at
/// position e % elemsPerReg, lowest bits first.
struct MmaFragment {
  DType dtype;
  MmaRegType regType;
  Layout layout;  ///< of one warp, or warpgroup; a Wgmma row's B has none
  int elemsPerReg;
  int regs() const { return layout.numRegs() / elemsPerReg; }
};

struct MmaRow {
  std::string name;  ///< sm80_m16n8k16_f32bf16bf16f32_tn: first architecture, shape, types D A B C, majors
  MmaKind kind;
  Feature feature;   ///< what a target must have
  int m, n, k;
  bool mnMajor = false; ///< Wgmma: operands in shared memory may have M or N contiguous
  bool policyOnly;   ///< rounds its inputs (f32 to tf32): only where the user allowed that
  MmaFragment a, b, c;  ///< D is as C
  std::string mnemonic;   ///< mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
  std::string intrinsic;  ///< llvm.nvvm.mma.m16n8k16.row.col.bf16; its result is a struct of D's registers; Wgmma: none
  const MmaFragment &operand(MmaOperand which) const;
};

std::span<const MmaRow> mmaRows();
const MmaRow *findMma(std::string_view name);

/// What a product needs. m, n, k are the extents that must be whole numbers of atoms.
struct MmaQuery {
  DType a, b, c;
  int m, n, k;
  bool allowTf32 = false;
};
/// The MmaSync row with the largest k whose types match and whose shape divides; null if there is none.
const MmaRow *selectMma(const Target &target, const MmaQuery &query);
/// The Wgmma row with the largest n whose types match and whose shape divides; null if there is none.
const MmaRow *selectWgmma(const Target &target, const MmaQuery &query);

/// The layout of a whole operand for a block of warpsM * warpsN warps (warp number = wm + warpsM * wn).
/// `shape` is the operand's: [M, K], [K, N] or [M, N]. Warps along the dimension that the operand lacks
/// hold copies. Neighbouring warps hold neighbouring atoms; atoms of one warp follow each other with the
/// last dimension fastest, odd factors of their number as repetitions. The fragment's registers stay
/// lowest, so each atom is a run of neighbouring registers (see atomReg). None unless shape is a whole
/// number of warps times atoms.
/// @pre warpsM, warpsN powers of two.
std::optional<Layout> warpTiled(const Layout &fragment, std::span<const std::int32_t> shape, int warpsM,
                                int warpsN, MmaOperand which);
/// Atoms per warp along an axis of a warp-tiled layout.
int numAtoms(const Layout &tiled, const Layout &fragment, int axis);
/// The first register of atom (i, j) of a warp: element register e of the fragment is register atomReg + e.
/// @pre i < numAtoms(.., 0), j < numAtoms(.., 1)
int atomReg(const Layout &tiled, const Layout &fragment, int i, int j);

} // namespace sectile
