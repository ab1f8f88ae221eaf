#include "runtime/external/wire.h"

static const struct {
    const char *word;
    enum tn_ability bit;
} abilities[] = {
    {"pause", TN_CAN_PAUSE},     {"stop", TN_CAN_STOP},
    {"suspend", TN_CAN_SUSPEND}, {"snapshot", TN_CAN_SNAPSHOT},
    {"limit", TN_CAN_LIMIT},     {"isolate", TN_CAN_ISOLATE},
    {"image", TN_CAN_IMAGE},     {"network_none", TN_CAN_NETWORK_NONE},
};

unsigned wire_abilities(const struct tn_json *names)
{
    unsigned bits = 0;

    for (size_t i = 0; i < tn_json_count(names); i++) {
        const char *word = tn_json_str(tn_json_at(names, i), NULL);
        for (size_t k = 0; word && k < TN_COUNT(abilities); k++)
            if (strcmp(abilities[k].word, word) == 0)
                bits |= (unsigned)abilities[k].bit;
    }
    return bits;
}

void wire_subject(struct tn_jw *w, const char *key, const struct tn_subject *subject)
{
    tn_autojson struct tn_json *ref = NULL;

    if (subject->ref)
        tn_json_parse(subject->ref, strlen(subject->ref), &ref, NULL);
    tn_jw_key(w, key);
    tn_jw_object(w);
    tn_jw_kstr(w, "id", subject->id);
    tn_jw_kstr(w, "key", subject->key);
    tn_jw_key(w, "spec");
    tn_jw_object(w);
    tn_spec_to_json(subject->spec, w);
    tn_jw_object_end(w);
    tn_jw_kstr(w, "directory", subject->directory);
    tn_jw_key(w, "ref");
    tn_jw_tree(w, ref);
    if (subject->owner.pid) {
        tn_jw_key(w, "owner");
        tn_jw_object(w);
        tn_jw_kint(w, "pid", subject->owner.pid);
        tn_jw_kint(w, "start", (int64_t)subject->owner.start);
        tn_jw_object_end(w);
    } else {
        tn_jw_knull(w, "owner");
    }
    tn_jw_object_end(w);
}

/* The value as JSON text, on the heap; NULL for null. */
static char *text_of(const struct tn_json *value)
{
    struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&out);

    if (!value)
        return NULL;
    tn_jw_tree(&w, value);
    return tn_buf_take(&out);
}

static int read_status(const struct tn_json *result, enum tn_status *status)
{
    const char *word = tn_json_get_str(result, "status", "");

    for (int i = 0; tn_status_words[i]; i++) {
        if (strcmp(tn_status_words[i], word) == 0) {
            *status = (enum tn_status)i;
            return 0;
        }
    }
    return -1;
}

int wire_place(const struct tn_json *result, struct tn_place *place, struct tn_error *err)
{
    if (read_status(result, &place->status) < 0)
        return tn_fail(err, TN_E_PEER, "it answered the status '%.40s', which is none",
                       tn_json_get_str(result, "status", ""));
    tn_place_done(place);
    place->address = tn_strdup_or_null(tn_json_get_str(result, "address", NULL));
    place->reason = tn_strdup_or_null(tn_json_get_str(result, "reason", NULL));
    place->blame = tn_blame_find(tn_json_get_str(result, "blame", NULL));
    place->ref = text_of(tn_json_get(result, "ref"));
    place->isolation = text_of(tn_json_get(result, "isolation"));
    return 0;
}

void wire_usage(const struct tn_json *result, struct tn_usage *u)
{
    *u = (struct tn_usage){
        .memory = tn_json_int(tn_json_get(result, "memory"), -1),
        .memory_peak = tn_json_int(tn_json_get(result, "memory_peak"), -1),
        .disk = tn_json_int(tn_json_get(result, "disk"), -1),
        .cpu_seconds = tn_json_double(tn_json_get(result, "cpu_seconds"), -1),
        .processes = tn_json_int(tn_json_get(result, "processes"), -1),
        .cpus = tn_json_double(tn_json_get(result, "cpus"), 0),
    };
}
