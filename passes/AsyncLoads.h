// SPDX-License-Identifier: Apache-2.0
/// \file Loads that threads of the producer copy to shared memory (PTX ISA, cp.async): which can be, and how wide.
#pragma once

#include "ir/TgpuDialect.h"

namespace sectile::passes {

/// Bytes of the copies that can bring the boxes of `map`, placed at the offsets of `load`, into `buffer`: 16, 8 or 4, by
/// what is known of the tensor's start, its strides and the offset along the axis of stride 1; 0 if none can.
int64_t asyncCopyBytes(tgpu::GlobalLoadOp load, tgpu::MapAttr map, tgpu::BufferType buffer);

} // namespace sectile::passes
