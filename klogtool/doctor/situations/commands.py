"""Commands that several situations name. `{folder}` is the partition dir, `{dir}` the log dir."""

from __future__ import annotations

REHEARSE = "klogtool doctor {dir}"
VERIFY_LOG_DIR = "klogtool verify {dir}"
VERIFY = "klogtool verify {folder}"
RECOVER = "klogtool recover {folder}"
RECOVER_NOW = "klogtool recover {folder} --apply"
SALVAGE = "klogtool salvage {folder} --output DIR"
SALVAGE_WITH_REPLICA = "klogtool salvage {folder} --replica COPY --output DIR"
REBUILD = "klogtool rebuild-index {folder} --apply"
REBUILD_EPOCHS = "klogtool rebuild-index {folder} --only leader-epoch-checkpoint --apply"
REBUILD_SNAPSHOTS = "klogtool rebuild-index {folder} --only snapshot --apply"
EARLIEST_AND_LATEST = "klogtool lookup {folder} --timestamp earliest --timestamp latest"
TRANSACTIONS = "klogtool txns {folder}"
WHY_NOT_COMPACTED = "klogtool compact {folder} --why"
DUMP = "klogtool dump-log {file}"
DUMP_IDENTITY = "klogtool dump-log {dir}/meta.properties"
