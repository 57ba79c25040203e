"""The progress bar that rich draws. Only `progress_bar` imports this module, and only where a bar is drawn."""

from __future__ import annotations

from contextlib import suppress

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class DrawnBar:
    """A bar on stderr: bytes, bytes a second, time left."""

    def __init__(self, total: int, *, has_text: bool) -> None:
        """total: bytes to read. has_text: whether there is a text beside the bar (see `tell`)."""
        text: list[ProgressColumn] = [TextColumn("{task.fields[text]}")] if has_text else []
        size = DownloadColumn(binary_units=True)
        self._bar = Progress(
            *(BarColumn(), *text, size, TransferSpeedColumn(), TimeRemainingColumn()),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=max(total, 1), text="")

    def advance(self, size: int) -> None:
        """Add bytes that were read. May be called from any thread."""
        self._bar.advance(self._task, size)

    def tell(self, text: str) -> None:
        """Change the text beside the bar."""
        self._bar.update(self._task, text=text)

    def show(self) -> None:
        """Draw the bar, and again whenever it changes; not at all if the machine gives no thread for that."""
        with suppress(RuntimeError):
            self._bar.start()

    def hide(self) -> None:
        """Remove the bar from the terminal."""
        self._bar.stop()
