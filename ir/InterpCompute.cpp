// SPDX-License-Identifier: Apache-2.0
/// \file Steps that compute: elementwise functions, folds, matrix products. Lanes that do not exist are
/// computed along where nothing reads them; every function is total.
#include "ir/InterpImpl.h"

namespace sectile::tileir::interp {

/// unary; in: x.
void stepUnary(const Step &s, Frame &f) {
  s.unary(f.data(s.in[0]), f.data(s.out[0]), f.slot(s.out[0]).lanes);
  copyExistence(s.in[0], s.out[0], f);
}

/// binary; in: a, b.
void stepBinary(const Step &s, Frame &f) {
  s.binary(f.data(s.in[0]), f.data(s.in[1]), f.data(s.out[0]), f.slot(s.out[0]).lanes);
  joinExistence(s.in, s.out[0], f);
}

/// select; in: condition (a scalar decides for all lanes), a, b.
void stepSelect(const Step &s, Frame &f) {
  const Slot &slot = f.slot(s.out[0]);
  if (f.slot(s.in[0]).rank == 0 && slot.rank != 0)
    std::memcpy(f.data(s.out[0]), f.data(s.in[*f.lanes<bool>(s.in[0]) ? 1 : 2]),
                std::size_t(slot.lanes) * byteSize(slot.dtype));
  else
    s.select(f.lanes<bool>(s.in[0]), f.data(s.in[1]), f.data(s.in[2]), f.data(s.out[0]), slot.lanes);
  joinExistence(s.in, s.out[0], f);
}

/// fma; in: a, b, c.
void stepFma(const Step &s, Frame &f) {
  s.fma(f.data(s.in[0]), f.data(s.in[1]), f.data(s.in[2]), f.data(s.out[0]), f.slot(s.out[0]).lanes);
  joinExistence(s.in, s.out[0], f);
}

/// reduce; in: x; ints: axis, outer, length, inner. The folded axis exists afterwards and no mask is left;
/// the other axes keep their extents.
void stepReduce(const Step &s, Frame &f) {
  int x = s.in[0], r = s.out[0];
  std::size_t axis = std::size_t(s.ints[0]);
  const State &v = f.value(x);
  s.reduce(f.data(x), f.mask(x), f.data(r), s.ints[1], s.ints[2], v.lo[axis], v.hi[axis], s.ints[3]);
  f.setComplete(r);
  State &out = f.value(r);
  for (std::size_t d = 0; d < std::size_t(f.slot(r).rank); ++d)
    if (d != axis) {
      out.lo[d] = v.lo[d];
      out.hi[d] = v.hi[d];
    }
}

/// mma; widen, widenRight: operands to the accumulating type (null: as they are); unary, narrow: acc to that
/// type and the result back; in: a, b, acc; ints: byte offsets in the scratch of a, b, c.
void stepMma(const Step &s, Frame &f) {
  int a = s.in[0], b = s.in[1], acc = s.in[2], r = s.out[0];
  const Slot &slot = f.slot(r);
  const State &va = f.value(a), &vb = f.value(b), &vc = f.value(acc);
  MmaCall call{};
  call.K = f.slot(a).shape[1];
  call.N = slot.shape[1];
  call.m0 = std::max(va.lo[0], vc.lo[0]);
  call.m1 = std::min(va.hi[0], vc.hi[0]);
  call.k0 = std::max(va.lo[1], vb.lo[0]);
  call.k1 = std::min(va.hi[1], vb.hi[0]);
  call.a = f.data(a);
  call.b = f.data(b);
  call.aMask = f.mask(a);
  call.bMask = f.mask(b);
  if (s.widen) {
    s.widen(call.a, f.scratch + s.ints[0], f.slot(a).lanes);
    call.a = f.scratch + s.ints[0];
  }
  if (s.widenRight) {
    s.widenRight(call.b, f.scratch + s.ints[1], f.slot(b).lanes);
    call.b = f.scratch + s.ints[1];
  }
  if (s.unary) {
    call.c = f.scratch + s.ints[2];
    s.unary(f.data(acc), call.c, slot.lanes);
  } else {
    call.c = f.data(r);
    std::memcpy(call.c, f.data(acc), std::size_t(slot.lanes) * byteSize(slot.dtype));
  }
  if (call.m0 < call.m1 && call.k0 < call.k1)
    s.mma(call);
  if (s.narrow)
    s.narrow(call.c, f.data(r), slot.lanes);

  copyExistence(acc, r, f);
  State &out = f.value(r);
  out.lo[0] = call.m0;
  out.hi[0] = call.m1;
  out.lo[1] = std::max(vb.lo[1], vc.lo[1]);
  out.hi[1] = std::min(vb.hi[1], vc.hi[1]);
  for (int d = 0; d < 2; ++d)
    if (out.lo[d] >= out.hi[d])
      out.lo[d] = out.hi[d] = 0;
}

} // namespace sectile::tileir::interp
