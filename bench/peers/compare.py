#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets rondel-bench against its peers: the same float32 all-reduce sweep in place over loopback TCP, every program in
every round, the order rotated from round to round, so that a machine that changes its speed changes it for all.
Prints for each size the median over the rounds and how many times Rondel's time each peer needs (over 1: Rondel is
faster). Congestion control "default" is the system's; any other name is made the default of a private network
namespace for every program (needs root). Rondel itself chooses cubic on fast links where it may, so "raw-cubic" is its
bound in the default part."""

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
CURRENT = "/proc/sys/net/ipv4/tcp_congestion_control"
SKIPPED = 77
MOST_SECONDS = 300  # for one sweep of one program
IN_NAMESPACE = f'ip link set lo up && echo "$1" >{CURRENT} && shift && exec "$@"'


class Skip(Exception):
    """A contender that cannot run here, and why."""


class Contender:
    def __init__(self, name, command, environment=None):
        self.name, self.command, self.environment = name, command, environment or {}

    def sweep(self, prefix):
        """Runs once; returns {bytes: median in microseconds}."""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            command = [word.replace("{report}", report) for word in self.command]
            try:
                done = subprocess.run(prefix + command, env={**os.environ, **self.environment}, text=True,
                                      capture_output=True, timeout=MOST_SECONDS, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Skip(str(error)) from error
            if done.returncode != 0:
                words = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
                raise Skip(f"exit code {done.returncode}: {' | '.join(words)}")
            return read_report(report) if os.path.exists(report) else read_lines(done.stdout)


def read_report(path):
    with open(path, encoding="utf-8") as file:
        return {row["size_bytes"]: row["in_place"]["median_us"] for row in json.load(file)["results"]}


def read_lines(text):
    rows = [line.split() for line in text.splitlines() if re.match(r"\d", line)]
    return {int(row[0]): float(row[2]) for row in rows}


def contenders_over_memory(options, ranks):
    build = os.path.abspath(options.build)
    peers = os.path.join(build, "bench", "peers")
    sweep = ["-b", options.b, "-e", options.e, "-f", str(options.f)]
    few_cores = ranks > os.cpu_count()
    bench = [os.path.join(build, "launcher", "rondelrun"), "-np", str(ranks),
             os.path.join(build, "bench", "rondel-bench"), "allreduce", *sweep, "-J", "{report}"]
    shm = {"RONDEL_TRANSPORT": "shm"}
    return [
        Contender("rondel", bench, shm),
        Contender("rondel-plain", [*bench, "--memory", "plain"], shm),
        Contender("bound", [os.path.join(peers, "memory_bound"), "-np", str(ranks), *sweep]),
        Contender("openmpi", ["mpirun.openmpi", "-np", str(ranks), *(["--oversubscribe"] if few_cores else []), "--mca",
                              "pml", "ob1", "--mca", "btl", "vader,self",
                              os.path.join(peers, "mpi_allreduce.openmpi"), *sweep],
                  {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}),
        Contender("mpich", ["mpirun.mpich", "-np", str(ranks), os.path.join(peers, "mpi_allreduce.mpich"), *sweep])]


def contenders_for(options, ranks, congestion):
    found = contenders_over_memory(options, ranks) if options.fabric == "shm" else \
        contenders_over_tcp(options, ranks, congestion)
    return [c for c in found if not options.only or c.name in options.only or c.name == "rondel"]


def contenders_over_tcp(options, ranks, congestion):
    build = os.path.abspath(options.build)
    peers = os.path.join(build, "bench", "peers")
    here = os.path.dirname(os.path.abspath(__file__))
    sweep = ["-b", options.b, "-e", options.e, "-f", str(options.f)]
    few_cores = ranks > os.cpu_count()
    found = [Contender("rondel", [os.path.join(build, "launcher", "rondelrun"), "-np", str(ranks),
                                  os.path.join(build, "bench", "rondel-bench"), "allreduce", *sweep, "-J", "{report}"],
                       {"RONDEL_TRANSPORT": "tcp"})]
    if ranks == 2:
        raw = os.path.join(peers, "raw_exchange")
        found.append(Contender("raw", [raw, *sweep]))
        if congestion == "default":
            found.append(Contender("raw-cubic", [raw, *sweep, "--congestion", "cubic"]))
    found.append(Contender("openmpi", [
        "mpirun.openmpi", "-np", str(ranks), *(["--oversubscribe"] if few_cores else []), "--mca", "pml", "ob1", "--mca",
        "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", os.path.join(peers, "mpi_allreduce.openmpi"), *sweep],
        {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}))
    found.append(Contender("mpich", ["mpirun.mpich", "-np", str(ranks), os.path.join(peers, "mpi_allreduce.mpich"), *sweep],
                           {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "MPIR_CVAR_NOLOCAL": "1"}))
    found.append(Contender("gloo", ["/usr/bin/python3", os.path.join(here, "torch_gloo.py"), "-np", str(ranks), *sweep]))
    return found


def why_left_out(contender, ranks):
    if contender.name == "mpich" and ranks > os.cpu_count():
        return "it spins without yielding when ranks outnumber cores, and does not end in useful time"
    if shutil.which(contender.command[0]) is None:
        return f"{contender.command[0]} is not there (meson configure build -Dpeers=enabled && ninja -C build)"
    return None


@contextlib.contextmanager
def allowed_in_namespaces(name):
    """Lets network namespaces take `name` as their default. The system's own default is left alone; the list of allowed
    names is put back by a process of its own once this one ends, in whatever way that happens."""
    with open(ALLOWED, encoding="ascii") as file:
        before = file.read().strip()
    if name in before.split():
        yield
        return
    keeper = subprocess.Popen(["sh", "-c", 'read -r _; echo "$1" >"$2"', "sh", before, ALLOWED],
                              stdin=subprocess.PIPE, start_new_session=True)
    try:
        with open(ALLOWED, "w", encoding="ascii") as file:
            file.write(f"{before} {name}")
        yield
    finally:
        keeper.stdin.close()
        keeper.wait()


@contextlib.contextmanager
def prefix_for(congestion):
    """The words to put before a command so that it runs under `congestion`."""
    if congestion == "default":
        yield []
        return
    with allowed_in_namespaces(congestion):
        prefix = ["unshare", "-n", "sh", "-c", IN_NAMESPACE, "sh", congestion]
        subprocess.run([*prefix, "true"], check=True, capture_output=True)
        yield prefix


def say(text):
    print(text, flush=True)


def compare(options, ranks, congestion, trip=lambda: None):
    contenders = []
    for contender in contenders_for(options, ranks, congestion):
        reason = why_left_out(contender, ranks)
        if reason:
            say(f"# SKIPPED {contender.name}: {reason}")
        else:
            contenders.append(contender)
    samples = {contender.name: [] for contender in contenders}
    with prefix_for(congestion) as prefix:
        for number in range(options.rounds):
            turn = number % len(contenders) if contenders else 0
            for contender in contenders[turn:] + contenders[:turn]:
                if contender.name not in samples:
                    continue
                try:
                    before = trip()
                    swept = contender.sweep(prefix)
                    samples[contender.name].append((swept, before, trip()))
                except Skip as reason:
                    say(f"# SKIPPED {contender.name}: {reason}")
                    del samples[contender.name]
    return samples


def flag_trip(options, ranks):
    """A function that tells how many nanoseconds two processors need to see each other's flags, where that matters."""
    program = os.path.join(os.path.abspath(options.build), "bench", "peers", "flag_trip")

    def measure():
        done = subprocess.run([program], text=True, capture_output=True, timeout=MOST_SECONDS, check=False)
        return int(done.stdout) if done.returncode == 0 else None

    known = ranks == 2 and os.cpu_count() == 2  # else nobody knows on which two the ranks are
    return measure if options.fabric == "shm" and known and os.path.exists(program) else lambda: None


def trips_of(samples):
    return sorted(ns for rows in samples.values() for _, *around in rows for ns in around if ns)


def far_from(samples):
    """Trips from here on are of another placement: at the widest gap between two that both sides have two of. None where
    no gap is as wide as a factor of 1.8."""
    trips = trips_of(samples)
    gaps = [(trips[i] / trips[i - 1], trips[i]) for i in range(2, len(trips) - 1)]
    ratio, limit = max(gaps, default=(0, None))
    return limit if ratio >= 1.8 else None


def by_placement(samples):
    """{where the processors were: {contender: {bytes: [median in microseconds]}}}. A machine that moves its processors
    has more than one place; sweeps during which they moved are left out."""
    limit = far_from(samples)

    def place_of(around):
        if not limit:
            return ""
        if None in around:  # something else ran on one of the processors
            return None
        return {0: "near", 2: "far"}.get(sum(ns >= limit for ns in around))

    places = {}
    for name, rows in samples.items():
        for swept, *around in rows:
            place = place_of(around)
            if place is None:
                continue
            times = places.setdefault(place, {other: {} for other in samples})
            for size, median_us in swept.items():
                times[name].setdefault(size, []).append(median_us)
    compared = {place for place, times in places.items() if times.get("rondel")}
    return {place: times for place, times in sorted(places.items(), reverse=True) if place in compared or not compared}


def describe_place(place, samples, times):
    trips = trips_of(samples)
    if not place:
        return f" ({statistics.median(trips):.0f} ns from flag to flag)" if trips else ""
    here = [ns for ns in trips if (ns >= far_from(samples)) == (place == "far")]
    rounds = [len(next(iter(rows.values()), [])) for rows in times.values()]
    return f", processors {place} ({statistics.median(here):.0f} ns from flag to flag; {min(rounds)} to {max(rounds)} rounds)"


def print_table(ranks, congestion, times, rounds, where=""):
    say(f"\n# {ranks} ranks, congestion control {congestion}, {rounds} rounds, load {os.getloadavg()[0]:.2f}{where}; "
        "microseconds, and how many times Rondel's time")
    ours = times.get("rondel", {})
    peers = [name for name in times if name != "rondel"]
    say(f"{'bytes':>10} {'rondel':>10}" + "".join(f" {name:>18}" for name in peers))
    for size in sorted({size for rows in times.values() for size in rows}):
        mine = statistics.median(ours[size]) if size in ours else None
        line = f"{size:>10} {mine:>10.{digits(mine)}f}" if mine else f"{size:>10} {'-':>10}"
        for name in peers:
            theirs = statistics.median(times[name][size]) if size in times[name] else None
            ratio = f"({theirs / mine:.2f})" if theirs and mine else ""
            line += f" {theirs:>10.{digits(theirs)}f} {ratio:>7}" if theirs else f" {'-':>10} {'':>7}"
        say(line)


def digits(microseconds):
    return 2 if microseconds < 10 else 1


def environment_facts():
    with open(CURRENT, encoding="ascii") as file:
        congestion = file.read().strip()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = re.findall(r"model name\s*: (.*)", file.read())
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "kernel": platform.release(), "processor": names[0] if names else platform.machine(),
            "cores": os.cpu_count(), "load_average": os.getloadavg(), "tcp_congestion_control": congestion}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="Meson's build folder, set up with -Dpeers=enabled")
    parser.add_argument("-np", type=int, nargs="+", default=[2, 4], help="numbers of ranks")
    parser.add_argument("--fabric", choices=["tcp", "shm"], default="tcp",
                        help="shm: shared memory of one machine, Rondel with arena and with plain buffers")
    parser.add_argument("--congestion", nargs="+", default=["default", "cubic"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="peers to run, where they can",
                        choices=["raw", "raw-cubic", "rondel-plain", "bound", "openmpi", "mpich", "gloo"])
    parser.add_argument("-b", default="4")
    parser.add_argument("-e", default="64M")
    parser.add_argument("-f", type=int, default=4)
    parser.add_argument("-J", help="write every round's medians to this new file")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds needs at least 1")
    return options


def main():
    options = parse()
    report = open(options.J, "x", encoding="utf-8") if options.J else None
    facts = environment_facts()
    say("# " + json.dumps(facts))
    parts = []
    for congestion in options.congestion if options.fabric == "tcp" else ["default"]:
        for ranks in options.np:
            try:
                samples = compare(options, ranks, congestion, flag_trip(options, ranks))
            except (OSError, subprocess.CalledProcessError) as error:
                say(f"# SKIPPED congestion control {congestion}: {error}; it needs root and the kernel's tcp_{congestion}")
                break
            for place, times in by_placement(samples).items():
                print_table(ranks, congestion, times, options.rounds, describe_place(place, samples, times))
                parts.append({"ranks": ranks, "congestion": congestion, "placement": place, "median_us_by_round": times})
    if report:
        with report:
            json.dump({"format": "rondel-compare 1", "environment": facts, "parts": parts}, report, indent=1)
            report.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
