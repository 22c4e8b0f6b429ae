// SPDX-License-Identifier: Apache-2.0
/// \file Copies that a launch makes of operands which the TMA unit cannot load as they lie, and launches whose tensors
/// share memory.
#include "dsl/Repack.h"
#include "tests/support/FakeLaunch.h"

#include <sectile/sectile.h>

using namespace sectile;
using test::Environment;
using test::fake;

namespace {

KernelArg tensor(std::uintptr_t address, std::vector<std::int64_t> dims, std::vector<std::int64_t> strides, bool readOnly = true) {
  KernelArg a;
  a.dtype = DType::bf16;
  a.rank = int(dims.size());
  a.readOnly = readOnly;
  a.data = reinterpret_cast<void *>(address);
  std::copy(dims.begin(), dims.end(), a.dims.begin());
  std::copy(strides.begin(), strides.end(), a.strides.begin());
  return a;
}

constexpr auto product = kernel("product", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
  auto [m, n] = grid(C, {128, 128});
  Tile acc = zeros<f32>({128, 128});
  for (Tile k : range(0, A.dim(1), 64))
    acc = mma(A.load({m, k}, {128, 64}), B.load({n, k}, {128, 64}).t(), acc);
  C.store({m, n}, cast<bf16>(acc));
});
/// B lies across: 8-bit products take K alone as the axis of stride 1.
constexpr auto across = kernel("across", [](Tensor<const i8, 2> A, Tensor<const i8, 2> B, Tensor<i32, 2> C) {
  auto [m, n] = grid(C, {128, 128});
  Tile acc = zeros<i32>({128, 128});
  for (Tile k : range(0, A.dim(1), 64))
    acc = mma(A.load({m, k}, {128, 64}), B.load({k, n}, {64, 128}), acc);
  C.store({m, n}, acc);
});
/// Stores in a loop, beside loads.
constexpr auto strips = kernel("strips", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C) {
  auto [m] = grid(C, {128});
  Tile a = A.load({m, 0}, {128, 64});
  for (Tile n : range(0, C.dim(1), 128))
    C.store({m, n}, cast<bf16>(mma(a, B.load({n, 0}, {128, 64}).t())));
});

std::string withFake(Environment e, const std::function<std::string()> &work) {
  e.insert(e.end(), {{"SECTILE_PTXAS", "none"}, {"SECTILE_CACHE", "0"}});
  return test::withFake(e, work);
}

/// Memory of the fake driver for products of this size, with rows `pitch` elements apart.
struct Operands {
  Stream stream{Device::gpu(0)};
  std::int64_t M, N, K, pitch;
  Buffer<bf16> a, b, c;
  Operands(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t pitch)
      : M(m), N(n), K(k), pitch(pitch), a(stream, m * pitch + 8), b(stream, n * pitch + 8), c(stream, m * n) {}
  Tensor<const bf16, 2> A(std::int64_t from = 0) const { return {a.data() + from, {M, K}, {pitch, 1}}; }
  Tensor<const bf16, 2> B() const { return {b.data(), {N, K}, {pitch, 1}}; }
  Tensor<bf16, 2> C() { return {c.data(), {M, N}}; }
};

/// Launches of one call.
template <class F> int launches(F call) {
  const int before = fake().launches;
  call();
  return fake().launches - before;
}

} // namespace

TEST_CASE("Copies are chosen by what all programs load", "[repack]") {
  // A [1000, 999] in tiles of 128 rows; C [1000, 1000].
  const std::vector<KernelArg> args{tensor(1 << 20, {1000, 999}, {999, 1}), tensor(1 << 24, {1000, 1000}, {1000, 1}, false)};
  const std::vector<Repack> wishes{{0, 1, {128, 0}}};
  // 64 programs load A 8 times: 16 MB at a pitch of 1024. 32 load it 4 times: too little.
  auto some = RepackedArgs::choose(wishes, args, 64, false);
  REQUIRE(some);
  CHECK_FALSE(RepackedArgs::choose(wishes, args, 32, false));
  CHECK(RepackedArgs::choose(wishes, args, 32, true));
  CHECK(some->bytes() == 1000 * 1024 * 2);
  CHECK(some->indices().size() == 1);
  some->place(reinterpret_cast<void *>(std::uintptr_t(1) << 30));
  const KernelArg &a = some->args()[0];
  CHECK(a.data == reinterpret_cast<void *>(std::uintptr_t(1) << 30));
  CHECK(a.dims == args[0].dims);
  CHECK(a.strides[0] == 1024);
  CHECK(a.strides[1] == 1);
  CHECK(some->args()[1].data == args[1].data);
  REQUIRE(some->copies().size() == 1);
  const auto &copy = some->copies()[0];
  CHECK(copy.from.dims == std::array<std::int64_t, maxRank>{1, 1, 1, 1000, 999});
  CHECK(copy.from.strides == std::array<std::int64_t, maxRank>{0, 0, 0, 999, 1});
  CHECK(copy.to.strides == std::array<std::int64_t, maxRank>{0, 0, 0, 1024, 1});
  CHECK(copy.to.data == a.data);
  CHECK(copy.from.data == args[0].data);
}

TEST_CASE("A copy has the wanted axis fastest; axes of stride 0 stay one", "[repack]") {
  // [4, K = 100, N = 77] with N fastest, all 4 the same: K is to have stride 1.
  const std::vector<KernelArg> args{tensor(1 << 20, {4, 100, 77}, {0, 77, 1})};
  auto some = RepackedArgs::choose(std::vector<Repack>{{0, 1, {1, 0, 64}}}, args, 1, true);
  REQUIRE(some);
  CHECK(some->args()[0].strides[0] == 0);
  CHECK(some->args()[0].strides[1] == 1);
  CHECK(some->args()[0].strides[2] == 128);
  CHECK(some->bytes() == 77 * 128 * 2);
  CHECK(some->copies()[0].from.dims == std::array<std::int64_t, maxRank>{1, 1, 1, 77, 100});
  CHECK(some->copies()[0].from.strides == std::array<std::int64_t, maxRank>{0, 0, 0, 1, 77});
}

TEST_CASE("Rows inside lines of memory are copied where programs load them very often", "[repack]") {
  // 4104 x 4104: rows start at multiples of 16 bytes. 561 programs load 128 rows 17 times, 256 rows 35 times.
  const std::vector<KernelArg> args{tensor(1 << 20, {4104, 4104}, {4104, 1}), tensor(1 << 28, {4104, 4104}, {4104, 1}, false)};
  CHECK_FALSE(RepackedArgs::choose(std::vector<Repack>{{0, 1, {128, 0}}}, args, 561, false));
  auto some = RepackedArgs::choose(std::vector<Repack>{{0, 1, {256, 0}}}, args, 561, false);
  REQUIRE(some);
  CHECK(some->args()[0].strides[0] == 4160);
  // Whole lines: nothing to gain, and known without looking further.
  const std::vector<KernelArg> lines{tensor(1 << 20, {4104, 4104}, {4160, 1})};
  CHECK_FALSE(RepackedArgs::isWished(std::vector<Repack>{{0, 1, {256, 0}}}, lines));
  CHECK_FALSE(RepackedArgs::choose(std::vector<Repack>{{0, 1, {256, 0}}}, lines, 1 << 20, true));
  CHECK(RepackedArgs::isWished(std::vector<Repack>{{0, 0, {0, 256}}}, lines)); // another axis of stride 1
  CHECK(RepackedArgs::isWished(std::vector<Repack>{{0, 1, {256, 0}}}, args));
}

TEST_CASE("What a kernel writes is not copied", "[repack]") {
  const std::vector<Repack> wishes{{0, 1, {128, 0}}};
  KernelArg a = tensor(1 << 20, {1000, 999}, {999, 1}), c = tensor((1 << 20) + 64, {10, 10}, {10, 1}, false);
  CHECK_FALSE(RepackedArgs::choose(wishes, std::vector<KernelArg>{a, c}, 1000, true));
  c.dims[0] = 0;
  CHECK(RepackedArgs::choose(wishes, std::vector<KernelArg>{a, c}, 1000, true));
  a.readOnly = false;
  CHECK_FALSE(RepackedArgs::choose(wishes, std::vector<KernelArg>{a}, 1000, true));
  a.readOnly = true;
  a.dims[1] = 0; // nothing to copy
  CHECK_FALSE(RepackedArgs::choose(wishes, std::vector<KernelArg>{a}, 1000, true));
}

TEST_CASE("Arguments are apart unless a written one shares bytes with another", "[repack]") {
  const KernelArg x = tensor(1000, {10, 10}, {10, 1}), y = tensor(1200, {10, 10}, {10, 1}, false);
  CHECK(areApart(std::vector<KernelArg>{x, y}));
  KernelArg inside = y;
  inside.data = reinterpret_cast<void *>(std::uintptr_t(1198));
  CHECK_FALSE(areApart(std::vector<KernelArg>{x, inside}));
  CHECK(areApart(std::vector<KernelArg>{x, x, y})); // two that are only read
  // From its last element down to byte 1000.
  KernelArg down = tensor(1198, {10, 10}, {-10, -1}, false);
  CHECK_FALSE(areApart(std::vector<KernelArg>{x, down}));
  KernelArg scalar;
  CHECK(areApart(std::vector<KernelArg>{scalar, y}));
}

TEST_CASE("Odd rows are copied before a product, aligned ones are not", "[repack]") {
  CHECK(withFake({}, [] {
          Operands odd(1024, 1024, 999, 999), even(1024, 1024, 1000, 1000);
          std::string said;
          said += std::to_string(launches([&] { product(odd.stream, odd.A(), odd.B(), odd.C()); }));
          said += std::to_string(launches([&] { product(even.stream, even.A(), even.B(), even.C()); }));
          // Aligned rows from an address that is not: one copy, of A.
          said += std::to_string(launches([&] { product(even.stream, even.A(1), even.B(), even.C()); }));
          Config never, always;
          never.repack = 1;
          always.repack = 2;
          said += std::to_string(launches([&] { product.with(never)(odd.stream, odd.A(), odd.B(), odd.C()); }));
          Operands small(128, 128, 67, 67);
          said += std::to_string(launches([&] { product(small.stream, small.A(), small.B(), small.C()); }));
          said += std::to_string(launches([&] { product.with(always)(small.stream, small.A(), small.B(), small.C()); }));
          // Again: nothing is allocated.
          const int before = fake().liveAllocations;
          said += std::to_string(launches([&] { product(odd.stream, odd.A(), odd.B(), odd.C()); }));
          auto prepared = product.prepare(odd.A(), odd.B(), odd.C());
          said += std::to_string(launches([&] { prepared(odd.stream); }));
          said += fake().liveAllocations == before ? " same" : " more";
          return said;
        }) == "31211333 same");
}

TEST_CASE("An operand that lies across is copied along K where the instruction needs that", "[repack]") {
  CHECK(withFake({}, [] {
          Stream s{Device::gpu(0)};
          Buffer<i8> a(s, 2048, 2048), b(s, 2048, 2048);
          Buffer<i32> c(s, 2048, 2048);
          return std::to_string(launches([&] { across(s, a, b, c); }));
        }) == "2");
}

TEST_CASE("Without memory for copies a product reads its operands as they lie", "[repack]") {
  CHECK(withFake({{"FAKECUDA_FREE", "3000000"}}, [] {
          Operands odd(1024, 1024, 999, 999); // 2 MB each; copies take 4.2 together
          return std::to_string(launches([&] { product(odd.stream, odd.A(), odd.B(), odd.C()); }));
        }) == "1");
}

TEST_CASE("A kernel that writes what it reads has code of its own", "[repack]") {
  CHECK(withFake({}, [] {
          Stream s{Device::gpu(0)};
          Buffer<bf16> a(s, 256, 64), b(s, 512, 64), c(s, 256, 512);
          Tensor<bf16, 2> over(b.data(), {256, 512}, {64, 1}); // rows over rows: the addresses decide, not the elements
          strips(s, a, b, c);
          const int before = fake().loads;
          strips(s, a, b, over);
          const int other = fake().loads - before;
          strips(s, a, b, c);
          strips(s, a, b, over);
          return std::to_string(other) + std::to_string(fake().loads - before);
        }) == "11");
}
