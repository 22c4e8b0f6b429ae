// SPDX-License-Identifier: Apache-2.0
/// \file Which configuration a plain launch takes: the one in the tuning record for this kernel, these arguments and this
/// device, else that of the nearest shape, else the first of every pick. A launch never tunes.
#pragma once

#include "autotune/Record.h"

#include <sectile/Config.h>
#include <sectile/Device.h>
#include <sectile/Kernel.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sectile {

struct CompiledKernel;
/// The variant that a launch with these arguments runs, compiled if it is not yet (Launch.cpp).
std::shared_ptr<const CompiledKernel> variantOfLaunch(const detail::KernelDesc &kernel, const Device &device, std::span<const KernelArg> args,
                                                      const Config *overrides = nullptr);

/// What a tuner chooses, as text: names of picks (and of covers set by hand) in order, then the schedule choices that are set.
/// "BK=64 BM=128 warps=8". Numbers that follow from the arguments alone are left out.
std::string choiceText(const Config &config);
/// The configuration of such a text, every number set by hand; nullopt if it is another text.
std::optional<Config> parseChoice(std::string_view text);

/// SHA-256 (hexadecimal) of what the kernel's body does under these choices: of its name, its parameters and its `tile` module
/// without positions, for arguments whose axes have one fixed length each, so that it is the same for all shapes. Constants
/// keep their values. Throws what tracing throws.
std::string contentOf(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config *choice = nullptr);

/// The key of the record for a launch with these arguments on this device. `content` as contentOf() gave it for the
/// kernel's first choices, or for a candidate's row with the candidate's.
autotune::RecordKey recordKey(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Device &device,
                              std::string content);
/// The lengths of all axes, "4096x4096;4096": RecordRow::dims.
std::string dimsText(std::span<const KernelArg> args);

/// What is in the record for a launch.
struct RecordedChoice {
  std::optional<Config> config; ///< nullopt: nothing, the first of every pick
  std::string origin;           ///< "record", "record of 4096x4096;4096x4096" (a neighbour); else why nothing is used
};
/// Looks into the process' record, which is read once. Never throws; what is wrong with the record is said once on stderr.
RecordedChoice recordedChoice(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Device &device);
/// Whether the process' record has anything for a kernel of this name. Cheap.
bool recordKnows(const detail::KernelDesc &kernel);
/// Grows when the process' record changes (noteInRecord, reloadRecord). One atomic load.
std::uint64_t recordGeneration();
/// Another number when choices for a kernel of this name may have changed.
std::uint64_t recordVersion(const detail::KernelDesc &kernel);
/// Adds rows to the process' record, in memory at once and on disk; false where the disk did not take them.
bool noteInRecord(std::span<const autotune::RecordRow> rows);
/// Reads the process' record again, from where SECTILE_TUNE_RECORD says now. For tests and long-running processes.
void reloadRecord();

} // namespace sectile
