"""Several brokers after a disaster: which copy of each partition is the best, and what every broker has to do.

framed      files that go from machine to machine: typed rows, and an end with a checksum; reads those of `collected`
collected   what `fleet collect` writes about one broker
causes      why a copy leads or follows, what is lost, what a snapshot guesses
checks      what a row of such a file may say
collecting  log dirs of a broker, as such a file
metadata    what a lost `__cluster_metadata` said, as far as the log dirs know
metadata_records  a rebuilt `__cluster_metadata` as records, and as the bytes of a snapshot
histories   which leaders wrote a log, and where two logs part
choosing    the best copy of one partition, and what becomes of the others
planning    all partitions: who leads, in which order brokers start, what Kafka's tools are given
sharing     one broker's share of a plan: what is done already, what is still to do
coordinating  what transactions and groups have left on one broker
restored_identity  whether restored disks are one cluster, and whose metadata leads it
node_starts  what the doctor foresees for each disk of a set
sequences   producers that went on, and what a leader with an older copy says to them
remote_gaps  offsets of tiered topics that neither the disks of a set have nor its metadata of remote segments
forecast    what becomes of each partition if all disks of a set start together
restored    the verdict for a set of restored disks: lost, reset, torn, and what to do
mixes       several generations of snapshots: which disks together lose least
checking    whether the disks are as the plan wants them
"""
