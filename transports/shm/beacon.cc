// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/beacon.h"

#include <cerrno>
#include <string>
#include <utility>

#include "lib/wire.h"
#include "transports/shm/unix_socket.h"

namespace rondel::shm {
namespace {

constexpr std::size_t kNameLimit = 64;

}  // namespace

Result<std::shared_ptr<const Beacon>> Beacon::light() {
  const auto name = unguessable_name();
  RONDEL_TRY(name);
  auto listener = listen_at(*name);
  RONDEL_TRY(listener);
  std::shared_ptr<Beacon> beacon(new Beacon);
  beacon->listener_ = std::move(listener).value();
  beacon->address_ = wire::Writer().text(*name).take();
  return std::shared_ptr<const Beacon>(std::move(beacon));
}

Status Beacon::reach(std::span<const std::byte> address) {
  wire::Reader reader(address);
  const std::string name = reader.text(kNameLimit);
  if (!reader.finished() || name.empty()) return Status(Code::refused, "its beacon is none of shared memory");
  const auto socket = make_socket();
  RONDEL_TRY(socket);
  const int error = connect_to(*socket, name);
  if (error == EAGAIN) return {};  // so many are trying
  if (error != 0) return system_failure(Code::unavailable, "connecting to its Unix socket", error);
  return check_user(*socket);
}

}  // namespace rondel::shm
