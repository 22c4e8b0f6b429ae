// SPDX-License-Identifier: Apache-2.0
/// \file Where LLVM's world without exceptions meets ours: MLIR diagnostics become one UserError or InternalError.
#pragma once

#include <sectile/Error.h>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

#include <string>
#include <vector>

namespace sectile {

/// The position of the first file location in `loc`; an empty one if there is none.
SourceLoc sourceLocOf(mlir::Location loc);

/// Collects the diagnostics of one context while it lives.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext *context);

  /// Throws what the collected errors amount to. A diagnostic `message [rule]; way out` is the user's mistake. Anything
  /// else is ours: the module as it was before the failing stage goes to a reproducer file.
  /// \param stage what failed, for the InternalError.
  /// \param config the candidate of the kernel that was compiled; it becomes part of the message.
  [[noreturn]] void raise(const std::string &kernel, const std::string &stage, const std::string &moduleText,
                          const std::string &replayFlags, const std::string &config = {});
  bool empty() const { return errors.empty(); }

private:
  struct Entry {
    SourceLoc loc;
    std::string text;
  };
  std::vector<Entry> errors;
  mlir::ScopedDiagnosticHandler handler;
};

/// Splits `'tile.mma' op message [rule]; way out` into its parts; false when no rule label is there.
bool splitDiagnostic(const std::string &text, ErrorParts &parts);

/// Writes `moduleText` to a file that `sectile-run <flags> FILE` replays; returns its path, empty when nothing can be
/// written.
std::string writeReproducer(const std::string &kernel, const std::string &stage, const std::string &moduleText,
                            const std::string &replayFlags);

} // namespace sectile
