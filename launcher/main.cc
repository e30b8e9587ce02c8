// SPDX-License-Identifier: Apache-2.0
// rondelrun: reads the command line and does the one thing that it asks for.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/agent.h"
#include "launcher/completion.h"
#include "launcher/doctor/command.h"
#include "launcher/doctor/doctor.h"
#include "launcher/host_file.h"
#include "launcher/job.h"
#include "launcher/job_plan.h"
#include "launcher/machine.h"
#include "launcher/man_page.h"
#include "launcher/options.h"
#include "launcher/resources.h"
#include "launcher/settings_file.h"
#include "launcher/slurm_allocation.h"
#include "launcher/supervisor.h"
#include "lib/config.h"
#include "lib/host_identity.h"
#include "lib/log.h"
#include "lib/nearest_name.h"
#include "lib/unique_fd.h"
#include "transports/registry.h"

namespace rondel {
namespace {

/// Every descriptor that is opened later is then above these three.
void open_standard_descriptors() {
  int fd = 0;
  do fd = ::open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) ::close(fd);
}

int fail(int exit_code, const Status& status) {
  fmt::print(stderr, "rondelrun: {}\n", status.text());
  return exit_code;
}

int print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) != EOF && std::fflush(stdout) == 0) return 0;
  return fail(1, system_failure(Code::io_error, "writing to standard output", errno));
}

int check_build() {
  const auto config = Config::from_environment();
  if (!config.ok()) return fail(kUsageExit, config.status());
  std::string text = fmt::format("rondelrun {}\n", RONDEL_VERSION);
  for (const BackendReport& report : report_backends(*config)) {
    const char* state = !report.built ? "not built" : report.probe.usable ? "usable" : "not usable here";
    text += fmt::format("{:<10} {}{}{}\n", report.name, state, report.probe.why_not.empty() ? "" : ": ",
                        report.probe.why_not);
  }
  const Status binding = machine_support();
  text +=
      fmt::format("{:<10} {}\n", "--bind-to", binding.ok() ? "usable" : "not usable here: " + binding.text());
  return print(text);
}

/// The same as check_build(), for an examination of this host.
std::vector<doctor::TransportFacts> look_at_transports(const std::string& net) {
  Config config;
  config.net = net;
  std::vector<doctor::TransportFacts> facts;
  for (const BackendReport& report : report_backends(config))
    if (report.joins_processes)
      facts.push_back({report.name, report.built, report.built && report.probe.usable, report.probe.why_not,
                       report.probe.domain, report.probe.joins});
  return facts;
}

/// RONDEL_TRANSPORT, --transport.
Status check_transport(const std::string& wanted) {
  const auto names = transport_names();
  if (wanted.empty() || std::ranges::find(names, wanted) != names.end()) return {};
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view meant = nearest_name(wanted, candidates);
  std::string hint = meant.empty() ? "" : fmt::format("did you mean {}? ", meant);
  hint += "--transport takes one of these:";
  for (const std::string& name : names) hint.append(" ").append(name);
  return Status(Code::invalid_argument, fmt::format("there is no transport '{}'", wanted), std::move(hint));
}

Result<JobPlan> make_checked_plan(const Options& options, const std::string& host) {
  auto plan = make_plan(options, inherited_environment(), host);
  RONDEL_TRY(plan);
  RONDEL_TRY(check_transport(plan->transport));
  std::error_code gone;
  if (options.directory.empty() && plan->leaves_this_host() && std::filesystem::current_path(gone).empty())
    return Status(Code::unavailable,
                  fmt::format("the current directory, where ranks are to run: {}", gone.message()),
                  "change to one that every host has, or name it with --wdir");
  return plan;
}

int show_plan(const Options& options, const JobPlan& plan) {
  for (const std::string& warning : options.warnings) fmt::print(stderr, "rondelrun: {}\n", warning);
  for (const std::string& warning : plan.environment.warnings) fmt::print(stderr, "rondelrun: {}\n", warning);
  return print(options.json ? plan_json(plan) : plan_text(plan));
}

/// What the agent of this host would do.
Status show_bindings(const Options& options, JobPlan& plan) {
  const auto local = std::count_if(plan.places.begin(), plan.places.end(),
                                   [&plan](const RankPlace& place) { return plan.is_local(place.host); });
  auto bindings = bind_on_this_host(local == 0 ? BindingRules{} : options.binding, static_cast<Rank>(local));
  if (!bindings.ok()) return std::move(bindings).status();
  plan.local_bindings = *std::move(bindings);
  return {};
}

/// Of a Slurm allocation, when this was started in one and the user names no hosts.
Status read_allocation(Options& options) {
  if (!options.hosts.empty()) return {};
  auto hosts = allocated_hosts(environment_variable);
  RONDEL_TRY(hosts);
  options.hosts = *std::move(hosts);
  return {};
}

Status read_hosts(Options& options) {
  if (options.host_file.empty()) return read_allocation(options);
  auto file = read_host_file(options.host_file);
  if (!file.ok()) return std::move(file).status();
  options.hosts = std::move(file->hosts);
  options.warnings.insert(options.warnings.end(), file->warnings.begin(), file->warnings.end());
  return {};
}

/// ssh would only warn, and go on without it. What it expands itself can not be looked at.
Status check_identity(const std::string& file) {
  if (file.empty() || file.front() == '~' || file.find('%') != std::string::npos) return {};
  if (::access(file.c_str(), R_OK) == 0) return {};
  return system_failure(Code::unavailable, fmt::format("-i {}", file), errno,
                        "name the private key that ssh is to use");
}

Status complete_hosts(Options& options) {
  RONDEL_TRY(read_hosts(options));
  RONDEL_TRY(check_identity(options.ssh.identity_file));
  if (!options.ssh.remote_path.empty()) return {};
  std::error_code error;
  options.ssh.remote_path = std::filesystem::read_symlink("/proc/self/exe", error).string();
  return {};
}

/// As many characters as a line of the terminal has, up to where lines become hard to read.
std::size_t page_width() {
  constexpr std::size_t kUsual = 100, kMost = 132;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::min<std::size_t>(size.ws_col, kMost) : kUsual;
}

int examine(Options options, const std::vector<std::string>& arguments) {
  if (const Status read = complete_hosts(options); !read.ok()) return fail(kUsageExit, read);
  const auto host = this_host();
  if (!host.ok()) return fail(kLaunchFailureExit, host.status());
  const bool no_ranks = options.hosts.empty() && options.ranks == 0 && options.per_host == 0;
  if (no_ranks) options.ranks = host->cores;
  auto plan = make_checked_plan(options, host->name);
  if (!plan.ok()) return fail(kUsageExit, plan.status());
  configure_log(plan->log_level, "launcher");
  return doctor::run_doctor(options, doctor::for_examination(*std::move(plan)),
                            {.version = RONDEL_VERSION,
                             .look = look_at_transports,
                             .next = doctor::next_command(arguments, options, no_ranks),
                             .width = page_width()});
}

int plan_and_run(Options options) {
  if (const Status read = complete_hosts(options); !read.ok()) return fail(kUsageExit, read);
  const auto host = this_host();
  if (!host.ok()) return fail(kLaunchFailureExit, host.status());
  auto plan = make_checked_plan(options, host->name);
  if (!plan.ok()) return fail(kUsageExit, plan.status());
  configure_log(plan->log_level, "launcher");
  if (options.action == Action::dry_run)
    if (const Status bound = show_bindings(options, *plan); !bound.ok()) return fail(kUsageExit, bound);
  if (options.verbose && options.action == Action::run && plan->size() > host->cores)
    fmt::print(stderr, "rondelrun: {} ranks share {} cores\n", plan->size(), host->cores);
  return options.action == Action::dry_run ? show_plan(options, *plan)
                                           : run_job(options, *plan, RONDEL_VERSION);
}

/// Speaks with a launcher over standard input and output, which nobody else is to write to.
int run_as_agent() {
  if (::isatty(STDIN_FILENO) == 1)
    return fail(kUsageExit, Status(Code::invalid_argument, "--agent is for rondelrun itself, over ssh"));
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)), out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  constexpr int kPipeBytes = 256 * 1024;
  ::fcntl(out.get(), F_SETPIPE_SZ,
          kPipeBytes);  // sshd's end; it makes fewer turns, when the system grants it
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!in || !out || !nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0 ||
      ::dup2(nothing.get(), STDOUT_FILENO) < 0)
    return fail(kLaunchFailureExit,
                system_failure(Code::out_of_resources, "opening standard streams", errno));
  return run_agent({.from_launcher = std::move(in),
                    .to_launcher = std::move(out),
                    .version = RONDEL_VERSION,
                    .look = look_at_transports});
}

Result<Options> options_of(const std::vector<std::string>& arguments) {
  const auto file = config_file_in(arguments);
  if (!file.ok()) return file.status();
  if (file->empty()) return parse_options(arguments);
  const auto settings = read_settings_file(*file);
  if (!settings.ok()) return settings.status();
  return parse_options(arguments, *settings);
}

int run(const std::vector<std::string>& arguments) {
  auto options = options_of(arguments);
  if (!options.ok()) return fail(kUsageExit, options.status());
  switch (options->action) {
    case Action::help:
      return print(usage_text());
    case Action::version:
      return print(fmt::format("rondelrun {}\n", RONDEL_VERSION));
    case Action::help_config:
      return print(config_help());
    case Action::man_page:
      return print(launcher_man_page(RONDEL_VERSION));
    case Action::man_page_config:
      return print(config_man_page(RONDEL_VERSION));
    case Action::bash_completion:
      return print(bash_completion());
    case Action::check_build:
      return check_build();
    case Action::agent:
      return run_as_agent();
    case Action::doctor:
      return examine(*std::move(options), arguments);
    case Action::run:
    case Action::dry_run:
      break;
  }
  return plan_and_run(*std::move(options));
}

}  // namespace
}  // namespace rondel

int main(int argc, char** argv) try {
  const bool has_output = ::fcntl(STDOUT_FILENO, F_GETFD) >= 0;
  rondel::open_standard_descriptors();
  if (!has_output)
    return rondel::fail(rondel::kUsageExit,
                        rondel::Status(rondel::Code::unavailable,
                                       "standard output is closed, so that what ranks write would be lost",
                                       "redirect it, to /dev/null if nobody wants it"));
  return rondel::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
} catch (const std::exception& error) {  // of the libraries: out of memory, at most
  std::fprintf(stderr, "rondelrun: %s\n", error.what());
  return rondel::kLaunchFailureExit;
}
