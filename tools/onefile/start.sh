#!/bin/sh
# klogtool @VERSION@ for Linux on @MACHINE@: a shell script with a packed folder behind it. It unpacks once, and runs from there.
#   klogtool.run COMMAND...      run klogtool
#   klogtool.run --extract DIR   unpack into DIR, which must be new or empty, and do nothing else (for images)
#   klogtool.run --to DIR ...    unpack below DIR in place of a cache folder (or set KLOGTOOL_UNPACK_TO)
# Needs sh, tail, tar, gzip, mkdir, mv, rm, ls, find, id and sha256sum, such as busybox has.
set -eu
unset CDPATH
user=$(id -u)
PACKED=@SIZE@ SHA256=@SHA256@ LOADER_SHA256=@LOADER_SHA256@ NAME=klogtool-@VERSION@-@MACHINE@-@SHORT@-$user

fail() { echo "klogtool: $1" >&2; exit 4; }

# unpack DIR: writes the packed folder into DIR, after a look at its checksum.
unpack() {
  found=$(tail -c "$PACKED" "$self" | sha256sum) || fail "sha256sum does not work here"
  [ "${found%% *}" = "$SHA256" ] || fail "$self is damaged: its checksum is not $SHA256. Copy it again."
  tail -c "$PACKED" "$self" | gzip -dc | tar -xof - -C "$1" || fail "cannot unpack into $1: see the line above"
}

# runs DIR: whether a program in DIR may be executed. A folder mounted with noexec says no.
runs() { "$1/lib/@LOADER@" --version >/dev/null 2>&1; }

# look PATH: sets `mode` and `owner` of what is at PATH itself, also of a link.
look() {
  found=$(ls -ldn "$1" 2>/dev/null) || return 1
  mode=${found%% *}
  # shellcheck disable=SC2086
  owner=$(set -f; set -- $found; echo "$3")
}

# private: whether nobody but the owner may write, by `mode`.
private() { case $mode in ?????w* | ????????w*) return 1 ;; esac; }

# safe DIR: whether nobody else can put something in the place of what we have in DIR. DIR and all folders around it, without links, are
# ours or root's, and only their owner may write there; or they are sticky, as /tmp is, where nobody can rename what is not his.
safe() {
  at=$(cd -P "$1" 2>/dev/null && pwd -P) || return 1
  while :; do
    look "$at" || return 1
    [ "$owner" = "$user" ] || [ "$owner" = 0 ] || return 1
    private || case $mode in ?????????[tT]*) ;; *) return 1 ;; esac
    [ "$at" != / ] || return 0
    at=${at%/*}
    at=${at:-/}
  done
}

# mine DIR: whether we have unpacked DIR: no link, all in it is ours, nobody else may write there, and the loader is the packed one.
mine() {
  look "$1" || return 1
  case $mode in d*) ;; *) return 1 ;; esac
  [ "$owner" = "$user" ] && private || return 1
  found=$(find "$1" \( ! -user "$user" -o ! -type l \( -perm -020 -o -perm -002 \) \) 2>&1) && [ -z "$found" ] || return 1
  [ -f "$1/klogtool" ] && [ ! -h "$1/lib" ] && [ ! -h "$1/lib/@LOADER@" ] || return 1
  found=$(sha256sum "$1/lib/@LOADER@" 2>/dev/null) && [ "${found%% *}" = "$LOADER_SHA256" ]
}

# made DIR UMASK: creates DIR, if the folder around it is safe, and DIR is safe then.
made() {
  around=$1
  while [ ! -d "$around" ]; do
    case $around in */*) around=${around%/*} around=${around:-/} ;; *) around=. ;; esac
  done
  safe "$around" && (umask "$2" && mkdir -p "$1") 2>/dev/null && safe "$1"
}

# unpack_below DIR: sets `home`, or fails if DIR is not safe or cannot be written, or nothing may be executed there. Two
# starts at a time do no harm: each unpacks into a folder of its own, and the second finds the name taken.
unpack_below() {
  made "$1" 077 || return 1
  place=$(cd -P "$1" && pwd -P)
  home=${place%/}/$NAME
  mine "$home" && runs "$home" && return 0
  [ ! -e "$home" ] && [ ! -h "$home" ] || return 1 # somebody else's, or not whole
  draft=${place%/}/.$NAME.$$
  (umask 077 && mkdir "$draft") 2>/dev/null || return 1
  trap 'rm -rf "$draft"' EXIT
  trap 'exit 130' INT TERM HUP
  unpack "$draft"
  if runs "$draft"; then
    mv "$draft" "$home" 2>/dev/null && echo "klogtool: unpacked into $home, once; KLOGTOOL_UNPACK_TO names another folder" >&2
    # where another start was first, mv has moved ours into its folder
    if mine "$home"; then rm -rf "$home/.$NAME.$$"; fi
  fi
  rm -rf "$draft"
  trap - EXIT INT TERM HUP
  mine "$home" && runs "$home"
}

case $0 in
  */*) self=$0 ;;
  *) if [ -f "./$0" ]; then self=./$0; else self=$(command -v "$0") || fail "cannot find the file $0: name it with its folder"; fi ;;
esac
to=${KLOGTOOL_UNPACK_TO:-}
case ${1:-} in
  --extract)
    [ $# = 2 ] || fail "usage: $0 --extract DIR"
    private() { case $mode in ????????w*) return 1 ;; esac; } # who shares a group with us may share the folder
    made "$2" 022 || fail "cannot make $2, or somebody else may put something there: it or a folder around it is not yours, or anybody may write there"
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
  unpack_below "$to" || fail "$to cannot be written, or programs may not be executed there (noexec), or somebody else may write into it or a \
folder around it, or has put $NAME there. Name a folder that only you can write"
else
  for place in "${XDG_CACHE_HOME:-}" "${HOME:+$HOME/.cache}" "${TMPDIR:-}" /tmp /var/tmp; do
    [ -n "$place" ] && unpack_below "$place" && break
    home=
  done
  [ -n "$home" ] || fail "no folder to unpack into: \$XDG_CACHE_HOME, \$HOME/.cache, \$TMPDIR and /tmp cannot be written, or \
programs may not be executed there (noexec), or somebody else may write there. Name a folder that only you can write: $0 --to DIR"
fi
exec "$home/klogtool" "$@"
