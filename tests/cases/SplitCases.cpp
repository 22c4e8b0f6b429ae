// SPDX-License-Identifier: Apache-2.0
/// \file P23e: loops that several blocks share: streams at once, graphs, equal bits at every launch.
#include "tests/cases/Cases.h"
#include "tests/cases/CudaDriver.h"

#include <thread>

using namespace cases;

namespace {

constexpr auto columnSums = kernel("column_sums", [](Tensor<const i32, 2> x, Tensor<i32, 1> y) {
  auto [c] = grid(y, {64});
  Tile total = zeros<i32>({1, 64});
  for (Tile r : range(0, x.dim(0), 16))
    total += sum(x.load({r, c}, {16, 64}), 0);
  y.store({c}, total.drop(0));
});

constexpr auto moments = kernel("moments", [](Tensor<const f32, 2> x, Tensor<f32, 1> y, Tensor<f32, 1> top) {
  auto [c] = grid(y, {32});
  Tile squares = zeros<f32>({8, 32});
  Tile largest = full<f32>({1, 32}, 1.0f);
  for (Tile r : range(0, x.dim(0), 8)) {
    Tile v = x.load({r, c}, {8, 32});
    squares += (v * v).fill(0);
    largest = max(largest, max(v, 0));
  }
  y.store({c}, sum(squares, 0).drop(0));
  top.store({c}, largest.drop(0));
});

/// The transpose of what a product over many rows gives: few tiles, a long loop.
constexpr auto gram = kernel("gram", [](Tensor<const bf16, 2> a, Tensor<const bf16, 2> b, Tensor<f32, 2> c) {
  auto [m, n] = grid(c, {32, 32});
  Tile acc = zeros<f32>({32, 32});
  for (Tile k : range(0, a.dim(1), 32))
    acc = mma(a.load({m, k}, {32, 32}), b.load({k, n}, {32, 32}), acc);
  c.store({m, n}, acc);
});

constexpr std::int64_t rows = 4099, columns = 200;

std::vector<i32> matrix(std::int64_t seed) {
  return make<i32>(rows * columns, [=](auto i) { return (i * 7 + seed) % 101 - 50; });
}
std::vector<i32> sumsOf(const std::vector<i32> &x) {
  std::vector<i32> sums(columns);
  for (std::size_t i = 0; i < x.size(); ++i)
    sums[i % std::size_t(columns)] += x[i];
  return sums;
}

} // namespace

SECTILE_CASE("P23e") {
  // Every number of parts, and several launches one after another: the counters are 0 again after each.
  Guarded<i32> x(run, matrix(1)), y(run, columns);
  const std::vector<i32> want = sumsOf(matrix(1));
  for (int split : {0, 1, 2, 3, 16, 100, 257, 65535})
    for (int again = 0; again < (run.isGpu() ? 5 : 1); ++again) {
      Config config;
      config.split = split;
      columnSums.with(config)(run.stream(), x.view(rows, columns), y.view(columns));
      run.same(y.get(), want, "split " + std::to_string(split));
    }
}

SECTILE_CASE("P23e/floats") {
  const auto values = make<f32>(rows * columns, [](auto i) { return double((i * 2654435761u) % 2001) / 1000 - 1; });
  Guarded<f32> x(run, values), y(run, columns), top(run, columns);
  std::vector<double> sums(columns), tops(columns, 1.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i % std::size_t(columns)] += double(values[i]) * double(values[i]);
    tops[i % std::size_t(columns)] = std::max(tops[i % std::size_t(columns)], double(values[i]));
  }
  for (int split : {0, 1, 7, 300}) {
    Config config;
    config.split = split;
    std::vector<f32> first;
    for (int again = 0; again < (run.isGpu() ? 20 : 1); ++again) {
      moments.with(config)(run.stream(), x.view(rows, columns), y.view(columns), top.view(columns));
      const std::vector<f32> got = y.get();
      if (again == 0)
        first = got;
      run.same(got, first, "equal bits at every launch, split " + std::to_string(split));
    }
    for (std::size_t c = 0; c < first.size(); ++c)
      run.check(std::abs(double(first[c]) - sums[c]) <= 1e-5 * sums[c], "sum of column " + std::to_string(c));
    run.same(top.get(), make<f32>(columns, [&](auto i) { return tops[std::size_t(i)]; }), "largest");
  }
}

SECTILE_CASE("P23e/product") {
  const std::int64_t k = 5000;
  const auto numbers = [](auto i) { return i * 5 % 7 - 3; };
  Guarded<bf16> a(run, make<bf16>(40 * k, numbers)), b(run, make<bf16>(k * 50, numbers));
  Guarded<f32> c(run, 40 * 50);
  std::vector<f32> want(40 * 50);
  for (std::int64_t m = 0; m < 40; ++m)
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t n = 0; n < 50; ++n)
        want[std::size_t(m * 50 + n)] += float(numbers(m * k + i) * numbers(i * 50 + n));
  for (int split : {0, 5, 64}) {
    Config config;
    config.split = split;
    gram.with(config)(run.stream(), a.view(40, k), b.view(k, 50), c.view(40, 50));
    run.same(c.get(), want, "split " + std::to_string(split));
  }
}

SECTILE_CASE_ALONE("P23e/streams") {
  if (!run.isGpu())
    run.skip("the interpreter has no streams that run at once");
  Device device = Device::gpu(0);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Stream stream(device);
      Buffer<i32> x(stream, rows, columns), y(stream, columns);
      const std::vector<i32> values = matrix(t), want = sumsOf(values);
      x.copyFrom(values);
      for (int i = 0; i < 200; ++i)
        columnSums(stream, x, y);
      wrong[std::size_t(t)] = y.toHost() != want;
      for (int i = 0; i < 50; ++i) {
        y.fillBytes(0xFF);
        columnSums(stream, x, y);
        wrong[std::size_t(t)] += y.toHost() != want;
      }
    });
  for (auto &t : threads)
    t.join();
  run.same(wrong, std::vector<int>(4), "results of streams that ran at once");
}

SECTILE_CASE_ALONE("P23e/graph") {
  if (!run.isGpu())
    run.skip("the interpreter has no graphs");
  Stream stream(Device::gpu(0)), other(Device::gpu(0));
  Buffer<i32> x(stream, rows, columns), y(stream, columns), z(stream, columns), captured(stream, columns);
  const std::vector<i32> values = matrix(3), want = sumsOf(values);
  x.copyFrom(values);
  columnSums(stream, x, y); // warm
  stream.synchronize();
  CudaDriver cuda;
  DriverGraph graph(cuda, stream.native(), [&] { columnSums(stream, x, captured); });
  for (int i = 0; i < 100; ++i) {
    captured.fillBytes(0xFF);
    stream.synchronize();
    graph.launch(other.native()); // beside launches on the stream that was captured
    columnSums(stream, x, y);
    columnSums(stream, x, z);
    other.synchronize();
    run.same(captured.toHost(), want, "replay");
    run.same(y.toHost(), want, "beside the replay");
    run.same(z.toHost(), want, "after that");
  }
}
