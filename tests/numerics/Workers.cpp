// SPDX-License-Identifier: Apache-2.0
#include "tests/numerics/Workers.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace sectile::numerics {
namespace {

using Clock = std::chrono::steady_clock;

/// What a worker writes: a header and `length` bytes of text.
struct Frame {
  enum Kind : char { ready = 'r', begun = 'b', done = 'd', gaveUp = 'g' } kind;
  char outcome;
  std::uint32_t index, length;
};

void send(int fd, Frame frame, const std::string &text) {
  frame.length = std::uint32_t(text.size());
  std::string all(reinterpret_cast<const char *>(&frame), sizeof frame);
  all += text;
  for (std::size_t sent = 0; sent < all.size();) {
    ssize_t n = write(fd, all.data() + sent, all.size() - sent);
    if (n <= 0)
      _exit(3);
    sent += std::size_t(n);
  }
}

[[noreturn]] void workerMain(int fd, const std::vector<std::size_t> &batch, const WorkerOptions &options,
                             const std::function<Outcome(std::size_t)> &run) {
  try {
    if (options.start)
      options.start();
  } catch (const std::exception &e) {
    send(fd, {Frame::gaveUp, 'f', ~std::uint32_t(0), 0}, e.what());
    _exit(0);
  }
  send(fd, {Frame::ready, 'p', 0, 0}, {});
  for (std::size_t index : batch) {
    send(fd, {Frame::begun, 'p', std::uint32_t(index), 0}, {});
    Outcome o;
    try {
      o = run(index);
    } catch (const std::exception &e) {
      o = {Outcome::failed, e.what(), false};
    }
    send(fd, {o.fatal ? Frame::gaveUp : Frame::done, char(o.kind), std::uint32_t(index), 0}, o.text);
    if (o.fatal)
      break;
  }
  _exit(0);
}

struct Batch {
  std::vector<std::size_t> cases;
  std::string earlier; ///< of a case that runs alone: what happened in company
  bool alone = false;
};

struct Worker {
  pid_t pid = -1;
  int fd = -1;
  Batch batch;
  std::size_t finished = 0; ///< cases of the batch
  bool ready = false, running = false;
  std::string received, end; ///< `end`: why it will do no more
  Clock::time_point sign;
};

class Pool {
public:
  Pool(std::size_t count, const WorkerOptions &options, const std::function<Outcome(std::size_t)> &run)
      : options(options), run(run), outcomes(count) {
    for (std::size_t i = 0; i < count; i += options.batch) {
      Batch b;
      for (std::size_t j = i; j < std::min(count, i + options.batch); ++j)
        b.cases.push_back(j);
      waiting.push_back(std::move(b));
    }
  }

  std::vector<Outcome> all() {
    while (!waiting.empty() || !workers.empty()) {
      while (!waiting.empty() && workers.size() < std::size_t(options.jobs))
        begin();
      std::vector<pollfd> fds;
      for (const Worker &w : workers)
        fds.push_back({w.fd, POLLIN, 0});
      poll(fds.data(), nfds_t(fds.size()), 200);
      for (std::size_t i = workers.size(); i-- > 0;) {
        bool closed = false;
        if (fds[i].revents)
          closed = !receive(workers[i]);
        Worker &w = workers[i];
        double limit = w.ready ? options.stallSeconds : options.startSeconds;
        if (!closed && std::chrono::duration<double>(Clock::now() - w.sign).count() > limit) {
          w.end = fmt::format("stalled for {} s", limit);
          kill(-w.pid, SIGKILL); // with what it started
          closed = true;
        }
        if (closed) {
          Worker dead = std::move(w);
          workers.erase(workers.begin() + std::ptrdiff_t(i));
          end(std::move(dead));
        }
      }
    }
    return std::move(outcomes);
  }

private:
  void begin() {
    int ends[2];
    if (pipe(ends) != 0)
      throw std::runtime_error("pipe: " + std::string(std::strerror(errno)));
    std::fflush(nullptr);
    Worker w;
    w.batch = std::move(waiting.front());
    waiting.pop_front();
    w.pid = fork();
    if (w.pid < 0)
      throw std::runtime_error("fork: " + std::string(std::strerror(errno)));
    if (w.pid == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[0]);
      for (const Worker &other : workers)
        close(other.fd);
      workerMain(ends[1], w.batch.cases, options, run);
    }
    setpgid(w.pid, w.pid); // here, too: whichever comes first
    close(ends[1]);
    w.fd = ends[0];
    w.sign = Clock::now();
    workers.push_back(std::move(w));
  }

  /// False at the end of the stream.
  bool receive(Worker &w) {
    char room[65536];
    ssize_t n = read(w.fd, room, sizeof room);
    if (n <= 0)
      return n < 0 && errno == EINTR;
    w.received.append(room, std::size_t(n));
    w.sign = Clock::now();
    Frame f;
    while (w.received.size() >= sizeof f) {
      std::memcpy(&f, w.received.data(), sizeof f);
      if (w.received.size() < sizeof f + f.length)
        break;
      std::string text = w.received.substr(sizeof f, f.length);
      w.received.erase(0, sizeof f + f.length);
      switch (f.kind) {
      case Frame::ready:
        w.ready = true;
        break;
      case Frame::begun:
        w.running = true;
        break;
      case Frame::done:
        w.running = false;
        ++w.finished;
        settle(w.batch, f.index, {Outcome::Kind(f.outcome), text, false});
        break;
      case Frame::gaveUp:
        w.end = text;
      }
    }
    return true;
  }

  void settle(const Batch &b, std::size_t index, Outcome o) {
    if (b.alone) // it brought a worker down before
      o = {Outcome::failed, b.earlier + "; alone: " + (o.kind == Outcome::passed ? "passes" : o.text), false};
    outcomes[index] = std::move(o);
    if (options.settled)
      options.settled(index, outcomes[index]);
  }

  void end(Worker w) {
    close(w.fd);
    int status = 0;
    waitpid(w.pid, &status, 0);
    const auto &cases = w.batch.cases;
    if (w.finished == cases.size())
      return;
    if (w.end.empty())
      w.end = WIFSIGNALED(status) ? fmt::format("its worker ended with signal {} ({})", WTERMSIG(status),
                                                strsignal(WTERMSIG(status)))
                                  : fmt::format("its worker ended with status {}", WEXITSTATUS(status));
    if (!w.ready) {
      for (std::size_t i = w.finished; i < cases.size(); ++i)
        settle(w.batch, cases[i], {Outcome::failed, "no worker: " + w.end, false});
      return;
    }
    if (w.batch.alone) {
      settle(w.batch, cases[0], {Outcome::failed, w.end, false});
      return;
    }
    Batch alone, rest;
    alone.cases = {cases[w.finished]};
    alone.alone = true;
    alone.earlier = w.end;
    rest.cases.assign(cases.begin() + std::ptrdiff_t(w.finished) + 1, cases.end());
    waiting.push_front(std::move(alone));
    if (!rest.cases.empty())
      waiting.push_back(std::move(rest));
  }

  const WorkerOptions &options;
  const std::function<Outcome(std::size_t)> &run;
  std::vector<Outcome> outcomes;
  std::deque<Batch> waiting;
  std::vector<Worker> workers;
};

} // namespace

std::vector<Outcome> runInWorkers(std::size_t count, const WorkerOptions &options,
                                  const std::function<Outcome(std::size_t)> &run) {
  return Pool(count, options, run).all();
}

} // namespace sectile::numerics
