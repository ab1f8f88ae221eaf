/* Who we are for Modal: settings, or the profiles that its own tool keeps. */
#include "base/key-file.h"
#include "base/toml.h"
#include "runtime/cloud/modal/modal.h"

/* The table that counts: the one that is named, else the active one, else the only one. */
static const struct tn_toml *choose(const struct tn_toml *all, const char *name)
{
    size_t n = tn_toml_count(all);

    if (name && *name)
        return tn_toml_get(all, name);
    for (size_t i = 0; i < n; i++)
        if (tn_toml_bool(tn_toml_get(tn_toml_at(all, i), "active"), false))
            return tn_toml_at(all, i);
    return n == 1 ? tn_toml_at(all, 0) : NULL;
}

int modal_login(const struct tn_config *config, struct modal_login *out, struct tn_error *err)
{
    const struct tn_config_modal *c = &config->modal;
    tn_autokeyfile struct tn_buf text = TN_KEY_FILE_INIT;
    tn_autotoml struct tn_toml *all = NULL;
    struct tn_error why = {0};

    *out = (struct modal_login){0};
    if (tn_key_file_read(c->config_path, TN_KEY_FILE_READABLE, &text, &why) == 0)
        all = tn_toml_parse(tn_buf_str(&text), text.len, &why);
    const struct tn_toml *profile = choose(all, c->profile);
    out->id = tn_strdup_or_null(cloud_first(c->token_id, config->core.modal_api_token_id,
                                            tn_toml_get_str(profile, "token_id", NULL)));
    out->secret =
        tn_strdup_or_null(cloud_first(c->token_secret, config->core.modal_api_token_secret,
                                      tn_toml_get_str(profile, "token_secret", NULL)));
    out->url = tn_strdup_or_null(
        cloud_first(c->server_url, NULL, tn_toml_get_str(profile, "server_url", NULL)));
    out->environment = tn_strdup_or_null(
        cloud_first(c->environment, NULL, tn_toml_get_str(profile, "environment", NULL)));
    /* A file that cannot be used is told where it would have been needed. */
    if (!all && why.sys != ENOENT && (!out->id || !out->secret)) {
        if (err)
            *err = why;
        return tn_error_context(err, "%s", c->config_path);
    }
    return 0;
}

void modal_login_done(struct modal_login *login)
{
    cloud_free_secret(login->id);
    cloud_free_secret(login->secret);
    free(login->url);
    free(login->environment);
}
