"""Options for decoded keys and values: --value-format, --value-decoder, --schemas, ...

dump-log, read and diff share them; spark export has those without programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import click
from msgspec import Struct

from klogtool.cli.output import note
from klogtool.parameters import Unit, parameter

if TYPE_CHECKING:
    from klogtool.decoding.piped import PipedDecoder
    from klogtool.decoding.record_values import Decoding, PartDecoder
    from klogtool.decoding.schemas import Schemas

NAMES = ("key-format", "value-format", "schemas", "key-decoder", "value-decoder", "decoder-timeout")
DEFAULT_TIMEOUT_S = 30.0
KNOWN = "string, json, int, long, hex, avro, protobuf, msgpack, ..."
Part = Literal["key", "value"]


class Decoders:
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
        if self.decoding is not None:
            from klogtool.render.decoded_text import decoding_notes  # only for runs that decode

            yield from (f"klogtool: {line}" for line in decoding_notes(self.decoding))


class FormatOptions(Struct, frozen=True, kw_only=True):
    """In which formats keys and values are."""

    key_format: Annotated[str | None, parameter(f"Decode keys: {KNOWN}", Unit.TEXT, metavar="FORMAT")] = None
    value_format: Annotated[str | None, parameter("Decode values: the same formats.", Unit.TEXT, metavar="FORMAT")] = (
        None
    )
    schemas: Annotated[str | None, parameter("A folder with schemas, for avro and protobuf: 17.avsc.", Unit.FOLDER)] = (
        None
    )

    @property
    def is_wanted(self) -> bool:
        """Whether keys or values are to be decoded."""
        return self.key_format is not None or self.value_format is not None

    def check(self) -> None:
        """Raise UsageError for formats that are not there, or lack schemas."""
        self.check_schemas()
        schemas = self.read_schemas()
        find_part_decoder("key", self.key_format, schemas)
        find_part_decoder("value", self.value_format, schemas)

    def check_schemas(self) -> None:
        """Raise UsageError for schemas that nothing needs."""
        if self.schemas is not None and not self.is_wanted:
            raise click.UsageError("--schemas needs --key-format or --value-format.")

    def read_schemas(self) -> Schemas | None:
        """Return the schemas in the folder; None if there is no folder."""
        if self.schemas is None:
            return None
        from klogtool.decoding.schemas import read_schemas

        return read_schemas(self.schemas)


def find_part_decoder(part: Part, form: str | None, schemas: Schemas | None) -> PartDecoder | None:
    """Return what decodes keys or values of a format. Raises UsageError if there is none, or no schemas."""
    if form is None:
        return None
    from klogtool.decoding.formats import WITH_SCHEMAS, find_decoder, known_formats
    from klogtool.decoding.record_values import PartDecoder
    from klogtool.format.text import did_you_mean

    known = known_formats()
    if form not in known:
        raise click.UsageError(
            f"--{part}-format: no such format: {form}{did_you_mean(form, known)}. There are {', '.join(known)}."
        )
    if form in WITH_SCHEMAS and schemas is None:
        raise click.UsageError(f"--{part}-format {form} needs --schemas DIR.")
    return PartDecoder(form, find_decoder(form, schemas, is_key=part == "key"))


class ValueOptions(Struct, frozen=True, kw_only=True):
    """How keys and values are decoded: by their formats, or by programs."""

    formats: FormatOptions = FormatOptions()
    key_decoder: Annotated[str | None, parameter("Decode keys by a program.", Unit.TEXT, metavar="CMD")] = None
    value_decoder: Annotated[
        str | None, parameter("Decode values by a program: bytes in, lines of JSON out.", Unit.TEXT, metavar="CMD")
    ] = None
    decoder_timeout: Annotated[
        float,
        parameter(
            "Stop asking a decoder that does not answer for so long.",
            metavar="SECONDS",
            parse=click.FloatRange(min=0, min_open=True),
        ),
    ] = DEFAULT_TIMEOUT_S

    @property
    def is_wanted(self) -> bool:
        """Whether keys or values are to be decoded."""
        return self.formats.is_wanted or self.key_decoder is not None or self.value_decoder is not None

    @contextmanager
    def decoders(self, *, quiet: bool) -> Iterator[Decoders]:
        """Start what decodes. At the end, notes go to stderr, unless they are not wanted, and programs are ended.

        Raises UsageError for options that exclude each other, KlogError for what is not there.
        """
        if not self.is_wanted:
            self.formats.check_schemas()
            yield Decoders()
            return
        with ExitStack() as stack:
            decoders = self._begin(stack)
            yield decoders
        for line in decoders.notes() if decoders.is_cut or not quiet else ():
            note(line)

    def _begin(self, stack: ExitStack) -> Decoders:
        from klogtool.decoding.record_values import Decoding  # only for runs that decode

        schemas, programs = self.formats.read_schemas(), list[tuple[str, "PipedDecoder"]]()
        part_decoders = list["PartDecoder | None"]()
        parts: tuple[tuple[Part, str | None, str | None], ...] = (
            ("key", self.formats.key_format, self.key_decoder),
            ("value", self.formats.value_format, self.value_decoder),
        )
        for part, form, command in parts:
            if form is not None and command is not None:
                raise click.UsageError(f"--{part}-format and --{part}-decoder exclude each other.")
            if command is None:
                part_decoders.append(find_part_decoder(part, form, schemas))
            else:
                from klogtool.decoding.piped import PipedDecoder
                from klogtool.decoding.record_values import DECODER, PartDecoder

                program = stack.enter_context(PipedDecoder(command, timeout_s=self.decoder_timeout))
                part_decoders.append(PartDecoder(DECODER, program))
                programs.append((f"--{part}-decoder", program))
        return Decoders(Decoding(*part_decoders), tuple(programs))

    def refuse_columns(self, form: str) -> None:
        """Refuse decoding for a form of output that has only raw keys and values."""
        if form in ("csv", "arrow", "parquet") and self.is_wanted:
            raise click.UsageError(
                f"--format {form} has raw keys and values. klogtool spark export writes decoded ones."
            )
        if form not in ("text", "json") and self.is_wanted:
            raise click.UsageError(f"--format {form} has no keys and values.")
