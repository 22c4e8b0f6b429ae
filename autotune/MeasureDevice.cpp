// SPDX-License-Identifier: Apache-2.0
#include "autotune/MeasureDevice.h"

#include "dsl/Work.h"
#include "runtime/DeviceImpl.h"
#include "runtime/KernelCache.h"
#include "runtime/Launch.h"

#include <sectile/Buffer.h>
#include <sectile/Timer.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <unistd.h>

namespace sectile::autotune {
namespace {

constexpr std::size_t regionAlign = 256;
using Clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const std::string &name, std::string message, const char *rule) {
  throw UserError({{}, {}, "tune", fmt::format("{}: {}", name, std::move(message)), rule, "leave this configuration out"});
}

/// One set of arguments in memory.
struct Placed {
  GeneratedArgs args;
  std::vector<detail::Memory> memory;            ///< of the device's own regions
  std::vector<void *> regions;
  std::vector<std::vector<std::uint8_t>> images; ///< what each region holds at first; kept for written ones
  std::vector<KernelArg> passed;
};

/// What both devices share: arguments in memory.
class DeviceBase : public MeasureDevice {
public:
  DeviceBase(Stream stream, std::span<void *const> own) : stream(std::move(stream)), own(own.begin(), own.end()) {}

  void setArguments(int set, const GeneratedArgs &args) override {
    sets.erase(set); // its memory first
    Placed &p = sets[set];
    p.args = args;
    for (std::size_t r = 0; r < args.regions.size(); ++r) {
      const ArgRegion &region = args.regions[r];
      if (isCallers(set)) {
        p.regions.push_back(own[r]);
        p.images.push_back(region.written ? fetch(own[r], region.bytes) : std::vector<std::uint8_t>());
        continue;
      }
      const std::int64_t bytes = region.bytes + 2 * static_cast<std::int64_t>(regionAlign);
      p.memory.emplace_back(detail::Place(stream), 1, std::span(&bytes, 1));
      auto base = reinterpret_cast<std::uintptr_t>(p.memory.back().data());
      p.regions.push_back(reinterpret_cast<void *>((base + regionAlign - 1) / regionAlign * regionAlign +
                                                   static_cast<std::uintptr_t>(region.misalign)));
      std::vector<std::uint8_t> image = args.image(static_cast<int>(r));
      put(p.regions.back(), image);
      p.images.push_back(region.written ? std::move(image) : std::vector<std::uint8_t>());
    }
    p.passed = args.at(p.regions);
  }
  void restore(int set) override {
    Placed &p = sets.at(set);
    for (std::size_t r = 0; r < p.regions.size(); ++r)
      if (p.args.regions[r].written)
        put(p.regions[r], p.images[r]);
  }
  std::vector<std::vector<std::uint8_t>> results(int set) override {
    Placed &p = sets.at(set);
    std::vector<std::vector<std::uint8_t>> out;
    for (std::size_t r = 0; r < p.regions.size(); ++r)
      out.push_back(p.args.regions[r].written ? fetch(p.regions[r], p.args.regions[r].bytes) : std::vector<std::uint8_t>());
    return out;
  }
  void warm(int id, int set, double millis) override {
    const auto end = Clock::now() + std::chrono::duration<double, std::milli>(millis);
    while (Clock::now() < end)
      sample(id, set);
  }

protected:
  bool isCallers(int set) const { return set == 0 && !own.empty(); }
  virtual void put(void *to, const std::vector<std::uint8_t> &bytes) = 0;
  virtual std::vector<std::uint8_t> fetch(const void *from, std::int64_t bytes) = 0;

  Stream stream;
  std::vector<void *> own;
  std::map<int, Placed> sets;
};

class GpuDevice : public DeviceBase {
public:
  GpuDevice(const Device &device, std::span<void *const> own) : DeviceBase(Stream(device), own), timer(stream) {
    // Twice what the L2 cache holds, written before every sample: its lines are then those of other addresses.
    flushBytes = 2 * std::max<std::int64_t>(device.properties().l2Bytes, 32ll << 20);
    flush.emplace(detail::Place(stream), 1, std::span(&flushBytes, 1));
  }
  void setArguments(int set, const GeneratedArgs &args) override {
    for (auto &[id, loaded] : candidates)
      loaded.launches.erase(set);
    DeviceBase::setArguments(set, args);
  }
  void load(int id, const std::string &name, const std::string &code) override {
    std::optional<Artifact> artifact = runtime::deserialize(code);
    if (!artifact)
      throw InternalError("an artifact for the worker cannot be read back");
    Loaded loaded{std::make_shared<runtime::Module>(name, std::make_shared<const Artifact>(std::move(*artifact))), {}};
    loaded.module->load(*stream.handle(), {});
    candidates.insert_or_assign(id, std::move(loaded));
  }
  void unload(int id) override { candidates.erase(id); }
  double sample(int id, int set) override {
    const runtime::PreparedLaunch &launch = prepared(id, set);
    fillAsync(flush->data(), static_cast<std::size_t>(flushBytes)); // runs while the rest is queued
    timer.start();
    launch(stream);
    timer.stop();
    return timer.micros();
  }
  void run(int id, int set) override {
    restore(set);
    prepared(id, set)(stream);
    stream.synchronize();
  }

protected:
  void put(void *to, const std::vector<std::uint8_t> &bytes) override {
    copy("cuMemcpyHtoDAsync", [&](const runtime::DriverApi &call) {
      return call.memcpyHtoDAsync(reinterpret_cast<runtime::CuDevicePtr>(to), bytes.data(), bytes.size(), stream.native());
    });
  }
  std::vector<std::uint8_t> fetch(const void *from, std::int64_t bytes) override {
    std::vector<std::uint8_t> host(static_cast<std::size_t>(bytes));
    copy("cuMemcpyDtoHAsync", [&](const runtime::DriverApi &call) {
      return call.memcpyDtoHAsync(host.data(), reinterpret_cast<runtime::CuDevicePtr>(from), host.size(), stream.native());
    });
    return host;
  }

private:
  struct Loaded {
    std::shared_ptr<runtime::Module> module;
    std::map<int, runtime::PreparedLaunch> launches; ///< by set
  };
  const runtime::PreparedLaunch &prepared(int id, int set) {
    Loaded &loaded = candidates.at(id);
    auto it = loaded.launches.find(set);
    if (it == loaded.launches.end())
      it = loaded.launches.emplace(set, runtime::PreparedLaunch(loaded.module, sets.at(set).passed)).first;
    return it->second;
  }
  template <class F> void copy(const char *function, F call) {
    const detail::DeviceImpl &d = *stream.device().handle();
    const runtime::Driver &driver = d.driver({});
    runtime::ContextScope scope(driver, stream.handle()->context);
    d.check(call(driver.call), function, "tune", {});
    d.check(driver.call.streamSynchronize(stream.native()), "cuStreamSynchronize", "tune", {});
  }
  void fillAsync(void *to, std::size_t bytes) {
    const detail::DeviceImpl &d = *stream.device().handle();
    const runtime::Driver &driver = d.driver({});
    runtime::ContextScope scope(driver, stream.handle()->context);
    d.check(driver.call.memsetD8Async(reinterpret_cast<runtime::CuDevicePtr>(to), 0x5A, bytes, stream.native()), "cuMemsetD8Async",
            "tune", {});
  }

  Timer timer;
  std::int64_t flushBytes = 0;
  std::optional<detail::Memory> flush;
  std::map<int, Loaded> candidates;
};

class InterpreterDevice : public DeviceBase {
public:
  InterpreterDevice(std::shared_ptr<const MeasureScript> script, std::span<void *const> own)
      : DeviceBase(Device::interpreter().stream(), own), script(std::move(script)), engine(this->script ? this->script->seed : 1) {}
  void load(int id, const std::string &name, const std::string &code) override {
    if (scripted(name).fault == "refuse")
      refuse(name, "the driver does not take its code", "load_failed");
    candidates.insert_or_assign(id, Loaded{name, interpreterProgram(code)});
  }
  void unload(int id) override { candidates.erase(id); }
  double sample(int id, int set) override {
    Loaded &loaded = candidates.at(id);
    misbehave(loaded);
    if (script) {
      const ScriptedCandidate c = scripted(loaded.name);
      double micros = c.micros * (1 + c.noise * std::uniform_real_distribution<double>(-1, 1)(engine));
      return c.fault == "drift" ? micros * (1 + 0.05 * loaded.samples++) : micros;
    }
    const auto begin = Clock::now();
    loaded.program(sets.at(set).passed);
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  void warm(int, int, double) override {} // a processor's clock is not ours
  void run(int id, int set) override {
    Loaded &loaded = candidates.at(id);
    misbehave(loaded);
    restore(set);
    loaded.program(sets.at(set).passed);
    if (scripted(loaded.name).fault != "wrong")
      return;
    Placed &p = sets.at(set); // one wrong byte in the first region that is written
    for (std::size_t r = 0; r < p.regions.size(); ++r)
      if (p.args.regions[r].written) {
        static_cast<std::uint8_t *>(p.regions[r])[p.args.regions[r].bytes - 1] ^= 0x7F;
        return;
      }
  }

protected:
  void put(void *to, const std::vector<std::uint8_t> &bytes) override { std::memcpy(to, bytes.data(), bytes.size()); }
  std::vector<std::uint8_t> fetch(const void *from, std::int64_t bytes) override {
    auto begin = static_cast<const std::uint8_t *>(from);
    return {begin, begin + bytes};
  }

private:
  struct Loaded {
    std::string name;
    std::function<void(std::span<const KernelArg>)> program;
    int samples = 0;
  };
  ScriptedCandidate scripted(const std::string &name) const {
    if (!script)
      return {};
    auto it = script->candidates.find(name);
    if (it == script->candidates.end())
      it = script->candidates.find("");
    return it == script->candidates.end() ? ScriptedCandidate() : it->second;
  }
  void misbehave(const Loaded &loaded) const {
    const std::string fault = scripted(loaded.name).fault;
    if (fault == "crash")
      std::abort();
    while (fault == "hang")
      std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  std::shared_ptr<const MeasureScript> script;
  std::mt19937_64 engine;
  std::map<int, Loaded> candidates;
};

} // namespace

std::string MeasureScript::serialize() const {
  nlohmann::json list = nlohmann::json::object();
  for (const auto &[name, c] : candidates)
    list[name] = {{"micros", c.micros}, {"noise", c.noise}, {"fault", c.fault}};
  return nlohmann::json{{"seed", seed}, {"candidates", list}}.dump();
}

MeasureScript MeasureScript::deserialize(std::string_view text) {
  MeasureScript script;
  const auto parsed = nlohmann::json::parse(text);
  script.seed = parsed.at("seed");
  for (const auto &[name, c] : parsed.at("candidates").items())
    script.candidates[name] = {c.at("micros"), c.at("noise"), c.at("fault")};
  return script;
}

std::unique_ptr<MeasureDevice> makeGpuDevice(const Device &device, std::span<void *const> memory) {
  return std::make_unique<GpuDevice>(device, memory);
}
std::unique_ptr<MeasureDevice> makeInterpreterDevice(std::shared_ptr<const MeasureScript> script, std::span<void *const> memory) {
  return std::make_unique<InterpreterDevice>(std::move(script), memory);
}

bool copyFromDevice(const Device &device, const void *from, void *to, std::int64_t bytes) {
  if (device.isInterpreter()) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return true;
  }
  const Stream stream = device.stream();
  const runtime::Driver &driver = device.handle()->driver({});
  runtime::ContextScope scope(driver, stream.handle()->context);
  return driver.call.memcpyDtoHAsync(to, reinterpret_cast<runtime::CuDevicePtr>(from), static_cast<std::size_t>(bytes),
                                     stream.native()) == runtime::cuSuccess &&
         driver.call.streamSynchronize(stream.native()) == runtime::cuSuccess;
}

bool isCapturing(const Stream &stream) {
  if (stream.device().isInterpreter())
    return false;
  const runtime::Driver &driver = stream.device().handle()->driver({});
  runtime::ContextScope scope(driver, stream.handle()->context);
  int status = runtime::cuCaptureNone;
  // The legacy default stream answers with an error while a stream that it is ordered with is captured.
  const runtime::CuResult result = driver.call.streamIsCapturing(stream.native(), &status);
  return result != runtime::cuSuccess || status != runtime::cuCaptureNone;
}

} // namespace sectile::autotune
