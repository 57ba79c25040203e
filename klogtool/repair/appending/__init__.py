"""Appending to a loaded log as a broker does: what is given, checks, producers, what a leader rewrites."""
