/* A library for LD_PRELOAD: system calls of a program fail as on a file system that has no locks, or
 * whose server is gone. REFUSE_CALLS="flock:37:/run/ pread:5:step-" lets flock fail with errno 37 on
 * files whose path holds "/run/", and pread with errno 5 on those with "step-". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Sets errno and returns 1 if `call` is to fail on `path`. */
static int refused(const char* call, const char* path) {
    const char* rule = getenv("REFUSE_CALLS");
    for (; rule && *rule; rule += strcspn(rule, " "), rule += *rule == ' ') {
        char name[32], part[512];
        int code;
        if (sscanf(rule, "%31[^:]:%d:%511[^ ]", name, &code, part) != 3) continue;
        if (strcmp(name, call) != 0 || !strstr(path, part)) continue;
        errno = code;
        return 1;
    }
    return 0;
}

/* Writes the path of an open file or folder; returns 0 if there is none. */
static int path_of_fd(int fd, char path[4096]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, 4095);
    path[length < 0 ? 0 : length] = 0;
    return length >= 0;
}

static int refused_fd(const char* call, int fd) {
    char path[4096];
    return path_of_fd(fd, path) && refused(call, path);
}

/* As refused(), for a path in an open folder: by its descriptor, or as /proc/self/fd/N/NAME. */
static int refused_at(const char* call, int folder, const char* path) {
    char whole[8192] = "";
    int at = 0;
    if (sscanf(path, "/proc/self/fd/%d/%n", &folder, &at) != 1 || at == 0) {
        at = 0;
        if (*path == '/' || folder == AT_FDCWD) return refused(call, path);
    }
    if (!path_of_fd(folder, whole)) return refused(call, path);
    snprintf(whole + strlen(whole), 4000, "/%s", path + at);
    return refused(call, whole);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int open_as(const char* name, const char* path, int flags, int mode) {
    if (refused_at("open", AT_FDCWD, path)) return -1;
    return ((int (*)(const char*, int, ...))dlsym(RTLD_NEXT, name))(path, flags, mode);
}
int open(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const int mode = va_arg(rest, int);
    va_end(rest);
    return open_as("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const int mode = va_arg(rest, int);
    va_end(rest);
    return open_as("open64", path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const int mode = va_arg(rest, int);
    va_end(rest);
    return refused_at("open", folder, path) ? -1 : REAL(openat)(folder, path, flags, mode);
}
int flock(int fd, int operation) { return refused_fd("flock", fd) ? -1 : REAL(flock)(fd, operation); }
int fsync(int fd) { return refused_fd("fsync", fd) ? -1 : REAL(fsync)(fd); }
int rename(const char* from, const char* to) {
    return refused_at("rename", AT_FDCWD, to) ? -1 : REAL(rename)(from, to);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
    return refused_at("rename", to_folder, to) ? -1 : REAL(renameat)(from_folder, from, to_folder, to);
}
ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
    return refused_fd("pread", fd) ? -1 : REAL(pread)(fd, to, bytes, offset);
}
ssize_t pread64(int fd, void* to, size_t bytes, off64_t offset) {
    return refused_fd("pread", fd) ? -1 : REAL(pread64)(fd, to, bytes, offset);
}
static int fcntl_as(const char* name, int fd, int command, void* argument) {
    if (command == F_OFD_SETLK && refused_fd("fcntl", fd)) return -1;
    return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, name))(fd, command, argument);
}
int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void* argument = va_arg(rest, void*);
    va_end(rest);
    return fcntl_as("fcntl", fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void* argument = va_arg(rest, void*);
    va_end(rest);
    return fcntl_as("fcntl64", fd, command, argument);
}
