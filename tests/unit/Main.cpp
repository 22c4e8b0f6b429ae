// SPDX-License-Identifier: Apache-2.0
/// \file sectile_whitebox: every test that looks inside the library.
///
///     sectile_whitebox [Catch2 options]      the unit tests
///     sectile_whitebox numerics [options]    op x dtype x shape (tests/numerics)
///     sectile_whitebox generality [names]    lowered kernels with products (tests/generality)
///     sectile_whitebox products [options]    random products, lowered and run thread by thread (tests/generality)
///     sectile_whitebox interp-bench          speed floors of the interpreter (tests/perf)
///     sectile_whitebox tune-worker SOCKET    the worker of tests that tune (autotune/Measure.h)
#define CATCH_CONFIG_RUNNER
#include "autotune/Measure.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <string_view>

int numericsMain(int argc, char **argv);
int generalityMain(int argc, char **argv);
int randomProductsMain(int argc, char **argv);
int interpBenchMain();

int main(int argc, char **argv) {
  std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "numerics")
    return numericsMain(argc - 1, argv + 1);
  if (what == "generality")
    return generalityMain(argc - 1, argv + 1);
  if (what == "products")
    return randomProductsMain(argc - 1, argv + 1);
  if (what == "interp-bench")
    return interpBenchMain();
  if (argc == 3 && what == sectile::autotune::workerWord)
    return sectile::autotune::workerMain(std::atoi(argv[2]));
  return Catch::Session().run(argc, argv);
}
