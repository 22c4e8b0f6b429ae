// SPDX-License-Identifier: Apache-2.0
/// \file Rows of a tuning record for tests.
#pragma once

#include "autotune/Record.h"

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>

namespace sectile::test {

/// A key whose every field depends on `seed`.
inline autotune::RecordKey recordKeyOf(int seed) {
  const std::string n = std::to_string(seed);
  return {.kernel = "kernel_" + n,
          .content = "c0ffee" + n,
          .layout = "0:bf16 r2 a16 u1 s16,1;1:f32 = 3ff" + n,
          .shape = "4096/16x4096/16;128/16",
          .gpu = "NVIDIA H200",
          .multiprocessors = 132,
          .driver = "13.0",
          .compiler = "0.1.0 abc",
          .assembler = "13.0.88"};
}

/// A final choice that took about `nanos`.
inline autotune::RecordRow recordRow(int seed, const std::string &choice = "BM=128", double nanos = 1000, double spread = 10) {
  autotune::RecordRow r;
  r.key = recordKeyOf(seed);
  r.choice = choice;
  r.choiceContent = "feed" + std::to_string(seed);
  r.dims = "4000x4096;128";
  r.medianNs = nanos + 0.1; // no number that a few digits could hold
  r.lowNs = nanos - spread;
  r.highNs = nanos + spread;
  r.date = 1700000000 + seed;
  r.tried = 17;
  r.isFinal = true;
  return r;
}

inline autotune::RecordSet recordSet(std::initializer_list<autotune::RecordRow> rows) {
  autotune::RecordSet set;
  for (const autotune::RecordRow &r : rows)
    set.add(r);
  return set;
}

inline std::string readBytes(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void writeBytes(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

} // namespace sectile::test
