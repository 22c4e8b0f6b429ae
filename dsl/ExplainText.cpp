// SPDX-License-Identifier: Apache-2.0
/// \file An explanation as a table, and as JSON.
#include "dsl/Explain.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sectile {
namespace {

using Row = std::vector<std::string>;

/// Columns as wide as they need; the first `left` and the last are aligned to the left.
std::string table(const std::vector<Row> &rows, std::size_t left) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row &row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row &row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i < left || i + 1 == row.size() ? fmt::format("{:<{}}  ", row[i], widths[i])
                                              : fmt::format("{:>{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string placeText(const SourceLoc &at) {
  std::string file = at.file;
  return at.line ? fmt::format("{}:{}", file.substr(file.rfind('/') + 1), at.line) : "?";
}
std::string tileText(const std::vector<std::int64_t> &shape, DType dtype) {
  return fmt::format("{}{}{}", fmt::join(shape, "x"), shape.empty() ? "" : " ", name(dtype));
}
/// -, where there is nothing to divide by.
std::string ratio(std::int64_t requests, double value) { return requests ? fmt::format("{:.4g}", value) : "-"; }
std::string known(std::int64_t n) { return n < 0 ? "unknown" : fmt::format("{}", n); }

std::string accessesText(const Explanation &e) {
  std::vector<Row> rows = {{"line", "what", "op", "tile", "bytes", "vector", "requests", "sectors/request",
                            "passes/request", "conflicts", ""}};
  for (const ExplainedAccess &a : e.accesses) {
    const tgpu::OpCounts &c = a.counts;
    bool shared = !a.isGlobal() && a.vectorBytes;
    rows.push_back({placeText(a.at), std::string(name(a.kind)), a.op, tileText(a.shape, a.dtype),
                    fmt::format("{}", a.tileBytes), a.vectorBytes ? fmt::format("{}", a.vectorBytes) : "-",
                    a.vectorBytes ? fmt::format("{}", c.requests) : "-",
                    a.isGlobal() ? ratio(c.requests, a.sectorsPerRequest()) : "-",
                    shared ? ratio(c.wavefronts ? c.requests : 0, a.passesPerRequest()) : "-",
                    shared ? fmt::format("{}", c.conflicts) : "-", a.note});
  }
  return rows.size() == 1 ? "no accesses\n" : table(rows, 4);
}

std::string buffersText(const Explanation &e) {
  if (e.buffers.empty())
    return "";
  std::vector<Row> rows = {{"shared buffer", "bytes", "at", "live"}};
  for (const ExplainedBuffer &b : e.buffers) {
    std::string first = placeText(b.first), last = placeText(b.last);
    rows.push_back({tileText(b.shape, b.dtype), fmt::format("{}", b.bytes), fmt::format("{}", b.offset),
                    b.firstOp < 0 ? "never"
                                  : fmt::format("{}{}, ops {} to {}", first, first == last ? "" : " to " + last,
                                                b.firstOp, b.lastOp)});
  }
  return "\n" + table(rows, 1);
}

} // namespace

std::string explanationText(const Explanation &e) {
  std::string text = fmt::format("{} for {} ({})\n\n", e.kernel, e.target->arch, e.target->chip);
  text += accessesText(e) + buffersText(e);

  text += fmt::format("\nlaunch: {} warps a block, {} bytes of shared memory, {}\n", e.warps, e.sharedBytes,
                      e.cluster > 1 ? fmt::format("{} blocks a cluster", e.cluster) : "no cluster");
  if (!e.clusterReason.empty())
    text += fmt::format("cluster: {}\n", e.clusterReason);
  if (e.mayShareLoop)
    text += fmt::format("split: the loop may be shared; counted with {} blocks a program, without the sum of their "
                        "parts\n",
                        e.parts);
  text += e.registers < 0 ? "registers: unknown, no ptxas was found\n"
                          : fmt::format("registers: {} a thread, {} bytes of spills\n", e.registers, e.spillBytes);
  Occupancy o = e.occupancy();
  text += fmt::format("blocks per multiprocessor: {} (by registers {}, shared memory {}, threads {}, at most {})",
                      o.blocks(), known(o.byRegisters), o.byShared, o.byThreads, o.byBlocks);
  text += e.minBlocks ? fmt::format("; the assembler leaves room for {}\n", e.minBlocks) : "\n";
  for (auto [from, to] : e.padded)
    text += fmt::format("padded: tile length {} grown to {}\n", from, to);
  if (e.hasAlignedRows)
    text += "aligned: tiles start up to a vector before their rows, so that vectors stay whole\n";

  text += fmt::format("\ncounts: {} programs", e.programs);
  text += e.ran == e.programs ? ", all run\n"
                              : fmt::format(", {} run, from the middle and the edges of the grid, for all\n", e.ran);
  text += fmt::format("global memory: {} bytes read, {} written, {} in sectors; the arguments have {}\n", e.bytesRead(),
                      e.bytesWritten(), e.sectorBytes(), e.argumentBytes);
  text += fmt::format("shared memory: {} passes are conflicts\n", e.sharedConflicts());
  text += fmt::format("roofline at {:g} GB/s: {:.4g} us for the arguments once, {:.4g} us for all sectors\n",
                      e.bandwidthGBs, e.onceMicroseconds(), e.sectorMicroseconds());
  return text;
}

std::string explanationJson(const Explanation &e) {
  using Json = nlohmann::ordered_json;
  auto place = [](const SourceLoc &at) {
    return Json{{"file", std::string(at.file)}, {"line", at.line}, {"column", at.column}};
  };
  auto optional = [](std::int64_t n) { return n < 0 ? Json() : Json(n); };
  Json accesses = Json::array(), buffers = Json::array(), padded = Json::array();
  for (const ExplainedAccess &a : e.accesses) {
    const tgpu::OpCounts &c = a.counts;
    accesses.push_back({{"at", place(a.at)},
                        {"kind", name(a.kind)},
                        {"op", a.op},
                        {"shape", a.shape},
                        {"dtype", name(a.dtype)},
                        {"tileBytes", a.tileBytes},
                        {"vectorBytes", a.vectorBytes},
                        {"requests", c.requests},
                        {"bytes", c.bytes},
                        {"sectors", c.sectors},
                        {"sectorsPerRequest", a.sectorsPerRequest()},
                        {"passes", c.wavefronts},
                        {"passesPerRequest", a.passesPerRequest()},
                        {"conflicts", c.conflicts},
                        {"note", a.note}});
  }
  for (const ExplainedBuffer &b : e.buffers)
    buffers.push_back({{"shape", b.shape},
                       {"dtype", name(b.dtype)},
                       {"bytes", b.bytes},
                       {"offset", b.offset},
                       {"first", place(b.first)},
                       {"last", place(b.last)},
                       {"firstOp", b.firstOp},
                       {"lastOp", b.lastOp}});
  for (auto [from, to] : e.padded)
    padded.push_back({from, to});
  Occupancy o = e.occupancy();
  Json whole = {{"kernel", e.kernel},
                {"arch", e.target->arch},
                {"chip", e.target->chip},
                {"warps", e.warps},
                {"cluster", e.cluster},
                {"clusterReason", e.clusterReason},
                {"mayShareLoop", e.mayShareLoop},
                {"split", e.parts},
                {"sharedBytes", e.sharedBytes},
                {"registers", optional(e.registers)},
                {"spillBytes", optional(e.spillBytes)},
                {"minBlocks", e.minBlocks},
                {"blocksPerSm",
                 {{"all", o.blocks()},
                  {"registers", optional(o.byRegisters)},
                  {"shared", o.byShared},
                  {"threads", o.byThreads},
                  {"most", o.byBlocks}}},
                {"padded", padded},
                {"alignedRows", e.hasAlignedRows},
                {"accesses", accesses},
                {"buffers", buffers},
                {"programs", e.programs},
                {"programsRun", e.ran},
                {"bytesRead", e.bytesRead()},
                {"bytesWritten", e.bytesWritten()},
                {"sectorBytes", e.sectorBytes()},
                {"argumentBytes", e.argumentBytes},
                {"conflicts", e.sharedConflicts()},
                {"bandwidthGBs", e.bandwidthGBs},
                {"onceMicroseconds", e.onceMicroseconds()},
                {"sectorMicroseconds", e.sectorMicroseconds()}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace sectile
