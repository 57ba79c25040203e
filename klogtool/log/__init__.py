"""Reading a disk: log dirs, partitions, segments, batches and records. Read-only.

opened            what a path is: a log dir, a partition dir or a file
logdir            a log dir: its partition dirs and its own files
partition         a partition dir: its segments and the files beside them
log_end           where a log ends
segment           a segment: its `.log` and its indexes; KRaft snapshots
side_file         files that are no logs, as objects
entries           batches, messages and their records, as objects

folder            the names in a folder
log_files         how many bytes and partitions lie under some paths
search            log dirs below a folder: for the error that the folder is none, and for `--recursive`
log_dirs          which folders are log dirs, which of them a path lies in, and whose lock counts
holder            who holds the lock of a log dir

file              a file, opened only to be read
storage           where log dirs are: on this machine, or in storage that pyarrow.fs or fsspec opens
gentle            reads past the page cache, at a pace, so that a running broker does not feel it
expected_files    files that are opened soon, read gently before that
followed          a partition that is being written to: what is new in it; waiting for a change
second_reading    reads a partition again where files go away meanwhile
foreign           the error for files and folders that are not Kafka's
mapped            pieces of a file, mapped
windows           a log in windows that hold whole entries
spans             a log in spans, for several threads
walking           the walk over entries that kernel and reference share
span_maker        what the entries of a log become, span by span
frames            entries at any position, through a small cached piece
probing           a log asked about single positions: which entry is there, where is the next
proving           entries whose checksums hold, span by span
resync            the next batch that proves itself, behind damage
offset_ranges     a set of offsets
remembered        what runs remember of each thing that they read, as lines of a file
late_zstd         libzstd for the kernels, looked for at the first batch that needs it

producer_state    what a broker remembers of producers (ProducerStateManager)
producer_replay   producers and transactions of a segment, from a walk over batch headers
leader_epochs     leader epochs and where they begin (LeaderEpochFileCache)

cores             how many threads are of use
thread_pool       one function over many pieces, on threads, results in order
process_pool      one function over many things, in processes, results in order
"""
