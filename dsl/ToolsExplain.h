// SPDX-License-Identifier: Apache-2.0
/// \file `sectile explain`: what a kernel given as text does to the memories.
#pragma once

#include "dsl/ToolsInput.h"

namespace sectile::tools {

struct ExplainOptions : InputOptions {
  bool json = false;
  double bandwidthGBs = 0; ///< 0: that of the target
};

/// Declares the options of `sectile explain`.
void addExplainOptions(CLI::App &app, ExplainOptions &options);
/// Prints the explanation. Returns 0, or 1 when the file is no module, which is then said on stderr; throws
/// UserError and InternalError.
int explainFile(const ExplainOptions &options);

} // namespace sectile::tools
