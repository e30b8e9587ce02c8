// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "launcher/host_list.h"
#include "launcher/normalise.h"
#include "launcher/option_table.h"
#include "launcher/output_path.h"
#include "launcher/visible_text.h"

namespace rondel {
namespace {

std::vector<OptionSpelling> spellings_of(const CLI::App& app) {
  std::vector<OptionSpelling> spellings;
  for (const CLI::Option* option : app.get_options()) {
    const bool flag = option->get_items_expected_max() == 0;
    const std::string& first = option->get_lnames().front();
    const int values = flag ? 0 : first == "mca" ? 2 : 1;
    const bool hidden = option->get_group().empty();
    for (const std::string& name : option->get_lnames()) spellings.push_back({name, name, values, hidden});
    for (const std::string& name : option->get_snames()) spellings.push_back({name, first, values, hidden});
  }
  return spellings;
}

std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000.0));
}

Action action_of(const RawOptions& raw) {
  if (raw.help) return Action::help;
  if (raw.version) return Action::version;
  if (raw.help_config) return Action::help_config;
  if (raw.check_build) return Action::check_build;
  if (raw.man_page) return Action::man_page;
  if (raw.man_page_config) return Action::man_page_config;
  if (raw.bash_completion) return Action::bash_completion;
  if (raw.agent) return Action::agent;
  return raw.dry_run ? Action::dry_run : Action::run;
}

/// Whether the job has that rank is known when the ranks are placed.
Status set_stdin(const std::string& choice, Options& options) {
  options.stdin_rank.reset();
  if (choice == "none") return {};
  Rank rank = kNoRank;
  if (!CLI::detail::lexical_cast(choice, rank) || rank < 0)
    return Status(Code::invalid_argument,
                  fmt::format("--stdin: found \"{}\", expected none or a rank, from 0", choice));
  options.stdin_rank = rank;
  return {};
}

/// Several -H are one list.
Status set_hosts(const RawOptions& raw, Options& options) {
  if (!raw.hosts.empty() && !raw.host_file.empty())
    return Status(Code::invalid_argument, "-H and --hostfile are both given", "name the hosts in one place");
  if (raw.hosts.empty()) return {};
  std::string list;
  for (const std::string& part : raw.hosts) list += (list.empty() ? "" : ",") + part;
  auto hosts = parse_host_list(list);
  if (!hosts.ok()) return std::move(hosts).status().with("-H");
  options.hosts = *std::move(hosts);
  return {};
}

/// Options that stand for a variable of the ranks; set once more by -x, the later word of the two counts.
void add_engine_variables(const CLI::App& app, const RawOptions& raw, Options& options) {
  const auto set = [&options](std::string_view name, const std::string& value) {
    if (!value.empty()) options.exports.push_back(fmt::format("{}={}", name, value));
  };
  set("RONDEL_TRANSPORT", raw.transport);
  set("RONDEL_NET", raw.net);
  set("RONDEL_ALGORITHM", raw.algorithm);
  if (app.count("--start-timeout") != 0)
    set("RONDEL_START_TIMEOUT_S", fmt::format("{}", raw.start_timeout_s));
}

/// What an examination needs of a job's options: it takes all of them.
Status complete_doctor(const CLI::App& app, const RawOptions& raw, Options& options) {
  options.action = Action::doctor;
  RONDEL_TRY(set_hosts(raw, options));
  add_engine_variables(app, raw, options);
  return {};
}

Status complete_job(const CLI::App& app, const RawOptions& raw, Options& options) {
  if (options.program.empty())
    return Status(Code::invalid_argument, "no program to start",
                  "usage: rondelrun -np N program [arguments...]");
  const auto colon = std::find(options.program.begin(), options.program.end(), ":");
  if (options.program.end() - colon > 1 && (colon[1] == "-np" || colon[1] == "-n"))
    return Status(Code::invalid_argument,
                  "several programs in one job (\":\" as mpirun has it) are not in this version",
                  "start one program that looks at RANK");
  RONDEL_TRY(set_hosts(raw, options));
  if (raw.json && !raw.dry_run)
    return Status(Code::invalid_argument, "--json goes with --dry-run and with doctor only");
  if (raw.tag && raw.no_tag)
    return Status(Code::invalid_argument, "--tag-output and --no-tag-output contradict each other");
  RONDEL_TRY(set_stdin(raw.stdin_choice, options));
  RONDEL_TRY(check_output_pattern(raw.output_directory));
  add_engine_variables(app, raw, options);
  if (options.binding.to == BindTo::none && options.binding.by != TakeBy::target)
    options.warnings.push_back(
        fmt::format("--map-by {} has no effect on ranks that are not bound; add --bind-to", raw.map_by));
  for (const std::string& pair : raw.mca)
    options.warnings.push_back(fmt::format(
        "--mca {} is an option of Open MPI and has no effect here; --transport and --net choose how "
        "ranks talk",
        pair));
  return {};
}

Options to_options(const RawOptions& raw, std::vector<std::string> program) {
  Options options;
  options.action = action_of(raw);
  options.ranks = raw.ranks;
  options.host_file = raw.host_file;
  options.per_host = raw.per_host;
  options.map_by = raw.map_by == "node" ? MapBy::node : MapBy::slot;
  options.binding = parse_bind_to(raw.bind_to).value_or(BindingRules{});
  options.binding.by = parse_take_by(raw.map_by).value_or(TakeBy::target);
  options.oversubscribe = raw.oversubscribe;
  options.program = std::move(program);
  options.exports = raw.exports;
  options.only_exports = raw.only_exports;
  options.directory = raw.directory;
  options.tag_output = !raw.no_tag;
  options.timestamp_output = raw.timestamp;
  options.output_directory = raw.output_directory;
  if (raw.timeout_s > 0) options.timeout = to_milliseconds(raw.timeout_s);
  options.kill_grace = to_milliseconds(raw.kill_grace_s);
  options.ssh = {.port = raw.ssh_port,
                 .identity_file = raw.identity_file,
                 .arguments = raw.ssh_arguments,
                 .wait = to_milliseconds(raw.wait_s),
                 .remote_path = raw.remote_path};
  options.json = raw.json;
  options.verbose = raw.verbose;
  return options;
}

constexpr std::string_view kConfigFile = "--config-file";

Status parse_words(CLI::App& app, const std::vector<std::string>& words) {
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes its words last first
  } catch (const CLI::ParseError& error) {
    return Status(Code::invalid_argument, error.what());
  }
  return {};
}

/// One line of a configuration file as a checked option word.
Result<std::string> option_of(const Setting& setting) {
  RawOptions raw;
  CLI::App app;
  add_options(app, raw);
  auto normalised = normalise(setting.words, spellings_of(app));
  if (!normalised.ok()) return std::move(normalised).status().with(setting.where);
  const auto& options = normalised->options;
  if (options.size() != 1) return Status(Code::invalid_argument, setting.where + ": no option begins so");
  if (!normalised->program.empty())
    return Status(Code::invalid_argument,
                  fmt::format("{}: option {} takes no value", setting.where, options.front()));
  if (options.front().starts_with(kConfigFile))
    return Status(Code::invalid_argument, setting.where + ": no further file can be named here");
  Status parsed = parse_words(app, options);
  if (!parsed.ok()) return std::move(parsed).with(setting.where);
  return options.front();
}

Result<std::string> named_config_file(std::span<const std::string> arguments) {
  if (asks_doctor(arguments)) arguments = arguments.subspan(1);
  RawOptions raw;
  CLI::App app;
  add_options(app, raw);
  const auto normalised = normalise(arguments, spellings_of(app));
  if (!normalised.ok()) return normalised.status();
  const std::string start = std::string(kConfigFile) + "=";
  std::string path;
  for (const std::string& option : normalised->options)
    if (option.starts_with(start)) path = option.substr(start.size());
  return path;
}

Result<Options> read_options(std::span<const std::string> arguments, std::span<const Setting> settings) {
  std::vector<std::string> words;
  for (const Setting& setting : settings) {
    auto word = option_of(setting);
    if (!word.ok()) return std::move(word).status();
    words.push_back(*std::move(word));
  }
  const bool doctor = asks_doctor(arguments);
  if (doctor) arguments = arguments.subspan(1);
  RawOptions raw;
  CLI::App app;
  add_options(app, raw);
  auto normalised = normalise(arguments, spellings_of(app));
  if (!normalised.ok()) return std::move(normalised).status();
  words.insert(words.end(), normalised->options.begin(), normalised->options.end());
  RONDEL_TRY(parse_words(app, words));
  Options options = to_options(raw, std::move(normalised->program));
  const bool job = options.action == Action::run || options.action == Action::dry_run;
  if (job) RONDEL_TRY(doctor ? complete_doctor(app, raw, options) : complete_job(app, raw, options));
  return options;
}

/// Words of a command line may be long and hold anything; what is said of them is short, and one line.
Status fit_for_a_terminal(const Status& wrong) {
  constexpr std::size_t kMost = 600;
  const auto fit = [](const std::string& text) {
    return text.size() <= kMost ? one_line(text) : one_line(std::string_view(text).substr(0, kMost)) + "...";
  };
  return Status(wrong.code(), fit(wrong.failure().cause), fit(wrong.failure().hint));
}

}  // namespace

bool asks_doctor(std::span<const std::string> arguments) {
  return !arguments.empty() && arguments.front() == kDoctorWord;
}

Result<std::string> config_file_in(std::span<const std::string> arguments) {
  auto path = named_config_file(arguments);
  if (path.ok()) return path;
  return fit_for_a_terminal(path.status());
}

Result<Options> parse_options(std::span<const std::string> arguments, std::span<const Setting> settings) {
  auto options = read_options(arguments, settings);
  if (options.ok()) return options;
  return fit_for_a_terminal(options.status());
}

std::vector<OptionRow> option_rows() {
  RawOptions raw;
  CLI::App app;
  add_options(app, raw);
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
      "usage: rondelrun -np N [options] program [arguments...]\n"
      "       rondelrun doctor [options] [program [arguments...]]\n\n"
      "Starts N ranks of a program and ends them together. Options come before the program; "
      "long\n"
      "names may be written with one dash, as in -np. With doctor as its first word nothing is started: the "
      "hosts\nare examined, one page says what would hinder a job and how that is mended, and the exit "
      "status "
      "is 1 if\nanything would.\n\n";
  for (const OptionRow& row : option_rows())
    text += fmt::format("  {}{}{}\n      {}\n", row.names, row.value.empty() ? "" : " ", row.value, row.text);
  text +=
      "\nExit status: 0 when all ranks ended with 0; else that of the first rank to fail, 128 + its signal; "
      "124 after\n"
      "--timeout; 255 when a rank could not be started or a host was lost; 2 for a wrong command line; 141 "
      "when nobody\nreads the output any more.\n";
  return text;
}

}  // namespace rondel
