// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolArgs.h"

#include <sectile/Error.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

namespace sectile::tools {
namespace {

[[noreturn]] void bad(const std::string &text, const std::string &why) {
  throw UserError({{}, {}, "arg", fmt::format("'{}': {}", text, why), "tool_arg",
                   "write DIMSxDTYPE=FILL, as 64x128xbf16=normal:1, or DTYPE=VALUE, as f32=1.5"});
}

template <class T> T load(const void *data, std::int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char *>(data) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return v;
}
template <class T> void store(void *data, std::int64_t i, T v) {
  std::memcpy(static_cast<char *>(data) + i * static_cast<std::int64_t>(sizeof(T)), &v, sizeof(T));
}
template <class T> T toInt(double v) {
  if (std::isnan(v))
    return 0;
  if (v <= static_cast<double>(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  if (v >= static_cast<double>(std::numeric_limits<T>::max()))
    return std::numeric_limits<T>::max();
  return static_cast<T>(v);
}

/// Calls `f` with a value of the element's C++ type.
template <class F> void withType(DType dtype, F f) {
  switch (dtype) {
  case DType::f64: return f(f64());
  case DType::f32: return f(f32());
  case DType::f16: return f(f16());
  case DType::bf16: return f(bf16());
  case DType::e4m3: return f(e4m3());
  case DType::e5m2: return f(e5m2());
  case DType::e2m1: return f(e2m1());
  case DType::e2m3: return f(e2m3());
  case DType::e3m2: return f(e3m2());
  case DType::ue8m0: return f(ue8m0());
  case DType::i8: return f(i8());
  case DType::i16: return f(i16());
  case DType::i32: return f(i32());
  case DType::i64: case DType::index: return f(i64());
  case DType::u8: return f(u8());
  case DType::u16: return f(u16());
  case DType::u32: return f(u32());
  case DType::u64: return f(u64());
  case DType::boolean: return f(bool());
  }
}

double number(const std::string &text, const std::string &whole) {
  char *end = nullptr;
  double v = std::strtod(text.c_str(), &end);
  if (text.empty() || *end)
    bad(whole, fmt::format("'{}' is not a number", text));
  return v;
}

void fill(ToolArg &a, std::int64_t count, const std::string &how) {
  size_t colon = how.find(':');
  std::string kind = how.substr(0, colon), rest = colon == std::string::npos ? "" : how.substr(colon + 1);
  if (kind == "zeros") {
    std::fill(a.bytes.begin(), a.bytes.end(), 0);
  } else if (kind == "bytes") {
    std::fill(a.bytes.begin(), a.bytes.end(), static_cast<std::uint8_t>(number(rest, a.text)));
  } else if (kind == "iota") {
    for (std::int64_t i = 0; i < count; ++i)
      writeElement(a.bytes.data(), a.arg.dtype, i, static_cast<double>(i));
  } else if (kind == "value") {
    double v = number(rest, a.text);
    for (std::int64_t i = 0; i < count; ++i)
      writeElement(a.bytes.data(), a.arg.dtype, i, v);
  } else if (kind == "normal") {
    std::mt19937_64 bits(rest.empty() ? 1 : static_cast<std::uint64_t>(number(rest, a.text)));
    for (std::int64_t i = 0; i < count; ++i) { // Box-Muller: the same numbers on every system
      double u = (static_cast<double>(bits() >> 11) + 1) * 0x1p-53, v = static_cast<double>(bits() >> 11) * 0x1p-53;
      writeElement(a.bytes.data(), a.arg.dtype, i, std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
    }
  } else {
    bad(a.text, fmt::format("'{}' is no fill", how));
  }
}

} // namespace

double readElement(const void *data, DType dtype, std::int64_t i) {
  double v = 0;
  withType(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, bool>)
      v = load<std::uint8_t>(data, i) != 0;
    else if constexpr (std::is_arithmetic_v<T>)
      v = static_cast<double>(load<T>(data, i));
    else
      v = static_cast<float>(load<T>(data, i));
  });
  return v;
}

void writeElement(void *data, DType dtype, std::int64_t i, double value) {
  withType(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, bool>)
      store<std::uint8_t>(data, i, value != 0);
    else if constexpr (std::is_floating_point_v<T>)
      store<T>(data, i, static_cast<T>(value));
    else if constexpr (std::is_integral_v<T>)
      store<T>(data, i, toInt<T>(value));
    else
      store<T>(data, i, T(value));
  });
}

ToolArg parseToolArg(const std::string &text) {
  ToolArg a;
  a.text = text;
  size_t equals = text.find('=');
  if (equals == std::string::npos)
    bad(text, "there is no '='");
  std::string type = text.substr(0, equals), value = text.substr(equals + 1);
  std::vector<std::int64_t> dims;
  bool isTensor = false;
  while (!type.empty() && std::isdigit(static_cast<unsigned char>(type[0]))) {
    std::int64_t d = 0;
    auto [end, error] = std::from_chars(type.data(), type.data() + type.size(), d);
    size_t used = static_cast<size_t>(end - type.data());
    if (error != std::errc() || used >= type.size() || type[used] != 'x')
      bad(text, fmt::format("'{}' is no list of dims", type));
    dims.push_back(d);
    type = type.substr(used + 1);
    isTensor = true;
  }
  // Axes in memory, the fastest last.
  std::vector<size_t> order;
  for (size_t d = 0; d < dims.size(); ++d)
    order.push_back(d);
  if (size_t at = type.find('@'); at != std::string::npos) {
    const std::string axes = type.substr(at + 1);
    type.resize(at);
    order.clear();
    for (char c : axes)
      order.push_back(static_cast<size_t>(c - '0'));
    std::vector<size_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    bool isOrder = !axes.empty() && sorted.size() == dims.size();
    for (size_t d = 0; isOrder && d < sorted.size(); ++d)
      isOrder = sorted[d] == d;
    if (!isOrder)
      bad(text, fmt::format("'{}' is no order of {} axes", axes, dims.size()));
  }
  if (!parseDType(type, a.arg.dtype))
    bad(text, fmt::format("'{}' is no element type", type));
  if (dims.size() > maxRank)
    bad(text, fmt::format("rank {} is over {}", dims.size(), maxRank));
  if (!isTensor) {
    writeElement(&a.arg.scalar, a.arg.dtype, 0, number(value, text));
    return a;
  }
  a.arg.rank = static_cast<int>(dims.size());
  std::int64_t count = 1;
  for (size_t place = dims.size(); place-- > 0;) {
    const size_t d = order[place];
    a.arg.dims[d] = dims[d];
    a.arg.strides[d] = count;
    if (dims[d] > 0 && count > (std::int64_t(1) << 34) / dims[d])
      bad(text, "over 2^34 elements");
    count *= dims[d];
  }
  a.bytes.resize(static_cast<size_t>(count) * byteSize(a.arg.dtype));
  a.arg.data = a.bytes.data();
  fill(a, count, value);
  return a;
}

std::string describeData(const ToolArg &a) {
  std::int64_t count = 1;
  std::string dims;
  for (int d = 0; d < a.arg.rank; ++d) {
    count *= a.arg.dims[static_cast<size_t>(d)];
    dims += fmt::format("{}{}", d ? "x" : "", a.arg.dims[static_cast<size_t>(d)]);
  }
  std::string out = fmt::format("{} {} ", dims, name(a.arg.dtype));
  if (count > 256) {
    double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
    for (std::int64_t i = 0; i < count; ++i) {
      double v = readElement(a.bytes.data(), a.arg.dtype, i);
      sum += v;
      low = std::fmin(low, v);
      high = std::fmax(high, v);
    }
    return out + fmt::format("{} elements, sum {:.9g}, min {:.9g}, max {:.9g}", count, sum, low, high);
  }
  out += "[";
  for (std::int64_t i = 0; i < count; ++i)
    out += fmt::format("{}{:.9g}", i ? ", " : "", readElement(a.bytes.data(), a.arg.dtype, i));
  return out + "]";
}

} // namespace sectile::tools
