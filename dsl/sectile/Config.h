// SPDX-License-Identifier: Apache-2.0
/// \file The numbers of a kernel that are chosen, not computed: tile sizes and the schedule.
#pragma once

#include <sectile/Tensor.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

/// A kernel asks its Config for every number that may differ between variants; what it asks for is the search
/// space of a tuner. The caller may set any of them by hand:
///
///     matmul.with(Config().set("BM", 64))(stream, A, B, C);
class SECTILE_API Config {
public:
  /// One named number. `choices` is the list of a pick; `coverArg` and `coverAxis` say what a cover covers.
  struct Value {
    int value = 0;
    bool byHand = false; ///< set by the caller
    bool asked = false;  ///< the kernel asked for it
    std::vector<int> choices;
    int coverArg = -1, coverAxis = -1;
  };

  // Schedule choices; 0 lets the compiler choose.
  int warps = 0;   ///< warps per block
  int stages = 0;  ///< depth of pipelined loads; 1: none, products by warps alone
  int cluster = 0; ///< blocks that run one program together, for rows too long for one block; 1: never more
  int raster = 0;  ///< programs along rows that blocks of a persistent kernel take together; 1: row after row
  int blocks = 0;  ///< blocks of a pipelined kernel that a multiprocessor runs at a time, 1 or 2; 0: by rule, two where threads make operands
  int repack = 0;  ///< 0: operands that the TMA unit cannot load are copied first where that pays; 1: never; 2: wherever it can
  // Of pipelined kernels: 0 by rule, 1 never, 2 wherever it can be done.
  int async = 0;     ///< threads of the producer copy operands to shared memory (cp.async), in place of the TMA unit
  int pingpong = 0;  ///< every warpgroup takes programs of its own, and they use the tensor cores in turns
  int multicast = 0; ///< two blocks, a cluster, load once what both need
  int snake = 0;     ///< every second program of a block goes backwards through a loop that only accumulates, over what is still in the L2 cache
  int streamk = 0;   ///< the programs of the last round are shared by all blocks in equal parts
  int overlap = 0;   ///< the first product of an iteration is issued before the last one of the iteration before is waited for
  int keep = 0;      ///< first operands of products that a loop does not change stay in registers
  // Of kernels without pipelines: 0 by rule, 1 never, 2 wherever it can be done.
  int persistent = 0; ///< blocks go through several programs
  int prefetch = 0;   ///< what the next trip of a loop, or the block's next program, loads is under way while this one is computed
  int evict = 0;      ///< accesses say what the L2 cache should keep: what is read again, and not what is moved once
  int split = 0;   ///< blocks that share the loop of a kernel that only accumulates; 1: never

  /// Chooses a value by hand.
  Config &set(std::string_view name, int value) &;
  Config &&set(std::string_view name, int value) && { return std::move(set(name, value)); }
  /// The value of this name, if it is set by hand or the kernel has asked for it.
  std::optional<int> get(std::string_view name) const;

  /// Declares a tunable number and returns its value: the one set by hand, else the first of the list.
  /// UserError [pick_value] for a value outside the list, [pick_list] for an empty list or another list under
  /// the same name.
  int pick(std::string_view name, std::initializer_list<int> choices,
           std::source_location loc = std::source_location::current());
  /// A length that covers an axis of a kernel's parameter: the bucket of the axis' length, from 16 up in powers of
  /// two, from 2048 up with the halves, from 8192 up the quarters between (2048, 3072, .. 8192, 10240 ..). Where
  /// the rows of the tensor start at different places of 16-byte blocks, it also covers what they are apart. The
  /// value is part of the key: tensors of one bucket share a variant. UserError [cover_value] for a value set by hand
  /// that does not cover the axis, [cover_tensor] for a tensor that is no parameter.
  template <class T, int R>
  int cover(std::string_view name, const Tensor<T, R> &x, int axis,
            std::source_location loc = std::source_location::current()) {
    return coverParameter(name, x.handle(), R, axis, loc);
  }

  const std::map<std::string, Value, std::less<>> &values() const { return named; }
  /// "BK=64 BM=128 BN=256 warps=8": names in order, schedule choices that are set.
  std::string str() const;
  /// Equality and hash look at names, values and schedule choices.
  std::size_t hash() const;
  bool operator==(const Config &other) const;

  /// For the library itself: keeps what was set by hand alone; the names asked for, in order.
  void forgetAsked();
  std::string askedNames() const;
  /// Takes over what a part of a composed kernel asked for, each name behind `prefix`; the covers of parameter i are then
  /// of parameter params[i], plain numbers where that is -1.
  void adopt(std::string_view prefix, const Config &part, std::span<const int> params);

private:
  int coverParameter(std::string_view name, const detail::TracedTensor &x, int rank, int axis,
                     std::source_location loc);
  std::map<std::string, Value, std::less<>> named;
};

namespace detail {
/// The bucket of Config::cover for this length; at most 2^30, which longer axes exceed.
SECTILE_API int coverBucket(std::int64_t length);
} // namespace detail

} // namespace sectile

template <> struct std::hash<sectile::Config> {
  std::size_t operator()(const sectile::Config &c) const { return c.hash(); }
};
