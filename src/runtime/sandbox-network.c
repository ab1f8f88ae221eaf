/* The network of a sandbox behind a gate: its rules, what was refused, and new rules while it runs.
 */
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "gate/rules.h"
#include "runtime/gated.h"
#include "runtime/runtime.h"
#include "runtime/sandbox-journal.h"

/* In the directory of a sandbox: when the newest refusal happened that its journal has. */
#define NOTED_FILE "network.noted"
#define A_NAME "the name " /* how the gate tells of a question for one */
#define ERROR_ID "NETWORK$REFUSED"

#define BACK_SECONDS 5.0
#define LET_SECONDS 20.0 /* what is done late was let through all the same */

enum { ANSWER_MAX = 128 << 10, KEPT_MAX = 64, TOLD_MAX = 1024 };

/* The rules of its gate, or NULL; *network is what it has. */
static const struct tn_str_list *rules_of(const struct tn_sandbox *sb, const char **network)
{
    const struct tn_str_list *allow = NULL;

    if (!sb->backend->network) {
        *network = tn_networks[sb->spec.network];
        return NULL;
    }
    *network = tn_networks[sb->backend->network(&sb->rt->host, &sb->spec, sb->record.ref, &allow)];
    return allow;
}

static int no_gate(const struct tn_sandbox *sb, const char *network, struct tn_error *err)
{
    return tn_fail(err, TN_E_CONFLICT,
                   "the network of sandbox %s (%s) has no gate: open and allow have one", sb->id,
                   *network ? network : sb->backend->name);
}

/* What its keeper says; NULL where there is nobody to ask. */
static struct tn_json *ask_gate(struct tn_sandbox *sb, int64_t deadline)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(ANSWER_MAX);
    struct tn_subject subject = tn_sandbox_subject(sb);
    struct tn_json *told = NULL;
    const char *network;

    if (!rules_of(sb, &network) || !sb->backend->refusals ||
        sb->backend->refusals(sb->engine, &subject, &answer, deadline, NULL) < 0)
        return NULL;
    tn_json_parse(tn_buf_str(&answer), answer.len, &told, NULL);
    return told;
}

/* --- what was refused ------------------------------------------------------------------------- */

/* The refusals that it tells of, newest first. */
static size_t take_refusals(const struct tn_json *told, const struct tn_json *out[KEPT_MAX])
{
    const struct tn_json *list = tn_json_get(told, "refusals");
    size_t count = 0;

    for (size_t i = 0; i < tn_json_count(list) && count < KEPT_MAX; i++) {
        const struct tn_json *r = tn_json_at(list, i);
        int64_t number = tn_json_int(tn_json_get(r, "number"), 0);
        size_t at = count++;
        for (; at && tn_json_int(tn_json_get(out[at - 1], "number"), 0) < number; at--)
            out[at] = out[at - 1];
        out[at] = r;
    }
    return count;
}

/* The rule that would let it through, on the heap; NULL where none does, or nobody can say. */
static char *rule_for(const char *what, const char *why)
{
    bool udp = strncmp(why, "UDP", 3) == 0, missing = strncmp(why, "no rule", 7) == 0;
    size_t said = strncmp(what, A_NAME, strlen(A_NAME)) == 0 ? strlen(A_NAME) : 0;
    tn_autofree char *text = tn_asprintf("%s%s", udp ? "udp://" : "", what + said);
    tn_autorules struct tn_rules rules = {0};

    if (tn_rules_add(&rules, text, NULL) < 0 || rules.count != 1)
        return NULL;
    if (said && !rules.items[0].name) /* an address that was asked for as if it were a name */
        return NULL;
    /* Only a rule by address reaches what is near. */
    bool near = !udp && !missing && strstr(why, "address") && !rules.items[0].name;
    return udp || missing || near ? TN_TAKE_PTR(text) : NULL;
}

static void put_refusal(struct tn_jw *w, const struct tn_json *r)
{
    const char *what = tn_json_get_str(r, "what", ""), *why = tn_json_get_str(r, "why", "");
    tn_autofree char *rule = rule_for(what, why);

    tn_jw_object(w);
    tn_jw_kstr(w, "what", what);
    tn_jw_kstr(w, "why", why);
    tn_jw_kint(w, "count", tn_json_int(tn_json_get(r, "count"), 1));
    tn_jw_kdouble(w, "at", tn_json_double(tn_json_get(r, "at"), 0));
    tn_jw_kstr(w, "rule", rule);
    tn_jw_object_end(w);
}

void tn_sandbox_put_network(struct tn_sandbox *sb, struct tn_jw *w, int64_t deadline)
{
    tn_autojson struct tn_json *told = ask_gate(sb, deadline);
    const struct tn_json *refusals[KEPT_MAX];
    size_t count = take_refusals(told, refusals);
    const char *network;
    const struct tn_str_list *rules = rules_of(sb, &network);

    tn_jw_kstr(w, "network", *network ? network : NULL);
    tn_jw_kbool(w, "gated", rules != NULL);
    tn_jw_key(w, "rules");
    tn_jw_array(w);
    for (size_t i = 0; rules && i < rules->count; i++)
        tn_jw_str(w, rules->items[i]);
    tn_jw_array_end(w);
    tn_jw_kint(w, "refused", tn_json_int(tn_json_get(told, "refused"), 0));
    tn_jw_key(w, "refusals");
    tn_jw_array(w);
    for (size_t i = 0; i < count; i++)
        put_refusal(w, refusals[i]);
    tn_jw_array_end(w);
}

/* --- in its journal --------------------------------------------------------------------------- */

static void note_one(struct tn_stream *journal, const struct tn_json *r, struct tn_buf *out)
{
    int64_t count = tn_json_int(tn_json_get(r, "count"), 1);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1024);
    tn_autoobservation struct tn_observation o;

    tn_buf_printf(&text, "the network refused %s: %s", tn_json_get_str(r, "what", ""),
                  tn_json_get_str(r, "why", ""));
    if (count > 1)
        tn_buf_printf(&text, " (%lld times)", (long long)count);
    if (out && out->len < TOLD_MAX)
        tn_buf_printf(out, "%s%s", out->len ? "; " : "", tn_buf_str(&text));
    tn_observation_init(&o, TN_OBSERVATION_ERROR);
    free(o.error_id);
    o.error_id = tn_strdup(ERROR_ID);
    tn_observation_take_content(&o, &text);
    tn_stream_add_observation(journal, &o, TN_SOURCE_ENVIRONMENT, -1, NULL, NULL);
}

/* Those who note take turns; -1. */
static int open_noted(const struct tn_sandbox *sb)
{
    tn_autofree char *path = tn_asprintf("%s/" NOTED_FILE, sb->directory);
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, path, O_RDWR | O_CREAT, 0600, NULL);

    return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) ? -1 : TN_TAKE_FD(fd);
}

int tn_sandbox_note_refusals(struct tn_sandbox *sb, struct tn_buf *out, int64_t deadline)
{
    const struct tn_sandbox_journal of = {.directory = sb->directory,
                                          .key = sb->record.key,
                                          .env = sb->spec.env,
                                          .config = sb->rt->host.config};
    tn_autojson struct tn_json *told = ask_gate(sb, deadline);
    const struct tn_json *refusals[KEPT_MAX];
    size_t count = take_refusals(told, refusals);
    tn_autofd int noted = count ? open_noted(sb) : -1;
    struct tn_stream *journal = NULL;
    char text[40] = "";
    double newest;
    int added = 0;

    if (noted < 0 || pread(noted, text, sizeof text - 1, 0) < 0)
        return 0;
    newest = strtod(text, NULL);
    for (size_t i = count; i-- > 0;) {
        double at = tn_json_double(tn_json_get(refusals[i], "at"), 0);
        if (at <= newest || (!journal && !(journal = tn_sandbox_journal_open(&of))))
            continue;
        note_one(journal, refusals[i], out);
        newest = at;
        added++;
    }
    tn_stream_close(journal);
    int n = snprintf(text, sizeof text, "%.9f\n", newest);
    if (added && (ftruncate(noted, 0) || pwrite(noted, text, (size_t)n, 0) != n))
        return 0;
    return added;
}

/* --- other rules ------------------------------------------------------------------------------ */

static const struct tn_field change_rows[] = {
    TN_WORD("network", struct tn_rules_change, network, tn_networks, .fallback = "default",
            .help = "open or allow, from now on"),
    TN_STRINGS("allow", struct tn_rules_change, allow, .help = "rules that are added"),
    TN_STRINGS("deny", struct tn_rules_change, deny, .help = "rules that are taken away"),
};
const struct tn_fields tn_rules_change_fields = TN_FIELDS(change_rows);

/* The new list, which borrows all rules; the caller frees the items. */
static int change_list(const struct tn_str_list *old, const struct tn_rules_change *change,
                       struct tn_str_list *out, struct tn_error *err)
{
    out->items = tn_calloc(old->count + change->allow.count + 1, sizeof *out->items);
    for (size_t i = 0; i < change->deny.count; i++)
        if (!tn_str_list_has(old, change->deny.items[i]))
            return tn_fail(err, TN_E_NOT_FOUND, "it has no rule %.200s", change->deny.items[i]);
    for (size_t i = 0; i < old->count; i++)
        if (!tn_str_list_has(&change->deny, old->items[i]))
            out->items[out->count++] = old->items[i];
    for (size_t i = 0; i < change->allow.count; i++) {
        tn_autorules struct tn_rules rules = {0};
        if (tn_rules_add(&rules, change->allow.items[i], err) < 0)
            return tn_error_context(err, "allow");
        if (!tn_str_list_has(out, change->allow.items[i]))
            out->items[out->count++] = change->allow.items[i];
    }
    return 0;
}

static int check(const struct tn_sandbox *sb, const struct tn_spec *spec, struct tn_error *err)
{
    if (tn_spec_check(spec, err))
        return -1;
    return sb->backend->check ? sb->backend->check(&sb->rt->host, spec, err) : 0;
}

/* Where nobody answers for a gate, there is none only if the sandbox does not run. */
static bool has_gate(struct tn_sandbox *sb, int64_t deadline)
{
    tn_autojson struct tn_json *told = ask_gate(sb, deadline);
    struct tn_subject subject = tn_sandbox_subject(sb);
    tn_autoplace struct tn_place place = {0};

    return told || sb->backend->inspect(sb->engine, &subject, &place, deadline, NULL) ||
           place.status == TN_STATUS_RUNNING || place.status == TN_STATUS_PAUSED ||
           place.status == TN_STATUS_STARTING || place.pending;
}

/* First what a restart reads, then the gate; what the gate does not take is not kept either. */
static int apply(struct tn_sandbox *sb, const struct tn_spec *spec, int64_t deadline,
                 struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);
    bool gate = has_gate(sb, deadline);

    subject.spec = spec;
    if (tn_sandbox_keep_spec(sb, spec, err))
        return -1;
    if (gate && sb->backend->reload(sb->engine, &subject, deadline, err)) {
        tn_store_spec(sb->rt->store, sb->id, sb->record.spec, NULL);
        subject.spec = &sb->spec; /* it may have taken them, and its answer was lost */
        sb->backend->reload(sb->engine, &subject, tn_deadline_in(BACK_SECONDS), NULL);
        return -1;
    }
    return tn_sandbox_reload(sb, err);
}

/* Which kind it has from now on.  Its gate stays, and so it must have one by what is wanted. */
static int change_kind(const struct tn_sandbox *sb, int network, struct tn_spec *wanted,
                       struct tn_error *err)
{
    const struct tn_str_list *allow = NULL;

    if (network != TN_NETWORK_DEFAULT && !tn_gated(network))
        return tn_fail(err, TN_E_INVALID, "network: expected open or allow, found %s",
                       tn_networks[network]);
    if (network != TN_NETWORK_DEFAULT)
        wanted->network = network;
    network = sb->backend->network(&sb->rt->host, wanted, sb->record.ref, &allow);
    return allow ? 0
                 : tn_fail(err, TN_E_CONFLICT, "network %s: its gate takes at least one rule here",
                           tn_networks[network]);
}

int tn_sandbox_change_rules(struct tn_sandbox *sb, const struct tn_rules_change *change,
                            int64_t deadline, struct tn_error *err)
{
    tn_autofd int lock = tn_sandbox_hold(sb, deadline, err);
    struct tn_spec wanted;
    const char *network;

    if (lock < 0)
        return -1;
    const struct tn_str_list *old = rules_of(sb, &network);
    if (!old)
        return no_gate(sb, network, err);
    wanted = sb->spec; /* borrows everything */
    wanted.allow = (struct tn_str_list){0};
    int failed = change_list(old, change, &wanted.allow, err) ||
                 change_kind(sb, change->network, &wanted, err) || check(sb, &wanted, err) ||
                 (change->check && change->check(change->ctx, &wanted, err)) ||
                 apply(sb, &wanted, deadline, err);
    if (change->done)
        change->done(change->ctx, failed);
    free(wanted.allow.items);
    return failed ? -1 : 0;
}

/* --- what waits ------------------------------------------------------------------------------- */

int tn_sandbox_listen(struct tn_sandbox *sb, int64_t deadline, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    if (!sb->backend->listen)
        return tn_fail(err, TN_E_CONFLICT, "its network has no gate");
    return sb->backend->listen(sb->engine, &subject, deadline, err);
}

int tn_sandbox_let(struct tn_sandbox *sb, const char *host, int64_t port, bool allowed,
                   int64_t deadline, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    if (!sb->backend->let)
        return tn_fail(err, TN_E_CONFLICT, "its network has no gate");
    return sb->backend->let(sb->engine, &subject, host, (int)port, allowed, deadline, err);
}

void tn_sandbox_let_through(struct tn_sandbox *sb, const struct tn_action *action,
                            struct tn_observation *o)
{
    const struct tn_network_action *n = &action->network;
    struct tn_error err = {0};

    if (tn_sandbox_let(sb, n->host, n->port, true, tn_deadline_in(LET_SECONDS), &err)) {
        tn_observation_init_error(o, action, "%s", err.text);
        return;
    }
    tn_autofree char *text =
        tn_asprintf("The connection to %s:%lld was let through.", n->host, (long long)n->port);
    tn_observation_init(o, TN_OBSERVATION_SUCCESS);
    tn_observation_set_content(o, text);
}
