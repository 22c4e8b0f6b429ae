// SPDX-License-Identifier: Apache-2.0
// A target that no row of the table has.
// RUN: sectile-opt %s --sectile-select-mma=arch=sm_99 --verify-diagnostics -o /dev/null

// expected-error @+1 {{'sm_99' is no known target [select_mma_c1]; use one such as sm_90a}}
func.func @select_mma_c1() attributes {tile.kernel} {
  return
}
