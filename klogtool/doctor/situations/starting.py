"""Clean and unclean starts, and the lines with which a start fails."""

from __future__ import annotations

from klogtool.doctor.situation import Outcome, Situation, said
from klogtool.doctor.situations.commands import REHEARSE, VERIFY_LOG_DIR

SITUATIONS = (
    Situation(
        "start-after-clean-shutdown",
        (said("Skipping recovery of {} logs from {dir} since clean shutdown file was found"),),
        Outcome.OK,
        "The broker was stopped cleanly, or somebody created .kafka_cleanshutdown. It checks no segment. Damage stays "
        "unnoticed; if the end of a log is damaged, what is appended next is lost.",
        "Did a person create the marker, or was the disk copied while the broker ran? Then check all logs first.",
        (VERIFY_LOG_DIR, "klogtool recover {dir} --last-stop unclean"),
        ("clean-marker-false",),
    ),
    Situation(
        "start-after-unclean-shutdown",
        (said("Recovering {} logs from {dir} since no clean shutdown file was found"),),
        Outcome.OK,
        "The broker was killed, or the power failed. It recovers every log from its recovery point on. Where a batch "
        "is bad, it cuts the log and deletes all later segments; other lines say so.",
        "If you can still stop it: klogtool says beforehand what it would cut.",
        (REHEARSE, VERIFY_LOG_DIR),
        ("unclean-shutdown",),
    ),
    Situation(
        "broker-epochs-differ",
        (said("Found different broker epochs in {dir}. Other={} vs current={}."),),
        Outcome.UNSERVED,
        "The clean shutdown markers of the log dirs are not from the same run. The controller treats the start as "
        "unclean: it takes the broker out of ISR and ELR, and partitions with only this replica have no leader until "
        "an unclean election.",
        "Was a log dir replaced or restored? With other replicas in sync, nothing is to be done.",
        (VERIFY_LOG_DIR,),
        ("unclean-shutdown",),
    ),
    Situation(
        "broker-epoch-unknown",
        (said("Unable to read the broker epoch in {dir}."),),
        Outcome.OK,
        "The log dir has no clean shutdown marker with an epoch: the broker starts for the first time, or after an "
        "unclean shutdown. After the latter the controller takes it out of ISR and ELR until it has caught up.",
        "At the first start this is normal. Otherwise: a partition with only this replica has no leader until an "
        "unclean election.",
        (VERIFY_LOG_DIR,),
        ("unclean-shutdown",),
    ),
    Situation(
        "log-loading-failed",
        (
            said("There was an error in one of the threads during logs loading: {exception}"),
            said("There was an error in one of the threads during logs loading", since="4.4"),
        ),
        Outcome.REFUSES,
        "One partition could not be loaded, and its exception is not an IOException: the whole broker ends. One bad "
        "partition of thousands is enough.",
        "The exception says what is wrong, but often not where. klogtool names the file.",
        (REHEARSE, VERIFY_LOG_DIR),
        is_general=True,
    ),
    Situation(
        "log-manager-failed",
        (said("Encountered fatal fault: Error starting LogManager"),),
        Outcome.REFUSES,
        "The broker could not load its logs, and ends.",
        "Lines before this one, and the exception, say what is wrong. klogtool names the file.",
        (REHEARSE, VERIFY_LOG_DIR),
        is_general=True,
    ),
    Situation(
        "start-failed",
        (
            said("Exiting Kafka due to fatal exception during startup."),
            said("Exiting Kafka due to fatal exception"),
            said("Encountered fatal fault: {cause}"),
            said("Fatal error during broker startup. Prepare to shutdown"),
        ),
        Outcome.REFUSES,
        "The broker ends. This line does not say why.",
        "Look at the exception after this line, and at the first line at ERROR before it.",
        (REHEARSE, VERIFY_LOG_DIR),
        is_general=True,
    ),
    Situation(
        "log-load-slow",
        (
            said("Completed load of {log} with {} segments"),
            said("No logs found to be loaded in {dir}"),
            said("Loading logs from log dirs {dir}"),
        ),
        Outcome.OK,
        "The broker loads its logs. This is normal.",
        "If a start takes long: klogtool says beforehand how many bytes are to be recovered. "
        "num.recovery.threads.per.data.dir sets how many threads do it.",
        (REHEARSE,),
    ),
)
