// SPDX-License-Identifier: Apache-2.0
/// \file The library under test, behind plain C++: parse, interpret, lower, assemble.
#pragma once

#include "ir/base/Artifact.h"
#include "tests/numerics/Memory.h"

#include <memory>
#include <string>
#include <vector>

namespace sectile::numerics {

/// Runs the kernel's text on the interpreter; with `resolved`, after sectile-resolve-tails. Empty, or what
/// went wrong.
std::string interpret(const Kernel &kernel, const std::string &text, std::vector<Memory> &memory,
                      bool resolved);

struct Compiled {
  std::shared_ptr<const Artifact> artifact;
  std::vector<std::string> warnings; ///< C75xx of ptxas
  std::string problem;
  bool limit = false; ///< the problem is a limit of the target, said as a UserError
};
/// Lowers the kernel, specialised to these arguments, to PTX, and to a cubin if `assemble` and ptxas is
/// there. Any thread.
Compiled compile(const std::string &text, const std::vector<KernelArg> &args, const std::string &arch,
                 bool assemble);
/// Choices that passes take from a Config; 0: theirs.
struct Schedule {
  int warps = 0, cluster = 0, split = 0, stages = 1;
  int ahead = 0; ///< persistent, prefetch and evict
};
/// Lowers the kernel, specialised to these arguments, to final tgpu form and runs it thread by thread. Empty, or what
/// went wrong; `limit`: the schedule is refused for this kernel and target.
std::string runOnThreads(const std::string &text, const std::vector<KernelArg> &args, const std::string &arch,
                         const Schedule &schedule, bool &limit);
bool havePtxas();
std::vector<std::string> archNames();

/// Launches on GPU 0 with copies of `memory`, waits, and copies back.
void runOnGpu(const Compiled &code, const Kernel &kernel, std::vector<Memory> &memory);
int gpuCount();
std::string gpuArch();

} // namespace sectile::numerics
