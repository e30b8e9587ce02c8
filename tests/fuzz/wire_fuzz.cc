// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as any sequence of wire fields, and as an incident; what decodes must encode to the same
// bytes.
#include <cstddef>
#include <cstdint>

#include "lib/check.h"
#include "lib/liveness/incident.h"
#include "lib/wire.h"

namespace {

using rondel::check;

/// The first half says which fields to read, the second is what they are read from.
void read_fields(std::span<const std::byte> input) {
  const auto script = input.first(input.size() / 2);
  rondel::wire::Reader reader(input.subspan(input.size() / 2));
  for (const std::byte step : script) {
    const std::size_t before = reader.left();
    const auto limit = static_cast<std::size_t>(step) / 8;
    switch (static_cast<unsigned>(step) % 8) {
      case 0:
        reader.number<std::uint8_t>();
        break;
      case 1:
        reader.number<std::uint16_t>();
        break;
      case 2:
        reader.number<std::uint32_t>();
        break;
      case 3:
        reader.number<std::uint64_t>();
        break;
      case 4:
        check(reader.raw(limit).size() <= limit, "raw gives no more than was asked for");
        break;
      case 5:
        check(reader.blob(limit).size() <= limit, "a blob keeps to its limit");
        break;
      default:
        check(reader.text(limit).size() <= limit, "a text keeps to its limit");
    }
    check(reader.left() <= before, "a reader goes forward only");
    check(reader.good() || reader.left() == 0, "a bad reader has nothing left");
  }
}

void decode_incident(std::span<const std::byte> input) {
  const auto incident = rondel::liveness::decode_incident(input);
  if (!incident.ok()) return;
  const auto again = rondel::liveness::encode(*incident);
  check(std::equal(again.begin(), again.end(), input.begin(), input.end()), "an incident has one encoding");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  read_fields(input);
  decode_incident(input);
  return 0;
}
