#include "gate/keeper-protocol.h"
#include "jail/isolation.h"
#include "runtime/jail/jail.h"

#define REF_MAX (64u << 10)

#define REF struct jail_ref
static const struct tn_field rows[] = {
    TN_INT("pid", REF, pid),
    TN_INT("start", REF, start),
    TN_INT("keeper", REF, keeper),
    TN_INT("keeper_start", REF, keeper_start),
    TN_INT("memory", REF, memory),
    TN_INT("pids", REF, pids),
    TN_INT("disk", REF, disk),
    TN_DOUBLE("wall_time", REF, wall_time),
    TN_STRING("workspace", REF, workspace, .flags = TN_FIELD_NULLABLE),
    TN_INT("holds", REF, holds),
    TN_WORD("mapping", REF, mapping, tn_jail_mappings),
    TN_WORD("gvisor", REF, gvisor, tn_jail_platforms, .fallback = "none"),
    TN_WORD("reach", REF, reach, tn_jail_reaches, .fallback = "unknown"),
};
static const struct tn_fields fields = TN_FIELDS(rows);

void jail_ref_read(const struct tn_subject *subject, struct jail_ref *ref)
{
    tn_autojson struct tn_json *json = NULL;

    tn_fields_defaults(&fields, ref);
    if (!subject->ref || tn_json_parse(subject->ref, strlen(subject->ref), &json, NULL) < 0 ||
        tn_fields_from_json(&fields, ref, json, NULL) < 0) {
        jail_ref_done(ref);
        *ref = (struct jail_ref){0};
    }
}

void jail_ref_done(struct jail_ref *ref)
{
    tn_fields_done(&fields, ref);
}

/* --- isolation ------------------------------------------------------------------------------ */

/* A flag of the isolation by its row; NULL for rows that are none. */
static bool *flag_of(struct tn_jail_isolation *is, size_t row)
{
    const struct tn_field *field = &tn_jail_isolation_fields.rows[row];

    return field->type == TN_FIELD_BOOL ? (bool *)((char *)is + field->offset) : NULL;
}

int jail_ref_isolate(struct jail_ref *ref, const struct tn_json *report, struct tn_error *err)
{
    struct tn_jail_isolation is = {0};

    if (tn_fields_from_json(&tn_jail_isolation_fields, &is, report, err) < 0)
        return -1;
    ref->holds = 0;
    for (size_t i = 0; i < tn_jail_isolation_fields.count; i++) {
        const bool *flag = flag_of(&is, i);
        if (flag && *flag)
            ref->holds |= INT64_C(1) << i;
    }
    ref->mapping = is.mapping;
    ref->gvisor = is.gvisor;
    ref->reach = is.reach;
    return 0;
}

static void take_flags(const struct jail_ref *ref, struct tn_jail_isolation *is)
{
    for (size_t i = 0; i < tn_jail_isolation_fields.count; i++) {
        bool *flag = flag_of(is, i);
        if (flag)
            *flag = ref->holds >> i & 1;
    }
}

bool jail_ref_is_gated(const struct jail_ref *ref)
{
    struct tn_jail_isolation is = {0};

    take_flags(ref, &is);
    return is.gated;
}

char *jail_ref_isolation(const struct jail_ref *ref)
{
    struct tn_jail_isolation is = {
        .mapping = ref->mapping, .gvisor = ref->gvisor, .reach = ref->reach};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(REF_MAX);
    struct tn_jw w = tn_jw(&text);

    if (!ref->holds)
        return NULL;
    take_flags(ref, &is);
    tn_jw_object(&w);
    tn_fields_to_json(&tn_jail_isolation_fields, &is, &w);
    tn_jw_kstr(&w, "reaches", tn_jail_reach_sentence(is.reach));
    tn_jw_object_end(&w);
    return tn_buf_take(&text);
}

/* --- as text -------------------------------------------------------------------------------- */

char *jail_ref_write(const struct jail_ref *ref)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(REF_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_fields_to_json(&fields, ref, &w);
    tn_jw_object_end(&w);
    return tn_buf_take(&text);
}

/* A process that was killed after a start and before it could write down the ref leaves a jail that
 * only its keeper knows about. */
static bool ask_keeper(const struct tn_subject *subject, struct jail_ref *ref, int64_t deadline)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(REF_MAX);
    tn_autojson struct tn_json *json = NULL;
    struct tn_proc proc;

    if (tn_keeper_ask(subject->directory, TN_KEEPER_STATUS, &answer, NULL, deadline, NULL) < 0 ||
        tn_json_parse(tn_buf_str(&answer), answer.len, &json, NULL) < 0)
        return false;
    const struct tn_field *gvisor = tn_fields_find(&fields, "gvisor");
    if (tn_field_from_text(gvisor, ref, tn_json_get_str(json, "gvisor", "none"), NULL) < 0)
        return false;
    pid_t pid = (pid_t)tn_json_int(tn_json_get(json, "pid"), 0);
    if (pid <= 0 || tn_proc_get(pid, &proc) < 0)
        return false;
    ref->pid = pid;
    ref->start = (int64_t)proc.start;
    ref->keeper = proc.parent;
    ref->keeper_start = 0;
    if (tn_proc_get(proc.parent, &proc) == 0)
        ref->keeper_start = (int64_t)proc.start;
    return true;
}

bool jail_ref_find(const struct tn_subject *subject, struct jail_ref *ref, int64_t deadline)
{
    jail_ref_read(subject, ref);
    return tn_proc_lives((pid_t)ref->pid, (uint64_t)ref->start) ||
           ask_keeper(subject, ref, deadline);
}
