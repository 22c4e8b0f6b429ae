// SPDX-License-Identifier: Apache-2.0
#include "runtime/Ptxas.h"
#include "runtime/Env.h"
#include "tests/support/InChild.h"

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace sectile;
using namespace sectile::runtime;
using test::Environment;
using test::inChild;
using test::ScratchDir;

namespace {

const char *const goodPtx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {
  .reg .b64 %rd<3>;
  .shared .align 4 .b8 s[1024];
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u64 [%rd2], %rd1;
  ret;
}
)";

/// Writes an executable shell script.
std::string script(const ScratchDir &dir, const std::string &name, const std::string &body) {
  std::string path = dir.file(name);
  std::ofstream(path) << "#!/bin/sh\n" << body;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}
/// A ptxas that answers --version and then does `body`; $4 is the input and $6 the output of `-O3 -v
/// -arch= in -o out`.
std::string fakePtxas(const ScratchDir &dir, const std::string &body) {
  return script(
      dir, "ptxas",
      "if [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 9.9, V9.9.123'; exit 0; fi\n" +
          body);
}
/// What assemble() gives with this program, in a child, printed by `show`.
std::string assembleWith(const std::string &program,
                         const std::function<std::string(const PtxasResult &)> &show, Environment more = {}) {
  more.push_back({"SECTILE_PTXAS", program});
  return inChild(more,
                 [&] {
                   reloadEnv();
                   return show(Ptxas::find()->assemble(goodPtx, "sm_90a"));
                 })
      .said;
}
std::string problem(const PtxasResult &r) { return (r.ok ? "ok " : "failed ") + r.problem; }
bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("Ptxas: registers, spills, shared bytes and C75xx out of a log", "[runtime][ptxas]") {
  PtxasResult r;
  r.log = "ptxas info    : 0 bytes gmem\n"
          "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized "
          "due to "
          "insufficient register resources for the wgmma pipeline in the function 'k'\n"
          "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
          "ptxas info    : Function properties for k\n"
          "    40 bytes stack frame, 24 bytes spill stores, 16 bytes spill loads\n"
          "ptxas info    : Used 168 registers, used 1 barriers, 49152 bytes smem, 400 bytes cmem[0]\n"
          "    0 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads\n"
          "ptxas info    : Used 32 registers, 380 bytes cmem[0]";
  parsePtxasLog(r);
  CHECK(r.registers == 168);
  CHECK(r.spillBytes == 44);
  CHECK(r.sharedBytes == 49152);
  REQUIRE(r.performanceLosses.size() == 1);
  CHECK(has(r.performanceLosses[0], "C7510"));

  PtxasResult nothing;
  nothing.log = "ptxas fatal   : broken\n";
  parsePtxasLog(nothing);
  CHECK((nothing.registers == -1 && nothing.spillBytes == -1 && nothing.sharedBytes == -1));
}

TEST_CASE("Ptxas: assembles, and says what is wrong with bad PTX", "[runtime][ptxas][needs-ptxas]") {
  std::optional<Ptxas> ptxas = Ptxas::find();
  if (!ptxas) {
    WARN("skipped: no ptxas");
    return;
  }
  CHECK(ptxas->version().find('.') != std::string::npos);
  PtxasResult good = ptxas->assemble(goodPtx, "sm_90a");
  REQUIRE(good.problem == "");
  CHECK(good.ok);
  CHECK(good.cubin.substr(0, 4) == "\x7f"
                                   "ELF");
  CHECK(good.registers > 0);
  CHECK(good.spillBytes == 0);

  PtxasResult bad = ptxas->assemble(std::string(goodPtx) + "nonsense", "sm_90a");
  CHECK(!bad.ok);
  CHECK(bad.cubin.empty());
  CHECK(has(bad.problem, "ended with exit code"));
  CHECK(has(bad.problem, "error"));

  PtxasResult arch = ptxas->assemble(goodPtx, "sm_1");
  CHECK(!arch.ok);
  CHECK(has(arch.problem, "sm_1"));

  // From several threads at once: no shared file.
  std::vector<std::thread> threads;
  std::vector<int> ok(4);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { ok[i] = ptxas->assemble(goodPtx, "sm_90a").cubin == good.cubin; });
  for (auto &t : threads)
    t.join();
  CHECK(ok == std::vector<int>{1, 1, 1, 1});
}

TEST_CASE("Ptxas: room for blocks is given up where the code spills under it", "[runtime][ptxas]") {
  const std::string head = ".version 8.0\n.entry k()\n.reqntid 64\n", tail = "{ ret; }\n";
  auto ptx = [&](int blocks) {
    return head + (blocks ? ".minnctapersm " + std::to_string(blocks) + "\n" : "") + tail;
  };
  CHECK(withLessRoom(ptx(8), false) == ptx(7));
  CHECK(withLessRoom(ptx(3) + ptx(2), false) == ptx(2) + ptx(0));
  CHECK(withLessRoom(ptx(2), false) == ptx(0));
  CHECK(withLessRoom(ptx(8), true) == ptx(0));
  CHECK(withLessRoom(ptx(0), false) == ptx(0));
  CHECK(withLessRoom(".minnctapersm 4", true) == "");
  CHECK(withLessRoom("// .minnctapersm 4\n", true) == "// .minnctapersm 4\n");
  CHECK(withLessRoom("", true) == "");
  const std::string roles = ".minnctapersm 2\nsetmaxnreg.dec.sync.aligned.u32 24;\n"; // the plan that registers are handed over by
  CHECK(withLessRoom(roles, true) == roles);

  // One that spills what `case` says for the text it is given, and whose cubin is that text.
  ScratchDir dir;
  auto run = [&](const std::string &spills, int blocks) {
    std::string program = fakePtxas(dir, "room=$(sed -n 's/^.minnctapersm //p' $4)\ncase \"$room\" in " + spills +
                                             " esac\necho \"$n bytes spill stores, 0 bytes spill loads\"\ncp $4 $6");
    return inChild({{"SECTILE_PTXAS", program}},
                   [&] {
                     reloadEnv();
                     std::string text = ptx(blocks);
                     PtxasResult r = Ptxas::find()->assembleWithRoom(text, "sm_90a");
                     if (r.ok && r.cubin != text)
                       return std::string("the text is not that of the cubin");
                     for (int n : {0, 2, 3, 4})
                       if (text == ptx(n))
                         return fmt::format("{} room {} spills {}", r.ok ? "ok" : "failed", n, r.spillBytes);
                     return "another text: " + text;
                   })
        .said;
  };
  CHECK(run("*) n=0;;", 4) == "ok room 4 spills 0");
  CHECK(run("4) n=16;; *) n=0;;", 4) == "ok room 3 spills 0");
  CHECK(run("4|3) n=16;; *) n=0;;", 4) == "ok room 0 spills 0");
  CHECK(run("2) n=16;; *) n=0;;", 2) == "ok room 0 spills 0");
  CHECK(run("*) n=16;;", 0) == "ok room 0 spills 16");
  CHECK(run("4) n=16;; *) n=24;;", 4) == "ok room 4 spills 16");           // no better
  CHECK(run("4) n=16;; 3) n=8;; *) exit 1;;", 4) == "ok room 3 spills 8"); // what fails is not taken
  CHECK(run("4) exit 1;; *) n=0;;", 4) == "failed room 4 spills -1");
}

TEST_CASE("Ptxas: where it is looked for", "[runtime][ptxas]") {
  ScratchDir first, second;
  std::string inPath = fakePtxas(first, "exit 1");
  std::filesystem::create_directories(second.file("bin"));
  std::filesystem::copy(inPath, second.file("bin/ptxas"));
  auto find = [](Environment e) {
    return inChild(e,
                   [] {
                     reloadEnv();
                     auto p = Ptxas::find();
                     return p ? p->path() + " " + p->version() : std::string("none");
                   })
        .said;
  };
  std::string path = first.path() + "::/nowhere";
  CHECK(find({{"SECTILE_PTXAS", ""}, {"PATH", path}, {"CUDA_HOME", second.path()}}) == inPath + " 9.9.123");
  CHECK(find({{"SECTILE_PTXAS", ""}, {"PATH", "/nowhere"}, {"CUDA_HOME", second.path()}}) ==
        second.file("bin/ptxas") + " 9.9.123");
  CHECK(find({{"SECTILE_PTXAS", second.file("bin/ptxas")}, {"PATH", path}}) ==
        second.file("bin/ptxas") + " 9.9.123");
  CHECK(find({{"SECTILE_PTXAS", "none"}, {"PATH", path}}) == "none");
  // One that does not run is passed over.
  ScratchDir broken;
  script(broken, "ptxas", "exit 3");
  CHECK(find({{"SECTILE_PTXAS", ""}, {"PATH", broken.path() + ":" + first.path()}}) == inPath + " 9.9.123");
}

TEST_CASE("Ptxas: SECTILE_PTXAS that cannot be used is the user's mistake", "[runtime][ptxas]") {
  ScratchDir dir;
  auto find = [](const std::string &program) {
    return inChild({{"SECTILE_PTXAS", program}},
                   [] {
                     reloadEnv();
                     Ptxas::find();
                     return std::string("found");
                   })
        .said;
  };
  std::string missing = find(dir.file("missing"));
  CHECK(
      has(missing, "SECTILE_PTXAS=" + dir.file("missing") + " cannot be used: it is not an executable file"));
  CHECK(has(missing, "[bad_ptxas]"));
  CHECK(has(missing, "PtxasTest.cpp"));
  CHECK(has(find(dir.path()), "it is not an executable file"));
  CHECK(has(find(script(dir, "true", "exit 0")), "its --version is not that of ptxas"));
  CHECK(has(find(script(dir, "false", "exit 7")), "ended with exit code 7"));
  std::string garbage = dir.file("garbage");
  std::ofstream(garbage) << "\x7f"
                            "ELFgarbage";
  std::filesystem::permissions(garbage, std::filesystem::perms::owner_all);
  CHECK(has(find(garbage), "does not start"));
}

TEST_CASE("Ptxas: failing, killed, and silent assemblers", "[runtime][ptxas]") {
  ScratchDir dir;
  CHECK(has(assembleWith(fakePtxas(dir, "echo 'ptxas error   : no luck' >&2; exit 255"), problem),
            "failed " + dir.file("ptxas") + " ended with exit code 255: ptxas error   : no luck"));
  CHECK(has(assembleWith(fakePtxas(dir, "kill -9 $$"), problem), "was killed by signal 9 (Killed)"));
  CHECK(has(assembleWith(fakePtxas(dir, "exit 0"), problem),
            "failed " + dir.file("ptxas") + " wrote no cubin"));
  // A cubin that a failing run leaves behind does not count.
  CHECK(assembleWith(fakePtxas(dir, "echo x > $6; exit 1"),
                     [](const PtxasResult &r) { return std::to_string(r.ok) + r.cubin; }) == "0");
  CHECK(assembleWith(fakePtxas(dir, "printf x > $6; echo 'Used 7 registers'"), [](const PtxasResult &r) {
          return std::to_string(r.ok) + r.cubin + std::to_string(r.registers);
        }) == "1x7");
  CHECK(assembleWith(fakePtxas(dir, "printf '%s ' \"$1\" \"$2\" \"$3\" \"$5\"; printf x > $6"),
                     [](const PtxasResult &r) { return r.log; }) == "-O3 -v -arch=sm_90a -o ");
  // It vanished between find() and assemble().
  std::string vanished = fakePtxas(dir, "exit 0");
  CHECK(has(inChild({{"SECTILE_PTXAS", vanished}},
                    [&] {
                      reloadEnv();
                      auto p = Ptxas::find();
                      std::filesystem::remove(vanished);
                      return problem(p->assemble(goodPtx, "sm_90a"));
                    })
                .said,
            "does not start (No such file or directory)"));
}

TEST_CASE("Ptxas: a host that ignores SIGCHLD or blocks signals", "[runtime][ptxas]") {
  ScratchDir dir;
  std::string program = fakePtxas(dir, "printf x > $6");
  auto run = [&](const std::function<void()> &prepare) {
    return inChild({{"SECTILE_PTXAS", program}},
                   [&] {
                     reloadEnv();
                     auto p = Ptxas::find();
                     prepare();
                     return problem(p->assemble(goodPtx, "sm_90a"));
                   })
        .said;
  };
  CHECK(run([] { signal(SIGCHLD, SIG_IGN); }) == "ok ");
  CHECK(run([] {
          sigset_t all;
          sigfillset(&all);
          sigprocmask(SIG_BLOCK, &all, nullptr);
        }) == "ok ");
  // The assembler itself starts with no signal blocked: it can be ended.
  fakePtxas(dir, "kill -TERM $$; printf x > $6");
  CHECK(has(run([] {
              sigset_t all;
              sigfillset(&all);
              sigprocmask(SIG_BLOCK, &all, nullptr);
            }),
            "was killed by signal 15"));
  fakePtxas(dir, "echo 'ptxas error   : no' ; printf x > $6; exit 1");
  CHECK(has(run([] { signal(SIGCHLD, SIG_IGN); }), "ptxas error   : no"));
}

TEST_CASE("Ptxas: leaves no file, and says when it has no place to work", "[runtime][ptxas]") {
  ScratchDir dir, temp;
  std::string program = fakePtxas(dir, "printf x > $6");
  CHECK(assembleWith(program, problem, {{"TMPDIR", temp.path()}}) == "ok ");
  CHECK(assembleWith(fakePtxas(dir, "kill -9 $$"), problem, {{"TMPDIR", temp.path()}}).substr(0, 6) ==
        "failed");
  CHECK(std::filesystem::is_empty(temp.path()));
  std::string nowhere = assembleWith(program, problem, {{"TMPDIR", temp.file("missing")}});
  CHECK(has(nowhere, "no private directory can be made in " + temp.file("missing")));
  CHECK(has(nowhere, "set TMPDIR"));
}
