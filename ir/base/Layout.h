// SPDX-License-Identifier: Apache-2.0
/// \file Layouts: which thread holds which element of a tile, in which register.
///
/// A tile value of shape `[M, N, ...]` lives in the registers of all threads of a block. A `Layout` maps a
/// place (register, lane, warp) to the coordinates of the tile element that is held there.
///
/// 1. The core. The bits of register, lane and warp number each have a *basis*: the coordinates that the
///    bit adds when it is set. Coordinates are added by XOR, dimension by dimension, so the map is linear
///    over F2. The core tile has a power of two of elements along every dimension. A zero basis means
///    broadcast: both values of that bit hold the same elements.
/// 2. The repetitions. The tile is the core, repeated `reps[d]` times along each dimension d, each
///    repetition in further registers of the same thread: shape = core * reps. So 24, 48, 80, 96, ... are
///    ordinary sizes. Register index = (repetition number, row-major, last dimension fastest) *
///    2^reg.size() + core register.
///
/// Example. The accumulator of an mma.sync m16n8, f32: lane l and register r hold
/// row = l/4 + 8*(r>>1), column = 2*(l%4) + (r&1). As bases (row, column):
///
///     register bits   (0,1) (8,0)                      r = 1 is one column further, r = 2 eight rows further
///     lane bits       (0,2) (0,4) (1,0) (2,0) (4,0)    four lanes share a row
///     core [16, 8], reps [1, 1]
///
/// Lane 5 = 0b00101, register 3: (0,2) ^ (1,0) ^ (0,1) ^ (8,0) = row 9, column 3. A tile [16, 24] of it has
/// reps [1, 3] and 12 registers; register 7 = 1*4 + 3 of lane 5 holds row 9, column 8 + 3 = 11. Two warps
/// side by side along N add a warp basis (0,8): core [16, 16]. Two warps that hold copies add a warp basis
/// (0,0).
///
/// Normal form. A repetition by an even count of the last repeated dimension numbers its registers just
/// like one more register bit, so it is stored as one. Hence two layouts are `==` exactly when they are the
/// same map with the same number of register, lane and warp bits.
///
/// What can be read off the bases:
/// - vector width of a memory access along an axis: how many register bases are 1, 2, 4, ... on it;
/// - duplicates: with a basis that depends on the others, several places hold one element; all but one must
///   not store it (`freeLanes`, `freeWarps`);
/// - the cost of a conversion src -> dst: only registers differ: renaming, free. Each element stays in its
///   warp: shuffles. Else: through shared memory.
///
/// Functions state their @pre; a violated one is a bug of the caller and asserts. Text and attributes from
/// outside go through `create` or `parse`, which report instead.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

/// Most dimensions of a layout: those of a tensor and slack for unit axes inserted in between.
inline constexpr int maxLayoutRank = 8;
inline constexpr int laneBits = 5;
inline constexpr int warpSize = 32;

/// Coordinates, shapes and bases: one number per dimension, entries past the rank are 0.
struct Coords {
  std::array<std::int32_t, maxLayoutRank> v{};
  Coords() = default;
  Coords(std::initializer_list<std::int32_t> l);
  explicit Coords(std::span<const std::int32_t> s);
  std::int32_t &operator[](int d) { return v[d]; }
  std::int32_t operator[](int d) const { return v[d]; }
  Coords &operator^=(const Coords &o) {
    for (int d = 0; d < maxLayoutRank; ++d)
      v[d] ^= o.v[d];
    return *this;
  }
  bool isZero() const { return *this == Coords(); }
  bool operator==(const Coords &) const = default;
};

/// A place of an element: register, lane and warp number.
struct Place {
  int reg = 0, lane = 0, warp = 0;
  bool operator==(const Place &) const = default;
};

/// A matrix over F2 with at most 64 rows: column i is the image of input bit i.
struct F2Matrix {
  int rows = 0;
  std::vector<std::uint64_t> columns;

  int cols() const { return int(columns.size()); }
  std::uint64_t apply(std::uint64_t x) const;
  int rank() const;
  /// The x with apply(x) == y that uses only pivot columns, earliest first; none if y is not in the image.
  std::optional<std::uint64_t> solve(std::uint64_t y) const;
  /// A right inverse on the image: apply(inverse.apply(y)) == y for every y in the image.
  F2Matrix pseudoInverse() const;
  /// (this * other).apply(x) == apply(other.apply(x)). @pre cols() == other.rows
  F2Matrix operator*(const F2Matrix &other) const;
  static F2Matrix identity(int n);
  bool operator==(const F2Matrix &) const = default;
};

enum class ConversionKind : std::uint8_t { Same, RenameRegisters, ShuffleLanes, SharedMemory };
std::string_view name(ConversionKind kind);

class Layout {
public:
  /// A rank-0 layout: one element, held by every lane of one warp.
  Layout();
  /// @pre what `create` checks.
  Layout(int rank, Coords core, Coords reps, std::vector<Coords> reg, std::vector<Coords> lane,
         std::vector<Coords> warp);
  /// Checks 0 <= rank <= maxLayoutRank, core a power of two >= 1, reps >= 1, every basis inside the core, 5
  /// lane bases (fewer if `partial`, for building blocks of `product`); on failure says why.
  static std::optional<Layout> create(int rank, Coords core, Coords reps, std::vector<Coords> reg,
                                      std::vector<Coords> lane, std::vector<Coords> warp,
                                      std::string *whyNot = nullptr, bool partial = false);
  /// A building block: as the constructor, with any number of lane bases up to 5.
  static Layout partial(int rank, Coords core, std::vector<Coords> reg, std::vector<Coords> lane,
                        std::vector<Coords> warp, Coords reps = {1, 1, 1, 1, 1, 1, 1, 1});

  /// The memory-coalesced layout of `shape`: `vectorElems` registers along order[0], then lanes along it,
  /// then lanes along order[1], ..., then warps along what is left (in `warpOrder`, or `order` if that is
  /// empty), then the remaining registers, in `order`. Odd factors become repetitions. Lanes and warps that
  /// find nothing left hold copies. `order` lists every axis, the contiguous one first.
  /// @pre shape entries >= 1; vectorElems and warps powers of two.
  /// @post shape() == shape; surjective; every element is held.
  static Layout blocked(std::span<const std::int32_t> shape, std::span<const int> order, int vectorElems,
                        int warps, std::span<const int> warpOrder = {});
  /// The same with the contiguous axis first, then the other axes from last to first.
  static Layout blocked(std::span<const std::int32_t> shape, int contiguousAxis, int vectorElems, int warps);

  int rank() const { return rankValue; }
  const Coords &core() const { return coreValue; }
  const Coords &reps() const { return repsValue; }
  const std::vector<Coords> &reg() const { return regBases; }
  const std::vector<Coords> &lane() const { return laneBases; }
  const std::vector<Coords> &warp() const { return warpBases; }
  std::int32_t dim(int d) const { return coreValue[d] * repsValue[d]; }
  /// core * reps; rank() entries.
  std::vector<std::int32_t> shape() const;

  int numReps() const;
  /// Registers (elements) per thread, copies included.
  int numRegs() const { return numReps() << regBases.size(); }
  int numWarps() const { return 1 << warpBases.size(); }
  int numThreads() const { return numWarps() << laneBases.size(); }

  /// The element held at a place. @pre reg < numRegs(), lane < 32, warp < numWarps().
  Coords coords(int reg, int lane, int warp) const;
  Coords coords(Place p) const { return coords(p.reg, p.lane, p.warp); }
  /// The part that depends on the register alone: coords(reg, l, w) is regCoords(reg), its core part XORed
  /// with threadCoords(l, w).
  Coords regCoords(int reg) const { return coords(reg, 0, 0); }
  Coords threadCoords(int lane, int warp) const { return coords(0, lane, warp); }

  /// No two places hold one element / every element is held / both.
  bool isInjective() const;
  bool isSurjective() const;
  bool isBijective() const { return isInjective() && isSurjective(); }

  /// Bits of the lane (warp, register) number whose basis depends on the bases of registers and lower bits
  /// (order: register, lane, warp). Storing only from places where all free bits are 0 stores every held
  /// element once.
  std::uint32_t freeRegs() const;
  std::uint32_t freeLanes() const;
  std::uint32_t freeWarps() const;
  /// Bits of the lane (warp) number whose basis moves along `axis`: a reduction combines over these.
  std::uint32_t lanesAlong(int axis) const;
  std::uint32_t warpsAlong(int axis) const;

  /// The layout after a reduction of `axis` to length 1: its bases are zeroed on the axis; register bases
  /// that then depend on earlier ones go away. The register of the result that a register of this one falls
  /// into is regOfBroadcast(result, *this, reg).
  Layout collapse(int axis) const;
  /// Removes an axis. @pre dim(axis) == 1
  Layout drop(int axis) const;
  /// Inserts an axis of length 1 before position `axis`. @pre 0 <= axis <= rank() < maxLayoutRank
  Layout insertUnit(int axis) const;
  /// Result axis i is this axis perm[i]. Places keep their thread; see `permutedReg` for registers.
  Layout permute(std::span<const int> perm) const;
  /// The register of permute(perm) that holds what `reg` holds here. The identity unless two or more axes
  /// repeat.
  int permutedReg(std::span<const int> perm, int reg) const;

  /// Length of the longest run of elements consecutive along `axis` (a power of two, 1 if none) held by
  /// registers of one thread, aligned to its length: all bases but those of contiguousBits are multiples of
  /// it on the axis.
  int contiguousRun(int axis) const;
  /// The register bits with bases 1, 2, 4, ... along `axis`: log2(contiguousRun(axis)) entries.
  std::vector<int> contiguousBits(int axis) const;

  /// `core=[16,8] reps=[1,3] reg=[(0,1),(8,0)] lane=[(0,2),(0,4),(1,0),(2,0),(4,0)] warp=[]`
  std::string toString() const;
  /// The inverse of toString; none, with a reason, for any other text.
  static std::optional<Layout> parse(std::string_view text, std::string *whyNot = nullptr);

  bool operator==(const Layout &) const = default;
  std::size_t hash() const;

private:
  void normalise();
  int rankValue = 0;
  Coords coreValue{1, 1, 1, 1, 1, 1, 1, 1}, repsValue{1, 1, 1, 1, 1, 1, 1, 1}; // entries past the rank are 1
  std::vector<Coords> regBases, laneBases, warpBases;
};

/// The linear part of a layout. Repetitions by a power of two count as register bits; `odd` are the odd
/// factors that remain, so layouts of one shape agree in `odd` and in the rows of the matrix. Input bits:
/// registers, lanes, warps, lowest first. Output bits: dimension rank-1 lowest.
struct LinearForm {
  int rank = 0, regBits = 0, laneBits = 0, warpBits = 0;
  Coords odd, pow2; ///< shape = odd * pow2
  F2Matrix matrix;
  explicit LinearForm(const Layout &l);
  /// Register number <-> (odd repetition, register bits).
  int regNumber(const Coords &oddRep, std::uint64_t regBitsValue) const;
  void splitReg(int reg, Coords &oddRep, std::uint64_t &regBitsValue) const;
  std::uint64_t pack(const Coords &c) const;
  Coords unpack(std::uint64_t bits) const;

private:
  Coords reps, repPow2;
  int coreRegBits = 0;
};

/// From coordinates to a place that holds them. Broadcast bits are 0.
class InverseLayout {
public:
  explicit InverseLayout(const Layout &l);
  /// @pre the element is held by some place.
  Place operator()(const Coords &c) const;
  const F2Matrix &matrix() const { return inverseMatrix; }
  const LinearForm &form() const { return linear; }

private:
  LinearForm linear;
  F2Matrix inverseMatrix;
};

/// @post l.coords(invert(l)(c)) == c for every held element c.
InverseLayout invert(const Layout &l);
/// inverse(src) o dst on linear parts: from the place bits of dst to the place bits of src that hold the same
/// element. The identity if both are one bijective layout. @pre same shapes; src is surjective.
F2Matrix compose(const InverseLayout &src, const Layout &dst);

/// `inner` is copied over the places and coordinates of `outer`: bits of `inner` come first, coordinates of
/// `outer` count in units of the shape of `inner`. @pre same rank; inner has no repetition; lane bases
/// together <= 5.
Layout product(const Layout &inner, const Layout &outer);
/// The `outer` with product(inner, outer) == l, if there is one: l can be made of whole `inner` tiles.
std::optional<Layout> divideLeft(const Layout &l, const Layout &inner);

/// What it takes to turn src into dst. @pre same shape and numbers of warps; src surjective.
ConversionKind conversionKind(const Layout &src, const Layout &dst);
/// For each register of dst, the register of src with the same element. @pre the kind is Same or
/// RenameRegisters.
std::vector<int> registerMap(const Layout &src, const Layout &dst);
/// Where the element that dst holds at `p` is in src, within the same warp, in the same lane if that is
/// possible. None if no lane of the warp has it. Always there for the kinds Same, RenameRegisters,
/// ShuffleLanes.
std::optional<Place> sourceInWarp(const Layout &src, const Layout &dst, Place p);

/// dst is src with some axes of length 1 stretched. The register of src with the element that `dstReg`
/// shows; none if lanes or warps disagree (then src must be converted to dst collapsed on those axes
/// first).
std::optional<int> regOfBroadcast(const Layout &src, const Layout &dst, int dstReg);

} // namespace sectile

template <> struct std::hash<sectile::Layout> {
  std::size_t operator()(const sectile::Layout &l) const { return l.hash(); }
};
