// SPDX-License-Identifier: Apache-2.0
/// \file Programs that all blocks of a persistent kernel share (Stream-K), loops that go backwards, groups of warps in turns: values against products in
/// double on the executor, every number of shared programs; the choice of a launch.
#include "tests/support/PipedProducts.h"

#include "ir/PingPong.h"
#include "ir/ProgramOrder.h"
#include "ir/exec/Program.h"
#include "runtime/Launch.h"
#include "runtime/Split.h"

using namespace sectile;
using namespace sectile::test;

namespace {

/// C = A B by blocks that share the last `shared` programs; returns the bits of C.
std::vector<float> product(const PipedProduct &kernel, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t shared,
                           bool consumersFirst) {
  LoweredProduct lowered(kernel);
  Matrix<bf16> a(m, k, 1), b(k, n, 2);
  Matrix<f32> c(m, n, 3);
  INFO(fmt::format("{} x {} x {}, {} shared, consumers first: {}", m, n, k, shared, consumersFirst));
  tgpu::ExecResult r = lowered.run({a.arg(), b.arg(), c.arg()}, consumersFirst, shared);
  INFO((r.fault ? r.fault->text() : ""));
  REQUIRE_FALSE(r.fault);
  CHECK(r.programs == (m + 127) / 128 * ((n + kernel.n - 1) / kernel.n));
  std::int64_t wrong = 0;
  std::vector<float> bits;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t x = 0; x < k; ++x)
        sum += (kernel.aComputed ? std::abs(a.at(i, x)) : a.at(i, x)) * b.at(x, j);
      wrong += c.at(i, j) != sum; // small integers: exact in every order
      bits.push_back(float(c.at(i, j)));
    }
  CHECK(wrong == 0);
  return bits;
}

/// A persistent kernel of one block per multiprocessor with this many trips of its loop.
LaunchInfo streaming(std::int64_t trips) {
  LaunchInfo info;
  info.threads = 384;
  info.sharedBytes = 200 * 1024;
  info.persistent = true;
  info.split.stream = true;
  info.split.upper.value = trips;
  info.split.step.value = 1;
  info.split.partBytes = 128 * 256 * 4;
  info.split.tripCycles = 1024;
  return info;
}

DeviceProperties gpu() {
  DeviceProperties p;
  p.multiprocessors = 132;
  p.maxThreadsPerMultiprocessor = 2048;
  p.registersPerMultiprocessor = 65536;
  p.sharedBytesPerMultiprocessor = 228 * 1024;
  return p;
}

} // namespace

TEST_CASE("blocks share the trips of the last programs", "[executor][pipes][stream]") {
  const PipedProduct kernel{.streamk = 2};
  for (std::int64_t k : {64, 128, 320, 640})
    for (std::int64_t shared = 0; shared <= 6; ++shared)
      product(kernel, 250, 384, k, shared, shared % 2);
  product(kernel, 100, 128, 640, 2, false);  // one program: what the launch asks for is cut to that
  product(kernel, 128, 1024, 0, 4, true);    // no trips
  product({.aComputed = true, .streamk = 2}, 384, 128, 320, 3, false);
  product({.raster = 2, .snake = 1, .streamk = 2}, 384, 256, 192, 5, true);
}

TEST_CASE("without shared programs the kernel that could share them is the plain one", "[executor][pipes][stream]") {
  LoweredProduct plain(PipedProduct{.streamk = 1}), could(PipedProduct{});
  CHECK(plain.all<tgpu::SharedProgramsOp>().empty());
  CHECK(could.all<tgpu::SharedProgramsOp>().empty());
  CHECK(LoweredProduct(PipedProduct{.streamk = 2}).all<tgpu::SharedProgramsOp>().size() == 1);
  // What is noted for the launch: K in steps of 64, a tile of f32, 128 * 128 * 64 multiply-adds of 16 bits.
  for (LoweredProduct *k : {&plain, &could}) {
    mlir::DenseI64ArrayAttr range;
    k->kernel.module->walk([&](mlir::func::FuncOp f) { range = f->getAttrOfType<mlir::DenseI64ArrayAttr>(tgpu::streamRangeAttr); });
    REQUIRE(bool(range) == (k == &could));
    if (range)
      CHECK(range.asArrayRef() == llvm::ArrayRef<std::int64_t>{-1, -1, 0, 0, 1, 0, -1, -1, 64, 128 * 128 * 4, 512});
  }
}

TEST_CASE("every second program of a block goes backwards", "[executor][pipes][stream]") {
  auto offsets = [](int snake) {
    std::int64_t turned = 0;
    LoweredProduct k(PipedProduct{.snake = snake});
    for (tgpu::TmaLoadOp load : k.all<tgpu::TmaLoadOp>())
      for (mlir::Value v : load.getOffsets())
        turned += bool(v.getDefiningOp<tileir::SelectOp>());
    return turned;
  };
  CHECK(offsets(0) == 2);
  CHECK(offsets(2) == 2);
  CHECK(offsets(1) == 0);
  for (std::int64_t k : {64, 128, 200, 640}) {
    const auto back = product({}, 384, 384, k, 0, false), on = product({.snake = 1}, 384, 384, k, 0, true);
    CHECK(back == on);
  }
}

TEST_CASE("groups of warps that take programs of their own", "[executor][pipes][stream]") {
  LoweredProduct k(PipedProduct{.pingpong = 2});
  mlir::func::FuncOp func;
  k.kernel.module->walk([&](mlir::func::FuncOp f) { func = f; });
  auto launch = func->getAttrOfType<tgpu::LaunchAttr>(tgpu::launchAttr);
  CHECK(func->getAttrOfType<mlir::IntegerAttr>(tgpu::groupsAttr).getInt() == 2);
  CHECK(launch.getWarps() == 4);
  CHECK(launch.getSharedBytes() % 2048 == 0); // both halves start at multiples of 1024
  CHECK(launch.getSharedBytes() <= 227 * 1024);
  CHECK(k.only<tgpu::PipeCreateOp>().getEmpty() == 4);
  int taken = 0, passed = 0;
  k.kernel.module->walk([&](mlir::Operation *op) {
    taken += op->hasAttr(tgpu::turnTakeAttr);
    passed += op->hasAttr(tgpu::turnPassAttr);
  });
  CHECK(taken == 1);
  CHECK(passed == 1);
  for (std::int64_t depth : {0, 64, 640})
    product({.pingpong = 2}, 384, 264, depth, 0, depth == 64);
  product({.bRows = false, .aComputed = true, .pingpong = 2}, 200, 152, 200, 0, true);
}

TEST_CASE("how many programs a launch shares", "[split][stream]") {
  LaunchInfo info = streaming(64);
  info.split.possible = true;
  const std::vector<KernelArg> none;
  auto choice = [&](std::int64_t programs) { return runtime::chooseShared(info, none, programs, 168, gpu()); };
  for (std::int64_t programs : {132, 264, 1320}) // whole rounds
    CHECK(choice(programs).shared == 0);
  const runtime::SplitChoice last = choice(561); // 4.25 rounds
  CHECK(last.blocks == 132);
  CHECK(last.shared == 33);
  CHECK(last.parts == 1);
  CHECK(last.trips == 33); // the parameter
  CHECK(runtime::workspaceBytes(info.split, 561, last) == LaunchSplit::counterBytes + (33 + 132) * info.split.partBytes);
  const runtime::SplitChoice few = choice(30); // fewer than multiprocessors
  CHECK(few.blocks == 132);
  CHECK(few.shared == 30);
  const runtime::SplitChoice one = choice(133); // too few trips for all in one round: with the round before
  CHECK(one.shared == 133);
  CHECK(one.blocks == 132);
  CHECK(choice(0).shared == 0);
  // Each block has some trips, also where they are few.
  for (std::int64_t trips : {1, 2, 3, 4, 9}) {
    info.split.upper.value = trips;
    for (std::int64_t programs = 1; programs < 700; ++programs) {
      const runtime::SplitChoice c = choice(programs);
      CHECK(c.blocks >= 1);
      CHECK(c.blocks <= 132);
      if (c.shared)
        CHECK(c.shared * trips >= 4 * c.blocks);
      else
        CHECK(c.blocks == runtime::persistentBlocks(programs, 132));
    }
  }
}

TEST_CASE("when a launch asks for shared programs", "[split][stream]") {
  const std::vector<KernelArg> none;
  auto pays = [&](std::int64_t programs, std::int64_t trips) {
    return runtime::sharingPays(streaming(trips), none, programs, 168, gpu());
  };
  CHECK(pays(561, 128));       // three quarters of a round of 128 trips
  CHECK_FALSE(pays(561, 32));
  CHECK_FALSE(pays(528, 64));  // nothing to save
  CHECK_FALSE(pays(131, 64));  // less than the parts cost
  CHECK(pays(133, 256));
  CHECK_FALSE(pays(133, 4));
  CHECK(pays(40, 512));
}

TEST_CASE("programs of different length: the longest first, each once, equal shares", "[executor][pipes][stream]") {
  // Row m of tiles has trips up to its own columns: a lower triangle.
  auto triangle = [](const char *upper) {
    const std::string t = "!tile.tensor<2, bf16>", facts = "{tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_div = array<i64: "
                                                           "8, 1>, tile.stride_rem = array<i64: 0, 1>, tile.dim_div = array<i64: 8, 8>, tile.small";
    return kernelText(fmt::format("%A: {0} {1}, tile.readonly}}, %B: {0} {1}, tile.readonly}}, %C: !tile.tensor<2, f32> {1}}}", t, facts),
                      fmt::format(R"(
    %m, %n = tile.grid %C [128, 128] : !tile.tensor<2, f32> -> index, index
    %c0 = tile.constant 0 : index
    %step = tile.constant 64 : index
    %rows = tile.constant 128 : index
    %K = tile.dim %A, 1 : {0}
    {1}
    %zero = tile.constant dense<0.0> : tensor<128x128xf32>
    %r = scf.for %k = %c0 to %end step %step iter_args(%acc = %zero) -> tensor<128x128xf32> {{
      %a = tile.load %A[%m, %k] : {0} -> tensor<128x64xbf16>
      %b = tile.load %B[%k, %n] : {0} -> tensor<64x128xbf16>
      %next = tile.mma exact %a, %b, %acc : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
      scf.yield %next : tensor<128x128xf32>
    }}
    tile.store %r, %C[%m, %n] : tensor<128x128xf32>, !tile.tensor<2, f32>)",
                                  t, upper));
  };
  struct Case {
    const char *upper;
    std::vector<std::int64_t> order;
  };
  for (const Case &c : {Case{"%next0 = tile.binary add %m, %rows : index\n %end = tile.binary min %next0, %K : index", {0, 1}},
                        Case{"%end = tile.binary sub %K, %n : index", {1, 0}}, Case{"%end = tile.binary add %K, %c0 : index", {}},
                        Case{"%both = tile.binary add %m, %n : index\n %end = tile.binary min %both, %K : index", {}}}) {
    Interpreted kernel(triangle(c.upper));
    INFO(c.upper << kernel.messages);
    REQUIRE(kernel.module);
    Matrix<bf16> a(700, 520, 1), b(520, 656, 2);
    Matrix<f32> expected(700, 656, 3), c1(700, 656, 4);
    auto program = tileir::InterpProgram::build(*kernel.module);
    REQUIRE(program);
    program->run(std::vector<KernelArg>{a.arg(), b.arg(), expected.arg()});
    mlir::PassManager pm(&kernel.context);
    passes::PipelineOptions options;
    options.schedule.multicast = 1; // pairs would be counted as one program
    passes::buildPipeline(pm, options);
    REQUIRE(mlir::succeeded(pm.run(*kernel.module)));
    mlir::DenseI64ArrayAttr order;
    kernel.module->walk([&](mlir::func::FuncOp f) { order = f->getAttrOfType<mlir::DenseI64ArrayAttr>(tgpu::programOrderAttr); });
    CHECK((order ? std::vector<std::int64_t>(order.asArrayRef().begin(), order.asArrayRef().end()) : std::vector<std::int64_t>()) == c.order);
    auto executor = tgpu::Executor::build(*kernel.module);
    REQUIRE(executor);
    const std::vector<KernelArg> args{a.arg(), b.arg(), c1.arg()};
    tgpu::ExecResult r = executor->run(args);
    INFO((r.fault ? r.fault->text() : ""));
    REQUIRE_FALSE(r.fault);
    CHECK(r.programs == 36);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < 700; ++i)
      for (std::int64_t j = 0; j < 656; ++j)
        wrong += c1.at(i, j) != expected.at(i, j);
    CHECK(wrong == 0);
    // A sample is the program that it names: the products of its trips.
    auto products = [&](std::int64_t number) {
      return executor->run(args, 1, std::vector<tgpu::ProgramSample>{{.number = number}}).work.at(0).products;
    };
    if (c.order == std::vector<std::int64_t>{0, 1})
      for (std::int64_t m = 0; m < 6; ++m)
        CHECK(products(m * 6 + 3) * std::min<std::int64_t>(2 * 6, 9) == products(5 * 6) * std::min<std::int64_t>(2 * (m + 1), 9));
  }
}
