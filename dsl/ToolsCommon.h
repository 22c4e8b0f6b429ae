// SPDX-License-Identifier: Apache-2.0
/// \file What the command line programs share: options, exit statuses, checked output.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace sectile::tools {

/// Exit statuses, the same for every program (docs/cli.md).
enum ExitStatus : int {
  exitOk = 0,
  exitUserError = 1, ///< a mistake in a file or argument, a limit, or a file that cannot be read or written
  exitUsage = 2,     ///< the command line is not one that --help describes
  exitInternalError = 3, ///< a bug of Sectile
};
/// The statuses in words, the end of every --help.
extern const char *const exitStatusText;

/// Names of all rows of the targets table.
std::vector<std::string> archNames();

/// Parses the command line, then runs `action`. Mistakes become one message on stderr and the status above; a
/// closed stdin, stdout or stderr is harmless.
int runTool(CLI::App &app, int argc, char **argv, const std::function<int()> &action);

/// Writes to standard output. UserError [stdout] with the system's reason when that fails.
void printOut(std::string_view text);
/// All of a regular file or a pipe, or of standard input for "-". Nullopt, and the reason in `why`, when it cannot be read, is longer
/// than any module or list (which an endless one is too), or is a device: those are not read.
std::optional<std::string> readInput(const std::string &path, std::string &why);
/// Why a file that a library opens by itself is not to be given to it: it is no regular file. Empty for a regular file and for what
/// is not there, which the library says itself.
std::string whyNoFile(const std::string &path);
/// Writes a file. UserError [out_file] with the system's reason when that fails.
void writeFile(const std::string &path, std::string_view bytes);

/// Rows of words as columns, two blanks apart. @pre all rows have as many words as the first
std::string tableText(const std::vector<std::vector<std::string>> &rows);
/// "2026-01-31 09:00:00", in local time.
std::string timeText(std::int64_t seconds);

} // namespace sectile::tools
