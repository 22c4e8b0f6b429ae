// SPDX-License-Identifier: Apache-2.0
#include "dsl/Diagnostics.h"

#include "mlir/IR/Location.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace sectile {

SourceLoc sourceLocOf(mlir::Location loc) {
  SourceLoc found;
  loc->walk([&](mlir::Location l) {
    if (auto file = llvm::dyn_cast<mlir::FileLineColLoc>(l)) {
      found = SourceLoc(file.getFilename().str(), file.getLine(), file.getColumn());
      return mlir::WalkResult::interrupt();
    }
    return mlir::WalkResult::advance();
  });
  return found;
}

DiagnosticCollector::DiagnosticCollector(mlir::MLIRContext *context)
    : handler(context, [this](mlir::Diagnostic &d) {
        if (d.getSeverity() == mlir::DiagnosticSeverity::Error)
          errors.push_back({sourceLocOf(d.getLocation()), d.str()});
        return mlir::success();
      }) {}

bool splitDiagnostic(const std::string &text, ErrorParts &parts) {
  std::string rest = text;
  if (rest.size() > 1 && rest[0] == '\'') { // 'tile.mma' op ...
    size_t close = rest.find('\'', 1);
    if (close != std::string::npos) {
      std::string name = rest.substr(1, close - 1);
      size_t dot = name.find('.');
      parts.op = dot == std::string::npos ? name : name.substr(dot + 1);
      rest = rest.substr(close + 1);
      if (rest.rfind(" op ", 0) == 0)
        rest = rest.substr(4);
    }
  }
  // The label: the last [snake_case1] of the text.
  for (size_t close = rest.rfind(']'); close != std::string::npos && close > 0; close = rest.rfind(']', close - 1)) {
    size_t open = rest.rfind('[', close);
    if (open == std::string::npos || open < 2)
      return false;
    std::string label = rest.substr(open + 1, close - open - 1);
    bool isLabel = label.find('_') != std::string::npos;
    for (char c : label)
      isLabel &= std::islower(static_cast<unsigned char>(c)) || std::isdigit(static_cast<unsigned char>(c)) || c == '_';
    if (!isLabel)
      continue;
    parts.rule = label;
    parts.message = rest.substr(0, rest[open - 1] == ' ' ? open - 1 : open);
    parts.wayOut = rest.substr(close + 1);
    if (parts.wayOut.rfind("; ", 0) == 0)
      parts.wayOut = parts.wayOut.substr(2);
    return true;
  }
  return false;
}

std::string writeReproducer(const std::string &kernel, const std::string &stage, const std::string &moduleText,
                            const std::string &replayFlags) {
  const char *dir = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/sectile-{}-XXXXXX.mlir", dir && *dir ? dir : "/tmp", kernel);
  int fd = mkstemps(path.data(), 5);
  if (fd < 0)
    return {};
  close(fd);
  std::ofstream out(path);
  out << "// Sectile " << SECTILE_VERSION << ": stage '" << stage << "' failed on kernel '" << kernel << "'.\n"
      << "// Replay: sectile-run " << replayFlags << " " << path << "\n"
      << moduleText;
  out.flush();
  return out ? path : std::string();
}

void DiagnosticCollector::raise(const std::string &kernel, const std::string &stage, const std::string &moduleText,
                                const std::string &replayFlags, const std::string &config) {
  for (const Entry &e : errors) {
    ErrorParts parts;
    if (!splitDiagnostic(e.text, parts))
      continue;
    parts.loc = e.loc;
    parts.kernel = kernel;
    if (!config.empty())
      parts.message += ", with " + config;
    throw UserError(parts);
  }
  std::string why = errors.empty() ? "no diagnostic" : errors.front().text;
  std::string path = writeReproducer(kernel, stage, moduleText, replayFlags);
  throw InternalError(fmt::format("stage '{}' failed on kernel '{}': {}", stage, kernel, why), path);
}

} // namespace sectile
