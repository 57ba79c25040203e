"""The log cleaner: which range, the map of keys, what is kept of each batch.

dirty_range           which part would be cleaned, and whether it is due (LogCleanerManager)
offset_map            the last offset of each key in the dirty part (SkimpyOffsetMap)
cleaner               one pass over a log (Cleaner.doClean)
read_buffer           the batches of a segment as the cleaner reads them
record_filter         what is kept of a batch (Cleaner.cleanInto, MemoryRecords.filterTo)
kernel_cleaning       the same by the kernel, for runs of regular batches
cleaned_transactions  which transactions the cleaner is in the middle of (CleanedTransactionMetadata)
shares                one pass in shares, for threads and for Spark
"""
