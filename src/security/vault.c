#include "security/vault.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/key-file.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define ESCAPED 2 /* printable ASCII grows to that much in JSON, at most */

static void put_list(struct tn_jw *w, const char *key, const struct tn_str_list *list)
{
    tn_jw_key(w, key);
    tn_jw_array(w);
    for (size_t i = 0; i < list->count; i++)
        tn_jw_str(w, list->items[i]);
    tn_jw_array_end(w);
}

static void put_secret(struct tn_jw *w, const struct tn_vault_secret *s)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", s->entry->name);
    tn_jw_kstr(w, "placeholder", s->placeholder);
    tn_jw_kstr(w, "value", s->entry->value);
    put_list(w, "hosts", &s->entry->hosts);
    put_list(w, "headers", &s->entry->headers);
    tn_jw_object_end(w);
}

static void put_all(struct tn_jw *w, const struct tn_vault *v)
{
    tn_jw_object(w);
    tn_jw_key(w, "authority");
    tn_jw_object(w);
    tn_jw_kstr(w, "certificate", v->authority->certificate);
    tn_jw_kstr(w, "key", v->authority->key);
    tn_jw_object_end(w);
    if (v->roots)
        tn_jw_kstr(w, "roots", v->roots);
    tn_jw_key(w, "secrets");
    tn_jw_array(w);
    for (size_t i = 0; i < v->count; i++)
        put_secret(w, &v->secrets[i]);
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

/* More than it takes: a buffer that grew would leave copies behind. */
static size_t room_for(const struct tn_vault *v)
{
    size_t n = 64 << 10;

    n += v->roots ? ESCAPED * strlen(v->roots) : 0;
    for (size_t i = 0; i < v->count; i++)
        n += ESCAPED * strlen(v->secrets[i].entry->value) + TN_SAFE_ABOUT_MAX;
    return n;
}

int tn_vault_write(const struct tn_vault *v, struct tn_error *err)
{
    tn_autokeyfile struct tn_buf text = TN_BUF_INIT(TN_VAULT_MAX);
    tn_autofd int fd = memfd_create("vault", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct tn_jw w = tn_jw(&text);

    if (fd < 0)
        return tn_fail_errno(err, errno, "memory for the secrets of a sandbox");
    if (!tn_buf_reserve(&text, room_for(v)))
        return tn_fail(err, TN_E_TOO_LARGE, "the secrets of a sandbox have more than %d MiB",
                       TN_VAULT_MAX >> 20);
    put_all(&w, v);
    if (!tn_buf_ok(&text) || tn_fs_write(fd, text.data, text.len, err) < 0)
        return tn_error_context(err, "the secrets of a sandbox");
    if (lseek(fd, 0, SEEK_SET) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        return tn_fail_errno(err, errno, "the secrets of a sandbox");
    return TN_TAKE_FD(fd);
}
