// SPDX-License-Identifier: Apache-2.0
/// \file Calls of kernels in a graph: tensors that a graph knows, and the arguments of its nodes. See sectile/Graph.h.
#pragma once

#include <sectile/detail/Params.h>

#include <array>
#include <memory>
#include <source_location>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sectile {

class Graph;

namespace detail {

struct KernelDesc;
class GraphState;

/// One argument of a node: a tensor of the graph, or a number. An output that the call leaves out has no graph.
struct NodeInput {
  std::shared_ptr<GraphState> graph;
  int value = -1; ///< of the graph's tensors; -1: a number
  KernelArg number;
  std::source_location loc;
};

/// Adds a node with one argument per parameter of the kernel; makes tensors for the outputs that are left out.
SECTILE_API void addNode(const KernelDesc &kernel, std::span<NodeInput> args);
SECTILE_API const KernelArg &valueOf(const GraphState &graph, int value);

} // namespace detail

/// A tensor of a graph: memory that it was given, or an intermediate that a node writes. `const T` is only read.
/// Its memory is the graph's affair until it is built.
template <Element T, int R> class GraphTensor {
public:
  using ElementType = T;
  static constexpr int rank = R;

  /// Reading only.
  template <class U>
  requires(std::is_const_v<T> &&std::is_same_v<U, std::remove_const_t<T>>) GraphTensor(const GraphTensor<U, R> &other)
      : graph(other.graph), value(other.value) {}

  std::array<std::int64_t, R> dims() const {
    std::array<std::int64_t, R> result{};
    for (int d = 0; d < R; ++d)
      result[d] = detail::valueOf(*graph, value).dims[d];
    return result;
  }

  /// For the library itself.
  GraphTensor(std::shared_ptr<detail::GraphState> graph, int value) : graph(std::move(graph)), value(value) {}
  detail::NodeInput asInput(std::source_location loc) const { return {graph, value, {}, loc}; }

private:
  template <Element U, int S> friend class GraphTensor;
  std::shared_ptr<detail::GraphState> graph;
  int value;
};

namespace detail {

template <class A> struct IsGraphTensor : std::false_type {};
template <class T, int R> struct IsGraphTensor<GraphTensor<T, R>> : std::true_type {};

/// A node's argument for parameter P with its position.
template <class P> struct NodeArg : NodeInput {
  template <class A>
  requires(!IsTensor<P>::value && !IsGraphTensor<std::remove_cvref_t<A>>::value)
      NodeArg(A &&a, std::source_location l = std::source_location::current())
      : NodeInput{{}, -1, Param<P>::pack(std::forward<A>(a), l), l} {}
};
template <class T, int R> struct NodeArg<Tensor<T, R>> : NodeInput {
  template <class U, int S>
  NodeArg(const GraphTensor<U, S> &a, std::source_location l = std::source_location::current())
      : NodeInput(a.asInput(l)) {
    static_assert(std::is_same_v<std::remove_const_t<U>, std::remove_const_t<T>>,
                  "graph: the tensor's element type differs from the kernel's parameter");
    static_assert(S == R, "graph: the tensor's rank differs from the kernel's parameter");
    static_assert(std::is_const_v<T> || !std::is_const_v<U>, "graph: the kernel writes to a read-only tensor");
  }
};

template <class P> inline constexpr bool isOutput = false;
template <class T, int R> inline constexpr bool isOutput<Tensor<T, R>> = !std::is_const_v<T>;

/// The parameters that a node's call names when it leaves the outputs to the graph, and the outputs as tensors.
template <class... P> struct NodeTypes {
  using Inputs = typename Concat<std::conditional_t<isOutput<P>, TypeList<>, TypeList<P>>...>::type;
  using Outputs = typename Concat<std::conditional_t<isOutput<P>, TypeList<P>, TypeList<>>...>::type;
};
template <class List> struct ResultOf;
template <class T, int R> struct ResultOf<TypeList<Tensor<T, R>>> {
  static GraphTensor<T, R> make(const NodeInput *const *outputs) { return {outputs[0]->graph, outputs[0]->value}; }
};
template <class... T, int... R> struct ResultOf<TypeList<Tensor<T, R>...>> {
  static std::tuple<GraphTensor<T, R>...> make(const NodeInput *const *outputs) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<GraphTensor<T, R>...>(GraphTensor<T, R>(outputs[I]->graph, outputs[I]->value)...);
    }
    (std::make_index_sequence<sizeof...(T)>());
  }
};

/// What a kernel can be called with in a graph: every argument, or all but its outputs, which the call then returns.
template <class Kernel, class Inputs, class All> class NodeCalls;
template <class Kernel, class... I, class... P> class NodeCalls<Kernel, TypeList<I...>, TypeList<P...>> {
public:
  void operator()(NodeArg<P>... args) const {
    std::array<NodeInput, sizeof...(P)> all{std::move(args)...};
    addNode(static_cast<const Kernel &>(*this).desc(), all);
  }
  auto operator()(NodeArg<I>... args) const requires(sizeof...(I) > 0 && sizeof...(I) < sizeof...(P)) {
    std::array<NodeInput, sizeof...(I)> given{std::move(args)...};
    std::array<NodeInput, sizeof...(P)> all;
    constexpr std::array<bool, sizeof...(P)> outputs{isOutput<P>...};
    std::array<const NodeInput *, sizeof...(P) - sizeof...(I)> made{};
    for (std::size_t i = 0, next = 0, out = 0; i < all.size(); ++i)
      if (outputs[i])
        made[out++] = &all[i];
      else
        all[i] = std::move(given[next++]);
    addNode(static_cast<const Kernel &>(*this).desc(), all);
    return ResultOf<typename NodeTypes<P...>::Outputs>::make(made.data());
  }

protected:
  constexpr NodeCalls() = default;
};

} // namespace detail
} // namespace sectile
