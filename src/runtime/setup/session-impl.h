/* Inside of struct tn_session: only for the files of this folder. */
#ifndef TN_RUNTIME_SETUP_SESSION_IMPL_H
#define TN_RUNTIME_SETUP_SESSION_IMPL_H

#include "runtime/session.h"

struct tn_session {
    const struct tn_config *config;
    struct setup_executor executor, judged; /* of set-up, and of the agent */
    tn_session_hide_fn hide;                /* or NULL */
    char *id, *workspace, *directory;
    struct tn_stream *stream;
    struct tn_toolbox *toolbox;
    bool attached, shared_home, jupyter, token_in_url, subscribed;
    struct tn_json *env;

    tn_token_refresh_fn refresh;
    void *refresh_ctx;
    tn_session_status_fn status_fn;
    tn_session_note_fn note_fn;
    void *ctx;

    pthread_mutex_t executing; /* of executor */
    pthread_mutex_t lock;      /* of what follows */
    enum tn_runtime_status status;
    struct tn_git_token *tokens; /* owned, with their texts */
    size_t token_count;
    int64_t own[16]; /* the last actions that this session itself added to the stream */
    size_t own_next;
};

void session_note(struct tn_session *s, const char *fmt, ...) TN_PRINTF(2, 3);

/* The absolute path of a directory that is given relative to the workspace; on the heap. */
char *session_path(const struct tn_session *s, const char *directory);

/* A copy of the tokens as they are now. */
struct git_tokens {
    struct tn_git_token *items;
    size_t count;
};
struct git_tokens session_tokens(struct tn_session *s);
void git_tokens_done(struct git_tokens *t);
#define autotokens TN_CLEANUP(git_tokens_done)

/* From now on neither the log nor the stream shows it. */
int session_hide_token(struct tn_session *s, const struct tn_git_token *token,
                       struct tn_error *err);
/* A command that names a token is about to use it: it gets a fresh one. */
void session_refresh_tokens(struct tn_session *s, const struct tn_action *action);

/* Replaces every token in the text of the error. */
void session_hide_tokens(struct tn_session *s, struct tn_error *err);

/* Adds the action to the stream for others to see; it is not executed by the subscription. */
int session_add_own_action(struct tn_session *s, const struct tn_action *action,
                           struct tn_error *err);
bool session_is_own(struct tn_session *s, int64_t id);

/* The observation of a task_tracking action. */
void session_track_tasks(struct tn_session *s, const struct tn_action *action,
                         struct tn_observation *o);

#endif
