#!/usr/bin/env bash
# What `make demo` shows: `demo.sh FOLDER` with the klogtool of that folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../fixtures"
PATH=$(cd .. && realpath --no-symlinks "$1"):$PATH

say() { printf '\n# %s\n' "$@"; }
run() {
  printf '$ %s\n' "$1"
  bash -c "$1" || status=$? # a damaged file is exit status 1, and the point of the show
  [ "${status:-0}" -le 1 ]
}

say "A broker 4.3.1 was killed while it appended; then one bit of this segment was flipped." \
    "kafka-dump-log's lines, byte for byte; the third batch says isvalid: false, and stderr says what that means."
run "klogtool dump-log killed-mid-append/logdir/flip-bit-0/00000000000000000045.log"
say "The same file as JSON lines: headers, binary keys and nulls are kept; here with jq's poor cousin."
run "klogtool dump-log killed-mid-append/logdir/flip-bit-0/00000000000000000045.log --format json | tail -n 1"
say "Messages of Kafka 0.8, lz4 with the header checksum that it got wrong."
run "klogtool dump-log magic-0/logdir/create-3/00000000000000000043.log --print-data-log | tail -n 3"
say "An internal topic is decoded without being asked: who committed what?"
run "klogtool dump-log groups/logdir/__consumer_offsets-0 --format json | grep -m 1 OffsetCommit"
