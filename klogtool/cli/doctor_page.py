"""klogtool doctor --html FILE, and --from FILE.html, which prints the answer of such a page again."""

from __future__ import annotations

from collections.abc import Sequence

from klogtool.cli.output import Output
from klogtool.cli.output_file import output_file
from klogtool.cli.show import Row
from klogtool.doctor.answers import Diagnosis
from klogtool.errors import AboveLimit
from klogtool.log.file import read_whole
from klogtool.render.doctor_page import doctor_page
from klogtool.render.kept_answer import MOST_PAGE_BYTES, read_answer


def write_page(path: str, diagnosis: Diagnosis, rows: Sequence[Row], status: int, now_ms: int) -> None:
    """Write the answer as a page. rows: what `--format json` prints. Raises Refused if the file exists,
    AboveLimit if nobody could read it back."""
    page = doctor_page(diagnosis, rows, status, now_ms).encode()
    if len(page) > MOST_PAGE_BYTES:
        raise AboveLimit(f"the page is too large: {len(page):,} bytes (limit: {MOST_PAGE_BYTES:,})", path=path)
    with output_file(path) as file:
        file.write(page)


def print_page(path: str, form: str) -> int:
    """Print the answer in a page as doctor printed it, and return the exit status that it had then."""
    answer = read_answer(read_whole(path, limit=MOST_PAGE_BYTES), path)
    out = Output()
    if form == "json":
        for row in answer.rows:
            out.line(row)
    else:
        out.text(answer.text)
    out.flush()
    return answer.status
