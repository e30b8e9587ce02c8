// SPDX-License-Identifier: Apache-2.0
// Whoever connects without the job's secret costs one closed socket and never harms the job.
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/seed.h"
#include "tests/transports/tcp/world.h"

namespace rondel::tcp::test {

namespace {

Config impatient() {
  Config config;
  config.handshake_timeout = std::chrono::milliseconds(300);
  return config;
}

void say(int socket, std::string_view words) {
  while (!words.empty()) {
    const ssize_t sent = ::send(socket, words.data(), words.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    words.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

TEST_CASE("strangers are closed: HTTP, silence, zeros, noise, huge lengths; the job goes on") {
  const auto secret = Secret::generate();
  const OneRank zero = open_rank(*secret, 0, 2, impatient());
  const OneRank one = open_rank(*secret, 1, 2, impatient());
  const auto address = reach_of(*zero.endpoint);
  rondel::test::Random random(rondel::test::test_seed());
  std::string noise(4096, '\0');
  for (char& c : noise) c = static_cast<char>(random.next());
  const std::vector<std::string> greetings{"GET / HTTP/1.0\r\n\r\n",   "x",   "",
                                           std::string(1 << 20, '\0'), noise, std::string(16, '\xff')};
  std::vector<UniqueFd> strangers;
  for (const std::string& greeting : greetings) {
    strangers.push_back(call(address));
    REQUIRE(strangers.back());
    say(strangers.back().get(), greeting);
  }
  for (const Status& status :
       connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(5))))
    CHECK(status.text() == "ok");
  CHECK(exchange(*zero.endpoint, *one.endpoint, 100'000) == "");
  for (const UniqueFd& stranger : strangers)
    CHECK(closed_by_peer(stranger.get(), Deadline::in(std::chrono::seconds(3))));
}

TEST_CASE("hundreds of silent strangers do not keep a rank out") {
  const auto secret = Secret::generate();
  Config config = impatient();
  config.handshake_timeout = std::chrono::seconds(5);
  const OneRank zero = open_rank(*secret, 0, 2, config);
  const OneRank one = open_rank(*secret, 1, 2, config);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 600; ++i) strangers.push_back(call(reach_of(*one.endpoint)));
  const auto started = Deadline::Clock::now();
  for (const Status& status :
       connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(5))))
    CHECK(status.text() == "ok");
  CHECK(Deadline::Clock::now() - started < std::chrono::seconds(2));
}

TEST_CASE("a rank with another secret is refused, and both sides say so") {
  const auto secret = Secret::generate();
  const auto wrong = Secret::generate();
  const OneRank zero = open_rank(*secret, 0, 2, impatient());
  const OneRank one = open_rank(*wrong, 1, 2, impatient());
  const auto statuses =
      connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::milliseconds(1500)));
  CHECK_FALSE(statuses[0].ok());
  CHECK_FALSE(statuses[1].ok());
  CHECK_THAT(statuses[0].text(), Catch::Contains("rank 1") && Catch::Contains("secret"));
  CHECK_THAT(statuses[1].text(), Catch::Contains("rank 0"));
}

}  // namespace rondel::tcp::test
