"""The house keeps its floors: what each module may import, call and write. Read from the source, nothing is run."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections.abc import Iterator

import pytest
from looped import for_each
from running import ROOT, tool

from klogtool.verify.findings import KINDS

# The floors, lowest first. cli stands above spark, which runs where there is no command line; __init__ and
# __main__ are the roof.
FLOORS = {
    "escape": -2,
    "causes": -1,
    "json_rows": 0,
    "interrupts": 0,
    "errors": 0,
    "values": 0,
    "parameters": 0,
    "format": 1,
    "kernels": 2,
}
FLOORS |= {
    "log": 3,
    "broker": 4,
    "building": 5,
    "remote": 6,
    "verify": 5,
    "copies": 5,
    "salvage": 6,
    "scrub": 6,
    "quorum": 6,
    "plans": 7,
    "disk": 8,
    "doctor": 8,
    "fleet": 9,
}
FLOORS |= {"clock": 8, "decoding": 4}
FLOORS |= {"render": 10, "objects": 10, "spark": 11, "cli": 12, "testing": 12}
ROOF = 13
DOORS = {
    "construct": "klogtool/format/",
    "crcmod": "klogtool/format/",
    "struct": "klogtool/format/",
    "Cython": "klogtool/kernels/",
    "cython": "klogtool/kernels/",
    "zlib": "klogtool/format/",
    **dict.fromkeys(("lz4", "snappy", "zstandard", "gzip"), "klogtool/format/codecs"),
    "rich": "klogtool/render/",
    "yaml": "klogtool/building/",
    "pyarrow": ("klogtool/render/", "klogtool/spark/"),
    "click": "klogtool/cli/",
    "pyspark": "klogtool/spark/",
    "cryptography": "klogtool/format/tiered/sealing.py",
    "fastavro": "klogtool/decoding/avro_schemas.py",
    "google": "klogtool/decoding/protobuf_values.py",
    "pytest": "klogtool/testing/plugin",
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

MODULES = dict.fromkeys(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("klogtool/**/*.py")))


LOOKED_AT = (ast.Import, ast.ImportFrom, ast.Call, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOOKED_AT += (ast.ExceptHandler, ast.Compare, ast.Constant)


@functools.cache
def tree(path: str) -> ast.Module:
    """A module as Python reads it: parsed when a rule asks for it, since each worker of xdist imports this file."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


every_module = for_each(MODULES)


def floor_of(module: str) -> int:
    """The floor of `klogtool.<floor>...`; the package itself stands on the roof."""
    return FLOORS.get(module.split(".")[1], ROOF) if "." in module else ROOF


def imports(path: str) -> Iterator[str]:
    """Dotted names of all that a module imports, wherever in it; `from klogtool import log` is `klogtool.log`."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides its floor"
            package = node.module == "klogtool"
            yield from (f"klogtool.{alias.name}" for alias in node.names) if package else [str(node.module)]


@functools.cache
def nodes(path: str) -> list[ast.AST]:
    """All nodes of a module that a rule looks at: the others are nine of ten."""
    return [node for node in ast.walk(tree(path)) if isinstance(node, LOOKED_AT)]


def dotted(node: ast.expr) -> str:
    """`self.path.unlink` as it is written: ast.unparse takes twenty times as long, and knows all else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


@functools.cache
def calls(path: str) -> list[tuple[str, ast.Call]]:
    """(`open`, node), (`os.rename`, node), (`self.path.unlink`, node) for each call in a module."""
    return [(dotted(node.func), node) for node in nodes(path) if isinstance(node, ast.Call)]


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


def imported_modules(path: str) -> set[str]:
    """Modules of klogtool that a module imports, wherever in it."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if path_of(name) else str(node.module) for name in names}
    return {place for name in found if (place := path_of(name)) and place != path}


def path_of(module: str) -> str | None:
    """Where a module of klogtool lies; None if there is none of that name."""
    stem = module.replace(".", "/")
    return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in MODULES), None)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {path: imported_modules(path) for path in MODULES}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


@pytest.mark.slow
def test_the_picture_of_the_house_is_what_the_imports_say() -> None:
    draw_house, page = tool("draw_house"), (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert draw_house.with_picture(page) == page, "run `make docs`"
    assert draw_house.picture() in page
    heights = [FLOORS[name] for name in draw_house.floors() if name != draw_house.BASICS]
    assert heights == sorted(heights)
    assert set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)) == set(draw_house.floors())


# A line of a package's map: `    windows  a log in windows that hold whole entries`; of a folder, `    codecs/  ...`.
MAP_LINE = re.compile(r"^(?: {4})?([a-z0-9_]+(?:/|\.pxi|\.pyx|\.h)?) {2,}\S", re.MULTILINE)
PARTS = ("*.pxi", "*.pyx", "*.h")  # of the extension


def modules_beside(path: str) -> list[str]:
    """What a package's folder holds, as its map names it."""
    folder = (ROOT / path).parent
    modules = [module.stem for module in folder.glob("*.py") if not module.stem.startswith("__")]
    parts = [part.name for kind in PARTS for part in folder.glob(kind)]
    return sorted([*modules, *parts, *(f"{below.parent.name}/" for below in folder.glob("*/__init__.py"))])


@every_module
def test_the_docstring_of_a_package_is_the_map_of_its_modules(path: str) -> None:
    if not path.endswith("/__init__.py"):
        return
    assert sorted(MAP_LINE.findall(ast.get_docstring(tree(path), clean=False) or "")) == modules_beside(path)


def references() -> Iterator[tuple[str, str]]:
    """(`_clean.pxi`, `broker/cleaning/offset_map`), ...: the table in the docstring of klogtool.kernels."""
    part = ""
    for line in (ast.get_docstring(tree("klogtool/kernels/__init__.py"), clean=False) or "").splitlines():
        part = named[1] if (named := MAP_LINE.match(line)) else part
        if part and (found := re.search(r" ((?:[a-z0-9_]+/)+[a-z0-9_]+)$", line)):
            yield part, found[1]


@pytest.mark.parametrize(("part", "reference"), list(references()))
def test_a_kernel_and_its_reference_name_each_other(part: str, reference: str) -> None:
    kernel = (ROOT / "klogtool/kernels" / part).read_text(encoding="utf-8")
    assert reference in kernel.partition("cdef ")[0].replace(".", "/")
    assert f"kernels/{part}" in (ast.get_docstring(tree(f"klogtool/{reference}.py")) or "")


def test_every_kernel_that_others_call_has_its_reference() -> None:
    kernels = {path.name for path in (ROOT / "klogtool/kernels").glob("*.pxi")}
    assert kernels - {part for part, _ in references()} == {"_common.pxi", "_text.pxi"}


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
    assert path.startswith("klogtool/cli/") or path == "klogtool/clock.py" or not asking
    may_ask = path.startswith(("klogtool/cli/", "klogtool/testing/")) or path == "klogtool/objects.py"
    assert may_ask or "klogtool.clock" not in imports(path)


@every_module
def test_lines_for_people_are_put_together_where_they_are_escaped(path: str) -> None:
    found = [
        f"{path}:{call.lineno}" for name, call in calls(path) if name in ("'\\n'.join", "shlex.quote", "shlex.join")
    ]
    for_people = path.startswith(("klogtool/render/", "klogtool/cli/"))
    assert not (for_people and found), "klogtool.escape.joined and quoted"


@every_module
def test_what_is_public_says_what_it_is_for_and_is_short(path: str) -> None:
    assert ast.get_docstring(tree(path)), f"{path} has no docstring"
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_overload = any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)
            public = not node.name.startswith("_") and node in tree(path).body and not is_overload
            assert not public or ast.get_docstring(node), f"{path}:{node.lineno}: {node.name} has no docstring"
            if not isinstance(node, ast.ClassDef):
                lines = int(node.end_lineno or 0) - node.lineno + 1
                assert lines <= LONGEST_FUNCTION_LINES, f"{path}:{node.lineno}: {node.name} has {lines} lines"


# `name: what it is`, at the beginning of a sentence of a docstring; and such names that are no name in the code.
EXPLAINED = re.compile(r"(?:^|[.;] )((?:[a-z_]+, )*[a-z_]+): ")
NO_NAMES = {
    "": {"default", "empty", "null"},
    "Share": {"lead", "follow", "leave", "restore"},  # actions
    "ForeignCure": {"file"},  # a value of a cause
    "SalvageVerdict": {"size"},  # of the class below
    "FollowedSegment": {"marks"},
}


def names_in(node: ast.AST) -> set[str]:
    """Names, parameters, attributes and words that a definition has, without its docstring."""
    ways = ("id", "arg", "attr", "name", "value")
    return {name for each in ast.walk(node) for way in ways if isinstance(name := getattr(each, way, None), str)}


@every_module
def test_what_a_docstring_explains_is_there(path: str) -> None:
    """Who renames a parameter or a field renames it in the docstring as well."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
            paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
            explained = {name for each in paragraphs for names in EXPLAINED.findall(each) for name in names.split(", ")}
            unknown = explained - NO_NAMES[""] - NO_NAMES.get(node.name, set())
            missing = unknown - names_in(node) if unknown else set()
            assert not missing, f"{path}:{node.lineno}: {node.name} explains {missing}, which it does not have"


@every_module
def test_no_error_is_swallowed_whole(path: str) -> None:
    for node in nodes(path):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            handed_on = caught == "BaseException" and node.name  # from a thread to the one that waits for it
            swallowed = caught in ("everything", "Exception", "BaseException") and not handed_on
            assert not swallowed, f"{path}:{node.lineno}: except {caught}"


# Sentences for people, by the names that the house gives them.
SENTENCES = {"detail", "reason", "note", "notes", "cure", "message", "title", "price", "why"}
SEARCHES = {"startswith", "endswith", "find", "index", "count", "partition", "rpartition", "split", "match", "search"}
SEARCHES |= {"fullmatch", "findall", "finditer", "removeprefix", "removesuffix"}


def is_sentence(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in SENTENCES


def searches_words(node: ast.AST) -> bool:
    """Does it look for words in a sentence?"""
    if isinstance(node, ast.Compare):
        searched = (
            right for op, right in zip(node.ops, node.comparators, strict=True) if isinstance(op, ast.In | ast.NotIn)
        )
        return not isinstance(node.left, ast.Attribute) and any(map(is_sentence, searched))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
        return any(map(is_sentence, [node.func.value, *node.args]))
    return False


@every_module
def test_below_render_nobody_looks_for_words_in_a_sentence(path: str) -> None:
    """A cause is a field: names and bytes of a disk stand in sentences, too, and its words may change."""
    if floor_of(path.removesuffix(".py").replace("/", ".")) < FLOORS["render"]:
        words = [node for node in nodes(path) if isinstance(node, ast.expr) and searches_words(node)]
        found = [f"{path}:{node.lineno}: {ast.unparse(node)}" for node in words]
        assert not found


# Modules with the messages of Kafka's exceptions, and of codecs and schemas, which are no sentences of klogtool.
OF_KAFKA = {
    "broker": "appending/appender appending/checks cleaning/read_buffer coordinator/coordinator_load "
    "metadata/refusals unified_log/index_files",
    "format": "batch batch_encoding checkpoints codecs/__init__ codecs/gzip codecs/inflated codecs/padding control "
    "control_values identity indexes internal/decoders internal/message internal/primitives internal/records "
    "internal/remote_log java_text kernel_layout record_digests text text_values",
    "verify": "verify_checkpoints verify_kraft verify_log_dirs verify_names verify_voters",
}
# What is left: a sentence or two of klogtool in each. Nothing is added here.
WITH_SENTENCES = {
    "broker": "appending/records cluster_config coordinator/committed_offsets metadata/quorum",
    "building": "log_dir spec_text",
    "parameters": "",
    "plans": "fields recover recover_reach remote_metadata",
    "quorum": "new_voters",
    "remote": "fetching store",
    "verify": "settings",
}
FEWEST_WORDS = 4
# What declares an option, makes an error or a note of one, or refuses with this reason.
NO_ANSWERS = re.compile(
    r"parameter$|(Refused|Corrupt|KlogError|Changed|StalePlan|Unreadable|OSError)$|_refused$|super\(\).__init__$|add_note$|"
    r"check_no_folders$"
)


def sentences(node: ast.AST) -> Iterator[ast.expr]:
    """Texts of four words or more, but docstrings, help of options, and what an error says of itself."""
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    if isinstance(node, ast.FunctionDef) and node.name == "__repr__":
        return
    if isinstance(node, ast.AnnAssign) and dotted(node.annotation) == "TypeAlias":
        return
    if isinstance(node, ast.Call) and NO_ANSWERS.search(dotted(node.func)):
        return
    if isinstance(node, ast.Constant | ast.JoinedStr):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)
        if len(text.split()) >= FEWEST_WORDS and not isinstance(getattr(node, "value", ""), bytes):
            yield node
    for child in ast.iter_child_nodes(node):
        yield from sentences(child)


def test_sentences_are_in_render() -> None:
    """A list that is too long fails as well: who moves the last sentence of a module takes it out."""
    below = (path for path in MODULES if floor_of(path.removesuffix(".py").replace("/", ".")) < FLOORS["render"])
    found = {path: [f"{path}:{text.lineno}: {ast.unparse(text)}" for text in sentences(tree(path))] for path in below}
    excused = {
        f"klogtool/{floor}{'/' if name else ''}{name}.py"
        for kept in (OF_KAFKA, WITH_SENTENCES)
        for floor, names in kept.items()
        for name in names.split() or [""]
    }
    assert not [line for path, lines in found.items() if path not in excused for line in lines]
    assert {path for path in excused if not found[path]} == set()


def test_spark_raises_causes() -> None:
    """Its driver and its tasks make no sentences, either, but that about two sizes."""
    raised = [
        (path, sentence)
        for path in MODULES
        if path.startswith("klogtool/spark/")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
        for value in node.exc.args
        for sentence in sentences(value)
    ]
    assert [ast.unparse(sentence) for path, sentence in raised if path != "klogtool/spark/exporting.py"] == []


# Floors in which an error has a cause as well. What Kafka throws has Kafka's words.
OF_CAUSES = ("plans", "disk", "fleet", "quorum", "copies", "salvage", "cli")
ERRORS = re.compile(r"(Refused|KlogError|Changed|StalePlan|Unsupported|AboveLimit|Impossible|WrongField|refused)$")


@every_module
def test_a_refusal_is_a_cause(path: str) -> None:
    if not path.startswith(tuple(f"klogtool/{floor}/" for floor in OF_CAUSES)):
        return
    errors = [node for node in nodes(path) if isinstance(node, ast.Call) and ERRORS.search(dotted(node.func))]
    own = [error for error in errors if "kafka_class" not in {word.arg for word in error.keywords}]
    values = [value for error in own for value in (*error.args, *(word.value for word in error.keywords))]
    assert not [f"{path}:{text.lineno}: {ast.unparse(text)}" for value in values for text in sentences(value)]


WITH_WORDS = ("klogtool/causes.py", "klogtool/verify/findings.py", "klogtool/verify/log_damage.py")


@every_module
def test_below_render_few_ask_for_the_sentence_of_a_reason(path: str) -> None:
    """A reason goes up as a value. Who has to make text below render, for an error or a plan, asks the finding."""
    if path not in WITH_WORDS and floor_of(path.removesuffix(".py").replace("/", ".")) < FLOORS["render"]:
        imports = [
            node for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.module == "klogtool.causes"
        ]
        assert not [path for node in imports if "words" in [alias.name for alias in node.names]]


# Words that are equal to an id of a finding, and mean something else: types of rows, and what doctor foresees.
OTHER_WORDS = ("klogtool/render/file_dump.py", "klogtool/broker/appending/records.py", "klogtool/doctor/claims.py")


@every_module
def test_the_id_of_a_finding_stands_only_in_its_row(path: str) -> None:
    """Everywhere else a kind of finding is a member of `Kind`: the type checker sees it, and a reader finds it."""
    if path.startswith(("klogtool/verify/findings.py", *OTHER_WORDS)):
        return
    texts = (node for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    assert not [f"{path}:{text.lineno}: {text.value}" for text in texts if text.value in KINDS]


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("'reserved' in point.detail", True),
        ("'x' not in why", True),
        ("any('leftover' in note for note in plan.notes)", True),
        ("note.startswith(('last stop', 'recovery point'))", True),
        ("re.search('cut', error.reason)", True),
        ("finding.detail.partition(':')[0]", True),
        ("why == native.FULL", False),
        ("point.cure not in (None, FROM_A_CONTROLLER)", False),
        ("f'{error.reason}: a broker does not start'", False),
    ],
)
def test_a_search_for_words_is_seen(line: str, is_found: bool) -> None:
    assert any(map(searches_words, ast.walk(ast.parse(line)))) == is_found


def test_no_machine_and_no_workplace_is_named() -> None:
    folders = ("klogtool", "tests", "tools", "docs", ".ci")
    files = [p for folder in folders for p in ROOT.glob(f"{folder}/**/*") if p.suffix in (".py", ".sh", ".md", ".java")]
    for path in [*files, ROOT / "README.md", ROOT / "Makefile"]:
        text = path.read_text(encoding="utf-8")
        assert "/ro" + "ot/" not in text, path
        assert "/wo" + "rk/" not in text.replace(".wo" + "rk/", ""), path


def test_no_two_modules_of_the_tests_have_one_name() -> None:
    """Folders of tests are no packages, except some: pytest imports their modules by name, from any folder."""
    folders = [path for path in (ROOT / "tests").rglob("*.py") if not (path.parent / "__init__.py").exists()]
    names = [path.name for path in folders if path.name != "conftest.py"]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


# The same thing under its public name, one floor up; and what stands in for the extension where that is not built.
UNDER_ITS_PUBLIC_NAME = {"LogDir", "Partition", "Message", "RecordBatch"}
STANDS_IN = "klogtool/kernels/absent.py"


def test_the_name_of_a_public_class_stands_once() -> None:
    """A reader who looks for a name finds one class. Names that begin with an underscore are a module's own."""
    homes: dict[str, list[str]] = {}
    for path in (str(path.relative_to(ROOT)) for path in (ROOT / "klogtool").rglob("*.py")):
        for node in nodes(path) if path != STANDS_IN else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert {name: places for name, places in twice.items() if name not in UNDER_ITS_PUBLIC_NAME} == {}


# A name of what somebody did, where the field has one for what it is: a status, a match, a chunk, a result.
OUR_WORDS = {"found", "told", "asked", "given", "chosen", "made", "piece", "pieces"}
# A value of a cause, or a field that others rely on.
FIELDS = {
    "klogtool/plans/free.py": {"found"},
    "klogtool/broker/unified_log/lookup.py": {"found"},
    "klogtool/doctor/host.py": {"found"},
}


@every_module
def test_a_variable_is_named_after_what_it_is(path: str) -> None:
    every = list(ast.walk(tree(path)))
    names = {node.id for node in every if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.arg for node in every if isinstance(node, ast.arg)}
    assert names & OUR_WORDS == FIELDS.get(path, set())
