/* Mapped pieces of files that somebody else may cut while we read them; for klogtool/log/mapped.py.

   Touching a page behind the new end of such a file raises SIGBUS, which ends a process. So, as X.org's busfault.c
   does: where the page lies in a piece that was registered, the handler puts a page of zeros in its place and notes
   that the piece was hit; its reader goes on over zeros, looks at the note afterwards, and throws away what it made.
   Any other SIGBUS is handed to whoever handled it before. */
#include <stdint.h>

#if defined(__linux__)
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22       /* Linux 5.14; before that an error, and pages come one fault after another */
#endif

enum { MOST_PIECES = 256 };         /* a piece too many is read, not mapped */

/* begin is 0 in a free entry. end is written last and cleared first, so that a handler sees an entry whole. */
static struct { _Atomic uintptr_t begin, end; _Atomic int hit; } pieces[MOST_PIECES];
static struct sigaction sigbus_before;
static int sigbus_ready;
static uintptr_t page_size;

static void on_sigbus(int number, siginfo_t *info, void *context) {
    (void) context;
    const uintptr_t at = (uintptr_t) info->si_addr;
    for (int n = 0; info->si_code > 0 && n < MOST_PIECES; n++) {
        if (at >= atomic_load(&pieces[n].end) || at < atomic_load(&pieces[n].begin)) continue;
        void *page = (void *) (at & ~(page_size - 1));
        if (mmap(page, page_size, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
        atomic_store(&pieces[n].hit, 1);
        return;
    }
    sigaction(number, &sigbus_before, NULL);    /* the access is made once more, and ends as it would have without us */
    if (info->si_code <= 0) raise(number);      /* sent by a process: nothing is made once more */
}

/* Watch over the piece: its number, -1 if that cannot be. Not to be called by two threads at a time. */
static int watch_piece(const void *data, int64_t size) {
    if (!sigbus_ready) {
        struct sigaction ours = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        page_size = (uintptr_t) sysconf(_SC_PAGESIZE);
        sigemptyset(&ours.sa_mask);
        if (sigaction(SIGBUS, &ours, &sigbus_before)) return -1;
        sigbus_ready = 1;
    }
    for (int n = 0; n < MOST_PIECES; n++) {
        if (atomic_load(&pieces[n].begin)) continue;
        atomic_store(&pieces[n].hit, 0);
        atomic_store(&pieces[n].begin, (uintptr_t) data);
        atomic_store(&pieces[n].end, (uintptr_t) data + (uintptr_t) size);
        return n;
    }
    return -1;
}

static int piece_was_hit(int n) { return atomic_load(&pieces[n].hit); }

static void forget_piece(int n) {
    atomic_store(&pieces[n].end, 0);
    atomic_store(&pieces[n].begin, 0);
}

/* All pages of a piece at once, and gone again: a fault for each costs more, and both are long enough to be done
   without Python's lock, which Python's own mmap keeps. Errors are no matter: these are hints. */
static void fetch_pages(const void *data, int64_t size) {
    const uintptr_t before = (uintptr_t) data & (page_size - 1);
    (void) madvise((char *) data - before, (size_t) size + before, MADV_POPULATE_READ);
}

static void drop_pages(const void *data, int64_t size) {
    const uintptr_t before = (uintptr_t) data & (page_size - 1);
    (void) madvise((char *) data - before, (size_t) size + before, MADV_DONTNEED);
}

#else
static int watch_piece(const void *data, int64_t size) { (void) data; (void) size; return -1; }
static int piece_was_hit(int n) { (void) n; return 1; }
static void forget_piece(int n) { (void) n; }
static void fetch_pages(const void *data, int64_t size) { (void) data; (void) size; }
static void drop_pages(const void *data, int64_t size) { (void) data; (void) size; }
#endif
