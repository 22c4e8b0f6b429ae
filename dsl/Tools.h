// SPDX-License-Identifier: Apache-2.0
/// \file Entry points of the command line tools, whose programs are one-line mains over the library.
#pragma once

#include <sectile/Export.h>

namespace sectile::tools {

/// `sectile-opt`: reads a module as text, runs the passes named on the command line, prints the module.
SECTILE_API int optMain(int argc, char **argv);

/// `sectile-run`: runs a module given as text, or prints a stage of it; replays reproducers. Exit status 0, 1 for the
/// user's mistakes, 2 for a wrong command line, 3 for bugs of Sectile.
SECTILE_API int runMain(int argc, char **argv);

/// `sectile`: run and emit modules, look after the kernel cache, say what this installation has (docs/cli.md). Exit
/// statuses as for `sectile-run`.
SECTILE_API int main(int argc, char **argv);

} // namespace sectile::tools
