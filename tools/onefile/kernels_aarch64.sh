#!/usr/bin/env bash
# kernels_aarch64.sh WHEEL: the tests of the kernels, on aarch64 by qemu, with the Python of the one file.
# A copy of the tests runs beside no checkout, so it is the wheel's extension that they look at.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$(dirname "$here")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/run_aarch64.sh"
python3 "$here/build.py" "$1" --for-tests "$work/tree"
mkdir "$work/project"
cp -r "$root"/{tests,fixtures,pyproject.toml} "$work/project/"
cd "$work/project"
"$work/tree/python/bin/python3" -c 'import platform; assert platform.machine() == "aarch64"; import klogtool.kernels._native'
# test_seam.py looks at the sources of the extension, which have no machine.
PYTHONDONTWRITEBYTECODE=1 "$work/tree/python/bin/python3" -m pytest -q -p no:cacheprovider --sample 3 --ignore tests/kernels/test_seam.py tests/kernels
