// SPDX-License-Identifier: Apache-2.0
// Runs wrong programs (see ExpectError.h): all of them, or those whose base names are given. With --print each says its
// error as a line of JSON.
#include "tests/support/ExpectError.h"
#include "tests/support/FakeCuda.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iostream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace sectile;

namespace {

struct Case {
  std::string file;
  testing::WrongProgram::Run run;
  void (*runOnGpu)();
};
std::vector<Case> &cases() {
  static std::vector<Case> list;
  return list;
}

std::string baseName(const std::string &path) { return path.substr(path.rfind('/') + 1); }

/// What the file says of its error.
struct Expected {
  std::vector<std::string> texts, settings;
  unsigned line = 0;
  int launches = 0;
};
Expected readExpected(const std::string &file) {
  Expected e;
  std::ifstream in(file);
  unsigned number = 0;
  auto after = [](const std::string &line, const std::string &mark) {
    return line.rfind(mark, 0) == 0 ? line.substr(mark.size()) : std::string();
  };
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (std::string text = after(line, "// EXPECT: "); !text.empty())
      e.texts.push_back(text);
    if (std::string text = after(line, "// SET: "); !text.empty())
      e.settings.push_back(text);
    if (std::string text = after(line, "// LAUNCHES: "); !text.empty())
      e.launches = std::stoi(text);
    if (line.size() >= 7 && line.compare(line.size() - 7, 7, "// HERE") == 0)
      e.line = number;
  }
  return e;
}

/// A kernel that is right, to see that the process goes on after an error.
constexpr auto good = kernel("good", [](Tensor<i32, 1> X) { X.store({0}, full<i32>({2}, 7)); });

/// A text as JSON.
std::string quoted(const std::string &text) {
  static const char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text)
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += std::string("\\u00") + digits[c >> 4] + digits[c & 15];
    else
      out += c;
  return out + "\"";
}

int launchesOfFakeDriver() {
  void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  auto state = library ? reinterpret_cast<FakeCudaStateFn *>(dlsym(library, "fakeCudaState")) : nullptr;
  return state ? state()->launches : -1;
}

/// "" if the process can go on after the error, else what is wrong.
std::string goOn(bool onGpu) {
  const Device host = Device::interpreter();
  Buffer<i32> x(host, 2);
  good(host.stream(), x);
  if (x.toHost() != std::vector<i32>{7, 7})
    return "the next kernel is wrong";
  if (!onGpu)
    return "";
  for (const char *name : {"FAKECUDA_FAIL", "FAKECUDA_FREE", "FAKECUDA_CAPTURE", "FAKECUDA_THREADS", "FAKECUDA_STATIC_SHARED"})
    unsetenv(name);
  Device gpu = host;
  try {
    gpu = Device::gpu(0);
  } catch (const UserError &) {
    return ""; // the error was about the GPU itself
  }
  const int before = launchesOfFakeDriver();
  try {
    Buffer<i32> y(gpu, 2);
    good(Stream(gpu), y);
  } catch (const UserError &e) {
    // Limits of the GPU and bad settings stay what they are; a kernel is launched or refused, never half.
    return launchesOfFakeDriver() == before && (e.rule() == "launch_limits" || e.rule() == "bad_ptxas")
               ? ""
               : std::string("the next kernel is refused: ") + e.what();
  }
  return launchesOfFakeDriver() == before + 1 ? "" : "the next kernel is not launched";
}

bool check(const Case &c, const Stream *stream, bool print) {
  const Expected want = readExpected(c.file);
  auto failed = [&](const std::string &what) {
    (print ? std::cerr : std::cout) << "FAILED " << c.file << ": " << what << "\n";
    return false;
  };
  if (want.texts.empty() || !want.line)
    return failed("no EXPECT or no HERE");
  try {
    if (c.runOnGpu)
      c.runOnGpu();
    else
      c.run(*stream);
  } catch (const UserError &e) {
    const int launches = c.runOnGpu ? launchesOfFakeDriver() : 0;
    const std::string text = e.what();
    if (print)
      std::cout << "{\"program\": " << quoted(baseName(c.file)) << ", \"rule\": " << quoted(e.rule())
                << ", \"message\": " << quoted(e.message()) << "}\n";
    bool ok = true;
    for (const std::string &part : want.texts)
      if (text.find(part) == std::string::npos)
        ok = failed("\"" + part + "\" is missing in\n  " + text);
    if (e.loc().line != want.line || baseName(e.loc().file) != baseName(c.file))
      ok = failed("line " + std::to_string(want.line) + " expected in\n  " + text);
    if (e.message().empty() || e.rule().empty() || e.wayOut().empty())
      ok = failed("a part is empty in\n  " + text);
    if (launches != want.launches)
      ok = failed(std::to_string(launches) + " kernels launched instead of " + std::to_string(want.launches));
    if (std::string wrong = goOn(c.runOnGpu); !wrong.empty())
      ok = failed(wrong);
    return ok;
  }
  return failed("no error");
}

/// Runs a case that needs an environment in a process of its own.
bool checkInChild(const Case &c, const std::vector<std::string> &settings, bool print) {
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    setenv("SECTILE_CACHE", "0", 1);
    if (c.runOnGpu) {
      setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1);
      setenv("SECTILE_PTXAS", "none", 1);
    }
    for (const std::string &s : settings)
      setenv(s.substr(0, s.find('=')).c_str(), s.substr(s.find('=') + 1).c_str(), 1);
    bool ok = false;
    try {
      const Stream stream = Device::interpreter().stream();
      ok = check(c, &stream, print);
    } catch (const std::exception &e) {
      std::cerr << "FAILED " << c.file << ": " << e.what() << "\n";
    }
    std::cout.flush();
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (child > 0 && WIFSIGNALED(status))
    std::cerr << "FAILED " << c.file << ": ended by signal " << WTERMSIG(status) << "\n";
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace

testing::WrongProgram::WrongProgram(const char *file, Run run) { cases().push_back({file, run, nullptr}); }
testing::WrongProgram::WrongProgram(const char *file, void (*runOnGpu)()) { cases().push_back({file, nullptr, runOnGpu}); }

int main(int argc, char **argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  const bool print = std::erase(names, "--print") > 0;
  int passed = 0, failed = 0;
  // First those in processes of their own, as long as this one has no thread.
  std::stable_partition(cases().begin(), cases().end(), [](const Case &c) {
    return c.runOnGpu || !readExpected(c.file).settings.empty();
  });
  for (const Case &c : cases()) {
    std::string name = baseName(c.file);
    name.resize(name.size() - 4); // .cpp
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end())
      continue;
    const Expected want = readExpected(c.file);
    bool ok;
    if (c.runOnGpu || !want.settings.empty()) {
      ok = checkInChild(c, want.settings, print);
    } else {
      const Stream stream = Device::interpreter().stream();
      ok = check(c, &stream, print);
    }
    ++(ok ? passed : failed);
  }
  if (!print)
    std::cout << passed << " passed, " << failed << " failed\n";
  return failed || !passed;
}
