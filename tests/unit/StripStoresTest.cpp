// SPDX-License-Identifier: Apache-2.0
/// \file Sums that threads store in whole rows through shared memory, where the TMA unit cannot write the tensor: values,
/// what lies around them, sectors, code.
#include "codegen/Codegen.h"
#include "ir/StripStores.h"
#include "tests/support/PipedProducts.h"

using namespace sectile;
using namespace sectile::test;

namespace {

template <class T> tgpu::OpCounts checkStores(PipedProduct kernel, std::int64_t m, std::int64_t n, std::int64_t pitch, std::int64_t offset) {
  kernel.out = dtypeOf<T>;
  kernel.alignC = int(sizeof(T));
  kernel.divisorC = 1;
  LoweredProduct lowered(kernel);
  REQUIRE(lowered.only<tgpu::BulkStoreOp>()->hasAttr(tgpu::byThreadsAttr));
  tgpu::OpCounts counted;
  for (bool consumersFirst : {false, true}) {
    const std::int64_t k = 72, bColumns = (n + 7) / 8 * 8;
    Matrix<bf16> a(m, k, 1), b(kernel.bRows ? n : k, kernel.bRows ? k : bColumns, 2);
    Matrix<T> c(m, pitch, 3, offset), before(m, pitch, 3, offset);
    KernelArg out = c.arg();
    out.dims[1] = n;
    KernelArg right = b.arg();
    if (!kernel.bRows)
      right.dims[1] = n;
    INFO(fmt::format("{} x {}, rows {} apart from element {}, {}", m, n, pitch, offset, name(dtypeOf<T>)));
    tgpu::ExecResult r = lowered.run({a.arg(), right, out}, consumersFirst);
    INFO((r.fault ? r.fault->text() : ""));
    REQUIRE_FALSE(r.fault);
    std::int64_t wrong = 0, touched = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += a.at(i, x) * (kernel.bRows ? b.at(j, x) : b.at(x, j));
        wrong += c.at(i, j) != double(float(T(float(sum))));
      }
      for (std::int64_t j = n; j < pitch; ++j)
        touched += c.at(i, j) != before.at(i, j);
    }
    CHECK(wrong == 0);
    CHECK(touched == 0);
    counted = *r.of(lowered.only<tgpu::BulkStoreOp>());
  }
  return counted;
}

std::string ptxOf(const PipedProduct &kernel) {
  LoweredProduct lowered(kernel);
  Artifact artifact;
  REQUIRE(mlir::succeeded(codegen::emit(*lowered.kernel.module, artifact)));
  return artifact.ptx;
}

} // namespace

TEST_CASE("threads store whole rows where the TMA unit cannot", "[executor][strips]") {
  for (std::int64_t n : {128, 131, 5, 250}) {
    checkStores<bf16>({.bRows = true, .divisor = 1}, 136, n, n, 0);
    checkStores<bf16>({.bRows = true, .divisor = 1}, 70, n, n + 3, 1);
    checkStores<f32>({.bRows = true, .divisor = 1}, 136, n, n + 1, 3);
  }
  checkStores<bf16>({.n = 256, .divisor = 1}, 200, 264, 265, 5);
  checkStores<f32>({.n = 256, .divisor = 1}, 72, 264, 265, 1);
  checkStores<bf16>({.raster = 2, .divisor = 1}, 300, 264, 271, 1);
}

TEST_CASE("rows that warps store take few sectors", "[executor][strips]") {
  const tgpu::OpCounts odd = checkStores<bf16>({.bRows = true, .divisor = 1}, 128, 128, 129, 0);
  CHECK(odd.bytes == 128 * 128 * 2);
  // Of 64 bytes that lie anywhere an instruction writes 3 sectors at most; single elements of eight rows would be 8.
  CHECK(odd.sectors >= odd.bytes / 32);
  CHECK(odd.sectors <= 3 * odd.bytes / 64);
  CHECK(odd.requests == odd.bytes / 64);
}

TEST_CASE("which stores go which way", "[passes][strips]") {
  auto store = [](PipedProduct kernel) {
    LoweredProduct k(kernel);
    auto all = k.all<tgpu::BulkStoreOp>();
    return all.empty() ? "directly" : all.front()->hasAttr(tgpu::byThreadsAttr) ? "rows" : "unit";
  };
  CHECK(store({}) == std::string("unit"));
  CHECK(store({.divisorC = 1}) == std::string("directly")); // f32 at 16 bytes: two of a thread go together
  CHECK(store({.out = DType::bf16, .divisorC = 1}) == std::string("rows"));
  CHECK(store({.out = DType::bf16, .alignC = 2}) == std::string("rows"));
  CHECK(store({.out = DType::bf16, .alignC = 4}) == std::string("rows"));
  CHECK(store({.alignC = 4}) == std::string("rows"));
  CHECK(store({.alignC = 8}) == std::string("directly"));
}

TEST_CASE("code of rows that threads store", "[codegen][strips]") {
  const std::string ptx = ptxOf({.out = DType::bf16, .alignC = 2, .divisorC = 1});
  CHECK(ptx.find("cp.async.bulk.tensor.2d.global") == std::string::npos);
  CHECK(ptx.find("stmatrix") != std::string::npos);
  CHECK(ptx.find("st.global.b16") != std::string::npos);
}
