// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/Cases.h"

#include <algorithm>
#include <unistd.h>

namespace cases {

std::vector<CaseInfo> &registry() {
  static std::vector<CaseInfo> all;
  return all;
}

GuardedMemory::GuardedMemory(const Stream &stream, std::size_t bytes, std::size_t offset)
    : before(guard + offset), bytes(bytes), memory(stream, std::int64_t(before + bytes + guard)) {
  poison();
}

void GuardedMemory::write(const void *from) {
  std::vector<std::uint8_t> all = memory.toHost();
  if (bytes)
    std::memcpy(all.data() + before, from, bytes);
  memory.copyFrom(all);
}

void GuardedMemory::read(void *to) const {
  std::vector<std::uint8_t> all = memory.toHost();
  if (bytes)
    std::memcpy(to, all.data() + before, bytes);
}

std::string GuardedMemory::bits() const {
  std::vector<std::uint8_t> all = memory.toHost();
  return std::string(all.begin(), all.end());
}

bool GuardedMemory::guardsHold() const {
  std::vector<std::uint8_t> all = memory.toHost();
  auto isPoison = [](std::uint8_t b) { return b == 0xFF; };
  return std::all_of(all.begin(), all.begin() + std::ptrdiff_t(before), isPoison) &&
         std::all_of(all.end() - std::ptrdiff_t(guard), all.end(), isPoison);
}

const Stream &Run::stream() {
  if (!own)
    own.emplace(gpu ? Device::gpu(0) : Device::interpreter());
  return *own;
}

void Run::fail(const std::string &what) {
  if (failures++ == 0)
    message = what;
}

void Run::beat() {
  if (beatFd >= 0 && write(beatFd, "H\n", 2) != 2)
    _exit(3);
}

void Run::refused(const std::function<void()> &call, const std::vector<std::string> &parts,
                  const std::string &what) {
  ++checks;
  try {
    call();
  } catch (const UserError &e) {
    const std::string text = e.what();
    for (const std::string &part : parts)
      if (text.find(part) == std::string::npos)
        fail(fmt::format("{}: the message lacks '{}': {}", what, part, text));
    if (e.loc().file.empty())
      fail(fmt::format("{}: the message has no position: {}", what, text));
    return;
  }
  fail(what + ": not refused");
}

static Config schedule(int warps, int cluster, int stages) {
  Config config;
  config.warps = warps;
  config.cluster = cluster;
  config.stages = stages;
  return config;
}

static std::vector<Config> warpSchedules(bool gpu) {
  std::vector<Config> all{{}};
  if (gpu)
    for (auto [warps, cluster] : {std::pair(1, 0), {2, 0}, {4, 0}, {8, 0}, {1, 2}, {4, 4}, {2, 8}, {16, 8}})
      all.push_back(schedule(warps, cluster, 0));
  return all;
}

void Run::sweep(const Outs &outs, const std::function<void(const Config &)> &launch,
                const std::function<void()> &verify, int repeats) {
  sweepOver(warpSchedules(gpu), outs, launch, verify, repeats);
}

void Run::sweepPipelines(const Outs &outs, const std::function<void(const Config &)> &launch,
                         const std::function<void()> &verify, int repeats) {
  std::vector<Config> all = warpSchedules(gpu);
  if (gpu)
    for (auto [warps, stages] : {std::pair(0, 1), {0, 2}, {0, 3}, {0, 4}, {0, 5}, {4, 3}, {8, 3}})
      all.push_back(schedule(warps, 0, stages));
  sweepOver(all, outs, launch, verify, repeats);
}

void Run::byDefault(const Outs &outs, const std::function<void(const Config &)> &launch,
                    const std::function<void()> &verify, int repeats) {
  sweepOver({Config()}, outs, launch, verify, repeats);
}

void Run::sweepOver(const std::vector<Config> &schedules, const Outs &outs,
                    const std::function<void(const Config &)> &launch, const std::function<void()> &verify,
                    int repeats) {
  if (repeats == 0)
    repeats = gpu ? 50 : 3;
  for (const Config &config : schedules) {
    std::vector<std::string> first;
    for (int i = 0; i < repeats; ++i) {
      beat();
      for (GuardedMemory *out : outs)
        out->poison();
      try {
        launch(config);
      } catch (const UserError &e) {
        // A number of warps that does not fit the tiles is refused with its numbers, a cluster where the GPU has
        // none or whole tiles would cross it, stages where nothing is pipelined; the compiler's own choice must
        // fit.
        const bool isOwn = config == Config();
        if (isOwn || !(e.rule().starts_with("check_resources_") || e.rule().starts_with("choose_cluster_") ||
                       (config.stages > 1 && e.rule() == "config_stages")))
          throw;
        break;
      }
      stream().synchronize();
      int before = failures;
      if (i == 0)
        verify();
      for (std::size_t o = 0; o < outs.size(); ++o) {
        check(outs[o]->guardsHold(), fmt::format("guard bytes of output {} were written", o));
        std::string bits = outs[o]->bits();
        if (i == 0)
          first.push_back(std::move(bits));
        else
          check(bits == first[o], fmt::format("output {} differs in run {}", o, i));
      }
      if (failures > before) {
        if (before == 0)
          message += fmt::format(" [{}]", config == Config() ? "default" : config.str());
        break;
      }
    }
  }
}

} // namespace cases
