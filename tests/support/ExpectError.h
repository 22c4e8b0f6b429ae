// SPDX-License-Identifier: Apache-2.0
/// \file One wrong program per file. Its first lines say what the UserError must contain, and one line of the
/// program is marked as the place it must name:
///
///     // EXPECT: [binary_c1]
///     WRONG_PROGRAM(stream) {
///       ... // HERE
///     }
///
/// WRONG_GPU_PROGRAM() is one whose driver is tests/support/FakeCuda.cpp: it makes devices itself, and runs in a
/// process of its own. More lines that either kind may have:
///
///     // SET: NAME=VALUE     an environment variable, set before the library is used
///     // LAUNCHES: 1         how many kernels the driver has launched when the error comes (0)
#pragma once

#include <sectile/sectile.h>

namespace sectile::testing {

/// A wrong program: its file and what to run. Registers itself.
struct WrongProgram {
  using Run = void (*)(const Stream &stream);
  WrongProgram(const char *file, Run run);
  WrongProgram(const char *file, void (*runOnGpu)());
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

#define WRONG_GPU_PROGRAM()                                                                                  \
  static void wrongProgram();                                                                                \
  static const sectile::testing::WrongProgram wrongProgramCase(__FILE__, wrongProgram);                      \
  static void wrongProgram()
