"""Why something in remote storage is a finding; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class RemoteCause(Cause):
    """What is wrong with objects, with metadata, or between them."""

    SECOND_COPY, NO_OBJECT, METADATA_ELSEWHERE, COPY_UNFINISHED, DELETION_UNFINISHED, LEFT, LEFT_NONE, NO_OBJECTS = (
        some(8)
    )
    THIS_ONE_MISSING, DISPLACED, OTHER_LINEAGE, NOT_IN_METADATA, WRITTEN_AT, UNDATED = some(6)
    UNSERVED, OTHER_SIZE, SIZE, OTHER_OFFSETS, OTHER_EPOCH, TXN_REST = some(6)
    NO_SIDE_FILE, SIDE_FILE, EPOCHS_LACK, LEADS_PAST, NO_OBJECT_HAS, ENDS_BEFORE_INDEX, OTHER_MANIFEST = some(7)


class RemoteCure(Cause):
    """What a person can do about it: commands for a shell, or a sentence."""

    OLDER_VERSION, OLDER_VERSION_OR, NAME_METADATA, GIVE_WHAT_IS_MISSING, ASK_AGAIN, OTHER_REPLICA = some(6)
    COPIED_AGAIN, DELETED_LATER, NAME_STORE, PASS, REBUILD_METADATA, LEAVE_LINEAGE = some(6)
    DELETE_FILES, DELETE_OBJECTS, KEEP_DISPLACED, EPOCHS_BACK = some(4)
