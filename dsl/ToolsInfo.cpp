// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsInfo.h"

#include "dsl/ToolsCommon.h"
#include "runtime/Driver.h"
#include "runtime/Env.h"
#include "runtime/KernelCache.h"
#include "runtime/Ptxas.h"

#include <sectile/Device.h>
#include <sectile/Error.h>
#include <sectile/Targets.h>

#include "llvm/Config/llvm-config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <functional>
#include <limits>
#include <vector>

namespace sectile::tools {
namespace {

/// A row of the printed table and a member of the JSON.
struct Property {
  const char *label, *key;
  std::function<nlohmann::ordered_json(const Target &)> get;
};

std::vector<Property> properties() {
  using T = Target;
  return {
      {"chip", "chip", [](const T &t) { return t.chip; }},
      {"compute capability", "computeCapability",
       [](const T &t) { return fmt::format("{}.{}", t.major, t.minor); }},
      {"PTX version", "ptxVersion",
       [](const T &t) { return fmt::format("{}.{}", t.ptxVersion / 10, t.ptxVersion % 10); }},
      {"multiprocessors", "multiprocessors", [](const T &t) { return t.smCount; }},
      {"shared bytes per block", "sharedBytesPerBlock", [](const T &t) { return t.sharedBytesPerBlock; }},
      {"shared bytes per SM", "sharedBytesPerSm", [](const T &t) { return t.sharedBytesPerSm; }},
      {"reserved per block", "sharedBytesReserved", [](const T &t) { return t.sharedBytesReserved; }},
      {"registers per SM", "registersPerSm", [](const T &t) { return t.registersPerSm; }},
      {"registers per thread", "registersPerThread", [](const T &t) { return t.registersPerThread; }},
      {"threads per warp", "warpThreads", [](const T &t) { return t.warpSize; }},
      {"threads per block", "threadsPerBlock", [](const T &t) { return t.threadsPerBlock; }},
      {"threads per SM", "threadsPerSm", [](const T &t) { return t.threadsPerSm; }},
      {"blocks per SM", "blocksPerSm", [](const T &t) { return t.blocksPerSm; }},
      {"blocks per cluster", "clusterBlocks", [](const T &t) { return t.clusterBlocks; }},
      {"with opt-in", "clusterBlocksOptIn", [](const T &t) { return t.clusterBlocksOptIn; }},
      {"L2 bytes", "l2Bytes", [](const T &t) { return t.l2Bytes; }},
      {"memory GB/s", "memoryGBs", [](const T &t) { return t.memoryGBs; }},
      {"f64 TFLOPS", "f64Tflops", [](const T &t) { return t.peak.f64; }},
      {"f32 TFLOPS", "f32Tflops", [](const T &t) { return t.peak.f32; }},
      {"tf32 TFLOPS", "tf32Tflops", [](const T &t) { return t.peak.tf32; }},
      {"f16, bf16 TFLOPS", "f16Tflops", [](const T &t) { return t.peak.f16; }},
      {"fp8 TFLOPS", "fp8Tflops", [](const T &t) { return t.peak.fp8; }},
      {"fp4 TFLOPS", "fp4Tflops", [](const T &t) { return t.peak.fp4; }},
      {"int8 TOPS", "int8Tops", [](const T &t) { return t.peak.int8; }},
  };
}

std::string cellText(const nlohmann::ordered_json &value) {
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_number_float())
    return value.get<double>() == 0 ? "-" : fmt::format("{:g}", value.get<double>());
  return value.dump();
}

/// The directory to work on; throws unless it can be read. Empty: there is none.
std::string readableCacheDir(const std::string &asked) {
  const std::string &dir = asked.empty() ? runtime::env().cacheDir : asked;
  if (dir.empty())
    throw UserError({{},
                     {},
                     "cache",
                     "no cache directory can be named: neither SECTILE_CACHE_DIR nor HOME is set",
                     "cache_dir",
                     "name it with --dir"});
  if (DIR *handle = opendir(dir.c_str())) {
    closedir(handle);
    return dir;
  }
  if (errno == ENOENT && asked.empty())
    return {};
  throw UserError({{},
                   {},
                   "cache",
                   fmt::format("'{}' cannot be read: {}", dir, std::strerror(errno)),
                   "cache_dir",
                   "name a directory that you can read, with --dir or SECTILE_CACHE_DIR"});
}

} // namespace

std::string targetsText() {
  std::vector<std::vector<std::string>> rows(1, {"arch"});
  for (const Target &t : targets())
    rows[0].emplace_back(t.arch);
  for (const Property &p : properties()) {
    rows.push_back({p.label});
    for (const Target &t : targets())
      rows.back().push_back(cellText(p.get(t)));
  }
  for (int f = 0; f < numFeatures; ++f) {
    rows.push_back({std::string(name(static_cast<Feature>(f)))});
    for (const Target &t : targets())
      rows.back().push_back(t.has(static_cast<Feature>(f)) ? "yes" : "-");
  }
  return tableText(rows);
}

std::string targetsJson() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Target &t : targets()) {
    nlohmann::ordered_json row;
    row["arch"] = t.arch;
    for (const Property &p : properties())
      row[p.key] = p.get(t);
    row["features"] = nlohmann::ordered_json::array();
    for (int f = 0; f < numFeatures; ++f)
      if (t.has(static_cast<Feature>(f)))
        row["features"].push_back(name(static_cast<Feature>(f)));
    all.push_back(std::move(row));
  }
  return all.dump(2) + "\n";
}

std::string versionText() {
  std::string text = fmt::format("sectile {}\nLLVM {}\n", SECTILE_VERSION, LLVM_VERSION_STRING);
  try {
    auto ptxas = runtime::Ptxas::find();
    text += ptxas ? fmt::format("ptxas {} ({})\n", ptxas->version(), ptxas->path())
                  : std::string("ptxas none found: the driver assembles\n");
  } catch (const UserError &e) {
    text += fmt::format("ptxas none usable: {}\n", e.message());
  }
  std::string why;
  const runtime::Driver *driver = runtime::Driver::tryGet(&why);
  if (!driver)
    return text + fmt::format("driver none: {}\n", why);
  text += fmt::format("driver CUDA {}.{}\n", driver->version / 1000, driver->version % 1000 / 10);
  for (int i = 0; i < driver->deviceCount; ++i) {
    try {
      Device device = Device::gpu(i);
      text += fmt::format("GPU {} {} ({}, {} multiprocessors, {} MiB)\n", i, device.name(), device.arch(),
                          device.properties().multiprocessors, device.properties().memoryBytes >> 20);
    } catch (const UserError &e) {
      text += fmt::format("GPU {} not usable: {}\n", i, e.message());
    }
  }
  return text;
}

std::string cacheListText(const std::string &asked) {
  std::string dir = readableCacheDir(asked);
  if (dir.empty())
    return fmt::format("{}: no entries (the directory does not exist yet)\n", runtime::env().cacheDir);
  std::vector<std::vector<std::string>> rows(1, {"last use", "bytes", "arch", "kernel", "file"});
  std::int64_t bytes = 0;
  auto entries = runtime::DiskCache(dir).list();
  for (const auto &e : entries) {
    bytes += e.bytes;
    rows.push_back({timeText(e.usedSeconds), std::to_string(e.bytes), e.damage.empty() ? e.arch : "-",
                    e.damage.empty() ? e.symbol : "damaged: " + e.damage, e.file});
  }
  std::string total = fmt::format("{}: {} entries, {} bytes\n", dir, entries.size(), bytes);
  return entries.empty() ? total : tableText(rows) + total;
}

std::string cachePruneText(const std::string &asked, std::optional<std::uint64_t> maxBytes) {
  std::string dir = readableCacheDir(asked);
  if (dir.empty())
    return fmt::format("{}: nothing to remove (the directory does not exist yet)\n", runtime::env().cacheDir);
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  auto limit = static_cast<std::int64_t>(std::min(maxBytes.value_or(most), most));
  runtime::DiskCache cache(dir);
  int removed = cache.prune(limit);
  std::int64_t kept = 0;
  std::size_t damaged = 0;
  auto entries = cache.list();
  for (const auto &e : entries) {
    kept += e.bytes;
    damaged += !e.damage.empty();
  }
  if (kept > limit || damaged)
    throw UserError(
        {{},
         {},
         "cache",
         fmt::format("{} files removed from '{}', {} entries ({} bytes, {} damaged) remain over the limit",
                     removed, dir, entries.size(), kept, damaged),
         "cache_prune",
         "check that you may write to the directory"});
  return fmt::format("{}: {} files removed, {} entries with {} bytes kept\n", dir, removed, entries.size(),
                     kept);
}

} // namespace sectile::tools
