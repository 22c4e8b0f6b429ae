// SPDX-License-Identifier: Apache-2.0
// What a plain launch takes from the tuning record, what it does not, and what looking costs.
#include "autotune/Space.h"
#include "dsl/Choice.h"
#include "dsl/Compile.h"
#include "runtime/Env.h"
#include "tests/support/InChild.h"

#include <sectile/sectile.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

using namespace sectile;
using namespace sectile::autotune;
using test::ScratchDir;
namespace fs = std::filesystem;

namespace {

/// y = 2x; one kernel per N.
template <int N>
constexpr auto twice = kernel("tuned_twice", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {64, 128, 32});
  auto [i] = grid(Y, {B});
  Y.store({i}, X.load({i}, {B}) * 2.0f + 0.0f * float(N));
});
/// The same name, edited where every choice shows it, and where B = 128 alone does.
constexpr auto editedEverywhere = kernel("tuned_twice", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {64, 128, 32});
  auto [i] = grid(Y, {B});
  Y.store({i}, X.load({i}, {B}) * 3.0f + 0.0f);
});
constexpr auto editedFor128 = kernel("tuned_twice", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {64, 128, 32});
  auto [i] = grid(Y, {B});
  Y.store({i}, X.load({i}, {B}) * (B == 128 ? 3.0f : 2.0f) + 0.0f);
});
/// 128 has left the list; 256 has come.
constexpr auto without128 = kernel("tuned_twice", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {64, 256, 32});
  auto [i] = grid(Y, {B});
  Y.store({i}, X.load({i}, {B}) * 2.0f + 0.0f);
});
constexpr auto with256 = kernel("tuned_twice", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y, Config &cfg) {
  const int B = cfg.pick("B", {64, 128, 32, 256});
  auto [i] = grid(Y, {B});
  Y.store({i}, X.load({i}, {B}) * 2.0f + 0.0f);
});
constexpr auto covered = kernel("tuned_cover", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {1, 2, 4}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(Y, {B});
  Y.store({r, 0}, X.load({r, 0}, {B, BC}) * 2.0f);
});
/// Every row block of A times A's first 128 rows, in a loop that keeps what it begins with.
constexpr auto pipelined = kernel("tuned_pipelined", [](Tensor<const bf16, 2> A, Tensor<bf16, 2> Y, Config &cfg) {
  const int BM = cfg.pick("BM", {64, 128});
  auto [m] = grid(Y, {BM});
  Tile sums = zeros<f32>({BM, 128});
  for (Tile k : range(0, A.dim(1), 64))
    sums = mma(A.load({m, k}, {BM, 64}), A.load({0, k}, {128, 64}).t(), sums);
  Y.store({m, 0}, cast<bf16>(sums));
});
constexpr auto addConst = kernel("tuned_const", [](Tensor<i32, 1> Y, Const<i32> c, Config &cfg) {
  const int B = cfg.pick("B", {32, 64});
  auto [i] = grid(Y, {B});
  Y.store({i}, full<i32>({B}, int(c)));
});
/// A length that the body cannot have: 1024.
constexpr auto shortRows = kernel("tuned_short", [](Tensor<const f32, 2> X, Tensor<f32, 2> Y, Config &cfg) {
  const int B = cfg.pick("B", {1, 2}), BC = cfg.cover("BC", X, 1);
  auto [r] = grid(Y, {B});
  if (BC > 256)
    Y.store({r, 0}, X.load({r, 0}, {B, BC}) + full<f32>({3, 5}, 1.0f)); // a mistake
  else
    Y.store({r, 0}, X.load({r, 0}, {B, BC}) + 1.0f);
});

/// Memory that tensors of a test may point to.
struct Memory {
  std::vector<f32> bytes = std::vector<f32>(1 << 22);
  /// `offset` in elements from a place that 256 divides.
  f32 *at(std::size_t offset = 0) {
    auto address = (reinterpret_cast<std::uintptr_t>(bytes.data()) + 255) / 256 * 256;
    return reinterpret_cast<f32 *>(address) + offset;
  }
};
Memory &memory() {
  static Memory one;
  return one;
}
std::array<KernelArg, 2> vectors(std::int64_t n, std::size_t offset = 0) {
  return twice<0>.pack(Tensor<const f32, 1>(memory().at(offset), {n}), Tensor<f32, 1>(memory().at(1 << 21), {n}));
}
std::array<KernelArg, 2> rows(std::int64_t r, std::int64_t c) {
  return covered.pack(Tensor<const f32, 2>(memory().at(), {r, c}), Tensor<f32, 2>(memory().at(1 << 21), {r, c}));
}

/// A process whose record is this file, until the end of a test.
struct InFile {
  ScratchDir dir;
  std::string path = dir.file("tuning.sqlite");
  std::string before = std::getenv("SECTILE_TUNE_RECORD") ? std::getenv("SECTILE_TUNE_RECORD") : "";
  explicit InFile(const std::string &suffix = "") {
    setenv("SECTILE_TUNE_RECORD", (path + suffix).c_str(), 1);
    again();
  }
  ~InFile() {
    before.empty() ? unsetenv("SECTILE_TUNE_RECORD") : setenv("SECTILE_TUNE_RECORD", before.c_str(), 1);
    again();
  }
  /// As a new process would.
  static void again() {
    runtime::reloadEnv();
    reloadRecord();
  }
};

RecordRow rowFor(const detail::KernelDesc &k, std::span<const KernelArg> args, const std::string &choice,
                 const Device &device = Device::interpreter()) {
  RecordRow row;
  row.key = recordKey(k, args, device, contentOf(k, args));
  row.choice = choice;
  const std::optional<Config> config = parseChoice(choice);
  row.choiceContent = config ? contentOf(k, args, &*config) : "none";
  row.dims = dimsText(args);
  row.medianNs = 1000, row.lowNs = 990, row.highNs = 1010;
  row.date = 1700000000;
  row.tried = 3;
  row.isFinal = true;
  return row;
}
/// Puts a row as another process would, and begins anew.
void putRow(const InFile &file, const RecordRow &row) {
  Record record(file.path);
  REQUIRE(record.put(row));
  InFile::again();
}
int chosenB(const detail::KernelDesc &k, std::span<const KernelArg> args, const Config *overrides = nullptr) {
  return variantOfLaunch(k, Device::interpreter(), args, overrides)->config.get("B").value_or(-1);
}
std::string origin(const detail::KernelDesc &k, std::span<const KernelArg> args) {
  return recordedChoice(k, args, Device::interpreter()).origin;
}

} // namespace

TEST_CASE("A choice is text: picks and schedule, without what follows from the arguments", "[dsl][tuned]") {
  Config config = Config().set("BM", 64).set("BK", 32);
  config.warps = 8;
  config.split = 1;
  CHECK(choiceText(config) == "BK=32 BM=64 warps=8 split=1");
  CHECK(parseChoice(choiceText(config)) == config);
  CHECK(choiceText(Config()) == "");
  CHECK(parseChoice("") == Config());
  for (const autotune::ScheduleField &field : autotune::scheduleFields()) {
    config.*field.member = 2;
    CHECK(choiceText(config).find(std::string(field.name) + "=2") != std::string::npos);
    CHECK(parseChoice(choiceText(config)) == config);
  }
  for (const char *bad : {"BM", "BM=", "=3", "BM=3x", "BM=3 BM=4", "BM=3  BK=4", " BM=3", "BM=99999999999", "warps=8 warps=8", "BM=3.5", "\n"})
    CHECK_FALSE(parseChoice(bad));
  CHECK(parseChoice("BM=-3")->get("BM") == -3);
  InFile file;
  const auto args = rows(8, 1000);
  const auto compiled = variantOfLaunch(covered.desc(), Device::interpreter(), args);
  CHECK(compiled->config.str() == "B=1 BC=1024");
  CHECK(choiceText(compiled->config) == "B=1");
}

TEST_CASE("A plain launch never tunes and makes no record", "[dsl][tuned]") {
  InFile file;
  CHECK(chosenB(twice<1>.desc(), vectors(1000)) == 64);
  CHECK(fs::is_empty(file.dir.path()));
  CHECK(origin(twice<1>.desc(), vectors(1000)) == "no row for the kernel");
}

TEST_CASE("A launch takes the record's choice, else that of the nearest shape, else the first of every pick", "[dsl][tuned]") {
  InFile file;
  const detail::KernelDesc k = twice<2>.desc();
  putRow(file, rowFor(k, vectors(4000), "B=128"));
  CHECK(chosenB(k, vectors(4000)) == 128);
  CHECK(origin(k, vectors(4000)) == "record");
  CHECK(chosenB(k, vectors(3680)) == 128); // the same bucket, and 32 divides both
  CHECK(origin(k, vectors(3680)) == "record");
  CHECK(chosenB(k, vectors(3001)) == 128);
  CHECK(origin(k, vectors(3001)) == "record of 4000;4000");
  CHECK(chosenB(k, vectors(8192)) == 128);
  CHECK(chosenB(k, vectors(20000)) == 64); // further than a factor of four in both axes together
  CHECK(chosenB(k, vectors(100)) == 64);
  CHECK(origin(k, vectors(100)) == "no row for these arguments on this device");
  // A pointer that is not aligned is another layout.
  CHECK(chosenB(k, vectors(4000, 1)) == 64);
  // What is set by hand stands.
  const Config hand = Config().set("B", 32);
  CHECK(chosenB(k, vectors(4000), &hand) == 32);
  // The numbers that come out are right, and prepared launches take the same.
  Stream stream = Device::interpreter().stream();
  Buffer<f32> x(stream, 4000), y(stream, 4000);
  std::vector<f32> host(4000);
  std::iota(host.begin(), host.end(), 0.0f);
  x.copyFrom(host);
  y.fillBytes(0);
  twice<2>(stream, x, y);
  CHECK(y.toHost()[3999] == 7998.0f);
  y.fillBytes(0);
  twice<2>.prepare(x, y)(stream);
  CHECK(y.toHost()[3999] == 7998.0f);
}

TEST_CASE("Each shape, type and alignment is tuned or matched on its own", "[dsl][tuned]") {
  InFile file;
  const detail::KernelDesc k = twice<3>.desc();
  Record record(file.path);
  REQUIRE(record.put(std::vector{rowFor(k, vectors(128), "B=32"), rowFor(k, vectors(4096), "B=128"), rowFor(k, vectors(4095), "B=32"),
                                 rowFor(k, vectors(4096, 1), "B=64")}));
  InFile::again();
  for (int round = 0; round < 2; ++round) {
    CHECK(chosenB(k, vectors(128)) == 32);
    CHECK(chosenB(k, vectors(4096)) == 128);
    CHECK(chosenB(k, vectors(4095)) == 32);
    CHECK(chosenB(k, vectors(4096, 1)) == 64);
  }
  // A constant is part of the kernel's content.
  const auto three = addConst.pack(Tensor<i32, 1>(reinterpret_cast<i32 *>(memory().at()), {100}), 3);
  const auto four = addConst.pack(Tensor<i32, 1>(reinterpret_cast<i32 *>(memory().at()), {100}), 4);
  putRow(file, rowFor(addConst.desc(), three, "B=64"));
  CHECK(chosenB(addConst.desc(), three) == 64);
  CHECK(chosenB(addConst.desc(), four) == 32);
}

TEST_CASE("P21b: a choice of another GPU, driver, compiler or assembler is not used", "[dsl][tuned]") {
  InFile file;
  const detail::KernelDesc k = twice<4>.desc();
  std::vector<RecordRow> others(5, rowFor(k, vectors(1000), "B=128"));
  others[0].key.gpu = "NVIDIA H200";
  others[1].key.multiprocessors = 132;
  others[2].key.driver = "13.0";
  others[3].key.compiler += "0";
  others[4].key.assembler = "13.0.88";
  Record record(file.path);
  REQUIRE(record.put(others));
  InFile::again();
  CHECK(chosenB(k, vectors(1000)) == 64);
  CHECK(origin(k, vectors(1000)) == "no row for these arguments on this device");
  // Tuned again it stands beside them.
  putRow(file, rowFor(k, vectors(1000), "B=32"));
  CHECK(chosenB(k, vectors(1000)) == 32);
  CHECK(Record(file.path).rows().size() == 6);
}

TEST_CASE("P21b: an edited record is not used", "[dsl][tuned]") {
  InFile file(":shared");
  const detail::KernelDesc k = twice<5>.desc();
  Record record(file.path, Record::Mode::readWrite, FileSystem::shared);
  REQUIRE(record.put(rowFor(k, vectors(1000), "B=128")));
  const std::string part = fs::directory_iterator(file.path + ".parts")->path();
  std::ifstream in(part);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find("B=128"), 5, "B=032");
  std::ofstream(part) << text;
  const auto child = test::inChild({}, [&] {
    InFile::again();
    return std::to_string(chosenB(k, vectors(1000)));
  });
  CHECK(child.said == "64");
  CHECK(child.errors.find("1 rows are damaged or were edited, and are not used") != std::string::npos);
  InFile::again();
  putRow(file, rowFor(k, vectors(1000), "B=32"));
  CHECK(chosenB(k, vectors(1000)) == 32);
}

TEST_CASE("P21b: a choice that the kernel no longer has is not used, with the reason", "[dsl][tuned]") {
  InFile file;
  const auto args = vectors(1000);
  putRow(file, rowFor(twice<0>.desc(), args, "B=128"));
  CHECK(chosenB(twice<0>.desc(), args) == 128);
  // A list that grew is the same kernel.
  CHECK(chosenB(with256.desc(), args) == 128);
  CHECK(chosenB(without128.desc(), args) == 64);
  CHECK(origin(without128.desc(), args) == "'B=128' of the record is not used: \"B\" is set to 128, which is not among {64, 256, 32}");
  for (auto [choice, why] : {std::pair("BQ=128", "\"BQ\""), std::pair("B", "it is no configuration")}) {
    InFile other;
    putRow(other, [&] {
      RecordRow row = rowFor(twice<0>.desc(), args, "B=128");
      row.choice = choice;
      return row;
    }());
    CHECK(chosenB(twice<0>.desc(), args) == 64);
    INFO(origin(twice<0>.desc(), args));
    CHECK(origin(twice<0>.desc(), args).find(why) != std::string::npos);
  }
  const auto child = test::inChild({{"SECTILE_LOG", "1"}}, [&] {
    InFile::again();
    return std::to_string(chosenB(without128.desc(), args));
  });
  CHECK(child.errors.find("tuned_twice: 'B=128' of the tuning record is not used: \"B\" is set to 128") != std::string::npos);
}

TEST_CASE("Editing a kernel invalidates its choices by content", "[dsl][tuned]") {
  InFile file;
  const auto args = vectors(1000);
  putRow(file, rowFor(twice<0>.desc(), args, "B=128"));
  CHECK(chosenB(editedEverywhere.desc(), args) == 64);
  CHECK(origin(editedEverywhere.desc(), args) == "no row for these arguments on this device");
  CHECK(contentOf(editedFor128.desc(), args) == contentOf(twice<0>.desc(), args));
  CHECK(chosenB(editedFor128.desc(), args) == 64);
  CHECK(origin(editedFor128.desc(), args) == "'B=128' of the record is not used: the kernel was edited");
  // So too for the neighbour's.
  CHECK(chosenB(editedFor128.desc(), vectors(1500)) == 64);
  CHECK(chosenB(twice<0>.desc(), vectors(1500)) == 128);
  CHECK(chosenB(twice<0>.desc(), args) == 128);
}

TEST_CASE("Contents do not depend on shapes, nor on the place of the source", "[dsl][tuned]") {
  const auto a = rows(8, 1000), b = rows(100, 40);
  CHECK(contentOf(covered.desc(), a) == contentOf(covered.desc(), b));
  CHECK(contentOf(twice<0>.desc(), vectors(100)) == contentOf(without128.desc(), vectors(5000, 1)));
  // A body that is not for the fixed length: its content is that for the arguments.
  CHECK(contentOf(shortRows.desc(), rows(8, 200)) == contentOf(shortRows.desc(), rows(9, 250)));
  CHECK(contentOf(shortRows.desc(), rows(8, 200)) != contentOf(shortRows.desc(), rows(8, 100)));
  CHECK_THROWS_AS(contentOf(shortRows.desc(), rows(8, 2000)), UserError);
  InFile file;
  putRow(file, rowFor(shortRows.desc(), rows(8, 200), "B=2"));
  CHECK(chosenB(shortRows.desc(), rows(8, 200)) == 2);
  CHECK(chosenB(shortRows.desc(), rows(8, 100)) == 1);
}

TEST_CASE("A neighbour's choice that does not fit these arguments is left, and the launch runs", "[dsl][tuned]") {
  InFile file;
  // A cover set by hand that is too short for the neighbour.
  const auto small = rows(64, 208), large = rows(64, 304);
  putRow(file, rowFor(covered.desc(), small, "B=2 BC=256"));
  CHECK(chosenB(covered.desc(), small) == 2);
  CHECK(chosenB(covered.desc(), rows(64, 224)) == 2);
  INFO(origin(covered.desc(), large));
  CHECK(origin(covered.desc(), large).starts_with("'B=2 BC=256' of the record of 64x208;64x208 is not used: \"BC\" is set to 256"));
  CHECK(chosenB(covered.desc(), large) == 1);
}

TEST_CASE("On a GPU: the record's choice with its schedule, and one that the target refuses", "[dsl][tuned]") {
  InFile file;
  const auto child = test::inChild({{"SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA}, {"SECTILE_PTXAS", "none"}, {"SECTILE_CACHE", "0"}, {"SECTILE_LOG", "1"}},
                                   [&]() -> std::string {
                                     InFile::again();
                                     const Device gpu = Device::gpu(0);
                                     const detail::KernelDesc k = twice<11>.desc();
                                     Record record(file.path);
                                     if (!record.put(std::vector{rowFor(k, vectors(1000), "B=128 warps=2", gpu), rowFor(k, vectors(9000), "B=32 warps=77", gpu),
                                                                 rowFor(k, vectors(1000), "B=32")}))
                                       return "not put";
                                     InFile::again();
                                     const RecordKey key = recordKey(k, vectors(1000), gpu, "c");
                                     auto config = [&](std::int64_t n) { return variantOfLaunch(k, gpu, vectors(n))->config.str(); };
                                     std::string said = config(1000) + "|" + config(9000) + "|" + config(1500);
                                     return fmt::format("{}|{}|{}|{}|{}|{}", said, key.gpu == gpu.name(), key.multiprocessors == gpu.properties().multiprocessors,
                                                        key.driver.empty(), key.assembler, chosenB(k, vectors(1000)));
                                   });
  INFO(child.errors);
  CHECK(child.said == "B=128 warps=2|B=64|B=128 warps=2|true|true|false|driver|32");
  CHECK(child.errors.find("tuned_twice: cfg(B=128 warps=2) from the tuning record\n") != std::string::npos);
  CHECK(child.errors.find("tuned_twice: cfg(B=128 warps=2) from the tuning record of 1000;1000\n") != std::string::npos);
  CHECK(child.errors.find("tuned_twice: cfg(B=32 warps=77) of the tuning record is not used: ") != std::string::npos);
}

TEST_CASE("On a GPU: every schedule choice that the record holds is taken by a launch", "[dsl][tuned]") {
  const auto child = test::inChild({{"SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA}, {"SECTILE_PTXAS", "none"}, {"SECTILE_CACHE", "0"}}, []() -> std::string {
    runtime::reloadEnv();
    const Device gpu = Device::gpu(0);
    const detail::KernelDesc k = pipelined.desc();
    void *const somewhere = memory().at();
    const auto args = pipelined.pack(Tensor<const bf16, 2>(static_cast<const bf16 *>(somewhere), {1024, 128}), Tensor<bf16, 2>(static_cast<bf16 *>(somewhere), {1024, 128}));
    std::string wrong;
    for (const ScheduleField &field : scheduleFields()) {
      if (std::string_view(field.name) == "cluster")
        continue; // products do not share one program
      const InFile file;
      const std::string choice = fmt::format("BM=128 {}={}", field.name, std::string_view(field.name) == "warps" ? 4 : 2);
      putRow(file, rowFor(k, args, choice, gpu));
      if (const std::string taken = variantOfLaunch(k, gpu, args)->config.str(); taken != choice)
        wrong += fmt::format("'{}' instead of '{}'; ", taken, choice);
    }
    return wrong.empty() ? "all taken" : wrong;
  });
  INFO(child.errors);
  CHECK(child.said == "all taken");
}

TEST_CASE("A choice that is noted while the process runs is taken by the next launch", "[dsl][tuned]") {
  InFile file;
  const detail::KernelDesc k = twice<6>.desc();
  const auto args = vectors(1000);
  CHECK(chosenB(k, args) == 64);
  const auto other = variantOfLaunch(covered.desc(), Device::interpreter(), rows(8, 100));
  CHECK(noteInRecord(std::vector{rowFor(k, args, "B=128")}));
  CHECK(chosenB(k, args) == 128);
  CHECK(chosenB(k, args) == 128);
  // Another kernel's variants stay.
  CHECK(variantOfLaunch(covered.desc(), Device::interpreter(), rows(8, 100)) == other);
  CHECK(Record(file.path).rows().size() == 1);
  RecordRow faster = rowFor(k, args, "B=32");
  faster.medianNs = 500, faster.lowNs = 490, faster.highNs = 510;
  CHECK(noteInRecord(std::vector{faster}));
  CHECK(chosenB(k, args) == 32);
  // Measurements of candidates change no launch.
  const std::uint64_t version = recordVersion(k);
  RecordRow candidate = rowFor(k, args, "B=128");
  candidate.kind = RecordRow::Kind::candidate;
  CHECK(noteInRecord(std::vector{candidate}));
  CHECK(recordVersion(k) == version);
}

TEST_CASE("A record that takes no rows keeps them for the process", "[dsl][tuned]") {
  InFile file(":ro");
  const detail::KernelDesc k = twice<7>.desc();
  const auto child = test::inChild({}, [&] {
    const bool stored = noteInRecord(std::vector{rowFor(k, vectors(1000), "B=128")});
    return fmt::format("{} {} {}", stored, chosenB(k, vectors(1000)), fs::is_empty(file.dir.path()));
  });
  CHECK(child.said == "false 128 true");
  CHECK(child.errors.find("it is open for reading alone") != std::string::npos);
  setenv("SECTILE_TUNE_RECORD", "none", 1);
  InFile::again();
  CHECK_FALSE(noteInRecord(std::vector{rowFor(k, vectors(1000), "B=32")}));
  CHECK(chosenB(k, vectors(1000)) == 32);
}

TEST_CASE("A damaged or unreadable record is said once, and launches run", "[dsl][tuned]") {
  for (bool isFolder : {false, true}) {
    InFile file;
    if (isFolder)
      fs::create_directory(file.path);
    else
      std::ofstream(file.path) << std::string(3000, 'x');
    const auto child = test::inChild({}, [&] {
      InFile::again();
      std::string said;
      for (std::int64_t n : {1000, 2000, 1000})
        said += std::to_string(chosenB(twice<8>.desc(), vectors(n))) + " ";
      InFile::again();
      return said + std::to_string(chosenB(twice<8>.desc(), vectors(1000)));
    });
    INFO(child.errors);
    CHECK(child.said == "64 64 64 64");
    const std::string part = isFolder ? "is not used: it is not a regular file\n" : "is set aside as";
    const std::size_t at = child.errors.find(part);
    CHECK(at != std::string::npos);
    CHECK(child.errors.find(part, at + 1) == std::string::npos);
  }
}

TEST_CASE("Many threads launch while choices are noted", "[dsl][tuned]") {
  InFile file;
  const detail::KernelDesc k = twice<9>.desc();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        const int b = chosenB(k, vectors(500 * (1 + (i + t) % 3)));
        wrong += b != 64 && b != 128 && b != 32;
      }
    });
  for (int i = 0; i < 30; ++i) {
    RecordRow row = rowFor(k, vectors(500 * (1 + i % 3)), i % 2 ? "B=128" : "B=32");
    row.date += i;
    REQUIRE(noteInRecord(std::vector{row}));
  }
  stop = true;
  for (std::thread &t : threads)
    t.join();
  CHECK(wrong == 0);
  for (int i : {1, 2, 3})
    CHECK(chosenB(k, vectors(500 * i)) == 128); // of "B=128" and "B=32" within the noise the first as text
}

TEST_CASE("Looking up a tuned choice that is warm takes at most 200 ns", "[dsl][tuned][speed]") {
  InFile file;
  const detail::KernelDesc k = twice<10>.desc();
  Record record(file.path);
  std::vector<RecordRow> all;
  for (int i = 0; i < 500; ++i) { // the size of the record does not matter
    RecordRow row = rowFor(k, vectors(1000), "B=128");
    row.key.shape = fmt::format("{}/1;{}/1", i, i);
    all.push_back(row);
  }
  all.push_back(rowFor(k, vectors(1000), "B=128"));
  all.push_back(rowFor(k, vectors(3000), "B=32"));
  REQUIRE(record.put(all));
  InFile::again();
  const Device device = Device::interpreter();
  const std::array<KernelArg, 2> shapes[] = {vectors(1000), vectors(3000)};
  CHECK(chosenB(k, shapes[0]) == 128);
  CHECK(chosenB(k, shapes[1]) == 32);
#ifdef __SANITIZE_ADDRESS__
  constexpr double most = 5000; // what is measured is not what is shipped
#else
  constexpr double most = 200;
#endif
  /// Nanoseconds per look-up in the quickest of many rounds: what it takes when nothing interrupts. On a machine that is busy
  /// with other things it takes some seconds to see that.
  auto nanos = [&](auto lookUp) {
    using Clock = std::chrono::steady_clock;
    double least = 1e9;
    const auto start = Clock::now();
    for (int round = 0; round < 200 || (least > most && Clock::now() - start < std::chrono::seconds(5)); ++round) {
      constexpr int count = 500;
      const auto began = Clock::now();
      for (int i = 0; i < count; ++i)
        lookUp(i);
      least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - began).count() / count);
    }
    return least;
  };
  const void *seen = nullptr;
  const double same = nanos([&](int) { seen = variantOfLaunch(k, device, shapes[0]).get(); });
  const double turns = nanos([&](int i) { seen = variantOfLaunch(k, device, shapes[i & 1]).get(); });
  CHECK(seen);
  WARN(fmt::format("a tuned variant: {:.0f} ns for the arguments of the launch before, {:.0f} ns for others", same, turns));
  CHECK(same <= most);
  CHECK(turns <= most);
}
