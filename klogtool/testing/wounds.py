"""Wounds of files on a disk: those of `klogtool.building.wounds`. Each replaces files, and cannot be undone.

`path` is a file, a partition dir or a log dir. The other arguments are those of the wound.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeAlias

from klogtool.broker.draft import Draft
from klogtool.building import wounds_of_batches, wounds_of_bytes, wounds_of_log_dirs, wounds_of_side_files
from klogtool.disk.draft_writer import write_without_journal
from klogtool.errors import KlogError

P = ParamSpec("P")
StrPath: TypeAlias = str | os.PathLike[str]


def on_disk(wound: Callable[Concatenate[Draft, str, P], None]) -> Callable[Concatenate[StrPath, P], None]:
    """Return the wound as a function of a path. It raises KlogError if the wound does not fit, and LogDirInUse (a
    KlogError) if a broker holds the log dir."""

    @wraps(wound)
    def wounded(path: StrPath, /, *args: P.args, **kwargs: P.kwargs) -> None:
        where = os.path.abspath(os.fspath(path))
        folder, file = (where, "") if os.path.isdir(where) else os.path.split(where)
        draft = Draft.of(folder)
        try:
            wound(draft, file, *args, **kwargs)
        except KlogError as error:
            raise error.at_path(where) from None
        write_without_journal(draft)

    return wounded


flip_bit = on_disk(wounds_of_bytes.flip_bit)
overwrite = on_disk(wounds_of_bytes.overwrite)
insert = on_disk(wounds_of_bytes.insert)
zero_range = on_disk(wounds_of_bytes.zero_range)
zero_from = on_disk(wounds_of_bytes.zero_from)
zero_tail = on_disk(wounds_of_bytes.zero_tail)
garbage_tail = on_disk(wounds_of_bytes.garbage_tail)
tear_at = on_disk(wounds_of_bytes.tear_at)
empty_file = on_disk(wounds_of_bytes.empty_file)
replace_text = on_disk(wounds_of_bytes.replace_text)

wrong_crc = on_disk(wounds_of_batches.wrong_crc)
set_field = on_disk(wounds_of_batches.set_field)
swap_batches = on_disk(wounds_of_batches.swap_batches)
duplicate_batch = on_disk(wounds_of_batches.duplicate_batch)
drop_batch = on_disk(wounds_of_batches.drop_batch)

drop_index = on_disk(wounds_of_side_files.drop_index)
drop_timeindex = on_disk(wounds_of_side_files.drop_timeindex)
drop_txnindex = on_disk(wounds_of_side_files.drop_txnindex)
drop_snapshot = on_disk(wounds_of_side_files.drop_snapshot)
drop_epochs = on_disk(wounds_of_side_files.drop_epochs)
drop_file = on_disk(wounds_of_side_files.drop_file)
drop_segment = on_disk(wounds_of_side_files.drop_segment)
stale_index = on_disk(wounds_of_side_files.stale_index)
preallocate_index = on_disk(wounds_of_side_files.preallocate_index)
copy_segment = on_disk(wounds_of_side_files.copy_segment)
leave_over = on_disk(wounds_of_side_files.leave_over)
rename_file = on_disk(wounds_of_side_files.rename_file)
forge_index = on_disk(wounds_of_side_files.forge_index)
forge_timeindex = on_disk(wounds_of_side_files.forge_timeindex)
forge_txnindex = on_disk(wounds_of_side_files.forge_txnindex)
forge_snapshot = on_disk(wounds_of_side_files.forge_snapshot)
forge_epochs = on_disk(wounds_of_side_files.forge_epochs)
wrong_topic_id = on_disk(wounds_of_side_files.wrong_topic_id)

unclean_stop = on_disk(wounds_of_log_dirs.unclean_stop)
clean_stop = on_disk(wounds_of_log_dirs.clean_stop)
forge_checkpoint = on_disk(wounds_of_log_dirs.forge_checkpoint)
drop_checkpoint = on_disk(wounds_of_log_dirs.drop_checkpoint)
add_file = on_disk(wounds_of_log_dirs.add_file)
