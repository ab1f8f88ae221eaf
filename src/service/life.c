#include "service/life.h"

const char *const box_state_words[] = {
    [BOX_STARTING] = "starting", [BOX_RUNNING] = "running", [BOX_PAUSED] = "paused",
    [BOX_STOPPED] = "stopped",   [BOX_ERROR] = "error",     [BOX_MISSING] = "missing",
    [BOX_GONE] = "gone",         [BOX_GONE + 1] = NULL,
};

const char *const box_cause_words[] = {
    [CAUSE_NONE] = "none",     [CAUSE_IMAGE] = "image",   [CAUSE_QUOTA] = "quota",
    [CAUSE_ENGINE] = "engine", [CAUSE_MEMORY] = "memory", [CAUSE_TIMEOUT] = "timeout",
    [CAUSE_ENDED] = "ended",   [CAUSE_ENDED + 1] = NULL,
};

const char *const box_order_words[] = {
    [ORDER_PAUSE] = "pause",   [ORDER_RESUME] = "resume", [ORDER_STOP] = "stop",
    [ORDER_DELETE] = "delete", [ORDER_DELETE + 1] = NULL,
};

const char *const life_event_words[] = {
    [EVENT_PAUSE] = "pause",     [EVENT_RESUME] = "resume",
    [EVENT_STOP] = "stop",       [EVENT_DELETE] = "delete",
    [EVENT_RUNNING] = "running", [EVENT_PAUSED] = "paused",
    [EVENT_STOPPED] = "stopped", [EVENT_ENDED] = "ended",
    [EVENT_MISSING] = "missing", [EVENT_UNREACHABLE] = "unreachable",
    [EVENT_FAILED] = "failed",   [EVENT_REMOVED] = "removed",
    [LIFE_EVENTS] = NULL,
};

#define GO(goal, what)             \
    {                              \
        .to = (goal), .work = what \
    }
#define NO(code)         \
    {                    \
        .refuse = (code) \
    }
#define TO(state)     \
    {                 \
        .to = (state) \
    }

/* The backend is believed, whatever was thought before. */
#define SEEN                                                            \
    [EVENT_RUNNING] = TO(BOX_RUNNING), [EVENT_PAUSED] = TO(BOX_PAUSED), \
    [EVENT_STOPPED] = TO(BOX_STOPPED), [EVENT_ENDED] = TO(BOX_ERROR),   \
    [EVENT_MISSING] = TO(BOX_MISSING), [EVENT_FAILED] = TO(BOX_ERROR),  \
    [EVENT_REMOVED] = TO(BOX_GONE)

/* clang-format off */
const struct life_cell life_table[BOX_STATES + 1][LIFE_EVENTS] = {
    [BOX_STARTING] = {
        [EVENT_PAUSE] = GO(BOX_PAUSED, WORK_START), /* first it starts */
        [EVENT_RESUME] = GO(BOX_RUNNING, WORK_START),
        [EVENT_STOP] = GO(BOX_STOPPED, WORK_START),
        [EVENT_DELETE] = GO(BOX_GONE, WORK_REMOVE),
        [EVENT_UNREACHABLE] = TO(BOX_ERROR), SEEN,
    },
    [BOX_RUNNING] = {
        [EVENT_PAUSE] = GO(BOX_PAUSED, WORK_PAUSE),
        [EVENT_RESUME] = GO(BOX_RUNNING, WORK_NONE),
        [EVENT_STOP] = GO(BOX_STOPPED, WORK_STOP),
        [EVENT_DELETE] = GO(BOX_GONE, WORK_REMOVE),
        [EVENT_UNREACHABLE] = TO(BOX_ERROR), SEEN,
    },
    [BOX_PAUSED] = {
        [EVENT_PAUSE] = GO(BOX_PAUSED, WORK_NONE),
        [EVENT_RESUME] = GO(BOX_RUNNING, WORK_WAKE),
        [EVENT_STOP] = GO(BOX_STOPPED, WORK_STOP),
        [EVENT_DELETE] = GO(BOX_GONE, WORK_REMOVE),
        [EVENT_UNREACHABLE] = TO(BOX_ERROR), SEEN,
    },
    [BOX_STOPPED] = {
        [EVENT_PAUSE] = NO(TN_E_CONFLICT),
        [EVENT_RESUME] = GO(BOX_RUNNING, WORK_START),
        [EVENT_STOP] = GO(BOX_STOPPED, WORK_NONE),
        [EVENT_DELETE] = GO(BOX_GONE, WORK_REMOVE),
        [EVENT_UNREACHABLE] = TO(BOX_STOPPED), SEEN,
    },
    [BOX_ERROR] = {
        [EVENT_PAUSE] = NO(TN_E_CONFLICT),
        [EVENT_RESUME] = GO(BOX_RUNNING, WORK_START),
        [EVENT_STOP] = GO(BOX_STOPPED, WORK_STOP),
        [EVENT_DELETE] = GO(BOX_GONE, WORK_REMOVE),
        [EVENT_UNREACHABLE] = TO(BOX_ERROR), SEEN,
    },
    [BOX_MISSING] = {
        [EVENT_PAUSE] = NO(TN_E_CONFLICT),
        [EVENT_RESUME] = NO(TN_E_CONFLICT),
        [EVENT_STOP] = NO(TN_E_CONFLICT),
        [EVENT_DELETE] = GO(BOX_GONE, WORK_REMOVE),
        [EVENT_UNREACHABLE] = TO(BOX_MISSING), SEEN,
    },
    [BOX_GONE] = {
        [EVENT_PAUSE] = NO(TN_E_GONE),
        [EVENT_RESUME] = NO(TN_E_GONE),
        [EVENT_STOP] = NO(TN_E_GONE),
        [EVENT_DELETE] = GO(BOX_GONE, WORK_REMOVE),
        [EVENT_RUNNING] = TO(BOX_GONE), [EVENT_PAUSED] = TO(BOX_GONE),
        [EVENT_STOPPED] = TO(BOX_GONE), [EVENT_ENDED] = TO(BOX_GONE),
        [EVENT_MISSING] = TO(BOX_GONE), [EVENT_UNREACHABLE] = TO(BOX_GONE),
        [EVENT_FAILED] = TO(BOX_GONE), [EVENT_REMOVED] = TO(BOX_GONE),
    },
};

const struct life_work_row life_works[LIFE_WORKS] = {
    [WORK_NONE] = {"nothing", 0, BOX_GONE, EVENT_RUNNING},
    [WORK_START] = {"start", 0, BOX_STARTING, EVENT_FAILED},
    [WORK_WAKE] = {"wake", 60, BOX_GONE, EVENT_RUNNING},
    [WORK_PAUSE] = {"pause", 60, BOX_GONE, EVENT_RUNNING},
    [WORK_STOP] = {"stop", 120, BOX_GONE, EVENT_RUNNING},
    [WORK_REMOVE] = {"remove", 120, BOX_GONE, EVENT_UNREACHABLE},
};
/* clang-format on */

enum box_state life_goal(enum box_order order)
{
    return life_table[BOX_RUNNING][order].to; /* there no order is refused */
}

enum life_work life_next(enum box_state state, enum box_state goal)
{
    for (int order = 0; goal != state && order < LIFE_ORDERS; order++)
        if (life_goal((enum box_order)order) == goal)
            return life_table[state][order].work;
    return WORK_NONE;
}

enum box_state life_row(enum box_state state, enum box_state goal)
{
    return goal == BOX_GONE ? BOX_GONE : state == BOX_STARTING ? state : goal;
}

int life_refuse(const char *id, enum box_state row, enum box_order order, struct tn_error *err)
{
    static const char *const advice[BOX_STATES + 1] = {
        [BOX_STOPPED] = "resume it first",
        [BOX_ERROR] = "resume it to start it again, or delete it",
        [BOX_MISSING] = "its backend does not know it any more: delete it",
        [BOX_GONE] = "it is being deleted",
    };

    return tn_fail(err, life_table[row][order].refuse,
                   "sandbox %s is %s, there is nothing to %s%s%s", id, box_state_words[row],
                   box_order_words[order], advice[row] ? ": " : "", advice[row] ? advice[row] : "");
}
