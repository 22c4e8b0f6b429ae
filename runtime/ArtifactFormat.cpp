// SPDX-License-Identifier: Apache-2.0
/// \file Artifact to bytes and back. Integers are 64-bit little-endian, texts are a length and their bytes,
/// lists a count and their elements.
#include "runtime/KernelCache.h"

#include <cstring>

namespace sectile::runtime {
namespace {

class Writer {
public:
  std::string bytes;
  void put(std::int64_t v) { bytes.append(reinterpret_cast<const char *>(&v), sizeof v); }
  void put(const LaunchNumber &n) {
    put(n.arg);
    put(n.axis);
    put(n.value);
  }
  void put(const std::string &s) {
    put(static_cast<std::int64_t>(s.size()));
    bytes += s;
  }
};

/// Reads what Writer wrote; after the first thing that does not fit, `good` is false and all values are
/// empty.
class Reader {
public:
  explicit Reader(std::string_view bytes) : rest(bytes) {}
  bool good = true;
  bool atEnd() const { return rest.empty(); }

  std::int64_t number() {
    std::int64_t v = 0;
    if (!take(sizeof v))
      return 0;
    std::memcpy(&v, taken.data(), sizeof v);
    return v;
  }
  /// A number that fits an int.
  int small() {
    std::int64_t v = number();
    good &= v == static_cast<int>(v);
    return good ? static_cast<int>(v) : 0;
  }
  std::string text() {
    std::int64_t length = number();
    return take(length) ? std::string(taken) : std::string();
  }
  LaunchNumber launchNumber() {
    LaunchNumber n;
    n.arg = small();
    n.axis = small();
    n.value = number();
    return n;
  }
  /// The count of a list whose elements take at least `elementBytes` each.
  std::int64_t count(std::size_t elementBytes) {
    std::int64_t n = number();
    good &= n >= 0 && static_cast<std::uint64_t>(n) <= rest.size() / elementBytes;
    return good ? n : 0;
  }

private:
  bool take(std::int64_t length) {
    good = good && length >= 0 && static_cast<std::uint64_t>(length) <= rest.size();
    if (!good)
      return false;
    taken = rest.substr(0, length);
    rest.remove_prefix(length);
    return true;
  }
  std::string_view rest, taken;
};

} // namespace

std::string serialize(const Artifact &a) {
  Writer w;
  w.put(a.launch.symbol);
  w.put(static_cast<std::int64_t>(a.launch.grid.size()));
  for (const GridAxis &g : a.launch.grid) {
    w.put(g.arg);
    w.put(g.axis);
    w.put(g.tile);
  }
  w.put(a.launch.threads);
  w.put(a.launch.cluster);
  w.put(a.launch.sharedBytes);
  w.put(static_cast<std::int64_t>(a.launch.argRanks.size()));
  for (int rank : a.launch.argRanks)
    w.put(rank);
  const LaunchSplit &split = a.launch.split;
  w.put(split.possible);
  w.put(split.lower);
  w.put(split.upper);
  w.put(split.step);
  w.put(split.minTrips);
  w.put(split.parts);
  w.put(split.partBytes);
  w.put(split.stream);
  w.put(split.tripCycles);
  w.put(static_cast<std::int64_t>(a.launch.maps.size()));
  for (const TensorMap &m : a.launch.maps) {
    w.put(m.arg);
    w.put(static_cast<std::int64_t>(m.dtype));
    w.put(static_cast<std::int64_t>(m.order.size()));
    for (int axis : m.order)
      w.put(axis);
    for (int length : m.box)
      w.put(length);
    w.put(m.swizzle);
    w.put(m.tf32);
    for (const std::string &limit : m.limits)
      w.put(limit);
  }
  w.put(static_cast<std::int64_t>(a.launch.repacks.size()));
  for (const Repack &p : a.launch.repacks) {
    w.put(p.arg);
    w.put(p.unit);
    w.put(static_cast<std::int64_t>(p.box.size()));
    for (std::int64_t length : p.box)
      w.put(length);
  }
  w.put(a.launch.assumesApart);
  w.put(a.launch.persistent);
  w.put(a.arch);
  w.put(a.ptx);
  w.put(a.cubin);
  w.put(a.ptxasLog);
  w.put(a.registers);
  w.put(a.spillBytes);
  return std::move(w.bytes);
}

std::optional<Artifact> deserialize(std::string_view bytes) {
  Reader r(bytes);
  Artifact a;
  a.launch.symbol = r.text();
  for (std::int64_t n = r.count(24); n > 0; --n) {
    GridAxis g;
    g.arg = r.small();
    g.axis = r.small();
    g.tile = r.number();
    a.launch.grid.push_back(g);
  }
  a.launch.threads = r.small();
  a.launch.cluster = r.small();
  a.launch.sharedBytes = r.number();
  for (std::int64_t n = r.count(8); n > 0; --n)
    a.launch.argRanks.push_back(r.small());
  LaunchSplit &split = a.launch.split;
  split.possible = r.number() != 0;
  split.lower = r.launchNumber();
  split.upper = r.launchNumber();
  split.step = r.launchNumber();
  split.minTrips = r.number();
  split.parts = r.number();
  split.partBytes = r.number();
  split.stream = r.number() != 0;
  split.tripCycles = r.number();
  for (std::int64_t n = r.count(32); n > 0; --n) {
    TensorMap m;
    m.arg = r.small();
    m.dtype = static_cast<DType>(r.small());
    const std::int64_t rank = r.count(24);
    for (std::int64_t i = 0; i < rank; ++i)
      m.order.push_back(r.small());
    for (std::int64_t i = 0; i < rank; ++i)
      m.box.push_back(r.small());
    m.swizzle = r.small();
    m.tf32 = r.number() != 0;
    for (std::int64_t i = 0; i < rank; ++i)
      m.limits.push_back(r.text());
    a.launch.maps.push_back(std::move(m));
  }
  for (std::int64_t n = r.count(24); n > 0; --n) {
    Repack p;
    p.arg = r.small();
    p.unit = r.small();
    for (std::int64_t rank = r.count(8); rank > 0; --rank)
      p.box.push_back(r.number());
    a.launch.repacks.push_back(std::move(p));
  }
  a.launch.assumesApart = r.number() != 0;
  a.launch.persistent = r.number() != 0;
  a.arch = r.text();
  a.ptx = r.text();
  a.cubin = r.text();
  a.ptxasLog = r.text();
  a.registers = r.small();
  a.spillBytes = r.small();
  if (!r.good || !r.atEnd())
    return std::nullopt;
  return a;
}

} // namespace sectile::runtime
