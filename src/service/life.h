/* The life of a box as one table: what each order and each event does in each state. */
#ifndef TN_SERVICE_LIFE_H
#define TN_SERVICE_LIFE_H

#include "service/box.h"

enum life_event {
    /* Orders. */
    EVENT_PAUSE = ORDER_PAUSE,
    EVENT_RESUME = ORDER_RESUME,
    EVENT_STOP = ORDER_STOP,
    EVENT_DELETE = ORDER_DELETE,
    LIFE_ORDERS,
    /* What its backend says, asked or after it has done something. */
    EVENT_RUNNING = LIFE_ORDERS,
    EVENT_PAUSED,
    EVENT_STOPPED,
    EVENT_ENDED,       /* by itself, or killed */
    EVENT_MISSING,     /* not there any more */
    EVENT_UNREACHABLE, /* the backend itself is not there, or fails */
    /* What became of work. */
    EVENT_FAILED,  /* it could not be started, or not in time */
    EVENT_REMOVED, /* nothing of it is left */
    LIFE_EVENTS
};
extern const char *const life_event_words[]; /* ends with NULL */

enum life_work {
    WORK_NONE,
    WORK_START, /* make it, or start it again: line, room, backend, hand */
    WORK_WAKE,  /* of a paused one */
    WORK_PAUSE,
    WORK_STOP,
    WORK_REMOVE,
    LIFE_WORKS
};

struct life_cell {
    /* Of an event: the state that follows.  Of an order: the goal. */
    enum box_state to;
    /* Of an order: the first thing to do on the way to the goal, or TN_OK and a refusal. */
    enum life_work work;
    enum tn_code refuse;
};

/* The last row, BOX_GONE, is that of a box on its way out. */
extern const struct life_cell life_table[BOX_STATES + 1][LIFE_EVENTS];

/* How long each work may take at most, in seconds (0: options.start_seconds), in which state a box
 * is meanwhile (BOX_GONE: in the one it was in), and what a failure of it is. */
struct life_work_row {
    const char *name;
    double seconds;
    enum box_state during;
    enum life_event failure; /* EVENT_RUNNING: it is looked at, and what is seen counts */
};
extern const struct life_work_row life_works[LIFE_WORKS];

/* What is to be done with one in that state to come nearer to the goal; WORK_NONE also when the
 * table refuses it. */
enum life_work life_next(enum box_state state, enum box_state goal);
/* The goal that an order has. */
enum box_state life_goal(enum box_order order);
/* The row of the table that an order meets: of the state, or of where it is on the way to. */
enum box_state life_row(enum box_state state, enum box_state goal);
/* What to say to an order that the table refuses. */
int life_refuse(const char *id, enum box_state row, enum box_order order, struct tn_error *err);

#endif
