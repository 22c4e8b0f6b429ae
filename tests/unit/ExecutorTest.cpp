// SPDX-License-Identifier: Apache-2.0
/// \file The executor: what it counts, and that it finds seeded faults. That it gives the right values is the
/// matter of PassesTest and of numerics.threads.
#include "ir/base/Banks.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "tests/support/InterpHarness.h"
#include "tests/support/OnThreads.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <fmt/format.h>

using namespace sectile;
using namespace sectile::test;

namespace {

/// Memory that starts `offset` elements behind a multiple of 256 bytes.
template <class T> class Aligned {
public:
  Aligned(std::vector<std::int64_t> dims, std::int64_t offset = 0) : host(dims) {
    for (std::size_t i = 0; i < host.data.size(); ++i)
      host.data[i] = T(float(int(i % 13) - 6));
    memory.resize(host.data.size() * sizeof(T) + 512 + std::size_t(offset) * sizeof(T));
    auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    data = reinterpret_cast<T *>((at + 255) / 256 * 256) + offset;
    std::copy(host.data.begin(), host.data.end(), data);
  }
  KernelArg arg() {
    KernelArg a = host.arg();
    a.data = data;
    return a;
  }
  T *data;

private:
  Host<T> host;
  std::vector<char> memory;
};

/// "%X: !tile.tensor<2, f32> {..}": aligned to 16 bytes, contiguous, every length and stride a multiple
/// of 16.
std::string aligned(const std::string &name, int rank, DType t = DType::f32) {
  std::string sixteen;
  for (int d = 0; d < rank; ++d)
    sixteen += d ? ", 16" : "16";
  return fmt::format(
      "%{}: {} {{tile.align = 16 : i64, tile.unit_stride = {} : i64, tile.stride_div = array<i64: {}>, "
      "tile.dim_div = array<i64: {}>}}",
      name, tensorType(rank, t), rank - 1, sixteen, sixteen);
}
std::string plain(const std::string &name, int rank, DType t = DType::f32) {
  return "%" + name + ": " + tensorType(rank, t);
}

/// Y = X, rows of `tile` elements.
std::string copyText(const std::string &arguments, int tile) {
  std::string view = tensorType(1, DType::f32), type = tileType({tile}, DType::f32);
  return kernelText(arguments, fmt::format(R"(
    %i = tile.grid %X [{0}] : {1} -> index
    %x = tile.load %X[%i] : {1} -> {2}
    tile.store %x, %Y[%i] : {2}, {1})",
                                           tile, view, type));
}
/// Y = transpose of X, by tiles of 32 x 32.
std::string transposeText() {
  std::string view = tensorType(2, DType::f32), type = tileType({32, 32}, DType::f32);
  return kernelText(aligned("X", 2) + ", " + aligned("Y", 2), fmt::format(R"(
    %i, %j = tile.grid %X [32, 32] : {0} -> index, index
    %x = tile.load %X[%i, %j] : {0} -> {1}
    %t = tile.permute %x [1, 0] : {1} -> {1}
    tile.store %t, %Y[%j, %i] : {1}, {0})",
                                                                          view, type));
}
/// Y = x - max of each row; rows over several warps, so that parts go through shared memory, twice.
std::string rowsText(const std::string &arguments = plain("X", 2) + ", " + plain("Y", 2)) {
  std::string view = tensorType(2, DType::f32), type = tileType({1, 512}, DType::f32),
              line = tileType({1, 1}, DType::f32);
  return kernelText(arguments, fmt::format(R"(
    %r = tile.grid %X [1] : {0} -> index
    %c0 = tile.constant 0 : index
    %x = tile.load %X[%r, %c0] : {0} -> {1}
    %m = tile.reduce max %x, 1 : {1} -> {2}
    %mb = tile.broadcast %m : {2} -> {1}
    %d = tile.binary sub %x, %mb : {1}
    %s = tile.reduce sum %d, 1 : {1} -> {2}
    %sb = tile.broadcast %s : {2} -> {1}
    %y = tile.binary add %d, %sb : {1}
    tile.store %y, %Y[%r, %c0] : {1}, {0})",
                                                                      view, type, line));
}

struct Lowered {
  Interpreted kernel;
  explicit Lowered(const std::string &text, int warps = 4) : kernel(text) {
    INFO(text << kernel.messages);
    REQUIRE(kernel.module);
    passes::PipelineOptions options;
  options.schedule.stages = 1; // products of warps
    options.schedule.warps = warps;
    mlir::PassManager pm(&kernel.context);
    passes::buildPipeline(pm, options);
    REQUIRE(mlir::succeeded(pm.run(*kernel.module)));
  }
  tgpu::ExecResult run(const std::vector<KernelArg> &args) {
    auto executor = tgpu::Executor::build(*kernel.module);
    REQUIRE(executor);
    return executor->run(args);
  }
  /// "nothing", or the fault.
  std::string fault(const std::vector<KernelArg> &args) {
    tgpu::ExecResult r = run(args);
    return r.fault ? r.fault->text() : "nothing";
  }
  template <class Op> std::vector<Op> all() {
    std::vector<Op> ops;
    kernel.module->walk([&](Op op) { ops.push_back(op); });
    return ops;
  }
  template <class Op> tgpu::OpCounts counts(const tgpu::ExecResult &r) {
    tgpu::OpCounts sum;
    for (Op op : all<Op>())
      sum += *r.of(op);
    return sum;
  }
};

} // namespace

TEST_CASE("passes over the banks of shared memory", "[executor]") {
  auto passes = [](std::int64_t bytes, auto address) {
    std::vector<std::int64_t> addresses;
    for (int lane = 0; lane < 32; ++lane)
      addresses.push_back(address(lane));
    BankPasses p = bankPasses(addresses, bytes);
    return std::pair(p.all, p.least);
  };
  using Passes = std::pair<int, int>;
  CHECK(passes(4, [](int l) { return 4 * l; }) == Passes(1, 1));
  CHECK(passes(4, [](int) { return 64; }) == Passes(1, 1)); // one word for all
  CHECK(passes(4, [](int l) { return 8 * l; }) == Passes(2, 1));
  CHECK(passes(4, [](int l) { return 128 * l; }) == Passes(32, 1));
  CHECK(passes(4, [](int l) { return 132 * l; }) == Passes(1, 1));
  CHECK(passes(2, [](int l) { return 2 * l; }) == Passes(1, 1)); // two lanes share a word
  CHECK(passes(8, [](int l) { return 8 * l; }) == Passes(2, 2));
  CHECK(passes(16, [](int l) { return 16 * l; }) == Passes(4, 4));
  CHECK(passes(16, [](int l) { return 128 * l; }) == Passes(32, 4));
  CHECK(passes(16, [](int l) { return l < 8 ? 16 * l : -1; }) == Passes(1, 1));
}

TEST_CASE("sectors and requests of global accesses", "[executor]") {
  constexpr std::int64_t n = 4096;
  SECTION("aligned: 16 bytes per thread, 16 sectors per request") {
    Lowered k(copyText(aligned("X", 1) + ", " + aligned("Y", 1), 1024));
    Aligned<f32> x({n}), y({n});
    tgpu::ExecResult r = k.run({x.arg(), y.arg()});
    REQUIRE_FALSE(r.fault);
    CHECK(r.programs == 4);
    CHECK(std::equal(x.data, x.data + n, y.data));
    for (tgpu::OpCounts c : {k.counts<tgpu::GlobalLoadOp>(r), k.counts<tgpu::GlobalStoreOp>(r)}) {
      CHECK(c.requests == n / 128);
      CHECK(c.bytes == 4 * n);
      CHECK(c.sectors == n / 8);
    }
  }
  SECTION("nothing known: 4 bytes per thread, 4 or 5 sectors per request") {
    for (std::int64_t offset : {0, 3}) {
      Lowered k(copyText(plain("X", 1) + ", " + plain("Y", 1), 1024));
      Aligned<f32> x({n}, offset), y({n}, offset);
      tgpu::ExecResult r = k.run({x.arg(), y.arg()});
      REQUIRE_FALSE(r.fault);
      tgpu::OpCounts c = k.counts<tgpu::GlobalLoadOp>(r);
      CHECK(c.requests == n / 32);
      CHECK(c.bytes == 4 * n);
      CHECK(c.sectors == n / 32 * (offset ? 5 : 4));
    }
  }
  SECTION("rows that start anywhere are read once, in whole vectors but for their ends") {
    constexpr std::int64_t rows = 5, columns = 509;
    std::string facts = "{tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_rem = array<i64: 1, 1>, "
                        "tile.dim_max = array<i64: 0, 509>}";
    Lowered k(rowsText(fmt::format("%X: {0} {1}, %Y: {0} {1}", tensorType(2, DType::f32), facts)));
    REQUIRE(k.all<tgpu::MisalignOp>().size() == 1);
    Aligned<f32> x({rows, columns}), y({rows, columns});
    tgpu::ExecResult r = k.run({x.arg(), y.arg()});
    REQUIRE_FALSE(r.fault);
    for (std::int64_t row = 0; row < rows; ++row) {
      const f32 *from = x.data + row * columns;
      float top = *std::max_element(from, from + columns), sum = 0;
      for (std::int64_t c = 0; c < columns; ++c)
        sum += from[c] - top;
      for (std::int64_t c = 0; c < columns; ++c)
        REQUIRE(y.data[row * columns + c] == from[c] - top + sum);
    }
    for (tgpu::OpCounts c : {k.counts<tgpu::GlobalLoadOp>(r), k.counts<tgpu::GlobalStoreOp>(r)}) {
      CHECK(c.bytes == 4 * rows * columns); // nothing twice
      CHECK(c.requests <= rows * (512 / 128 + 2 * 3));
    }
  }
  SECTION("an odd factor and many warps: shorter vectors before threads that hold copies") {
    Lowered k(copyText(aligned("X", 1) + ", " + aligned("Y", 1), 3 * 1024), 16);
    Aligned<f32> x({2 * 3072}), y({2 * 3072});
    tgpu::ExecResult r = k.run({x.arg(), y.arg()});
    REQUIRE_FALSE(r.fault);
    tgpu::OpCounts c = k.counts<tgpu::GlobalLoadOp>(r);
    CHECK(c.bytes == 4 * 2 * 3072);
    CHECK(c.requests == 2 * 3072 / 64);
  }
  SECTION("a stride of 8 elements: a sector per element") {
    Lowered k(copyText(plain("X", 1) + ", " + plain("Y", 1), 1024));
    Aligned<f32> x({8 * n}), y({n});
    KernelArg strided = x.arg();
    strided.dims[0] = n;
    strided.strides[0] = 8;
    tgpu::ExecResult r = k.run({strided, y.arg()});
    REQUIRE_FALSE(r.fault);
    CHECK(k.counts<tgpu::GlobalLoadOp>(r).sectors == n);
  }
  SECTION("lanes outside do nothing") {
    Lowered k(copyText(plain("X", 1) + ", " + plain("Y", 1), 1024));
    Aligned<f32> x({40}), y({40});
    tgpu::ExecResult r = k.run({x.arg(), y.arg()});
    REQUIRE_FALSE(r.fault);
    tgpu::OpCounts c = k.counts<tgpu::GlobalStoreOp>(r);
    CHECK(c.requests == 2);
    CHECK(c.bytes == 160);
    CHECK(c.sectors == 5);
  }
}

TEST_CASE("conflicts of shared accesses, with the passes' swizzle and without", "[executor]") {
  Lowered k(transposeText());
  Aligned<f32> x({64, 64}), y({64, 64});
  tgpu::ExecResult r = k.run({x.arg(), y.arg()});
  REQUIRE_FALSE(r.fault);
  tgpu::OpCounts with = r.total();
  CHECK(with.wavefronts > 0);
  auto allocs = k.all<tgpu::BufferAllocOp>();
  REQUIRE(allocs.size() == 1);
  auto buffer = allocs[0].getBuffer().getType();
  allocs[0].getBuffer().setType(tgpu::BufferType::get(buffer.getContext(), buffer.getShape(),
                                                      buffer.getElementType(), llvm::ArrayRef<int64_t>()));
  r = k.run({x.arg(), y.arg()});
  REQUIRE_FALSE(r.fault);
  CHECK(r.total().conflicts > 2 * with.conflicts);
  CHECK(r.total().conflicts > 100);
  CHECK(r.total().bytes == with.bytes);
  CHECK(y.data[5] == x.data[5 * 64]);
}

TEST_CASE("seeded fault: a barrier is missing", "[executor]") {
  Aligned<f32> x({3, 500}), y({3, 500});
  std::size_t barriers = Lowered(rowsText()).all<tgpu::BarrierOp>().size();
  REQUIRE(barriers >= 2);
  for (std::size_t missing = 0; missing < barriers; ++missing) {
    Lowered k(rowsText());
    REQUIRE(k.fault({x.arg(), y.arg()}) == "nothing");
    k.all<tgpu::BarrierOp>()[missing].erase();
    std::string fault = k.fault({x.arg(), y.arg()});
    INFO("barrier " << missing << ": " << fault);
    CHECK_THAT(fault, Catch::Contains("without a barrier between them"));
    CHECK_THAT(fault, Catch::Contains("one place in shared memory"));
  }
}

TEST_CASE("seeded fault: a program meets its own writes without a barrier", "[executor]") {
  std::string view = tensorType(1, DType::f32), tile = tileType({64}, DType::f32);
  Lowered k(kernelText("%X: " + view, fmt::format(R"(
    %c0 = tile.constant 0 : index
    %c1 = tile.constant 1 : index
    %c5 = tile.constant 5 : index
    scf.for %i = %c0 to %c5 step %c1 {{
      %x = tile.load %X[%i] : {0} -> {1}
      %next = tile.binary add %i, %c1 : index
      tile.store %x, %X[%next] : {1}, {0}
    }})",
                                                  view, tile)));
  Aligned<f32> x({70});
  REQUIRE(k.fault({x.arg()}) == "nothing");
  k.all<tgpu::BarrierOp>().front().erase();
  CHECK_THAT(k.fault({x.arg()}), Catch::Contains("one element of global memory"));
}

TEST_CASE("seeded fault: a reader with another swizzle", "[executor]") {
  Lowered k(transposeText());
  Aligned<f32> x({64, 64}), y({64, 64});
  auto alloc = k.all<tgpu::BufferAllocOp>().front();
  auto type = alloc.getBuffer().getType();
  mlir::OpBuilder b(alloc);
  auto other = tgpu::BufferAllocOp::create(
      b, alloc.getLoc(),
      tgpu::BufferType::get(type.getContext(), type.getShape(), type.getElementType(), {4, 1, 4}),
      alloc.getOffsetAttr());
  k.all<tgpu::CopyOutOp>().front()->setOperand(0, other.getBuffer());
  CHECK_THAT(k.fault({x.arg(), y.arg()}), Catch::Contains("last written through another buffer"));
}

TEST_CASE("seeded fault: wrong places of buffers", "[executor]") {
  Aligned<f32> x({64, 64}), y({64, 64});
  std::vector<KernelArg> args{x.arg(), y.arg()};
  auto moved = [&](std::int64_t offset) {
    Lowered k(transposeText());
    auto alloc = k.all<tgpu::BufferAllocOp>().front();
    alloc.setOffset(*alloc.getOffset() + std::uint64_t(offset));
    return k.fault(args);
  };
  CHECK(moved(0) == "nothing");
  CHECK_THAT(moved(4096), Catch::Contains("of shared memory; the block has 4096"));
  CHECK_THAT(moved(16), Catch::Contains("of shared memory; the block has 4096"));

  // Two buffers that are live together.
  Aligned<f32> rows({3, 500}), out({3, 500});
  Lowered k(rowsText());
  auto allocs = k.all<tgpu::BufferAllocOp>();
  REQUIRE(allocs.size() >= 2);
  for (auto alloc : allocs)
    alloc.setOffset(0);
  auto barriers = k.all<tgpu::BarrierOp>();
  for (auto barrier : llvm::drop_begin(barriers))
    barrier.erase();
  CHECK(k.fault({rows.arg(), out.arg()}) != "nothing");
}

TEST_CASE("seeded fault: a buffer that nobody writes", "[executor]") {
  Aligned<f32> x({64, 64}), y({64, 64});
  Lowered k(transposeText());
  k.all<tgpu::CopyOp>().front().erase();
  CHECK_THAT(k.fault({x.arg(), y.arg()}), Catch::Contains("which nothing has written"));
}

TEST_CASE("seeded fault: bounds and masks are missing", "[executor]") {
  Aligned<f32> x({1000}), y({1000});
  std::string text = copyText(plain("X", 1) + ", " + plain("Y", 1), 1024);
  auto unbounded = [&](auto op) {
    op.setAxes({});
    op.getLoMutable().clear();
    op.getHiMutable().clear();
  };
  {
    Lowered k(text);
    REQUIRE(k.fault({x.arg(), y.arg()}) == "nothing");
    unbounded(k.all<tgpu::GlobalLoadOp>().front());
    std::string fault = k.fault({x.arg(), y.arg()});
    CHECK_THAT(fault, Catch::Contains("tgpu.global_load: thread"));
    CHECK_THAT(fault, Catch::Contains("outside the tensor, whose length there is 1000"));
  }
  {
    Lowered k(text);
    unbounded(k.all<tgpu::GlobalStoreOp>().front());
    CHECK_THAT(k.fault({x.arg(), y.arg()}), Catch::Contains("outside the tensor"));
  }
  std::string view = tensorType(1, DType::f32), tile = tileType({64}, DType::f32),
              index = tileType({64}, DType::index);
  Lowered k(kernelText(plain("X", 1) + ", " + plain("Y", 1), fmt::format(R"(
    %i = tile.grid %Y [64] : {0} -> index
    %n = tile.iota 0 : {2}
    %s = tile.splat %i : index -> {2}
    %at = tile.binary add %n, %s : {2}
    %x = tile.gather %X[%at] : {0}, ({2}) -> {1}
    tile.store %x, %Y[%i] : {1}, {0})",
                                                                         view, tile, index)));
  REQUIRE(k.fault({x.arg(), y.arg()}) == "nothing");
  auto gather = k.all<tgpu::GlobalGatherOp>().front();
  mlir::OpBuilder b(gather);
  auto flags = llvm::cast<mlir::RankedTensorType>(gather.getMask().getType());
  gather.getMaskMutable().assign(tileir::ConstantOp::create(
      b, gather.getLoc(), mlir::SplatElementsAttr::get(flags, b.getBoolAttr(true))));
  CHECK_THAT(k.fault({x.arg(), y.arg()}), Catch::Contains("tgpu.global_gather: thread"));
}

TEST_CASE("seeded fault: facts of arguments that do not hold", "[executor]") {
  Lowered k(copyText(aligned("X", 1) + ", " + aligned("Y", 1), 1024));
  Aligned<f32> x({4096}), y({4096}), shifted({4096}, 1);
  REQUIRE(k.fault({x.arg(), y.arg()}) == "nothing");
  CHECK_THAT(
      k.fault({shifted.arg(), y.arg()}),
      Catch::Contains("moves 16 bytes at once, from an address that is 4 bytes behind a multiple of it"));
  KernelArg strided = x.arg();
  strided.dims[0] = 1024;
  strided.strides[0] = 2;
  CHECK_THAT(k.fault({strided, y.arg()}), Catch::Contains("are not neighbours in memory"));
  KernelArg uneven = x.arg();
  uneven.dims[0] = 1022;
  CHECK_THAT(k.fault({uneven, y.arg()}),
             Catch::Contains("elements at once, of which 2 exist") || Catch::Contains("outside the tensor"));
}

TEST_CASE("a fault names the user's line", "[executor]") {
  Lowered k(copyText(plain("X", 1) + ", " + plain("Y", 1), 1024));
  auto load = k.all<tgpu::GlobalLoadOp>().front();
  load->setLoc(mlir::FileLineColLoc::get(load.getContext(), "kernel.cpp", 12, 7));
  load.setAxes({});
  load.getLoMutable().clear();
  load.getHiMutable().clear();
  Aligned<f32> x({1000}), y({1000});
  CHECK_THAT(k.fault({x.arg(), y.arg()}), Catch::StartsWith("kernel.cpp:12:7: tgpu.global_load: thread 1"));
}

TEST_CASE("what is not in final form is refused", "[executor]") {
  Interpreted kernel(copyText(plain("X", 1) + ", " + plain("Y", 1), 1024));
  mlir::ScopedDiagnosticHandler quiet(&kernel.context,
                                      [&](mlir::Diagnostic &d) { kernel.messages += d.str(); });
  CHECK_FALSE(tgpu::Executor::build(*kernel.module));
  CHECK_THAT(kernel.messages, Catch::Contains("is not in final tgpu form"));
}
