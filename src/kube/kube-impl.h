/* What the files of this folder share. */
#ifndef TN_KUBE_KUBE_IMPL_H
#define TN_KUBE_KUBE_IMPL_H

#include <pthread.h>

#include "base/clock.h"
#include "kube/kube.h"

/* --- who we are (config.c, plugin.c) ---------------------------------------------------------- */

/* Where a cluster is, how it is trusted, who we are there: what one context says.  Certificates and
 * keys are PEM text, wherever they were found. */
struct kube_access {
    char *config, *context; /* which read again give the same */
    char *source, *user;    /* for people */
    char *server, *namespace, *server_name, *proxy, *ca;
    bool insecure;
    char *token, *cert, *key;
    bool rotates;            /* something of it is in a file of its own */
    struct tn_json *plugin;  /* the member "exec", or NULL */
    struct tn_json *cluster; /* of which a plugin may be told */
    char *folder;            /* of the file that names the plugin */
    int64_t until;           /* by when it is read again */
};

struct kube_access *kube_access_read(const struct kube_options *o, struct tn_error *err);
void kube_access_free(struct kube_access *a);
/* Asks the plugin and puts in what it answers. */
int kube_plugin(struct kube_access *a, int64_t deadline, struct tn_error *err);
/* Base64 in a member as text on the heap; "" for none, NULL with err. */
char *kube_plain(const struct tn_json *object, const char *member, struct tn_error *err);
void kube_forget(char *secret); /* wiped and freed */

/* --- one cluster (kube.c) --------------------------------------------------------------------- */

/* One set of credentials with the connections that were made by them. */
struct kube_seat {
    struct kube_access *access;
    struct tn_web *web;
    char *headers; /* "Authorization: Bearer ...\r\n", or "" */
    int users;
};

struct kube {
    struct kube_access *first; /* as it was opened */
    pthread_mutex_t lock;      /* of what follows */
    pthread_cond_t changed;
    bool renewing;          /* by one thread, others wait */
    struct kube_seat *seat; /* NULL until a plugin was asked */
    int64_t renewed;        /* when credentials were last asked for because of a refusal */
    int failures;           /* of the plugin since it last answered */
    int64_t again;          /* not before is it asked again */
    struct tn_error why;    /* what it said then */
};

/* The credentials of now; `refused` are those of a seat that the server does not accept (NULL:
 * none).  The caller gives it back. */
struct kube_seat *kube_seat(struct kube *k, const struct kube_seat *refused, int64_t deadline,
                            struct tn_error *err);
void kube_seat_give(struct kube *k, struct kube_seat *seat);

/* --- answers (call.c) ------------------------------------------------------------------------- */

/* Sends it with the credentials of now, and once more with others after a 401.  As tn_web_call. */
int kube_send(struct kube *k, struct tn_web_call *web, struct tn_web_answer *answer,
              int64_t deadline, struct tn_error *err);
/* An error of a Status object (or of whatever else came) that goes with an HTTP status; *after
 * (NULL: not wanted) is when the server wants to be asked again, in seconds, or 0.  -1. */
int kube_refused(int status, const struct tn_json *object, double *after, struct tn_error *err);
/* The same for an answer. */
int kube_answer_refused(const struct tn_web_answer *answer, double *after, struct tn_error *err);

/* --- watching (watch.c), apart from the network for tests ------------------------------------- */

enum kube_fed {
    KUBE_FED,    /* more, please */
    KUBE_STALE,  /* the version is too old, or something was lost: list again */
    KUBE_ENOUGH, /* fn said so */
};
/* A stream begins: half a line of before does not count. */
void kube_feed_begin(struct kube_feed *f);
/* Bytes of a watch as they come. */
enum kube_fed kube_feed_bytes(struct kube_feed *f, const void *bytes, size_t n);
/* A page of a list; the first begins a new generation, the last tells who is missing. */
enum kube_fed kube_feed_page(struct kube_feed *f, const struct tn_json *page, bool first);
const char *kube_feed_version(const struct kube_feed *f);

/* --- exec (exec.c) ---------------------------------------------------------------------------- */

/* One message of an exec: 0 to go on, 1 with *status at its end, -1 with err. */
int kube_exec_message(const struct kube_exec *e, const char *bytes, size_t n, int *status,
                      struct tn_error *err);

#endif
