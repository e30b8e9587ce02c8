// SPDX-License-Identifier: Apache-2.0
#include "lib/auth.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "lib/printable.h"
#include "lib/wire.h"

namespace rondel {
namespace {

// No text protocol begins with a byte over 0x7f.
constexpr std::uint32_t kMagic = 0x4c4452f5;  // f5 'R' 'D' 'L' on the wire
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = 32;
constexpr std::size_t kPayloadLimit = kHandshakeBodyLimit - kNonceBytes - kMacBytes - sizeof(std::uint32_t);
constexpr std::size_t kTextLimit = 512;

enum MessageType : std::uint16_t { kHello = 1, kChallenge = 2, kProof = 3, kVerdict = 4 };

struct BodyBounds {
  std::size_t least, most;
};

BodyBounds bounds_of(std::uint16_t type) {
  switch (type) {
    case kHello:
      return {kNonceBytes + 4, kNonceBytes + 4 + kPayloadLimit};
    case kChallenge:
      return {kNonceBytes + 4 + kMacBytes, kNonceBytes + 4 + kPayloadLimit + kMacBytes};
    case kProof:
      return {kMacBytes, kMacBytes};
    default:
      return {1 + 4, 1 + 4 + kTextLimit};
  }
}

Bytes message(MessageType type, std::span<const std::byte> body) {
  wire::Writer writer;
  writer.number(kMagic).number(kProtocolVersion).number(static_cast<std::uint16_t>(type));
  return writer.number(static_cast<std::uint32_t>(body.size())).raw(body).take();
}

Bytes verdict(bool accepted, std::string_view why_not) {
  wire::Writer body;
  body.number(static_cast<std::uint8_t>(accepted)).text(why_not.substr(0, kTextLimit));
  return message(kVerdict, body.bytes());
}

void append(Bytes& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

}  // namespace

Handshake::Handshake(const Secret& secret, std::span<const std::byte> payload, Stage first)
    : secret_(secret), payload_(payload.begin(), payload.end()), stage_(first) {}

Result<Handshake> Handshake::make(const Secret& secret, std::span<const std::byte> payload, Stage first) {
  if (payload.size() > kPayloadLimit)
    return Status(Code::invalid_argument,
                  fmt::format("a handshake payload of {} bytes is over the limit of {}", payload.size(),
                              kPayloadLimit));
  Handshake made(secret, payload, first);
  if (RAND_bytes(reinterpret_cast<unsigned char*>(made.nonce_.data()), static_cast<int>(kNonceBytes)) != 1)
    return Status(Code::unavailable, "the system's random generator gave no bytes for a handshake");
  return made;
}

Result<Handshake> Handshake::initiator(const Secret& secret, std::span<const std::byte> payload) {
  auto made = make(secret, payload, Stage::challenge);
  if (!made.ok()) return made;
  wire::Writer body;
  body.raw(made->nonce_).blob(made->payload_);
  made->transcript_ = message(kHello, body.bytes());
  return made;
}

Result<Handshake> Handshake::responder(const Secret& secret, std::span<const std::byte> payload,
                                       Judge judge) {
  auto made = make(secret, payload, Stage::hello);
  if (made.ok()) made->judge_ = std::move(judge);
  return made;
}

Bytes Handshake::opening() { return stage_ == Stage::challenge ? transcript_ : Bytes(); }

bool Handshake::done() const { return stage_ == Stage::done; }
const Bytes& Handshake::farewell() const { return farewell_; }
const Bytes& Handshake::peer_payload() const { return peer_payload_; }

std::size_t Handshake::wants() const {
  if (stage_ == Stage::done || stage_ == Stage::failed) return 0;
  if (message_.size() < kHeaderBytes) return kHeaderBytes - message_.size();
  return kHeaderBytes + body_bytes_ - message_.size();
}

Result<Bytes> Handshake::feed(std::span<const std::byte> received) {
  if (stage_ == Stage::failed) return Status(Code::refused, "the handshake had failed before these bytes");
  Bytes replies;
  while (!received.empty()) {
    if (stage_ == Stage::done) return refuse(Code::refused, "bytes came after the end of the handshake", "");
    const bool in_header = message_.size() < kHeaderBytes;
    const std::size_t taken = std::min(wants(), received.size());
    append(message_, received.first(taken));
    received = received.subspan(taken);
    if (in_header && message_.size() == kHeaderBytes) RONDEL_TRY(check_header());
    if (message_.size() < kHeaderBytes || wants() > 0) continue;
    auto reply = take_message();
    if (!reply.ok()) return reply;
    append(replies, *reply);
  }
  return replies;
}

Status Handshake::refuse(Code code, const std::string& cause, const std::string& told_to_peer,
                         std::string hint) {
  stage_ = Stage::failed;
  farewell_ = told_to_peer.empty() ? Bytes() : verdict(false, told_to_peer);
  return Status(code, cause, std::move(hint));
}

/// Decides from twelve bytes whether a body is worth waiting for.
Status Handshake::check_header() {
  wire::Reader reader(message_);
  const auto magic = reader.number<std::uint32_t>();
  version_ = reader.number<std::uint16_t>();
  type_ = reader.number<std::uint16_t>();
  body_bytes_ = reader.number<std::uint32_t>();
  if (magic != kMagic)
    return refuse(Code::refused,
                  fmt::format("not a Rondel peer: its first bytes were {:08x}, not {:08x}", magic, kMagic),
                  "");
  if (body_bytes_ > kHandshakeBodyLimit)
    return refuse(Code::refused,
                  fmt::format("a handshake message of {} bytes is over the limit of {}", body_bytes_,
                              kHandshakeBodyLimit),
                  "");
  if (version_ != kProtocolVersion)
    return {};  // refused when its body is here, so that our answer can be read
  const auto due = static_cast<std::uint16_t>(static_cast<int>(stage_) + 1);
  const auto bounds = bounds_of(type_);
  const bool known = type_ == due || type_ == kVerdict;
  if (!known || body_bytes_ < bounds.least || body_bytes_ > bounds.most)
    return refuse(
        Code::refused,
        fmt::format("handshake message {} of {} bytes where message {} was due", type_, body_bytes_, due),
        "");
  return {};
}

Result<Bytes> Handshake::take_message() {
  if (version_ != kProtocolVersion) {
    const auto text = [this](std::string_view mine, std::string_view theirs) {
      return fmt::format("{} speaks protocol version {}, {} version {}", mine, kProtocolVersion, theirs,
                         version_);
    };
    const bool answer = type_ != kVerdict;  // a verdict is an answer already
    return refuse(Code::refused, text("this side", "the peer"), answer ? text("the peer", "this side") : "",
                  "install the same version of Rondel on every host");
  }
  const Bytes whole = std::exchange(message_, {});
  const auto body = std::span(whole).subspan(kHeaderBytes);
  if (type_ == kVerdict) {
    RONDEL_TRY(take_verdict(body));
    return Bytes();
  }
  if (type_ != kProof) append(transcript_, whole);
  if (type_ == kHello) return take_hello(body);
  return type_ == kChallenge ? take_challenge(body) : take_proof(body);
}

Result<Bytes> Handshake::take_hello(std::span<const std::byte> body) {
  wire::Reader reader(body);
  reader.raw(kNonceBytes);
  const auto payload = reader.blob(kPayloadLimit);
  if (!reader.finished()) return refuse(Code::refused, "a malformed hello", "");
  peer_payload_.assign(payload.begin(), payload.end());

  wire::Writer mine;
  mine.raw(nonce_).blob(payload_).raw(Mac{});
  Bytes challenge = message(kChallenge, mine.bytes());
  const std::size_t mac_at = challenge.size() - kMacBytes;
  append(transcript_, std::span(challenge).first(mac_at));
  auto proof = mac("responder");
  if (!proof.ok()) return refuse(proof.code(), proof.status().failure().cause, "");
  std::copy(proof->begin(), proof->end(), challenge.begin() + static_cast<std::ptrdiff_t>(mac_at));
  append(transcript_, *proof);
  stage_ = Stage::proof;
  return challenge;
}

namespace {
constexpr const char* kOtherSecret = "the job secrets differ";
constexpr const char* kSecretHint = "start every rank of the job with the same secret";
}  // namespace

bool equal_secretly(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<Bytes> Handshake::take_challenge(std::span<const std::byte> body) {
  wire::Reader reader(body);
  reader.raw(kNonceBytes);
  const auto payload = reader.blob(kPayloadLimit);
  const auto proof = reader.raw(kMacBytes);
  if (!reader.finished()) return refuse(Code::refused, "a malformed challenge", "");
  transcript_.resize(transcript_.size() - kMacBytes);
  const auto wanted = mac("responder");
  if (!wanted.ok()) return refuse(wanted.code(), wanted.status().failure().cause, "");
  if (!equal_secretly(*wanted, proof)) return refuse(Code::refused, kOtherSecret, kOtherSecret, kSecretHint);
  peer_proved_ = true;
  append(transcript_, proof);
  peer_payload_.assign(payload.begin(), payload.end());
  const auto mine = mac("initiator");
  if (!mine.ok()) return refuse(mine.code(), mine.status().failure().cause, "");
  stage_ = Stage::verdict;
  return message(kProof, *mine);
}

Result<Bytes> Handshake::take_proof(std::span<const std::byte> body) {
  const auto wanted = mac("initiator");
  if (!wanted.ok()) return refuse(wanted.code(), wanted.status().failure().cause, "");
  if (!equal_secretly(*wanted, body)) return refuse(Code::refused, kOtherSecret, kOtherSecret, kSecretHint);
  peer_proved_ = true;
  const Status judged = judge_ ? judge_(peer_payload_) : Status();
  if (!judged.ok())
    return refuse(judged.code(), judged.failure().cause, judged.text(), judged.failure().hint);
  stage_ = Stage::done;
  return verdict(true, "");
}

/// Due from the responder at the end; before that, and from an initiator, it can only say no.
Status Handshake::take_verdict(std::span<const std::byte> body) {
  wire::Reader reader(body);
  const bool accepted = reader.number<std::uint8_t>() == 1;
  const std::string why_not = printable(reader.text(kTextLimit));
  if (!reader.finished() || (accepted && stage_ != Stage::verdict))
    return refuse(Code::refused, "a malformed or early verdict", "");
  if (!accepted) return refuse(Code::refused, fmt::format("refused by the peer: {}", why_not), "");
  stage_ = Stage::done;
  return {};
}

Result<Handshake::Mac> Handshake::mac(std::string_view role) const {
  Bytes covered;
  append(covered, wire::as_bytes(role));
  append(covered, transcript_);
  Mac made;
  std::size_t made_bytes = 0;
  const auto* const out =
      EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, secret_.bytes().data(), Secret::kBytes,
                reinterpret_cast<const unsigned char*>(covered.data()), covered.size(),
                reinterpret_cast<unsigned char*>(made.data()), made.size(), &made_bytes);
  if (out == nullptr || made_bytes != kMacBytes)
    return Status(Code::unavailable, "OpenSSL can not compute HMAC-SHA256",
                  "look at the providers in this machine's openssl.cnf");
  return made;
}

}  // namespace rondel
