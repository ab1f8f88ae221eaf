/* The tables of all actions and observations; only this folder needs them. */
#ifndef TN_EVENT_KINDS_H
#define TN_EVENT_KINDS_H

#include "event/observation.h"

struct tn_action_kind {
    const char *name;
    const char *help;
    struct tn_fields args; /* offsets are in struct tn_action */
    const char *message;   /* template: {arg} stands for the argument */
    void (*put_message)(const struct tn_action *a, struct tn_buf *out); /* instead of a template */
    int (*check)(const struct tn_action *a, struct tn_error *err); /* beyond the table, or NULL */
};

struct tn_observation_kind {
    const char *name;
    const char *help;
    struct tn_fields extras; /* offsets are in struct tn_observation */
    const char *message;     /* template; NULL: the content is the message */
    void (*put_message)(const struct tn_observation *o, struct tn_buf *out);
    bool (*success)(const struct tn_observation *o); /* NULL: not said */
};

extern const struct tn_action_kind tn_action_kinds[TN_ACTION_TYPE_COUNT];
extern const struct tn_observation_kind tn_observation_kinds[TN_OBSERVATION_TYPE_COUNT];

/* The words of the enums that both sides use, NULL-terminated. */
extern const char *const tn_read_sources[];
extern const char *const tn_edit_sources[];
extern const char *const tn_recall_types[];
extern const char *const tn_confirmations[];

/* The two parts of the envelope: what stands before the type, and what after. */
extern const struct tn_fields tn_event_head, tn_event_tail;

void tn_event_init(struct tn_event *e);
void tn_event_done(struct tn_event *e);
/* Never fails: what is strange is ignored. */
void tn_event_from_json(struct tn_event *e, const struct tn_json *json);

/* Appends the template with each {name} or {object.name} replaced by that field's text. */
void tn_put_template(const char *template, const struct tn_fields *f, const void *object,
                     struct tn_buf *out);

#endif
