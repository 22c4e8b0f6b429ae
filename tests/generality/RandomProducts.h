// SPDX-License-Identifier: Apache-2.0
/// \file Random products: types, shapes, majors, places in memory, tiles, schedules and epilogues from a seed,
/// compared with sums in double under the bounds of tests/numerics. Outputs are poisoned, and every byte that
/// nothing is stored to is compared too.
#pragma once

#include "tests/generality/Generality.h"
#include "tests/numerics/Workers.h"

#include <array>
#include <string>
#include <vector>

namespace generality {

enum class Form { plain, sharedA, timesTranspose };
enum class Epilogue { none, bias, gelu, relu, accumulate, initial };

/// Where a tensor lies: its strides in elements, and how many elements its lowest one is off 256 bytes.
struct Placement {
  std::vector<std::int64_t> dims, strides;
  std::int64_t offset = 0;
  /// Elements from the lowest to the highest; 0 if there is none.
  std::int64_t span() const;
  /// Of coordinate 0, counted from the lowest element.
  std::int64_t origin() const;
  std::int64_t at(std::int64_t z, std::int64_t row, std::int64_t column) const {
    const std::size_t r = dims.size();
    return origin() + (r == 3 ? z * strides[0] : 0) + row * strides[r - 2] + column * strides[r - 1];
  }
  std::string text() const;
};

/// C (and D) of M x N from A of M x K and B (and another B) of K x N, for each of Z.
struct Product {
  std::uint64_t seed = 0;
  std::size_t types = 0; ///< a row of the table of types
  int rank = 2;          ///< 3: the tensors have a leading axis Z
  std::int64_t Z = 1, M = 0, N = 0, K = 0;
  int BM = 0, BN = 0, BK = 0;
  bool turnA = false, turnB = false; ///< stored as [K, M] and [N, K], turned by the kernel
  bool filled = false;               ///< missing lanes of operands are given zeros
  int cut = 0;                       ///< the kernel slices K: 1 from 8 on, 2 from 3 to the last but one
  Placement a, b, c;                 ///< further operands and results lie as these
  Form form = Form::plain;
  Epilogue epilogue = Epilogue::none;
  bool whole = false; ///< small whole numbers: sums are exact
  Config schedule;    ///< warps, stages, raster, cluster, async, multicast; mostly the compiler's choice
  std::int64_t firstK() const { return std::min<std::int64_t>(K, cut == 0 ? 0 : cut == 1 ? 8 : 3); }
  std::int64_t endK() const { return cut == 2 ? std::max(firstK(), K - 1) : K; }
  double work() const { return double(Z) * double(M + 1) * double(N + 1) * double(K + 8); }
  bool byHand() const { return schedule.warps || schedule.stages || schedule.raster || schedule.cluster || schedule.async; }
  std::string text() const;
};

/// Equal seeds give equal products. `real`: of sizes for a GPU.
Product randomProduct(std::uint64_t seed, bool real);

/// Products that cover types, majors, tiles, schedules and epilogues one after the other, for tests of their code.
struct Variant {
  std::string name;   ///< of a file
  const char *expect = nullptr; ///< the instruction of the machine that its code must have: HGMMA, QGMMA, IGMMA
  int spillBytes = 0;           ///< that ptxas may spill
  Product product;
};
std::vector<Variant> productVariants();
/// The code of a product: a stage of `emit`.
std::string emitProduct(const Product &product, const char *stage, const char *arch);

enum class Engine { interpreter, executor, gpu };

/// Runs the product once and compares it; on the executor with its own schedule and without pipelines, and
/// bit for bit with the interpreter where sums are exact. `skipped`: its schedule, chosen by hand, is refused.
sectile::numerics::Outcome checkProduct(const Product &product, Engine engine);
/// Runs it `times` times on a GPU while another stream is busy; each result must have the bits of the first.
sectile::numerics::Outcome repeatProduct(const Product &product, int times);

/// Runs it on the interpreter, and changes a byte of a result, of an operand, beside and between them: each change must be
/// noticed. Empty, or which is not.
std::string blindSpot(const Product &product);

/// The program: --device, --count, --seed, --repeat .. `threads` runs lowered text, null where there is no
/// executor.
int productsMain(int argc, char **argv, Executor threads);

} // namespace generality
