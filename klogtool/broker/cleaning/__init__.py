"""The log cleaner: the range to clean, the map of keys, what is kept of each batch.

dirty_range           which part the cleaner would clean, and whether it is due (LogCleanerManager)
offset_map            the last offset of each key in the dirty part (SkimpyOffsetMap)
cleaner               one pass over a log (Cleaner.doClean); the tombstone horizon of magic 0 and 1
read_buffer           the batches of a segment as the cleaner reads them
record_filter         what is kept of a batch (Cleaner.cleanInto, MemoryRecords.filterTo)
kernel_cleaning       cleans runs of regular batches by the kernel
cleaned_transactions  transactions during a pass (CleanedTransactionMetadata)
shares                one pass divided into shares, for threads and for Spark
"""
