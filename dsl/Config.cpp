// SPDX-License-Identifier: Apache-2.0
#include <sectile/Config.h>

#include "dsl/Trace.h"
#include "ir/base/Artifact.h"

#include <algorithm>
#include <bit>

namespace sectile {

/// Throws with the kernel's name if one is being traced.
[[noreturn]] static void fail(std::source_location loc, const char *op, std::string message, const char *rule,
                              std::string wayOut) {
  if (detail::Trace *t = detail::Trace::current())
    t->fail(loc, op, std::move(message), rule, std::move(wayOut));
  throw UserError({SourceLoc(loc), {}, op, std::move(message), rule, std::move(wayOut)});
}

static std::string listText(const std::vector<int> &list) {
  std::string s = "{";
  for (std::size_t i = 0; i < list.size(); ++i)
    s += (i ? ", " : "") + std::to_string(list[i]);
  return s + "}";
}

Config &Config::set(std::string_view name, int value) & {
  Value &v = named[std::string(name)];
  v.value = value;
  v.byHand = true;
  return *this;
}

std::optional<int> Config::get(std::string_view name) const {
  auto it = named.find(name);
  if (it == named.end())
    return std::nullopt;
  return it->second.value;
}

int Config::pick(std::string_view name, std::initializer_list<int> choices, std::source_location loc) {
  const std::string text(name);
  std::vector<int> list(choices);
  if (list.empty())
    fail(loc, "pick", "\"" + text + "\" has no choices", "pick_list", "list at least the default");
  Value &v = named[text];
  if (v.asked && v.choices != list)
    fail(loc, "pick",
         "\"" + text + "\" is asked for with choices " + listText(list) + " and was with " +
             listText(v.choices),
         "pick_list", "ask once and keep the value in a variable");
  if (v.byHand && std::find(list.begin(), list.end(), v.value) == list.end())
    fail(loc, "pick",
         "\"" + text + "\" is set to " + std::to_string(v.value) + ", which is not among " + listText(list),
         "pick_value", "set one of the list, or add " + std::to_string(v.value) + " to it");
  if (!v.byHand)
    v.value = list.front();
  v.asked = true;
  v.choices = std::move(list);
  v.coverArg = v.coverAxis = -1;
  return v.value;
}

int detail::coverBucket(std::int64_t length) {
  constexpr std::int64_t least = 16, most = std::int64_t(1) << 30;
  if (length <= least)
    return least;
  if (length >= most)
    return most;
  // Steps between powers of two where what is left as a power of two still gives every thread of a block its vectors: factors
  // of 3, 5 and 7 repeat them. Finer ones (13 * 1024) would leave threads without elements of their own, or with narrower vectors.
  const int bits = std::bit_width(static_cast<std::uint64_t>(length - 1));
  const std::int64_t step = std::int64_t(1) << (length > 8192 ? bits - 3 : length > 2048 ? bits - 2 : bits);
  return static_cast<int>((length + step - 1) / step * step);
}

int Config::coverParameter(std::string_view name, const detail::TracedTensor &x, int rank, int axis,
                           std::source_location loc) {
  detail::Trace &t = detail::Trace::get(loc, "cover");
  const std::string text(name);
  if (axis < 0 || axis >= rank)
    t.fail(loc, "cover", "axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank),
           "cover_axis", "use an axis from 0 to " + std::to_string(rank - 1));
  if (x.parameter() < 0)
    t.fail(loc, "cover", "\"" + text + "\" covers a tensor that is no parameter of the kernel",
           "cover_tensor", "cover the parameter that it was sliced from");
  const KernelArg &arg = t.hostArgs[x.parameter()];
  const std::int64_t length = arg.dims[axis];
  const int bucket = detail::coverBucket(coverLength(arg, axis));
  if (bucket < length)
    t.fail(loc, "cover",
           "axis " + std::to_string(axis) + " has length " + std::to_string(length) +
               ", too long for one tile",
           "cover_value", "go through the axis with range");
  Value &v = named[text];
  if (v.asked && (v.coverArg != x.parameter() || v.coverAxis != axis))
    t.fail(loc, "cover", "\"" + text + "\" is asked for twice, for different axes or as a pick", "pick_list",
           "use one name for one number");
  if (v.byHand && v.value < length)
    t.fail(loc, "cover",
           "\"" + text + "\" is set to " + std::to_string(v.value) + ", less than the " +
               std::to_string(length) + " of axis " + std::to_string(axis),
           "cover_value",
           "set at least " + std::to_string(length) + ", or leave it to the bucket " +
               std::to_string(bucket));
  if (!v.byHand)
    v.value = bucket;
  v.asked = true;
  v.choices.clear();
  v.coverArg = x.parameter();
  v.coverAxis = axis;
  return v.value;
}

void Config::adopt(std::string_view prefix, const Config &part, std::span<const int> params) {
  for (const auto &[name, value] : part.named) {
    Value &own = named[std::string(prefix) + name];
    const bool byHand = prefix.empty() ? value.byHand : own.byHand;
    own = value;
    own.byHand = byHand;
    if (!prefix.empty())
      own.choices.clear();
    if (own.coverArg >= 0)
      own.coverArg = params[static_cast<std::size_t>(own.coverArg)];
    if (own.coverArg < 0)
      own.coverAxis = -1;
  }
}

void Config::forgetAsked() {
  std::erase_if(named, [](const auto &entry) { return !entry.second.byHand; });
  for (auto &[name, v] : named)
    v.asked = false;
}

std::string Config::askedNames() const {
  std::string s;
  for (const auto &[name, v] : named)
    if (v.asked)
      s += (s.empty() ? "" : ", ") + name;
  return s.empty() ? "nothing" : s;
}

std::string Config::str() const {
  std::string s;
  auto add = [&](const std::string &name, int value) {
    s += (s.empty() ? "" : " ") + name + "=" + std::to_string(value);
  };
  for (const auto &[name, v] : named)
    add(name, v.value);
  if (warps)
    add("warps", warps);
  if (stages)
    add("stages", stages);
  if (cluster)
    add("cluster", cluster);
  if (raster)
    add("raster", raster);
  if (blocks)
    add("blocks", blocks);
  if (repack)
    add("repack", repack);
  if (async)
    add("async", async);
  if (pingpong)
    add("pingpong", pingpong);
  if (multicast)
    add("multicast", multicast);
  if (snake)
    add("snake", snake);
  if (streamk)
    add("streamk", streamk);
  if (overlap)
    add("overlap", overlap);
  if (keep)
    add("keep", keep);
  if (persistent)
    add("persistent", persistent);
  if (prefetch)
    add("prefetch", prefetch);
  if (evict)
    add("evict", evict);
  if (split)
    add("split", split);
  return s;
}

std::size_t Config::hash() const { return std::hash<std::string>()(str()); }

bool Config::operator==(const Config &other) const {
  return warps == other.warps && stages == other.stages && cluster == other.cluster &&
         raster == other.raster && repack == other.repack && blocks == other.blocks && split == other.split &&
         async == other.async && pingpong == other.pingpong && multicast == other.multicast && snake == other.snake && streamk == other.streamk && overlap == other.overlap && keep == other.keep &&
         persistent == other.persistent && prefetch == other.prefetch && evict == other.evict &&
         std::equal(named.begin(), named.end(), other.named.begin(), other.named.end(),
                    [](const auto &a, const auto &b) {
                      return a.first == b.first && a.second.value == b.second.value;
                    });
}

} // namespace sectile
