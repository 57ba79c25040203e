# Two copies of a log: bytes that are equal, and items merged by their offsets (format/item_merge is the reference).

cdef enum:
    K_SAME
    K_OTHER_EPOCH
    K_UNLIKE
    K_UNLIKE_EPOCH
    K_REBATCHED
    K_ONLY_A
    K_ONLY_B
    K_AFTER_A
    K_AFTER_B
    K_UNCOMPARED
    KINDS

cdef enum:
    ITEM_NUMBERS = 5
    IS_DAMAGED = -2
    ANY_LEADER_EPOCH = -1
    MOST_KEPT_STRETCHES = 1000
    COMPARED_AT_ONCE = 65536        # it stays in the cache until the entries in it are gone over

cdef struct Stretch:
    int64_t kind, first_offset, last_offset, items_a, items_b, epoch_a, epoch_b

# --- bytes ---------------------------------------------------------------------------------------------------------

cdef inline int64_t equal_bytes(Bytes a, Bytes b, int64_t size) noexcept nogil:
    cdef int64_t at = 0
    while size - at >= 8 and le64(a + at) == le64(b + at):
        at += 8
    while at < size and a[at] == b[at]:
        at += 1
    return at

cdef inline bint next_entry(Bytes p, int64_t have, int64_t* before, int64_t* first, int64_t* size) noexcept nogil:
    """Whether a possible entry lies whole at p, behind the offset before; then that is its last one."""
    cdef int64_t length, last
    if have <= HEADER_SIZE_UP_TO_MAGIC:
        return False
    length = be32(p + FRAME_LENGTH)
    size[0] = length + LOG_OVERHEAD
    if length < MIN_LENGTH or size[0] > have or p[FRAME_MAGIC] > 2 or (p[FRAME_MAGIC] == 2 and size[0] < BATCH_SIZE):
        return False
    first[0] = last = be64(p + FRAME_OFFSET)
    if p[FRAME_MAGIC] == 2:
        last = plus(last, be32(p + BATCH_LAST_OFFSET_DELTA))
    if first[0] <= before[0] or last < first[0]:
        return False
    before[0] = last
    return True

def equal_entries(const uint8_t[::1] a not None, const uint8_t[::1] b not None, int64_t before):
    """format.item_merge.equal_entries."""
    cdef int64_t size = min(a.shape[0], b.shape[0]), alike = 0, at = 0, count = 0, first = before, offset = 0, n = 0
    cdef int64_t piece
    cdef Bytes p
    cdef Bytes q
    cdef bint goes_on = True
    if size == 0:
        return 0, 0, 0, before, before
    p, q = &a[0], &b[0]
    with nogil:
        while alike < size:
            piece = min(size - alike, <int64_t> COMPARED_AT_ONCE)
            if memcmp(p + alike, q + alike, piece):
                alike += equal_bytes(p + alike, q + alike, piece)
                size = alike
            else:
                alike += piece
            while goes_on and at < alike:
                if not next_entry(p + at, alike - at, &before, &offset, &n):
                    break
                first = offset if count == 0 else first
                at += n
                count += 1
    return alike, at, count, first, before

# --- items ---------------------------------------------------------------------------------------------------------

@cython.final
cdef class ItemMerge:
    """format.item_merge.ItemMerge: the same attributes and methods, and the same answers."""

    cdef public int64_t left_out
    cdef Stretch[KINDS] all_of
    cdef bint[KINDS] is_there
    cdef Growing kept
    cdef Stretch now
    cdef bint has_now, in_cluster, is_damaged
    cdef Stretch cluster
    cdef int64_t latest_a, latest_b         # leader epochs of the last items in it

    def __dealloc__(self):
        free(self.kept.data)

    @property
    def is_open(self):
        """Whether items that overlap may go on with the next ones."""
        return bool(self.in_cluster)

    def note(self, tuple stretch not None):
        """Add a stretch."""
        cdef Stretch s
        s.kind, s.first_offset, s.last_offset, s.items_a, s.items_b, s.epoch_a, s.epoch_b = stretch
        if not 0 <= s.kind < KINDS:
            raise ValueError("no such kind")
        self.add(&s)

    cdef void add(self, const Stretch* s) noexcept nogil:
        if self.is_there[s.kind]:
            self.join(&self.all_of[s.kind], s)
        else:
            self.all_of[s.kind], self.is_there[s.kind] = s[0], True
        if (self.has_now and self.now.kind == s.kind and self.now.epoch_a == s.epoch_a
                and self.now.epoch_b == s.epoch_b):
            self.join(&self.now, s)
            return
        self.keep_now()
        self.now, self.has_now = s[0], True

    cdef void join(self, Stretch* before, const Stretch* s) noexcept nogil:
        before.last_offset = max(before.last_offset, s.last_offset)
        before.items_a += s.items_a
        before.items_b += s.items_b

    cdef void keep_now(self) noexcept nogil:
        if self.has_now and self.now.kind != K_SAME:
            if self.kept.size < <int64_t> (MOST_KEPT_STRETCHES * sizeof(Stretch)) and takes_more(&self.kept, sizeof(Stretch)):
                memcpy(self.kept.data + self.kept.size, &self.now, sizeof(Stretch))
                self.kept.size += sizeof(Stretch)
            else:
                self.left_out += 1
        self.has_now = False

    def merge(self, const int64_t[::1] a not None, int64_t at_a, const int64_t[::1] b not None, int64_t at_b, bint a_ends, bint b_ends):
        """Take items until one side needs more; a_ends, b_ends: no more will come. Return the first ones not taken."""
        cdef int64_t count_a = a.shape[0] // ITEM_NUMBERS, count_b = b.shape[0] // ITEM_NUMBERS
        cdef const int64_t* one
        cdef const int64_t* other
        if at_a < 0 or at_b < 0:
            raise ValueError("a negative number")
        with nogil:
            while True:
                one = &a[0] + ITEM_NUMBERS * at_a if at_a < count_a else NULL
                other = &b[0] + ITEM_NUMBERS * at_b if at_b < count_b else NULL
                if self.in_cluster and one != NULL and one[0] <= self.cluster.last_offset:
                    self.absorb(one, &self.cluster.items_a, &self.cluster.epoch_a, &self.latest_a)
                    at_a += 1
                elif self.in_cluster and other != NULL and other[0] <= self.cluster.last_offset:
                    self.absorb(other, &self.cluster.items_b, &self.cluster.epoch_b, &self.latest_b)
                    at_b += 1
                elif (one == NULL and not a_ends) or (other == NULL and not b_ends):
                    break
                elif self.in_cluster:
                    self.close_cluster()
                elif one == NULL and other == NULL:
                    break
                elif other == NULL or (one != NULL and one[1] < other[0]):
                    self.lone(one, K_AFTER_A if other == NULL else K_ONLY_A, 1, 0)
                    at_a += 1
                elif one == NULL or other[1] < one[0]:
                    self.lone(other, K_AFTER_B if one == NULL else K_ONLY_B, 0, 1)
                    at_b += 1
                elif one[0] == other[0] and one[1] == other[1] and one[3] != IS_DAMAGED and other[3] != IS_DAMAGED:
                    self.both(one, other)
                    at_a += 1
                    at_b += 1
                else:
                    self.open_cluster(one, other)
        return at_a, at_b

    cdef void lone(self, const int64_t* item, int kind, int items_a, int items_b) noexcept nogil:
        cdef Stretch s
        if item[3] != IS_DAMAGED:
            s.kind, s.first_offset, s.last_offset, s.items_a, s.items_b = kind, item[0], item[1], items_a, items_b
            s.epoch_a = s.epoch_b = ANY_LEADER_EPOCH
            self.add(&s)

    cdef void both(self, const int64_t* one, const int64_t* other) noexcept nogil:
        cdef Stretch s
        s.first_offset, s.last_offset, s.items_a, s.items_b = one[0], one[1], 1, 1
        s.epoch_a = s.epoch_b = ANY_LEADER_EPOCH
        if one[3] == other[3]:
            s.kind = K_SAME if one[2] == other[2] else K_UNLIKE
        else:
            s.kind = K_OTHER_EPOCH if one[2] == other[2] else K_UNLIKE_EPOCH
            s.epoch_a, s.epoch_b = one[3], other[3]
        self.add(&s)

    cdef void open_cluster(self, const int64_t* one, const int64_t* other) noexcept nogil:
        self.in_cluster, self.is_damaged = True, False
        self.cluster.first_offset, self.cluster.last_offset = min(one[0], other[0]), max(one[1], other[1])
        self.cluster.items_a = self.cluster.items_b = 0
        self.cluster.epoch_a = self.cluster.epoch_b = self.latest_a = self.latest_b = ANY_LEADER_EPOCH

    cdef void absorb(self, const int64_t* item, int64_t* items, int64_t* epoch, int64_t* latest) noexcept nogil:
        self.cluster.last_offset = max(self.cluster.last_offset, item[1])
        if item[3] == IS_DAMAGED:
            self.is_damaged = True
            return
        if items[0] == 0:
            epoch[0] = item[3]
        items[0] += 1
        latest[0] = item[3]

    cdef void close_cluster(self) noexcept nogil:
        cdef Stretch s = self.cluster
        if s.epoch_a == s.epoch_b:
            s.epoch_a, s.epoch_b = self.latest_a, self.latest_b
        s.kind = K_REBATCHED if s.epoch_a == s.epoch_b else K_UNLIKE_EPOCH
        if self.is_damaged:
            s.kind = K_UNCOMPARED
        if s.kind != K_UNLIKE_EPOCH:
            s.epoch_a = s.epoch_b = ANY_LEADER_EPOCH
        self.in_cluster = False
        self.add(&s)

    def stretches(self):
        """The stretches that are not SAME, as far as they were kept."""
        cdef Stretch* rows
        cdef int64_t n
        self.keep_now()
        rows = <Stretch*> self.kept.data
        return [self.fields(&rows[n]) for n in range(self.kept.size // <int64_t> sizeof(Stretch))]

    def totals(self):
        """A stretch from the first to the last of each kind that there was."""
        cdef int n
        return [self.fields(&self.all_of[n]) for n in range(KINDS) if self.is_there[n]]

    cdef tuple fields(self, const Stretch* s):
        return s.kind, s.first_offset, s.last_offset, s.items_a, s.items_b, s.epoch_a, s.epoch_b
