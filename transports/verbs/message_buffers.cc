// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/message_buffers.h"

#include <array>
#include <utility>

namespace rondel::verbs {

Result<MessageBuffers> MessageBuffers::create(std::shared_ptr<Device> device, std::uint32_t mark) {
  auto memory = OwnMemory::create(std::move(device), kBytes);
  RONDEL_TRY(memory);
  return MessageBuffers(*std::move(memory), mark);
}

int MessageBuffers::post_all(const VerbsLibrary& verbs, ibv_qp* pair) {
  for (std::uint32_t slot = 0; slot < kReceiveDepth; ++slot) give_back(slot);
  return flush(verbs, pair);
}

void MessageBuffers::give_back(std::uint32_t slot) { free_[free_count_++] = slot; }

int MessageBuffers::flush(const VerbsLibrary& verbs, ibv_qp* pair) {
  if (free_count_ < kReceivesPerList) return 0;
  std::array<ibv_recv_wr, kReceiveDepth> list;
  std::array<ibv_sge, kReceiveDepth> slices;
  for (std::uint32_t i = 0; i < free_count_; ++i) {
    slices[i] = {.addr = reinterpret_cast<std::uintptr_t>(slots() + free_[i]),
                 .length = kMessageBytes,
                 .lkey = memory_.on_device().local_key()};
    list[i] = {.wr_id = mark_ << 32 | free_[i],
               .next = i + 1 < free_count_ ? &list[i + 1] : nullptr,
               .sg_list = &slices[i],
               .num_sge = 1};
  }
  receives_ += free_count_;
  ++doorbells_;
  free_count_ = 0;
  ibv_recv_wr* bad = nullptr;
  return verbs.post_recv(pair, list.data(), &bad);
}

ibv_sge MessageBuffers::slice_of(const void* message, std::size_t bytes) const {
  return {.addr = reinterpret_cast<std::uintptr_t>(message),
          .length = static_cast<std::uint32_t>(bytes),
          .lkey = memory_.on_device().local_key()};
}

}  // namespace rondel::verbs
