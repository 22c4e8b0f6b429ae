// SPDX-License-Identifier: Apache-2.0
#include "dsl/Variant.h"

#include <fmt/format.h>

namespace sectile {

VariantFacts factsOf(const detail::KernelDesc &kernel, std::span<const KernelArg> args, const Config &config) {
  VariantFacts facts;
  facts.config = config.str();
  for (size_t i = 0; i < args.size(); ++i) {
    facts.specs.push_back(specialise(args[i]));
    facts.constants.push_back(kernel.params[i].kind == detail::ParamDesc::Kind::constant ? args[i].scalar : 0);
  }
  std::vector<CoveredAxis> covers;
  for (const auto &[name, value] : config.values())
    if (value.coverArg >= 0)
      covers.push_back({value.coverArg, value.coverAxis, value.value});
  boundDims(facts.specs, args, covers);
  return facts;
}

std::string differences(const VariantFacts &before, const VariantFacts &now) {
  constexpr int most = 3; // one cause often shows in several facts
  std::string text;
  int count = 0;
  auto differ = [&](const auto &was, const auto &is, auto &&say) {
    if (was == is)
      return;
    if (++count <= most)
      text += (text.empty() ? "" : "; ") + say();
  };
  differ(before.apart, now.apart, [&] {
    return now.apart ? std::string("no written tensor shares memory with another argument")
                     : std::string("a written tensor shares memory with another argument");
  });
  differ(before.config, now.config, [&] { return fmt::format("was cfg({})", before.config); });
  for (size_t i = 0; i < now.specs.size() && i < before.specs.size(); ++i) {
    const ArgSpec &was = before.specs[i], &is = now.specs[i];
    differ(before.constants[i], now.constants[i], [&] { return fmt::format("argument {}: another constant", i); });
    differ(was.alignBytes, is.alignBytes,
           [&] { return fmt::format("argument {}: aligned to {} bytes, was {}", i, is.alignBytes, was.alignBytes); });
    differ(was.unitStrideAxis, is.unitStrideAxis, [&] {
      return is.unitStrideAxis < 0 ? fmt::format("argument {}: no axis of stride 1", i)
                                   : fmt::format("argument {}: stride 1 along axis {}", i, is.unitStrideAxis);
    });
    for (size_t d = 0; d < size_t(maxRank); ++d) {
      auto axis = [&](const char *what, std::int64_t a, std::int64_t b) {
        return fmt::format("argument {} axis {}: {} {}, was {}", i, d, what, a, b);
      };
      if (was.strideRem[d] != is.strideRem[d])
        differ(0, 1, [&] { return axis("stride modulo a vector", is.strideRem[d], was.strideRem[d]); });
      else
        differ(was.strideDiv[d], is.strideDiv[d], [&] { return axis("stride divisible by", is.strideDiv[d], was.strideDiv[d]); });
      differ(was.dimDiv[d], is.dimDiv[d], [&] { return axis("length divisible by", is.dimDiv[d], was.dimDiv[d]); });
      differ(was.dimMax[d], is.dimMax[d], [&] {
        return is.dimMax[d] ? axis("length at most", is.dimMax[d], was.dimMax[d])
                            : fmt::format("argument {} axis {}: longer than {}", i, d, was.dimMax[d]);
      });
    }
    differ(was.small, is.small,
           [&] { return fmt::format("argument {}: {} 2 GiB", i, is.small ? "less than" : "not known to be below"); });
  }
  if (count > most)
    text += fmt::format("; {} more", count - most);
  return text;
}

} // namespace sectile
