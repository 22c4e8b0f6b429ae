# SPDX-License-Identifier: Apache-2.0
# Tests of the repository itself and of what it ships. Included by tests/CMakeLists.txt.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
set(houseTools ${CMAKE_CURRENT_LIST_DIR}/tools)

function(sectile_house_test name)
  add_test(NAME house.${name} COMMAND ${Python3_EXECUTABLE} ${ARGN})
  set_tests_properties(house.${name} PROPERTIES LABELS unit)
endfunction()

sectile_house_test(includes ${houseTools}/check_includes.py)
sectile_house_test(includes.self ${houseTools}/check_includes.py --self-test)
sectile_house_test(repo ${houseTools}/check_repo.py --compiler ${CMAKE_CXX_COMPILER})
sectile_house_test(repo.self ${houseTools}/check_repo.py --self-test --compiler ${CMAKE_CXX_COMPILER})
sectile_house_test(status ${houseTools}/check_status.py --build-dir ${CMAKE_BINARY_DIR})
sectile_house_test(status.self ${houseTools}/check_status.py --self-test)
sectile_house_test(labels ${houseTools}/check_labels.py)
sectile_house_test(labels.self ${houseTools}/check_labels.py --self-test)
sectile_house_test(messages ${houseTools}/check_messages.py --errors $<TARGET_FILE:sectile_errors>)
sectile_house_test(messages.self ${houseTools}/check_messages.py --self-test)
sectile_house_test(scripts ${houseTools}/test_scripts.py)
sectile_house_test(library ${houseTools}/check_library.py $<TARGET_FILE:sectile>)
sectile_house_test(library.self ${houseTools}/check_library.py --self-test)

# The library in a process into which another LLVM's symbols were loaded first.
foreach(other IN ITEMS libLLVM.so.22.1 libMLIR.so.22.1)
  set(file ${SECTILE_LLVM_ROOT}/lib/${other})
  if(EXISTS ${file} AND NOT SECTILE_SANITIZE)
    add_test(NAME house.beside.${other} COMMAND $<TARGET_FILE:04_matmul> --small --device=interpreter)
    set_tests_properties(house.beside.${other} PROPERTIES LABELS unit ENVIRONMENT "LD_PRELOAD=${file}")
  endif()
endforeach()

# The archive: contents, size, what its binaries need, and the samples run from an unpacked copy.
if(NOT SECTILE_SANITIZE)
  add_test(NAME house.bundle COMMAND ${CMAKE_SOURCE_DIR}/scripts/bundle.sh ${CMAKE_BINARY_DIR} ${PROJECT_VERSION})
  set_tests_properties(house.bundle PROPERTIES LABELS samples TIMEOUT 600)
endif()
