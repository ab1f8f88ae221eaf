#include "base/log-secret.h"

#include "base/json.h"

#define SECRETS_MAX 4096
#define SECRET_LEAST 4
#define SECRET_MOST (1 << 20)
#define MASK "********"

struct secret {
    char *bytes;
    size_t len;
};

static struct secret *secrets;
static size_t secret_count, secret_cap;
static bool starts_one[256]; /* some secret begins with this byte */

static bool known(const char *bytes, size_t len)
{
    for (size_t i = 0; i < secret_count; i++)
        if (secrets[i].len == len && memcmp(secrets[i].bytes, bytes, len) == 0)
            return true;
    return false;
}

static int add(const char *bytes, size_t len)
{
    if (known(bytes, len))
        return 0;
    if (secret_count == SECRETS_MAX)
        return -1;
    if (secret_count == secret_cap) {
        secret_cap = secret_cap ? secret_cap * 2 : 16;
        secrets = tn_realloc(secrets, secret_cap * sizeof *secrets);
    }
    secrets[secret_count++] = (struct secret){.bytes = tn_strndup(bytes, len), .len = len};
    starts_one[(unsigned char)bytes[0]] = true;
    return 0;
}

int tn_log_secret_add(const char *value)
{
    size_t len = strlen(value);
    if (len < SECRET_LEAST)
        return 0;
    if (len > SECRET_MOST || add(value, len) < 0)
        return -1;
    tn_autobuf struct tn_buf quoted = TN_BUF_INIT(8 * (size_t)SECRET_MOST);
    struct tn_jw w = tn_jw(&quoted);
    tn_jw_str(&w, value);
    if (!tn_buf_ok(&quoted))
        return -1;
    return add(quoted.data + 1, quoted.len - 2);
}

void tn_log_secret_clear(void)
{
    for (size_t i = 0; i < secret_count; i++) {
        explicit_bzero(secrets[i].bytes, secrets[i].len);
        free(secrets[i].bytes);
    }
    free(secrets);
    secrets = NULL;
    secret_count = secret_cap = 0;
    memset(starts_one, 0, sizeof starts_one);
}

/* The length of the longest secret at s, or 0. */
static size_t secret_at(const char *s, size_t n)
{
    size_t longest = 0;

    if (!starts_one[(unsigned char)s[0]])
        return 0;
    for (size_t i = 0; i < secret_count; i++)
        if (secrets[i].len > longest && secrets[i].len <= n &&
            memcmp(secrets[i].bytes, s, secrets[i].len) == 0)
            longest = secrets[i].len;
    return longest;
}

void tn_log_secret_mask(struct tn_buf *out, const char *s, size_t n)
{
    size_t hidden = 0; /* secrets that overlap are hidden as one */

    for (size_t i = 0; i < n && tn_buf_ok(out); i++) {
        bool inside = i < hidden;
        size_t len = secret_at(s + i, n - i);
        if (i + len > hidden)
            hidden = i + len;
        if (i >= hidden)
            tn_buf_putc(out, s[i]);
        else if (!inside)
            tn_buf_puts(out, MASK);
    }
}
