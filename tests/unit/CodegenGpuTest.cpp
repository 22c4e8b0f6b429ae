// SPDX-License-Identifier: Apache-2.0
/// \file Emitted code on a GPU against the scalar meaning of every operation, bit for bit where it is exact.
/// Skipped without a GPU.
#include "ir/base/Scalar.h"
#include "tests/support/RunOnGpu.h"
#include "tests/support/TgpuKernels.h"

#include <set>
#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace sectile;
using namespace sectile::testing;

namespace {

// --- several results of two inputs
// ----------------------------------------------------------------------------------

struct Output {
  DType type;
  std::string compute; ///< "tile.binary add %x, %y : {in}"
};
std::string manyOutputs(DType in, const std::vector<Output> &outputs, const std::string &arch) {
  const std::int32_t shape[] = {256};
  const int order[] = {0};
  Layout l = Layout::blocked(shape, order, 2, 4);
  std::string inTile = tile({256}, in, l);
  std::string arguments = argument("X", 1, in, false) + ", " + argument("Y", 1, in, false);
  std::string body = fmt::format(R"(  %i = tile.grid %X [256] : {v} -> index
  %lo = tile.constant 0 : index
  %dim = tile.dim %X, 0 : {v}
  %hi = tile.binary sub %dim, %i : index
  %x = tgpu.global_load %X[%i] axes [0] lo[%lo] hi[%hi] pad {p} : {v} -> {t}
  %y = tgpu.global_load %Y[%i] axes [0] lo[%lo] hi[%hi] pad {p} : {v} -> {t}
)",
                                 fmt::arg("v", view(1, in)), fmt::arg("p", pad(in)), fmt::arg("t", inTile));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    std::string outTile = tile({256}, outputs[k].type, l);
    arguments += ", " + argument(fmt::format("Z{}", k), 1, outputs[k].type, false);
    body += fmt::format(
        "  %z{} = {}\n", k,
        fmt::format(fmt::runtime(outputs[k].compute), fmt::arg("in", inTile), fmt::arg("out", outTile)));
    body += fmt::format("  tgpu.global_store %z{0}, %Z{0}[%i] axes [0] lo[%lo] hi[%hi] : {1}, {2}\n", k,
                        outTile, view(1, outputs[k].type));
  }
  return function("k", arguments, body, 4, 0, arch);
}

/// Special values and random bit patterns of T, in pairs.
template <class T> std::pair<std::vector<T>, std::vector<T>> operands() {
  std::mt19937_64 random(99);
  std::vector<T> special, x, y;
  if constexpr (std::same_as<T, bool>) {
    special = {false, true};
  } else if constexpr (detail::IntElement<T>) {
    for (std::int64_t v : {0, 1, -1, 2, -2, 3, 7, 31, 32, 33, 63, 64, 100, -100})
      special.push_back(T(v));
    special.insert(special.end(),
                   {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(),
                    T(std::numeric_limits<T>::max() - 1), T(std::numeric_limits<T>::min() + 1)});
  } else {
    for (double v :
         {0.0,        1.0,     2.0,     0.5,     3.0,          0.1,          448.0,  464.0,  465.0,
          57344.0,    61439.0, 61440.0, 65504.0, 65520.0,      1e30,         1e-30,  1e-40,  3.4e38,
          1e300,      1e-310,  127.5,   255.5,   2147483647.0, 4294967296.0, 9.3e18, 1.9e19, double(INFINITY),
          double(NAN)})
      for (double s : {v, -v})
        special.push_back(T(s));
  }
  for (const T &a : std::vector<T>(special))
    for (const T &b : std::vector<T>(special)) {
      x.push_back(a);
      y.push_back(b);
    }
  auto pattern = [&] {
    std::uint64_t bits = random();
    if constexpr (std::same_as<T, bool>) {
      return bool(bits & 1);
    } else {
      T v;
      std::memcpy(&v, &bits, sizeof(T));
      return v;
    }
  };
  for (int k = 0; k < 20001; ++k) {
    T a = pattern(), b = pattern();
    if constexpr (!std::same_as<T, bool>) {
      if (k % 4 == 1) { // of similar size
        std::uint64_t bits = 0;
        std::memcpy(&bits, &a, sizeof(T));
        bits ^= random() & (sizeof(T) == 1 ? 0x3 : 0x3f);
        std::memcpy(&b, &bits, sizeof(T));
      }
      if constexpr (detail::IntElement<T>)
        if (k % 4 == 2)
          b = T(std::int64_t(random() % 141) - 70);
    }
    x.push_back(a);
    y.push_back(b);
  }
  return {x, y};
}

template <class T> bool sameValue(T a, T b) {
  if constexpr (detail::FloatElement<T>)
    if (detail::isNan(a) || detail::isNan(b))
      return detail::isNan(a) && detail::isNan(b);
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
template <class T> std::string bitsOf(T v) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof(T));
  return fmt::format("{:#x}", bits);
}

template <class T> Array arrayOf(DType t, const std::vector<T> &values) {
  Array a(t, {std::int64_t(values.size())});
  for (std::size_t k = 0; k < values.size(); ++k)
    a.put<T>(k, values[k]);
  return a;
}

/// The bits of element k, and whether they are a NaN.
std::uint64_t bitsAt(const Array &a, std::size_t k) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &a.bytes[k * byteSize(a.dtype)], byteSize(a.dtype));
  return bits;
}
bool isNanBits(DType t, std::uint64_t bits) {
  switch (t) {
  case DType::f64:
    return (bits & ~(1ull << 63)) > 0x7ff0000000000000;
  case DType::f32:
    return (bits & 0x7fffffff) > 0x7f800000;
  case DType::f16:
    return (bits & 0x7fff) > 0x7c00;
  case DType::bf16:
    return (bits & 0x7fff) > 0x7f80;
  case DType::e4m3:
    return (bits & 0x7f) == 0x7f;
  case DType::e5m2:
    return (bits & 0x7f) > 0x7c;
  default:
    return false;
  }
}
/// Compares every element, NaNs as one; the first differences in words.
void compareArrays(std::string &report, const std::string &what, const Array &got, const Array &want,
                   const Array &x, const Array &y) {
  int wrong = 0;
  for (std::size_t k = 0; k < got.size(); ++k) {
    std::uint64_t g = bitsAt(got, k), w = bitsAt(want, k);
    if (g == w || (isNanBits(got.dtype, g) && isNanBits(got.dtype, w)))
      continue;
    if (++wrong <= 3)
      report +=
          fmt::format("{}: x {:#x} y {:#x} gives {:#x}, not {:#x}\n", what, bitsAt(x, k), bitsAt(y, k), g, w);
  }
  if (wrong)
    report += fmt::format("{}: {} of {} differ\n", what, wrong, got.size());
}

template <class T> std::string testType(DType t) {
  using namespace detail;
  auto [x, y] = operands<T>();
  std::string report, arch = archOfGpu();
  std::vector<Output> outputs;
  std::vector<Array> wanted;
  auto add = [&]<class R>(std::type_identity<R>, DType type, const std::string &compute, auto expected) {
    outputs.push_back({type, compute});
    Array &want = wanted.emplace_back(type, std::vector<std::int64_t>{std::int64_t(x.size())});
    for (std::size_t k = 0; k < x.size(); ++k)
      want.put<R>(k, expected(x[k], y[k]));
  };
  auto binary = [&](std::string fn, auto expected) {
    add(std::type_identity<T>{}, t, "tile.binary " + fn + " %x, %y : {in}", expected);
  };
  auto unary = [&](std::string fn, auto expected) {
    add(std::type_identity<T>{}, t, "tile.unary " + fn + " %x : {in} -> {in}",
        [expected](T a, T) { return expected(a); });
  };
  auto compare = [&](std::string pred, auto expected) {
    add(std::type_identity<bool>{}, DType::boolean, "tile.compare " + pred + " %x, %y : {in} -> {out}",
        expected);
  };
  auto run = [&] {
    Array xs = arrayOf(t, x), ys = arrayOf(t, y);
    std::vector<Array> results;
    std::vector<Array *> all{&xs, &ys};
    results.reserve(outputs.size());
    for (const Output &o : outputs)
      results.emplace_back(o.type, xs.dims);
    for (Array &a : results)
      all.push_back(&a);
    report += runKernel(manyOutputs(t, outputs, arch), all);
    for (std::size_t k = 0; k < wanted.size(); ++k)
      compareArrays(report, std::string(name(t)) + " " + outputs[k].compute, results[k], wanted[k], xs, ys);
    outputs.clear();
    wanted.clear();
  };
  if constexpr (std::same_as<T, bool>) {
    binary("bitand", [](bool a, bool b) { return a && b; });
    binary("bitor", [](bool a, bool b) { return a || b; });
    binary("bitxor", [](bool a, bool b) { return a != b; });
    binary("max", [](bool a, bool b) { return a || b; });
    binary("min", [](bool a, bool b) { return a && b; });
    unary("bitnot", [](bool a) { return !a; });
  } else {
    binary("add", [](T a, T b) { return detail::add(a, b); });
    binary("sub", [](T a, T b) { return detail::sub(a, b); });
    binary("mul", [](T a, T b) { return detail::mul(a, b); });
    binary("div", [](T a, T b) { return detail::div(a, b); });
    binary("rem", [](T a, T b) { return detail::rem(a, b); });
    binary("max", [](T a, T b) { return detail::max(a, b); });
    binary("min", [](T a, T b) { return detail::min(a, b); });
    binary("maxnum", [](T a, T b) { return maxNum(a, b); });
    binary("minnum", [](T a, T b) { return minNum(a, b); });
    unary("neg", [](T a) { return detail::neg(a); });
    unary("abs", [](T a) { return detail::abs(a); });
    if constexpr (IntElement<T>) {
      binary("floordiv", [](T a, T b) { return detail::floorDiv(a, b); });
      binary("floormod", [](T a, T b) { return detail::floorMod(a, b); });
      binary("shl", [](T a, T b) { return detail::shl(a, b); });
      binary("shr", [](T a, T b) { return detail::shr(a, b); });
      binary("bitand", [](T a, T b) { return T(a & b); });
      binary("bitor", [](T a, T b) { return T(a | b); });
      binary("bitxor", [](T a, T b) { return T(a ^ b); });
      unary("bitnot", [](T a) { return T(~a); });
    } else {
      using W = Wide<T>;
      unary("sqrt", [](T a) { return detail::sqrt(a); });
      unary("floor", [](T a) { return T(std::floor(W(a))); });
      unary("ceil", [](T a) { return T(std::ceil(W(a))); });
      unary("trunc", [](T a) { return T(std::trunc(W(a))); });
      unary("round", [](T a) { return T(std::nearbyint(W(a))); });
    }
  }
  run();
  auto less = [](T a, T b) {
    if constexpr (SmallFloat<T>)
      return float(a) < float(b);
    else
      return a < b;
  };
  auto equal = [](T a, T b) {
    if constexpr (SmallFloat<T>)
      return float(a) == float(b);
    else
      return a == b;
  };
  compare("eq", equal);
  compare("ne", [=](T a, T b) { return !equal(a, b); });
  compare("lt", less);
  compare("le", [=](T a, T b) { return less(a, b) || equal(a, b); });
  compare("gt", [=](T a, T b) { return less(b, a); });
  compare("ge", [=](T a, T b) { return less(b, a) || equal(a, b); });
  if constexpr (FloatElement<T>) {
    add(std::type_identity<bool>{}, DType::boolean, "tile.unary isnan %x : {in} -> {out}",
        [](T a, T) { return isNan(a); });
    add(std::type_identity<bool>{}, DType::boolean, "tile.unary isinf %x : {in} -> {out}",
        [](T a, T) { return std::isinf(Wide<T>(a)); });
  }
  // Casts to every type.
  for (int k = 0; k < numDTypes; ++k) {
    DType to = DType(k);
    if (to != t)
      visitDType(to, [&]<class R>(std::type_identity<R> r) {
        add(r, to, "tile.cast %x : {in} -> {out}", [](T a, T) { return detail::cast<R>(a); });
      });
  }
  run();
  return report;
}

} // namespace

TEST_CASE("every exact operation on every type", "[codegen][gpu]") {
  for (int k = 0; k < numDTypes; ++k) {
    DType t = DType(k);
    std::string report = onGpu([&] {
      return detail::visitDType(t, [&]<class T>(std::type_identity<T>) { return testType<T>(t); });
    });
    INFO(report);
    CHECK(report.empty());
  }
}

TEST_CASE("math functions stay in their bounds on the GPU", "[codegen][gpu]") {
  std::string report = onGpu([] {
    std::string report;
    auto measure =
        [&]<class T>(
            DType t,
            std::initializer_list<std::tuple<const char *, long double (*)(long double), double>> list,
            std::type_identity<T>) {
          std::vector<T> x, y;
          std::mt19937_64 random(3);
          for (int k = 0; k < 200000; ++k) {
            std::uint64_t bits = random();
            T v;
            std::memcpy(&v, &bits, sizeof(T));
            x.push_back(k % 2 ? v
                              : T((double(bits >> 11) * 0x1p-52 - 1) * (k % 4            ? 4
                                                                        : sizeof(T) == 4 ? 90
                                                                                         : 700)));
          }
          for (double v : {0.0, -0.0, 1.0, -1.0, double(INFINITY), -double(INFINITY), double(NAN)})
            x.push_back(T(v));
          y = x;
          std::vector<Output> outputs;
          for (auto &[fn, exact, bound] : list)
            outputs.push_back({t, fmt::format("tile.unary {} %x : {{in}} -> {{in}}", fn)});
          Array xs = arrayOf(t, x), ys = arrayOf(t, y);
          std::vector<Array> results;
          std::vector<Array *> all{&xs, &ys};
          results.reserve(outputs.size());
          for (const Output &o : outputs)
            results.emplace_back(o.type, xs.dims);
          for (Array &a : results)
            all.push_back(&a);
          report += runKernel(manyOutputs(t, outputs, archOfGpu()), all);
          std::size_t index = 0;
          for (auto &[fn, exact, bound] : list) {
            double worst = 0;
            std::size_t at = 0;
            // In f32 these give 0 below the least normal number.
            const bool flushes = sizeof(T) == 4 && std::set<std::string>{"exp", "exp2", "sigmoid"}.count(fn);
            for (std::size_t k = 0; k < x.size(); ++k) {
              long double e = exact((long double)(x[k]));
              T got = results[index].template get<T>(k), rounded = T(e);
              double ulps;
              if (std::isnan(got) || std::isnan(rounded)) {
                ulps = std::isnan(got) == std::isnan(rounded) ? 0 : INFINITY;
              } else if (flushes && got == 0 && std::fabs(e) < std::numeric_limits<T>::min()) {
                ulps = 0;
              } else if (std::isinf(got) || std::isinf(rounded)) {
                ulps =
                    got == rounded || std::fabs(e) > 0.9999L * std::numeric_limits<T>::max() ? 0 : INFINITY;
              } else {
                int exponent = std::numeric_limits<T>::min_exponent;
                if (rounded != 0) {
                  std::frexp(rounded, &exponent);
                  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
                }
                ulps = double(std::fabs((long double)(got)-e) /
                              std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
              }
              if (ulps > worst) {
                worst = ulps;
                at = k;
              }
            }
            std::fprintf(stderr, "%s %s: %.3f ulp at %.17g\n", std::string(name(t)).c_str(), fn, worst,
                         double(x[at]));
            if (worst > bound)
              report +=
                  fmt::format("{} {}: {} ulp at {} ({})\n", name(t), fn, worst, double(x[at]), bitsOf(x[at]));
            ++index;
          }
        };
    using F = long double (*)(long double);
    F sigmoid = [](long double x) {
      return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
    };
    F rsqrt = [](long double x) { return 1 / std::sqrt(x); };
    measure(DType::f32,
            {{"exp", F(std::exp), 5},
             {"exp2", F(std::exp2), 3},
             {"log", F(std::log), 2},
             {"log2", F(std::log2), 2},
             {"sin", F(std::sin), 2},
             {"cos", F(std::cos), 2},
             {"tanh", F(std::tanh), 3},
             {"erf", F(std::erf), 3},
             {"sigmoid", sigmoid, 7},
             {"rsqrt", rsqrt, 2}},
            std::type_identity<float>{});
    measure(DType::f64,
            {{"exp", F(std::exp), 2},
             {"exp2", F(std::exp2), 2},
             {"log", F(std::log), 2},
             {"log2", F(std::log2), 1},
             {"sin", F(std::sin), 3},
             {"cos", F(std::cos), 3},
             {"tanh", F(std::tanh), 4},
             {"erf", F(std::erf), 4},
             {"sigmoid", sigmoid, 4},
             {"rsqrt", rsqrt, 2}},
            std::type_identity<double>{});
    return report;
  });
  INFO(report);
  CHECK(report.empty());
}

namespace {

void putNumber(Array &a, std::size_t k, int v) {
  detail::visitDType(a.dtype, [&]<class T>(std::type_identity<T>) { a.put<T>(k, T(float(v))); });
}
double numberAt(const Array &a, std::size_t k) {
  return detail::visitDType(a.dtype, [&]<class T>(std::type_identity<T>) { return double(a.get<T>(k)); });
}
/// C = A * B on small whole numbers, for which every row gives the exact sum; m, n, k cut the last tiles.
std::string testProduct(const std::string &text, DType a, DType b, DType c, std::int64_t m, std::int64_t n,
                        std::int64_t k) {
  std::mt19937 random(5);
  Array as(a, {m, k}), bs(b, {k, n}), cs(c, {m, n});
  int least = isUnsignedInt(a) || isUnsignedInt(b) ? 0 : -2;
  std::vector<int> av(as.size()), bv(bs.size());
  for (std::size_t i = 0; i < av.size(); ++i)
    putNumber(as, i, av[i] = int(random() % 5) + least);
  for (std::size_t i = 0; i < bv.size(); ++i)
    putNumber(bs, i, bv[i] = int(random() % 5) + least);
  std::string report = runKernel(text, {&as, &bs, &cs});
  int wrong = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      long sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += av[std::size_t(i * k + l)] * bv[std::size_t(l * n + j)];
      double got = numberAt(cs, std::size_t(i * n + j));
      if (got != double(sum) && ++wrong <= 3)
        report += fmt::format("[{}, {}]: {}, not {}\n", i, j, got, sum);
    }
  return report + (wrong ? fmt::format("{} wrong\n", wrong) : "");
}

} // namespace

TEST_CASE("every matrix instruction gives exact products", "[codegen][gpu]") {
  std::string report = onGpu([] {
    std::string report, arch = archOfGpu();
    for (const MmaRow &row : mmaRows()) {
      if (row.kind != MmaKind::MmaSync || !findTarget(arch)->has(row.feature))
        continue;
      MatmulShape shape{64, 64, std::max(32, row.k), 2, 2};
      std::string r =
          testProduct(matmul(row, arch, shape), row.a.dtype, row.b.dtype, row.c.dtype, 144, 112, 80);
      if (!r.empty())
        report += row.name + ":\n" + r;
    }
    for (auto [in, out] : {std::pair(DType::f32, DType::f32), std::pair(DType::f64, DType::f64),
                           std::pair(DType::f16, DType::f32), std::pair(DType::f16, DType::f16),
                           std::pair(DType::bf16, DType::f32), std::pair(DType::i8, DType::i32),
                           std::pair(DType::u8, DType::i32), std::pair(DType::e4m3, DType::f32)}) {
      std::string r = testProduct(matmulFma(in, out, arch), in, in, out, 32, 32, 16);
      if (!r.empty())
        report += fmt::format("fma {} {}:\n{}", name(in), name(out), r);
    }
    return report;
  });
  INFO(report);
  CHECK(report.empty());
}

TEST_CASE("softmax of whole rows", "[codegen][gpu]") {
  std::string report = onGpu([] {
    std::string report;
    for (int columns : {4096, 4080, 1024, 16}) {
      Array x(DType::bf16, {7, columns}), y(DType::bf16, {7, columns});
      std::mt19937 random(1);
      std::normal_distribution<float> normal;
      for (std::size_t k = 0; k < x.size(); ++k)
        x.put<bf16>(k, bf16(normal(random)));
      report += runKernel(softmax(DType::bf16, 4096, 4, archOfGpu()), {&x, &y});
      double worst = 0;
      for (std::size_t r = 0; r < 7; ++r) {
        double sum = 0;
        for (std::size_t c = 0; c < std::size_t(columns); ++c)
          sum += std::exp(double(float(x.get<bf16>(r * std::size_t(columns) + c))));
        for (std::size_t c = 0; c < std::size_t(columns); ++c) {
          double want = std::exp(double(float(x.get<bf16>(r * std::size_t(columns) + c)))) / sum;
          worst = std::max(worst, std::fabs(float(y.get<bf16>(r * std::size_t(columns) + c)) - want) / want);
        }
      }
      if (!(worst < 0x1p-8))
        report += fmt::format("{} columns: relative error {}\n", columns, worst);
    }
    return report;
  });
  INFO(report);
  CHECK(report.empty());
}

TEST_CASE("every reduction on every type", "[codegen][gpu]") {
  std::string report = onGpu([] {
    std::string report, arch = archOfGpu();
    const std::int32_t shape[] = {8, 128};
    const int order[] = {1, 0};
    Layout l = Layout::blocked(shape, order, 4, 4, std::vector<int>{0, 1}), rl = l.collapse(1);
    for (int k = 0; k < numDTypes; ++k) {
      DType t = DType(k);
      detail::visitDType(t, [&]<class T>(std::type_identity<T>) {
        std::vector<std::string> kinds = {"sum", "prod", "max", "min", "maxnum", "minnum"};
        if constexpr (std::same_as<T, bool>)
          kinds = {"any", "all"};
        std::string arguments = argument("X", 2, t),
                    body = fmt::format(R"(  %z = tile.constant 0 : index
  %x = tgpu.global_load %X[%z, %z] axes [] lo[] hi[] pad {} : {} -> {}
)",
                                       pad(t), view(2, t), tile({8, 128}, t, l));
        for (const std::string &kind : kinds) {
          arguments += ", " + argument("Y" + kind, 2, t, false);
          body += fmt::format(
              "  %r{0} = tgpu.reduce {0} %x, 1 : {1} -> {2}\n  tgpu.global_store %r{0}, %Y{0}[%z, %z] axes "
              "[] lo[] hi[] : {2}, {3}\n",
              kind, tile({8, 128}, t, l), tile({8, 1}, t, rl), view(2, t));
        }
        if constexpr (!std::same_as<T, bool>) {
          body += fmt::format("  %i = tile.iota 1 : {}\n", tile({8, 128}, DType::index, l));
          for (std::string kind : {"argmax", "argmin"}) {
            arguments += ", " + argument("Y" + kind, 2, DType::index, false);
            body += fmt::format("  %v{0}, %p{0} = tgpu.reduce {0} %x at %i : {1}, 1 : {2} -> {3}, {4}\n"
                                "  tgpu.global_store %p{0}, %Y{0}[%z, %z] axes [] lo[] hi[] : {4}, {5}\n",
                                kind, tile({8, 128}, DType::index, l), tile({8, 128}, t, l),
                                tile({8, 1}, t, rl), tile({8, 1}, DType::index, rl), view(2, DType::index));
          }
        }
        Array x(t, {8, 128});
        std::mt19937 random(11);
        for (std::size_t i = 0; i < x.size(); ++i) {
          int v = int(random() % 7) - 3;
          if (i / 128 == 3) // products that stay in range
            v = i % 16 ? 1 : -1;
          if constexpr (std::same_as<T, bool>)
            x.put<bool>(i, i / 128 == 1 ? true : i / 128 == 2 ? false : v > 0);
          else if constexpr (detail::FloatElement<T>)
            x.put<T>(i, i / 128 == 5 && i % 128 >= 77 ? T(float(NAN))
                        : i / 128 == 6                ? T(float(NAN))
                                                      : T(float(v)));
          else
            x.put<T>(i, T(v));
        }
        std::vector<Array> results;
        results.reserve(8);
        std::vector<Array *> all{&x};
        for (std::size_t i = 0; i < kinds.size(); ++i)
          results.emplace_back(t, std::vector<std::int64_t>{8, 1});
        if constexpr (!std::same_as<T, bool>)
          for (int i = 0; i < 2; ++i)
            results.emplace_back(DType::index, std::vector<std::int64_t>{8, 1});
        for (Array &a : results)
          all.push_back(&a);
        report += runKernel(function("k", arguments, body, 4, 0, arch), all);
        for (std::size_t r = 0; r < 8; ++r) {
          std::vector<T> row;
          for (std::size_t c = 0; c < 128; ++c)
            row.push_back(x.get<T>(r * 128 + c));
          auto compare = [&](std::size_t which, T want) {
            if (!sameValue(results[which].template get<T>(r), want))
              report += fmt::format("{} {} of row {}: {}, not {}\n", name(t), kinds[which], r,
                                    bitsOf(results[which].template get<T>(r)), bitsOf(want));
          };
          if constexpr (std::same_as<T, bool>) {
            bool any = false, every = true;
            for (bool v : row)
              any |= v, every &= v;
            compare(0, any);
            compare(1, every);
          } else {
            using Acc = std::conditional_t<detail::SmallFloat<T>, float, T>;
            Acc sum = Acc(0), product = Acc(1);
            T largest = row[0], smallest = row[0], largestNum = row[0], smallestNum = row[0];
            std::size_t argMax = 0, argMin = 0;
            auto beyond = [](T a, T b) { // NaN first
              if constexpr (detail::FloatElement<T>) {
                if (detail::isNan(a) || detail::isNan(b))
                  return detail::isNan(a) && !detail::isNan(b);
              }
              return detail::Wide<T>(a) > detail::Wide<T>(b);
            };
            auto below = [](T a, T b) {
              if constexpr (detail::FloatElement<T>) {
                if (detail::isNan(a) || detail::isNan(b))
                  return detail::isNan(a) && !detail::isNan(b);
              }
              return detail::Wide<T>(a) < detail::Wide<T>(b);
            };
            for (std::size_t c = 0; c < 128; ++c) {
              sum = Acc(sum + Acc(row[c]));
              product = Acc(product * Acc(row[c]));
              largest = detail::max(largest, row[c]);
              smallest = detail::min(smallest, row[c]);
              largestNum = detail::maxNum(largestNum, row[c]);
              smallestNum = detail::minNum(smallestNum, row[c]);
              if (beyond(row[c], row[argMax]))
                argMax = c;
              if (below(row[c], row[argMin]))
                argMin = c;
            }
            compare(0, T(sum));
            if (r == 3)
              compare(1, T(product));
            compare(2, largest);
            compare(3, smallest);
            compare(4, largestNum);
            compare(5, smallestNum);
            for (auto [which, want] : {std::pair(std::size_t(6), argMax), std::pair(std::size_t(7), argMin)})
              if (results[which].template get<std::int64_t>(r) != std::int64_t(want))
                report += fmt::format("{} arg {} of row {}: {}, not {}\n", name(t), which, r,
                                      results[which].template get<std::int64_t>(r), want);
          }
        }
      });
    }
    return report;
  });
  INFO(report);
  CHECK(report.empty());
}
