#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. RULES below is the whole law; docs/architecture.md explains it.

Usage: check_includes.py [--root DIR]     checks the tree, prints each violation as file:line, exits with 1 on any
       check_includes.py --self-test      seeds one violation of each kind and expects each to be reported
"""
import argparse
import pathlib
import re
import sys
import tempfile
from dataclasses import dataclass, field

PUBLIC_FACES = ("ir", "runtime", "dsl", "autotune")
SOURCE_SUFFIXES = {".h", ".cpp", ".cc", ".hpp", ".td", ".inc"}

# Families of headers from outside this repository, first match wins.
EXTERNAL = [
    ("nvvm", re.compile(r"mlir/Dialect/LLVMIR/NVVM|mlir/Target/LLVMIR/Dialect/NVVM|mlir/Dialect/NV(GPU|VM)|mlir/Dialect/GPU/")),
    ("llvm-ir", re.compile(r"mlir/Dialect/LLVMIR/|mlir/Target/|mlir/Conversion/|mlir/ExecutionEngine/"
                           r"|llvm/(?!ADT/|Support/)|llvm-c/")),
    ("mlir", re.compile(r"mlir/|mlir-c/")),
    ("llvm-support", re.compile(r"llvm/(ADT|Support)/")),
    ("cuda", re.compile(r"(cuda|cudart|cudaTypedefs|cuda_runtime|nvrtc|nvPTXCompiler|cublas\w*|nvml)[\w./]*\.h")),
    ("catch", re.compile(r"catch2/")),
    ("fmt", re.compile(r"fmt/")),
    ("json", re.compile(r"nlohmann/")),
    ("cli", re.compile(r"CLI/")),
    ("sqlite", re.compile(r"sqlite3\.h")),
    ("system", re.compile(r"[a-z0-9_]+(\.h)?|(sys|linux|bits|x86_64-linux-gnu|arpa|netinet)/[\w./]+")),
]


@dataclass
class Rule:
    """What files of one area may include: own areas, families of external headers, and why."""

    areas: set
    external: set = field(default_factory=set)


STD = {"system"}
MLIR_CORE = {"mlir", "llvm-support"}

# Area of a file = the longest key here that its path begins with. "X/sectile" are the public faces.
RULES = {
    "ir/sectile": Rule({"ir/sectile"}, STD),
    "runtime/sectile": Rule({"ir/sectile", "runtime/sectile"}, STD),
    "dsl/sectile": Rule({"ir/sectile", "runtime/sectile", "dsl/sectile"}, STD),
    "autotune/sectile": Rule({"ir/sectile", "runtime/sectile", "dsl/sectile", "autotune/sectile"}, STD),
    "ir/base": Rule({"ir/base", "ir/sectile"}, STD),
    "ir": Rule({"ir", "ir/base", "ir/sectile"}, STD | MLIR_CORE | {"fmt"}),
    "passes": Rule({"passes", "ir", "ir/base", "ir/sectile"}, STD | MLIR_CORE | {"fmt"}),
    "codegen": Rule({"codegen", "ir", "ir/base", "ir/sectile"}, STD | MLIR_CORE | {"nvvm", "llvm-ir", "fmt"}),
    "runtime": Rule({"runtime", "runtime/sectile", "ir/base", "ir/sectile"}, STD | {"fmt", "json"}),
    "dsl": Rule({"dsl", "dsl/sectile", "runtime/sectile", "ir", "ir/base", "ir/sectile"}, STD | MLIR_CORE | {"fmt"}),
    "autotune": Rule({"autotune", "autotune/sectile", "dsl", "dsl/sectile", "runtime", "runtime/sectile", "ir/base",
                      "ir/sectile"}, STD | {"fmt", "json", "sqlite"}),
    "samples": Rule({"samples", "dsl/sectile", "autotune/sectile", "runtime/sectile", "ir/sectile"}, STD),
    "tools": Rule({"tools", "dsl", "dsl/sectile", "autotune", "autotune/sectile", "runtime", "runtime/sectile",
                   "ir/base", "ir/sectile"}, STD | {"fmt", "json", "cli"}),
    "tests": Rule({"*"}, {"*"}),
}

# Single files that may do more, each with its reason.
EXCEPTIONS = {
    # The main path (docs/decisions/0005): the files that see every stage.
    "dsl/Compile.cpp": Rule({"passes", "codegen", "runtime"}),
    "dsl/Compile.h": Rule({"passes", "codegen", "runtime"}),
    "dsl/Lower.cpp": Rule({"passes", "codegen", "runtime"}),
    "dsl/Lower.h": Rule({"passes", "runtime"}),
    "dsl/Launch.cpp": Rule({"runtime", "autotune"}),
    # A launch takes its configuration from the tuning record, whose format dsl/ does not know.
    "dsl/Choice.h": Rule({"autotune"}),
    "dsl/Choice.cpp": Rule({"autotune", "runtime"}),
    # Without one it takes the cost model's, which is kept in the kernel cache.
    "dsl/ModelChoice.cpp": Rule({"autotune", "runtime"}),
    # Graphs: fusion is a pass, a run has memory of the stream.
    "dsl/Composition.cpp": Rule({"passes"}),
    "dsl/GraphLengths.cpp": Rule({"passes"}),
    "dsl/GraphRun.cpp": Rule({"runtime"}),
    # The programs behind the command line tools.
    "dsl/ToolsOpt.cpp": Rule({"passes"}),
    "dsl/ToolsRun.cpp": Rule({"runtime"}, {"cli"}),
    "dsl/ToolsInput.cpp": Rule(set(), {"cli"}),
    "dsl/ToolsExplain.cpp": Rule(set(), {"cli"}),
    "dsl/Explain.cpp": Rule({"passes"}),
    "dsl/ExplainPipes.cpp": Rule({"passes"}),
    "dsl/ExplainText.cpp": Rule(set(), {"json"}),
    "dsl/ToolsInfo.cpp": Rule({"runtime"}, {"cli", "json", "llvm-ir"}),
    "dsl/ToolsMain.cpp": Rule({"runtime", "autotune"}, {"cli"}),
    "dsl/ToolsJobs.cpp": Rule({"autotune"}),
    "dsl/ToolsBuild.cpp": Rule(set(), {"cli"}),
    # Ahead of time: the record's choices, tensor maps as a launch encodes them.
    "dsl/Ahead.cpp": Rule({"runtime", "autotune"}),
    "dsl/AheadText.cpp": Rule({"runtime"}, {"json"}),
    "dsl/ToolsTune.cpp": Rule({"autotune", "autotune/sectile"}, {"cli", "json"}),
    "dsl/ToolsTuneReport.h": Rule({"autotune/sectile"}),
    "dsl/ToolsTuneRecord.cpp": Rule({"autotune"}, {"cli", "json"}),
    "dsl/ToolsCommon.cpp": Rule(set(), {"cli"}),
    "dsl/ToolsCompletion.cpp": Rule(set(), {"cli"}),
    # What samples share: options, comparison, timing.
    "samples/common/Sample.h": Rule(set(), {"fmt"}),
    "samples/common/Sample.cpp": Rule(set(), {"cli"}),
    # Files of a published model.
    "samples/18_encoder/Checkpoint.h": Rule(set(), {"fmt", "json"}),
}


def area_of(path):
    """The area of a repository path, or None."""
    found = [area for area in RULES if path == area or path.startswith(area + "/")]
    return max(found, key=len) if found else None


def family_of(name):
    for family, pattern in EXTERNAL:
        if pattern.match(name):
            return family
    return None


INCLUDE = re.compile(r'^[ \t]*(?:#[ \t]*)?include[ \t]+(?:([<"])([^>"]+)[>"])', re.M)


def resolve(root, path, bracket, name):
    """(own path, None) for a header of this repository, (None, family) for another, (None, None) for neither."""
    if name.startswith("sectile/"):
        faces = [f"{folder}/{name}" for folder in PUBLIC_FACES if (root / folder / name).is_file()]
        return (faces[0] if faces else None), None
    if bracket == '"' and area_of(name):
        # Generated TableGen output lives in the build folder under the same relative path.
        return (name if (root / name).is_file() or name.endswith(".inc") else None), None
    if bracket == '"' and path.endswith(".td") and ((root / path).parent / name).is_file():
        return f"{path.rpartition('/')[0]}/{name}", None  # TableGen files name their neighbours bare
    if bracket == '"' and "/" not in name:
        return None, None
    return None, family_of(name)


def check_file(root, path):
    area = area_of(path)
    if area is None:
        return
    rule, extra = RULES[area], EXCEPTIONS.get(path, Rule(set()))
    areas, external = rule.areas | extra.areas, rule.external | extra.external
    text = (root / path).read_text(encoding="utf-8", errors="replace")
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        bracket, name = match.groups()
        own, family = resolve(root, path, bracket, name)
        where = f"{path}:{line}"
        if own is not None:
            target = area_of(own)
            if "*" not in areas and target not in areas:
                yield f"{where}: {area} may not include {target} ({name})"
            elif bracket == '"' and own.split("/")[1:2] == ["sectile"]:
                yield f"{where}: a public header is included as <sectile/...>, not as \"{name}\""
        elif family is not None:
            if "*" not in external and family not in external:
                yield f"{where}: {area} may not include {family} headers ({name})"
        elif "*" not in external or bracket == '"' or name.startswith("sectile/"):
            yield f"{where}: {name} is no header of this repository or of a known library (include from the root)"


def check_tree(root):
    for area in sorted({area.split("/")[0] for area in RULES}):
        for file in sorted((root / area).rglob("*")):
            if file.suffix in SOURCE_SUFFIXES and file.is_file():
                yield from check_file(root, file.relative_to(root).as_posix())


# path -> (text, part of the expected complaint or None)
SEEDS = {
    "ir/base/Layout.h": ("#include <vector>\n#include <sectile/DType.h>\n", None),
    "ir/sectile/DType.h": ("#include <cstdint>\n", None),
    "ir/base/Bad.cpp": ('#include "ir/TileOps.h"\n', "ir/base may not include ir"),
    "ir/base/Bad2.cpp": ("#include <llvm/ADT/SmallVector.h>\n", "ir/base may not include llvm-support"),
    "ir/TileOps.h": ('#include "mlir/IR/Builders.h"\n#include "ir/TileOps.h.inc"\n', None),
    "ir/Bad.cpp": ('#include "mlir/Dialect/LLVMIR/NVVMDialect.h"\n', "ir may not include nvvm"),
    "ir/Bad2.cpp": ('\n#include "passes/Pipeline.h"\n', "ir/Bad2.cpp:2: ir may not include passes"),
    "ir/Bad3.cpp": ('#include "TileOps.h"\n', "include from the root"),
    "ir/Bad4.cpp": ('#include "ir/sectile/DType.h"\n', "included as <sectile/...>"),
    "ir/TileOps.td": ('include "TileDialect.td"\ninclude "mlir/IR/OpBase.td"\n', None),
    "ir/TileDialect.td": ("", None),
    "ir/Bad5.td": ('include "mlir/Dialect/LLVMIR/LLVMOpBase.td"\n', "ir may not include llvm-ir"),
    "passes/Pipeline.h": ('#include "ir/base/Layout.h"\n', None),
    "passes/Bad.cpp": ('#include "codegen/Codegen.h"\n', "passes may not include codegen"),
    "passes/Bad2.cpp": ('#include "llvm/IR/IRBuilder.h"\n', "passes may not include llvm-ir"),
    "codegen/Codegen.h": ('#include "llvm/IR/IRBuilder.h"\n', None),
    "codegen/Bad.cpp": ('#include "passes/Pipeline.h"\n', "codegen may not include passes"),
    "runtime/sectile/Stream.h": ("#include <memory>\n", None),
    "runtime/sectile/Bad.h": ("#include <cuda.h>\n", "runtime/sectile may not include cuda"),
    "runtime/Bad.cpp": ('#include "mlir/IR/Builders.h"\n', "runtime may not include mlir"),
    "runtime/Bad2.cpp": ("#include <sectile/Kernel.h>\n", "runtime may not include dsl/sectile"),
    "dsl/sectile/Kernel.h": ("#include <sectile/Stream.h>\n#include <source_location>\n", None),
    "dsl/sectile/Bad.h": ('#include "dsl/Trace.h"\n', "dsl/sectile may not include dsl "),
    "dsl/sectile/Bad2.h": ("#include <fmt/core.h>\n", "dsl/sectile may not include fmt"),
    "dsl/sectile/Bad3.h": ("#include <mlir/IR/Value.h>\n", "dsl/sectile may not include mlir"),
    "dsl/sectile/Bad4.h": ("#include <sectile/Nowhere.h>\n", "no header of this repository"),
    "dsl/Trace.h": ('#include "ir/TileOps.h"\n', None),
    "dsl/Compile.cpp": ('#include "passes/Pipeline.h"\n#include "codegen/Codegen.h"\n', None),
    "dsl/ToolsOpt.cpp": ('#include "passes/Pipeline.h"\n', None),
    "dsl/Bad.cpp": ('#include "passes/Pipeline.h"\n', "dsl may not include passes"),
    "autotune/sectile/Tuner.h": ("#include <sectile/Kernel.h>\n", None),
    "autotune/Bad.cpp": ('#include "passes/Pipeline.h"\n', "autotune may not include passes"),
    "samples/a.cpp": ("#include <sectile/Tuner.h>\n#include <cmath>\n", None),
    "samples/bad.cpp": ('#include "dsl/Trace.h"\n', "samples may not include dsl "),
    "tools/bad.cpp": ('#include "mlir/IR/Builders.h"\n', "tools may not include mlir"),
    "tests/unit/Any.cpp": ('#include "codegen/Codegen.h"\n#include <catch2/catch.hpp>\n', None),
    "tests/unit/Bad.cpp": ('#include "codegen/Missing.h"\n', "no header of this repository"),
    "tests/unit/Bad2.cpp": ("#include <sectile/Missing.h>\n", "no header of this repository"),
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, (text, _) in SEEDS.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        complaints = list(check_tree(root))
    wrong = []
    for path, (_, expected) in SEEDS.items():
        own = [c for c in complaints if c.startswith(path + ":")]
        if expected is None and own:
            wrong.append(f"{path}: clean, yet reported: {own}")
        if expected is not None and not any(expected in c for c in own):
            wrong.append(f"{path}: expected '{expected}', got {own}")
    for text in wrong:
        print(text)
    print(f"self-test: {len(SEEDS)} files, {len(wrong)} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    complaints = list(check_tree(options.root))
    for text in complaints:
        print(text)
    print(f"includes: {len(complaints)} violations")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
