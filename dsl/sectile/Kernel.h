// SPDX-License-Identifier: Apache-2.0
/// \file Kernels: a name and a captureless lambda, launched with typed arguments.
#pragma once

#include <sectile/Config.h>
#include <sectile/Error.h>
#include <sectile/Ops.h>
#include <sectile/Stream.h>
#include <sectile/detail/Node.h>
#include <sectile/detail/Params.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sectile {

namespace detail {

struct Composition;

/// What the library needs to know of a kernel; a small value, all it points at is static.
struct KernelDesc {
  const char *name;
  void (*body)(BodyArgs &);          ///< runs the user's lambda on traced arguments
  std::span<const ParamDesc> params; ///< in order, those of variants appended; a Config is no parameter
  CodePosition where;                ///< of the call of kernel()
  const void *id;                    ///< one address per kernel type
  const Composition *parts = nullptr; ///< of a kernel made of several; it has no body then
};

SECTILE_API void launch(const KernelDesc &kernel, const Stream &stream, std::span<const KernelArg> args,
                        const Config *overrides, std::source_location where);
/// The same with what tuning finds: at the first launch that the record does not know, within so many seconds.
SECTILE_API void launchTuned(const KernelDesc &kernel, const Stream &stream, std::span<const KernelArg> args,
                             double seconds, std::source_location where);
class PreparedState;
SECTILE_API std::shared_ptr<PreparedState> prepare(const KernelDesc &kernel, std::span<const KernelArg> args,
                                                   const Config *overrides, CodePosition where);
SECTILE_API void runPrepared(PreparedState &call, const Stream &stream, std::source_location where);

SECTILE_API std::string emit(const KernelDesc &kernel, std::span<const KernelArg> args,
                             const Config *overrides, std::string_view stage, std::string_view arch,
                             CodePosition where);

/// The stream of a launch with the launch's position.
struct StreamAt {
  const Stream &stream;
  std::source_location loc;
  StreamAt(const Stream &s, std::source_location l = std::source_location::current()) : stream(s), loc(l) {}
};

} // namespace detail

/// A launch with everything looked up and packed once: `auto call = matmul.prepare(A, B, C); call(stream);`.
/// It holds the arguments as they were given (pointers, dims, strides, numbers) and does not own the memory.
class Prepared {
public:
  void operator()(const Stream &stream, std::source_location loc = std::source_location::current()) const {
    detail::runPrepared(*state, stream, loc);
  }
  /// For the library itself.
  explicit Prepared(std::shared_ptr<detail::PreparedState> s) : state(std::move(s)) {}

private:
  std::shared_ptr<detail::PreparedState> state;
};

/// A kernel, made by `kernel(...)`. `F` is the type of its captureless lambda, `Variants` its template
/// values.
template <class F, class List, auto... Variants> class KernelOf;

template <class F, class... P, auto... Variants>
class KernelOf<F, detail::TypeList<P...>, Variants...>
    : public detail::NodeCalls<KernelOf<F, detail::TypeList<P...>, Variants...>, typename detail::NodeTypes<P...>::Inputs,
                               detail::TypeList<P...>> {
public:
  /// In a graph (sectile/Graph.h), `y = relu(x)`.
  using detail::NodeCalls<KernelOf, typename detail::NodeTypes<P...>::Inputs, detail::TypeList<P...>>::operator();

  constexpr KernelOf(const char *name, CodePosition where) : name(name), where(where) {}

  /// Launches on a stream: one argument per parameter, checked while compiling.
  void operator()(detail::StreamAt stream, detail::ArgAt<P>... args) const {
    const std::array<KernelArg, sizeof...(P)> packed{args.arg...};
    detail::launch(desc(), stream.stream, packed, nullptr, stream.loc);
  }
  /// Looks up and packs everything once.
  Prepared prepare(detail::ArgAt<P>... args) const {
    const std::array<KernelArg, sizeof...(P)> packed{args.arg...};
    return Prepared(detail::prepare(desc(), packed, nullptr, detail::firstPosition(where, args.loc...)));
  }

  /// What the compiler makes of the kernel for these arguments, without a device: `stage` is "tile", "tgpu",
  /// "llvm", "ptx" or "cubin", `arch` a row of the targets table such as "sm_90a". Of the arguments only
  /// dims, strides, alignment and constants matter. UserError [emit_stage], [emit_arch], [emit_ptxas], and
  /// those of compiling.
  std::string emit(std::string_view stage, std::string_view arch, detail::ArgAt<P>... args) const {
    const std::array<KernelArg, sizeof...(P)> packed{args.arg...};
    return detail::emit(desc(), packed, nullptr, stage, arch, detail::firstPosition(where, args.loc...));
  }

  /// This kernel with numbers chosen by hand.
  class Configured {
  public:
    Configured(KernelOf k, Config c) : kernel(k), config(std::move(c)) {}
    void operator()(detail::StreamAt stream, detail::ArgAt<P>... args) const {
      const std::array<KernelArg, sizeof...(P)> packed{args.arg...};
      detail::launch(kernel.desc(), stream.stream, packed, &config, stream.loc);
    }
    Prepared prepare(detail::ArgAt<P>... args) const {
      const std::array<KernelArg, sizeof...(P)> packed{args.arg...};
      return Prepared(
          detail::prepare(kernel.desc(), packed, &config, detail::firstPosition(kernel.where, args.loc...)));
    }

  private:
    KernelOf kernel;
    Config config;
  };
  Configured with(Config config) const { return Configured(*this, std::move(config)); }

  /// This kernel, tuned where it is launched: the first launch with arguments that the record does not know searches
  /// for so many seconds, on memory of its own, and keeps the choice; the others take it. While the stream is being
  /// captured nothing is searched, and what is known so far is launched.
  class Autotuned {
  public:
    Autotuned(KernelOf k, double seconds) : kernel(k), seconds(seconds) {}
    void operator()(detail::StreamAt stream, detail::ArgAt<P>... args) const {
      const std::array<KernelArg, sizeof...(P)> packed{args.arg...};
      detail::launchTuned(kernel.desc(), stream.stream, packed, seconds, stream.loc);
    }

  private:
    KernelOf kernel;
    double seconds;
  };
  Autotuned autotune(double seconds = 1) const { return Autotuned(*this, seconds); }

  /// The arguments as the library sees them.
  std::array<KernelArg, sizeof...(P)> pack(detail::ArgAt<P>... args) const { return {args.arg...}; }
  detail::KernelDesc desc() const { return {name, &trace, params, where, &tag}; }

private:
  static void trace(detail::BodyArgs &args) {
    detail::registerVariants<F, Variants...>(args);
    detail::callBody<F>(args, 0);
  }
  static constexpr std::array<detail::ParamDesc, sizeof...(P)> params{detail::Param<P>::desc...};
  static constexpr char tag = 0;
  const char *name;
  CodePosition where;
};

/// Makes a kernel of a captureless lambda, whose parameters are, in any order, `Tensor<T, R>` (const T:
/// read-only), `Scalar<T>` (a run-time number), `Const<T>` (a number that is part of the key) and `Config &`:
///
///     inline constexpr auto add = kernel("add", [](Tensor<const float, 1> x, Tensor<float, 1> y, Config
///     &cfg) { ... });
///
/// Template values are variants: captureless lambdas that the body calls through `apply`. Their parameters
/// after the leading Tile and At ones are appended to the kernel's, in template order.
template <auto... Variants, class F>
constexpr auto kernel(const char *name, F, std::source_location where = std::source_location::current()) {
  static_assert(
      std::is_empty_v<F> && std::is_default_constructible_v<F>,
      "a kernel's lambda captures nothing: take host values as parameters, as Const<T> or through Config");
  static_assert(detail::typedBody<F>, "a kernel's lambda has one operator() with typed parameters, no auto");
  static_assert(detail::takesConfigByReference(typename detail::SignatureOf<decltype(&F::operator())>::Raw()),
                "a kernel takes its Config by reference: Config &cfg");
  static_assert((detail::typedBody<std::remove_const_t<decltype(Variants)>> && ...),
                "a kernel's template values are captureless lambdas with typed parameters");
  return KernelOf<F, detail::KernelParams<F, Variants...>, Variants...>(name, where);
}

/// The place of a tile of attention scores, for variants: batch, head, and the positions of its queries ([BM,
/// 1]) and keys ([1, BN]); all of dtype index.
struct At {
  Tile b, h, q, k;
};

/// Calls a variant of the kernel being traced with these values; the library adds the variant's further
/// parameters. UserError [apply_variant] if the variant has such parameters and is not among the kernel's
/// template values.
template <auto Variant, class A>
auto apply(const A &a, std::source_location loc = std::source_location::current()) {
  return detail::callVariant<Variant>(loc, a);
}
template <auto Variant, class A, class B>
auto apply(const A &a, const B &b, std::source_location loc = std::source_location::current()) {
  return detail::callVariant<Variant>(loc, a, b);
}
template <auto Variant, class A, class B, class C>
auto apply(const A &a, const B &b, const C &c, std::source_location loc = std::source_location::current()) {
  return detail::callVariant<Variant>(loc, a, b, c);
}

} // namespace sectile
