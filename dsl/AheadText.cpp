// SPDX-License-Identifier: Apache-2.0
// The C source and the description of what was compiled ahead of time.
#include "dsl/Ahead.h"

#include "dsl/BuildId.h"
#include "runtime/Hash.h"
#include "runtime/TensorMaps.h"

#include <sectile/Targets.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <map>

namespace sectile {
namespace {

using nlohmann::ordered_json;
using Kind = detail::ParamDesc::Kind;

/// Whether the code is for this chip alone.
bool isExact(const Target &target) { return target.arch.ends_with('a'); }

const char *cType(DType t) {
  switch (t) {
  case DType::f64: return "double";
  case DType::f32: return "float";
  case DType::i8: return "int8_t";
  case DType::i16: return "int16_t";
  case DType::i32: return "int32_t";
  case DType::i64: case DType::index: return "int64_t";
  case DType::u16: case DType::f16: case DType::bf16: return "uint16_t";
  case DType::u32: return "uint32_t";
  case DType::u64: return "uint64_t";
  default: return "uint8_t";
  }
}

/// A LaunchExpr as an expression in C over `a`, an array of sectile_arg. `param`: the parameter of an argument of the function.
class LimitText {
public:
  LimitText(std::string_view text, std::span<const int> param, std::span<const detail::ParamDesc> params) : rest(text), param(param), params(params) {}
  std::string get() {
    if (rest.starts_with("inf")) {
      rest.remove_prefix(3);
      return "(INT64_C(1) << 62)";
    }
    std::size_t length = 0;
    while (length < rest.size() && rest[length] >= 'a' && rest[length] <= 'z')
      ++length;
    if (length == 0)
      return fmt::format("INT64_C({})", number());
    const std::string_view word = rest.substr(0, length);
    rest.remove_prefix(length + 1); // and the bracket
    if (word == "dim") {
      const int arg = param[static_cast<std::size_t>(number())];
      rest.remove_prefix(1);
      const std::int64_t axis = number();
      rest.remove_prefix(1);
      return fmt::format("a[{}].tensor.dims[{}]", arg, axis);
    }
    if (word == "arg") {
      const int arg = param[static_cast<std::size_t>(number())];
      rest.remove_prefix(1);
      return fmt::format("sectile_integer(&a[{}], {})", arg, byteSize(params[static_cast<std::size_t>(arg)].dtype));
    }
    std::vector<std::string> operands;
    do {
      operands.push_back(get());
      rest.remove_prefix(1); // a comma, or the bracket that ends them
    } while (operands.size() < (word == "select" ? 3u : 2u));
    if (word == "select")
      return fmt::format("({} ? {} : {})", operands[0], operands[1], operands[2]);
    if (word == "lt" || word == "le" || word == "eq")
      return fmt::format("({} {} {})", operands[0], word == "lt" ? "<" : word == "le" ? "<=" : "==", operands[1]);
    return fmt::format("sectile_{}({}, {})", word, operands[0], operands[1]);
  }

private:
  std::int64_t number() {
    std::int64_t v = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), v);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return v;
  }
  std::string_view rest;
  std::span<const int> param;
  std::span<const detail::ParamDesc> params;
};

std::string bytesText(std::string_view name, std::string_view bytes) {
  std::string text = fmt::format("static const _Alignas(16) unsigned char {}[] = {{", name);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 40 == 0)
      text += "\n  ";
    text += std::to_string(static_cast<unsigned char>(bytes[i]));
    text += ',';
  }
  return text + "\n  0};\n";
}

template <class T> std::string listText(const T &list, std::size_t count) {
  std::string text = "{";
  for (std::size_t i = 0; i < count; ++i)
    text += fmt::format("{}{}", i ? ", " : "", static_cast<std::int64_t>(list[i]));
  return text + "}";
}

/// Text of one artefact.
class Writer {
public:
  Writer(const AheadOptions &options) : options(options) {}

  void kernel(std::span<const AheadVariant> variants) {
    const AheadJob &job = *variants.front().job;
    const std::string name = variants.front().kernel, full = options.name + "_" + name;
    const std::span<const detail::ParamDesc> params = job.kernel.params;
    std::vector<int> ofFunction; // parameter of each argument of the function
    for (std::size_t i = 0; i < params.size(); ++i)
      if (params[i].kind != Kind::constant)
        ofFunction.push_back(static_cast<int>(i));

    source += fmt::format("\n/* ---- {} ---- */\n\nstatic const sectile_param params_{}[] = {{\n", name, name);
    for (const detail::ParamDesc &p : params)
      source += fmt::format("  {{'{}', {:d}, {}, {}, {:d}, \"{}\"}},\n", p.kind == Kind::tensor ? 't' : p.kind == Kind::scalar ? 's' : 'c', p.readOnly, p.rank,
                            byteSize(p.dtype), isSignedInt(p.dtype), sectile::name(p.dtype));
    source += "};\n";
    std::string table;
    std::size_t number = 0;
    ordered_json list = ordered_json::array();
    for (const AheadVariant &v : variants)
      table += variant(v, number++, ofFunction, list);
    source += fmt::format("static const sectile_variant variants_{}[] = {{\n{}}};\n", name, table);
    source += fmt::format("const sectile_kernel {}_kernel = {{\"{}\", params_{}, {}, variants_{}, {}}};\n", full, name, name, params.size(), name, variants.size());
    interface(name, full, params, variants);
    manifest.push_back({{"kernel", name}, {"variants", std::move(list)}});
    kernels.push_back(full);
  }

  std::vector<std::pair<std::string, std::string>> files(const std::string &recordJson) {
    const std::string guard = options.name + "_H";
    std::string head = fmt::format("/* Made by `sectile build`, version {}. Errors are values: see sectile_c.h. */\n#ifndef {}\n#define {}\n\n#include \"sectile_c.h\"\n\n"
                                   "#if SECTILE_C_VERSION != 1\n#error \"sectile_c.h is of another version than this file\"\n#endif\n\n"
                                   "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n/* Loads the code of all kernels for the stream's GPU, so that no launch has to: before a stream is captured, say. */\n"
                                   "sectile_status {}_load(struct CUstream_st *stream);\n",
                                   SECTILE_VERSION, guard, guard, options.name);
    std::string load = fmt::format("\nsectile_status {}_load(struct CUstream_st *stream) {{\n  sectile_status status = SECTILE_OK;\n", options.name);
    for (const std::string &k : kernels)
      load += fmt::format("  if (status == SECTILE_OK)\n    status = sectile_load(&{}_kernel, stream);\n", k);
    load += "  return status;\n}\n";
    ordered_json description = {{"format", 1}, {"name", options.name}, {"sectile", SECTILE_VERSION}, {"build", buildId()}, {"kernels", manifest},
                                {"record", ordered_json::parse(recordJson)}};
    return {{options.name + ".h", head + header + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"},
            {options.name + ".c", fmt::format("/* Made by `sectile build`, version {}. */\n#include \"{}.h\"\n\n#include <string.h>\n", SECTILE_VERSION, options.name) + source + load},
            {options.name + ".json", description.dump(2) + "\n"}};
  }

private:
  /// The tables of one variant into the source; its row of the kernel's table.
  std::string variant(const AheadVariant &v, std::size_t number, std::span<const int> ofFunction, ordered_json &list) {
    const Artifact &artifact = v.compiled->module->artifact();
    const LaunchInfo &info = artifact.launch;
    const Target &target = *findTarget(v.arch);
    const auto &params = v.job->kernel.params;
    const std::string id = fmt::format("{}_{}", v.kernel, number);
    auto param = [&](int arg) { return arg < 0 ? arg : ofFunction[static_cast<std::size_t>(arg)]; };

    const std::string code = codeOf(artifact);
    std::string limits, maps;
    for (std::size_t i = 0; i < info.maps.size(); ++i) {
      const TensorMap &map = info.maps[i];
      std::vector<KernelArg> passed;
      for (int p : ofFunction)
        passed.push_back(v.job->args[static_cast<std::size_t>(p)]);
      const runtime::EncodedBox box = runtime::boxOf(map, v.compiled->module->mapLimits()[i], passed);
      std::string pointers;
      for (std::size_t d = 0; d < map.limits.size(); ++d) {
        limits += fmt::format("static int64_t limit_{}_{}_{}(const sectile_arg *a) {{\n  (void)a;\n  return {};\n}}\n", id, i, d,
                              LimitText(map.limits[d], ofFunction, params).get());
        pointers += fmt::format("{}limit_{}_{}_{}", d ? ", " : "", id, i, d);
      }
      maps += fmt::format("  {{{}, {}, {}, {}, {}, {}, {{{}}}}},\n", param(map.arg), map.order.size(), box.dtype, box.swizzle, listText(map.order, map.order.size()),
                          listText(map.box, map.box.size()), pointers);
    }
    source += limits;
    if (!maps.empty())
      source += fmt::format("static const sectile_map maps_{}[] = {{\n{}}};\n", id, maps);
    if (info.split.possible) {
      auto text = [&](const LaunchNumber &n) { return fmt::format("{{{}, {}, {}}}", param(n.arg), n.axis, n.value); };
      source += fmt::format("static const sectile_split split_{} = {{{}, {}, {}, {}, {}, {}, {:d}}};\n", id, text(info.split.lower), text(info.split.upper),
                            text(info.split.step), info.split.minTrips, info.split.parts, info.split.partBytes, info.split.stream);
    }
    std::string grid, covers, facts, constants;
    for (const GridAxis &g : info.grid)
      grid += fmt::format("{{{}, {}, {}}}, ", param(g.arg), g.axis, g.tile);
    int coverCount = 0;
    for (const auto &[name, value] : v.compiled->config.values())
      if (value.coverArg >= 0) {
        covers += fmt::format("{{{}, {}, {}}}, ", value.coverArg, value.coverAxis, value.value);
        ++coverCount;
      }
    for (std::size_t i = 0; i < params.size(); ++i) {
      const ArgSpec &s = v.compiled->facts.specs[i];
      const auto rank = static_cast<std::size_t>(std::max(0, params[i].rank));
      facts += params[i].kind == Kind::tensor
                   ? fmt::format("  {{{}, {}, {:d}, {}, {}, {}, {}, {}}},\n", s.alignBytes, s.unitStrideAxis, s.small, listText(s.strideDiv, rank),
                                 listText(s.strideRem, rank), listText(s.dimDiv, rank), listText(s.dimMax, rank), listText(v.job->args[i].dims, rank))
                   : std::string("  {1, -1, 0, {1}, {0}, {1}, {0}, {0}},\n");
      constants += fmt::format("UINT64_C({}), ", params[i].kind == Kind::constant ? v.job->args[i].scalar : 0);
    }
    source += fmt::format("static const sectile_axis grid_{}[] = {{{}}};\n", id, grid.empty() ? "{0, 0, 1}" : grid);
    if (coverCount)
      source += fmt::format("static const sectile_axis covers_{}[] = {{{}}};\n", id, covers);
    source += fmt::format("static const sectile_facts facts_{}[] = {{\n{}}};\nstatic const uint64_t constants_{}[] = {{{}}};\n", id, facts, id, constants);

    ordered_json j = {{"target", v.arch}, {"configuration", v.compiled->config.str()}, {"from", v.origin}, {"serves_shared_memory", !v.apart}};
    ordered_json lengths = ordered_json::array();
    for (const KernelArg &a : v.job->args)
      if (a.isTensor())
        lengths.push_back(std::vector<std::int64_t>(a.dims.begin(), a.dims.begin() + a.rank));
    j["lengths"] = std::move(lengths);
    j["threads"] = info.threads;
    j["shared_bytes"] = info.sharedBytes;
    j["registers"] = artifact.registers;
    j["spill_bytes"] = artifact.spillBytes;
    j["sha256"] = runtime::hexText(runtime::sha256(artifact.cubin.empty() ? artifact.ptx : artifact.cubin));
    list.push_back(std::move(j));

    return fmt::format("  {{\"{}\", \"{}\", \"{}\", {}, {}, {:d}, facts_{}, constants_{}, {}, {}, {:d},\n   {}, {}, grid_{}, {}, {}, {}, {:d}, {}, {}, {}, {}, &loaded_{}}},\n",
                       v.compiled->config.str(), v.arch, info.symbol, target.major, target.minor, isExact(target), id, id,
                       coverCount ? "covers_" + id : "0", coverCount, v.apart, artifact.cubin.empty() ? "0" : "cubin_" + code,
                       artifact.cubin.empty() || options.withPtx ? "ptx_" + code : "0", id, info.grid.size(), info.threads, info.cluster, info.persistent,
                       info.sharedBytes, maps.empty() ? "0" : "maps_" + id, info.maps.size(), info.split.possible ? "&split_" + id : "0", code);
  }

  /// The number of this code, whose bytes are in the source once.
  std::string codeOf(const Artifact &artifact) {
    auto [at, isNew] = codes.emplace(artifact.launch.symbol + "\n" + artifact.arch + "\n" + artifact.cubin + artifact.ptx, codes.size());
    const std::string id = std::to_string(at->second);
    if (isNew) {
      if (!artifact.cubin.empty())
        source += bytesText("cubin_" + id, artifact.cubin);
      if (artifact.cubin.empty() || options.withPtx)
        source += bytesText("ptx_" + id, artifact.ptx);
      source += fmt::format("static void *loaded_{};\n", id);
    }
    return id;
  }

  /// What a program calls.
  void interface(const std::string &name, const std::string &full, std::span<const detail::ParamDesc> params, std::span<const AheadVariant> variants) {
    header += fmt::format("\n/* {}\n", name);
    std::string list, into, names, tensors;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const detail::ParamDesc &p = params[i];
      if (p.kind == Kind::tensor) {
        header += fmt::format("     a{}: tensor of {} with {} axes, {}\n", i, sectile::name(p.dtype), p.rank, p.readOnly ? "read" : "written");
        list += fmt::format(", const sectile_tensor *a{}", i);
        tensors += fmt::format("{}!a{}", tensors.empty() ? "" : " || ", i);
        into += fmt::format("  args[{}].tensor = *a{};\n", i, i);
      } else {
        header += fmt::format("     a{}: {}{}{}\n", i, sectile::name(p.dtype), isFloat(p.dtype) && byteSize(p.dtype) < 4 ? ", its bits" : "",
                              p.kind == Kind::constant ? ", one of the constants that were built" : "");
        list += fmt::format(", {} a{}", cType(p.dtype), i);
        into += fmt::format("  memcpy(&args[{}].scalar, &a{}, sizeof a{});\n", i, i, i);
      }
      names += fmt::format(", a{}", i);
    }
    header += "   Variants, by number:\n";
    std::size_t number = 0;
    for (const AheadVariant &v : variants) {
      std::string shapes;
      for (const KernelArg &a : v.job->args)
        if (a.isTensor())
          shapes += fmt::format("{}{}", shapes.empty() ? "" : "; ", fmt::join(a.dims.begin(), a.dims.begin() + a.rank, "x"));
      header += fmt::format("     {}: {} ({}) for {}\n", number++, v.arch, v.compiled->config.str(), shapes);
    }
    header += fmt::format("*/\nextern const sectile_kernel {0}_kernel;\nsectile_status {0}(struct CUstream_st *stream{1});\n"
                          "/* The same with a variant by its number; -1: the one that fits best. */\nsectile_status {0}_with(int variant, struct CUstream_st *stream{1});\n",
                          full, list);
    source += fmt::format("\nsectile_status {0}_with(int variant, struct CUstream_st *stream{1}) {{\n  sectile_arg args[{2}];\n{3}  memset(args, 0, sizeof args);\n{4}"
                          "  return sectile_launch(&{0}_kernel, variant, stream, args);\n}}\nsectile_status {0}(struct CUstream_st *stream{1}) {{\n"
                          "  return {0}_with(-1, stream{5});\n}}\n",
                          full, list, std::max<std::size_t>(1, params.size()),
                          tensors.empty() ? "" : fmt::format("  if ({})\n    return sectile_no_tensor(\"{}\");\n", tensors, name), into, names);
  }

  const AheadOptions &options;
  std::string header, source;
  std::map<std::string, std::size_t> codes;
  ordered_json manifest = ordered_json::array();
  std::vector<std::string> kernels;
};

} // namespace

std::vector<std::pair<std::string, std::string>> aheadText(const std::vector<AheadVariant> &variants, const AheadOptions &options, const std::string &recordJson) {
  Writer writer(options);
  for (std::size_t i = 0; i < variants.size();) {
    std::size_t end = i;
    while (end < variants.size() && variants[end].kernel == variants[i].kernel)
      ++end;
    writer.kernel(std::span(variants).subspan(i, end - i));
    i = end;
  }
  return writer.files(recordJson);
}

} // namespace sectile
