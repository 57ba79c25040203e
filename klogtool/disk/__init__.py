"""The only floor that writes: it carries plans out so that a kill at any step loses nothing, and takes them back.

writer       carries plans out in place, with a journal; finishes and undoes runs that were cut short
for_good     carries plans out in place and keeps nothing: for a disk that is full
output       carries plans out into a new folder; the source stays as it is
undo         takes back what a run wrote in place

disk         the verbs that change files (write, rename, delete, sync, ...): all writing goes through them
lock         the log dir's `.lock`, taken as a broker takes it
log_dirs     which log dirs a folder belongs to, so which locks are needed
facts        whether files are still as a plan found them
space        whether there is room, before anything is written
joining      several plans that share a file, as one plan

staging      before the first step: new contents are written beside, originals are kept
putting      a file is written, synced and read back
read_behind  a large file is read back while it is still being written
readback     what was written, compared with what was to be written
digest       whether a file has the bytes that it had
about        mode, owner, times and extended attributes of a file
moving       bytes of files copied by the system, not through our memory
spooling     new bytes that go to the device while the plan is still being decided

journal      the folder beside the log dir, and its entries, one for each run
manifest     what an entry says of each file: as it was, what became of it, where the original is
belonging    which log dir a journal belongs to, wherever both lie now
states       which steps of a run are done, told by the files themselves

scratch      a temporary folder for as long as a command runs
dataset      a folder of files that tasks of Spark write; all appear at the end
assembling   a log dir out of partition dirs that tasks of Spark wrote
"""
