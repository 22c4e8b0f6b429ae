// SPDX-License-Identifier: Apache-2.0
/// \file A decoded kernel: typed steps over slots, one slot per SSA value. Needs no MLIR.
///
/// A slot's lanes live in a buffer, row-major; buffers are shared by values whose lifetimes do not overlap,
/// so lanes are reached through Frame::data. Lanes that do not exist hold whatever a step left there, always
/// the same for the same input: zero after loads and gathers.
#pragma once

#include "ir/InterpKernels.h"
#include "ir/base/Artifact.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

namespace sectile::tileir::interp {

using Coords = std::array<std::int64_t, maxRank>;

/// What is known of a value before it runs. A view has no buffer.
struct Slot {
  DType dtype = DType::f32;
  bool isView = false;
  int rank = 0;
  Coords shape{};
  std::int64_t lanes = 1;
  int buffer = -1;
};

/// A tensor in memory: strides in elements.
struct View {
  char *data = nullptr;
  Coords dims{}, strides{};
};

/// What a value carries beside its lanes: extents, mask; or the view it is.
struct State {
  Coords lo{}, hi{};
  bool masked = false;
  std::vector<std::uint8_t> mask; ///< one byte a lane; meaningless if not masked
  View view;
};

struct Frame;
struct Step;
using StepFn = void (*)(const Step &, Frame &);

/// Hands a value to another slot of the same type. Swapping exchanges the buffers: `from` is dead afterwards.
struct Transfer {
  int from = 0, to = 0;
  bool swap = false;
};

/// Steps, then the values handed on at the end, all at once.
struct Body {
  std::vector<Step> steps;
  std::vector<Transfer> transfers;
  bool overlapping = false; ///< some slot is both source and target
  int condition = -1;       ///< slot of scf.condition's truth value
};

struct Step {
  StepFn run = nullptr;
  std::vector<int> in, out;
  std::vector<std::int64_t> ints;
  std::vector<char> bytes; ///< one element: a constant or a pad
  UnaryKernel unary = nullptr, widen = nullptr, widenRight = nullptr, narrow = nullptr;
  BinaryKernel binary = nullptr;
  SelectKernel select = nullptr;
  FmaKernel fma = nullptr;
  ReduceKernel reduce = nullptr;
  MmaKernel mma = nullptr;
  std::vector<Body> bodies;
};

struct Program {
  std::vector<Slot> slots;
  std::vector<std::int64_t> bufferBytes;
  std::int64_t scratchBytes = 0;
  std::vector<int> arguments; ///< slot per kernel argument
  std::vector<Step> once;     ///< constants: done once per launch
  std::vector<GridAxis> grid;
  Body main;
};

/// State of one launch.
struct Frame {
  explicit Frame(const Program &program);

  const Program &program;
  std::vector<State> values;
  std::vector<char *> buffers;
  char *scratch = nullptr;
  Coords offsets{}; ///< element offsets of the current program

  const Slot &slot(int s) const { return program.slots[std::size_t(s)]; }
  State &value(int s) { return values[std::size_t(s)]; }
  char *data(int s) { return buffers[std::size_t(slot(s).buffer)]; }
  template <class T> T *lanes(int s) { return reinterpret_cast<T *>(data(s)); }
  /// An index or a signed integer scalar.
  std::int64_t index(int s) { return *lanes<std::int64_t>(s); }
  const std::uint8_t *mask(int s) { return value(s).masked ? value(s).mask.data() : nullptr; }
  /// Room for a mask of every lane; the value counts as masked.
  std::uint8_t *makeMask(int s);
  void setComplete(int s);
  /// True if no axis is cut short; says nothing of the mask.
  bool wholeExtents(int s);

private:
  struct Free {
    void operator()(char *p) const { std::free(p); }
  };
  std::unique_ptr<char[], Free> arena;
};

/// Runs the steps and hands the values on.
void runBody(const Body &body, Frame &f);
void runTransfers(const Body &body, Frame &f);

/// out[c] = 1 where lane c exists.
void expandExistence(Frame &f, int slot, std::uint8_t *out);
/// Existence of a result of equal shape: extents intersected, masks conjoined; a missing scalar takes all
/// lanes away.
void joinExistence(const std::vector<int> &in, int out, Frame &f);
/// Existence of `from` for `to`, of the same shape.
void copyExistence(int from, int to, Frame &f);

/// dst[i] = src[i] over a box of n[0] x .. lanes of `size` bytes; strides in bytes, 0 repeats.
void copyBox(std::int64_t size, int rank, const std::int64_t *n, const char *src,
             const std::int64_t *srcStride, char *dst, const std::int64_t *dstStride);
/// Byte strides of a row-major tile.
Coords rowMajor(const Slot &slot, std::int64_t size);
/// One element in every lane.
void fillLanes(char *dst, const char *element, std::int64_t size, std::int64_t lanes);

// What each step reads of a Step is said at its definition.
void stepUnary(const Step &s, Frame &f);
void stepBinary(const Step &s, Frame &f);
void stepSelect(const Step &s, Frame &f);
void stepFma(const Step &s, Frame &f);
void stepReduce(const Step &s, Frame &f);
void stepMma(const Step &s, Frame &f);
void stepConstant(const Step &s, Frame &f);
void stepIota(const Step &s, Frame &f);
void stepSplat(const Step &s, Frame &f);
void stepBroadcast(const Step &s, Frame &f);
void stepReshape(const Step &s, Frame &f);
void stepPermute(const Step &s, Frame &f);
void stepKeep(const Step &s, Frame &f);
void stepFill(const Step &s, Frame &f);
void stepCopy(const Step &s, Frame &f);
void stepGrid(const Step &s, Frame &f);
void stepDim(const Step &s, Frame &f);
void stepSlice(const Step &s, Frame &f);
void stepLoad(const Step &s, Frame &f);
void stepStore(const Step &s, Frame &f);
void stepGather(const Step &s, Frame &f);
void stepGlobalLoad(const Step &s, Frame &f);
void stepGlobalStore(const Step &s, Frame &f);
void stepGlobalGather(const Step &s, Frame &f);
void stepMisalign(const Step &s, Frame &f);
void stepFillOutside(const Step &s, Frame &f);
void stepFor(const Step &s, Frame &f);
void stepIf(const Step &s, Frame &f);
void stepWhile(const Step &s, Frame &f);

} // namespace sectile::tileir::interp
