#!/usr/bin/env bash
# debian.sh SUITE DIR: a small Debian of a release in DIR, from the mirror that this machine's apt uses.
# Needs root and debootstrap.
set -euo pipefail
command -v debootstrap >/dev/null || { echo "needs debootstrap" >&2; exit 2; }
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -1)
debootstrap --variant=minbase --no-check-gpg "$1" "$2" "$mirror" >"$2.log" 2>&1 || { tail -n 3 "$2.log" >&2; exit 1; }
rm "$2.log"
