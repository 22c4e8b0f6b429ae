// SPDX-License-Identifier: Apache-2.0
/// \file One row of a tuning record as JSON, on one line.
#pragma once

#include "autotune/Record.h"

namespace sectile::autotune {

/// All fields and the checksum.
std::string rowJson(const RecordRow &row);
/// Such a line as a row; nullopt, with the reason, if it is damaged or was edited.
std::optional<RecordRow> rowFromJson(std::string_view text, std::string &why);

} // namespace sectile::autotune
