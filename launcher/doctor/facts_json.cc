// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/facts_json.h"

#include <nlohmann/json.hpp>
#include <type_traits>

namespace rondel::doctor {
namespace {

using Json = nlohmann::ordered_json;

// What a host may say at most; a page is made of it.
constexpr std::size_t kMostBytes = 4096;  // of one text
constexpr std::size_t kMostItems = 4096;  // of one list

// The fields of each value, for both directions: `visit(name, field)`.
template <class Visit, class Facts>
void visit_fields(Visit& visit, Facts& f) {
  using F = std::remove_const_t<Facts>;
  if constexpr (std::is_same_v<F, NicFacts>) {
    visit("name", f.name), visit("address", f.address), visit("prefix_bits", f.prefix_bits);
    visit("mtu", f.mtu), visit("speed_mbit_s", f.speed_mbit_s), visit("numa_node", f.numa_node);
    visit("chosen", f.chosen);
  } else if constexpr (std::is_same_v<F, RdmaFacts>) {
    visit("device", f.device), visit("port", f.port), visit("state", f.state);
    visit("link_layer", f.link_layer), visit("rate", f.rate), visit("gids", f.gids);
    visit("numa_node", f.numa_node);
  } else if constexpr (std::is_same_v<F, GpuFacts>) {
    visit("pci", f.pci), visit("model", f.model), visit("numa_node", f.numa_node);
  } else if constexpr (std::is_same_v<F, NumaFacts>) {
    visit("node", f.node), visit("cpus", f.cpus);
  } else if constexpr (std::is_same_v<F, LimitFacts>) {
    visit("soft", f.soft), visit("hard", f.hard);
  } else if constexpr (std::is_same_v<F, TransportFacts>) {
    visit("name", f.name), visit("built", f.built), visit("usable", f.usable), visit("why_not", f.why_not);
    visit("domain", f.domain), visit("joins", f.joins);
  } else if constexpr (std::is_same_v<F, NameFacts>) {
    visit("name", f.name), visit("addresses", f.addresses), visit("failure", f.failure);
    visit("took_ms", f.took_ms);
  } else if constexpr (std::is_same_v<F, PortFacts>) {
    visit("listening", f.listening), visit("free_in_range", f.free_in_range), visit("failure", f.failure);
  } else {
    static_assert(std::is_same_v<F, HostFacts>, "facts whose fields are not written");
    visit("kernel", f.kernel), visit("machine_cores", f.machine_cores);
    visit("usable_cores", f.usable_cores), visit("cgroup_cores", f.cgroup_cores);
    visit("memory_bytes", f.memory_bytes), visit("memory_free_bytes", f.memory_free_bytes);
    visit("shm_bytes", f.shm_bytes), visit("shm_free_bytes", f.shm_free_bytes);
    visit("open_files", f.open_files), visit("locked_bytes", f.locked_bytes), visit("may_lock", f.may_lock);
    visit("nics", f.nics), visit("nic_failure", f.nic_failure), visit("binding_failure", f.binding_failure);
    visit("rdma", f.rdma);
    visit("gpus", f.gpus), visit("numa", f.numa), visit("transports", f.transports);
    visit("own_name", f.own_name), visit("ports", f.ports);
    visit("congestion_control", f.congestion_control);
  }
}

class JsonWriter {
 public:
  template <class Field>
  void operator()(const char* name, const Field& field) {
    json_[name] = value_of(field);
  }
  template <class Facts>
  static Json whole(const Facts& facts) {
    JsonWriter writer;
    visit_fields(writer, facts);
    return std::move(writer.json_);
  }

 private:
  template <class Field>
  static Json value_of(const Field& field) {
    if constexpr (std::is_class_v<Field> && !std::is_same_v<Field, std::string>)
      return whole(field);
    else
      return Json(field);
  }
  template <class Item>
  static Json value_of(const std::optional<Item>& field) {
    return field ? Json(*field) : Json();
  }
  template <class Item>
  static Json value_of(const std::vector<Item>& items) {
    Json list = Json::array();
    for (const Item& item : items) list.push_back(value_of(item));
    return list;
  }

  Json json_ = Json::object();
};

/// Looks at types before it takes a value, so that nothing throws.
class JsonReader {
 public:
  explicit JsonReader(const Json& json) : json_(json), good_(json.is_object()) {}

  template <class Field>
  void operator()(const char* name, Field& field) {
    if (!good_) return;
    const auto found = json_.find(name);
    good_ = found != json_.end() && take(*found, field);
  }
  bool good() const { return good_; }

 private:
  static bool take(const Json& value, std::string& field) {
    if (!value.is_string()) return false;
    field = value.get<std::string>();
    return field.size() <= kMostBytes;
  }
  static bool take(const Json& value, bool& field) {
    if (!value.is_boolean()) return false;
    field = value.get<bool>();
    return true;
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  static bool take(const Json& value, Number& field) {
    if (!value.is_number_integer()) return false;
    if (std::is_unsigned_v<Number> && !value.is_number_unsigned()) return false;
    field = value.get<Number>();
    return true;
  }
  template <class Item>
  static bool take(const Json& value, std::optional<Item>& field) {
    field.reset();
    return value.is_null() || take(value, field.emplace());
  }
  template <class Item>
  static bool take(const Json& value, std::vector<Item>& items) {
    if (!value.is_array() || value.size() > kMostItems) return false;
    for (const Json& one : value)
      if (!take(one, items.emplace_back())) return false;
    return true;
  }
  template <class Facts>
  requires std::is_class_v<Facts>
  static bool take(const Json& value, Facts& facts) {
    JsonReader reader(value);
    visit_fields(reader, facts);
    return reader.good();
  }

  const Json& json_;
  bool good_;
};

}  // namespace

Json to_json(const HostFacts& facts) { return JsonWriter::whole(facts); }

Result<HostFacts> facts_from(const std::string& json) {
  const Json parsed = Json::parse(json, nullptr, false);
  HostFacts facts;
  JsonReader reader(parsed);
  visit_fields(reader, facts);
  if (!reader.good()) return Status(Code::refused, "what its agent says of it can not be read");
  return facts;
}

}  // namespace rondel::doctor
