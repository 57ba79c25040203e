"""Appending to a loaded log as a broker does it (UnifiedLog.append, LogValidator).

calls          what is to be appended, as it was given: files of batches, calls or records in JSON lines
records        records in JSON lines, made batches as a client sends them
appender       appending as the leader or as a follower does it
analysis       what a set of batches is, before any of it is appended (analyzeAndValidateRecords)
validator      what a leader makes of batches: checks, offsets, timestamps, another format or codec
checks         what a leader refuses, batch by batch and record by record
producers      what the producers would be afterwards (analyzeAndValidateProducerState)
record_survey  the records of an appended batch, without objects where nothing is to be said of them
follower_sets  large sets of a follower, by the kernel of recovery
"""
