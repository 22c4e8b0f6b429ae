// SPDX-License-Identifier: Apache-2.0
/// \file Control flow over traced values. Plain C++ `for` and `if` over host values unroll and select while
/// tracing.
#pragma once

#include <sectile/Error.h>
#include <sectile/Tile.h>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace sectile {

/// A traced loop: `for (Tile k : range(lo, hi, step)) ...` runs for lo, lo + step, .. below hi (above hi for
/// a negative step). The body is traced once; Tiles declared before it and assigned in it are carried from
/// trip to trip. Bounds are host numbers or scalars of dtype index, read once, when range is called; a traced
/// step of 0 means no trips.
///
/// Leaving the loop by break, return or goto is a UserError [loop_left] at the `for` line.
class SECTILE_API Range {
public:
  class Iterator {
  public:
    explicit Iterator(Range *r) : range(r) {}
    Tile operator*() const { return Tile(range->counter()); }
    Iterator &operator++() {
      range->close();
      range = nullptr;
      return *this;
    }
    bool operator!=(const Iterator &other) const { return range != other.range; }

  private:
    Range *range;
  };

  Range(const TileAt &lo, const TileAt &hi, const TileAt &step);
  Range(const Range &) = delete;
  Range &operator=(const Range &) = delete;
  ~Range();

  Iterator begin() {
    open();
    return Iterator(this);
  }
  Iterator end() { return Iterator(nullptr); }

private:
  void open();
  void close();
  detail::CellRef counter();
  std::uint64_t trace;
  std::uint32_t loop;
  std::size_t depth = 0; ///< of the stack of open regions outside the loop
  bool isOpen = false;
  int exceptions;
};

inline Range range(TileAt lo, TileAt hi, TileAt step = 1) { return Range(lo, hi, step); }

namespace detail {

/// Steps of tracing a `when`: each branch is traced between begin and end.
class SECTILE_API WhenTrace {
public:
  WhenTrace(const TileAt &cond, const void *lambda, std::size_t lambdaBytes);
  void endThen();
  void beginElse(const void *lambda, std::size_t lambdaBytes, std::source_location loc);
  void endElse();

private:
  std::uint64_t trace, eventsAfterThen = 0;
  std::size_t depth;
  std::uint32_t index;
};

/// Steps of tracing a `loopWhile`.
class SECTILE_API WhileTrace {
public:
  explicit WhileTrace(std::source_location loc);
  void checkCapture(const void *lambda, std::size_t lambdaBytes);
  void beginCondition();
  void beginBody(const Tile &cond);
  void end();

private:
  CodePosition where;
  std::size_t depth = 0;
};

} // namespace detail

/// What `when` returns; `otherwise` may follow directly.
class When {
public:
  explicit When(detail::WhenTrace t) : trace(t) {}
  template <class F> void otherwise(F &&body, std::source_location loc = std::source_location::current()) && {
    static_assert(std::is_invocable_v<F &>,
                  "otherwise takes a lambda without parameters: otherwise([&] { ... })");
    trace.beginElse(&body, sizeof(body), loc);
    body();
    trace.endElse();
  }

private:
  detail::WhenTrace trace;
};

/// Runs the body where the truth value `cond` (a scalar) holds: `when(c, [&] { ... }).otherwise([&] { ...
/// })`. Tiles declared outside and assigned in either branch have the branch's value afterwards. The lambdas
/// capture by reference: a captured copy of a Tile is a UserError [when_copy].
template <class F> When when(TileAt cond, F &&body) {
  static_assert(std::is_invocable_v<F &>, "when takes a lambda without parameters: when(c, [&] { ... })");
  detail::WhenTrace trace(cond, &body, sizeof(body));
  body();
  trace.endThen();
  return When(trace);
}

/// Repeats the body while the condition, a scalar truth value, holds: `loopWhile([&] { return n > 1; }, [&] {
/// ... })`. Both lambdas capture by reference and may assign Tiles declared outside.
template <class C, class F>
void loopWhile(C &&cond, F &&body, std::source_location loc = std::source_location::current()) {
  static_assert(std::is_invocable_r_v<Tile, C &>, "loopWhile: the condition is a lambda that returns a Tile");
  static_assert(std::is_invocable_v<F &>, "loopWhile: the body is a lambda without parameters");
  detail::WhileTrace trace(loc);
  trace.checkCapture(&cond, sizeof(cond));
  trace.checkCapture(&body, sizeof(body));
  trace.beginCondition();
  trace.beginBody(cond());
  body();
  trace.end();
}

} // namespace sectile
