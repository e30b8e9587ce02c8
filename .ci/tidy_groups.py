#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts sources that are compiled alike together, for clang-tidy: it reads the system's headers once for all of a group.

usage: tidy_groups.py BUILD_FOLDER GROUPS_FOLDER FILE...

Writes GROUPS_FOLDER/<name>.cc, each of which includes up to MOST of the files, and a compile_commands.json for them.
Prints a line for each group: the group's file and its members, with tabs between them. Files that BUILD_FOLDER does not compile are left out.
"""
import json
import os
import shlex
import sys

MOST = 8


def same_words(command, source):
    """The words of a compiler's command that would be the same for another source, its output left out."""
    words = shlex.split(command["command"])
    kept = []
    position = 0
    while position < len(words):
        if words[position] in ("-o", "-MF", "-MQ"):
            position += 2
            continue
        if words[position] != source and not words[position].endswith("/ccache") and words[position] != "ccache":
            kept.append(words[position])
        position += 1
    return tuple(kept)


def main(build, groups, files):
    wanted = {os.path.realpath(file): file for file in files}
    alike = {}
    for command in json.load(open(os.path.join(build, "compile_commands.json"))):
        path = os.path.realpath(os.path.join(command["directory"], command["file"]))
        if path in wanted:  # once, though several programs may compile it
            key = (os.path.dirname(path), same_words(command, command["file"]), command["directory"])
            alike.setdefault(key, []).append(wanted.pop(path))
    os.makedirs(groups, exist_ok=True)
    commands = []
    for (_, words, directory), members in sorted(alike.items()):
        for first in range(0, len(members), MOST):
            some = sorted(members)[first:first + MOST]
            group = os.path.join(os.path.realpath(groups), f"group{len(commands)}.cc")
            with open(group, "w") as text:
                text.writelines(f'#include "{os.path.realpath(file)}"\n' for file in some)
            commands.append({"directory": directory, "arguments": [*words, group], "file": group})
            print(group, *some, sep="\t")
    with open(os.path.join(groups, "compile_commands.json"), "w") as text:
        json.dump(commands, text)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
