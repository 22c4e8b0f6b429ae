// SPDX-License-Identifier: Apache-2.0
/// \file Operands that threads of the producer copy to shared memory: products on the executor against sums in double, over
/// alignments, lengths and strides; faults that are seeded; the code.
#include "codegen/Codegen.h"
#include "ir/CopyPlan.h"
#include "tests/support/PipedProducts.h"

#include "mlir/IR/Builders.h"

#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

using Kernel = PipedProduct;
using Lowered = LoweredProduct;

/// `columns` elements of rows that are `stride` apart; what lies between them is no number.
struct Padded {
  Padded(std::int64_t rows, std::int64_t columns, std::int64_t stride, int salt, std::int64_t offset)
      : all(rows, stride, salt, offset), columns(columns) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = columns; j < stride; ++j)
        all.data[i * stride + j] = bf16(std::numeric_limits<float>::quiet_NaN());
  }
  KernelArg arg() {
    KernelArg a = all.arg();
    a.dims[1] = columns;
    return a;
  }
  Matrix<bf16> all;
  std::int64_t columns;
};

/// The least stride of rows that is a multiple of `bytes`, and of no more than that below 16.
std::int64_t strideFor(std::int64_t columns, std::int64_t bytes) {
  const std::int64_t step = bytes / 2;
  std::int64_t stride = (columns + step - 1) / step * step;
  return bytes < 16 && stride / step % 2 == 0 ? stride + step : stride;
}

void checkProduct(const Kernel &kernel, std::int64_t m, std::int64_t n, std::int64_t k, int copies) {
  Lowered lowered(kernel);
  CHECK(int(lowered.all<tgpu::AsyncLoadOp>().size()) == copies);
  CHECK(lowered.all<tgpu::TmaLoadOp>().size() == std::size_t(2 - copies));
  const std::int64_t bColumns = kernel.bRows ? k : n, bRows = kernel.bRows ? n : k;
  Padded a(m, k, strideFor(k, kernel.align), 1, kernel.align / 2 % 8),
      b(bRows, bColumns, strideFor(bColumns, kernel.alignB), 2, kernel.alignB / 2 % 8);
  for (bool consumersFirst : {false, true}) {
    Matrix<f32> c(m, n, 3);
    INFO(fmt::format("{} x {} x {}, tiles of 128 x {}, B {}, aligned to {} and {}, consumers first: {}", m, n, k, kernel.n,
                     kernel.bRows ? "[N, K]" : "[K, N]", kernel.align, kernel.alignB, consumersFirst));
    tgpu::ExecResult r = lowered.run({a.arg(), b.arg(), c.arg()}, consumersFirst);
    INFO((r.fault ? r.fault->text() : ""));
    REQUIRE_FALSE(r.fault);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += a.all.at(i, x) * (kernel.bRows ? b.all.at(j, x) : b.all.at(x, j));
        wrong += c.at(i, j) != sum;
      }
    CHECK(wrong == 0);
  }
}

template <class F> std::set<std::string> faults(F spoil, std::int64_t offset = 0) {
  Lowered lowered(Kernel{.async = 2});
  spoil(lowered);
  std::set<std::string> found;
  for (bool consumersFirst : {false, true}) {
    Matrix<bf16> a(136, 640, 1, offset), b(640, 128, 2);
    Matrix<f32> c(136, 128, 3);
    tgpu::ExecResult r = lowered.run({a.arg(), b.arg(), c.arg()}, consumersFirst);
    found.insert(r.fault ? r.fault->text() : "nothing");
  }
  return found;
}
void checkFaults(const std::set<std::string> &found, const std::string &part, const std::string &orPart = "") {
  for (const std::string &fault : found)
    CHECK_THAT(fault, Catch::Contains(part) || Catch::Contains(orPart.empty() ? part : orPart));
}

std::string ptxOf(const Kernel &kernel) {
  Lowered lowered(kernel);
  Artifact artifact;
  REQUIRE(mlir::succeeded(codegen::emit(*lowered.kernel.module, artifact)));
  return artifact.ptx;
}
int count(const std::string &text, const std::string &part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++n;
  return n;
}

} // namespace

TEST_CASE("threads copy operands: trips of the loop over K", "[executor][async]") {
  for (std::int64_t k : {0, 64, 128, 192, 640})
    checkProduct({.async = 2}, 128, 128, k, 2);
  checkProduct({.stages = 2, .async = 2}, 128, 128, 320, 2);
}

TEST_CASE("threads copy operands: majors, edges, alignments", "[executor][async]") {
  for (bool bRows : {false, true}) {
    checkProduct({.bRows = bRows, .async = 2}, 200, 152, 200, 2);
    checkProduct({.n = 256, .bRows = bRows, .async = 2}, 72, 264, 136, 2);
    for (int align : {16, 8, 4})
      for (std::int64_t k : {136, 137, 135, 66})
        checkProduct({.bRows = bRows, .async = 2, .align = align, .alignB = align, .divisor = 1}, 131, 136, k, 2);
    for (int align : {8, 4}) // by rule
      checkProduct({.bRows = bRows, .align = align, .alignB = align, .divisor = 1}, 131, 136, 130, 2);
  }
}

TEST_CASE("threads copy one operand, the TMA unit brings the other", "[executor][async]") {
  for (int bytes : {8, 4}) {
    checkProduct({.alignB = bytes, .divisor = 1}, 136, 136, 200, 1);
    checkProduct({.bRows = true, .align = bytes, .divisor = 1}, 136, 136, 200, 1);
  }
  Lowered k(Kernel{.alignB = 8});
  CHECK(k.only<tgpu::PipeCreateOp>().getFull() == 129);
  CHECK(k.only<tgpu::PipeAcquireOp>().getBytes() == 128 * 64 * 2);
}

TEST_CASE("where threads copy", "[passes][async]") {
  Lowered rule(Kernel{});
  CHECK(rule.all<tgpu::AsyncLoadOp>().empty());
  Lowered all(Kernel{.async = 2});
  for (tgpu::AsyncLoadOp load : all.all<tgpu::AsyncLoadOp>())
    CHECK(load.getCopyBytes() == 16);
  CHECK(all.only<tgpu::PipeCreateOp>().getFull() == 128);
  CHECK(all.only<tgpu::PipeAcquireOp>().getBytes() == 0);
  CHECK(all.only<tgpu::AsyncArriveOp>()->getNextNode() == all.only<tgpu::PipeCommitOp>());
  CHECK(all.only<tgpu::FenceAsyncOp>()->getPrevNode() == all.only<tgpu::PipeWaitOp>());
  Lowered narrow(Kernel{.align = 4, .alignB = 8});
  CHECK(narrow.all<tgpu::AsyncLoadOp>()[0].getCopyBytes() == 4);
  CHECK(narrow.all<tgpu::AsyncLoadOp>()[1].getCopyBytes() == 8);
}

TEST_CASE("plans of copies cover each piece of a buffer once", "[async]") {
  mlir::MLIRContext context;
  context.loadDialect<tgpu::TgpuDialect>();
  mlir::Builder b(&context);
  auto bf16 = b.getBF16Type();
  int planned = 0;
  for (std::int64_t span : {32, 64, 128})
    for (std::int64_t copyBytes : {4, 8, 16})
      for (llvm::SmallVector<std::int64_t> rows : {llvm::SmallVector<std::int64_t>{64}, {8}, {24}, {4, 16}, {2, 64}, {2, 2, 32}, {3, 8}, {5, 24}}) {
        llvm::SmallVector<std::int64_t> order{std::int64_t(rows.size())}, box{span / 2};
        for (std::size_t d = rows.size(); d-- > 0;) {
          order.push_back(std::int64_t(d));
          box.push_back(rows[d]);
        }
        llvm::SmallVector<mlir::Attribute> limits(order.size(), b.getStringAttr("inf"));
        auto map = tgpu::MapAttr::get(&context, order, box, span, b.getArrayAttr(limits), false);
        auto buffer = tgpu::BufferType::get(&context, {2, llvm::product_of(rows), span / 2}, bf16, tgpu::tmaSwizzleOf(span, 2));
        auto plan = tgpu::CopyPlan::make(map, buffer, copyBytes);
        if (!plan) {
          CHECK(rows.size() > 1);
          continue;
        }
        ++planned;
        std::set<std::pair<std::vector<std::int64_t>, std::int64_t>> seen;
        for (std::int64_t step = 0; step < plan->steps; ++step)
          for (std::int64_t thread = 0; thread < tgpu::copyThreads; ++thread) {
            const std::int64_t row = thread / plan->pieces;
            if (step * plan->rowsPerStep + row >= plan->rows)
              continue;
            std::vector<std::int64_t> place(rows.size(), 0);
            for (const tgpu::CopyPlan::Axis &a : plan->axes) {
              std::int64_t of = row / a.divisor;
              if (a.modulus)
                of %= a.modulus;
              place[std::size_t(a.axis)] = of + a.first[std::size_t(step)];
            }
            // In the order of rows of the buffer.
            std::int64_t number = 0;
            for (auto [length, at] : llvm::zip_equal(rows, place)) {
              CHECK((at >= 0 && at < length));
              number = number * length + at;
            }
            CHECK(number == step * plan->rowsPerStep + row);
            seen.insert({place, thread % plan->pieces});
          }
        CHECK(std::int64_t(seen.size()) == plan->rows * plan->pieces);
      }
  CHECK(planned >= 50);
}

TEST_CASE("seeded faults: copies of threads", "[executor][async]") {
  checkFaults(faults([](Lowered &) {}), "nothing");
  checkFaults(faults([](Lowered &k) { k.only<tgpu::AsyncArriveOp>().erase(); }), "with no async_arrive behind them");
  checkFaults(faults([](Lowered &k) { k.only<tgpu::AsyncArriveOp>()->moveBefore(k.all<tgpu::AsyncLoadOp>().back()); }),
              "slot 0"); // full too early, or committed without an arrival behind the last copy
  checkFaults(faults([](Lowered &k) {
                mlir::OpBuilder b(k.only<tgpu::AsyncArriveOp>());
                b.clone(*k.only<tgpu::AsyncArriveOp>());
              }),
              "deadlock", "which nothing has filled"); // each fill completes two phases; consumers may be the first to notice
  checkFaults(faults([](Lowered &k) { k.only<tgpu::FenceAsyncOp>().erase(); }), "without a fence_async behind the wait");
  checkFaults(faults([](Lowered &k) { k.only<tgpu::FenceAsyncOp>()->moveBefore(k.only<tgpu::PipeWaitOp>()); }),
              "without a fence_async behind the wait");
  checkFaults(faults([](Lowered &k) { k.only<tgpu::PipeCreateOp>().setFull(129); }), "of 129 arrivals and 0 bytes missing");
  checkFaults(faults([](Lowered &k) { k.only<tgpu::PipeCreateOp>().setFull(1); }), "which waits for 1");
  checkFaults(faults([](Lowered &k) { k.only<tgpu::PipeAcquireOp>().setBytes(16); }), "which waits for 127");
  checkFaults(faults([](Lowered &k) { k.all<tgpu::AsyncLoadOp>().front().erase(); }), "which nothing has filled");
  checkFaults(faults([](Lowered &k) { k.only<tgpu::PipeAcquireOp>().erase(); }), "was not acquired");
  checkFaults(faults([](Lowered &) {}, 1), "which is no multiple of so many bytes in memory");
}

TEST_CASE("code of copies", "[codegen][async]") {
  const std::string ptx = ptxOf({.bRows = true, .async = 2});
  // 128 x 64 elements of two bytes, twice, by 128 threads.
  CHECK(count(ptx, "cp.async.cg.shared.global.L2::128B [") == 16);
  CHECK(count(ptx, "cp.async.mbarrier.arrive.noinc.shared.b64") == 1);
  CHECK(count(ptx, "cp.async.bulk.tensor") == 0); // where C ends inside 16 bytes, nothing goes by the unit
  CHECK(count(ptxOf({.async = 2}), "cp.async.bulk.tensor") > 0);
  CHECK(count(ptx, "mbarrier.arrive.expect_tx") == 0);
  CHECK(count(ptx, "elect.sync") == 0);
  CHECK(count(ptx, "cp.async.wait_all") == 1);
  CHECK(count(ptx, "fence.proxy.async") >= 1);
  CHECK(count(ptx, "selp.b32 S") == 0); // lengths are multiples of 8: no piece is cut
  const std::string cut = ptxOf({.bRows = true, .async = 2, .divisor = 1});
  CHECK(count(cut, "selp.b32 S") == 16);
  CHECK(count(cut, "cp.async.cg.shared.global.L2::128B [") == 32); // in the last box of a row, and in all others
  const std::string mixed = ptxOf({.alignB = 4});
  CHECK(count(mixed, "cp.async.ca.shared.global.L2::128B [") == 32); // of 4 bytes, of 64 x 128 elements
  CHECK(count(mixed, "mbarrier.arrive.expect_tx") == 1);
}
