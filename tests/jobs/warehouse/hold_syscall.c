/* Holds a process at the moment when it makes a file of a Delta log: in linkat, link, renameat, renameat2 and rename.
 *
 * For LD_PRELOAD. Once the file HOLD_ARMED exists (at once without one), the first call, or the HOLD_CALLth, that would
 * make a path with HOLD_NAME in it creates HOLD_MARK, waits until HOLD_UNTIL exists, and then goes on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_held_before = 0, calls = 0;

static void hold(const char *path) {
    const char *armed = getenv("HOLD_ARMED"), *name = getenv("HOLD_NAME");
    if (is_held_before || name == NULL || strstr(path, name) == NULL || (armed != NULL && access(armed, F_OK) != 0))
        return;
    if (++calls < (getenv("HOLD_CALL") == NULL ? 1 : atoi(getenv("HOLD_CALL"))))
        return;
    is_held_before = 1;
    close(open(getenv("HOLD_MARK"), O_CREAT | O_WRONLY, 0600));
    while (access(getenv("HOLD_UNTIL"), F_OK) != 0)
        usleep(10000);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    hold(to);
    int (*next)(int, const char *, int, const char *, int) = dlsym(RTLD_NEXT, "linkat");
    return next(from_fd, from, to_fd, to, flags);
}

int link(const char *from, const char *to) {
    hold(to);
    int (*next)(const char *, const char *) = dlsym(RTLD_NEXT, "link");
    return next(from, to);
}

int rename(const char *from, const char *to) {
    hold(to);
    int (*next)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    return next(from, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    hold(to);
    int (*next)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");
    return next(from_fd, from, to_fd, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags) {
    hold(to);
    int (*next)(int, const char *, int, const char *, unsigned int) = dlsym(RTLD_NEXT, "renameat2");
    return next(from_fd, from, to_fd, to, flags);
}
