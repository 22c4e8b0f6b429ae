// SPDX-License-Identifier: Apache-2.0
/// \file The host reference: evaluates a kernel lane by lane from the written meaning of the ops, with none
/// of the library's arithmetic. Knows of every lane what it must be, or how far from it a result may be.
#pragma once

#include "tests/numerics/Memory.h"

#include <optional>
#include <stdexcept>

namespace sectile::numerics {

/// Whose results are judged; the bounds of products differ (see Bounds.h).
enum class Where { interpreter, gpu };

/// The kernel's control flow, masks or addresses depend on a value known only within bounds.
struct Undecidable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What one tensor must hold afterwards: of each of its memory's elements the number, where one is stored.
struct Expected {
  std::vector<Number> numbers;
  std::vector<std::uint8_t> written;
};

/// @throws Undecidable
std::vector<Expected> evaluate(const Kernel &kernel, const std::vector<Memory> &before, Where where);

/// The first thing that is wrong in `after`, as text; empty if nothing is. Bytes that nothing was stored to
/// must be as `before`.
std::string compare(const Kernel &kernel, const std::vector<Expected> &expected,
                    const std::vector<Memory> &before, const std::vector<Memory> &after);
/// Lanes of all outputs that are stored; and those of them of which something is known.
std::int64_t storedLanes(const std::vector<Expected> &expected);
std::int64_t knownLanes(const std::vector<Expected> &expected);

// --- scalar meaning (ReferenceScalar.cpp)
// -------------------------------------------------------------------------------
Number unaryOf(const std::string &fn, DType t, const Number &x);
Number binaryOf(const std::string &fn, DType t, const Number &a, const Number &b);
bool compareOf(const std::string &predicate, DType t, const Number &a, const Number &b);
Number castOf(DType from, DType to, const Number &x);
/// The fold of `terms`, none of them missing.
Number reduceOf(const std::string &kind, DType t, const std::vector<Number> &terms);
inline bool unknown(const Number &n) { return n.error > 1e300; }
Number unknownNumber();
/// Is `bits` a right result?
bool accepts(DType t, const Number &want, std::uint64_t bits);

} // namespace sectile::numerics
