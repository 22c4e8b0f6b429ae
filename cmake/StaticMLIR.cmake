# SPDX-License-Identifier: Apache-2.0
# Finds Debian's LLVM/MLIR 22.1 and makes its static archives linkable. Debian exports MLIR targets that link the LLVM
# shared library; mixing both aborts at start ("registered more than once"), so every mention is replaced.
find_library(SECTILE_ZSTD_STATIC NAMES libzstd.a REQUIRED)
find_library(SECTILE_Z_STATIC NAMES libz.a REQUIRED)
if(NOT TARGET zstd::libzstd_shared)
  add_library(zstd::libzstd_shared STATIC IMPORTED GLOBAL)
  set_target_properties(zstd::libzstd_shared PROPERTIES IMPORTED_LOCATION ${SECTILE_ZSTD_STATIC})
endif()

set(SECTILE_LLVM_ROOT "/usr/lib/llvm-22" CACHE PATH "Where LLVM and MLIR 22.1 are installed")
find_package(MLIR 22.1 REQUIRED CONFIG PATHS ${SECTILE_LLVM_ROOT}/lib/cmake/mlir NO_DEFAULT_PATH)
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} in ${SECTILE_LLVM_ROOT}")

set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES
  "rt;dl;m;${SECTILE_Z_STATIC};zstd::libzstd_shared;LLVMDemangle")
foreach(target IN LISTS MLIR_EXPORTED_TARGETS)
  if(TARGET ${target})
    get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
    if(links AND "LLVM" IN_LIST links)
      list(TRANSFORM links REPLACE "^LLVM$" "LLVMSupport;LLVMCore")
      set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
    endif()
  endif()
endforeach()

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

set(SECTILE_MLIR_LIBS
  MLIRIR MLIRPass MLIRParser MLIRTransforms MLIRTransformUtils MLIRFuncDialect MLIRSCFDialect MLIRArithDialect
  MLIROptLib MLIRSideEffectInterfaces
  LLVMCore LLVMPasses LLVMNVPTXCodeGen LLVMNVPTXDesc LLVMNVPTXInfo)
