// SPDX-License-Identifier: Apache-2.0
/// \file Conversions of layouts on a GPU: shuffles, swizzled buffers, ldmatrix and stmatrix bring every
/// element to its place, bit for bit. Skipped without a GPU.
#include "ir/base/Fragments.h"
#include "tests/support/RunOnGpu.h"
#include "tests/support/TgpuKernels.h"

#include <random>

using namespace sectile;
using namespace sectile::testing;

TEST_CASE("conversions of layouts keep every element", "[codegen][gpu]") {
  std::string report = onGpu([] {
    std::string report, arch = archOfGpu();
    auto check = [&](const std::string &what, DType t, const Layout &src, const Layout &dst,
                     std::optional<std::string> swizzle) {
      Array x(t, {src.dim(0), src.dim(1)}), y(t, {src.dim(0), src.dim(1)});
      std::mt19937 random(7);
      for (std::byte &b : x.bytes)
        b = std::byte(random() % (t == DType::boolean ? 2 : 256));
      std::string r = runKernel(conversion(t, src, dst, arch, swizzle), {&x, &y});
      if (x.bytes != y.bytes || !r.empty())
        report += fmt::format("{} {} {}\n", what, name(t), r);
    };
    const std::vector<std::int32_t> shape{64, 64};
    const Layout columns = wgmmaAccumulator(64), turned = columns.permute(std::vector<int>{1, 0});
    for (DType t :
         {DType::f64, DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::i8, DType::boolean}) {
      const int bytes = int(byteSize(t));
      const Layout rows = Layout::blocked(shape, 1, 16 / bytes, 4);
      check("shuffles", t, wgmmaAccumulator(32), wgmmaA(1), std::nullopt);
      check("shuffles back", t, wgmmaA(1), wgmmaAccumulator(32), std::nullopt);
      for (const std::string &swizzle : {std::string(), lineSwizzle(64, bytes)})
        for (const Layout *l : {&columns, &turned}) {
          check("load " + swizzle, t, rows, *l, swizzle);
          check("store " + swizzle, t, *l, rows, swizzle);
        }
    }
    return report;
  });
  INFO(report);
  CHECK(report.empty());
}
