"""The text of `fleet plan`: what needs a decision, then what to run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from klogtool.escape import escaped, quoted
from klogtool.fleet.checking import Checked
from klogtool.fleet.choosing import Choice, PlacedCopy, Share, hidden_damage, is_healthy
from klogtool.fleet.histories import last_epoch_of
from klogtool.fleet.planning import BY_APPLY, FleetPlan, is_damaged, needs_election, waited_for
from klogtool.fleet.sharing import AlreadyThere, Todo
from klogtool.render.words import count_text, offsets_text, words

_WIDTH = 10
_ACTIONS = {
    "follow": "follows",
    "truncate": "apply: cut",
    "set-aside": "apply: set aside",
    "restore": "apply: rename",
    "replace": "BY HAND",
    "leave": "left alone",
}


def fleet_plan_text(plan: FleetPlan, *, is_verbose: bool) -> Iterator[str]:
    """Yield the lines. is_verbose: also partitions that need nothing."""
    choices = [choice for choice in plan.choices if is_verbose or not is_healthy(choice)]
    healthy = sum(map(is_healthy, plan.choices))
    brokers = count_text(len(plan.fleet.brokers), "broker")
    partitions = count_text(len(plan.choices), "partition")
    yield f"{brokers}, {partitions}. Need nothing: {healthy:,}. Need a look: {len(plan.choices) - healthy:,}."
    for choice in choices:
        yield ""
        yield from choice_lines(choice)
    yield ""
    steps = list(_walk_steps(plan))
    if not steps:
        yield "Nothing has to be done before the brokers start."
    for n, step in enumerate(steps, 1):
        yield f"{n}. {step}"
    yield from (f"note: {escaped(words(note))}" for note in plan.fleet.notes)


def choice_lines(choice: Choice) -> Iterator[str]:
    """Yield the lines about one partition."""
    name = escaped(f"{choice.topic}-{choice.partition}")
    if choice.best is None:
        yield f"{name}  no copy of it is here"
    else:
        yield f"{name}  best: broker {choice.best.node_id}, {span_text(choice.best)}"
    for share in sorted(choice.shares, key=lambda share: share.placed.node_id):
        yield _line(f"broker {share.placed.node_id}", _share_text(share))
    damage = None if choice.best is None else hidden_damage(choice.best)
    if damage is not None:
        yield _line("salvage", f"damaged at offset {damage:,}: a broker cuts it there, or does not notice")
    for fill in choice.fills:
        yield _line("salvage", f"{offsets_text(fill.first, fill.last)} from broker {fill.node_id}")
    yield from (_line("", line) for line in _salvage_commands(choice))
    for hole in choice.lost:
        yield _line("GONE", f"{offsets_text(hole.first, hole.last or hole.first)}: no copy has this")
    for loss in choice.only_elsewhere:
        yield _line("LOSES", f"{offsets_text(loss.first, loss.last)} of broker {loss.node_id}: {words(loss.why)}")
    for old in choice.older:
        yield _line("older", f"{offsets_text(old.first, old.last)} of broker {old.node_id}: {words(old.why)}")
    for node_id in choice.missing:
        is_elected = " and may be elected" if node_id in choice.electable else ""
        yield _line(
            "MISSING", f"broker {node_id} is a replica{is_elected}, and its file was not given: it may have more"
        )
    if choice.rivals and choice.leader is not None:
        yield _line(
            "order", f"start broker {choice.leader} before {_brokers(choice.rivals)}: that would lead, and cut it"
        )
    for problem in choice.problems:
        yield _line("PROBLEM", escaped(words(problem)))
    if needs_election(choice):
        yield _line("election", f"unclean: the controller {_election_text(choice)}")


def _election_text(choice: Choice) -> str:
    if choice.leader not in choice.electable:
        return f"elects only {_brokers(choice.electable)} by itself"
    return f"may wait for {_brokers(waited_for(choice))} instead"


def span_text(placed: PlacedCopy) -> str:
    """Return `epoch 3, offsets 0 to 59, in /d1/t-0`."""
    copy, epoch = placed.copy, last_epoch_of(placed.copy)
    offsets = f"offsets {copy.log_start_offset:,} to {copy.log_end_offset - 1:,}"
    if copy.log_end_offset <= copy.log_start_offset:
        offsets = f"empty at offset {copy.log_end_offset:,}"
    epochs = "" if epoch < 0 else f"epoch {epoch}, "
    return f"{epochs}{offsets}, in {escaped(os.path.join(copy.log_dir, copy.folder))}"


def _line(what: str, text: str) -> str:
    return f"  {what:<{_WIDTH}} {text}"


def _share_text(share: Share) -> str:
    if share.action == "lead":
        return f"leads: {words(share.why)}"
    where = "" if share.action == "follow" else f" {escaped(share.placed.copy.folder)}"
    to = f" to {share.to:,}" if share.to is not None and share.to < share.placed.copy.log_end_offset else ""
    return f"{_ACTIONS[share.action]}{where}{to}: {escaped(words(share.why))}"


def _salvage_commands(choice: Choice) -> Iterator[str]:
    """Yield the command that mends the best copy."""
    if choice.best is None or not is_damaged(choice):
        return
    own = os.path.join(choice.best.copy.log_dir, choice.best.copy.folder)
    sources = dict.fromkeys(fill.node_id for fill in choice.fills)
    replicas = "".join(f" --replica COPY-OF-BROKER-{node_id}" for node_id in sources)
    yield f"on broker {choice.best.node_id}: klogtool salvage {quoted(own)}{replicas} --output DIR"


def _walk_steps(plan: FleetPlan) -> Iterator[str]:
    is_elected = bool(plan.elections()["partitions"])
    if plan.fleet.missing:
        risk = " Go on only if they are gone: the unclean elections lose what only they have." if is_elected else ""
        yield f"Collect from {_brokers(plan.fleet.missing)}, too, if any disk of theirs is left, and plan again.{risk}"
    if plan.fleet.metadata_from is None:
        yield "Collect the log dir with __cluster_metadata-0, too; if it is lost: klogtool fleet metadata builds it."
    if any(choice.only_elsewhere for choice in plan.choices):
        yield "To keep what is marked 'LOSES', copy those folders elsewhere first: brokers cut or delete them."
    by_hand = [share for choice in plan.choices for share in choice.shares if share.action == "replace"]
    if by_hand or any(map(is_damaged, plan.choices)):
        yield "Do what is marked 'salvage' and 'BY HAND', then collect and plan again."
    acting = sorted({s.placed.node_id for c in plan.choices for s in c.shares if s.action in BY_APPLY})
    if acting:
        yield f"Run klogtool fleet apply PLAN LOGDIR... --apply on {_brokers(acting)}."
    waves = plan.fleet.waves if len(plan.fleet.waves) > 1 or is_elected else ()
    for n, wave in enumerate(waves, 1):
        yield f"Start {_brokers(wave)}."
        if is_elected and n == 1:
            yield "Run kafka-leader-election.sh --election-type UNCLEAN --path-to-json-file (of --elections)."
        elif is_elected and n < len(waves):
            yield "Run the elections again."
        if is_elected and n < len(waves):
            yield _WAIT
    if plan.reassignments()["partitions"]:
        yield (
            "If the missing brokers are gone for good, run kafka-reassign-partitions.sh --execute "
            "--reassignment-json-file (of --reassignments)."
        )


_WAIT = (
    "Check with kafka-topics.sh --describe: Leader and Isr of each of these partitions must be brokers that run, "
    "unless its best broker starts later. If not, wait a minute, and run the elections again."
)


def _brokers(brokers: Sequence[int]) -> str:
    if not brokers:
        return "no broker"
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"


_VERBS = {"truncate": "cut", "set-aside": "move out of the log dir", "restore": "rename"}


def share_line(result: AlreadyThere | Todo) -> str:
    """Return `to do: cut t-0 to 33: damaged ...`."""
    share = result.share
    to = "" if share.to is None else f" to {share.to:,}"
    state = "done already" if isinstance(result, AlreadyThere) else "to do"
    return f"{state}: {_VERBS[share.action]} {escaped(share.placed.copy.folder)}{to}: {escaped(words(share.why))}"


def share_row(result: AlreadyThere | Todo) -> dict[str, object]:
    """Return the row of JSON."""
    share = result.share
    return {
        "type": "share",
        "done": isinstance(result, AlreadyThere),
        "topic": share.placed.copy.topic,
        "partition": share.placed.copy.partition,
        "log_dir": share.placed.copy.log_dir,
        "folder": share.placed.copy.folder,
        "action": share.action,
        "to": share.to,
        "why": words(share.why),
    }


def checked_text(results: Sequence[Checked]) -> Iterator[str]:
    """Yield a line for each copy that is not as the plan wants it, and how many are."""
    for each in results:
        if each.why is not None:
            where = f"{each.topic}-{each.partition}  broker {each.node_id}"
            yield f"{escaped(where)}: {escaped(words(each.why))}"
    holding = sum(each.holds for each in results)
    yield f"{count_text(holding, 'copy', 'copies')} as planned, {len(results) - holding:,} not."
