// SPDX-License-Identifier: Apache-2.0
/// \file Running modules as text, and printing what becomes of them: `sectile-run`, `sectile run`, `sectile
/// emit`.
#pragma once

#include "dsl/ToolsInput.h"

namespace CLI {
class App;
}

namespace sectile::tools {

struct RunOptions : InputOptions {
  std::string device = "interpreter", emit, out;
  bool counters = false; ///< of the executor
};

/// Declares the options of `sectile-run` and `sectile run`: a stage is asked for by --emit.
void addRunOptions(CLI::App &app, RunOptions &options);
/// Declares the options of `sectile emit`: a stage is required.
void addEmitOptions(CLI::App &app, RunOptions &options);
/// Does what the options say. Returns 0, or 1 when the file is no module, which is then said on stderr;
/// throws UserError and InternalError.
int runFile(const RunOptions &options);

} // namespace sectile::tools
