// SPDX-License-Identifier: Apache-2.0
// The tuner's side of measuring: a worker that is started, spoken to, given up and started again; or this process.
#include "autotune/Measure.h"
#include "autotune/Wire.h"

#include <sectile/Error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <set>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace sectile::autotune {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Sends of "alive" keep a request going; without one for so long the process is taken for dead.
constexpr double aliveSeconds = 20;

[[noreturn]] void failWorker(const WorkerOptions &options, std::string message) {
  throw UserError({options.where, {}, "tune", std::move(message), "tune_worker",
                   "install the program `sectile` beside the library, or time in this process with inPlace"});
}

/// `sectile` beside this library: in the same folder, or in ../bin.
std::string findProgram() {
  std::vector<std::filesystem::path> places;
  std::error_code error;
  if (Dl_info info{}; dladdr(reinterpret_cast<void *>(&workerMain), &info) && info.dli_fname) {
    const auto folder = std::filesystem::absolute(info.dli_fname, error).parent_path();
    places = {folder / "sectile", folder.parent_path() / "bin" / "sectile"};
  }
  if (const auto self = std::filesystem::read_symlink("/proc/self/exe", error); !error)
    places.push_back(self.parent_path() / "sectile");
  for (const auto &place : places)
    if (std::filesystem::is_regular_file(place, error) && access(place.c_str(), X_OK) == 0)
      return place.string();
  return {};
}

class WorkerMeasurer : public Measurer {
public:
  explicit WorkerMeasurer(const WorkerOptions &options) : options(options) {
    if (this->options.program.empty())
      this->options.program = findProgram();
    if (this->options.program.empty())
      failWorker(options, "the program of the worker, sectile, is neither beside the library nor in ../bin");
    start();
  }
  ~WorkerMeasurer() override { stop(); }

  void setArguments(int set, const GeneratedArgs &args) override {
    arguments.insert_or_assign(set, args.serialize());
    sendArguments(set);
  }
  void add(int id, std::string name, std::string code) override { candidates.insert_or_assign(id, Candidate{std::move(name), std::move(code)}); }
  void drop(int id) override {
    if (loaded.erase(id))
      request({{"op", "drop"}, {"id", id}}, {}, aliveSeconds);
    candidates.erase(id);
  }
  Measured<double> sample(int id, int set) override {
    auto reply = ask(id, {{"op", "sample"}, {"id", id}, {"set", set}});
    if (auto *failure = std::get_if<MeasureFailure>(&reply))
      return *failure;
    return std::get<Message>(reply).head.value("micros", 0.0);
  }
  Measured<Done> warm(int id, int set, double millis) override {
    return done(ask(id, {{"op", "warm"}, {"id", id}, {"set", set}, {"millis", millis}}));
  }
  Measured<Done> run(int id, int set, int slot) override {
    return done(ask(id, {{"op", "run"}, {"id", id}, {"set", set}, {"slot", slot}}));
  }
  Difference compare(int set, int slot, int reference) override {
    Message m = must({{"op", "compare"}, {"set", set}, {"slot", slot}, {"reference", reference}});
    return {m.head.at("wrong"), m.head.at("text")};
  }
  std::vector<std::vector<std::uint8_t>> results(int slot) override {
    Message m = must({{"op", "results"}, {"slot", slot}});
    std::vector<std::vector<std::uint8_t>> out;
    auto at = m.body.begin();
    for (const json &size : m.head.at("sizes")) {
      out.emplace_back(at, at + size.get<std::ptrdiff_t>());
      at += size.get<std::ptrdiff_t>();
    }
    return out;
  }
  int restarts() const override { return restartCount; }

private:
  struct Candidate {
    std::string name, code;
  };
  enum class End { closed, late };
  using Reply = std::variant<Message, End>;

  void start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      failWorker(options, fmt::format("no socket for the worker: {}", std::strerror(errno)));
    // The worker's end has number 3 there; a plain dup2 clears the flag that would close it.
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int theirs = ends[1];
    if (theirs == 3)
      theirs = dup(theirs);
    posix_spawn_file_actions_adddup2(&actions, theirs, 3);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const std::string number = "3";
    char *argv[] = {options.program.data(), const_cast<char *>(workerWord), const_cast<char *>(number.c_str()), nullptr};
    const int error = posix_spawn(&process, options.program.c_str(), &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (theirs != ends[1])
      close(theirs);
    if (error) {
      close(ends[0]);
      process = -1;
      failWorker(options, fmt::format("{} cannot be started: {}", options.program, std::strerror(error)));
    }
    socket = ends[0];
    Reply reply = request({{"op", "hello"}, {"gpu", options.device.ordinal()}}, options.script ? options.script->serialize() : std::string(),
                          aliveSeconds);
    const Message *m = std::get_if<Message>(&reply);
    if (!m) {
      const std::string how = stop();
      failWorker(options, fmt::format("{} does not answer: {}", options.program, how));
    }
    if (!m->head.value("ok", false)) {
      const std::string message = m->head.value("message", ""), rule = m->head.value("rule", "");
      const std::string wayOut = m->head.value("wayOut", "");
      stop();
      if (rule.empty())
        throw InternalError("the worker cannot begin: " + message);
      throw UserError({options.where, {}, "tune", "in the worker: " + message, rule, wayOut});
    }
    if (m->head.value("version", "") != SECTILE_VERSION) {
      const std::string version = m->head.value("version", "another");
      stop();
      failWorker(options, fmt::format("{} is version {}, the library {}", options.program, version, SECTILE_VERSION));
    }
  }

  /// Ends the process; how it ended.
  std::string stop() {
    if (socket >= 0)
      close(socket);
    socket = -1;
    loaded.clear();
    if (process <= 0)
      return "not started";
    int status = 0;
    // It ends by itself when the socket closes; if it does not at once, it is made to.
    for (int i = 0; i < 20; ++i) {
      if (waitpid(process, &status, WNOHANG) == process) {
        process = -1;
        break;
      }
      usleep(i < 10 ? 1000 : 10000);
    }
    if (process > 0) {
      kill(process, SIGKILL);
      while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        continue;
      process = -1;
      return "it was ended";
    }
    if (WIFSIGNALED(status))
      return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return fmt::format("exit status {}", WEXITSTATUS(status));
  }
  void restart() {
    ++restartCount;
    start();
    for (const auto &[set, text] : arguments)
      sendArguments(set);
  }
  void sendArguments(int set) {
    must({{"op", "arguments"}, {"set", set}}, arguments.at(set));
  }

  /// One request and its answer; `seconds`: without any sign of life.
  Reply request(const json &head, const std::string &body, double seconds) {
    if (socket < 0 || !sendMessage(socket, head, body))
      return End::closed;
    for (;;) {
      Message m;
      const auto limit = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
      switch (receiveMessage(socket, m, limit)) {
      case Receive::closed: return End::closed;
      case Receive::late: return End::late;
      case Receive::ok: break;
      }
      if (!m.head.contains("alive"))
        return m;
    }
  }

  /// A request that is about no candidate.
  Message must(const json &head, const std::string &body = {}) {
    Reply reply = request(head, body, aliveSeconds);
    if (auto *m = std::get_if<Message>(&reply)) {
      if (m->head.value("ok", false))
        return std::move(*m);
      const std::string rule = m->head.value("rule", ""), message = m->head.value("message", "");
      if (rule.empty())
        throw InternalError("the worker: " + message);
      throw UserError({options.where, {}, "tune", "in the worker: " + message, rule, m->head.value("wayOut", "")});
    }
    const std::string how = stop();
    failWorker(options, fmt::format("the worker is gone while it was to {}: {}", head.at("op").get<std::string>(), how));
  }

  /// A request about a candidate, which is loaded first. What goes wrong is the candidate's fault.
  Measured<Message> ask(int id, const json &head) {
    if (socket < 0)
      restart();
    if (!loaded.contains(id)) {
      const Candidate &c = candidates.at(id);
      // Without an assembler the driver makes the code: the worker says that it lives meanwhile.
      Reply reply = request({{"op", "load"}, {"id", id}, {"name", c.name}}, c.code, aliveSeconds);
      if (auto failure = failureOf(reply))
        return *failure;
      loaded.insert(id);
    }
    Reply reply = request(head, {}, options.hangSeconds);
    if (auto failure = failureOf(reply))
      return *failure;
    return std::get<Message>(std::move(reply));
  }
  std::optional<MeasureFailure> failureOf(const Reply &reply) {
    using Kind = MeasureFailure::Kind;
    if (const auto *m = std::get_if<Message>(&reply)) {
      if (m->head.value("ok", false))
        return std::nullopt;
      const bool lost = m->head.value("lost", false);
      std::string rule = m->head.value("rule", ""), text = m->head.value("message", "");
      if (!rule.empty())
        text += " [" + rule + "]";
      if (lost)
        stop();
      return MeasureFailure{lost ? Kind::faulted : Kind::refused, (lost ? "faulted: " : "") + text};
    }
    if (std::get<End>(reply) == End::late) {
      kill(process, SIGKILL); // it does not look at the socket
      stop();
      return MeasureFailure{Kind::hung, fmt::format("hung: no sign of life for {:g} s", options.hangSeconds)};
    }
    return MeasureFailure{Kind::faulted, "faulted: the worker was brought down, " + stop()};
  }
  static Measured<Done> done(Measured<Message> reply) {
    if (auto *failure = std::get_if<MeasureFailure>(&reply))
      return *failure;
    return Done{};
  }

  WorkerOptions options;
  pid_t process = -1;
  int socket = -1;
  int restartCount = 0;
  std::map<int, std::string> arguments;
  std::map<int, Candidate> candidates;
  std::set<int> loaded;
};

class HereMeasurer : public Measurer {
public:
  HereMeasurer(const Device &device, std::span<void *const> memory, std::shared_ptr<const MeasureScript> script)
      : isCallers(!memory.empty()),
        here(device.isInterpreter() ? makeInterpreterDevice(std::move(script), memory) : makeGpuDevice(device, memory)) {}
  ~HereMeasurer() override {
    try {
      if (isCallers && sets.contains(0))
        here->restore(0);
    } catch (...) { // a device that is lost has nothing to be restored
    }
  }
  void setArguments(int set, const GeneratedArgs &args) override {
    here->setArguments(set, args);
    sets.insert_or_assign(set, args);
  }
  void add(int id, std::string name, std::string code) override { pending.insert_or_assign(id, std::pair(std::move(name), std::move(code))); }
  void drop(int id) override {
    pending.erase(id);
    if (loaded.erase(id))
      here->unload(id);
  }
  Measured<double> sample(int id, int set) override {
    return guarded<double>(id, [&] { return here->sample(id, set); });
  }
  Measured<Done> warm(int id, int set, double millis) override {
    return guarded<Done>(id, [&] {
      here->warm(id, set, millis);
      return Done{};
    });
  }
  Measured<Done> run(int id, int set, int slot) override {
    return guarded<Done>(id, [&] {
      here->run(id, set);
      slots.insert_or_assign(slot, here->results(set));
      return Done{};
    });
  }
  Difference compare(int set, int slot, int reference) override {
    return compareResults(sets.at(set), slots.at(slot), slots.at(reference));
  }
  std::vector<std::vector<std::uint8_t>> results(int slot) override { return slots.at(slot); }
  int restarts() const override { return 0; }

private:
  /// A device that is lost ends the tuning: nothing can be measured here any more.
  template <class T, class F> Measured<T> guarded(int id, F f) {
    try {
      if (!loaded.contains(id)) {
        const auto &[name, code] = pending.at(id);
        here->load(id, name, code);
        loaded.insert(id);
      }
      return f();
    } catch (const UserError &e) {
      if (e.rule() == "device_fault")
        throw;
      return MeasureFailure{MeasureFailure::Kind::refused, fmt::format("{} [{}]", e.message(), e.rule())};
    }
  }

  bool isCallers;
  std::unique_ptr<MeasureDevice> here;
  std::map<int, GeneratedArgs> sets;
  std::map<int, std::pair<std::string, std::string>> pending;
  std::set<int> loaded;
  std::map<int, std::vector<std::vector<std::uint8_t>>> slots;
};

} // namespace

std::unique_ptr<Measurer> startWorker(const WorkerOptions &options) { return std::make_unique<WorkerMeasurer>(options); }

std::unique_ptr<Measurer> measureHere(const Device &device, std::span<void *const> memory, std::shared_ptr<const MeasureScript> script) {
  return std::make_unique<HereMeasurer>(device, memory, std::move(script));
}

MedianInterval medianOf(std::vector<double> samples) {
  MedianInterval out;
  const auto n = static_cast<std::ptrdiff_t>(samples.size());
  if (n == 0)
    return out;
  std::sort(samples.begin(), samples.end());
  out.samples = static_cast<int>(n);
  out.median = n % 2 ? samples[static_cast<std::size_t>(n / 2)]
                     : (samples[static_cast<std::size_t>(n / 2 - 1)] + samples[static_cast<std::size_t>(n / 2)]) / 2;
  // Ranks of the binomial distribution by its normal approximation; all samples where that asks for more than there are.
  const double half = 0.98 * std::sqrt(static_cast<double>(n));
  const auto low = static_cast<std::ptrdiff_t>(std::floor(static_cast<double>(n) / 2 - half));
  const auto high = static_cast<std::ptrdiff_t>(std::ceil(static_cast<double>(n) / 2 + half));
  out.low = samples[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(low, 0, n - 1))];
  out.high = samples[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(high, 0, n - 1))];
  return out;
}

} // namespace sectile::autotune
