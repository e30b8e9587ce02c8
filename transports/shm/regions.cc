// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/regions.h"

#include <cerrno>
#include <utility>

namespace rondel::shm {

bool AnnouncedRegions::announce(int socket, const SharedMemory::Place& place) {
  if (known_.contains(place.id)) return true;
  Note note = make_note(NoteKind::region);
  note.id = place.id;
  if (!send_note(socket, note, place.fd)) return false;
  known_.insert(place.id);
  return true;
}

void AnnouncedRegions::forget_dead(int socket) {
  for (const std::uint64_t id : SharedMemory::departed_since(departures_))
    if (known_.erase(id) > 0) dead_.push_back(id);
  while (!dead_.empty()) {
    Note note = make_note(NoteKind::forget);
    note.id = dead_.back();
    if (!send_note(socket, note)) return;
    dead_.pop_back();
  }
}

Status MappedRegions::add(const ReceivedNote& note) {
  if (!note.fd) return system_failure(Code::out_of_resources, "taking over a peer's memory", EMFILE);
  auto mapping = Mapping::of(note.fd.get());
  RONDEL_TRY(mapping);
  regions_.insert_or_assign(note.note.id, std::move(mapping).value());
  return {};
}

std::span<std::byte> MappedRegions::find(std::uint64_t id, std::uint64_t offset, std::uint64_t bytes) const {
  const auto found = regions_.find(id);
  if (found == regions_.end()) return {};
  const std::span<std::byte> whole = found->second.bytes();
  if (offset > whole.size() || bytes > whole.size() - offset) return {};
  return whole.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
}

}  // namespace rondel::shm
