// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsCommon.h"

#include <sectile/Error.h>
#include <sectile/Targets.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <new>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace sectile::tools {

const char *const exitStatusText =
    "Exit status: 0 done; 1 a mistake in the input, a limit, or a file that cannot be read or written;\n"
    "2 a command line that is not described here; 3 a bug of Sectile.";

std::vector<std::string> archNames() {
  std::vector<std::string> names;
  for (const Target &target : targets())
    names.emplace_back(target.arch);
  return names;
}

/// Puts something at the three standard descriptors that are closed, so that no file opened later takes their
/// place and receives what is meant for them. Reading stdin and writing stdout still fail, as on the closed
/// descriptors; messages to a stderr that is not there are lost.
static void holdStandardFiles() {
  constexpr int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int fd = 0; fd < 3; ++fd)
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
      if (int got = ::open("/dev/null", modes[fd]); got > fd)
        ::close(got);
}

void printOut(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  throw UserError({{},
                   {},
                   "output",
                   fmt::format("standard output cannot be written: {}", std::strerror(errno)),
                   "stdout",
                   "send it to a file or a program that reads it"});
}

namespace {

/// Longer than any file that a tool is given; what has no end ends here.
constexpr std::size_t mostInputBytes = std::size_t(64) << 20;

const char *kindOf(const struct stat &is) {
  return S_ISDIR(is.st_mode)    ? "a directory"
         : S_ISCHR(is.st_mode)  ? "a device"
         : S_ISBLK(is.st_mode)  ? "a disk"
         : S_ISSOCK(is.st_mode) ? "a socket"
         : S_ISFIFO(is.st_mode) ? "a pipe"
                                : "no file";
}

} // namespace

std::optional<std::string> readInput(const std::string &path, std::string &why) {
  const bool isInput = path == "-";
  // A pipe that nobody has opened to write to is not waited for.
  const int fd = isInput ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  auto reading = [&]() -> std::optional<std::string> {
    struct stat is {};
    if (fd < 0 || ::fstat(fd, &is) != 0) {
      why = std::strerror(errno);
      return std::nullopt;
    }
    if (!isInput && !S_ISREG(is.st_mode) && !S_ISFIFO(is.st_mode)) {
      why = fmt::format("it is {}, not a file", kindOf(is));
      return std::nullopt;
    }
    auto tooLong = [&] {
      why = fmt::format("it is longer than {} bytes", mostInputBytes);
      return std::nullopt;
    };
    if (S_ISREG(is.st_mode) && is.st_size > static_cast<off_t>(mostInputBytes))
      return tooLong();
    if (!isInput)
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    std::string text;
    std::vector<char> block(std::size_t(1) << 16);
    for (;;) {
      const ssize_t n = ::read(fd, block.data(), block.size());
      if (n == 0)
        return text;
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0) {
        why = std::strerror(errno);
        return std::nullopt;
      }
      text.append(block.data(), static_cast<std::size_t>(n));
      if (text.size() > mostInputBytes)
        return tooLong();
    }
  };
  std::optional<std::string> text = reading();
  if (fd >= 0 && !isInput)
    ::close(fd);
  return text;
}

std::string whyNoFile(const std::string &path) {
  struct stat is {};
  return ::stat(path.c_str(), &is) != 0 || S_ISREG(is.st_mode) ? std::string() : fmt::format("it is {}, not a file", kindOf(is));
}

void writeFile(const std::string &path, std::string_view bytes) {
  auto fail = [&] {
    throw UserError({{},
                     {},
                     "output",
                     fmt::format("'{}' cannot be written: {}", path, std::strerror(errno)),
                     "out_file",
                     "name a file in a directory that you can write to"});
  };
  std::FILE *file = std::fopen(path.c_str(), "wbe");
  if (!file)
    fail();
  bool ok = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fflush(file) == 0;
  int error = errno;
  if ((std::fclose(file) != 0 && ok) || !ok) {
    errno = ok ? errno : error;
    fail();
  }
}

std::string tableText(const std::vector<std::vector<std::string>> &rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto &row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto &row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string timeText(std::int64_t seconds) {
  std::time_t t = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32];
  if (!localtime_r(&t, &parts) || !std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts))
    return std::to_string(seconds);
  return text;
}

/// `action` with every error turned into a message and a status.
static int guarded(const std::function<int()> &action) {
  auto say = [](const std::string &text) { std::fputs((text + "\n").c_str(), stderr); };
  try {
    return action();
  } catch (const UserError &e) {
    say(fmt::format("error: {}", e.what()));
    return exitUserError;
  } catch (const InternalError &e) {
    say(e.what());
    return exitInternalError;
  } catch (const std::bad_alloc &) {
    say("error: there is not enough memory for this");
    return exitUserError;
  } catch (const std::exception &e) {
    say(fmt::format("internal error: {}", e.what()));
    return exitInternalError;
  }
}

int runTool(CLI::App &app, int argc, char **argv, const std::function<int()> &action) {
  holdStandardFiles();
  std::ostringstream out, err;
  int parsed = exitOk;
  bool isDone = false; // --help, --version or a mistake
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    parsed = app.exit(e, out, err) == 0 ? exitOk : exitUsage;
    // CLI11 says that a subcommand is missing where the word given is none.
    if (std::vector<std::string> rest = app.remaining(true); parsed != exitOk && !rest.empty())
      err << fmt::format("Not known: {}\n", fmt::join(rest, " "));
    isDone = true;
  }
  int status = guarded([&] {
    printOut(out.str());
    return isDone ? parsed : action();
  });
  std::fputs(err.str().c_str(), stderr);
  return status;
}

} // namespace sectile::tools
