"""klogtool killed at a random call while it writes in place: Kafka's own LogLoader ends where it would have ended.

Long runs: `python -m tests.kafka.killing --count N --seed S [--command rebuild-index]`.
"""

from __future__ import annotations

import pytest

from .killing import COMMANDS, killing

SEED = 0
KILLS = dict(zip(COMMANDS, (150, 60), strict=True))


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.shared
@pytest.mark.parametrize("command", COMMANDS)
def test_a_load_after_the_kill_ends_where_it_would_have(command: str) -> None:
    with killing(command, SEED) as asked:
        problems = [f"{kill}\n  {problem}" for kill, problem in asked.problems(KILLS[command])]
    assert not problems, f"{len(problems)}:\n" + "\n".join(problems)
    assert asked.tally["in the middle"] > KILLS[command] // 10, asked.tally
