# SPDX-License-Identifier: Apache-2.0
# Speed floors, measured by ctest one at a time.
add_executable(sectile_interp_bench perf/InterpBench.cpp ${SECTILE_OBJECTS})
target_precompile_headers(sectile_interp_bench REUSE_FROM sectile_ir)
target_link_libraries(sectile_interp_bench PRIVATE ${SECTILE_MLIR_LIBS} Threads::Threads dl)
target_link_options(sectile_interp_bench PRIVATE -Wl,--gc-sections)
if(SECTILE_MOLD)
  target_link_options(sectile_interp_bench PRIVATE -fuse-ld=mold)
endif()
add_test(NAME perf.InterpBench COMMAND sectile_interp_bench)
set_tests_properties(perf.InterpBench PROPERTIES LABELS perf RUN_SERIAL ON)
