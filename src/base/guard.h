/* Scope guards and small allocations.
 *
 * A guarded variable releases what it holds when its scope ends; ownership leaves the scope only
 * through an explicit TN_TAKE_PTR or TN_TAKE_FD.  Small allocations abort when memory is gone;
 * anything whose size a peer chooses goes through tn_buf (buf.h), which reports instead. */
#ifndef TN_BASE_GUARD_H
#define TN_BASE_GUARD_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TN_CLEANUP(fn) __attribute__((cleanup(fn)))
#define TN_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define TN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline void tn_guard_free(void *p)
{
    free(*(void **)p);
}

/* Closes fd if it is one, and keeps errno. */
static inline void tn_close(int fd)
{
    if (fd >= 0) {
        int saved = errno;
        close(fd);
        errno = saved;
    }
}

static inline void tn_guard_fd(int *fd)
{
    tn_close(*fd);
}

static inline void tn_guard_file(FILE **f)
{
    if (*f)
        fclose(*f);
}

#define tn_autofree TN_CLEANUP(tn_guard_free)
#define tn_autofd TN_CLEANUP(tn_guard_fd)
#define tn_autofile TN_CLEANUP(tn_guard_file)

#define TN_TAKE_PTR(p)              \
    __extension__({                 \
        __typeof__(p) taken_ = (p); \
        (p) = NULL;                 \
        taken_;                     \
    })

#define TN_TAKE_FD(fd)     \
    __extension__({        \
        int taken_ = (fd); \
        (fd) = -1;         \
        taken_;            \
    })

static inline void *tn_check_memory(void *p)
{
    if (!p)
        abort();
    return p;
}

static inline void *tn_malloc(size_t n)
{
    return tn_check_memory(malloc(n ? n : 1));
}

static inline void *tn_calloc(size_t n, size_t size)
{
    return tn_check_memory(calloc(n ? n : 1, size ? size : 1));
}

static inline void *tn_realloc(void *p, size_t n)
{
    return tn_check_memory(realloc(p, n ? n : 1));
}

static inline char *tn_strdup(const char *s)
{
    return tn_check_memory(strdup(s));
}

/* strdup that passes NULL through. */
static inline char *tn_strdup_or_null(const char *s)
{
    return s ? tn_strdup(s) : NULL;
}

static inline char *tn_strndup(const char *s, size_t n)
{
    return tn_check_memory(strndup(s, n));
}

/* A formatted string on the heap; the caller frees it. */
char *tn_asprintf(const char *fmt, ...) TN_PRINTF(1, 2);

#endif
