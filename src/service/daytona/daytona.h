/* The API of Daytona: sandboxes (/api/sandbox) and the toolbox inside them (/api/toolbox).
 *
 * Unmodified clients work by DAYTONA_API_URL, the address of this service and "/api", and a key in
 * DAYTONA_API_KEY.  What they ask for becomes boxes (box.h), files of a hand (hand-files.h) and
 * processes (process.h).  docs/clouds/daytona.md says what differs;
 * docs/internals/service-daytona.md why. */
#ifndef TN_SERVICE_DAYTONA_H
#define TN_SERVICE_DAYTONA_H

#include "base/clock.h"
#include "runtime/hand-files.h"
#include "service/api-native.h"
#include "service/process.h"
#include "service/surface.h"

#define DAYTONA_HOME "/home/daytona"
#define DAYTONA_TOOLBOX "/api/toolbox" /* then "/ID/process/execute", or "/ID/toolbox/..." */
#define DAYTONA_SECONDS 60.0           /* for what a client waits for, as long as it does itself */
enum {
    DAYTONA_BODY_MAX = 1 << 20,
    DAYTONA_ANSWER_MAX = 64 << 20,
    DAYTONA_MINUTES = 10000000, /* the most of an interval */
    /* Generations of clients, by the middle number of their version. */
    DAYTONA_MUXED = 27,  /* output and errors of a session's command are told apart */
    DAYTONA_JSON = 150,  /* ...in JSON */
    DAYTONA_PAUSES = 190 /* a list has a cursor, and there is a state "paused" */
};

/* Looks at every request that is not for a port: errors of these paths are told in the vendor's
 * shape.  True: it was for events, which come without a key, and is answered. */
bool daytona_take(struct tn_http_exchange *x);
/* Who comes to a port of that box by a token of Daytona's (in a header, or in the query of the
 * target), or because it is public: 1 when they are let in, 0 when they have shown nothing, -1:
 * answered. */
int daytona_visit(struct tn_service *s, struct tn_http_exchange *x, const char *id);

/* The middle number of the client's version; very large where it says none. */
int daytona_version(const struct tn_http_exchange *x);
/* {"statusCode": 404, "message": "..."}: a surface_reply_fn. */
int daytona_reply(struct tn_http_exchange *x, int status, const char *code, const char *detail);
/* The same for the toolbox, with one of the vendor's own words for it ("FILE_NOT_FOUND"). */
int daytona_fail(struct tn_http_exchange *x, int status, const char *code, const char *fmt, ...)
    TN_PRINTF(4, 5);

/* --- a sandbox as clients see it (object.c) --------------------------------------------------- */

/* The box that {id} names by its id or its name, in the caller's own tenant, with that scope; NULL:
 * answered. */
struct box *daytona_box(struct tn_http_exchange *x, struct tn_service *s, unsigned scope);
/* A word of their enumeration; "destroyed" is not listed. */
const char *daytona_state(const struct tn_http_exchange *x, const struct box_view *v);
void daytona_put(struct tn_http_exchange *x, struct tn_jw *w, const struct box_view *v);
void daytona_reply_box(struct tn_http_exchange *x, int status, struct box *b);

/* What they say of a sandbox and a box does not have: kept in its metadata, beside the labels. */
struct daytona_settings {
    bool public;                    /* its ports need no token */
    int64_t archive, remove, pause; /* minutes; remove negative: never */
    int64_t signing;                /* how often the key of its links was changed */
    const char *target, *snapshot;  /* borrowed; or NULL */
    const struct tn_json *build;    /* borrowed; NULL: it was not built (build.c) */
};
void daytona_settings_of(const struct tn_json *metadata, struct daytona_settings *out);
/* New metadata: the texts in labels (an object, or NULL) and the settings.  The caller frees it. */
int daytona_metadata(const struct tn_json *labels, const struct daytona_settings *settings,
                     struct tn_json **out, struct tn_error *err);
/* Of a request: what it may reach, as members of a spec. */
void daytona_put_network(struct tn_jw *w, const struct tn_json *body);
void daytona_put_labels(struct tn_jw *w, const struct tn_json *metadata);

/* --- new ones, and snapshots (create.c, snapshot.c) ------------------------------------------- */

void daytona_create(struct tn_http_exchange *x, void *ctx);
void daytona_fork(struct tn_http_exchange *x, void *ctx);
/* POST /api/snapshots: of an image. */
void daytona_create_snapshot(struct tn_http_exchange *x, void *ctx);
/* Answers with that snapshot, which is a box whose build was begun: clients listen to one that goes
 * on, even if it has ended meanwhile. */
void daytona_reply_snapshot(struct tn_http_exchange *x, struct box *b);
/* Ports without a token are the operator's to allow: TN_E_DENIED. */
int daytona_check_public(const struct tn_service *s, bool wanted, struct tn_error *err);
/* The box that is the snapshot of that name or id.  NULL: there is none. */
struct box *daytona_snapshot(struct tn_service *s, const struct caller *who, const char *given);
/* Whether a new one may have that name: TN_E_CONFLICT, TN_E_INVALID. */
int daytona_check_snapshot(struct tn_service *s, const struct caller *who, const char *name,
                           struct tn_error *err);
/* The session of the box that is the snapshot of that name; on the heap. */
char *daytona_snapshot_session(const char *name);

/* --- links to files (links.c) ----------------------------------------------------------------- */

/* It ends with every key of the tenant's that is revoked. */
int daytona_signing_key(const struct box_view *v, char out[SURFACE_TOKEN], struct tn_error *err);
/* Who comes to the toolbox: by a key; or to that file alone, by a signed link, as the key that made
 * the sandbox.  False: answered. */
bool daytona_enter(struct tn_http_exchange *x, struct tn_service *s, const char *rest);

/* --- images (build.c) ------------------------------------------------------------------------- */

enum daytona_build {
    DAYTONA_NO_BUILD, /* it was not built */
    DAYTONA_PENDING,
    DAYTONA_BUILDING,
    DAYTONA_BUILT,
    DAYTONA_FAILED
};
/* How far the box is; name: of the snapshot that it is, NULL when it is a sandbox; log: the end of
 * what it said, or NULL.  Both may be NULL, and live as long as the view. */
enum daytona_build daytona_build_of(const struct box_view *v, const char **name, const char **log);
/* A snapshot (surface_is_layer). */
bool daytona_is_layer(const struct box_view *v);
/* For settings.build; source: the box that it is a fork of, or NULL.  The caller frees it. */
struct tn_json *daytona_build_record(const char *name, const char *source, enum daytona_build state,
                                     const char *log, size_t n);
/* Runs the script of a Dockerfile in a box that is pending and runs. */
int daytona_build_start(struct tn_http_exchange *x, struct box *b, const char *script,
                        struct tn_error *err);
/* box_look, once the end of a build was noted; may wait for its box to rest. */
void daytona_see(struct box *b, struct box_view *v);
/* Answers with what the build says, to its end if that is asked for; or with the address of that
 * answer, of /api/KIND/ID. */
void daytona_build_logs(struct tn_http_exchange *x, struct box *b);
void daytona_build_logs_url(struct tn_http_exchange *x, const char *kind, const char *id);

/* --- the toolbox (toolbox.c) ------------------------------------------------------------------ */

/* Answers all of them: {id} is the box, {rest} what is asked of it. */
void daytona_toolbox(struct tn_http_exchange *x, void *ctx);

/* One request for the toolbox of a box. */
struct daytona_call {
    struct tn_service *s;
    struct tn_http_exchange *x;
    struct box *b;
    char *home; /* where paths that are not absolute begin */
    const struct daytona_row *row;
    char *words[2]; /* what the stars of its row stand for; decoded */
};
typedef void (*daytona_call_fn)(struct daytona_call *c);
struct daytona_row {
    const char *method, *path; /* "process/session/(star)/exec": one star is one segment */
    daytona_call_fn call;
    const char *words; /* git.c: of the program; lsp.c: the method */
};
extern const struct daytona_row daytona_files_rows[];         /* files.c; ends with {0} */
extern const struct daytona_row daytona_process_rows[];       /* process.c */
extern const struct daytona_row daytona_session_rows[];       /* session.c */
extern const struct daytona_row daytona_pty_rows[];           /* pty.c */
extern const struct daytona_row daytona_git_rows[];           /* git.c */
extern const struct daytona_row daytona_interpreter_rows[];   /* interpreter.c */
extern const struct daytona_row daytona_lsp_rows[];           /* lsp.c */
extern const struct daytona_row daytona_computer_rows[];      /* computer.c */
extern const struct daytona_row daytona_accessibility_rows[]; /* accessibility.c */

/* The files of the box, with a connection of the caller's; NULL: answered. */
struct tn_hand_files *daytona_files(struct daytona_call *c);
/* The path that a parameter of the query names, absolute; on the heap.  NULL: answered. */
char *daytona_query_path(struct daytona_call *c, const char *name);

/* --- the browser as a desktop (computer.c) ---------------------------------------------------- */

/* -1: answered, because none runs. */
int daytona_needs_desktop(struct daytona_call *c);
/* Calls of the browser (docs/browser.md), as an action; nodes: with its accessibility tree.  The
 * observation is the caller's to free; told may be NULL. */
int daytona_browse(struct daytona_call *c, const char *calls, bool nodes, struct tn_json **told,
                   struct tn_error *err);

/* --- programs (process.c) --------------------------------------------------------------------- */

/* A shell of the sandbox: bash where it has one. */
const char *daytona_shell(struct tn_hand_files *f);
/* A spec of these words (ends with NULL), at home; the caller ends it. */
void daytona_spec(const struct daytona_call *c, struct tn_process_spec *spec,
                  const char *const *args);
/* Directory, variables and time of a body: cwd, envs, timeout.  body may be NULL. */
int daytona_read_spec(const struct daytona_call *c, const struct tn_json *body,
                      struct tn_process_spec *spec, struct tn_error *err);
int daytona_start(struct daytona_call *c, const struct tn_process_spec *spec,
                  struct process_started *out, struct tn_error *err);

/* What came of a program. */
struct daytona_done {
    struct tn_buf both, out, err; /* in the order that it came; each apart */
    int64_t exit_code;            /* 128 and the number of the signal that killed it */
    bool late;                    /* its time was over */
    bool apart;                   /* out and err are wanted, too */
    bool marked;                  /* three bytes in `both` say where each piece came from */
};
#define DAYTONA_DONE(x)                                                                      \
    {                                                                                        \
        .both = ANSWER_BUF(x, DAYTONA_ANSWER_MAX), .out = ANSWER_BUF(x, DAYTONA_ANSWER_MAX), \
        .err = ANSWER_BUF(x, DAYTONA_ANSWER_MAX)                                             \
    }
void daytona_done_end(struct daytona_done *d);
#define autodone TN_CLEANUP(daytona_done_end)
/* Waits for its end.  -1 with err: nobody knows what became of it. */
int daytona_await(struct daytona_call *c, const char *which, struct daytona_done *out,
                  struct tn_error *err);
/* What there is by now. */
int daytona_so_far(struct daytona_call *c, const char *which, struct daytona_done *out,
                   struct tn_error *err);
/* Members output and, where they are apart, stdout and stderr. */
void daytona_put_done(struct tn_jw *w, const struct daytona_done *done);
int64_t daytona_exit_code(const struct tn_process_status *status);
/* Runs these words (ends with NULL) at home to their end, with that text (or NULL) as their input.
 * -1: answered. */
int daytona_run(struct daytona_call *c, const char *const *args, const char *input,
                struct daytona_done *out);

/* --- sessions and terminals ------------------------------------------------------------------- */

/* A name for a session or a terminal: it becomes a part of paths and tags. */
bool daytona_is_name(const char *text);
/* Before the handshake of a WebSocket, where the server must choose one of what a client offers:
 * the one that it knows, or the first. */
void daytona_choose_protocol(struct tn_http_exchange *x);
/* Answers the handshake of a WebSocket, and follows the process over it. */
void daytona_stream(struct daytona_call *c, const char *which, bool terminal);

/* --- what language servers say (lsp.c) -------------------------------------------------------- */

/* The first message in these bytes: true when it is whole, with where its text is.  False: *begin
 * bytes are no part of any. */
bool daytona_lsp_frame(const char *text, size_t n, size_t *begin, size_t *length);

/* --- output of git (git-output.c), written as one value ------------------------------------- */

void daytona_git_status(const struct daytona_done *done, struct tn_jw *w);
void daytona_git_branches(const struct daytona_done *done, struct tn_jw *w);
void daytona_git_history(const struct daytona_done *done, struct tn_jw *w);
void daytona_git_remotes(const struct daytona_done *done, struct tn_jw *w);

#endif
