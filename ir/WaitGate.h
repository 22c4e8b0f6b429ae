// SPDX-License-Identifier: Apache-2.0
/// \file What must be computed before threads wait for products.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace sectile::tgpu {

/// array<i64: index, count> on a tgpu.wgmma_wait: the first `count` registers of this value are there before the wait. The values are the same
/// without it; but an assembler that puts the wait as early as it may leaves nothing for threads to do beside the products.
inline constexpr llvm::StringLiteral gateAttr = "tgpu.gate";

} // namespace sectile::tgpu
