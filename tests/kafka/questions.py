"""Command lines for kafka-dump-log about a set of files, drawn as they occur: sensible, unusual, and wrong.

Most are what people type (all segments of a partition, a decoder for an internal topic, the indexes checked). The
rest try what the option parser and the walk over `--files` make of words nobody should write.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
TOPIC_DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
}
DECODERS = "org.apache.kafka.tools.api."
STRING, INTEGER, LONG = DECODERS + "StringDecoder", DECODERS + "IntegerDecoder", DECODERS + "LongDecoder"

# DefaultDecoder is left out: Java prints the identity of an array, another one each time.
DEEP = (
    ["--deep-iteration"],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log"],
    ["--deep-iteration", "--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--deep-iteration", "--skip-record-metadata"],
    ["--deep-iteration", "--skip-record-metadata", "--print-data-log"],
    ["--value-decoder-class", STRING],
    ["--key-decoder-class", STRING, "--deep-iteration"],
    ["--value-decoder-class"],
)
INDEX_OPTIONS: tuple[list[str], ...] = (
    [],
    [],
    ["--verify-index-only"],
    ["--index-sanity-check"],
    ["--verify-index-only", "--max-message-size", "100"],
    ["--max-message-size", "300"],
    ["--verify-index-only", "--index-sanity-check"],
)
NUMBERS = ("0", "1", "-1", "+300", "17", "61", "62", "2147483647", "2147483646", "-2147483648")
NO_NUMBERS = ("2147483648", "many", "", " 5", "5 ", "1e3", "0x10", "1_000", "५००", "300L", "3.0", "--5", "-")


@dataclass
class Questioner:
    """Draws command lines about `paths` (files and folders, relative); `sizes` gives --max-bytes its range."""

    rng: random.Random
    sizes: dict[str, int]

    def args(self) -> list[str]:
        """One command line."""
        draw = self.rng.random()
        if draw < 0.40:
            args = self._whole_logs()
        elif draw < 0.62:
            args = self._mixed()
        elif draw < 0.78:
            args = self._indexes()
        elif draw < 0.86:
            args = self._one_kind()
        elif draw < 0.95:
            args = self._any_options()
        else:
            args = self._nonsense()
        if self.rng.random() < 0.08:
            args = [self._respelled(arg) if at and args[at - 1] == "--files" else arg for at, arg in enumerate(args)]
        if self.rng.random() < 0.05:
            args = self._attached(args)
        return args

    # ------------------------------------------------------------ sensible

    def _whole_logs(self) -> list[str]:
        """All logs of a folder, or one; shallow, deep, printed, decoded, or only their beginning."""
        logs = self._some(".log", ".checkpoint")
        if self.rng.random() < 0.4:
            logs = [self.rng.choice(logs)]
        return ["--files", ",".join(logs), *self._log_options(logs)]

    def _log_options(self, logs: Sequence[str]) -> list[str]:
        options: list[str] = []
        special = self._decoder_of(logs[0])
        if special and self.rng.random() < 0.7:
            options = [special, *(["--skip-record-metadata"] if self.rng.random() < 0.3 else [])]
        elif self.rng.random() < 0.85:
            options = list(self.rng.choice(DEEP))
        if self.rng.random() < 0.2:
            options += ["--max-bytes", str(self.rng.randrange(max(map(self._size, logs)) + 40))]
        return options

    def _decoder_of(self, path: str) -> str | None:
        if path.endswith(".checkpoint"):
            return "--cluster-metadata-decoder"
        folder = PurePosixPath(path).parent.name
        return next((option for topic, option in TOPIC_DECODERS.items() if folder.startswith(topic)), None)

    def _mixed(self) -> list[str]:
        """A few files of any kinds, as `files t-0/*` gives them."""
        files = self._sample(self._with(SUFFIXES), self.rng.choice((1, 2, 4, 4, 9)))
        logs = [path for path in files if path.endswith((".log", ".checkpoint"))]
        options = self._log_options(logs) if logs else list(self.rng.choice((*DEEP, *INDEX_OPTIONS)))
        return ["--files", ",".join(files), *options]

    def _indexes(self) -> list[str]:
        kinds = self.rng.choice(((".index",), (".timeindex",), (".index", ".timeindex")))
        files = self._some(*kinds)
        if self.rng.random() < 0.5:
            files = [self.rng.choice(files)]
        return ["--files", ",".join(files), *self.rng.choice(INDEX_OPTIONS)]

    def _one_kind(self) -> list[str]:
        files = self._some(self.rng.choice((".snapshot", ".txnindex", ".checkpoint", "")))
        return ["--files", ",".join(self._sample(files, 12)), *self.rng.choice(([], ["--print-data-log"]))]

    # ------------------------------------------------------------ unusual and wrong

    def _any_options(self) -> list[str]:
        args = ["--files", ",".join(self._sample(self._with(SUFFIXES), self.rng.choice((1, 2, 3))))]
        single = ["--print-data-log", "--deep-iteration", "--skip-record-metadata", "--verify-index-only"]
        for option in self.rng.sample(
            [*single, "--index-sanity-check", *TOPIC_DECODERS.values()], self.rng.randint(0, 3)
        ):
            args.append(option)
        for option in ("--max-bytes", "--max-message-size"):
            if self.rng.random() < 0.3:
                args += [option, self.rng.choice(NUMBERS)]
        for option in ("--key-decoder-class", "--value-decoder-class"):
            if self.rng.random() < 0.3:
                args += [option, self.rng.choice((STRING, STRING, INTEGER, LONG, "no.such.Decoder"))]
        if self.rng.random() < 0.3:
            args = [*args[2:], *args[:2]]
        return args

    def _nonsense(self) -> list[str]:
        """Words nobody should write. (Files without `--files` are left out: there klogtool goes its own way.)"""
        some = self._sample(self._with(SUFFIXES), 2)
        files = ",".join(some)
        good = ["--files", files]
        number = self.rng.choice(NO_NUMBERS)
        return self.rng.choice(
            (
                ["--print-data-log"],
                ["--files"],
                ["--files", ""],
                ["--files="],
                ["--files", ","],
                ["--files", ",,"],
                ["--files", f",{files}"],
                ["--files", f"{files},,"],
                ["--files", f"{some[0]},,{some[-1]}"],
                ["--files", f" {files}"],
                ["--files", f"{some[0]}, {some[-1]}"],
                ["--files", files, "--files", files],
                ["--files", f"{files},{files}", "--deep-iteration"],
                ["--files", "no-such-0/00000000000000000005.log"],
                ["--files", f"{files},no-such.log,{files}"],
                [
                    "--files",
                    f"no-such.{self.rng.choice(('index', 'timeindex', 'txnindex', 'snapshot', 'checkpoint', 'txt'))}",
                ],
                ["--files", str(PurePosixPath(some[0]).parent)],
                ["--files", f"{PurePosixPath(some[0]).parent}/,{files}"],
                ["--files", f".,..,/,{files}"],
                ["--files", "nodot,.dot,dot.,..."],
                [*good, "word", "--deep-iteration"],
                ["word", *good],
                [*good, "--", "--deep-iteration"],
                [*good, "-"],
                [*good, "--no-such-option"],
                [*good, "--deep"],
                [*good, "-deep-iteration"],
                ["-files", files],
                [*good, "-d"],
                [*good, "--deep-iteration=true"],
                [*good, "--deep-iteration="],
                [*good, "--deep-iteration", "false"],
                [*good, "--deep-iteration", "--deep-iteration"],
                [*good, "--print-data-log", "--print-data-log", "--skip-record-metadata"],
                [*good, "--Deep-Iteration"],
                [*good, "--max-bytes", number],
                [*good, f"--max-bytes={number}"],
                [*good, "--max-message-size", number],
                [*good, "--max-bytes"],
                [*good, "--max-bytes", "--deep-iteration"],
                [*good, "--max-bytes", "10", "--max-bytes", "20"],
                [*good, "--key-decoder-class", "--deep-iteration"],
                [*good, "--key-decoder-class", ""],
                [*good, "--key-decoder-class=", "--value-decoder-class="],
                [*good, "--value-decoder-class", "kafka.serializer.StringDecoder"],
                [*good, "--value-decoder-class", "java.lang.String"],
                [*good, "--value-decoder-class", "org.apache.kafka.tools.api.Decoder"],
                [*good, "--key-decoder-class", STRING, "--key-decoder-class", STRING],
                [*good, "--key-decoder-class", "no.such.Decoder", "--offsets-decoder"],
                [*good, "--key-decoder-class", "no.such.Decoder"],
                [*good, "--key-decoder-class", LONG, "--value-decoder-class", INTEGER],
                ["--files", files, "--bootstrap-server", "x"],
            )
        )

    def _respelled(self, files: str) -> str:
        """The same files, written so that Java has something to tidy."""
        out = []
        for path in files.split(","):
            parent, slash, name = path.rpartition("/")
            ways = (
                path,
                f"./{path}",
                f"{parent}//{name}" if slash else path,
                f"{parent}/./{name}" if slash else path,
                f"{parent}/../{parent}/{name}" if slash and "/" not in parent else path,
                f"{path}/",
                f"{path}//",
                f"{path}/.",
            )
            out.append(self.rng.choice(ways))
        return ",".join(out)

    def _attached(self, args: Sequence[str]) -> list[str]:
        out: list[str] = []
        for arg in args:
            if out and out[-1] in ("--files", "--max-bytes", "--max-message-size") and not arg.startswith("-"):
                out[-1] = f"{out[-1]}={arg}"
            else:
                out.append(arg)
        return out

    # ------------------------------------------------------------ files

    def _size(self, path: str) -> int:
        return self.sizes.get(path, 0)

    def _with(self, suffixes: Iterable[str]) -> list[str]:
        wanted = tuple(suffixes)
        return [path for path in self.sizes if path.endswith(wanted)] or list(self.sizes) or ["none.log"]

    def _some(self, *suffixes: str) -> list[str]:
        """All files of these kinds in one folder; if there are none, of all kinds."""
        found = self._with(suffixes)
        folder = PurePosixPath(self.rng.choice(found)).parent
        return [path for path in found if PurePosixPath(path).parent == folder]

    def _sample(self, paths: Sequence[str], most: int) -> list[str]:
        return self.rng.sample(list(paths), min(len(paths), most))


def ask(files: dict[str, bytes], rng: random.Random) -> list[str]:
    """A command line about these files."""
    return Questioner(rng, {name.rstrip("/"): len(data) for name, data in sorted(files.items())}).args()
