/* The sections of the configuration and what the files that implement config.h share. */
#ifndef TN_RUNTIME_CONFIG_SECTIONS_H
#define TN_RUNTIME_CONFIG_SECTIONS_H

#include "runtime/config.h"

extern const struct tn_fields tn_config_core_fields, tn_config_sandbox_fields,
    tn_config_kubernetes_fields, tn_config_mcp_fields, tn_config_tendon_fields,
    tn_config_jail_fields, tn_config_docker_fields, tn_config_local_fields, tn_config_remote_fields,
    tn_config_e2b_fields, tn_config_runloop_fields, tn_config_modal_fields,
    tn_config_daytona_fields, tn_config_service_fields;

/* Of each [pool.NAME]. */
extern const struct tn_fields tn_config_pool_fields;

struct tn_config_section {
    const char *name; /* with a dot: [a.b], a part of [a] */
    const struct tn_fields *fields;
    size_t offset;       /* in struct tn_config */
    bool ours;           /* a wrong variable of the environment is an error, not a warning */
    bool open;           /* an unknown key is a warning, not an error */
    const char *summary; /* for docs/config.md */
};

/* In the order of documentation; ends with a NULL name. */
extern const struct tn_config_section tn_config_sections[];
const struct tn_config_section *tn_config_find_section(const char *name);

/* Where a value came from; `where` is owned, NULL for defaults. */
struct tn_config_source {
    enum tn_origin origin;
    char *where;
};

struct tn_config_private {
    struct tn_toml *file; /* NULL: none was read */
    char *path;
    struct tn_config_source **sources; /* by section, then by row */
    struct tn_str_list warnings;
};

static inline void *tn_config_at(const struct tn_config *c, const struct tn_config_section *s)
{
    return (char *)(uintptr_t)c + s->offset;
}

/* The source of "section.key", which must exist. */
struct tn_config_source *tn_config_source(const struct tn_config *c, const char *section,
                                          const char *key);
void tn_config_note(struct tn_config_source *source, enum tn_origin origin, const char *fmt, ...)
    TN_PRINTF(3, 4);
void tn_config_warn(struct tn_config *c, const char *fmt, ...) TN_PRINTF(2, 3);

/* Finds and reads the file into private->file and path; implied is set when nobody named it. */
int tn_config_open_file(struct tn_config *c, const char *path, bool *implied, struct tn_error *err);
/* Values of the file's sections; complaints about keys and sections that are not known. */
int tn_config_read_file(struct tn_config *c, bool implied, struct tn_error *err);

/* What follows from several values together; doing it again is doing it once. */
int tn_config_finalise(struct tn_config *c, struct tn_error *err);
/* Checks the names of analyzers; warns of settings that have no effect without others. */
int tn_config_finalise_security(struct tn_config *c, struct tn_error *err);
/* Checks the servers of [mcp] and brings them to their long form. */
int tn_config_finalise_mcp(struct tn_config *c, struct tn_error *err);

/* Appends the value for human eyes: secrets are hidden, also those inside JSON. */
void tn_config_put_value(const struct tn_field *row, const void *object, struct tn_buf *out);

#endif
