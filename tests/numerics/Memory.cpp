// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Memory.h"

#include <cstring>

namespace sectile::numerics {

static constexpr std::int64_t guard = 512;

Memory::Memory(const Argument &a, std::mt19937_64 &random) : elementBytes(std::int64_t(byteSize(a.dtype))) {
  std::int64_t lowest = 0, highest = 0;
  bool empty = false;
  for (int d = 0; d < a.rank; ++d) {
    std::int64_t reach = (a.dims[std::size_t(d)] - 1) * a.strides[std::size_t(d)];
    empty |= a.dims[std::size_t(d)] == 0;
    (reach < 0 ? lowest : highest) += reach;
  }
  if (empty)
    lowest = 0, highest = -1;
  span = highest - lowest + 1;
  lowAt = guard + a.misalign;
  originAt = lowAt - lowest * elementBytes;
  std::int64_t total = lowAt + span * elementBytes + guard;
  chunks.resize(std::size_t((total + 255) / 256));
  std::memset(bytes().data(), 0xff, bytes().size());
  if (a.output || empty || a.rank < 0)
    return;
  // Coordinates in row-major order; those that share memory (stride 0) are written more than once.
  Shape at(std::size_t(a.rank), 0);
  for (std::int64_t n = 0;; ++n) {
    std::int64_t where = 0;
    for (std::size_t d = 0; d < at.size(); ++d)
      where += at[d] * a.strides[d];
    writeBits(bytes().data() + originAt + where * elementBytes, a.dtype, sample(a.dtype, a.fill, random, n));
    std::size_t d = at.size();
    for (; d > 0; --d) {
      if (++at[d - 1] < a.dims[d - 1])
        break;
      at[d - 1] = 0;
    }
    if (d == 0)
      return;
  }
}

std::vector<Memory> makeMemory(const Kernel &kernel, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Memory> memory;
  for (const Argument &a : kernel.arguments)
    memory.emplace_back(a, random);
  return memory;
}

std::vector<KernelArg> launchArguments(const Kernel &kernel, std::vector<Memory> &memory) {
  std::vector<KernelArg> list;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Argument &a = kernel.arguments[i];
    KernelArg arg;
    arg.dtype = a.dtype;
    arg.rank = a.rank;
    arg.scalar = a.bits;
    if (a.rank >= 0) {
      arg.readOnly = !a.output;
      arg.data = memory[i].bytes().data() + memory[i].origin();
      std::copy(a.dims.begin(), a.dims.end(), arg.dims.begin());
      std::copy(a.strides.begin(), a.strides.end(), arg.strides.begin());
    }
    list.push_back(arg);
  }
  return list;
}

} // namespace sectile::numerics
