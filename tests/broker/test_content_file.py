"""A file that is not written yet reads as it will once it is."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klogtool.broker.content import Content, FileRange
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.errors import Changed
from klogtool.log.file import LogFile, Unreadable
from klogtool.log.gentle import begin_gently, end_gently

SOURCE = bytes(range(256)) * 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("source") / "00000000000000000000.log"
    path.write_bytes(SOURCE)
    return path


@pytest.mark.slow
@given(data=st.data())
def test_it_reads_what_would_be_written(source: pathlib.Path, data: st.DataObject) -> None:
    span = st.tuples(st.integers(0, len(SOURCE)), st.integers(0, len(SOURCE))).map(sorted)
    part = st.one_of(st.binary(max_size=40), span.map(lambda s: FileRange(str(source), *s)))
    content: Content = tuple(data.draw(st.lists(part, max_size=6)))
    whole = b"".join(p if isinstance(p, bytes) else SOURCE[p.start : p.stop] for p in content)
    position, size = data.draw(st.integers(0, len(whole) + 3)), data.draw(st.integers(0, len(whole) + 30))
    wanted = whole[position : position + size]
    with ContentFile("t-0/new.log", content) as file:
        assert (file.size, file.size_now()) == (len(whole), len(whole))
        assert file.read(position, size) == wanted
        assert bytes(file.read_into(bytearray(size), position, size)) == wanted
        if wanted:
            assert bytes(file.map(position, size)) == wanted


def test_a_source_that_is_gone_or_was_cut_is_said_with_its_name(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "a.log"
    with pytest.raises(Unreadable):
        ContentFile("new.log", (FileRange(str(source), 0, 5),))
    source.write_bytes(SOURCE)
    with ContentFile("new.log", (b"head", FileRange(str(source), 10, 500))) as file:
        source.write_bytes(SOURCE[:100])
        assert file.size_now() == len(b"head") + 90
        assert file.read(0, 94) == b"head" + SOURCE[10:100]
        with pytest.raises(Changed) as shorter:
            file.read(0, file.size)
    assert (shorter.value.path, shorter.value.position) == (str(source), 100)


def test_it_stands_where_a_log_file_does() -> None:
    with ContentFile("x.log", ()) as file:
        assert isinstance(file, LogFile)
        assert file.read(0, 10) == b""


def test_what_is_read_gently_is_not_mapped(source: pathlib.Path) -> None:
    """Else the page cache would have it."""
    begin_gently()
    try:
        with ContentFile("t-0/new.log", (b"new", FileRange(str(source), 0, 700))) as file:
            assert not file.is_mappable
    finally:
        end_gently()
    with ContentFile("t-0/new.log", (b"new", FileRange(str(source), 0, 700))) as file:
        assert file.is_mappable
