/* Inside the server's end: clients, streams and requests.  One lock guards all of it. */
#ifndef TN_MCP_SERVE_INTERNAL_H
#define TN_MCP_SERVE_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "mcp/meta.h"
#include "mcp/pipe.h"
#include "mcp/serve.h"

enum {
    CLIENTS_MAX = 64,
    REQUESTS_MAX = 64, /* of one client under way */
    THREADS_MAX = 256, /* requests of all clients under way */
    BATCH_MAX = 64,
    BEAT_SECONDS = 15,
    IDLE_SECONDS = 1800,
    KEPT_STREAMS = 8, /* that have ended, for clients who lost the connection */
    KEPT_EVENTS = 256,
    LISTENED_MAX = 256, /* resources of one subscriptions/listen */
    SUBSCRIBE_SECONDS = 10,
};
#define MESSAGE_MAX ((size_t)32 << 20)
#define UNREAD_MAX ((size_t)64 << 20) /* bytes a client has not taken yet: then it is dropped */
#define KEPT_BYTES ((size_t)4 << 20)

enum { SERVER_BUSY = -32000 };

/* --- streams: messages to a client, in order ------------------------------------------------ */

struct event {
    struct event *next;
    int refs;
    uint64_t number; /* within its stream, from 1 */
    bool answer;     /* to a request, not something said meanwhile */
    size_t len;
    char text[];
};

struct stream {
    struct stream *next;
    int refs;
    uint64_t number;               /* within its client; 0 is that for what belongs to no request */
    struct event *first, *last;    /* what may be asked for again, and what is not written yet */
    struct event *unsent;          /* the first of those */
    size_t kept_bytes, kept_count; /* before it */
    size_t unsent_bytes;
    uint64_t next_number;
    bool keeps;    /* written events may be asked for again */
    bool talk;     /* something else than answers was sent */
    int pending;   /* answers still to come */
    bool done;     /* nothing more will come */
    int64_t code;  /* of the one answer when it is an error */
    int ready;     /* eventfd: look again */
    int readers;   /* connections that write it out: the latest one does */
    unsigned turn; /* which one that is */
    bool lossy;    /* rather loses its oldest events than its client */
};

struct stream *stream_new(uint64_t number, bool keeps);
void stream_unref(struct stream *s);
/* Appends a copy.  -1 when too much is unread (or no memory is left). */
int stream_push(struct stream *s, const char *text, size_t n, bool answer);
void stream_wake(struct stream *s);
/* The next connection that writes it out: whoever did until now leaves.  Its turn, for http_pump; 0
 * where there is only one. */
unsigned stream_claim(struct stream *s);
/* The next event to write, whose reference is the caller's, or NULL. */
struct event *stream_take(struct stream *s);
void event_unref(struct event *e);
/* Goes back to what follows event `number`: -1 when that is not kept any more. */
int stream_rewind(struct stream *s, uint64_t number);

/* --- clients -------------------------------------------------------------------------------- */

enum client_kind {
    CLIENT_HTTP, /* a session of streamable HTTP */
    CLIENT_SSE,
    CLIENT_STDIO,
    CLIENT_MODERN, /* exists for one request */
};

struct tn_mcp_client {
    struct tn_mcp_client *next;
    struct tn_mcp_server *server;
    int refs; /* the server's list, requests, connections */
    enum client_kind kind;
    char id[33];
    const char *version; /* agreed on; NULL before */
    struct tn_json *hello;
    bool opened;
    void *state;
    bool gone;
    struct stream *streams; /* the latest first; the last is that for what belongs to no request */
    uint64_t next_stream;
    struct tn_mcp_request *requests;
    int request_count;
    int owed;        /* requests that are not answered yet, those among them that have ended too */
    int connections; /* that are open for it now */
    int64_t last_used;
    struct tn_mcp_peer *peer;    /* what we ask it */
    struct tn_mcp_pipe *pipe;    /* stdio: where everything goes */
    const struct tn_json *wants; /* subscriptions/listen: what it wants to hear, or NULL */
    const struct tn_json *listen_id;
};

struct tn_mcp_request {
    struct tn_mcp_request *next;
    int refs;
    struct tn_mcp_client *client;
    struct stream *stream;
    struct tn_rpc message;
    char *key; /* the id as text */
    int cancel;
    bool cancelled;
    const struct tn_json *progress_token;
    bool asks;    /* the result says what it is by itself */
    int64_t code; /* of the refusal */
    char *refusal;
    char *refusal_data;
};

struct tn_mcp_server {
    const struct tn_mcp_server_ops *ops;
    void *ctx;
    pthread_mutex_t lock;
    pthread_cond_t less; /* a thread, a connection or a client went */
    struct tn_mcp_client *clients;
    int client_count;
    int busy; /* requests and connections under way */
    int threads;
    bool stopping;
};

/* A client with a reference for the caller, or NULL when there are too many (or we are stopping).
 * CLIENT_MODERN and CLIENT_STDIO are not counted. */
struct tn_mcp_client *client_new(struct tn_mcp_server *server, enum client_kind kind);
struct tn_mcp_client *client_find(struct tn_mcp_server *server, enum client_kind kind,
                                  const char *id);
void client_unref(struct tn_mcp_client *client);
/* Ends it: cancels its requests, closes its streams, takes it off the list. */
void client_end(struct tn_mcp_client *client);
/* A stream for the answers of a POST; the caller's reference. */
struct stream *client_stream(struct tn_mcp_client *client, int pending);
struct stream *client_main_stream(struct tn_mcp_client *client);
void client_forget_stream(struct tn_mcp_client *client, struct stream *s);
/* Queues one message on a stream (NULL: that for what belongs to no request). */
int client_send(struct tn_mcp_client *client, struct stream *s, const char *text, size_t n,
                bool answer, struct tn_error *err);
/* A connection is open for the client / has ended. */
bool client_enter(struct tn_mcp_client *client);
void client_leave(struct tn_mcp_client *client);

/* --- messages of a client ------------------------------------------------------------------- */

/* The result of initialize for it, or -1 with a message for an error. */
int client_initialize(struct tn_mcp_client *client, const struct tn_rpc *message,
                      struct tn_buf *result, struct tn_error *err);
/* Takes one message (which becomes this function's); answers go to the stream. */
void client_take(struct tn_mcp_client *client, struct tn_rpc *message, struct stream *s);
void put_server_info(struct tn_mcp_server *server, struct tn_jw *w);
bool batches_allowed(const struct tn_mcp_client *client);
/* Reads the messages of a batch: how many, or -1 with err.  All are the caller's, and each a tree
 * of its own, since threads of their own will carry them out. */
int read_batch(const struct tn_json *tree, struct tn_rpc messages[BATCH_MAX], struct tn_error *err);

/* --- over HTTP ------------------------------------------------------------------------------ */

/* Writes events to the exchange until the stream is done, another connection takes over, or either
 * side goes.  True when all of it was written. */
bool http_pump(struct tn_mcp_client *client, struct stream *s, struct tn_http_exchange *x,
               unsigned turn, bool with_ids);
/* Waits until something is to be written, or the time is over, or the connection is closed: false
 * for the last. */
bool http_wait(struct stream *s, struct tn_http_exchange *x, int64_t deadline);
/* Waits a moment: true when everything has been answered and nothing else was said. */
bool http_answered(struct tn_mcp_client *client, struct stream *s, struct tn_http_exchange *x);
void http_reply_answers(struct tn_mcp_client *client, struct stream *s, struct tn_http_exchange *x,
                        bool batch);
void http_refuse(struct tn_http_exchange *x, int status, const struct tn_json *id, int64_t code,
                 const char *message, const char *data);
void http_refuse_version(struct tn_http_exchange *x, const struct tn_json *id, const char *version);
/* A POST of the revision without sessions; takes the tree. */
void http_modern(struct tn_mcp_server *server, struct tn_http_exchange *x, struct tn_json *tree);
bool is_modern(const struct tn_http_exchange *x, const struct tn_json *tree);
void put_versions(struct tn_jw *w);
/* Sends what a listener of that revision asked for.  With the lock held. */
void listener_notify(struct tn_mcp_client *client, const char *method, const char *params);

#endif
