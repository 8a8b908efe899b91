/* Has the n-th operation on the files of a name fail, tear or end the process.
 *
 * Preloaded into a process (LD_PRELOAD), it stands between SQLite and the C library. The process
 * itself says by fault_at() when and how.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { NONE, FAIL, FULL, TEAR, KILL };

static const char *NAME = "runs.sqlite";
static long at, count;
static enum kind kind;

void fault_at(long number, int how) { at = number, kind = how, count = 0; }
long fault_count(void) { return count; }

static int is_ours(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, NAME) != NULL;
}

/* What is to happen in this operation. */
static enum kind due(void) {
    if (!at) return NONE;
    count++;
    if (count != at && !(kind == FULL && count > at)) return NONE;
    if (kind == KILL) kill(getpid(), SIGKILL);
    return kind;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WRITES(name, offset_type)                                                        \
    ssize_t name(int descriptor, const void *data, size_t size, offset_type offset) {    \
        REAL(name);                                                                      \
        enum kind now = is_ours(descriptor) ? due() : NONE;                              \
        if (now == TEAR) {                                                               \
            real(descriptor, data, size / 2, offset);                                    \
            kill(getpid(), SIGKILL);                                                     \
        }                                                                                \
        if (now != NONE) return errno = ENOSPC, -1;                                      \
        return real(descriptor, data, size, offset);                                     \
    }

WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL(write);
    enum kind now = at && is_ours(descriptor) ? due() : NONE;
    if (now == TEAR) {
        real(descriptor, data, size / 2);
        kill(getpid(), SIGKILL);
    }
    if (now != NONE) return errno = ENOSPC, -1;
    return real(descriptor, data, size);
}

#define ON_DESCRIPTOR(name, declared, passed)                                            \
    int name declared {                                                                  \
        REAL(name);                                                                      \
        if (is_ours(descriptor) && due() != NONE) return errno = EIO, -1;                \
        return real passed;                                                              \
    }

ON_DESCRIPTOR(fsync, (int descriptor), (descriptor))
ON_DESCRIPTOR(fdatasync, (int descriptor), (descriptor))
ON_DESCRIPTOR(ftruncate, (int descriptor, off_t size), (descriptor, size))
ON_DESCRIPTOR(ftruncate64, (int descriptor, off64_t size), (descriptor, size))

int unlink(const char *path) {
    REAL(unlink);
    if (strstr(path, NAME) != NULL && due() != NONE) return errno = EIO, -1;
    return real(path);
}
