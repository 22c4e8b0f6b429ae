// SPDX-License-Identifier: Apache-2.0
// Graphs: what they record, which nodes become one kernel, and that fused nodes compute what the nodes alone compute, on the
// interpreter and, lowered, on the executor.
#include "dsl/Context.h"
#include "dsl/GraphImpl.h"
#include "dsl/Trace.h"
#include "passes/Pipeline.h"
#include "samples/17_chains/kernels.h"
#include "tests/support/FinalForm.h"
#include "tests/support/GraphKernels.h"

#include <catch2/catch.hpp>

#include <array>
#include <cmath>

using namespace sectile;
using namespace sectile::test;

namespace {

template <class T, int R> detail::GraphState &stateOf(const GraphTensor<T, R> &x) { return *x.asInput({}).graph; }

/// Every kernel of the plan, lowered for sm_90a, thread by thread.
void runLowered(const detail::GraphState &graph, const detail::Plan &plan, int stages) {
  std::vector<std::byte> memory(static_cast<std::size_t>(plan.workspaceBytes) + 256, std::byte(0xA5));
  auto *base = reinterpret_cast<std::byte *>((reinterpret_cast<std::uintptr_t>(memory.data()) + 255) / 256 * 256);
  for (const detail::PlanStep &step : plan.steps) {
    std::vector<KernelArg> all = step.numbers, args;
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (const int value = step.values[p]; value >= 0) {
        all[p] = detail::placedArg(graph, plan, value, base);
      }
      if (step.kernel.params[p].kind != detail::ParamDesc::Kind::constant)
        args.push_back(all[p]);
    }
    ContextLease context;
    Config config;
    auto module = detail::trace(*context, step.kernel, all, config);
    REQUIRE(mlir::succeeded(mlir::verify(*module)));
    std::string messages;
    const std::string text = textOf(*module);
    passes::PipelineOptions options;
    options.schedule.stages = stages;
    bool ok = runPasses(*module, [&](mlir::OpPassManager &pm) { passes::buildPipeline(pm, options); }, messages);
    INFO(messages << text);
    REQUIRE(ok);
    runOnThreads(*module, args);
  }
}

const Stream &host() {
  static const Stream stream = Device::interpreter().stream();
  return stream;
}

} // namespace

TEST_CASE("graph: a chain of elementwise kernels is one kernel without memory between", "[graph]") {
  for (auto [rows, columns] : {std::pair{37, 100}, {64, 128}, {1, 5}}) {
    Memory<bf16> x({rows, columns}, 1), r({rows, columns}, 2), b({columns}, 3), want({rows, columns}), got({rows, columns});
    auto make = [&](Memory<bf16> &out, Fuse how) {
      Graph g("chain");
      auto y = axpyOf<bf16>(biasReluOf<bf16>(g.input(x.view<2>()), g.input(b.view<1>())), g.input(r.view<2>()), 0.5f);
      g.output(y, out.view<2>());
      return g.build(how);
    };
    Composed alone = make(want, fuse::none), fused = make(got, fuse::require | fuse::keepRounding), loose = make(got, fuse::require);
    CHECK(alone.launches() == 2);
    CHECK(alone.workspaceBytes() > 0);
    CHECK(fused.launches() == 1);
    CHECK(fused.workspaceBytes() == 0);
    want.clear();
    alone(host());
    got.clear();
    fused(host());
    CHECK(got == want);
    // Both round to bf16 in between, or not: then the loads of the second kernel have no cast of their own.
    auto casts = [](const std::string &text) {
      int n = 0;
      for (std::size_t at = 0; (at = text.find("tile.cast", at)) != std::string::npos; ++at)
        ++n;
      return n;
    };
    CHECK(casts(fused.emit("tile", "sm_90a")) == casts(loose.emit("tile", "sm_90a")) + 2);
    CHECK(fused.explain().find("axpy") != std::string::npos);
    CHECK(loose.explain().find("not rounded to 16 bits") != std::string::npos);
    CHECK(fused.explain().find("not rounded to 16 bits") == std::string::npos);
    CHECK(loose.explain().find("saved: launches: 1, memory traffic: ") != std::string::npos);
  }
}

TEST_CASE("graph: what follows a product runs in its programs, with its tiles", "[graph]") {
  for (auto [m, n, k] : {std::array{37, 100, 50}, {64, 64, 32}}) {
    Memory<bf16> a({m, k}, 1), w({k, n}, 2), b({n}, 3), r({m, n}, 4), want({m, n}), got({m, n});
    auto make = [&](Memory<bf16> &out, Fuse how) {
      Graph g("layer");
      auto h = biasReluOf<bf16>(multiply(g.input(a.view<2>()), g.input(w.view<2>())), g.input(b.view<1>()));
      CHECK(h.dims() == std::array<std::int64_t, 2>{m, n});
      auto y = axpyOf<bf16>(h, g.input(r.view<2>()), 2);
      g.output(y, out.view<2>());
      return std::pair(g.build(how), std::ref(stateOf(y)));
    };
    auto [alone, state] = make(want, fuse::none);
    auto [fused, fusedState] = make(got, fuse::require | fuse::keepRounding);
    CHECK(fused.launches() == 1);
    alone(host());
    fused(host());
    CHECK(got == want);
    CHECK(fused.emit("tile", "sm_90a").find("func.func @product_bias_relu_axpy") != std::string::npos);
    CHECK(fused.kernelName(0) == "product_bias_relu_axpy");
    CHECK(alone.kernelName(2) == "axpy");
    CHECK_THROWS_AS(alone.kernelName(3), UserError);
  }
}

TEST_CASE("graph: row kernels that share their rows are one kernel, and what is read elsewhere keeps its memory", "[graph]") {
  Memory<f32> x({19, 100}, 1), y({19, 100}), s({19, 1}), wantY({19, 100}), wantS({19, 1});
  auto make = [&](Memory<f32> &outY, Memory<f32> &outS, Fuse how) {
    Graph g("rows");
    auto c = center(center(g.input(x.view<2>())));
    g.output(c, outY.view<2>());
    auto sums = rowSums(c);
    CHECK(sums.dims() == std::array<std::int64_t, 2>{19, 1});
    g.output(sums, outS.view<2>());
    return g.build(how);
  };
  Composed fused = make(y, s, fuse::require);
  make(wantY, wantS, fuse::none)(host());
  fused(host());
  CHECK(y == wantY);
  CHECK(s == wantS);
  CHECK(fused.launches() == 1);
  CHECK(fused.workspaceBytes() == 0);
}

TEST_CASE("graph: numbers of nodes are those of their calls, in the key or not", "[graph]") {
  Memory<f32> x({33, 50}, 1), got({33, 50});
  for (bool first : {true, false})
    for (float n : {3.0f, 0.5f}) {
      Graph g("numbers");
      g.output(times(!first, times(first, g.input(x.view<2>()), n), 8), got.view<2>());
      Composed call = g.build(fuse::require);
      CHECK(call.launches() == 1);
      call(host());
      for (std::size_t i = 0; i < x.data.size(); ++i)
        REQUIRE(got.data[i] == x.data[i] * (first ? n : 8));
    }
}

TEST_CASE("graph: a product takes other tiles of its list where its first ones suit nobody", "[graph]") {
  Memory<bf16> a({40, 32}, 1), w({32, 70}, 2), want({40, 70}), got({40, 70});
  auto make = [&](Memory<bf16> &out, Fuse how) {
    Graph g("narrow");
    g.output(negate(multiply(g.input(a.view<2>()), g.input(w.view<2>()))), out.view<2>());
    return g.build(how);
  };
  make(want, fuse::none)(host());
  make(got, fuse::require | fuse::keepRounding)(host());
  CHECK(got == want);
}

TEST_CASE("graph: lengths that a kernel covers are those of this graph, with memory between or not", "[graph]") {
  // One composition for all of them: the tile of the row belongs to the variant.
  for (auto [rows, columns] : {std::pair{8, 100}, {8, 1000}, {5, 7}, {9, 300}}) {
    Memory<f32> x({rows, columns}, 1), want({rows, columns}), got({rows, columns});
    auto make = [&](Memory<f32> &out, Fuse how) {
      Graph g("covered");
      g.output(center(lift(g.input(x.view<2>()))), out.view<2>());
      return g.build(how);
    };
    make(want, fuse::none)(host());
    Composed fused = make(got, fuse::require);
    fused(host());
    CHECK(got == want);
  }
}

TEST_CASE("graph: what is not fused says why, and runs all the same", "[graph]") {
  Memory<f32> x({48, 80}, 1), want({48, 80}), got({48, 80});
  auto make = [&](Memory<f32> &out, Fuse how) {
    Graph g("moved");
    auto z = axpyOf<f32>(g.input(x.view<2>()), g.input(x.view<2>()), 1);
    moved(z, g.output(out.view<2>()));
    return g.build(how);
  };
  Composed alone = make(want, fuse::none), both = make(got, fuse::automatic);
  want.clear();
  got.clear();
  alone(host());
  both(host());
  CHECK(got == want);
  CHECK(both.launches() == 2);
  CHECK(both.explain().find("not fused: ") != std::string::npos);
  CHECK(both.explain().find("GraphKernels.h:") != std::string::npos);
  CHECK(both.explain().find("need not be multiples of") != std::string::npos);
}

TEST_CASE("graph: a kernel whose tiles a product loads runs in the product's loop", "[graph]") {
  for (auto [m, n, k] : {std::array{37, 100, 50}, {64, 64, 32}}) {
    Memory<bf16> a({m, k}, 1), want({m, n}), got({m, n}), lowered({m, n});
    Memory<f32> s({m, 1}, 2), t({n}, 3);
    Memory<e4m3> w({k, n}, 4);
    Memory<i32> rows({m});
    for (std::size_t i = 0; i < rows.data.size(); ++i)
      rows.data[i] = static_cast<int>(i * 7 % static_cast<std::size_t>(m + 2)) - 1; // two of them are no row
    Memory<f32> cos({m, 16}, 5), sin({m, 16}, 6);
    for (const std::string kind : {"scale_rows", "take_rows", "rotary_heads"}) {
      auto make = [&](Memory<bf16> &out, Fuse how, bool runs) {
        Graph g("inside");
        auto x = g.input(a.view<2>());
        auto made = g.tensor<bf16, 2>({m, k});
        if (kind == "take_rows")
          takeRows(x, g.input(rows.view<1>()), made);
        else if (kind == "scale_rows")
          scaleRows(x, g.input(s.view<2>()), made);
        else
          sample::rotaryHeads(x, g.input(cos.view<2>()), g.input(sin.view<2>()), made, 16);
        auto y = multiply(made, widen(g.input(w.view<2>()), g.input(t.view<1>())));
        g.output(y, out.view<2>());
        out.clear();
        Composed call = g.build(how);
        if (runs)
          call(host());
        else
          runLowered(stateOf(y), detail::planGraph(stateOf(y), how, {}), 0);
        return call;
      };
      INFO(kind);
      Composed alone = make(want, fuse::none, true), fused = make(got, fuse::require | fuse::keepRounding, true);
      CHECK(got == want);
      make(lowered, fuse::require | fuse::keepRounding, false);
      CHECK(lowered == want);
      CHECK(alone.launches() == 3);
      CHECK(fused.launches() == 1);
      CHECK(fused.workspaceBytes() == 0);
      CHECK(fused.explain().find("computed where it is loaded: '" + kind + "', 'widen'") != std::string::npos);
      CHECK(make(got, fuse::automatic, true).launches() == (kind == "rotary_heads" ? 2 : 1)); // it has a product, too
    }
  }
}

TEST_CASE("graph: products that load the same tiles are one loop, which computes them once", "[graph]") {
  for (auto [m, n, k] : {std::array{37, 100, 50}, {64, 64, 32}}) {
    Memory<bf16> a({m, k}, 1), v({k, n}, 2), w({k, n}, 3), u({k, n}, 4), want({m, n}), got({m, n}), lowered({m, n});
    Memory<f32> s({m, 1}, 5);
    auto make = [&](Memory<bf16> &out, Fuse how, bool runs) {
      Graph g("siblings");
      auto x = scaleRows(g.input(a.view<2>()), g.input(s.view<2>()));
      auto p = multiply(x, g.input(v.view<2>())), q = multiply(x, g.input(w.view<2>())), r = multiply(x, g.input(u.view<2>()));
      auto y = axpyOf<bf16>(axpyOf<bf16>(p, q, 0.5f), r, -1);
      g.output(y, out.view<2>());
      out.clear();
      Composed call = g.build(how);
      if (runs)
        call(host());
      else
        runLowered(stateOf(y), detail::planGraph(stateOf(y), how, {}), 0);
      return call;
    };
    make(want, fuse::none, true);
    Composed fused = make(got, fuse::require | fuse::keepRounding, true);
    CHECK(got == want);
    make(lowered, fuse::require | fuse::keepRounding, false);
    CHECK(lowered == want);
    const std::string text = fused.emit("tile", "sm_90a");
    auto count = [&](const char *what) {
      int times = 0;
      for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at)
        ++times;
      return times;
    };
    CHECK(count("scf.for") == 1);
    CHECK(count("tile.mma") == 3);
    CHECK(count("tile.load") == 5); // x, its scales, and three matrices
    CHECK(fused.explain().find("loaded once in a loop for several") != std::string::npos);
  }
}

TEST_CASE("graph: products that only read the same matrix are one kernel, each with its own result", "[graph]") {
  Memory<bf16> a({40, 50}, 1), v({50, 70}, 2), w({50, 70}, 3), p({40, 70}), q({40, 70}), wantP({40, 70}), wantQ({40, 70});
  auto make = [&](Memory<bf16> &outP, Memory<bf16> &outQ, Fuse how) {
    Graph g("pair");
    auto x = g.input(a.view<2>());
    g.output(multiply(x, g.input(v.view<2>())), outP.view<2>());
    g.output(multiply(x, g.input(w.view<2>())), outQ.view<2>());
    return g.build(how);
  };
  make(wantP, wantQ, fuse::none)(host());
  Composed both = make(p, q, fuse::automatic);
  both(host());
  CHECK(both.launches() == 1);
  CHECK(p == wantP);
  CHECK(q == wantQ);
}

TEST_CASE("graph: what several kernels read is computed in each of them where that is cheaper", "[graph]") {
  Memory<f32> x({32, 64}, 1), turned({64, 32}), centered({32, 64}), wantTurned({64, 32}), wantCentered({32, 64});
  auto make = [&](Memory<f32> &t, Memory<f32> &c, Fuse how) {
    Graph g("twice");
    auto in = g.input(x.view<2>());
    auto y = axpyOf<f32>(in, in, 2);
    g.output(turn(y), t.view<2>());
    g.output(center(y), c.view<2>());
    return g.build(how);
  };
  make(wantTurned, wantCentered, fuse::none)(host());
  Composed both = make(turned, centered, fuse::automatic);
  both(host());
  CHECK(turned == wantTurned);
  CHECK(centered == wantCentered);
  CHECK(both.launches() == 2);
  CHECK(both.workspaceBytes() == 0);
  CHECK(both.explain().find("graph twice: nodes: 3, kernels: 2; saved: launches: 1") != std::string::npos);
}

TEST_CASE("graph: a product runs in the loop of what reads its rows", "[graph]") {
  for (auto [m, n, k] : {std::array{37, 100, 50}, {64, 64, 32}}) {
    Memory<bf16> a({m, k}, 1), w({k, n}, 2);
    Memory<f32> want({m, 1}), got({m, 1}), lowered({m, 1});
    auto make = [&](Memory<f32> &out, Fuse how, bool runs) {
      Graph g("rows of a product");
      auto y = logSums(multiplyOf<f32>(g.input(a.view<2>()), g.input(w.view<2>())));
      g.output(y, out.view<2>());
      Composed call = g.build(how);
      if (runs)
        call(host());
      else
        runLowered(stateOf(y), detail::planGraph(stateOf(y), how, {}), 0);
      return call;
    };
    make(want, fuse::none, true);
    Composed fused = make(got, fuse::require, true);
    CHECK(fused.workspaceBytes() == 0);
    CHECK(make(got, fuse::automatic, true).explain().find("which fuse::require alone does") != std::string::npos);
    make(got, fuse::require, true);
    make(lowered, fuse::require, false);
    for (std::size_t i = 0; i < want.data.size(); ++i) {
      CHECK(std::abs(got.data[i] - want.data[i]) <= 1e-5f * std::abs(want.data[i])); // other pieces of the sum
      CHECK(std::abs(lowered.data[i] - want.data[i]) <= 1e-5f * std::abs(want.data[i]));
    }
  }
}

TEST_CASE("graph: what would be computed too often stays a kernel, unless it is required", "[graph]") {
  const std::int64_t n = 8192;
  auto make = [&](Fuse how) {
    Graph g("often");
    auto in = [&](auto dtype, std::int64_t rows, std::int64_t columns) {
      using T = decltype(dtype);
      return g.input(Tensor<const T, 2>(nullptr, std::array{rows, columns}));
    };
    auto y = multiply(scaleRows(in(bf16(), n, n), in(f32(), n, 1)), in(bf16(), n, n));
    g.output(y, Tensor<bf16, 2>(nullptr, std::array{n, n}));
    return g.build(how);
  };
  Composed usual = make(fuse::automatic), all = make(fuse::require);
  CHECK(usual.launches() == 2);
  CHECK(usual.explain().find("the cost model expects") != std::string::npos);
  CHECK(all.launches() == 1);
}

TEST_CASE("graph: an output that is also an input is written when all have read it", "[graph]") {
  Memory<f32> x({33, 70}, 1), before = x;
  Graph g("in place");
  auto in = g.input(x.view<2>());
  auto [s, d] = butterfly(in, in);
  axpyOf<f32>(s, d, 1.0f, g.output(x.view<2>()));
  Composed call = g.build();
  call(host());
  for (std::size_t i = 0; i < x.data.size(); ++i)
    REQUIRE(x.data[i] == 2 * before.data[i]);
  CHECK(call.launches() == 2);
  CHECK(call.explain().find("shares memory") != std::string::npos);
}

TEST_CASE("graph: tensors between kernels share one workspace by their lifetimes", "[graph]") {
  Memory<f32> x({64, 64}, 1), out({64, 64});
  Graph g("workspace");
  GraphTensor<const f32, 2> v = g.input(x.view<2>());
  for (int i = 0; i < 6; ++i)
    v = turn(v);
  axpyOf<f32>(v, v, 1.0f, g.output(out.view<2>()));
  Composed call = g.build(fuse::none);
  CHECK(call.workspaceBytes() == 2 * 64 * 64 * 4);
  call(host());
  for (std::size_t i = 0; i < x.data.size(); ++i)
    REQUIRE(out.data[i] == 2 * x.data[i]);
}

// z = x - 2 y of parts of a row; the third axis is the fastest.
static constexpr auto lessTwice = kernel("less_twice", [](Tensor<const f32, 3> X, Tensor<const f32, 3> Y, Tensor<f32, 3> Z) {
  auto [h, r] = grid(Z, {1, 8});
  Z.store({h, r, 0}, X.load({h, r, 0}, {1, 8, 16}) - Y.load({h, r, 0}, {1, 8, 16}) * 2.0f);
});

TEST_CASE("graph: views read and write parts of a tensor between nodes, in its own memory", "[graph]") {
  // Rows of two parts of 3 heads of 5 columns each; heads of the one less heads of the other one, written side by side.
  constexpr std::int64_t rows = 11, heads = 3, width = 5, n = heads * width;
  Memory<f32> x({rows, 2 * n}, 1), out({rows, n}), centred({rows, 2 * n});
  for (bool isNamed : {false, true}) {
    out.clear();
    centred.clear();
    Graph g("views");
    auto c = center(g.input(x.view<2>()));
    auto first = g.view(c, {heads, rows, width}, {width, 2 * n, 1});
    auto parts = g.view(c, {2, heads, rows, width}, {n, width, 2 * n, 1});
    auto second = g.view(parts, {heads, rows, width}, {width, 2 * n, 1}, n); // a view of a view
    auto side = g.tensor<f32, 2>({rows, n});
    lessTwice(first, second, g.view(side, {heads, rows, width}, {width, n, 1}));
    auto y = center(side);
    g.output(y, out.view<2>());
    if (isNamed)
      g.output(c, centred.view<2>());
    Composed call = g.build();
    CHECK(call.launches() == 3);
    CHECK(call.explain().find("as another view") != std::string::npos);
    CHECK(call.workspaceBytes() == (isNamed ? 768 : 768 + 1536)); // both tensors live while the second kernel runs
    auto check = [&] {
      for (std::int64_t r = 0; r < rows; ++r) {
        auto row = [&](std::int64_t i) { return x.data[static_cast<std::size_t>(r * 2 * n + i)]; };
        float top = row(0), most = -1e30f;
        for (std::int64_t i = 0; i < 2 * n; ++i)
          top = std::max(top, row(i));
        auto value = [&](std::int64_t i) { return (row(i) - top) - (row(n + i) - top) * 2.0f; };
        for (std::int64_t i = 0; i < n; ++i)
          most = std::max(most, value(i));
        for (std::int64_t i = 0; i < n; ++i)
          REQUIRE(out.data[static_cast<std::size_t>(r * n + i)] == value(i) - most);
        for (std::int64_t i = 0; i < 2 * n && isNamed; ++i)
          REQUIRE(centred.data[static_cast<std::size_t>(r * 2 * n + i)] == row(i) - top);
      }
    };
    call(host());
    check();
    out.clear();
    centred.clear();
    runLowered(stateOf(y), detail::planGraph(stateOf(y), fuse::automatic, {}), 1);
    check();
  }
}

TEST_CASE("graph: random chains, fused and not, on the interpreter and lowered", "[graph]") {
  int fusedKernels = 0, nodes = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    INFO("seed " << seed);
    RandomChain chain(seed);
    auto want = chain.run([&](Graph &g, detail::GraphState &) { g.build(fuse::none)(host()); });
    auto got = chain.run([&](Graph &g, detail::GraphState &state) {
      Composed call = g.build(fuse::automatic | fuse::keepRounding);
      nodes += static_cast<int>(state.nodes.size());
      fusedKernels += static_cast<int>(state.nodes.size()) - call.launches();
      INFO(call.explain());
      call(host());
    });
    REQUIRE(got == want);
    auto lowered = chain.run([&](Graph &, detail::GraphState &state) {
      runLowered(state, detail::planGraph(state, fuse::automatic | fuse::keepRounding, {}), seed % 2);
    });
    REQUIRE(lowered == want);
  }
  CHECK(fusedKernels * 4 > nodes); // the chains are made to be fused
}
