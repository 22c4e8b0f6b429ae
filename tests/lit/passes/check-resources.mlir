// SPDX-License-Identifier: Apache-2.0
// RUN: sectile-opt %s --sectile-check-resources --split-input-file --verify-diagnostics

func.func @shared() attributes {tgpu.launch = #tgpu.launch<warps = 4, shared_bytes = 262144>, tgpu.target = "sm_90a"} {
  // expected-error @+1 {{needs 262144 bytes of shared memory, sm_90a allows 232448 [check_resources_c1]; pick smaller tiles}}
  %a = tgpu.buffer_alloc at 0 : !tgpu.buffer<[65536], f32>
  return
}

// -----

#l = #tgpu.layout<"core=[131072] reps=[1] reg=[(32),(64),(128),(256),(512),(1024),(2048),(4096),(8192),(16384),(32768),(65536)] lane=[(1),(2),(4),(8),(16)] warp=[]">
func.func @registers() attributes {tgpu.launch = #tgpu.launch<warps = 1, shared_bytes = 0>, tgpu.target = "sm_90a"} {
  // expected-error @+1 {{needs 4096 registers in each of 32 threads for one tile f32 [131072], sm_90a has 255 per thread [check_resources_c2]; pick smaller tiles or more warps}}
  %a = tile.constant dense<0.0> : tensor<131072xf32, #l>
  return
}

// -----

// expected-error @+1 {{has no launch geometry or no known target [check_resources_c3]; run sectile-select-mma first}}
func.func @unknown() {
  return
}
