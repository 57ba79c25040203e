"""Messages of a broker's log, recognised: which situation a pasted text is about, and where.

The text may be a line, a part of a line, or many lines with stack traces; anybody may have written it. It is cut at
`MOST_CHARACTERS`. A text with no known message gives nothing, never a guess; `similar` names what is near.

`{name}` stands for anything up to the text that follows it, in the same line. What it took is never given back (atomic
groups), so no text makes the search slow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

from msgspec import Struct

from klogtool.doctor.situation import Outcome, Situation, Wording, situations
from klogtool.doctor.where import Where, where_in
from klogtool.verify.findings import Kind
from klogtool.verify.stops import Stop

MOST_CHARACTERS = 1 << 19
MOST_OF_A_WRAPPED_LINE = 4096
MOST_RIVALS = 6  # a part that more situations share says nothing
MOST_SIMILAR = 3
LINES_OF_A_MESSAGE = 3  # with the line of its exception
_TIME = re.compile(r"\W?\d{4}-\d\d-\d\d")
_OUTCOMES = list(Outcome)
_WORD = re.compile(r"[a-z.]{4,40}")
# An exception with a message of its own is not what its class alone says.
_ERROR_NAME = re.compile(r"(?<!\w)(?:[A-Z]+(?:_[A-Z]+)+|[A-Z][A-Za-z]{1,60}Exception(?!: ))(?!\w)")


class Recognised(Struct, frozen=True):
    """A situation that a text is about. said: the message in the text, in one line. times: how often it is there.

    is_whole: the whole message is there, and not only a part of it.
    """

    situation: Situation
    wording: Wording
    said: str
    where: Where
    times: int = 1
    is_whole: bool = True

    @property
    def cures(self) -> tuple[str, ...]:
        """Return the commands, with the paths of the message."""
        return tuple(map(self.where.filled, self.situation.cures))


class _Match(Struct, frozen=True):
    """clue: whether the clue of the situation is in the text; None if it needs none."""

    situation: Situation
    wording: Wording
    start: int
    end: int
    groups: dict[str, str]
    times: int
    clue: bool | None


def recognise(text: str) -> list[Recognised]:
    """Return all situations that a text is about; none if it has no known message.

    The order: what a clue proves, then the worst for the broker, then the longest message. Situations whose clue is not
    there, and those that only say that something failed, come last.
    """
    text = readable(text[:MOST_CHARACTERS])
    return _by_wordings(text) or _by_error_names(text)


def _by_wordings(text: str) -> list[Recognised]:
    matches = _matches(text)
    if not matches and len(text) <= MOST_OF_A_WRAPPED_LINE:
        text = " ".join(text.split())  # a line that a terminal has wrapped
        matches = _matches(text)
    if not matches:
        return _parts(text)
    by_name: dict[str, list[_Match]] = {}
    for match in sorted(_without_rivals(matches, text), key=_rank):
        by_name.setdefault(match.situation.name, []).append(match)
    return [_whole(its, text) for its in by_name.values()]


def situation_of(stop: Stop, kind: Kind | None = None) -> Situation | None:
    """Return the situation of an exception that keeps a broker from its logs, or None. kind: of the finding, which
    stands for the clue that a stack trace would have."""
    clues = {each.clue for each in situations().values() if each.clue and kind in each.findings}
    clue = clues.pop() if len(clues) == 1 else None
    candidates = (one.situation for one in _by_wordings(readable(f"{stop.kafka_class}: {stop.message}\n{clue or ''}")))
    return next((each for each in candidates if each.clue in (None, clue)), None)


def similar(text: str) -> list[Situation]:
    """Return situations whose messages share rare words with a text, the nearest first; often none."""
    words = set(_WORD.findall(readable(text[:MOST_OF_A_WRAPPED_LINE]).casefold()))
    shared = {name: own & words for name, own in _words_by_name().items()}
    counted = _word_counts()
    least = min(len(words), 2)
    scores = {name: sum(1 / counted[word] for word in both) for name, both in shared.items() if len(both) >= least > 0}
    best = sorted(scores, key=lambda name: -scores[name])[:MOST_SIMILAR]
    return [situations()[name] for name in best]


def named(name: str) -> Recognised:
    """Return a situation that somebody asks for by its name, without paths. Raises KeyError for an unknown name."""
    situation = situations()[name]
    return Recognised(situation, situation.wordings[0], "", Where())


def _matches(text: str) -> list[_Match]:
    return [match for situation in situations().values() for match in _of_situation(situation, text)]


def _of_situation(situation: Situation, text: str) -> Iterator[_Match]:
    for wording in situation.wordings:
        if not all(literal in text for literal in literals_of(wording.text)):
            continue
        matches = list(pattern_of(wording.text).finditer(text))
        if matches:
            clue = None if situation.clue is None else situation.clue in text
            yield _Match(situation, wording, *matches[0].span(), matches[0].groupdict(), len(matches), clue)


def _without_rivals(matches: list[_Match], text: str) -> Iterator[_Match]:
    """Leave out what is a part of a longer message at the same place, and what a clue in the text excludes or
    contains."""
    clues = [match.situation.clue or "" for match in matches if match.clue]
    for match in matches:
        if match.clue is None and any(clue in text[match.start : match.end] for clue in clues):
            continue
        around = (rival for rival in matches if rival.start <= match.start and match.end <= rival.end)
        if not any(_displaces(rival, match) for rival in around) and not _is_explained(match, matches, text):
            yield match


def _displaces(rival: _Match, match: _Match) -> bool:
    if rival is match or rival.clue is False or match.clue or _is_vaguer(rival, match):
        return False
    return bool(rival.clue) or literal_length(rival.wording.text) > literal_length(match.wording.text)


def _is_vaguer(rival: _Match, match: _Match) -> bool:
    return rival.situation.is_general and not match.situation.is_general


def _is_explained(match: _Match, matches: list[_Match], text: str) -> bool:
    """Return whether an exception without its clue belongs to another message, here or just before it."""
    if match.clue is not False:
        return False
    sure = (one for one in matches if one.clue is not False and not _is_vaguer(one, match) and one.start < match.end)
    return any(text.count("\n", one.end, match.start) < LINES_OF_A_MESSAGE for one in sure)


def _rank(match: _Match) -> tuple[bool, bool, bool, int, int]:
    situation = match.situation
    worst_first = -_OUTCOMES.index(situation.outcome)
    length = -literal_length(match.wording.text)
    return situation.is_general, match.clue is False, not match.clue, worst_first, length


def _whole(matches: list[_Match], text: str) -> Recognised:
    """matches: of one situation, the best first."""
    best = matches[0]
    said = " ".join(text[best.start : best.end].split())
    groups = {name: value for match in reversed(matches) for name, value in match.groups.items()}
    where = where_in(_event_at(text, best.start), groups)
    return Recognised(best.situation, best.wording, said, where, best.times)


def _event_at(text: str, position: int) -> str:
    """Return the line at a position, and those after it that tell its exception."""
    line, *after = text[text.rfind("\n", 0, position) + 1 :].split("\n", LINES_OF_A_MESSAGE)[:LINES_OF_A_MESSAGE]
    return "\n".join([line, *(other for other in after if "Exception: " in other and not _TIME.match(other))])


def _by_error_names(text: str) -> list[Recognised]:
    """Return the situations of the codes and exceptions of Kafka's table of errors that a text has without their
    sentences."""
    names = Counter(_ERROR_NAME.findall(text))
    said = [
        Recognised(situation, situation.wordings[0], name, where_in(text, {}), names[name])
        for situation in situations().values()
        for name in [next(filter(names.get, situation.names), None)]
        if name is not None
    ]
    return sorted(said, key=lambda one: (one.situation.is_general, -_OUTCOMES.index(one.situation.outcome)))


def _parts(text: str) -> list[Recognised]:
    """Return the situations of which a part of a message is in the text, or the text is in a part of a message."""
    query = " ".join(text.split()).strip(MARKS).casefold()
    longest: dict[str, tuple[int, Wording]] = {}
    for situation in situations().values():
        for wording in situation.wordings:
            length = max((_common(part, query) for part in parts_of(wording.text)), default=0)
            if length > longest.get(situation.name, (0, wording))[0]:
                longest[situation.name] = length, wording
    best = max((length for length, _ in longest.values()), default=0)
    names = [name for name, (length, _) in longest.items() if length == best]
    if len(names) > MOST_RIVALS:
        return []
    said, where = " ".join(text.split()), where_in(text, {})
    return [Recognised(situations()[name], longest[name][1], said, where, is_whole=False) for name in names]


def _common(part: str, query: str) -> int:
    """Return how long the common text is, if one contains the other and it says enough; else 0."""
    common = part if part in query else query if query in part else ""
    return len(common) if common.count(" ") >= FEWEST_WORDS - 1 else 0


@cache
def _words_by_name() -> dict[str, frozenset[str]]:
    return {situation.name: frozenset(_words_of(situation.wordings)) for situation in situations().values()}


def _words_of(wordings: Iterable[Wording]) -> Iterator[str]:
    for wording in wordings:
        for literal in literals_of(wording.text):
            yield from _WORD.findall(literal.casefold())


@cache
def _word_counts() -> Counter[str]:
    return Counter(word for words in _words_by_name().values() for word in words)


_PLACEHOLDER = re.compile(r"\{(\w*)\}")
NUMBERS = frozenset({"base", "bytes", "end", "offset", "position", "size", "start"})
MARKS = " .,:;'\"[](){}`\u2026"  # around a part of a message that somebody pasted
FEWEST_WORDS = 4  # of a part of a message: fewer are in other messages, too


@cache
def pattern_of(text: str) -> re.Pattern[str]:
    """Return the pattern of a wording, with a group for each name. The first `{name}` of a name is its group."""
    parts = _PLACEHOLDER.split(text)  # literal, name, literal, name, ..., literal
    expression = re.escape(parts[0]) if parts[0] else r"(?<!\S)"
    taken: set[str] = set()
    for name, literal in zip(parts[1::2], parts[2::2], strict=True):
        expression += _group(name if name not in taken else "", literal)
        taken.add(name)
    return re.compile(expression)


def _group(name: str, literal: str) -> str:
    is_last = literal in ("", ".")  # names have dots, too
    literal = "" if is_last else literal
    value = r"-?\d+" if name in NUMBERS else r'[^\n"]*' if is_last else r"[^\n]*?"
    group = f"(?P<{name}>{value})" if name else f"(?:{value})"
    return f"(?>{group}{re.escape(literal)})"


def literals_of(text: str) -> list[str]:
    """Return the parts of a wording that do not vary."""
    return [part for part in _PLACEHOLDER.split(text)[::2] if part]


def parts_of(text: str) -> list[str]:
    """Return the parts of a wording as somebody may paste them: in lower case, without marks around."""
    return [part.strip(MARKS).casefold() for part in literals_of(text)]


def literal_length(text: str) -> int:
    """Return how many characters of a wording do not vary: the more, the more specific."""
    return sum(map(len, literals_of(text)))


def readable(text: str, wanted: int = 4096) -> str:
    """Return what people paste as a broker would have written it. wanted: characters of a line.

    Without colours of a terminal, line ends of Windows, runs of blanks and curved quotes; `\\n` and `\\"` of a log in
    JSON as what they stand for; without the name of the logger at the end of a line, or before an exception.
    """
    for typed, meant in _TYPED:
        text = text.replace(typed, meant)
    text = _LOGGER_INSIDE.sub("\n", _COLOUR.sub("", text))
    text = "\n".join(line[:wanted] for line in text.split("\n"))
    return _LOGGER.sub("", _CODE_OF_MARKDOWN.sub(r"\1\2", _BLANKS.sub(" ", text)))


_TYPED = (
    *(("\r\n", "\n"), ("\r", "\n"), ("\\n", "\n"), ("\\t", " "), ('\\"', '"')),
    *(("\u201c", '"'), ("\u201d", '"'), ("\u2018", "'"), ("\u2019", "'")),
)
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_BLANKS = re.compile(r"[ \t\xa0]+")
# An exception that a collector of logs has joined to the line before it.
_LOGGER_INSIDE = re.compile(
    r" \((?:kafka|org\.apache\.kafka|state)\.[\w.$]{1,200}\) (?=[\w.$]{1,200}(?:Exception|Error)\b)"
)
_LOGGER = re.compile(  # and the number of its line, as Confluent's images log it; and the thread, as Strimzi's do
    r" \((?:kafka|org\.apache\.kafka|io\.confluent|state)\.[\w.$]{1,200}(?::\d{1,9})?\)(?: \[[^\[\]\n]{1,200}\])?$",
    re.MULTILINE,
)
_CODE_OF_MARKDOWN = re.compile(r"^((?:> ?){0,9})`([^`\n]{1,4096})`$", re.MULTILINE)
