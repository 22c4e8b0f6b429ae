// SPDX-License-Identifier: Apache-2.0
/// \file What a variant of a kernel was compiled for, and in what another one differs.
#pragma once

#include "ir/base/Artifact.h"

#include <sectile/Config.h>
#include <sectile/Kernel.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sectile {

/// Everything a launch tells the compiler of its arguments.
struct VariantFacts {
  std::string config;                   ///< every number chosen, "BC=1024 warps=8"
  std::vector<ArgSpec> specs;           ///< per argument
  bool apart = true;                    ///< the code may count on areApart()
  std::vector<std::uint64_t> constants; ///< per argument; 0 for tensors and run-time scalars
};

/// The facts of these arguments, with the numbers that the kernel has asked for. The key of a variant (Launch.cpp)
/// holds them all.
VariantFacts factsOf(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config &config);

/// Why `now` is not the variant `before`: "argument 0 axis 0: stride 1 modulo 8, was 0". Empty if nothing differs.
std::string differences(const VariantFacts &before, const VariantFacts &now);

} // namespace sectile
