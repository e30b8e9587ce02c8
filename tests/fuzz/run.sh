#!/bin/sh
# run.sh NAME PROGRAM SEED_DIRECTORY SECONDS: fuzzes for that long. What is found new goes to ./NAME-corpus, findings
# to ./NAME-crash-*.
set -eu
mkdir -p "$1-corpus"
exec "$2" -max_total_time="$4" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$1-" \
  "$1-corpus" "$3"
