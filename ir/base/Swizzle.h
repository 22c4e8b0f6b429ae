// SPDX-License-Identifier: Apache-2.0
/// \file Where the elements of a tile lie in a shared buffer so that accesses by two layouts meet few banks
/// twice.
///
/// A buffer is row-major; row = linear index of all coordinates but the last, column = the last. A swizzle
/// XORs the element's index, row * length + column, with a linear function over F2 of the row and of the
/// column bits that number whole lines of 128 bytes. Only index bits within a line change, from `chunk` on: a
/// chunk of neighbouring elements stays one.
#pragma once

#include "ir/base/Layout.h"

#include <span>

namespace sectile {

/// In elements.
struct Swizzle {
  std::int64_t chunk = 0; ///< a power of two; 0: rows are plain
  std::int64_t line = 0;  ///< elements in 128 bytes
  std::vector<std::int64_t> rows,
      columns; ///< masks of row bits 0, 1, .. and of the column bits line, 2 line, ..

  /// What is XORed into the index. Linear: of(r ^ s, c ^ d) == of(r, c) ^ of(s, d).
  std::int64_t of(std::int64_t row, std::int64_t column) const;

  /// [] or [chunk, number of row masks, row masks.., column masks..], without zeros at the end of either
  /// list.
  std::vector<std::int64_t> parameters() const;
  /// None unless `parameters` are as above and each mask is a multiple of chunk below maskEnd; says why not.
  /// Rows shorter than a line: the masks of rows within one line are zero. A buffer has `rows` of `length`.
  static std::optional<Swizzle> parse(std::span<const std::int64_t> parameters, std::int64_t rows,
                                      std::int64_t length, std::int64_t elementBytes,
                                      std::string *whyNot = nullptr);
  /// Masks are below this: bits of the index within a line that do not depend on both row and column. Bits of
  /// the row are among them if rows are a power of two shorter than a line. Aligned runs of so many elements
  /// make up the buffer.
  static std::int64_t maskEnd(std::int64_t rows, std::int64_t length, std::int64_t elementBytes);
};

/// One side of a buffer: what the accesses of a warp in a layout cost. All registers and warps meet the same
/// conflicts, since layouts and swizzles are linear.
class BankSide {
public:
  BankSide(const Layout &layout, std::span<const std::int64_t> shape, std::int64_t elementBytes, bool writes);
  /// ldmatrix or stmatrix: lane l names the row of 16 bytes that starts at the element of register r.
  static BankSide ofMatrixRows(const Layout &rows, std::span<const std::int64_t> shape,
                               std::int64_t elementBytes);
  /// Cycles for all registers of a warp: one per 32 words, more where lanes meet in a bank.
  std::int64_t cycles(const Swizzle &s) const;
  /// The same without any conflict.
  std::int64_t least(const Swizzle &s) const;
  /// Instructions for all registers.
  std::int64_t accesses(const Swizzle &s) const;
  /// Elements per access.
  std::int64_t width(const Swizzle &s) const;

  /// Row and column of a lane bit: the difference that it makes.
  struct Step {
    std::int64_t row = 0, column = 0;
  };
  /// Of the lanes that are served together if each access has `width` elements.
  std::vector<Step> together(std::int64_t width) const;
  std::int64_t longestRun() const { return run; }

private:
  std::int64_t last, elementBytes, registers, run;
  std::vector<Step> places; ///< per lane
  std::vector<Step> laneSteps;
};

struct SwizzleChoice {
  Swizzle swizzle;
  std::int64_t cycles = 0;    ///< of both sides
  std::int64_t conflicts = 0; ///< how many of those come from lanes that meet
};
/// The swizzle of fewest cycles, then of fewest instructions, for a store by `src` and a load by `dst`.
/// Without conflicts wherever the construction finds one for some width of accesses. `srcRows`, `dstRows`:
/// which rows the lanes name where stmatrix or ldmatrix can serve the side, which they do for chunks of 16
/// bytes or more.
SwizzleChoice chooseSwizzle(const Layout &src, const Layout &dst, std::span<const std::int64_t> shape,
                            std::int64_t elementBytes, const Layout *srcRows = nullptr,
                            const Layout *dstRows = nullptr);

} // namespace sectile
