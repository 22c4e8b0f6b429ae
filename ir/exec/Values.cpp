// SPDX-License-Identifier: Apache-2.0
/// \file What each thread does with its own registers: elementwise ops, renames.
#include "ir/InterpKernels.h"
#include "ir/base/ShufflePlan.h"
#include "ir/exec/Program.h"

#include <bit>

using namespace mlir;
using namespace sectile;
using namespace sectile::tileir;

namespace sectile::tgpu::exec {

namespace {

/// Shared by ops whose elements do not meet: all tiles have one layout. False after a diagnostic.
bool oneLayout(Operation *op) {
  Attribute encoding;
  auto fits = [&](Type t) {
    auto tile = dyn_cast<RankedTensorType>(t);
    if (!tile)
      return true;
    bool same = !encoding || encoding == tile.getEncoding();
    encoding = tile.getEncoding();
    return same;
  };
  if (llvm::all_of(op->getOperandTypes(), fits) && llvm::all_of(op->getResultTypes(), fits))
    return true;
  return bool(refuse(op, "tiles have different layouts"));
}

/// The element of the result at c is x's at map(c), in a register of the same thread, the same for all.
template <class M> Action rename(Program &p, Operation *op, Value x, Value result, M map) {
  Slot from = p.slot(x), to = p.define(result);
  int threads = p.threads;
  if (!from.table) // a scalar is everywhere
    return [=](Cluster &b) {
      for (std::int64_t i = 0; i < to.count; ++i)
        std::memcpy(b.data(to) + i * to.size, b.data(from), std::size_t(to.size));
    };
  const LayoutTable &source = *from.table;
  ArrayRef<int64_t> shape = shapeOf(x.getType());
  // Which element each thread wants.
  std::int64_t registers = to.table ? to.table->regs : 1;
  std::vector<std::int32_t> wanted;
  for (std::int64_t n = 0; n < registers * threads; ++n) {
    Coords c;
    for (std::size_t d = 0; to.table && d < to.table->coords.size(); ++d)
      c[int(d)] = to.table->coords[d][std::size_t(n)];
    c = map(c);
    std::int32_t linear = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      linear = linear * std::int32_t(shape[d]) + c[int(d)];
    wanted.push_back(linear);
  }
  std::vector<int> sources;
  for (std::int64_t r = 0; r < registers; ++r) {
    const std::int32_t *want = wanted.data() + r * threads;
    int found = -1;
    for (int s = 0; s < source.regs && found < 0; ++s)
      if (std::equal(want, want + threads, source.linear.data() + std::int64_t(s) * threads))
        found = s;
    if (found < 0)
      return refuse(op, say("register ", r, " needs an element that its thread does not hold"));
    sources.push_back(found);
  }
  std::int64_t row = threads * from.size;
  if (to.table)
    return [=](Cluster &b) {
      for (auto [r, s] : llvm::enumerate(sources))
        std::memcpy(b.data(to) + std::int64_t(r) * row, b.data(from) + s * row, std::size_t(row));
    };
  return [=, first = sources.front()](Cluster &b) {
    const char *all = b.data(from) + first * row;
    for (int t = 1; t < threads; ++t)
      if (std::memcmp(all, all + t * from.size, std::size_t(from.size)))
        return b.fail(op, say("threads 0 and ", t, " disagree on a scalar"));
    std::memcpy(b.data(to), all, std::size_t(to.size));
  };
}

} // namespace

bool copiesAgree(Cluster &b, Operation *op, const Slot &s) {
  std::int64_t elements = 1;
  for (int d = 0; d < s.table->layout.rank(); ++d)
    elements *= s.table->layout.dim(d);
  if (elements == s.count)
    return true; // no copies
  std::vector<std::int32_t> first(std::size_t(elements), -1);
  const char *data = b.data(s);
  // One NaN is as good as another: the hardware makes them all alike.
  auto isNan = [&](const char *element) {
    auto kernel =
        isFloat(s.dtype) ? interp::unaryKernel(UnaryFn::k_isnan, s.dtype, interp::hostIsa()) : nullptr;
    bool result = false;
    if (kernel)
      kernel(element, &result, 1);
    return result;
  };
  for (std::int64_t i = 0; i < s.count; ++i) {
    std::int32_t &known = first[std::size_t(s.table->linear[std::size_t(i)])];
    if (known < 0) {
      known = std::int32_t(i);
    } else if (std::memcmp(data + known * s.size, data + i * s.size, std::size_t(s.size)) &&
               !(isNan(data + known * s.size) && isNan(data + i * s.size))) {
      b.fail(op, say("copies of one element differ in threads ", known % s.table->threads, " and ",
                     i % s.table->threads));
      return false;
    }
  }
  return true;
}

Action make(Program &p, ConstantOp op) {
  Slot s = p.define(op.getResult());
  p.constants.push_back({s, elementBytes(op.getValue(), s.dtype)});
  return [](Cluster &) {};
}
Action make(Program &p, SplatOp op) {
  return rename(p, op, op.getX(), op.getResult(), [](Coords c) { return c; });
}
Action make(Program &p, IotaOp op) {
  Slot s = p.define(op.getResult());
  const std::vector<std::int32_t> &along = s.table->coords[std::size_t(op.getAxis())];
  return [=, &along](Cluster &b) {
    auto *out = reinterpret_cast<std::int64_t *>(b.data(s));
    std::copy(along.begin(), along.end(), out);
  };
}

Action make(Program &p, UnaryOp op) {
  Slot x = p.slot(op.getX()), r = p.define(op.getResult());
  auto kernel = op.getFn() == UnaryFn::k_bits ? interp::bitsKernel(r.dtype)
                                              : interp::unaryKernel(op.getFn(), x.dtype, interp::hostIsa());
  if (!oneLayout(op))
    return nullptr;
  if (!kernel)
    return refuse(op, "no such function on this type");
  return [=](Cluster &b) { kernel(b.data(x), b.data(r), x.count); };
}
Action make(Program &p, CastOp op) {
  Slot x = p.slot(op.getX()), r = p.define(op.getResult());
  if (!oneLayout(op))
    return nullptr;
  if (x.dtype == r.dtype)
    return [=](Cluster &b) { std::memcpy(b.data(r), b.data(x), std::size_t(x.count * x.size)); };
  auto kernel = interp::castKernel(r.dtype, x.dtype, interp::hostIsa());
  if (!kernel)
    return refuse(op, "no such conversion");
  return [=](Cluster &b) { kernel(b.data(x), b.data(r), x.count); };
}

Action make(Program &p, BitsOp op) {
  Slot x = p.slot(op.getX()), r = p.define(op.getResult());
  if (!oneLayout(op))
    return nullptr;
  return [=](Cluster &b) {
    const std::size_t from = std::size_t(x.size), to = std::size_t(r.size), both = std::min(from, to);
    for (std::size_t i = 0, n = std::size_t(x.count); i < n; ++i) {
      std::memset(b.data(r) + i * to, 0, to);
      std::memcpy(b.data(r) + i * to, b.data(x) + i * from, both); // the lowest byte comes first
    }
  };
}

static Action pairwise(Program &p, Operation *op, interp::BinaryKernel kernel) {
  Slot x = p.slot(op->getOperand(0)), y = p.slot(op->getOperand(1)), r = p.define(op->getResult(0));
  if (!oneLayout(op))
    return nullptr;
  if (!kernel)
    return refuse(op, "no such function on this type");
  return [=](Cluster &b) { kernel(b.data(x), b.data(y), b.data(r), x.count); };
}
Action make(Program &p, BinaryOp op) {
  return pairwise(p, op, interp::binaryKernel(op.getFn(), p.slot(op.getA()).dtype, interp::hostIsa()));
}
Action make(Program &p, CompareOp op) {
  return pairwise(p, op, interp::compareKernel(op.getPred(), p.slot(op.getA()).dtype, interp::hostIsa()));
}
Action make(Program &p, SelectOp op) {
  Slot c = p.slot(op.getCond()), x = p.slot(op.getA()), y = p.slot(op.getB()), r = p.define(op.getResult());
  if (!oneLayout(op))
    return nullptr;
  auto kernel = interp::selectKernel(x.dtype, interp::hostIsa());
  return [=](Cluster &b) {
    if (!c.table && x.table) // one condition for all elements
      std::memcpy(b.data(r), b.data(b.scalar<bool>(c) ? x : y), std::size_t(r.count * r.size));
    else
      kernel(reinterpret_cast<const bool *>(b.data(c)), b.data(x), b.data(y), b.data(r), r.count);
  };
}

Action make(Program &p, FmaOp op) {
  Slot x = p.slot(op.getA()), y = p.slot(op.getB()), z = p.slot(op.getC()), r = p.define(op.getResult());
  if (!oneLayout(op))
    return nullptr;
  auto kernel = interp::fmaKernel(x.dtype, interp::hostIsa());
  return [=](Cluster &b) { kernel(b.data(x), b.data(y), b.data(z), b.data(r), x.count); };
}

/// All warps go the way of one that must: for the others both ways give the same.
Action make(Program &p, WarpAnyOp op) {
  Slot x = p.slot(op.getMask()), r = p.define(op.getResult());
  return [=](Cluster &b) {
    const char *mask = b.data(x);
    *reinterpret_cast<bool *>(b.data(r)) = std::any_of(mask, mask + x.count, [](char c) { return c != 0; });
  };
}

Action make(Program &p, BroadcastOp op) {
  auto from = shapeOf(op.getX().getType());
  return rename(p, op, op.getX(), op.getResult(), [=](Coords c) {
    for (auto [d, length] : llvm::enumerate(from))
      if (length == 1)
        c[int(d)] = 0;
    return c;
  });
}
Action make(Program &p, PermuteOp op) {
  return rename(p, op, op.getX(), op.getResult(), [perm = op.getPerm()](Coords c) {
    Coords r;
    for (auto [d, from] : llvm::enumerate(perm))
      r[int(from)] = c[int(d)];
    return r;
  });
}
Action make(Program &p, ReshapeOp op) {
  auto from = shapeOf(op.getX().getType()), to = shapeOf(op.getResult().getType());
  return rename(p, op, op.getX(), op.getResult(), [=](Coords c) {
    std::int64_t n = 0;
    for (std::size_t d = 0; d < to.size(); ++d)
      n = n * to[d] + c[int(d)];
    Coords r;
    for (std::size_t d = from.size(); d-- > 0; n /= from[d])
      r[int(d)] = std::int32_t(n % from[d]);
    return r;
  });
}
/// Lanes of a warp exchange registers as code generation does it: by the plan, which must agree with the
/// layouts.
static Action shuffle(Program &p, ConvertLayoutOp op, const ShufflePlan &plan) {
  Slot from = p.slot(op.getX()), to = p.define(op.getResult());
  const std::int64_t threads = p.threads;
  auto flips = [](std::int64_t thread, std::uint32_t mask) {
    return std::popcount(std::uint32_t(thread) & mask) % 2 != 0;
  };
  std::vector<std::int64_t> sources(std::size_t(to.table->regs * threads));
  for (const Coords &rep : plan.oddReps())
    for (std::int64_t t = 0; t < threads; ++t)
      for (std::uint64_t r = 0; r < std::uint64_t(1) << plan.resultBits(); ++r) {
        std::uint64_t round = r;
        for (const ShufflePlan::Exchange &e : plan.after())
          round ^= flips(t, e.threads) ? e.reg : 0;
        std::int64_t source = t;
        if (!plan.stays(round))
          source =
              t / warpSize * warpSize + (int(plan.lanes().apply(std::uint64_t(t))) ^ plan.laneOffset(round));
        std::uint64_t reg = plan.sourceReg(round);
        for (const ShufflePlan::Exchange &e : plan.before())
          reg ^= flips(source, e.threads) ? e.reg : 0;
        const std::int64_t place = plan.sourceNumber(rep, reg) * threads + source,
                           target = plan.resultNumber(rep, r) * threads + t;
        if (from.table->linear[std::size_t(place)] != to.table->linear[std::size_t(target)])
          return refuse(op, "a shuffle brings another element");
        sources[std::size_t(target)] = place;
      }
  return [=](Cluster &b) {
    for (auto [target, place] : llvm::enumerate(sources))
      std::memcpy(b.data(to) + std::int64_t(target) * to.size, b.data(from) + place * to.size,
                  std::size_t(to.size));
  };
}

Action make(Program &p, ConvertLayoutOp op) {
  std::optional<Layout> src = layoutOf(op.getX().getType()), dst = layoutOf(op.getType());
  if (conversionKind(*src, *dst) == ConversionKind::ShuffleLanes)
    if (auto plan = ShufflePlan::make(*src, *dst))
      return shuffle(p, op, *plan);
  return rename(p, op, op.getX(), op.getResult(), [](Coords c) { return c; });
}

Action make(Program &p, FillOutsideOp op) {
  Slot x = p.slot(op.getX()), r = p.define(op.getResult());
  std::vector<char> fill = elementBytes(op.getFill(), r.dtype);
  return [=, box = Box(p, op.getAxes(), op.getLo(), op.getHi())](Cluster &b) {
    std::memcpy(b.data(r), b.data(x), std::size_t(x.count * x.size));
    auto limits = box.now(b);
    for (std::int64_t i = 0; i < r.count; ++i)
      if (!Box::holds(limits, *r.table, std::size_t(i)))
        std::memcpy(b.data(r) + i * r.size, fill.data(), fill.size());
  };
}

} // namespace sectile::tgpu::exec
