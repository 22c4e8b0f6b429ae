// SPDX-License-Identifier: Apache-2.0
/// \file Memory of a kernel's arguments: poisoned with 0xFF wherever no input lies, with guard bytes on both
/// sides.
#pragma once

#include "tests/numerics/Kernel.h"

#include <sectile/KernelArg.h>

#include <span>

namespace sectile::numerics {

/// Memory of one tensor. A copy on a device whose start is a multiple of 256 has the same alignments.
class Memory {
public:
  Memory(const Argument &argument, std::mt19937_64 &random);

  std::span<std::uint8_t> bytes() { return {chunks.front().byte, chunks.size() * sizeof(Chunk)}; }
  std::span<const std::uint8_t> bytes() const { return {chunks.front().byte, chunks.size() * sizeof(Chunk)}; }
  /// Of the element at coordinate 0, in bytes from the start.
  std::int64_t origin() const { return originAt; }
  /// Elements from the lowest to the highest; element n of them lies at byte lowestAt() + n * size.
  std::int64_t elements() const { return span; }
  std::int64_t lowestAt() const { return lowAt; }
  /// Number, among elements(), of the element at coordinate 0.
  std::int64_t originElement() const { return (originAt - lowAt) / elementBytes; }

private:
  struct alignas(256) Chunk {
    std::uint8_t byte[256];
  };
  std::vector<Chunk> chunks;
  std::int64_t lowAt = 0, originAt = 0, span = 0, elementBytes = 1;
};

/// The memory of all arguments (scalars have an empty one) from one seed.
std::vector<Memory> makeMemory(const Kernel &kernel, std::uint64_t seed);
/// Arguments as a launch takes them, their data in `memory`.
std::vector<KernelArg> launchArguments(const Kernel &kernel, std::vector<Memory> &memory);

} // namespace sectile::numerics
