"""Objects of remote storage (KIP-405): what their names and bytes mean. Opens nothing.

local_storage   the layout of Kafka's LocalTieredStorage, on one page
aiven           the layout of Aiven's tiered-storage-for-apache-kafka, on one page

objects         names of objects, of all layouts, parsed; other layouts recognised
segments        what the metadata says of a segment (RemoteLogSegmentMetadata)
manifest        manifests and chunk indexes, read and checked
sealing         data keys and encrypted chunks
"""
