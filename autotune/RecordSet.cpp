// SPDX-License-Identifier: Apache-2.0
#include "autotune/Record.h"
#include "runtime/Hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <tuple>

namespace sectile::autotune {
namespace {

/// True if `a` is the version of a row to keep over `b`. A total order, so that every order of merging keeps the same.
bool isBetterVersion(const RecordRow &a, const RecordRow &b) {
  auto rank = [](const RecordRow &r) {
    // Negated, so that less means better: final, newer, faster; the rest only decides between equals.
    return std::tuple(!r.isFinal, -r.date, r.medianNs, r.highNs, r.lowNs, -r.tried, std::tie(r.choiceContent, r.dims, r.note));
  };
  return rank(a) < rank(b);
}

/// The buckets in "4096/16x17/1;;128/16", a list per argument; empty if it is another text.
std::vector<std::vector<std::int64_t>> bucketsOf(std::string_view shape) {
  std::vector<std::vector<std::int64_t>> args(1);
  const char *at = shape.data(), *end = at + shape.size();
  auto number = [&](std::int64_t &n) {
    auto [next, error] = std::from_chars(at, end, n);
    at = next;
    return error == std::errc() && n >= 0;
  };
  for (; at != end; ++at) {
    if (*at == ';') { // of an argument without axes
      args.emplace_back();
      continue;
    }
    std::int64_t bucket = 0, divisor = 0;
    if (!number(bucket) || at == end || *at++ != '/' || !number(divisor))
      return {};
    args.back().push_back(bucket);
    if (at == end)
      break;
    if (*at == ';')
      args.emplace_back();
    else if (*at != 'x')
      return {};
  }
  return args;
}

/// The sum of |log2| of the ratios; nullopt where the two are not shapes of the same ranks.
std::optional<double> shapeDistance(std::string_view a, std::string_view b) {
  auto x = bucketsOf(a), y = bucketsOf(b);
  if (x.size() != y.size() || x.empty())
    return std::nullopt;
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i].size() != y[i].size())
      return std::nullopt;
    for (std::size_t d = 0; d < x[i].size(); ++d)
      sum += std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(x[i][d], 1))) -
                      std::log2(static_cast<double>(std::max<std::int64_t>(y[i][d], 1))));
  }
  return sum;
}

/// UTF-8 without control characters: what goes through JSON and a terminal unchanged.
bool isPlainText(const std::string &text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7f)
      return false;
    const int more = c < 0x80 ? 0 : c >= 0xf0 && c < 0xf5 ? 3 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xc2 && c < 0xe0 ? 1 : -1;
    if (more < 0 || i + static_cast<std::size_t>(more) >= text.size())
      return false;
    char32_t point = more == 0 ? c : c & (0x3f >> more);
    for (int k = 0; k < more; ++k) {
      const auto next = static_cast<unsigned char>(text[++i]);
      if ((next & 0xc0) != 0x80)
        return false;
      point = point << 6 | (next & 0x3f);
    }
    constexpr char32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (point < least[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
      return false;
  }
  return true;
}

} // namespace

std::int64_t shapeBucket(std::int64_t length) {
  if (length <= 8)
    return std::max<std::int64_t>(length, 0);
  if (length > INT64_C(1) << 60)
    return INT64_C(1) << 62;
  const int bits = std::bit_width(static_cast<std::uint64_t>(length - 1));
  const std::int64_t step = INT64_C(1) << (bits - 3);
  return (length + step - 1) / step * step;
}

std::string whyNoRow(const RecordRow &row) {
  const RecordKey &k = row.key;
  for (const std::string *text : {&k.kernel, &k.content, &k.layout, &k.shape, &k.gpu, &k.driver, &k.compiler, &k.assembler, &row.choice,
                                  &row.choiceContent, &row.dims, &row.note})
    if (!isPlainText(*text))
      return "a text that is not UTF-8, or has control characters";
  if (k.kernel.empty() || k.content.empty() || k.gpu.empty() || k.compiler.empty())
    return "kernel, content, GPU or compiler is empty";
  if (row.kind != RecordRow::Kind::choice && row.kind != RecordRow::Kind::candidate)
    return fmt::format("kind {} is not known", static_cast<int>(row.kind));
  const bool isOut = row.kind == RecordRow::Kind::candidate && !row.note.empty();
  if (!std::isfinite(row.lowNs) || !std::isfinite(row.medianNs) || !std::isfinite(row.highNs))
    return "a time is not a number";
  if (isOut ? row.lowNs < 0 : row.lowNs <= 0)
    return fmt::format("a time of {} ns", row.lowNs);
  if (row.lowNs > row.medianNs || row.medianNs > row.highNs)
    return fmt::format("the median {} ns lies outside its interval, {} to {} ns", row.medianNs, row.lowNs, row.highNs);
  if (row.date < 0 || row.tried < 0 || k.multiprocessors < 0)
    return "a negative date or number";
  return {};
}

std::string rowChecksum(const RecordRow &row) {
  const RecordKey &k = row.key;
  std::string text;
  auto add = [&](const auto &value) { text += fmt::format("{}\n", value); };
  add(static_cast<int>(row.kind));
  for (const std::string *part : {&k.kernel, &k.content, &k.layout, &k.shape, &k.gpu, &k.driver, &k.compiler, &k.assembler, &row.choice,
                                  &row.choiceContent, &row.dims, &row.note})
    add(*part);
  add(k.multiprocessors);
  for (double time : {row.medianNs, row.lowNs, row.highNs})
    add(time); // the shortest text that reads back as the same number
  add(row.date);
  add(row.tried);
  add(row.isFinal ? 1 : 0);
  return fmt::format("{:016x}", runtime::xxHash64(text));
}

bool RecordSet::add(const RecordRow &row) {
  auto [it, isNew] = rows.try_emplace(Id{row.kind, row.key, row.choice}, row);
  if (isNew)
    return true;
  if (!isBetterVersion(row, it->second))
    return false;
  it->second = row;
  return true;
}

std::size_t RecordSet::merge(const RecordSet &other) {
  std::size_t changed = 0;
  for (const auto &[id, row] : other.rows)
    changed += add(row);
  return changed;
}

const RecordRow *RecordSet::find(const RecordKey &key) const {
  constexpr auto kind = RecordRow::Kind::choice;
  const auto first = rows.lower_bound(Id{kind, key, {}});
  auto isOfKey = [&](auto it) { return it != rows.end() && it->first.kind == kind && it->first.key == key; };
  bool anyFinal = false;
  for (auto it = first; isOfKey(it); ++it)
    anyFinal |= it->second.isFinal;
  double leastHigh = INFINITY;
  for (auto it = first; isOfKey(it); ++it)
    if (it->second.isFinal || !anyFinal)
      leastHigh = std::min(leastHigh, it->second.highNs);
  // Rows are in the order of their choices: the first that is not beaten is the one.
  for (auto it = first; isOfKey(it); ++it)
    if ((it->second.isFinal || !anyFinal) && it->second.lowNs <= leastHigh)
      return &it->second;
  return nullptr;
}

const RecordRow *RecordSet::findNeighbour(const RecordKey &key) const {
  constexpr double farthest = 2.0 + 1e-9; // octaves
  RecordKey least = key;
  least.shape.clear(); // within one layout, rows of all shapes lie together, but not beside those of other GPUs
  const RecordKey *nearest = nullptr;
  double nearestDistance = farthest;
  for (auto it = rows.lower_bound(Id{RecordRow::Kind::choice, RecordKey{key.kernel, key.content, key.layout, {}, {}, 0, {}, {}, {}}, {}});
       it != rows.end() && it->first.kind == RecordRow::Kind::choice && it->first.key.kernel == key.kernel &&
       it->first.key.content == key.content && it->first.key.layout == key.layout;
       ++it) {
    RecordKey other = it->first.key;
    other.shape.clear();
    if (other != least || it->first.key.shape == key.shape)
      continue;
    std::optional<double> distance = shapeDistance(key.shape, it->first.key.shape);
    // Rows come in the order of their shapes as text, so the first of equals stays.
    if (distance && (nearest ? *distance < nearestDistance - 1e-9 : *distance <= nearestDistance)) {
      nearest = &it->first.key;
      nearestDistance = *distance;
    }
  }
  return nearest ? find(*nearest) : nullptr;
}

const RecordRow *RecordSet::findCandidate(const RecordKey &key, const std::string &choice) const {
  auto it = rows.find(Id{RecordRow::Kind::candidate, key, choice});
  return it == rows.end() ? nullptr : &it->second;
}

bool RecordSet::knows(std::string_view kernel) const {
  RecordKey least;
  least.kernel = kernel;
  auto it = rows.lower_bound(Id{RecordRow::Kind::choice, least, {}});
  return it != rows.end() && it->first.kind == RecordRow::Kind::choice && it->first.key.kernel == kernel;
}

std::vector<RecordSet::Id> toPrune(const RecordSet &set, const PruneRule &rule) {
  std::vector<RecordSet::Id> gone;
  for (const auto &[id, row] : set.all()) {
    const bool isChoice = id.kind == RecordRow::Kind::choice;
    if ((rule.before && row.date < *rule.before) || (rule.compiler && id.key.compiler != *rule.compiler) ||
        (!rule.kernel.empty() && id.key.kernel == rule.kernel) || (rule.candidates && !isChoice) || (rule.noisy && !row.isFinal) ||
        (rule.losers && isChoice && set.find(id.key) != &row))
      gone.push_back(id);
  }
  return gone;
}

} // namespace sectile::autotune
