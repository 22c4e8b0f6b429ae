// SPDX-License-Identifier: Apache-2.0
#include "ir/base/Banks.h"

#include <algorithm>
#include <array>

namespace sectile {

BankPasses bankPasses(std::span<const std::int64_t> addresses, std::int64_t bytes) {
  BankPasses passes;
  std::size_t part = addresses.size() / std::size_t(std::max<std::int64_t>(1, bytes / bankBytes));
  for (std::size_t first = 0; first < addresses.size(); first += part) {
    std::array<std::int64_t, 4 * 32> words; // at most 128 bytes in a part, or 32 lanes
    std::size_t count = 0;
    for (std::int64_t at : addresses.subspan(first, part))
      if (at >= 0)
        for (std::int64_t word = at / bankBytes; word <= (at + bytes - 1) / bankBytes; ++word)
          words[count++] = word;
    if (!count)
      continue;
    std::sort(words.begin(), words.begin() + count);
    auto last = std::unique(words.begin(), words.begin() + count);
    std::array<int, numBanks> load{};
    for (auto word = words.begin(); word != last; ++word)
      ++load[std::size_t(*word % numBanks)];
    passes.all += *std::max_element(load.begin(), load.end());
    ++passes.least;
  }
  return passes;
}

} // namespace sectile
