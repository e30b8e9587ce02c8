#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Times torch.distributed.all_reduce with gloo (float32, sum, in place, TCP over loopback) over the sweep that sweep.h
defines. Starts its own ranks. The time of an iteration is the slowest rank's; results are checked once for each size.
Exit code 77, with the reason, when torch or its gloo is missing."""

import argparse
import datetime
import os
import statistics
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
MOST_SECONDS = 0.5  # for each size: with more ranks than cores gloo takes milliseconds even for 4 bytes


def parse_size(text):
    shifts = {"K": 10, "M": 20, "G": 30}
    if text[-1:].upper() in shifts:
        return int(text[:-1]) << shifts[text[-1].upper()]
    return int(text)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-np", type=int, default=2, help="ranks")
    parser.add_argument("-b", type=parse_size, default=4, help="first size in bytes, 64M style")
    parser.add_argument("-e", type=parse_size, default=64 << 20, help="last size")
    parser.add_argument("-f", type=int, default=4, help="factor between sizes")
    parser.add_argument("-n", type=int, default=0, help="iterations; by size when not given")
    parser.add_argument("-w", type=int, default=-1, help="warm-up iterations; by size when not given")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.f < 2 or options.b < 4 or options.np < 1:
        parser.error("-f needs at least 2, -b at least 4, -np at least 1")
    return options


def iterations_for(options, size_bytes):
    return options.n or min(2000, max(10, (256 << 20) // size_bytes))


def warmup_for(options, size_bytes):
    return options.w if options.w >= 0 else min(100, max(3, iterations_for(options, size_bytes) // 5))


def pattern(torch, elements, rank):
    return (1 + (torch.arange(elements) % 1021 + rank * 31) % 97).to(torch.float32)


def warm_up(torch, options, tensor):
    """Returns the seconds that one iteration took, the same number on every rank."""
    rounds = max(1, warmup_for(options, tensor.numel() * 4))
    start = time.perf_counter()
    for _ in range(rounds):
        torch.distributed.all_reduce(tensor)
    each_seconds = torch.tensor([(time.perf_counter() - start) / rounds])
    torch.distributed.all_reduce(each_seconds, op=torch.distributed.ReduceOp.MAX)
    return each_seconds.item()


def run_size(torch, options, size_bytes):
    dist = torch.distributed
    elements = size_bytes // 4
    tensor = pattern(torch, elements, options.rank)
    dist.all_reduce(tensor)
    expected = sum(pattern(torch, elements, rank) for rank in range(options.np))
    if not torch.equal(tensor, expected):
        sys.exit(f"torch_gloo: rank {options.rank}: {size_bytes} bytes: the sum is wrong")
    tensor.zero_()
    each_seconds = warm_up(torch, options, tensor)
    dist.barrier()
    iterations = iterations_for(options, size_bytes)
    if not options.n:
        iterations = max(10, min(iterations, int(MOST_SECONDS / each_seconds)))
    times = []
    for _ in range(iterations):
        start = time.perf_counter_ns()
        dist.all_reduce(tensor)
        times.append(time.perf_counter_ns() - start)
    slowest = torch.tensor(times)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if options.rank == 0:
        report(size_bytes, sorted(t / 1000 for t in slowest.tolist()))


def report(size_bytes, times_us):
    at_95 = (len(times_us) * 95 + 99) // 100 - 1
    print(f"{size_bytes} {len(times_us)} {statistics.median(times_us):.3f} {times_us[at_95]:.3f} {times_us[0]:.3f}",
          flush=True)


def run_rank(options):
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://" + options.store, rank=options.rank,
                                         world_size=options.np, timeout=datetime.timedelta(seconds=120))
    if options.rank == 0:
        print(f"# peer gloo ranks {options.np} torch {torch.__version__}")
        print("# bytes iterations median_us p95_us min_us", flush=True)
    size_bytes = options.b
    while size_bytes <= options.e:
        run_size(torch, options, size_bytes)
        size_bytes *= options.f
    torch.distributed.barrier()


def why_not():
    try:
        import torch.distributed

        if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
            return "this torch has no gloo"
    except ImportError as missing:
        return f"{sys.executable}: {missing}"
    return None


def start_ranks(options):
    reason = why_not()
    if reason:
        print(f"torch_gloo: SKIPPED: {reason} (Debian: apt-get install python3-torch, run with /usr/bin/python3)",
              file=sys.stderr)
        return SKIPPED
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo")
    with tempfile.TemporaryDirectory() as folder:
        common = [sys.executable, __file__, *sys.argv[1:], "--store", os.path.join(folder, "store")]
        ranks = [subprocess.Popen([*common, "--rank", str(rank)], env=environment) for rank in range(options.np)]
        try:
            codes = [rank.wait() for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    return next((1 for code in codes if code), 0)


if __name__ == "__main__":
    chosen = parse(sys.argv[1:])
    if chosen.rank is None:
        sys.exit(start_ranks(chosen))
    run_rank(chosen)
