// SPDX-License-Identifier: Apache-2.0
/// \file Pairs of blocks that load once what both need: values against products in double on the executor, which runs both
/// blocks, whichever role of whichever block is ahead; odd numbers of programs; what CheckPipeline and the executor refuse.
#include "passes/Passes.h"
#include "passes/Remarks.h"
#include "tests/support/PipedProducts.h"

#include "ir/exec/Program.h"

#include "mlir/IR/Builders.h"

#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

mlir::func::FuncOp functionOf(LoweredProduct &k) {
  mlir::func::FuncOp func;
  k.kernel.module->walk([&](mlir::func::FuncOp f) { func = f; });
  return func;
}

/// The axis of the pairs; -1: there are none.
std::int64_t axisOf(LoweredProduct &k) {
  auto axis = functionOf(k)->getAttrOfType<mlir::IntegerAttr>(tgpu::pairAttr);
  return axis ? axis.getInt() : -1;
}

void check(PipedProduct kernel, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t axis) {
  kernel.multicast = 2;
  LoweredProduct lowered(kernel);
  REQUIRE(axisOf(lowered) == axis);
  Matrix<bf16> a(m, k, 1), b(kernel.bRows ? n : k, kernel.bRows ? k : n, 2);
  for (bool consumersFirst : {false, true}) {
    Matrix<f32> c(m, n, 3);
    INFO(fmt::format("{} x {} x {}, tiles of 128 x {}, B {}, consumers first: {}", m, n, k, kernel.n,
                     kernel.bRows ? "[N, K]" : "[K, N]", consumersFirst));
    tgpu::ExecResult r = lowered.run({a.arg(), b.arg(), c.arg()}, consumersFirst);
    INFO((r.fault ? r.fault->text() : ""));
    REQUIRE_FALSE(r.fault);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += (kernel.aComputed ? std::abs(a.at(i, x)) : a.at(i, x)) * (kernel.bRows ? b.at(j, x) : b.at(x, j));
        wrong += c.at(i, j) != sum;
      }
    CHECK(wrong == 0);
  }
}

} // namespace

TEST_CASE("pairs of blocks share the tile that is larger", "[executor][pipes][pairs]") {
  LoweredProduct k(PipedProduct{.n = 256, .multicast = 2});
  CHECK(axisOf(k) == 0);
  std::int64_t shared = 0, alone = 0;
  for (tgpu::TmaLoadOp load : k.all<tgpu::TmaLoadOp>()) {
    shared += load.getMulticast() == 3;
    alone += !load.getMulticast();
  }
  CHECK(shared == 1);
  CHECK(alone == 1);
  auto pipe = k.only<tgpu::PipeCreateOp>();
  CHECK(pipe.getEmpty() == 16); // warps of two blocks
  CHECK(pipe.getFull() == 1);
  for (tgpu::PipeReleaseOp release : k.all<tgpu::PipeReleaseOp>())
    CHECK(release.getPair());
  // The whole tile is announced, and the launch counts pairs.
  CHECK(k.only<tgpu::PipeAcquireOp>().getBytes() == (128 + 256) * 64 * 2);
  CHECK(k.all<tgpu::ProgramsOp>().front().getSizes() == llvm::ArrayRef<std::int64_t>{256, 256});
  LoweredProduct wide(PipedProduct{.n = 64, .multicast = 2});
  CHECK(axisOf(wide) == 1);
  CHECK(wide.all<tgpu::ProgramsOp>().front().getSizes() == llvm::ArrayRef<std::int64_t>{128, 128});
  LoweredProduct never(PipedProduct{.n = 256, .multicast = 1});
  CHECK(axisOf(never) == -1);
  CHECK(never.all<tgpu::PairRankOp>().empty());
  CHECK_FALSE(never.all<tgpu::TmaLoadOp>().back().getMulticast());
  LoweredProduct rule(PipedProduct{.n = 256, .multicast = 0}); // strides of 8 elements: rows start inside lines
  CHECK(axisOf(rule) == 0);
}

TEST_CASE("pairs: trips of the loop over K", "[executor][pipes][pairs]") {
  for (std::int64_t k : {0, 64, 128, 192, 256, 640})
    check({}, 256, 128, k, 0);
  check({.stages = 2}, 256, 128, 320, 0);
}

TEST_CASE("pairs: majors, edges, odd numbers of programs", "[executor][pipes][pairs]") {
  for (bool bRows : {false, true})
    for (std::int64_t m : {100, 200, 300, 640}) // 1, 2, 3, 5 programs along the pair's axis
      check({.bRows = bRows}, m, 152, 136, 0);
  for (std::int64_t n : {40, 128, 192, 304})
    check({.n = 64, .bRows = n == 192}, 136, n, 200, 1);
  check({.aComputed = true}, 384, 128, 264, 0);
  check({.n = 256, .bRows = true, .stages = 2}, 384, 264, 72, 0);
  check({.raster = 2}, 650, 264, 136, 0);
  check({.snake = 1}, 650, 264, 136, 0);
}

TEST_CASE("pairs of groups of warps in turns", "[executor][pipes][pairs]") {
  LoweredProduct k(PipedProduct{.pingpong = 2, .multicast = 2});
  CHECK(axisOf(k) == 0);
  check({.pingpong = 2}, 384, 256, 200, 0);
}

TEST_CASE("pairs: operands that threads copy or make are loaded by each block", "[executor][pipes][pairs]") {
  LoweredProduct k(PipedProduct{.multicast = 2, .async = 2});
  CHECK(axisOf(k) == -1);
  auto remarks = passes::remarksOf(functionOf(k));
  CHECK(llvm::any_of(remarks, [](const passes::Remark &r) {
    return r.pass == "ShareLoads" && r.text == "no pairs of blocks that load together: no two neighbouring programs load the same by the TMA unit";
  }));
}

TEST_CASE("pairs: seeded faults", "[executor][pipes][pairs]") {
  auto fault = [](auto spoil) {
    std::set<std::string> found;
    LoweredProduct k(PipedProduct{.multicast = 2});
    spoil(k);
    for (bool consumersFirst : {false, true}) {
      Matrix<bf16> a(256, 640, 1), b(640, 128, 2);
      Matrix<f32> c(256, 128, 3);
      tgpu::ExecResult r = k.run({a.arg(), b.arg(), c.arg()}, consumersFirst);
      found.insert(r.fault ? r.fault->text() : "nothing");
    }
    return found;
  };
  auto every = [](const std::set<std::string> &found, const std::string &part) {
    for (const std::string &text : found)
      CHECK_THAT(text, Catch::Contains(part));
  };
  auto shared = [](LoweredProduct &k) {
    for (tgpu::TmaLoadOp load : k.all<tgpu::TmaLoadOp>())
      if (load.getMulticast())
        return load;
    return tgpu::TmaLoadOp();
  };
  every(fault([](LoweredProduct &) {}), "nothing");
  // To one block alone, whichever it is.
  for (std::int64_t mask : {1, 2})
    every(fault([&](LoweredProduct &k) { shared(k).setMulticast(mask); }), "deadlock");
  // A release that only this block counts.
  auto alone = fault([](LoweredProduct &k) { k.all<tgpu::PipeReleaseOp>().front().setPair(false); });
  every(alone, "deadlock");
  every(alone, "'empty'");
  // Half of the arrivals: the slot counts as free while the other block still reads it.
  auto early = fault([](LoweredProduct &k) {
    auto pipe = k.only<tgpu::PipeCreateOp>();
    pipe.setEmpty(pipe.getEmpty() / 2);
  });
  CHECK_FALSE(early.count("nothing"));
  // Bytes of one half.
  auto bytes = fault([](LoweredProduct &k) {
    auto acquire = k.only<tgpu::PipeAcquireOp>();
    acquire.setBytes(acquire.getBytes() - 64 * 128);
  });
  CHECK_FALSE(bytes.count("nothing"));
  // One block goes through another number of trips.
  auto trips = fault([](LoweredProduct &k) {
    for (mlir::scf::ForOp loop : k.all<mlir::scf::ForOp>())
      if (!loop.getBody()->getOps<tgpu::PipeAcquireOp>().empty() || !loop.getBody()->getOps<tgpu::PipeWaitOp>().empty()) {
        mlir::OpBuilder b(loop);
        mlir::Value rank = tgpu::PairRankOp::create(b, loop.getLoc(), b.getIndexType());
        mlir::Value more = tileir::BinaryOp::create(b, loop.getLoc(), loop.getUpperBound().getType(), tileir::BinaryFn::k_mul, rank, loop.getStep());
        loop.setUpperBound(tileir::BinaryOp::create(b, loop.getLoc(), more.getType(), tileir::BinaryFn::k_sub, loop.getUpperBound(), more));
      }
  });
  every(trips, "deadlock");
}

TEST_CASE("pairs: what CheckPipeline refuses", "[passes][pipes][pairs]") {
  auto refusal = [](auto spoil) {
    LoweredProduct k(PipedProduct{.multicast = 2});
    spoil(k);
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&k.kernel.context, [&](mlir::Diagnostic &d) { said += d.str(); });
    mlir::PassManager pm(&k.kernel.context);
    pm.addNestedPass<mlir::func::FuncOp>(passes::createCheckPipelinePass());
    return mlir::succeeded(pm.run(*k.kernel.module)) ? std::string("nothing") : said;
  };
  auto shared = [](LoweredProduct &k) {
    for (tgpu::TmaLoadOp load : k.all<tgpu::TmaLoadOp>())
      if (load.getMulticast())
        return load;
    return tgpu::TmaLoadOp();
  };
  CHECK(refusal([](LoweredProduct &) {}) == "nothing");
  CHECK(refusal([&](LoweredProduct &k) { shared(k).setMulticast(1); }) ==
        "half of a buffer of pipe 0 goes to the blocks of the bits 1, and both blocks of the pair wait for it "
        "[check_pipeline_c20]; the bits must be 3");
  CHECK(refusal([&](LoweredProduct &k) {
          auto load = shared(k);
          for (mlir::OpOperand &offset : load.getOffsetsMutable())
            if (auto sum = offset.get().getDefiningOp<tileir::BinaryOp>())
              for (mlir::Value v : sum.getOperands())
                if (auto part = v.getDefiningOp<tileir::BinaryOp>(); part && part.getA().getDefiningOp<tgpu::PairRankOp>())
                  offset.set(sum.getA() == v ? sum.getB() : sum.getA());
        }) == "both halves of a buffer of pipe 0 come from the same place [check_pipeline_c20]; one offset must move with the "
              "block's rank");
  CHECK_THAT(refusal([&](LoweredProduct &k) {
          auto load = shared(k);
          mlir::OpBuilder b(load);
          mlir::Value one = tgpu::PairRankOp::create(b, load.getLoc(), b.getIndexType());
          for (mlir::OpOperand &offset : load.getOffsetsMutable())
            if (offset.get().getDefiningOp<tileir::BinaryOp>()) {
              offset.set(tileir::BinaryOp::create(b, load.getLoc(), one.getType(), tileir::BinaryFn::k_add, offset.get(), one));
              break;
            }
        }),
             Catch::Matches("offset [0-9] of half a buffer of pipe 0 is not proved to be that of the pair's tile and this block's half "
                            "of it \\[check_pipeline_c20\\]; it must be the tile's offset plus the block's rank times the length of half"));
  CHECK(refusal([&](LoweredProduct &k) { k.all<tgpu::PipeReleaseOp>().front().setPair(false); }) ==
        "a slot of pipe 0 is released to 1 block, and 2 fill it [check_pipeline_c19]; release it to the pair");
  CHECK(refusal([&](LoweredProduct &k) {
          for (tgpu::TmaLoadOp load : k.all<tgpu::TmaLoadOp>())
            load.removeMulticastAttr();
          auto pipe = k.only<tgpu::PipeCreateOp>();
          pipe.setEmpty(pipe.getEmpty() / 2);
        }) == "a slot of pipe 0 is released to 2 blocks, and 1 fills it [check_pipeline_c19]; release it to this block alone");
  CHECK(refusal([&](LoweredProduct &k) {
          auto pipe = k.only<tgpu::PipeCreateOp>();
          pipe.setEmpty(pipe.getEmpty() / 2);
        }) == "a slot of pipe 0 is empty after 8 arrivals, and 16 warps release it [check_pipeline_c2]; empty must be the warps of "
              "the launch, of both blocks of a pair");
  CHECK_THAT(refusal([&](LoweredProduct &k) {
               auto acquire = k.only<tgpu::PipeAcquireOp>();
               acquire.setBytes(acquire.getBytes() - 64 * 128);
             }),
             Catch::Contains("[check_pipeline_c5]"));
  // A loop whose trips are others in the second block, in both roles alike.
  CHECK(refusal([&](LoweredProduct &k) {
          for (mlir::scf::ForOp loop : k.all<mlir::scf::ForOp>())
            if (!loop.getBody()->getOps<tgpu::PipeAcquireOp>().empty() || !loop.getBody()->getOps<tgpu::PipeWaitOp>().empty()) {
              mlir::OpBuilder b(loop);
              mlir::Value rank = tgpu::PairRankOp::create(b, loop.getLoc(), b.getIndexType());
              loop.setUpperBound(tileir::BinaryOp::create(b, loop.getLoc(), rank.getType(), tileir::BinaryFn::k_add, loop.getUpperBound(), rank));
            }
        }) == "both blocks of a pair fill the slots of pipe 0, and how often this is done depends on which block it is "
              "[check_pipeline_c18]; loops and branches around it must be the same in both");
}
