// SPDX-License-Identifier: Apache-2.0
/// \file The table of GPUs. Sources: limits per compute capability from the CUDA Programming Guide, the rest
/// from the vendor's data sheets of the named chip (dense figures; halved where only sparse ones are
/// printed).
#include <sectile/Targets.h>

#include <array>
#include <initializer_list>

namespace sectile {

std::string_view name(Feature f) {
  static constexpr std::array<std::string_view, numFeatures> names = {
      "mma_sync_f16", "mma_sync_tf32", "mma_sync_int8", "mma_sync_f64",    "mma_sync_fp8",
      "cp_async",     "ldmatrix",      "stmatrix",      "mbarrier",        "tma",
      "multicast",    "gather4",       "clusters",      "setmaxnreg",      "dependent_launch",
      "wgmma",        "tcgen05",       "tcgen05_int8",  "block_scale_mma", "mma_sync_block_scale",
      "redux_f32"};
  return names[std::size_t(f)];
}

static constexpr std::uint32_t mask(std::initializer_list<Feature> list, std::uint32_t base = 0) {
  for (Feature f : list)
    base |= 1u << unsigned(f);
  return base;
}

using enum Feature;
static constexpr std::uint32_t ampere =
    mask({mmaSyncF16, mmaSyncTf32, mmaSyncInt8, mmaSyncF64, cpAsync, ldmatrix, mbarrier});
static constexpr std::uint32_t ada = mask({mmaSyncFp8}, ampere);
static constexpr std::uint32_t bulkCopies = mask({stmatrix, tma, clusters, setmaxnreg, dependentLaunch}, ada);
static constexpr std::uint32_t hopper = mask({multicast, wgmma}, bulkCopies);
static constexpr std::uint32_t blackwell = mask({multicast, gather4, tcgen05, blockScaleMma}, bulkCopies);
static constexpr std::uint32_t blackwellRtx = mask({blockScaleMma, mmaSyncBlockScale}, bulkCopies);

static constexpr int KiB = 1024;
static constexpr std::int64_t MiB = 1024 * 1024;

// clang-format off
static constexpr Target table[] = {
  {.arch = "sm_80", .chip = "A100 80GB SXM", .major = 8, .minor = 0, .ptxVersion = 70, .features = ampere,
   .smCount = 108, .warpSize = 32,
   .sharedBytesPerBlock = 163 * KiB, .sharedBytesPerSm = 164 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 2048,
   .blocksPerSm = 32, .clusterBlocks = 1, .clusterBlocksOptIn = 1,
   .l2Bytes = 40 * MiB, .memoryGBs = 2039,
   .peak = {.f64 = 19.5, .f32 = 19.5, .tf32 = 156, .f16 = 312, .fp8 = 0, .fp4 = 0, .int8 = 624}},
  {.arch = "sm_86", .chip = "RTX A6000", .major = 8, .minor = 6, .ptxVersion = 71, .features = ampere,
   .smCount = 84, .warpSize = 32,
   .sharedBytesPerBlock = 99 * KiB, .sharedBytesPerSm = 100 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 1536,
   .blocksPerSm = 16, .clusterBlocks = 1, .clusterBlocksOptIn = 1,
   .l2Bytes = 6 * MiB, .memoryGBs = 768,
   .peak = {.f64 = 0.6, .f32 = 38.7, .tf32 = 77.4, .f16 = 154.8, .fp8 = 0, .fp4 = 0, .int8 = 309.7}},
  {.arch = "sm_89", .chip = "L40S", .major = 8, .minor = 9, .ptxVersion = 84, .features = ada,
   .smCount = 142, .warpSize = 32,
   .sharedBytesPerBlock = 99 * KiB, .sharedBytesPerSm = 100 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 1536,
   .blocksPerSm = 24, .clusterBlocks = 1, .clusterBlocksOptIn = 1,
   .l2Bytes = 96 * MiB, .memoryGBs = 864,
   .peak = {.f64 = 1.4, .f32 = 91.6, .tf32 = 183, .f16 = 362, .fp8 = 733, .fp4 = 0, .int8 = 733}},
  {.arch = "sm_90a", .chip = "H200 SXM", .major = 9, .minor = 0, .ptxVersion = 84, .features = hopper,
   .smCount = 132, .warpSize = 32,
   .sharedBytesPerBlock = 227 * KiB, .sharedBytesPerSm = 228 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 2048,
   .blocksPerSm = 32, .clusterBlocks = 8, .clusterBlocksOptIn = 16,
   .l2Bytes = 50 * MiB, .memoryGBs = 4800,
   .peak = {.f64 = 67, .f32 = 67, .tf32 = 494.5, .f16 = 989, .fp8 = 1979, .fp4 = 0, .int8 = 1979}},
  {.arch = "sm_100a", .chip = "B200", .major = 10, .minor = 0, .ptxVersion = 86,
   .features = mask({tcgen05Int8, reduxF32}, blackwell),
   .smCount = 148, .warpSize = 32,
   .sharedBytesPerBlock = 227 * KiB, .sharedBytesPerSm = 228 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 2048,
   .blocksPerSm = 32, .clusterBlocks = 8, .clusterBlocksOptIn = 16,
   .l2Bytes = 126 * MiB, .memoryGBs = 8000,
   .peak = {.f64 = 37, .f32 = 75, .tf32 = 1125, .f16 = 2250, .fp8 = 4500, .fp4 = 9000, .int8 = 4500}},
  {.arch = "sm_103a", .chip = "B300", .major = 10, .minor = 3, .ptxVersion = 88,
   .features = mask({reduxF32}, blackwell),
   .smCount = 148, .warpSize = 32,
   .sharedBytesPerBlock = 227 * KiB, .sharedBytesPerSm = 228 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 2048,
   .blocksPerSm = 32, .clusterBlocks = 8, .clusterBlocksOptIn = 16,
   .l2Bytes = 126 * MiB, .memoryGBs = 8000,
   .peak = {.f64 = 1.2, .f32 = 75, .tf32 = 1125, .f16 = 2250, .fp8 = 4500, .fp4 = 13500, .int8 = 150}},
  {.arch = "sm_110a", .chip = "Jetson AGX Thor", .major = 11, .minor = 0, .ptxVersion = 90,
   .features = mask({tcgen05Int8}, blackwell),
   .smCount = 20, .warpSize = 32,
   .sharedBytesPerBlock = 227 * KiB, .sharedBytesPerSm = 228 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 1536,
   .blocksPerSm = 24, .clusterBlocks = 8, .clusterBlocksOptIn = 8,
   .l2Bytes = 32 * MiB, .memoryGBs = 273,
   .peak = {.f64 = 0, .f32 = 8, .tf32 = 0, .f16 = 258, .fp8 = 517, .fp4 = 1035, .int8 = 517}},
  {.arch = "sm_120a", .chip = "RTX PRO 6000 Blackwell", .major = 12, .minor = 0, .ptxVersion = 87,
   .features = blackwellRtx,
   .smCount = 188, .warpSize = 32,
   .sharedBytesPerBlock = 99 * KiB, .sharedBytesPerSm = 100 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 1536,
   .blocksPerSm = 24, .clusterBlocks = 8, .clusterBlocksOptIn = 8,
   .l2Bytes = 128 * MiB, .memoryGBs = 1792,
   .peak = {.f64 = 1.9, .f32 = 125, .tf32 = 252, .f16 = 504, .fp8 = 1008, .fp4 = 2015, .int8 = 1008}},
  {.arch = "sm_121a", .chip = "GB10", .major = 12, .minor = 1, .ptxVersion = 88, .features = blackwellRtx,
   .smCount = 48, .warpSize = 32,
   .sharedBytesPerBlock = 99 * KiB, .sharedBytesPerSm = 100 * KiB, .sharedBytesReserved = 1 * KiB,
   .registersPerSm = 65536, .registersPerThread = 255, .threadsPerBlock = 1024, .threadsPerSm = 1536,
   .blocksPerSm = 24, .clusterBlocks = 8, .clusterBlocksOptIn = 8,
   .l2Bytes = 24 * MiB, .memoryGBs = 273,
   .peak = {.f64 = 0.5, .f32 = 31, .tf32 = 62, .f16 = 125, .fp8 = 250, .fp4 = 500, .int8 = 250}},
};
// clang-format on

double Target::denseTflops(DType t, bool tf32) const {
  switch (t) {
  case DType::f64:
    return peak.f64;
  case DType::f32:
    return tf32 ? peak.tf32 : peak.f32;
  case DType::f16:
  case DType::bf16:
    return peak.f16;
  case DType::e4m3:
  case DType::e5m2:
    return peak.fp8;
  case DType::i8:
  case DType::u8:
    return peak.int8;
  default:
    return 0;
  }
}

std::span<const Target> targets() { return table; }

const Target *findTarget(std::string_view arch) {
  for (const Target &t : table)
    if (t.arch == arch)
      return &t;
  return nullptr;
}

const Target *targetForComputeCapability(int major, int minor) {
  const Target *best = nullptr;
  for (const Target &t : table) {
    // An `a` target runs on its own chip only.
    bool runs = t.major == major && (t.minor == minor || (t.minor < minor && t.arch.back() != 'a'));
    if (runs && (!best || t.minor > best->minor))
      best = &t;
  }
  return best;
}

} // namespace sectile
