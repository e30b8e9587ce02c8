// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/segment.h"

#include <new>
#include <utility>

namespace rondel::shm {

Result<SegmentHold> SegmentHold::create() {
  auto memory = SharedMemory::create(sizeof(Segment));
  RONDEL_TRY(memory);
  SegmentHold hold;
  hold.segment_ = new (memory->data()) Segment;
  hold.own_ = std::move(memory).value();
  return hold;
}

Result<SegmentHold> SegmentHold::map(int fd) {
  auto mapping = Mapping::of(fd);
  RONDEL_TRY(mapping);
  if (mapping->bytes().size() < sizeof(Segment))
    return Status(Code::refused, "the memory that the peer sent is too small for a link");
  SegmentHold hold;
  hold.segment_ = std::launder(reinterpret_cast<Segment*>(mapping->bytes().data()));
  hold.theirs_ = std::move(mapping).value();
  return hold;
}

}  // namespace rondel::shm
