"""Decisions: what is wrong with a log, and what would mend it. Nothing here writes, prints, or asks what time it is.

A module with a command's name has its decision: `decide(path, arguments)` gives plans. What these stand on:

    draft, plan, steps    a folder as it is to become; what is to be written for that, in an order that may break off
    circumstances, config what a broker knows of a partition beside its dir, and where each value is from
    unified_log           the log as a broker has it: loaded, recovered, looked up, rolled, truncated, retained
    appending, cleaning   what a broker does to it: append sets validated, compacted logs cleaned
    verifying, salvaging  what no broker does: every damage found, every good batch kept
"""
