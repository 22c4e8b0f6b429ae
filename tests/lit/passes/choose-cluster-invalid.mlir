// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-select-mma --sectile-choose-cluster="cluster=3" --verify-diagnostics -o /dev/null

// expected-error @+1 {{a cluster of 3 blocks, sm_90a runs powers of two from 1 to 8 [choose_cluster_c2]; choose one of them, or 0 for the default}}
func.func @three() { return }
