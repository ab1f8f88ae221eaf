/* People on a session: they see the raw terminal, type into whatever runs, and get a prompt when
 * nothing does. */
#include "hand/shell/session-internal.h"

#define INTERRUPT_NS (500 * TN_MILLI)

/* Who does not ask for the past sees at least the line that the cursor is in: a prompt, a question.
 * A prompt that is about to go is no help: another one follows. */
static uint64_t present(const struct tn_session *s)
{
    bool useful = !s->prompt_ending && s->tape_end - s->tape_line <= TAPE_LINE_MAX;

    return useful ? s->tape_line : s->tape_end;
}

int tn_session_attach(struct tn_session *s, uint64_t *offset, uint64_t *past, struct tn_error *err)
{
    struct turn me;
    int r = 0;

    pthread_mutex_lock(&s->lock);
    *past = s->tape_end;
    if (*offset > s->tape_end)
        *offset = present(s); /* before the prompt that may come up below */
    if (!s->tape)
        s->tape = tn_malloc(TAPE_SIZE);
    s->terminals++;
    /* An action in progress keeps its turn for as long as it waits: the person then just watches.
     */
    if (!s->turns) {
        session_take_turn(s, &me, TN_NEVER);
        r = session_ensure_shell(s, tn_deadline_in(30), err);
        session_leave_turn(s, &me);
    }
    if (r < 0)
        s->terminals--;
    else
        session_offer_prompt(s);
    pthread_mutex_unlock(&s->lock);
    return r;
}

static void resize(struct tn_session *s, int columns, int rows)
{
    if (!s->shell || s->exited)
        return;
    tn_shell_resize(s->shell, columns, rows);
    tn_transcript_resize(s->transcript, columns, rows);
}

void tn_session_detach(struct tn_session *s)
{
    struct turn me;

    pthread_mutex_lock(&s->lock);
    if (--s->terminals == 0) {
        if (s->interactive && !s->turns) { /* whoever has the turn ends it himself */
            session_take_turn(s, &me, TN_NEVER);
            session_end_prompt(s, tn_deadline_in(2));
            session_leave_turn(s, &me);
        }
        if (s->terminals == 0)
            resize(s, SCREEN_COLUMNS, SCREEN_ROWS);
        else
            session_offer_prompt(s); /* somebody attached meanwhile, and saw the turn taken */
    }
    pthread_mutex_unlock(&s->lock);
}

void session_offer_prompt(struct tn_session *s)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(4096);
    struct turn me;

    if (s->terminals == 0 || s->turns || s->active || s->running || s->collecting || !s->shell ||
        s->exited)
        return;
    const struct tn_dialect *dialect = tn_shell_dialect(s->shell);
    if (!dialect->put_interactive)
        return;
    session_take_turn(s, &me, TN_NEVER); /* nobody has it; with it, the shell stays */
    s->seq++;
    s->interactive = true;
    s->prompt_waiting = s->prompt_running = false;
    struct tn_line prompt = session_line(s);
    dialect->put_interactive(&line, &prompt);
    if (session_send_line(s, &line, tn_deadline_in(1), NULL) < 0)
        tn_shell_kill(s->shell);
    session_leave_turn(s, &me);
}

bool session_end_prompt(struct tn_session *s, int64_t deadline)
{
    struct tn_shell *shell = s->shell;
    struct timespec until = tn_timespec(deadline);

    while (s->interactive && !s->prompt_waiting && !s->prompt_running) { /* it is just coming up */
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
            break;
    }
    if (!s->interactive)
        return true;
    if (!s->prompt_waiting)
        return false;
    int status = s->status;
    bool ended = false;
    s->prompt_ending = true;
    while (!ended && s->prompt_waiting &&
           tn_now() < deadline) { /* one that comes while the editor sets up is lost */
        int64_t next = tn_now() + INTERRUPT_NS;
        s->hush = true;
        pthread_mutex_unlock(&s->lock);
        tn_shell_type(shell, "\003", 1, deadline, NULL);
        pthread_mutex_lock(&s->lock);
        ended = session_wait_line(s, next < deadline ? next : deadline);
    }
    s->hush = s->prompt_ending = false;
    s->status = status;
    tn_transcript_clear(s->transcript); /* what a person did is not part of an agent's output */
    s->taken_changes = s->seen_changes = tn_transcript_changes(s->transcript);
    return ended;
}

uint64_t tn_session_wakes(struct tn_session *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t wakes = s->wakes;
    pthread_mutex_unlock(&s->lock);
    return wakes;
}

size_t tn_session_tape(struct tn_session *s, uint64_t *offset, char *to, size_t n, uint64_t wakes,
                       int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);

    pthread_mutex_lock(&s->lock);
    if (*offset > s->tape_end)
        *offset = s->tape_end;
    while (*offset == s->tape_end && wakes == s->wakes) {
        if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
            break;
    }
    if (s->tape_end - *offset > TAPE_SIZE)
        *offset = s->tape_end - TAPE_SIZE;
    size_t got = 0;
    while (got < n && *offset < s->tape_end) {
        size_t at = *offset % TAPE_SIZE;
        size_t piece = TAPE_SIZE - at;
        if (piece > s->tape_end - *offset)
            piece = (size_t)(s->tape_end - *offset);
        if (piece > n - got)
            piece = n - got;
        memcpy(to + got, s->tape + at, piece);
        got += piece;
        *offset += piece;
    }
    pthread_mutex_unlock(&s->lock);
    return got;
}

void tn_session_wake(struct tn_session *s)
{
    pthread_mutex_lock(&s->lock);
    s->wakes++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

int tn_session_type(struct tn_session *s, const char *bytes, size_t n, struct tn_error *err)
{
    pthread_mutex_lock(&s->lock);
    struct tn_shell *shell = s->exited ? NULL : s->shell;
    int r = shell ? tn_shell_type(shell, bytes, n, tn_deadline_in(0.2), err)
                  : tn_fail(err, TN_E_CONFLICT, "session %s has no shell", s->options.name);
    pthread_mutex_unlock(&s->lock);
    return r;
}

void tn_session_resize(struct tn_session *s, int columns, int rows)
{
    pthread_mutex_lock(&s->lock);
    resize(s, columns, rows);
    pthread_mutex_unlock(&s->lock);
}
