// SPDX-License-Identifier: Apache-2.0
/// \file The table of cases.
#pragma once

#include "tests/numerics/Kernel.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace sectile::numerics {

struct Case {
  std::string name; ///< "binary add f32 [48] special"
  std::function<Kernel()> make;
  std::int64_t work = 0; ///< elements of its largest tile: small ones run first
  bool sample = false;   ///< assembled for every target, not only for one
};

/// Collects cases of unique names.
class Cases {
public:
  std::vector<Case> list;
  void add(std::string name, std::int64_t work, std::function<Kernel()> make);
};

void addUnary(Cases &cases);
void addBinary(Cases &cases);
void addCompareSelectCast(Cases &cases);
void addReductions(Cases &cases);
void addShapes(Cases &cases);
void addMemory(Cases &cases);
void addMasks(Cases &cases);
void addMma(Cases &cases);
void addControl(Cases &cases);
/// All of them, small ones first.
std::vector<Case> allCases();

/// A kernel of random ops; equal seeds give equal kernels.
Kernel randomKernel(std::uint64_t seed);

std::string shapeText(const Shape &shape);
inline const std::vector<DType> &allTypes() {
  static const std::vector<DType> types = {DType::f64,  DType::f32,  DType::f16,     DType::bf16,
                                           DType::e4m3, DType::e5m2, DType::i8,      DType::i16,
                                           DType::i32,  DType::i64,  DType::u8,      DType::u16,
                                           DType::u32,  DType::u64,  DType::boolean, DType::index};
  return types;
}
/// Is the op defined on the type?
bool unaryTakes(const std::string &fn, DType t);
bool binaryTakes(const std::string &fn, DType t);
bool reduceTakes(const std::string &kind, DType t);
extern const std::vector<std::string> unaryFunctions, binaryFunctions, predicates, reduceKinds;

} // namespace sectile::numerics
