#!/usr/bin/env bash
# make_dist.sh DIR [TAG...]: the source archive, and of it a wheel for each machine and libc (all, or those that are named), into DIR.
# ziglang compiles for each of them here; each wheel serves every Python from 3.11 on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$1"
dist=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare -A targets=(
  [manylinux_2_17_x86_64]=x86_64-linux-gnu.2.17 [manylinux_2_17_aarch64]=aarch64-linux-gnu.2.17
  [musllinux_1_2_x86_64]=x86_64-linux-musl [musllinux_1_2_aarch64]=aarch64-linux-musl
)
[ $# -gt 0 ] || set -- "${!targets[@]}"
WHAT_IT_LINKS='
import io, sys, zipfile
from elftools.elf.elffile import ELFFile
wheel = zipfile.ZipFile(sys.argv[1])
elf = ELFFile(io.BytesIO(wheel.read("klogtool/kernels/_native.abi3.so")))
print(*(tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")))
'
IS_THE_BILL_VALID='
import sys, zipfile
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wheel = zipfile.ZipFile(sys.argv[1])
(bill,) = [name for name in wheel.namelist() if name.endswith(".dist-info/sboms/klogtool.cdx.json")]
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(wheel.read(bill).decode())
sys.exit(wrong and f"{bill}: {wrong}")
'
python3 -m venv "$work/venv"
python=$work/venv/bin/python
"$python" -m pip install --quiet --disable-pip-version-check build ziglang auditwheel abi3audit twine wheel packaging 'cyclonedx-python-lib[json-validation]>=8' 'setuptools>=80' 'cython>=3.1'
.ci/tree "$work/tree"
mapfile -t needed < <("$python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")')
"$python" -m pip install --quiet --disable-pip-version-check "${needed[@]}"
PYTHONPATH="$work/tree" "$python" "$work/tree/tools/make_man_pages.py" "$work/tree/share"
"$python" -m build --no-isolation --sdist --outdir "$dist" "$work/tree" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
sdist=$(ls -t "$dist"/klogtool-*.tar.gz | head -1)
for tag; do
  target=${targets[$tag]:?"no such wheel: $tag"}
  rm -rf "$work/source" "$work/wheel"
  mkdir "$work/source"
  tar -xzf "$sdist" --strip-components=1 -C "$work/source"
  printf '#!/bin/sh\nexec %q -m ziglang cc -target %s "$@"\n' "$python" "$target" >"$work/cc"
  chmod +x "$work/cc"
  # The extension links nothing but libc, so a wheel is right as it is built: it is only looked at.
  CC="$work/cc" LDSHARED="$work/cc -shared" _PYTHON_HOST_PLATFORM="linux-${target%%-*}" KLOGTOOL_REQUIRE_KERNELS=1 \
    "$python" -m build --no-isolation --wheel "-C--build-option=--plat-name=$tag" --outdir "$work/wheel" "$work/source" \
    >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
  wheel=$(ls "$work"/wheel/*.whl)
  "$python" tools/make_sbom.py "$wheel"
  "$python" -c "$IS_THE_BILL_VALID" "$wheel"
  if [[ $tag == manylinux* ]]; then
    audited=$("$python" -m auditwheel show "$wheel")
    grep -q "\"$tag\"" <<<"$audited" || { echo "$audited" >&2; exit 1; }
  else # auditwheel looks for musl on this machine
    links=$("$python" -c "$WHAT_IT_LINKS" "$wheel")
    [ "$links" = libc.so ] || { echo "$wheel links $links" >&2; exit 1; }
  fi
  "$python" -m abi3audit --strict "$wheel" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
  mv "$wheel" "$dist/"
  echo "$dist/$(basename "$wheel")"
done
"$python" -m twine check --strict "$dist"/klogtool-*.whl "$dist"/klogtool-*.tar.gz >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
