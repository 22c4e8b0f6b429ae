// SPDX-License-Identifier: Apache-2.0
/// \file `sectile_whitebox generality [NAME ..]`: the kernels of this folder lowered for sm_90a by the
/// default schedule, with operands copied by threads, and without pipelines, and run thread by thread on the executor, against the same references;
/// `sectile_whitebox products`: random products the same way.
#include "tests/support/OnThreads.h"
#include "tests/generality/RandomProducts.h"
#include "tests/support/InterpHarness.h"

#include <string_view>

using namespace sectile;

static void runText(const std::string &text, std::span<const KernelArg> args) {
  test::Interpreted kernel(text);
  if (!kernel.module)
    throw std::runtime_error(kernel.messages);
  test::runOnThreads(*kernel.module, args);
}

int randomProductsMain(int argc, char **argv) { return generality::productsMain(argc, argv, runText); }

/// Runs the cases whose names start with one of the words, all without words.
int generalityMain(int argc, char **argv) {
  generality::executor() = runText;
  int passed = 0, failed = 0;
  for (const cases::CaseInfo &info : cases::registry()) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i)
      wanted |= std::string_view(info.name).starts_with(argv[i]);
    if (!wanted)
      continue;
    struct How {
      const char *name;
      int stages, async, multicast;
    };
    for (const How &how : {How{"by default", 0, 0, 0}, {"copied by threads", 0, 2, 0}, {"in pairs", 0, 0, 2}, {"without pipelines", 1, 0, 0}}) {
      generality::executorStages() = how.stages;
      generality::executorAsync() = how.async;
      generality::executorMulticast() = how.multicast;
      cases::Run run(false, true);
      try {
        info.body(run);
        if (run.failures == 0 && run.checks == 0)
          run.fail("nothing was checked");
      } catch (const std::exception &e) {
        run.fail(std::string("threw ") + e.what());
      }
      ++(run.failures ? failed : passed);
      fmt::print("{:<16} {} {}\n", info.name, how.name, run.failures ? "FAILED: " + run.message : "OK");
      std::fflush(stdout);
    }
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed || !passed ? 1 : 0;
}
