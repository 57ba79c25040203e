"""The text and rows of `fleet check --restored`: the verdict for a set of disks, then what is lost, reset and torn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import to_builtins

from klogtool.doctor.answers import Starts
from klogtool.escape import escaped, quoted
from klogtool.fleet.forecast import Forecast, LossReason, PartitionLoss
from klogtool.fleet.mixes import Mix, NodeDisks
from klogtool.fleet.node_starts import NodeStart
from klogtool.fleet.restored import (
    Fate,
    GroupReset,
    Restored,
    RestoreOption,
    RestoreStep,
    TransactionAhead,
    walk_options,
)
from klogtool.fleet.restored_identity import SetProblem, SetTrouble
from klogtool.fleet.sequences import SequenceBehind
from klogtool.format.batch import NO_SEQUENCE
from klogtool.render.words import count_text, offsets_text

_PROBLEMS = {
    SetProblem.NO_IDENTITY: "it has no meta.properties with a node id: its broker does not start; klogtool doctor says "
    "what belongs into it",
    SetProblem.UNREADABLE: "it cannot be read",
    SetProblem.OTHER_CLUSTER: "it is of another cluster than the others",
    SetProblem.SAME_DIRECTORY: "another node's log dir has this directory id, too: a clone. Name one of them",
    SetProblem.NO_DIRECTORY: "the metadata places partitions in a log dir that is not in the set",
    SetProblem.NO_METADATA: "no disk has __cluster_metadata-0: klogtool fleet metadata builds it",
    SetProblem.NO_LEADER: "the controllers of the set elect no leader: klogtool quorum says what to do",
    SetProblem.EMPTY_LEADER: (
        "a controller without metadata may lead: all topics would be lost. klogtool quorum says which starts first"
    ),
    SetProblem.LEADER_UNKNOWN: "the disks do not say whether a controller is elected: klogtool quorum says why",
    SetProblem.BROKER_ENDS: "its start ends",
    SetProblem.BROKER_MAY_END: "it may end while it starts or runs",
    SetProblem.LOG_DIR_OFFLINE: "it goes offline when its broker starts",
    SetProblem.REMOTE_UNKNOWN: "tiered, and offsets are on no disk and in no segment that __remote_log_metadata knows: "
    "nobody is served them. klogtool remote metadata builds that topic from the store, before any broker starts",
    SetProblem.PRODUCER_IDS: "its metadata is older than the logs, and would give producer ids again that producers "
    "have: what a new one sends is refused, or taken for a duplicate and dropped. Take newer metadata, or let klogtool "
    "fleet metadata build it, which begins above all",
    SetProblem.LOG_DIR_MAY_FAIL: "it may go offline while its broker runs",
}
_REASONS = {
    LossReason.NO_COPY: "no disk has a copy: it begins empty",
    LossReason.STRAY: "the metadata does not know this copy: its broker renames it to -stray",
    LossReason.OLDER_LEADER: "may lead with an older copy; the others cut theirs to it",
    LossReason.EMPTY_LEADER: "may lead without a copy; the others cut theirs to nothing",
    LossReason.OTHER_HISTORY: "records of another leader; its broker cuts them when it follows",
    LossReason.DAMAGED: "damaged or missing in the best copy, and no other copy has them",
    LossReason.BROKER_MISSING: "may lead, and is not in the set: it may have more",
    LossReason.METADATA_NEWER: "has led in an epoch that its disk does not know: the disk is older than the metadata",
    LossReason.METADATA_OLDER: "has a leader epoch that the metadata has not given yet: another leader may get it",
    LossReason.ONCE_LONGER: "the log was longer once, and no copy reaches so far",
    LossReason.UNREADABLE: "the copy cannot be read",
    LossReason.START_LOSES: "may lead, and its own start loses or hides records",
    LossReason.DELETED: "the folder is marked for deletion: its broker serves nothing of it",
    LossReason.LOG_DIR_OFFLINE: "its log dir goes offline",
}
_FATES = {
    Fate.HANGS: "open, and no coordinator ends it: consumers of committed records wait there",
    Fate.TORN: "its coordinator may end it otherwise than it ended already",
    Fate.ABORTED: "open: its coordinator aborts it",
    Fate.COMMITTED: "open: its coordinator commits it",
}
_STARTS = {
    Starts.YES: "This set starts, and loses nothing.",
    Starts.LOSES_DATA: "This set starts, and may lose records.",
    Starts.REFUSES: "This set does not start as one cluster.",
}
_MAY_START = {
    Starts.YES: "This set may start, and loses nothing then.",
    Starts.LOSES_DATA: "This set may start, and may lose records then.",
}


_KEEPS = {
    False: "This set starts, and loses no record that one of its disks has; but it is not whole:",
    True: "This set may start, and then loses no record that one of its disks has; but it is not whole:",
}


def restored_text(restored: Restored, command: str, *, is_verbose: bool = False) -> Iterator[str]:
    """Yield the lines. command: `klogtool fleet plan` with what was named. is_verbose: also whole partitions."""
    is_open = any(trouble.problem is SetProblem.LEADER_UNKNOWN for trouble in restored.troubles)
    is_kept = restored.starts is Starts.LOSES_DATA and restored.lost_records == 0
    is_kept = is_kept and all(node.starts is Starts.YES for node in restored.nodes)
    yield {**_STARTS, **(_MAY_START if is_open else {}), **({Starts.LOSES_DATA: _KEEPS[is_open]} if is_kept else {})}[
        restored.starts
    ]
    yield from _summary(restored)
    yield from map(_trouble_line, restored.troubles)
    yield from (_node_line(node) for node in restored.nodes if node.starts is not Starts.YES)
    for forecast in restored.forecasts:
        if is_verbose or not forecast.is_whole:
            yield ""
            yield from _forecast_lines(forecast)
    yield from _titled("Groups that may be reset:", [_reset_line(one) for one in restored.resets])
    transactions = [one for one in restored.transactions if is_verbose or one.fate in (Fate.HANGS, Fate.TORN)]
    yield from _titled("Transactions:", [_transaction_line(one) for one in transactions])
    yield from _titled("Producers that went on meanwhile:", list(_behind_lines(restored.behind, is_verbose)))
    options = [f"{option.number}. {_option_text(option, command)}" for option in walk_options(restored)]
    yield from _titled("What to do, in this order:", options)


MOST_MIXES_SHOWN = 5


def mixes_text(mixes: Sequence[Mix], *, is_verbose: bool) -> Iterator[str]:
    """Yield the lines about mixes of generations, before the verdict for the first of them; none without mixes."""
    if not mixes:
        return
    yield f"{len(mixes):,} mixes of these disks, the one that loses least first:"
    shown = mixes if is_verbose else mixes[:MOST_MIXES_SHOWN]
    for mix in shown:
        disks = ", ".join(f"node {each.node_id}: {' '.join(map(quoted, each.paths))}" for each in mix.disks)
        yield f"  {mix.number}. {disks}"
        yield f"     {_mix_loss(mix)}"
    if len(shown) < len(mixes):
        yield f"  {len(mixes) - len(shown):,} more (--verbose)"
    yield ""
    yield "Of mix 1:"


def _mix_loss(mix: Mix) -> str:
    if mix.starts is Starts.REFUSES:
        return "does not start as one cluster"
    least, most = (
        _records(None if lost is None else lost + mix.left_records) for lost in (mix.lost_at_best, mix.lost_records)
    )
    left = f"; of these only disks have {mix.left_records:,} that are left out" if mix.left_records else ""
    by_plan = "" if least == most else f", or {least} as klogtool fleet plan starts it"
    return f"loses at most {most}{by_plan}{left}"


def _titled(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield title
        yield from lines


def _summary(restored: Restored) -> Iterator[str]:
    brokers = ", ".join(map(str, restored.brokers))
    yield f"{count_text(len(restored.brokers), 'node')}: {brokers or 'none'}."
    if restored.starts is Starts.REFUSES:
        return
    hurt = sum(not one.is_whole for one in restored.forecasts)
    partitions = count_text(len(restored.forecasts), "partition")
    if restored.starts is Starts.LOSES_DATA:
        seconds = "" if restored.lost_ms is None else f", {restored.lost_ms / 1000:,.1f} s of records"
        yield f"Lost at most: {_records(restored.lost_records)}{seconds}, in {hurt:,} of {partitions}."
        if restored.gone_records != 0:
            yield f"On no disk of the set: {_records(restored.gone_records)}."
    if restored.metadata_from:
        others = restored.metadata_from[1:]
        more = f", or that of {_nodes(others)}: a majority has none that is newer" if others else ""
        yield f"The metadata of node {restored.metadata_from[0]} leads{more}."
    if restored.lacks_disks:
        yield "Not of all nodes the doctor was asked: klogtool doctor LOGDIR... says there what their own start does."


def _records(count: int | None) -> str:
    return "an unknown number of records" if count is None else count_text(count, "record")


def _nodes(nodes: Sequence[int]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"


def _trouble_line(trouble: SetTrouble) -> str:
    where = "" if trouble.node_id is None else f"node {trouble.node_id}: "
    place = "" if trouble.path is None else f"{escaped(trouble.path)}: "
    value = "" if trouble.value is None else f" ({escaped(trouble.value)})"
    causes = ", ".join(cause.value for cause in trouble.causes)
    return f"PROBLEM  {where}{place}{_PROBLEMS[trouble.problem]}{value}{f': {causes}' if causes else ''}"


def _node_line(node: NodeStart) -> str:
    """Return what the doctor says of a node, with the command that says more."""
    does = "does not start" if node.starts is Starts.REFUSES else "starts and loses"
    lost = f"; lost: {_records(node.lost_records)}" if node.lost_records else ""
    command = " ".join(("klogtool doctor", *map(quoted, node.log_dirs)))
    return f"DOCTOR   node {node.node_id}: by its own disks it {does}{lost}: {command}"


def _forecast_lines(forecast: Forecast) -> Iterator[str]:
    name = escaped(f"{forecast.topic}-{forecast.partition}")
    if forecast.end_least is None:
        end = "no copy is served"
    elif forecast.end_least == forecast.end_most:
        end = f"ends at {forecast.end_least:,}"
    else:
        end = f"may end at {forecast.end_least:,} to {forecast.end_most:,}"
    lost = "" if forecast.lost_records == 0 else f"; lost at most: {_records(forecast.lost_records)}"
    yield f"{name}  {end}{lost}"
    if not forecast.may_lead and forecast.end_most is not None:
        yield "  no broker of the set may lead: it stays offline until an unclean election"
    if forecast.strays and not any(loss.reason is LossReason.STRAY for loss in forecast.losses):
        yield f"  {_nodes(forecast.strays):<10} renames its copy to -stray; others have its records"
    yield from map(_loss_line, forecast.losses)


def _loss_line(loss: PartitionLoss) -> str:
    who = "" if loss.node_id is None else f"node {loss.node_id}"
    offsets = "" if loss.first is None or loss.last is None else f"; {offsets_text(loss.first, loss.last)}"
    seconds = "" if loss.lost_ms is None else f", {loss.lost_ms / 1000:,.1f} s"
    return f"  {who:<10} {_REASONS[loss.reason]}{offsets}{seconds}"


def _reset_line(reset: GroupReset) -> str:
    verb = "ends" if reset.is_certain else "may end"
    where = escaped(f"{reset.group}  {reset.topic}-{reset.partition}")
    return f"  {where}  committed {reset.committed:,}, and the log {verb} at {reset.log_end_offset:,}"


def _transaction_line(one: TransactionAhead) -> str:
    who = f"producer {one.producer_id}" if one.transactional_id is None else escaped(one.transactional_id)
    at = "" if one.first_offset is None else f" from offset {one.first_offset:,}"
    return f"  {who}  {escaped(f'{one.topic}-{one.partition}')} of node {one.node_id}{at}: {_FATES[one.fate]}"


def _behind_lines(behind: Sequence[SequenceBehind], is_verbose: bool) -> Iterator[str]:
    if behind:
        producers = count_text(len({one.producer_id for one in behind}), "producer")
        partitions = count_text(len({(one.topic, one.partition) for one in behind}), "partition")
        more = "" if is_verbose else " (--verbose names them)"
        yield f"  A leader with an older copy refuses what {producers} would send next to {partitions}{more}:"
        yield "  OutOfOrderSequenceException. Restart these clients once the brokers run."
    for one in behind if is_verbose else ():
        yield (
            f"  producer {one.producer_id}  {escaped(f'{one.topic}-{one.partition}')} of node {one.node_id}: "
            f"{_sequence(one.last_sequence, one.producer_epoch)}; node {one.newest_node} has "
            f"{_sequence(one.newest_sequence, one.newest_epoch)}"
        )


def _sequence(sequence: int, epoch: int) -> str:
    return f"sequence {sequence:,} of epoch {epoch:,}" if sequence != NO_SEQUENCE else f"none of epoch {epoch:,}"


def _option_text(option: RestoreOption, command: str) -> str:
    if option.step is RestoreStep.DOCTOR:
        return "What is marked DOCTOR: klogtool doctor has options for each of these nodes. Then check again."
    if option.step is RestoreStep.MEND_IDS:
        return "Mend what is marked PROBLEM, and check again."
    if option.step is RestoreStep.NEWEST_METADATA:
        return (
            f"When they start: the controller of node {option.node_id} with {option.others} of the others first, and "
            "the rest once it leads. A node that is also a broker starts with process.roles=controller until its turn."
        )
    lost = f"Lost at most: {_records(option.lost_records)}."
    if option.step is RestoreStep.FLEET_PLAN:
        return (
            f"{command} --plan-out plan.klog, then klogtool fleet apply on each broker. klogtool fleet plan says "
            f"what to do BY HAND before, the order of starts, and the elections. {lost}"
        )
    return f"{'Or start' if option.number > 1 else 'Start'} all brokers together. {lost}"


def plan_command(disks: Sequence[NodeDisks]) -> str:
    """Return the command that saves the plan for these disks."""
    return " ".join(("klogtool fleet check --restored", *(quoted(path) for each in disks for path in each.paths)))


def restored_rows(restored: Restored) -> Iterator[Mapping[str, object]]:
    """Yield the rows of JSON: the verdict, then each problem, partition, group, transaction and option."""
    yield {
        "type": "verdict",
        "starts": restored.starts.value,
        "brokers": restored.brokers,
        "metadata_from": restored.metadata_from,
        "lost_records": restored.lost_records,
        "lost_ms": restored.lost_ms,
        "gone_records": restored.gone_records,
    }
    yield from map(to_builtins, (*restored.troubles, *restored.nodes))
    for forecast in restored.forecasts:
        counts = {"lost_records": forecast.lost_records, "gone_records": forecast.gone_records}
        yield to_builtins(forecast) | counts
    yield from map(to_builtins, (*restored.resets, *restored.transactions, *restored.behind))
    for option in walk_options(restored):
        yield {"type": "option", **to_builtins(option)}
