#!/usr/bin/env bash
# release_check.sh DIST KLOGTOOL [x86_64]: checks the files of `make onefile`: both, also in Debian 11 and 13, and the
# kernels on aarch64; or only that of x86_64 where there is nothing. Needs root and Debian 12; installs what it needs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dist=$1 klogtool=$2 only=${3:-}
have() { # have PROGRAM:PACKAGE...
  for need; do
    command -v "${need%%:*}" >/dev/null && continue
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${need#*:}" >/dev/null
  done
}
version=$(sed -n 's/^VERSION = "\([^"]*\)".*/\1/p' "$here/../../klogtool/cli/version.py")
have busybox:busybox-static
if [ "$only" = x86_64 ]; then
  "$here/check.sh" "$dist/klogtool-$version-linux-x86_64.run" "$klogtool"
  exit
fi
have qemu-aarch64-static:qemu-user-static debootstrap:debootstrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
roots=()
for suite in bullseye trixie; do
  # A mirror need not have each release.
  if "$here/debian.sh" "$suite" "$work/$suite"; then roots+=("$work/$suite"); else echo "not tried: $suite" >&2; fi
done
"$here/check.sh" "$dist/klogtool-$version-linux-x86_64.run" "$klogtool" "${roots[@]}"
"$here/check.sh" "$dist/klogtool-$version-linux-aarch64.run" "$klogtool"
"$here/kernels_aarch64.sh" "$dist/klogtool-$version-cp311-abi3-manylinux_2_17_aarch64.whl"
