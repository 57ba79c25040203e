"""Remote storage of tiered topics (KIP-405), judged without a broker. Nothing here writes.

store         what lies in a store: its objects by segment
segment_file  the log and the indexes of a segment, as the broker had them
segment_check  one segment held against itself and its metadata: sizes, every batch, indexes
described     what the objects of a segment say of it, where no metadata does
metadata      what `__remote_log_metadata` says: the newest state of each segment
local         what the log dirs of brokers have of tiered partitions
lineage       which segment serves which offset (RemoteLogMetadataCache)
inventory     partitions, from objects and from metadata: what `klogtool remote ls` lists
safe_to_lose  which offsets of a local log are in remote storage as well
named         which segments a path names, for commands that take files of a log dir otherwise
loading       a partition loaded as a broker has it, of the segments that a question needs
fetching      which bytes are the log of a partition, from an offset on
causes        why something in remote storage is a finding
cures         what a person can do about what is wrong
verification  all that is wrong in a store, and what consumers do not get
"""
