/* The link that whoever started the service signs in to the dashboard with. */
#include "base/fs.h"
#include "service/service.h"
#include "service/ticket.h"

enum { LINK_SECONDS = 300, FILE_MAX = 8192 };

static int read_file(const char *state, const char *name, struct tn_buf *out, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/%s", state, name);

    return tn_fs_read(TN_FS_ANYWHERE, path, out, err);
}

/* Its first key, unless somebody has revoked it. */
static int find_caller(struct tn_db *db, const char *state, struct caller *out,
                       struct tn_error *err)
{
    tn_autobuf struct tn_buf key = TN_BUF_INIT(FILE_MAX);
    struct keyring *keys = keyring_new(db);
    int result = read_file(state, TN_SERVICE_KEY_FILE, &key, err);

    if (result == 0) {
        tn_buf_cut(&key, strcspn(tn_buf_str(&key), "\n"));
        result = keyring_check(keys, tn_buf_str(&key), out, err);
    }
    if (result < 0)
        tn_error_context(err, "the first key cannot sign you in (any other one can, by hand)");
    if (key.data)
        explicit_bzero(key.data, key.len);
    keyring_free(keys);
    return result;
}

bool tn_service_has_first_key(struct tn_db *db, const char *state)
{
    struct caller who;

    return find_caller(db, state, &who, NULL) == 0 && who.scopes & SCOPE_ADMIN;
}

char *tn_service_login_link(struct tn_db *db, const char *state, struct tn_error *err)
{
    tn_autobuf struct tn_buf lock = TN_BUF_INIT(FILE_MAX);
    char secret[65], text[TICKET_MAX];
    struct caller who;

    /* Its number, then where it is. */
    if (read_file(state, TN_SERVICE_LOCK_FILE, &lock, NULL) < 0 ||
        !strchr(tn_buf_str(&lock), '\n')) {
        tn_fail(err, TN_E_NOT_FOUND, "no service has worked with %s: start one with tendon serve",
                state);
        return NULL;
    }
    const char *url = strchr(lock.data, '\n') + 1;
    if (find_caller(db, state, &who, err) < 0 ||
        service_secret(db, TN_SERVICE_TICKETS, secret, err) < 0)
        return NULL;
    int result = ticket_make_link(secret, who.key_id, LINK_SECONDS, text, err);
    explicit_bzero(secret, sizeof secret);
    if (result < 0)
        return NULL;
    return tn_asprintf("%.*s/#ticket=%s", (int)strcspn(url, "\n"), url, text);
}
