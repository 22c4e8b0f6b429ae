// SPDX-License-Identifier: Apache-2.0
/// \file The mark of every symbol that leaves libsectile.so. All else is hidden.
#pragma once

#define SECTILE_API __attribute__((visibility("default")))
