/* What somebody wants a sandbox to be.
 *
 * One field table: flags of `tendon new`, the `[template.NAME]` sections of config.toml, the JSON
 * of the library and of the service are all read by it.  A spec is only a wish: a backend that
 * cannot keep a part of it refuses to create the sandbox and names the part. */
#ifndef TN_RUNTIME_SPEC_H
#define TN_RUNTIME_SPEC_H

#include "base/error.h"
#include "base/field.h"

enum tn_network {
    TN_NETWORK_DEFAULT, /* the backend's: open where it has a gate, else bridge in docker; host */
    TN_NETWORK_NONE,
    TN_NETWORK_HOST,
    TN_NETWORK_BRIDGE, /* its own, with a way out */
    TN_NETWORK_OPEN,   /* behind a gate: the internet, and never the host */
    TN_NETWORK_ALLOW,  /* behind a gate: what the rules allow */
};

extern const char *const tn_networks[];

/* Whose kernel it runs on: "native", this machine's, behind the backend's own walls; "gvisor",
 * which runsc brings along, behind the same walls; or "kata", that of a virtual machine.  Ends with
 * NULL, the stronger after the weaker. */
extern const char *const tn_isolations[];
/* NULL is native. */
bool tn_isolation_weaker(const char *isolation, const char *than);

struct tn_spec {
    char *runtime;   /* name or alias of the backend; NULL: the configured one */
    char *name;      /* unique among sandboxes; NULL: none, the id is enough */
    char *image;     /* docker: an image reference; jail: a directory, tar or saved image; NULL: the
                        backend's default (jail: the system directories of this machine) */
    char *workspace; /* directory inside, made if missing; NULL: the backend's default */
    char *user;      /* name or uid inside; NULL: the backend's default */
    struct tn_str_list plugins;
    struct tn_str_list volumes; /* HOST:INSIDE[:MODE]; see runtime/volume.h */
    struct tn_json *env;        /* object: name -> text; values are never evaluated */
    struct tn_json *labels;     /* object: name -> text */
    char *isolation;            /* one of tn_isolations; NULL: as the configuration says */
    int network;                /* enum tn_network */
    struct tn_str_list allow;   /* rules of the gate (gate/rules.h); NULL: the configured ones */
    bool ask;                   /* what no rule allows waits for an answer; with network allow */
    struct tn_str_list secrets; /* NAME, or TENANT/NAME (security/safe.h); see secrets.h */
    struct tn_int_list ports;   /* inside; published by backends that publish */
    struct tn_str_list devices; /* /dev/... to pass through */
    char *gpus;                 /* "all" or ids with commas; NULL: none */

    /* Limits.  Sizes are text such as "512m" or "2g"; tn_spec_limits reads them. */
    char *memory;
    struct tn_opt_double cpus;
    struct tn_opt_int pids;
    char *file_size;
    struct tn_opt_int open_files;
    char *disk;                     /* of everything the sandbox changes in its root file system */
    struct tn_opt_double wall_time; /* seconds it may run in all */

    bool keep;                    /* outlives the process that creates it */
    struct tn_opt_double lease;   /* seconds after the last use; then gc may take it */
    struct tn_str_list hand_args; /* further arguments for the hand */
};

extern const struct tn_fields tn_spec_fields;

/* Numbers out of the spec; 0 is no limit. */
struct tn_limits {
    uint64_t memory, file_size, disk; /* bytes */
    double cpus, wall_time;
    uint64_t pids, open_files;
};
int tn_spec_limits(const struct tn_spec *spec, struct tn_limits *out, struct tn_error *err);

/* Takes its network away, of a spec that borrows what it has. */
static inline void tn_spec_close(struct tn_spec *spec)
{
    spec->network = TN_NETWORK_NONE;
    spec->allow = (struct tn_str_list){0};
    spec->ask = false;
}

/* What bounds a sandbox (its isolation, its network with the rules, the limits of what it uses)
 * becomes that of another spec, from which it is borrowed. */
void tn_spec_borrow_bounds(struct tn_spec *spec, const struct tn_spec *from);
/* The first of these members that differs, or NULL. */
const char *tn_spec_bounds_differ(const struct tn_spec *a, const struct tn_spec *b);

/* "64k", "512m", "2g", "1t" (powers of 1024; a trailing b or ib is ignored) or plain bytes. */
int tn_size_parse(const char *text, uint64_t *bytes, struct tn_error *err);

void tn_spec_init(struct tn_spec *spec);
void tn_spec_done(struct tn_spec *spec);
/* Makes absolute what a person wrote relative to the current directory (volumes such as
 * ./src:/src); for the edge where flags are read. */
int tn_spec_resolve(struct tn_spec *spec, struct tn_error *err);
/* Everything that can be wrong without asking a backend; -1 with err naming the field. */
int tn_spec_check(const struct tn_spec *spec, struct tn_error *err);
int tn_spec_copy(const struct tn_spec *from, struct tn_spec *to, struct tn_error *err);
/* Unknown keys are errors.  Writing puts the members into an object that the caller has opened. */
int tn_spec_from_json(const struct tn_json *json, struct tn_spec *spec, struct tn_error *err);
/* Into an object that the caller has opened. */
void tn_spec_to_json(const struct tn_spec *spec, struct tn_jw *w);
/* The same as a tree of the caller's. */
int tn_spec_tree(const struct tn_spec *spec, struct tn_json **out, struct tn_error *err);

/* Whether it has the letters of an image's reference; registries know the rest of its grammar. */
bool tn_spec_may_be_image(const char *image);

/* A member that some kind of sandbox cannot have, and why. */
struct tn_spec_bar {
    const char *name, *why;
};
/* TN_E_UNSUPPORTED if one of n bars is in the tree, and not among the names of `kept` (ends with
 * NULL; or NULL).  who: "a pod". */
int tn_spec_refuse(const struct tn_json *tree, const char *who, const struct tn_spec_bar *bars,
                   size_t n, const char *const *kept, struct tn_error *err);

/* NAME of an element of secrets: what follows the tenant, if there is one. */
const char *tn_secret_name(const char *secret);

/* 16 hexadecimal digits that are equal exactly when two sandboxes of these specs can stand in for
 * each other on one backend (runtime, name, labels, lease and keep do not count). */
void tn_spec_digest(const struct tn_spec *spec, char out[17]);

#endif
