/* What a saved image says about itself: which of its files are layers, and its settings. */
#ifndef TN_RUNTIME_JAIL_IMAGE_MANIFEST_H
#define TN_RUNTIME_JAIL_IMAGE_MANIFEST_H

#include "base/error.h"
#include "base/field.h"
#include "runtime/jail/tar-stream.h"

/* The small files and the links of an archive, by name. */
struct jail_papers {
    struct jail_paper {
        char *name;
        char *text; /* JSON, or where a link leads */
        size_t length;
        bool link;
    } * items;
    size_t count;
    size_t bytes;
};

struct jail_manifest {
    struct {
        char *file;   /* name in the archive */
        char *digest; /* of the tar in it, 64 hexadecimal digits */
    } * layers;       /* bottom first */
    size_t count;
    struct tn_str_list env;
    char *workdir, *user; /* or NULL */
};

/* Whether an archive whose first entry has this name may be an image (and not a root). */
bool jail_papers_likely(const char *first);
/* Reads the whole archive, keeps what may be JSON of the image. */
int jail_papers_collect(struct jail_tar *tar, struct jail_papers *out, struct tn_error *err);
/* The same of an OCI layout that is a directory. */
int jail_papers_collect_layout(int layout, struct jail_papers *out, struct tn_error *err);
void jail_papers_done(struct jail_papers *papers);
#define jail_autopapers TN_CLEANUP(jail_papers_done)

/* 1 when they describe an image, 0 when they do not, -1 when it is one but cannot be used. */
int jail_manifest_read(const struct jail_papers *papers, struct jail_manifest *out,
                       struct tn_error *err);
void jail_manifest_done(struct jail_manifest *m);
#define jail_automanifest TN_CLEANUP(jail_manifest_done)

#endif
