# SPDX-License-Identifier: Apache-2.0
# The `sectile` program and its test. Included by tests/CMakeLists.txt.
add_executable(sectile_cli tools/sectile.cpp)
set_target_properties(sectile_cli PROPERTIES OUTPUT_NAME sectile)
target_link_libraries(sectile_cli PRIVATE sectile)
add_test(NAME cli COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_cli.py
  $<TARGET_FILE:sectile_cli> $<TARGET_FILE:sectile-run>)
set_tests_properties(cli PROPERTIES LABELS unit TIMEOUT 300)
