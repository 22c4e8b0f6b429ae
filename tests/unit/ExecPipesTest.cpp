// SPDX-License-Identifier: Apache-2.0
/// \file The executor on kernels with roles: products through pipes give the values of a product in double, whichever role
/// is ahead; seeded faults are found.
#include "tests/support/PipedProducts.h"

#include "ir/exec/Program.h"

#include "mlir/IR/Builders.h"

#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

using Kernel = PipedProduct;
using Lowered = LoweredProduct;

double computed(double x, bool really) { return really ? std::abs(x) : x; }

template <class T> void checkProduct(const Kernel &kernel, std::int64_t m, std::int64_t n, std::int64_t k) {
  Lowered lowered(kernel);
  Matrix<bf16> a(m, k, 1), b(kernel.bRows ? n : k, kernel.bRows ? k : n, 2);
  for (bool consumersFirst : {false, true}) {
    Matrix<T> c(m, n, 3);
    INFO(fmt::format("{} x {} x {}, tiles of 128 x {}, B {}, consumers first: {}", m, n, k, kernel.n,
                     kernel.bRows ? "[N, K]" : "[K, N]", consumersFirst));
    tgpu::ExecResult r = lowered.run({a.arg(), b.arg(), c.arg()}, consumersFirst);
    INFO((r.fault ? r.fault->text() : ""));
    REQUIRE_FALSE(r.fault);
    CHECK(r.programs == (m + 127) / 128 * ((n + kernel.n - 1) / kernel.n));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += computed(a.at(i, x), kernel.aComputed) *
                 computed(kernel.bRows ? b.at(j, x) : b.at(x, j), kernel.bComputed);
        wrong += c.at(i, j) != double(float(T(float(sum))));
      }
    CHECK(wrong == 0);
  }
}

/// The fault of a kernel that `spoil` changed, with both roles ahead; "nothing" if there is none.
template <class F> std::set<std::string> faults(const Kernel &kernel, F spoil, std::int64_t k = 640, std::int64_t offset = 0) {
  Lowered lowered(kernel);
  spoil(lowered);
  std::set<std::string> found;
  for (bool consumersFirst : {false, true}) {
    Matrix<bf16> a(136, k, 1, offset), b(k, 128, 2);
    Matrix<f32> c(136, 128, 3);
    tgpu::ExecResult r = lowered.run({a.arg(), b.arg(), c.arg()}, consumersFirst);
    found.insert(r.fault ? r.fault->text() : "nothing");
  }
  return found;
}
void checkFaults(const std::set<std::string> &found, const std::string &part) {
  for (const std::string &fault : found)
    CHECK_THAT(fault, Catch::Contains(part));
}

} // namespace

TEST_CASE("products through pipes: trips of the loop over K", "[executor][pipes]") {
  for (std::int64_t k : {0, 64, 128, 192, 256, 640})
    checkProduct<f32>({}, 128, 128, k);
  for (std::int64_t k : {64, 320})
    checkProduct<f32>({.stages = 2}, 128, 128, k);
}

TEST_CASE("products through pipes: majors, edges, operands in registers", "[executor][pipes]") {
  for (bool bRows : {false, true}) {
    checkProduct<f32>({.bRows = bRows}, 200, 152, 200);
    checkProduct<bf16>({.n = 256, .bRows = bRows, .out = DType::bf16}, 72, 264, 136);
  }
  Kernel registers{.aComputed = true};
  Lowered k(registers);
  CHECK(llvm::isa<mlir::RankedTensorType>(k.only<tgpu::WgmmaOp>().getA().getType()));
  checkProduct<f32>(registers, 136, 128, 264);
}

TEST_CASE("persistent blocks take every program once", "[executor][pipes]") {
  checkProduct<f32>({.raster = 2}, 650, 264, 136);
  checkProduct<f32>({}, 384, 512, 0);
  for (std::int64_t group : {1, 2, 3, 16})
    for (std::vector<std::int64_t> programs : {std::vector<std::int64_t>{7}, {5, 4}, {2, 5, 3}, {2, 1, 5, 1}}) {
      std::set<std::vector<std::int64_t>> seen;
      const std::int64_t total = llvm::product_of(programs);
      for (std::int64_t place = 0; place < total; ++place) {
        auto number = tgpu::exec::numberInOrder(place, programs, group);
        CHECK(tgpu::exec::placeInOrder(number, programs, group) == place);
        for (auto [n, count] : llvm::zip_equal(number, programs))
          CHECK((n >= 0 && n < count));
        seen.insert(number);
      }
      CHECK(std::int64_t(seen.size()) == total);
    }
}

TEST_CASE("a sample of persistent programs runs these alone", "[executor][pipes]") {
  Lowered k(Kernel{.raster = 2});
  auto executor = tgpu::Executor::build(*k.kernel.module);
  REQUIRE(executor);
  Matrix<bf16> a(384, 64, 1), b(64, 256, 2);
  Matrix<f32> c(384, 256, 3), before(384, 256, 3);
  std::vector<KernelArg> args{a.arg(), b.arg(), c.arg()};
  REQUIRE(executor->grid(args) == std::vector<std::int64_t>{3, 2});
  tgpu::ProgramSample sample{3, 6}; // program (1, 1)
  tgpu::ExecResult r = executor->run(args, 1, {&sample, 1});
  REQUIRE_FALSE(r.fault);
  CHECK(r.programs == 1);
  for (std::int64_t i = 0; i < 384; i += 5)
    for (std::int64_t j = 0; j < 256; j += 3)
      if (i / 128 != 1 || j / 128 != 1)
        CHECK(c.at(i, j) == before.at(i, j));
  CHECK(c.at(128, 128) != before.at(128, 128));
  tgpu::OpCounts stored = *r.of(k.only<tgpu::BulkStoreOp>());
  CHECK(stored.bytes == 6 * 128 * 128 * 4);
  CHECK(stored.sectors == stored.bytes / 32);
  CHECK(stored.requests == 6 * 8 * 4); // boxes of 16 x 32
  tgpu::OpCounts loaded;
  for (auto load : k.all<tgpu::TmaLoadOp>())
    loaded += *r.of(load);
  CHECK(loaded.bytes == 6 * 2 * 128 * 64 * 2);
  CHECK(loaded.sectors == loaded.bytes / 32);
}

TEST_CASE("seeded faults: bytes and arrivals of barriers", "[executor][pipes]") {
  checkFaults(faults({}, [](Lowered &) {}), "nothing");
  auto bytes = [](std::int64_t more) {
    return [=](Lowered &k) {
      auto acquire = k.only<tgpu::PipeAcquireOp>();
      acquire.setBytes(std::uint64_t(std::int64_t(acquire.getBytes()) + more));
    };
  };
  checkFaults(faults({}, bytes(16)), "16 bytes missing");
  checkFaults(faults({}, bytes(16)), "deadlock");
  checkFaults(faults({}, bytes(-16)), "bytes arrive at 'full'");
  auto count = [](auto change) { return [=](Lowered &k) { change(k.only<tgpu::PipeCreateOp>()); }; };
  auto more = count([](tgpu::PipeCreateOp op) { op.setEmpty(op.getEmpty() * 2); });
  checkFaults(faults({}, more), "deadlock");
  checkFaults(faults({}, more), "of 'empty' of slot 0");
  checkFaults(faults({}, count([](tgpu::PipeCreateOp op) { op.setEmpty(op.getEmpty() / 2); })),
              "is complete with the arrivals of");
  checkFaults(faults({}, count([](tgpu::PipeCreateOp op) { op.setFull(2); })), "of 2 arrivals and 0 bytes missing");
  auto notFree = faults({}, count([](tgpu::PipeCreateOp op) { op.setFree(0); }));
  checkFaults(notFree, "deadlock");
  checkFaults(notFree, "for the phase of parity 0 of 'empty' of slot 0");
  checkFaults(notFree, "the producer wait: ");
  checkFaults(notFree, "the consumers wait: ");
}

TEST_CASE("seeded faults: a step of the producer is missing", "[executor][pipes]") {
  auto missing = [](auto op) { return [](Lowered &k) { k.all<decltype(op)>().front().erase(); }; };
  checkFaults(faults({}, missing(tgpu::PipeAcquireOp())), "was not acquired");
  checkFaults(faults({}, missing(tgpu::PipeCommitOp())), "is acquired a second time");
  checkFaults(faults({}, missing(tgpu::TmaLoadOp())), "bytes missing");
  auto twice = [](auto op) {
    return [](Lowered &k) {
      mlir::OpBuilder b(k.kernel.module->getContext());
      auto first = k.all<decltype(op)>().front();
      b.setInsertionPointAfter(first);
      b.clone(*first);
    };
  };
  checkFaults(faults({}, twice(tgpu::PipeAcquireOp())), "is acquired a second time");
  checkFaults(faults({}, twice(tgpu::PipeCommitOp())), "was not acquired");
  auto wrongBuffer = [](Lowered &k) { k.all<tgpu::TmaLoadOp>().back().setIndex(0); };
  Kernel square{.bRows = true};
  checkFaults(faults(square, wrongBuffer), "is filled a second time");
  auto unfilled = [](Lowered &k) {
    auto load = k.all<tgpu::TmaLoadOp>().front();
    auto acquire = k.only<tgpu::PipeAcquireOp>();
    acquire.setBytes(acquire.getBytes() - std::uint64_t(load.getPipe().getType().getBuffers()[0].bytes()));
    load.erase();
  };
  checkFaults(faults({}, unfilled), "which nothing has filled");
}

TEST_CASE("seeded faults: a step of the consumers is missing or too early", "[executor][pipes]") {
  auto loopWait = [](Lowered &k) { return k.all<tgpu::WgmmaWaitOp>().front(); };
  auto lastWait = [](Lowered &k) { return k.all<tgpu::WgmmaWaitOp>().back(); };
  auto loopRelease = [](Lowered &k) { return k.all<tgpu::PipeReleaseOp>().front(); };
  {
    Lowered k(Kernel{});
    REQUIRE(k.all<tgpu::WgmmaWaitOp>().size() == 2);
    REQUIRE(k.all<tgpu::PipeReleaseOp>().size() == 2);
    REQUIRE(loopWait(k).getPending() == 1);
    REQUIRE(loopRelease(k).getKeep() == 1);
  }
  const std::string early = "is released while a product under way reads it";
  checkFaults(faults({}, [&](Lowered &k) { loopWait(k).erase(); }), early);
  checkFaults(faults({}, [&](Lowered &k) { loopWait(k).setPending(2); }), early);
  checkFaults(faults({}, [&](Lowered &k) { loopRelease(k)->moveBefore(loopWait(k)); }), early);
  checkFaults(faults({}, [&](Lowered &k) { loopRelease(k).setKeep(0); }), early);
  checkFaults(faults({}, [&](Lowered &k) { loopRelease(k).erase(); }), "deadlock");
  auto unnamed = [&](Lowered &k) {
    auto wait = lastWait(k);
    wait->replaceAllUsesWith(wait.getValues());
    wait.erase();
    k.all<tgpu::PipeReleaseOp>().back().erase();
  };
  checkFaults(faults({}, unnamed), "uses the result of a product that no wait has named");
  checkFaults(faults({}, [&](Lowered &k) { lastWait(k).setPending(1); }), "still under way");
  // One wait before the loop: the later slots are never taken.
  auto once = [&](Lowered &k) {
    auto wait = k.only<tgpu::PipeWaitOp>();
    wait->moveBefore(wait->getParentOp());
  };
  checkFaults(faults({}, once), "deadlock");
  checkFaults(faults({}, once, 128), "a block ends after 2 slots of pipe 0 were filled, 1 awaited");
  // One wait too many: all later ones look for the phase behind theirs.
  auto ahead = [&](Lowered &k) {
    mlir::OpBuilder b(k.only<tgpu::PipeWaitOp>()->getParentOp());
    b.clone(*k.only<tgpu::PipeWaitOp>());
  };
  checkFaults(faults({}, ahead), "deadlock");
  auto before = [&](Lowered &k) {
    loopRelease(k).setKeep(0);
    loopRelease(k)->moveBefore(k.only<tgpu::WgmmaOp>());
  };
  checkFaults(faults({}, before), "uses slot 0 after it was released");
}

TEST_CASE("both operands are written by threads", "[executor][pipes]") {
  checkProduct<f32>({.aComputed = true, .bComputed = true}, 136, 128, 264);
}

TEST_CASE("seeded faults: memory", "[executor][pipes]") {
  checkFaults(faults({}, [](Lowered &) {}, 640, 1), "starts at no multiple of 16 bytes");
  auto outside = [](Lowered &k) {
    auto create = k.only<tgpu::PipeCreateOp>();
    create.setOffset(*create.getOffset() + 1024 * 1024);
  };
  checkFaults(faults({}, outside), "of shared memory; the block has");

  // An operand that threads wrote.
  Kernel written{.bComputed = true};
  checkProduct<f32>(written, 136, 128, 264);
  // One fence behind what they wrote, one behind what they read from the slot before.
  auto fence = [](Lowered &k, bool beforeRelease) {
    std::vector<tgpu::FenceAsyncOp> found = k.all<tgpu::FenceAsyncOp>();
    std::erase_if(found, [&](tgpu::FenceAsyncOp op) { return llvm::isa<tgpu::PipeReleaseOp>(op->getNextNode()) != beforeRelease; });
    REQUIRE(found.size() == 1);
    return found.front();
  };
  checkFaults(faults(written, [&](Lowered &k) { fence(k, false).erase(); }), "without a fence_async before the barrier");
  checkFaults(faults(written, [&](Lowered &k) { fence(k, true).erase(); }),
              "which threads read, is released without a fence_async behind the reads");
  checkFaults(faults(written, [&](Lowered &k) { fence(k, true)->moveAfter(fence(k, true)->getNextNode()); }),
              "which threads read, is released without a fence_async behind the reads");
  auto unordered = [&](Lowered &k) { fence(k, false)->getNextNode()->erase(); };
  checkFaults(faults(written, unordered), "which threads wrote without a barrier behind it");
  auto overwritten = [](Lowered &k) {
    mlir::OpBuilder b(k.kernel.module->getContext());
    b.setInsertionPointAfter(k.only<tgpu::WgmmaOp>());
    b.clone(*k.all<tgpu::CopyOp>().back());
  };
  checkFaults(faults(written, overwritten), "which a product under way reads");
}
