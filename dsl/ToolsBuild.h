// SPDX-License-Identifier: Apache-2.0
/// \file `sectile build`: kernels of a shared library, compiled ahead of time for several targets, as C source.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace sectile::tools {

struct BuildToolOptions {
  std::vector<std::string> libraries, args, targets, configs, gpus;
  std::string kernel, jobsFile, out = ".", name = "kernels";
  int align = 16; ///< bytes that the pointers are multiples of
  bool list = false, withPtx = false;
};

/// Declares the options of `sectile build`.
void addBuildOptions(CLI::App &app, BuildToolOptions &options);
/// Writes the files and prints the variants.
int buildFiles(const BuildToolOptions &options);

} // namespace sectile::tools
