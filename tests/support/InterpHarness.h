// SPDX-License-Identifier: Apache-2.0
/// \file Runs kernels given as text on the interpreter.
#pragma once

#include "ir/Interp.h"
#include "ir/TgpuDialect.h"
#include "ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace sectile::test {

/// A parsed kernel made ready to run. `messages` holds the diagnostics of parsing and decoding.
struct Interpreted {
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<tileir::InterpProgram> program;
  std::string messages;

  explicit Interpreted(const std::string &text) {
    context.loadDialect<tileir::TileDialect, tgpu::TgpuDialect, mlir::func::FuncDialect,
                        mlir::scf::SCFDialect, mlir::arith::ArithDialect>();
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) { messages += d.str() + "\n"; });
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (module)
      program = tileir::InterpProgram::build(*module);
  }
};

/// The text of a kernel with these arguments and body.
inline std::string kernelText(const std::string &arguments, const std::string &body) {
  return "func.func @k(" + arguments + ") attributes {tile.kernel} {\n" + body + "\n  return\n}\n";
}

/// The MLIR spelling of an element type.
inline std::string typeName(DType t) {
  switch (t) {
  case DType::e4m3:
    return "f8E4M3FN";
  case DType::e5m2:
    return "f8E5M2";
  case DType::boolean:
    return "i1";
  default:
    break;
  }
  std::string s(name(t));
  return isUnsignedInt(t) ? "ui" + s.substr(1) : s;
}
inline std::string tensorType(int rank, DType t) {
  return "!tile.tensor<" + std::to_string(rank) + ", " + typeName(t) + ">";
}
inline std::string tileType(std::initializer_list<std::int64_t> shape, DType t) {
  std::string s = "tensor<";
  for (std::int64_t length : shape)
    s += std::to_string(length) + "x";
  return s + typeName(t) + ">";
}

/// Host memory of a tensor with its view: dims and strides in elements, the first element at `offset`.
template <class T> struct Host {
  std::vector<std::int64_t> dims, strides;
  std::vector<T> data;
  std::int64_t offset = 0;

  Host(std::vector<std::int64_t> shape, T value = T{}) : dims(std::move(shape)), strides(dims.size()) {
    std::int64_t n = 1;
    for (std::size_t d = dims.size(); d-- > 0;) {
      strides[d] = n;
      n *= dims[d];
    }
    data.assign(std::size_t(n), value);
  }
  Host(std::vector<std::int64_t> dims, std::vector<std::int64_t> strides, std::int64_t offset,
       std::vector<T> values)
      : dims(std::move(dims)), strides(std::move(strides)), data(std::move(values)), offset(offset) {}

  static Host of(std::vector<T> values) {
    std::int64_t n = std::int64_t(values.size());
    return Host({n}, {1}, 0, std::move(values));
  }

  KernelArg arg() {
    KernelArg a;
    a.dtype = dtypeOf<T>;
    a.rank = int(dims.size());
    a.data = data.data() + offset;
    std::copy(dims.begin(), dims.end(), a.dims.begin());
    std::copy(strides.begin(), strides.end(), a.strides.begin());
    return a;
  }
  T &operator[](std::size_t i) { return data[i]; }
};
template <> struct Host<bool>; // use Host<Truth>
/// A byte that is a truth value in memory.
struct Truth {
  std::uint8_t byte = 0;
  bool operator==(const Truth &) const = default;
};

template <class T> KernelArg argOf(Host<T> &host) { return host.arg(); }
inline KernelArg argOf(KernelArg a) { return a; }
template <class T> KernelArg scalarArg(T v) {
  KernelArg a;
  a.dtype = dtypeOf<T>;
  std::memcpy(&a.scalar, &v, sizeof v);
  return a;
}

/// Parses, decodes and runs once; throws with the diagnostics if that fails.
template <class... Args> void interpret(const std::string &text, Args &&...args) {
  Interpreted k(text);
  if (!k.program)
    throw std::runtime_error(k.messages + text);
  std::vector<KernelArg> list{argOf(args)...};
  k.program->run(list);
}

} // namespace sectile::test

template <> struct sectile::DTypeOf<sectile::test::Truth> {
  static constexpr sectile::DType value = sectile::DType::boolean;
};
