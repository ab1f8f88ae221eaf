/* Sandboxes of clouds: what the backends of all vendors share.
 *
 * A vendor is a table of small functions (struct cloud_vendor) that know its words: make one, look
 * at one, find those with our marks, tell one where to go, run a program and put a file inside.
 * What is asked when, what is asked twice, how the hand gets in and how time-outs are kept off is
 * the same for all (life.c, hand.c, keep.c).
 *
 * Everything made there carries marks, text under the names of CLOUD_MARK_...: which state of which
 * machine it belongs to, and its id.  They are sent with the request that makes it, so that it is
 * found again whatever became of the answer; nothing without both of them is ever touched. */
#ifndef TN_RUNTIME_CLOUD_CLOUD_H
#define TN_RUNTIME_CLOUD_CLOUD_H

#include "base/json.h"
#include "runtime/backend.h"
#include "runtime/volume.h"
#include "web/web.h"

#define CLOUD_MARK_STATE "tendon.state"
#define CLOUD_MARK_ID "tendon.id"
#define CLOUD_MARK_SESSION "tendon.session" /* its name, or else its id */

enum {
    CLOUD_HAND_PORT = 27174,     /* where the hand listens inside: never given to who dials */
    CLOUD_ID_MAX = 128,          /* of a vendor's id */
    CLOUD_TOKEN_MAX = 1024,      /* of a token that a vendor gives us */
    CLOUD_ANSWER_MAX = 16 << 20, /* of an answer of the control plane */
    CLOUD_BODY_MAX = 1 << 20,
};

/* --- one request (call.c) --------------------------------------------------------------------- */

/* Somebody to talk to: a control plane, or an agent inside a sandbox. */
struct cloud_line {
    struct tn_web *web;
    const char *who;        /* for messages: "E2B" */
    char *url;              /* its address, without a final slash */
    const char *secrets[4]; /* never printed, whoever repeats them; ends with NULL */
    const char *key_advice; /* what to do when the key is refused */
    double seconds;         /* for one request; 0: only the deadline counts */
    /* Where HTTP's status does not tell how it went (gRPC): the one that HTTP would have for it, and
     * the vendor's words on the heap, or NULL.  May add headers.  NULL: HTTP's own counts. */
    int (*status)(struct tn_web_answer *answer, char **words);
};

struct cloud_call {
    struct tn_web_call web; /* method, target, headers, type, body, sink, cancel: the rest is set */
    bool unsafe;            /* doing it twice would be wrong: sent once, but for 429 */
    bool ends;              /* 404 is as good: what it is about is gone */
    bool hurried;           /* whatever goes wrong is told at once */
};

/* 0 with the tree of the answer (may be NULL, and out may be), to be freed by the caller; or -1.
 * 429 is asked again as tn_web_again says, and so is what failed on the way and 502, 503, 504 where
 * that is safe.  With a sink and a status of the line's own nothing is: the caller knows how much
 * it has.  err has the vendor's own words in one printable line, never a secret of the line.
 * Nobody is redirected: an answer 3xx is an error. */
int cloud_ask(const struct cloud_line *line, const struct cloud_call *call, struct tn_json **out,
              int64_t deadline, struct tn_error *err);
/* The same with the answer itself, whose body has a maximum of the caller's. */
int cloud_ask_raw(const struct cloud_line *line, const struct cloud_call *call,
                  struct tn_web_answer *answer, int64_t deadline, struct tn_error *err);
/* A file as a form, member "file", after its path as member "path" (NULL: the target says it); sent
 * once. */
int cloud_upload(const struct cloud_line *line, const char *target, const char *const *headers,
                 const char *path, const void *bytes, size_t n, int64_t deadline,
                 struct tn_error *err);
/* Text of others as one line of printable characters; on the heap. */
char *cloud_sentence(const char *text);
/* The same of somebody who may repeat what he was sent: nothing with a secret of the line in it. */
char *cloud_words(const struct cloud_line *line, const char *text);
/* "/path/" with an id that goes into it encoded. */
char *cloud_target(const char *before, const char *id, const char *after);
/* Whether it can be an id: letters, digits, "-" and "_" and no more than CLOUD_ID_MAX. */
bool cloud_is_id(const char *text);
/* Whether it is short enough to be a token and has the characters of one. */
bool cloud_is_token(const char *text);
/* One of those, on the heap; or NULL. */
char *cloud_token(const struct tn_json *tree, const char *name);
/* "NAME.NAME[:PORT]", as a URL may have it. */
bool cloud_is_host(const char *text);
/* An address of the configuration without its final slashes; NULL with err: it is none. */
char *cloud_base(const char *setting, const char *url, struct tn_error *err);

/* --- what a vendor says of a sandbox ---------------------------------------------------------- */

struct cloud_view {
    bool known; /* else there is none, and nothing below is set */
    char *id;   /* the vendor's */
    enum tn_status status;
    char *own, *session;  /* our id and name, by its marks; NULL: they are not ours */
    char *reason;         /* of an error */
    char *token, *entry;  /* secrets, or NULL: of the agent inside; of its ports */
    char *domain;         /* below which its ports have names, or NULL: the usual one */
    char *agent_url;      /* where the vendor says that the agent inside is, or NULL */
    bool fenced;          /* it says that rules are kept */
    char *task;           /* the vendor's name of what runs inside, or NULL */
    struct tn_web *agent; /* a line to the agent inside that is kept as long as this, or NULL */
};
void cloud_view_done(struct cloud_view *v);
void cloud_free_secret(char *text); /* NULL is fine */
#define autocloudview TN_CLEANUP(cloud_view_done)

/* Views of a list.  One with more pages than fill it has no end. */
enum { CLOUD_PILE_MAX = 10000 };
struct cloud_pile {
    struct cloud_view *all;
    size_t count;
};
void cloud_pile_done(struct cloud_pile *p);
#define autocloudpile TN_CLEANUP(cloud_pile_done)
/* Takes the view over if it is of ours, and of that id (NULL: any). */
void cloud_pile_add(struct cloud_pile *p, struct cloud_view *v, const char *id);

/* --- vendors ---------------------------------------------------------------------------------- */

/* A program to run inside. */
struct cloud_run {
    const char *const *argv;
    const char *cwd;           /* or NULL: where the vendor starts programs */
    const struct tn_json *env; /* object of text, or NULL */
    const char *user;          /* or NULL: the vendor's own */
    tn_log_fn out;             /* both streams; non-zero: that is enough, and the run is left */
    void *ctx;
};

struct cloud;
struct cloud_vendor;
typedef int (*cloud_found_fn)(const struct cloud_view *v, void *ctx);
/* What fn returned. */
int cloud_pile_tell(const struct cloud_pile *p, bool last_first, cloud_found_fn fn, void *ctx);

/* --- volumes and rules of the vendor (extras.c) ----------------------------------------------- */

/* How a vendor mounts volumes of its own. */
struct cloud_disks {
    bool read_only, below; /* it can mount one so, and a directory of one */
    /* What a wish calls the one of that name, on the heap; it is made if it is missing and the
     * vendor's own clients do so.  NULL: a wish has the name. */
    char *(*find)(const struct cloud *c, const char *name, int cancel, int64_t deadline,
                  struct tn_error *err);
    const char *list, *which, *inside, *directory; /* members of a wish that is JSON */
};
struct cloud_mount {
    struct tn_volume of;
    char *which;
};
/* What a sandbox is made with that vendors have each in their own way. */
struct cloud_extras {
    struct cloud_mount *mounts;
    size_t mount_count;
    bool fenced;                    /* it reaches these alone */
    struct tn_str_list nets, names; /* "10.0.0.0/8"; "example.com", "*.example.com" */
};
void cloud_extras_done(struct cloud_extras *e);
#define autocloudextras TN_CLEANUP(cloud_extras_done)
/* What the spec says, if the vendor has that; asks nobody. */
int cloud_extras_read(const struct cloud_vendor *vendor, const struct tn_spec *spec,
                      struct cloud_extras *out, struct tn_error *err);
/* The same, with its volumes found. */
int cloud_extras_find(const struct cloud *c, const struct tn_subject *s, struct cloud_extras *out,
                      int64_t deadline, struct tn_error *err);
/* Mounts, as members of a wish that is JSON. */
void cloud_put_mounts(const struct cloud *c, const struct cloud_extras *e, struct tn_jw *w);

/* One try to make it, sent once.  TN_E_PEER and TN_E_TIMEOUT: it may be there all the same. */
typedef int cloud_make_fn(const struct cloud *c, const struct tn_subject *s,
                          const struct cloud_extras *e, struct cloud_view *out, int64_t deadline,
                          struct tn_error *err);
/* How it is, with its tokens; one that is not there is fine. */
typedef int cloud_look_fn(const struct cloud *c, const char *id, struct cloud_view *out,
                          int64_t deadline, struct tn_error *err);
/* Those with the mark of this state, and that id (NULL: any); the oldest first.  Whoever calls
 * looks at own once more: filters are the vendor's. */
typedef int cloud_each_fn(const struct cloud *c, const char *id, cloud_found_fn fn, void *ctx,
                          int64_t deadline, struct tn_error *err);
/* Tells it where to go.  Being there, or gone, is fine. */
typedef int cloud_order_fn(const struct cloud *c, const char *id, enum tn_goal goal,
                           int64_t deadline, struct tn_error *err);
/* It is left alone for so many seconds from now. */
typedef int cloud_extend_fn(const struct cloud *c, const char *id, double seconds, int64_t deadline,
                            struct tn_error *err);
/* Where the hand is, for hand-address.h; on the heap.  Whatever has to be asked for that is asked
 * here: one whose ports are not reached can be looked at, and ended, all the same. */
typedef char *cloud_address_fn(const struct cloud *c, struct cloud_view *v, int64_t deadline,
                               struct tn_error *err);
/* What a person can open for that port; on the heap. */
typedef char *cloud_port_fn(const struct cloud *c, struct cloud_view *v, int port, int64_t deadline,
                            struct tn_error *err);
/* A file inside, with its parents, mode as it comes. */
typedef int cloud_put_fn(const struct cloud *c, struct cloud_view *v, const char *user,
                         const char *path, const void *bytes, size_t n, int64_t deadline,
                         struct tn_error *err);
/* *status as a shell would say. */
typedef int cloud_run_fn(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run,
                         int *status, int64_t deadline, struct tn_error *err);
typedef int cloud_usage_fn(const struct cloud *c, const char *id, struct tn_usage *out,
                           int64_t deadline, struct tn_error *err);
/* What an answer says of one sandbox; hostile until it was read.  One that is not there any more is
 * not known.  -1: nothing that makes sense. */
typedef int cloud_read_fn(const struct cloud *c, const struct tn_json *tree, struct cloud_view *out,
                          struct tn_error *err);

/* A snapshot of that name of one that runs: an image of others, on the heap. */
typedef char *cloud_take_fn(const struct cloud *c, struct cloud_view *v, const char *name,
                            int64_t deadline, struct tn_error *err);
/* Removes one; that it is gone is fine. */
typedef int cloud_drop_fn(const struct cloud *c, const char *image, int64_t deadline,
                          struct tn_error *err);
/* How a vendor that talks JSON keeps snapshots: POST sandbox ID take, {"name": NAME}; GET list;
 * method one ID after. */
struct cloud_shelf {
    const char *sandbox, *take;
    const char *id;        /* member that says which it is; NULL: names do */
    const char *before_id; /* in an image */
    const char *list;
    const char *items; /* member of the list, or NULL: it is an array */
    bool sized;        /* what is made of one has the sizes of that */
    const char *method, *one, *after;
};
cloud_take_fn cloud_take;
cloud_drop_fn cloud_drop;

/* One image that is being built, or was. */
enum cloud_build_state {
    CLOUD_BUILD_NONE,
    CLOUD_BUILD_BUSY,
    CLOUD_BUILD_READY,
    CLOUD_BUILD_FAILED
};
struct cloud_build {
    enum cloud_build_state state;
    char template[CLOUD_ID_MAX + 1], id[CLOUD_ID_MAX + 1]; /* ids may be one and the same */
    size_t heard;                                          /* entries of its log */
    char *said, *reason;                                   /* the end of its log; or NULL */
    int cancel;                                            /* of a subject */
};
void cloud_build_done(struct cloud_build *b);
/* It is under way, if these can be ids. */
int cloud_build_name(const struct cloud *c, const char *template, const char *id,
                     struct cloud_build *b, struct tn_error *err);
/* Entries of its log, which have members "message". */
void cloud_build_say(const struct cloud *c, struct cloud_build *b, const struct tn_json *entries);
void cloud_build_fail(const struct cloud *c, struct cloud_build *b, const char *reason);
/* How a vendor builds images. */
struct cloud_works {
    /* The best of that name: one that is ready, or else is under way, or else none. */
    int (*seek)(const struct cloud *c, const char *name, struct cloud_build *b, int64_t deadline,
                struct tn_error *err);
    /* Has one built.  TN_E_PEER and TN_E_TIMEOUT: it may be all the same. */
    int (*begin)(const struct cloud *c, const char *name, const char *image, struct cloud_build *b,
                 int64_t deadline, struct tn_error *err);
    /* How it is. */
    int (*look)(const struct cloud *c, struct cloud_build *b, int64_t deadline,
                struct tn_error *err);
};

struct cloud_vendor {
    const char *name;   /* of the backend */
    const char *who;    /* in messages */
    const char *advice; /* where to get a key */
    size_t size;        /* of its engine, which begins with a struct cloud */
    /* Fills the rest of the line (web, url, secrets) and timeout, as c->host->config says.  Asks
     * nobody: that the key is good is seen by the first call. */
    int (*open)(struct cloud *c, struct tn_error *err);
    void (*close)(struct cloud *c); /* what open has made, but for the line */
    /* Changes nothing, and shows whether the key is good. */
    const struct tn_web_call *harmless;
    /* What of a spec it can keep and others cannot ("memory"); ends with NULL.  NULL: nothing. */
    const char *const *keeps;
    bool
        tells_fence; /* platforms that know no rules pass them by: it must say that it keeps them */
    const struct cloud_disks *disks; /* where it keeps "volumes" */
    bool fences;                     /* it keeps rules of nets and names, where it keeps "allow" */
    /* What else it cannot keep; NULL: nothing. */
    int (*check)(const struct tn_spec *spec, struct tn_error *err);
    /* By goal: why it cannot go there, or NULL.  NULL: it can. */
    const char *const *cannot;
    cloud_make_fn *make;
    cloud_look_fn *look;
    cloud_each_fn *each;
    cloud_order_fn *order;
    cloud_extend_fn *extend; /* NULL: nothing keeps its time-out off */
    cloud_address_fn *address;
    cloud_port_fn *port;
    cloud_put_fn *put;
    cloud_run_fn *run;
    cloud_usage_fn *usage; /* NULL: it does not tell */
    /* For cache.c. */
    cloud_take_fn *take;
    cloud_drop_fn *drop;
    const struct cloud_shelf *shelf; /* NULL: nobody lists them */
    const struct cloud_works *works; /* NULL: it takes images as they are named, or none */
};

/* An engine: how a vendor is reached. */
struct cloud {
    const struct tn_host *host;
    const struct cloud_vendor *vendor;
    struct cloud_line line; /* its control plane */
    char mark[17];          /* of this state */
    double timeout;         /* seconds that the vendor gives a sandbox from its last use */
    const char *usual;      /* image of those that name none; NULL: the hand is kept in none */
    const char *standard;   /* what the configuration has them made of, or NULL */
    struct cloud_keep *keep;
    int stop;        /* readable once the engine is closed: for what the keep's thread asks */
    bool unmarked;   /* the vendor knows no marks, and has one sandbox alone */
    bool open_ports; /* people can open them: no token that browsers do not send */
};

/* For a vendor's open, and the line of an agent inside: "Authorization: Bearer KEY" is sent. */
int cloud_bearer(struct tn_web *web, const char *key, struct tn_error *err);
/* The first that says anything, or NULL. */
const char *cloud_first(const char *a, const char *b, const char *c);
/* -1, and says where to get a key. */
int cloud_no_key(const struct cloud *c, struct tn_error *err);
/* err becomes why (it may be NULL); -1. */
int cloud_fail(struct tn_error *err, const struct tn_error *why);

/* An object of our marks and the labels of the spec, as a member of that name (NULL: of none). */
void cloud_put_marks(const struct cloud *c, const struct tn_subject *s, const char *name,
                     struct tn_jw *w);
/* What an object of marks says, if they are this state's. */
void cloud_read_marks(const struct cloud *c, const struct tn_json *marks, struct cloud_view *out);
/* The same of the marks themselves. */
void cloud_take_marks(const struct cloud *c, const char *state, const char *id, const char *session,
                      struct cloud_view *out);

/* One whose answer was lost is looked for so often before it is asked for again. */
enum { CLOUD_LOST_LOOKS = 5 };
/* Whether what was asked for may have been done all the same. */
bool cloud_is_lost(const struct tn_error *why);

/* --- the hand kept at the vendor (cache.c) ---------------------------------------------------- */

enum { CLOUD_CACHE_NAME = 64, CLOUD_DIGEST = 65 };
#define CLOUD_CACHE_PREFIX "tendon-hand-"

struct cloud_cache {
    char name[CLOUD_CACHE_NAME];  /* "": nothing is kept */
    char image[2 * CLOUD_ID_MAX]; /* that has the hand; "": none yet */
};
void cloud_cache_find(const struct cloud *c, const struct tn_spec *spec, struct cloud_cache *out);
/* It is not there any more. */
void cloud_cache_forget(const struct cloud *c, const struct cloud_cache *cache);
/* The hand was put in just now, and nothing else.  It runs afterwards as it did before. */
int cloud_cache_take(const struct cloud *c, struct cloud_view *v, const struct cloud_cache *cache,
                     int64_t deadline, struct tn_error *err);

/* The directory of what this state notes of the vendor; -1. */
int cloud_open_notes(const struct cloud *c);

/* --- images built at the vendor (build.c) ----------------------------------------------------- */

/* The vendor has what the image of a registry ("docker://...") was built to, and *name is that;
 * any other image: "". */
int cloud_have_image(const struct cloud *c, const struct tn_subject *s, char name[CLOUD_CACHE_NAME],
                     int64_t deadline, struct tn_error *err);

/* --- the hand (hand.c) ------------------------------------------------------------------------ */

/* Has the hand run in a sandbox that does: the one that is there, or else the one of the template,
 * or else it is put in, and kept for others (cache; NULL: it is not).  *address is where, on the
 * heap. */
int cloud_start_hand(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                     const struct cloud_cache *cache, char **address, int64_t deadline,
                     struct tn_error *err);
/* SHA-256 of the hand of this machine. */
int cloud_hand_digest(const struct tn_host *host, char out[CLOUD_DIGEST], struct tn_error *err);
const char *cloud_workspace(const struct cloud *c, const struct tn_subject *s);

/* --- time-outs (keep.c) ----------------------------------------------------------------------- */

/* A thread of this process extends the time-out of every sandbox in the keep until it is dropped.
 * Nothing is noted anywhere: when this process is killed, the vendor's time-out runs. */
struct cloud_keep *cloud_keep_new(const struct cloud *c);
void cloud_keep_free(struct cloud_keep *k);
/* due: at once; else when the time-out that was set just now wants it. */
void cloud_keep_add(struct cloud_keep *k, const char *own, const char *id, bool due);
/* gone: it will not come back; else when it was extended last is remembered. */
void cloud_keep_drop(struct cloud_keep *k, const char *own, bool gone);

/* --- for the table of a backend (life.c) ------------------------------------------------------ */

int cloud_open(const struct cloud_vendor *vendor, const struct tn_host *host, void **engine,
               struct tn_error *err);
void cloud_close(void *engine);
/* What the vendor cannot keep. */
int cloud_check(const struct cloud_vendor *vendor, const struct tn_spec *spec,
                struct tn_error *err);
int cloud_create(void *engine, const struct tn_subject *s, struct tn_place *place, int64_t deadline,
                 struct tn_error *err);
int cloud_inspect(void *engine, const struct tn_subject *s, struct tn_place *place,
                  int64_t deadline, struct tn_error *err);
int cloud_drive(void *engine, const struct tn_subject *s, enum tn_goal goal, struct tn_place *place,
                int64_t deadline, struct tn_error *err);
int cloud_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err);
int cloud_lost(void *engine, const char *name, tn_found_fn found, void *ctx, int64_t deadline,
               struct tn_error *err);
/* Removes what is kept of other hands, and what nobody knows. */
int cloud_tidy(void *engine, int64_t deadline, struct tn_error *err);
/* Looks until it is so; cancel as in struct tn_web_call. */
int cloud_reach(const struct cloud *c, const char *id, enum tn_status status, struct cloud_view *v,
                int cancel, int64_t deadline, struct tn_error *err);
/* By its ref, or else by its marks. */
int cloud_find(const struct cloud *c, const struct tn_subject *s, struct cloud_view *out,
               int64_t deadline, struct tn_error *err);
/* The same when it must run. */
int cloud_must_run(const struct cloud *c, const struct tn_subject *s, struct cloud_view *out,
                   int64_t deadline, struct tn_error *err);

int cloud_put(void *engine, const struct tn_subject *s, const char *path, const void *bytes,
              size_t n, mode_t mode, int64_t deadline, struct tn_error *err);
int cloud_exec(void *engine, const struct tn_subject *s, const char *const *argv,
               struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err);
int cloud_logs(void *engine, const struct tn_subject *s, bool follow, tn_log_fn fn, void *ctx,
               int64_t deadline, struct tn_error *err);
int cloud_usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
                struct tn_error *err);
/* Whether it belongs to this process. */
bool cloud_is_own(const struct tn_subject *s);
void cloud_attend(void *engine, const struct tn_subject *s, bool used);

char *cloud_url(void *engine, const struct tn_subject *s, int port, struct tn_error *err);
/* That the key is accepted by a harmless request, how far the clocks are apart, what is left. */
int cloud_doctor(const struct cloud_vendor *vendor, const struct tn_host *host, tn_symptom_fn fn,
                 void *ctx);

/* For a backend's file, whose vendor is called vendor: what is asked without an engine, and what
 * all backends have. */
#define CLOUD_DOORS                                                                         \
    static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err) \
    {                                                                                       \
        return cloud_open(&vendor, host, engine, err);                                      \
    }                                                                                       \
    static int check_spec(const struct tn_host *host, const struct tn_spec *spec,           \
                          struct tn_error *err)                                             \
    {                                                                                       \
        return cloud_check(&vendor, spec, err);                                             \
    }                                                                                       \
    static int doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx,              \
                      struct tn_error *err)                                                 \
    {                                                                                       \
        return cloud_doctor(&vendor, host, fn, ctx);                                        \
    }
#define CLOUD_FUNCTIONS                                                                     \
    .open = open_engine, .close = cloud_close, .check = check_spec, .create = cloud_create, \
    .inspect = cloud_inspect, .drive = cloud_drive, .list = cloud_list, .lost = cloud_lost, \
    .tidy = cloud_tidy, .put = cloud_put, .exec = cloud_exec, .url = cloud_url,             \
    .logs = cloud_logs, .doctor = doctor

/* --- vendors that talk JSON (call.c) ---------------------------------------------------------- */

/* A POST with a body of JSON. */
struct cloud_call cloud_post(const char *target, const struct tn_buf *body);
/* Asks for a sandbox, once.  What comes after key ("NAME: PREFIX"; NULL: the vendor has none) says
 * which request it is: who is asked for the same one again makes no second sandbox. */
int cloud_ask_for(const struct cloud *c, const struct tn_subject *s, const char *target,
                  const char *key, const struct tn_buf *body, struct tn_json **out,
                  int64_t deadline, struct tn_error *err);
/* One sandbox, as read understands the answer.  404: it is not known. */
int cloud_look(const struct cloud *c, const char *before, const char *id, cloud_read_fn *read,
               struct cloud_view *out, int64_t deadline, struct tn_error *err);
/* fn is told of those that are ours, and of that id (NULL: any), once all pages were read; the
 * oldest first. */
struct cloud_list {
    const char *first,
        *more;         /* targets: of the first page; what goes before where the next begins */
    const char *items; /* member, unless the answer is an array */
    bool newest_first;
    cloud_read_fn *read;
};
int cloud_each(const struct cloud *c, const struct cloud_list *l, const char *id, cloud_found_fn fn,
               void *ctx, int64_t deadline, struct tn_error *err);

#endif
