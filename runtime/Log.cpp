// SPDX-License-Identifier: Apache-2.0
#include "runtime/Log.h"

#include "runtime/Env.h"

#include <fmt/format.h>

#include <cstdio>

namespace sectile::runtime {
namespace {

void writeLine(const std::string &text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

/// 2048 as "2 KiB", other numbers as "100 B".
std::string sharedText(std::int64_t bytes) {
  return bytes > 0 && bytes % 1024 == 0 ? fmt::format("{} KiB smem", bytes / 1024)
                                        : fmt::format("{} B smem", bytes);
}

} // namespace

std::string compileLine(const CompileReport &r) {
  std::string line = fmt::format("{} #{} {} cfg({}):", r.kernel, r.key.substr(0, 8), r.arch, r.config);
  const char *separator = " ";
  auto add = [&](const std::string &part) {
    line += separator + part;
    separator = ", ";
  };
  for (const auto &[stage, millis] : r.stageMillis)
    add(fmt::format("{} {:.1f} ms", stage, millis));
  if (r.registers >= 0)
    add(fmt::format("{} regs", r.registers));
  if (r.spillBytes >= 0)
    add(r.spillBytes ? fmt::format("{} B spills", r.spillBytes) : "0 spills");
  if (r.sharedBytes >= 0)
    add(sharedText(r.sharedBytes));
  add("cache " + r.cache);
  if (!r.change.empty())
    add("another variant: " + r.change);
  for (const std::string &w : r.warnings)
    line += "\n  " + w;
  return line;
}

void logCompile(const CompileReport &report) {
  if (env().log)
    writeLine("sectile: " + compileLine(report) + "\n");
}

void logLine(std::string_view text) {
  if (env().log)
    writeLine(fmt::format("sectile: {}\n", text));
}

} // namespace sectile::runtime
