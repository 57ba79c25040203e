# Sets of batches that are appended: what a follower looks at in all of them (broker/appending/analysis is the
# reference), and what a leader does in all records of one (broker/appending/record_survey leaves what is not plain to
# the leader's own checks).

cdef enum:
    OLD_FORMAT_BITS = 40
    CODECS = 5

@cython.final
cdef class AppendSurvey:
    """What is known of a set between one batch and the next (broker.appending.analysis is the reference).

    leader_epoch: batches of a higher one are the reference's. epochs of runs: OLD_FORMAT for magic 0 and 1.
    """

    cdef public int64_t leader_epoch, last_offset, max_timestamp, latest_epoch, latest_start
    cdef public int codec
    cdef list epochs

    def __cinit__(self):
        self.epochs = []

    def fetch_epochs(self):
        """(leader epoch, base offset) of each run of batches that began since the last call; again, if one of them
        begins lower."""
        found, self.epochs = self.epochs, []
        return found

    def take(self, const uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t checked):
        """Entries that begin in data[at:stop]: (where the next one begins, why it was not taken); see Recovery.take.
        checked: up to there checksums are known to match."""
        cdef int64_t have = data.shape[0], size = 0
        cdef int why = _DONE
        cdef Bytes b
        if not 0 <= at <= have:
            raise ValueError("at is to lie in the data")
        if have == 0:
            return at, (CUT_OFF if at < stop else DONE)
        b = &data[0]
        with nogil:
            while at < stop:
                why = regular_size(b + at, have - at, &size)
                if why:
                    break
                if (at + size > checked and not proved(b + at, size)) or not self.take_entry(b + at):
                    why = _REFERENCE
                    break
                at += size
        return at, why

    cdef bint take_entry(self, Bytes b) noexcept nogil:
        """False, and nothing has changed, for one that is refused or left out."""
        cdef bint is_batch = b[FRAME_MAGIC] == 2
        cdef int64_t base_offset = be64(b), last_offset = base_offset, timestamp = -1
        cdef int64_t epoch = -(<int64_t> 1 << OLD_FORMAT_BITS)
        cdef int attributes
        if is_batch:
            last_offset = plus(base_offset, be32(b + BATCH_LAST_OFFSET_DELTA))
            timestamp, epoch = be64(b + BATCH_MAX_TIMESTAMP), be32(b + BATCH_PARTITION_LEADER_EPOCH)
            attributes = be16(b + BATCH_ATTRIBUTES)
        else:
            attributes = b[LOG_OVERHEAD + MESSAGE0_ATTRIBUTES]
            if b[FRAME_MAGIC] == 1:
                timestamp = be64(b + LOG_OVERHEAD + MESSAGE1_TIMESTAMP)
        if last_offset <= self.last_offset or attributes & CODEC_MASK >= CODECS or (is_batch and epoch > self.leader_epoch):
            return False
        if epoch != self.latest_epoch or (is_batch and base_offset < self.latest_start):
            with gil:
                self.epochs.append((epoch, base_offset))
            self.latest_epoch, self.latest_start = epoch, base_offset
        if attributes & CODEC_MASK:
            self.codec = attributes & CODEC_MASK
        self.last_offset, self.max_timestamp = last_offset, max(self.max_timestamp, timestamp)
        return True

def survey_records(const uint8_t[::1] body not None, int64_t count, int64_t base_timestamp):
    """The records of a batch: (smallest timestamp of those that have one, largest timestamp, whether a key is null,
    whether their offset deltas are 0, 1, 2 and so on); None if they are not exactly so many sound ones."""
    cdef Cursor c
    cdef Record r
    cdef int64_t n = 0, timestamp, least = -1, most = -1
    cdef bint has_null_key = False, is_consecutive = True, sound = True, has_one = False
    if body.shape[0] == 0:
        return None
    c.at, c.broken = &body[0], False
    c.end = c.at + body.shape[0]
    with nogil:
        while n < count:
            if not next_record(&c, &r):
                sound = False
                break
            timestamp = plus(base_timestamp, r.timestamp_delta)
            if timestamp != -1:
                least = timestamp if not has_one else min(least, timestamp)
                most = timestamp if not has_one else max(most, timestamp)
                has_one = True
            has_null_key |= r.key_size < 0
            is_consecutive &= r.offset_delta == n
            n += 1
    if not sound or c.at != c.end:
        return None
    return least, most, has_null_key, is_consecutive
