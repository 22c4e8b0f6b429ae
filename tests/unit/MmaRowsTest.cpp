// SPDX-License-Identifier: Apache-2.0
/// \file Every row of the MMA table, without a list of rows: its instruction runs on the executor of lowered code, the code
/// generator writes it, and products of tiles of its shape are lowered to it and give what the interpreter gives. A new row
/// is tested here as soon as it stands in the table.
#include "ir/TileDialect.h"
#include "ir/base/Scalar.h"
#include "tests/support/FinalForm.h"
#include "tests/support/RunOnGpu.h"
#include "tests/support/WgmmaKernels.h"

#include <catch2/catch.hpp>

#include <bit>
#include <set>

using namespace sectile;
using namespace sectile::testing;
using sectile::test::Interpreted;
using sectile::test::runOnThreads;

namespace {

/// Whole numbers in a tensor of any element type.
struct Numbers {
  DType dtype;
  std::vector<std::int64_t> dims;
  std::vector<std::byte> bytes;
  Numbers(DType t, std::vector<std::int64_t> d) : dtype(t), dims(std::move(d)) {
    bytes.resize(std::size_t(count()) * byteSize(t) + 256);
  }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (std::int64_t d : dims)
      n *= d;
    return n;
  }
  /// At a multiple of 256 bytes.
  std::byte *begin() const {
    const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
    return reinterpret_cast<std::byte *>((at + 255) / 256 * 256);
  }
  template <class T> void put(std::size_t i, T v) { std::memcpy(begin() + i * sizeof(T), &v, sizeof(T)); }
  template <class T> T get(std::size_t i) const {
    T v;
    std::memcpy(&v, begin() + i * sizeof(T), sizeof(T));
    return v;
  }
  KernelArg arg() {
    KernelArg a;
    a.dtype = dtype;
    a.rank = int(dims.size());
    a.data = begin();
    std::int64_t stride = 1;
    for (std::size_t d = dims.size(); d-- > 0; stride *= dims[d]) {
      a.dims[d] = dims[d];
      a.strides[d] = stride;
    }
    return a;
  }
};

template <class A> void putNumber(A &a, std::int64_t i, int v) {
  detail::visitDType(a.dtype, [&]<class T>(std::type_identity<T>) { a.template put<T>(std::size_t(i), T(float(v))); });
}
template <class A> double numberAt(const A &a, std::int64_t i) {
  return detail::visitDType(a.dtype,
                            [&]<class T>(std::type_identity<T>) { return double(a.template get<T>(std::size_t(i))); });
}

std::vector<std::int64_t> dimsOf(const Panels &p) { return {p.panels, p.rows, p.columns}; }

/// Runs the text on the executor; what is wrong.
std::string execute(const std::string &text, const std::vector<KernelArg> &args) {
  Interpreted kernel(text);
  if (!kernel.module)
    return kernel.messages + text;
  try {
    runOnThreads(*kernel.module, args);
  } catch (const std::exception &e) {
    return e.what();
  }
  return {};
}

/// Numbers of a form's operands: A[m, k], B[k, n], C[m, n].
int numberOfA(const WgmmaForm &f, int m, int k) { return wholeNumber(m * 67 + k, 1, f.row->a.dtype); }
int numberOfB(const WgmmaForm &f, int k, int n) { return wholeNumber(k * 259 + n, 2, f.row->b.dtype); }
int numberOfC(const WgmmaForm &f, int m, int n) { return wholeNumber(m * 257 + n, 3, f.row->c.dtype); }

/// Runs the form by `execute(text, a, b, c)`, which gives what went wrong; `T` holds numbers.
template <class T, class F> std::string testWgmma(const WgmmaForm &f, F execute) {
  const MmaRow &row = *f.row;
  const Panels pa = panelsOfA(f), pb = panelsOfB(f);
  T a(row.a.dtype, f.aInRegisters ? std::vector<std::int64_t>{row.m, f.k()} : dimsOf(pa)), b(row.b.dtype, dimsOf(pb)),
      c(row.c.dtype, {row.m, row.n});
  for (int k = 0; k < f.k(); ++k) {
    for (int m = 0; m < row.m; ++m)
      putNumber(a, f.aInRegisters ? m * f.k() + k : pa.at(m, k), numberOfA(f, m, k));
    for (int n = 0; n < row.n; ++n)
      putNumber(b, pb.at(n, k), numberOfB(f, k, n));
  }
  for (int i = 0; i < row.m * row.n; ++i)
    putNumber(c, i, numberOfC(f, i / row.n, i % row.n));
  std::string report = execute(wgmmaProduct(f, "sm_90a"), a, b, c);
  int wrong = 0;
  for (int m = 0; m < row.m; ++m)
    for (int n = 0; n < row.n; ++n) {
      int want = numberOfC(f, m, n);
      for (int k = 0; k < f.k(); ++k)
        want += numberOfA(f, m, k) * numberOfB(f, k, n);
      if (const double got = numberAt(c, m * row.n + n); got != want && ++wrong <= 3)
        report += fmt::format("[{}, {}]: {}, not {}\n", m, n, got, want);
    }
  return report;
}

std::string testMmaSync(const MmaRow &row) {
  const MatmulShape shape{64, 64, std::max(32, row.k), 2, 2};
  const int M = 80, N = 80, K = 48; // the last tiles are cut; multiples of 16, as the text says
  Numbers a(row.a.dtype, {M, K}), b(row.b.dtype, {K, N}), c(row.c.dtype, {M, N});
  auto av = [&](int m, int k) { return wholeNumber(m * 67 + k, 1, row.a.dtype); };
  auto bv = [&](int k, int n) { return wholeNumber(k * 259 + n, 2, row.b.dtype); };
  for (int i = 0; i < M * K; ++i)
    putNumber(a, i, av(i / K, i % K));
  for (int i = 0; i < K * N; ++i)
    putNumber(b, i, bv(i / N, i % N));
  std::string report = execute(matmul(row, "sm_90a", shape), {a.arg(), b.arg(), c.arg()});
  int wrong = 0;
  for (int i = 0; i < M * N; ++i) {
    int want = 0;
    for (int k = 0; k < K; ++k)
      want += av(i / N, k) * bv(k, i % N);
    if (numberAt(c, i) != want && ++wrong <= 3)
      report += fmt::format("[{}, {}]: {}, not {}\n", i / N, i % N, numberAt(c, i), want);
  }
  return report;
}

/// A product of tiles of the row's shape (a warpgroup's, or four atoms of a warp), K in a loop of two steps with a tail.
std::string tileProduct(const MmaRow &row, int m, int n, int k) {
  auto view = [](DType t) { return sectile::test::tensorType(2, t); };
  auto argument = [&](const char *name, DType t) {
    return fmt::format("%{}: {} {{tile.align = 16 : i64, tile.unit_stride = 1 : i64, tile.stride_div = array<i64: 16, 1>, "
                       "tile.stride_rem = array<i64: 0, 1>, tile.dim_div = array<i64: 1, 1>, tile.small{}}}",
                       name, view(t), name[0] == 'C' ? "" : ", tile.readonly");
  };
  const std::string a = sectile::test::tileType({m, k}, row.a.dtype), b = sectile::test::tileType({k, n}, row.b.dtype),
                    c = sectile::test::tileType({m, n}, row.c.dtype);
  return sectile::test::kernelText(
      argument("A", row.a.dtype) + ", " + argument("B", row.b.dtype) + ", " + argument("C", row.c.dtype),
      fmt::format(R"(
    %m, %n = tile.grid %C [{M}, {N}] : {cv} -> index, index
    %c0 = tile.constant 0 : index
    %step = tile.constant {K} : index
    %depth = tile.dim %A, 1 : {av}
    %zero = tile.constant dense<{zero}> : {c}
    %r = scf.for %k = %c0 to %depth step %step iter_args(%acc = %zero) -> {c} {{
      %a = tile.load %A[%m, %k] : {av} -> {a}
      %b = tile.load %B[%k, %n] : {bv} -> {b}
      %next = tile.mma {policy} %a, %b, %acc : {a}, {b}, {c}
      scf.yield %next : {c}
    }}
    tile.store %r, %C[%m, %n] : {c}, {cv})",
                  fmt::arg("M", m), fmt::arg("N", n), fmt::arg("K", k), fmt::arg("av", view(row.a.dtype)),
                  fmt::arg("bv", view(row.b.dtype)), fmt::arg("cv", view(row.c.dtype)), fmt::arg("a", a), fmt::arg("b", b),
                  fmt::arg("c", c), fmt::arg("zero", isFloat(row.c.dtype) ? "0.0" : "0"),
                  fmt::arg("policy", row.policyOnly ? "tf32" : "exact")));
}

/// Lowered by the default schedule to products of the row, then compared with the interpreter bit for bit.
std::string testLowered(const MmaRow &row, int m, int n, int k, int stages) {
  const int M = m + 3, N = n, K = 2 * k - 16 / int(byteSize(row.a.dtype));
  Numbers a(row.a.dtype, {M, K}), b(row.b.dtype, {K, N}), c(row.c.dtype, {M, N}), d(row.c.dtype, {M, N});
  for (int i = 0; i < M * K; ++i)
    putNumber(a, i, wholeNumber(i, 1, row.a.dtype));
  for (int i = 0; i < K * N; ++i)
    putNumber(b, i, wholeNumber(i, 2, row.b.dtype));
  Interpreted kernel(tileProduct(row, m, n, k));
  if (!kernel.program)
    return kernel.messages;
  kernel.program->run(std::vector<KernelArg>{a.arg(), b.arg(), c.arg()});
  passes::PipelineOptions options;
  options.schedule.stages = stages;
  std::string messages;
  if (!sectile::test::runPasses(
          *kernel.module, [&](mlir::OpPassManager &pm) { passes::buildPipeline(pm, options); }, messages))
    return messages;
  bool found = false;
  kernel.module->walk([&](mlir::Operation *op) {
    for (mlir::NamedAttribute attribute : op->getAttrs())
      if (auto atom = llvm::dyn_cast<tgpu::AtomAttr>(attribute.getValue()))
        found |= atom.getName() == llvm::StringRef(row.name);
  });
  if (!found)
    return "lowered to another instruction\n" + sectile::test::textOf(*kernel.module);
  try {
    runOnThreads(*kernel.module, std::vector<KernelArg>{a.arg(), b.arg(), d.arg()});
  } catch (const std::exception &e) {
    return e.what();
  }
  return std::memcmp(c.begin(), d.begin(), std::size_t(M) * N * byteSize(row.c.dtype)) ? "other values than the interpreter's"
                                                                                      : "";
}

/// Types that the language multiplies; f16 sums are kept in f32 and rounded once.
bool inLanguage(const MmaRow &row) {
  return (row.a.dtype == row.b.dtype || isFloat(row.a.dtype)) && row.c.dtype != DType::f16;
}

/// Tiles of such lengths grow, see PadTiles: their products use the next rows.
bool isPadded(int n) { return (n >> std::countr_zero(unsigned(n))) > 15; }

} // namespace

TEST_CASE("every row of wgmma on the executor: places and majors of operands", "[mma][executor]") {
  int steps = 1, ran = 0;
  for (const MmaRow &row : mmaRows()) {
    if (row.kind != MmaKind::Wgmma)
      continue;
    for (const WgmmaForm &form : formsOf(row, steps)) {
      INFO(form.name());
      CHECK(testWgmma<Numbers>(form, [](const std::string &text, Numbers &a, Numbers &b, Numbers &c) {
              return execute(text, {a.arg(), b.arg(), c.arg()});
            }) == "");
      ++ran;
    }
    steps = steps == 4 ? 1 : 2 * steps; // panels of 32, 64 and 128 bytes
  }
  CHECK(ran > 0);
}

TEST_CASE("every row of mma.sync on the executor", "[mma][executor]") {
  int ran = 0;
  for (const MmaRow &row : mmaRows())
    if (row.kind == MmaKind::MmaSync) {
      INFO(row.name);
      CHECK(testMmaSync(row) == "");
      ++ran;
    }
  CHECK(ran > 0);
}

TEST_CASE("products of tiles are lowered to every row that the language reaches", "[mma][executor]") {
  std::set<std::string> reached;
  for (const MmaRow &row : mmaRows()) {
    // Short sums of fp8 lie beside those that they are added to, which leaves no registers for the widest rows.
    const bool isTooWide = isFloat(row.a.dtype) && byteSize(row.a.dtype) == 1 && row.n > 200;
    if (!inLanguage(row) || (row.kind == MmaKind::Wgmma && (row.policyOnly || isPadded(row.n) || isTooWide)))
      continue; // tf32 has tests of its own
    INFO(row.name);
    if (row.kind == MmaKind::Wgmma)
      CHECK(testLowered(row, row.m, row.n, 2 * row.k, 0) == "");
    else // an odd number of steps along K keeps the row with half as many
      CHECK(testLowered(row, 2 * row.m, 2 * row.n, row.k * (row.kind == MmaKind::MmaSync ? 3 : 1), 1) == "");
    reached.insert(row.name);
  }
  CHECK(reached.size() > 0);
}

TEST_CASE("the code generator writes every row of wgmma", "[mma][codegen]") {
  std::size_t number = 0; // operands in shared memory with each row, the other forms by turns
  for (const MmaRow &row : mmaRows()) {
    if (row.kind != MmaKind::Wgmma)
      continue;
    const std::vector<WgmmaForm> forms = formsOf(row, 2);
    for (const WgmmaForm &form : {forms[0], forms[1 + number++ % (forms.size() - 1)]}) {
      INFO(form.name());
      Emitted e = emitText(wgmmaProduct(form, "sm_90a"));
      INFO(e.errors);
      REQUIRE(e.ok);
      const std::string &ptx = e.artifact.ptx;
      std::size_t count = 0;
      for (std::size_t at = ptx.find(row.mnemonic); at != std::string::npos; at = ptx.find(row.mnemonic, at + 1))
        ++count;
      CHECK(count == std::size_t(form.steps));
      CHECK(ptx.find(".local") == std::string::npos);
    }
  }
}

TEST_CASE("every row of wgmma on the GPU", "[mma][gpu]") {
  std::string report = onGpu([] {
    std::string report;
    if (!findTarget(archOfGpu())->has(Feature::wgmma))
      return report;
    std::size_t number = 0;
    for (const MmaRow &row : mmaRows()) {
      if (row.kind != MmaKind::Wgmma)
        continue;
      // Operands in shared memory with each row, the other forms by turns.
      const std::vector<WgmmaForm> forms = formsOf(row, 1 << number % 3);
      for (const WgmmaForm &form : {forms[0], forms[1 + number++ % (forms.size() - 1)]}) {
        const std::string r = testWgmma<Array>(form, [](const std::string &text, Array &a, Array &b, Array &c) {
          return runKernel(text, {&a, &b, &c});
        });
        if (!r.empty())
          report += form.name() + ":\n" + r;
      }
    }
    return report;
  });
  INFO(report);
  CHECK(report.empty());
}
