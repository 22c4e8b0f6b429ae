// SPDX-License-Identifier: Apache-2.0
/// \file A kernel in final tgpu form for each row of the kind Wgmma and each place and major of its operands, its
/// arguments and its right results. Operands in memory lie as in shared memory: panel by panel.
#pragma once

#include "ir/TgpuDialect.h"
#include "tests/support/TgpuKernels.h"

#include <fmt/ranges.h>

namespace sectile::testing {

/// One instruction (`steps` of them along K) of a row: C += A B for [64, K], [K, n].
struct WgmmaForm {
  const MmaRow *row = nullptr;
  int steps = 1;             ///< along K
  bool aInRegisters = false; ///< then one step
  bool aMn = false, bMn = false;

  int k() const { return row->k * steps; }
  std::string name() const {
    return fmt::format("{} K {} A {}{} B {}", row->name, k(), aInRegisters ? "in registers, " : "", aMn ? "M-major" : "K-major",
                       bMn ? "N-major" : "K-major");
  }
};

/// How an operand lies: [panels, rows, columns], columns along K or, with `mn`, along M or N.
struct Panels {
  int panels = 1, rows = 1, columns = 1;
  bool mn = false;
  Panels(int length, int k, std::size_t bytes, bool mn) : mn(mn) {
    const int along = mn ? length : k, across = mn ? k : length;
    int span = 128;
    while (along * int(bytes) % span)
      span /= 2;
    columns = span / int(bytes);
    panels = along / columns;
    rows = across;
  }
  int count() const { return panels * rows * columns; }
  /// Position of element (i along M or N, k).
  int at(int i, int k) const {
    const int along = mn ? i : k, across = mn ? k : i;
    return along / columns * rows * columns + across * columns + along % columns;
  }
  std::vector<std::int32_t> shape() const { return {panels, rows, columns}; }
};

/// Every form of a row: A in shared memory or registers, and where the row has them all majors; `steps` of those in
/// shared memory.
inline std::vector<WgmmaForm> formsOf(const MmaRow &row, int steps) {
  std::vector<WgmmaForm> forms{{&row, steps, false, false, false}, {&row, 1, true, false, false}};
  if (!row.mnMajor)
    return forms;
  // Along N one instruction takes whole panels of at least 32 bytes.
  const bool bMayBeMn = row.n * int(byteSize(row.b.dtype)) % 32 == 0;
  forms.push_back({&row, steps, false, true, false});
  if (bMayBeMn) {
    forms.push_back({&row, steps, false, false, true});
    forms.push_back({&row, steps, false, true, true});
    forms.push_back({&row, 1, true, false, true});
  }
  return forms;
}

inline Panels panelsOfA(const WgmmaForm &f) { return {f.row->m, f.k(), byteSize(f.row->a.dtype), f.aMn}; }
inline Panels panelsOfB(const WgmmaForm &f) { return {f.row->n, f.k(), byteSize(f.row->b.dtype), f.bMn}; }

/// C + A B -> C. A is [64, K] where it goes to registers, else it lies in panels, as B does.
inline std::string wgmmaProduct(const WgmmaForm &f, std::string_view arch) {
  const MmaRow &row = *f.row;
  const int order[] = {2, 1, 0};
  auto buffer = [](const Panels &p, DType t) {
    const int bytes = int(byteSize(t));
    return fmt::format("!tgpu.buffer<[{}, {}, {}], {}, {}>", p.panels, p.rows, p.columns, mlirName(t),
                       fmt::format("[{}]", fmt::join(tgpu::tmaSwizzleOf(p.columns * bytes, bytes), ", ")));
  };
  std::string body = "  %z = tile.constant 0 : index\n";
  int at = 0;
  auto written = [&](const char *name, const char *tensor, const Panels &p, DType t) {
    const std::string tileOf = tile(p.shape(), t, Layout::blocked(p.shape(), order, 1, 4)), type = buffer(p, t);
    body += fmt::format("  %{0}0 = tgpu.global_load %{1}[%z, %z, %z] axes [] lo[] hi[] pad {2} : {3} -> {4}\n"
                        "  %{0} = tgpu.buffer_alloc at {5} : {6}\n  tgpu.copy %{0}0, %{0} : {4}, {6}\n",
                        name, tensor, pad(t), view(3, t), tileOf, at, type);
    at = (at + p.count() * int(byteSize(t)) + 1023) / 1024 * 1024;
    return type;
  };
  std::string a;
  if (f.aInRegisters) {
    a = tile({row.m, f.k()}, row.a.dtype, row.a.layout);
    body += fmt::format("  %a = tgpu.global_load %A[%z, %z] axes [] lo[] hi[] pad {} : {} -> {}\n", pad(row.a.dtype),
                        view(2, row.a.dtype), a);
  } else {
    a = written("a", "A", panelsOfA(f), row.a.dtype);
  }
  const std::string b = written("b", "B", panelsOfB(f), row.b.dtype), c = tile({row.m, row.n}, row.c.dtype, row.c.layout);
  body += fmt::format(R"(  %c = tgpu.global_load %C[%z, %z] axes [] lo[] hi[] pad {pad} : {cv} -> {c}
  tgpu.fence_async
  tgpu.barrier
  %d = tgpu.wgmma #tgpu.atom<"{row}"> %a{amn}, %b{bmn}, %c : {a}, {b}, {c}
  %r = tgpu.wgmma_wait 0 for %d : {c}
  tgpu.global_store %r, %C[%z, %z] axes [] lo[] hi[] : {c}, {cv}
)",
                      fmt::arg("pad", pad(row.c.dtype)), fmt::arg("cv", view(2, row.c.dtype)), fmt::arg("c", c),
                      fmt::arg("row", row.name), fmt::arg("amn", f.aMn ? " mn" : ""), fmt::arg("bmn", f.bMn ? " mn" : ""),
                      fmt::arg("a", a), fmt::arg("b", b));
  return function("product",
                  argument("A", f.aInRegisters ? 2 : 3, row.a.dtype) + ", " + argument("B", 3, row.b.dtype) + ", " +
                      argument("C", 2, row.c.dtype),
                  body, 4, at, arch);
}

/// Small whole numbers, for which every row gives the exact sum.
inline int wholeNumber(int i, int salt, DType t) {
  const int n = int((unsigned(i) * 2654435761u + unsigned(salt) * 40503u) >> 16) % 5;
  return isUnsignedInt(t) ? n : n - 2;
}

} // namespace sectile::testing
