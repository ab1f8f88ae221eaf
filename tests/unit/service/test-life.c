/* The table of a box's life, proved from the table itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "service/life.h"

static bool is_state(enum box_state s)
{
    return s < BOX_STATES;
}

static void every_cell_is_filled_in(void **state)
{
    for (int s = 0; s <= BOX_GONE; s++)
        for (int e = 0; e < LIFE_EVENTS; e++) {
            const struct life_cell *c = &life_table[s][e];
            if (e >= LIFE_ORDERS) {
                assert_int_equal(c->work, WORK_NONE);
                assert_int_equal(c->refuse, TN_OK);
                /* Nothing but its end leads out, and nothing leads back to the beginning. */
                assert_true((c->to == BOX_GONE) == (e == EVENT_REMOVED || s == BOX_GONE));
                assert_int_not_equal(c->to, BOX_STARTING);
            } else if (c->refuse) {
                assert_int_equal(c->work, WORK_NONE);
            } else {
                assert_int_equal(c->to, life_goal((enum box_order)e));
                assert_true((c->work == WORK_NONE) == ((int)c->to == s && s != BOX_GONE));
            }
        }
}

static void delete_works_from_everywhere(void **state)
{
    for (int s = 0; s <= BOX_GONE; s++) {
        assert_int_equal(life_table[s][EVENT_DELETE].refuse, TN_OK);
        assert_int_equal(life_table[s][EVENT_DELETE].work, WORK_REMOVE);
        assert_int_equal(life_table[s][EVENT_REMOVED].to, BOX_GONE);
    }
}

/* An engine that is away takes away what runs in it, and nothing else. */
static void what_stands_still_does_not_end_with_its_engine(void **state)
{
    assert_int_equal(life_table[BOX_RUNNING][EVENT_UNREACHABLE].to, BOX_ERROR);
    assert_int_equal(life_table[BOX_STOPPED][EVENT_UNREACHABLE].to, BOX_STOPPED);
    assert_int_equal(life_table[BOX_MISSING][EVENT_UNREACHABLE].to, BOX_MISSING);
}

/* The states that can follow a work that was begun in `from`, one bit each: what it brings about,
 * and what is seen after it failed. */
static unsigned outcomes(enum box_state from, enum life_work work)
{
    static const enum life_event good[LIFE_WORKS] = {
        [WORK_START] = EVENT_RUNNING, [WORK_WAKE] = EVENT_RUNNING,   [WORK_PAUSE] = EVENT_PAUSED,
        [WORK_STOP] = EVENT_STOPPED,  [WORK_REMOVE] = EVENT_REMOVED,
    };
    const struct life_work_row *row = &life_works[work];
    enum box_state at = row->during == BOX_GONE ? from : row->during;
    unsigned bits = 1u << life_table[at][good[work]].to;

    if (row->failure != EVENT_RUNNING)
        return bits | 1u << life_table[at][row->failure].to;
    for (int e = EVENT_RUNNING; e <= EVENT_UNREACHABLE; e++)
        bits |= 1u << life_table[at][e].to;
    return bits;
}

/* From every state, with every goal: works follow until nothing is to be done, or until one fails,
 * after which the goal is given up (a deletion: tried again).  No chain of works that all go well
 * is longer than two, so nothing goes on for ever. */
static void no_goal_keeps_it_busy_for_ever(void **state)
{
    static const enum box_state goals[] = {BOX_RUNNING, BOX_PAUSED, BOX_STOPPED, BOX_GONE};

    for (int s = 0; s < BOX_STATES; s++)
        for (size_t g = 0; g < TN_COUNT(goals); g++) {
            static const enum box_state reached[LIFE_WORKS] = {
                [WORK_START] = BOX_RUNNING, [WORK_WAKE] = BOX_RUNNING, [WORK_PAUSE] = BOX_PAUSED,
                [WORK_STOP] = BOX_STOPPED,  [WORK_REMOVE] = BOX_GONE,
            };
            enum box_state at = (enum box_state)s;
            int steps = 0;
            for (enum life_work w; is_state(at) && (w = life_next(at, goals[g])); steps++)
                at = reached[w];
            assert_in_range(steps, 0, 2);
            /* It is there, or an order would have been refused. */
            if (at != goals[g])
                assert_true(s == BOX_MISSING || goals[g] == BOX_PAUSED);
        }
}

/* Starting is the only state that somebody must end: there is always something to do in it, it ends
 * by a deadline, and whatever comes of that is another state. */
static void nothing_stays_starting(void **state)
{
    static const enum box_state goals[] = {BOX_RUNNING, BOX_PAUSED, BOX_STOPPED, BOX_GONE};

    for (size_t g = 0; g < TN_COUNT(goals); g++) {
        enum life_work w = life_next(BOX_STARTING, goals[g]);
        assert_int_not_equal(w, WORK_NONE);
        assert_false(outcomes(BOX_STARTING, w) & 1u << BOX_STARTING);
    }
    for (int w = WORK_NONE + 1; w < LIFE_WORKS; w++) {
        /* 0 is the configured time for a start. */
        assert_true(life_works[w].seconds > 0 || w == WORK_START);
        assert_true(life_works[w].seconds <= 120);
    }
}

/* From every state each other one can be come to by orders and what follows from them, in which a
 * client has anything to say: running, stopped, gone; but a missing one can only go. */
static void every_state_has_a_way_out(void **state)
{
    for (int s = 0; s < BOX_STATES; s++) {
        unsigned seen = 1u << s, before = 0;
        while (seen != before) {
            before = seen;
            for (int at = 0; at < BOX_STATES; at++)
                for (int o = 0; o < LIFE_ORDERS && seen & 1u << at; o++) {
                    const struct life_cell *c = &life_table[at][o];
                    if (!c->refuse && c->work)
                        seen |= outcomes((enum box_state)at, c->work);
                }
        }
        assert_true(seen & 1u << BOX_GONE);
        if (s == BOX_MISSING)
            continue;
        assert_true(seen & 1u << BOX_RUNNING);
        assert_true(seen & 1u << BOX_STOPPED);
        assert_true(seen & 1u << BOX_PAUSED);
    }
}

static void the_backend_is_believed(void **state)
{
    static const enum box_state told[] = {
        [EVENT_RUNNING] = BOX_RUNNING, [EVENT_PAUSED] = BOX_PAUSED,   [EVENT_STOPPED] = BOX_STOPPED,
        [EVENT_ENDED] = BOX_ERROR,     [EVENT_MISSING] = BOX_MISSING,
    };

    for (int s = 0; s < BOX_STATES; s++)
        for (int e = EVENT_RUNNING; e <= EVENT_MISSING; e++)
            assert_int_equal(life_table[s][e].to, told[e]);
}

static void an_order_meets_where_it_is_on_the_way_to(void **state)
{
    assert_int_equal(life_row(BOX_RUNNING, BOX_RUNNING), BOX_RUNNING);
    assert_int_equal(life_row(BOX_RUNNING, BOX_STOPPED), BOX_STOPPED);
    assert_int_equal(life_row(BOX_STARTING, BOX_PAUSED), BOX_STARTING);
    assert_int_equal(life_row(BOX_STARTING, BOX_GONE), BOX_GONE);
    assert_int_equal(life_row(BOX_ERROR, BOX_GONE), BOX_GONE);
}

static void a_refusal_says_what_to_do(void **state)
{
    struct tn_error err = {0};

    assert_int_equal(life_refuse("abcdefghij", BOX_STOPPED, ORDER_PAUSE, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_string_equal(
        err.text, "sandbox abcdefghij is stopped, there is nothing to pause: resume it first");
    life_refuse("abcdefghij", BOX_GONE, ORDER_RESUME, &err);
    assert_int_equal(err.code, TN_E_GONE);
}

static void words_and_numbers_agree(void **state)
{
    assert_string_equal(box_state_words[BOX_GONE], "gone");
    assert_null(box_state_words[BOX_GONE + 1]);
    assert_string_equal(box_cause_words[CAUSE_ENDED], "ended");
    assert_string_equal(box_order_words[ORDER_DELETE], "delete");
    for (int e = 0; e < LIFE_EVENTS; e++)
        assert_non_null(life_event_words[e]);
    assert_null(life_event_words[LIFE_EVENTS]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_is_filled_in),
        cmocka_unit_test(delete_works_from_everywhere),
        cmocka_unit_test(what_stands_still_does_not_end_with_its_engine),
        cmocka_unit_test(no_goal_keeps_it_busy_for_ever),
        cmocka_unit_test(nothing_stays_starting),
        cmocka_unit_test(every_state_has_a_way_out),
        cmocka_unit_test(the_backend_is_believed),
        cmocka_unit_test(an_order_meets_where_it_is_on_the_way_to),
        cmocka_unit_test(a_refusal_says_what_to_do),
        cmocka_unit_test(words_and_numbers_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
