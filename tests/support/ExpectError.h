// SPDX-License-Identifier: Apache-2.0
/// \file One wrong program per file. Its first lines say what the UserError must contain, and one line of the
/// program is marked as the place it must name:
///
///     // EXPECT: [binary_c1]
///     WRONG_PROGRAM(stream) {
///       ... // HERE
///     }
#pragma once

#include <sectile/sectile.h>

namespace sectile::testing {

/// A wrong program: its file and what to run. Registers itself.
struct WrongProgram {
  using Run = void (*)(const Stream &stream);
  WrongProgram(const char *file, Run run);
};

/// A view of no memory: good enough for a launch that fails before it reads any.
template <class T, int R> Tensor<T, R> nowhere(std::array<std::int64_t, R> dims) {
  return Tensor<T, R>(static_cast<T *>(nullptr), dims);
}

} // namespace sectile::testing

#define WRONG_PROGRAM(stream)                                                                                \
  static void wrongProgram([[maybe_unused]] const sectile::Stream &stream);                                  \
  static const sectile::testing::WrongProgram wrongProgramCase(__FILE__, wrongProgram);                      \
  static void wrongProgram([[maybe_unused]] const sectile::Stream &stream)
