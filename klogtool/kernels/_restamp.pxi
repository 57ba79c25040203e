# The leader epoch of batches, set in place (format/restamp is the reference).

def set_leader_epochs(uint8_t[::1] data not None, int64_t at, int64_t stop, int32_t epoch):
    """(where the first entry begins that is not whole, or not before `stop`; how many batches had another epoch)."""
    cdef int64_t have = data.shape[0], length, changed = 0
    cdef uint8_t* b
    if not 0 <= at <= have:
        raise ValueError("at is to lie in the data")
    if have == 0:
        return at, 0
    b = &data[0]
    with nogil:
        while at < stop and have - at > HEADER_SIZE_UP_TO_MAGIC:
            length = be32(b + at + FRAME_LENGTH)
            if length < MIN_LENGTH or length > have - at - LOG_OVERHEAD:
                break
            if b[at + FRAME_MAGIC] >= 2 and length + LOG_OVERHEAD >= BATCH_SIZE:
                # A magic from 128 on is a negative byte in Java: no batch. The checksum does not cover the epoch.
                if b[at + FRAME_MAGIC] < 128 and be32(b + at + BATCH_PARTITION_LEADER_EPOCH) != epoch:
                    store_be32(b + at + BATCH_PARTITION_LEADER_EPOCH, <uint32_t> epoch)
                    changed += 1
            at += length + LOG_OVERHEAD
    return at, changed
