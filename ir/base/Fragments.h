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
/// block: a register layout that divideLeft by it succeeds for can be moved by ldmatrix. Matrix rows are
/// axis 0.
Layout ldmatrixTile(int elemBytes);
/// The same for the .trans forms (16-bit elements): matrix rows are axis 1.
Layout ldmatrixTransposedTile();

/// tcgen05.ld/st 32x32b.x`columns` by four warps: thread t holds row t of 128. @pre columns a power of two
Layout tcgen05Rows(int columns);
/// tcgen05.ld/st 16x256b.x`repeats` by one warp on 16 rows: the quads of wgmma's accumulator.
Layout tcgen05Quads(int repeats);

/// Scale factors of block-scaled mma.sync (sm_120) for A, 16 rows x `perRow` scales, as bytes of one
/// register: lanes 0 and 1 of a quad are read for thread-id 0, lanes 2 and 3, here copies, for thread-id 1.
/// @pre perRow 1, 2 or 4
Layout blockScaleA(int perRow);
/// The same for B, 8 columns x `perColumn`: any one lane of the quad is read, all hold copies.
Layout blockScaleB(int perColumn);

/// The place of a byte in shared memory written by TMA with a swizzle span of 32, 64 or 128 bytes (16:
/// none): the 16-byte piece number within the span is XORed with the number of the 128-byte line (mod span
/// / 16). An involution. @pre the buffer starts at a multiple of 8 * spanBytes
std::uint32_t tmaSwizzle(std::uint32_t byteOffset, int spanBytes);

} // namespace sectile
