// SPDX-License-Identifier: Apache-2.0
/// \file Memory of a device that a C++ object owns.
#pragma once

#include <sectile/DType.h>
#include <sectile/Stream.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace sectile {

namespace detail {

/// Where a buffer is made, and the line of the user's that makes it.
struct Place {
  const Device &device;
  const Stream *stream = nullptr; ///< null: copies are ordered on the legacy default stream
  std::source_location loc;
  Place(const Device &device, std::source_location loc = std::source_location::current())
      : device(device), loc(loc) {}
  Place(const Stream &stream, std::source_location loc = std::source_location::current())
      : device(stream.device()), stream(&stream), loc(loc) {}
};

/// Untyped memory of a device and the stream that its copies are ordered on.
class SECTILE_API Memory {
public:
  Memory(const Place &place, std::size_t elementBytes, std::span<const std::int64_t> dims);
  ~Memory();
  Memory(Memory &&) noexcept;
  Memory &operator=(Memory &&) noexcept;

  void *data() const { return pointer; }
  std::size_t bytes() const { return sizeBytes; }
  const Device &device() const { return owner; }
  /// Each finishes before it returns. UserError [copy_size] when `count` bytes are not bytes().
  void copyIn(const void *host, std::size_t count, const Stream *on, std::source_location loc);
  void copyOut(void *host, std::size_t count, const Stream *on, std::source_location loc) const;
  void fill(std::uint8_t value, const Stream *on, std::source_location loc);

private:
  void release() noexcept;
  Device owner;
  std::shared_ptr<const StreamImpl> order;
  void *pointer = nullptr;
  std::size_t sizeBytes = 0;
};

} // namespace detail

/// An owning, contiguous, row-major array of rank 0 to 5 on a device; move-only. A new buffer holds no
/// defined values.
///
///     Buffer<float> x(device, 1024, 4096);
///     x.copyFrom(host);                        // std::span<const float> of x.size() elements
///     std::vector<float> y = x.toHost();
///
/// On the interpreter `data()` is host memory aligned to 256 bytes; on a GPU it is memory of the device's
/// primary context. Copies of a buffer made with a Device wait for all work on streams made by Sectile and on
/// the legacy default stream; those of a buffer made with a Stream, or given one, are ordered behind that
/// stream alone. Freeing waits for the device. Errors of construction: UserError [buffer_dims] for a negative
/// dim, a rank over 5 or a size over the address space, [out_of_memory] with the bytes asked for and the
/// bytes free.
template <Element T> class Buffer {
  static_assert(!std::same_as<T, index>,
                "Buffer<index>: use Buffer<i64>, whose elements can be read on the host");
  static_assert(!std::is_const_v<T>,
                "Buffer<const T>: a buffer owns what it holds; make a Tensor<const T, R> of it");

public:
  /// `place` is a Device or a Stream.
  Buffer(detail::Place place, std::span<const std::int64_t> dims)
      : shape(dims.begin(), dims.end()), memory(place, sizeof(T), dims) {}
  Buffer(detail::Place place, std::initializer_list<std::int64_t> dims)
      : Buffer(place, std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  /// Dims one by one: Buffer<float>(device, 4, 5).
  template <std::integral... D>
  requires(sizeof...(D) <= 5) explicit Buffer(detail::Place place, D... dims)
      : Buffer(place, std::initializer_list<std::int64_t>{static_cast<std::int64_t>(dims)...}) {}

  T *data() { return static_cast<T *>(memory.data()); }
  const T *data() const { return static_cast<const T *>(memory.data()); }
  /// Lengths of the axes, in elements.
  std::span<const std::int64_t> dims() const { return shape; }
  int rank() const { return static_cast<int>(shape.size()); }
  /// Number of elements.
  std::int64_t size() const { return static_cast<std::int64_t>(memory.bytes() / sizeof(T)); }
  const Device &device() const { return memory.device(); }

  /// Copies size() elements from the host. UserError [copy_size] for another number, naming both.
  void copyFrom(std::span<const T> host, std::source_location loc = std::source_location::current()) {
    memory.copyIn(host.data(), host.size_bytes(), nullptr, loc);
  }
  void copyFrom(std::span<const T> host, const Stream &on,
                std::source_location loc = std::source_location::current()) {
    memory.copyIn(host.data(), host.size_bytes(), &on, loc);
  }
  /// Copies size() elements to the host. UserError [copy_size] for another number, naming both.
  void copyTo(std::span<T> host, std::source_location loc = std::source_location::current()) const {
    memory.copyOut(host.data(), host.size_bytes(), nullptr, loc);
  }
  void copyTo(std::span<T> host, const Stream &on,
              std::source_location loc = std::source_location::current()) const {
    memory.copyOut(host.data(), host.size_bytes(), &on, loc);
  }
  /// All elements, in row-major order.
  std::vector<T> toHost(std::source_location loc = std::source_location::current()) const {
    if constexpr (std::same_as<T, bool>) { // std::vector<bool> has no storage to copy to
      auto bytes = std::make_unique<bool[]>(static_cast<std::size_t>(size()));
      copyTo(std::span<bool>(bytes.get(), static_cast<std::size_t>(size())), loc);
      return std::vector<bool>(bytes.get(), bytes.get() + size());
    } else {
      std::vector<T> host(static_cast<std::size_t>(size()));
      copyTo(host, loc);
      return host;
    }
  }
  /// Sets every byte to `value`.
  void fillBytes(std::uint8_t value, std::source_location loc = std::source_location::current()) {
    memory.fill(value, nullptr, loc);
  }

private:
  std::vector<std::int64_t> shape;
  detail::Memory memory;
};

} // namespace sectile
