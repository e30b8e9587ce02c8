// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/link.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "lib/log.h"
#include "transports/verbs/diagnosis.h"

namespace rondel::verbs {
namespace {

std::string words_of(int error_number) { return std::system_category().message(error_number); }

}  // namespace

Link::Link(std::shared_ptr<Device> device, QueuePair pair, MessageBuffers buffers, Rank peer,
           std::uint32_t mark)
    : device_(std::move(device)),
      peer_(peer),
      mark_(mark),
      buffers_(std::move(buffers)),
      pair_(std::move(pair)),
      requests_(device_->verbs(), pair_, mark),
      sender_(requests_, buffers_, inbox_, fault_, device_->limits().message_bytes),
      receiver_(device_, peer, requests_, buffers_, inbox_, fault_) {}

Result<std::unique_ptr<Link>> Link::create(const std::shared_ptr<Device>& device,
                                           const CompletionQueues& queues, Rank peer, std::uint32_t mark,
                                           std::uint32_t pairs) {
  auto buffers = MessageBuffers::create(device, mark);
  RONDEL_TRY(buffers);
  auto pair = QueuePair::create(device, queues, kReceiveDepth);
  RONDEL_TRY(pair);
  if (const int error = buffers->post_all(device->verbs(), pair->get()); error != 0)
    return device_failure("posting receives", error);
  std::unique_ptr<Link> link(new Link(device, *std::move(pair), *std::move(buffers), peer, mark));
  for (std::uint32_t index = 1; index < pairs; ++index) {
    auto stripe = Stripe::create(device, queues, mark, index);
    if (!stripe.ok()) {
      log(LogLevel::info, "verbs: {} queue pairs to rank {} instead of {}: {}", index, peer, pairs,
          stripe.status().text());
      break;
    }
    link->stripes_.push_back(*std::move(stripe));
  }
  return link;
}

PairOffer Link::offer() const {
  PairOffer offer = pair_.offer();
  offer.stripes = static_cast<std::uint32_t>(stripes_.size());
  for (std::size_t i = 0; i < stripes_.size(); ++i)
    offer.further[i] = {stripes_[i]->offer().number, stripes_[i]->offer().first_psn};
  return offer;
}

// As many pairs as both sides have.
Status Link::bring_up(const PairOffer& theirs, PairPatience patience) {
  RONDEL_TRY(pair_.bring_up(theirs, patience));
  if (theirs.stripes < stripes_.size()) stripes_.resize(theirs.stripes);
  std::vector<SendQueue*> queues{&requests_};
  for (std::size_t i = 0; i < stripes_.size(); ++i) {
    PairOffer end = theirs;
    end.number = theirs.further[i].number;
    end.first_psn = theirs.further[i].first_psn;
    RONDEL_TRY(stripes_[i]->bring_up(end, patience));
    queues.push_back(&stripes_[i]->requests());
  }
  sender_.write_over(queues);
  if (!stripes_.empty()) receiver_.expect_stripes();
  return {};
}

void Link::pump() {
  if (faulty() || gone_ || !connected_) return;
  // First the receives: whatever leaves then may be answered at once.
  if (const int error = buffers_.flush(device_->verbs(), pair_.get()); error != 0)
    return fault_.set_local(Code::io_error, fmt::format("posting receives: {}", words_of(error)));
  const bool all_announced = receiver_.announce();
  const bool all_written = sender_.write();
  const bool all_told = receiver_.tell_returned();  // behind what carries the same word
  blocked_ = !all_announced || !all_written || !all_told;
  requests_.flush();
  if (requests_.error() != 0)
    return fault_.set_local(Code::io_error, fmt::format("posting requests: {}", words_of(requests_.error())));
  if (!stripes_.empty()) flush_stripes();
}

void Link::flush_stripes() {
  for (const auto& stripe : stripes_) {
    const int error = stripe->flush();
    if (error != 0)
      return fault_.set_local(Code::io_error, fmt::format("posting receives: {}", words_of(error)));
    if (const int failed = stripe->requests().error(); failed != 0)
      return fault_.set_local(Code::io_error, fmt::format("posting requests: {}", words_of(failed)));
  }
}

std::size_t Link::arrived(const ibv_wc& completion) {
  ++stirs_;
  if (faulty() || settled_) return 0;
  if (completion.status != IBV_WC_SUCCESS) {
    take_failure(completion.status);
    return 0;
  }
  // What came before belongs to works before.
  std::size_t finished = receiver_.take_held();
  if (const std::uint32_t index = Stripe::index_of(completion.wr_id); index > 0)
    return finished + take_striped(completion, index);
  const std::uint32_t slot = MessageBuffers::slot_of(completion);
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    finished += receiver_.take_piece(ntohl(completion.imm_data));
    buffers_.give_back(slot);
  } else if (buffers_.incoming(slot).header.kind == MessageKind::payload) {
    take_eager(completion, slot);
    finished += receiver_.take_held();
  } else {
    take_message(completion, slot);
    buffers_.give_back(slot);
  }
  return finished;
}

// Nothing but pieces comes there.
std::size_t Link::take_striped(const ibv_wc& completion, std::uint32_t index) {
  if (index > stripes_.size() || completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
    fault_.set(Code::internal, "it sends a message where a piece was due");
    return 0;
  }
  stripes_[index - 1]->used();
  return receiver_.take_piece(ntohl(completion.imm_data));
}

void Link::take_eager(const ibv_wc& completion, std::uint32_t slot) {
  const EagerHeader& header = buffers_.incoming_eager(slot);
  if (completion.byte_len < sizeof header || completion.byte_len != sizeof header + header.bytes ||
      !goes_eagerly(header.bytes))
    return fault_.set(Code::internal,
                      fmt::format("a message of {} bytes can not be read", completion.byte_len));
  sender_.take_returned(header.returned);
  receiver_.hold(slot);
}

void Link::take_message(const ibv_wc& completion, std::uint32_t slot) {
  const Message& message = buffers_.incoming(slot);
  const MessageHeader& header = message.header;
  if (completion.byte_len == sizeof(EagerHeader) && header.kind == MessageKind::returned)
    return sender_.take_returned(buffers_.incoming_eager(slot).returned);
  const bool whole = completion.byte_len >= sizeof header && header.ranges <= kMaxSlices &&
                     completion.byte_len == sizeof header + header.ranges * sizeof(RemoteRange);
  if (whole && header.kind == MessageKind::credit) {
    sender_.take_returned(header.returned);
    return sender_.take_credit(message);
  }
  if (whole && header.kind == MessageKind::refusal) return receiver_.take_refusal(header);
  fault_.set(Code::internal, fmt::format("a message of {} bytes can not be read", completion.byte_len));
}

std::size_t Link::departed(const ibv_wc& completion) {
  if (faulty() || settled_) return 0;
  if (completion.status != IBV_WC_SUCCESS) {
    take_failure(completion.status);
    return 0;
  }
  const std::uint32_t index = SendQueue::index_of(completion.wr_id);
  SendQueue& queue = index == 0 ? requests_ : stripes_[index - 1]->requests();
  queue.take_completion(completion.wr_id);
  return sender_.finish_done();
}

// The first failure counts; those of the requests behind it only say that there was one.
void Link::take_failure(ibv_wc_status status) {
  if (is_flush(status)) {
    flushed_ = true;
    return;
  }
  if (peer_has_gone()) return;
  Diagnosis diagnosis = diagnose(status);
  if (diagnosis.local)
    fault_.set_local(diagnosis.code, std::move(diagnosis.cause), std::move(diagnosis.hint));
  else
    fault_.set(diagnosis.code, std::move(diagnosis.cause), std::move(diagnosis.hint));
}

void Link::judge_flush() {
  if (!flushed_ || settled_ || peer_has_gone()) return;
  Diagnosis diagnosis = diagnose(IBV_WC_WR_FLUSH_ERR);
  fault_.set(diagnosis.code, std::move(diagnosis.cause));
}

bool Link::peer_has_gone() {
  if (gone_ || !socket_) return gone_;
  while (auto word = hear(socket_.get())) {
    if (word->farewell) {
      gone_ = true;
      last_word_ = *std::move(word);
      return true;
    }
    sender_.take_question(word->number);
  }
  return false;
}

void Link::ask(Deadline::Clock::time_point now, std::chrono::nanoseconds patience) {
  if (!has_question()) return;
  const auto due = receiver_.due_eagerly();
  if (due != due_) {
    due_ = due;
    due_since_ = now;
  }
  if (now - due_since_ < patience) return;
  ask_for(socket_.get(), *due);
  asked_ = due;
}

void Link::try_way(Deadline::Clock::time_point now, std::chrono::nanoseconds patience) {
  const bool quiet = has_works() && stirs_seen_ == stirs_;
  stirs_seen_ = stirs_;
  if (!quiet) quiet_since_ = now;
  if (now - quiet_since_ < patience || faulty() || gone_) return;
  quiet_since_ = now;
  const auto write = [this](SendQueue& queue) {
    if (queue.room() > queue.depth() / 2) write_nothing(queue);  // else its own requests find out
  };
  write(requests_);
  for (const auto& stripe : stripes_) write(stripe->requests());
}

void Link::prove_arrival() {
  if (owes_arrival() && !gone_) write_nothing(requests_);
}

// Takes none of the peer's receives, and completes when it has had all that went before.
void Link::write_nothing(SendQueue& queue) {
  if (queue.room() == 0) return;
  queue.write({}, 0, 0, std::nullopt, true);
  queue.flush();
}

std::size_t Link::settle_departure() {
  std::size_t finished = 0;
  if (!settled_) {
    settled_ = true;
    destroy_pairs();
    finished = sender_.finish_had(last_word_.number);
  }
  finished += take_held();
  if (has_works()) fault_.set(Code::peer_lost, last_word_.why);
  return finished;
}

LinkCounts Link::counts() const {
  LinkCounts counts{.sent_bytes = sender_.bytes_sent(),
                    .received_bytes = receiver_.bytes_received(),
                    .work_requests = requests_.posted(),
                    .signalled = requests_.signalled(),
                    .receives = buffers_.receives(),
                    .doorbells = requests_.doorbells() + buffers_.doorbells(),
                    .staged_bytes = receiver_.bytes_staged(),
                    .eager_sends = sender_.eager_sent()};
  for (const auto& stripe : stripes_)
    counts += {.work_requests = stripe->requests().posted(),
               .signalled = stripe->requests().signalled(),
               .receives = stripe->receives(),
               .doorbells = stripe->doorbells(),
               .stripe_requests = stripe->requests().posted()};
  return counts;
}

void Link::destroy_pairs() {
  pair_.destroy();
  for (const auto& stripe : stripes_) stripe->destroy();
}

void Link::close(Code why) {
  destroy_pairs();
  if (socket_ && !gone_) say_farewell(socket_.get(), receiver_.pieces_received());
  socket_.reset();
  gone_ = settled_ = true;
  sender_.fail_all(why);
  receiver_.fail_all(why);
}

}  // namespace rondel::verbs
