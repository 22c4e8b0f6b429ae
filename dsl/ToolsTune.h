// SPDX-License-Identifier: Apache-2.0
/// \file `sectile tune`: tunes kernels of a shared library for shapes that a file or flags name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace sectile::tools {

struct TuneToolOptions {
  std::vector<std::string> libraries, args, only, devices;
  std::string kernel, jobsFile, json, html, verify = "finalists";
  double budget = 1;
  bool exhaustive = false, again = false, progress = false, list = false;
};

/// The place of this process among those that a launcher such as mpirun or srun has started.
struct RankPlace {
  int rank = 0, size = 1;
  int local = 0; ///< among those of this machine
};
/// From OMPI_COMM_WORLD_*, PMI_*, SLURM_*; one process where none is set. UserError [tune_rank] for numbers that are none.
RankPlace rankFromEnvironment();

/// Declares the options of `sectile tune`.
void addTuneOptions(CLI::App &app, TuneToolOptions &options);
/// Tunes this rank's share of the jobs. Exit status 0, or 1 when a job failed, which is then said on stderr.
int tuneFile(const TuneToolOptions &options);

} // namespace sectile::tools
