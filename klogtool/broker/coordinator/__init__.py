"""What coordinators keep in internal topics: committed offsets of groups, and the state of transactional ids.

transaction_state  the state of transactional ids, replayed from a partition of `__transaction_state`
coordinators       the coordinators at hand: all partitions of `__transaction_state` in some log dirs
open_transactions  open transactions of a partition, and whether somebody will still end them
transaction_parts  each transaction of one partition with its markers, for the audit
audit              transactions that the logs show torn, lost or wrongly ended
coordinator_load   where a coordinator's load of its partition ends
committed_offsets  offsets that groups have committed, from `__consumer_offsets`, at any time
"""
