"""Appending to a loaded log as a broker does it (UnifiedLog.append, LogValidator).

calls          the input of append: files of batches, calls in JSON lines, records in JSON lines
records        records in JSON lines, made into batches as a client sends them
appender       appends as the leader or as a follower does
analysis       checks a set of batches before any of it is appended (analyzeAndValidateRecords)
validator      what a leader writes: checks, offsets, timestamps, another format or codec
checks         what a leader refuses, batch by batch and record by record
record_survey  checks the records of an appended batch, without making objects of regular ones
follower_sets  large sets of a follower, by the kernel of recovery
new_log        a log that begins empty and takes whole batches
"""
