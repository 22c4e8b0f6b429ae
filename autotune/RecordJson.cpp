// SPDX-License-Identifier: Apache-2.0
#include "autotune/RecordJson.h"
#include "autotune/RecordDb.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace sectile::autotune {
namespace {

using Json = nlohmann::ordered_json;

Json jsonOf(const RecordRow &r) {
  const RecordKey &k = r.key;
  return {{"kind", r.kind == RecordRow::Kind::choice ? "choice" : "candidate"},
          {"kernel", k.kernel},
          {"content", k.content},
          {"layout", k.layout},
          {"shape", k.shape},
          {"gpu", k.gpu},
          {"multiprocessors", k.multiprocessors},
          {"driver", k.driver},
          {"compiler", k.compiler},
          {"assembler", k.assembler},
          {"choice", r.choice},
          {"choiceContent", r.choiceContent},
          {"dims", r.dims},
          {"medianNs", r.medianNs},
          {"lowNs", r.lowNs},
          {"highNs", r.highNs},
          {"date", r.date},
          {"tried", r.tried},
          {"final", r.isFinal},
          {"note", r.note},
          {"checksum", rowChecksum(r)}};
}

/// Reads members one by one; the first that does not fit is `why`.
class Reader {
public:
  explicit Reader(const Json &object) : object(object) {
    if (!object.is_object())
      why = "it is no object";
  }
  std::string text(const char *name) {
    const Json *v = member(name);
    if (v && !v->is_string())
      fail(name, "no text");
    return v && v->is_string() ? v->get<std::string>() : std::string();
  }
  double number(const char *name) {
    const Json *v = member(name);
    if (v && !v->is_number())
      fail(name, "no number");
    return v && v->is_number() ? v->get<double>() : 0;
  }
  std::int64_t integer(const char *name, std::int64_t most) {
    const Json *v = member(name);
    const bool fits = v && v->is_number_integer() && (!v->is_number_unsigned() || v->get<std::uint64_t>() <= std::uint64_t(most)) &&
                      v->get<std::int64_t>() <= most && v->get<std::int64_t>() >= 0;
    if (v && !fits)
      fail(name, fmt::format("no integer from 0 to {}", most));
    return fits ? v->get<std::int64_t>() : 0;
  }
  bool truth(const char *name) {
    const Json *v = member(name);
    if (v && !v->is_boolean())
      fail(name, "neither true nor false");
    return v && v->is_boolean() && v->get<bool>();
  }
  void fail(const char *name, const std::string &text) {
    if (why.empty())
      why = fmt::format("\"{}\" is {}", name, text);
  }

  std::string why;

private:
  const Json *member(const char *name) {
    if (!object.is_object())
      return nullptr;
    auto it = object.find(name);
    if (it == object.end())
      fail(name, "not there");
    return it == object.end() ? nullptr : &*it;
  }
  const Json &object;
};

RecordRow rowOf(const Json &object, std::string &why) {
  constexpr std::int64_t mostInt = std::numeric_limits<int>::max(), mostDate = INT64_C(1) << 53;
  Reader in(object);
  RecordRow r;
  RecordKey &k = r.key;
  const std::string kind = in.text("kind");
  if (kind != "choice" && kind != "candidate")
    in.fail("kind", "neither choice nor candidate");
  r.kind = kind == "candidate" ? RecordRow::Kind::candidate : RecordRow::Kind::choice;
  k.kernel = in.text("kernel"), k.content = in.text("content"), k.layout = in.text("layout"), k.shape = in.text("shape");
  k.gpu = in.text("gpu");
  k.multiprocessors = static_cast<int>(in.integer("multiprocessors", mostInt));
  k.driver = in.text("driver"), k.compiler = in.text("compiler"), k.assembler = in.text("assembler");
  r.choice = in.text("choice"), r.choiceContent = in.text("choiceContent"), r.dims = in.text("dims");
  r.medianNs = in.number("medianNs"), r.lowNs = in.number("lowNs"), r.highNs = in.number("highNs");
  r.date = in.integer("date", mostDate);
  r.tried = static_cast<int>(in.integer("tried", mostInt));
  r.isFinal = in.truth("final");
  r.note = in.text("note");
  const std::string checksum = in.text("checksum");
  why = in.why;
  if (why.empty())
    why = whyNoRow(r);
  if (why.empty() && checksum != rowChecksum(r))
    why = "its checksum differs: it was edited or damaged";
  return r;
}

Json parse(std::string_view text) { return Json::parse(text, nullptr, false); }

} // namespace

std::string rowJson(const RecordRow &row) { return jsonOf(row).dump(); }

std::optional<RecordRow> rowFromJson(std::string_view text, std::string &why) {
  const Json object = parse(text);
  if (object.is_discarded()) {
    why = "it is no JSON";
    return std::nullopt;
  }
  RecordRow row = rowOf(object, why);
  if (!why.empty())
    return std::nullopt;
  return row;
}

std::string toJson(const RecordSet &set) {
  // A row a line: what changed shows line by line.
  std::string text = fmt::format("{{\"format\": {}, \"rows\": [", recordFormat);
  const char *separator = "\n";
  for (const auto &[id, row] : set.all()) {
    text += separator + rowJson(row);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

std::optional<RecordSet> fromJson(std::string_view text, std::vector<std::string> &rejected, std::string &why) {
  const Json all = parse(text);
  if (all.is_discarded())
    why = "it is no JSON";
  else if (!all.is_object() || !all.contains("format") || !all.contains("rows") || !all["rows"].is_array())
    why = "it is no object with format and rows";
  else if (all["format"] != recordFormat)
    why = fmt::format("its format is {}, this version of Sectile reads {}", all["format"].dump(-1, ' ', false, Json::error_handler_t::replace),
                      recordFormat);
  else
    why.clear();
  if (!why.empty())
    return std::nullopt;
  RecordSet set;
  for (std::size_t i = 0; i < all["rows"].size(); ++i) {
    std::string bad;
    const RecordRow row = rowOf(all["rows"][i], bad);
    if (bad.empty())
      set.add(row);
    else
      rejected.push_back(fmt::format("row {}: {}", i + 1, bad));
  }
  return set;
}

} // namespace sectile::autotune
