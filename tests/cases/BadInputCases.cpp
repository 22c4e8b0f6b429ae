// SPDX-License-Identifier: Apache-2.0
/// \file Every kind of bad input, one after the other in one process: each a clear error, nothing launched, and the next
/// right kernel runs. On the fake driver of tests/support launches are counted; it runs no kernel, so there a launch is
/// right when it reaches the driver with the same geometry and parameters as before.
#include "tests/cases/Cases.h"
#include "tests/support/FakeCuda.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <unistd.h>

using namespace cases;

namespace {

constexpr auto good = kernel("good", [](Tensor<const f32, 1> x, Tensor<f32, 1> y) {
  auto [i] = grid(y, {16});
  y.store({i}, x.load({i}, {16}) * 2.0f);
});
constexpr auto anyRank = kernel("any_rank", [](Tensor<f32, 2> x) { x.store({0, 0}, zeros<f32>({4, 4})); });
constexpr auto rankInKernel = kernel("rank_in_kernel", [](Tensor<f32, 2> x) {
  Tile v = x.load({0, 0}, {4, 4});
  x.store({0, 0}, v + reshape(v, {16}));
});
constexpr auto dtypes = kernel("dtypes", [](Tensor<f32, 1> x) {
  Tile v = x.load({0}, {16});
  x.store({0}, v + cast<bf16>(v));
});
constexpr auto storedDtype = kernel("stored_dtype", [](Tensor<f32, 1> x) { x.store({0}, zeros<i32>({16})); });
constexpr auto shapes = kernel("shapes", [](Tensor<f32, 2> x) {
  x.store({0, 0}, mma(x.load({0, 0}, {16, 64}), x.load({0, 0}, {32, 16})));
});
constexpr auto overShared = kernel("over_shared", [](Tensor<const f16, 2> a, Tensor<f32, 2> c, Config &cfg) {
  const int bm = cfg.pick("BM", {256, 64});
  Tile acc = zeros<f32>({bm, 256});
  for (Tile k : range(0, a.dim(1), 256))
    acc = mma(a.load({0, k}, {bm, 256}), a.load({k, 0}, {256, 256}), acc);
  c.store({0, 0}, acc);
});
constexpr auto overRegisters = kernel("over_registers", [](Tensor<f32, 2> x, Config &cfg) {
  cfg.warps = 1;
  x.store({0, 0}, x.load({0, 0}, {256, 512}) + 1.0f);
});
constexpr auto stages = kernel("stages", [](Tensor<f32, 1> x, Config &cfg) {
  cfg.stages = 5;
  x.store({0}, zeros<f32>({16}));
});
constexpr auto warps = kernel("warps", [](Tensor<f32, 1> x, Config &cfg) {
  cfg.warps = 3;
  x.store({0}, zeros<f32>({16}));
});
std::optional<Tile> kept;
constexpr auto keeper = kernel("keeper", [](Tensor<f32, 1> x) {
  kept.emplace(zeros<f32>({16}));
  x.store({0}, *kept);
});
constexpr auto thief = kernel("thief", [](Tensor<f32, 1> x) { x.store({0}, *kept + 1.0f); });
constexpr auto ptxasFails = kernel("ptxas_fails", [](Tensor<f32, 1> x) { x.store({0}, zeros<f32>({16})); });

/// An assembler that ends with an error on the kernel ptxas_fails and makes a cubin that no driver takes of any other,
/// so that the driver assembles those. Before the library reads its environment.
class FailingPtxas {
public:
  FailingPtxas() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sectile-bad-input-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error("mkdtemp failed");
    folder = pattern;
    std::ofstream(folder + "/ptxas") << "#!/bin/sh\n"
                                        "[ \"$1\" != --version ] || { echo 'release 13.0, V13.0.88'; exit 0; }\n"
                                        "for last; do case $last in *.ptx) in=$last;; *.cubin) out=$last;; esac; done\n"
                                        "if grep -q 'entry ptxas_fails' \"$in\"; then\n"
                                        "  echo 'ptxas fatal   : (C9999) it fails' >&2; exit 255\n"
                                        "fi\n"
                                        "echo 'no cubin' > \"$out\"\n";
    std::filesystem::permissions(folder + "/ptxas", std::filesystem::perms::owner_all);
    setenv("SECTILE_PTXAS", (folder + "/ptxas").c_str(), 1);
    setenv("TMPDIR", folder.c_str(), 1); // where reproducers go
  }
  ~FailingPtxas() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

private:
  std::string folder;
};

/// The state of the fake driver, null with a real one or on the interpreter.
FakeCudaState *fakeDriver() {
  const char *library = std::getenv("SECTILE_CUDA_LIBRARY");
  void *handle = library ? dlopen(library, RTLD_NOW) : nullptr;
  auto *state = handle ? reinterpret_cast<FakeCudaStateFn *>(dlsym(handle, "fakeCudaState")) : nullptr;
  return state ? state() : nullptr;
}

class Walk {
public:
  explicit Walk(Run &run) : run(run), fake(fakeDriver()), x(run, make<f32>(40, [](auto i) { return i; })), y(run, 40) {}

  /// The bad input: a UserError with these words, nothing launched, and the good kernel runs after it.
  void refused(const char *what, const std::vector<std::string> &words, const std::function<void()> &call) {
    const int before = launches();
    run.refused(call, words, what);
    after(what, before);
  }
  void after(const char *what, int before) {
    run.check(launches() == before, fmt::format("{}: {} kernels were launched", what, launches() - before));
    goodRuns(what);
    run.beat();
  }
  void goodRuns(const char *what) {
    const int before = launches();
    y.poison();
    good(run.stream(), x.view(40), y.view(40));
    run.stream().synchronize();
    if (!fake)
      return run.same(y.get(), make<f32>(40, [](auto i) { return 2 * i; }), fmt::format("{}: the good kernel afterwards", what));
    run.check(launches() == before + 1, fmt::format("{}: the good kernel was launched {} times", what, launches() - before));
    const std::string now = fmt::format("{} {} {} {} {}", fake->gridX, fake->blockX, fake->sharedBytes, fake->paramBytes,
                                        std::string(reinterpret_cast<char *>(fake->params), fake->paramBytes));
    if (launch.empty())
      launch = now;
    run.check(now == launch && fake->gridX == 3, fmt::format("{}: the good kernel reaches the driver otherwise", what));
  }
  int launches() const { return fake ? fake->launches : 0; }
  f32 *memory() { return x.data(); }

private:
  Run &run;
  FakeCudaState *fake;
  Guarded<f32> x, y;
  std::string launch; ///< the good one
};

} // namespace

SECTILE_CASE_ALONE("X/bad-inputs") {
  FailingPtxas ptxas;
  Walk walk(run);
  const Stream &s = run.stream();
  f32 *memory = walk.memory();
  const Tensor<f32, 1> row(memory, {16});
  const Tensor<f32, 2> square(memory, {4, 4});
  walk.goodRuns("before all");
  for (int round = 0; round < 3; ++round) {
    // Rank, dtype, shape and stride mismatch. Those of arguments against parameters do not compile: tests/dsl/mustfail.
    Buffer<f32> vector(run.device(), 16);
    walk.refused("rank of a buffer", {"[buffer_rank]"}, [&] { anyRank(s, vector); });
    walk.refused("rank", {"rank_in_kernel", "[broadcast_c1]"}, [&] { rankInKernel(s, square); });
    walk.refused("dtype", {"dtypes", "f32", "bf16", "[binary_c1]"}, [&] { dtypes(s, row); });
    walk.refused("stored dtype", {"stored_dtype", "i32", "f32", "[store_c3]"}, [&] { storedDtype(s, row); });
    walk.refused("shape", {"shapes", "64", "32", "[mma_c1]"}, [&] { shapes(s, square); });
    walk.refused("negative length", {"good", "-16", "[arg_dims]"}, [&] { good(s, row, Tensor<f32, 1>(memory, {-16})); });
    walk.refused("stride", {"any_rank", "stride 0", "[arg_strides]"},
                 [&] { anyRank(s, Tensor<f32, 2>(memory, {4, 4}, {0, 1})); });
    walk.refused("null", {"good", "null", "[null_pointer]"}, [&] { good(s, row, Tensor<f32, 1>(nullptr, {16})); });
    // A tile over a hardware limit, with both numbers; compiled for a target, as the interpreter has no such limits.
    const Tensor<const f16, 2> a(nullptr, {512, 512});
    const Tensor<f32, 2> c(nullptr, {512, 512});
    walk.refused("shared memory", {"over_shared", "BM=256", "101376", "262144", "[check_resources_c1]"},
                 [&] { overShared.emit("ptx", "sm_86", a, c); });
    walk.refused("registers", {"over_registers", "4096", "255", "[check_resources_c2]"},
                 [&] { overRegisters.emit("ptx", "sm_90a", c); });
    if (run.isGpu())
      walk.refused("registers at a launch", {"over_registers", "4096", "255", "[check_resources_c2]"},
                   [&] { overRegisters(s, Tensor<f32, 2>(memory, {4, 4})); });
    // A tile outside its trace, or in another.
    walk.refused("tile outside", {"[no_trace]"}, [] { zeros<f32>({16}); });
    if (!kept)
      keeper.emit("tile", "sm_90a", row);
    walk.refused("tile of another trace", {"thief", "[tile_trace]"}, [&] { thief(s, row); });
    // What the target does not have.
    walk.refused("target", {"sm_75", "sm_80", "sm_121a", "[emit_arch]"}, [&] { good.emit("ptx", "sm_75", row, row); });
    walk.refused("stages", {"stages is set to 5", "sm_90a", "[config_stages]"}, [&] { stages.emit("ptx", "sm_90a", row); });
    walk.refused("warps", {"3 warps", "sm_80", "32", "[select_mma_c2]"}, [&] { warps.emit("ptx", "sm_80", row); });
    // ptxas fails: ours to answer for, as the user wrote no PTX.
    const int before = walk.launches();
    try {
      if (run.isGpu())
        ptxasFails(s, row);
      else
        ptxasFails.emit("cubin", "sm_90a", row);
      run.fail("ptxas: no error");
    } catch (const InternalError &e) {
      const std::string text = e.what();
      for (const char *word : {"ptxas_fails", "13.0", "sm_", "(C9999) it fails", ".mlir"})
        run.check(text.find(word) != std::string::npos, fmt::format("ptxas: the message lacks '{}': {}", word, text));
      run.check(text.find('\n') == std::string::npos, "ptxas: more than one line: " + text);
      run.check(std::filesystem::exists(e.reproducer()), "ptxas: no reproducer");
    }
    walk.after("ptxas", before);
    // A grid beyond limits.
    walk.refused("grid", {"good", "the grid has 3000000000 programs", "2147483647", "[grid_limit]"},
                 [&] { good(s, row, Tensor<f32, 1>(memory, {48000000000})); });
    // No such GPU; where there is none at all, that is what is said.
    walk.refused("GPU", {run.isGpu() ? "[gpu_range]" : "GPU"}, [] { Device::gpu(1000); });
  }
}
