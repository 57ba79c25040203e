#!/usr/bin/env bash
# Build the extension with ASan and UBSan and run damaged inputs through the kernels:
#   sanitize.sh PYTHON [arguments of kernels.py; paths are whole ones]
# PYTHON has klogtool's dependencies; setuptools and Cython come on top, in a folder of their own.
set -euo pipefail
python=$(realpath --no-symlinks "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=.work/sanitized
rm -rf "$work/tree"
mkdir -p "$work"
.ci/tree "$work/tree"
sed -i 's/"-O3", "-g0"/"-O1", "-g"/' "$work/tree/pyproject.toml"
[ -d "$work/build-tools" ] || "$python" -m pip install --quiet --disable-pip-version-check --target "$work/build-tools" 'setuptools>=80' 'cython>=3.1'
flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
gcc -O2 -fPIC -c -o "$work/reached.o" tools/fuzz/reached.c
(
  cd "$work/tree"
  PYTHONPATH=$PWD/../build-tools CFLAGS="$flags -fsanitize-coverage=trace-pc" \
    LDFLAGS="-fsanitize=address,undefined $PWD/../reached.o" "$python" -W ignore -c '
import setuptools
setuptools.setup(script_args=["--quiet", "build_ext", "--inplace"])'
)
preload="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
# Leaks are Python's own: it frees nothing at its end. Python's allocator would hide what lies beside a block.
LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
  PYTHONPATH=$PWD/$work/tree "$python" "$work/tree/tools/fuzz/kernels.py" "$@"
