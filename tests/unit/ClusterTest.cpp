// SPDX-License-Identifier: Apache-2.0
/// \file What ptxas makes of programs that the blocks of a cluster run together.
#include "passes/Pipeline.h"
#include "tests/support/EmitKernel.h"
#include "tests/support/InterpHarness.h"

#include <catch2/catch.hpp>

using namespace sectile;
using namespace sectile::test;

namespace {

/// Softmax of whole rows, or their mean and variance, in f32 inside.
std::string rowText(int width, DType t, bool softmax) {
  std::string view = tensorType(2, t), tile = tileType({1, width}, t),
              wide = tileType({1, width}, DType::f32), line = tileType({1, 1}, DType::f32);
  std::string facts =
      " {tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_div = array<i64: 16, 1>, "
      "tile.dim_div = array<i64: 1, 16>}";
  std::string body = R"(
      %r = tile.grid %X [1] : )" +
                     view + R"( -> index
      %c0 = tile.constant 0 : index
      %l = tile.load %X[%r, %c0] : )" +
                     view + " -> " + tile + "\n";
  body += t == DType::f32 ? "      %x = tile.binary add %l, %l : " + wide + "\n"
                          : "      %x = tile.cast %l : " + tile + " -> " + wide + "\n";
  auto reduce = [&](const std::string &to, const std::string &kind, const std::string &from) {
    body += "      %" + to + "1 = tile.reduce " + kind + " %" + from + ", 1 : " + wide + " -> " + line +
            "\n      %" + to + " = tile.broadcast %" + to + "1 : " + line + " -> " + wide + "\n";
  };
  if (softmax) {
    reduce("m", "max", "x");
    body += "      %d = tile.binary sub %x, %m : " + wide + "\n      %e = tile.unary exp %d : " + wide +
            " -> " + wide + "\n";
    reduce("s", "sum", "e");
    body += "      %o = tile.binary div %e, %s : " + wide + "\n";
  } else {
    reduce("s", "sum", "x");
    body += "      %q = tile.binary mul %x, %x : " + wide + "\n";
    reduce("v", "sum", "q");
    body += "      %d = tile.binary sub %x, %s : " + wide + "\n      %o = tile.binary mul %d, %v : " + wide +
            "\n";
  }
  body += t == DType::f32 ? "      %y = tile.binary add %o, %o : " + wide + "\n"
                          : "      %y = tile.cast %o : " + wide + " -> " + tile + "\n";
  body += "      tile.store %y, %Y[%r, %c0] : " + tile + ", " + view;
  return kernelText("%X: " + view + facts + ", %Y: " + view + facts, body);
}

/// The kernel after the passes, as text; empty with `messages` if they fail.
std::string lowered(const std::string &text, const passes::PipelineOptions &options, std::string &messages) {
  Interpreted kernel(text);
  messages += kernel.messages;
  if (!kernel.module)
    return "";
  mlir::ScopedDiagnosticHandler handler(&kernel.context,
                                        [&](mlir::Diagnostic &d) { messages += d.str() + "\n"; });
  mlir::PassManager pm(&kernel.context);
  passes::buildPipeline(pm, options);
  if (mlir::failed(pm.run(*kernel.module)))
    return "";
  std::string result;
  llvm::raw_string_ostream(result) << *kernel.module;
  return result;
}

} // namespace

TEST_CASE("rows of up to 131072 elements stay in registers", "[passes][ptxas]") {
  for (const char *arch : {"sm_90a", "sm_100a"})
    for (auto [width, cluster] : {std::pair(16384, 1), {32768, 2}, {65536, 4}, {131072, 8}})
      for (DType t : {DType::f32, DType::bf16})
        for (bool softmax : {false, true}) {
          INFO(arch << " " << width << " " << name(t) << " softmax " << softmax);
          passes::PipelineOptions options;
          options.arch = arch;
          options.schedule.warps = 16;
          std::string messages;
          testing::Emitted e = testing::emitText(lowered(rowText(width, t, softmax), options, messages));
          INFO(messages);
          INFO(e.errors);
          REQUIRE(e.ok);
          CHECK(e.artifact.launch.cluster == cluster);
          CHECK(e.artifact.launch.threads == 512);
          auto has = [&](const char *what) { return e.artifact.ptx.find(what) != std::string::npos; };
          CHECK(has("st.async") == (cluster > 1));
          CHECK(has(".reqnctapercluster") == (cluster > 1));
          CHECK(has("bar.sync") == (cluster == 1));
          std::optional<testing::Assembled> code = testing::assemble(e.artifact);
          if (!code) {
            WARN("ptxas not found: only LLVM's part is checked");
            continue;
          }
          INFO(code->log);
          CHECK(code->ok);
          CHECK(code->spillBytes == 0);
        }
}

TEST_CASE("parts of reductions of every type travel between blocks", "[passes][ptxas]") {
  for (DType t : {DType::f64, DType::f16, DType::bf16, DType::e4m3, DType::e5m2, DType::i8, DType::u16, DType::i64}) {
    INFO(name(t));
    std::string view = tensorType(2, t), tile = tileType({1, 8192}, t), line = tileType({1, 1}, t);
    std::string text = kernelText("%X: " + view + ", %Y: " + view, R"(
      %r = tile.grid %X [1] : )" + view + R"( -> index
      %c0 = tile.constant 0 : index
      %l = tile.load %X[%r, %c0] : )" + view + " -> " + tile + R"(
      %m = tile.reduce max %l, 1 : )" + tile + " -> " + line + R"(
      tile.store %m, %Y[%r, %c0] : )" + line + ", " + view);
    passes::PipelineOptions options;
    options.arch = "sm_90a";
    options.schedule.cluster = 4;
    std::string messages, final = lowered(text, options, messages);
    INFO(messages);
    testing::Emitted e = testing::emitText(final);
    INFO(e.errors);
    REQUIRE(e.ok);
    // Words carry the bits of a narrow float: a cast back would lose infinities where it saturates.
    bool narrow = isFloat(t) && byteSize(t) < 4;
    CHECK((final.find("tgpu.bits") != std::string::npos) == narrow);
    CHECK((final.find("tile.cast") != std::string::npos) == (!narrow && byteSize(t) < 4));
    CHECK(e.artifact.ptx.find(byteSize(t) == 8 ? "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64"
                                               : "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32") !=
          std::string::npos);
    if (std::optional<testing::Assembled> code = testing::assemble(e.artifact)) {
      INFO(code->log);
      CHECK(code->ok);
    }
  }
}
