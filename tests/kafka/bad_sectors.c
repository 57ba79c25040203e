/* Reads of one file end with EIO, and its mapped pages with SIGBUS, as on sectors that a disk cannot read.
 * BAD_SECTORS has the end of the file's path; LD_PRELOAD loads this into the broker and into klogtool. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

static int is_bad(int fd) {
    const char *end = getenv("BAD_SECTORS");
    char link[64], path[4096];
    if (!end || fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0 || (size_t)size < strlen(end)) return 0;
    path[size] = 0;
    return !strcmp(path + size - strlen(end), end);
}

#define FAILS(fd) \
    if (is_bad(fd)) { \
        errno = EIO; \
        return -1; \
    }

ssize_t read(int fd, void *to, size_t size) {
    REAL(read);
    FAILS(fd)
    return real(fd, to, size);
}

ssize_t readv(int fd, const struct iovec *to, int count) {
    REAL(readv);
    FAILS(fd)
    return real(fd, to, count);
}

ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
    REAL(pread64);
    FAILS(fd)
    return real(fd, to, size, at);
}

ssize_t pread(int fd, void *to, size_t size, off_t at) { return pread64(fd, to, size, at); }

ssize_t preadv64(int fd, const struct iovec *to, int count, off64_t at) {
    REAL(preadv64);
    FAILS(fd)
    return real(fd, to, count, at);
}

ssize_t preadv64v2(int fd, const struct iovec *to, int count, off64_t at, int flags) {
    REAL(preadv64v2);
    FAILS(fd)
    return real(fd, to, count, at, flags);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t from) {
    REAL(mmap64);
    void *mapped = real(at, size, protection, flags, fd, from);
    if (mapped != MAP_FAILED && is_bad(fd)) {
        int empty = memfd_create("bad", 0);
        real(mapped, size, protection, MAP_SHARED | MAP_FIXED, empty, 0);
        close(empty);
    }
    return mapped;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t from) {
    return mmap64(at, size, protection, flags, fd, from);
}
