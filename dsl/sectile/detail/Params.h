// SPDX-License-Identifier: Apache-2.0
/// \file Kernel parameters: their types, how a launch's arguments become them, how the body receives them.
#pragma once

#include <sectile/Config.h>
#include <sectile/Error.h>
#include <sectile/Tensor.h>

#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sectile {

struct At;

namespace detail {

struct ParamDesc {
  enum class Kind : std::uint8_t {
    tensor,
    scalar,   ///< run-time value
    constant, ///< host value, part of the key
  } kind;
  DType dtype;
  int rank; ///< -1 unless a tensor
  bool readOnly;
};

/// The arguments that a kernel's body receives while it is traced.
class SECTILE_API BodyArgs {
public:
  /// The variable that holds a tensor or scalar parameter.
  CellRef cell(int param) const;
  std::uint64_t constantBits(int param) const;
  Config &config() const;
  /// Says that the parameters from `firstParam` on belong to this variant.
  void registerVariant(const void *variant, int firstParam);
  /// The first parameter of a variant of the kernel being traced on this thread, and its arguments.
  static BodyArgs &ofVariant(const void *variant, int &firstParam, std::source_location loc);

  struct State;
  explicit BodyArgs(State &s) : state(s) {}

private:
  State &state;
};

template <class... P> struct TypeList { static constexpr int size = sizeof...(P); };

template <class M> struct SignatureOf;
template <class C, class R, class... P> struct SignatureOf<R (C::*)(P...) const> {
  using Params = TypeList<std::remove_cvref_t<P>...>;
  using Raw = TypeList<P...>;
};
template <class C, class R, class... P>
struct SignatureOf<R (C::*)(P...) const noexcept> : SignatureOf<R (C::*)(P...) const> {};
template <class F>
concept typedBody = requires {
  typename SignatureOf<decltype(&F::operator())>::Params;
};
template <class... P> constexpr bool takesConfigByReference(TypeList<P...>) {
  return (!std::is_same_v<std::remove_const_t<P>, Config> && ...);
}
template <class F> using ParamsOf = typename SignatureOf<decltype(&F::operator())>::Params;

/// The bytes of a host number as a launch carries them.
template <class T> std::uint64_t scalarBits(const T &v) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof(T));
  return bits;
}
SECTILE_API void failNumber(DType dtype, const Literal &value, std::source_location loc);

/// A launch's number as a T. An integer that T cannot hold is a UserError [launch_number].
template <class T, class A> T numberAs(const A &v, std::source_location loc) {
  if constexpr (std::is_same_v<T, A>) {
    return v;
  } else if constexpr (std::is_integral_v<T> && std::is_integral_v<A>) {
    if (!std::in_range<T>(v))
      failNumber(dtypeOf<T>, literal(v), loc);
    return static_cast<T>(v);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(v);
  } else {
    return T(static_cast<double>(v)); // one rounding, straight from double
  }
}
/// Whether a launch may give an A for a number of type T: the same kind (truth value, integer, float), or an
/// integer for a float.
template <class T, class A> constexpr bool numberFits() {
  if constexpr (std::is_same_v<T, A>)
    return true;
  else if constexpr (!std::is_arithmetic_v<A> || std::is_same_v<T, bool> || std::is_same_v<A, bool>)
    return false;
  else
    return !std::is_integral_v<T> || std::is_integral_v<A>;
}

template <class P> struct IsTensor : std::false_type {};
template <class T, int R> struct IsTensor<Tensor<T, R>> : std::true_type {};
template <class P> struct IsBuffer : std::false_type {};
template <class T> struct IsBuffer<Buffer<T>> : std::true_type {};
template <class P> struct ConstValue : std::type_identity<P> {};
template <class T> struct ConstValue<Const<T>> : std::type_identity<T> {};

/// One parameter: its description, the argument made from what the launch is given, the value the body gets.
template <class P> struct Param {
  static_assert(alwaysFalse<P>, "a kernel's parameter is a Tensor<T, R>, a Scalar<T> (run-time number), a "
                                "Const<T> (number in the key) or "
                                "Config &; a plain number would be frozen while tracing");
  static constexpr ParamDesc desc{};
};

template <class T, int R> struct Param<Tensor<T, R>> {
  static constexpr ParamDesc desc{ParamDesc::Kind::tensor, dtypeOf<T>, R, std::is_const_v<T>};
  static Tensor<T, R> receive(const BodyArgs &args, int i) { return Tensor<T, R>(args.cell(i), i); }

  template <class A> static KernelArg pack(A &&a, std::source_location loc) {
    using Plain = std::remove_cvref_t<A>;
    if constexpr (IsTensor<Plain>::value) {
      using U = typename Plain::ElementType;
      static_assert(std::is_same_v<std::remove_const_t<U>, std::remove_const_t<T>>,
                    "launch: the tensor's element type differs from the kernel's parameter");
      static_assert(Plain::rank == R, "launch: the tensor's rank differs from the kernel's parameter");
      static_assert(std::is_const_v<T> || !std::is_const_v<U>,
                    "launch: the kernel writes to a read-only tensor");
      if constexpr (std::is_same_v<std::remove_const_t<U>, std::remove_const_t<T>> && Plain::rank == R &&
                    (std::is_const_v<T> || !std::is_const_v<U>))
        return view(Tensor<T, R>(a));
    } else if constexpr (IsBuffer<Plain>::value) {
      constexpr bool same = std::is_same_v<Plain, Buffer<std::remove_const_t<T>>>;
      constexpr bool writable = std::is_const_v<T> || !std::is_const_v<std::remove_reference_t<A>>;
      static_assert(same, "launch: the buffer's element type differs from the kernel's parameter");
      static_assert(writable, "launch: the kernel writes to a read-only buffer");
      if constexpr (same && writable)
        return view(Tensor<T, R>(a, loc));
    } else {
      static_assert(alwaysFalse<A>, "launch: a tensor parameter takes a Tensor or a Buffer");
    }
    return {};
  }

private:
  static KernelArg view(const Tensor<T, R> &x) {
    KernelArg arg{dtypeOf<T>, R, std::is_const_v<T>, const_cast<std::remove_const_t<T> *>(x.data()), {},
                  {},         0};
    for (int d = 0; d < R; ++d) {
      arg.dims[d] = x.dims()[d];
      arg.strides[d] = x.strides()[d];
    }
    return arg;
  }
};

/// Both kinds of numbers are packed alike.
template <class T, ParamDesc::Kind kind> struct NumberParam {
  static_assert(!std::is_same_v<T, index>, "a kernel's number is of a host type: use i64 for an index");
  static constexpr ParamDesc desc{kind, dtypeOf<T>, -1, false};
  template <class A> static KernelArg pack(A &&a, std::source_location loc) {
    using Plain = typename ConstValue<std::remove_cvref_t<A>>::type;
    static_assert(numberFits<T, Plain>(), "launch: the argument is no number of the parameter's kind");
    KernelArg arg;
    arg.dtype = dtypeOf<T>;
    if constexpr (numberFits<T, Plain>())
      arg.scalar = scalarBits(numberAs<T, Plain>(a, loc));
    return arg;
  }
};
template <class T> struct Param<Scalar<T>> : NumberParam<T, ParamDesc::Kind::scalar> {
  static Scalar<T> receive(const BodyArgs &args, int i) { return Scalar<T>(args.cell(i)); }
};
template <class T> struct Param<Const<T>> : NumberParam<T, ParamDesc::Kind::constant> {
  static Const<T> receive(const BodyArgs &args, int i) {
    const std::uint64_t bits = args.constantBits(i);
    Const<T> r{};
    std::memcpy(&r.value, &bits, sizeof(T));
    return r;
  }
};
template <> struct Param<Config> {
  static Config &receive(const BodyArgs &args, int) { return args.config(); }
};

/// A launch's argument for parameter P with its position.
template <class P> struct ArgAt {
  KernelArg arg;
  std::source_location loc;
  template <class A>
  requires(!std::is_same_v<std::remove_cvref_t<A>, ArgAt>)
      ArgAt(A &&a, std::source_location l = std::source_location::current())
      : arg(Param<P>::pack(std::forward<A>(a), l)), loc(l) {}
};

inline CodePosition firstPosition(CodePosition where) { return where; }
template <class... L>
CodePosition firstPosition(CodePosition, std::source_location first, L...) {
  return first;
}

template <class... L> struct Concat;
template <> struct Concat<> { using type = TypeList<>; };
template <class... A> struct Concat<TypeList<A...>> { using type = TypeList<A...>; };
template <class... A, class... B, class... L> struct Concat<TypeList<A...>, TypeList<B...>, L...> {
  using type = typename Concat<TypeList<A..., B...>, L...>::type;
};
template <class P> inline constexpr bool isInput = std::is_same_v<P, Tile> || std::is_same_v<P, At>;

/// The parameters of a launch that one of the body stands for: a Config for none, a block-scaled tensor for two.
template <class P> struct LaunchedAs { using type = TypeList<P>; };
template <> struct LaunchedAs<Config> { using type = TypeList<>; };

/// Without Config; of a variant, without the leading inputs.
template <class List> struct Launched;
template <class... P> struct Launched<TypeList<P...>> {
  using type = typename Concat<typename LaunchedAs<P>::type...>::type;
};
template <class List> struct AfterInputs { using type = List; };
template <class P, class... Q>
requires isInput<P>
struct AfterInputs<TypeList<P, Q...>> : AfterInputs<TypeList<Q...>> {
};

template <class F> using BodyParams = typename Launched<ParamsOf<F>>::type;
template <auto V>
using VariantParams =
    typename Launched<typename AfterInputs<ParamsOf<std::remove_const_t<decltype(V)>>>::type>::type;
template <class F, auto... V> using KernelParams = typename Concat<BodyParams<F>, VariantParams<V>...>::type;

/// Calls f with `given` and then the parameters of List, numbered from `first` on.
template <class F, class... P, class... G>
decltype(auto) callWith(const F &f, BodyArgs &args, int first, TypeList<P...>, const G &...given) {
  int numbers[sizeof...(P) + 1] = {};
  int next = first, place = 0;
  ((numbers[place++] = next, next += LaunchedAs<P>::type::size), ...);
  return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return f(given..., Param<P>::receive(args, numbers[I])...);
  }
  (std::index_sequence_for<P...>());
}
template <class F> void callBody(BodyArgs &args, int first) { callWith(F{}, args, first, ParamsOf<F>()); }

template <auto V> inline constexpr char variantTag = 0;
template <class F, auto... V> void registerVariants(BodyArgs &args) {
  [[maybe_unused]] int next = BodyParams<F>::size;
  ((args.registerVariant(&variantTag<V>, next), next += VariantParams<V>::size), ...);
}
template <auto V, class... A> auto callVariant(std::source_location loc, const A &...values) {
  using Extra = typename AfterInputs<ParamsOf<std::remove_const_t<decltype(V)>>>::type;
  if constexpr (Extra::size == 0) {
    return V(values...);
  } else {
    int first = 0;
    BodyArgs &args = BodyArgs::ofVariant(&variantTag<V>, first, loc);
    return callWith(V, args, first, Extra(), values...);
  }
}

} // namespace detail
} // namespace sectile
