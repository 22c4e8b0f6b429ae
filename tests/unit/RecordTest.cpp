// SPDX-License-Identifier: Apache-2.0
// The tuning record in memory: which row is chosen, neighbours, merging, JSON.
#include "autotune/Record.h"
#include "tests/support/RecordRows.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <random>

using namespace sectile;
using namespace sectile::autotune;
using test::recordKeyOf;
using test::recordRow;
using test::recordSet;

namespace {

std::string chosen(const RecordSet &set, const RecordKey &key) {
  const RecordRow *row = set.find(key);
  return row ? row->choice : "none";
}
RecordRow noisy(RecordRow row) {
  row.isFinal = false;
  return row;
}
RecordRow withShape(int seed, const std::string &shape, const std::string &choice) {
  RecordRow row = recordRow(seed, choice);
  row.key.shape = shape;
  return row;
}
std::string neighbour(const RecordSet &set, const std::string &shape, int seed = 1) {
  RecordKey key = recordKeyOf(seed);
  key.shape = shape;
  const RecordRow *row = set.findNeighbour(key);
  return row ? row->choice : "none";
}
RecordRow randomRow(std::mt19937 &random) {
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  RecordRow row = recordRow(below(2), std::string("BM=") + "1234"[below(4)], 100 + 10 * below(5), 1 + below(15));
  row.isFinal = below(2);
  row.date = below(3);
  row.tried = below(2);
  if (below(4) == 0)
    row.kind = RecordRow::Kind::candidate;
  return row;
}

} // namespace

TEST_CASE("Record: final beats noisy, then the faster where intervals are apart, then the first as text", "[autotune][record]") {
  const RecordKey key = recordKeyOf(1);
  CHECK(chosen(RecordSet(), key) == "none");
  CHECK(chosen(recordSet({recordRow(1, "A", 2000), noisy(recordRow(1, "B", 100))}), key) == "A");
  CHECK(chosen(recordSet({noisy(recordRow(1, "A", 2000)), noisy(recordRow(1, "B", 100))}), key) == "B");
  CHECK(chosen(recordSet({recordRow(1, "A", 1021), recordRow(1, "B", 1000)}), key) == "B");
  // 990..1010 and 1005..1025 overlap: the order of the texts decides, whichever median is less.
  CHECK(chosen(recordSet({recordRow(1, "A", 1015), recordRow(1, "B", 1000)}), key) == "A");
  CHECK(chosen(recordSet({recordRow(1, "A", 1000), recordRow(1, "B", 1015)}), key) == "A");
  // A overlaps with B alone, and B with C, which is the fastest: only what overlaps with the fastest is a tie.
  CHECK(chosen(recordSet({recordRow(1, "A", 1030), recordRow(1, "B", 1015), recordRow(1, "C", 1000)}), key) == "B");
  CHECK(chosen(recordSet({recordRow(1, "", 1000), recordRow(1, "B", 1000)}), key) == "");
}

TEST_CASE("Record: rows of another GPU, driver, compiler, assembler, content or layout are other rows", "[autotune][record]") {
  const RecordSet set = recordSet({recordRow(1)});
  CHECK(chosen(set, recordKeyOf(1)) == "BM=128");
  std::vector<RecordKey> others(9, recordKeyOf(1));
  others[0].gpu = "NVIDIA H100";
  others[1].multiprocessors = 78;
  others[2].driver = "13.1";
  others[3].compiler = "0.1.0 abd";
  others[4].assembler = "driver";
  others[5].content = "c0ffee2";
  others[6].layout += " ";
  others[7].kernel = "other";
  others[8].shape = "4096/16x4096/16;128/8";
  for (std::size_t i = 0; i < others.size(); ++i) {
    INFO(i);
    CHECK(set.find(others[i]) == nullptr);
    // Of these the last alone, another divisor, is a neighbour.
    CHECK((set.findNeighbour(others[i]) != nullptr) == (i == 8));
  }
  CHECK(set.knows("kernel_1"));
  CHECK_FALSE(set.knows("kernel_"));
  CHECK_FALSE(set.knows("kernel_10"));
}

TEST_CASE("Record: the neighbour is the nearest shape of the same layout", "[autotune][record]") {
  const RecordSet set = recordSet({withShape(1, "1024/16x512/16;", "A"), withShape(1, "4096/16x512/16;", "B"), withShape(1, "64/16x512/16;", "C"),
                                   withShape(1, "2048/16;512/16;", "other ranks"), withShape(1, "nonsense", "no shape"),
                                   withShape(2, "2048/16x512/16;", "other kernel")});
  CHECK(neighbour(set, "1280/16x512/16;") == "A");
  CHECK(neighbour(set, "3072/16x512/1;") == "B");
  CHECK(neighbour(set, "2048/16x512/16;") == "A"); // as far from both: the first as text
  CHECK(neighbour(set, "16384/16x512/16;") == "B");
  CHECK(neighbour(set, "20480/16x512/16;") == "none"); // more than a factor of four
  CHECK(neighbour(set, "8192/16x1024/16;") == "B");    // a factor of two in each axis
  CHECK(neighbour(set, "8192/16x2048/16;") == "none");
  CHECK(neighbour(set, "0/16x512/16;") == "none");
  CHECK(neighbour(set, "64/16x512/16;") == "none"); // it has a row of its own; that is no neighbour
  CHECK(neighbour(set, "") == "none");
  CHECK(neighbour(set, "1024/16x512/16") == "none");
  CHECK(neighbour(set, "1024x512;") == "none");
  CHECK(neighbour(set, "1024/16x512/16;", 3) == "none");
}

TEST_CASE("Record: buckets hold their lengths and are at most a quarter longer", "[autotune][record]") {
  for (std::int64_t n = 0; n <= 8; ++n)
    CHECK(shapeBucket(n) == n);
  CHECK(shapeBucket(9) == 10);
  CHECK(shapeBucket(4095) == 4096);
  CHECK(shapeBucket(4096) == 4096);
  CHECK(shapeBucket(4097) == 5120);
  for (std::int64_t n = 1; n < 100000; n += 1 + n / 50) {
    const std::int64_t b = shapeBucket(n);
    CHECK((b >= n && 4 * b < 5 * n + 4 && shapeBucket(b) == b));
  }
  for (std::int64_t n : {INT64_MAX, INT64_MAX - 1, INT64_C(1) << 62, (INT64_C(1) << 60) + 1, INT64_C(1) << 60})
    CHECK(shapeBucket(n) > 0);
  CHECK(shapeBucket(-5) == 0);
}

TEST_CASE("Record: of two versions of a row one is kept, whatever the order", "[autotune][record]") {
  RecordRow old = recordRow(1), newer = recordRow(1), slow = recordRow(1);
  newer.date += 100;
  newer.medianNs += 5;
  slow.medianNs += 1;
  for (auto [worse, better] : {std::pair(old, newer), std::pair(slow, old), std::pair(noisy(newer), old)}) {
    RecordSet a = recordSet({worse, better}), b = recordSet({better, worse});
    CHECK(a == b);
    REQUIRE(a.size() == 1);
    CHECK(a.all().begin()->second == better);
  }
  RecordSet set = recordSet({old});
  CHECK_FALSE(set.add(old));
  CHECK(set.add(newer));
  CHECK_FALSE(set.add(old));
}

TEST_CASE("Record: merging in any order and grouping gives the same rows and the same choices", "[autotune][record]") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<RecordRow> rows;
    for (unsigned i = 0; i < 2 + random() % 10; ++i)
      rows.push_back(randomRow(random));
    RecordSet straight;
    for (const RecordRow &row : rows)
      straight.add(row);
    std::shuffle(rows.begin(), rows.end(), random);
    // Each of three machines has some rows, some of them twice; then they exchange records.
    RecordSet machines[3];
    for (const RecordRow &row : rows) {
      machines[random() % 3].add(row);
      machines[random() % 3].add(row);
    }
    for (int i = 0; i < 6; ++i)
      machines[i % 3].merge(machines[(i + 1 + round % 2) % 3]);
    for (const RecordSet &machine : machines) {
      REQUIRE(machine == straight);
      for (int seed : {0, 1})
        REQUIRE(chosen(machine, recordKeyOf(seed)) == chosen(straight, recordKeyOf(seed)));
    }
  }
}

TEST_CASE("Record: candidates are rows of their own and are never chosen", "[autotune][record]") {
  RecordRow candidate = recordRow(1, "BM=64", 10), out = recordRow(1, "BM=32");
  candidate.kind = out.kind = RecordRow::Kind::candidate;
  out.note = "wrong result";
  out.medianNs = out.lowNs = out.highNs = 0;
  const RecordSet set = recordSet({recordRow(1), candidate, out});
  CHECK(whyNoRow(out).empty());
  CHECK(chosen(set, recordKeyOf(1)) == "BM=128");
  REQUIRE(set.findCandidate(recordKeyOf(1), "BM=64"));
  CHECK(set.findCandidate(recordKeyOf(1), "BM=64")->medianNs == candidate.medianNs);
  CHECK(set.findCandidate(recordKeyOf(1), "BM=32")->note == "wrong result");
  CHECK(set.findCandidate(recordKeyOf(1), "BM=16") == nullptr);
  CHECK_FALSE(recordSet({candidate}).knows("kernel_1"));
}

TEST_CASE("Record: what is no row is refused with the reason", "[autotune][record]") {
  CHECK(whyNoRow(recordRow(1)).empty());
  auto why = [](auto change) {
    RecordRow row = recordRow(1);
    change(row);
    return whyNoRow(row);
  };
  CHECK(why([](RecordRow &r) { r.medianNs = NAN; }) == "a time is not a number");
  CHECK(why([](RecordRow &r) { r.highNs = INFINITY; }) == "a time is not a number");
  CHECK(why([](RecordRow &r) { r.lowNs = 0; }) == "a time of 0 ns");
  CHECK(why([](RecordRow &r) { r.lowNs = -3; }) == "a time of -3 ns");
  CHECK(why([](RecordRow &r) { r.medianNs = 2000; }).find("outside its interval") != std::string::npos);
  CHECK(why([](RecordRow &r) { r.medianNs = 900; }).find("outside its interval") != std::string::npos);
  CHECK(why([](RecordRow &r) { r.date = -1; }) == "a negative date or number");
  CHECK(why([](RecordRow &r) { r.tried = -1; }) == "a negative date or number");
  CHECK(why([](RecordRow &r) { r.key.gpu.clear(); }).find("is empty") != std::string::npos);
  CHECK(why([](RecordRow &r) { r.kind = static_cast<RecordRow::Kind>(9); }) == "kind 9 is not known");
  for (const char *text : {"a\nb", "\x7f", "\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xc3"})
    CHECK(why([&](RecordRow &r) { r.choice = text; }).find("not UTF-8") != std::string::npos);
  for (const char *text : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "a b~"})
    CHECK(why([&](RecordRow &r) { r.note = text; }).empty());
}

TEST_CASE("Record: the checksum covers every field", "[autotune][record]") {
  const RecordRow row = recordRow(1);
  std::vector<RecordRow> edited(21, row);
  edited[0].kind = RecordRow::Kind::candidate;
  std::string *texts[] = {&edited[1].key.kernel,   &edited[2].key.content,  &edited[3].key.layout,     &edited[4].key.shape,
                          &edited[5].key.gpu,      &edited[6].key.driver,   &edited[7].key.compiler,   &edited[8].key.assembler,
                          &edited[9].choice,       &edited[10].choiceContent, &edited[11].dims,        &edited[12].note};
  for (std::string *text : texts)
    *text += "x";
  edited[13].key.multiprocessors++;
  edited[14].medianNs = std::nextafter(row.medianNs, 0);
  edited[15].lowNs = std::nextafter(row.lowNs, 0);
  edited[16].highNs = std::nextafter(row.highNs, 1e9);
  edited[17].date++;
  edited[18].tried++;
  edited[19].isFinal = false;
  edited[20].key.shape += "\n"; // a boundary moved between two fields
  edited[20].key.gpu = edited[20].key.gpu.substr(1);
  for (std::size_t i = 0; i < edited.size(); ++i) {
    INFO(i);
    CHECK(rowChecksum(edited[i]) != rowChecksum(row));
  }
}

TEST_CASE("Record: JSON gives back exactly the rows", "[autotune][record]") {
  RecordSet set;
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    RecordRow row = recordRow(i, "BK=64 BM=" + std::to_string(i));
    row.medianNs = std::ldexp(1.0 + random() / 4294967296.0, static_cast<int>(random() % 40));
    row.lowNs = row.medianNs * 0.99;
    row.highNs = std::nextafter(row.medianNs, 1e300);
    row.note = "\xc3\xa9\"\\";
    row.isFinal = i % 2;
    row.kind = i % 3 ? RecordRow::Kind::choice : RecordRow::Kind::candidate;
    set.add(row);
  }
  std::vector<std::string> rejected;
  std::string why;
  const std::string text = toJson(set);
  CHECK(fromJson(text, rejected, why) == set);
  CHECK((rejected.empty() && why.empty()));
  CHECK(toJson(*fromJson(text, rejected, why)) == text);
  CHECK(fromJson(toJson(RecordSet()), rejected, why) == RecordSet());
  // A row a line, so that two exports compare line by line.
  CHECK(std::count(text.begin(), text.end(), '\n') == 52);
}

TEST_CASE("Record: a row of JSON that was edited or damaged is left out and named, the others stay", "[autotune][record]") {
  const RecordSet set = recordSet({recordRow(1), recordRow(2), recordRow(3)});
  const std::string text = toJson(set);
  auto after = [&](const std::string &from, const std::string &to) {
    std::string edited = text;
    const std::size_t at = edited.find(from);
    REQUIRE(at != std::string::npos);
    edited.replace(at, from.size(), to);
    std::vector<std::string> rejected;
    std::string why;
    const auto read = fromJson(edited, rejected, why);
    REQUIRE(read);
    CHECK(read->size() == 2);
    REQUIRE(rejected.size() == 1);
    return rejected[0];
  };
  CHECK(after("\"BM=128\"", "\"BM=256\"") == "row 1: its checksum differs: it was edited or damaged");
  CHECK(after("1000.1", "900.1").find("outside its interval") != std::string::npos);
  CHECK(after("\"choice\":\"BM", "\"chosen\":\"BM") == "row 1: \"choice\" is not there");
  CHECK(after("\"BM=128\"", "128") == "row 1: \"choice\" is no text");
  CHECK(after("1000.1", "\"fast\"") == "row 1: \"medianNs\" is no number");
  CHECK(after("\"tried\":17", "\"tried\":-1") == "row 1: \"tried\" is no integer from 0 to 2147483647");
  CHECK(after("\"tried\":17", "\"tried\":18446744073709551615").find("no integer") != std::string::npos);
  CHECK(after("\"tried\":17", "\"tried\":17.5").find("no integer") != std::string::npos);
  CHECK(after("\"final\":true", "\"final\":1") == "row 1: \"final\" is neither true nor false");
  CHECK(after("\"kind\":\"choice\"", "\"kind\":\"best\"") == "row 1: \"kind\" is neither choice nor candidate");
  std::vector<std::string> rejected;
  std::string why;
  CHECK(fromJson("{\"format\": 1, \"rows\": [17, null, []]}", rejected, why) == RecordSet());
  CHECK(rejected == std::vector<std::string>{"row 1: it is no object", "row 2: it is no object", "row 3: it is no object"});
}

TEST_CASE("Record: a file that is no export is refused", "[autotune][record]") {
  auto refused = [](const std::string &text) {
    std::vector<std::string> rejected;
    std::string why;
    return fromJson(text, rejected, why) ? std::string("taken") : why;
  };
  CHECK(refused("") == "it is no JSON");
  CHECK(refused("{") == "it is no JSON");
  CHECK(refused("[]") == "it is no object with format and rows");
  CHECK(refused("{\"format\": 1}") == "it is no object with format and rows");
  CHECK(refused("{\"format\": 1, \"rows\": 3}") == "it is no object with format and rows");
  CHECK(refused("{\"format\": 2, \"rows\": []}") == "its format is 2, this version of Sectile reads 1");
  CHECK(refused("{\"format\": \"1\", \"rows\": []}") == "its format is \"1\", this version of Sectile reads 1");
  CHECK(refused(std::string(100000, '[')) == "it is no JSON");
  CHECK(refused("{\"format\": 1, \"rows\": []}") == "taken");
  // Every cut and many edits of a good text: a refusal or fewer rows, no crash, and never a row that was not there.
  const RecordSet set = recordSet({recordRow(1), recordRow(2)});
  const std::string text = toJson(set);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string edited = i % 2 ? text.substr(0, random() % text.size()) : text;
    for (unsigned k = i % 2 ? 0 : 1 + random() % 3; k > 0; --k)
      edited[random() % edited.size()] = static_cast<char>(random());
    std::vector<std::string> rejected;
    std::string why;
    if (const auto read = fromJson(edited, rejected, why))
      for (const auto &[id, row] : read->all()) {
        const auto it = set.all().find(id);
        REQUIRE((it != set.all().end() && it->second == row));
      }
    else
      REQUIRE(!why.empty());
  }
}

TEST_CASE("Record: what prune takes", "[autotune][record]") {
  RecordRow candidate = recordRow(1, "BM=64");
  candidate.kind = RecordRow::Kind::candidate;
  const RecordSet set = recordSet({recordRow(1, "A"), recordRow(1, "B"), candidate, recordRow(2, "C"), noisy(recordRow(3, "D"))});
  auto pruned = [&](const PruneRule &rule) {
    std::string choices;
    for (const RecordSet::Id &id : toPrune(set, rule))
      choices += id.choice + " ";
    return choices;
  };
  CHECK(pruned({}) == "");
  CHECK(pruned({.before = 1700000002}) == "A B BM=64 ");
  CHECK(pruned({.compiler = "0.1.0 abc"}) == "");
  CHECK(pruned({.compiler = "0.2.0"}) == "A B C D BM=64 ");
  CHECK(pruned({.kernel = "kernel_2"}) == "C ");
  CHECK(pruned({.losers = true}) == "B ");
  CHECK(pruned({.candidates = true}) == "BM=64 ");
  CHECK(pruned({.noisy = true}) == "D ");
  CHECK(pruned({.kernel = "kernel_2", .noisy = true}) == "C D ");
}
