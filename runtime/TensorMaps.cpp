// SPDX-License-Identifier: Apache-2.0
#include "runtime/TensorMaps.h"
#include "runtime/Split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace sectile::runtime {
namespace {

/// CUtensorMapDataType; types of one byte travel as bytes.
int dataType(DType t) {
  switch (t) {
  case DType::f16:
    return 6;
  case DType::f32:
    return 7;
  case DType::f64:
    return 8;
  case DType::bf16:
    return 9;
  default:
    switch (byteSize(t)) {
    case 1:
      return 0;
    case 2:
      return 1;
    case 4:
      return 2;
    default:
      return 4;
    }
  }
}

/// Memory that a map without elements may touch: its one element. Maps of stores write it, so loads have another.
CuDevicePtr scratch(const Driver &driver, const detail::StreamImpl &stream, bool written, std::source_location loc) {
  static std::mutex mutex;
  static auto *pages = new std::map<std::pair<std::uint64_t, bool>, CuDevicePtr>;
  std::lock_guard lock(mutex);
  CuDevicePtr &page = (*pages)[{stream.contextId, written}];
  if (!page)
    page = zeroedMemory(driver, stream, 256, loc);
  return page;
}

bool sameTensors(std::span<const KernelArg> a, std::span<const KernelArg> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const KernelArg &x, const KernelArg &y) {
    return x.data == y.data && x.rank == y.rank && x.dims == y.dims && x.strides == y.strides && x.scalar == y.scalar;
  });
}

struct LastMaps {
  std::uint64_t serial = 0, context = 0;
  std::vector<KernelArg> args;
  std::vector<std::byte> maps;
};

} // namespace

EncodedBox boxOf(const TensorMap &map, std::span<const LaunchExpr> limits, std::span<const KernelArg> args) {
  const KernelArg &a = args[static_cast<std::size_t>(map.arg)];
  const std::uint64_t bytes = byteSize(a.dtype);
  EncodedBox e;
  constexpr int tfloat32 = 11;
  e.dtype = map.tf32 ? tfloat32 : dataType(a.dtype);
  e.rank = static_cast<unsigned>(map.order.size());
  e.address = a.data;
  e.swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : map.swizzle == 32 ? 1 : 0;
  for (std::size_t i = 0; i < map.order.size(); ++i) {
    const auto axis = static_cast<std::size_t>(map.order[i]);
    const std::int64_t dim = std::min(a.dims[axis], limits[axis].evaluate(args));
    e.empty |= dim <= 0;
    e.dims[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(dim, 1));
    e.box[i] = static_cast<std::uint32_t>(map.box[i]);
    e.steps[i] = 1;
    if (i == 0)
      continue;
    // An axis of one element is never stepped along: any stride will do.
    e.strides[i - 1] = e.dims[i] == 1 ? 16 : static_cast<std::uint64_t>(a.strides[axis]) * bytes;
  }
  if (e.empty)
    for (unsigned i = 0; i < e.rank; ++i) {
      e.dims[i] = 1;
      if (i)
        e.strides[i - 1] = 16;
    }
  return e;
}

void writeTensorMaps(const Driver &driver, const Module &module, std::span<const KernelArg> args,
                     const detail::StreamImpl &stream, std::byte *out, std::source_location loc) {
  const LaunchInfo &info = module.artifact().launch;
  static thread_local LastMaps last;
  if (last.serial != module.serial() || last.context != stream.contextId || !sameTensors(last.args, args)) {
    last.serial = 0;
    last.maps.resize(info.maps.size() * tensorMapBytes);
    for (std::size_t i = 0; i < info.maps.size(); ++i) {
      const TensorMap &map = info.maps[i];
      EncodedBox e = boxOf(map, module.mapLimits()[i], args);
      if (e.empty)
        e.address = reinterpret_cast<void *>(
            scratch(driver, stream, !args[static_cast<std::size_t>(map.arg)].readOnly, loc));
      alignas(tensorMapAlignment) std::byte encoded[tensorMapBytes];
      constexpr int noInterleave = 0, promote128 = 2, fillZero = 0;
      CuResult result = driver.call.tensorMapEncodeTiled(encoded, e.dtype, e.rank, e.address, e.dims, e.strides, e.box,
                                                         e.steps, noInterleave, e.swizzle, promote128, fillZero);
      if (result != cuSuccess)
        throw InternalError(fmt::format(
            "kernel {}: cuTensorMapEncodeTiled gives {} for argument {}: address {}, type {}, dims [{}], strides in "
            "bytes [{}], box [{}], swizzle {}",
            module.kernel(), result, map.arg, e.address, e.dtype, fmt::join(e.dims, e.dims + e.rank, ", "),
            fmt::join(e.strides, e.strides + e.rank - 1, ", "), fmt::join(e.box, e.box + e.rank, ", "), e.swizzle));
      std::memcpy(last.maps.data() + i * tensorMapBytes, encoded, tensorMapBytes);
    }
    last.args.assign(args.begin(), args.end());
    last.context = stream.contextId;
    last.serial = module.serial();
  }
  std::memcpy(out, last.maps.data(), last.maps.size());
}

} // namespace sectile::runtime
