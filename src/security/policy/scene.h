/* What a rule sees of one action: the commands it runs, the paths it touches, the URLs it names and
 * the content it writes, each with the part of the action that says so.
 *
 * Paths are as they are written, made absolute in the shell's directory, with `.` and `..` removed.
 * In a directory that is not known they stay relative.  A home is `~`.  Beside a name stands where
 * it leads in the sandbox, if somebody could be asked (scene_follow).  Everything lives as long as
 * the scene. */
#ifndef TN_SECURITY_POLICY_SCENE_H
#define TN_SECURITY_POLICY_SCENE_H

#include <stdint.h>

#include "event/action.h"
#include "security/command/calls.h"
#include "security/policy/pool.h"

/* Where something was seen: "args.command" and the words in it. */
struct part {
    const char *field;
    const char *text;
    size_t len;
};

struct seen_call {
    const struct tn_call *call;
    const struct tn_calls *of; /* the text that it is part of */
    const char *cwd;           /* NULL: not known */
    struct part part;
};

enum use {
    USE_READ = 1 << 0,
    USE_WRITE = 1 << 1,
    USE_DELETE = 1 << 2,
    USE_EXECUTE = 1 << 3,
    USE_BELOW = 1 << 4, /* all below it as well: what find has found */
    USE_UNSET = 1 << 5, /* the path is this one where variables are empty */
};

struct seen_path {
    const char *path;
    unsigned use;
    bool glob;                  /* has an unquoted pattern of the shell */
    const struct tn_call *call; /* NULL: not of a command */
    struct part part;
    /* As it goes to the kernel: a `..` behind a link is not removed.  The path itself: it is where
     * another one leads. */
    const char *raw;
};

struct seen_url {
    const char *scheme, *host; /* in small letters; a numeric address in its usual form */
    const char *path;          /* with the query; "" or from '/' on */
    int port;                  /* the scheme's own when none is written; 0: not known */
    bool known;                /* no part of the host is a variable */
    const struct tn_call *call;
    struct part part;
};

/* What is written to a file. */
struct seen_content {
    const char *path; /* "": not known */
    const char *text;
    size_t len;
    const struct tn_call *call;
    struct part part;
};

/* What a detector has found. */
struct sign {
    const char *kind; /* "remove-root" */
    const char *text; /* for people */
    const struct tn_call *call;
    struct part part;
    const struct sign *next;
};

/* More than these are not looked at, so that a verdict is bounded in time; the rest is unread. */
enum { SCENE_DEPTH = 8, SCENE_CALLS = 256, SCENE_THINGS = 4096 };

struct scene {
    const struct tn_action *action; /* NULL: an output */
    const char *output;             /* what a tool returned, or NULL */
    size_t output_len;

    struct seen_call *calls;
    struct seen_path *paths;
    struct seen_url *urls;
    struct seen_content *contents;
    size_t call_count, path_count, url_count, content_count;
    const char *unread; /* why a command could not be read as one, or NULL */
    struct part unread_part;

    /* of the detectors, by their place in the table: looked up when first asked for */
    uint32_t looked;
    const struct sign *signs[16];
    const struct sign **next_sign;

    const char *cwd;
    unsigned depth; /* of programs within commands within programs */
    struct tn_arena *pool;
    struct owned_calls *owned;
};

/* Looks at an action; both are borrowed.  Never fails: what cannot be read is seen as such. */
void scene_of_action(struct scene *s, const struct tn_action *a, const char *cwd);
/* Adds to each path where it leads now, as the case's `lead` tells.  -1 with err when that failed
 * for one of them, which leaves only its name; 0 also when there is nobody to ask. */
struct tn_case;
int scene_follow(struct scene *s, const struct tn_case *c, int64_t deadline, struct tn_error *err);
/* Looks at what a tool returned. */
void scene_of_output(struct scene *s, const char *text, size_t n);
void scene_done(struct scene *s);
#define autoscene TN_CLEANUP(scene_done)

/* --- for the files that fill it --------------------------------------------------------------- */

/* Adds the commands of a text; -1 when it is no text of a shell (said in `unread` where must). */
int scene_add_shell(struct scene *s, const char *field, const char *text, size_t n, bool must);
/* Adds what can be seen of a program in Python or a language like it. */
void scene_add_code(struct scene *s, const char *field, const char *text, size_t n,
                    const struct tn_call *call);
/* Adds the paths, URLs and contents of a command. */
void scene_add_call(struct scene *s, const struct seen_call *c);
/* Adds a path as somebody wrote it. */
void scene_add_path(struct scene *s, const char *cwd, const char *text, unsigned use, bool glob,
                    const struct tn_call *call, struct part part);
/* Adds every URL in a text. */
void scene_add_urls(struct scene *s, const char *text, size_t n, const struct tn_call *call,
                    struct part part);
/* Adds one by its parts; port 0 is that of the scheme. */
void scene_add_url(struct scene *s, const char *scheme, const char *host, size_t host_len, int port,
                   const char *path, const struct tn_call *call, struct part part);
void scene_add_content(struct scene *s, const char *path, const char *text, size_t n,
                       const struct tn_call *call, struct part part);
/* Adds what the detector that looks has found. */
void scene_add_sign(struct scene *s, const char *kind, const char *text, const struct tn_call *call,
                    struct part part);

/* The path made absolute in cwd (NULL: not known), `.` and `..` removed. */
const char *scene_path(struct scene *s, const char *cwd, const char *text);

/* What a word with unknown parts is with the defaults of its variables, or (unset) where they are
 * empty; NULL: that tells nothing. */
const char *word_filled(struct tn_arena *pool, const char *text, bool *unset);

/* The word is one of those in a list with a space between. */
bool word_in(const char *word, const char *list);

#endif
