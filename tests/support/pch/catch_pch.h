// SPDX-License-Identifier: Apache-2.0
// What reading takes longest in most tests, compiled ahead of them (-Db_pch=true).
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>
