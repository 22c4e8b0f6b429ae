// SPDX-License-Identifier: Apache-2.0
/// \file The register and shared-memory layouts that instructions dictate, as data.
///
/// All matrix instructions share one pattern. With p elements packed into a 32-bit register, the four lanes
/// of a quad hold neighbouring groups of p along the packed axis, the eight quads of a warp lie along the
/// other axis. Further registers continue: the rows eight further down, then the second half of the packed
/// axis. So one function per operand covers mma.sync of every type, wgmma, and the packed fp4 of
/// block-scaled mma (p = 8).
#pragma once

#include "ir/base/Layout.h"

#include <cstdint>

namespace sectile {

/// A (m x k) of one warp, m 8 or 16, k = 4p or 8p. @pre p is 1, 2, 4 or 8
Layout fragmentA(int m, int k, int p);
/// B (k x n) of one warp, n = 8, k = 4p or 8p.
Layout fragmentB(int k, int n, int p);
/// C and D (m x n) of one warp, m 8 or 16, n = 8: two neighbouring columns per lane.
Layout fragmentC(int m, int n);

/// wgmma's accumulator (64 x n) of a warpgroup; f16 pairs are packed two neighbouring columns to a register.
/// @pre n is a multiple of 8
Layout wgmmaAccumulator(int n);
/// wgmma's A operand in registers (64 x 32 bytes of k) for elements of `elemBytes` bytes.
Layout wgmmaA(int elemBytes);

/// One 8 x 16-byte matrix of ldmatrix/stmatrix in elements of `elemBytes` bytes (1, 2, 4), as a building
/// block: a register layout that divideLeft by it succeeds for can be moved by ldmatrix, and stored by
/// stmatrix (sm_90 on), which takes registers as ldmatrix gives them. Matrix rows are axis 0.
Layout ldmatrixTile(int elemBytes);
/// The same for the .trans forms (16-bit elements): matrix rows are axis 1.
Layout ldmatrixTransposedTile();

/// Shapes of tcgen05.ld and tcgen05.st: lanes of tensor memory x bits of a row.
enum class TmemShape : std::uint8_t { S32x32b, S16x64b, S16x128b, S16x256b, S16x32bx2 };

/// tcgen05.ld/st SHAPE.x`repeats` by one warp, tile (lanes of tensor memory, columns): 32x32b gives each lane
/// a row, 16x256b is the quads of wgmma's accumulator, 16x32bx2 reads two runs of `repeats` columns, here side
/// by side (its offset immediate is `repeats`). With `packed` (.pack::16b, .unpack::16b) the tile counts
/// 16-bit elements, two neighbouring columns to a register. @pre repeats a power of two
Layout tcgen05Fragment(TmemShape shape, int repeats, bool packed = false);
/// tcgen05.ld/st 32x32b.x`columns` by four warps: thread t holds row t of 128. @pre columns a power of two
Layout tcgen05Rows(int columns);

/// Where tcgen05.mma puts its accumulator (m x n): registers number the columns of tensor memory, lane + 32 *
/// warp its lanes, and with two CTAs a third warp bit the CTA of the pair. Lanes that are left free (m 64: the
/// upper half of each 32) show copies.
/// @pre ctas 1: m 64 or 128, n a multiple of 8; ctas 2: m 256, or m 128 and n a power of two
Layout tcgen05Accumulator(int m, int n, int ctas);

/// One atom of scale factors, 128 rows x 4, in global and shared memory: registers number its 512 bytes.
Layout scaleFactorAtom();
/// The same atom in tensor memory after tcgen05.cp.32x128b.warpx4: registers number the bytes of its four
/// columns, lane + 32 * warp the lanes; the four warps see copies.
Layout scaleFactorColumns();

/// Scale factors of block-scaled mma.sync (sm_120) for A, 16 rows x `perRow` scales, as bytes of one
/// register: lanes 0 and 1 of a quad are read for thread-id 0, lanes 2 and 3, here copies, for thread-id 1.
/// @pre perRow 1, 2 or 4
Layout blockScaleA(int perRow);
/// The same for B, 8 columns x `perColumn`: any one lane of the quad is read, all hold copies.
Layout blockScaleB(int perColumn);

/// The place of a byte in shared memory written by TMA with a swizzle span of 32, 64 or 128 bytes (16:
/// none): the number of the piece of `atomBytes` within the span is XORed with the number of the 128-byte line
/// (mod span / atom). Atoms of 32 and 64 bytes exist for the span 128 on Blackwell. An involution.
/// @pre the buffer starts at a multiple of 8 * spanBytes
std::uint32_t tmaSwizzle(std::uint32_t byteOffset, int spanBytes, int atomBytes = 16);
/// A box of `rows` x one span, as TMA leaves it: registers number its elements in shared memory.
/// @pre rows and elemBytes powers of two, elemBytes <= 8
Layout tmaTile(int rows, int spanBytes, int elemBytes, int atomBytes = 16);

} // namespace sectile
