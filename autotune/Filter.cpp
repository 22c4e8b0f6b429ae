// SPDX-License-Identifier: Apache-2.0
// Candidates that a target cannot run, by the limits in its row of the table.
#include "autotune/Space.h"

#include "ir/base/MmaTable.h"

#include <fmt/format.h>

#include <bit>

namespace sectile::autotune {
namespace {

std::string productText(const WorkProduct &p) {
  return fmt::format("{} {}x{}x{}", name(p.a), p.m, p.n, p.k);
}

/// A matrix instruction of the target takes products of these types at all.
bool hasInstruction(const Target &target, const WorkProduct &p) {
  const DType acc = p.acc == DType::f16 ? DType::f32 : p.acc;
  for (const MmaRow &row : mmaRows())
    if (target.has(row.feature) && row.a.dtype == p.a && row.b.dtype == p.b && row.c.dtype == acc && (!row.policyOnly || p.tf32))
      return true;
  return false;
}

} // namespace

std::string whyNot(const Target &target, const TracedWork &traced, const Config &config, const Prediction &predicted) {
  const KernelWork &work = traced.work;
  const int most = target.threadsPerBlock / target.warpSize;
  if (config.warps && (config.warps > most || !std::has_single_bit(static_cast<unsigned>(config.warps))))
    return fmt::format("{} warps, {} runs powers of two up to {}", config.warps, target.arch, most);
  if (config.cluster > target.clusterBlocks)
    return fmt::format("a cluster of {} blocks, {} has at most {}", config.cluster, target.arch, target.clusterBlocks);
  if (config.cluster > 1 && !work.products.empty())
    return fmt::format("a cluster of {} blocks, and products do not share one program", config.cluster);
  if (config.split > 1 && !work.canSplit)
    return "split, and no loop only accumulates";

  const int threads = predicted.warps * target.warpSize;
  double sums = 0;
  for (const WorkProduct &p : work.products) {
    sums = std::max(sums, static_cast<double>(p.m) * p.n * std::max(1.0, static_cast<double>(byteSize(p.acc)) / 4) / threads);
    MmaQuery query{p.a, p.b, p.acc == DType::f16 ? DType::f32 : p.acc, p.m, p.n, p.k, p.tf32};
    if (hasInstruction(target, p) && !selectMma(target, query) && !selectWgmma(target, query))
      return fmt::format("no instruction of {} takes a product of {}", target.arch, productText(p));
    if (const MmaRow *row = selectMma(target, query); row && !predicted.pipelined) {
      const std::int64_t atoms = std::int64_t(p.m / row->m) * (p.n / row->n);
      if (atoms < predicted.warps)
        return fmt::format("{} warps, and a product of {} is {} of {}x{}x{}", predicted.warps, productText(p), atoms, row->m,
                           row->n, row->k);
    }
  }
  if (sums > target.registersPerThread)
    return fmt::format("its sums take {:.0f} registers of each of {} threads, {} has {}", sums, threads, target.arch,
                       target.registersPerThread);
  if (predicted.registers > 2 * target.registersPerThread)
    return fmt::format("its tiles take about {:.0f} registers of each of {} threads, {} has {}", predicted.registers, threads,
                       target.arch, target.registersPerThread);
  if (config.stages > 1 && !predicted.pipelined)
    return fmt::format("{} stages, and no loads that the TMA unit of {} makes ahead", config.stages, target.arch);
  if (config.blocks > 1) {
    if (!predicted.pipelined)
      return fmt::format("{} blocks per multiprocessor, and no loads that the TMA unit of {} makes ahead", config.blocks, target.arch);
    if (predicted.registers * threads * config.blocks > target.registersPerSm)
      return fmt::format("about {:.0f} registers of each of {} threads in {} blocks, {} has {} per multiprocessor", predicted.registers, threads,
                         config.blocks, target.arch, target.registersPerSm);
    if ((predicted.sharedBytes + target.sharedBytesReserved) * config.blocks > target.sharedBytesPerSm)
      return fmt::format("{} bytes of shared memory in each of {} blocks, {} has {} per multiprocessor", predicted.sharedBytes, config.blocks,
                         target.arch, target.sharedBytesPerSm);
  }
  if (predicted.sharedBytes > target.sharedBytesPerBlock)
    return fmt::format("{} bytes of shared memory{}, {} has {} per block", predicted.sharedBytes,
                       predicted.pipelined ? fmt::format(" for {} stages", predicted.stages) : std::string(), target.arch,
                       target.sharedBytesPerBlock);
  if (predicted.blocks > 2147483647)
    return fmt::format("{} blocks, a launch has at most 2147483647", predicted.blocks);
  return {};
}

} // namespace sectile::autotune
