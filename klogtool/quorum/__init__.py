"""The controllers of a KRaft cluster, by their disks: who votes, whose metadata log is best, whether anybody can lead.

Nothing is written.

settings     what a server.properties says of the quorum
controllers  one controller, as its disk and its settings show it
election     what these controllers do if they start together, and what that costs
cures        what a person does about it
causes       what a person does, and why new voters are refused, as causes
new_voters   a new set of voters after most are lost: in which copy, at what price, and when it must not be
metadata_load    why a start ends at a file of the metadata that it cannot open
metadata_copies  copies of the metadata log, batch by batch
"""
