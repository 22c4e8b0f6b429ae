# SPDX-License-Identifier: Apache-2.0
# Tests of the `sectile` program and of whole compiles. Included by tests/CMakeLists.txt.
add_test(NAME cli COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_cli.py
  $<TARGET_FILE:sectile_cli> $<TARGET_FILE:sectile-run>)
set_tests_properties(cli PROPERTIES LABELS unit TIMEOUT 300)

# One kernel cache on a network file system, eight processes.
add_library(sectile_network_files SHARED ${CMAKE_CURRENT_LIST_DIR}/../support/NetworkFiles.cpp)
target_link_libraries(sectile_network_files PRIVATE ${CMAKE_DL_LIBS})
add_test(NAME shared_cache COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_shared_cache.py $<TARGET_FILE:02_softmax>
  $<TARGET_FILE:sectile_cli> $<TARGET_FILE:sectile_fake_cuda> $<TARGET_FILE:sectile_network_files>)
set_tests_properties(shared_cache PROPERTIES LABELS unit TIMEOUT 300 PROCESSORS 2)

# The tuning record: the commands on it, many processes, a network file system.
add_test(NAME tune_record COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_record.py
  $<TARGET_FILE:sectile_cli> $<TARGET_FILE:sectile_network_files>)
set_tests_properties(tune_record PROPERTIES LABELS unit TIMEOUT 300 PROCESSORS 2)

# A whole compile on a fake driver: the log line, the key of the disk cache.
add_test(NAME compile COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_compile.py
  $<TARGET_FILE:02_softmax> $<TARGET_FILE:sectile_cases> $<TARGET_FILE:sectile_fake_cuda>)
set_tests_properties(compile PROPERTIES LABELS unit TIMEOUT 300)

# `sectile tune` on the interpreter, with kernels of a shared library.
add_library(sectile_tune_kernels SHARED ${CMAKE_CURRENT_LIST_DIR}/../support/TuneKernels.cpp)
target_link_libraries(sectile_tune_kernels PRIVATE sectile)
add_test(NAME tune COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_tune.py
  $<TARGET_FILE:sectile_cli> $<TARGET_FILE:sectile_tune_kernels> $<TARGET_FILE:sectile_fake_cuda>)
set_tests_properties(tune PROPERTIES LABELS unit TIMEOUT 300)
