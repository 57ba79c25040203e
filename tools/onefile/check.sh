#!/usr/bin/env bash
# check.sh FILE.run KLOGTOOL: does the one file run where there is nothing, with the answers of the klogtool that is installed here?
# Needs root (chroot, mount) and busybox-static.
set -euo pipefail
file=$(realpath "$1") klogtool=$(realpath --no-symlinks "$2")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'umount -q "$work"/*/home/.cache "$work"/*/tmp "$work"/* 2>/dev/null || true; rm -rf "$work"' EXIT
busybox=$(command -v busybox) || { echo "needs busybox-static" >&2; exit 2; }

# A root folder with busybox's programs, the file, and a fixture. No libc, no Python, no /proc.
jail() {
  mkdir -p "$work/$1"/{bin,tmp,dev,home}
  cp "$busybox" "$work/$1/bin/busybox"
  for name in sh tail tar gzip mkdir mv rm sha256sum id ls cat rmdir mount umount; do ln -s busybox "$work/$1/bin/$name"; done
  mknod -m 666 "$work/$1/dev/null" c 1 3
  cp "$file" "$work/$1/klogtool.run"
  cp -r "$root/fixtures/killed-mid-append/logdir" "$work/$1/logdir"
  chmod -R u+w "$work/$1/logdir"
  chmod 1777 "$work/$1/tmp"
}

# inside NAME COMMAND...: a command in the jail, with no environment but PATH and HOME. Its status is the last line.
inside() {
  local name=$1 status=0
  shift
  chroot "$work/$name" /bin/busybox env -i PATH=/bin HOME=/home "$@" 2>&1 || status=$?
  echo "status $status"
}
fail() {
  echo "one file: $1" >&2
  [ $# -lt 2 ] || tail -n 20 <<<"$2" >&2
  exit 1
}
expect() { grep -q -- "$2" <<<"$3" || fail "$1: there is no '$2'" "$3"; }
sums() { (cd "$work/$1/logdir" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

jail empty
version=$("$klogtool" --version)
answer=$(inside empty /klogtool.run --version)
[ "$answer" = "$version
status 0" ] || fail "--version is not that of the installed klogtool" "$answer"
for words in "dump-log logdir --deep-iteration" "verify logdir --notes --now 2024-01-01" "explain batch-crc"; do
  # shellcheck disable=SC2086
  here=$(cd "$work/empty" && status=0 && { env -i HOME=/home PATH=/bin "$klogtool" $words 2>&1 || status=$?; } && echo "status $status")
  # shellcheck disable=SC2086
  there=$(inside empty /klogtool.run $words)
  [ "$here" = "$there" ] || fail "$words: not the answer of the installed klogtool" "$(diff <(echo "$here") <(echo "$there"))"
done
expect doctor "status 1" "$(inside empty /klogtool.run doctor logdir)"
expect salvage "status [01]" "$(inside empty /klogtool.run salvage logdir/flip-bit-0 --output /tmp/salvaged)"
before=$(sums empty)
expect recover "^Done" "$(inside empty /klogtool.run verify --recover --apply logdir)"
[ "$before" != "$(sums empty)" ] || fail "verify --recover --apply changed nothing"
expect undo "status 0" "$(inside empty /klogtool.run undo logdir)"
[ "$before" = "$(sums empty)" ] || fail "undo has not put everything back"
echo "one file: an empty root folder, no libc, no Python, no /proc: same answers; recovered and undone"

jail readonly
mount --bind "$work/readonly" "$work/readonly"
mount -t tmpfs tmpfs "$work/readonly/tmp"
mount -o remount,bind,ro "$work/readonly"
expect "read-only root" "$version" "$(inside readonly /klogtool.run --version)"
expect "read-only root, no place" "no folder to unpack into" "$(mount -o remount,ro,noexec "$work/readonly/tmp" && rm -rf "$work/none"; inside readonly /klogtool.run --version)"
umount "$work/readonly/tmp" "$work/readonly"
echo "one file: a read-only root, with and without a /tmp that may be written"

jail noexec
mkdir -p "$work/noexec/home/.cache"
mount -t tmpfs -o noexec tmpfs "$work/noexec/home/.cache"
expect "noexec home" "$version" "$(inside noexec /klogtool.run --version)"
expect "--to a folder without exec" "noexec" "$(inside noexec /klogtool.run --to /home/.cache/x --version)"
[ -n "$(ls "$work/noexec/tmp")" ] || fail "a home without exec: not unpacked into /tmp"
umount "$work/noexec/home/.cache"
echo "one file: a home that is mounted with noexec"

jail user
chmod 755 "$work" "$work/user"
answer=$(chroot --userspec=1234:1234 "$work/user" /bin/busybox env -i PATH=/bin /klogtool.run --version 2>&1)
[ "$answer" = "$version" ] || fail "not root" "$answer"
answer=$(chroot --userspec=1235:1235 "$work/user" /bin/busybox env -i PATH=/bin /klogtool.run --version 2>&1 || true)
expect "a folder of somebody else's is not trusted" "$version" "$answer"
echo "one file: not root; a second user does not run what the first one unpacked"

jail twice
inside twice /klogtool.run --version >"$work/one" & inside twice /klogtool.run --version >"$work/two" & wait
cmp "$work/one" "$work/two"
grep -qxF "$version" "$work/one" || fail "two first starts at a time" "$(cat "$work/one")"
[ "$(ls -A "$work/twice/home/.cache" | wc -l)" = 1 ] || fail "two first starts leave something" "$(ls -A "$work/twice/home/.cache")"
printf 'x' | dd of="$work/twice/klogtool.run" bs=1 seek=9000000 conv=notrunc status=none
expect "a damaged file" "is damaged" "$(inside twice /klogtool.run --to /tmp/again --version)"
mkdir "$work/twice/image"
expect "--extract" "status 4" "$(inside twice /klogtool.run --extract /image)"
cp "$file" "$work/twice/klogtool.run"
expect "--extract" "status 0" "$(inside twice /klogtool.run --extract /image)"
expect "--extract" "$version" "$(inside twice /image/klogtool --version)"
echo "one file: two first starts at a time, a damaged file, --extract"
