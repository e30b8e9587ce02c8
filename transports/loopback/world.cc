// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/world.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <random>

#include "transports/loopback/transport.h"

namespace rondel::loopback {

namespace {

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

void Port::wake() {
  woken = true;
  changed.notify_all();
  if (descriptor) eventfd_write(descriptor.get(), 1);
}

World::World() : nonce_(random_number()) {}

std::shared_ptr<Port> World::open_port() {
  const std::lock_guard lock(mutex);
  auto port = std::make_shared<Port>();
  port->id = next_id_++;
  ports_.emplace(port->id, port);
  return port;
}

void World::remove_port(PortId id) {
  const std::lock_guard lock(mutex);
  ports_.erase(id);
}

std::shared_ptr<Port> World::find_port(PortId id) const {
  const auto found = ports_.find(id);
  return found == ports_.end() ? nullptr : found->second;
}

std::string World::domain() const { return fmt::format("loopback-{}-{:016x}", ::getpid(), nonce_); }

std::shared_ptr<World> make_world() { return std::make_shared<World>(); }

}  // namespace rondel::loopback
