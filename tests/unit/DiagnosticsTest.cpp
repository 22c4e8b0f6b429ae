// SPDX-License-Identifier: Apache-2.0
#include "dsl/BuildId.h"
#include "dsl/Context.h"
#include "dsl/Diagnostics.h"
#include "dsl/Lower.h"
#include "tests/support/InChild.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace sectile;

namespace {

/// Lowers a module given as text; returns what was thrown.
std::string lowerText(const char *text, std::string *reproducer = nullptr) {
  ContextLease context;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  REQUIRE(module);
  StageTimes times;
  LowerOptions options;
  options.kernel = "k";
  options.until = Stage::ptx;
  try {
    lower(*module, options, times);
  } catch (const UserError &e) {
    return std::string("user: ") + e.what();
  } catch (const InternalError &e) {
    if (reproducer)
      *reproducer = e.reproducer();
    return std::string("internal: ") + e.what();
  }
  return "nothing";
}

/// A legal module with an op that no lowering has: what a bug of ours looks like from outside.
const char *const unknownOp = R"(
func.func @k(%x: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %i = tile.grid %x [64] : !tile.tensor<1, f32> -> index
  %j = arith.ceildivsi %i, %i : index
  %v = tile.load %x[%j] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %v, %x[%i] : tensor<64xf32>, !tile.tensor<1, f32>
  return
})";

} // namespace

TEST_CASE("Every build of the library has a number of its own, which belongs to the key of what it compiles", "[dsl]") {
  CHECK(buildId().size() >= 16);
  CHECK(buildId().find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(buildId() == buildId());
}

TEST_CASE("Diagnostics: a message with a rule label is split into its parts", "[dsl][errors]") {
  ErrorParts parts;
  REQUIRE(splitDiagnostic("'tile.mma' op K of a (64) differs from K of b (32) [mma_c1]; load b as [64, N]", parts));
  CHECK(parts.op == "mma");
  CHECK(parts.message == "K of a (64) differs from K of b (32)");
  CHECK(parts.rule == "mma_c1");
  CHECK(parts.wayOut == "load b as [64, N]");
  ErrorParts brackets;
  REQUIRE(splitDiagnostic("shape [64, 32] is not [64] [load_c2]", brackets));
  CHECK(brackets.rule == "load_c2");
  CHECK(brackets.message == "shape [64, 32] is not [64]");
  CHECK(brackets.wayOut.empty());
  ErrorParts none;
  CHECK_FALSE(splitDiagnostic("expected ']' after [64, 32]", none));
  CHECK_FALSE(splitDiagnostic("", none));
}

TEST_CASE("Diagnostics: a limit of the target is the user's mistake, with both numbers", "[dsl][errors]") {
  // An fma product keeps both operands in shared memory: 2 x 256 x 256 x 4 bytes.
  std::string said = lowerText(R"(
func.func @k(%a: !tile.tensor<2, f32>, %c: !tile.tensor<2, f32>) attributes {tile.kernel} {
  %m, %n = tile.grid %c [256, 256] : !tile.tensor<2, f32> -> index, index
  %z = tile.constant dense<0.0> : tensor<256x256xf32>
  %x = tile.load %a[%m, %n] : !tile.tensor<2, f32> -> tensor<256x256xf32>
  %y = tile.load %a[%n, %m] : !tile.tensor<2, f32> -> tensor<256x256xf32>
  %r = tile.mma exact %x, %y, %z : tensor<256x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>
  tile.store %r, %c[%m, %n] : tensor<256x256xf32>, !tile.tensor<2, f32>
  return
})");
  CHECK(said.find("user: ") == 0);
  CHECK(said.find("232448") != std::string::npos);
  CHECK(said.find("check_resources_c") != std::string::npos);
}

TEST_CASE("Diagnostics: a bug of ours writes a reproducer that sectile-run replays", "[dsl][errors]") {
  std::string path;
  std::string said = lowerText(unknownOp, &path);
  REQUIRE(said.find("internal: ") == 0);
  CHECK(said.find("kernel 'k'") != std::string::npos);
  REQUIRE_FALSE(path.empty());
  CHECK(said.find(path) != std::string::npos);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str().find("// Replay: sectile-run --emit=cubin --arch=sm_90a " + path) != std::string::npos);
  CHECK(text.str().find("arith.ceildivsi") != std::string::npos);

  auto replay = test::inChild({}, [&] {
    std::string command = std::string(SECTILE_RUN) + " --emit=cubin --arch=sm_90a " + path;
    return std::to_string(WEXITSTATUS(std::system(command.c_str())));
  });
  CHECK(replay.said == "3");
  CHECK(replay.errors.find("arith.ceildivsi") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("Diagnostics: after a failed compile the next one works", "[dsl][errors]") {
  std::string path;
  CHECK(lowerText(unknownOp, &path) != "nothing");
  std::filesystem::remove(path);
  CHECK(lowerText(R"(
func.func @k(%x: !tile.tensor<1, f32>) attributes {tile.kernel} {
  %i = tile.grid %x [64] : !tile.tensor<1, f32> -> index
  %v = tile.load %x[%i] : !tile.tensor<1, f32> -> tensor<64xf32>
  tile.store %v, %x[%i] : tensor<64xf32>, !tile.tensor<1, f32>
  return
})") == "nothing");
}
