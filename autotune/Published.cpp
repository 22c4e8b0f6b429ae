// SPDX-License-Identifier: Apache-2.0
#include "autotune/Published.h"

#include <map>
#include <mutex>

namespace sectile {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, detail::KernelDesc, std::less<>> kernels;
};
/// Initialisers of other libraries come here, and those of this one may not have run yet.
Registry &registry() {
  static auto &one = *new Registry;
  return one;
}

} // namespace

bool detail::publish(std::string_view name, const KernelDesc &kernel) {
  Registry &r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.kernels.insert_or_assign(std::string(name), kernel);
  return true;
}

std::optional<detail::KernelDesc> autotune::findPublished(std::string_view name) {
  Registry &r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  auto it = r.kernels.find(name);
  return it == r.kernels.end() ? std::nullopt : std::optional(it->second);
}

std::vector<std::string> autotune::publishedNames() {
  Registry &r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  std::vector<std::string> names;
  for (const auto &[name, kernel] : r.kernels)
    names.push_back(name);
  return names;
}

} // namespace sectile
