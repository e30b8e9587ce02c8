// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/diagnosis.h"

#include <fmt/format.h>

namespace rondel::verbs {

Diagnosis diagnose(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return {
          Code::peer_lost, "its device no longer answers (transport retries exceeded)",
          "its host or the network to it is down; if small works pass and large ones do not, see that the "
          "MTU of every switch on the way is at least the hosts'"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {Code::internal, "it had no receive posted for a message (receiver not ready)", {}};
    case IBV_WC_WR_FLUSH_ERR:
      return {Code::peer_lost, "the queue pair was shut down", {}};
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return {Code::io_error, "this rank's device may not reach the memory of a work (local access error)",
              "keep memory mapped and registered until its works have finished", true};
    case IBV_WC_REM_ACCESS_ERR:
      return {Code::io_error, "its device refused a write to the memory of a work (remote access error)",
              "keep memory mapped, writable and registered until its works have finished"};
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return {Code::internal, "a message had a length that its receiver did not expect", {}};
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return {Code::peer_lost, "its device failed in the middle of a work (remote operation error)", {}};
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_FATAL_ERR:
      return {Code::io_error, "this rank's device can not go on with a queue pair (local operation error)",
              "see the kernel's log for the device", true};
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    default:
      return {Code::io_error,
              fmt::format("the device reports completion status {}", static_cast<int>(status)),
              "see the kernel's log for the device", true};
  }
}

}  // namespace rondel::verbs
