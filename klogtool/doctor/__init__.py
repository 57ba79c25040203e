"""The doctor: what a broker does with these log dirs when it starts, and what to do first.

Nothing here writes, prints or reads the clock.

    situation    a situation: what a broker says, what it means, what to do about it
    situations/  the table of situations, by theme
    wording      the wording of a message as a pattern, in time proportional to the text
    where        what a message is about: file, partition dir, log dir
    host         what the machine does to a log: limits, memory, mounts, disks, room
    host_files   the files of /proc and /sys
    page_cache   how much of a file is in memory
    messages     situations recognised in a text that somebody pasted
"""
