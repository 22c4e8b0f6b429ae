// SPDX-License-Identifier: Apache-2.0
/// \file How many blocks share a loop, and the memory in which their parts meet.
#include "runtime/Split.h"
#include "runtime/KernelCache.h"
#include "tests/support/FakeLaunch.h"

#include <cstring>
#include <set>
#include <thread>

using namespace sectile;
using namespace sectile::runtime;
using test::fake;
using test::inChild;
using test::withFake;

namespace {

DeviceProperties h200() {
  DeviceProperties d;
  d.multiprocessors = 132;
  d.maxThreadsPerMultiprocessor = 2048;
  d.registersPerMultiprocessor = 65536;
  d.sharedBytesPerMultiprocessor = 233472;
  return d;
}
/// Sums of columns: X is argument 0, strips of 64 of Y, argument 1, over rows 16 at a time.
LaunchInfo columnSums() {
  LaunchInfo info;
  info.symbol = "sums";
  info.grid = {{1, 0, 64}};
  info.threads = 128;
  info.argRanks = {2, 1};
  info.split = {.possible = true,
                .lower = {},
                .upper = {.arg = 0, .axis = 0},
                .step = {.value = 16},
                .minTrips = 4,
                .parts = 0,
                .partBytes = 256};
  return info;
}
KernelArg tensor(std::vector<std::int64_t> dims, void *data = nullptr) {
  KernelArg a;
  a.rank = static_cast<int>(dims.size());
  a.data = data;
  std::int64_t stride = 1;
  for (int d = a.rank - 1; d >= 0; --d) {
    a.dims[d] = dims[d];
    a.strides[d] = stride;
    stride *= dims[d];
  }
  return a;
}
SplitChoice choose(const LaunchInfo &info, std::int64_t rows, std::int64_t columns, int registers = 40) {
  std::vector args{tensor({rows, columns}), tensor({columns})};
  return chooseSplit(info, args, (columns + 63) / 64, registers, h200());
}
bool is(SplitChoice c, std::int64_t parts, std::int64_t trips) {
  INFO("parts " << c.parts << ", trips " << c.trips);
  return c.parts == parts && c.trips == trips;
}

} // namespace

TEST_CASE("Split: blocks that a GPU holds at once", "[runtime][split]") {
  LaunchInfo info = columnSums();
  CHECK(blocksInFlight(info, 32, h200()) == 132 * 16);
  CHECK(blocksInFlight(info, 40, h200()) == 132 * 12); // registers
  info.threads = 1024;
  CHECK(blocksInFlight(info, 32, h200()) == 132 * 2); // threads
  info.threads = 128;
  info.sharedBytes = 100000;
  CHECK(blocksInFlight(info, 32, h200()) == 132 * 2); // shared memory
  info.sharedBytes = 232448;
  info.threads = 1024;
  CHECK(blocksInFlight(info, 255, h200()) == 132); // never none
}

TEST_CASE("Split: how many parts", "[runtime][split]") {
  LaunchInfo info = columnSums();
  const std::int64_t all = 132 * 12;
  // 64 programs, 512 trips: 24 parts fill the GPU, shares of 22 trips.
  CHECK(all / 64 == 24);
  CHECK(is(choose(info, 8192, 4096), 24, 22));
  // Few trips: at least 4 each.
  CHECK(is(choose(info, 16 * 16, 4096), 4, 4));
  CHECK(is(choose(info, 16 * 7, 4096), 1, -1));
  // Enough programs.
  CHECK(is(choose(info, 8192, 64 * all), 1, -1));
  CHECK(is(choose(info, 8192, 64 * (all / 2)), 2, 256));
  CHECK(is(choose(info, 8192, 64 * (all / 2 + 1)), 1, -1));
  // Shares are equal but for the last, and none is empty.
  for (std::int64_t rows : {1000, 5000, 8191, 100000, 12345678})
    for (std::int64_t columns : {1, 64, 1000, 4096, 10000}) {
      SplitChoice c = choose(info, rows, columns);
      std::int64_t trips = (rows + 15) / 16;
      if (c.parts > 1) {
        CHECK(c.parts * c.trips >= trips);
        CHECK((c.parts - 1) * c.trips < trips);
      }
      CHECK(c.parts * ((columns + 63) / 64) <= all);
    }
  // No trips, no programs, more programs than counters.
  CHECK(is(choose(info, 0, 4096), 1, -1));
  CHECK(is(choose(info, 8192, 0), 1, -1));
  CHECK(is(choose(info, 8192, 64 * (LaunchSplit::maxPrograms + 1)), 1, -1));
}

TEST_CASE("Split: parts by hand, and limits", "[runtime][split]") {
  LaunchInfo info = columnSums();
  info.split.parts = 5;
  CHECK(is(choose(info, 8192, 64 * 4096), 5, 103));
  CHECK(is(choose(info, 16 * 3, 64), 3, 1)); // no more than trips
  CHECK(is(choose(info, 16, 64), 1, -1));
  CHECK(is(choose(info, 8192, 64 * 4097), 1, -1)); // more programs than counters
  info.split.parts = 1 << 20;
  CHECK(choose(info, std::int64_t(16) << 20, 64).parts == 61681); // 65535 at most: shares of 17
  info.split.partBytes = 1 << 20;
  CHECK(choose(info, 1 << 20, 64).parts == 256); // the workspace has an end
  CHECK(choose(info, 1 << 20, 64 * 300).parts == 1);
}

TEST_CASE("Split: bounds of the range", "[runtime][split]") {
  LaunchInfo info = columnSums();
  info.split.parts = 2;
  info.split.minTrips = 1;
  info.split.upper = {.arg = 2};
  auto with = [&](DType t, std::uint64_t bits) {
    KernelArg n;
    n.dtype = t;
    n.scalar = bits;
    std::vector args{tensor({8, 64}), tensor({64}), n};
    return chooseSplit(info, args, 1, 40, h200());
  };
  CHECK(is(with(DType::i32, 100), 2, 4));
  CHECK(is(with(DType::u8, 0xffffffffffffff64), 2, 4)); // 100: bits beyond the type do not count
  CHECK(is(with(DType::i8, 0x9c), 1, -1));              // -100
  CHECK(is(with(DType::i64, ~std::uint64_t(0)), 1, -1)); // -1
  CHECK(is(with(DType::u64, ~std::uint64_t(0)), 1, -1)); // as a signed number
  CHECK(is(with(DType::i64, INT64_MAX), 1, -1));         // too long to compute with
  info.split.lower = {.value = 68};
  CHECK(is(with(DType::i32, 100), 2, 1));
  CHECK(is(with(DType::i32, 84), 1, -1));
}

TEST_CASE("Split: what the launch must know comes back from the disk", "[runtime][split][cache]") {
  Artifact a;
  a.launch = columnSums();
  a.launch.split.lower = {.arg = 3};
  auto back = deserialize(serialize(a));
  REQUIRE(back);
  const LaunchSplit &s = back->launch.split, &t = a.launch.split;
  CHECK(s.possible);
  CHECK((s.lower.arg == 3 && s.lower.axis == -1));
  CHECK((s.upper.arg == 0 && s.upper.axis == 0));
  CHECK(s.step.value == 16);
  CHECK((s.minTrips == t.minTrips && s.parts == t.parts && s.partBytes == t.partBytes));
  CHECK_FALSE(deserialize(serialize(a).substr(1)));
}

// --- launches
// -------------------------------------------------------------------------------------------------------

namespace {

std::shared_ptr<Module> module(LaunchInfo info) {
  auto a = std::make_shared<Artifact>();
  a->launch = std::move(info);
  a->arch = "sm_90a";
  a->ptx = ".version 8.0";
  return std::make_shared<Module>("sums", a);
}
/// X without memory of its own: its rows are one row.
struct Arguments {
  Buffer<float> row, sums;
  Arguments(const Device &d, std::int64_t columns) : row(d, columns), sums(d, columns) {}
  std::vector<KernelArg> list(std::int64_t rows) {
    KernelArg x = tensor({rows, row.dims()[0]}, row.data());
    x.readOnly = true;
    x.strides[0] = 0;
    return {x, tensor({row.dims()[0]}, sums.data())};
  }
};
struct More {
  std::uint64_t workspace;
  std::int64_t trips;
};
/// What came after the kernel's own parameters at the last launch.
More more() {
  More m;
  std::memcpy(&m, fake().params + fake().paramBytes - sizeof m, sizeof m);
  return m;
}
std::string number(long long n) { return std::to_string(n); }

} // namespace

TEST_CASE("Split: what reaches the driver", "[runtime][split]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          Stream s(d);
          Arguments args(d, 4096);
          auto m = module(columnSums());
          // The fake's functions have 168 registers: 3 blocks of 4 warps on each of 132 multiprocessors.
          launch(*m, args.list(8192), s);
          std::string said = number(fake().gridX) + "x" + number(fake().gridY) + " " + number(fake().paramBytes) +
                             " trips " + number(more().trips);
          const std::uint32_t *counters = reinterpret_cast<const std::uint32_t *>(more().workspace);
          said += counters && std::all_of(counters, counters + LaunchSplit::maxPrograms, [](auto c) { return c == 0; })
                      ? " zeros"
                      : " no zeros";
          launch(*m, args.list(16), s); // one trip
          return said + ", " + number(fake().gridX) + "x" + number(fake().gridY) + " trips " + number(more().trips) +
                 " " + number(more().workspace);
        }) == "64x6 80 trips 86 zeros, 64x1 trips -1 0");
}

TEST_CASE("Split: streams have workspaces of their own, which stay", "[runtime][split]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          auto a = std::make_unique<Stream>(d), b = std::make_unique<Stream>(d);
          Arguments args(d, 4096), wide(d, 8192);
          LaunchInfo info = columnSums();
          auto m = module(info);
          PreparedLaunch call(m, args.list(8192));
          auto at = [&](const Stream &s) {
            call(s);
            std::uint64_t prepared = more().workspace;
            launch(*m, args.list(8192), s);
            return prepared == more().workspace ? prepared : 0;
          };
          const int before = fake().liveAllocations;
          const std::uint64_t first = at(*a), second = at(*b);
          std::string said = number(first && second && first != second);
          said += number(at(*a) == first) + number(at(*b) == second);
          // Another handle of the same stream is the same stream.
          said += number(at(Stream::wrap(d, a->native())) == first);
          said += " " + number(fake().liveAllocations - before);
          // A launch that needs more gets more; what may be in use stays until the stream goes.
          info.split.partBytes = 1 << 16;
          auto large = module(info);
          launch(*large, args.list(8192), *a);
          said += " " + number(more().workspace != first) + number(fake().liveAllocations - before);
          a.reset();
          said += number(fake().liveAllocations - before);
          b.reset();
          return said + number(fake().liveAllocations - before) + " " + number(fake().streams);
        }) == "1111 2 1310 0");
}

TEST_CASE("Split: a capture keeps its workspace", "[runtime][split]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          std::string said;
          std::set<std::uint64_t> seen;
          auto m = module(columnSums());
          const int before = fake().liveAllocations;
          {
            Stream s(d);
            Arguments args(d, 4096);
            for (const char *capture : {"0", "1", "1", "2", "0"}) {
              setenv("FAKECUDA_CAPTURE", capture, 1);
              launch(*m, args.list(8192), s);
              said += number(seen.insert(more().workspace).second);
            }
            setenv("FAKECUDA_CAPTURE", "0", 1);
          }
          return said + " " + number(fake().liveAllocations - before);
        }) == "11010 2");
}

TEST_CASE("Split: threads that launch on one stream use memory that lives", "[runtime][split]") {
  CHECK(withFake({}, [] {
          Device d = Device::gpu(0);
          Stream s(d);
          Arguments args(d, 4096);
          std::vector<std::shared_ptr<Module>> modules;
          for (int i = 0; i < 8; ++i) {
            LaunchInfo info = columnSums();
            info.split.partBytes = std::int64_t(1024) << i;
            modules.push_back(module(info));
          }
          std::vector<std::thread> threads;
          for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
              for (auto &m : modules)
                launch(*m, args.list(8192), s);
            });
          for (auto &t : threads)
            t.join();
          return number(fake().launches);
        }) == "32");
}

TEST_CASE("Split: no memory for the parts is said", "[runtime][split]") {
  std::string said = withFake({{"FAKECUDA_FREE", "500000"}}, []() -> std::string {
    Device d = Device::gpu(0);
    Arguments args(d, 4096);
    auto m = module(columnSums());
    try {
      launch(*m, args.list(8192), d.stream());
    } catch (const UserError &e) {
      return e.what();
    }
    return "nothing thrown";
  });
  INFO(said);
  CHECK(said.find("[out_of_memory]") != std::string::npos);
}
