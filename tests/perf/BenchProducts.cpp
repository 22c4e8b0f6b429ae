// SPDX-License-Identifier: Apache-2.0
#include "tests/perf/BenchProducts.h"

#include "samples/04_matmul/kernels.h"

#include <algorithm>

namespace bench {
namespace {

using namespace sectile;

/// Random numbers: standard normal times `scale`; 8-bit integers 40 times standard normal.
template <class T> std::vector<T> numbers(std::int64_t count, unsigned seed, double scale = 1) {
  if constexpr (!std::is_integral_v<T>)
    if (scale == 1)
      return normal<T>(count, seed);
  const std::vector<float> x = normal<float>(count, seed);
  std::vector<T> v(x.size());
  parallel(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float e = x[static_cast<std::size_t>(i)];
      if constexpr (std::is_integral_v<T>)
        v[static_cast<std::size_t>(i)] = static_cast<T>(std::clamp(std::round(e * 40), -127.0f, 127.0f));
      else
        v[static_cast<std::size_t>(i)] = T(static_cast<float>(e * scale));
    }
  });
  return v;
}

/// A row of random signs, the same on every call.
std::vector<double> signs(std::int64_t count) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < count; ++i) {
    float a, b;
    normalPair(99, static_cast<std::uint64_t>(i), a, b);
    v.push_back(a < 0 ? -1 : 1);
  }
  return v;
}

/// x times v for x of rows x cols, stored by rows or (`across`) by columns; `squares` gets the squared norm
/// of each row.
template <class T>
std::vector<double> timesVector(const std::vector<T> &x, std::int64_t rows, std::int64_t cols, bool across,
                                const std::vector<double> &v, std::vector<double> &squares) {
  std::vector<double> result(static_cast<std::size_t>(rows));
  squares.assign(static_cast<std::size_t>(rows), 0);
  parallel(rows, [&](std::int64_t begin, std::int64_t end) {
    auto add = [&](std::int64_t r, std::int64_t c) {
      const double e = double(x[static_cast<std::size_t>(across ? c * rows + r : r * cols + c)]);
      result[static_cast<std::size_t>(r)] += e * v[static_cast<std::size_t>(c)];
      squares[static_cast<std::size_t>(r)] += e * e;
    };
    if (across)
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t r = begin; r < end; ++r)
          add(r, c);
    else
      for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t c = 0; c < cols; ++c)
          add(r, c);
  });
  return result;
}

double sumOfSquares(const std::vector<double> &v) {
  double sum = 0;
  for (double x : v)
    sum += x * x;
  return sum;
}

/// What a check is made of: the operands of set 0 and how they lie.
template <class T, class Out> struct Operands {
  Operands(const Stream &stream, Shape s, bool ta, bool tb, int weights = 1, double scale = 1)
      : s(s), ta(ta), tb(tb), x(numbers<T>(s.m * s.k, 50)) {
    const std::int64_t bytes =
        std::int64_t(sizeof(T)) * (s.m * s.k + weights * s.k * s.n) + std::int64_t(sizeof(Out)) * s.m * s.n;
    const int sets = bytes < (std::int64_t(200) << 20) ? 3 : 2;
    for (int w = 0; w < weights; ++w)
      y.push_back(numbers<T>(s.k * s.n, 60 + unsigned(w), scale));
    // The sets hold the same numbers, each in memory of its own.
    for (int i = 0; i < sets; ++i) {
      a.emplace_back(stream, s.m * s.k).copyFrom(x);
      for (int w = 0; w < weights; ++w)
        b.emplace_back(stream, s.k * s.n).copyFrom(y[static_cast<std::size_t>(w)]);
      c.emplace_back(stream, s.m, s.n);
    }
  }
  static Tensor<const T, 2> view(const Buffer<T> &data, std::int64_t rows, std::int64_t columns,
                                 bool across) {
    if (across)
      return {data.data(), {rows, columns}, {1, rows}};
    return {data.data(), {rows, columns}};
  }
  Tensor<const T, 2> A(int set) const { return view(a[static_cast<std::size_t>(set)], s.m, s.k, ta); }
  Tensor<const T, 2> B(int set, std::size_t weight = 0) const {
    return view(b[static_cast<std::size_t>(set) * y.size() + weight], s.k, s.n, tb);
  }
  Tensor<Out, 2> C(int set) { return c[static_cast<std::size_t>(set)]; }

  Shape s;
  bool ta, tb;
  std::vector<T> x;
  std::vector<std::vector<T>> y;
  std::vector<Buffer<T>> a, b;
  std::vector<Buffer<Out>> c;
};

/// Checks every element of C against A B, its rows and columns scaled, in O(M N + M K + N K): for a vector v
/// of random signs the expectation of ((C - A B) v)^2, row by row, is the squared norm of the row's error.
/// Gives the relative error over all rows, and infinity if one row alone is off by ten times the tolerance,
/// as one wrong tile makes it.
class ProductCheck {
public:
  template <class T, class Out>
  ProductCheck(const Operands<T, Out> &p, double tolerance, const std::vector<f32> &rows = {},
               const std::vector<f32> &columns = {})
      : shape(p.s), tolerance(tolerance), v(signs(p.s.n)) {
    std::vector<double> scaled = v, squares;
    for (std::size_t n = 0; n < columns.size(); ++n)
      scaled[n] *= double(columns[n]);
    const std::vector<double> bv = timesVector(p.y[0], p.s.k, p.s.n, p.tb, scaled, squares);
    double square = 0; // of an element of B, on average
    for (double sum : squares)
      square += sum / static_cast<double>(p.s.k * p.s.n);
    product = timesVector(p.x, p.s.m, p.s.k, p.ta, bv, norms);
    for (std::size_t m = 0; m < norms.size(); ++m) {
      const double scale = rows.empty() ? 1 : double(rows[m]);
      product[m] *= scale;
      norms[m] *= scale * scale * square * sumOfSquares(scaled);
    }
  }
  template <class Out> double operator()(const std::vector<Out> &c) const {
    return relativeError(shape.m, [&](std::int64_t m, double &errors, double &references) {
      double sum = 0;
      for (std::int64_t n = 0; n < shape.n; ++n)
        sum += double(c[static_cast<std::size_t>(m * shape.n + n)]) * v[static_cast<std::size_t>(n)];
      double e = sum - product[static_cast<std::size_t>(m)], norm = norms[static_cast<std::size_t>(m)];
      errors += e * e <= 100 * tolerance * tolerance * norm ? e * e : std::numeric_limits<double>::infinity();
      references += norm;
    });
  }

private:
  Shape shape;
  double tolerance;
  std::vector<double> v, product, norms;
};

/// Checks rows of C, so many that each tile of 64 rows is met, against `finish(sums, n)` of the exact
/// products; for operands that both lie along K. Infinity if one row alone is off by ten times the tolerance.
class RowsCheck {
public:
  template <class T, class Out, class Finish>
  RowsCheck(const Operands<T, Out> &p, double tolerance, Finish finish)
      : columns(p.s.n), tolerance(tolerance) {
    const std::int64_t step = p.s.m <= 64 ? 1 : 64;
    for (std::int64_t m = 0; m < p.s.m; m += step)
      rows.push_back(m);
    rows.back() = p.s.m - 1;
    const auto K = static_cast<std::size_t>(p.s.k);
    std::vector<double> a(rows.size() * K);
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t k = 0; k < K; ++k)
        a[r * K + k] = double(p.x[static_cast<std::size_t>(rows[r]) * K + k]);
    wanted.resize(rows.size() * static_cast<std::size_t>(columns));
    parallel(columns, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::vector<double>> b(p.y.size(), std::vector<double>(K));
      std::vector<double> sums(p.y.size());
      for (std::int64_t n = begin; n < end; ++n) {
        for (std::size_t w = 0; w < b.size(); ++w)
          for (std::size_t k = 0; k < K; ++k)
            b[w][k] = double(p.y[w][static_cast<std::size_t>(n) * K + k]);
        for (std::size_t r = 0; r < rows.size(); ++r) {
          for (std::size_t w = 0; w < b.size(); ++w)
            sums[w] = dot(&a[r * K], b[w].data(), K);
          wanted[r * static_cast<std::size_t>(columns) + static_cast<std::size_t>(n)] = finish(sums, n);
        }
      }
    });
  }
  template <class Out> double operator()(const std::vector<Out> &c) const {
    const auto N = static_cast<std::size_t>(columns);
    return relativeError(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i, double &errors,
                                                                     double &references) {
      const auto r = static_cast<std::size_t>(i), m = static_cast<std::size_t>(rows[r]);
      double error = 0, reference = 0;
      for (std::size_t n = 0; n < N; ++n) {
        const double want = wanted[r * N + n], e = double(c[m * N + n]) - want;
        error += e * e;
        reference += want * want;
      }
      errors +=
          error <= 100 * tolerance * tolerance * reference ? error : std::numeric_limits<double>::infinity();
      references += reference;
    });
  }

private:
  static double dot(const double *x, const double *y, std::size_t count) {
    constexpr std::size_t lanes = 8;
    double sums[lanes] = {}, rest = 0;
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      for (std::size_t l = 0; l < lanes; ++l)
        sums[l] += x[i + l] * y[i + l];
    for (; i < count; ++i)
      rest += x[i] * y[i];
    for (double sum : sums)
      rest += sum;
    return rest;
  }

  std::int64_t columns;
  double tolerance;
  std::vector<std::int64_t> rows;
  std::vector<double> wanted;
};

/// The row of these operands; `call(config, set)` prepares a launch, `check` takes the result.
template <class T, class Out, class Check, class Launch>
ProductRow rowOf(std::shared_ptr<Operands<T, Out>> p, Check check, Launch call) {
  ProductRow row;
  row.sets = static_cast<int>(p->c.size());
  row.poison = [p] { p->c[0].fillBytes(0xFF); };
  row.error = [p, check = std::move(check)](bool spoiled) {
    std::vector<Out> c = p->c[0].toHost();
    if (spoiled) // as far off as a sum of another sign
      c[0] = Out(-3 * double(c[0]) - 50 * std::sqrt(double(p->s.k)));
    return check(c);
  };
  row.prepare = [call](const Config &config, int set) { return Call(call(config, set)); };
  return row;
}

/// Products as they are.
template <class T, class Out = T, MmaPolicy policy = MmaPolicy::exact>
ProductRows plain(const std::string &dtype, double tolerance, bool ta, bool tb, std::vector<Shape> shapes) {
  auto make = [=](const Stream &stream, Shape s) {
    auto p = std::make_shared<Operands<T, Out>>(stream, s, ta, tb);
    return rowOf(p, ProductCheck(*p, tolerance), [p](const Config &config, int set) {
      return sample::matmulOf<T, Out, sample::asSummed, policy>.with(config).prepare(p->A(set), p->B(set),
                                                                                     p->C(set));
    });
  };
  return {fmt::format("gemm_{}{}", ta ? 't' : 'n', tb ? 't' : 'n'),
          dtype,
          sizeof(T),
          tolerance,
          1,
          std::move(shapes),
          make};
}

/// fp8 products with scales in device memory, of whole operands or of their rows.
template <auto epilogue>
ProductRows scaledFp8(const std::string &op, bool byRows, double tolerance, std::vector<Shape> shapes) {
  auto make = [=](const Stream &stream, Shape s) {
    auto p = std::make_shared<Operands<e4m3, bf16>>(stream, s, false, true);
    auto scales = [&](std::int64_t count, unsigned seed, float alone) {
      std::vector<f32> v = normal<f32>(count, seed);
      for (f32 &x : v)
        x = byRows ? 0.5f + std::min(std::abs(x), 1.0f) : alone;
      return v;
    };
    const std::vector<f32> rows = scales(s.m, 70, 0.37f), columns = scales(s.n, 71, 1.71f);
    auto left = std::make_shared<Buffer<f32>>(stream, byRows ? s.m : 1),
         right = std::make_shared<Buffer<f32>>(stream, byRows ? s.n : 1);
    left->copyFrom(std::vector<f32>(rows.begin(), rows.begin() + left->size()));
    right->copyFrom(std::vector<f32>(columns.begin(), columns.begin() + right->size()));
    return rowOf(p, ProductCheck(*p, tolerance, rows, columns),
                 [p, left, right](const Config &config, int set) {
                   return sample::matmulOf<e4m3, bf16, epilogue>.with(config).prepare(
                       p->A(set), p->B(set), p->C(set), *left, *right);
                 });
  };
  return {op, "fp8e4m3", 1, tolerance, 1, std::move(shapes), make};
}

ProductRows biasGelu(double tolerance, std::vector<Shape> shapes) {
  auto make = [=](const Stream &stream, Shape s) {
    auto p = std::make_shared<Operands<bf16, bf16>>(stream, s, false, true, 1, 1 / std::sqrt(double(s.k)));
    const std::vector<bf16> host = normal<bf16>(s.n, 72);
    auto bias = std::make_shared<Buffer<bf16>>(stream, s.n);
    bias->copyFrom(host);
    RowsCheck check(*p, tolerance, [&](const std::vector<double> &sums, std::int64_t n) {
      const double x = sums[0] + double(host[static_cast<std::size_t>(n)]);
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    });
    return rowOf(p, std::move(check), [p, bias](const Config &config, int set) {
      return sample::matmulOf<bf16, bf16, sample::biasGelu>.with(config).prepare(p->A(set), p->B(set),
                                                                                 p->C(set), *bias);
    });
  };
  return {"gemm_nt_bias_gelu", "bf16", 2, tolerance, 1, std::move(shapes), make};
}

ProductRows swiglu(double tolerance, std::vector<Shape> shapes) {
  auto make = [=](const Stream &stream, Shape s) {
    auto p = std::make_shared<Operands<bf16, bf16>>(stream, s, false, true, 2, 1 / std::sqrt(double(s.k)));
    RowsCheck check(*p, tolerance, [](const std::vector<double> &sums, std::int64_t) {
      return sums[0] / (1 + std::exp(-sums[0])) * sums[1];
    });
    return rowOf(p, std::move(check), [p](const Config &config, int set) {
      return sample::gatedOf<bf16>.with(config).prepare(p->A(set), p->B(set, 0), p->B(set, 1), p->C(set));
    });
  };
  return {"swiglu_nt", "bf16", 2, tolerance, 2, std::move(shapes), make};
}

} // namespace

std::vector<ProductRows> productRows(bool quick) {
  const Shape unaligned{4095, 4097, 4099};
  const std::vector<Shape> all = {{8192, 8192, 8192},  {4096, 4096, 4096},  {8192, 28672, 8192},
                                  {8192, 8192, 28672}, {4096, 14336, 4096}, {2048, 2048, 2048},
                                  {1024, 1024, 1024},  {16, 8192, 8192},    {64, 8192, 8192},
                                  {128, 4096, 4096},   {1000, 1000, 1000}};
  auto some = [&](std::vector<Shape> inQuick, std::vector<Shape> whole) { return quick ? inQuick : whole; };
  std::vector<Shape> bf16Shapes = some({all[0], all[1], all[6], all[7], all[10]}, all);
  bf16Shapes.push_back(unaligned);
  std::vector<ProductRows> rows;
  rows.push_back(plain<bf16>("bf16", 6e-3, false, true, bf16Shapes));
  rows.push_back(plain<bf16>("bf16", 6e-3, false, false, bf16Shapes));
  if (!quick) {
    rows.push_back(plain<f16>("fp16", 1.5e-3, false, true, all));
    rows.push_back(plain<f16>("fp16", 1.5e-3, false, false, {all.begin(), all.begin() + 5}));
  }
  for (bool tb : {true, false})
    rows.push_back(
        plain<f32, f32, MmaPolicy::tf32>("tf32", 2e-3, false, tb, some({all[1]}, {all[1], all[0]})));
  // fp8 sums are those of the tensor cores: the peers' fast accumulation.
  const std::vector<Shape> large = some({all[0], all[1]}, {all.begin(), all.begin() + 5});
  std::vector<Shape> withSmall = large;
  if (!quick)
    withSmall.insert(withSmall.end(), {all[7], all[8]});
  rows.push_back(scaledFp8<sample::scaled>("gemm_nt_tscale_fastacc", false, 1e-2, withSmall));
  rows.push_back(scaledFp8<sample::scaledByRows>("gemm_nt_rscale_fastacc", true, 1e-2, large));
  rows.push_back(biasGelu(9e-3, some({all[1]}, {all[0], {8192, 14336, 4096}, all[1]})));
  rows.push_back(swiglu(1e-2, some({all[4]}, {all[4], {8192, 14336, 4096}, {16, 14336, 4096}})));
  rows.push_back(
      plain<i8, i32>("int8", 1e-7, false, true, some({all[0], all[1]}, {all[0], all[1], all[4], all[8]})));
  // The other two majors, which the peers' suite has not: what a layout costs.
  for (bool tb : {false, true}) {
    rows.push_back(plain<bf16>("bf16", 6e-3, true, tb, some({all[1]}, {all[1], all[0]})));
    rows.push_back(plain<f16>("fp16", 1.5e-3, true, tb, some({all[1]}, {all[1], all[0]})));
  }
  return rows;
}

} // namespace bench
