// SPDX-License-Identifier: Apache-2.0
// Which variant of a kernel a launch gets: by shape bucket, constants and configuration, also from many threads at once.
#include <sectile/sectile.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

using namespace sectile;

namespace {

/// Writes the length of the tile that covers the row, so that a variant for another bucket shows. One kernel per N.
template <int N>
constexpr auto coverLength = kernel("cover_length", [](Tensor<const f32, 2> X, Tensor<i32, 1> Y, Config &cfg) {
  const int BC = cfg.cover("BC", X, 1);
  auto [r] = grid(Y, {1});
  Tile row = X.load({r, 0}, {1, BC}).fill(0.0f); // N tells the kernels apart
  Y.store({r}, cast<i32>(sum(row, 1)).drop(1) * 0 + scalar<i32>(BC + 0 * N));
});

constexpr auto covered = kernel("covered", [](Tensor<f32, 1> X, Config &cfg) {
  const int BC = cfg.cover("BC", X, 0);
  X.store({0}, full<f32>({BC}, 1.0f));
});

constexpr auto addConst = kernel("add_const", [](Tensor<i32, 1> Y, Const<i32> c, Config &cfg) {
  const int B = cfg.pick("B", {32, 64});
  auto [i] = grid(Y, {B});
  Y.store({i}, full<i32>({B}, int(c)));
});

int runCover(const auto &k, const Stream &stream, std::int64_t width) {
  Buffer<f32> x(stream, 2, width);
  Buffer<i32> y(stream, 2);
  x.fillBytes(0);
  k(stream, x, y);
  return y.toHost()[1];
}

/// Rows of floats that follow each other start at other places of 16 bytes unless 4 divides the width.
int bucketOf(std::int64_t width) { return detail::coverBucket(width % 4 ? width + 3 : width); }

/// 8 threads use kernel N for the first time, each with another width; wrong answers are counted.
template <int N> int firstUseRace() {
  std::atomic<int> wrong{0}, ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Stream stream = Device::interpreter().stream();
      const std::int64_t width = std::int64_t(10) << t;
      ++ready;
      while (ready < 8)
        ;
      for (int i = 0; i < 3; ++i)
        if (runCover(coverLength<N>, stream, width) != bucketOf(width))
          ++wrong;
    });
  for (std::thread &t : threads)
    t.join();
  return wrong;
}

} // namespace

TEST_CASE("A launch gets the variant of its shape bucket", "[dsl][launch]") {
  Stream stream = Device::interpreter().stream();
  for (std::int64_t width : {1, 16, 17, 32, 100, 16, 1000, 17})
    CHECK(runCover(coverLength<0>, stream, width) == bucketOf(width));
}

TEST_CASE("A tile set by hand covers the rows that fit into it, and no others", "[dsl][launch]") {
  Stream stream = Device::interpreter().stream();
  Buffer<f32> x(stream, 600);
  auto run = [&](int tile, std::int64_t length) {
    x.fillBytes(0);
    covered.with(Config().set("BC", tile))(stream, Tensor<f32, 1>(x.data(), {length}));
    std::vector<f32> want(600, 0.0f);
    std::fill_n(want.begin(), length, 1.0f);
    return x.toHost() == want;
  };
  CHECK(run(540, 530));
  // Of the same bucket, 1024, and longer than the tile.
  CHECK_THROWS_WITH(run(540, 560), Catch::Contains("[cover_value]") && Catch::Contains("540") && Catch::Contains("560"));
  CHECK(run(540, 540));
  CHECK(run(560, 560));
  CHECK_THROWS_AS(run(540, 541), UserError);
  CHECK(run(540, 100));
}

TEST_CASE("Eight threads meet a kernel for the first time with eight shapes", "[dsl][launch]") {
  CHECK(firstUseRace<1>() == 0);
  CHECK(firstUseRace<2>() == 0);
  CHECK(firstUseRace<3>() == 0);
  CHECK(firstUseRace<4>() == 0);
}

TEST_CASE("Constants and configurations are part of the key", "[dsl][launch]") {
  Stream stream = Device::interpreter().stream();
  Buffer<i32> y(stream, 100);
  for (int c : {1, 2, 1, -7}) {
    addConst(stream, y, c);
    CHECK(y.toHost() == std::vector<i32>(100, c));
    addConst.with(Config().set("B", 64))(stream, y, c + 1);
    CHECK(y.toHost() == std::vector<i32>(100, c + 1));
  }
}

TEST_CASE("More variants than are kept: dropped ones come back", "[dsl][launch]") {
  Stream stream = Device::interpreter().stream();
  Buffer<i32> y(stream, 5);
  for (int round = 0; round < 2; ++round)
    for (int c = 0; c < 600; c += 1) {
      addConst(stream, y, c);
      if (y.toHost() != std::vector<i32>(5, c))
        FAIL("constant " << c);
    }
}
