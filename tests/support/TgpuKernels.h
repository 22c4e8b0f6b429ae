// SPDX-License-Identifier: Apache-2.0
/// \file Kernels in final tgpu form, as text: inputs for tests of the code generator alone.
#pragma once

#include "ir/base/Layout.h"
#include "ir/base/MmaTable.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace sectile::testing {

/// The MLIR spelling of an element type.
inline std::string mlirName(DType t) {
  switch (t) {
  case DType::e4m3:
    return "f8E4M3FN";
  case DType::e5m2:
    return "f8E5M2";
  case DType::u8:
    return "ui8";
  case DType::u16:
    return "ui16";
  case DType::u32:
    return "ui32";
  case DType::u64:
    return "ui64";
  case DType::boolean:
    return "i1";
  default:
    return std::string(name(t));
  }
}

inline std::string layoutText(const Layout &l) { return "#tgpu.layout<\"" + l.toString() + "\">"; }
inline std::string tile(const std::vector<std::int32_t> &shape, DType t, const Layout &l) {
  std::string r = "tensor<";
  for (std::int32_t d : shape)
    r += std::to_string(d) + "x";
  return r + mlirName(t) + ", " + layoutText(l) + ">";
}
inline std::string view(int rank, DType t) { return fmt::format("!tile.tensor<{}, {}>", rank, mlirName(t)); }
/// A tensor argument of contiguous rows: last axis of stride 1, everything a multiple of 16.
inline std::string argument(std::string_view name, int rank, DType t, bool divisible = true) {
  std::string div;
  for (int d = 0; d < rank; ++d)
    div += (d ? ", " : "") + std::string(divisible ? "16" : "1");
  return fmt::format(
      "%{}: {} {{tile.align = {} : i64, tile.unit_stride = {} : i64, tile.stride_div = array<i64: {}>, "
      "tile.dim_div = array<i64: {}>}}",
      name, view(rank, t), divisible ? 16 : byteSize(t), rank - 1, div, div);
}
inline std::string function(std::string_view name, std::string_view arguments, std::string_view body,
                            int warps, int sharedBytes, std::string_view arch) {
  return fmt::format(
      "func.func @{}({}) attributes {{tile.kernel, tgpu.launch = #tgpu.launch<warps = {}, shared_bytes = "
      "{}>, tgpu.target = \"{}\"}} {{\n{}  func.return\n}}\n",
      name, arguments, warps, sharedBytes, arch, body);
}
inline std::string pad(DType t) {
  if (t == DType::boolean)
    return "false";
  return fmt::format("{} : {}", isFloat(t) ? "0.0" : "0", mlirName(t));
}

/// Chunks of 16 bytes, XORed with the number of the 128-byte line: parameters of a buffer's swizzle.
inline std::string lineSwizzle(int length, int elementBytes) {
  const int chunk = 16 / elementBytes, line = 128 / elementBytes;
  std::vector<std::string> masks;
  int mask = chunk;
  for (int rows = 1; mask < line; rows *= 2) {
    masks.push_back(std::to_string(length * rows < line ? 0 : mask));
    mask *= length * rows < line ? 1 : 2;
  }
  return fmt::format("[{}, {}, {}]", chunk, masks.size(), fmt::join(masks, ", "));
}

/// Y = X over one tile that is loaded in layout `src` and stored in layout `dst`: by a conversion, or with
/// `swizzle` through a buffer ("" for plain rows).
inline std::string conversion(DType t, const Layout &src, const Layout &dst, std::string_view arch,
                              std::optional<std::string> swizzle = std::nullopt) {
  const std::vector<std::int32_t> shape = src.shape();
  const std::string from = tile(shape, t, src), to = tile(shape, t, dst), v = view(2, t);
  std::string move = fmt::format("  %y = tgpu.convert_layout %x : {} -> {}\n", from, to);
  int bytes = 0;
  if (swizzle) {
    bytes = shape[0] * shape[1] * int(byteSize(t));
    std::string buffer = fmt::format("!tgpu.buffer<[{}, {}], {}{}{}>", shape[0], shape[1], mlirName(t),
                                     swizzle->empty() ? "" : ", ", *swizzle);
    move = fmt::format("  %b = tgpu.buffer_alloc at 0 : {buffer}\n  tgpu.copy %x, %b : {from}, {buffer}\n"
                       "  tgpu.barrier\n  %y = tgpu.copy_out %b : {buffer} -> {to}\n",
                       fmt::arg("buffer", buffer), fmt::arg("from", from), fmt::arg("to", to));
  }
  std::string body =
      fmt::format("  %z = tile.constant 0 : index\n  %x = tgpu.global_load %X[%z, %z] axes [] lo[] hi[] pad "
                  "{pad} : {v} -> "
                  "{from}\n{move}  tgpu.global_store %y, %Y[%z, %z] axes [] lo[] hi[] : {to}, {v}\n",
                  fmt::arg("pad", pad(t)), fmt::arg("v", v), fmt::arg("from", from), fmt::arg("move", move),
                  fmt::arg("to", to));
  return function("conversion", argument("X", 2, t) + ", " + argument("Y", 2, t), body, src.numWarps(),
                  (bytes + 15) / 16 * 16, arch);
}

/// z = x (op) y over n elements, bounded at the end; `compute` names %a, %b and gives %c.
inline std::string elementwise(std::string_view name, DType in, DType out, std::string_view compute,
                               std::string_view arch, int elements = 512, bool divisible = true) {
  const int vector = int(16 / byteSize(in));
  const int order[] = {0};
  const std::int32_t shape[] = {elements};
  Layout l = Layout::blocked(shape, order, vector, 4);
  std::string inTile = tile({elements}, in, l), outTile = tile({elements}, out, l);
  std::string body = fmt::format(
      R"(  %i = tile.grid %z [{n}] : {zv} -> index
  %lo = tile.constant 0 : index
  %dim = tile.dim %z, 0 : {zv}
  %hi = tile.binary sub %dim, %i : index
  %a = tgpu.global_load %x[%i] axes [0] lo[%lo] hi[%hi] pad {pad} : {xv} -> {it}
  %b = tgpu.global_load %y[%i] axes [0] lo[%lo] hi[%hi] pad {pad} : {xv} -> {it}
{compute}
  tgpu.global_store %c, %z[%i] axes [0] lo[%lo] hi[%hi] : {ot}, {zv}
)",
      fmt::arg("n", elements), fmt::arg("zv", view(1, out)), fmt::arg("xv", view(1, in)),
      fmt::arg("it", inTile), fmt::arg("ot", outTile), fmt::arg("pad", pad(in)),
      fmt::arg("compute", fmt::format(fmt::runtime(std::string(compute)), fmt::arg("in", inTile),
                                      fmt::arg("out", outTile))));
  return function(name,
                  argument("x", 1, in, divisible) + ", " + argument("y", 1, in, divisible) + ", " +
                      argument("z", 1, out, divisible),
                  body, 4, 0, arch);
}

/// Rows of `columns` elements, one block each: e = exp(x - max), e / sum, with the partial results of the
/// warps gathered through shared memory.
inline std::string softmax(DType t, int columns, int warps, std::string_view arch) {
  const std::int32_t shape[] = {1, columns};
  const int order[] = {1, 0};
  Layout l = Layout::blocked(shape, order, int(16 / byteSize(t)), warps);
  // After a reduction inside warps: one column per warp.
  Layout collapsed = l.collapse(1);
  std::vector<Coords> warpBases;
  for (int w = 0; (1 << w) < warps; ++w)
    warpBases.push_back({0, 1 << w});
  Layout parts(2, {1, warps}, {1, 1}, collapsed.reg(), collapsed.lane(), warpBases);
  // Every thread reads all parts.
  std::vector<Coords> regBases, noWarps;
  for (int w = 1; w < warps; w *= 2) {
    regBases.push_back({0, w});
    noWarps.push_back({0, 0});
  }
  Layout all(2, {1, warps}, {1, 1}, regBases, std::vector<Coords>(laneBits), noWarps);
  Layout one = all.collapse(1);
  std::string body = fmt::format(R"(  %r = tile.grid %X [1] : {v} -> index
  %lo = tile.constant 0 : index
  %n = tile.dim %X, 1 : {v}
  %x0 = tgpu.global_load %X[%r, %lo] axes [1] lo[%lo] hi[%n] pad 0xFF80 : {e} : {v} -> {raw}
  %x = tile.cast %x0 : {raw} -> {wide}
)",
                                 fmt::arg("v", view(2, t)), fmt::arg("e", mlirName(t)),
                                 fmt::arg("raw", tile({1, columns}, t, l)),
                                 fmt::arg("wide", tile({1, columns}, DType::f32, l)));
  int buffer = 0;
  auto reduce = [&](std::string kind, std::string x, std::string result) {
    std::string b = fmt::format("!tgpu.buffer<[1, {}], f32>", warps);
    body += fmt::format(
        R"(  %p{k} = tgpu.reduce {kind} %{x}, 1 : {wide} -> {parts}
  %b{k} = tgpu.buffer_alloc at {at} : {b}
  tgpu.copy %p{k}, %b{k} : {parts}, {b}
  tgpu.barrier
  %q{k} = tgpu.copy_out %b{k} : {b} -> {all}
  %s{k} = tgpu.reduce {kind} %q{k}, 1 : {all} -> {one}
  %{r} = tile.broadcast %s{k} : {one} -> {wide}
)",
        fmt::arg("k", buffer), fmt::arg("kind", kind), fmt::arg("x", x), fmt::arg("r", result),
        fmt::arg("at", 128 * buffer), fmt::arg("b", b), fmt::arg("wide", tile({1, columns}, DType::f32, l)),
        fmt::arg("parts", tile({1, warps}, DType::f32, parts)),
        fmt::arg("all", tile({1, warps}, DType::f32, all)), fmt::arg("one", tile({1, 1}, DType::f32, one)));
    ++buffer;
  };
  std::string wide = tile({1, columns}, DType::f32, l), raw = tile({1, columns}, t, l);
  reduce("max", "x", "m");
  body += "  %d = tile.binary sub %x, %m : " + wide + "\n  %e = tile.unary exp %d : " + wide + " -> " + wide +
          "\n";
  reduce("sum", "e", "s");
  body += "  %y = tile.binary div %e, %s : " + wide + "\n  %o = tile.cast %y : " + wide + " -> " + raw +
          "\n" + "  tgpu.global_store %o, %Y[%r, %lo] axes [1] lo[%lo] hi[%n] : " + raw + ", " + view(2, t) +
          "\n";
  return function("softmax", argument("X", 2, t) + ", " + argument("Y", 2, t), body, warps, 256, arch);
}

/// C = A * B by an MMA row: operands through swizzled shared memory, K in steps.
struct MatmulShape {
  int m = 128, n = 128, k = 32, warpsM = 2, warpsN = 2;
};
inline std::string matmul(const MmaRow &row, std::string_view arch, MatmulShape s = {}) {
  const int warps = s.warpsM * s.warpsN;
  const std::int32_t aShape[] = {s.m, s.k}, bShape[] = {s.k, s.n}, cShape[] = {s.m, s.n};
  const int order[] = {1, 0};
  DType a = row.a.dtype, bt = row.b.dtype, c = row.c.dtype;
  const int aVec = int(16 / byteSize(a)), bVec = int(16 / byteSize(bt));
  Layout aLoad = Layout::blocked(aShape, order, aVec, warps),
         bLoad = Layout::blocked(bShape, order, bVec, warps);
  Layout aUse = *warpTiled(row.a.layout, aShape, s.warpsM, s.warpsN, MmaOperand::A);
  Layout bUse = *warpTiled(row.b.layout, bShape, s.warpsM, s.warpsN, MmaOperand::B);
  Layout acc = *warpTiled(row.c.layout, cShape, s.warpsM, s.warpsN, MmaOperand::C);
  const int bStart = s.m * s.k * int(byteSize(a)), shared = bStart + s.k * s.n * int(byteSize(bt));
  std::string aBuffer =
      fmt::format("!tgpu.buffer<[{}, {}], {}, {}>", s.m, s.k, mlirName(a), lineSwizzle(s.k, 16 / aVec));
  std::string bBuffer =
      fmt::format("!tgpu.buffer<[{}, {}], {}, {}>", s.k, s.n, mlirName(bt), lineSwizzle(s.n, 16 / bVec));
  std::string body = fmt::format(
      R"(  %m, %n = tile.grid %C [{M}, {N}] : {cv} -> index, index
  %z = tile.constant 0 : index
  %K = tile.dim %A, 1 : {av}
  %M = tile.dim %A, 0 : {av}
  %N = tile.dim %B, 1 : {bv}
  %mh = tile.binary sub %M, %m : index
  %nh = tile.binary sub %N, %n : index
  %step = tile.constant {Kt} : index
  %init = tile.constant dense<{zero}> : {ct}
  %ab = tgpu.buffer_alloc at 0 : {ab}
  %bb = tgpu.buffer_alloc at {bStart} : {bb}
  %acc = scf.for %k = %z to %K step %step iter_args(%i = %init) -> ({ct}) {{
    %kh = tile.binary sub %K, %k : index
    %a0 = tgpu.global_load %A[%m, %k] axes [0, 1] lo[%z, %z] hi[%mh, %kh] pad {apad} : {av} -> {al}
    %b0 = tgpu.global_load %B[%k, %n] axes [0, 1] lo[%z, %z] hi[%kh, %nh] pad {bpad} : {bv} -> {bl}
    tgpu.barrier
    tgpu.copy %a0, %ab : {al}, {ab}
    tgpu.copy %b0, %bb : {bl}, {bb}
    tgpu.barrier
    %a1 = tgpu.copy_out %ab : {ab} -> {au}
    %b1 = tgpu.copy_out %bb : {bb} -> {bu}
    %d = tgpu.mma_sync #tgpu.atom<"{row}"> %a1, %b1, %i : {au}, {bu}, {ct}
    scf.yield %d : {ct}
  }}
  tgpu.global_store %acc, %C[%m, %n] axes [0, 1] lo[%z, %z] hi[%mh, %nh] : {ct}, {cv}
)",
      fmt::arg("M", s.m), fmt::arg("N", s.n), fmt::arg("Kt", s.k), fmt::arg("av", view(2, a)),
      fmt::arg("bv", view(2, bt)), fmt::arg("cv", view(2, c)), fmt::arg("zero", isFloat(c) ? "0.0" : "0"),
      fmt::arg("ct", tile({s.m, s.n}, c, acc)), fmt::arg("ab", aBuffer), fmt::arg("bb", bBuffer),
      fmt::arg("bStart", bStart),
      fmt::arg("apad", isFloat(a) ? "0.0 : " + mlirName(a) : "0 : " + mlirName(a)),
      fmt::arg("bpad", isFloat(bt) ? "0.0 : " + mlirName(bt) : "0 : " + mlirName(bt)),
      fmt::arg("al", tile({s.m, s.k}, a, aLoad)), fmt::arg("bl", tile({s.k, s.n}, bt, bLoad)),
      fmt::arg("au", tile({s.m, s.k}, a, aUse)), fmt::arg("bu", tile({s.k, s.n}, bt, bUse)),
      fmt::arg("row", row.name));
  return function("matmul", argument("A", 2, a) + ", " + argument("B", 2, bt) + ", " + argument("C", 2, c),
                  body, warps, shared, arch);
}

/// The same product by scalar multiply-adds from shared memory.
inline std::string matmulFma(DType in, DType out, std::string_view arch, MatmulShape s = {32, 32, 16, 2, 2}) {
  const int warps = s.warpsM * s.warpsN;
  const std::int32_t aShape[] = {s.m, s.k}, bShape[] = {s.k, s.n}, cShape[] = {s.m, s.n};
  const int order[] = {1, 0};
  Layout al = Layout::blocked(aShape, order, 1, warps), bl = Layout::blocked(bShape, order, 1, warps),
         cl = Layout::blocked(cShape, order, 2, warps);
  const int bStart = s.m * s.k * int(byteSize(in));
  std::string aBuffer = fmt::format("!tgpu.buffer<[{}, {}], {}>", s.m, s.k, mlirName(in));
  std::string bBuffer = fmt::format("!tgpu.buffer<[{}, {}], {}>", s.k, s.n, mlirName(in));
  std::string body =
      fmt::format(R"(  %z = tile.constant 0 : index
  %a = tgpu.global_load %A[%z, %z] axes [] lo[] hi[] pad {pad} : {v} -> {al}
  %b = tgpu.global_load %B[%z, %z] axes [] lo[] hi[] pad {pad} : {v} -> {bl}
  %ab = tgpu.buffer_alloc at 0 : {ab}
  %bb = tgpu.buffer_alloc at {bStart} : {bb}
  tgpu.copy %a, %ab : {al}, {ab}
  tgpu.copy %b, %bb : {bl}, {bb}
  tgpu.barrier
  %init = tile.constant dense<{zero}> : {cl}
  %c = tgpu.mma_fma %ab, %bb, %init : {ab}, {bb}, {cl}
  tgpu.global_store %c, %C[%z, %z] axes [] lo[] hi[] : {cl}, {cv}
)",
                  fmt::arg("pad", pad(in)), fmt::arg("v", view(2, in)), fmt::arg("cv", view(2, out)),
                  fmt::arg("al", tile({s.m, s.k}, in, al)), fmt::arg("bl", tile({s.k, s.n}, in, bl)),
                  fmt::arg("cl", tile({s.m, s.n}, out, cl)), fmt::arg("ab", aBuffer), fmt::arg("bb", bBuffer),
                  fmt::arg("bStart", bStart), fmt::arg("zero", isFloat(out) ? "0.0" : "0"));
  return function("matmul_fma",
                  argument("A", 2, in) + ", " + argument("B", 2, in) + ", " + argument("C", 2, out), body,
                  warps, bStart * 2, arch);
}

} // namespace sectile::testing
