// SPDX-License-Identifier: Apache-2.0
/// \file The rows of the gemm suite: operands, launches and checks, on any device.
#pragma once

#include "tests/perf/Bench.h"

#include <fmt/format.h>

namespace bench {

struct Shape {
  std::int64_t m, n, k;
  std::string str() const { return fmt::format("{}x{}x{}", m, n, k); }
};

/// One row at one shape on one stream; it owns its memory.
struct ProductRow {
  int sets = 1;
  std::function<void()> poison; ///< fills set 0's result with bytes 0xFF
  std::function<double(bool)>
      error; ///< relative error of set 0's result; with true, of that with one wrong element
  std::function<Call(const sectile::Config &, int set)> prepare;
};

/// Rows that differ in their shapes.
struct ProductRows {
  std::string op, dtype;
  std::size_t elementBytes;
  double tolerance;
  int products; ///< of M x N x K in one result
  std::vector<Shape> shapes;
  std::function<ProductRow(const sectile::Stream &, Shape)> make;
};

/// All rows of the suite.
std::vector<ProductRows> productRows(bool quick);

} // namespace bench
