// SPDX-License-Identifier: Apache-2.0
#include "lib/store/store_service.h"

#include <utility>

namespace rondel::store {
namespace {

Outgoing success(ClientId to, std::uint32_t request, Bytes value = {}) {
  return {to, encode(Reply{request, Code::ok, std::move(value), {}})};
}

Outgoing failure(ClientId to, std::uint32_t request, const Status& status) {
  return {to, encode(Reply{request, status.code(), {}, status.failure().cause})};
}

}  // namespace

Result<std::vector<Outgoing>> StoreService::take(ClientId client, std::span<const std::byte> body) {
  const auto request = decode_request(body);
  if (!request.ok()) return request.status();
  give_up(client);
  Replies out;
  answer(client, *request, out);
  return out;
}

void StoreService::answer(ClientId client, const Request& request, Replies& out) {
  const std::uint32_t id = request.id;
  if (const auto* set = std::get_if<SetRequest>(&request.what)) {
    const Status done = entries_.set(set->key, set->value);
    out.push_back(done.ok() ? success(client, id) : failure(client, id, done));
    if (done.ok()) changed(set->key, out);
  } else if (const auto* add = std::get_if<AddRequest>(&request.what)) {
    const auto sum = entries_.add(add->key, add->increment);
    out.push_back(sum.ok() ? success(client, id, encode_sum(*sum)) : failure(client, id, sum.status()));
    if (sum.ok()) changed(add->key, out);
  } else if (const auto* get = std::get_if<GetRequest>(&request.what)) {
    wait(client, id, {get->key}, get->key, out);
  } else if (const auto* all = std::get_if<WaitRequest>(&request.what)) {
    wait(client, id, all->keys, {}, out);
  } else if (const auto* missing = std::get_if<MissingRequest>(&request.what)) {
    out.push_back(success(client, id, encode_keys(entries_.missing_of(missing->keys))));
  }
}

void StoreService::wait(ClientId client, std::uint32_t request, std::vector<std::string> keys,
                        std::string wanted, Replies& out) {
  for (const std::string& key : keys)
    if (const Status good = check_key(key); !good.ok()) return out.push_back(failure(client, request, good));
  const auto missing = entries_.missing_of(keys);
  if (missing.empty()) {
    out.push_back(success(client, request, wanted.empty() ? Bytes() : *entries_.find(wanted)));
    return;
  }
  for (const std::string& key : missing) waiters_by_key_[key].insert(client);
  waiting_[client] = Waiting{request, {missing.begin(), missing.end()}, std::move(wanted)};
}

void StoreService::changed(const std::string& key, Replies& out) {
  const auto found = waiters_by_key_.find(key);
  if (found == waiters_by_key_.end()) return;
  for (const ClientId client : found->second) {
    Waiting& waiting = waiting_.at(client);
    waiting.missing.erase(key);
    if (!waiting.missing.empty()) continue;
    out.push_back(
        success(client, waiting.request, waiting.wanted.empty() ? Bytes() : *entries_.find(waiting.wanted)));
    waiting_.erase(client);
  }
  waiters_by_key_.erase(found);
}

void StoreService::give_up(ClientId client) {
  const auto found = waiting_.find(client);
  if (found == waiting_.end()) return;
  for (const std::string& key : found->second.missing) {
    const auto waiters = waiters_by_key_.find(key);
    waiters->second.erase(client);
    if (waiters->second.empty()) waiters_by_key_.erase(waiters);
  }
  waiting_.erase(found);
}

void StoreService::gone(ClientId client) { give_up(client); }

}  // namespace rondel::store
