// SPDX-License-Identifier: Apache-2.0
#include "dsl/Repack.h"

#include <algorithm>
#include <cstdint>

namespace sectile {
namespace {

/// A copy pays if all programs together load the tensor so many times: where threads would load it, and where the TMA unit
/// can but its rows start inside lines of memory (boxes of 4104 bf16 a row come at 0.77 of the rate of 4160, H200) ..
constexpr double leastReuse = 4, leastReuseOfLines = 24;
/// .. and so many bytes, beside the time of two more launches.
constexpr double leastLoaded = 16e6;
/// Bytes of all copies of a launch, at most.
constexpr std::int64_t mostBytes = std::int64_t(8) << 30;
/// Copies and their rows begin at multiples of a line of memory.
constexpr std::int64_t lineBytes = 128;

std::int64_t alignUp(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// How rows lie: at any place, at multiples of 16 bytes with stride 1 along `unit`, or of whole lines.
enum class Rows { Anywhere, Vectors, Lines };
Rows rowsOf(const KernelArg &a, int unit) {
  const auto size = static_cast<std::int64_t>(byteSize(a.dtype));
  std::uint64_t together = reinterpret_cast<std::uintptr_t>(a.data);
  for (int d = 0; d < a.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (a.dims[i] <= 1)
      continue;
    if (d != unit)
      together |= static_cast<std::uint64_t>(a.strides[i] * size);
    else if (a.strides[i] != 1)
      return Rows::Anywhere;
  }
  return together % lineBytes == 0 ? Rows::Lines : together % 16 == 0 ? Rows::Vectors : Rows::Anywhere;
}

/// How often all programs together load an element.
double reuseOf(const Repack &wish, const KernelArg &a, std::int64_t programs) {
  double reuse = static_cast<double>(programs);
  for (std::size_t d = 0; d < wish.box.size(); ++d)
    if (wish.box[d] > 0 && a.dims[d] > wish.box[d])
      reuse *= static_cast<double>(wish.box[d]) / static_cast<double>(a.dims[d]);
  return reuse;
}

/// The copy of a tensor: axis `unit` has stride 1, the others keep their order of strides; an axis of stride 0 stays one.
struct Layout {
  KernelArg to;
  std::int64_t bytes = 0;
  std::vector<int> order; ///< axes that are stepped along, slowest first, `unit` last
};
std::optional<Layout> layoutOf(const KernelArg &a, int unit) {
  Layout l{a, 0, {}};
  for (int d = 0; d < a.rank; ++d)
    if (d != unit && a.dims[static_cast<std::size_t>(d)] > 1 && a.strides[static_cast<std::size_t>(d)] != 0)
      l.order.push_back(d);
  auto step = [&](int d) {
    const std::int64_t s = a.strides[static_cast<std::size_t>(d)];
    return s < 0 ? -static_cast<__int128>(s) : static_cast<__int128>(s);
  };
  std::stable_sort(l.order.begin(), l.order.end(), [&](int x, int y) { return step(x) > step(y); });
  l.order.push_back(unit);
  const auto size = static_cast<std::int64_t>(byteSize(a.dtype));
  l.to.strides.fill(0);
  __int128 stride = 1;
  for (auto d = l.order.rbegin(); d != l.order.rend(); ++d) {
    const auto i = static_cast<std::size_t>(*d);
    l.to.strides[i] = static_cast<std::int64_t>(stride);
    stride *= a.dims[i];
    if (d == l.order.rbegin())
      stride = alignUp(static_cast<std::int64_t>(stride) * size, lineBytes) / size;
    if (stride * size > mostBytes)
      return std::nullopt;
  }
  l.bytes = static_cast<std::int64_t>(stride) * size;
  return l;
}

/// Source and copy with the same axes in the same order: rank 5, the slowest first.
RepackedArgs::Copy copyOf(const KernelArg &from, const Layout &l) {
  RepackedArgs::Copy c{from, l.to};
  c.from.rank = c.to.rank = maxRank;
  c.from.readOnly = true;
  c.to.readOnly = false;
  for (KernelArg *a : {&c.from, &c.to}) {
    const KernelArg old = *a;
    a->dims.fill(1);
    a->strides.fill(0);
    for (std::size_t i = 0; i < l.order.size(); ++i) {
      const auto to = static_cast<std::size_t>(maxRank) - l.order.size() + i, d = static_cast<std::size_t>(l.order[i]);
      a->dims[to] = old.dims[d];
      a->strides[to] = old.strides[d];
    }
  }
  return c;
}

} // namespace

bool RepackedArgs::isWished(std::span<const Repack> wishes, std::span<const KernelArg> args) {
  return std::any_of(wishes.begin(), wishes.end(), [&](const Repack &wish) {
    return rowsOf(args[static_cast<std::size_t>(wish.arg)], wish.unit) != Rows::Lines;
  });
}

std::optional<RepackedArgs> RepackedArgs::choose(std::span<const Repack> wishes, std::span<const KernelArg> args,
                                                 std::int64_t programs, bool always) {
  RepackedArgs r;
  r.all.assign(args.begin(), args.end());
  for (const Repack &wish : wishes) {
    const KernelArg &a = args[static_cast<std::size_t>(wish.arg)];
    const Rows rows = rowsOf(a, wish.unit);
    const MemoryRange range = memoryRange(a);
    if (rows == Rows::Lines)
      continue;
    if (!a.readOnly || range.last < range.first)
      continue;
    // What the kernel writes into a tensor it reads, it must read.
    if (std::any_of(args.begin(), args.end(),
                    [&](const KernelArg &o) { return o.isTensor() && !o.readOnly && memoryRange(o).overlaps(range); }))
      continue;
    auto layout = layoutOf(a, wish.unit);
    if (!layout || r.total + layout->bytes > mostBytes)
      continue;
    const double reuse = reuseOf(wish, a, programs);
    if (!always && (reuse < (rows == Rows::Vectors ? leastReuseOfLines : leastReuse) || reuse * static_cast<double>(layout->bytes) < leastLoaded))
      continue;
    layout->to.data = reinterpret_cast<void *>(static_cast<std::uintptr_t>(r.total));
    r.total += alignUp(layout->bytes, lineBytes);
    r.all[static_cast<std::size_t>(wish.arg)] = layout->to;
    r.made.push_back(copyOf(a, *layout));
    r.which.push_back(wish.arg);
  }
  if (r.made.empty())
    return std::nullopt;
  return r;
}

void RepackedArgs::place(void *memory) {
  auto move = [&](KernelArg &a) {
    a.data = static_cast<std::byte *>(memory) + reinterpret_cast<std::uintptr_t>(a.data);
  };
  for (int i : which)
    move(all[static_cast<std::size_t>(i)]);
  for (Copy &c : made)
    move(c.to);
}

} // namespace sectile
