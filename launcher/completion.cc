// SPDX-License-Identifier: Apache-2.0
#include "launcher/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "launcher/options.h"

namespace rondel {
namespace {

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  return parts;
}

/// What compgen offers for a value of that type; empty: nothing that could be guessed.
std::string words_for_value(const std::string& type) {
  if (type.starts_with("FILE") || type.starts_with("PATH")) return "-f";
  if (type.starts_with("DIR")) return "-d";
  if (type == "LIST") return "-A hostname";
  const bool is_choice =
      !type.empty() && type.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ[") == std::string::npos;
  if (!is_choice) return {};
  std::string words;
  for (const std::string& word : split(type, "|")) words += (words.empty() ? "" : " ") + word;
  return fmt::format("-W '{}'", words);
}

/// "-n|-np|--np": as a shell's case has it; long names may have one dash.
std::string pattern_of(const OptionRow& row) {
  std::string pattern;
  for (const std::string& name : split(row.names, ", ")) {
    if (!pattern.empty()) pattern += "|";
    pattern += name;
    if (name.starts_with("--")) pattern += "|" + name.substr(1);
  }
  return pattern;
}

constexpr std::string_view kScript = R"(# bash completion for rondelrun; made by rondelrun --bash-completion
_rondelrun() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} option='' left=0 i
  COMPREPLY=()
  [ "$current" != = ] || current=
  for ((i = 1; i < COMP_CWORD; i++)); do # bash cuts words at =
    if [ "${{COMP_WORDS[i]}}" = = ]; then
      left=1
      continue
    fi
    if ((left > 0)); then
      left=$((left - 1))
      continue
    fi
    option=${{COMP_WORDS[i]}}
    if ((i == 1)) && [ "$option" = {doctor} ]; then continue; fi
    case $option in
{with_value}      -*) left=0 ;;
      *) # the program: what follows is its own
        if declare -F _command_offset >/dev/null; then
          _command_offset "$i"
        else
          mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
        ;;
    esac
  done
  if ((left > 0)); then
    case $option in
{values}    esac
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{names}' -- "$current")
  else
    local first=''
    ((COMP_CWORD > 1)) || first={doctor}
    mapfile -t COMPREPLY < <(compgen -c -f -W "$first" -- "$current")
  fi
}}
complete -F _rondelrun rondelrun
)";

}  // namespace

std::string bash_completion() {
  std::string with_value, values, names;
  for (const OptionRow& row : option_rows()) {
    for (const std::string& name : split(row.names, ", ")) names += (names.empty() ? "" : " ") + name;
    if (row.value.empty()) continue;
    const int count = row.value.find(' ') == std::string::npos ? 1 : 2;
    with_value += fmt::format("      {}) left={} ;;\n", pattern_of(row), count);
    const std::string words = words_for_value(row.value);
    if (!words.empty())
      values += fmt::format("      {}) mapfile -t COMPREPLY < <(compgen {} -- \"$current\") ;;\n",
                            pattern_of(row), words);
  }
  return fmt::format(kScript, fmt::arg("with_value", with_value), fmt::arg("values", values),
                     fmt::arg("names", names), fmt::arg("doctor", kDoctorWord));
}

}  // namespace rondel
