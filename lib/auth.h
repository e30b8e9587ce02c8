// SPDX-License-Identifier: Apache-2.0
// The mutual challenge-response with which every connection starts, and the job secret under it. Handshake
// does no input or output: bytes in, bytes out, so that it can be driven by any loop and fuzzed. One thread
// per object.
//
// Wire, each message {u32 magic, u16 version, u16 type, u32 body length <= kHandshakeBodyLimit} then the
// body:
//   initiator -> hello     { nonce_i[32], blob payload_i }
//   responder -> challenge { nonce_r[32], blob payload_r, mac[32] over "responder" and everything above }
//   initiator -> proof     { mac[32] over "initiator" and everything above }
//   responder -> verdict   { u8 accepted, text why_not }
// MACs are HMAC-SHA256 under the job secret (OpenSSL), compared in constant time. Fresh nonces make recorded
// messages worthless. A length over the limit, a wrong magic or a wrong MAC ends the handshake before
// anything is allocated for it. Either side may answer with a refusing verdict in place of what was due:
// another protocol version (both are named), another secret. payload_r is shown before the initiator has
// proved anything: nothing secret in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "lib/memory.h"
#include "lib/status.h"

namespace rondel {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kHandshakeBodyLimit = 4096;

/// 32 random bytes that all ranks of one job share. Never logged, never in argv.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;
  static Result<Secret> generate();
  static Result<Secret> from_bytes(std::span<const std::byte> bytes);
  /// Reads 32 raw bytes (or 64 hexadecimal digits) from a descriptor until they are there or end of file;
  /// closes it.
  static Result<Secret> from_descriptor(int fd);
  /// Reads a file that only its owner may read (mode 0600 or stricter), or a group that root has let in (0640
  /// at most); refuses others with the chmod to run.
  static Result<Secret> from_file(const std::string& path);

  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();  // wipes

  std::span<const std::byte, kBytes> bytes() const { return bytes_; }

 private:
  Secret() = default;
  std::array<std::byte, kBytes> bytes_{};
};

/// Compares secrets: in the same time wherever they differ.
bool equal_secretly(std::span<const std::byte> a, std::span<const std::byte> b);

class Handshake {
 public:
  /// Looks at the peer's payload once its proof was right, and accepts (ok) or refuses (the text goes to the
  /// peer).
  using Judge = std::function<Status(std::span<const std::byte> peer_payload)>;

  static Result<Handshake> initiator(const Secret& secret, std::span<const std::byte> payload);
  static Result<Handshake> responder(const Secret& secret, std::span<const std::byte> payload, Judge judge);

  /// Bytes to send before anything is received (the initiator's hello; empty for a responder).
  Bytes opening();
  /// Takes what arrived, in pieces of any size; returns what to send back (may be empty). A failure is final;
  /// `farewell()` may then hold bytes that tell the peer why. Bytes beyond the handshake's end are a failure:
  /// a caller reads wants() bytes at most.
  Result<Bytes> feed(std::span<const std::byte> received);
  /// How many bytes the message being received still lacks: its header, then its body. At least 1 until done.
  std::size_t wants() const;
  bool done() const;
  /// Whether the peer has shown that it knows the secret; true also when it then refused for a reason of its
  /// own.
  bool peer_proved() const { return peer_proved_; }
  const Bytes& farewell() const;
  /// The peer's payload, once done().
  const Bytes& peer_payload() const;

 private:
  enum class Stage : std::uint8_t {
    hello,
    challenge,
    proof,
    verdict,
    done,
    failed
  };  // what is received next
  using Mac = std::array<std::byte, 32>;

  Handshake(const Secret& secret, std::span<const std::byte> payload, Stage first);
  static Result<Handshake> make(const Secret& secret, std::span<const std::byte> payload, Stage first);
  Result<Mac> mac(std::string_view role) const;
  Status check_header();
  Result<Bytes> take_message();
  Result<Bytes> take_hello(std::span<const std::byte> body);
  Result<Bytes> take_challenge(std::span<const std::byte> body);
  Result<Bytes> take_proof(std::span<const std::byte> body);
  Status take_verdict(std::span<const std::byte> body);
  Status refuse(Code code, const std::string& cause, const std::string& told_to_peer, std::string hint = {});

  Secret secret_;
  Bytes payload_;
  Judge judge_;
  Stage stage_;
  bool peer_proved_ = false;
  std::array<std::byte, 32> nonce_{};
  std::size_t body_bytes_ = 0;  // of the message being received, once its header is whole
  std::uint16_t version_ = 0;   // likewise
  std::uint16_t type_ = 0;      // likewise
  Bytes message_;               // what has arrived of it, header included
  Bytes transcript_;            // hello, then challenge: what the MACs cover
  Bytes farewell_;
  Bytes peer_payload_;
};

}  // namespace rondel
