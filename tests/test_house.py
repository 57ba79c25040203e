"""The house keeps its floors: what each module may import, call and write. Read from the source, nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from running import ROOT

# errors below all; cli above spark, which runs where there is no command line; __init__ and __main__ on the roof.
FLOORS = {"errors": 0, "lazy_dataclasses": 0, "format": 1, "kernels": 2, "log": 3, "repair": 4, "disk": 5}
FLOORS |= {"render": 6, "objects": 6, "spark": 7, "cli": 8}
ROOF = 9
DOORS = {
    "construct": "klogtool/format/",
    "crcmod": "klogtool/format/",
    "struct": "klogtool/format/",
    "Cython": "klogtool/kernels/",
    "cython": "klogtool/kernels/",
    "zlib": "klogtool/format/",
    **dict.fromkeys(("lz4", "snappy", "zstandard", "gzip"), "klogtool/format/codecs"),
    "rich": "klogtool/render/",
    "pyarrow": ("klogtool/render/", "klogtool/spark/"),
    "click": "klogtool/cli/",
    "pyspark": "klogtool/spark/",
}
WRITING_DOORS = ("klogtool/disk/", "klogtool/cli/output.py", "klogtool/cli/output_file.py")
WRITES_OF_OS = {
    *(
        "rename",
        "replace",
        "unlink",
        "remove",
        "rmdir",
        "mkdir",
        "makedirs",
        "link",
        "symlink",
        "truncate",
        "ftruncate",
    ),
    *("utime", "chmod", "chown", "setxattr", "mkfifo", "mknod", "pwrite", "copy_file_range", "sendfile"),
}
WRITES_OF_PATHS = {"rename", "unlink", "touch", "rmdir", "mkdir", "write_bytes", "write_text", "symlink_to", "chmod"}
OPENS_TO_WRITE = re.compile(r"'[rbt]*[wax+][rbt+]*'|O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
LONGEST_FUNCTION_LINES = 70

MODULES = {p.relative_to(ROOT).as_posix(): ast.parse(p.read_text()) for p in sorted(ROOT.glob("klogtool/**/*.py"))}
every_module = pytest.mark.parametrize("path", MODULES)


def floor_of(module: str) -> int:
    """The floor of `klogtool.<floor>...`; the package itself stands on the roof."""
    return FLOORS.get(module.split(".")[1], ROOF) if "." in module else ROOF


def imports(path: str) -> Iterator[str]:
    """Dotted names of all that a module imports, wherever in it; `from klogtool import log` is `klogtool.log`."""
    for node in ast.walk(MODULES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides its floor"
            package = node.module == "klogtool"
            yield from (f"klogtool.{alias.name}" for alias in node.names) if package else [str(node.module)]


def calls(path: str) -> Iterator[tuple[str, ast.Call]]:
    """(`open`, node), (`os.rename`, node), (`self.path.unlink`, node) for each call in a module."""
    return ((ast.unparse(node.func), node) for node in ast.walk(MODULES[path]) if isinstance(node, ast.Call))


def writes(name: str, call: ast.Call) -> bool:
    """Is this the call of something that changes files?"""
    owner, _, verb = name.rpartition(".")
    if verb == "open":
        return bool(OPENS_TO_WRITE.search(ast.unparse(call)))
    return owner == "shutil" or verb in (WRITES_OF_OS if owner == "os" else WRITES_OF_PATHS)


@every_module
def test_a_module_imports_only_from_floors_below_or_its_own(path: str) -> None:
    own = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    for name in imports(path):
        if name.split(".")[0] == "klogtool" and name.split(".")[1:2] != own.split(".")[1:2]:
            assert floor_of(name) < floor_of(own), f"{path} imports {name}, from its own height or above"


@every_module
def test_one_door_for_each_dependency(path: str) -> None:
    for name in imports(path):
        door = DOORS.get(name.split(".")[0])
        assert door is None or path.startswith(door), f"{path} imports {name}, which enters by {door} only"


@every_module
def test_nothing_writes_but_through_the_writing_door(path: str) -> None:
    found = [f"{path}:{call.lineno}: {name}" for name, call in calls(path) if writes(name, call)]
    assert path.startswith(WRITING_DOORS) or not found


@every_module
def test_only_the_faces_print_and_only_cli_asks_the_clock(path: str) -> None:
    printing = [f"{path}:{call.lineno}" for name, call in calls(path) if name == "print"]
    assert floor_of(path.replace("/", ".")) >= FLOORS["render"] or not printing
    asking = [f"{path}:{call.lineno}" for name, call in calls(path) if ".".join(name.split(".")[-2:]) in CLOCKS]
    assert path.startswith("klogtool/cli/") or not asking


@every_module
def test_what_is_public_says_what_it_is_for_and_is_short(path: str) -> None:
    assert ast.get_docstring(MODULES[path]), f"{path} has no docstring"
    for node in ast.walk(MODULES[path]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            public = not node.name.startswith("_") and node in MODULES[path].body
            assert not public or ast.get_docstring(node), f"{path}:{node.lineno}: {node.name} has no docstring"
            if not isinstance(node, ast.ClassDef):
                lines = int(node.end_lineno or 0) - node.lineno + 1
                assert lines <= LONGEST_FUNCTION_LINES, f"{path}:{node.lineno}: {node.name} has {lines} lines"


@every_module
def test_no_error_is_swallowed_whole(path: str) -> None:
    for node in ast.walk(MODULES[path]):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            handed_on = caught == "BaseException" and node.name  # from a thread to the one that waits for it
            swallowed = caught in ("everything", "Exception", "BaseException") and not handed_on
            assert not swallowed, f"{path}:{node.lineno}: except {caught}"


def test_no_machine_and_no_workplace_is_named() -> None:
    folders = ("klogtool", "tests", "tools", "fuzz", "benchmarks", "docs", ".ci")
    files = [p for folder in folders for p in ROOT.glob(f"{folder}/**/*") if p.suffix in (".py", ".sh", ".md", ".java")]
    for path in [*files, ROOT / "README.md", ROOT / "Makefile"]:
        text = path.read_text(encoding="utf-8")
        assert "/ro" + "ot/" not in text, path
        assert "/wo" + "rk/" not in text.replace(".wo" + "rk/", ""), path
