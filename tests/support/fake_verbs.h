// SPDX-License-Identifier: Apache-2.0
// FakeVerbs: libibverbs' functions over memory of this process. Queue pairs of any of its devices really
// exchange bytes, at once and in the poster's thread: keys, bounds, states, queue lengths and path MTUs are
// checked as a device would, completions and events are queued, and faults can be put in. One at a time per
// process, because the table of functions has no place for a pointer to it. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transports/verbs/library.h"

namespace rondel::test {

struct FakeGid {
  std::uint32_t type = IBV_GID_TYPE_ROCE_V2;
  std::uint8_t last_byte = 1;  ///< of 10.9.0.x
};

/// A device with one port.
struct FakeDevice {
  std::string name = "fake0";
  ibv_port_state state = IBV_PORT_ACTIVE;
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  std::uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_4096;
  int max_sge = 30;
  int max_requests = 1024;                     ///< in a queue
  int max_completions = 1 << 16;               ///< in a completion queue
  std::uint32_t max_message_bytes = 1U << 20;  ///< small, so that large works are cut
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  std::vector<FakeGid> gids{FakeGid{}};
};

enum class FakeCall {
  open_device,
  alloc_pd,
  reg_mr,
  reg_mr_to_write,  ///< of memory that peers may write to
  create_comp_channel,
  create_cq,
  create_qp,
  modify_qp
};

/// What was asked of all devices so far.
struct FakeCounts {
  std::uint64_t doorbells = 0;  ///< calls of post_send
  std::uint64_t requests = 0;
  std::uint64_t signalled = 0;
  std::uint64_t inlined = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t receive_doorbells = 0;  ///< calls of post_recv
  std::uint64_t receives = 0;
};

/// The attributes of the last queue pair that became ready.
struct FakePath {
  ibv_mtu mtu = IBV_MTU_256;
  bool global = false;
  std::uint8_t retries = 0;
  std::uint8_t receiver_not_ready_retries = 0;
  std::uint8_t timeout = 0;
  std::uint16_t pkey_index = 0;
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
};

class FakeVerbs {
 public:
  explicit FakeVerbs(std::vector<FakeDevice> devices = {FakeDevice{}});
  ~FakeVerbs();
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;

  static verbs::VerbsLibrary table();

  /// The next request that any queue pair posts ends with `status`, and breaks its pair.
  void fail_next_request(ibv_wc_status status);
  /// From now on the call fails with `error_number`; 0: no longer.
  void fail_call(FakeCall call, int error_number);
  /// No more than so many regions at one time: then memory is out.
  void limit_regions(std::size_t most);
  /// What is sent to or from this device is lost: its peers' retries are exceeded.
  void cut_off(const std::string& device, bool cut);
  /// A switch on every way drops packets with more payload than this, as one does whose MTU is too small.
  void drop_packets_over(std::size_t bytes);

  /// Every opened context of this device reports an event about its port, or about itself.
  void report(const std::string& device, ibv_event_type type);
  /// Polling any completion queue fails from now on, while true.
  void break_queues(bool broken);

  /// From now on completions of different queue pairs overtake one another; those of each keep their order.
  void shuffle_pairs(std::uint64_t seed);
  /// From now on, while true, who sends hears nothing of what went well.
  void withhold_acknowledgements(bool withhold);

  FakeCounts counts() const;
  FakePath last_path() const;
  /// Objects that were made and not destroyed.
  std::size_t objects() const;
};

}  // namespace rondel::test
