// SPDX-License-Identifier: Apache-2.0
// Findings for the tests of what is made of them: hosts where all is well, which a test then spoils. One
// thread.
#pragma once

#include <string>

#include "launcher/doctor/findings.h"

namespace rondel::test {

/// A host that nothing is wrong with: 10.0.0.NUMBER on eth0, two ranks, 16 cores.
doctor::HostFindings healthy_host(const std::string& label, int number);
/// h1 to hN; each reaches each other and the store, and was measured at 10 Gbit/s and 50 microseconds.
doctor::Findings healthy(std::size_t hosts);
/// The way from one to another is closed.
void close_way(doctor::Findings& findings, std::size_t from, std::size_t to,
               const std::string& why = "no answer from 10.0.0.9:4000");

}  // namespace rondel::test
