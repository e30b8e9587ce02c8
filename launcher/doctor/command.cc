// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "launcher/job_order.h"
#include "lib/config.h"

namespace rondel::doctor {
namespace {

constexpr std::chrono::milliseconds kLogin{20'000};

std::string shell_text(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) {
    const auto quoted = shell_word(word);
    text += (text.empty() ? "" : " ") + (quoted.ok() ? *quoted : word);
  }
  return text;
}

/// Whether a shell finds `program` by its name alone.
bool is_on_path(const std::filesystem::path& program) {
  std::istringstream folders(search_path_of({}));
  std::error_code error;
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const auto found = std::filesystem::path(folder) / program.filename();
        std::filesystem::exists(found, error))
      return std::filesystem::equivalent(found, program, error);
  return false;
}

}  // namespace

JobPlan for_examination(JobPlan plan) {
  if (plan.start_timeout == Config().start_timeout) plan.start_timeout = kLogin;
  return plan;
}

std::vector<std::string> notes_of(const Options& options, const JobPlan& plan) {
  std::vector<std::string> notes = options.warnings;
  notes.insert(notes.end(), plan.environment.warnings.begin(), plan.environment.warnings.end());
  std::set<std::size_t> used;
  for (const RankPlace& place : plan.places) used.insert(place.host);
  for (std::size_t host = 0; host < plan.hosts.size(); ++host)
    if (!used.contains(host))
      notes.push_back(fmt::format("{} takes none of {} ranks and was not examined",
                                  label_of(plan.hosts[host]), plan.size()));
  return notes;
}

std::string login_by_hand(const Host& host, const SshOptions& options) {
  std::vector<std::string> words{"ssh"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  const std::uint16_t port = host.ssh_port != 0 ? host.ssh_port : options.port;
  if (port != 0) words.insert(words.end(), {"-p", std::to_string(port)});
  if (!options.identity_file.empty()) words.insert(words.end(), {"-i", options.identity_file});
  if (!host.user.empty()) words.insert(words.end(), {"-l", host.user});
  words.insert(words.end(), {host.name, options.remote_path, "--version"});
  return shell_text(words);
}

std::string next_command(std::span<const std::string> arguments, const Options& options, bool no_ranks) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> words{is_on_path(self) ? self.filename().string() : self.string()};
  if (no_ranks) words.insert(words.end(), {"-np", std::to_string(options.ranks)});
  // Without the first word, doctor.
  const auto own = arguments.subspan(std::min<std::size_t>(1, arguments.size()));
  const auto options_end = own.end() - static_cast<std::ptrdiff_t>(options.program.size());
  std::copy_if(own.begin(), options_end, std::back_inserter(words), [](const std::string& word) {
    constexpr std::array<std::string_view, 4> kNotForJobs{"--json", "-json", "--dry-run", "-dry-run"};
    return std::ranges::find(kNotForJobs, word) == kNotForJobs.end();
  });
  if (!options.program.empty()) {
    words.insert(words.end(), options.program.begin(), options.program.end());
  } else {
    const auto bench = self.parent_path() / "rondel-bench";
    words.push_back(std::filesystem::exists(bench, error) && !is_on_path(bench) ? bench.string()
                                                                                : "rondel-bench");
    words.insert(words.end(), {"allreduce", "-b", "4", "-e", "64M", "-f", "4"});
  }
  return shell_text(words);
}

}  // namespace rondel::doctor
