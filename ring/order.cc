// SPDX-License-Identifier: Apache-2.0
#include "ring/order.h"

#include <map>

namespace rondel {

std::vector<Rank> ring_order(std::span<const std::string> host_of_rank) {
  std::map<std::string_view, std::size_t> index_of_host;
  std::vector<std::vector<Rank>> ranks_of_host;  // by first appearance
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const auto [host, is_new] = index_of_host.try_emplace(host_of_rank[rank], ranks_of_host.size());
    if (is_new) ranks_of_host.emplace_back();
    ranks_of_host[host->second].push_back(static_cast<Rank>(rank));
  }
  std::vector<Rank> order;
  for (const std::vector<Rank>& ranks : ranks_of_host) order.insert(order.end(), ranks.begin(), ranks.end());
  return order;
}

bool by_number(std::span<const Rank> order) {
  for (std::size_t place = 0; place < order.size(); ++place)
    if (order[place] != static_cast<Rank>(place)) return false;
  return true;
}

}  // namespace rondel
