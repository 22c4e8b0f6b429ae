// SPDX-License-Identifier: Apache-2.0
/// \file Folds of one axis.
#include "ir/InterpEnums.h"
#include "ir/InterpSimd.h"

#include <algorithm>

namespace sectile::tileir::interp {
namespace {

template <class T> constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::min();
}
template <class T> constexpr T highest() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::max();
}
template <class T> constexpr T nanOr(T other) {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::quiet_NaN();
  else
    return other;
}

// `neutral` changes no operand, not even the sign of zero; `empty` is the result without lanes. Types: f64,
// f32, integers, and bytes of 0 and 1 for truth values.
struct Sum {
  static constexpr bool chooses = false;
  template <class T> static constexpr T neutral() { return T(-T(0)); }
  template <class T> static constexpr T empty() { return T(0); }
  template <class T> static SECTILE_INLINE T apply(T x, T y) { return detail::add(x, y); }
};
struct Prod {
  static constexpr bool chooses = false;
  template <class T> static constexpr T neutral() { return T(1); }
  template <class T> static constexpr T empty() { return T(1); }
  template <class T> static SECTILE_INLINE T apply(T x, T y) { return detail::mul(x, y); }
};
struct Max {
  static constexpr bool chooses = true;
  template <class T> static constexpr T neutral() { return lowest<T>(); }
  template <class T> static constexpr T empty() { return lowest<T>(); }
  template <class T> static SECTILE_INLINE T apply(T x, T y) {
    if constexpr (std::is_floating_point_v<T>)
      return maxFloat(x, y);
    else
      return x < y ? y : x;
  }
};
struct Min {
  static constexpr bool chooses = true;
  template <class T> static constexpr T neutral() { return highest<T>(); }
  template <class T> static constexpr T empty() { return highest<T>(); }
  template <class T> static SECTILE_INLINE T apply(T x, T y) {
    if constexpr (std::is_floating_point_v<T>)
      return minFloat(x, y);
    else
      return y < x ? y : x;
  }
};
struct MaxNum {
  static constexpr bool chooses = true;
  template <class T> static constexpr T neutral() { return nanOr(lowest<T>()); }
  template <class T> static constexpr T empty() { return lowest<T>(); }
  template <class T> static SECTILE_INLINE T apply(T x, T y) { return maxNumFloat(x, y); }
};
struct MinNum {
  static constexpr bool chooses = true;
  template <class T> static constexpr T neutral() { return nanOr(highest<T>()); }
  template <class T> static constexpr T empty() { return highest<T>(); }
  template <class T> static SECTILE_INLINE T apply(T x, T y) { return minNumFloat(x, y); }
};
struct Any {
  static constexpr bool chooses = true;
  template <class T> static constexpr T neutral() { return T(0); }
  template <class T> static constexpr T empty() { return T(0); }
  template <class T> static SECTILE_INLINE T apply(T x, T y) { return x | y; }
};
struct All {
  static constexpr bool chooses = true;
  template <class T> static constexpr T neutral() { return T(1); }
  template <class T> static constexpr T empty() { return T(1); }
  template <class T> static SECTILE_INLINE T apply(T x, T y) { return x & y; }
};

/// The type a fold of T computes in.
template <class T> using Folded = std::conditional_t<detail::SmallFloat<T>, float, T>;

/// A folded value as T. An infinity of e5m2 that was chosen, not computed, stays one.
template <class T, class Op> SECTILE_INLINE T finish(Folded<T> v) {
  if constexpr (std::same_as<T, e5m2> && Op::chooses) {
    if (std::isinf(v))
      return e5m2::fromBits(std::signbit(v) ? 0xfc : 0x7c);
    return T(v);
  } else {
    return T(v);
  }
}

/// Up to blockLanes lanes as Folded<T>: in place, or decoded into `room`.
template <Isa isa, class T>
SECTILE_INLINE const Folded<T> *lanes(const T *x, Folded<T> *room, std::int64_t n) {
  if constexpr (detail::SmallFloat<T>) {
    decode<isa>(x, room, n);
    return room;
  } else {
    return x;
  }
}

constexpr std::int64_t parts = 16;
static_assert(blockLanes % parts == 0);

template <class Op, class T> struct Fold {
  using F = Folded<T>;

  template <Isa isa>
  static SECTILE_INLINE void row(const T *x, const std::uint8_t *mask, T *r, std::int64_t lo,
                                 std::int64_t hi) {
    F part[parts];
    for (F &p : part)
      p = Op::template neutral<F>();
    bool seen = !mask && lo < hi;
    alignas(64) F room[detail::SmallFloat<T> ? blockLanes : 1];
    // Blocks start at multiples of `parts`, so lane l meets part l mod parts whatever lo is.
    for (std::int64_t at = lo & ~(parts - 1); at < hi; at += blockLanes) {
      std::int64_t count = std::min(blockLanes, hi - at), from = std::max<std::int64_t>(lo - at, 0);
      const F *v = lanes<isa>(x + at, room, count);
      std::int64_t i = 0;
      if (!mask && from == 0)
        for (; i + parts <= count; i += parts)
          for (std::int64_t p = 0; p < parts; ++p)
            part[p] = Op::template apply<F>(part[p], v[i + p]);
      for (i = std::max(i, from); i < count; ++i)
        if (!mask || mask[at + i]) {
          part[i % parts] = Op::template apply<F>(part[i % parts], v[i]);
          seen = true;
        }
    }
    for (std::int64_t step = parts / 2; step > 0; step /= 2)
      for (std::int64_t p = 0; p < step; ++p)
        part[p] = Op::template apply<F>(part[p], part[p + step]);
    *r = finish<T, Op>(seen ? part[0] : Op::template empty<F>());
  }

  template <Isa isa>
  static SECTILE_INLINE void run(const void *a, const std::uint8_t *mask, void *out, std::int64_t outer,
                                 std::int64_t length, std::int64_t lo, std::int64_t hi, std::int64_t inner) {
    const T *x = static_cast<const T *>(a);
    T *r = static_cast<T *>(out);
    for (std::int64_t o = 0; o < outer; ++o) {
      const T *plane = x + o * length * inner;
      const std::uint8_t *planeMask = mask ? mask + o * length * inner : nullptr;
      if (inner == 1) {
        row<isa>(plane, planeMask, r + o, lo, hi);
        continue;
      }
      alignas(64) F acc[blockLanes], room[detail::SmallFloat<T> ? blockLanes : 1];
      std::uint8_t seen[blockLanes];
      for (std::int64_t at = 0; at < inner; at += blockLanes) {
        std::int64_t count = std::min(blockLanes, inner - at);
        for (std::int64_t i = 0; i < count; ++i) {
          acc[i] = Op::template neutral<F>();
          seen[i] = !mask && lo < hi;
        }
        for (std::int64_t l = lo; l < hi; ++l) {
          const F *v = lanes<isa>(plane + l * inner + at, room, count);
          if (!mask) {
            for (std::int64_t i = 0; i < count; ++i)
              acc[i] = Op::template apply<F>(acc[i], v[i]);
          } else {
            const std::uint8_t *keep = planeMask + l * inner + at;
            for (std::int64_t i = 0; i < count; ++i) {
              F next = Op::template apply<F>(acc[i], v[i]);
              acc[i] = keep[i] ? next : acc[i];
              seen[i] |= keep[i];
            }
          }
        }
        for (std::int64_t i = 0; i < count; ++i)
          r[o * inner + at + i] = finish<T, Op>(seen[i] ? acc[i] : Op::template empty<F>());
      }
    }
  }
};

/// True if x takes the place of the best so far. NaN wins against all, the earlier of equals stays.
template <bool greatest, class F> SECTILE_INLINE bool better(F x, F best) {
  if constexpr (std::is_floating_point_v<F>)
    if (x != x || best != best)
      return best == best;
  return greatest ? x > best : x < best;
}

template <class T, bool greatest> struct Position {
  using F = Folded<T>;
  template <Isa isa>
  static SECTILE_INLINE void run(const void *a, const std::uint8_t *mask, void *out, std::int64_t outer,
                                 std::int64_t length, std::int64_t lo, std::int64_t hi, std::int64_t inner) {
    const T *x = static_cast<const T *>(a);
    std::int64_t *r = static_cast<std::int64_t *>(out);
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i) {
        F best{};
        std::int64_t position = 0;
        bool seen = false;
        for (std::int64_t l = lo; l < hi; ++l) {
          std::int64_t at = (o * length + l) * inner + i;
          F v = F(x[at]);
          if ((!mask || mask[at]) && (!seen || better<greatest>(v, best))) {
            best = v;
            position = l;
            seen = true;
          }
        }
        r[o * inner + i] = position;
      }
  }
};

template <class Op> ReduceKernel fold(DType type, Isa isa) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> ReduceKernel {
    if constexpr (std::same_as<T, bool>)
      return nullptr;
    else if constexpr (std::same_as<Op, MaxNum> && !detail::FloatElement<T>) // integers have no NaN
      return pick<Fold<Max, T>, ReduceKernel>(isa);
    else if constexpr (std::same_as<Op, MinNum> && !detail::FloatElement<T>)
      return pick<Fold<Min, T>, ReduceKernel>(isa);
    else
      return pick<Fold<Op, T>, ReduceKernel>(isa);
  });
}
template <class Op> ReduceKernel foldTruth(Isa isa) {
  return pick<Fold<Op, std::uint8_t>, ReduceKernel>(isa);
}

template <bool greatest> ReduceKernel position(DType type) {
  return detail::visitDType(type, [&]<class T>(std::type_identity<T>) -> ReduceKernel {
    using Lane = std::conditional_t<std::same_as<T, bool>, std::uint8_t, T>;
    return pick<Position<Lane, greatest>, ReduceKernel>(Isa::base);
  });
}

} // namespace

ReduceKernel reduceKernel(ReduceKind kind, DType type, Isa isa) {
  bool truth = type == DType::boolean;
  switch (kind) {
  case ReduceKind::k_sum:
    return truth ? foldTruth<Any>(isa) : fold<Sum>(type, isa);
  case ReduceKind::k_prod:
    return truth ? foldTruth<All>(isa) : fold<Prod>(type, isa);
  case ReduceKind::k_max:
    return truth ? foldTruth<Any>(isa) : fold<Max>(type, isa);
  case ReduceKind::k_min:
    return truth ? foldTruth<All>(isa) : fold<Min>(type, isa);
  case ReduceKind::k_maxnum:
    return fold<MaxNum>(type, isa);
  case ReduceKind::k_minnum:
    return fold<MinNum>(type, isa);
  case ReduceKind::k_any:
    return truth ? foldTruth<Any>(isa) : nullptr;
  case ReduceKind::k_all:
    return truth ? foldTruth<All>(isa) : nullptr;
  case ReduceKind::k_argmax:
    return position<true>(type);
  case ReduceKind::k_argmin:
    return position<false>(type);
  }
  return nullptr;
}

} // namespace sectile::tileir::interp
