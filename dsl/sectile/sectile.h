// SPDX-License-Identifier: Apache-2.0
/// \file The one header that a program with kernels includes.
#pragma once

#include <sectile/BlockFormats.h>
#include <sectile/Buffer.h>
#include <sectile/Config.h>
#include <sectile/Control.h>
#include <sectile/DType.h>
#include <sectile/Device.h>
#include <sectile/Error.h>
#include <sectile/Kernel.h>
#include <sectile/OnlineSoftmax.h>
#include <sectile/Ops.h>
#include <sectile/Stream.h>
#include <sectile/Tensor.h>
#include <sectile/Tile.h>
#include <sectile/Timer.h>
