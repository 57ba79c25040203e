"""Log dirs made from a short description, the same bytes every time; and the description of a log dir.

Nothing here writes, prints or reads the clock: a log dir is a draft, and a description is a value.

spec             the description: typed values, as in a spec file
spec_text        a spec file read: YAML, with limits, every error with its place
spec_data        keys, values and pieces of files in a spec: text, hex, base64, zeros
bounds           how much a spec may ask for, checked before anything is made

log_dir          a whole log dir: partitions, the log dir's own files, wounds
partition        one partition: its batches appended as a broker appends, its side files derived
entries          batches and messages in words, made into bytes
generated        records made by a seed

wounds           damage by name
describing       a log dir or a partition dir, described
describing_logs  batches and messages, described
"""
