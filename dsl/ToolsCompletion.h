// SPDX-License-Identifier: Apache-2.0
/// \file Shell completion, made from the options that a program declares.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sectile::tools {

/// A script that completes the subcommands, options, fixed values and file names of `app` under its name.
/// `shell` is bash, zsh or fish.
std::string completionScript(const CLI::App &app, const std::string &shell);

} // namespace sectile::tools
