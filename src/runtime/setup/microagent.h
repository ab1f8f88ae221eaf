/* Microagents: pieces of knowledge in Markdown that come with a repository or its owner. */
#ifndef TN_RUNTIME_SETUP_MICROAGENT_H
#define TN_RUNTIME_SETUP_MICROAGENT_H

#include "base/error.h"
#include "base/field.h"

enum tn_microagent_type {
    TN_MICROAGENT_KNOWLEDGE, /* has triggers */
    TN_MICROAGENT_REPO,      /* always counts */
    TN_MICROAGENT_TASK,      /* has inputs */
};
extern const char *const tn_microagent_types[]; /* "knowledge", ...; NULL at the end */

struct tn_microagent {
    char *name;
    enum tn_microagent_type type;
    char *version; /* "1.0.0" */
    char *agent;   /* "CodeActAgent" */
    struct tn_str_list triggers;
    struct tn_json *inputs, *mcp_tools; /* as written, or NULL */
    char *source;                       /* path of the file */
    struct tn_text content;             /* without the front matter */
};

extern const struct tn_fields tn_microagent_fields;

struct tn_microagents {
    struct tn_microagent *items;
    size_t count;
};
void tn_microagents_done(struct tn_microagents *list);
#define tn_automicroagents TN_CLEANUP(tn_microagents_done)

/* Reads one file and adds it.  name is what the file calls itself by its place; source its path.
 * -1 with err when its front matter makes no sense. */
int tn_microagents_add(struct tn_microagents *list, const char *name, const char *source,
                       const char *text, size_t len, struct tn_error *err);

#endif
