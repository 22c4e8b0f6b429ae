// SPDX-License-Identifier: Apache-2.0
// 20 lambdas: one product, with lambdas for what it loads and for its sums. The idea: a prologue works on a loaded tile, an epilogue
// on a tile of sums, and the tensors that they read or write are further parameters of the kernel. So a product dequantises,
// normalises, adds, reduces, quantises or scatters without a line of its own for any of it.
#include "samples/common/Sample.h"
#include "samples/common/Sums.h"

// 1. Kernels: `productOf` with several prologues and epilogues
#include "samples/20_lambdas/kernels.h"

#include <optional>

using namespace sectile;

namespace {

constexpr double unit = 0x1p-8; ///< of rounding to bf16

std::int64_t groups(std::int64_t length, std::int64_t of) { return (length + of - 1) / of; }

/// What all jobs have: operands, the result, and sums in double of some rows.
template <class TB, class Out> struct Product {
  std::int64_t M, N, K;
  std::vector<bf16> a;
  std::vector<TB> b;
  std::optional<Buffer<bf16>> A;
  std::optional<Buffer<TB>> B;
  std::optional<Buffer<Out>> C;

  Product(bool small, std::int64_t rows) : M(small ? 70 : rows), N(small ? 150 : 4096), K(small ? 200 : 4096) {}
  void prepare(const Stream &stream) {
    a = sample::normal<bf16>(M * K, 1);
    b = sample::normal<TB>(K * N, 2);
    A.emplace(stream, M, K).copyFrom(a);
    B.emplace(stream, K, N).copyFrom(b);
    C.emplace(stream, M, N).fillBytes(0xFF);
  }
  /// The arguments without memory.
  Tensor<const bf16, 2> left() const { return {nullptr, {M, K}}; }
  Tensor<const TB, 2> right() const { return {nullptr, {K, N}}; }
  Tensor<Out, 2> result() const { return {nullptr, {M, N}}; }
  /// Rows that are compared: all of few, else some groups of them.
  template <class F> void someGroups(F f) const {
    for (std::int64_t g = 0; g < groups(M, sample::groupRows); g += M > 128 ? groups(M, sample::groupRows) / 3 | 1 : 1)
      f(g * sample::groupRows, std::min<std::int64_t>((g + 1) * sample::groupRows, M));
  }
  double flops() const { return 2.0 * double(M) * double(N) * double(K); }
};

template <class T> Buffer<T> upload(const Stream &stream, const std::vector<T> &host, std::int64_t rows, std::int64_t columns) {
  Buffer<T> there(stream, rows, columns);
  there.copyFrom(host);
  return there;
}

/// Normalised activations times 8-bit weights, plus a residual, with sums of rows and columns of the result.
struct Sums : Product<e4m3, bf16> {
  explicit Sums(bool small) : Product(small, 4096) {}
  std::string text(const sample::Options &o) const {
    const Tensor<const f32, 2> scales(nullptr, {groups(K, sample::scaleRows), N}), s(nullptr, {M, 1});
    const Tensor<f32, 2> ofRows(nullptr, {M, groups(N, sample::groupColumns)}), ofColumns(nullptr, {groups(M, sample::groupRows), N});
    return sample::normalisedProduct.emit(o.emit, o.arch, left(), right(), result(), s, Tensor<const bf16, 1>(nullptr, {K}), scales,
                                          Tensor<const bf16, 2>(nullptr, {M, N}), ofRows, ofColumns);
  }
  int run(const sample::Options &options) {
    Stream stream = sample::device(options).stream();
    prepare(stream);
    const std::int64_t G = groups(K, sample::scaleRows), H = groups(N, sample::groupColumns);
    const auto weight = sample::normal<bf16>(K, 3), residual = sample::normal<bf16>(M * N, 4);
    std::vector<f32> s(static_cast<std::size_t>(M)), scales(static_cast<std::size_t>(G * N));
    for (std::int64_t m = 0; m < M; ++m) {
      double squares = 0;
      for (std::int64_t k = 0; k < K; ++k)
        squares += double(a[m * K + k]) * double(a[m * K + k]);
      s[m] = float(1 / std::sqrt(squares / double(K) + 1e-5));
    }
    for (std::size_t i = 0; i < scales.size(); ++i)
      scales[i] = 0.01f * float(1 + i % 7);
    Buffer<bf16> W(stream, K), R = upload(stream, residual, M, N);
    W.copyFrom(weight);
    const Buffer<f32> S = upload(stream, s, M, 1), Scales = upload(stream, scales, G, N);
    Buffer<f32> ofRows(stream, M, H), ofColumns(stream, groups(M, sample::groupRows), N);
    auto launch = [&] { sample::normalisedProduct(stream, *A, *B, *C, S, W, Scales, R, ofRows, ofColumns); };
    launch();

    // 3. Host reference: operands as the prologues round them, sums in double; 4. compare
    const std::vector<bf16> c = C->toHost();
    const std::vector<f32> rows = ofRows.toHost(), columns = ofColumns.toHost();
    std::vector<bf16> weights(b.size());
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t n = 0; n < N; ++n)
        weights[k * N + n] = bf16(float(b[k * N + n]) * scales[k / sample::scaleRows * N + n]);
    sample::Comparison compare;
    sample::Sums sums(N);
    someGroups([&](std::int64_t first, std::int64_t end) {
      std::vector<double> total(static_cast<std::size_t>(N)), bound(total);
      for (std::int64_t m = first; m < end; ++m) {
        sums.clear();
        for (std::int64_t k = 0; k < K; ++k)
          sums.add(double(bf16(float(a[m * K + k]) * s[m] * float(weight[k]))), &weights[k * N]);
        double squares = 0, off = 0;
        for (std::int64_t n = 0; n < N; ++n) {
          const double y = sums.value(n) + double(residual[m * N + n]), error = sums.error(n) + 0x1p-23 * std::abs(y);
          compare.add(c[m * N + n], y, error + unit * std::abs(y) + 1e-30);
          total[n] += y;
          bound[n] += error + sample::groupRows * 0x1p-23 * std::abs(y);
          squares += y * y;
          off += 2 * std::abs(y) * error + sample::groupColumns * 0x1p-23 * y * y;
          if (n % sample::groupColumns == sample::groupColumns - 1 || n == N - 1) {
            compare.add(rows[m * H + n / sample::groupColumns], squares, off + 1e-30);
            squares = off = 0;
          }
        }
      }
      for (std::int64_t n = 0; n < N; ++n)
        compare.add(columns[first / sample::groupRows * N + n], total[n], bound[n] + 1e-30);
    });
    if (int failed = compare.report(fmt::format("sums {} x {} x {} on {}", M, N, K, stream.device().name())))
      return failed;

    // 5. Time
    sample::printFlops("sums", sample::time(stream, options, launch), flops());
    return 0;
  }
};

/// 8 bits, with a scale for each 32 columns of a row.
struct Quantised : Product<bf16, e4m3> {
  explicit Quantised(bool small) : Product(small, 4096) {}
  std::string text(const sample::Options &o) const {
    return sample::quantisedProduct.emit(o.emit, o.arch, left(), right(), result(), Tensor<f32, 2>(nullptr, {M, groups(N, sample::groupColumns)}));
  }
  int run(const sample::Options &options) {
    Stream stream = sample::device(options).stream();
    prepare(stream);
    const std::int64_t H = groups(N, sample::groupColumns);
    Buffer<f32> Scales(stream, M, H);
    auto launch = [&] { sample::quantisedProduct(stream, *A, *B, *C, Scales); };
    launch();
    const std::vector<e4m3> c = C->toHost();
    const std::vector<f32> scales = Scales.toHost();
    sample::Comparison compare;
    sample::Sums sums(N);
    someGroups([&](std::int64_t first, std::int64_t end) {
      for (std::int64_t m = first; m < end; ++m) {
        sums.clear();
        for (std::int64_t k = 0; k < K; ++k)
          sums.add(double(a[m * K + k]), &b[k * N]);
        for (std::int64_t n = 0; n < N; n += sample::groupColumns) {
          double largest = 0, error = 0;
          const std::int64_t last = std::min<std::int64_t>(n + sample::groupColumns, N);
          for (std::int64_t i = n; i < last; ++i) {
            largest = std::max(largest, std::abs(sums.value(i)));
            error = std::max(error, sums.error(i));
          }
          const double scale = scales[m * H + n / sample::groupColumns];
          compare.add(scale, largest / 448, error / 448 + scale * 0x1p-22);
          // Half a unit of 3 bits, or of the smallest numbers.
          for (std::int64_t i = n; i < last; ++i)
            compare.add(double(c[m * N + i]) * scale, sums.value(i), std::abs(sums.value(i)) * 0x1.01p-4 + scale * 0x1p-10 + error * 1.1);
        }
      }
    });
    if (int failed = compare.report(fmt::format("quantised {} x {} x {} on {}", M, N, K, stream.device().name())))
      return failed;
    sample::printFlops("quantised", sample::time(stream, options, launch), flops());
    return 0;
  }
};

/// The result, and a copy of its rows where a table says: pages of many rows, or row by row.
template <bool byRows> struct Scattered : Product<bf16, bf16> {
  explicit Scattered(bool small) : Product(small, byRows ? 64 : 4096) {}
  static constexpr const char *name = byRows ? "rows" : "pages";
  std::string text(const sample::Options &o) const {
    const Tensor<const i32, 1> table(nullptr, {byRows ? M : groups(M, sample::pageRows)});
    if constexpr (byRows)
      return sample::scatteredProduct.emit(o.emit, o.arch, left(), right(), result(), table, Tensor<bf16, 2>(nullptr, {2 * M, N}));
    else
      return sample::pagedProduct.emit(o.emit, o.arch, left(), right(), result(), table,
                                       Tensor<bf16, 3>(nullptr, {2 * groups(M, sample::pageRows), sample::pageRows, N}));
  }
  int run(const sample::Options &options) {
    Stream stream = sample::device(options).stream();
    prepare(stream);
    // Every second place, from the last one on; the first row goes nowhere.
    const std::int64_t per = byRows ? 1 : sample::pageRows, count = groups(M, per);
    std::vector<i32> table;
    for (std::int64_t i = 0; i < count; ++i)
      table.push_back(static_cast<i32>(byRows && i == 0 ? -1 : 2 * (count - i) - 1));
    Buffer<i32> Table(stream, count);
    Table.copyFrom(table);
    std::optional<Buffer<bf16>> places;
    if constexpr (byRows)
      places.emplace(stream, 2 * count, N);
    else
      places.emplace(stream, 2 * count, per, N);
    places->fillBytes(0);
    auto launch = [&] {
      if constexpr (byRows)
        sample::scatteredProduct(stream, *A, *B, *C, Table, *places);
      else
        sample::pagedProduct(stream, *A, *B, *C, Table, *places);
    };
    launch();
    const std::vector<bf16> c = C->toHost(), copies = places->toHost();
    std::vector<bf16> want(copies.size());
    for (std::int64_t m = 0; m < M; ++m)
      if (const std::int64_t place = table[m / per]; place >= 0)
        std::copy_n(c.begin() + m * N, N, want.begin() + (place * per + m % per) * N);
    sample::Comparison compare;
    for (std::size_t i = 0; i < want.size(); ++i)
      compare.add(copies[i], want[i], 1e-30); // the same bits
    sample::Sums sums(N);
    someGroups([&](std::int64_t first, std::int64_t end) {
      for (std::int64_t m = first; m < end; ++m) {
        sums.clear();
        for (std::int64_t k = 0; k < K; ++k)
          sums.add(double(a[m * K + k]), &b[k * N]);
        for (std::int64_t n = 0; n < N; ++n)
          compare.add(c[m * N + n], sums.value(n), sums.error(n) + unit * std::abs(sums.value(n)) + 1e-30);
      }
    });
    if (int failed = compare.report(fmt::format("{} {} x {} x {} on {}", name, M, N, K, stream.device().name())))
      return failed;
    sample::printFlops(name, sample::time(stream, options, launch), flops());
    return 0;
  }
};

template <class P> sample::Job job(const sample::Options &options, const char *name) {
  return {name, [=] { return P(options.small).text(options); }, [=] { return P(options.small).run(options); }};
}

} // namespace

int main(int argc, char **argv) {
  return sample::guarded([&] {
    // 2. Shapes: those of each job
    const sample::Options options = sample::parse(argc, argv, "a product with lambdas before and behind it");
    return sample::runJobs(options, {job<Sums>(options, "sums"), job<Quantised>(options, "quantised"), job<Scattered<false>>(options, "pages"),
                                     job<Scattered<true>>(options, "rows")});
  });
}
