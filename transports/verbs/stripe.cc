// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/stripe.h"

#include <array>
#include <utility>

namespace rondel::verbs {

Stripe::Stripe(std::shared_ptr<Device> device, QueuePair pair, std::uint32_t mark, std::uint32_t index)
    : device_(std::move(device)),
      receive_(std::uint64_t{mark} << 32 | kReceiveOfStripe | index),
      pair_(std::move(pair)),
      requests_(device_->verbs(), pair_, mark, index) {}

Result<std::unique_ptr<Stripe>> Stripe::create(std::shared_ptr<Device> device, const CompletionQueues& queues,
                                               std::uint32_t mark, std::uint32_t index) {
  auto pair = QueuePair::create(device, queues, kStripeReceives);
  RONDEL_TRY(pair);
  std::unique_ptr<Stripe> stripe(new Stripe(std::move(device), *std::move(pair), mark, index));
  if (const int error = stripe->post_used(); error != 0) return device_failure("posting receives", error);
  return stripe;
}

int Stripe::flush() {
  requests_.flush();
  return used_ < kReceivesPerList ? 0 : post_used();
}

int Stripe::post_used() {
  std::array<ibv_recv_wr, kStripeReceives> list;
  for (std::uint32_t i = 0; i < used_; ++i)
    list[i] = {
        .wr_id = receive_, .next = i + 1 < used_ ? &list[i + 1] : nullptr, .sg_list = nullptr, .num_sge = 0};
  receives_ += std::exchange(used_, 0);
  ++doorbells_;
  ibv_recv_wr* bad = nullptr;
  return device_->verbs().post_recv(pair_.get(), list.data(), &bad);
}

}  // namespace rondel::verbs
