// SPDX-License-Identifier: Apache-2.0
/// \file Kernel arguments written on a command line: `64x128xbf16=normal:7`, `f32=1.5`.
#pragma once

#include "ir/base/Artifact.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sectile::tools {

struct ToolArg {
  KernelArg arg;                   ///< data points into `bytes`
  std::vector<std::uint8_t> bytes; ///< a tensor's elements, in the order of memory
  std::string text;                ///< as written
};

/// Parses one argument and makes its data. Tensor: DIMS `x` DTYPE `=` FILL, where FILL is `zeros`, `iota` (0, 1, 2.. cast
/// to the type), `normal[:SEED]` (standard normal numbers), `value:V`, `bytes:B` (every byte B). DTYPE`@`AXES orders the axes in memory, the fastest last: `64x128xbf16@10` lies by columns.
/// Scalar: DTYPE `=` VALUE.
/// UserError [tool_arg] for anything else.
ToolArg parseToolArg(const std::string &text);

/// "2x3 f32 [0, 1, 2, 3, 4, 5]"; more than 256 elements are shown as count, sum, minimum and maximum.
std::string describeData(const ToolArg &arg);

/// Element `i` of typed memory as a double, and back (with the conversions of the language).
double readElement(const void *data, DType dtype, std::int64_t i);
void writeElement(void *data, DType dtype, std::int64_t i, double value);

} // namespace sectile::tools
