# SPDX-License-Identifier: Apache-2.0
# The test of the `sectile` program. Included by tests/CMakeLists.txt.
add_test(NAME cli COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_cli.py
  $<TARGET_FILE:sectile_cli> $<TARGET_FILE:sectile-run>)
set_tests_properties(cli PROPERTIES LABELS unit TIMEOUT 300)
