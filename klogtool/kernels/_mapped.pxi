# Pieces of files that are mapped (see _mapped.h). log/mapped.py is the one that calls this.

cdef extern from "_mapped.h" nogil:
    int watch_piece(const void* data, int64_t size)
    int piece_was_hit(int n)
    void forget_piece(int n)
    void fetch_pages(const void* data, int64_t size)
    void drop_pages(const void* data, int64_t size)

from mmap import mmap as Mapping

CAN_WATCH = True

cdef class Watch:
    """Watches over a view of a mapped file until let_go(); then its pages are given back, too.

    fetch: bring all of it into memory at once. Raises OSError where there is no watching: then the file is to be read.
    """

    cdef const uint8_t[::1] data
    cdef int number

    def __cinit__(self, view not None, bint fetch):
        cdef const uint8_t[::1] data = view
        self.number = -1
        if not isinstance(view.obj, Mapping):       # pages that are given back would take any other memory's bytes along
            raise TypeError("no mapped file")
        if data.shape[0]:
            self.number = watch_piece(&data[0], data.shape[0])
        if self.number < 0:
            raise OSError("SIGBUS cannot be watched for")
        self.data = data
        if fetch:
            with nogil:
                fetch_pages(&self.data[0], self.data.shape[0])

    def was_hit(self):
        """Whether bytes were looked at that the file does not have, or the disk does not give: they were zeros."""
        if self.number < 0:
            raise ValueError("it was let go")
        return bool(piece_was_hit(self.number))

    def let_go(self):
        """The end of it; nobody looks at the data any more."""
        if self.number < 0:
            return
        forget_piece(self.number)
        self.number = -1
        with nogil:
            drop_pages(&self.data[0], self.data.shape[0])
        self.data = None

    def __dealloc__(self):
        if self.number >= 0:
            forget_piece(self.number)
