// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "lib/wire.h"
#include "transports/verbs/frame.h"

namespace rondel::verbs {
namespace {

constexpr std::uint32_t kSendDepth = 192;
constexpr std::uint32_t kInlineBytes = 220;  // more does not fit a request everywhere
constexpr std::uint32_t kFewSlices = 4;
constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint8_t kReceiverNotReadyTimer =
    12;  // 0.64 ms; credits and the eager window see to it that it is never needed

std::string_view name_of(LinkLayer layer) { return layer == LinkLayer::ethernet ? "Ethernet" : "InfiniBand"; }

ibv_mtu to_mtu(std::uint32_t bytes) {
  return static_cast<ibv_mtu>(std::clamp(static_cast<int>(std::bit_width(bytes / 256)), 1, 5));
}

}  // namespace

Bytes encode(const PairOffer& offer) {
  wire::Writer writer;
  writer.number(offer.layout)
      .number(static_cast<std::uint8_t>(offer.link_layer))
      .raw(std::as_bytes(std::span(offer.gid)))
      .number(offer.lid)
      .number(offer.number)
      .number(offer.first_psn)
      .number(offer.mtu_bytes)
      .number(offer.stripes);
  for (const PairOffer::End& end : offer.further) writer.number(end.number).number(end.first_psn);
  return writer.take();
}

Result<PairOffer> decode_offer(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  PairOffer offer;
  offer.layout = reader.number<std::uint32_t>();
  const auto layer = reader.number<std::uint8_t>();
  const auto gid = reader.raw(offer.gid.size());
  if (!gid.empty()) std::memcpy(offer.gid.data(), gid.data(), gid.size());
  offer.lid = reader.number<std::uint16_t>();
  offer.number = reader.number<std::uint32_t>();
  offer.first_psn = reader.number<std::uint32_t>();
  offer.mtu_bytes = reader.number<std::uint32_t>();
  offer.stripes = reader.number<std::uint32_t>();
  for (PairOffer::End& end : offer.further) {
    end.number = reader.number<std::uint32_t>();
    end.first_psn = reader.number<std::uint32_t>();
  }
  if (!reader.finished() || layer > static_cast<std::uint8_t>(LinkLayer::ethernet) || offer.mtu_bytes < 256 ||
      offer.stripes > offer.further.size())
    return Status(Code::refused, "a peer's queue pair can not be read", "use one version of Rondel");
  offer.link_layer = static_cast<LinkLayer>(layer);
  return offer;
}

Status check_offer(const PairOffer& mine, const PairOffer& theirs) {
  if (mine.layout != theirs.layout)
    return Status(Code::refused,
                  fmt::format("it speaks version {} of the verbs protocol, this rank version {}",
                              theirs.layout, mine.layout),
                  "use one version of Rondel");
  if (mine.link_layer != theirs.link_layer)
    return Status(Code::refused,
                  fmt::format("its device is on {}, this rank's on {}", name_of(theirs.link_layer),
                              name_of(mine.link_layer)),
                  "choose devices of one network with RONDEL_VERBS_DEVICE");
  return {};
}

PairPatience patience_for(std::chrono::milliseconds silence) {
  PairPatience patience;
  const auto all_tries = [](std::uint8_t timeout) {
    return std::chrono::nanoseconds(4096LL << timeout) * (PairPatience::kRetries + 1);
  };
  for (patience.timeout = 12; patience.timeout < 20; ++patience.timeout)
    if (all_tries(static_cast<std::uint8_t>(patience.timeout + 1)) > silence / 2) break;
  return patience;
}

QueuePair::QueuePair(std::shared_ptr<Device> device)
    : device_(std::move(device)), pair_(nullptr, device_->verbs().destroy_qp) {}

bool QueuePair::make(const CompletionQueues& queues, std::uint32_t receives, std::uint32_t slices,
                     std::uint32_t inline_bytes) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = queues.departures();
  attributes.recv_cq = queues.arrivals();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = std::min(kSendDepth, device_->limits().requests);
  attributes.cap.max_recv_wr = receives;
  attributes.cap.max_send_sge = std::min(slices, device_->limits().slices);
  attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = inline_bytes;
  pair_.reset(device_->verbs().create_qp(device_->domain(), &attributes));
  if (pair_ == nullptr) return false;
  depth_ = {.sends = std::min(attributes.cap.max_send_wr, kSendDepth),
            .receives = receives,
            .slices = std::min(slices, device_->limits().slices),
            .inline_bytes = inline_bytes};
  return true;
}

Result<QueuePair> QueuePair::create(std::shared_ptr<Device> device, const CompletionQueues& queues,
                                    std::uint32_t receives) {
  QueuePair pair(std::move(device));
  if (!pair.make(queues, receives, kMaxSlices, kInlineBytes) && !pair.make(queues, receives, kMaxSlices, 0) &&
      !pair.make(queues, receives, kFewSlices, 0))
    return device_failure("making a queue pair", errno, kMessageBytes * kReceiveDepth);
  // Beside the places that credits and a refusal need, so many writes that one of them asks for a completion.
  constexpr std::uint32_t kFewestSends = kMaxPieces + 1 + kSignalEvery;
  if (pair.depth_.sends < kFewestSends)
    return Status(Code::unsupported,
                  fmt::format("{} takes {} requests in a queue, {} are needed", pair.device_->choice().device,
                              pair.depth_.sends, kFewestSends));
  const DeviceChoice& port = pair.device_->choice();
  std::random_device random;
  pair.offer_ = {.layout = kLayout,
                 .link_layer = port.link_layer,
                 .gid = port.gid,
                 .lid = port.lid,
                 .number = pair.pair_->qp_num,
                 .first_psn = random() & 0xffffffU,
                 .mtu_bytes = port.mtu_bytes};
  RONDEL_TRY(pair.initialise());
  return pair;
}

Status QueuePair::initialise() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_->choice().port;
  attributes.pkey_index = device_->choice().marks.pkey_index;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error = device_->verbs().modify_qp(
      pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? Status() : not_taken("initialising a queue pair", error);
}

/// What a device does not take it will not take later either; so it is said at once, with all that was asked.
Status QueuePair::not_taken(std::string_view step, int error) const {
  if (error != EINVAL) return device_failure(step, error);
  const DeviceChoice& port = device_->choice();
  return Status(
      Code::unsupported,
      fmt::format("{}: {}:{} does not take its settings (MTU {}, GID {} at index {}, pkey index {}, "
                  "service level {}, traffic class {})",
                  step, port.device, port.port, port.mtu_bytes, text_of(port.gid), port.gid_index,
                  port.marks.pkey_index, port.marks.service_level, port.marks.traffic_class),
      "compare them with ibv_devinfo -v and the partition table; RONDEL_VERBS_GID_INDEX, _PKEY_INDEX, "
      "_SERVICE_LEVEL and _TRAFFIC_CLASS change them");
}

Status QueuePair::become_ready_to_receive(const PairOffer& theirs) {
  const DeviceChoice& port = device_->choice();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = to_mtu(common_mtu(offer_.mtu_bytes, theirs.mtu_bytes));
  attributes.dest_qp_num = theirs.number;
  attributes.rq_psn = theirs.first_psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kReceiverNotReadyTimer;
  attributes.ah_attr.port_num = port.port;
  attributes.ah_attr.dlid = theirs.lid;
  attributes.ah_attr.sl = port.marks.service_level;
  attributes.ah_attr.is_global = port.global ? 1 : 0;
  if (port.global) {
    std::memcpy(attributes.ah_attr.grh.dgid.raw, theirs.gid.data(), theirs.gid.size());
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(port.gid_index);
    attributes.ah_attr.grh.hop_limit = kHopLimit;
    attributes.ah_attr.grh.traffic_class = port.marks.traffic_class;
  }
  const int error =
      device_->verbs().modify_qp(pair_.get(), &attributes,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) return {};
  return not_taken(fmt::format("finding the way from {} to {}", text_of(port.gid), text_of(theirs.gid)),
                   error);
}

Status QueuePair::bring_up(const PairOffer& theirs, PairPatience patience) {
  RONDEL_TRY(check_offer(offer_, theirs));
  RONDEL_TRY(become_ready_to_receive(theirs));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = offer_.first_psn;
  attributes.timeout = patience.timeout;
  attributes.retry_cnt = PairPatience::kRetries;
  attributes.rnr_retry = PairPatience::kRetries;
  attributes.max_rd_atomic = 1;
  const int error =
      device_->verbs().modify_qp(pair_.get(), &attributes,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return error == 0 ? Status() : not_taken("making a queue pair ready to send", error);
}

}  // namespace rondel::verbs
