// SPDX-License-Identifier: Apache-2.0
/// \file Messages between the tuner and its worker: a JSON head and bytes, over a socket.
///
///     u64 bytes of the head | u64 bytes of the body | head | body      (the machine's own byte order)
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace sectile::autotune {

struct Message {
  nlohmann::json head;
  std::string body;
};

/// Sends all of it; false when the other end is gone.
bool sendMessage(int socket, const nlohmann::json &head, const std::string &body = {});

enum class Receive { ok, closed, late };
/// Waits for a message until `deadline` (nullopt: for ever).
Receive receiveMessage(int socket, Message &out, std::optional<std::chrono::steady_clock::time_point> deadline);

} // namespace sectile::autotune
