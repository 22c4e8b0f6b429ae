// SPDX-License-Identifier: Apache-2.0
/// \file Arguments that stand for the caller's while candidates are timed: the same dtypes, dims, strides, alignment and
/// overlaps, in memory of their own.
///
/// Tensors of floats hold normal numbers, tensors of integers and truth values what the caller's hold, for they may be
/// indices; scalars are the caller's.
#pragma once

#include "ir/base/Artifact.h"

#include <sectile/Export.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sectile::autotune {

/// A piece of memory that holds one tensor, or several that overlap.
struct ArgRegion {
  std::int64_t bytes = 0;
  int misalign = 0; ///< it begins so many bytes behind a multiple of 256
  bool written = false;
};

struct GeneratedArg {
  KernelArg arg;           ///< `data` says nothing
  int region = -1;         ///< -1: a scalar, or a tensor without elements
  std::int64_t offset = 0; ///< of element (0, ..) in the region, in bytes
  std::int64_t first = 0, bytes = 0; ///< the span of all elements in the region
  std::string copied;      ///< its bytes, for tensors that are no floats
};

class SECTILE_API GeneratedArgs {
public:
  /// For the caller's arguments; `copy` fetches bytes of the caller's memory (a tensor that it cannot fetch is zeros).
  /// Tensors without memory (null) are taken to lie apart at multiples of 256 bytes.
  static GeneratedArgs forCall(std::span<const KernelArg> args,
                               const std::function<bool(const void *from, void *to, std::int64_t bytes)> &copy);
  /// The same with every length over `bound` cut to `bound` + (length modulo `bound`), so that what divides it still does;
  /// rows keep their order and what their strides are modulo 16 bytes. `keep` lists axes (argument, axis) that stay whole.
  GeneratedArgs shrunk(std::int64_t bound, std::span<const std::pair<int, int>> keep) const;

  /// What a region holds at first: the same in every process.
  std::vector<std::uint8_t> image(int region) const;
  /// Arguments whose regions lie at these addresses.
  std::vector<KernelArg> at(std::span<void *const> regions) const;

  /// As text with its copied bytes behind it, and back. nullopt for anything else.
  std::string serialize() const;
  static std::optional<GeneratedArgs> deserialize(std::string_view bytes);

  std::vector<ArgRegion> regions;
  std::vector<GeneratedArg> args;
};

/// How far two results of one kernel are apart.
struct Difference {
  bool wrong = false;
  std::string text; ///< "argument 2: 12 of 4096 elements, at 7: 1.5 instead of 0.25"
};
/// Compares the written tensors of two runs: `got[i]` and `want[i]` are the bytes of region i (empty where it is not
/// written). Floats may differ by what another order of sums does: a few units in the last place of the element, and of
/// the tensor's own size; integers by one in one element of a thousand; truth values not at all.
SECTILE_API Difference compareResults(const GeneratedArgs &args, std::span<const std::vector<std::uint8_t>> got,
                                      std::span<const std::vector<std::uint8_t>> want);

} // namespace sectile::autotune
