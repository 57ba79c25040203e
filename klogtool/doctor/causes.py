"""What the doctor says of the machine; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class HostCause(Cause):
    """What a point of the machine is, what is recommended (WANTED), and what it does to a log (WHY)."""

    MAPS, MAPS_WANTED, MAPS_WHY, OPEN_FILES, OPEN_FILES_WANTED, OPEN_FILES_WHY = some(6)
    FILE_MAX, FILE_MAX_WANTED, FILE_MAX_WHY, NUMBER, UNKNOWN = some(5)
    MOUNT, MOUNT_WANTED, READ_ONLY, VOLATILE, NETWORK, CONTAINER, UNSAFE, STRICTATIME, RELATIME, NOATIME = some(10)
    ROOM, ROOM_WANTED, ROOM_WHY, ROOM_SHORT, INODES, INODES_WANTED, INODES_WHY = some(7)
    CACHE, CACHE_WANTED, CACHE_WHY = some(3)
