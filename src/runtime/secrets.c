#include "runtime/secrets.h"

#include <ctype.h>

#include "base/fs.h"
#include "base/hmac.h"
#include "base/proc.h"
#include "gate/roots.h"
#include "security/vault.h"

#define PURPOSE "placeholder of secret "
#define ROOTS_MAX (1u << 20)
enum { PLACEHOLDER_BYTES = 16 };

struct tn_safe tn_secrets_safe(const struct tn_host *host)
{
    return (struct tn_safe){.state = host->state, .key = host->config->security.secret_key};
}

static char *placeholder(const struct tn_subject *subject, const char *name)
{
    tn_autofree char *purpose = tn_asprintf(PURPOSE "%s", name);
    unsigned char mac[TN_SHA256_BYTES];
    char digits[2 * PLACEHOLDER_BYTES + 1];
    char *text = NULL;

    tn_hmac_sha256(subject->key, strlen(subject->key), purpose, strlen(purpose), mac);
    for (size_t i = 0; i < PLACEHOLDER_BYTES; i++)
        snprintf(digits + 2 * i, 3, "%02x", mac[i]);
    text = tn_asprintf("tnsecret_%s_%s", name, digits);
    for (char *c = text; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return text;
}

char *tn_secrets_variable(const struct tn_subject *subject, const char *secret)
{
    tn_autofree char *text = placeholder(subject, tn_secret_name(secret));

    return tn_asprintf("%s=%s", tn_secret_name(secret), text);
}

/* --- the vault -------------------------------------------------------------------------------- */

struct opened {
    struct tn_safe_entry *entries;
    struct tn_vault_secret *secrets;
    size_t count;
};

static void opened_done(struct opened *o)
{
    for (size_t i = 0; i < o->count; i++) {
        tn_safe_entry_done(&o->entries[i]);
        free((char *)(uintptr_t)o->secrets[i].placeholder);
    }
    free(o->entries);
    free(o->secrets);
}

static int open_all(const struct tn_host *host, const struct tn_subject *subject, struct opened *o,
                    struct tn_error *err)
{
    const struct tn_str_list *wanted = &subject->spec->secrets;
    const struct tn_safe safe = tn_secrets_safe(host);

    o->entries = tn_calloc(wanted->count + 1, sizeof *o->entries);
    o->secrets = tn_calloc(wanted->count + 1, sizeof *o->secrets);
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = tn_secret_name(wanted->items[i]);
        size_t n = (size_t)(name - wanted->items[i]);
        tn_autofree char *owner = n ? tn_strndup(wanted->items[i], n - 1) : NULL;
        if (tn_safe_get(&safe, owner, name, &o->entries[i], err) < 0)
            return tn_error_context(err, "secrets");
        o->secrets[i] = (struct tn_vault_secret){.placeholder = placeholder(subject, name),
                                                 .entry = &o->entries[i]};
        o->count++;
    }
    return 0;
}

static void add_bundle(struct tn_buf *pem)
{
    for (const char *const *path = tn_root_bundles; *path && !pem->len; path++)
        tn_fs_read(TN_FS_ANYWHERE, *path, pem, NULL);
    if (pem->len)
        tn_buf_putc(pem, '\n');
}

int tn_secrets_vault(const struct tn_host *host, const struct tn_subject *subject, bool elsewhere,
                     char **certificate, struct tn_error *err)
{
    const char *roots = host->config->security.roots;
    tn_autobuf struct tn_buf pem = TN_BUF_INIT(ROOTS_MAX);
    tn_autoauthority struct tn_authority authority = {0};
    TN_CLEANUP(opened_done) struct opened o = {0};

    tn_proc_no_core();
    if (elsewhere)
        add_bundle(&pem);
    if (roots && tn_fs_read(TN_FS_ANYWHERE, roots, &pem, err) < 0)
        return tn_error_context(err, "security.roots");
    if (open_all(host, subject, &o, err) < 0 || tn_authority_make(subject->id, &authority, err) < 0)
        return -1;
    const struct tn_vault vault = {.authority = &authority,
                                   .roots = pem.len ? tn_buf_str(&pem) : NULL,
                                   .secrets = o.secrets,
                                   .count = o.count};
    int fd = tn_vault_write(&vault, err);
    if (fd >= 0)
        *certificate = TN_TAKE_PTR(authority.certificate);
    return fd;
}
