// SPDX-License-Identifier: Apache-2.0
// The program that rondelrun starts in its system tests. The first word says how this rank behaves.
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/config.h"
#include "lib/deadline.h"
#include "lib/liveness/member.h"
#include "lib/store/tcp_client.h"

namespace {

using Words = std::vector<std::string>;

std::string variable(const char* name) {
  const char* value = rondel::environment_variable(name);
  return value == nullptr ? "unset" : value;
}

int own_rank() { return std::atoi(variable("RANK").c_str()); }

void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote < 0) ::_exit(99);
    at += static_cast<std::size_t>(wrote);
  }
}

void tell_ready() { write_all(1, "ready\n"); }

[[noreturn]] void wait_to_be_killed() {
  for (;;) ::pause();
}

/// fail RANK WAY [...]: one rank ends badly once it can read a byte from the fifo named last; the others
/// wait.
int fail(const Words& words) {
  tell_ready();
  if (own_rank() != std::stoi(words.at(1))) wait_to_be_killed();
  char byte = 0;
  const int fifo = ::open(words.at(3).c_str(), O_RDONLY);
  while (::read(fifo, &byte, 1) < 0) continue;
  if (words.at(2) == "abort") {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::fputs("about to abort\n", stderr);
    std::abort();
  }
  if (words.at(2) == "kill") ::raise(SIGKILL);
  std::fprintf(stderr, "first\nsecond\nValueError: rank %d is unhappy\n", own_rank());
  return std::stoi(words.at(2));
}

/// early GATE: rank 1 waits for a byte from the fifo, the others are done at once.
int early(const Words& words) {
  if (own_rank() != 1) return 0;
  char byte = 0;
  const int fifo = ::open(words.at(1).c_str(), O_RDONLY);
  while (::read(fifo, &byte, 1) < 0) continue;
  write_all(1, "the end\n");
  return 0;
}

/// lines COUNT: numbered lines, written in pieces of odd sizes, the last one without a newline on odd ranks.
int lines(const Words& words) {
  const int count = std::stoi(words.at(1));
  unsigned state = 12345U + static_cast<unsigned>(own_rank());
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i) + " of rank " + variable("RANK") + "\n";
  if (own_rank() % 2 == 1) text.pop_back();
  for (std::size_t at = 0; at < text.size();) {
    state = state * 1664525U + 1013904223U;
    const std::size_t length = std::min<std::size_t>(1 + (state >> 16U) % 300U, text.size() - at);
    write_all(1, text.substr(at, length));
    at += length;
  }
  return 0;
}

/// burst BYTES: writes so much to both streams, and crashes at once.
int burst(const Words& words) {
  const std::string text(std::stoul(words.at(1)) - 1, 'z');
  write_all(1, text + "\n");
  write_all(2, text + "\n");
  std::signal(SIGSEGV, SIG_DFL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::raise(SIGSEGV);
  return 0;
}

/// stubborn: cannot be ended but by SIGKILL.
int stubborn(const Words&) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) std::signal(signal, SIG_IGN);
  tell_ready();
  wait_to_be_killed();
}

/// family CODE: leaves a child in its own group and one in a session of its own. CODE wait: waits to be
/// killed.
int family(const Words& words) {
  for (const bool own_session : {false, true}) {
    int ends[2];
    if (::pipe(ends) != 0) return 98;
    if (::fork() == 0) {
      if (own_session) ::setsid();
      std::signal(SIGTERM, SIG_IGN);
      write_all(ends[1], "x");
      ::close(ends[1]);
      wait_to_be_killed();
    }
    char byte = 0;
    if (::read(ends[0], &byte, 1) != 1) return 97;
    ::close(ends[0]);
    ::close(ends[1]);
  }
  tell_ready();
  if (words.at(1) == "wait") wait_to_be_killed();
  return std::stoi(words.at(1));
}

/// signals: tells which signals arrive, and ends on SIGTERM.
int signals(const Words&) {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM}) ::sigaddset(&wanted, signal);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  tell_ready();
  for (int got = 0; ::sigwait(&wanted, &got) == 0;) {
    write_all(1, "got " + std::to_string(got) + "\n");
    if (got == SIGTERM) return 0;
  }
  return 96;
}

/// report: what the rank was given.
int report(const Words& words) {
  std::string text;
  for (const char* name :
       {"RONDEL_RANK", "RONDEL_SIZE", "RONDEL_LOCAL_RANK", "RONDEL_LOCAL_SIZE", "RONDEL_STORE", "RANK",
        "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "ODD_VALUE"})
    text += std::string(name) + "=" + variable(name) + "\n";
  std::vector<char> secret(100);
  const ssize_t got = ::read(std::atoi(variable("RONDEL_SECRET_FD").c_str()), secret.data(), secret.size());
  text += "secret=";
  for (ssize_t i = 0; i < got; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned char>(secret[static_cast<std::size_t>(i)]));
    text += digits;
  }
  std::string input(100, '\0');
  const ssize_t read_bytes = ::read(0, input.data(), input.size());
  text += "\nstdin=" + input.substr(0, read_bytes > 0 ? static_cast<std::size_t>(read_bytes) : 0) + "\n";
  char directory[4096];
  text += "directory=" + std::string(::getcwd(directory, sizeof directory)) + "\n";
  cpu_set_t cores;
  ::sched_getaffinity(0, sizeof cores, &cores);
  text += "cores=" + std::to_string(CPU_COUNT(&cores)) + "\n";
  sigset_t blocked;
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  int count = 0;
  for (int signal = 1; signal < 32; ++signal) count += ::sigismember(&blocked, signal) == 1 ? 1 : 0;
  text += "blocked=" + std::to_string(count) + "\n";
  int open_descriptors = 0;
  for (int fd = 0; fd < 1024; ++fd) open_descriptors += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  text += "descriptors=" + std::to_string(open_descriptors) + "\n";
  for (std::size_t i = 1; i < words.size(); ++i) text += "word=" + words[i] + "\n";
  write_all(1, text);
  return 0;
}

/// hex [WORD...]: the words and ODD_VALUE, byte for byte.
int hex(const Words& words) {
  const auto digits = [](const std::string& text) {
    std::string out;
    for (const char c : text) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
      out += two;
    }
    return out;
  };
  std::string text = "ODD_VALUE=" + digits(variable("ODD_VALUE")) + "\n";
  for (std::size_t i = 1; i < words.size(); ++i)
    text += "word" + std::to_string(i) + "=" + digits(words[i]) + "\n";
  write_all(1, text);
  return 0;
}

/// input: how many bytes the standard input holds, and their sum, position by position.
int input(const Words&) {
  std::vector<char> piece(65536);
  std::size_t count = 0;
  unsigned sum = 0;
  for (ssize_t got = 0; (got = ::read(0, piece.data(), piece.size())) > 0;)
    for (ssize_t i = 0; i < got; ++i)
      sum = sum * 31 + static_cast<unsigned char>(piece[static_cast<std::size_t>(i)]), ++count;
  write_all(1, "bytes=" + std::to_string(count) + "\nsum=" + std::to_string(sum) + "\n");
  return 0;
}

/// Waits on the job's store until `ranks` processes have come here.
int leave_together(const std::string& address, const rondel::Secret& secret, int ranks) {
  const auto deadline = rondel::Deadline::in(std::chrono::seconds(20));
  auto store = rondel::connect_tcp_store(address, secret, deadline);
  if (!store.ok()) return 92;
  const auto here = (*store)->add("here", 1);
  if (!here.ok()) return 91;
  if (*here == ranks && !(*store)->set("all", {}).ok()) return 90;
  return (*store)->get("all", deadline).ok() ? 0 : 89;
}

/// join RANKS [leave]: ranks below RANKS join the job, the others do not; then all wait to be killed, or
/// leave when RANKS of them are there.
int join(const Words& words) {
  const int rank = own_rank(), ranks = std::stoi(words.at(1));
  const std::string address = variable("RONDEL_STORE").substr(std::string("tcp://").size());
  const auto secret = rondel::Secret::from_descriptor(std::stoi(variable("RONDEL_SECRET_FD")));
  if (!secret.ok()) return 94;
  std::unique_ptr<rondel::liveness::Member> member;
  std::shared_ptr<rondel::liveness::Watch> watch;
  if (rank < ranks) {
    auto connected =
        rondel::liveness::Member::connect(address, *secret, rondel::Deadline::in(std::chrono::seconds(20)));
    if (!connected.ok()) return 93;
    member = *std::move(connected);
    watch = member->join(0, rank, std::stoi(variable("RONDEL_SIZE")), "here");
  }
  if (words.size() > 2) return leave_together(address, *secret, ranks);
  tell_ready();
  wait_to_be_killed();
}

/// write TEXT: exactly this, with \n and \r written out.
int write_text(const Words& words) {
  std::string text;
  for (std::size_t i = 0; i < words.at(1).size(); ++i) {
    const bool escape = words[1][i] == '\\' && i + 1 < words[1].size();
    if (escape) ++i;
    text += !escape ? words[1][i] : words[1][i] == 'n' ? '\n' : '\r';
  }
  write_all(1, text);
  return 0;
}

int endless(const Words&) {
  for (;;) write_all(1, "and so on and so on and so on and so on\n");
}

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  const std::map<std::string, std::function<int(const Words&)>> ways{
      {"fail", fail},         {"early", early},     {"lines", lines},     {"burst", burst},
      {"stubborn", stubborn}, {"family", family},   {"signals", signals}, {"report", report},
      {"write", write_text},  {"endless", endless}, {"join", join},       {"hex", hex},
      {"input", input}};
  const auto way = words.empty() ? ways.end() : ways.find(words[0]);
  return way == ways.end() ? 95 : way->second(words);
}
