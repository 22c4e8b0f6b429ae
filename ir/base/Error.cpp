// SPDX-License-Identifier: Apache-2.0
#include <sectile/Error.h>

#include <utility>

namespace sectile {

/// `file:line:column: op: message [rule]; way out (in kernel name)`, each part only if it is there.
static std::string text(const ErrorParts &p) {
  std::string s;
  if (!p.loc.file.empty()) {
    s += p.loc.file;
    if (p.loc.line) {
      s += ':' + std::to_string(p.loc.line);
      if (p.loc.column)
        s += ':' + std::to_string(p.loc.column);
    }
    s += ": ";
  }
  if (!p.op.empty())
    s += p.op + ": ";
  s += p.message;
  if (!p.rule.empty())
    s += " [" + p.rule + "]";
  if (!p.wayOut.empty())
    s += "; " + p.wayOut;
  if (!p.kernel.empty())
    s += " (in kernel " + p.kernel + ")";
  return s;
}

UserError::UserError(ErrorParts p) : std::runtime_error(text(p)), parts(std::move(p)) {}
UserError::~UserError() = default;

InternalError::InternalError(const std::string &message, std::string reproducer)
    : std::runtime_error("internal error: " + message +
                         (reproducer.empty()
                              ? std::string("; this is a bug of Sectile, please report it")
                              : "; this is a bug of Sectile, please report it with " + reproducer)),
      reproducerPath(std::move(reproducer)) {}
InternalError::~InternalError() = default;

} // namespace sectile
