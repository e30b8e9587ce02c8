// SPDX-License-Identifier: Apache-2.0
#include "launcher/man_page.h"

#include <fmt/format.h>

#include <string_view>

#include "launcher/environment.h"
#include "launcher/options.h"
#include "lib/config.h"

namespace rondel {
namespace {

/// Text for roff: no line begins a request, dashes stay dashes.
std::string escaped(std::string_view text) {
  std::string out;
  if (!text.empty() && (text.front() == '.' || text.front() == '\'')) out += "\\&";
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string heading(std::string_view name, int section, const std::string& version,
                    std::string_view purpose) {
  return fmt::format(".TH \"{}\" {} \"\" \"Rondel {}\" \"Rondel\"\n.SH NAME\n{} \\- {}\n", name, section,
                     version, escaped(name), escaped(purpose));
}

std::string entry(std::string_view term, std::string_view text) {
  return fmt::format(".TP\n.B {}\n{}\n", escaped(term), escaped(text));
}

constexpr std::string_view kDescription =
    "Starts N processes (ranks) of a program, on this host or on several, and tells each of them its "
    "rank, the number of ranks and where to meet the others. Whole lines of their output appear on the "
    "launcher's own standard output and error, each tagged with rank and stream. When a rank fails, "
    "when the launcher gets SIGINT, SIGTERM, SIGHUP or SIGQUIT, or when \\-\\-timeout passes, all "
    "ranks and whatever they started get SIGTERM and, after \\-\\-kill\\-grace, SIGKILL; a second "
    "signal kills at once. SIGUSR1 and SIGUSR2 are passed on. Even if the launcher, an ssh or the "
    "network between hosts is gone, nothing of the job is left behind.\n.PP\nOptions come before the "
    "program. Long names may be written with one or two dashes.";

constexpr std::string_view kOtherHosts =
    "Ranks of other hosts are started through the user's own ssh, with the user's configuration. It "
    "must get in without asking anything. Unknown host keys are accepted and kept, changed ones are "
    "refused. Each host needs this version of rondelrun at the same path, or the one that "
    "\\-\\-remote\\-path gives, and the program and the working directory at the same paths. No rank "
    "starts before every host has answered. Hosts must be able to connect to one another and to this "
    "one, on any port; \\-\\-net chooses among several networks. A host that says nothing for "
    "RONDEL_SILENCE_TIMEOUT_S is lost, and the job ends.\n.PP\nRanks there have this host's "
    "environment, byte for byte, except for what describes a host or a login: HOME, USER, LOGNAME, "
    "SHELL, MAIL, HOSTNAME, TMPDIR, DISPLAY, KRB5CCNAME, SSH_*, XDG_* and the like are the other "
    "host's own, unless \\-x names them. PATH is this host's, and finds the program.";

constexpr std::string_view kDoctor =
    "With \\fBdoctor\\fR as its first word rondelrun starts no job, but looks at the hosts that one would "
    "run "
    "on, in the same way and with the same options; without any, at this host. Each host says what it is "
    "like: version, cores and the limit of its control group, memory, /dev/shm, open files, memory that may "
    "be locked, network interfaces, RDMA devices and GPUs, usable transports, how its own name is resolved, "
    "and its clock. Then each tries to connect to each other, at every address that \\-\\-net admits, on "
    "ports "
    "of RONDEL_PORTS when that is set, and to this host; and pairs of hosts, one after the other, measure "
    "round trip and bandwidth. Where there are more pairs than half a minute is enough for, some are left "
    "out.\n.PP\nOne page, or with \\-\\-json an object, says what was found, what is wrong and how it is "
    "mended: an error would keep a job from starting or from running, a warning would not. A way that only "
    "ranks in another order would take is a warning: of two ranks the smaller connects. A host that can "
    "not be examined keeps no other from being. A program may follow, and is not started: it becomes part of "
    "the "
    "command to go on with. (A program that is itself called doctor is started with an option in front of "
    "it.)";

constexpr std::string_view kExitStatus =
    "0 when every rank ended with 0; otherwise that of the first rank to fail, or 128 plus the number "
    "of the signal that ended it. 128 plus a signal's number when the launcher was stopped by it, 124 "
    "after \\-\\-timeout, 255 when a rank could not be started or a host was lost, 2 for a wrong "
    "command line, 1 when output could not be written although all ranks ended with 0, 141 when nobody reads "
    "it any more. Of doctor: 0 when it found no error, 1 when it found one, 128 plus a signal's number when "
    "it was stopped, 2 for a wrong command line.";

constexpr std::string_view kExamples =
    ".nf\nrondelrun \\-np 4 ./train\nrondelrun \\-np 2 \\-x OMP_NUM_THREADS=1 python3 train.py \\-\\-epochs "
    "3\n"
    "rondelrun \\-np 8 \\-\\-output\\-filename logs \\-\\-timeout 3600 ./train\n"
    "rondelrun \\-np 8 \\-H node1:4,me@node2:4 \\-\\-ssh\\-arg=\\-oProxyJump=gate ./train\n"
    "rondelrun doctor \\-H node1:4,node2:4\n"
    "rondelrun \\-np 16 \\-\\-hostfile nodes \\-\\-map\\-by node \\-\\-dry\\-run ./train\n.fi";

}  // namespace

std::string launcher_man_page(const std::string& version) {
  std::string page = heading("rondelrun", 1, version, "start the ranks of a job and end them together");
  page +=
      ".SH SYNOPSIS\n.B rondelrun\n\\-np N [options] program [arguments...]\n.br\n.B rondelrun "
      "doctor\n[options] [program [arguments...]]\n";
  page += fmt::format(".SH DESCRIPTION\n{}\n.SH OPTIONS\n", kDescription);
  for (const OptionRow& row : option_rows())
    page += entry(row.value.empty() ? row.names : row.names + " " + row.value, row.text);
  page += fmt::format(".SH OTHER HOSTS\n{}\n", kOtherHosts);
  page += fmt::format(".SH DOCTOR\n{}\n", kDoctor);
  page += ".SH ENVIRONMENT\nEach rank receives:\n";
  for (const RankVariable& variable : rank_variables()) page += entry(variable.name, variable.text);
  page += fmt::format(
      ".SH EXIT STATUS\n{}\n.SH EXAMPLES\n{}\n.SH SEE ALSO\n.BR rondel\\-config (7),\n.BR rondel\\-bench "
      "(1)\n",
      kExitStatus, kExamples);
  return page;
}

std::string config_man_page(const std::string& version) {
  std::string page = heading("rondel-config", 7, version, "environment variables that Rondel reads");
  page +=
      ".SH DESCRIPTION\nA value that cannot be understood is an error, an unknown RONDEL_ variable a "
      "warning. An empty "
      "value counts as unset.\n.SH VARIABLES\n";
  for (const ConfigOption& option : config_options()) {
    const std::string alias = option.alias.empty() ? "" : fmt::format(" If unset, {} is read.", option.alias);
    page += entry(option.name, fmt::format("{}{} Unit: {}. Default: {}.", option.text, alias, option.unit,
                                           option.default_value));
  }
  page += ".SH SEE ALSO\n.BR rondelrun (1)\n";
  return page;
}

}  // namespace rondel
