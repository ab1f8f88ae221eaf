/* The network of a jail, and its gate, which the keeper keeps. */
#include "base/fs.h"
#include "jail/keeper-protocol.h"
#include "jail/plan.h"
#include "runtime/jail/jail.h"

enum { RULES_MAX = 1 << 20 };

int jail_network(const struct tn_host *host, const struct tn_spec *spec,
                 const struct tn_str_list **allow)
{
    const struct tn_config_jail *config = &host->config->jail;
    int network = tn_config_jail_network(host->config, spec->network);

    *allow = NULL;
    if (network == TN_NETWORK_OPEN || network == TN_NETWORK_ALLOW)
        *allow = spec->allow.items || network == TN_NETWORK_OPEN ? &spec->allow : &config->allow;
    return network;
}

int jail_refusals(void *engine, const struct tn_subject *subject, struct tn_buf *out,
                  int64_t deadline, struct tn_error *err)
{
    (void)engine;
    return tn_keeper_ask(subject->directory, TN_KEEPER_NETWORK, out, NULL, deadline, err);
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;

    return tn_fs_write(fd, tn_buf_str(text), text->len, err);
}

int jail_reload(void *engine, const struct tn_subject *subject, int64_t deadline,
                struct tn_error *err)
{
    const struct jail_engine *e = engine;
    const struct tn_fs_replace how = {.mode = 0600};
    tn_autofree char *path = tn_asprintf("%s/" TN_JAIL_RULES, subject->directory);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(RULES_MAX), answer = TN_BUF_INIT(4096);
    const struct tn_str_list *allow;

    tn_buf_printf(&text, "%s\n", tn_networks[jail_network(e->host, subject->spec, &allow)]);
    for (size_t i = 0; allow && i < allow->count; i++)
        tn_buf_printf(&text, "%s\n", allow->items[i]);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "too many rules");
    if (tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_text, &text, err) ||
        tn_keeper_ask(subject->directory, TN_KEEPER_RULES, &answer, NULL, deadline, err) < 0)
        return -1;
    return strcmp(tn_buf_str(&answer), "ok") == 0
               ? 0
               : tn_fail(err, TN_E_CONFLICT, "its gate: %s", tn_buf_str(&answer));
}

int jail_listen(void *engine, const struct tn_subject *subject, int64_t deadline,
                struct tn_error *err)
{
    (void)engine;
    return tn_keeper_listen(subject->directory, deadline, err);
}

int jail_let(void *engine, const struct tn_subject *subject, const char *host, int port,
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
