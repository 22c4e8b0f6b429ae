// SPDX-License-Identifier: Apache-2.0
/// \file The value type of kernels: a tile of elements, dtype and shape known while tracing, and its
/// operators.
#pragma once

#include <sectile/DType.h>
#include <sectile/Export.h>

#include <concepts>
#include <cstdint>
#include <source_location>
#include <type_traits>

namespace sectile {

class Tile;
class TileAt;

/// The dtype of offsets, dims and counters, in user code: `cast<Index>(x)`. (The C library has a function
/// `index`, with which `using namespace sectile` would make that name ambiguous.)
using Index = index;

/// A host value that is part of a kernel's key: in the kernel's parameter list it is a compile-time number,
/// and another value compiles another variant.
template <Element T> struct Const {
  T value;
  constexpr operator T() const { return value; }
};

namespace detail {

/// Names a cell: a variable of the traced program. Trace 0: none.
struct CellRef {
  std::uint64_t trace = 0;
  std::uint32_t cell = 0;
};
SECTILE_API CellRef newCell(std::source_location loc);
/// A new cell with the value of `from`; `object` is the address of the Tile that holds it, null for tensors.
SECTILE_API CellRef copyCell(CellRef from, const void *object, std::source_location loc);
/// Writes `from`'s value to `to`. The position is that of `from`, which was made for this assignment.
SECTILE_API void assignCell(CellRef to, CellRef from);
SECTILE_API void dropCell(CellRef ref, const void *object) noexcept;

template <class T> inline constexpr bool alwaysFalse = false;

/// A host number that takes the dtype of the tile it meets.
struct Literal {
  enum class Kind : std::uint8_t { signedInt, unsignedInt, floating, boolean } kind = Kind::signedInt;
  union {
    std::int64_t i = 0;
    std::uint64_t u;
    double f;
    bool b;
  };
};
template <class L>
requires std::is_arithmetic_v<L>
constexpr Literal literal(L v) {
  Literal r;
  if constexpr (std::same_as<L, bool>)
    r.kind = Literal::Kind::boolean, r.b = v;
  else if constexpr (std::is_floating_point_v<L>)
    r.kind = Literal::Kind::floating, r.f = static_cast<double>(v);
  else if constexpr (std::is_signed_v<L>)
    r.kind = Literal::Kind::signedInt, r.i = v;
  else
    r.kind = Literal::Kind::unsignedInt, r.u = v;
  return r;
}

/// An int with the position of the call it stands in.
struct IntAt {
  int value;
  std::source_location loc;
  IntAt(int v, std::source_location l = std::source_location::current()) : value(v), loc(l) {}
};

} // namespace detail

/// A variable of the kernel: a tile of rank 1 to 5, or a scalar (rank 0). Its dtype and shape are known while
/// the kernel is traced; its elements only when the kernel runs, so there is no way to read them on the host.
///
/// Every named Tile is a variable of its own: copying (and moving) makes a new one with the same value,
/// assignment writes it, also inside traced loops and branches. `Tile x;` has no value yet. Dtype and shape
/// never change.
///
/// Operators work element by element. Axes of length 1 and scalars repeat (equal rank otherwise), dtypes must
/// be equal, and a host number takes the tile's dtype: an integer that the dtype cannot hold exactly is a
/// UserError.
class SECTILE_API Tile {
public:
  /// A variable without a value.
  Tile(std::source_location loc = std::source_location::current()) : ref(detail::newCell(loc)) {}
  Tile(const Tile &other, std::source_location loc = std::source_location::current())
      : ref(detail::copyCell(other.ref, this, loc)) {}
  Tile(Tile &&other, std::source_location loc = std::source_location::current())
      : ref(detail::copyCell(other.ref, this, loc)) {}
  template <class L>
  requires std::is_arithmetic_v<L> Tile(L) {
    static_assert(detail::alwaysFalse<L>, "a Tile needs a dtype: write scalar<i32>(0), not Tile n = 0");
  }
  ~Tile() { detail::dropCell(ref, this); }
  /// Writes the variable. The dtype and shape are those it already has.
  Tile &operator=(Tile value) {
    detail::assignCell(ref, value.ref);
    return *this;
  }

  /// Facts known while tracing.
  DType dtype(std::source_location loc = std::source_location::current()) const;
  int rank(std::source_location loc = std::source_location::current()) const;
  int length(int axis, std::source_location loc = std::source_location::current()) const;

  /// Missing lanes get `value`; afterwards all lanes exist.
  Tile fill(TileAt value) const;
  /// Removes axes of length 1: `x.drop(0, 1)`.
  template <std::convertible_to<int>... I> Tile drop(detail::IntAt first, I... rest) const {
    const int axes[] = {first.value, static_cast<int>(rest)...};
    return dropAxes(axes, static_cast<int>(1 + sizeof...(I)), first.loc);
  }
  /// [M, N] -> [N, M].
  Tile t(std::source_location loc = std::source_location::current()) const;

  Tile &operator+=(TileAt b);
  Tile &operator-=(TileAt b);
  Tile &operator*=(TileAt b);
  Tile &operator/=(TileAt b);
  Tile &operator%=(TileAt b);
  Tile &operator&=(TileAt b);
  Tile &operator|=(TileAt b);
  Tile &operator^=(TileAt b);
  Tile &operator<<=(TileAt b);
  Tile &operator>>=(TileAt b);

  // Hidden friends: found only where one operand is a Tile, so host numbers keep their own operators.
  friend SECTILE_API Tile operator+(TileAt a, TileAt b);
  friend SECTILE_API Tile operator-(TileAt a, TileAt b);
  friend SECTILE_API Tile operator*(TileAt a, TileAt b);
  /// Integers: toward zero, x / 0 = 0 (floorDiv rounds down).
  friend SECTILE_API Tile operator/(TileAt a, TileAt b);
  /// Integers: the sign of a, x % 0 = x (floorMod has the sign of b). Floats: exact remainder, as std::fmod.
  friend SECTILE_API Tile operator%(TileAt a, TileAt b);
  friend SECTILE_API Tile operator&(TileAt a, TileAt b);
  friend SECTILE_API Tile operator|(TileAt a, TileAt b);
  friend SECTILE_API Tile operator^(TileAt a, TileAt b);
  /// A shift outside [0, bits) gives 0, or the sign for >> of a negative signed value.
  friend SECTILE_API Tile operator<<(TileAt a, TileAt b);
  friend SECTILE_API Tile operator>>(TileAt a, TileAt b);
  friend SECTILE_API Tile operator==(TileAt a, TileAt b);
  friend SECTILE_API Tile operator!=(TileAt a, TileAt b);
  friend SECTILE_API Tile operator<(TileAt a, TileAt b);
  friend SECTILE_API Tile operator<=(TileAt a, TileAt b);
  friend SECTILE_API Tile operator>(TileAt a, TileAt b);
  friend SECTILE_API Tile operator>=(TileAt a, TileAt b);
  friend SECTILE_API Tile operator-(TileAt a);
  /// All bits of an integer; not of a truth value.
  friend SECTILE_API Tile operator~(TileAt a);
  template <std::derived_from<Tile> A, class B> friend Tile operator&&(const A &, const B &) {
    static_assert(detail::alwaysFalse<B>, "&& cannot skip its right side in a traced program: write a & b");
    return {};
  }
  template <std::derived_from<Tile> A, class B> friend Tile operator||(const A &, const B &) {
    static_assert(detail::alwaysFalse<B>, "|| cannot skip its right side in a traced program: write a | b");
    return {};
  }
  /// Does not compile: a Tile has no truth value while tracing.
  template <class B = void> explicit operator bool() const {
    static_assert(
        !std::is_void_v<B>,
        "a Tile has no truth value while tracing: use when(c, ...), select(c, a, b), and ~c for not");
    return false;
  }

  /// For the library itself: takes over a cell.
  explicit Tile(detail::CellRef cell) : ref(cell) {}
  detail::CellRef handle() const { return ref; }

private:
  Tile dropAxes(const int *axes, int count, std::source_location loc) const;
  detail::CellRef ref;
};

/// A run-time scalar among a kernel's parameters: `Scalar<float> scale`. A plain `float` there would be a
/// host value frozen while tracing, and is refused; `Const<float>` is a host value that is part of the key.
template <Element T> class Scalar : public Tile {
public:
  using Tile::operator=;
  using Tile::Tile;
};

/// An operand of an operation with the position of the call: made by conversion from a Tile or a host number.
class TileAt {
public:
  TileAt(const Tile &tile, std::source_location l = std::source_location::current())
      : cell(tile.handle()), isLiteral(false), loc(l) {}
  template <class L>
  requires std::is_arithmetic_v<L> TileAt(L value, std::source_location l = std::source_location::current())
      : number(detail::literal(value)), isLiteral(true), loc(l) {}
  template <Element T>
  requires std::is_arithmetic_v<T> TileAt(Const<T> value,
                                          std::source_location l = std::source_location::current())
      : number(detail::literal(value.value)), isLiteral(true), loc(l) {}

  detail::CellRef cell;
  detail::Literal number;
  bool isLiteral;
  std::source_location loc;
};

} // namespace sectile
