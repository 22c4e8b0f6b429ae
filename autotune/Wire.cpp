// SPDX-License-Identifier: Apache-2.0
#include "autotune/Wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <poll.h>
#include <sys/socket.h>

namespace sectile::autotune {
namespace {

using Clock = std::chrono::steady_clock;

/// No message of ours is longer: something else is at the other end.
constexpr std::uint64_t mostHead = 64ull << 20, mostBody = 64ull << 30;

bool sendAll(int socket, const char *data, std::size_t bytes) {
  while (bytes) {
    const ssize_t n = send(socket, data, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

Receive receiveAll(int socket, char *data, std::size_t bytes, std::optional<Clock::time_point> deadline) {
  while (bytes) {
    int wait = -1;
    if (deadline) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      if (left <= 0)
        return Receive::late;
      wait = static_cast<int>(std::min<std::int64_t>(left + 1, 1 << 30));
    }
    pollfd p{socket, POLLIN, 0};
    const int ready = poll(&p, 1, wait);
    if (ready < 0 && errno != EINTR)
      return Receive::closed;
    if (ready <= 0)
      continue;
    const ssize_t n = recv(socket, data, bytes, 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return Receive::closed;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return Receive::ok;
}

} // namespace

bool sendMessage(int socket, const nlohmann::json &head, const std::string &body) {
  const std::string text = head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::array<std::uint64_t, 2> sizes{text.size(), body.size()};
  return sendAll(socket, reinterpret_cast<const char *>(sizes.data()), sizeof sizes) && sendAll(socket, text.data(), text.size()) &&
         sendAll(socket, body.data(), body.size());
}

Receive receiveMessage(int socket, Message &out, std::optional<Clock::time_point> deadline) {
  std::array<std::uint64_t, 2> sizes{};
  if (Receive r = receiveAll(socket, reinterpret_cast<char *>(sizes.data()), sizeof sizes, deadline); r != Receive::ok)
    return r;
  if (sizes[0] > mostHead || sizes[1] > mostBody)
    return Receive::closed;
  std::string text(sizes[0], '\0');
  out.body.resize(sizes[1]);
  if (Receive r = receiveAll(socket, text.data(), text.size(), deadline); r != Receive::ok)
    return r;
  if (Receive r = receiveAll(socket, out.body.data(), out.body.size(), deadline); r != Receive::ok)
    return r;
  out.head = nlohmann::json::parse(text, nullptr, false);
  return out.head.is_object() ? Receive::ok : Receive::closed;
}

} // namespace sectile::autotune
