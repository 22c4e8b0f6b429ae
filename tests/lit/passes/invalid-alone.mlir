// SPDX-License-Identifier: Apache-2.0
// A pass that is run before those that it needs.
// RUN: sectile-opt %s --sectile-assign-layouts --verify-diagnostics -o /dev/null

// expected-error @+1 {{has no launch geometry [assign_layouts_c1]; run sectile-select-mma first}}
func.func @assign_layouts_c1() attributes {tile.kernel} {
  return
}
