// SPDX-License-Identifier: Apache-2.0
// The pass before the one that it needs.
// RUN: sectile-opt %s --sectile-choose-cluster --verify-diagnostics -o /dev/null

// expected-error @+1 {{has no launch geometry or no known target [choose_cluster_c1]; run sectile-select-mma first}}
func.func @choose_cluster_c1() attributes {tile.kernel} {
  return
}
