/* The lists of addresses and names that sandboxes of the clouds may reach, as rules of the gate. */
#include <arpa/inet.h>

#include "gate/rules.h"
#include "service/surface.h"

enum { NETWORK_MAX = 256 << 10 };

/* With brackets where it takes them; *numeric: it is no name. */
static char *host_of_rule(const char *text, bool *numeric)
{
    tn_autofree char *host = tn_strndup(text, strcspn(text, "/"));
    unsigned char address[16];
    bool v6 = inet_pton(AF_INET6, host, address) == 1;

    *numeric = v6 || inet_pton(AF_INET, host, address) == 1;
    return v6 ? tn_asprintf("[%s]%s", host, text + strlen(host)) : tn_strdup(text);
}

void surface_put_rule(struct tn_jw *w, const char *text)
{
    bool numeric;
    tn_autofree char *host = host_of_rule(text, &numeric);
    tn_autofree char *rule = tn_asprintf("%s%s", host, numeric ? ":*" : "");

    tn_jw_str(w, rule);
}

int surface_put_denial(struct tn_jw *w, const char *text, struct tn_error *err)
{
    bool numeric;
    tn_autofree char *host = host_of_rule(text, &numeric);
    tn_autofree char *rule = tn_asprintf("!%s", host);
    tn_autorules struct tn_rules rules = {0};

    tn_jw_str(w, rule);
    return tn_rules_add(&rules, rule, err);
}

/* Of rules that are lists of JSON: those of `these` that are not among the others, borrowed; the
 * caller frees the items. */
static struct tn_str_list without(const struct tn_json *these, const struct tn_json *others)
{
    struct tn_str_list out = {.items = tn_calloc(tn_json_count(these) + 1, sizeof *out.items)};

    for (size_t i = 0; i < tn_json_count(these); i++) {
        const char *rule = tn_json_str(tn_json_at(these, i), NULL);
        if (rule && !tn_json_lists(others, rule))
            out.items[out.count++] = (char *)rule;
    }
    return out;
}

/* What the operator denies is kept, whatever the wish. */
static void keep_denied(const struct box *b, const struct caller *who, struct tn_str_list *deny)
{
    for (size_t i = 0; i < deny->count;)
        if (box_is_denied(b, who, deny->items[i]))
            deny->items[i] = deny->items[--deny->count];
        else
            i++;
}

/* Nothing at all is a gate without rules, where there is a gate. */
static int change(struct box *b, const struct caller *who, const struct tn_json *wish,
                  const struct tn_json *has, struct tn_error *err)
{
    const char *wanted = tn_json_get_str(wish, "network", "open");
    const char *network = tn_json_get_str(has, "network", "");
    const struct tn_json *rules = tn_json_get(wish, "allow"), *old = tn_json_get(has, "rules");

    if (!tn_json_bool(tn_json_get(has, "gated"), false))
        return strcmp(network, wanted) == 0 && !tn_json_count(rules)
                   ? 0
                   : tn_fail(err, TN_E_CONFLICT,
                             "the network of this sandbox is %.20s, without a gate, for as long as "
                             "it lives",
                             network);
    struct tn_rules_change change = {.network = strcmp(wanted, "open") == 0 ? TN_NETWORK_OPEN
                                                                            : TN_NETWORK_ALLOW,
                                     .allow = without(rules, old),
                                     .deny = without(old, rules)};
    keep_denied(b, who, &change.deny);
    int failed = box_change_rules(b, who, &change, err);
    free(change.allow.items);
    free(change.deny.items);
    return failed;
}

/* Whether its gate keeps it from anything. */
static bool has_rules(const struct tn_json *has)
{
    return tn_json_bool(tn_json_get(has, "gated"), false) &&
           (tn_json_count(tn_json_get(has, "rules")) ||
            strcmp(tn_json_get_str(has, "network", ""), "open") != 0);
}

int surface_change_network(struct box *b, const struct caller *who, const struct tn_buf *members,
                           struct tn_error *err)
{
    /* The rules say nothing that `open` does not; a pod has a gate only where there are some. */
    static const char all[] = "{\"network\":\"open\",\"allow\":[\"0.0.0.0/0:*\",\"[::]/0:*\"]}";
    tn_autobuf struct tn_buf now = TN_BUF_INIT(NETWORK_MAX);
    tn_autojson struct tn_json *wish = NULL, *has = NULL;
    struct tn_jw told = tn_jw(&now);

    tn_jw_object(&told);
    if (box_put_network(b, &told, err))
        return -1;
    tn_jw_object_end(&told);
    if (!tn_buf_ok(members) || !tn_buf_ok(&now))
        return tn_fail(err, TN_E_TOO_LARGE, "network: too much of it");
    if (tn_json_parse(tn_buf_str(&now), now.len, &has, err))
        return -1;
    const char *text = members->len == 2 && has_rules(has) ? all : tn_buf_str(members);
    return tn_json_parse(text, strlen(text), &wish, err) || change(b, who, wish, has, err) ? -1 : 0;
}
