// SPDX-License-Identifier: Apache-2.0
#include "autotune/TuneArgs.h"

#include "ir/base/Scalar.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

namespace sectile::autotune {
namespace {

using nlohmann::json;

constexpr std::int64_t regionAlign = 256;
/// Normal numbers repeat after so many, a prime: rows of no usual length look alike.
constexpr std::size_t normalPeriod = 65521;

std::int64_t elementBytes(const KernelArg &a) { return static_cast<std::int64_t>(byteSize(a.dtype)); }

/// The bytes from the lowest to behind the highest element, and where element (0, ..) lies in them.
struct Span {
  std::int64_t bytes = 0, origin = 0;
};
Span spanOf(const KernelArg &a) {
  std::int64_t low = 0, high = 0;
  for (int d = 0; d < a.rank; ++d) {
    const std::int64_t dim = a.dims[static_cast<std::size_t>(d)], reach = (dim - 1) * a.strides[static_cast<std::size_t>(d)];
    if (dim <= 0)
      return {};
    (reach < 0 ? low : high) += reach;
  }
  return {(high - low + 1) * elementBytes(a), -low * elementBytes(a)};
}

bool isCopied(DType dtype) { return !isFloat(dtype); } // so are scales

/// One period of normal numbers of a dtype.
const std::vector<std::uint8_t> &normalBlock(DType dtype) {
  static std::mutex mutex;
  static auto *blocks = new std::map<DType, std::vector<std::uint8_t>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::uint8_t> &block = (*blocks)[dtype];
  if (block.empty()) {
    std::mt19937_64 engine(0x5EC71E);
    std::normal_distribution<float> normal;
    const std::size_t size = byteSize(dtype);
    block.resize(normalPeriod * size);
    for (std::size_t i = 0; i < normalPeriod; ++i) {
      const float v = normal(engine);
      detail::visitAnyDType(dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        if constexpr (detail::FloatElement<T>) {
          const T element = T(v);
          std::memcpy(block.data() + i * size, &element, size);
        }
      });
    }
  }
  return block;
}

} // namespace

GeneratedArgs GeneratedArgs::forCall(std::span<const KernelArg> callArgs,
                                     const std::function<bool(const void *, void *, std::int64_t)> &copy) {
  GeneratedArgs out;
  struct Interval {
    std::uintptr_t low = 0, high = 0;
    bool written = false;
    std::vector<std::size_t> members;
  };
  std::vector<Interval> intervals;
  std::vector<Span> spans;
  for (std::size_t i = 0; i < callArgs.size(); ++i) {
    const KernelArg &a = callArgs[i];
    out.args.push_back({a, -1, 0, 0, 0, {}});
    spans.push_back(a.isTensor() ? spanOf(a) : Span());
    if (spans[i].bytes == 0)
      continue;
    const std::uintptr_t low = a.data ? reinterpret_cast<std::uintptr_t>(a.data) - static_cast<std::uintptr_t>(spans[i].origin) : 0;
    intervals.push_back({low, low + static_cast<std::uintptr_t>(spans[i].bytes), !a.readOnly, {i}});
  }
  // Those that overlap become one, tensors without memory stay alone.
  std::stable_sort(intervals.begin(), intervals.end(), [](const Interval &a, const Interval &b) { return a.low < b.low; });
  std::vector<Interval> merged;
  for (Interval &v : intervals) {
    if (!merged.empty() && v.low && merged.back().low && v.low < merged.back().high) {
      Interval &m = merged.back();
      m.high = std::max(m.high, v.high);
      m.written = m.written || v.written;
      m.members.insert(m.members.end(), v.members.begin(), v.members.end());
    } else {
      merged.push_back(std::move(v));
    }
  }
  for (const Interval &v : merged) {
    for (std::size_t i : v.members) {
      GeneratedArg &g = out.args[i];
      const std::uintptr_t low = g.arg.data ? reinterpret_cast<std::uintptr_t>(g.arg.data) - static_cast<std::uintptr_t>(spans[i].origin) : 0;
      g.region = static_cast<int>(out.regions.size());
      g.first = static_cast<std::int64_t>(low - v.low);
      g.bytes = spans[i].bytes;
      g.offset = g.first + spans[i].origin;
      if (isCopied(g.arg.dtype)) {
        g.copied.assign(static_cast<std::size_t>(g.bytes), '\0');
        if (!g.arg.data || !copy || !copy(reinterpret_cast<const void *>(low), g.copied.data(), g.bytes))
          g.copied.assign(static_cast<std::size_t>(g.bytes), '\0');
      }
    }
    out.regions.push_back({static_cast<std::int64_t>(v.high - v.low), static_cast<int>(v.low % regionAlign), v.written});
  }
  for (GeneratedArg &g : out.args)
    g.arg.data = nullptr;
  return out;
}

GeneratedArgs GeneratedArgs::shrunk(std::int64_t bound, std::span<const std::pair<int, int>> keep) const {
  std::vector<KernelArg> small;
  for (std::size_t i = 0; i < args.size(); ++i) {
    KernelArg a = args[i].arg;
    std::vector<int> order(static_cast<std::size_t>(std::max(0, a.rank)));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
      return std::abs(a.strides[static_cast<std::size_t>(x)]) < std::abs(a.strides[static_cast<std::size_t>(y)]);
    });
    const std::int64_t lane = 16 / std::min<std::int64_t>(16, elementBytes(a));
    std::int64_t next = 1;
    for (int d : order) {
      std::int64_t &dim = a.dims[static_cast<std::size_t>(d)], &stride = a.strides[static_cast<std::size_t>(d)];
      const bool whole = std::find(keep.begin(), keep.end(), std::pair(static_cast<int>(i), d)) != keep.end();
      if (!whole && dim > bound)
        dim = bound + dim % bound;
      if (stride == 0)
        continue;
      std::int64_t step = std::abs(stride);
      if (next > 1 || step > 1) { // at least behind the axes inside, at the same place of a vector
        std::int64_t at = next;
        while (at % lane != step % lane)
          ++at;
        step = std::min(at, step);
      }
      next = std::max(next, step * std::max<std::int64_t>(1, dim));
      stride = stride < 0 ? -step : step;
    }
    small.push_back(a);
  }
  GeneratedArgs out = forCall(small, nullptr);
  for (std::size_t i = 0; i < args.size(); ++i) {
    GeneratedArg &g = out.args[i];
    if (g.region < 0)
      continue;
    // Alignment as in the original; of integers the elements that are left.
    out.regions[static_cast<std::size_t>(g.region)].misalign =
        static_cast<int>((regions[static_cast<std::size_t>(args[i].region)].misalign + args[i].first) % regionAlign);
    if (!isCopied(g.arg.dtype))
      continue;
    std::array<std::int64_t, maxRank> at{};
    const std::int64_t size = elementBytes(g.arg);
    for (bool more = true; more;) {
      std::int64_t from = args[i].offset - args[i].first, to = g.offset - g.first;
      for (int d = 0; d < g.arg.rank; ++d) {
        from += at[static_cast<std::size_t>(d)] * args[i].arg.strides[static_cast<std::size_t>(d)] * size;
        to += at[static_cast<std::size_t>(d)] * g.arg.strides[static_cast<std::size_t>(d)] * size;
      }
      std::memcpy(g.copied.data() + to, args[i].copied.data() + from, static_cast<std::size_t>(size));
      more = false;
      for (int d = g.arg.rank; d-- > 0 && !more;) {
        more = ++at[static_cast<std::size_t>(d)] < g.arg.dims[static_cast<std::size_t>(d)];
        if (!more)
          at[static_cast<std::size_t>(d)] = 0;
      }
    }
  }
  return out;
}

std::vector<std::uint8_t> GeneratedArgs::image(int region) const {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(regions[static_cast<std::size_t>(region)].bytes));
  for (std::size_t i = 0; i < args.size(); ++i) {
    const GeneratedArg &g = args[i];
    if (g.region != region)
      continue;
    std::uint8_t *to = bytes.data() + g.first;
    if (isCopied(g.arg.dtype)) {
      std::memcpy(to, g.copied.data(), g.copied.size());
      continue;
    }
    // Each argument starts at another place of the period.
    const std::vector<std::uint8_t> &block = normalBlock(g.arg.dtype);
    const std::size_t size = byteSize(g.arg.dtype);
    std::size_t at = (i * 9973 % normalPeriod) * size;
    for (std::int64_t done = 0; done < g.bytes;) {
      const std::int64_t n = std::min(g.bytes - done, static_cast<std::int64_t>(block.size() - at));
      std::memcpy(to + done, block.data() + at, static_cast<std::size_t>(n));
      done += n;
      at = 0;
    }
  }
  return bytes;
}

std::vector<KernelArg> GeneratedArgs::at(std::span<void *const> places) const {
  std::vector<KernelArg> out;
  for (const GeneratedArg &g : args) {
    out.push_back(g.arg);
    if (g.region >= 0)
      out.back().data = static_cast<std::uint8_t *>(places[static_cast<std::size_t>(g.region)]) + g.offset;
  }
  return out;
}

std::string GeneratedArgs::serialize() const {
  json list = json::array(), places = json::array();
  std::string blob;
  for (const ArgRegion &r : regions)
    places.push_back({r.bytes, r.misalign, r.written});
  for (const GeneratedArg &g : args) {
    json a = {{"dtype", static_cast<int>(g.arg.dtype)}, {"rank", g.arg.rank}, {"readOnly", g.arg.readOnly},
              {"scalar", g.arg.scalar}, {"dims", g.arg.dims}, {"strides", g.arg.strides}, {"region", g.region},
              {"offset", g.offset}, {"first", g.first}, {"bytes", g.bytes}, {"copied", g.copied.size()}};
    list.push_back(std::move(a));
    blob += g.copied;
  }
  std::string head = json{{"regions", places}, {"args", list}}.dump();
  return fmt::format("{}\n{}{}", head.size(), head, blob);
}

std::optional<GeneratedArgs> GeneratedArgs::deserialize(std::string_view bytes) {
  try {
    const std::size_t line = bytes.find('\n');
    if (line == std::string_view::npos)
      return std::nullopt;
    const std::size_t size = std::stoull(std::string(bytes.substr(0, line)));
    if (bytes.size() < line + 1 + size)
      return std::nullopt;
    const json head = json::parse(bytes.substr(line + 1, size));
    std::string_view blob = bytes.substr(line + 1 + size);
    GeneratedArgs out;
    for (const json &r : head.at("regions"))
      out.regions.push_back({r.at(0), r.at(1), r.at(2)});
    for (const json &a : head.at("args")) {
      GeneratedArg g;
      g.arg.dtype = static_cast<DType>(a.at("dtype").get<int>());
      g.arg.rank = a.at("rank");
      g.arg.readOnly = a.at("readOnly");
      g.arg.scalar = a.at("scalar");
      g.arg.dims = a.at("dims");
      g.arg.strides = a.at("strides");
      g.region = a.at("region");
      g.offset = a.at("offset");
      g.first = a.at("first");
      g.bytes = a.at("bytes");
      const std::size_t copied = a.at("copied");
      if (copied > blob.size() || g.region >= static_cast<int>(out.regions.size()))
        return std::nullopt;
      g.copied = blob.substr(0, copied);
      blob.remove_prefix(copied);
      out.args.push_back(std::move(g));
    }
    return out;
  } catch (const std::exception &) {
    return std::nullopt;
  }
}

namespace {

/// What may lie between two right results, in units of the element's own precision.
constexpr double fewUnits = 4;
/// Elements of integers that may differ by one: results of rounding that another order of sums tips over.
constexpr double tippedShare = 1e-3;

double precision(DType t) {
  switch (t) {
  case DType::f64: return 0x1p-30;
  case DType::f32: return 0x1p-12; // sums over thousands of terms, products in tf32 or bf16
  case DType::f16: return 0x1p-10;
  case DType::bf16: return 0x1p-8;
  case DType::e4m3: return 0x1p-3;
  case DType::e5m2: return 0x1p-2;
  default: return 0;
  }
}

template <class T> double valueAt(const std::uint8_t *data, std::int64_t i) {
  if constexpr (std::is_same_v<T, bool>) {
    return data[i] ? 1 : 0;
  } else {
    T v;
    std::memcpy(&v, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return static_cast<double>(v);
  }
}

struct Found {
  std::int64_t wrong = 0, tipped = 0, at = -1;
};

template <class T>
Found compareRange(const std::uint8_t *got, const std::uint8_t *want, std::int64_t begin, std::int64_t end, double relative,
                   double absolute) {
  Found f;
  for (std::int64_t i = begin; i < end; ++i) {
    if (std::memcmp(got + i * static_cast<std::int64_t>(sizeof(T)), want + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T)) == 0)
      continue;
    const double g = valueAt<T>(got, i), w = valueAt<T>(want, i);
    bool same;
    if constexpr (detail::FloatElement<T>) {
      same = std::isnan(g) || std::isnan(w) ? std::isnan(g) && std::isnan(w)
             : std::isinf(g) || std::isinf(w) ? g == w
                                              : std::abs(g - w) <= relative * std::max(std::abs(g), std::abs(w)) + absolute;
    } else if constexpr (std::is_same_v<T, bool>) {
      same = false;
    } else {
      same = std::abs(g - w) <= 1;
      f.tipped += same;
    }
    if (!same) {
      ++f.wrong;
      if (f.at < 0)
        f.at = i;
    }
  }
  return f;
}

} // namespace

Difference compareResults(const GeneratedArgs &args, std::span<const std::vector<std::uint8_t>> got,
                          std::span<const std::vector<std::uint8_t>> want) {
  for (std::size_t i = 0; i < args.args.size(); ++i) {
    const GeneratedArg &g = args.args[i];
    if (g.region < 0 || g.arg.readOnly)
      continue;
    const auto &a = got[static_cast<std::size_t>(g.region)], &b = want[static_cast<std::size_t>(g.region)];
    if (a.size() != b.size() || static_cast<std::int64_t>(a.size()) < g.first + g.bytes)
      return {true, fmt::format("argument {}: {} bytes instead of {}", i, a.size(), b.size())};
    const std::uint8_t *x = a.data() + g.first, *y = b.data() + g.first;
    if (std::memcmp(x, y, static_cast<std::size_t>(g.bytes)) == 0)
      continue;
    Difference difference;
    detail::visitAnyDType(g.arg.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      const std::int64_t count = g.bytes / static_cast<std::int64_t>(sizeof(T));
      const double unit = precision(g.arg.dtype) * fewUnits;
      double squares = 0;
      std::int64_t finite = 0;
      if constexpr (detail::FloatElement<T>)
        for (std::int64_t k = 0; k < count; k += std::max<std::int64_t>(1, count / 65536)) {
          const double v = valueAt<T>(y, k);
          if (std::isfinite(v)) {
            squares += v * v;
            ++finite;
          }
        }
      const double size = finite ? std::sqrt(squares / static_cast<double>(finite)) : 0;
      const std::int64_t parts = std::clamp<std::int64_t>(count >> 20, 1, 8);
      std::vector<Found> found(static_cast<std::size_t>(parts));
      std::vector<std::thread> threads;
      auto run = [&](std::int64_t p) {
        found[static_cast<std::size_t>(p)] = compareRange<T>(x, y, count * p / parts, count * (p + 1) / parts, unit, unit * size);
      };
      for (std::int64_t p = 1; p < parts; ++p)
        threads.emplace_back(run, p);
      run(0);
      for (std::thread &t : threads)
        t.join();
      Found all;
      for (const Found &f : found) {
        all.wrong += f.wrong;
        all.tipped += f.tipped;
        if (all.at < 0)
          all.at = f.at;
      }
      if (all.wrong == 0 && static_cast<double>(all.tipped) <= tippedShare * static_cast<double>(count) + 1)
        return;
      const std::int64_t at = std::max<std::int64_t>(0, all.at);
      difference = {true, fmt::format("argument {}: {} of {} elements, at {}: {} instead of {}", i, all.wrong + all.tipped, count, at,
                                      valueAt<T>(x, at), valueAt<T>(y, at))};
    });
    if (difference.wrong)
      return difference;
  }
  return {};
}

} // namespace sectile::autotune
