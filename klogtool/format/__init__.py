"""What the bytes of a log dir mean: declarations, parsing and building. Opens no file.

layouts            every layout, binary and text, declared on one page
fields             names and positions of fields, and fast readers, made from layouts
kernel_layout      field positions for the kernels, made from layouts
text_values        types of the values in text files, for layouts

foreign            what is not Kafka's, by its first bytes or its name
framing            how entries follow each other in a `.log`
batch              record batches, magic 2: parsed and built
message            messages, magic 0 and 1
control            control records and their keys
control_values     values of control records
fetch_response     the header that Kafka 0.7 puts before messages

indexes            offset, time and transaction indexes
producer_snapshot  producer snapshots
checkpoints        checkpoint files
identity           meta.properties, partition.metadata, .kafka_cleanshutdown, quorum-state
names              names of files and folders
tiered/            objects of remote storage: names, manifests, chunks
uuids              ids of topics and log dirs
    serdes             what Kafka's own serializers write: numbers, UUIDs
metadata_versions  names of the levels of metadata.version
kraft_snapshot     snapshots of `__cluster_metadata`, built
internal/          keys and values of internal topics

batch_proof        whether a single entry proves itself
succession         whether entries follow each other, and fit the indexes, as a broker writes them
resync             finds the next sound batch in bytes
producers          what is remembered of one producer
producer_replay    producers and transactions, from a walk over batch headers
commit_replay      committed offsets of groups, record by record
batch_encoding     columns of records, made into batches
entry_fields       one header field of an entry, set by its name
blanking           keys and values taken out of an entry, in place
blanked_entries    entries with their keys and values taken out
blanked_numbers    numbers that stand for nothing, in place of those of a value
blanked_text       text that says nothing, in place of what a text file says
partitioner        the partition of a key
item_merge         two copies' records or batches, merged by their offsets
record_digests     fingerprints of records, and what of two copies is compared
restamp            a batch with another last offset, leader epoch and time

checksums          CRC-32C and CRC-32
xxh64              xxHash64
codecs/            compression
varint             variable-length integers: read, built, declared
buffers            types of bytes that parsers accept

text               numbers and bytes as Java prints them
java_text          lines and properties as Java reads them
java_numbers       numbers as Java reads and computes them
hash_order         the order of the keys of Java's and Scala's HashMap
typed              numbers and times as users type them
"""
