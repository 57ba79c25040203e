"""Decisions: what is wrong with a log, and what would mend it. Nothing here writes, prints, or asks what time it is."""
