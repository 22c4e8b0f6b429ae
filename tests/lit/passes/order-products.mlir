// SPDX-License-Identifier: Apache-2.0
// Attention on warpgroups: threads sum rows up beside the product with V, and the wait for it comes behind that: `tgpu.gate` names the
// sum. What becomes an operand of the next product is narrow behind the wait, where registers suffice.
// RUN: sectile-opt %S/attention.mlir --sectile-lower | FileCheck %s

// CHECK-LABEL: func.func @attn
// CHECK: %[[SCORES:.*]]:{{.*}} = scf.for
// CHECK: %[[S:.*]] = tgpu.wgmma #
// CHECK: %[[O:.*]] = tgpu.wgmma #
// CHECK: tgpu.wgmma_wait 1 for %[[S]]
// CHECK-NOT: tgpu.wgmma_wait
// CHECK: tile.unary exp %
// CHECK-NOT: tgpu.wgmma_wait
// CHECK: %[[SUM:.*]] = tgpu.reduce sum
// CHECK-NOT: tgpu.wgmma_wait
// CHECK: %[[L:.*]] = tile.binary add %{{.*}}, %[[SUM]]
// CHECK: tgpu.wgmma_wait 0 for %[[O]], %{{.*}}, %{{.*}}, %[[L]] : {{.*}} {tgpu.gate = array<i64: 3, 2>}
// CHECK-NOT: tgpu.reduce
// CHECK: tile.cast %{{.*}} -> tensor<128x64xbf16
// CHECK: scf.yield
