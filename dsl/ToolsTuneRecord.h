// SPDX-License-Identifier: Apache-2.0
/// \file `sectile tune show|diff|merge|export|import|prune`: the tuning record on the command line.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace sectile::tools {

/// Declares the subcommands of `sectile tune` that work on records. The one that is called becomes `action`.
void addTuneRecordCommands(CLI::App &tune, std::function<int()> &action);

} // namespace sectile::tools
