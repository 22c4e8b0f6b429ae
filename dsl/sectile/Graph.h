// SPDX-License-Identifier: Apache-2.0
/// \file Graphs: kernels that follow each other, launched as one object, and fused where that is legal.
///
///     Graph g("mlp");
///     auto x = g.input(X), w = g.input(W), b = g.input(B); // tensors in memory
///     auto y = biasGelu(matmul(x, w), b);                  // a call leaves its outputs to the graph, or names them
///     g.output(y, Y);                                      // where a result goes
///     Composed mlp = g.build();
///     mlp(stream);
///
/// Nodes are ordinary kernels; what they compute, one after the other, is what the graph computes. A tensor between two
/// kernels that became one has no memory at all; the others share one workspace.
#pragma once

#include <sectile/Kernel.h>

#include <array>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>

namespace sectile {

/// How nodes become kernels: one of `fuse::automatic`, `fuse::none`, `fuse::require`, and `| fuse::keepRounding`.
class Fuse {
public:
  enum class Mode { automatic, none, require };
  constexpr Fuse(Mode mode, bool keepRounding = false) : how(mode), keep(keepRounding) {}
  constexpr Mode mode() const { return how; }
  constexpr bool keepsRounding() const { return keep; }

private:
  Mode how;
  bool keep;
};
/// A Fuse that rounds every value as memory would.
struct KeepRounding {
  constexpr operator Fuse() const { return Fuse(Fuse::Mode::automatic, true); }
};
constexpr Fuse operator|(Fuse how, KeepRounding) { return Fuse(how.mode(), true); }

namespace fuse {
inline constexpr Fuse automatic(Fuse::Mode::automatic); ///< wherever it is legal and saves memory traffic
inline constexpr Fuse none(Fuse::Mode::none);           ///< one kernel per node
inline constexpr Fuse require(Fuse::Mode::require);     ///< all nodes become one kernel, or the build says what is in the way
/// A value that one kernel rounds to 16 bits and the next one casts back is rounded although it meets no memory: the
/// results are those of the nodes launched one by one. Without it such a value stays f32.
inline constexpr KeepRounding keepRounding;
} // namespace fuse

namespace detail {
class ComposedState;
enum class GraphMemory { input, output, between }; ///< whose the memory of a tensor is, and what it is for
SECTILE_API std::shared_ptr<GraphState> makeGraph(const char *name, CodePosition where);
SECTILE_API int addTensor(GraphState &graph, const KernelArg &arg, GraphMemory memory, std::source_location where);
SECTILE_API int addView(GraphState &graph, const NodeInput &of, const KernelArg &arg, std::int64_t first, std::source_location where);
SECTILE_API void setOutput(GraphState &graph, const NodeInput &value, const KernelArg &memory, std::source_location where);
SECTILE_API std::shared_ptr<ComposedState> buildGraph(const GraphState &graph, Fuse how, const Config *numbers, CodePosition where);
SECTILE_API void runComposed(ComposedState &state, const Stream &stream, std::source_location where);
} // namespace detail

/// A graph that is ready to run. It holds pointers, dims, strides and numbers as they were given, and owns none of the
/// caller's memory. May be run from several threads, on several streams, and captured.
class SECTILE_API Composed {
public:
  void operator()(const Stream &stream, std::source_location loc = std::source_location::current()) const {
    detail::runComposed(*state, stream, loc);
  }
  /// Kernels that a run launches.
  int launches() const;
  /// The name of kernel number `kernel`, in the order of launches: that of its node, or those of several. UserError
  /// [graph_kernel] if there is none of that number.
  std::string kernelName(int kernel, std::source_location loc = std::source_location::current()) const;
  /// Bytes of the tensors between kernels, after those whose lifetimes do not meet share memory.
  std::int64_t workspaceBytes() const;
  /// What became of the nodes: kernels, launches and bytes of memory traffic saved, and why others are not fused.
  std::string explain() const;

  /// What a stage makes of kernel number `kernel`, as KernelOf::emit(). UserError [graph_kernel] as well.
  std::string emit(std::string_view stage, std::string_view arch, int kernel = 0,
                   std::source_location loc = std::source_location::current()) const;

  /// For the library itself.
  explicit Composed(std::shared_ptr<detail::ComposedState> s) : state(std::move(s)) {}

private:
  std::shared_ptr<detail::ComposedState> state;
};

/// Calls of kernels, in order. A call with tensors of a graph in place of a stream and tensors adds a node; one that leaves
/// out the outputs returns them, with the lengths that follow from what the kernel stores. UserErrors, at the call:
/// [graph_mix] tensors of two graphs, [graph_unwritten] a tensor that no node before has written, [graph_lengths] lengths
/// that do not fit each other, [graph_open] an output whose lengths do not follow; of view(): [graph_view]; of build():
/// [graph_empty], [fuse_require].
class Graph {
public:
  explicit Graph(const char *name = "graph", std::source_location loc = std::source_location::current())
      : state(detail::makeGraph(name, loc)) {}

  /// A tensor in memory that nodes read.
  template <class T, int R>
  GraphTensor<const T, R> input(const Tensor<T, R> &x, std::source_location loc = std::source_location::current()) {
    return {state, detail::addTensor(*state, pack(Tensor<const T, R>(x), loc), detail::GraphMemory::input, loc)};
  }
  template <int R, class T>
  GraphTensor<const T, R> input(const Buffer<T> &x, std::source_location loc = std::source_location::current()) {
    return input(Tensor<const T, R>(x, loc), loc);
  }
  /// A tensor in memory that nodes write, and may read before and after.
  template <class T, int R>
  GraphTensor<T, R> output(const Tensor<T, R> &x, std::source_location loc = std::source_location::current()) {
    static_assert(!std::is_const_v<T>, "graph: an output is a tensor that can be written");
    return {state, detail::addTensor(*state, pack(x, loc), detail::GraphMemory::output, loc)};
  }
  template <int R, class T>
  GraphTensor<T, R> output(Buffer<T> &x, std::source_location loc = std::source_location::current()) {
    return output(Tensor<T, R>(x, loc), loc);
  }
  /// The memory of a tensor that the graph made. UserError [graph_output] for one that has memory, [graph_lengths] for
  /// other lengths.
  template <class T, int R>
  void output(const GraphTensor<T, R> &value, const std::type_identity_t<Tensor<T, R>> &memory,
              std::source_location loc = std::source_location::current()) {
    detail::setOutput(*state, value.asInput(loc), pack(memory, loc), loc);
  }
  /// A tensor between nodes, for calls that name their outputs.
  template <class T, int R>
  GraphTensor<T, R> tensor(const std::int64_t (&dims)[R], std::source_location loc = std::source_location::current()) {
    std::array<std::int64_t, R> lengths;
    for (int d = 0; d < R; ++d)
      lengths[d] = dims[d];
    return {state, detail::addTensor(*state, pack(Tensor<T, R>(nullptr, lengths), loc), detail::GraphMemory::between, loc)};
  }

  /// Other dims and strides for the elements of a tensor from element `first` on: heads of a row, a part, a transposition,
  /// for reading and writing. UserError [graph_view] if it reaches outside the tensor.
  template <class T, int S, int R>
  GraphTensor<T, R> view(const GraphTensor<T, S> &x, const std::int64_t (&dims)[R], const std::int64_t (&strides)[R], std::int64_t first = 0,
                         std::source_location loc = std::source_location::current()) {
    const Tensor<const std::remove_const_t<T>, R> shape(nullptr, std::to_array(dims), std::to_array(strides));
    return {state, detail::addView(*state, x.asInput(loc), pack(shape, loc), first, loc)};
  }

  Composed build(Fuse how = fuse::automatic, std::source_location loc = std::source_location::current()) const {
    return Composed(detail::buildGraph(*state, how, nullptr, loc));
  }
  /// With numbers by hand for kernels that are made of several nodes: those of the one that leads by their names, those of
  /// others as "bias_gelu.BM". UserErrors when such a kernel is compiled: [config_unknown], [fuse_numbers].
  Composed build(Fuse how, const Config &numbers, std::source_location loc = std::source_location::current()) const {
    return Composed(detail::buildGraph(*state, how, &numbers, loc));
  }

private:
  template <class T, int R> static KernelArg pack(const Tensor<T, R> &x, std::source_location loc) {
    return detail::Param<Tensor<T, R>>::pack(x, loc);
  }
  std::shared_ptr<detail::GraphState> state;
};

} // namespace sectile
