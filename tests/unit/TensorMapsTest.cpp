// SPDX-License-Identifier: Apache-2.0
/// \file Tensor maps and persistent blocks: what reaches the driver.
#include "tests/support/FakeLaunch.h"

#include <cstring>

using namespace sectile;
using namespace sectile::runtime;
using namespace sectile::test;

namespace {

std::string number(long long n) { return std::to_string(n); }

/// Two tensors of bf16; each has a map, the second that of its transpose.
LaunchInfo infoMaps() {
  LaunchInfo info = info2d();
  info.argRanks = {2, 2};
  info.maps = {{.arg = 0, .dtype = DType::bf16, .order = {1, 0}, .box = {64, 128}, .swizzle = 128, .limits = {"inf", "dim(1,0)"}},
               {.arg = 1, .dtype = DType::bf16, .order = {1, 0}, .box = {16, 32}, .swizzle = 32, .limits = {"inf", "inf"}}};
  return info;
}
FakeTensorMap sentMap(std::size_t offset) {
  FakeTensorMap m;
  std::memcpy(&m, fake().params + offset, sizeof m);
  return m;
}
std::string textOf(const FakeTensorMap &m) {
  std::string said = number(m.type) + " [";
  for (int i = 0; i < m.rank; ++i)
    said += number(m.dims[i]) + (i + 1 < m.rank ? "," : "] [");
  for (int i = 0; i + 1 < m.rank; ++i)
    said += number(static_cast<long long>(m.strides[i])) + (i + 2 < m.rank ? "," : "");
  said += "] [";
  for (int i = 0; i < m.rank; ++i)
    said += number(m.box[i]) + (i + 1 < m.rank ? "," : "] ");
  return said + number(m.swizzle);
}

} // namespace

TEST_CASE("TensorMaps: tensor maps come behind the arguments", "[runtime][launch][maps]") {
  CHECK(withFake({}, [] {
          Stream s(Device::gpu(0));
          Buffer<bf16> x(s, 24, 96), y(s, 80, 32);
          auto m = module(infoMaps());
          launch(*m, std::vector{view(x), view(y)}, s);
          // Two tensors of 40 bytes; maps at 128 and 256. Columns of x end at the rows of y.
          const FakeTensorMap a = sentMap(128), b = sentMap(256);
          return number(static_cast<long long>(fake().paramBytes)) + " " + number(a.address == x.data()) +
                 number(b.address == y.data()) + " " + textOf(a) + " " + textOf(b);
        }) == "384 11 9 [80,24] [192] [64,128] 3 9 [32,80] [64] [16,32] 1");
}

TEST_CASE("TensorMaps: axes of one element have any stride in a tensor map", "[runtime][launch][maps]") {
  CHECK(withFake({}, [] {
          Stream s(Device::gpu(0));
          Buffer<bf16> x(s, 1, 96), y(s, 80, 32);
          KernelArg row = view(x);
          std::string said;
          for (std::int64_t stride : {0, 7, -3}) {
            row.strides[0] = stride;
            launch(*module(infoMaps()), std::vector{row, view(y)}, s);
            const FakeTensorMap a = sentMap(128);
            said += number(a.dims[1]) + number(a.strides[0] % 16 == 0);
          }
          KernelArg odd = view(y);
          odd.strides[0] = 33;
          const std::string why = thrown([&] { launch(*module(infoMaps()), std::vector{row, odd}, s); });
          return said + number(has(why, "internal error")) + number(has(why, "strides in bytes [66]"));
        }) == "11111111");
}

TEST_CASE("TensorMaps: a tensor map without elements reads zeros and writes elsewhere", "[runtime][launch][maps]") {
  CHECK(withFake({}, [] {
          Stream s(Device::gpu(0));
          Buffer<bf16> x(s, 24, 96), y(s, 80, 32);
          LaunchInfo info = infoMaps();
          info.maps[0].limits = {"inf", "sub(dim(1,1),32)"};
          info.maps[1].limits = {"sub(0,5)", "inf"};
          KernelArg in = view(x);
          in.readOnly = true;
          launch(*module(info), std::vector{in, view(y)}, s);
          const FakeTensorMap a = sentMap(128), b = sentMap(256);
          const auto *page = static_cast<const unsigned char *>(a.address);
          bool zero = true;
          for (int i = 0; i < 256; ++i)
            zero &= page[i] == 0;
          return textOf(a) + " " + textOf(b) + " " + number(a.address != x.data()) + number(b.address != y.data()) +
                 number(a.address != b.address) + number(zero);
        }) == "9 [1,1] [16] [64,128] 3 9 [1,1] [16] [16,32] 1 1111");
}

TEST_CASE("TensorMaps: a persistent kernel has no more blocks than run at once, and than its rounds need", "[runtime][launch][maps]") {
  CHECK(withFake({}, [] {
          Stream s(Device::gpu(0));
          Buffer<float> large(s, 4000, 8), small(s, 40, 8);
          LaunchInfo info = info2d();
          info.persistent = true;
          info.sharedBytes = 200000; // one block per multiprocessor
          std::string said;
          for (auto [cluster, alike] : {std::pair(1, true), std::pair(2, true), std::pair(1, false), std::pair(2, false)}) {
            info.cluster = cluster;
            info.split.stream = alike;
            auto m = module(info);
            launch(*m, std::vector{view(large)}, s);
            said += number(fake().gridX) + " ";
            launch(*m, std::vector{view(small)}, s);
            said += number(fake().gridX) + " ";
            PreparedLaunch(m, std::vector{view(large)})(s);
            said += number(fake().gridX) + " ";
          }
          return said;
        }) == "125 10 125 126 20 126 132 10 132 132 20 132 ");
}

TEST_CASE("TensorMaps: tensor maps count as parameters", "[runtime][launch][maps]") {
  LaunchInfo info;
  info.argRanks.assign(46, 5);
  std::vector<KernelArg> args(46, tensor(somewhere, {1, 1, 1, 1, 1}));
  CHECK(thrown([&] { PreparedLaunch(module(info), args); }) == "nothing thrown");
  info.maps = {{.arg = 0, .dtype = DType::f32, .order = {4, 3, 2, 1, 0}, .box = {1, 1, 1, 1, 1}, .swizzle = 16,
                .limits = {"inf", "inf", "inf", "inf", "inf"}}};
  CHECK(has(thrown([&] { PreparedLaunch(module(info), args); }),
            "the 46 arguments take 4224 bytes of kernel parameters and the limit is 4096 [args_bytes]"));
  info.maps[0].limits[2] = "dim(0";
  CHECK(has(thrown([&] { module(info); }), "the limit \"dim(0\" of a tensor map is no expression"));
}
