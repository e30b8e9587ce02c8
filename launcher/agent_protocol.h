// SPDX-License-Identifier: Apache-2.0
// What the launcher and the agent of a host say to each other, one message per frame (lib/frame.h), and how
// it is written. Pure: bytes in, values out; every length is checked before it is believed. Any thread.
//
// The agent begins with kAgentMagic, so that whatever a login shell prints before it can be skipped, and with
// Hello. The launcher says nothing before it has seen both: a login file that reads its standard input would
// eat it. A body is u8 kind, then the fields in the order of the struct (text and blob: u32 length first).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/binding.h"
#include "launcher/doctor/messages.h"
#include "launcher/environment.h"
#include "launcher/placement.h"
#include "launcher/process.h"
#include "lib/memory.h"
#include "lib/status.h"

namespace rondel {

struct RankEnding {
  Rank rank = kNoRank;
  Ending ending;
};

}  // namespace rondel

namespace rondel::agent {

inline constexpr std::uint16_t kProtocol = 2;
inline constexpr std::string_view kAgentMagic = "\n\x01\x02rondelrun agent speaks\x02\x01\n";
inline constexpr std::size_t kFrameLimit = 16U << 20U;  ///< of a body; an order holds a whole environment
inline constexpr std::size_t kPieceBytes = 64 * 1024;   ///< of output or input in one message

enum class Stream : std::uint8_t { standard_output, standard_error };
inline constexpr std::size_t kStreams = 2;

/// Who reads what the launcher reads as standard input.
enum class Input : std::uint8_t {
  none,
  inherited,  ///< the rank has the launcher's own descriptor
  forwarded   ///< the launcher reads, and sends Input messages
};

// Of the launcher:

/// The part of a job that runs on one host; the first message, and only once.
struct Order {
  std::vector<RankPlace> ranks;
  std::vector<std::string> program;
  BaseEnvironment environment;
  bool own_variables = false;       ///< add this host's own HOME, TMPDIR, ... (see host_variables())
  std::string search_path;          ///< where a program without '/' is looked for
  JobContact contact;               ///< its store is the agent's to choose, of these:
  std::vector<std::string> stores;  ///< "10.0.0.1:4321", best first
  Bytes secret;
  std::string directory;  ///< empty: the agent's own
  Input input = Input::none;
  Rank input_rank = kNoRank;
  BindingRules binding;
  std::uint32_t output_window = 0;       ///< bytes of each stream that may be sent before the first Room
  std::chrono::milliseconds grace{};     ///< from SIGTERM to SIGKILL, should the launcher vanish
  std::chrono::milliseconds patience{};  ///< for finding the store
  std::chrono::milliseconds silence{};   ///< of the launcher, then it has vanished; 0: never
};
/// To the process group of each living rank.
struct Signal {
  int number = 0;
};
/// Kill everything of the job that lives, now and until it is gone.
struct Kill {};
/// All ranks of the job have ended: end what they left running, hand over the rest of their output, leave.
struct Finish {
  std::chrono::milliseconds grace{};
};
/// So many more bytes of a stream may be sent.
struct Room {
  Stream stream = Stream::standard_output;
  std::uint32_t bytes = 0;
};
struct InputPiece {
  Bytes bytes;
};
struct InputEnd {};
/// Nothing but a sign of life; agents on other hosts send it too.
struct Alive {};

using FromLauncher = std::variant<Order, Signal, Kill, Finish, Room, InputPiece, InputEnd, Alive, Examine,
                                  ClockAsk, Reach, Measure>;

// Of the agent:

/// The first message. Its first three fields stay as they are for ever, so that two versions can tell that
/// they are two; behind another `protocol` nothing else is read.
struct Hello {
  std::uint16_t protocol = kProtocol;
  std::string version;
  std::string host;     ///< as the host calls itself
  std::string address;  ///< at which other hosts most likely reach it
  std::uint16_t free_port = 0;
  pid_t pid = -1;
  std::string machine;  ///< equal for two agents that run on one machine under one name of it
};
struct Started {
  Rank rank = kNoRank;
  pid_t pid = -1;
  std::string cpus;  ///< "0-3" when it is bound; else empty
};
struct Output {
  Rank rank = kNoRank;
  Stream stream = Stream::standard_output;
  Bytes bytes;
};
struct OutputEnd {
  Rank rank = kNoRank;
  Stream stream = Stream::standard_output;
};
/// Ranks that were found ended at the same moment.
struct Ended {
  std::vector<RankEnding> ranks;
};
/// The ranks that were not reported as started will not be.
struct StartFailed {
  std::string why;
};
/// The store that this host's ranks use.
struct Joined {
  std::string store;
};
struct InputRoom {
  std::uint32_t bytes = 0;
};
/// Nothing of the job is left here; the agent's last message.
struct Done {};
using FromAgent = std::variant<Hello, Started, Output, OutputEnd, Ended, StartFailed, Joined, InputRoom, Done,
                               Alive, Examined, ClockTell, Reached, Measured>;

Bytes encode(const FromLauncher& message);
Bytes encode(const FromAgent& message);
/// refused: bytes that are no such message.
Result<FromLauncher> decode_from_launcher(std::span<const std::byte> body);
Result<FromAgent> decode_from_agent(std::span<const std::byte> body);

}  // namespace rondel::agent
