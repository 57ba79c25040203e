"""One function over many things, in processes, for work that spends its time in Python, not in the kernels. Results in
order.

Processes are forked, so only results have to be serialized. Each process writes its results to a pipe, and waits when
the pipe is full. So results that nobody has read yet take no memory.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heapreplace
from typing import IO, Any, TypeVar

from klogtool.errors import KlogError

Thing = TypeVar("Thing")
Result = TypeVar("Result")


def in_processes(
    work: Callable[[Thing], Result], things: Sequence[Thing], jobs: int, weight: Callable[[Thing], int] = lambda _: 1
) -> Iterator[Result | KlogError]:
    """Yield work(thing) for each thing, in order, or the KlogError that it raised. Any other exception is raised.

    weight: its approximate duration, so that processes get equal shares. No threads may run yet.
    """
    if jobs <= 1 or len(things) <= 1:
        yield from (_outcome(work, thing) for thing in things)
        return
    owners = _shared_out([weight(thing) for thing in things], min(jobs, len(things)))
    workers: list[_Worker] = []
    for owned in owners:
        workers.append(_Worker(work, [things[n] for n in owned], workers))
    owner_of = {n: worker for owned, worker in zip(owners, workers, strict=True) for n in owned}
    try:
        for n in range(len(things)):
            yield owner_of[n].read()
    finally:
        for worker in workers:
            worker.close()


def _outcome(work: Callable[[Thing], Result], thing: Thing) -> Result | KlogError:
    try:
        return work(thing)
    except KlogError as error:
        return error


def _shared_out(weights: Sequence[int], shares: int) -> list[list[int]]:
    """Return the numbers of things for each process, ascending. The heaviest thing goes first, to the process with the
    least."""
    owners: list[list[int]] = [[] for _ in range(shares)]
    loads = [(0, share) for share in range(shares)]
    heapify(loads)
    for n in sorted(range(len(weights)), key=lambda n: -weights[n]):
        load, share = loads[0]
        owners[share].append(n)
        heapreplace(loads, (load + weights[n] + 1, share))
    return [sorted(owned) for owned in owners]


class _Worker:
    """A process that does its things in order, and the pipe for their results."""

    def __init__(self, work: Callable[[Any], Any], things: Sequence[Any], others: Sequence[_Worker]) -> None:
        ours, theirs = os.pipe()
        self._parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(ours)
            for other in others:  # otherwise they would not notice that the reader is gone
                os.close(other._pipe.fileno())
            _serve(work, things, theirs)
        os.close(theirs)
        self._pipe: IO[bytes] = os.fdopen(ours, "rb")

    def read(self) -> Any:
        """Return the next result; raise what the work raised, unless it was a KlogError."""
        try:
            outcome, error = pickle.load(self._pipe)
        except EOFError:
            raise ChildProcessError("a worker process ended too early (killed, perhaps for lack of memory)") from None
        if error is not None:
            raise error
        return outcome

    def close(self) -> None:
        """Stop the process: it ends at its next result.

        A process that was forked later may close its copy of this too: it has nothing to wait for.
        """
        self._pipe.close()
        if os.getpid() == self._parent:
            os.waitpid(self._pid, 0)


def _serve(work: Callable[[Any], Any], things: Sequence[Any], pipe: int) -> None:
    """Do the work and exit. It never returns: open files and exit handlers belong to the parent process."""
    status = 1
    try:
        with os.fdopen(pipe, "wb") as out:
            for thing in things:
                result: tuple[Any, BaseException | None]
                try:
                    result = _outcome(work, thing), None
                except BaseException as error:
                    result = None, error
                out.write(pickle.dumps(result))
                out.flush()
        status = 0
    except BrokenPipeError:  # the reader is gone
        pass
    finally:
        os._exit(status)
