// SPDX-License-Identifier: Apache-2.0
/// \file The enums of the `tile` dialect alone, for sources that need no MLIR. Not to be mixed with
/// TileDialect.h.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMapInfo.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>

#include "ir/TileEnums.h.inc"
