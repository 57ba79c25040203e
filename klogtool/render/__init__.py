"""Answers as text, JSON lines, CSV and Arrow.

dump-log, in text, JSON and CSV:

    kafka_dump         one file after another as kafka-dump-log prints it; a partition that is being written to
    kafka_options      the options of kafka-dump-log, parsed as Kafka parses them
    file_dump          every file under a path as text or JSON lines, and logs as CSV; rows of other files
    spec               a description for `klogtool build`, as YAML
    speedscope         where the bytes of a disk are, for the viewer speedscope
    log_lines          the entries of a `.log` as lines: by the kernel on several threads, or by a reference
    kafka_text         kafka-dump-log's lines of a batch and a record: the reference of the text kernel
    json_lines         rows of a batch and a record: the reference of the JSON kernel
    record_columns     the columns of records in CSV, Arrow and Parquet
    csv_lines          rows of records: the reference of the CSV kernel
    index_text         kafka-dump-log's lines of offset and time indexes, checked against the log; its reports
    selection          which records are wanted (`--offsets`, `--key`, ...), and which parts of them are shown
    decoded_columns    keys and values decoded, as further columns
    decoded_text       keys and values decoded, as people read them; how many could not be
    internal_columns   keys and values of internal topics, as structs
    decoder_classes    kafka-dump-log's decoders of keys and values; those of --value-format instead

Arrow:

    arrow              records as record batches, and as Arrow and Parquet files
    arrow_batches      record batches of a `.log`: by the kernel on several threads, or by the reference
    arrow_reference    rows of Python's records: the reference of the Arrow kernel; columns with one value
    arrow_memory       memory of record batches, which is reused
    scan               `klogtool.scan`: records as an Arrow stream for any engine

Findings:

    findings           a finding as a block of text and as a row; what each id means, in a sentence
    scrub              findings of scrub, what it read, and what is due
    metrics            results of verify, scrub and doctor for Prometheus
    ci/                findings in the formats of CI systems: JUnit, SARIF, GitHub, GitLab
    worst_first        many findings: the most dangerous first, and a tally
    explained          the full explanation of a finding, from docs/findings.md; what a message of a broker means

Plans, as each command shows them:

    plans              any plan, as text; plans of many partitions: the worst in full, the others in one line
    changes            append, build, drop-producer, roll, truncate: what changes a log as a running broker does
    compact            compact, compact --why
    recover            recover: of a partition, and the sums of many
    retain             retain and delete-records
    free               free
    salvage            salvage
    transplant         transplant

Other answers:

    doctor             doctor: the verdict, troubles, options, the matrix
    doctor_page        doctor --html: the page
    doctor_drawing     segments along offset and time, as SVG
    kept_answer        the answer inside the page, written and read back
    lookup             lookup
    remote             `remote ls`, `remote fetch`, `remote metadata`
    remote_columns     `remote ls --format arrow`
    quorum             quorum; quorum --voters, --standalone
    read               read: the answer, and its batches and records as dump-log shows them
    txns               txns, txns --audit
    offsets            offsets
    diff               diff
    hash               hash
    image              image
    fleet_metadata     fleet metadata
    fleet_plan         `fleet plan`, `fleet apply`, `fleet check`
    fleet_restored     `fleet check --restored`
    spark_text         the commands on Spark, and export: counts and tables
    inventory          spark inventory, also as an HTML page
    html_page          what HTML pages have in common: the frame, tables, colours; page.css has their style

Words and terminals:

    words              the sentence of each cause; "3 batches"; tables of numbers
    index_doubts       warnings: a time index that the batches contradict
    terminal           width and colours
    progress_bar       a progress bar on stderr
    drawn_bar          the bar itself, drawn by rich; imported where one is drawn
"""
