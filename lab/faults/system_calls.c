/* Counts the calls by which processes change files below a folder, and lets the one with a given number go wrong.
 *
 * For LD_PRELOAD. Counted are calls with a path that begins with FAULT_ROOT: making or truncating a file by open, and
 * write, link, rename and unlink. The file FAULT_PAGE has numbers of eight bytes, which all processes share, so that
 * Python and its JVM count together, and may be told something else while they run: one for each of PLACES that counts,
 * and then the twist. From the call AT (the first is 1) on, among those of the place PLACE (0 is the first):
 *   HOLD   this one call makes the file FAULT_MARK, and waits until there is a file FAULT_UNTIL;
 *   ONCE   this one call fails with the error number ERROR;
 *   STAY   all calls but unlink fail with it;
 *   CLOCK  CLOCK_REALTIME is CLOCK_S seconds off;
 *   GONE   all calls fail with it, so that files stay as a SIGKILL would leave them, and the process goes on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *const PLACES[] = {"", "/_delta_log/", "/_checkpoints/", "/_groupledger/"};
#define PLACE_COUNT ((int)(sizeof PLACES / sizeof PLACES[0]))

enum { ACT, PLACE, AT, ERROR, CLOCK_S };
enum { COUNT, HOLD, ONCE, STAY, CLOCK, GONE };

static int64_t *counters = NULL;
static const char *root = NULL;

static int64_t twist(int part) { return __atomic_load_n(&counters[PLACE_COUNT + part], __ATOMIC_SEQ_CST); }

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_PAGE");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    root = getenv("FAULT_ROOT");
    if (page != MAP_FAILED)
        counters = page;
}

static void hold(void) {
    int (*make)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    close(make(getenv("FAULT_MARK"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    while (access(getenv("FAULT_UNTIL"), F_OK) != 0)
        usleep(10000);
}

/* Returns the error number that a call is to fail with, or 0. */
static int meet(const char *path, int is_unlink) {
    int64_t number = 0, act, at;
    if (counters == NULL || path == NULL || strncmp(path, root, strlen(root)) != 0)
        return 0;
    for (int each = 0; each < PLACE_COUNT; each++)
        if (strstr(path, PLACES[each]) != NULL) {
            int64_t counted = __atomic_add_fetch(&counters[each], 1, __ATOMIC_SEQ_CST);
            number = each == twist(PLACE) ? counted : number;
        }
    if (number == 0)
        return 0;
    act = twist(ACT);
    at = twist(AT);
    if (number == at && act == HOLD)
        hold();
    if ((number == at && act == ONCE) || (number >= at && (act == GONE || (act == STAY && !is_unlink))))
        return (int)twist(ERROR);
    return 0;
}

static int meet_open_file(int fd) {
    char link[64], path[4096];
    if (counters == NULL || fd <= 2)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0 || path[0] != '/')
        return 0;
    path[size] = 0;
    return meet(path, 0);
}

#define FAIL_IF(found)                                                                                                 \
    do {                                                                                                               \
        int error = (found);                                                                                           \
        if (error != 0) {                                                                                              \
            errno = error;                                                                                             \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)
#define NEXT(type, call, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, call))
#define CHANGES(flags) (((flags) & (O_CREAT | O_TRUNC)) != 0 && ((flags) & O_TMPFILE) != O_TMPFILE)

#define OPEN(call)                                                                                                     \
    int call(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = va_arg(more, mode_t);                                                                            \
        va_end(more);                                                                                                  \
        if (CHANGES(flags))                                                                                            \
            FAIL_IF(meet(path, 0));                                                                                    \
        return NEXT(int, #call, const char *, int, ...)(path, flags, mode);                                            \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(call)                                                                                                  \
    int call(int folder, const char *path, int flags, ...) {                                                           \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = va_arg(more, mode_t);                                                                            \
        va_end(more);                                                                                                  \
        if (CHANGES(flags))                                                                                            \
            FAIL_IF(meet(path, 0));                                                                                    \
        return NEXT(int, #call, int, const char *, int, ...)(folder, path, flags, mode);                               \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

ssize_t write(int fd, const void *bytes, size_t size) {
    FAIL_IF(meet_open_file(fd));
    return NEXT(ssize_t, "write", int, const void *, size_t)(fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    FAIL_IF(meet_open_file(fd));
    return NEXT(ssize_t, "writev", int, const struct iovec *, int)(fd, parts, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset) {
    FAIL_IF(meet_open_file(fd));
    return NEXT(ssize_t, "pwrite64", int, const void *, size_t, off64_t)(fd, bytes, size, offset);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    FAIL_IF(meet(to, 0));
    return NEXT(int, "linkat", int, const char *, int, const char *, int)(from_fd, from, to_fd, to, flags);
}

int link(const char *from, const char *to) {
    FAIL_IF(meet(to, 0));
    return NEXT(int, "link", const char *, const char *)(from, to);
}

int rename(const char *from, const char *to) {
    FAIL_IF(meet(to, 0));
    return NEXT(int, "rename", const char *, const char *)(from, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    FAIL_IF(meet(to, 0));
    return NEXT(int, "renameat", int, const char *, int, const char *)(from_fd, from, to_fd, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags) {
    FAIL_IF(meet(to, 0));
    return NEXT(int, "renameat2", int, const char *, int, const char *, unsigned int)(from_fd, from, to_fd, to, flags);
}

int unlink(const char *path) {
    FAIL_IF(meet(path, 1));
    return NEXT(int, "unlink", const char *)(path);
}

int unlinkat(int folder, const char *path, int flags) {
    FAIL_IF(meet(path, 1));
    return NEXT(int, "unlinkat", int, const char *, int)(folder, path, flags);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *) = NULL;
    if (next == NULL)
        next = dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, now);
    if (clock == CLOCK_REALTIME && counters != NULL && twist(ACT) == CLOCK &&
        __atomic_load_n(&counters[twist(PLACE)], __ATOMIC_SEQ_CST) >= twist(AT))
        now->tv_sec += twist(CLOCK_S);
    return result;
}
