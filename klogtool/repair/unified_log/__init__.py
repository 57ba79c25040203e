"""The log as a broker has it: loaded, read, rolled, truncated, retained, over a draft (UnifiedLog)."""
