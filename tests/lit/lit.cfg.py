# SPDX-License-Identifier: Apache-2.0
"""Tests of the IR and of single passes: modules as text through sectile-opt and sectile-run, judged by FileCheck."""
import os

import lit.formats

config.name = "sectile"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.sectile_exec_root
config.environment["PATH"] = os.pathsep.join(
    [config.sectile_tools_dir, config.llvm_tools_dir, config.environment.get("PATH", "")])
# A failing check says what it looked for and where; the whole input stays out of the log.
config.environment["FILECHECK_OPTS"] = "--dump-input=fail --dump-input-context=5"
