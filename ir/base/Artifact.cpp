// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Artifact.h"

#include <algorithm>
#include <bit>

namespace sectile {

/// The largest power of two up to 16 that divides v; 16 for 0.
static std::uint8_t divisor(std::uint64_t v) { return std::uint8_t(1 << std::countr_zero(v | 16)); }

/// Elements of a line of memory: rows begin at one where a tile has room for that, see passes/AlignRows.
static int lineElements(DType dtype) { return std::max(1, 128 / int(byteSize(dtype))); }

int vectorElements(DType dtype) { return std::max(1, 16 / int(byteSize(dtype))); }

/// Whether all dims are below 2^31 and every element lies less than 2^31 bytes behind the pointer.
static bool fitsIn31Bits(const KernelArg &arg) {
  constexpr std::int64_t limit = std::int64_t(1) << 31;
  std::int64_t last = 0; // offset of the last element, in elements
  bool isEmpty = false;
  for (int d = 0; d < arg.rank; ++d) {
    if (arg.dims[d] >= limit)
      return false;
    isEmpty |= arg.dims[d] <= 0;
  }
  for (int d = 0; d < arg.rank && !isEmpty; ++d) {
    if (arg.dims[d] == 1 || arg.strides[d] == 0)
      continue;
    if (arg.strides[d] < 0 || arg.strides[d] >= limit)
      return false;
    last += (arg.dims[d] - 1) * arg.strides[d]; // below 2^62
    if (last >= limit)
      return false;
  }
  return last * std::int64_t(byteSize(arg.dtype)) < limit;
}

ArgSpec specialise(const KernelArg &arg) {
  ArgSpec spec;
  spec.strideDiv.fill(1);
  spec.dimDiv.fill(1);
  if (!arg.isTensor())
    return spec;
  spec.alignBytes = divisor(reinterpret_cast<std::uintptr_t>(arg.data));
  spec.small = fitsIn31Bits(arg);
  for (int d = 0; d < arg.rank; ++d) {
    // Along an axis of 0 or 1 elements nothing is ever stepped over, so its stride promises everything.
    bool shortAxis = arg.dims[d] <= 1;
    spec.dimDiv[d] = divisor(std::uint64_t(arg.dims[d]));
    spec.strideDiv[d] = shortAxis ? 16 : divisor(std::uint64_t(arg.strides[d]));
    spec.strideRem[d] =
        shortAxis ? 0 : std::uint8_t(std::uint64_t(arg.strides[d]) & std::uint64_t(vectorElements(arg.dtype) - 1));
    if (arg.strides[d] == 1 && (!shortAxis || spec.unitStrideAxis < 0 || arg.dims[spec.unitStrideAxis] <= 1))
      spec.unitStrideAxis = std::int8_t(d);
  }
  return spec;
}

MemoryRange memoryRange(const KernelArg &arg) {
  MemoryRange r;
  const auto bytes = static_cast<__int128>(byteSize(arg.dtype));
  r.first = static_cast<__int128>(reinterpret_cast<std::uintptr_t>(arg.data));
  r.last = r.first + bytes - 1;
  for (int d = 0; d < arg.rank; ++d) {
    if (arg.dims[d] <= 0)
      return {};
    const __int128 far = static_cast<__int128>(arg.dims[d] - 1) * arg.strides[d] * bytes;
    (far < 0 ? r.first : r.last) += far;
  }
  return r;
}

bool areApart(std::span<const KernelArg> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].isTensor() || args[i].readOnly)
      continue;
    const MemoryRange written = memoryRange(args[i]);
    for (size_t j = 0; j < args.size(); ++j)
      if (i != j && args[j].isTensor() && memoryRange(args[j]).overlaps(written))
        return false;
  }
  return true;
}

std::uint64_t packed(const ArgSpec &spec) {
  std::uint64_t word = std::uint64_t(spec.small) | std::uint64_t(spec.unitStrideAxis + 1) << 1 |
                       std::uint64_t(std::countr_zero(spec.alignBytes)) << 4;
  int shift = 7; // 10 bits an axis: two exponents up to 4 and a remainder up to 15
  for (size_t d = 0; d < size_t(maxRank); ++d, shift += 10)
    word |= (std::uint64_t(std::countr_zero(spec.strideDiv[d])) | std::uint64_t(std::countr_zero(spec.dimDiv[d])) << 3 |
             std::uint64_t(spec.strideRem[d]) << 6)
            << shift;
  return word;
}

bool hasSkewedRows(const KernelArg &arg, int axis) {
  if (arg.strides[size_t(axis)] != 1)
    return false;
  for (int d = 0; d < arg.rank; ++d)
    if (d != axis && arg.dims[size_t(d)] > 1 && arg.strides[size_t(d)] & (vectorElements(arg.dtype) - 1))
      return true;
  return false;
}

std::int64_t coverLength(const KernelArg &arg, int axis) {
  return arg.dims[size_t(axis)] + (hasSkewedRows(arg, axis) ? vectorElements(arg.dtype) - 1 : 0);
}

void boundDims(std::span<ArgSpec> specs, std::span<const KernelArg> args, std::span<const CoveredAxis> covers) {
  if (covers.empty())
    return;
  bool shifted = false;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].isTensor() && specs[i].unitStrideAxis >= 0)
      shifted |= specs[i].alignBytes < 16 || hasSkewedRows(args[i], specs[i].unitStrideAxis);
  auto bound = [&](size_t i, size_t d, std::int64_t tile) {
    // Room for a tile that begins at the start of a line of memory, or of a vector, before the row.
    std::int64_t dim = args[i].dims[d], most = tile;
    if (shifted)
      for (std::int64_t room : {lineElements(args[i].dtype), vectorElements(args[i].dtype)})
        if (most == tile && dim <= tile - (room - 1))
          most = tile - (room - 1);
    if (dim <= most && (specs[i].dimMax[d] == 0 || most < specs[i].dimMax[d]))
      specs[i].dimMax[d] = most;
  };
  for (const CoveredAxis &cover : covers) {
    for (size_t i = 0; i < args.size(); ++i)
      if (args[i].isTensor() && specs[i].unitStrideAxis >= 0)
        bound(i, size_t(specs[i].unitStrideAxis), cover.tile);
    bound(size_t(cover.arg), size_t(cover.axis), cover.tile);
  }
}

} // namespace sectile
