// SPDX-License-Identifier: Apache-2.0
// The worker: the process in which candidates run. One request at a time; a thread says that the process lives while
// something long is done that is no launch, and ends the process when the tuner is gone.
#include "autotune/Measure.h"
#include "autotune/Wire.h"

#include <sectile/Error.h>

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace sectile::autotune {
namespace {

using nlohmann::json;

class Server {
public:
  explicit Server(int socket) : socket(socket) {}

  int run() {
    std::thread(&Server::watch, this).detach();
    Message request;
    while (receiveMessage(socket, request, std::nullopt) == Receive::ok) {
      Message reply;
      bool lost = false;
      try {
        reply = answer(request);
        reply.head["ok"] = true;
      } catch (const UserError &e) {
        lost = e.rule() == "device_fault";
        reply.head = {{"ok", false}, {"rule", e.rule()}, {"message", e.message()}, {"wayOut", e.wayOut()}, {"lost", lost}};
      } catch (const std::exception &e) {
        reply.head = {{"ok", false}, {"rule", ""}, {"message", e.what()}, {"wayOut", ""}, {"lost", false}};
      }
      busy = false;
      std::lock_guard<std::mutex> lock(sending);
      if (!sendMessage(socket, reply.head, reply.body) || lost)
        break;
    }
    _exit(0); // a device that is lost, or work that still runs, would hold up an orderly end
  }

private:
  void watch() {
    for (;;) {
      pollfd p{socket, POLLRDHUP, 0};
      if (poll(&p, 1, 200) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
        _exit(0);
      if (!busy)
        continue;
      std::lock_guard<std::mutex> lock(sending);
      if (busy && !sendMessage(socket, {{"alive", true}}))
        _exit(0);
    }
  }

  Message answer(const Message &request) {
    const json &head = request.head;
    const std::string op = head.at("op");
    auto number = [&](const char *name) { return head.at(name).get<int>(); };
    // Launches must end in their time; whatever else is done may take long.
    busy = op == "hello" || op == "arguments" || op == "load" || op == "compare" || op == "results";
    if (op == "hello") {
      const int gpu = number("gpu");
      device = gpu < 0 ? makeInterpreterDevice(request.body.empty() ? nullptr
                                                                    : std::make_shared<const MeasureScript>(
                                                                          MeasureScript::deserialize(request.body)))
                       : makeGpuDevice(Device::gpu(gpu));
      return {{{"version", SECTILE_VERSION}}, {}};
    }
    if (!device)
      throw InternalError("the worker has no device yet");
    if (op == "arguments") {
      auto args = GeneratedArgs::deserialize(request.body);
      if (!args)
        throw InternalError("arguments for the worker cannot be read back");
      device->setArguments(number("set"), *args);
      sets.insert_or_assign(number("set"), std::move(*args));
    } else if (op == "load") {
      device->load(number("id"), head.at("name"), request.body);
    } else if (op == "drop") {
      device->unload(number("id"));
    } else if (op == "sample") {
      return {{{"micros", device->sample(number("id"), number("set"))}}, {}};
    } else if (op == "warm") {
      device->warm(number("id"), number("set"), head.at("millis"));
    } else if (op == "run") {
      device->run(number("id"), number("set"));
      busy = true;
      slots.insert_or_assign(number("slot"), device->results(number("set")));
    } else if (op == "compare") {
      Difference d = compareResults(sets.at(number("set")), slots.at(number("slot")), slots.at(number("reference")));
      return {{{"wrong", d.wrong}, {"text", d.text}}, {}};
    } else if (op == "results") {
      json sizes = json::array();
      std::string bytes;
      for (const auto &region : slots.at(number("slot"))) {
        sizes.push_back(region.size());
        bytes.append(region.begin(), region.end());
      }
      return {{{"sizes", sizes}}, std::move(bytes)};
    } else {
      throw InternalError("the worker does not know '" + op + "'");
    }
    return {json::object(), {}};
  }

  int socket;
  std::mutex sending;
  std::atomic<bool> busy{false};
  std::unique_ptr<MeasureDevice> device;
  std::map<int, GeneratedArgs> sets;
  std::map<int, std::vector<std::vector<std::uint8_t>>> slots;
};

} // namespace

int workerMain(int socket) { return Server(socket).run(); }

} // namespace sectile::autotune
