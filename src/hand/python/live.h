/* What cells print while they run, for those who asked for it before: by the X-Request-Id of the
 * action that a cell is.  Nothing is kept of cells that nobody follows. */
#ifndef TN_HAND_PYTHON_LIVE_H
#define TN_HAND_PYTHON_LIVE_H

#include <pthread.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/http-server.h"

/* Followed at once; the one that nobody has asked about for longest makes room. */
enum { LIVE_CELLS = 16, LIVE_ID_SIZE = 65, LIVE_MAX = 16 << 20 };

struct live {
    char id[LIVE_ID_SIZE]; /* "": free */
    struct tn_buf text;    /* not yet read; what would be more than LIVE_MAX is left out */
    uint64_t first;        /* offset of its first byte */
    bool ended;
    int64_t asked; /* when */
};
struct lives {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct live cells[LIVE_CELLS];
};

void lives_init(struct lives *l);
void lives_done(struct lives *l);
/* Whether somebody follows the cell of that id, which may be NULL. */
bool lives_wanted(struct lives *l, const char *id);
void lives_add(struct lives *l, const char *id, const char *text, size_t n);
void lives_end(struct lives *l, const char *id);
/* Whoever waits stops. */
void lives_wake(struct lives *l);

/* Answers with what there is from ?offset= on, and waits ?wait= seconds for it if need be. */
void lives_answer(struct lives *l, struct tn_http_exchange *x);

#endif
