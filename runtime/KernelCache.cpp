// SPDX-License-Identifier: Apache-2.0
#include "runtime/KernelCache.h"

#include "runtime/Env.h"

#include <cstring>

namespace sectile::runtime {

std::size_t KernelCache::HashDigest::operator()(const Sha256 &d) const {
  std::size_t v;
  std::memcpy(&v, d.data(), sizeof v);
  return v;
}

KernelCache &KernelCache::global() {
  // Never destroyed: kernels may be launched by static objects of the user's.
  static auto &cache = *new KernelCache(env().cache ? env().cacheDir : std::string(), defaultCapacity);
  return cache;
}

std::shared_ptr<Module> KernelCache::findInMemory(const Sha256 &key) {
  std::lock_guard lock(mutex);
  auto found = index.find(key);
  if (found == index.end())
    return nullptr;
  order.splice(order.begin(), order, found->second);
  return found->second->second;
}

void KernelCache::keep(const Sha256 &key, std::shared_ptr<Module> module) {
  // What leaves is destroyed outside the lock: unloading waits for the device.
  Order leaving;
  std::lock_guard lock(mutex);
  if (auto found = index.find(key); found != index.end()) {
    leaving.splice(leaving.begin(), order, found->second);
    index.erase(found);
  }
  order.emplace_front(key, std::move(module));
  index[key] = order.begin();
  while (order.size() > capacity) {
    index.erase(order.back().first);
    leaving.splice(leaving.begin(), order, std::prev(order.end()));
  }
}

KernelCache::Result KernelCache::get(std::string_view kernel, const std::string &keyText,
                                     const std::function<Artifact(const std::string &missReason)> &build) {
  const Sha256 key = sha256(keyText);
  if (auto module = findInMemory(key))
    return {std::move(module), Source::memory, {}};

  // One thread at a time per key goes on; the others find its result in memory.
  std::shared_ptr<Pending> mine;
  {
    std::lock_guard lock(mutex);
    std::weak_ptr<Pending> &slot = pending[key];
    mine = slot.lock();
    if (!mine)
      slot = mine = std::make_shared<Pending>();
  }
  struct Leave {
    KernelCache &cache;
    const Sha256 &key;
    std::shared_ptr<Pending> &mine;
    ~Leave() {
      std::lock_guard lock(cache.mutex);
      mine.reset();
      if (auto at = cache.pending.find(key); at != cache.pending.end() && at->second.expired())
        cache.pending.erase(at);
    }
  } leave{*this, key, mine};
  std::lock_guard turn(mine->mutex);
  if (auto module = findInMemory(key))
    return {std::move(module), Source::memory, {}};

  DiskCache::Lookup onDiskNow = onDisk.find(key);
  Result result;
  if (onDiskNow.artifact) {
    result.source = Source::disk;
    result.module =
        std::make_shared<Module>(kernel, std::make_shared<const Artifact>(std::move(*onDiskNow.artifact)));
  } else {
    result.missReason = onDiskNow.missReason;
    result.module =
        std::make_shared<Module>(kernel, std::make_shared<const Artifact>(build(result.missReason)));
    onDisk.insert(key, result.module->artifact());
  }
  keep(key, result.module);
  return result;
}

std::size_t KernelCache::size() const {
  std::lock_guard lock(mutex);
  return order.size();
}

void KernelCache::clear() {
  Order leaving;
  std::lock_guard lock(mutex);
  leaving.swap(order);
  index.clear();
}

} // namespace sectile::runtime
