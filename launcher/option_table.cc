// SPDX-License-Identifier: Apache-2.0
#include "launcher/option_table.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "launcher/binding.h"
#include "launcher/placement.h"

namespace rondel {
namespace {

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

CLI::Validator port_validator() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        Rank port = 0;
        if (CLI::detail::lexical_cast(text, port) && port >= 1 && port <= 65'535) return {};
        return fmt::format("found \"{}\", expected a port from 1 to 65535", text);
      },
      "");
}

CLI::Validator mapping_validator() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text == "slot" || text == "node" || parse_take_by(text)) return {};
        return fmt::format(
            "found \"{}\", expected slot (fill a host before the next one), node (one rank to each host in "
            "turn), or core, socket or numa (as slot; inside a host bound ranks take cores in that order)",
            text);
      },
      "");
}

CLI::Validator binding_validator() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (parse_bind_to(text)) return {};
        return fmt::format(
            "found \"{}\", expected core, hwthread, socket, numa or none, and :overload-allowed behind it "
            "where ranks may share",
            text);
      },
      "");
}

void add_host_options(CLI::App& app, RawOptions& raw) {
  app.add_option(
         "-H,--hosts,--host", raw.hosts,
         "The hosts that take the ranks, with commas between them: [user@]NAME[:SLOTS], where NAME may "
         "hold ranges as in n[01-16] or be an IPv6 address in brackets, and SLOTS is how many ranks the "
         "host takes (1 when left out). A host named again adds its slots. Default: the "
         "nodes of the Slurm allocation in which it is started, with as many slots as they have tasks; else "
         "this host, with as many slots as needed. Ranks of other hosts are started over ssh, which must get "
         "in without a "
         "password; the program, its directory and rondelrun are at the same places there.")
      ->type_name("LIST")
      ->allow_extra_args(false);  // else CLI11 takes the brackets off [::1]
  app.add_option(
         "-f,--hostfile,--machinefile", raw.host_file,
         "Read the hosts from FILE, one or a range a line: NAME slots=N or NAME:N, with user=NAME and "
         "port=N where ssh needs them; # begins a comment.")
      ->type_name("FILE");
  app.add_option("-N,--ppn,--npernode,--nproc-per-node", raw.per_host, "Start exactly N ranks on each host.")
      ->type_name("N")
      ->check(count_validator(1));
  app.add_option(
         "--map-by", raw.map_by,
         "Number the ranks by slot (a host is filled before the next one; the default) or by node (one "
         "rank to each host in turn). With core, socket or numa, as by slot; ranks that --bind-to binds take "
         "the cores of their host in that order: core by core, or one of each socket or NUMA node in turn.")
      ->type_name("slot|node|core|socket|numa")
      ->check(mapping_validator());
  app.add_flag("--oversubscribe", raw.oversubscribe,
               "Let hosts take more ranks than they have slots; the extra ones are spread over all hosts.");
}

void add_binding_option(CLI::App& app, RawOptions& raw) {
  app.add_option(
         "--bind-to", raw.bind_to,
         "Bind each rank, with all its threads, to a core of its own (core: all hardware threads of it), a "
         "hardware thread of its own (hwthread), or the socket or NUMA node of its core (socket, numa: one "
         "after the other takes a rank, unless --map-by says otherwise). Only processors count that the "
         "agent of the host may use itself: its cpuset and its affinity. More ranks than cores are refused, "
         "unless :overload-allowed stands behind the word. Other jobs on a host are not seen: two that bind "
         "take the same cores. Default: none, the ranks may use what the launcher may.")
      ->type_name("core|hwthread|socket|numa|none")
      ->check(binding_validator());
}

void add_ssh_options(CLI::App& app, RawOptions& raw) {
  app.add_option("-p,--ssh-port", raw.ssh_port,
                 "The port for ssh, for hosts without one of their own in the hostfile. Default: as ssh's "
                 "configuration says.")
      ->type_name("PORT")
      ->check(port_validator());
  app.add_option("-i,--ssh-identity-file", raw.identity_file, "The private key for ssh.")->type_name("FILE");
  app.add_option(
         "--ssh-arg", raw.ssh_arguments,
         "One more word for ssh, in front of ours, as in --ssh-arg=-oProxyJump=gate. Repeatable. Ours "
         "are BatchMode=yes, StrictHostKeyChecking=accept-new and time limits; ssh takes the first "
         "of two settings.")
      ->type_name("WORD")
      ->allow_extra_args(false);
  app.add_option(
         "--wait-for-hosts", raw.wait_s,
         "Try again for S seconds when the name of a host is not known yet or nothing answers ssh there. "
         "Default: a host that can not be reached ends the job at once.")
      ->type_name("S")
      ->check(seconds_validator());
  app.add_option("--remote-path", raw.remote_path,
                 "Where rondelrun, of this same version, is on the other hosts. Default: where it is here.")
      ->type_name("PATH");
}

void add_job_options(CLI::App& app, RawOptions& raw) {
  app.add_option("-n,--np,--num-proc", raw.ranks,
                 "Start N ranks. May be left out where -H, --hostfile or -N is given: then every slot takes "
                 "one, or each "
                 "host as many as -N says.")
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
  app.add_option(
         "--start-timeout", raw.start_timeout_s,
         "Name the missing ranks, with the last that they wrote to standard error, when some have "
         "joined the job and others have not shortly before S seconds are over, when the others give up. "
         "Sets RONDEL_START_TIMEOUT_S for the ranks.")
      ->type_name("S")
      ->check(seconds_validator());
  app.add_option("--kill-grace", raw.kill_grace_s,
                 "Seconds from asking the ranks to end (SIGTERM) to killing them. Default: 5.")
      ->type_name("S")
      ->check(seconds_validator());
}

void add_output_options(CLI::App& app, RawOptions& raw) {
  app.add_flag("-l,--tag-output", raw.tag,
               "Begin each output line with [rank]<stdout>: or <stderr>. The default.");
  app.add_flag("--no-tag-output", raw.no_tag, "Do not tag output lines.");
  app.add_flag("--timestamp-output,--prefix-timestamp", raw.timestamp,
               "Begin each output line with the time at which it arrived.");
  app.add_option(
         "--output-filename,--log-dir", raw.output_directory,
         "Write each rank's output, untagged, to files on this host as well: DIR/rank.N/stdout and stderr, "
         "or "
         "one file for both where the name is a pattern: %r is the rank, %R the rank with leading zeros, %h "
         "the host, %j the job, %% a percent sign. Folders are made.")
      ->type_name("DIR|PATTERN");
}

void add_engine_options(CLI::App& app, RawOptions& raw) {
  app.add_option("--transport", raw.transport, "Sets RONDEL_TRANSPORT for the ranks.")->type_name("NAME");
  app.add_option("--net", raw.net, "Sets RONDEL_NET for the ranks.")->type_name("LIST");
  app.add_option("--algorithm", raw.algorithm, "Sets RONDEL_ALGORITHM for the ranks.")->type_name("NAME");
}

void add_information_options(CLI::App& app, RawOptions& raw) {
  app.add_option(
         "--config-file", raw.config_file,
         "Read options from FILE, one a line as in \"np = 4\", before those of the command line, which "
         "override them; options that can be repeated add up. # begins a line of comment.")
      ->type_name("FILE");
  app.add_flag("--dry-run", raw.dry_run, "Show what would be started, and start nothing.");
  app.add_flag("--json", raw.json, "With --dry-run and with doctor: as JSON.");
  app.add_flag("-v,--verbose", raw.verbose, "Say what the launcher does.");
  app.add_flag("--check-build,--cb", raw.check_build, "Show which transports are built and usable here.");
  app.add_flag("--help-config", raw.help_config, "List the environment variables that Rondel reads.");
  app.add_flag("-V,--version", raw.version, "Show the version.");
  app.add_flag("-h,--help", raw.help, "Show this text.");
}

void add_foreign_options(CLI::App& app, RawOptions& raw) {
  app.add_option("--mca", raw.mca, "Accepted for mpirun command lines; warned of, without effect.")
      ->type_name("KEY VALUE");
  app.add_flag("--allow-run-as-root", raw.root, "Accepted, without effect.");
}

}  // namespace

void add_options(CLI::App& app, RawOptions& raw) {
  app.set_help_flag();  // ours is an option like the others
  add_job_options(app, raw);
  add_host_options(app, raw);
  add_binding_option(app, raw);
  add_ssh_options(app, raw);
  add_output_options(app, raw);
  add_engine_options(app, raw);
  add_information_options(app, raw);
  add_foreign_options(app, raw);
  const auto hide = [&app](const char* name, bool& target) { app.add_flag(name, target)->group(""); };
  hide("--man-page", raw.man_page);
  hide("--man-page-config", raw.man_page_config);
  hide("--bash-completion", raw.bash_completion);
  hide("--agent", raw.agent);
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() <= 1) option->take_last();
}

}  // namespace rondel
