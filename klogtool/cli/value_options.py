"""Options for decoded keys and values: --value-format, --value-decoder, --schemas, ...

dump-log, read and diff share them; spark export has those without programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from klogtool.cli.output import note

if TYPE_CHECKING:
    from klogtool.decoding.piped import PipedDecoder
    from klogtool.decoding.record_values import Decoding, Piece
    from klogtool.decoding.schemas import Schemas

Command = TypeVar("Command", bound=Callable[..., Any])

NAMES = ("key-format", "value-format", "schemas", "key-decoder", "value-decoder", "decoder-timeout")
DEFAULT_TIMEOUT_S = 30.0
KNOWN = "string, json, int, long, hex, avro, protobuf, msgpack, ..."


def formats(command: Command) -> Command:
    """--key-format, --value-format, --schemas."""
    for option in (
        click.option(
            "--schemas", type=click.Path(), metavar="DIR", help="A folder with schemas, for avro and protobuf: 17.avsc."
        ),
        click.option("--value-format", metavar="FORMAT", help="Decode values: the same formats."),
        click.option("--key-format", metavar="FORMAT", help=f"Decode keys: {KNOWN}"),
    ):
        command = option(command)
    return command


def decoders(command: Command) -> Command:
    """The options of `formats`, and --key-decoder, --value-decoder, --decoder-timeout."""
    for option in (
        click.option(
            "--decoder-timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=DEFAULT_TIMEOUT_S,
            show_default=f"{DEFAULT_TIMEOUT_S:g}",
            metavar="SECONDS",
            help="Stop asking a decoder that does not answer for so long.",
        ),
        click.option("--value-decoder", metavar="CMD", help="Decode values by a program: bytes in, lines of JSON out."),
        click.option("--key-decoder", metavar="CMD", help="Decode keys by a program."),
    ):
        command = option(command)
    return formats(command)


def is_wanted(chosen: Mapping[str, Any]) -> bool:
    """Whether keys or values are to be decoded."""
    return any(chosen.get(f"{piece}_{how}") is not None for piece in ("key", "value") for how in ("format", "decoder"))


class Asked:
    """How keys and values are decoded, while a command runs; decoding: None if they are not."""

    def __init__(self, decoding: Decoding | None = None, programs: tuple[tuple[str, PipedDecoder], ...] = ()) -> None:
        self.decoding, self._programs = decoding, programs

    @property
    def is_cut(self) -> bool:
        """Whether a program has ended before all was decoded: the status is 4 then."""
        return any(program.end is not None for _, program in self._programs)

    def notes(self) -> Iterator[str]:
        """Yield what to say on stderr at the end."""
        for name, program in self._programs:
            if program.end is not None:
                yield f"klogtool: {name}: {program.end}; what followed is not decoded"
        yield from () if self.decoding is None else (f"klogtool: {line}" for line in self.decoding.notes())


@contextmanager
def asked_for(chosen: Mapping[str, Any]) -> Iterator[Asked]:
    """Start what decodes. At the end, notes go to stderr, and programs are ended.

    Raises UsageError for options that exclude each other, KlogError for what is not there.
    """
    if not is_wanted(chosen):
        if chosen.get("schemas") is not None:
            raise click.UsageError("--schemas needs --key-format or --value-format.")
        yield Asked()
        return
    with ExitStack() as stack:
        asked = _begun(chosen, stack)
        yield asked
    for line in asked.notes() if asked.is_cut or not chosen.get("quiet") else ():
        note(line)


def _begun(chosen: Mapping[str, Any], stack: ExitStack) -> Asked:
    from klogtool.decoding.record_values import Decoding  # only for runs that decode

    schemas, programs, pieces = _schemas(chosen), list[tuple[str, "PipedDecoder"]](), dict[str, "Piece | None"]()
    for piece in ("key", "value"):
        form, command = chosen.get(f"{piece}_format"), chosen.get(f"{piece}_decoder")
        if form is not None and command is not None:
            raise click.UsageError(f"--{piece}-format and --{piece}-decoder exclude each other.")
        pieces[piece] = None if form is None else _of_format(piece, form, schemas)
        if command is not None:
            program, pieces[piece] = _of_program(command, chosen["decoder_timeout"], stack)
            programs.append((f"--{piece}-decoder", program))
    return Asked(Decoding(pieces["key"], pieces["value"]), tuple(programs))


def _schemas(chosen: Mapping[str, Any]) -> Schemas | None:
    if chosen.get("schemas") is None:
        return None
    from klogtool.decoding.schemas import read_schemas

    return read_schemas(chosen["schemas"])


def _of_format(piece: str, form: str, schemas: Schemas | None) -> Piece:
    from klogtool.decoding.formats import WITH_SCHEMAS, find_decoder, known_formats
    from klogtool.decoding.record_values import Piece
    from klogtool.format.text import did_you_mean

    known = known_formats()
    if form not in known:
        raise click.UsageError(
            f"--{piece}-format: no such format: {form}{did_you_mean(form, known)}. There are {', '.join(known)}."
        )
    if form in WITH_SCHEMAS and schemas is None:
        raise click.UsageError(f"--{piece}-format {form} needs --schemas DIR.")
    return Piece(form, find_decoder(form, schemas, is_key=piece == "key"))


def _of_program(command: str, timeout_s: float, stack: ExitStack) -> tuple[PipedDecoder, Piece]:
    from klogtool.decoding.piped import PipedDecoder
    from klogtool.decoding.record_values import DECODER, Piece

    program = stack.enter_context(PipedDecoder(command, timeout_s=timeout_s))
    return program, Piece(DECODER, program)


def check_formats(chosen: Mapping[str, Any]) -> None:
    """Raise UsageError for formats that are not there, or lack schemas."""
    if chosen.get("schemas") is not None and not is_wanted(chosen):
        raise click.UsageError("--schemas needs --key-format or --value-format.")
    schemas = _schemas(chosen)
    for piece in ("key", "value"):
        if (form := chosen.get(f"{piece}_format")) is not None:
            _of_format(piece, form, schemas)


def refuse_columns(chosen: Mapping[str, Any], form: str) -> None:
    """Refuse decoding for a form of output that has only raw keys and values."""
    if form in ("csv", "arrow", "parquet") and is_wanted(chosen):
        raise click.UsageError(f"--format {form} has raw keys and values. klogtool spark export writes decoded ones.")
    if form not in ("text", "json") and is_wanted(chosen):
        raise click.UsageError(f"--format {form} has no keys and values.")


def refuse_beside(chosen: Mapping[str, Any], others: Mapping[str, str]) -> None:
    """Refuse decoding beside options that decode in another way. others: parameter -> name of the option."""
    if not is_wanted(chosen):
        return
    for param, name in others.items():
        if chosen.get(param):
            raise click.UsageError(
                f"{name} decodes as kafka-dump-log does: it excludes --key-format and --value-format."
            )
