// SPDX-License-Identifier: Apache-2.0
/// \file Kernels by name, for programs that load the library they are in.
#pragma once

#include <sectile/Kernel.h>

#include <string_view>

namespace sectile {

namespace detail {
SECTILE_API bool publish(std::string_view name, const KernelDesc &kernel);
}

/// Makes a kernel known to `sectile tune`, which loads the shared library that it is in:
///
///     static const bool known = publish(matmul);               // under the kernel's own name
///     static const bool other = publish(matmulOf<f16>, "matmul_f16");
///
/// A second kernel of one name takes the first one's place. True always, so that it can initialise a variable.
template <class K> bool publish(const K &kernel, std::string_view name = {}) {
  const detail::KernelDesc desc = kernel.desc();
  return detail::publish(name.empty() ? std::string_view(desc.name) : name, desc);
}

} // namespace sectile
