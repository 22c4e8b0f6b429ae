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
  std::vector<Row> rows = {{"line", "what", "op", "arg", "tile", "bytes", "vector", "requests", "sectors/request",
                            "passes/request", "conflicts", ""}};
  for (const ExplainedAccess &a : e.accesses) {
    const tgpu::OpCounts &c = a.counts;
    bool shared = !a.isGlobal() && a.vectorBytes;
    rows.push_back({placeText(a.at), std::string(name(a.kind)), a.op, a.tensor < 0 ? "-" : fmt::format("{}", a.tensor),
                    tileText(a.shape, a.dtype), fmt::format("{}", a.tileBytes),
                    a.vectorBytes ? fmt::format("{}", a.vectorBytes) : "-",
                    a.vectorBytes || a.byTma ? fmt::format("{}", c.requests) : "-",
                    a.isGlobal() ? ratio(c.requests, a.sectorsPerRequest()) : "-",
                    shared ? ratio(c.wavefronts ? c.requests : 0, a.passesPerRequest()) : "-",
                    shared ? fmt::format("{}", c.conflicts) : "-", a.note});
  }
  return rows.size() == 1 ? "no accesses\n" : table(rows, 5);
}

std::string layoutsText(const Explanation &e) {
  if (e.layouts.empty())
    return "";
  auto some = [](std::int64_t n) { return n ? fmt::format("{}", n) : std::string("-"); };
  std::vector<Row> rows = {{"line", "layouts of", "converted by", "bytes", "vector", "sectors/request", ""}};
  for (const ExplainedLayout &l : e.layouts)
    rows.push_back({placeText(l.at), l.op, l.way.empty() ? "-" : l.way, some(l.bytes), some(l.vectorBytes), some(l.sectors),
                    l.inLoop ? "in a loop" : ""});
  return "\n" + table(rows, 3);
}

std::string productsText(const Explanation &e) {
  if (e.products.empty())
    return "";
  std::vector<Row> rows = {{"line", "product", "instruction", "tile", "A", "B", "instructions", "a program", ""}};
  for (const ExplainedProduct &p : e.products)
    rows.push_back({placeText(p.at), p.op, p.instruction.empty() ? "none: multiply-adds" : p.instruction,
                    fmt::format("{}x{}x{}", p.m, p.n, p.k), fmt::format("{}, {}", name(p.a), p.placeA),
                    fmt::format("{}, {}", name(p.b), p.placeB), p.instructions ? fmt::format("{}", p.instructions) : "-",
                    e.programs ? fmt::format("{:.4g}", static_cast<double>(p.runs) / static_cast<double>(e.programs)) : "-",
                    p.inLoop ? "in a loop" : ""});
  return "\n" + table(rows, 6);
}

std::string pipesText(const Explanation &e) {
  if (e.pipes.empty())
    return "";
  std::vector<Row> rows = {{"pipe", "line", "slots", "bytes a slot", "bytes", "loads"}};
  for (const ExplainedPipe &p : e.pipes) {
    std::vector<std::string> loads;
    for (std::size_t i : p.loads) {
      const ExplainedAccess &a = e.accesses[i];
      loads.push_back(fmt::format("argument {}: {}", a.tensor, tileText(a.shape, a.dtype)));
    }
    rows.push_back({fmt::format("{}", rows.size() - 1), placeText(p.at), fmt::format("{}", p.stages),
                    fmt::format("{}", p.dataBytes), fmt::format("{}", p.stages * p.slotBytes),
                    fmt::format("{}", fmt::join(loads, ", "))});
  }
  return "\n" + table(rows, 2);
}

std::string rolesText(const Explanation &e) {
  std::string text;
  for (const ExplainedRole &r : e.roles)
    text += fmt::format("{}: {} warps, {}\n", r.name, r.warps,
                        r.registers ? fmt::format("{} registers a thread", r.registers) : "registers as launched");
  return text;
}

std::string microsText(double micros) { return micros > 0 ? fmt::format("{:.4g} us", micros) : "unknown"; }

/// Flops, intensity and the bound of a kernel with products.
std::string boundText(const Explanation &e) {
  if (e.products.empty())
    return "";
  const double moved = static_cast<double>(e.bytesRead() + e.bytesWritten());
  auto per = [&](double bytes) { return bytes > 0 ? fmt::format("{:.4g}", e.flops() / bytes) : "-"; };
  std::string text = fmt::format("products: {:.4g} flops, {} a byte of the arguments, {} a byte that is moved\n", e.flops(),
                                 per(static_cast<double>(e.argumentBytes)), per(moved));
  text += fmt::format("bound: {}; products at the peak {}, arguments out of memory {}, all sectors out of L2 {}\n", e.bound(),
                      microsText(e.computeMicroseconds()), microsText(e.onceMicroseconds()), microsText(e.l2Microseconds()));
  if (e.tensorClocks() > 0)
    text += fmt::format("a program: {:.0f} clocks of the tensor cores, {:.0f} of shared memory\n", e.tensorClocks(),
                        e.sharedClocks());
  return text;
}

std::string reasonsText(const Explanation &e) {
  std::string text;
  for (const ExplainedReason &r : e.reasons())
    text += fmt::format("  {}{}: {}\n", r.by, r.at.line ? " " + placeText(r.at) : "", r.text);
  return text.empty() ? "" : "\nwhy not faster:\n" + text;
}

std::string buffersText(const Explanation &e) {
  if (e.buffers.empty())
    return "";
  std::vector<Row> rows = {{"shared memory", "tile", "bytes", "at", "live"}};
  for (const ExplainedBuffer &b : e.buffers) {
    std::string first = placeText(b.first), last = placeText(b.last);
    rows.push_back({b.use, b.shape.empty() ? "-" : tileText(b.shape, b.dtype), fmt::format("{}", b.bytes),
                    fmt::format("{}", b.offset),
                    b.whole         ? fmt::format("{}, always", first)
                    : b.firstOp < 0 ? "never"
                                  : fmt::format("{}{}, ops {} to {}", first, first == last ? "" : " to " + last,
                                                b.firstOp, b.lastOp)});
  }
  return "\n" + table(rows, 2);
}

} // namespace

std::string explanationText(const Explanation &e) {
  std::string text = fmt::format("{} for {} ({})\n\n", e.kernel, e.target->arch, e.target->chip);
  text += accessesText(e) + layoutsText(e) + productsText(e) + pipesText(e) + buffersText(e);

  text += fmt::format("\nlaunch: {} warps a block, {} bytes of shared memory, {}\n", e.warps + e.producers, e.sharedBytes,
                      e.cluster > 1 ? fmt::format("{} blocks a cluster", e.cluster) : "no cluster");
  text += rolesText(e);
  if (!e.clusterReason.empty())
    text += fmt::format("cluster: {}\n", e.clusterReason);
  for (const std::string &choice : e.choices)
    text += choice + "\n";
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
  text += fmt::format("grid: {} programs, {} at a time{}: {:.3g} waves, {:.0f}% of the places used\n", e.programs,
                      e.places(), e.isPersistent ? " by blocks that go through several" : "", e.waves(),
                      100 * e.waveEfficiency());
  for (auto [from, to] : e.padded)
    text += fmt::format("padded: tile length {} grown to {}\n", from, to);
  if (e.hasAlignedRows)
    text += "aligned: tiles start up to a vector before their rows, so that vectors stay whole\n";

  text += fmt::format("\ncounts: {} programs", e.programs);
  text += e.ran == e.programs ? ", all run\n"
                              : fmt::format(", {} run, spread over the grid and its edges, for all\n", e.ran);
  text += fmt::format("global memory: {} bytes read, {} written, {} in sectors; the arguments have {}\n", e.bytesRead(),
                      e.bytesWritten(), e.sectorBytes(), e.argumentBytes);
  text += fmt::format("shared memory: {} passes are conflicts\n", e.sharedConflicts());
  text += fmt::format("roofline at {:g} GB/s: {:.4g} us for the arguments once, {:.4g} us for all sectors\n",
                      e.bandwidthGBs, e.onceMicroseconds(), e.sectorMicroseconds());
  text += boundText(e) + reasonsText(e);
  return text;
}

std::string explanationJson(const Explanation &e) {
  using Json = nlohmann::ordered_json;
  auto place = [](const SourceLoc &at) {
    return Json{{"file", std::string(at.file)}, {"line", at.line}, {"column", at.column}};
  };
  auto optional = [](std::int64_t n) { return n < 0 ? Json() : Json(n); };
  auto micros = [](double t) { return t > 0 ? Json(t) : Json(); };
  Json accesses = Json::array(), buffers = Json::array(), padded = Json::array(), products = Json::array(),
       layouts = Json::array(), pipes = Json::array(), roles = Json::array(), reasons = Json::array();
  for (const ExplainedAccess &a : e.accesses) {
    const tgpu::OpCounts &c = a.counts;
    accesses.push_back({{"at", place(a.at)},
                        {"kind", name(a.kind)},
                        {"op", a.op},
                        {"argument", optional(a.tensor)},
                        {"tma", a.byTma},
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
    buffers.push_back({{"use", b.use},
                       {"always", b.whole},
                       {"shape", b.shape},
                       {"dtype", b.shape.empty() ? Json() : Json(name(b.dtype))},
                       {"bytes", b.bytes},
                       {"offset", b.offset},
                       {"first", place(b.first)},
                       {"last", place(b.last)},
                       {"firstOp", b.firstOp},
                       {"lastOp", b.lastOp}});
  for (const ExplainedLayout &l : e.layouts)
    layouts.push_back({{"at", place(l.at)},
                       {"op", l.op},
                       {"way", l.way.empty() ? Json() : Json(l.way)},
                       {"bytes", l.bytes},
                       {"vectorBytes", l.vectorBytes},
                       {"sectorsPerRequest", l.sectors},
                       {"inLoop", l.inLoop}});
  for (const ExplainedProduct &p : e.products)
    products.push_back({{"at", place(p.at)},
                        {"op", p.op},
                        {"instruction", p.instruction.empty() ? Json() : Json(p.instruction)},
                        {"m", p.m},
                        {"n", p.n},
                        {"k", p.k},
                        {"a", name(p.a)},
                        {"b", name(p.b)},
                        {"sum", name(p.c)},
                        {"placeA", p.placeA},
                        {"placeB", p.placeB},
                        {"instructions", p.instructions},
                        {"runs", p.runs},
                        {"inLoop", p.inLoop},
                        {"flops", p.flops()}});
  for (const ExplainedPipe &p : e.pipes)
    pipes.push_back({{"at", place(p.at)},
                     {"slots", p.stages},
                     {"slotBytes", p.dataBytes},
                     {"bytes", p.stages * p.slotBytes},
                     {"offset", p.offset},
                     {"barriers", p.barriers},
                     {"loads", p.loads},
                     {"consumerWarps", p.consumers}});
  for (const ExplainedRole &r : e.roles)
    roles.push_back({{"name", r.name}, {"warps", r.warps}, {"registers", r.registers ? Json(r.registers) : Json()}});
  for (const ExplainedReason &r : e.reasons())
    reasons.push_back({{"by", r.by}, {"at", r.at.line ? place(r.at) : Json()}, {"text", r.text}});
  for (auto [from, to] : e.padded)
    padded.push_back({from, to});
  Occupancy o = e.occupancy();
  Json whole = {{"kernel", e.kernel},
                {"arch", e.target->arch},
                {"chip", e.target->chip},
                {"warps", e.warps},
                {"producerWarps", e.producers},
                {"roles", roles},
                {"cluster", e.cluster},
                {"clusterReason", e.clusterReason},
                {"choices", e.choices},
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
                {"layouts", layouts},
                {"products", products},
                {"pipes", pipes},
                {"buffers", buffers},
                {"programs", e.programs},
                {"programsRun", e.ran},
                {"persistent", e.isPersistent},
                {"programsAtATime", e.places()},
                {"waves", e.waves()},
                {"waveEfficiency", e.waveEfficiency()},
                {"bytesRead", e.bytesRead()},
                {"bytesWritten", e.bytesWritten()},
                {"sectorBytes", e.sectorBytes()},
                {"argumentBytes", e.argumentBytes},
                {"conflicts", e.sharedConflicts()},
                {"bandwidthGBs", e.bandwidthGBs},
                {"onceMicroseconds", e.onceMicroseconds()},
                {"sectorMicroseconds", e.sectorMicroseconds()},
                {"flops", e.flops()},
                {"computeMicroseconds", micros(e.computeMicroseconds())},
                {"l2Microseconds", micros(e.l2Microseconds())},
                {"bound", e.bound()},
                {"tensorClocks", micros(e.tensorClocks())},
                {"sharedClocks", micros(e.sharedClocks())},
                {"reasons", reasons}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace sectile
