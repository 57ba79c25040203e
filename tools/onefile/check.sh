#!/usr/bin/env bash
# check.sh FILE.run KLOGTOOL [ROOT...]: does the one file run where there is nothing, with the answers of the klogtool that is installed here?
# ROOT: root folders of other systems, such as debootstrap makes; it is tried in these, too.
# Needs root (chroot, mount) and busybox-static; for a file of another machine qemu-user-static, too.
set -euo pipefail
file=$(realpath "$1") klogtool=$(realpath --no-symlinks "$2")
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$(dirname "$here")")
work=$(mktemp -d)
trap 'umount -q "$work"/*/home/.cache "$work"/*/tmp "$work"/*/logs "$work"/* 2>/dev/null || true; rm -rf "$work"' EXIT
busybox=$(command -v busybox) || { echo "needs busybox-static" >&2; exit 2; }
case $file in *-aarch64.run) "$here/run_aarch64.sh" ;; esac

# A root folder with busybox's programs, the file, and a fixture. No libc, no Python, no /proc.
jail() {
  mkdir -p "$work/$1"/{bin,tmp,dev,home}
  cp "$busybox" "$work/$1/bin/busybox"
  for name in sh tail tar gzip mkdir mv rm sha256sum id ls find cat rmdir mount umount; do ln -s busybox "$work/$1/bin/$name"; done
  mknod -m 666 "$work/$1/dev/null" c 1 3
  chmod 1777 "$work/$1/tmp"
  furnish "$work/$1"
}
# furnish ROOT: the file and a fixture in /logs of it.
furnish() {
  mkdir -p "$1/logs"
  cp "$file" "$1/klogtool.run"
  cp -r "$root/fixtures/killed-mid-append/logdir" "$1/logs/logdir"
  chmod -R u+w "$1/logs"
}

# inside ROOT COMMAND...: a command in a root folder, with no environment but PATH and HOME. Its status is the last line.
as=
inside() {
  local place=$1 status=0
  shift
  # shellcheck disable=SC2086
  env -i PATH=/bin:/usr/bin HOME=/home "$(command -v chroot)" $as "$place" "$@" 2>&1 || status=$?
  echo "status $status"
}
fail() {
  echo "one file: $1" >&2
  [ $# -lt 2 ] || tail -n 20 <<<"$2" >&2
  exit 1
}
expect() { grep -q -- "$2" <<<"$3" || fail "$1: there is no '$2'" "$3"; }
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
any_crc() { sed 's/; CRC-32C by .*)$/)/'; } # which way is the fastest depends on the processor
no_notice() { grep -v '^klogtool: unpacked into ' || true; }

# answers RUN...: what the commands of a person in trouble answer in /logs, where RUN runs klogtool. Paths are relative.
reading=("--version" "dump-log logdir --deep-iteration" "verify logdir --notes --now 2024-01-01" "explain batch-crc")
answers() {
  for words in "${reading[@]}"; do
    # shellcheck disable=SC2086
    "$@" $words | any_crc
  done
}
in_logs() { # in_logs PLACE WORDS...: klogtool.run in /logs of the root folder
  local place=$1
  shift
  inside "$place" /bin/sh -c 'cd /logs && exec ${RUN:-/klogtool.run} "$@"' sh "$@" | no_notice
}
installed() {
  local status=0
  (cd "$work/empty/logs" && env -i HOME=/home PATH=/bin "$klogtool" "$@" 2>&1) || status=$?
  echo "status $status"
}
# works WHAT PLACE: all commands give the answers of the installed klogtool there; a log dir is recovered, and put back.
works() {
  local answer before
  answer=$(answers in_logs "$2")
  [ "$answer" = "$reference" ] || fail "$1: not the answers of the installed klogtool" "$(diff <(echo "$reference") <(echo "$answer"))"
  expect "$1: doctor" "status 1" "$(in_logs "$2" doctor logdir)"
  expect "$1: doctor before a start that loses something" "^status 1" "$(in_logs "$2" doctor logdir --fail-on loss)"
  mkdir -p "$2/logs/nothing"
  expect "$1: doctor before a first start" "^status 0" "$(in_logs "$2" doctor nothing --fail-on loss)"
  expect "$1: salvage" "status [01]" "$(in_logs "$2" salvage logdir/flip-bit-0 --output salvaged)"
  [ "$salvaged" = "$(sums "$2/logs/salvaged")" ] || fail "$1: salvage kept something else than the installed klogtool"
  before=$(sums "$2/logs/logdir")
  expect "$1: recover" "^Done" "$(in_logs "$2" recover --apply logdir)"
  [ "$before" != "$(sums "$2/logs/logdir")" ] || fail "$1: recover --apply changed nothing"
  expect "$1: undo" "status 0" "$(in_logs "$2" undo logdir)"
  [ "$before" = "$(sums "$2/logs/logdir")" ] || fail "$1: undo has not put everything back"
  echo "one file: $1"
}

jail empty
reference=$(answers installed)
mkdir "$work/here"
(cd "$work/empty/logs" && "$klogtool" salvage logdir/flip-bit-0 --output "$work/here/salvaged" >/dev/null 2>&1) || true
salvaged=$(sums "$work/here/salvaged")
expect "the first start" "^klogtool: unpacked into /home/.cache/klogtool-" "$(inside "$work/empty" /klogtool.run --version)"
[ "$(inside "$work/empty" /klogtool.run --version | any_crc)" = "$(installed --version | any_crc)" ] || fail "a second start is not the installed klogtool, or unpacks again" "$(inside "$work/empty" /klogtool.run --version)"
works "an empty root folder: no libc, no Python, no /proc" "$work/empty"

jail readonly
mount --bind "$work/readonly" "$work/readonly"
mount -t tmpfs tmpfs "$work/readonly/tmp"
mount -t tmpfs tmpfs "$work/readonly/logs"
cp -r "$work/empty/logs/logdir" "$work/readonly/logs/"
mount -o remount,bind,ro "$work/readonly"
works "a read-only root with a /tmp" "$work/readonly"
mount -o remount,ro,noexec "$work/readonly/tmp"
expect "read-only root, no place" "no folder to unpack into.*--to DIR" "$(inside "$work/readonly" /klogtool.run --version)"
umount "$work/readonly/tmp" "$work/readonly/logs" "$work/readonly"

jail noexec
mkdir -p "$work/noexec/home/.cache"
mount -t tmpfs -o noexec tmpfs "$work/noexec/home/.cache"
expect "a home with noexec" "unpacked into /tmp/" "$(inside "$work/noexec" /klogtool.run --version)"
expect "--to a folder with noexec" "noexec" "$(inside "$work/noexec" /klogtool.run --to /home/.cache/x --version)"
works "a home that is mounted with noexec" "$work/noexec"
umount "$work/noexec/home/.cache"

jail user
chmod 755 "$work" "$work/user"
chown -R 1234:1234 "$work/user/logs"
as="--userspec=1234:1234"
works "not root" "$work/user"
as="--userspec=1235:1235"
expect "a folder of somebody else's is not trusted" "unpacked into .*-1235" "$(inside "$work/user" /klogtool.run --version)"
as=

jail twice
inside "$work/twice" /klogtool.run --version >"$work/one" & inside "$work/twice" /klogtool.run --version >"$work/two" & wait
for one in one two; do [ "$(no_notice <"$work/$one" | any_crc)" = "$(installed --version | any_crc)" ] || fail "two first starts at a time" "$(cat "$work/$one")"; done
[ "$(ls -A "$work/twice/home/.cache" | wc -l)" = 1 ] || fail "two first starts leave something" "$(ls -A "$work/twice/home/.cache")"
printf 'x' | dd of="$work/twice/klogtool.run" bs=1 seek=9000000 conv=notrunc status=none
expect "a damaged file" "is damaged" "$(inside "$work/twice" /klogtool.run --to /tmp/again --version)"
mkdir "$work/twice/image"
expect "--extract of a damaged file" "status 4" "$(inside "$work/twice" /klogtool.run --extract /image)"
[ -z "$(ls -A "$work/twice/image")" ] || fail "--extract of a damaged file leaves something"
cp "$file" "$work/twice/klogtool.run"
expect "--extract" "status 0" "$(inside "$work/twice" /klogtool.run --extract /image)"
expect "--extract" "^$("$klogtool" --version | cut -d' ' -f1,2) " "$(inside "$work/twice" /image/klogtool --version)"
grep -q '"specVersion": "1.6"' "$work/twice/image/sbom.cdx.json" || fail "--extract: there is no bill of materials"
echo "one file: two first starts at a time, a damaged file, --extract"

# As the Dockerfile lays it out: an image with nothing but the unpacked folder, and no shell.
mkdir -p "$work/image" "$work/image/logs" "$work/image/tmp"
mv "$work/twice/image" "$work/image/klogtool"
cp -r "$work/empty/logs/logdir" "$work/image/logs/"
mapfile -t entry < <(sed -n 's/^ENTRYPOINT \[\(.*\)\]$/\1/p' "$here/Dockerfile" | tr ',' '\n' | sed 's/^ *"//; s/"$//')
in_image() {
  local place=$1
  shift
  inside "$place" "${entry[@]}" "$@"
}
answers_there=$(reading=("--version" "dump-log /logs/logdir --deep-iteration" "explain batch-crc") answers in_image "$work/image")
wanted=$(reading=("--version" "dump-log /logs/logdir --deep-iteration" "explain batch-crc") answers in_logs "$work/empty")
[ "$answers_there" = "$wanted" ] || fail "an image without a shell" "$(diff <(echo "$wanted") <(echo "$answers_there"))"
before=$(sums "$work/image/logs/logdir")
expect "an image: recover" "^Done" "$(in_image "$work/image" recover --apply /logs/logdir)"
expect "an image: undo" "status 0" "$(in_image "$work/image" undo /logs/logdir)"
[ "$before" = "$(sums "$work/image/logs/logdir")" ] || fail "an image: undo has not put everything back"
modules=$("$work/image/klogtool/python/bin/python3" -I "$here/every_module.py" 2>&1) || fail "a module lacks what is left out" "$modules"
for words in "spark verify /logs" "dump-log --format arrow --output /tmp/x /logs/logdir"; do
  # shellcheck disable=SC2086
  answer=$(in_image "$work/image" $words)
  [ "$(wc -l <<<"$answer")" -le 3 ] || fail "$words: does not say in a line what is not in the one file" "$answer"
done
echo "one file: as an image without a shell; $modules import what they need"

for place; do
  furnish "$place"
  works "$(. "$place/etc/os-release"; echo "${PRETTY_NAME:-$place}")" "$place"
  rm -rf "$place/logs" "$place/klogtool.run"
done
