// SPDX-License-Identifier: Apache-2.0
// `sectile`: the command line of an installation.
#include "autotune/Measure.h"
#include "dsl/Tools.h"
#include "dsl/ToolsBuild.h"
#include "dsl/ToolsCommon.h"
#include "dsl/ToolsCompletion.h"
#include "dsl/ToolsExplain.h"
#include "dsl/ToolsInfo.h"
#include "dsl/ToolsRun.h"
#include "dsl/ToolsTune.h"
#include "dsl/ToolsTuneRecord.h"
#include "runtime/Env.h"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <string_view>

namespace sectile::tools {

int main(int argc, char **argv) {
  // The worker of a tuner, which no user starts.
  if (argc == 3 && std::string_view(argv[1]) == autotune::workerWord)
    return autotune::workerMain(std::atoi(argv[2]));
  CLI::App app{"Sectile: tile kernels for GPUs", "sectile"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "sectile " SECTILE_VERSION);
  app.footer(exitStatusText);
  std::function<int()> action;
  auto prints = [&action](CLI::App *command, std::function<std::string()> text) {
    command->callback([&action, text = std::move(text)] {
      action = [text] {
        printOut(text());
        return exitOk;
      };
    });
  };

  RunOptions run, emit;
  CLI::App *runCommand = app.add_subcommand("run", "Run a kernel given as MLIR text");
  addRunOptions(*runCommand, run);
  runCommand->callback([&] { action = [&] { return runFile(run); }; });
  CLI::App *emitCommand = app.add_subcommand("emit", "Print what a kernel given as MLIR text becomes");
  addEmitOptions(*emitCommand, emit);
  emitCommand->callback([&] { action = [&] { return runFile(emit); }; });

  ExplainOptions explain;
  CLI::App *explainCommand = app.add_subcommand(
      "explain", "Say what a kernel given as MLIR text does to the memories, and what that costs");
  addExplainOptions(*explainCommand, explain);
  explainCommand->callback([&] { action = [&] { return explainFile(explain); }; });

  TuneToolOptions tune;
  CLI::App *tuneCommand = app.add_subcommand("tune", "Find the quickest configurations of kernels, and keep them in the record");
  addTuneOptions(*tuneCommand, tune);
  addTuneRecordCommands(*tuneCommand, action);
  tuneCommand->callback([&] {
    if (tuneCommand->get_subcommands().empty())
      action = [&] { return tuneFile(tune); };
  });

  BuildToolOptions build;
  CLI::App *buildCommand = app.add_subcommand("build", "Compile kernels ahead of time, into C source that runs without Sectile");
  addBuildOptions(*buildCommand, build);
  buildCommand->callback([&] { action = [&] { return buildFiles(build); }; });

  CLI::App *cache = app.add_subcommand("cache", "Look after the kernel cache on disk");
  cache->require_subcommand(1);
  std::string dir;
  std::optional<std::uint64_t> maxBytes;
  CLI::App *list = cache->add_subcommand("list", "List its entries, most recently used first");
  CLI::App *prune =
      cache->add_subcommand("prune", "Remove damaged entries, and over --max-bytes the least recently used");
  for (CLI::App *command : {list, prune})
    command->add_option("--dir", dir, "The directory; default: the one in use")->type_name("DIR");
  prune
      ->add_option("--max-bytes", maxBytes,
                   "Bytes to keep, with or without a unit such as 200MiB; default: no limit")
      ->transform(CLI::AsSizeValue(false))
      // Runs before the line above, which takes -5 for a very large number.
      ->transform(CLI::Validator(
          [](std::string &text) { return text.starts_with("-") ? "negative: " + text : std::string(); }, ""))
      ->type_name("BYTES");
  prints(list, [&] { return cacheListText(dir); });
  prints(prune, [&] { return cachePruneText(dir, maxBytes); });

  bool json = false;
  CLI::App *targetsCommand =
      app.add_subcommand("targets", "The GPUs that code is made for, with limits and features");
  targetsCommand->add_flag("--json", json, "As JSON");
  prints(targetsCommand, [&] { return json ? targetsJson() : targetsText(); });
  prints(app.add_subcommand("env", "The environment switches, with today's values"),
         [] { return runtime::envTableText(); });
  prints(app.add_subcommand("version", "Versions of Sectile and of what it uses here"),
         [] { return versionText(); });

  std::string shell;
  CLI::App *completion =
      app.add_subcommand("completion", "Print a script that completes this program's words in a shell");
  completion->add_option("shell", shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  prints(completion, [&] { return completionScript(app, shell); });

  const auto all = [](const CLI::App *) { return true; };
  for (CLI::App *command : app.get_subcommands(all)) {
    command->footer(exitStatusText);
    for (CLI::App *nested : command->get_subcommands(all))
      nested->footer(exitStatusText);
  }
  return runTool(app, argc, argv, [&] { return action(); });
}

} // namespace sectile::tools
