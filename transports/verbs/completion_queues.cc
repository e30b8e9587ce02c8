// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/completion_queues.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <utility>

namespace rondel::verbs {

CompletionQueues::CompletionQueues(std::shared_ptr<Device> device)
    : device_(std::move(device)),
      channel_(nullptr, device_->verbs().destroy_comp_channel),
      arrivals_(nullptr, device_->verbs().destroy_cq),
      departures_(nullptr, device_->verbs().destroy_cq) {}

Result<std::unique_ptr<CompletionQueues>> CompletionQueues::create(std::shared_ptr<Device> device,
                                                                   std::uint32_t arrivals,
                                                                   std::uint32_t departures) {
  const VerbsLibrary& verbs = device->verbs();
  ibv_context* const context = device->context();
  std::unique_ptr<CompletionQueues> queues(new CompletionQueues(std::move(device)));
  queues->channel_.reset(verbs.create_comp_channel(context));
  if (queues->channel_ == nullptr) return device_failure("making a completion channel", errno);
  const int flags = ::fcntl(queues->descriptor(), F_GETFL);
  if (flags < 0 || ::fcntl(queues->descriptor(), F_SETFL, flags | O_NONBLOCK) != 0)
    return system_failure(Code::io_error, "setting up a completion channel", errno);
  const auto make = [&](Owned<ibv_cq>& queue, std::uint32_t entries) {
    queue.reset(verbs.create_cq(context, static_cast<int>(entries), nullptr, queues->channel_.get(), 0));
    return queue != nullptr;
  };
  for (auto [queue, entries] : {std::pair{&queues->arrivals_, arrivals}, {&queues->departures_, departures}})
    if (!make(*queue, entries))
      return device_failure(fmt::format("making a completion queue of {} entries", entries), errno,
                            entries * std::size_t{64});
  return queues;
}

bool CompletionQueues::Polled::fill(const Device& device, ibv_cq* queue) {
  if (count > 0) return true;
  const int got = device.verbs().poll_cq(queue, static_cast<int>(kBatch), entries.data());
  broken |= got < 0;
  count = got > 0 ? static_cast<std::size_t>(got) : 0;
  return count > 0;
}

std::span<const ibv_wc> CompletionQueues::Polled::take(const Device& device, ibv_cq* queue) {
  fill(device, queue);
  return {entries.data(), std::exchange(count, 0)};
}

bool CompletionQueues::arm(bool departures_too) {
  const VerbsLibrary& verbs = device_->verbs();
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  while (verbs.get_cq_event(channel_.get(), &queue, &unused) == 0) verbs.ack_cq_events(queue, 1);
  verbs.req_notify_cq(arrivals(), 0);
  if (departures_too) verbs.req_notify_cq(departures(), 0);
  // What came before the request makes no event.
  const bool arrived = arrived_.fill(*device_, arrivals());
  return (departures_too && departed_.fill(*device_, departures())) || arrived;
}

}  // namespace rondel::verbs
