#!/usr/bin/env bash
# release_check.sh DIST KLOGTOOL: checks both files of `make onefile`, also in Debian 11 and 13.
# Needs root and Debian 12; installs by apt-get what it needs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dist=$1 klogtool=$2
for need in busybox:busybox-static qemu-aarch64-static:qemu-user-static debootstrap:debootstrap; do
  command -v "${need%%:*}" >/dev/null || { apt-get -qq update && apt-get -qq install -y --no-install-recommends "${need#*:}"; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
roots=()
for suite in bullseye trixie; do
  # A mirror need not have each release.
  if "$here/debian.sh" "$suite" "$work/$suite"; then roots+=("$work/$suite"); else echo "not tried: $suite" >&2; fi
done
"$here/check.sh" "$dist"/klogtool-*-linux-x86_64.run "$klogtool" "${roots[@]}"
"$here/check.sh" "$dist"/klogtool-*-linux-aarch64.run "$klogtool"
