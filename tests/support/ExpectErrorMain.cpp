// SPDX-License-Identifier: Apache-2.0
// Runs wrong programs (see ExpectError.h): all of them, or those whose base names are given.
#include "tests/support/ExpectError.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using namespace sectile;

namespace {

struct Case {
  std::string file;
  testing::WrongProgram::Run run;
};
std::vector<Case> &cases() {
  static std::vector<Case> list;
  return list;
}

std::string baseName(const std::string &path) { return path.substr(path.rfind('/') + 1); }

/// What the file says of its error.
struct Expected {
  std::vector<std::string> texts;
  unsigned line = 0;
};
Expected readExpected(const std::string &file) {
  Expected e;
  std::ifstream in(file);
  unsigned number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (const std::string mark = "// EXPECT: "; line.rfind(mark, 0) == 0)
      e.texts.push_back(line.substr(mark.size()));
    if (line.size() >= 7 && line.compare(line.size() - 7, 7, "// HERE") == 0)
      e.line = number;
  }
  return e;
}

/// A kernel that is right, to see that the process goes on after an error.
constexpr auto good = kernel("good", [](Tensor<i32, 1> X) { X.store({0}, full<i32>({2}, 7)); });

bool check(const Case &c, const Stream &stream) {
  const Expected want = readExpected(c.file);
  if (want.texts.empty() || !want.line) {
    std::cout << "FAILED " << c.file << ": no EXPECT or no HERE\n";
    return false;
  }
  try {
    c.run(stream);
  } catch (const UserError &e) {
    const std::string text = e.what();
    bool ok = true;
    for (const std::string &part : want.texts)
      if (text.find(part) == std::string::npos) {
        std::cout << "FAILED " << c.file << ": \"" << part << "\" is missing in\n  " << text << "\n";
        ok = false;
      }
    if (e.loc().line != want.line || baseName(e.loc().file) != baseName(c.file)) {
      std::cout << "FAILED " << c.file << ": line " << want.line << " expected in\n  " << text << "\n";
      ok = false;
    }
    if (e.message().empty() || e.rule().empty() || e.wayOut().empty()) {
      std::cout << "FAILED " << c.file << ": a part is empty in\n  " << text << "\n";
      ok = false;
    }
    Buffer<i32> x(stream.device(), 2);
    good(stream, x);
    if (x.toHost() != std::vector<i32>{7, 7}) {
      std::cout << "FAILED " << c.file << ": the next kernel is wrong\n";
      ok = false;
    }
    return ok;
  }
  std::cout << "FAILED " << c.file << ": no error\n";
  return false;
}

} // namespace

testing::WrongProgram::WrongProgram(const char *file, Run run) { cases().push_back({file, run}); }

int main(int argc, char **argv) {
  const Stream stream = Device::interpreter().stream();
  const std::vector<std::string> names(argv + 1, argv + argc);
  int passed = 0, failed = 0;
  for (const Case &c : cases()) {
    std::string name = baseName(c.file);
    name.resize(name.size() - 4); // .cpp
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end())
      continue;
    ++(check(c, stream) ? passed : failed);
  }
  std::cout << passed << " passed, " << failed << " failed\n";
  return failed || !passed;
}
