// SPDX-License-Identifier: Apache-2.0
#include "tests/generality/RandomProducts.h"

int main(int argc, char **argv) { return generality::productsMain(argc, argv, nullptr); }
