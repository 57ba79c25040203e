"""Each cause has a sentence, and whoever gives a reason gives what its sentence names."""

import ast
import importlib
import json
import pathlib
import pickle
import string
from collections.abc import Iterator

import klogtool
from klogtool.causes import Cause, Told, from_text, sentences
from klogtool.render.words import words

ROOT = pathlib.Path(klogtool.__file__).parent
for module in ROOT.rglob("*.py"):
    if "(Cause):" in module.read_text(encoding="utf-8"):
        importlib.import_module(".".join(("klogtool", *module.relative_to(ROOT).with_suffix("").parts)))
FLOORS = {kind.__name__: kind for kind in Cause.__subclasses__()}


def names_in(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


def given() -> Iterator[tuple[Cause, set[str], str]]:
    """Each `SomeCause.MEMBER(name=...)` in klogtool: the member, the names of its values, and where."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=kind), attr=member)) if kind in FLOORS:
                    yield FLOORS[kind][member], {str(word.arg) for word in node.keywords}, f"{path}:{node.lineno}"


def test_each_cause_has_a_sentence() -> None:
    said = {(kind, cause) for kind, group in sentences().items() for cause in group}
    in_few_words = {one for one in said if one[0] == "WhyNoVoter"}  # of seats: the same causes as ElectionCause
    assert {cause for _, cause in in_few_words} <= {cause.name for cause in FLOORS["ElectionCause"]}
    assert said - in_few_words == {(name, cause.name) for name, kind in FLOORS.items() for cause in kind}


def test_no_name_stands_twice() -> None:
    """JSON takes the last of two, and says nothing."""

    def named_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        assert len(dict(pairs)) == len(pairs), [name for name, _ in pairs]
        return dict(pairs)

    json.loads((ROOT / "render/words.json").read_text(encoding="utf-8"), object_pairs_hook=named_once)


def test_a_reason_has_what_its_sentence_names() -> None:
    named = {cause: names_in(sentences()[type(cause).__name__][cause.name]) for cause, _, _ in given()}
    wrong = [f"{where}: {cause} has {names}" for cause, names, where in given() if names != named[cause]]
    assert not wrong, "\n".join(wrong)


def test_a_reason_within_a_reason_and_a_list_are_said() -> None:
    inner = Told.TEXT(text="it is {gone}")
    assert words(Told.TEXT(text=inner)) == "it is {gone}"
    assert words(Told.TEXT(text=(1, 2))) == "1, 2"
    assert inner == Told.TEXT(text="it is {gone}") != Told.TEXT(text="")
    assert len({inner, Told.TEXT(text="it is {gone}")}) == 1


def test_who_prints_a_reason_gets_its_sentence() -> None:
    reason = Told.TEXT(text=from_text("it is gone"))
    assert (str(reason), f"{reason}") == ("it is gone", "it is gone")


def test_reasons_are_said_one_after_another() -> None:
    assert words(Told.TEXT(text=(from_text("one"), from_text("two")))) == "one; two"


def test_a_pickled_cause_is_its_name() -> None:
    """The values of members differ from process to process: they count up as modules are loaded."""
    reason = FLOORS["OrderCause"]["COPY"](offset=1, before=2)
    assert pickle.loads(pickle.dumps(reason)) == reason
    assert b"COPY" in pickle.dumps(reason)
