// SPDX-License-Identifier: Apache-2.0
/// \file An ordered queue of work on a device.
#pragma once

#include <sectile/Device.h>

struct CUstream_st;

namespace sectile {

namespace detail {
class StreamImpl;
}

/// A stream: launches on one stream run in order. A small value that is cheap to copy; copies name the same
/// stream. On the interpreter every launch has finished when it returns. Thread-safe.
class SECTILE_API Stream {
public:
  /// A new stream of the device, destroyed with its last copy (work already queued still runs).
  explicit Stream(const Device &device, std::source_location loc = std::source_location::current());

  /// A stream that the caller made and keeps (a CUstream or cudaStream_t; null is the legacy default stream).
  /// It may belong to any context of the device; a default stream means that of the caller's current context,
  /// else of the primary context. UserError [stream_device] when the stream belongs to another GPU, or the
  /// device is the interpreter.
  static Stream wrap(const Device &device, CUstream_st *stream,
                     std::source_location loc = std::source_location::current());

  /// Waits until all work queued so far has finished. UserError [device_fault] when work of this device has
  /// faulted; the message names the last kernels launched, newest last. After a fault the device is lost to
  /// this process.
  void synchronize(std::source_location loc = std::source_location::current()) const;

  const Device &device() const;
  /// The CUstream; null for the interpreter and for the legacy default stream.
  CUstream_st *native() const;

  /// Same stream.
  bool operator==(const Stream &other) const;

  /// For the runtime itself.
  explicit Stream(std::shared_ptr<const detail::StreamImpl> impl) : impl(std::move(impl)) {}
  const std::shared_ptr<const detail::StreamImpl> &handle() const { return impl; }

private:
  std::shared_ptr<const detail::StreamImpl> impl;
};

} // namespace sectile
