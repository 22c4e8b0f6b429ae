// SPDX-License-Identifier: Apache-2.0
#include <sectile/Kernel.h>

#include "dsl/Trace.h"

namespace sectile::detail {

CellRef BodyArgs::cell(int param) const {
  // The end of a handle is that of its variable: each has its own, for variants that are called several
  // times.
  Trace &t = state.trace;
  const CellRef whole = state.cells[param];
  return t.define(t.read(whole, "apply", t.positionOf(whole)), t.positionOf(whole));
}
std::uint64_t BodyArgs::constantBits(int param) const { return state.trace.hostArgs[param].scalar; }
Config &BodyArgs::config() const { return state.trace.config; }
void BodyArgs::registerVariant(const void *variant, int firstParam) {
  state.variants.emplace(variant, firstParam);
}

BodyArgs &BodyArgs::ofVariant(const void *variant, int &firstParam, std::source_location loc) {
  Trace &t = Trace::get(loc, "apply");
  auto it = t.body->state.variants.find(variant);
  if (it == t.body->state.variants.end())
    t.fail(loc, "apply",
           "the variant has parameters of its own, but is not among the kernel's template values",
           "apply_variant", "declare the kernel as kernel<variant>(...)");
  firstParam = it->second;
  return *t.body;
}

void failNumber(DType dtype, const Literal &value, std::source_location loc) {
  const std::string text =
      value.kind == Literal::Kind::unsignedInt ? std::to_string(value.u) : std::to_string(value.i);
  throw UserError(
      {SourceLoc(loc),
       {},
       "launch",
       "the argument " + text + " is outside the range of the parameter's type " + std::string(name(dtype)),
       "launch_number",
       "give a number that fits, or widen the parameter"});
}

void checkBufferRank(int got, int wanted, std::source_location loc) {
  if (got != wanted)
    throw UserError(
        {SourceLoc(loc),
         {},
         "Tensor",
         "the buffer has rank " + std::to_string(got) + ", the tensor rank " + std::to_string(wanted),
         "buffer_rank",
         "make the buffer with " + std::to_string(wanted) + " dims"});
}

} // namespace sectile::detail
