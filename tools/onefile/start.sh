#!/bin/sh
# klogtool @VERSION@ for Linux on @MACHINE@: a shell script with a packed folder behind it. It unpacks once, and runs from there.
#   klogtool.run COMMAND...      run klogtool
#   klogtool.run --extract DIR   unpack into DIR, which must be new or empty, and do nothing else (for images)
#   klogtool.run --to DIR ...    unpack below DIR in place of a cache folder (or set KLOGTOOL_UNPACK_TO)
# Needs sh, tail, tar, gzip, mkdir, mv, id and sha256sum, such as busybox has.
set -eu
user=$(id -u)
PACKED=@SIZE@ SHA256=@SHA256@ NAME=klogtool-@VERSION@-@MACHINE@-@SHORT@-$user

fail() { echo "klogtool: $1" >&2; exit 4; }

# unpack DIR: writes the packed folder into DIR, after a look at its checksum.
unpack() {
  found=$(tail -c "$PACKED" "$self" | sha256sum) || fail "sha256sum does not work here"
  [ "${found%% *}" = "$SHA256" ] || fail "$self is damaged: its checksum is not $SHA256. Copy it again."
  tail -c "$PACKED" "$self" | gzip -dc | tar -xf - -C "$1" || fail "cannot unpack into $1: see the line above"
}

# runs DIR: whether a program in DIR may be executed. A folder mounted with noexec says no.
runs() { "$1/lib/@LOADER@" --version >/dev/null 2>&1; }

# mine DIR: whether DIR is there, and nobody else could have put something into it.
mine() { [ -x "$1/klogtool" ] && [ -O "$1" ]; }

# unpack_below DIR: sets `home`, or fails if DIR cannot be written, or nothing may be executed there. Two starts at a
# time do no harm: each unpacks into a folder of its own, and the second finds the name taken.
unpack_below() {
  home=$1/$NAME
  mine "$home" && runs "$home" && return 0
  mkdir -p "$1" 2>/dev/null || return 1
  draft=$1/.$NAME.$$
  (umask 077 && mkdir "$draft") 2>/dev/null || return 1
  trap 'rm -rf "$draft"' EXIT
  trap 'exit 130' INT TERM HUP
  unpack "$draft"
  if runs "$draft"; then
    mv "$draft" "$home" 2>/dev/null && echo "klogtool: unpacked into $home, once; KLOGTOOL_UNPACK_TO names another folder" >&2
    # where another start was first, mv has moved ours into its folder
    rm -rf "$home/.$NAME.$$"
  fi
  rm -rf "$draft"
  trap - EXIT INT TERM HUP
  mine "$home" && runs "$home"
}

case $0 in */*) self=$0 ;; *) self=$(command -v "$0") ;; esac
to=${KLOGTOOL_UNPACK_TO:-}
case ${1:-} in
  --extract)
    [ $# = 2 ] || fail "usage: $0 --extract DIR"
    mkdir -p "$2" || fail "cannot make $2"
    [ -z "$(ls -A "$2")" ] || fail "$2 is not empty"
    unpack "$2"
    echo "unpacked; run $2/klogtool"
    exit 0
    ;;
  --to)
    [ $# -ge 2 ] || fail "usage: $0 --to DIR COMMAND..."
    to=$2
    shift 2
    ;;
esac

home=
if [ -n "$to" ]; then
  unpack_below "$to" || fail "$to cannot be written, or programs may not be executed there (noexec)"
else
  for place in "${XDG_CACHE_HOME:-}" "${HOME:+$HOME/.cache}" "${TMPDIR:-}" /tmp /var/tmp; do
    [ -n "$place" ] && unpack_below "$place" && break
    home=
  done
  [ -n "$home" ] || fail "no folder to unpack into: \$XDG_CACHE_HOME, \$HOME/.cache, \$TMPDIR and /tmp cannot be written, or \
programs may not be executed there (noexec). Name one that is: $0 --to DIR"
fi
exec "$home/klogtool" "$@"
