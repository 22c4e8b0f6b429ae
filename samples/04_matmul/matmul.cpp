// SPDX-License-Identifier: Apache-2.0
// 04 matmul: C = A B. The idea: a plain loop over K tiles; tensor cores, shared memory and barriers are the
// compiler's. Operand types, the ways in which A and B lie in memory, and what happens to the sums before
// they are stored, are a matter of types, views and a lambda.
#include "samples/common/Sample.h"
#include "samples/common/Sums.h"

// 1. Kernels: `matmulOf` with several types and epilogues
#include "samples/04_matmul/kernels.h"

using namespace sectile;

namespace {

inline constexpr auto &matmul = sample::matmulOf<bf16>;
inline constexpr auto &half = sample::matmulOf<f16>;
inline constexpr auto &tf32 = sample::matmulOf<f32, f32, sample::asSummed, MmaPolicy::tf32>;
inline constexpr auto &fp8 = sample::matmulOf<e4m3, bf16, sample::scaled>;
inline constexpr auto &int8 = sample::matmulOf<i8, i32>;
inline constexpr auto &biasGelu = sample::matmulOf<bf16, bf16, sample::biasGelu>;

// 2. Shapes
struct Shape {
  std::int64_t M, N, K;
};
Shape shapeOf(const sample::Options &options) {
  return options.small ? Shape{200, 136, 328} : Shape{4096, 4096, 4096};
}
/// Which operands lie in memory by columns.
enum class Majors : std::uint8_t { nn, nt, tn, tt };
bool isAcross(Majors majors, bool left) {
  return majors == Majors::tt || majors == (left ? Majors::tn : Majors::nt);
}

/// A rows x columns matrix that lies by rows or by columns.
template <class T>
Tensor<const T, 2> view(const T *data, std::int64_t rows, std::int64_t columns, bool across) {
  if (across)
    return {data, {rows, columns}, {1, rows}};
  return {data, {rows, columns}};
}
template <class T>
std::vector<T> stored(const std::vector<T> &x, std::int64_t rows, std::int64_t columns, bool across) {
  if (!across)
    return x;
  std::vector<T> y(x.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      y[c * rows + r] = x[r * columns + c];
  return y;
}

template <class T> Buffer<T> upload(const Stream &stream, const std::vector<T> &host) {
  Buffer<T> there(stream, static_cast<std::int64_t>(host.size()));
  there.copyFrom(host);
  return there;
}

/// Random numbers: standard normal, or integers of some size.
template <class T> std::vector<T> numbers(std::int64_t count, unsigned seed) {
  if constexpr (!std::is_integral_v<T>)
    return sample::normal<T>(count, seed);
  std::vector<T> v;
  for (float x : sample::normal<float>(count, seed))
    v.push_back(static_cast<T>(std::clamp(x * 40, -128.0f, 127.0f)));
  return v;
}

/// What rounding to a type may be off, relative to the number.
template <class T> constexpr double unit = 0; // integers
template <> constexpr double unit<bf16> = 0x1p-8;
template <> constexpr double unit<f16> = 0x1p-11;
template <> constexpr double unit<f32> = 0x1p-24;

struct Want {
  double value, error;
};

/// A job. `finish(sum, error, m, n)` is the epilogue on the host; `inside` what the products themselves may
/// be off, relative to their magnitudes; `extra` the epilogue's tensors.
template <class T, class Out, class Kernel, class Finish, class... Extra>
sample::Job product(const sample::Options &options, const char *name, const Kernel &kernel, Majors majors,
                    double inside, Finish finish, const std::vector<Extra> &...extra) {
  const Shape s = shapeOf(options);
  const bool left = isAcross(majors, true), right = isAcross(majors, false);
  auto text = [=, &options, &kernel] {
    return kernel.emit(options.emit, options.arch, view<T>(nullptr, s.M, s.K, left),
                       view<T>(nullptr, s.K, s.N, right), Tensor<Out, 2>(nullptr, {s.M, s.N}),
                       Tensor<const Extra, 1>(nullptr, {static_cast<std::int64_t>(extra.size())})...);
  };
  auto run = [=, &options, &kernel] {
    Stream stream = sample::device(options).stream();
    const std::vector<T> a = numbers<T>(s.M * s.K, 1), b = numbers<T>(s.K * s.N, 2);
    Buffer<T> A(stream, s.M * s.K), B(stream, s.K * s.N);
    Buffer<Out> C(stream, s.M, s.N);
    A.copyFrom(stored(a, s.M, s.K, left));
    B.copyFrom(stored(b, s.K, s.N, right));
    C.fillBytes(0xFF);
    std::tuple<Buffer<Extra>...> more{upload(stream, extra)...};
    auto call = std::apply(
        [&](auto &...tensors) {
          return kernel.prepare(view<T>(A.data(), s.M, s.K, left), view<T>(B.data(), s.K, s.N, right), C,
                                tensors...);
        },
        more);
    call(stream);
    const std::vector<Out> c = C.toHost();

    // 3. Host reference in double on sampled rows (every row when small), 4. compare: the error of sums in
    // f32 (none in i32), what the epilogue makes of it, one rounding
    sample::Comparison compare;
    const std::int64_t step = options.small ? 1 : s.M / 64 | 1;
    sample::Sums sums(s.N);
    for (std::int64_t m = 0; m < s.M; m += step) {
      sums.clear();
      for (std::int64_t k = 0; k < s.K; ++k)
        sums.add(a[m * s.K + k], &b[k * s.N]);
      for (std::int64_t n = 0; n < s.N; ++n) {
        const double error = std::is_integral_v<T> ? 0 : sums.error(n) + inside * sums.magnitude(n);
        const Want want = finish(sums.value(n), error, m, n);
        compare.add(double(c[m * s.N + n]), want.value,
                    std::abs(want.value) * unit<Out> + want.error + 0x1p-133);
      }
    }
    if (int failed =
            compare.report(fmt::format("{} {} x {} x {} on {}", name, s.M, s.N, s.K, stream.device().name())))
      return failed;

    // 5. Time
    sample::printFlops(name, sample::time(stream, options, [&] { call(stream); }), 2.0 * s.M * s.N * s.K);
    return 0;
  };
  return {name, text, run};
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    const sample::Options options = sample::parse(argc, argv, "C = A B");
    const auto bias = sample::normal<bf16>(shapeOf(options).N, 3);
    const std::vector<f32> scaleA{0.37f}, scaleB{1.71f};

    auto same = [](double sum, double error, std::int64_t, std::int64_t) { return Want{sum, error}; };
    auto scale = [](double sum, double error, std::int64_t, std::int64_t) {
      const double by = double(0.37f) * double(1.71f);
      return Want{sum * by, (error + 0x1p-22 * std::abs(sum)) * by};
    };
    // The slope of gelu is below 1.13; its own errors count against x.
    auto activate = [=](double sum, double error, std::int64_t, std::int64_t n) {
      const double x = sum + double(bias[n]);
      return Want{gelu(x), 1.2 * error + 0x1p-20 * std::abs(x)};
    };
    return sample::runJobs(
        options,
        {product<bf16, bf16>(options, "matmul", matmul, Majors::nn, 0, same),
         product<bf16, bf16>(options, "matmul_nt", matmul, Majors::nt, 0, same),
         product<bf16, bf16>(options, "matmul_tn", matmul, Majors::tn, 0, same),
         product<bf16, bf16>(options, "matmul_tt", matmul, Majors::tt, 0, same),
         product<f16, f16>(options, "matmul_f16", half, Majors::nt, 0, same),
         product<f32, f32>(options, "matmul_tf32", tf32, Majors::nt, 0x1p-9, same),
         product<i8, i32>(options, "matmul_i8", int8, Majors::nt, 0, same),
         // Some tensor cores keep 13 bits below the largest fp8 product of an instruction.
         product<e4m3, bf16>(options, "matmul_e4m3", fp8, Majors::nt, 0x1p-12, scale, scaleA, scaleB),
         product<bf16, bf16>(options, "matmul_bias_gelu", biasGelu, Majors::nt, 0, activate, bias)});
  });
}
