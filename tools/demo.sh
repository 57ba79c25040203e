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

# Everything below works on a copy: klogtool never writes to what it reads, but this shows it mending, too.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -rp . "$copy/fixtures"
cd "$copy/fixtures"

say "A broker 4.3.1 was killed while it appended; then one bit of a segment was flipped. What is wrong?"
run "klogtool verify killed-mid-append/logdir/flip-bit-0"

say "What would a broker do about it at its start?"
run "klogtool recover killed-mid-append/logdir/flip-bit-0"

say "Better: keep all that is sound on both sides of the damage."
run "klogtool salvage killed-mid-append/logdir/flip-bit-0 --output saved-0"
run "klogtool verify saved-0"

say "Or do just what a broker would, now and in the open, with a way back."
run "klogtool recover --apply --quiet killed-mid-append/logdir/flip-bit-0"
run "klogtool verify killed-mid-append/logdir/flip-bit-0"
run "klogtool undo killed-mid-append/logdir"
run "diff -r killed-mid-append '$OLDPWD/killed-mid-append' && echo 'every byte is back'"

say "The same segment as kafka-dump-log shows it, byte for byte: the third batch says isvalid: false."
run "klogtool dump-log killed-mid-append/logdir/flip-bit-0/00000000000000000045.log"

say "As JSON lines nothing is lost: header values, binary keys, nulls."
run "klogtool dump-log every-codec/logdir/append-4 --format json --offsets 38 | grep '\"record\"'"

say "An internal topic is decoded without being asked. What did group g-range commit last?"
run "klogtool dump-log groups/logdir/__consumer_offsets-0 --format json --grep g-range | grep OffsetCommitValue | tail -n 1"

say "Lz4 of Kafka 0.8, with the header checksum that it got wrong; other readers give up here."
run "klogtool dump-log --quiet magic-0/logdir/create-3/00000000000000000043.log --print-data-log | tail -n 3"
