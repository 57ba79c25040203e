"""What klogtool tutorial says: the log dir that it makes, and its ten steps. Runs nothing, asks nothing.

The log dir is that of a broker that was killed: `orders-0` has a flipped bit in the second batch of its second
segment, `payments-0` is sound.
"""

from __future__ import annotations

from msgspec import Struct

from klogtool.cli.status import DONE, FOUND

LOGS, PLAN = "logs", "plan.json"  # names below the tutorial's folder; the commands have them
SPEC = b"""
kafka: 4.3.1
clock: 2024-05-01T12:00:00Z
log_dir: {stop: unclean}
partitions:
  - topic: orders
    recovery_point: 0
    log:
      - generate: {records: 20, seed: 1, keys: 5, value_bytes: 20..40, batch_records: 5, codec: none}
      - roll
      - generate: {records: 20, seed: 2, keys: 5, value_bytes: 20..40, batch_records: 5, codec: none}
  - topic: payments
    recovery_point: 0
    log:
      - generate: {records: 10, seed: 3, keys: 5, value_bytes: 20..40, batch_records: 5, codec: none}
wounds:
  - flip_bit: {file: orders-0, segment: 20, batch: 1}
"""

INTRODUCTION = (
    "A broker was killed, and its disk flipped one bit. This tutorial has made such a",
    "log dir, only for you. In ten steps you find the damage, repair it, and take the",
    "repair back. Nothing outside of this folder is changed:",
)
CONCLUSION = (
    "That was all. On a disk of yours, begin with the same command:",
    "klogtool doctor LOGDIR...    (name all log dirs of one broker; it never writes)",
    "klogtool explain batch-crc explains a finding. klogtool help COMMAND shows the options of a command.",
)


class TutorialStep(Struct, frozen=True):
    """A step: its title, lines before the command, the command without `klogtool`, its exit status, a line after it."""

    title: str
    lines: tuple[str, ...]
    command: str
    status: int
    after: str


STEPS = (
    TutorialStep(
        "Look at the files",
        (
            "A log dir has a folder for each partition. The .log file has the records, in batches.",
            "Other files help to find records. A broker can rebuild most of them from the .log file.",
            "dump-log prints the files of a partition, as Kafka's own kafka-dump-log does.",
        ),
        "dump-log logs/payments-0",
        DONE,
        "Two batches, offsets 0 to 9. Both lines end with isvalid: true, so payments-0 is sound.",
    ),
    TutorialStep(
        "Ask the doctor",
        (
            "Before you start a broker on a doubtful disk, ask what the start would do.",
            "doctor rehearses the start in memory. It never writes.",
            "The first lines are the verdict. Then come the troubles, each with options.",
        ),
        "doctor logs",
        FOUND,
        "A start would lose 10 records. With option 1 it is none. So: do not start the broker yet.",
    ),
    TutorialStep(
        "Find all damage",
        (
            "verify reads every file, and names the exact bytes and offsets that are damaged.",
            "Each finding has an id, here batch-crc, and a line with what to do.",
            "The exit status is 0 if nothing is wrong, and 1 if there is damage. Scripts use it.",
        ),
        "verify logs",
        FOUND,
        "One batch is damaged: offsets 25 to 29. Nothing else is wrong.",
    ),
    TutorialStep(
        "Look around the damage",
        (
            "Are the records after the damage still there? dump-log goes on after a damaged batch.",
            "--offsets chooses records. --print-data-log prints their keys and values.",
            "Find the batch with isvalid: false, and the batches before and after it.",
        ),
        "dump-log logs/orders-0 --offsets 24..30 --print-data-log",
        FOUND,
        "The batches at offsets 20 and 30 are sound. Only the batch at offset 25 is not valid.",
    ),
    TutorialStep(
        "See what the broker would do",
        (
            "After a kill, a broker recovers its logs. It cuts a log at the first damage.",
            "recover does the same in memory, and says what would be lost.",
            "Nothing is written without --apply or --output.",
        ),
        "recover logs/orders-0",
        FOUND,
        "The broker would also cut offsets 30 to 39, although these batches are sound.",
    ),
    TutorialStep(
        "Save a plan",
        (
            "doctor --fix plans its first option: salvage, which keeps all sound batches.",
            "--plan-out saves the plan in a file. You or a colleague can read it first.",
            "The log dir is not changed yet.",
        ),
        "doctor logs --fix --plan-out plan.json",
        DONE,
        "The plan replaces one .log file and its index. It rejects 290 bytes: the damaged batch.",
    ),
    TutorialStep(
        "Carry the plan out",
        (
            "apply does what the plan says, and keeps the old files for undo.",
            "It refuses if a broker uses the log dir, or if a file has changed since the plan was made.",
            "The exit status is 1 again, because the damaged batch is gone, with 5 records.",
        ),
        "apply plan.json",
        FOUND,
        "Done. What undo needs is in the folder logs.klogtool, beside the log dir.",
    ),
    TutorialStep(
        "Verify again",
        (
            "Is the log dir sound now? The command of step 3 tells.",
            "After a repair, always verify before you start the broker.",
        ),
        "verify logs",
        DONE,
        "No damage is left. A broker starts on this log dir, and loses nothing more.",
    ),
    TutorialStep(
        "Take it back",
        (
            "Perhaps you find a better copy on another broker, and do not want the repair any more.",
            "undo takes back the newest run: every byte, name, time, owner and mode.",
            "(klogtool undo --list logs lists the runs that can be taken back.)",
        ),
        "undo logs",
        DONE,
        "The files are as they were before step 7.",
    ),
    TutorialStep(
        "See the damage again",
        (
            "If undo has restored every byte, the flipped bit is back, too.",
            "The command of step 3 tells.",
        ),
        "verify logs",
        FOUND,
        "It is the same finding at the same bytes.",
    ),
)
