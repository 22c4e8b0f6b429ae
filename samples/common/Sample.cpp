// SPDX-License-Identifier: Apache-2.0
/// \file The command line of the samples, compiled once for all of them.
#include "samples/common/Sample.h"

#include <CLI/CLI.hpp>

namespace sample {

Options parse(int argc, char **argv, const std::string &about, std::initializer_list<OwnOption> own) {
  Options o;
  CLI::App app{about};
  app.add_flag("--small", o.small, "Small sizes, for the interpreter");
  app.add_option("--device", o.device, "interpreter or gpu; default: a GPU if there is one")
      ->check(CLI::IsMember({"interpreter", "gpu"}));
  app.add_option("--emit", o.emit, "Print a stage of the kernel instead of running it")
      ->check(CLI::IsMember({"tile", "tgpu", "llvm", "ptx", "cubin"}));
  app.add_option("--kernel", o.kernel, "One kernel of the sample, or all; default: all are run, --emit prints the first");
  app.add_option("--arch", o.arch, "Target of --emit");
  app.add_option("--out", o.out, "File for --emit");
  app.add_option("--rounds", o.rounds, "Timed rounds")->check(CLI::Range(5, 1000));
  for (const OwnOption &option : own)
    app.add_option(option.name, option.values, option.about);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    std::exit(app.exit(e));
  }
  return o;
}

} // namespace sample
