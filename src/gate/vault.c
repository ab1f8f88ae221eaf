#include "gate/vault.h"

static int wrong(struct tn_error *err, const char *what)
{
    return tn_fail(err, TN_E_INVALID, "vault: %s", what); /* never with a part of it */
}

static int take_secret(const struct tn_json *json, struct vault_secret *s, struct tn_error *err)
{
    const struct tn_json *hosts = tn_json_get(json, "hosts");

    s->placeholder = tn_json_get_str(json, "placeholder", "");
    s->value = tn_json_str(tn_json_get(json, "value"), &s->value_size);
    s->headers = tn_json_get(json, "headers");
    if (!s->placeholder[0] || !s->value || !s->value_size || s->value_size > VAULT_VALUE_MAX)
        return wrong(err, "expected a placeholder and a value of 1 to 16384 bytes");
    for (size_t i = 0; i < tn_json_count(hosts); i++) {
        const char *host = tn_json_str(tn_json_at(hosts, i), NULL);
        tn_autofree char *rule = tn_asprintf("https://%s", host ? host : "");
        if (tn_rules_add(&s->hosts, rule, NULL) < 0 || tn_rules_look_inside(&s->hosts))
            return wrong(err, "expected hosts as NAME, *.NAME, with a :PORT or without");
    }
    return 0;
}

int vault_parse(const char *text, size_t size, struct vault *v, struct tn_error *err)
{
    *v = (struct vault){0};
    if (tn_json_parse(text, size, &v->tree, NULL) < 0 || !v->tree)
        return wrong(err, "expected a JSON object");
    const struct tn_json *authority = tn_json_get(v->tree, "authority");
    const struct tn_json *secrets = tn_json_get(v->tree, "secrets");
    v->certificate = tn_json_get_str(authority, "certificate", NULL);
    v->key = tn_json_get_str(authority, "key", NULL);
    v->roots = tn_json_get_str(v->tree, "roots", "");
    if (!v->certificate || !v->key || tn_json_count(secrets) > VAULT_SECRETS)
        return wrong(err, "expected an authority with certificate and key, at most 256 secrets");
    v->secrets = tn_calloc(tn_json_count(secrets) + 1, sizeof *v->secrets);
    for (; v->count < tn_json_count(secrets); v->count++)
        if (take_secret(tn_json_at(secrets, v->count), &v->secrets[v->count], err) < 0) {
            v->count++; /* what it has already is freed too */
            return -1;
        }
    return 0;
}

void vault_done(struct vault *v)
{
    for (size_t i = 0; i < v->count; i++)
        tn_rules_done(&v->secrets[i].hosts);
    free(v->secrets);
    tn_json_free(v->tree);
    *v = (struct vault){0};
}

bool vault_secret_is_for(const struct vault_secret *s, const char *name, uint16_t port)
{
    const struct tn_wish wish = {.port = port};

    return tn_rules_allow_name(&s->hosts, name, &wish) != TN_PASS_NOT;
}

bool vault_knows(const struct vault *v, const char *name, uint16_t port)
{
    for (size_t i = 0; i < v->count; i++)
        if (vault_secret_is_for(&v->secrets[i], name, port))
            return true;
    return false;
}

bool vault_has_port(const struct vault *v, uint16_t port)
{
    for (size_t i = 0; i < v->count; i++)
        if (tn_rules_have_port(&v->secrets[i].hosts, port))
            return true;
    return false;
}
