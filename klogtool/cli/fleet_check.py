"""klogtool fleet check."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options, question_options
from klogtool.cli.fleet_plan import save_fleet_plan
from klogtool.cli.gentle_reading import begin_reading
from klogtool.cli.show import ReadingOptions, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.disk.facts import check_saving_place
from klogtool.doctor.answers import Starts
from klogtool.fleet.checking import check
from klogtool.fleet.collecting import Collecting, log_dir_facts, open_log_dir
from klogtool.fleet.framed import CollectedFiles
from klogtool.fleet.mixes import NodeDisks, find_mixes, judge_disks
from klogtool.fleet.node_starts import collect_with_claims
from klogtool.fleet.planning import make_fleet_plan, read_fleet_plan
from klogtool.fleet.remote_gaps import find_remote_gaps
from klogtool.fleet.restored import with_troubles
from klogtool.render.fleet_plan import checked_text
from klogtool.render.fleet_restored import mixes_text, plan_command, restored_rows, restored_text

COMMAND = "fleet check"


@commands.command("check")
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="FILE... PLAN")
@click.option(
    "--restored",
    is_flag=True,
    help="Judge a set of restored disks, before any broker starts. Name a FILE for each broker, or all log dirs.",
)
@click.option("--plan-out", type=click.Path(), metavar="FILE", help="With --restored: save the plan of fleet plan.")
@options.packed(options.taken(ReadingOptions), "reading", options.output_format(), options.jobs, options.quiet)
@question_options.circumstances
def command(
    paths: tuple[str, ...], restored: bool, plan_out: str | None, circumstances: Circumstances, reading: ReadingOptions
) -> int:
    """Check that the disks are as the plan wants them: from files that were collected again, after fleet apply.

    The best copy must have all that it had, without damage. Copies that were to be cut must fit it. Folders that were
    to be set aside or renamed must be so. Brokers may have started meanwhile.

    With --restored: whether a set of restored disks is a cluster, and what it lacks. PLAN is left out, and a FILE may
    be a log dir: all log dirs of all brokers. It says whether the set starts, and what may be lost, reset and torn. Of
    several generations of a node's disks it says which mix loses least.

    \b
    Examples:
      klogtool fleet check *.klog plan.json
      klogtool fleet check --restored *.klog
      klogtool fleet check --restored /mnt/broker-1 /mnt/broker-2 /mnt/broker-3 --plan-out plan.json

    Exit status: 0 all is as planned, or the set starts and loses nothing; 1 something is not, or a broker's file is
    missing, or the set loses records or does not start; 2 wrong usage, no such file; 3 a file that is not whole, or of
    another kind; 4 a file could not be read.
    """
    if restored:
        return _check_set(paths, plan_out, circumstances, reading)
    if plan_out is not None:
        raise click.UsageError("--plan-out needs --restored.")
    if len(paths) < 2:
        raise click.UsageError("Missing argument 'PLAN'.")
    results = list(check(read_fleet_plan(paths[-1]), list(map(CollectedFiles().read, paths[:-1]))))
    show, holding = Show(COMMAND, reading), sum(result.holds for result in results)
    show.rows(results)
    show.row({"type": "summary", "holds": holding, "fails": len(results) - holding})
    show.lines(checked_text(results))
    show.close()
    return DONE if holding == len(results) else FOUND


def _check_set(
    paths: Sequence[str], plan_out: str | None, circumstances: Circumstances, reading: ReadingOptions
) -> int:
    """Show the verdict for a set of disks, and save the plan if it is wanted. Returns the exit status."""
    if plan_out is not None:
        check_saving_place(plan_out)
    begin_reading([path for path in paths if os.path.isdir(path)], quiet=reading.quiet)
    mixes, disks = find_mixes(_walk_disks(paths, Collecting(circumstances, reading.jobs)))
    mounted = [path for each in disks for path in each.paths if os.path.isdir(path)]
    result = with_troubles(judge_disks(disks), list(find_remote_gaps(mounted)))
    show = Show(COMMAND, reading)
    show.rows(mixes)
    show.rows(restored_rows(result))
    show.lines(mixes_text(mixes, is_verbose=reading.verbose))
    show.lines(restored_text(result, plan_command(disks), is_verbose=reading.verbose))
    show.close()
    if plan_out is not None:
        save_fleet_plan(plan_out, make_fleet_plan([each.file for each in disks]), quiet=reading.quiet)
    is_whole = result.starts is Starts.YES and not any(mix.left_records for mix in mixes[:1])
    return DONE if is_whole else FOUND


def _walk_disks(paths: Sequence[str], how: Collecting) -> list[NodeDisks]:
    """Return what is known of each node: of files as they are, of log dirs together with others of their node."""
    disks, files = list[NodeDisks](), CollectedFiles()
    log_dirs: dict[tuple[int | None, str | None, str], list[dict[str, str]]] = {}
    for path in dict.fromkeys(paths):
        if not os.path.isdir(path):
            disks.append(NodeDisks((path,), files.read(path)))
            continue
        facts = log_dir_facts(open_log_dir(os.path.abspath(path)))
        alone = path if facts.node_id is None else ""  # whose it is, nobody knows
        generations = log_dirs.setdefault((facts.node_id, facts.cluster_id, alone), [{}])
        directory = facts.directory_id or os.path.abspath(path)
        if directory in generations[-1]:  # a directory id that comes again is that of another time
            generations.append({})
        generations[-1][directory] = path
    for own in (tuple(each.values()) for generations in log_dirs.values() for each in generations):
        file = replace(collect_with_claims(own, how), path=os.path.abspath(own[0]))
        disks.append(NodeDisks(own, file))
    return disks
