// SPDX-License-Identifier: Apache-2.0
/// \file Numbers of a case on the host and the device.
#pragma once

#include "tests/generality/Generality.h"

namespace generality {

template <class T> struct Numbers {
  std::vector<T> host;
  Guarded<T> memory;
  Numbers(Run &run, std::vector<T> values) : host(std::move(values)), memory(run, host) {}
  /// Standard normal ones times `scale`.
  Numbers(Run &run, std::int64_t count, unsigned seed, double scale = 1)
      : Numbers(run, normal<T>(count, seed, scale)) {}
  double operator[](std::int64_t i) const { return double(host[static_cast<std::size_t>(i)]); }
  template <class... D> auto view(D... dims) { return memory.view(dims...); }
};

} // namespace generality
