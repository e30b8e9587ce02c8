// SPDX-License-Identifier: Apache-2.0
// The contract's rules on failure where ranks are processes that can be killed and stopped. Backends that
// live in one process have nothing to show here.
#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <new>

#include "lib/check.h"
#include "tests/conformance/world.h"
#include "tests/support/process_world.h"

namespace rondel::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Ending;
using test::ProcessWorld;
using test::RankTest;
using test::Voice;

constexpr std::size_t kLargeBytes = 32U << 20U;  // more than any fabric buffers
constexpr std::size_t kRanks = 3;

// Addresses by rank, in memory that forked processes share.
class SharedBook {
 public:
  SharedBook() {
    void* memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "a page of shared memory");
    page_ = new (memory) Page;
  }
  ~SharedBook() { ::munmap(page_, sizeof(Page)); }
  SharedBook(const SharedBook&) = delete;
  SharedBook& operator=(const SharedBook&) = delete;

  void write(Rank rank, const Bytes& address) {
    Entry& entry = page_->entries.at(static_cast<std::size_t>(rank));
    check(address.size() <= entry.bytes.size(), "an address fits");
    std::memcpy(entry.bytes.data(), address.data(), address.size());
    entry.length.store(static_cast<std::uint32_t>(address.size()),
                       std::memory_order_release);  // pairs with read_all
  }

  /// All addresses, once they are there; those of ranks that do not write in time are empty.
  AddressBook read_all(Deadline deadline) const {
    AddressBook book;
    for (const Entry& entry : page_->entries) {
      std::uint32_t length = 0;
      while ((length = entry.length.load(std::memory_order_acquire)) == 0 && !deadline.passed())
        ::sched_yield();
      book.emplace_back(entry.bytes.begin(), entry.bytes.begin() + length);
    }
    return book;
  }

 private:
  struct Entry {
    std::atomic<std::uint32_t> length{0};
    std::array<std::byte, 8000> bytes{};
  };
  struct Page {
    std::array<Entry, kRanks> entries;
  };
  Page* page_;
};

// Runs `body` with a connected endpoint in each of three processes.
ProcessWorld::Body as_member(Backend& backend, SharedBook& book,
                             std::function<void(Member&, const Voice&)> body) {
  return [&backend, &book, body = std::move(body)](RankTest& t, const Voice& voice) {
    std::deque<Completion> completions;
    test::Meeting nobody(1);
    const auto transport = backend.transport_for(t.rank());
    auto endpoint = transport->open(options_for(t.rank(), t.size()));
    t.require_ok(endpoint, "open");
    book.write(t.rank(), (*endpoint)->address());
    t.require_ok((*endpoint)->connect(book.read_all(soon()), everyone_but(t.rank(), t.size()), soon()),
                 "connect");
    Member member(t, *transport, **endpoint, nobody, completions);
    body(member, voice);
  };
}

// Rank 1 says "ready" and makes no progress; the others need it.
void need_rank_1(Member& m, const Voice& voice) {
  m.exchange(1);
  Buffer buffer(m.e, kLargeBytes);
  Completion& done = m.armed(1);
  m.t.require_ok(m.rank() == 0 ? m.send(1, buffer.all(), done) : m.recv(1, buffer.all(), done), "post");
  voice.say("ready");
  const Status status = m.progress_until_failure(Deadline::in(seconds(15)));
  m.t.expect_equal(status.code(), Code::peer_lost, status.text());
  m.t.expect_equal(status.failure().peer, Rank{1}, "the guilty rank");
  m.t.expect_equal(std::string_view(status.failure().host), std::string_view("host-1"), "its host");
  m.t.expect(done.done(), "the work has finished");
}

TEST_CASE("F2: the death of a process is peer_lost on all who need it, within two seconds") {
  const auto backend = make_backend();
  if (!backend->connects_processes()) return;
  SharedBook book;
  ProcessWorld world(kRanks, as_member(*backend, book, [](Member& m, const Voice& voice) {
                       if (m.rank() != 1) return need_rank_1(m, voice);
                       m.exchange(0);
                       m.exchange(2);
                       voice.say("ready");
                       (void)m.progress_until_failure(Deadline::in(seconds(30)));
                     }));
  for (Rank rank = 0; rank < world.size(); ++rank) REQUIRE(world.heard(rank, "ready", soon()));
  const auto killed = Deadline::Clock::now();
  world.signal(1, SIGKILL);
  std::vector<Ending> endings = world.wait_all(soon());
  CHECK(Deadline::Clock::now() - killed < seconds(2));
  CHECK(endings[1].signal == SIGKILL);
  CHECK(failures_of(endings, 1) == "");
}

TEST_CASE("G6: a stopped process stalls its peers; when it goes on, so do they") {
  const auto backend = make_backend();
  if (!backend->connects_processes()) return;
  SharedBook book;
  ProcessWorld world(
      kRanks, as_member(*backend, book, [](Member& m, const Voice& voice) {
        const Rank peer = 1 - m.rank();
        if (m.rank() == 2) return;
        Buffer buffer(m.e, m.rank() == 0 ? message(0, 1, 0, kLargeBytes) : Bytes(kLargeBytes));
        Completion& done = m.armed(1);
        if (m.rank() == 1) ::raise(SIGSTOP);
        m.t.require_ok(m.rank() == 0 ? m.send(peer, buffer.all(), done) : m.recv(peer, buffer.all(), done),
                       "post");
        if (m.rank() == 0)
          m.t.expect_equal(m.progress_until(done, Deadline::in(milliseconds(200))).code(), Code::timed_out,
                           "the send waits");
        voice.say("waiting");
        m.t.require_ok(m.progress_until(done), "finish");
        m.t.expect(buffer.bytes() == message(0, 1, 0, kLargeBytes), "all bytes arrive");
      }));
  REQUIRE(world.heard(0, "waiting", soon()));
  world.signal(1, SIGCONT);
  CHECK(failures_of(world.wait_all(Deadline::in(seconds(40)))) == "");
}

}  // namespace
}  // namespace rondel::conformance
