// SPDX-License-Identifier: Apache-2.0
// Notes: what two ends of a link say beside their lanes, over a Unix socket, mostly to hand over descriptors:
// the greeting, regions of memory that the peer may map, and a wake for who sleeps. One datagram is one note.
// The socket's end is also how the death of a process shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/auth.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel::shm {

enum class NoteKind : std::uint32_t {
  hello,  ///< from who dials, with the segment: I know your token, and am rank `rank`
  wake,
  region,  ///< with its descriptor: `id` names this memory in places
  forget,  ///< the region `id` is gone
  board,   ///< with the descriptor of the sender's board
  refill   ///< the next bytes of what the receiver could not read where they are; they follow the note
};

struct Note {
  std::uint32_t magic = 0;
  NoteKind kind = NoteKind::wake;
  std::uint64_t id = 0;
  std::int32_t rank = 0;
  std::uint32_t version = 0;
  // Greetings only:
  std::byte token[Secret::kBytes] =
      {};                           // the receiver's, by which it knows that the sender belongs to the job
  std::uint64_t probe_address = 0;  // in the sender: where a reader of its memory finds `probe_value`
  std::uint64_t probe_value = 0;
};

struct ReceivedNote {
  Note note;
  UniqueFd fd;
  bool lost_fd = false;          // there was one, and no room for it in this process
  std::vector<std::byte> bytes;  // of a refill
};

/// A note of this build.
Note make_note(NoteKind kind);
inline constexpr std::size_t kRefillBytes = 32 * 1024;

/// Whether it went; false when the socket has no room now or the peer has gone.
bool send_note(int socket, const Note& note, int fd = -1);
/// The same with up to kRefillBytes behind the note.
bool send_refill(int socket, std::span<const std::byte> bytes);
/// nullopt: nothing there. peer_lost: the other end is closed. refused: something that is no note.
Result<std::optional<ReceivedNote>> receive_note(int socket);

}  // namespace rondel::shm
