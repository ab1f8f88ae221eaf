#include "runtime/gated.h"

#include "base/file-lock.h"
#include "base/fs.h"
#include "gate/keeper-protocol.h"
#include "gate/rules.h"
#include "jail/plan.h"
#include "runtime/programs.h"

enum { ANSWER_MAX = 128 << 10, REFUSALS_TOLD = 5 };

bool tn_gated(int network)
{
    return network == TN_NETWORK_OPEN || network == TN_NETWORK_ALLOW;
}

const struct tn_str_list *tn_gated_rules(int network, const struct tn_spec *spec,
                                         const struct tn_str_list *usual)
{
    if (!tn_gated(network))
        return NULL;
    return spec->allow.items || network == TN_NETWORK_OPEN ? &spec->allow : usual;
}

int tn_gated_check(int network, const struct tn_spec *spec, struct tn_error *err)
{
    tn_autorules struct tn_rules rules = {0};

    if (spec->secrets.count && !tn_gated(network))
        return tn_fail(err, TN_E_INVALID,
                       "secrets: only a gate can put them in: expected network open or allow, "
                       "found %s",
                       tn_networks[network]);
    if (spec->ask && network != TN_NETWORK_ALLOW)
        return tn_fail(err, TN_E_INVALID, "ask: expected network allow with it, found %s",
                       tn_networks[network]);
    for (size_t i = 0; i < spec->allow.count; i++)
        if (tn_rules_add(&rules, spec->allow.items[i], err) < 0)
            return tn_error_context(err, "allow");
    return 0;
}

bool tn_gated_look_inside(const struct tn_str_list *list)
{
    tn_autorules struct tn_rules rules = {0};

    for (size_t i = 0; i < list->count; i++)
        if (tn_rules_add(&rules, list->items[i], NULL) < 0)
            return false;
    return tn_rules_look_inside(&rules);
}

char *tn_gated_program(const struct tn_host *host, const char *name, struct tn_error *err)
{
    tn_autofree char *beside = host->program ? tn_asprintf("%s/%s", host->program, name) : NULL;
    bool there = beside && access(beside, X_OK) == 0;

    return tn_program_find(name, there ? beside : NULL, err);
}

/* --- the keeper of a container -------------------------------------------------------------- */

int tn_gated_open_lock(const char *directory)
{
    tn_autofree char *path = tn_asprintf("%s/" TN_JAIL_KEEPER_LOCK, directory);

    return open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

bool tn_gated_is_lost(const char *directory)
{
    tn_autofd int lock = tn_gated_open_lock(directory);

    return lock >= 0 && !tn_byte_is_locked(lock, 0);
}

/* --- rules --------------------------------------------------------------------------------- */

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;

    return tn_fs_write(fd, tn_buf_str(text), text->len, err);
}

int tn_gated_put_rules(struct tn_buf *text, int network, const struct tn_str_list *rules,
                       struct tn_error *err)
{
    tn_autorules struct tn_rules checked = {0};

    tn_buf_printf(text, "%s\n", tn_networks[network]);
    for (size_t i = 0; rules && i < rules->count; i++) {
        if (tn_rules_add(&checked, rules->items[i], err) < 0)
            return tn_error_context(err, "allow");
        tn_buf_printf(text, "%s\n", rules->items[i]);
    }
    return tn_buf_ok(text) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "too many rules");
}

int tn_gated_write_rules(const char *directory, int network, const struct tn_str_list *rules,
                         struct tn_error *err)
{
    const struct tn_fs_replace how = {.mode = 0600};
    tn_autofree char *path = tn_asprintf("%s/" TN_JAIL_RULES, directory);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_GATED_RULES_MAX);

    if (tn_gated_put_rules(&text, network, rules, err) < 0)
        return -1;
    return tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_text, &text, err);
}

int tn_gated_reload(const char *directory, int network, const struct tn_str_list *rules,
                    int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(4096);

    if (tn_gated_write_rules(directory, network, rules, err) ||
        tn_keeper_ask(directory, TN_KEEPER_RULES, &answer, NULL, deadline, err) < 0)
        return -1;
    return strcmp(tn_buf_str(&answer), "ok") == 0
               ? 0
               : tn_fail(err, TN_E_CONFLICT, "its gate: %s", tn_buf_str(&answer));
}

/* --- what was refused ---------------------------------------------------------------------- */

int tn_gated_refusals(void *engine, const struct tn_subject *subject, struct tn_buf *out,
                      int64_t deadline, struct tn_error *err)
{
    (void)engine;
    return tn_keeper_ask(subject->directory, TN_KEEPER_NETWORK, out, NULL, deadline, err);
}

/* The sentence of one refusal; what it tells of comes from inside, and is one sentence only. */
static void put_refusal(struct tn_buf *out, const struct tn_json *r)
{
    int64_t count = tn_json_int(tn_json_get(r, "count"), 1);
    tn_autofree char *text =
        tn_asprintf("the network refused %s: %s", tn_json_get_str(r, "what", ""),
                    tn_json_get_str(r, "why", ""));
    char times[32] = "";

    for (char *at = text; (at = strpbrk(at, ";[]"));)
        *at = ',';
    if (count > 1)
        snprintf(times, sizeof times, " (%lld times)", (long long)count);
    tn_buf_printf(out, "%s%s%s", out->len ? "; " : "", text, times);
}

void tn_gated_put_refusals(struct tn_buf *out, const struct tn_subject *subject, int64_t deadline)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(ANSWER_MAX);

    if (tn_keeper_ask(subject->directory, TN_KEEPER_NETWORK, &answer, NULL, deadline, NULL) == 0)
        tn_gated_put_told(out, &answer);
}

/* What the gate has refused last. */
void tn_gated_put_told(struct tn_buf *out, const struct tn_buf *answer)
{
    tn_autojson struct tn_json *told = NULL;

    if (tn_json_parse(answer->data, answer->len, &told, NULL) < 0)
        return;
    const struct tn_json *list = tn_json_get(told, "refusals");
    int64_t newest = tn_json_int(tn_json_get(told, "refused"), 0);
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *r = tn_json_at(list, i);
        if (tn_json_int(tn_json_get(r, "number"), 0) > newest - REFUSALS_TOLD)
            put_refusal(out, r);
    }
}

int tn_gated_listen(void *engine, const struct tn_subject *subject, int64_t deadline,
                    struct tn_error *err)
{
    (void)engine;
    return tn_keeper_listen(subject->directory, deadline, err);
}

int tn_gated_let(void *engine, const struct tn_subject *subject, const char *host, int port,
                 bool allowed, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *request =
        tn_asprintf("%s%s %d", allowed ? TN_KEEPER_ALLOW : TN_KEEPER_REFUSE, host, port);
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(4096);

    (void)engine;
    if (tn_keeper_ask(subject->directory, request, &answer, NULL, deadline, err) < 0)
        return -1;
    return strcmp(tn_buf_str(&answer), "ok") == 0
               ? 0
               : tn_fail(err, TN_E_NOT_FOUND, "no connection to %s:%d waits any more", host, port);
}
