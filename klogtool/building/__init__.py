"""Log dirs made from a short description, the same bytes every time; and the description of a log dir.

Nothing here writes, prints or reads the clock: a log dir is a draft, and a description is a value.

spec             the description: typed values, as in a spec file
spec_text        a spec file read: YAML, with limits, every error with its place
spec_data        keys, values and contents of files in a spec: text, hex, base64, zeros
places           where in a spec something is wrong

log_dir          a whole log dir: how large it may be, partitions, its own files, wounds
partition        one partition: its batches appended as a broker appends, its side files derived
entries          batches and messages in words, made into bytes
generated        records made by a seed

describing       a log dir or a partition dir, described
describing_logs  its batches and messages, described

wounds                damage by name: all wounds; a wound as a value
wound_places          which file, batch and byte a wound means
wounds_of_bytes       bits and bytes of any file
wounds_of_batches     batches of a log
wounds_of_side_files  indexes, snapshots, checkpoints and ids of a partition
wounds_of_log_dirs    a log dir's own files
"""

from __future__ import annotations

from klogtool.building.spec import Batch as Batch
from klogtool.building.spec import Clock as Clock
from klogtool.building.spec import Coded as Coded
from klogtool.building.spec import EndSpec as EndSpec
from klogtool.building.spec import File as File
from klogtool.building.spec import Generated as Generated
from klogtool.building.spec import LogDirSpec as LogDirSpec
from klogtool.building.spec import PartitionSpec as PartitionSpec
from klogtool.building.spec import RecordSpec as RecordSpec
from klogtool.building.spec import Roll as Roll
from klogtool.building.spec import SegmentSpec as SegmentSpec
from klogtool.building.spec import Spec as Spec
from klogtool.building.spec import StepSpec as StepSpec
from klogtool.building.spec_text import read_spec as read_spec
