// SPDX-License-Identifier: Apache-2.0
// Kernels compiled ahead of time, as C: on a driver of our own the C runtime passes what the library's launch passes, takes a
// variant exactly where its facts hold, and says what is wrong as a value.
#include "dsl/Ahead.h"
#include "dsl/Choice.h"
#include "runtime/c/sectile_c.h"
#include "tests/support/FakeLaunch.h"

#include <sectile/sectile.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <random>
#include <thread>

using namespace sectile;
using test::fake;
using test::ScratchDir;

namespace {

constexpr auto scale = kernel("scale", [](Tensor<const f32, 1> X, Tensor<f32, 1> Y, Scalar<f32> c, Scalar<i8> d, Config &cfg) {
  const int B = cfg.pick("B", {64, 128, 32});
  auto [i] = grid(Y, {B});
  Y.store({i}, X.load({i}, {B}) * c + cast<f32>(d));
});
constexpr auto addConst = kernel("add_const", [](Tensor<i32, 1> Y, Const<i32> c, Scalar<i32> d, Config &cfg) {
  const int B = cfg.pick("B", {32, 64});
  auto [i] = grid(Y, {B});
  Y.store({i}, full<i32>({B}, int(c)) + d);
});
constexpr auto rowSums = kernel("row_sums", [](Tensor<const f32, 2> X, Tensor<f32, 1> Y, Config &cfg) {
  const int BC = cfg.cover("BC", X, 1);
  auto [r] = grid(Y, {1});
  Y.store({r}, sum(X.load({r, 0}, {1, BC}).fill(0.0f), 1).drop(1));
});
constexpr auto columnSums = kernel("column_sums", [](Tensor<const f32, 2> X, Tensor<f32, 1> Y, Config &cfg) {
  const int BR = cfg.pick("BR", {16, 32}), BC = cfg.pick("BC", {128, 64});
  auto [c] = grid(Y, {BC});
  Tile total = zeros<f32>({BR, BC});
  for (Tile r : range(0, X.dim(0), BR))
    total += X.load({r, c}, {BR, BC}).fill(0.0f);
  Y.store({c}, sum(total, 0).drop(0));
});
constexpr auto matmul = kernel("matmul", [](Tensor<const bf16, 2> A, Tensor<const bf16, 2> B, Tensor<bf16, 2> C, Config &cfg) {
  const int BM = cfg.pick("BM", {128, 64}), BN = cfg.pick("BN", {128, 64}), BK = cfg.pick("BK", {64, 32});
  auto [m, n] = grid(C, {BM, BN});
  Tile acc = zeros<f32>({BM, BN});
  for (Tile k : range(0, A.dim(1), BK))
    acc = mma(A.load({m, k}, {BM, BK}), B.load({k, n}, {BK, BN}), acc);
  C.store({m, n}, cast<bf16>(acc));
});

/// An artefact, compiled by a C compiler and loaded into this process.
class Loaded {
public:
  Loaded(const std::vector<AheadJob> &jobs, AheadOptions options = {}) : result(buildAhead(jobs, named(std::move(options)))) {
    for (const auto &[name, text] : result.files)
      std::ofstream(dir.file(name)) << text;
    const std::string command = fmt::format("cd {} && cc -std=c11 -Wall -Wextra -Werror -O1 -shared -fPIC -o kernels.so kernels.c sectile_c.c -ldl -lpthread", dir.path());
    if (std::system(command.c_str()) != 0)
      throw std::runtime_error("the C compiler refuses what was generated");
    library = dlopen(dir.file("kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw std::runtime_error(dlerror());
  }
  template <class F> F *function(const char *name) const {
    void *f = dlsym(library, name);
    if (!f)
      throw std::runtime_error(std::string("no ") + name);
    return reinterpret_cast<F *>(f);
  }
  std::string error() const { return function<const char *()>("sectile_last_error")(); }
  const sectile_kernel &kernel(const std::string &name) const { return *function<const sectile_kernel>(("kernels_" + name + "_kernel").c_str()); }
  sectile_status launch(const std::string &name, const Stream &stream, std::span<const sectile_arg> args, int variant = -1) const {
    return function<decltype(sectile_launch)>("sectile_launch")(&kernel(name), variant, stream.native(), args.data());
  }
  sectile_status choose(const std::string &name, const Stream &stream, std::span<const sectile_arg> args, int &variant) const {
    return function<decltype(sectile_choose)>("sectile_choose")(&kernel(name), stream.native(), args.data(), &variant);
  }
  const AheadResult result;

private:
  static AheadOptions named(AheadOptions options) {
    if (options.archs.empty())
      options.archs = {"sm_90a"};
    return options;
  }
  ScratchDir dir;
  void *library = nullptr;
};

std::vector<sectile_arg> inC(std::span<const KernelArg> args) {
  std::vector<sectile_arg> all;
  for (const KernelArg &a : args) {
    sectile_arg c{};
    c.tensor.data = a.data;
    std::copy(a.dims.begin(), a.dims.end(), c.tensor.dims);
    std::copy(a.strides.begin(), a.strides.end(), c.tensor.strides);
    c.scalar = a.scalar;
    all.push_back(c);
  }
  return all;
}

/// Bytes of the parameters that need not be the same, from and to: a workspace's address, and what lies between parameters.
using Hidden = std::vector<std::pair<std::size_t, std::size_t>>;

/// What a launch passes to the driver.
std::string passed(const Hidden &hidden) {
  FakeCudaState &s = fake();
  std::string text = fmt::format("grid {} {} {} block {} {} {} shared {} {} stream {} context {} bytes {}:", s.gridX, s.gridY, s.gridZ, s.blockX, s.blockY, s.blockZ,
                                 s.sharedBytes, s.dynamicSharedBytes, s.stream, s.contextAtLaunch, s.paramBytes);
  for (std::size_t i = 0; i < s.paramBytes; ++i) {
    const bool isHidden = std::any_of(hidden.begin(), hidden.end(), [&](const auto &h) { return i >= h.first && i < h.second; });
    text += isHidden ? " --" : fmt::format(" {:02x}", s.params[i]);
  }
  return text;
}

const test::Environment onFake = {{"SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA}, {"SECTILE_PTXAS", "none"}, {"SECTILE_CACHE", "0"}, {"SECTILE_TUNE_RECORD", "none"}};

/// Launches by the library and in C; a word for each difference.
template <class K, class... A>
std::string compare(const Loaded &c, const K &k, const std::string &name, const Stream &stream, const Config &config, const Hidden &hidden, A &&...args) {
  std::memset(fake().params, 0, sizeof fake().params);
  const int launches = fake().launches;
  k.with(config)(stream, std::forward<A>(args)...);
  const std::string want = passed(hidden);
  const auto packed = k.pack(std::forward<A>(args)...);
  std::memset(fake().params, 0, sizeof fake().params);
  if (sectile_status status = c.launch(name, stream, inC(packed)); status != SECTILE_OK)
    return fmt::format("{}: status {}: {}", name, int(status), c.error());
  if (fake().launches != launches + 2)
    return name + ": launches";
  const std::string got = passed(hidden);
  return got == want ? "" : fmt::format("{}:\n  C       {}\n  library {}\n", name, got, want);
}

} // namespace

TEST_CASE("Launches in C pass what the library passes: scalars, constants, covers, shared loops, tensor maps", "[dsl][ahead]") {
  const auto child = test::inChild(onFake, [&]() -> std::string {
    runtime::reloadEnv();
    Stream stream(Device::gpu(0));
    Buffer<f32> x(stream, 70, 264), y(stream, 264), big(stream, 4096, 256), sums(stream, 256);
    Buffer<bf16> a(stream, 1000, 512), b(stream, 512, 768), r(stream, 1000, 768), empty(stream, 1000, 0), none(stream, 0, 768);
    Buffer<i32> ints(stream, 100);
    const Tensor<const f32, 1> x1(x.data(), {264});
    const Tensor<f32, 1> y1(y.data(), {264});
    const Config product = Config().set("BM", 128).set("BN", 128).set("BK", 64), sumsBy = Config().set("BR", 16).set("BC", 128);
    const auto scaled = scale.pack(x1, y1, 2.5f, i8(-3));
    const auto added = addConst.pack(Tensor<i32, 1>(ints), -7, 40);
    const auto rows = rowSums.pack(Tensor<const f32, 2>(x), Tensor<f32, 1>(y.data(), {70}));
    const auto columns = columnSums.pack(Tensor<const f32, 2>(big), Tensor<f32, 1>(sums));
    const auto multiplied = matmul.pack(Tensor<const bf16, 2>(a), Tensor<const bf16, 2>(b), Tensor<bf16, 2>(r));
    auto job = [](const auto &k, const auto &args, Config config) { return AheadJob{k.desc(), k.desc().name, {args.begin(), args.end()}, {std::move(config)}}; };
    const Loaded c({job(scale, scaled, Config().set("B", 128)), job(addConst, added, Config().set("B", 64)), job(rowSums, rows, Config()),
                    job(columnSums, columns, sumsBy), job(matmul, multiplied, product)});
    std::string wrong = compare(c, scale, "scale", stream, Config().set("B", 128), {}, x1, y1, 2.5f, i8(-3));
    wrong += compare(c, scale, "scale", stream, Config().set("B", 128), {}, Tensor<const f32, 1>(x.data(), {8}), Tensor<f32, 1>(y.data(), {8}), -1.0f, i8(127));
    wrong += compare(c, addConst, "add_const", stream, Config().set("B", 64), {}, Tensor<i32, 1>(ints), -7, 40);
    wrong += compare(c, rowSums, "row_sums", stream, Config(), {}, Tensor<const f32, 2>(x), Tensor<f32, 1>(y.data(), {70}));
    // 2 tensors: 5 and 3 words, then the workspace.
    wrong += compare(c, columnSums, "column_sums", stream, sumsBy, {{64, 72}}, Tensor<const f32, 2>(big), Tensor<f32, 1>(sums));
    if (fake().gridY < 2)
      wrong += "the loop is not shared";
    // 15 words of arguments, then nothing up to the next multiple of 64.
    wrong += compare(c, matmul, "matmul", stream, product, {{120, 128}}, Tensor<const bf16, 2>(a), Tensor<const bf16, 2>(b), Tensor<bf16, 2>(r));
    // Programs of the last round shared (by hand, and where a launch would), operands that threads copy.
    Buffer<bf16> la(stream, 2176, 4096), lb(stream, 4096, 1152), lr(stream, 2176, 1152), oa(stream, 1000, 520), ob(stream, 520, 776), orr(stream, 1000, 776);
    Config shared = product;
    shared.streamk = 2;
    for (const Config &config : {shared, product}) {
      const auto long3 = matmul.pack(Tensor<const bf16, 2>(la), Tensor<const bf16, 2>(lb), Tensor<bf16, 2>(lr));
      const Loaded more({job(matmul, long3, config)});
      wrong += compare(more, matmul, "matmul", stream, config, {{120, 128}, {136, 192}}, Tensor<const bf16, 2>(la), Tensor<const bf16, 2>(lb), Tensor<bf16, 2>(lr));
      if (config.streamk == 2 && !(more.kernel("matmul").variants[0].split && more.kernel("matmul").variants[0].split->stream))
        wrong += "nothing is shared";
    }
    const auto skewed = matmul.pack(Tensor<const bf16, 2>(oa), Tensor<const bf16, 2>(ob), Tensor<bf16, 2>(orr));
    Config byThreads = product;
    byThreads.async = 2;
    const Loaded copied({job(matmul, skewed, byThreads)});
    wrong += compare(copied, matmul, "matmul", stream, byThreads, {{120, 128}}, Tensor<const bf16, 2>(oa), Tensor<const bf16, 2>(ob), Tensor<bf16, 2>(orr));
    if (std::string(copied.kernel("matmul").variants[0].config).find("async=2") == std::string::npos)
      wrong += "threads copy nothing: " + std::string(copied.kernel("matmul").variants[0].config);
    if (fake().encodedMaps < 4 || c.kernel("matmul").variants[0].map_count < 2)
      wrong += "no tensor maps";
    // An empty grid launches nothing.
    const int launches = fake().launches;
    const auto nothing = matmul.pack(Tensor<const bf16, 2>(none.data(), {0, 512}), Tensor<const bf16, 2>(b), Tensor<bf16, 2>(none));
    if (c.launch("matmul", stream, inC(nothing)) != SECTILE_OK || fake().launches != launches)
      wrong += "an empty grid: " + c.error();
    // Nothing to add up: maps of tensors without elements have memory of their own.
    const auto hollow = matmul.pack(Tensor<const bf16, 2>(empty.data(), {1000, 0}), Tensor<const bf16, 2>(none.data(), {0, 768}), Tensor<bf16, 2>(r));
    if (c.launch("matmul", stream, inC(hollow)) != SECTILE_OK || fake().launches != launches + 1)
      wrong += "tensors without elements: " + c.error();
    return wrong;
  });
  INFO(child.said);
  INFO(child.errors);
  CHECK(child.said == "");
}

TEST_CASE("A variant serves arguments exactly where its facts hold of them", "[dsl][ahead]") {
  const auto child = test::inChild(onFake, [&]() -> std::string {
    runtime::reloadEnv();
    Stream stream(Device::gpu(0));
    std::mt19937 random(7);
    auto pick = [&](std::initializer_list<std::int64_t> list) { return *(list.begin() + std::uniform_int_distribution<std::size_t>(0, list.size() - 1)(random)); };
    auto draw = [&] {
      std::array<KernelArg, 2> args;
      for (int i = 0; i < 2; ++i) {
        KernelArg &a = args[std::size_t(i)];
        a.dtype = DType::f32;
        a.rank = i ? 1 : 2;
        a.readOnly = i == 0;
        a.data = reinterpret_cast<void *>(std::uintptr_t((i + 1) * (INT64_C(1) << 44) + pick({0, 0, 0, 4, 8, 12})));
        a.dims[0] = pick({1, 2, 8, 33, 48, 64, 70, 4096});
        a.dims[1] = i ? 0 : pick({1, 3, 16, 100, 264, 1000, 1024, 5000, 300000000});
        a.strides[std::size_t(1 - i)] = pick({1, 1, 1, 1, 2, 4});
        if (i == 0)
          a.strides[0] = a.dims[1] + pick({0, 0, 0, 1, 4, 8});
      }
      return args;
    };
    int served = 0, refused = 0;
    for (int round = 0; round < 6; ++round) {
      const auto built = draw();
      if (built[0].dims[1] > 5000) {
        --round; // no tile covers it
        continue;
      }
      const Loaded c({{rowSums.desc(), "row_sums", {built.begin(), built.end()}}});
      const VariantFacts &facts = c.result.variants[0].compiled->facts;
      const std::int64_t tile = *c.result.variants[0].compiled->config.get("BC");
      for (int i = 0; i < 3000; ++i) {
        auto now = draw();
        if (i % 3)
          now[0].strides = built[0].strides, now[1].strides = built[1].strides;
        bool holds = coverLength(now[0], 1) <= tile;
        for (std::size_t n = 0; n < 2; ++n) {
          const ArgSpec want = facts.specs[n], is = specialise(now[n]);
          holds = holds && is.alignBytes >= want.alignBytes && (!want.small || is.small);
          if (want.unitStrideAxis >= 0)
            holds = holds && now[n].strides[std::size_t(want.unitStrideAxis)] == 1;
          for (std::size_t d = 0; d < std::size_t(now[n].rank); ++d) {
            holds = holds && is.strideDiv[d] >= want.strideDiv[d] && is.dimDiv[d] >= want.dimDiv[d];
            holds = holds && (now[n].dims[d] <= 1 || is.strideRem[d] == want.strideRem[d]);
            holds = holds && (!want.dimMax[d] || now[n].dims[d] <= want.dimMax[d]);
          }
        }
        int variant = -1;
        const sectile_status status = c.choose("row_sums", stream, inC(now), variant);
        (holds ? served : refused) += 1;
        if (status != (holds ? SECTILE_OK : SECTILE_NO_VARIANT))
          return fmt::format("round {} launch {}: status {} {}, and the facts {}hold", round, i, int(status), c.error(), holds ? "" : "do not ");
      }
    }
    return served > 200 && refused > 2000 ? "" : fmt::format("{} served, {} refused: the test tests nothing", served, refused);
  });
  INFO(child.errors);
  CHECK(child.said == "");
}

TEST_CASE("Of several variants in C the one with the strongest memory facts is taken, then the nearest shape", "[dsl][ahead]") {
  const auto child = test::inChild(onFake, [&]() -> std::string {
    runtime::reloadEnv();
    Stream stream(Device::gpu(0));
    auto at = [](std::uintptr_t address, std::int64_t n) {
      return scale.pack(Tensor<const f32, 1>(reinterpret_cast<f32 *>(address), {n}), Tensor<f32, 1>(reinterpret_cast<f32 *>(std::uintptr_t(1) << 40), {n}), 1.0f, i8(0));
    };
    auto job = [&](std::uintptr_t address, std::int64_t n, int b) {
      const auto args = at(address, n);
      return AheadJob{scale.desc(), "scale", {args.begin(), args.end()}, {Config().set("B", b)}};
    };
    const Loaded c({job(4096, 4096, 128), job(4096, 64, 32), job(4100, 4095, 64), job(4096, 255, 64)});
    std::string said;
    for (auto [address, n] : {std::pair(4096, 4000), {4096, 2048}, {4096, 96}, {4096, 16}, {4096, 4001}, {8196, 100000}, {4096, 301}, {8196, 4096}}) {
      int variant = -1;
      const sectile_status status = c.choose("scale", stream, inC(at(std::uintptr_t(address), n)), variant);
      said += status == SECTILE_OK ? c.kernel("scale").variants[variant].config + std::string(" ") + std::to_string(variant) + "; " : c.error() + "; ";
    }
    return said;
  });
  INFO(child.errors);
  CHECK(child.said == "B=128 0; B=128 0; B=32 1; B=32 1; B=64 3; B=64 2; B=64 3; B=64 2; ");
}

TEST_CASE("In C too a stream and a capture have workspaces of their own, and loading leaves captures alone", "[dsl][ahead]") {
  const auto child = test::inChild(onFake, [&]() -> std::string {
    runtime::reloadEnv();
    Stream first(Device::gpu(0)), second(Device::gpu(0));
    Buffer<f32> x(first, 4096, 256), y(first, 256);
    const auto args = columnSums.pack(Tensor<const f32, 2>(x), Tensor<f32, 1>(y));
    const Loaded c({{columnSums.desc(), "column_sums", {args.begin(), args.end()}, {Config().set("BR", 16).set("BC", 128)}}});
    const auto releaseStream = c.function<decltype(sectile_release_stream)>("sectile_release_stream");
    FakeCudaState &s = fake();
    std::string wrong;
    auto expect = [&](bool ok, const char *what) { wrong += ok ? "" : std::string(what) + "; " + c.error() + "; "; };
    auto workspace = [&](const Stream &stream, const auto &packed) {
      expect(c.launch("column_sums", stream, inC(packed)) == SECTILE_OK, "launch");
      std::uint64_t address = 0;
      std::memcpy(&address, s.params + 64, sizeof address); // behind 5 and 3 words
      return address;
    };
    const int before = s.liveAllocations;
    const std::uint64_t one = workspace(first, args);
    expect(one && workspace(first, args) == one, "a stream keeps its workspace");
    const std::uint64_t two = workspace(second, args);
    expect(two && two != one, "streams share one");
    setenv("FAKECUDA_CAPTURE", "7", 1);
    const std::uint64_t captured = workspace(first, args);
    expect(captured && captured != one && workspace(first, args) == captured, "a capture");
    setenv("FAKECUDA_CAPTURE", "8", 1);
    expect(workspace(first, args) != captured, "another capture");
    unsetenv("FAKECUDA_CAPTURE");
    expect(s.liveAllocations == before + 4, fmt::format("{} allocations", s.liveAllocations - before).c_str());
    expect(s.loads == 1 && s.relaxedLoads == 1, "loads");
    expect(s.setBytes == 4 * 16384, fmt::format("{} bytes are set to 0", s.setBytes).c_str());
    // What captures have stays with them.
    expect(releaseStream(first.native()) == SECTILE_OK && s.liveAllocations == before + 3, "release");
    expect(workspace(second, args) == two, "the other stream's");
    return wrong;
  });
  INFO(child.errors);
  CHECK(child.said == "");
}

TEST_CASE("Errors in C are values that name the fact", "[dsl][ahead]") {
  const auto child = test::inChild(onFake, [&]() -> std::string {
    setenv("FAKECUDA_DEVICES", "2", 1);
    runtime::reloadEnv();
    Stream stream(Device::gpu(0)), other(Device::gpu(1));
    Buffer<f32> x(stream, 256), y(stream, 256), there(other, 256);
    auto args = [&](f32 *from, f32 *to, std::int64_t n) { return inC(scale.pack(Tensor<const f32, 1>(from, {n}), Tensor<f32, 1>(to, {n}), 1.0f, i8(0))); };
    const auto built = scale.pack(Tensor<const f32, 1>(x.data(), {256}), Tensor<f32, 1>(y.data(), {256}), 1.0f, i8(0));
    const auto sums = rowSums.pack(Tensor<const f32, 2>(x.data(), {4, 64}), Tensor<f32, 1>(y.data(), {4}));
    const Loaded c({{scale.desc(), "scale", {built.begin(), built.end()}, {Config().set("B", 64), Config().set("B", 128)}},
                    {rowSums.desc(), "row_sums", {sums.begin(), sums.end()}}});
    const auto name = c.function<const char *(sectile_status)>("sectile_status_name");
    std::string said;
    auto say = [&](sectile_status status) { said += fmt::format("{}: {}\n", name(status), status == SECTILE_OK ? "" : c.error()); };
    say(c.launch("scale", stream, args(x.data(), y.data(), 250)));
    say(c.launch("scale", stream, args(x.data() + 1, y.data(), 128)));
    say(c.launch("scale", stream, args(x.data(), y.data(), -16)));
    say(c.launch("scale", stream, args(nullptr, y.data(), 256)));
    auto spread = args(x.data(), y.data(), 256);
    spread[1].tensor.strides[0] = 0;
    say(c.launch("scale", stream, spread));
    alignas(16) static f32 host[256];
    say(c.launch("scale", stream, args(host, y.data(), 256), 1));
    say(c.launch("scale", other, args(there.data(), y.data(), 256)));
    say(c.launch("scale", stream, args(x.data(), y.data(), 256), 2));
    say(c.launch("scale", stream, args(x.data(), y.data(), 250), 1));
    say(c.launch("scale", stream, args(x.data(), y.data(), INT64_C(16) << 40)));
    say(c.launch("row_sums", stream, inC(rowSums.pack(Tensor<const f32, 2>(x.data(), {4, 256}), Tensor<f32, 1>(y.data(), {4})))));
    say(c.function<sectile_status(const char *)>("sectile_no_tensor")("scale"));
    for (auto [failure, label] : {std::pair("cuLaunchKernel=700", "fault"), {"cuLaunchKernel=999", "other"}, {"cuLaunchKernel=701", "resources"}}) {
      setenv("FAKECUDA_FAIL", failure, 1);
      say(c.launch("scale", stream, args(x.data(), y.data(), 256), 1));
    }
    setenv("FAKECUDA_FAIL", "ptx=218", 1);
    say(c.launch("scale", stream, args(x.data(), y.data(), 256), 0));
    unsetenv("FAKECUDA_FAIL");
    say(c.launch("scale", stream, args(x.data(), y.data(), 256), 0));
    std::thread([&] { // no current context here
      say(c.function<decltype(sectile_launch)>("sectile_launch")(&c.kernel("scale"), 0, nullptr, args(x.data(), y.data(), 256).data()));
    }).join();
    return said;
  });
  INFO(child.errors);
  for (const char *line : {
           "SECTILE_NO_VARIANT: scale: none of the variants for sm_90a serves these arguments; of the one that comes nearest (B=64): argument 0 axis 0: the length 250 is no "
           "multiple of 16; argument 1 axis 0: the length 250 is no multiple of 16\n",
           "SECTILE_NO_VARIANT: scale: none of the variants for sm_90a serves these arguments; of the one that comes nearest (B=64): argument 0 is at ",
           "which is no multiple of 16 bytes\n",
           "SECTILE_BAD_ARGUMENT: scale: argument 0 axis 0: the length -16 is negative\n",
           "SECTILE_BAD_ARGUMENT: scale: argument 0 is null and has elements\n",
           "SECTILE_BAD_ARGUMENT: scale: argument 1 axis 0: it is written and the stride is 0: its 256 elements are one place in memory\n",
           "SECTILE_BAD_POINTER: scale: argument 0 points to ",
           "which is host memory or freed memory, and the launch is on GPU 0\n",
           "SECTILE_BAD_POINTER: scale: argument 1 is in the memory of GPU 0 and the launch is on GPU 1\n",
           "SECTILE_BAD_ARGUMENT: scale: variant 2 of 2\n",
           "SECTILE_NO_VARIANT: scale: variant 1 (B=128) does not serve these arguments: argument 0 axis 0: the length 250 is no multiple of 16",
           "argument 0 reaches over more than 2 GiB",
           "SECTILE_NO_VARIANT: row_sums: none of the variants for sm_90a serves these arguments; of the one that comes nearest (BC=64): ",
           "argument 0 axis 1: the length 256 is not covered by a tile of 64",
           "SECTILE_BAD_ARGUMENT: scale: a tensor is passed as a null pointer\n",
           "SECTILE_DEVICE_FAULT: scale: cuLaunchKernel gives CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered\n",
           "SECTILE_DRIVER_ERROR: scale: cuLaunchKernel gives an unknown error (999): no text\n",
           "SECTILE_LAUNCH_LIMITS: scale: ",
           "SECTILE_LOAD_FAILED: scale: the driver refuses the code for sm_90a (error 218); its assembler says: ptxas fatal: fake\n",
           "SECTILE_OK: \n",
           "SECTILE_NO_CONTEXT: scale: the stream is null and this thread has no current context\n",
       }) {
    INFO(child.said);
    CHECK(child.said.find(line) != std::string::npos);
  }
}

TEST_CASE("What cannot be built is refused by name", "[dsl][ahead]") {
  const auto args = scale.pack(Tensor<const f32, 1>(nullptr, {256}), Tensor<f32, 1>(nullptr, {256}), 1.0f, i8(0));
  const AheadJob job{scale.desc(), "scale", {args.begin(), args.end()}};
  auto ruleOf = [](const std::vector<AheadJob> &jobs, AheadOptions options) {
    try {
      buildAhead(jobs, options);
    } catch (const UserError &e) {
      return e.rule();
    }
    return std::string();
  };
  CHECK(ruleOf({job}, {.name = "1st", .archs = {"sm_90a"}}) == "build_name");
  CHECK(ruleOf({job}, {.name = "a-b", .archs = {"sm_90a"}}) == "build_name");
  CHECK(ruleOf({job}, {}) == "build_target");
  CHECK(ruleOf({job}, {.archs = {"sm_1"}}) == "build_target");
  CHECK(ruleOf({{scale.desc(), "scale", job.args, {Config().set("B", 100)}}}, {.archs = {"sm_90a"}}) == "pick_value");
  // Names that C cannot have.
  const AheadResult made = buildAhead({{scale.desc(), "a.b", job.args}, {scale.desc(), "a-b", job.args}}, {.archs = {"sm_90a"}});
  CHECK(made.variants[0].kernel == "a_b");
  CHECK(made.variants[1].kernel == "a_b_");
}
