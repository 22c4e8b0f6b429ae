// SPDX-License-Identifier: Apache-2.0
#include "runtime/Ptxas.h"

#include "runtime/Env.h"

#include <sectile/Error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace sectile::runtime {
namespace {

bool isExecutableFile(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

/// A private directory under TMPDIR, removed with the files that were named in it.
class TempDir {
public:
  TempDir() {
    std::string pattern = env().tempDir + "/sectile-XXXXXX";
    if (mkdtemp(pattern.data()))
      dir = pattern;
    else
      problem = fmt::format("no private directory can be made in {} ({}); set TMPDIR", env().tempDir,
                            std::strerror(errno));
  }
  ~TempDir() {
    for (const std::string &f : files)
      unlink(f.c_str());
    if (!dir.empty())
      rmdir(dir.c_str());
  }
  TempDir(const TempDir &) = delete;
  TempDir &operator=(const TempDir &) = delete;

  std::string file(const char *name) {
    files.push_back(dir + "/" + name);
    return files.back();
  }
  std::string problem; ///< why there is no directory

private:
  std::string dir;
  std::vector<std::string> files;
};

bool writeFile(const std::string &path, std::string_view text, std::string &problem) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  while (fd >= 0 && !text.empty()) {
    ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      break;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  int error = errno;
  if (fd >= 0)
    close(fd);
  if (fd >= 0 && text.empty())
    return true;
  problem = fmt::format("{} cannot be written ({})", path, std::strerror(error));
  return false;
}

/// How a program ended.
struct Exit {
  bool started = false;
  int code = -1;        ///< exit code; -1: killed, or not known
  int signal = 0;       ///< what killed it
  int error = 0;        ///< errno when it did not start
  bool unknown = false; ///< the process ignores SIGCHLD: nobody can tell
  std::string text() const {
    if (!started)
      return fmt::format("does not start ({})", std::strerror(error));
    if (signal)
      return fmt::format("was killed by signal {} ({})", signal, strsignal(signal));
    return fmt::format("ended with exit code {}", code);
  }
};

/// All that comes out of a descriptor until its end.
std::string readAll(int fd) {
  std::string out;
  char block[65536];
  for (;;) {
    ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return out;
    out.append(block, static_cast<std::size_t>(n));
  }
}

std::string readFile(const std::string &path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return {};
  std::string out = readAll(fd);
  close(fd);
  return out;
}

/// Runs a program, no shell, and waits for it; `output` receives its stdout and stderr.
Exit runProgram(std::vector<std::string> args, std::string &output) {
  Exit exit;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    exit.error = errno;
    return exit;
  }
  std::vector<char *> argv;
  for (std::string &a : args)
    argv.push_back(a.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  // The caller's blocked and ignored signals are no business of the program's.
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  exit.error = posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (!exit.error)
    output = readAll(ends[0]);
  close(ends[0]);
  if (exit.error)
    return exit;
  exit.started = true;
  int status = 0;
  pid_t waited;
  do
    waited = waitpid(pid, &status, 0);
  while (waited < 0 && errno == EINTR);
  if (waited < 0)
    exit.unknown = true;
  else if (WIFSIGNALED(status))
    exit.signal = WTERMSIG(status);
  else
    exit.code = WEXITSTATUS(status);
  return exit;
}

std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

/// The first line of a log that states an error, else the first line.
std::string errorLine(const std::string &log) {
  for (std::size_t at = 0; at < log.size();) {
    std::size_t end = std::min(log.find('\n', at), log.size());
    std::string line = log.substr(at, end - at);
    if (line.find("error") != std::string::npos || line.find("fatal") != std::string::npos)
      return line;
    at = end + 1;
  }
  return firstLine(log);
}

/// The number right before `unit` at or behind `from`, or -1.
int numberBefore(std::string_view line, std::string_view unit) {
  std::size_t at = line.find(unit);
  if (at == std::string_view::npos)
    return -1;
  std::size_t end = at;
  while (at > 0 && line[at - 1] >= '0' && line[at - 1] <= '9')
    --at;
  int value = -1;
  std::from_chars(line.data() + at, line.data() + end, value);
  return value;
}

/// "13.0.88" out of `ptxas --version`; empty when it is not ptxas. `problem` says why.
std::string askVersion(const std::string &path, std::string &problem) {
  std::string text;
  Exit exit = runProgram({path, "--version"}, text);
  std::size_t at = text.find(", V");
  if (exit.started && !exit.signal && at != std::string::npos) {
    std::size_t end = text.find_first_not_of("0123456789.", at + 3);
    if (std::string version = text.substr(at + 3, std::min(end, text.size()) - at - 3); !version.empty())
      return version;
  }
  problem = exit.started && exit.code == 0 ? "its --version is not that of ptxas" : exit.text();
  return {};
}

/// Versions by path, size and time of change: one run of --version per assembler and process.
std::string versionOf(const std::string &path, std::string &problem) {
  static auto &mutex = *new std::mutex;
  static auto &known = *new std::map<std::string, std::string>;
  struct stat info {};
  stat(path.c_str(), &info);
  std::string key = fmt::format("{}:{}:{}.{}", path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  std::lock_guard lock(mutex);
  auto found = known.find(key);
  if (found != known.end())
    return found->second;
  std::string version = askVersion(path, problem);
  if (!version.empty())
    known.emplace(key, version);
  return version;
}

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  std::string_view rest = env().path;
  while (!rest.empty()) {
    std::size_t colon = std::min(rest.find(':'), rest.size());
    if (colon) // an empty part would mean the current directory
      paths.push_back(std::string(rest.substr(0, colon)) + "/ptxas");
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  if (!env().cudaHome.empty())
    paths.push_back(env().cudaHome + "/bin/ptxas");
  paths.push_back("/usr/local/cuda/bin/ptxas");
#ifdef SECTILE_DEPS_DIR
  paths.push_back(SECTILE_DEPS_DIR "/ptxas/bin/ptxas"); // where scripts/setup.sh puts it
#endif
  return paths;
}

} // namespace

std::optional<Ptxas> Ptxas::find(const SourceLoc &loc) {
  const std::string &wanted = env().ptxas;
  if (wanted == "none")
    return std::nullopt;
  std::string problem;
  if (!wanted.empty()) {
    std::string version;
    if (!isExecutableFile(wanted))
      problem = "it is not an executable file";
    else
      version = versionOf(wanted, problem);
    if (version.empty())
      throw UserError({.loc = loc,
                       .kernel = {},
                       .op = "ptxas",
                       .message = fmt::format("SECTILE_PTXAS={} cannot be used: {}", wanted, problem),
                       .rule = "bad_ptxas",
                       .wayOut = "name the ptxas of a CUDA toolkit, or none to let the driver assemble"});
    return Ptxas(wanted, version);
  }
  for (const std::string &path : candidates())
    if (isExecutableFile(path))
      if (std::string version = versionOf(path, problem); !version.empty())
        return Ptxas(path, version);
  return std::nullopt;
}

PtxasResult Ptxas::assemble(std::string_view ptx, std::string_view arch) const {
  PtxasResult result;
  TempDir temp;
  result.problem = temp.problem;
  if (!result.problem.empty())
    return result;
  std::string input = temp.file("kernel.ptx"), output = temp.file("kernel.cubin");
  if (!writeFile(input, ptx, result.problem))
    return result;
  Exit exit = runProgram({file, "-O3", "-v", fmt::format("-arch={}", arch), input, "-o", output}, result.log);
  result.cubin = readFile(output);
  parsePtxasLog(result);
  // A host that ignores SIGCHLD leaves no exit code: then a cubin and a log without errors count.
  bool ended = exit.unknown ? errorLine(result.log).find("error") == std::string::npos : exit.code == 0;
  if (exit.started && ended && !result.cubin.empty()) {
    result.ok = true;
    return result;
  }
  result.cubin.clear();
  result.problem = fmt::format("{} {}", file, exit.started && ended ? "wrote no cubin" : exit.text());
  if (std::string line = errorLine(result.log); !line.empty())
    result.problem += ": " + line;
  return result;
}

std::string withLessRoom(std::string_view ptx, bool drop) {
  constexpr std::string_view directive = ".minnctapersm ";
  std::string result;
  if (ptx.find("setmaxnreg") != ptx.npos) // what roles hand each other is counted from this plan
    return std::string(ptx);
  while (!ptx.empty()) {
    std::size_t end = std::min(ptx.find('\n'), ptx.size() - 1) + 1;
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(end);
    int blocks = 0;
    if (line.substr(0, directive.size()) == directive)
      std::from_chars(line.data() + directive.size(), line.data() + line.size(), blocks);
    if (blocks == 0)
      result += line;
    else if (!drop && blocks > 2)
      result += fmt::format("{}{}\n", directive, blocks - 1);
  }
  return result;
}

PtxasResult Ptxas::assembleWithRoom(std::string &ptx, std::string_view arch) const {
  PtxasResult result = assemble(ptx, arch);
  for (bool drop : {false, true}) {
    if (!result.ok || result.spillBytes <= 0)
      break;
    std::string roomier = withLessRoom(ptx, drop);
    if (roomier == ptx)
      break;
    PtxasResult again = assemble(roomier, arch);
    if (!again.ok || again.spillBytes > result.spillBytes)
      break;
    result = std::move(again);
    ptx = std::move(roomier);
  }
  return result;
}

void parsePtxasLog(PtxasResult &result) {
  std::string_view rest = result.log;
  while (!rest.empty()) {
    std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find("Used ") != std::string_view::npos) {
      result.registers = std::max(result.registers, numberBefore(line, " registers"));
      result.sharedBytes = std::max({result.sharedBytes, 0, numberBefore(line, " bytes smem")});
    }
    int stores = numberBefore(line, " bytes spill stores"), loads = numberBefore(line, " bytes spill loads");
    if (stores >= 0 || loads >= 0)
      result.spillBytes = std::max(result.spillBytes, 0) + std::max(stores, 0) + std::max(loads, 0);
    if (line.find("C75") != std::string_view::npos)
      result.performanceLosses.emplace_back(line);
  }
}

} // namespace sectile::runtime
