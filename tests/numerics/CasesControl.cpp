// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Cases.h"

#include <fmt/format.h>

namespace sectile::numerics {

using Values = Kernel::Values;

void addControl(Cases &cases) {
  for (DType t : allTypes()) {
    if (isBool(t))
      continue;
    for (std::int64_t trips : {0, 1, 5})
      cases.add(fmt::format("for {} [32] {} trips", name(t), trips), 32, [=] {
        Kernel k;
        int in = k.input(t, {trips * 8 + 1, 32}, Fill::small),
            n = k.scalar(DType::index, std::uint64_t(trips * 2)), out = k.output(t, {32});
        int count = k.output(DType::index, {1});
        int zero = k.index(0), first = k.reshape(k.load(in, {zero, zero}, {1, 32}), {32});
        auto r = k.loop(zero, n, k.index(2), {first, zero}, [&](int i, const Values &v) -> Values {
          int x = k.reshape(k.load(in, {i, zero}, {1, 32}), {32});
          return {k.binary("max", k.binary("add", v[0], x), x), k.binary("add", v[1], i)};
        });
        k.store(r[0], out, {zero});
        k.store(k.reshape(r[1], {1}), count, {zero});
        return k;
      });
    cases.add(fmt::format("for {} [16] swap", name(t)), 16, [=] {
      Kernel k;
      int in = k.input(t, {2, 16}, Fill::special), n = k.scalar(DType::index, 3), a = k.output(t, {16}),
          b = k.output(t, {16});
      int zero = k.index(0);
      int x = k.reshape(k.load(in, {zero, zero}, {1, 16}), {16}),
          y = k.reshape(k.load(in, {k.index(1), zero}, {1, 16}), {16});
      auto r = k.loop(zero, n, k.index(1), {x, y}, [&](int, const Values &v) -> Values {
        return {v[1], v[0]};
      });
      k.store(r[0], a, {zero});
      k.store(r[1], b, {zero});
      return k;
    });
    cases.add(fmt::format("for {} [8x16] nested, rows reduced", name(t)), 128, [=] {
      Kernel k;
      int in = k.input(t, {20, 40}, Fill::small), out = k.output(t, {20, 1});
      auto at = k.grid(out, {8, 1});
      int zero = k.index(0), init = k.constant(t, {8, 1}, 0);
      auto r = k.loop(zero, k.dim(in, 1), k.index(16), {init}, [&](int j, const Values &v) -> Values {
        return k.loop(zero, k.index(2), k.index(1), v, [&](int, const Values &w) -> Values {
          return {k.binary("add", w[0], k.reduce("max", k.load(in, {at[0], j}, {8, 16}), 1))};
        });
      });
      k.store(r[0], out, at);
      return k;
    });
    for (std::uint64_t c : {0, 1})
      cases.add(fmt::format("if {} [48] {}", name(t), c ? "taken" : "not taken"), 48, [=] {
        Kernel k;
        int in = k.input(t, {60}, Fill::small), condition = k.scalar(DType::boolean, c),
            out = k.output(t, {96});
        auto at = k.grid(out, {48});
        int x = k.load(in, at, {48});
        auto r = k.branch(
            condition,
            [&]() -> Values {
              return {k.binary("add", x, x), k.index(7)};
            },
            [&]() -> Values {
              return {k.unary("neg", x), k.index(5)};
            });
        int i = k.splat(r[1], {48});
        k.store(k.binary("mul", r[0], k.cast(i, t)), out, at);
        return k;
      });
    cases.add(fmt::format("if {} [32] per program, stores inside", name(t)), 32, [=] {
      Kernel k;
      int in = k.input(t, {100}, Fill::special), out = k.output(t, {100});
      auto at = k.grid(out, {32});
      int odd = k.compare("eq", k.binary("floormod", at[0], k.index(64)), k.index(0));
      k.branch(
          odd,
          [&]() -> Values {
            k.store(k.load(in, at, {32}), out, at);
            return {};
          },
          [&]() -> Values { return {}; });
      return k;
    });
    cases.add(fmt::format("while {} [64]", name(t)), 64, [=] {
      Kernel k;
      int in = k.input(t, {64}, Fill::small), limit = k.scalar(DType::index, 100), out = k.output(t, {64}),
          steps = k.output(DType::index, {1});
      int zero = k.index(0), x = k.load(in, {zero}, {64});
      auto r = k.loopWhile(
          {x, k.index(1)}, [&](const Values &v) { return k.compare("lt", v[1], limit); },
          [&](const Values &v) -> Values {
            return {k.binary("min", k.binary("add", v[0], x),
                             k.constant(t, {64},
                                        [&] {
                                          Number n;
                                          n.v = 9, n.i = 9;
                                          return encode(t, n);
                                        }())),
                    k.binary("add", k.binary("mul", v[1], k.index(3)), k.index(1))};
          });
      k.store(r[0], out, {zero});
      k.store(k.reshape(r[1], {1}), steps, {zero});
      return k;
    });
    cases.add(fmt::format("while {} [16] no trips", name(t)), 16, [=] {
      Kernel k;
      int in = k.input(t, {16}, Fill::special), out = k.output(t, {16}), zero = k.index(0);
      auto r = k.loopWhile(
          {k.load(in, {zero}, {16})}, [&](const Values &) { return k.constant(DType::boolean, {}, 0); },
          [&](const Values &v) -> Values { return {k.binary("max", v[0], v[0])}; });
      k.store(r[0], out, {zero});
      return k;
    });
  }
  // Few programs with long loops that only accumulate: on a GPU, blocks share them.
  for (DType t : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i32, DType::u8})
    for (std::int64_t rows : {1003, 5000})
      cases.add(fmt::format("columns {} [4x64] of {} rows", name(t), rows), 256, [=] {
        Kernel k;
        DType sum = isFloat(t) && t != DType::f64 ? DType::f32 : t;
        int in = k.input(t, {rows, 70}, Fill::normal), out = k.output(sum, {1, 70}), top = k.output(t, {1, 70});
        auto at = k.grid(out, {1, 64});
        auto r = k.loop(k.index(0), k.dim(in, 0), k.index(4), {k.constant(sum, {1, 64}, 0), k.constant(t, {1, 64}, 0)},
                        [&](int i, const Values &v) -> Values {
                          int x = k.load(in, {i, at[1]}, {4, 64});
                          int wide = sum == t ? x : k.cast(x, sum);
                          return {k.binary("add", v[0], k.reduce("sum", wide, 0)),
                                  k.binary("max", k.reduce("max", x, 0), v[1])};
                        });
        k.store(r[0], out, at);
        k.store(r[1], top, at);
        return k;
      });
  // A row softmax and a running sum across a loop: inexact values that travel.
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    cases.add(fmt::format("row sums {} over chunks", name(t)), 1024, [=] {
      Kernel k;
      int in = k.input(t, {30, 200}, Fill::normal), out = k.output(DType::f32, {30, 1});
      auto at = k.grid(out, {16, 1});
      auto r = k.loop(k.index(0), k.dim(in, 1), k.index(64), {k.constant(DType::f32, {16, 1}, 0)},
                      [&](int j, const Values &v) -> Values {
                        int x = k.cast(k.load(in, {at[0], j}, {16, 64}), DType::f32);
                        return {k.binary("add", v[0], k.reduce("sum", k.binary("mul", x, x), 1))};
                      });
      k.store(r[0], out, at);
      return k;
    });
}

} // namespace sectile::numerics
