/* What the surfaces share that speak the protocols of other services: how errors are told, tokens
 * that open one sandbox.  A surface only translates: to boxes (box.h), actions (proxy.h),
 * processes (process.h).  It has nothing of its own about lives, limits or rights. */
#ifndef TN_SERVICE_SURFACE_H
#define TN_SERVICE_SURFACE_H

#include "runtime/hand-files.h"
#include "service/box.h"

/* For files that go into a sandbox, in whatever pace its hand takes them. */
#define SURFACE_WRITE_SECONDS 3600.0

/* Answers with that status in the vendor's shape; code (one of tn_code_row, or NULL) says more. */
typedef int (*surface_reply_fn)(struct tn_http_exchange *x, int status, const char *code,
                                const char *detail);
/* From here on every error of this request is told so: reply_status and all that call it. */
void surface_speak(struct tn_http_exchange *x, surface_reply_fn reply);
/* NULL: nobody has said how. */
surface_reply_fn surface_reply(const struct tn_http_exchange *x);

/* 32 hexadecimal digits that only this service can make of that text: kept nowhere, the same after
 * a restart. */
enum { SURFACE_TOKEN = 33 };
void surface_token(const struct tn_service *s, const char *purpose, const char *text,
                   char out[SURFACE_TOKEN]);
/* Whether it is that token, in the same time whatever it is; given may be NULL. */
bool surface_is_token(const struct tn_service *s, const char *purpose, const char *text,
                      const char *given);

/* An address of that path for who has no key, on the heap: signed, counts for so long, and stands
 * for the key that asks. */
char *surface_link(struct tn_http_exchange *x, struct tn_service *s, const char *purpose,
                   const char *path, int64_t seconds);
/* Whoever comes by such a link is that key from here on.  False: answered. */
bool surface_by_link(struct tn_http_exchange *x, struct tn_service *s, const char *purpose);

/* Tunnels: ports of boxes under hosts that are hard to guess, "8080-KEY.anything".  A key is the
 * id of the box and a token of the surface whose tunnel it is, with a NUL: whoever knows it may
 * ask by any domain. */
enum { SURFACE_TUNNEL = 10 + SURFACE_TOKEN };
bool surface_tunnel_host(const struct tn_http_exchange *x, int *port, char key[SURFACE_TUNNEL]);
struct box *surface_tunnel_box(struct tn_service *s, const char *key); /* or NULL */

/* For who has shown a token of this box, which the key of that id made: the caller is that key,
 * which must still count, with the scopes read and use, within the tenant of the box.  False:
 * answered. */
bool surface_enter(struct tn_http_exchange *x, struct box *b, const char *key_id);

/* The body, an object or nothing (*out NULL); -1: answered. */
int surface_body(struct tn_http_exchange *x, size_t max, struct tn_json **out);

/* The body as a source of bytes; ctx is the exchange. */
ssize_t surface_read_body(void *ctx, void *to, size_t n, struct tn_error *err);

/* A place in a list of boxes, as text for a client: after that box. */
enum { SURFACE_PLACE = 64 };
void surface_write_place(double created, const char *id, char out[SURFACE_PLACE]);
/* The place that a parameter of the query names, if it is there; after holds the id.  -1:
 * answered. */
int surface_read_place(struct tn_http_exchange *x, const char *name, struct box_filter *f,
                       char after[11]);

/* Whether the files of others begin with that box: a template, an image, a snapshot or a blueprint,
 * made through whichever surface.  It is a sandbox to none of them. */
bool surface_is_layer(const struct box_view *v);
/* The sandbox of that id in that tenant.  NULL with err: there is none, or it is a layer. */
struct box *surface_box(struct tn_service *s, const char *tenant, const char *id,
                        struct tn_error *err);

/* Whether that is the path: each star of the pattern is one segment, which goes into the next of
 * words, on the heap, in place of what an earlier pattern left there. */
bool surface_fits(const char *pattern, const char *path, char **words);

/* The path that is meant, absolute and on the heap: what is not begins at home. */
char *surface_path(const char *home, const char *given);

/* The files of a box, with a connection of the caller's, for this request: the answers of the hand
 * are held in its purse.  NULL with err. */
struct tn_hand_files *surface_files(const struct tn_http_exchange *x, struct box *b,
                                    struct tn_error *err);
/* "-rw-r--r--". */
void surface_mode_text(const struct tn_entry *e, char out[11]);
/* "root", or the number. */
void surface_put_owner(struct tn_jw *w, const char *key, int64_t id);
/* Answers with the bytes of that file. */
void surface_send_file(struct tn_http_exchange *x, struct box *b, struct tn_hand_files *f,
                       const char *path);

/* A rule of the gate: of an address or a network all ports, of a host those of the web. */
void surface_put_rule(struct tn_jw *w, const char *text);
/* One that denies an address or a net; err: it is neither. */
int surface_put_denial(struct tn_jw *w, const char *text, struct tn_error *err);
/* Another network, at once: a spec's members `network` and `allow`, written as an object; {} is
 * everything, and `none` a gate without rules.  One that has no gate keeps what it has:
 * TN_E_CONFLICT. */
int surface_change_network(struct box *b, const struct caller *who, const struct tn_buf *members,
                           struct tn_error *err);
/* Variables of a request (an object, or NULL) over those of the spec, whose workspace and HOME are
 * at home unless it has others. */
int surface_add_env(const struct tn_json *given, const char *home, struct tn_spec *spec,
                    struct tn_error *err);
/* The text as one word of a shell. */
void surface_add_quoted(struct tn_buf *out, const char *text, size_t n);
/* For a process: a copy of the text after its other words; its variables, with that home (NULL:
 * its user's own) unless they have another. */
void surface_add_arg(struct tn_str_list *args, const char *text);
int surface_process_env(const struct tn_http_exchange *x, const char *home,
                        const struct tn_json *given, struct tn_json **out, struct tn_error *err);

/* Volumes of a request: a list of objects, and what their members are called. */
struct surface_mounts {
    const struct tn_json *list;        /* NULL: none */
    const char *name, *below, *inside; /* below NULL: there is no such member */
};
int surface_mount(struct tn_service *s, const struct caller *who, const struct surface_mounts *m,
                  struct tn_spec *spec, struct tn_error *err);

/* Answers what is asked about volumes: GET of all, or of {volume} of the route, POST (`name` in the
 * body), DELETE.  A surface has its own shape of one, and its own statuses. */
struct volume;
struct surface_volumes {
    void (*put)(struct tn_jw *w, const char *tenant, const struct volume *v);
    int made, deleted;
};
void surface_volumes(struct tn_http_exchange *x, struct tn_service *s,
                     const struct surface_volumes *how);

/* A new box with the files of that one, its variables, and those of up to two objects (or NULL)
 * over them; its volumes, unless others are given. */
struct box *surface_fork(struct box *parent, const struct caller *who,
                         const struct tn_json *const given[2], const char *home,
                         const struct surface_mounts *mounts, struct box_wish *wish,
                         struct tn_error *err);

/* Whether others can be made of its files: TN_E_UNSUPPORTED. */
int surface_can_fork(struct box *b, struct tn_error *err);
/* The same of one that would be made so. */
int surface_spec_can_fork(struct tn_service *s, const struct tn_spec *spec, struct tn_error *err);

/* Metadata of a box: the client's words (texts; NULL: none), and under `name` the record of a
 * surface, in which `member` (NULL: none) has that value (JSON text; NULL: it is gone). */
struct tn_json *surface_metadata(const struct tn_json *words, const char *name,
                                 const struct tn_json *record, const char *member,
                                 const char *value, struct tn_error *err);
/* Those words, into an object that is open. */
void surface_put_words(struct tn_jw *w, const struct tn_json *metadata);

/* Processors, and bytes of memory and disk, that a box may use. */
struct surface_size {
    int64_t cpus, memory, disk;
};
struct surface_size surface_size_of(const struct box_view *v);
/* Seconds that a sandbox of that caller may live; 0: as many as it likes. */
double surface_most_seconds(const struct tn_service *s, const struct caller *who);
/* Gives the order, notes it in the audit log, and waits so long: 0 also when it goes on then; -1:
 * answered. */
int surface_order(struct tn_http_exchange *x, struct box *b, enum box_order what, double seconds);
/* A fork that has started once, so that it has everything, and rests: what a snapshot is, which
 * outlives its sandbox.  It has a time-out until then: a service that is killed leaves none that
 * runs.  metadata: what it has once it rests, NULL: that of the wish.  NULL with err. */
#define SURFACE_REST_SECONDS 120.0
struct box *surface_rest(struct box *b, const struct caller *who, struct box_wish *wish,
                         struct tn_json *metadata, double seconds, struct tn_error *err);
/* The second half: waits for a new box, stops it and takes its time-out away, or removes it. */
int surface_settle(struct box *made, const struct caller *who, struct tn_json *metadata,
                   double seconds, struct tn_error *err);
/* Waits until a new box has settled: 0 unless it could not be started, which err says.
 * TN_E_TIMEOUT: it still starts. */
int surface_await(struct box *b, double seconds, struct tn_error *err);

#endif
