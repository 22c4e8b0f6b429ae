// SPDX-License-Identifier: Apache-2.0
#include "dsl/Tools.h"

int main(int argc, char **argv) { return sectile::tools::main(argc, argv); }
