// SPDX-License-Identifier: Apache-2.0
/// \file Copies of arguments that a launch makes so that the TMA unit can load them.
///
/// The unit wants rows that start at multiples of 16 bytes (PTX ISA, section Tensors). A product of tensors that lie
/// otherwise reads them element by element, many times over; copying them once to rows of such a pitch costs three times
/// their bytes.
#pragma once

#include "ir/base/Artifact.h"

#include <sectile/Export.h>

#include <optional>
#include <span>
#include <vector>

namespace sectile {

/// A launch's arguments with some tensors replaced by copies, which lie in one piece of memory.
class RepackedArgs {
public:
  /// One copy: `from` and `to` have rank 5 and the same dims, `to` has stride 1 along the last axis.
  struct Copy {
    KernelArg from, to;
  };

  /// Copies of those arguments for which they pay, by the bytes that all programs together load of them; of all, if
  /// `always`. None if no argument is to be copied: it shares memory with one that is written, say. Data pointers
  /// of the copies are offsets until place().
  static std::optional<RepackedArgs> choose(std::span<const Repack> wishes, std::span<const KernelArg> args,
                                            std::int64_t programs, bool always);

  /// Some argument lies otherwise than a copy would: choose() may find something. For every launch, so it is quick.
  static bool isWished(std::span<const Repack> wishes, std::span<const KernelArg> args);

  std::int64_t bytes() const { return total; }
  /// The memory of all copies, at a multiple of 128 bytes.
  void place(void *memory);
  std::span<const KernelArg> args() const { return all; }
  std::span<const Copy> copies() const { return made; }
  /// Indices of the arguments that are copies.
  std::span<const int> indices() const { return which; }

private:
  std::vector<KernelArg> all;
  std::vector<Copy> made;
  std::vector<int> which;
  std::int64_t total = 0;
};

} // namespace sectile
