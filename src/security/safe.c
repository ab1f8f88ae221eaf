#include "security/safe.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/file-lock.h"
#include "base/fs.h"
#include "base/key-file.h"
#include "security/safe-seal.h"

#define FOLDER "secrets"
#define LOCK_SECONDS 10.0
enum { FILE_MAX = TN_SAFE_VALUE_MAX + TN_SAFE_ABOUT_MAX, HOST_MAX = 253, LABEL_MAX = 63 };

#define ENTRY struct tn_safe_entry
static const struct tn_field rows[] = {
    TN_STRINGS("hosts", ENTRY, hosts, .help = "the hosts that get it: api.x.com, *.x.com:8443"),
    TN_STRINGS("headers", ENTRY, headers,
               .fallback = "authorization,x-api-key,api-key,x-goog-api-key,private-token",
               .help = "the headers in which it is put in"),
    TN_DOUBLE("changed", ENTRY, changed, .max = 1e18, .help = "seconds since 1970"),
};
const struct tn_fields tn_safe_fields = TN_FIELDS(rows);

void tn_safe_entry_done(struct tn_safe_entry *e)
{
    if (e->value)
        explicit_bzero(e->value, strlen(e->value));
    free(TN_TAKE_PTR(e->value));
    free(TN_TAKE_PTR(e->name));
    tn_fields_done(&tn_safe_fields, e);
}

/* --- what may be in it ------------------------------------------------------------------------ */

#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

bool tn_safe_is_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= TN_SAFE_NAME_MAX && strspn(name, UPPER DIGITS) == n &&
           strchr(UPPER, *name);
}

static void lower(char *text)
{
    for (; *text; text++)
        *text = (char)tolower((unsigned char)*text);
}

/* Labels with dots between them; the last is no number, so it is no address.  `labels`: at least
 * so many. */
static bool is_host(const char *name, size_t n, size_t labels)
{
    bool letter = false;

    if (n == 0 || n > HOST_MAX)
        return false;
    for (size_t i = 0, begin = 0; i <= n; i++) {
        if (i < n && name[i] != '.') {
            if (!strchr(LOWER DIGITS "-_", name[i]))
                return false;
            letter = letter || strchr(LOWER, name[i]);
            continue;
        }
        if (i == begin || i - begin > LABEL_MAX || name[begin] == '-' || name[i - 1] == '-')
            return false;
        labels -= labels > 0;
        if (i < n)
            letter = false;
        begin = i + 1;
    }
    return letter && labels == 0;
}

static bool is_port(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n <= 5 && strspn(text, DIGITS) == n && *text != '0' &&
           strtoul(text, NULL, 10) <= UINT16_MAX;
}

static int check_host(char *host, struct tn_error *err)
{
    bool below = host[0] == '*' && host[1] == '.';

    lower(host);
    const char *name = below ? host + 2 : host;
    size_t n = strcspn(name, ":");
    if (is_host(name, n, below ? 2 : 1) && (!name[n] || is_port(name + n + 1)))
        return 0;
    return tn_fail(err, TN_E_INVALID,
                   "hosts: expected a name such as api.example.com, *.example.com or "
                   "api.example.com:8443, found '%.80s'",
                   host);
}

/* Those by which a connection finds the end of a request are nobody's to fill in. */
static int check_header(char *header, struct tn_error *err)
{
    static const char *const framing[] = {"host",    "connection",        "content-length",
                                          "upgrade", "transfer-encoding", "te"};
    size_t n = strlen(header);

    lower(header);
    bool good = n > 0 && n <= TN_SAFE_NAME_MAX && strspn(header, LOWER DIGITS "-_") == n;
    for (size_t i = 0; i < TN_COUNT(framing); i++)
        good = good && strcmp(framing[i], header) != 0;
    return good ? 0
                : tn_fail(err, TN_E_INVALID,
                          "headers: expected the name of a header that may carry a key, such as "
                          "authorization, found '%.80s'",
                          header);
}

static int check_list(const char *what, const struct tn_str_list *list,
                      int (*check)(char *item, struct tn_error *err), struct tn_error *err)
{
    if (list->count == 0 || list->count > TN_SAFE_LIST_MAX)
        return tn_fail(err, TN_E_INVALID, "%s: expected 1 to %d of them, found %zu", what,
                       TN_SAFE_LIST_MAX, list->count);
    for (size_t i = 0; i < list->count; i++)
        if (check(list->items[i], err) < 0)
            return -1;
    return 0;
}

/* What a header can carry; a space at an end would get lost. */
static int check_value(const char *value, struct tn_error *err)
{
    size_t n = value ? strlen(value) : 0;

    if (n < TN_SAFE_VALUE_MIN)
        return tn_fail(err, TN_E_INVALID,
                       "value: expected at least %d bytes: a shorter one stands in ordinary text, "
                       "too, which would be masked wherever a host sends it",
                       TN_SAFE_VALUE_MIN);
    bool good = n <= TN_SAFE_VALUE_MAX && value[0] != ' ' && value[n - 1] != ' ';

    for (size_t i = 0; good && i < n; i++)
        good = value[i] >= ' ' && value[i] <= '~';
    return good ? 0
                : tn_fail(err, TN_E_INVALID,
                          "value: expected %d bytes to %d KiB of printable ASCII in one line, "
                          "without a space at either end",
                          TN_SAFE_VALUE_MIN, TN_SAFE_VALUE_MAX >> 10);
}

static int check_name(const char *name, struct tn_error *err)
{
    return name && tn_safe_is_name(name)
               ? 0
               : tn_fail(err, TN_E_INVALID,
                         "expected the name of a secret: 1 to %d capital letters, digits and '_', "
                         "no digit first; found '%.80s'",
                         TN_SAFE_NAME_MAX, name ? name : "");
}

int tn_safe_check(struct tn_safe_entry *e, struct tn_error *err)
{
    const struct tn_field *headers = tn_fields_find(&tn_safe_fields, "headers");

    if (e->headers.count == 0 && tn_field_from_text(headers, e, headers->fallback, err) < 0)
        return -1;
    return check_name(e->name, err) || check_list("hosts", &e->hosts, check_host, err) ||
                   check_list("headers", &e->headers, check_header, err) ||
                   check_value(e->value, err)
               ? -1
               : 0;
}

/* --- folders ---------------------------------------------------------------------------------- */

/* Opens a folder of ours, made if need be; -1 with TN_E_NOT_FOUND when there is none. */
static int open_folder(int above, const char *name, bool make, struct tn_error *err)
{
    if (make && mkdirat(above, name, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%.100s", name);
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? tn_fail_errno(err, errno, "%.100s", name) : fd;
}

static int open_all(const struct tn_safe *s, bool make, struct tn_error *err)
{
    tn_autofd int state = tn_fs_open(TN_FS_ANYWHERE, s->state, O_PATH | O_DIRECTORY, 0, err);

    return state < 0 ? -1 : open_folder(state, FOLDER, make, err);
}

static char *folder_of(const char *owner)
{
    return owner ? tn_asprintf("tenant-%s", owner) : tn_strdup("own");
}

static int open_owner(int all, const char *owner, bool make, struct tn_error *err)
{
    tn_autofree char *name = folder_of(owner);

    if (strchr(name, '/'))
        return tn_fail(err, TN_E_INVALID, "'%.80s' is no tenant", owner);
    return open_folder(all, name, make, err);
}

static char *about(const char *owner, const char *name)
{
    return owner ? tn_asprintf("tenant %s %s", owner, name) : tn_asprintf("own %s", name);
}

static int no_such(const char *name, struct tn_error *err)
{
    return tn_fail(err, TN_E_NOT_FOUND, "there is no secret %.64s (see: tendon secret list)", name);
}

struct names {
    char **items;
    size_t count;
};

static void names_done(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->items[i]);
    free(n->items);
}
#define autonames TN_CLEANUP(names_done)

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What is in the folder that `wanted` likes, by name. */
static int read_names(int folder, bool (*wanted)(const char *name), struct names *out,
                      struct tn_error *err)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);

    if (!dir) {
        tn_close(copy);
        return tn_fail_errno(err, errno, FOLDER);
    }
    for (struct dirent *d; (d = readdir(dir));)
        if (wanted(d->d_name)) {
            out->items = tn_realloc(out->items, (out->count + 1) * sizeof *out->items);
            out->items[out->count++] = tn_strdup(d->d_name);
        }
    closedir(dir);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_name);
    return 0;
}

static bool is_owner(const char *name)
{
    return strcmp(name, "own") == 0 || strncmp(name, "tenant-", 7) == 0;
}

/* Whether nobody has any: only then may a key be made. */
static bool is_empty(int all)
{
    autonames struct names owners = {0};

    if (read_names(all, is_owner, &owners, NULL) < 0)
        return false;
    for (size_t i = 0; i < owners.count; i++) {
        autonames struct names names = {0};
        tn_autofd int folder = open_folder(all, owners.items[i], false, NULL);
        if (folder < 0 || read_names(folder, tn_safe_is_name, &names, NULL) < 0 || names.count)
            return false;
    }
    return true;
}

/* --- keeping ---------------------------------------------------------------------------------- */

static int write_file(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *sealed = ctx;

    return tn_fs_write(fd, sealed->data, sealed->len, err);
}

static int seal_entry(const struct safe_key *key, const char *owner, const struct tn_safe_entry *e,
                      struct tn_buf *out, struct tn_error *err)
{
    tn_autokeyfile struct tn_buf plain = TN_BUF_INIT(FILE_MAX);
    tn_autofree char *what = about(owner, e->name);
    struct tn_jw w = tn_jw(&plain);

    tn_buf_reserve(&plain, FILE_MAX - 1); /* what it grew out of would not be wiped */
    tn_jw_object(&w);
    tn_fields_to_json(&tn_safe_fields, e, &w);
    tn_jw_object_end(&w);
    tn_buf_putc(&plain, '\n');
    tn_buf_puts(&plain, e->value);
    if (!tn_buf_ok(&plain))
        return tn_fail(err, TN_E_TOO_LARGE, "hosts and headers have more than %d KiB together",
                       TN_SAFE_ABOUT_MAX >> 10);
    return safe_seal(key, what, &plain, out, err);
}

static int check_count(int folder, const char *name, int64_t most, struct tn_error *err)
{
    autonames struct names names = {0};

    if (most <= 0 || faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (read_names(folder, tn_safe_is_name, &names, err) < 0)
        return -1;
    return names.count < (size_t)most
               ? 0
               : tn_fail(err, TN_E_CONFLICT, "there are %zu secrets, and may be no more",
                         names.count);
}

static int put_locked(const struct tn_safe *s, int all, const char *owner, struct tn_safe_entry *e,
                      int64_t most, struct tn_error *err)
{
    tn_autobuf struct tn_buf sealed = TN_BUF_INIT(FILE_MAX + 1024);
    autosafekey struct safe_key key;
    struct timespec now;

    tn_autofd int folder = open_owner(all, owner, true, err);
    if (folder < 0 || check_count(folder, e->name, most, err) < 0 ||
        safe_key_open(s, is_empty(all), &key, err) < 0)
        return -1;
    clock_gettime(CLOCK_REALTIME, &now);
    e->changed = (double)now.tv_sec;
    if (seal_entry(&key, owner, e, &sealed, err) < 0)
        return -1;
    return tn_fs_replace(folder, e->name, &(struct tn_fs_replace){.mode = 0600, .sync = true},
                         write_file, &sealed, err);
}

int tn_safe_put(const struct tn_safe *s, const char *owner, struct tn_safe_entry *e, int64_t most,
                struct tn_error *err)
{
    if (tn_safe_check(e, err) < 0)
        return -1;
    tn_autofd int all = open_all(s, true, err);
    int held = all < 0 ? -1 : tn_file_lock(all, tn_deadline_in(LOCK_SECONDS), err);
    if (held < 0)
        return -1;
    int r = put_locked(s, all, owner, e, most, err);
    tn_file_unlock(all, held);
    return r < 0 ? tn_error_context(err, "secret %.64s", e->name) : 0;
}

static int seal_locked(const struct tn_safe *s, int all, const char *what,
                       const struct tn_buf *plain, struct tn_buf *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf sealed = TN_BUF_INIT(plain->len + 1024);
    autosafekey struct safe_key key = {0};

    if (safe_key_open(s, is_empty(all), &key, err) < 0 ||
        safe_seal(&key, what, plain, &sealed, err) < 0)
        return -1;
    return tn_base64_encode(out, sealed.data, sealed.len)
               ? tn_fail(err, TN_E_TOO_LARGE, "there is too much to seal")
               : 0;
}

int tn_safe_seal(const struct tn_safe *s, const char *what, const struct tn_buf *plain,
                 struct tn_buf *out, struct tn_error *err)
{
    tn_autofd int all = open_all(s, true, err);
    int held = all < 0 ? -1 : tn_file_lock(all, tn_deadline_in(LOCK_SECONDS), err);

    if (held < 0)
        return -1;
    int r = seal_locked(s, all, what, plain, out, err);
    tn_file_unlock(all, held);
    return r;
}

int tn_safe_unseal(const struct tn_safe *s, const char *what, const char *sealed,
                   struct tn_buf *plain, struct tn_error *err)
{
    tn_autobuf struct tn_buf raw = TN_BUF_INIT(strlen(sealed) + 1);
    autosafekey struct safe_key key = {0};

    return tn_base64_decode(&raw, sealed, strlen(sealed), err) < 0 ||
                   safe_key_open(s, false, &key, err) < 0 ||
                   safe_unseal(&key, what, &raw, plain, err) < 0
               ? -1
               : 0;
}

/* --- looking ---------------------------------------------------------------------------------- */

static int take_plain(const char *name, const struct tn_buf *plain, struct tn_safe_entry *out,
                      struct tn_error *err)
{
    const char *line = tn_buf_str(plain), *end = memchr(line, '\n', plain->len);
    tn_autojson struct tn_json *json = NULL;

    if (!end || tn_json_parse(line, (size_t)(end - line), &json, err) < 0 ||
        tn_fields_from_json(&tn_safe_fields, out, json, err) < 0)
        return tn_fail(err, TN_E_INTERNAL, "what is sealed is none of ours");
    out->name = tn_strdup(name);
    out->value = tn_strndup(end + 1, plain->len - (size_t)(end + 1 - line));
    return 0;
}

static int open_entry(int folder, const struct safe_key *key, const char *owner, const char *name,
                      struct tn_safe_entry *out, struct tn_error *err)
{
    tn_autokeyfile struct tn_buf plain = TN_BUF_INIT(FILE_MAX + 1024);
    tn_autobuf struct tn_buf sealed = TN_BUF_INIT(FILE_MAX + 1024);
    tn_autofree char *what = about(owner, name);
    struct tn_error why = {0};

    *out = (struct tn_safe_entry){0};
    if (tn_fs_read(folder, name, &sealed, &why) < 0) {
        if (why.code == TN_E_NOT_FOUND)
            return no_such(name, err);
        if (err)
            *err = why;
        return -1;
    }
    if (safe_unseal(key, what, &sealed, &plain, err) < 0 ||
        take_plain(name, &plain, out, err) < 0) {
        tn_safe_entry_done(out);
        return tn_error_context(err, "secret %.64s", name);
    }
    return 0;
}

int tn_safe_get(const struct tn_safe *s, const char *owner, const char *name,
                struct tn_safe_entry *out, struct tn_error *err)
{
    autosafekey struct safe_key key;

    *out = (struct tn_safe_entry){0};
    if (check_name(name, err) < 0)
        return -1;
    tn_autofd int all = open_all(s, false, NULL);
    tn_autofd int folder = all < 0 ? -1 : open_owner(all, owner, false, NULL);
    if (folder < 0 || faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return no_such(name, err);
    if (safe_key_open(s, false, &key, err) < 0)
        return tn_error_context(err, "secret %.64s", name);
    return open_entry(folder, &key, owner, name, out, err);
}

int tn_safe_each(const struct tn_safe *s, const char *owner, tn_safe_fn fn, void *ctx,
                 struct tn_error *err)
{
    autosafekey struct safe_key key;
    autonames struct names names = {0};
    int r = 0;

    tn_autofd int all = open_all(s, false, NULL);
    tn_autofd int folder = all < 0 ? -1 : open_owner(all, owner, false, NULL);
    if (folder < 0)
        return 0;
    if (read_names(folder, tn_safe_is_name, &names, err) < 0 ||
        (names.count && safe_key_open(s, false, &key, err) < 0))
        return -1;
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        tn_autosafeentry struct tn_safe_entry e = {0};
        struct tn_error why = {0};
        if (open_entry(folder, &key, owner, names.items[i], &e, &why) < 0) {
            if (why.code == TN_E_NOT_FOUND) /* removed meanwhile */
                continue;
            if (err)
                *err = why;
            return -1;
        }
        explicit_bzero(e.value, strlen(e.value));
        free(TN_TAKE_PTR(e.value));
        r = fn(&e, ctx);
    }
    return r;
}

static int remove_locked(int all, const char *owner, const char *name, struct tn_error *err)
{
    tn_autofree char *above = folder_of(owner);
    tn_autofd int folder = open_owner(all, owner, false, NULL);

    if (folder < 0 || (unlinkat(folder, name, 0) < 0 && errno == ENOENT))
        return no_such(name, err);
    if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return tn_fail(err, TN_E_INTERNAL, "secret %.64s cannot be removed", name);
    if (fsync(folder) < 0)
        return tn_fail_errno(err, errno, "secret %.64s", name);
    unlinkat(all, above, AT_REMOVEDIR); /* if that was the last */
    return 0;
}

int tn_safe_remove(const struct tn_safe *s, const char *owner, const char *name,
                   struct tn_error *err)
{
    if (check_name(name, err) < 0)
        return -1;
    tn_autofd int all = open_all(s, false, NULL);
    if (all < 0)
        return no_such(name, err);
    int held = tn_file_lock(all, tn_deadline_in(LOCK_SECONDS), err);
    if (held < 0)
        return -1;
    int r = remove_locked(all, owner, name, err);
    tn_file_unlock(all, held);
    return r;
}
