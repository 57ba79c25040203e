#!/usr/bin/env bash
# What `make demo` shows: `demo.sh FOLDER` with the klogtool of that folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$(realpath --no-symlinks "$1"):$PATH
cd fixtures
exec 2>&1 # notes and errors beside what they are about

say() { printf '\n'; printf '# %s\n' "$@"; }
run() {
  local status=0
  printf '$ %s\n' "$1"
  bash -c "$1" || status=$?
  [ "$status" -le 1 ] # 1 is damage found, and the point of the show
}

say "A broker 4.3.1 was killed while it appended; then one bit of this segment was flipped." \
  "The lines are kafka-dump-log's, byte for byte. The third batch says isvalid: false;" \
  "what is wrong, and at which byte, is said at the end, and by exit status 1."
run "klogtool dump-log killed-mid-append/logdir/flip-bit-0/00000000000000000045.log"

say "Kafka's own tool ends where a size makes no sense: zeros at the end of a file. So does this."
run "klogtool dump-log killed-mid-append/logdir/zero-tail-0/00000000000000000055.log 2>&1 | tail -n 3"

say "As JSON lines nothing is lost: header values, binary keys, nulls."
run "klogtool dump-log every-codec/logdir/append-4 --format json --offsets 38 | grep '\"record\"'"

say "An internal topic is decoded without being asked. What did group g-range commit last?"
run "klogtool dump-log groups/logdir/__consumer_offsets-0 --format json --grep g-range | grep OffsetCommitValue | tail -n 1"

say "Lz4 of Kafka 0.8, with the header checksum that it got wrong; other readers give up here."
run "klogtool dump-log --quiet magic-0/logdir/create-3/00000000000000000043.log --print-data-log | tail -n 3"
