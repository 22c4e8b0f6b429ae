// SPDX-License-Identifier: Apache-2.0
/// \file Stores of strips by threads.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace sectile::tgpu {

/// On a tgpu.bulk_store: the threads of each warp read its strips back, neighbours along a row by neighbouring lanes, and
/// store them, where the TMA unit cannot write the tensor. Of the map the order, the box and the limits count.
inline constexpr llvm::StringLiteral byThreadsAttr = "tgpu.by_threads";

} // namespace sectile::tgpu
