// SPDX-License-Identifier: Apache-2.0
#include "lib/auth.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <thread>

#include "lib/unique_fd.h"
#include "lib/wire.h"
#include "tests/lib/temporary_directory.h"

namespace rondel {
namespace {

Secret secret_of(int seed) {
  std::array<std::byte, Secret::kBytes> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(seed * 37 + static_cast<int>(i));
  return *Secret::from_bytes(bytes);
}

Bytes bytes_of(std::string_view text) {
  const auto span = wire::as_bytes(text);
  return {span.begin(), span.end()};
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A body behind a header as a peer of `version` would write it.
Bytes framed(std::uint16_t type, std::span<const std::byte> body, std::uint16_t version = kProtocolVersion) {
  wire::Writer writer;
  writer.number(std::uint32_t{0x4c4452f5}).number(version).number(type);
  return writer.number(static_cast<std::uint32_t>(body.size())).raw(body).take();
}

Handshake initiator(const Secret& secret, std::string_view payload = "rank 1") {
  return *Handshake::initiator(secret, wire::as_bytes(payload));
}
Handshake responder(const Secret& secret, Handshake::Judge judge = nullptr) {
  return *Handshake::responder(secret, wire::as_bytes("rank 0"), std::move(judge));
}

struct Session {
  Bytes hello, challenge, proof, verdict;
};
Session run(Handshake& a, Handshake& b) {
  Session s;
  s.hello = a.opening();
  s.challenge = *b.feed(s.hello);
  s.proof = *a.feed(s.challenge);
  s.verdict = *b.feed(s.proof);
  REQUIRE(a.feed(s.verdict).ok());
  return s;
}

TEST_CASE("two peers with one secret agree and see each other's payload") {
  const Secret secret = *Secret::generate();
  std::string judged;
  Handshake a = initiator(secret);
  Handshake b = responder(secret, [&judged](std::span<const std::byte> payload) {
    judged = text_of(payload);
    return Status();
  });
  run(a, b);
  CHECK(a.done());
  CHECK(b.done());
  CHECK(judged == "rank 1");
  CHECK(text_of(a.peer_payload()) == "rank 0");
  CHECK(text_of(b.peer_payload()) == "rank 1");
  CHECK(a.wants() == 0);
  CHECK(b.wants() == 0);
}

TEST_CASE("a handshake in single bytes never wants more than is left of the message") {
  const Secret secret = *Secret::generate();
  Handshake a = initiator(secret);
  Handshake b = responder(secret);
  Bytes to_b = a.opening();
  Bytes to_a;
  while (!a.done()) {
    Handshake& taker = to_b.empty() ? a : b;
    Bytes& from = to_b.empty() ? to_a : to_b;
    Bytes& to = to_b.empty() ? to_b : to_a;
    REQUIRE(!from.empty());
    REQUIRE(taker.wants() >= 1);
    REQUIRE(taker.wants() <= from.size());
    const auto reply = taker.feed(std::span(from).first(1));
    from.erase(from.begin());
    REQUIRE(reply.ok());
    to.insert(to.end(), reply->begin(), reply->end());
  }
  CHECK(b.done());
}

TEST_CASE("another secret is refused on both sides, and the judge never sees the payload") {
  bool judged = false;
  Handshake a = initiator(secret_of(1));
  Handshake b = responder(secret_of(2), [&judged](std::span<const std::byte>) {
    judged = true;
    return Status();
  });
  const auto challenge = b.feed(a.opening());
  REQUIRE(challenge.ok());
  const auto proof = a.feed(*challenge);
  CHECK(proof.code() == Code::refused);
  CHECK(a.peer_payload().empty());
  const auto end = b.feed(a.farewell());
  CHECK(end.code() == Code::refused);
  CHECK(end.status().text().find("secret") != std::string::npos);
  CHECK_FALSE(judged);
}

TEST_CASE("an initiator that skips the challenge's proof check still can not pass") {
  bool judged = false;
  Handshake a = initiator(secret_of(1));
  Handshake b = responder(secret_of(2), [&judged](std::span<const std::byte>) {
    judged = true;
    return Status();
  });
  REQUIRE(b.feed(a.opening()).ok());
  const Bytes forged(32, std::byte{0x5a});
  CHECK(b.feed(framed(3, forged)).code() == Code::refused);
  CHECK_FALSE(judged);
  CHECK_FALSE(b.farewell().empty());
}

TEST_CASE("the judge's refusal reaches the initiator in words") {
  const Secret secret = *Secret::generate();
  Handshake a = initiator(secret);
  Handshake b = responder(secret, [](std::span<const std::byte>) {
    return Status(Code::mismatch, "segment size 4096 here, 8192 there", "set RONDEL_SEGMENT_BYTES alike");
  });
  const auto proof = a.feed(*b.feed(a.opening()));
  REQUIRE(proof.ok());
  const auto verdict = b.feed(*proof);
  CHECK(verdict.code() == Code::mismatch);
  const auto end = a.feed(b.farewell());
  CHECK(end.code() == Code::refused);
  CHECK(end.status().text().find("segment size 4096 here, 8192 there") != std::string::npos);
  CHECK_FALSE(a.done());
}

TEST_CASE("a recorded session is worthless in either direction") {
  const Secret secret = *Secret::generate();
  Handshake a = initiator(secret);
  Handshake b = responder(secret);
  const Session recorded = run(a, b);

  Handshake fresh_b = responder(secret);
  REQUIRE(fresh_b.feed(recorded.hello).ok());
  CHECK(fresh_b.feed(recorded.proof).code() == Code::refused);
  CHECK_FALSE(fresh_b.done());

  Handshake fresh_a = initiator(secret);
  CHECK(fresh_a.feed(recorded.challenge).code() == Code::refused);
}

TEST_CASE("messages reflected to their sender are refused") {
  const Secret secret = *Secret::generate();
  Handshake a = initiator(secret);
  CHECK(a.feed(a.opening()).code() == Code::refused);

  Handshake b = responder(secret);
  Handshake c = initiator(secret);
  const Bytes challenge = *b.feed(c.opening());
  const Bytes mac(challenge.end() - 32, challenge.end());
  CHECK(b.feed(framed(3, mac)).code() == Code::refused);
}

TEST_CASE("another protocol version is refused with both versions on both sides") {
  const Secret secret = *Secret::generate();
  Handshake b = responder(secret);
  const auto old_hello = framed(1, Bytes(40), 7);
  const auto at_b = b.feed(old_hello);
  CHECK(at_b.code() == Code::refused);
  CHECK(at_b.status().text().find("version 7") != std::string::npos);
  CHECK(at_b.status().text().find("version 1") != std::string::npos);
  CHECK(text_of(b.farewell()).find("version 7") != std::string::npos);
  CHECK(text_of(b.farewell()).find("version 1") != std::string::npos);

  Handshake a = initiator(secret);
  const auto at_a = a.feed(framed(4, Bytes(), 7));  // as version 7 would answer, whatever its body
  CHECK(at_a.code() == Code::refused);
  CHECK(at_a.status().text().find("version 7") != std::string::npos);
  CHECK(at_a.status().text().find("version 1") != std::string::npos);
  CHECK(a.farewell().empty());
}

TEST_CASE("strangers end in a clean refusal without a farewell") {
  const Secret secret = *Secret::generate();
  wire::Writer huge;
  huge.number(std::uint32_t{0x4c4452f5}).number(kProtocolVersion).number(std::uint16_t{1});
  huge.number(std::uint32_t{0x7fffffff});
  Bytes random(64);
  for (std::size_t i = 0; i < random.size(); ++i) random[i] = static_cast<std::byte>(i * 151 + 3);
  for (const Bytes& first :
       {bytes_of("GET / HTTP/1.0\r\n\r\n"), Bytes(1 << 20), random, huge.bytes(), framed(3, Bytes(32)),
        framed(9, Bytes(32)), framed(1, Bytes(8)), framed(1, Bytes())}) {
    Handshake b = responder(secret);
    CHECK(b.feed(first).code() == Code::refused);
    CHECK(b.farewell().empty());
    CHECK(b.wants() == 0);
    CHECK(b.feed(first).code() == Code::refused);
    Handshake a = initiator(secret);
    CHECK(a.feed(first).code() == Code::refused);
  }
}

TEST_CASE("one byte leaves a handshake waiting for eleven more of a header") {
  Handshake b = responder(*Secret::generate());
  CHECK(b.wants() == 12);
  const Bytes one{std::byte{0xf5}};
  REQUIRE(b.feed(one).ok());
  CHECK(b.wants() == 11);
}

TEST_CASE("every flipped bit of a session is caught before anybody is accepted") {
  const Secret secret = *Secret::generate();
  Handshake reference = initiator(secret);
  const std::size_t hello_bytes = reference.opening().size();
  for (std::size_t bit = 0; bit < hello_bytes * 8; bit += 3) {
    Handshake a = initiator(secret);
    Handshake b = responder(secret);
    Bytes hello = a.opening();
    hello[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto challenge = b.feed(hello);
    if (!challenge.ok() || challenge->empty()) continue;
    CHECK(a.feed(*challenge).code() == Code::refused);
  }
}

TEST_CASE("bytes behind the end of a handshake are refused") {
  const Secret secret = *Secret::generate();
  Handshake a = initiator(secret);
  Handshake b = responder(secret);
  run(a, b);
  CHECK(b.feed(Bytes(1)).code() == Code::refused);
}

TEST_CASE("an early or forged acceptance does not complete a handshake") {
  Handshake a = initiator(*Secret::generate());
  wire::Writer accept;
  accept.number(std::uint8_t{1}).text("");
  CHECK(a.feed(framed(4, accept.bytes())).code() == Code::refused);
  CHECK_FALSE(a.done());
}

TEST_CASE("control characters in a refusal are not shown") {
  Handshake a = initiator(*Secret::generate());
  wire::Writer no;
  no.number(std::uint8_t{0}).text("\x1b[2Jgone\n");
  const auto end = a.feed(framed(4, no.bytes()));
  CHECK(end.status().text().find('\x1b') == std::string::npos);
  CHECK(end.status().text().find("gone") != std::string::npos);
}

TEST_CASE("a payload over the limit is the caller's mistake") {
  const Secret secret = *Secret::generate();
  CHECK(Handshake::initiator(secret, Bytes(kHandshakeBodyLimit)).code() == Code::invalid_argument);
  CHECK(Handshake::initiator(secret, Bytes(4000)).ok());
}

TEST_CASE("a secret file that others can read is refused with the command to run") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/secret";
  std::ofstream(path) << "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\n";
  for (const unsigned mode : {0644U, 0640U, 0604U, 0620U}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    const auto secret = Secret::from_file(path);
    CHECK(secret.code() == Code::refused);
    CHECK(secret.status().text().find("chmod 600 " + path) != std::string::npos);
  }
  for (const unsigned mode : {0600U, 0400U}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    const auto secret = Secret::from_file(path);
    REQUIRE(secret.ok());
    CHECK(secret->bytes()[0] == std::byte{0});
    CHECK(secret->bytes()[31] == std::byte{0x1f});
  }
  CHECK(Secret::from_file(directory.path()).code() == Code::invalid_argument);
  CHECK(Secret::from_file(directory.path() + "/none").code() == Code::unavailable);
}

TEST_CASE("a secret of root's that a group may read is taken by a user of that group, and no other's") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can become another user");
    return;
  }
  constexpr uid_t kUser = 12'345;
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/secret";
  std::ofstream(path) << std::string(64, 'a');
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  const auto code_as_user = [&path](uid_t owner, mode_t mode) {
    REQUIRE(::chown(path.c_str(), owner, kUser) == 0);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (::setgid(kUser) != 0 || ::setuid(kUser) != 0) ::_exit(100);
      ::_exit(static_cast<int>(Secret::from_file(path).code()));
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return static_cast<Code>(WEXITSTATUS(status));
  };
  CHECK(code_as_user(0, 0440) == Code::ok);
  CHECK(code_as_user(0, 0640) == Code::ok);
  CHECK(code_as_user(0, 0460) == Code::refused);
  CHECK(code_as_user(0, 0444) == Code::refused);
  CHECK(code_as_user(kUser + 1, 0440) == Code::refused);
}

TEST_CASE("a descriptor gives a secret raw or in hexadecimal, in pieces, and is closed") {
  const Secret secret = secret_of(5);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  UniqueFd writer(ends[1]);
  ssize_t written = 0;
  std::thread feeder([&writer, &secret, &written] {
    for (const std::byte& byte : secret.bytes()) written += ::write(writer.get(), &byte, 1);
  });
  const auto read = Secret::from_descriptor(ends[0]);  // the writer stays open: 32 raw bytes are enough
  feeder.join();
  REQUIRE(written == 32);
  REQUIRE(read.ok());
  CHECK(std::equal(read->bytes().begin(), read->bytes().end(), secret.bytes().begin()));
  CHECK(::fcntl(ends[0], F_GETFD) == -1);
}

TEST_CASE("a second program reads the secret again from the file that it inherited") {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/secret";
  const Secret secret = secret_of(9);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(secret.bytes().data()), Secret::kBytes);
  const UniqueFd shared(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  for (int program = 0; program < 2; ++program) {
    const auto read = Secret::from_descriptor(::dup(shared.get()));
    REQUIRE(read.status().text() == "ok");
    CHECK(std::equal(read->bytes().begin(), read->bytes().end(), secret.bytes().begin()));
  }
}

TEST_CASE("a descriptor that ends early is an error that counts the bytes") {
  for (const std::string& text :
       {std::string(31, 'x'), std::string(32, 'a'), std::string(63, 'f'), std::string()}) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    {
      const UniqueFd writer(ends[1]);
      REQUIRE(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    }
    const auto read = Secret::from_descriptor(ends[0]);
    CHECK(read.code() == Code::invalid_argument);
    CHECK(read.status().text().find(std::to_string(text.size()) + " bytes") != std::string::npos);
  }
  CHECK(Secret::from_bytes(Bytes(31)).code() == Code::invalid_argument);
}

TEST_CASE("generated secrets differ") {
  const Secret a = *Secret::generate();
  const Secret b = *Secret::generate();
  CHECK_FALSE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin()));
}

}  // namespace
}  // namespace rondel
