// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --pass-pipeline="builtin.module(func.func(sectile-select-mma{pipelined=false}))" --split-input-file | FileCheck %s
// RUN: not sectile-opt %s --pass-pipeline="builtin.module(func.func(sectile-select-mma{arch=sm_12}))" --split-input-file 2>&1 | FileCheck %s --check-prefix=ARCH
// RUN: not sectile-opt %s --pass-pipeline="builtin.module(func.func(sectile-select-mma{warps=3}))" --split-input-file 2>&1 | FileCheck %s --check-prefix=WARPS
// ARCH: error: 'sm_12' is no known target [select_mma_c1]; use one such as sm_90a
// WARPS: error: 3 warps per block, sm_90a runs powers of two from 1 to 32 [select_mma_c2]; choose one of them, or 0 for the default

// The deepest atom that divides K; 4 warps for 64 x 64.
// CHECK: func.func @deep({{.*}}attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 0>, tgpu.remarks = [{{.*}}text = "stages is set to 1, no pipelines: mma.sync on warps, operands in registers"}], tgpu.target = "sm_90a"}
// CHECK: tile.mma {{.*}}tgpu.atom = #tgpu.atom<"sm80_m16n8k16_f32bf16bf16f32_tn">
func.func @deep(%a: tensor<64x48xbf16>, %b: tensor<48x64xbf16>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = tile.mma exact %a, %b, %c : tensor<64x48xbf16>, tensor<48x64xbf16>, tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}

// -----

// 8 warps for 128 x 128; K = 8 has an atom of its own.
// CHECK: func.func @large({{.*}}tgpu.launch = #tgpu.launch<warps = 8
// CHECK: tgpu.atom = #tgpu.atom<"sm80_m16n8k8_f32bf16bf16f32_tn">
func.func @large(%a: tensor<128x8xbf16>, %b: tensor<8x128xbf16>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %r = tile.mma exact %a, %b, %c : tensor<128x8xbf16>, tensor<8x128xbf16>, tensor<128x128xf32>
  return %r : tensor<128x128xf32>
}

// -----

// Few atoms, few warps.
// CHECK: func.func @small({{.*}}tgpu.launch = #tgpu.launch<warps = 1
// CHECK: tgpu.atom
func.func @small(%a: tensor<48x16xbf16>, %b: tensor<16x24xbf16>, %c: tensor<48x24xf32>) -> tensor<48x24xf32> {
  %r = tile.mma exact %a, %b, %c : tensor<48x16xbf16>, tensor<16x24xbf16>, tensor<48x24xf32>
  return %r : tensor<48x24xf32>
}

// -----

// f32 keeps its bits: no atom unless tf32 is allowed. f16 sums are f32 inside.
// CHECK: func.func @policies
// CHECK: tile.mma exact
// CHECK-NOT: tgpu.atom
// CHECK: tile.mma tf32 {{.*}}tgpu.atom = #tgpu.atom<"sm80_m16n8k8_f32tf32tf32f32_tn">
// CHECK: %[[ACC:.*]] = tile.cast %{{.*}} : tensor<64x64xf16> -> tensor<64x64xf32>
// CHECK: %[[R:.*]] = tile.mma exact %{{.*}}, %{{.*}}, %[[ACC]]
// CHECK: tile.cast %[[R]] : tensor<64x64xf32> -> tensor<64x64xf16>
func.func @policies(%a: tensor<64x8xf32>, %b: tensor<8x64xf32>, %c: tensor<64x64xf32>, %d: tensor<64x16xf16>,
                    %e: tensor<16x64xf16>, %f: tensor<64x64xf16>) -> (tensor<64x64xf32>, tensor<64x64xf16>) {
  %r = tile.mma exact %a, %b, %c : tensor<64x8xf32>, tensor<8x64xf32>, tensor<64x64xf32>
  %s = tile.mma tf32 %a, %b, %r : tensor<64x8xf32>, tensor<8x64xf32>, tensor<64x64xf32>
  %t = tile.mma exact %d, %e, %f : tensor<64x16xf16>, tensor<16x64xf16>, tensor<64x64xf16>
  return %s, %t : tensor<64x64xf32>, tensor<64x64xf16>
}
