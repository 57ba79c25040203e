"""The only floor that writes files. It carries out plans so that a kill at any step loses nothing, and it undoes them.

writer       carries out plans in place, with a journal; finishes and undoes runs that were cut short
no_undo      carries out plans in place and keeps nothing for undo: for a full disk; deletes for good
output       carries out plans into a new folder; the source does not change
undo         undoes a run that wrote in place: contents, names, owner, mode and times as they were
building     writes a log dir that was built from a spec
image        writes an image of a log dir, and packs it

disk         the calls that change log dirs and journals: write, rename, delete, sync, ...
lock         takes the log dir's `.lock` as a broker does
facts        whether files are unchanged since the plan was made
causes       why nothing is written
space        whether there is enough space, before anything is written
joining      merges plans that change the same file into one plan
draft_writer     makes a folder as its draft is, without undo: for log dirs that are test data

staging      before the first step: writes new contents where a rename puts them in place, keeps originals
putting      writes a file, syncs it and reads it back, a large one while it is still being written
folders      renames folders of a log dir, and moves them out: the last steps of a run
readback     compares what was written with what should have been written
digest       whether a file still has the same bytes
attributes   mode, owner, times and extended attributes of a file
moving       copies bytes between files in the kernel, not through our memory
spooling     writes new bytes to disk while the plan is still being decided

journal      the folder beside the log dir, and its entries, one for each run
manifest     what an entry records of each file: its state before and after, and where the original is kept
given_up     missing records of which somebody removed what showed them, as the journal knows
belonging    which log dir a journal belongs to, wherever both are now
states       which steps of a run are done, judged by the files themselves

line_file    a file of lines that one process at a time adds to
scratch      a temporary folder that lives as long as a command
standard_input  standard input as a file that can be read at any position
dataset      a folder of files that Spark tasks write; all files appear together at the end
export_folder  a folder of files that `klogtool export` adds to; each appears whole
assembling   builds a log dir from partition dirs that Spark tasks wrote
new_log_dir  a new log dir whose partition dirs Spark tasks write
"""
