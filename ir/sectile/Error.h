// SPDX-License-Identifier: Apache-2.0
/// \file The two kinds of failure: `UserError`, the caller's mistake, at the caller's own line, and
/// `InternalError`, a broken promise of Sectile's, with a reproducer to report.
#pragma once

#include <sectile/Export.h>

#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>

namespace sectile {

/// A std::source_location by value. The standard type points at data of the object file that made it, which g++ 12 loses
/// when an inline variable that stores one is defined in several files; this one can be stored anywhere.
struct CodePosition {
  const char *file = "";
  std::uint32_t lineNumber = 0, columnNumber = 0;
  constexpr CodePosition() = default;
  constexpr CodePosition(const std::source_location &l)
      : file(l.file_name()), lineNumber(l.line()), columnNumber(l.column()) {}
  constexpr const char *file_name() const { return file; }
  constexpr std::uint32_t line() const { return lineNumber; }
  constexpr std::uint32_t column() const { return columnNumber; }
};

/// A position in the user's source. An empty file means that none is known.
struct SourceLoc {
  std::string file;
  std::uint32_t line = 0, column = 0;
  SourceLoc() = default;
  SourceLoc(std::string file, std::uint32_t line, std::uint32_t column)
      : file(std::move(file)), line(line), column(column) {}
  SourceLoc(const std::source_location &l) : file(l.file_name()), line(l.line()), column(l.column()) {}
  SourceLoc(const CodePosition &l) : file(l.file_name()), line(l.line()), column(l.column()) {}
};

/// What a UserError says, part by part. `message` holds both offending values; `rule` is the label of the broken
/// rule (as in docs/language.md); `wayOut` says what to write instead.
struct ErrorParts {
  SourceLoc loc;
  std::string kernel, op, message, rule, wayOut;
};

/// The caller's mistake. what() reads
/// `matmul.cpp:41:10: mma: K of a (64) differs from K of b (32) [mma_c1]; load b as [64, N] (in kernel matmul)`.
class SECTILE_API UserError : public std::runtime_error {
public:
  explicit UserError(ErrorParts parts);
  ~UserError() override;
  const SourceLoc &loc() const { return parts.loc; }
  const std::string &kernel() const { return parts.kernel; }
  const std::string &op() const { return parts.op; }
  const std::string &message() const { return parts.message; }
  const std::string &rule() const { return parts.rule; }
  const std::string &wayOut() const { return parts.wayOut; }

private:
  ErrorParts parts;
};

/// A bug of Sectile's. `reproducer()` is the path of a file that `sectile-run` replays; empty if none was written.
class SECTILE_API InternalError : public std::runtime_error {
public:
  explicit InternalError(const std::string &message, std::string reproducer = {});
  ~InternalError() override;
  const std::string &reproducer() const { return reproducerPath; }

private:
  std::string reproducerPath;
};

} // namespace sectile
