# SPDX-License-Identifier: Apache-2.0
# Tests of the `sectile` program and of whole compiles. Included by tests/CMakeLists.txt.
add_test(NAME cli COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_cli.py
  $<TARGET_FILE:sectile_cli> $<TARGET_FILE:sectile-run>)
set_tests_properties(cli PROPERTIES LABELS unit TIMEOUT 300)

# A whole compile on a fake driver: the log line, the key of the disk cache.
add_test(NAME compile COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_compile.py
  $<TARGET_FILE:02_softmax> $<TARGET_FILE:sectile_cases> $<TARGET_FILE:sectile_fake_cuda>)
set_tests_properties(compile PROPERTIES LABELS unit TIMEOUT 300)
