"""The command line: one module for each command.

main                  finds the command, and runs it
status                exit statuses, and the status of each error
output                stdout, stderr; the second line of an error: what to do
show                  what all commands share that show an answer: text, JSON Lines, refusals
output_file           files named by `--output`, `--plan-out`, `--html`, `--write-baseline` and `--metrics`
commands              click's commands and groups as klogtool has them; what a word means that is no command
version               the version in a line
causes                why a command does not do what it was asked for

options               options that several commands share
question_options      options out of the fields of questions, and of what a broker knows beside the partition dir
value_options         `--value-format`, `--value-decoder`, `--schemas`, ...
spark_options         options of all commands on Spark

writing               what all commands that write share: `--apply`, `--output`, ...; decide, show, save, carry out
loading               what all commands share that load a partition to read it
gentle_reading        where a broker uses what is read: a note, and gentle reading

doctor                klogtool doctor
verify                klogtool verify: options, the work
verify_settings       klogtool verify: settings of a file and of the command line
verify_faces          klogtool verify: text, JSON, counts, and reports for CI systems
scrub                 klogtool scrub
recover               klogtool recover
explain               klogtool explain
dump_log              klogtool dump-log: options
dump_question         klogtool dump-log: what is asked
dumping               klogtool dump-log: text, JSON and CSV
dump_spec             klogtool dump-log: the description for klogtool build
dump_columns          klogtool dump-log: Arrow and Parquet
dump_follow           klogtool dump-log --follow
dump_speedscope       klogtool dump-log: speedscope
lookup                klogtool lookup
read                  klogtool read
offsets               klogtool offsets
diff                  klogtool diff
hash                  klogtool hash
remote                klogtool remote: the group
remote_fetch          klogtool remote fetch
remote_ls             klogtool remote ls
remote_metadata       klogtool remote metadata
remote_options        options that its commands share
remote_verify         klogtool remote verify
quorum                klogtool quorum
txns                  klogtool txns, klogtool txns --audit
drop_producer         klogtool drop-producer
salvage               klogtool salvage
transplant            klogtool transplant
rebuild_index         klogtool rebuild-index
append                klogtool append
truncate              klogtool truncate
roll                  klogtool roll
retain                klogtool retain
delete_records        klogtool delete-records
compact               klogtool compact
free                  klogtool free
apply                 klogtool apply
undo                  klogtool undo; entries of journals, by id or path
build                 klogtool build
image                 klogtool image
export                klogtool export
completion            klogtool completion
tutorial              klogtool tutorial: the dialogue
tutorial_steps        klogtool tutorial: what it says
help                  klogtool help
version_command       klogtool version, and what -v says of the machine
fleet                 klogtool fleet: the group
fleet_collect         klogtool fleet collect
fleet_apply           klogtool fleet apply
fleet_check           klogtool fleet check
fleet_metadata        klogtool fleet metadata
fleet_plan            klogtool fleet plan
spark                 klogtool spark: the group
spark_verify          klogtool spark verify
spark_export          klogtool spark export
spark_compact         klogtool spark compact
spark_inventory       klogtool spark inventory
"""
