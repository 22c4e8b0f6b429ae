// SPDX-License-Identifier: Apache-2.0
/// \file Promotion of sums: what products of warpgroups with 8-bit floats need, whose sums the tensor cores keep to few bits.
///
/// An instruction aligns its products and the sum so far to the largest of them and cuts what lies more than 13 bits below:
/// an H200 gives 2544 for 2618 after 2560 positive terms in one chain. The language promises f32 sums, so a chain is short: at
/// most `mostShortTerms` terms from zero on, and threads add its sum to the others in f32.
#pragma once

#include "passes/Support.h"

#include "mlir/IR/Matchers.h"

namespace sectile::passes {

constexpr int64_t mostShortTerms = 128;

/// Sums of the row lose low bits, so they must be short.
inline bool keepsFewBits(const MmaRow &row) {
  return row.kind == MmaKind::Wgmma && isFloat(row.a.dtype) && byteSize(row.a.dtype) == 1;
}

/// Sums that begin at zero.
inline bool startsAtZero(mlir::Value acc) {
  while (auto cast = acc.getDefiningOp<tileir::CastOp>())
    acc = cast.getX();
  mlir::Attribute attr;
  if (!mlir::matchPattern(acc, mlir::m_Constant(&attr)))
    return false;
  auto splat = llvm::dyn_cast<mlir::SplatElementsAttr>(attr);
  return isZero(splat ? splat.getSplatValue<mlir::Attribute>() : attr);
}

/// What the product adds to is not for the tensor cores: they begin at zero, and threads add the two.
inline bool isPromoted(tileir::MmaOp op, const MmaRow &row) { return keepsFewBits(row) && !startsAtZero(op.getAcc()); }

} // namespace sectile::passes
