// SPDX-License-Identifier: Apache-2.0
/// \file Runs a piece of a test in a child process: for state that a process sets up once (the CUDA driver),
/// for environment variables, and for code that may die.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sectile::test {

/// What a child said and how it ended.
struct ChildResult {
  std::string said;   ///< what the function returned, or "threw: <what>"
  std::string errors; ///< what it printed on stderr
  int exitCode = -1;  ///< -1: killed
  int signal = 0;
};

/// Variables to set in the child; an empty value unsets.
using Environment = std::vector<std::pair<std::string, std::string>>;

inline ChildResult inChild(const Environment &environment, const std::function<std::string()> &work) {
  int out[2], err[2];
  if (pipe(out) != 0 || pipe(err) != 0)
    throw std::runtime_error("pipe failed");
  pid_t pid = fork();
  if (pid == 0) {
    dup2(err[1], 2);
    for (auto &[name, value] : environment)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    std::string said;
    try {
      said = work();
    } catch (const std::exception &e) {
      said = std::string("threw: ") + e.what();
    }
    ssize_t written = write(out[1], said.data(), said.size());
    _exit(written == static_cast<ssize_t>(said.size()) ? 0 : 99);
  }
  close(out[1]);
  close(err[1]);
  ChildResult result;
  auto readAll = [](int fd, std::string &to) {
    char block[4096];
    for (;;) {
      ssize_t n = read(fd, block, sizeof block);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        break;
      to.append(block, n);
    }
    close(fd);
  };
  readAll(out[0], result.said);
  readAll(err[0], result.errors);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  else
    result.exitCode = WEXITSTATUS(status);
  return result;
}

/// A private directory that goes with everything in it.
class ScratchDir {
public:
  ScratchDir() {
    const char *base = std::getenv("TMPDIR");
    std::string pattern = std::string(base && *base ? base : "/tmp") + "/sectile-test-XXXXXX";
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error("mkdtemp failed");
    dir = pattern;
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
  }
  ScratchDir(const ScratchDir &) = delete;
  ScratchDir &operator=(const ScratchDir &) = delete;
  const std::string &path() const { return dir; }
  std::string file(const std::string &name) const { return dir + "/" + name; }

private:
  std::string dir;
};

} // namespace sectile::test
