// SPDX-License-Identifier: Apache-2.0
// The bound that plain sockets set for a two-rank ring all-reduce: two processes exchange exactly its bytes
// over one loopback TCP connection, S/2 out and S/2 in, twice. One thread per process, one non-blocking
// socket, send and recv in turn, nothing else (no headers, no checks, and no addition unless --fold is
// given). Prints one line per size as sweep.h defines; the time of an iteration is the slower process's.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/peers/sweep.h"

namespace {

constexpr std::size_t kHalvesFromBytes = 64 << 10;

struct Options {
  SweepOptions sweep = sweep_defaults();
  std::size_t chunk_bytes = 512 << 10;
  int spin_us = 50;  // then poll(); negative: spin for ever
  bool fold = false, pin = false;
  std::string congestion;
};

[[noreturn]] void usage(int code) {
  std::fputs(
      "usage: raw_exchange [-b 4] [-e 64M] [-f 4] [-n iterations] [-w warm-up] [--congestion NAME]\n"
      "                    [--chunk 512K] [--spin MICROSECONDS|-1] [--fold] [--pin]\n",
      code == 0 ? stdout : stderr);
  std::exit(code);
}

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "raw_exchange: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "-h" || flag == "--help") usage(0);
    if (flag == "--fold" || flag == "--pin") {
      (flag == "--fold" ? options.fold : options.pin) = true;
      continue;
    }
    if (i + 1 == argc) usage(2);
    const char* value = argv[++i];
    if (flag == "--congestion") {
      options.congestion = value;
    } else if (flag == "--chunk") {
      options.chunk_bytes = sweep_parse_size(value);
      if (options.chunk_bytes < 64) usage(2);
    } else if (flag == "--spin") {
      options.spin_us = std::atoi(value);
    } else if (sweep_take_flag(&options.sweep, flag.c_str(), value) == 0) {
      usage(2);
    }
  }
  return options;
}

void set_congestion(int socket, const std::string& name) {
  if (name.empty()) return;
  if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) != 0)
    die(("congestion control " + name).c_str());
}

std::string congestion_of(int socket) {
  char name[32] = {};
  socklen_t length = sizeof name;
  getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length);
  return name;
}

void pin_to(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<unsigned>(core), &cores);
  if (sched_setaffinity(0, sizeof cores, &cores) != 0) die("pin to a core");
}

/// Forks; returns this process's end of a loopback connection and sets `rank` to 0 in the parent, 1 in the
/// child.
int connect_pair(const Options& options, int& rank) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, generic, length) != 0) die("bind to 127.0.0.1");
  set_congestion(listener, options.congestion);
  if (listen(listener, 1) != 0 || getsockname(listener, generic, &length) != 0) die("listen on 127.0.0.1");
  const pid_t child = fork();
  if (child < 0) die("fork");
  rank = child == 0 ? 1 : 0;
  int link = -1;
  if (rank == 0) {
    link = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  } else {
    link = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_congestion(link, options.congestion);
    if (link < 0 || connect(link, generic, length) != 0) die("connect to 127.0.0.1");
  }
  if (link < 0) die("accept");
  close(listener);
  const int one = 1;
  setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return link;
}

class Exchange {
 public:
  Exchange(int link, const Options& options, std::size_t most_bytes)
      : link_(link), chunk_bytes_(options.chunk_bytes), spin_us_(options.spin_us), fold_(options.fold) {
    out_ = map(most_bytes);
    in_ = map(most_bytes);
    stage_ = map(chunk_bytes_);
  }

  std::byte* out() { return out_; }
  std::byte* in() { return in_; }

  /// What a ring of two moves for `bytes`: one half for the reduce-scatter, the other for the all-gather. A
  /// small exchange has no halves: waiting for the peer twice would cost more than the bytes.
  void run(std::size_t bytes) {
    if (bytes < kHalvesFromBytes) return move(0, bytes, fold_);
    const std::size_t half = bytes / 2;
    move(0, half, fold_);
    move(half, bytes - half, false);
  }

 private:
  static std::byte* map(std::size_t bytes) {
    void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) die("map memory");
    madvise(place, bytes, MADV_HUGEPAGE);
    std::memset(place, 0, bytes);
    return static_cast<std::byte*>(place);
  }

  void move(std::size_t offset, std::size_t bytes, bool fold) {
    std::size_t sent = 0, received = 0;
    double idle_since = -1;
    while (sent < bytes || received < bytes) {
      bool moved = false;
      if (sent < bytes) moved = send_some(offset, bytes, sent);
      if (received < bytes)
        moved = (fold ? fold_some(offset, bytes, received) : receive_some(offset, bytes, received)) || moved;
      if (moved) {
        idle_since = -1;
      } else {
        wait(sent < bytes, received < bytes, idle_since);
      }
    }
  }

  bool send_some(std::size_t offset, std::size_t bytes, std::size_t& sent) {
    const ssize_t n = send(link_, out_ + offset + sent, std::min(chunk_bytes_, bytes - sent), MSG_NOSIGNAL);
    return count(n, sent, "send");
  }

  bool receive_some(std::size_t offset, std::size_t bytes, std::size_t& received) {
    const ssize_t n = recv(link_, in_ + offset + received, std::min(chunk_bytes_, bytes - received), 0);
    return count(n, received, "receive");
  }

  /// Receives into the stage and adds whole elements at once; the bytes of a cut element stay in front of the
  /// stage.
  bool fold_some(std::size_t offset, std::size_t bytes, std::size_t& received) {
    const std::size_t kept = received % sizeof(float);
    const ssize_t n = recv(link_, stage_ + kept, std::min(chunk_bytes_ - kept, bytes - received), 0);
    if (!count(n, received, "receive")) return false;
    const std::size_t elements = (kept + static_cast<std::size_t>(n)) / sizeof(float);
    const std::size_t first = received - received % sizeof(float) - elements * sizeof(float);
    auto* const into = reinterpret_cast<float*>(in_ + offset + first);
    const auto* const from = reinterpret_cast<const float*>(stage_);
    for (std::size_t i = 0; i < elements; ++i) into[i] += from[i];
    std::memcpy(stage_, stage_ + elements * sizeof(float), received % sizeof(float));
    return true;
  }

  static bool count(ssize_t n, std::size_t& total, const char* what) {
    if (n > 0) {
      total += static_cast<std::size_t>(n);
      return true;
    }
    if (n == 0) errno = ECONNRESET;
    if (errno != EAGAIN && errno != EINTR) die(what);
    return false;
  }

  void wait(bool sending, bool receiving, double& idle_since) {
    if (spin_us_ < 0) return;
    const double now = sweep_now_us();
    if (idle_since < 0) idle_since = now;
    if (now - idle_since < spin_us_) return;
    pollfd entry{link_, static_cast<short>((sending ? POLLOUT : 0) | (receiving ? POLLIN : 0)), 0};
    if (poll(&entry, 1, 30'000) == 0) {
      errno = ETIMEDOUT;
      die("wait for the peer");
    }
  }

  int link_;
  std::size_t chunk_bytes_;
  int spin_us_;
  bool fold_;
  std::byte *out_, *in_, *stage_;
};

std::byte pattern(int rank, std::size_t i) {
  return static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(rank) * 101);
}

/// One exchange of known bytes; what --fold has added up is left unchecked.
bool exchange_is_right(Exchange& exchange, int rank, std::size_t bytes, bool fold) {
  for (std::size_t i = 0; i < bytes; ++i) exchange.out()[i] = pattern(rank, i);
  exchange.run(bytes);
  std::size_t wrong = 0;
  const std::size_t folded = !fold ? 0 : bytes < kHalvesFromBytes ? bytes : bytes / 2;
  for (std::size_t i = folded; i < bytes; ++i)
    if (exchange.in()[i] != pattern(1 - rank, i)) ++wrong;
  std::memset(exchange.out(), 0, bytes);
  std::memset(exchange.in(), 0, bytes);
  if (wrong > 0) std::fprintf(stderr, "raw_exchange: %zu of %zu bytes are wrong\n", wrong, bytes);
  return wrong == 0;
}

int sweep(const Options& options, int link, int rank, double* shared_times) {
  Exchange exchange(link, options, options.sweep.end_bytes);
  if (rank == 0) sweep_print_head("raw", 2, ("congestion " + congestion_of(link)).c_str());
  double* const mine = shared_times + rank * SWEEP_MOST_ITERATIONS;
  for (std::size_t bytes = options.sweep.begin_bytes; bytes <= options.sweep.end_bytes;
       bytes *= options.sweep.factor) {
    if (!exchange_is_right(exchange, rank, bytes, options.fold)) return 1;
    const int iterations = sweep_iterations(&options.sweep, bytes);
    for (int i = sweep_warmup(&options.sweep, bytes); i > 0; --i) exchange.run(bytes);
    for (int i = 0; i < iterations; ++i) {
      const double start = sweep_now_us();
      exchange.run(bytes);
      mine[i] = sweep_now_us() - start;
    }
    exchange.run(2);  // after this the peer's times are complete
    if (rank == 0) {
      for (int i = 0; i < iterations; ++i)
        mine[i] = std::max(mine[i], shared_times[SWEEP_MOST_ITERATIONS + i]);
      sweep_report(bytes, mine, iterations);
    }
    exchange.run(2);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  void* const times = mmap(nullptr, 2 * SWEEP_MOST_ITERATIONS * sizeof(double), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (times == MAP_FAILED) die("map memory");
  int rank = 0;
  const int link = connect_pair(options, rank);
  if (options.pin) pin_to(rank);
  const int code = sweep(options, link, rank, static_cast<double*>(times));
  if (rank == 1) return code;
  int child_status = 0;
  wait(&child_status);
  return code != 0 || child_status != 0 ? 1 : 0;
}
