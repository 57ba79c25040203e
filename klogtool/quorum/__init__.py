"""The controllers of a KRaft cluster, by their disks: who votes, whose metadata log is best, whether anybody can lead.

Nothing is written.

settings     what a server.properties says of the quorum
controllers  one controller, as its disk and its settings show it
election     what these controllers do if they start together, and what that costs
cures        what a person does about it
"""
