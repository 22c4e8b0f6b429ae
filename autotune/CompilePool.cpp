// SPDX-License-Identifier: Apache-2.0
#include "autotune/CompilePool.h"

#include <sectile/Error.h>

#include <fmt/format.h>

namespace sectile::autotune {

CompilePool::CompilePool(int count, std::function<std::string(int)> compile) : compile(std::move(compile)) {
  for (int i = 0; i < count; ++i)
    threads.emplace_back(&CompilePool::work, this);
}

CompilePool::~CompilePool() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
    queue.clear();
  }
  changed.notify_all();
  for (std::thread &t : threads)
    t.join();
}

void CompilePool::add(int id) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    queue.push_back(id);
  }
  changed.notify_all();
}

std::optional<CompilePool::Result> CompilePool::next(bool wait) {
  std::unique_lock<std::mutex> lock(mutex);
  if (wait)
    changed.wait(lock, [&] { return !done.empty() || (queue.empty() && running == 0); });
  if (done.empty())
    return std::nullopt;
  Result result = std::move(done.front());
  done.pop_front();
  return result;
}

std::size_t CompilePool::pending() const {
  std::lock_guard<std::mutex> lock(mutex);
  return queue.size() + running + done.size();
}

std::vector<int> CompilePool::cancel() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<int> dropped(queue.begin(), queue.end());
  queue.clear();
  return dropped;
}

void CompilePool::work() {
  for (;;) {
    int id = 0;
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return stopping || !queue.empty(); });
      if (stopping)
        return;
      id = queue.front();
      queue.pop_front();
      ++running;
    }
    Result result{id, {}, {}};
    try {
      result.code = compile(id);
    } catch (const UserError &e) {
      result.reason = fmt::format("{} [{}]", e.message(), e.rule());
    } catch (const std::exception &e) { // a candidate that shows a bug of ours is out; the others go on
      result.reason = e.what();
    }
    {
      std::lock_guard<std::mutex> lock(mutex);
      done.push_back(std::move(result));
      --running;
    }
    changed.notify_all();
  }
}

} // namespace sectile::autotune
