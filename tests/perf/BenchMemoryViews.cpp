// SPDX-License-Identifier: Apache-2.0
/// \file Rows of the memory suite for tensors that start anywhere: pointers one element behind an aligned place, rows an odd
/// number of elements apart. Each beside the same kernel on an aligned tensor of the same shape, by turns.
#include "samples/02_softmax/kernels.h"
#include "samples/08_transpose/kernels.h"
#include "samples/10_rms_norm/kernels.h"
#include "tests/perf/BenchMemory.h"

#include <fmt/format.h>

namespace bench {
namespace {
using namespace sectile;

/// Where a tensor begins and how far its rows are apart, in elements beyond the aligned, packed tensor.
struct Place {
  const char *name;
  std::int64_t start, gap;
};
constexpr Place aligned{"aligned", 0, 0}, shifted{"shifted", 1, 0}, apart{"apart", 0, 1}, both{"both", 1, 1};

/// A matrix with room around it, in several sets.
class Matrix {
public:
  Matrix(MemoryBench &bench, int sets, Shape shape, std::int64_t seed) : shape(shape) {
    const std::int64_t size = shape.first * (shape.second + 1) + 8;
    for (int s = 0; s < sets; ++s) {
      buffers.emplace_back(bench.gpu.stream(), size);
      bench.noise().fill(buffers.back().data(), size, seed * 8'388'617 + s * 20'000'003);
    }
  }
  template <class T> Tensor<T, 2> at(std::size_t set, const Place &p) {
    return Tensor<T, 2>(buffers[set].data() + p.start, {shape.first, shape.second}, {shape.second + p.gap, 1});
  }
  template <class T> Tensor<T, 1> flat(std::size_t set, const Place &p) {
    return Tensor<T, 1>(buffers[set].data() + p.start, {shape.first * shape.second});
  }

private:
  Shape shape;
  std::vector<Buffer<bf16>> buffers;
};

/// Runs `prepare(config, set, place)` at an aligned place and at each of `places`; ratios are rates over that of the aligned one.
template <class F>
void compare(MemoryBench &bench, const char *op, Shape shape, std::initializer_list<Place> places,
             const std::vector<Config> &configs, F prepare) {
  const double bytes = 2.0 * 2 * static_cast<double>(shape.first * shape.second);
  const int sets = setsFor(bytes);
  auto measured = [&](const Place &place) {
    Case c;
    c.sets = sets;
    c.info = {.suite = "memory", .op = fmt::format("{}_{}", op, place.name), .dtype = "bf16", .shape = str(shape), .bytes = bytes};
    addCandidates(c, configs, [&](const Config &config, std::size_t s) { return prepare(config, s, place); });
    return bench.run(std::move(c), {}, false);
  };
  const Best still = measured(aligned);
  for (const Place &place : places) {
    const Best moved = measured(place);
    if (still.calls.empty() || moved.calls.empty())
      continue;
    auto of = [&](const Best &best) {
      return bench.gpu.roughMillis([&](int s) { best.calls[static_cast<std::size_t>(s)](bench.gpu.stream()); }, sets, 25);
    };
    std::vector<double> ratios;
    for (int r = 0; r < bench.options.rounds; ++r) {
      const double first = of(r % 2 ? still : moved), second = of(r % 2 ? moved : still);
      ratios.push_back(r % 2 ? first / second : second / first);
    }
    printRatio(bench.out,
               {.suite = "memory", .op = "ratio", .dtype = "bf16", .shape = fmt::format("{}_{}_{}/aligned", op, place.name, str(shape))},
               ratios, "rate over that of the same kernel on an aligned tensor of this shape");
  }
}

void softmaxViews(MemoryBench &bench, Shape shape) {
  Matrix x(bench, 3, shape, 50), y(bench, 3, shape, 51);
  compare(bench, "softmax_view", shape, {shifted, apart, both}, wholeRows(shape.second),
          [&](const Config &config, std::size_t s, const Place &p) {
            return sample::softmax.with(config).prepare(x.at<const bf16>(s, p), y.at<bf16>(s, p));
          });
}

void normViews(MemoryBench &bench, Shape shape) {
  Matrix x(bench, 3, shape, 52), y(bench, 3, shape, 53);
  Input<bf16> w(bench.gpu, bench.noise(), 1, {shape.second}, 54);
  compare(bench, "rmsnorm_view", shape, {shifted, apart, both}, wholeRows(shape.second),
          [&](const Config &config, std::size_t s, const Place &p) {
            return sample::rmsNorm.with(config).prepare(x.at<const bf16>(s, p), w[0], y.at<bf16>(s, p), 1e-6f);
          });
}

void copyViews(MemoryBench &bench, Shape shape) {
  Matrix x(bench, 3, shape, 55), y(bench, 3, shape, 56);
  compare(bench, "copy_view", shape, {shifted}, product({{"B", {1024, 2048, 4096}}}, {4, 8}),
          [&](const Config &config, std::size_t s, const Place &p) {
            return sample::copy.with(config).prepare(x.flat<const bf16>(s, p), y.flat<bf16>(s, p));
          });
}

} // namespace

void viewCases(MemoryBench &bench) {
  for (Shape shape : pickShapes(bench.options, std::vector<Shape>{{16384, 4000}, {8192, 12000}}))
    bench.attempt("softmax_view", str(shape), [&] { softmaxViews(bench, shape); });
  for (Shape shape : pickShapes(bench.options, std::vector<Shape>{{16384, 4000}}))
    bench.attempt("rmsnorm_view", str(shape), [&] { normViews(bench, shape); });
  for (Shape shape : pickShapes(bench.options, std::vector<Shape>{{16384, 4096}}))
    bench.attempt("copy_view", str(shape), [&] { copyViews(bench, shape); });
}

} // namespace bench
