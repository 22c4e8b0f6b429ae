// SPDX-License-Identifier: Apache-2.0
/// \file What tuning found, as one HTML file with its drawings in it.
#pragma once

#include <sectile/Tuner.h>

#include <span>
#include <string>

namespace sectile::tools {

/// One kernel with one shape.
struct ReportJob {
  std::string kernel, shape;
  TuneResult result;
  std::string error; ///< not empty: nothing was found
};

/// An HTML file that needs no other: per GPU the candidates over the roofline (of kernels without products over the memory's
/// bandwidth), a table of the shapes with the winner and its distance to the bound, and per shape every candidate with its
/// interval, the model's prediction, and why others are out.
std::string tuneReport(std::span<const ReportJob> jobs);

} // namespace sectile::tools
