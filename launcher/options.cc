// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "launcher/normalise.h"

namespace rondel {
namespace {

constexpr Rank kMostRanks = 65'536;

/// What CLI11 writes into, before it becomes Options.
struct Raw {
  Rank ranks = 0;
  std::vector<std::string> exports, mca;
  std::string directory, output_directory, transport, net, algorithm, stdin_choice = "0", bind_to, map_by,
                                                                      hosts;
  double timeout_s = 0, start_timeout_s = 60, kill_grace_s = 5;
  bool only_exports = false, tag = false, no_tag = false, timestamp = false, json = false, verbose = false;
  bool dry_run = false, help = false, version = false, help_config = false, check_build = false;
  bool man_page = false, man_page_config = false, root = false;
};

CLI::Validator seconds_validator() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double seconds = 0;
        if (CLI::detail::lexical_cast(text, seconds) && seconds >= 0.001 && seconds <= 1e8) return {};
        return fmt::format("found \"{}\", expected seconds from 0.001 to 100000000, such as 30 or 2.5", text);
      },
      "");
}

CLI::Validator count_validator(Rank least) {
  return CLI::Validator(
      [least](std::string& text) -> std::string {
        Rank count = 0;
        if (CLI::detail::lexical_cast(text, count) && count >= least && count <= kMostRanks) return {};
        return fmt::format("found \"{}\", expected a whole number from {} to {}", text, least, kMostRanks);
      },
      "");
}

/// For options of other launchers of which one value says what rondelrun does anyway.
CLI::Validator only(const std::string& allowed, const std::string& why) {
  return CLI::Validator(
      [allowed, why](std::string& text) -> std::string {
        return text == allowed ? std::string()
                               : fmt::format("found \"{}\", expected {}: {}", text, allowed, why);
      },
      "");
}

CLI::Validator refused(const std::string& why) {
  return CLI::Validator([why](std::string&) { return why; }, "");
}

void add_job_options(CLI::App& app, Raw& raw) {
  app.add_option("-n,--np,--num-proc", raw.ranks, "Start N ranks.")
      ->type_name("N")
      ->check(count_validator(1));
  app.add_option(
         "-x,--export", raw.exports,
         "Give the ranks an environment variable: VAR (as it is here), VAR=value, or 'PREFIX*' for all that "
         "begin so. Repeatable. Without --env-none the ranks have the launcher's environment anyway.")
      ->type_name("VAR[=VALUE]");
  app.add_flag("--env-none", raw.only_exports, "Ranks inherit nothing but what -x names.");
  app.add_option("--wdir,--wd", raw.directory, "Start the ranks in directory DIR.")->type_name("DIR");
  app.add_option("--stdin", raw.stdin_choice,
                 "Which rank reads the launcher's standard input: a rank or none; the others read nothing. "
                 "Default: 0.")
      ->type_name("RANK");
  app.add_option("--timeout", raw.timeout_s, "Stop the job after S seconds, with exit status 124.")
      ->type_name("S")
      ->check(seconds_validator());
  app.add_option("--start-timeout", raw.start_timeout_s,
                 "Name the missing ranks when some have joined the job and others have not S seconds later. "
                 "Sets RONDEL_START_TIMEOUT_S for the ranks.")
      ->type_name("S")
      ->check(seconds_validator());
  app.add_option("--kill-grace", raw.kill_grace_s,
                 "Seconds from asking the ranks to end (SIGTERM) to killing them. Default: 5.")
      ->type_name("S")
      ->check(seconds_validator());
}

void add_output_options(CLI::App& app, Raw& raw) {
  app.add_flag("-l,--tag-output", raw.tag,
               "Begin each output line with [rank]<stdout>: or <stderr>. The default.");
  app.add_flag("--no-tag-output", raw.no_tag, "Do not tag output lines.");
  app.add_flag("--timestamp-output,--prefix-timestamp", raw.timestamp,
               "Begin each output line with the time at which it arrived.");
  app.add_option("--output-filename,--log-dir", raw.output_directory,
                 "Write each rank's output, untagged, to DIR/rank.N/stdout and stderr as well.")
      ->type_name("DIR");
}

void add_engine_options(CLI::App& app, Raw& raw) {
  app.add_option("--transport", raw.transport, "Sets RONDEL_TRANSPORT for the ranks.")->type_name("NAME");
  app.add_option("--net", raw.net, "Sets RONDEL_NET for the ranks.")->type_name("LIST");
  app.add_option("--algorithm", raw.algorithm, "Sets RONDEL_ALGORITHM for the ranks.")->type_name("NAME");
}

void add_information_options(CLI::App& app, Raw& raw) {
  app.add_flag("--dry-run", raw.dry_run, "Show what would be started, and start nothing.");
  app.add_flag("--json", raw.json, "With --dry-run: as JSON.");
  app.add_flag("-v,--verbose", raw.verbose, "Say what the launcher does.");
  app.add_flag("--check-build,--cb", raw.check_build, "Show which transports are built and usable here.");
  app.add_flag("--help-config", raw.help_config, "List the environment variables that Rondel reads.");
  app.add_flag("-V,--version", raw.version, "Show the version.");
  app.add_flag("-h,--help", raw.help, "Show this text.");
}

void add_foreign_options(CLI::App& app, Raw& raw) {
  app.add_option("-H,--hosts,--host,--hostfile,--machinefile", raw.hosts,
                 "Remote hosts are not in this version yet: refused.")
      ->type_name("...")
      ->check(
          refused("remote hosts are not in this version yet; leave it out to start all ranks on this host"));
  app.add_option("--mca", raw.mca, "Accepted for mpirun command lines; warned of, without effect.")
      ->type_name("KEY VALUE");
  app.add_option("--bind-to", raw.bind_to, "Accepted with none: ranks are never bound to cores.")
      ->type_name("none")
      ->check(only("none", "ranks have the launcher's own core affinity"));
  app.add_option("--map-by", raw.map_by, "Accepted with slot: ranks fill a host before the next one.")
      ->type_name("slot")
      ->check(only("slot", "other mappings are not in this version"));
  app.add_flag("--allow-run-as-root", raw.root, "Accepted, without effect.");
}

void add_all(CLI::App& app, Raw& raw) {
  app.set_help_flag();  // ours is an option like the others
  add_job_options(app, raw);
  add_output_options(app, raw);
  add_engine_options(app, raw);
  add_information_options(app, raw);
  add_foreign_options(app, raw);
  const auto hide = [&app](const char* name, bool& target) { app.add_flag(name, target)->group(""); };
  hide("--man-page", raw.man_page);
  hide("--man-page-config", raw.man_page_config);
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() <= 1) option->take_last();
}

std::vector<OptionSpelling> spellings_of(const CLI::App& app) {
  std::vector<OptionSpelling> spellings;
  for (const CLI::Option* option : app.get_options()) {
    const bool flag = option->get_items_expected_max() == 0;
    const std::string& first = option->get_lnames().front();
    const int values = flag ? 0 : first == "mca" ? 2 : 1;
    for (const std::string& name : option->get_lnames()) spellings.push_back({name, name, values});
    for (const std::string& name : option->get_snames()) spellings.push_back({name, first, values});
  }
  return spellings;
}

std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000.0));
}

Action action_of(const Raw& raw) {
  if (raw.help) return Action::help;
  if (raw.version) return Action::version;
  if (raw.help_config) return Action::help_config;
  if (raw.check_build) return Action::check_build;
  if (raw.man_page) return Action::man_page;
  if (raw.man_page_config) return Action::man_page_config;
  return raw.dry_run ? Action::dry_run : Action::run;
}

Status set_stdin(const std::string& choice, Options& options) {
  options.stdin_rank.reset();
  if (choice == "none") return {};
  Rank rank = kNoRank;
  if (!CLI::detail::lexical_cast(choice, rank) || rank < 0 || rank >= options.ranks)
    return Status(Code::invalid_argument,
                  fmt::format("--stdin: found \"{}\", expected none or a rank from 0 to {}", choice,
                              options.ranks - 1));
  options.stdin_rank = rank;
  return {};
}

/// Options that stand for a variable of the ranks; set once more by -x, the later word of the two counts.
void add_engine_variables(const CLI::App& app, const Raw& raw, Options& options) {
  const auto set = [&options](std::string_view name, const std::string& value) {
    if (!value.empty()) options.exports.push_back(fmt::format("{}={}", name, value));
  };
  set("RONDEL_TRANSPORT", raw.transport);
  set("RONDEL_NET", raw.net);
  set("RONDEL_ALGORITHM", raw.algorithm);
  if (app.count("--start-timeout") != 0)
    set("RONDEL_START_TIMEOUT_S", fmt::format("{}", raw.start_timeout_s));
}

Status complete_job(const CLI::App& app, const Raw& raw, Options& options) {
  if (options.program.empty())
    return Status(Code::invalid_argument, "no program to start",
                  "usage: rondelrun -np N program [arguments...]");
  const auto colon = std::find(options.program.begin(), options.program.end(), ":");
  if (options.program.end() - colon > 1 && (colon[1] == "-np" || colon[1] == "-n"))
    return Status(Code::invalid_argument,
                  "several programs in one job (\":\" as mpirun has it) are not in this version",
                  "start one program that looks at RANK");
  if (raw.ranks == 0)
    return Status(Code::invalid_argument, "the number of ranks is missing", "add -np N before the program");
  if (raw.json && !raw.dry_run) return Status(Code::invalid_argument, "--json goes with --dry-run only");
  if (raw.tag && raw.no_tag)
    return Status(Code::invalid_argument, "--tag-output and --no-tag-output contradict each other");
  RONDEL_TRY(set_stdin(raw.stdin_choice, options));
  add_engine_variables(app, raw, options);
  for (const std::string& pair : raw.mca)
    options.warnings.push_back(fmt::format(
        "--mca {} is an option of Open MPI and has no effect here; --transport and --net choose how "
        "ranks talk",
        pair));
  return {};
}

Options to_options(const Raw& raw, std::vector<std::string> program) {
  Options options;
  options.action = action_of(raw);
  options.ranks = raw.ranks;
  options.program = std::move(program);
  options.exports = raw.exports;
  options.only_exports = raw.only_exports;
  options.directory = raw.directory;
  options.tag_output = !raw.no_tag;
  options.timestamp_output = raw.timestamp;
  options.output_directory = raw.output_directory;
  if (raw.timeout_s > 0) options.timeout = to_milliseconds(raw.timeout_s);
  options.kill_grace = to_milliseconds(raw.kill_grace_s);
  options.json = raw.json;
  options.verbose = raw.verbose;
  return options;
}

}  // namespace

Result<Options> parse_options(std::span<const std::string> arguments) {
  Raw raw;
  CLI::App app;
  add_all(app, raw);
  auto normalised = normalise(arguments, spellings_of(app));
  if (!normalised.ok()) return std::move(normalised).status();
  try {
    // CLI11 takes its words last first.
    app.parse(std::vector<std::string>(normalised->options.rbegin(), normalised->options.rend()));
  } catch (const CLI::ParseError& error) {
    return Status(Code::invalid_argument, error.what());
  }
  Options options = to_options(raw, std::move(normalised->program));
  if (options.action == Action::run || options.action == Action::dry_run)
    RONDEL_TRY(complete_job(app, raw, options));
  return options;
}

std::vector<OptionRow> option_rows() {
  Raw raw;
  CLI::App app;
  add_all(app, raw);
  std::vector<OptionRow> rows;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    OptionRow row;
    for (const std::string& name : option->get_snames())
      row.names += (row.names.empty() ? "-" : ", -") + name;
    for (const std::string& name : option->get_lnames())
      row.names += (row.names.empty() ? "--" : ", --") + name;
    if (option->get_items_expected_max() != 0) row.value = option->get_type_name();
    row.text = option->get_description();
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string usage_text() {
  std::string text =
      "usage: rondelrun -np N [options] program [arguments...]\n\n"
      "Starts N ranks of a program on this host and ends them together. Options come before the program; "
      "long\n"
      "names may be written with one dash, as in -np.\n\n";
  for (const OptionRow& row : option_rows())
    text += fmt::format("  {}{}{}\n      {}\n", row.names, row.value.empty() ? "" : " ", row.value, row.text);
  text +=
      "\nExit status: 0 when all ranks ended with 0; else that of the first rank to fail, 128 + its signal; "
      "124 after\n"
      "--timeout; 255 when a rank could not be started; 2 for a wrong command line.\n";
  return text;
}

}  // namespace rondel
