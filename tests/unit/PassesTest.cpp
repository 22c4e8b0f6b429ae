// SPDX-License-Identifier: Apache-2.0
/// \file Passes by meaning: kernels run on the interpreter before and after.
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "tests/support/FinalForm.h"
#include "tests/support/InterpHarness.h"
#include "tests/support/OnThreads.h"
#include "tests/support/RandomKernel.h"

#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

using namespace sectile;
using namespace sectile::test;

namespace {

/// The memory of a random kernel's arguments.
struct Arguments {
  Host<i32> x, o;
  Host<f32> y, p;
  Host<i8> i;
  explicit Arguments(unsigned seed)
      : x({20, 37}), o({21, 33}, -1), y({17, 50}), p({19, 40}, -1.0f), i({45, 29}) {
    std::mt19937 gen(seed);
    auto small = [&] { return int(gen() % 9) - 4; };
    for (auto &v : x.data)
      v = small();
    for (auto &v : y.data)
      v = gen() % 40 == 0 ? std::numeric_limits<float>::quiet_NaN() : float(small());
    for (auto &v : i.data)
      v = i8(small());
  }
  std::vector<KernelArg> list() { return {x.arg(), y.arg(), i.arg(), o.arg(), p.arg()}; }
  std::vector<std::uint32_t> result() const {
    std::vector<std::uint32_t> bits(o.data.begin(), o.data.end());
    for (float v : p.data)
      bits.push_back(v != v ? 0x7fc00000u : std::bit_cast<std::uint32_t>(v));
    return bits;
  }
};

std::vector<std::uint32_t> runInterpreter(mlir::ModuleOp module, unsigned seed) {
  auto program = tileir::InterpProgram::build(module);
  if (!program)
    throw std::runtime_error("not interpretable");
  Arguments args(seed);
  program->run(args.list());
  return args.result();
}

std::vector<std::uint32_t> runThreads(mlir::ModuleOp module, unsigned seed) {
  Arguments args(seed);
  runOnThreads(module, args.list());
  return args.result();
}

} // namespace

TEST_CASE("ResolveTails and AssignLayouts keep the meaning of random kernels", "[passes]") {
  unsigned count = 400;
  if (const char *more = std::getenv("SECTILE_TEST_KERNELS"))
    count = unsigned(std::atoi(more));
  for (unsigned seed = 0; seed < count; ++seed) {
    RandomKernel kernel(seed);
    Interpreted before(kernel.text);
    INFO("seed " << seed << "\n" << kernel.text << before.messages);
    REQUIRE(before.program);
    auto expected = runInterpreter(*before.module, seed);

    std::string messages;
    bool ok = runPasses(
        *before.module,
        [](mlir::OpPassManager &pm) {
          pm.addNestedPass<mlir::func::FuncOp>(passes::createResolveTailsPass());
        },
        messages);
    INFO("after ResolveTails\n" << messages << textOf(*before.module));
    REQUIRE(ok);
    before.module->walk([](mlir::Operation *op) {
      CHECK(!(
          llvm::isa<tileir::LoadOp, tileir::StoreOp, tileir::GatherOp, tileir::KeepOp, tileir::FillOp>(op)));
    });
    REQUIRE(runInterpreter(*before.module, seed) == expected);

    ok = runPasses(
        *before.module,
        [](mlir::OpPassManager &module) {
          auto &pm = module.nest<mlir::func::FuncOp>();
          pm.addPass(mlir::createLoopInvariantCodeMotionPass());
          pm.addPass(passes::createSimplifyPass());
          pm.addPass(mlir::createCSEPass());
          pm.addPass(passes::createSelectMmaPass());
          pm.addPass(passes::createAssignLayoutsPass());
          pm.addPass(mlir::createCSEPass());
        },
        messages);
    INFO("after AssignLayouts\n" << messages << textOf(*before.module));
    REQUIRE(ok);
    REQUIRE(runInterpreter(*before.module, seed) == expected);

    mlir::OwningOpRef<mlir::ModuleOp> again =
        mlir::parseSourceString<mlir::ModuleOp>(kernel.text, &before.context);
    passes::PipelineOptions options;
    options.schedule.stages = seed % 4 == 2 ? 0 : 1;
    options.schedule.warps = seed % 3 == 0 ? 0 : 1 << (seed % 4);
    ok = runPasses(
        *again, [&](mlir::OpPassManager &pm) { passes::buildPipeline(pm, options); }, messages);
    INFO("after the pipeline\n" << messages << textOf(*again));
    REQUIRE(ok);
    checkFinalForm(*again);
    if (seed % 2 == 0)
      REQUIRE(runThreads(*again, seed) == expected);
  }
}

namespace {

/// %C = %A * %B over tiles [M, N] with chunks of K; element types of operands and of C; accumulates in `sum`.
std::string matmulText(int m, int n, int k, DType operand, DType sum, const std::string &policy = "exact") {
  std::string a = tileType({m, k}, operand), b = tileType({k, n}, operand), c = tileType({m, n}, sum);
  std::string view = tensorType(2, operand), out = tensorType(2, sum);
  return kernelText("%A: " + view + ", %B: " + view + ", %C: " + out, R"(
    %m, %n = tile.grid %C [)" + std::to_string(m) + ", " + std::to_string(n) +
                                                                          "] : " + out + R"( -> index, index
    %c0 = tile.constant 0 : index
    %step = tile.constant )" + std::to_string(k) + R"( : index
    %zero = tile.constant )" + (isFloat(sum) ? "0.0" : "0") + " : " + typeName(sum) +
                                                                          R"(
    %K = tile.dim %A, 1 : )" + view + R"(
    %init = tile.splat %zero : )" + typeName(sum) + " -> " + c + R"(
    %r = scf.for %k = %c0 to %K step %step iter_args(%acc = %init) -> )" + c +
                                                                          R"( {
      %a = tile.load %A[%m, %k] : )" + view + " -> " + a + R"(
      %b = tile.load %B[%k, %n] : )" + view + " -> " + b + R"(
      %next = tile.mma )" + policy + " %a, %b, %acc : " + a + ", " + b + ", " +
                                                                          c + R"(
      scf.yield %next : )" + c + R"(
    }
    tile.store %r, %C[%m, %n] : )" + c + ", " + out);
}

template <class T, class S>
void checkMatmul(int m, int n, int k, const std::string &policy = "exact", int warps = 0) {
  std::string text = matmulText(m, n, k, dtypeOf<T>, dtypeOf<S>, policy);
  passes::PipelineOptions options;
  options.schedule.warps = warps;
  std::int64_t M = m + 5, N = n + 3, K = 2 * k + 7;
  Host<T> a = smallNumbers<T>({M, K}, 1), b = smallNumbers<T>({K + 4, N}, 2);
  // B goes on past the end of A's rows. What is there must not be met, not even by zeros.
  if constexpr (isFloat(dtypeOf<T>))
    for (std::int64_t i = K * N; i < (K + 4) * N; ++i)
      b[std::size_t(i)] = T(std::numeric_limits<float>::quiet_NaN());
  checkOnThreads(text, options, a, b, Host<S>({M, N}, S(-1)));
}

} // namespace

TEST_CASE("products on threads: types, tile sizes, warps", "[passes]") {
  SECTION("bf16") {
    checkMatmul<bf16, f32>(32, 16, 16);
    checkMatmul<bf16, f32>(64, 48, 48);
    checkMatmul<bf16, f32>(32, 40, 80);
    checkMatmul<bf16, f32>(16, 24, 8);
    checkMatmul<bf16, f32>(48, 96, 16);
  }
  SECTION("f16, also with f16 sums") {
    checkMatmul<f16, f32>(32, 16, 32);
    checkMatmul<f16, f16>(32, 16, 32);
  }
  SECTION("fp8") {
    checkMatmul<e4m3, f32>(32, 24, 32);
    checkMatmul<e5m2, f32>(16, 8, 32);
    checkMatmul<e5m2, f32>(16, 8, 16);
  }
  SECTION("integers") {
    checkMatmul<i8, i32>(32, 16, 32);
    checkMatmul<u8, i32>(16, 8, 16);
  }
  SECTION("no atom: scalar multiply-adds") {
    checkMatmul<f32, f32>(16, 16, 8);
    checkMatmul<bf16, f32>(8, 8, 8);
    checkMatmul<bf16, f32>(24, 20, 12);
  }
  SECTION("tf32 and f64") {
    checkMatmul<f32, f32>(32, 16, 8, "tf32");
    checkMatmul<f64, f64>(16, 16, 8);
  }
  SECTION("warps by hand") {
    for (int warps : {1, 2, 4, 8})
      checkMatmul<bf16, f32>(32, 32, 16, "exact", warps);
  }
  SECTION("products of warpgroups") {
    checkMatmul<bf16, f32>(64, 64, 64);
    checkMatmul<bf16, f32>(128, 96, 32);
    checkMatmul<bf16, f32>(64, 48, 48, "exact", 4);
    checkMatmul<f16, f16>(128, 64, 32, "exact", 8);
    checkMatmul<e4m3, f32>(64, 32, 64);
    checkMatmul<i8, i32>(64, 48, 32);
  }
}

namespace {

/// How the mask of a product's operand depends on its coordinates.
enum class MaskForm { None, AlongK, AcrossK, Each, Both };

/// Which lanes of a [rows, columns] operand a mask keeps.
Host<Truth> maskOf(MaskForm form, bool kIsColumn, std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 gen(seed);
  Host<Truth> mask({rows, columns});
  std::vector<std::uint8_t> byK(std::size_t(std::max(rows, columns))), across(byK.size());
  for (auto &v : byK)
    v = gen() % 3 != 0;
  for (auto &v : across)
    v = gen() % 3 != 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      bool alongK = byK[std::size_t(kIsColumn ? c : r)], other = across[std::size_t(kIsColumn ? r : c)];
      bool each = gen() % 3 != 0;
      mask[std::size_t(r * columns + c)].byte = form == MaskForm::AlongK    ? alongK
                                                : form == MaskForm::AcrossK ? other
                                                : form == MaskForm::Each    ? each
                                                                            : alongK && each;
    }
  return mask;
}

/// Ops that load and apply the mask of operand `x`, named `x`k: [rows, columns] at %`at`.
std::string keepText(MaskForm form, bool kIsColumn, const std::string &x, int rows, int columns, DType t,
                     const std::string &at) {
  std::string tile = tileType({rows, columns}, t), flags = tileType({rows, columns}, DType::boolean);
  std::string view = tensorType(2, DType::boolean), mask = "%" + x + "mask", text;
  auto load = [&](const std::string &name, const std::string &tensor, int r, int c) {
    std::string type = tileType({r, c}, DType::boolean);
    // The masks are equal along an axis that is loaded with length 1.
    std::string from = std::string(r == 1 && rows > 1 ? "%c0" : "%" + at.substr(0, 1)) + ", " +
                       (c == 1 && columns > 1 ? "%c0" : "%" + at.substr(1, 1));
    text += "  " + name + "l = tile.load " + tensor + "[" + from + "] : " + view + " -> " + type + "\n";
    if (type == flags)
      text += "  " + name + " = tile.fill " + name + "l, %no : " + flags + ", i1\n";
    else
      text += "  " + name + " = tile.broadcast " + name + "l : " + type + " -> " + flags + "\n";
  };
  std::string tensor = x == "a" ? "%MA" : "%MB";
  if (form == MaskForm::None)
    return "";
  bool lineOfColumns = (form == MaskForm::AlongK) == kIsColumn;
  if (form == MaskForm::Each || form == MaskForm::Both)
    load(mask, tensor, rows, columns);
  else
    load(mask, tensor, lineOfColumns ? 1 : rows, lineOfColumns ? columns : 1);
  std::string kept = "%" + x + "k", from = "%" + x;
  if (form == MaskForm::Both) { // a further mask that depends on k alone
    std::string line = kIsColumn ? tileType({1, columns}, DType::index) : tileType({rows, 1}, DType::index);
    std::string lineFlags =
        kIsColumn ? tileType({1, columns}, DType::boolean) : tileType({rows, 1}, DType::boolean);
    text += "  %" + x + "i = tile.iota " + (kIsColumn ? "1" : "0") + " : " + line + "\n  %" + x +
            "t = tile.splat %c7 : index -> " + line + "\n  %" + x + "ne = tile.compare ne %" + x + "i, %" +
            x + "t : " + line + " -> " + lineFlags + "\n  %" + x + "nb = tile.broadcast %" + x +
            "ne : " + lineFlags + " -> " + flags + "\n  %" + x + "s = tile.keep %" + x + "nb, " + from +
            " : " + flags + ", " + tile + "\n";
    from = "%" + x + "s";
  }
  return text + "  " + kept + " = tile.keep " + mask + ", " + from + " : " + flags + ", " + tile + "\n";
}

template <class A, class B, class S>
void checkMaskedMatmul(MaskForm aForm, MaskForm bForm, int m, int n, int k,
                       const std::string &policy = "exact") {
  auto [left, right, sum] = std::make_tuple(dtypeOf<A>, dtypeOf<B>, dtypeOf<S>);
  std::string a = tileType({m, k}, left), b = tileType({k, n}, right), c = tileType({m, n}, sum);
  std::string flags = tensorType(2, DType::boolean), out = tensorType(2, sum);
  std::string text = kernelText(
      "%A: " + tensorType(2, left) + ", %B: " + tensorType(2, right) + ", %MA: " + flags + ", %MB: " + flags +
          ", %C: " + out,
      "  %m, %n = tile.grid %C [" + std::to_string(m) + ", " + std::to_string(n) + "] : " + out +
          " -> index, index\n  %c0 = tile.constant 0 : index\n  %c7 = tile.constant 7 : index\n" +
          "  %no = tile.constant false\n  %step = tile.constant " + std::to_string(k) + " : index\n" +
          "  %K = tile.dim %A, 1 : " + tensorType(2, left) + "\n  %init = tile.load %C[%m, %n] : " + out +
          " -> " + c + "\n  %r = scf.for %k = %c0 to %K step %step iter_args(%acc = %init) -> " + c + " {\n" +
          "  %a = tile.load %A[%m, %k] : " + tensorType(2, left) + " -> " + a +
          "\n  %b = tile.load %B[%k, %n] : " + tensorType(2, right) + " -> " + b + "\n" +
          keepText(aForm, true, "a", m, k, left, "mk") + keepText(bForm, false, "b", k, n, right, "kn") +
          "  %next = tile.mma " + policy + (aForm == MaskForm::None ? " %a" : " %ak") +
          (bForm == MaskForm::None ? ", %b" : ", %bk") + ", %acc : " + a + ", " + b + ", " + c +
          "\n  scf.yield %next : " + c + "\n  }\n  tile.store %r, %C[%m, %n] : " + c + ", " + out);

  std::int64_t M = m + 5, N = n + 3, K = k + k / 2 + 1;
  Host<A> x = smallNumbers<A>({M, K}, 1);
  Host<B> y = smallNumbers<B>({K, N}, 2);
  Host<S> z = smallNumbers<S>({M, N}, 3);
  std::mt19937 gen(7);
  auto spoil = [&](auto &h) {
    using T = std::remove_cvref_t<decltype(h[0])>;
    if constexpr (isFloat(dtypeOf<T>))
      for (int i = 0; i < 6; ++i) {
        float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
        bool hasInf = dtypeOf<T> != DType::e4m3;
        h[gen() % h.data.size()] = i % 3 == 0 || !hasInf ? T(nan) : T(i % 3 == 1 ? inf : -inf);
      }
  };
  if constexpr (dtypeOf<A> == DType::e5m2) { // conversions saturate
    x[5] = std::bit_cast<A>(std::uint8_t(0x7c));
    x[std::size_t(K + 9)] = std::bit_cast<A>(std::uint8_t(0xfc));
  }
  if constexpr (dtypeOf<B> == DType::e5m2) {
    y[4] = std::bit_cast<B>(std::uint8_t(0x7c));
    y[std::size_t(N + 3)] = std::bit_cast<B>(std::uint8_t(0xfc));
  }
  spoil(x);
  spoil(y);
  Host<Truth> maskX = maskOf(aForm, true, M, K, 11), maskY = maskOf(bForm, false, K, N, 12);

  auto run = [&](auto &&program) {
    Host<S> result = z;
    program.run(std::vector<KernelArg>{x.arg(), y.arg(), maskX.arg(), maskY.arg(), result.arg()});
    std::vector<double> numbers;
    for (S v : result.data)
      numbers.push_back(double(float(v)));
    return numbers;
  };
  auto differing = [](const std::vector<double> &p, const std::vector<double> &q) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < p.size(); ++i)
      count += !(p[i] == q[i] || (p[i] != p[i] && q[i] != q[i]));
    return count;
  };
  INFO(text);
  Interpreted kernel(text);
  INFO(kernel.messages);
  REQUIRE(kernel.program);
  std::vector<double> expected = run(*kernel.program);
  auto nans = std::count_if(expected.begin(), expected.end(), [](double v) { return v != v; });
  CHECK(nans < std::ptrdiff_t(expected.size()));

  std::string messages;
  bool ok = runPasses(
      *kernel.module,
      [](mlir::OpPassManager &pm) { pm.addNestedPass<mlir::func::FuncOp>(passes::createResolveTailsPass()); },
      messages);
  INFO("after ResolveTails\n" << messages << textOf(*kernel.module));
  REQUIRE(ok);
  bool guarded = false;
  kernel.module->walk([&](mlir::scf::IfOp) { guarded = true; });
  auto needs = [](MaskForm form) { return form != MaskForm::None && form != MaskForm::AlongK; };
  CHECK(guarded == (isFloat(left) && (needs(aForm) || needs(bForm))));
  auto resolved = tileir::InterpProgram::build(*kernel.module);
  REQUIRE(resolved);
  CHECK(differing(run(*resolved), expected) == 0);

  for (const passes::PipelineOptions &options : {withoutPipelines(), passes::PipelineOptions()}) {
    mlir::OwningOpRef<mlir::ModuleOp> final = mlir::parseSourceString<mlir::ModuleOp>(text, &kernel.context);
    ok = runPasses(
        *final, [&](mlir::OpPassManager &pm) { passes::buildPipeline(pm, options); }, messages);
    INFO("after the pipeline\n" << messages << textOf(*final));
    REQUIRE(ok);
    checkFinalForm(*final);
    CHECK(differing(run(OnThreads{*final}), expected) == 0);
  }
}

} // namespace

TEST_CASE("lanes that a mask leaves out of a product add nothing, not even 0 * inf", "[passes]") {
  auto forms = [](auto check) {
    using enum MaskForm;
    for (auto [a, b] : std::vector<std::pair<MaskForm, MaskForm>>{{AlongK, None},
                                                                  {None, AlongK},
                                                                  {AcrossK, None},
                                                                  {Each, None},
                                                                  {None, Each},
                                                                  {Each, Each},
                                                                  {Both, Both}}) {
      INFO("masks " << int(a) << ", " << int(b));
      check(a, b);
    }
  };
  SECTION("bf16") {
    forms([](auto a, auto b) { checkMaskedMatmul<bf16, bf16, f32>(a, b, 32, 16, 16); });
  }
  SECTION("f16") {
    forms([](auto a, auto b) { checkMaskedMatmul<f16, f16, f32>(a, b, 16, 8, 16); });
  }
  SECTION("f16 sums") {
    forms([](auto a, auto b) { checkMaskedMatmul<f16, f16, f16>(a, b, 16, 8, 16); });
  }
  SECTION("f32") {
    forms([](auto a, auto b) { checkMaskedMatmul<f32, f32, f32>(a, b, 16, 8, 8); });
  }
  SECTION("tf32") {
    forms([](auto a, auto b) { checkMaskedMatmul<f32, f32, f32>(a, b, 16, 16, 8, "tf32"); });
  }
  SECTION("f64") {
    forms([](auto a, auto b) { checkMaskedMatmul<f64, f64, f64>(a, b, 16, 8, 8); });
  }
  SECTION("fp8") {
    forms([](auto a, auto b) { checkMaskedMatmul<e4m3, e5m2, f32>(a, b, 16, 8, 32); });
    forms([](auto a, auto b) { checkMaskedMatmul<e5m2, e5m2, f32>(a, b, 16, 8, 32); });
  }
  SECTION("integers") {
    forms([](auto a, auto b) { checkMaskedMatmul<i8, i8, i32>(a, b, 16, 8, 32); });
  }
  SECTION("shapes without an atom") {
    forms([](auto a, auto b) { checkMaskedMatmul<bf16, bf16, f32>(a, b, 3, 5, 9); });
  }
}

TEST_CASE("row kernels on threads: widths and rows", "[passes]") {
  for (auto [rows, width] : std::vector<std::pair<int, int>>{
           {1, 24}, {1, 48}, {2, 40}, {3, 96}, {4, 256}, {1, 4096}, {8, 33}, {1, 1000}}) {
    std::string view = tensorType(2, DType::f32), tile = tileType({rows, width}, DType::f32),
                line = tileType({rows, 1}, DType::f32);
    // Everything stays exact: x - max, then the sum of those.
    std::string text = kernelText("%X: " + view + ", %Y: " + view, R"(
      %r = tile.grid %X [)" + std::to_string(rows) + "] : " + view + R"( -> index
      %c0 = tile.constant 0 : index
      %x = tile.load %X[%r, %c0] : )" + view + " -> " + tile + R"(
      %m = tile.reduce max %x, 1 : )" + tile + " -> " + line + R"(
      %mb = tile.broadcast %m : )" + line + " -> " + tile + R"(
      %d = tile.binary sub %x, %mb : )" + tile + R"(
      %s = tile.reduce sum %d, 1 : )" + tile + " -> " + line + R"(
      %sb = tile.broadcast %s : )" + line + " -> " + tile + R"(
      %y = tile.binary add %d, %sb : )" + tile + R"(
      tile.store %y, %Y[%r, %c0] : )" + tile + ", " + view);
    std::int64_t dim = width - width / 5;
    int barriers = checkOnThreads(text, {}, smallNumbers<f32>({5, dim}, 3), Host<f32>({5, dim}, -9.0f));
    INFO(rows << " x " << width);
    CHECK(barriers <= 5 * 4);
  }
}

namespace {

/// One row reduction of every kind of exchange: values, positions, narrow types, in the row's own loop.
std::string clusterText(int width, DType t, const std::string &kind, bool inLoop) {
  std::string view = tensorType(2, t), tile = tileType({1, width}, t), line = tileType({1, 1}, t);
  bool isArg = kind.starts_with("arg");
  std::string result = isArg ? tileType({1, 1}, DType::i64) : line;
  std::string out = isArg ? tensorType(2, DType::i64) : view;
  std::string index = "tensor<1x1xindex>";
  std::string body = "      %x = tile.load %X[%r, %c0] : " + view + " -> " + tile + "\n      %m = tile.reduce " +
                     kind + " %x, 1 : " + tile + " -> " + (isArg ? index : line) + "\n";
  if (isArg)
    body += "      %o = tile.cast %m : " + index + " -> " + result + "\n";
  else
    body += "      %b = tile.broadcast %m : " + line + " -> " + tile + "\n      %d = tile.binary sub %x, %b : " +
            tile + "\n      %o = tile.reduce min %d, 1 : " + tile + " -> " + line + "\n";
  body += "      tile.store %o, %Y[%r, %c0] : " + result + ", " + out + "\n";
  std::string head = "      %c0 = tile.constant 0 : index\n";
  if (inLoop)
    head += "      %c1 = tile.constant 1 : index\n      %n = tile.dim %X, 0 : " + view +
            "\n      scf.for %r = %c0 to %n step %c1 {\n" + body + "      }";
  else
    head += "      %r = tile.grid %X [1] : " + view + " -> index\n" + body;
  return kernelText("%X: " + view + ", %Y: " + out, head);
}

} // namespace

TEST_CASE("rows over the blocks of a cluster", "[passes]") {
  passes::PipelineOptions options = withoutPipelines();
  for (int cluster : {2, 4, 8})
    for (int warps : {1, 4})
      for (bool inLoop : {false, true}) {
        INFO(cluster << " blocks of " << warps << " warps, loop " << inLoop);
        options.schedule.cluster = cluster;
        options.schedule.warps = warps;
        auto check = [&](auto zero, const std::string &kind) {
          using T = decltype(zero);
          INFO(kind << " of " << name(dtypeOf<T>));
          std::string text = clusterText(2048, dtypeOf<T>, kind, inLoop);
          if (kind.starts_with("arg"))
            checkOnThreads(text, options, smallNumbers<T>({3, 1999}, 7), Host<i64>({3, 1}, -1));
          else
            checkOnThreads(text, options, smallNumbers<T>({3, 1999}, 7), Host<T>({3, 1}, T(1)));
        };
        check(f32(), "max");
        check(f32(), "sum");
        check(f64(), "sum");
        check(i32(), "argmin");
        check(bf16(), "max");
        check(i8(), "max");
        check(i64(), "sum");
      }
}

TEST_CASE("blocks of a cluster that do not wait for each other are noticed", "[passes]") {
  auto runWithout = [](auto change) {
    Interpreted kernel(clusterText(512, DType::f32, "sum", /*inLoop=*/true));
    passes::PipelineOptions options = withoutPipelines();
    options.schedule.cluster = 4;
    options.schedule.warps = 1;
    std::string messages;
    REQUIRE(runPasses(
        *kernel.module, [&](mlir::OpPassManager &pm) { passes::buildPipeline(pm, options); }, messages));
    kernel.module->walk([&](mlir::Operation *op) { change(op); });
    auto x = smallNumbers<f32>({3, 500}, 7);
    Host<f32> y({3, 1}, 1.0f);
    try {
      runOnThreads(*kernel.module, std::vector<KernelArg>{x.arg(), y.arg()});
    } catch (const std::runtime_error &e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  CHECK(runWithout([](mlir::Operation *) {}) == "nothing");
  CHECK_THAT(runWithout([](mlir::Operation *op) {
          if (llvm::isa<tgpu::ClusterStartOp>(op))
            op->erase();
        }),
             Catch::Contains("another block may not run yet"));
  CHECK_THAT(runWithout([](mlir::Operation *op) {
          if (llvm::isa<tgpu::PeerWaitOp>(op))
            op->erase();
        }),
             Catch::Contains("that is under way from another block"));
  CHECK_THAT(runWithout([](mlir::Operation *op) {
          if (auto barrier = llvm::dyn_cast<tgpu::BarrierOp>(op))
            barrier.setCluster(false);
        }),
             Catch::Contains("sent again without a barrier of the cluster"));
}

TEST_CASE("tile lengths with an odd factor above 15 on threads", "[passes]") {
  SECTION("rows") {
    for (auto [rows, width] : std::vector<std::pair<int, int>>{
             {7, 100}, {17, 33}, {1, 1234}, {1, 12345}, {34, 3}, {5, 17}, {1, 19}}) {
      std::string view = tensorType(2, DType::f32), ids = tensorType(2, DType::i64);
      std::string tile = tileType({rows, width}, DType::f32), line = tileType({rows, 1}, DType::f32),
                  index = "tensor<" + std::to_string(rows) + "x1xindex>",
                  place = tileType({rows, 1}, DType::i64),
                  flags = "tensor<" + std::to_string(rows) + "x" + std::to_string(width) + "xi1>";
      // Exact in any order. Lanes past the tile would show in the product and the sum (3 everywhere), in the
      // extremes and in the positions.
      std::string text = kernelText("%X: " + view + ", %Y: " + view + ", %I: " + ids, R"(
      %r = tile.grid %X [)" + std::to_string(rows) + "] : " + view + R"( -> index
      %c0 = tile.constant 0 : index
      %three = tile.constant dense<3.0> : )" + tile + R"(
      %x = tile.load %X[%r, %c0] : )" + view + " -> " + tile + R"(
      %m = tile.reduce min %x, 1 : )" + tile + " -> " + line + R"(
      %n = tile.reduce maxnum %x, 1 : )" + tile + " -> " + line + R"(
      %a = tile.reduce argmax %x, 1 : )" + tile + " -> " + index + R"(
      %s = tile.reduce sum %three, 1 : )" + tile + " -> " + line + R"(
      %c = tile.reduce sum %x, 0 : )" + tile + " -> " + tileType({1, width}, DType::f32) + R"(
      %t = tile.binary add %m, %s : )" + line + R"(
      %u = tile.binary sub %t, %n : )" + line + R"(
      %ub = tile.broadcast %u : )" + line + " -> " + tile + R"(
      %cb = tile.broadcast %c : )" + tileType({1, width}, DType::f32) + " -> " + tile + R"(
      %v = tile.binary add %ub, %cb : )" + tile + R"(
      %ge = tile.compare ge %v, %x : )" + tile + " -> " + flags + R"(
      %k = tile.keep %ge, %v : )" + flags + ", " + tile + R"(
      %p = tile.cast %a : )" + index + " -> " + place + R"(
      tile.store %k, %Y[%r, %c0] : )" + tile + ", " + view + R"(
      tile.store %p, %I[%r, %c0] : )" + place + ", " + ids);
      INFO(rows << " x " << width);
      // Tensors longer than a tile: what lies past the tile is there to be read and written wrongly.
      for (std::int64_t dim : {width + 20, width, width - width / 5})
        checkOnThreads(text, {}, smallNumbers<f32>({rows + 2, dim}, 3), Host<f32>({rows + 2, dim}, -9.0f),
                       Host<i64>({rows + 2, 1}, -1));
    }
  }
  SECTION("products") {
    checkMatmul<bf16, f32>(51, 68, 34);
    checkMatmul<f16, f16>(17, 19, 23);
    checkMatmul<i8, i32>(33, 34, 35);
    checkMatmul<e4m3, f32>(50, 17, 66);
    checkMatmul<f32, f32>(17, 8, 40);
    checkMatmul<f64, f64>(17, 17, 17);
  }
}

TEST_CASE("ranks 1 to 5 and element types on threads", "[passes]") {
  auto check = [](auto zero, std::vector<std::int64_t> shape, std::vector<std::int64_t> dims) {
    using T = decltype(zero);
    std::string element = typeName(dtypeOf<T>), rank = std::to_string(shape.size());
    std::string view = tensorType(int(shape.size()), dtypeOf<T>), tile = "tensor<", sizes, offsets,
                flags = "tensor<";
    std::string names, indices;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      tile += std::to_string(shape[d]) + "x";
      flags += std::to_string(shape[d]) + "x";
      sizes += (d ? ", " : "") + std::to_string(shape[d]);
      names += (d ? ", %g" : "%g") + std::to_string(d);
      indices += d ? ", index" : "index";
    }
    tile += element + ">";
    flags += "i1>";
    std::string reversed = "tensor<", perm;
    for (std::size_t d = shape.size(); d-- > 0;) {
      reversed += std::to_string(shape[d]) + "x";
      perm += (perm.empty() ? "" : ", ") + std::to_string(d);
    }
    reversed += element + ">";
    std::string text = kernelText("%X: " + view + ", %Y: " + view, names + " = tile.grid %Y [" + sizes +
                                                                       "] : " + view + " -> " + indices + R"(
      %x = tile.load %X[)" + names + "] : " + view + " -> " + tile + R"(
      %t = tile.permute %x [)" + perm + "] : " + tile + " -> " + reversed +
                                                                       R"(
      %b = tile.permute %t [)" + perm + "] : " + reversed + " -> " + tile +
                                                                       R"(
      %m = tile.compare ge %b, %x : )" + tile + " -> " + flags + R"(
      %k = tile.keep %m, %b : )" + flags + ", " + tile + R"(
      tile.store %k, %Y[)" + names + "] : " + tile + ", " + view);
    checkOnThreads(text, {}, smallNumbers<T>(dims, 5), Host<T>(dims, T(1)));
  };
  check(f32(), {96}, {1001});
  check(bf16(), {24, 40}, {50, 61});
  check(f16(), {2, 3, 8}, {5, 7, 13});
  check(f64(), {2, 2, 6, 4}, {3, 3, 7, 5});
  check(e4m3(), {1, 2, 3, 4, 8}, {2, 3, 4, 5, 9});
  check(e5m2(), {64}, {100});
  check(i8(), {16, 16}, {17, 40});
  check(i16(), {33, 2}, {40, 3});
  check(i64(), {8, 8}, {9, 9});
  check(u32(), {128}, {130});
}

TEST_CASE("memory that a program reads again is ordered", "[passes]") {
  // Each iteration reads what the one before wrote, one element further on: another thread's element.
  std::string view = tensorType(1, DType::i32), tile = tileType({64}, DType::i32);
  std::string text = kernelText("%X: " + view, R"(
    %c0 = tile.constant 0 : index
    %c1 = tile.constant 1 : index
    %c5 = tile.constant 5 : index
    scf.for %i = %c0 to %c5 step %c1 {
      %x = tile.load %X[%i] : )" + view + " -> " + tile +
                                                   R"(
      %next = tile.binary add %i, %c1 : index
      tile.store %x, %X[%next] : )" + tile + ", " + view +
                                                   R"(
    })");
  int barriers = checkOnThreads(text, {}, smallNumbers<i32>({70}, 1));
  CHECK(barriers >= 9);
  // The same elements by the same threads need none.
  text = kernelText("%X: " + view, R"(
    %i = tile.grid %X [64] : )" + view +
                                       R"( -> index
    %x = tile.load %X[%i] : )" + view + " -> " +
                                       tile + R"(
    %y = tile.binary add %x, %x : )" + tile +
                                       R"(
    tile.store %y, %X[%i] : )" + tile + ", " +
                                       view);
  CHECK(checkOnThreads(text, {}, smallNumbers<i32>({200}, 1)) == 0);
}

TEST_CASE("limits and wrong choices are user errors with both numbers", "[passes]") {
  auto messageOf = [](const std::string &text, passes::PipelineOptions options) {
    Interpreted kernel(text);
    REQUIRE(kernel.module);
    std::string messages;
    CHECK_FALSE(runPasses(
        *kernel.module, [&](mlir::OpPassManager &pm) { passes::buildPipeline(pm, options); }, messages));
    return messages;
  };
  passes::PipelineOptions options = withoutPipelines();
  std::string small = matmulText(32, 16, 16, DType::bf16, DType::f32);
  options.arch = "sm_12";
  CHECK(messageOf(small, options).find("'sm_12' is no known target [select_mma_c1]") != std::string::npos);
  options.arch = "sm_90a";
  for (int warps : {3, 64, -1}) {
    options.schedule.warps = warps;
    CHECK(messageOf(small, options)
              .find(std::to_string(warps) + " warps per block, sm_90a runs powers of two from 1 to 32") !=
          std::string::npos);
  }
  options.schedule.warps = 0;
  options.schedule.cluster = 2;
  CHECK(messageOf(small, options)
            .find("moves whole tiles between threads, and the cluster is set to 2 blocks [choose_cluster_c3]; set "
                  "the cluster to 1, or leave it at 0") != std::string::npos);
  options.schedule.cluster = 16;
  CHECK(messageOf(small, options)
            .find("a cluster of 16 blocks, sm_90a runs powers of two from 1 to 8 [choose_cluster_c2]") !=
        std::string::npos);
  options.arch = "sm_89";
  CHECK(messageOf(small, options)
            .find("a cluster of 16 blocks, sm_89 has no clusters [choose_cluster_c2]; leave it at 0 or 1") !=
        std::string::npos);
  options.arch = "sm_90a";
  options.schedule.cluster = 0;
  std::string wide = matmulText(256, 256, 512, DType::bf16, DType::f32);
  CHECK(messageOf(wide, options)
            .find("needs 524288 bytes of shared memory, sm_90a allows 232448 [check_resources_c1]; "
                  "pick smaller tiles") != std::string::npos);
  std::string huge = matmulText(2048, 1024, 16, DType::bf16, DType::f32);
  CHECK(messageOf(huge, options).find("registers in each of 256 threads") != std::string::npos);
}
