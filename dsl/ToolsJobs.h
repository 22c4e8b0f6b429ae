// SPDX-License-Identifier: Apache-2.0
/// \file Kernels of shared libraries with arguments of some shape, as `sectile tune` and `sectile build` take them.
#pragma once

#include "dsl/ToolArgs.h"

#include <sectile/Kernel.h>

#include <string>
#include <vector>

namespace sectile::tools {

/// A kernel with arguments of one shape.
struct Job {
  std::string text, place; ///< as written; "jobs.txt:3" or "the command line"
  std::string kernel;
  std::vector<std::string> words;
};

/// The arguments of a job. Tensors of floats have no memory: their numbers are generated where they are needed.
struct JobArgs {
  std::vector<ToolArg> made;
  std::vector<KernelArg> args;
};

/// Loads shared libraries with kernels that publish() makes known. UserError [tune_load].
void loadLibraries(const std::vector<std::string> &libraries);
/// The names of all published kernels, a line each.
std::string publishedList();
/// The jobs of a file (`-`: standard input; empty: none), a kernel and its arguments per line, and of a kernel by name with its
/// arguments (empty: none). UserError [tune_jobs] for none, or a file that cannot be read; `verb` is what there is to do.
std::vector<Job> readJobs(const std::string &file, const std::string &kernel, const std::vector<std::string> &args, const std::string &verb);
/// UserError [tune_kernel] for a name that no kernel is published under.
detail::KernelDesc kernelOf(const Job &job);
/// UserErrors [tune_args], [tool_arg] for arguments that are not the kernel's.
JobArgs parseArgs(const Job &job, const detail::KernelDesc &kernel);

} // namespace sectile::tools
