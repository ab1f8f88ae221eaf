/* What git says about the workspace, with plain git commands; bytes travel as base64, so that any
 * name and any content survives the terminal. */
#include "base/base64.h"
#include "runtime/setup/session-impl.h"

#define SECONDS 60.0
#define COMMAND_MAX (1u << 20)
#define BYTES_MAX (16u << 20)
#define FILE_MAX (1u << 20) /* what a person would look at as a difference */

enum {
    TOO_LARGE = 91,
    NO_REPOSITORY = 92,
};

/* Sets $r to what the working tree is compared with: the branch of the same name at origin, else
 * where this one left origin's main branch, else that branch itself, else nothing at all (the empty
 * tree).  Asks nobody over the network. */
static const char find_base[] =
    "base() { b=$(git symbolic-ref -q --short HEAD) || b=\n"
    "m=$(git symbolic-ref -q --short refs/remotes/origin/HEAD) || m=\n"
    "[ -n \"$m\" ] || for m in origin/main origin/master; do\n"
    "git rev-parse -q --verify \"$m^{commit}\" >/dev/null && break; m=; done\n"
    "r=\n"
    "if [ -n \"$b\" ]; then r=$(git rev-parse -q --verify \"refs/remotes/origin/$b^{commit}\"); fi\n"
    "if [ -z \"$r\" ] && [ -n \"$m\" ]; then r=$(git merge-base HEAD \"$m\") ||\n"
    "r=$(git rev-parse -q --verify \"$m^{commit}\"); fi\n"
    "[ -n \"$r\" ] || r=$(git hash-object -t tree /dev/null); }\n"
    "export GIT_OPTIONAL_LOCKS=0 GIT_PAGER=cat LC_ALL=C; exec 2>/dev/null </dev/null\n"
    "command -v git >/dev/null || exit 127\n";

/* A command that is one word for the shell of the sandbox and a whole script for the one it starts.
 */
static int run_script(struct tn_session *s, const char *cwd, const char *script,
                      const char *argument, struct tn_buf *out, bool bytes, struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX);
    tn_autofree char *path = session_path(s, cwd), *text = tn_asprintf("%s%s", find_base, script);

    tn_buf_puts(&command, "sh -c ");
    setup_put_quoted(&command, text);
    tn_buf_puts(&command, " sh ");
    setup_put_quoted(&command, argument ? argument : "");
    if (!tn_buf_ok(&command))
        return tn_fail(err, TN_E_TOO_LARGE, "the path is too long");
    const struct setup_command c = {.text = tn_buf_str(&command), .cwd = path, .timeout = SECONDS};
    int status = (bytes ? setup_run_bytes : setup_run)(&s->executor, &c, out, err);
    if (status == 127)
        return tn_fail(err, TN_E_UNSUPPORTED, "there is no git in the sandbox");
    return status;
}

/* --- changes ------------------------------------------------------------------------------ */

/* For each repository: its directory, pairs of status and path, an empty word, new paths, an empty
 * word; every word ends with NUL. */
static const char list_changes[] =
    "one() { base; printf '%s\\0' \"$1\"\n"
    "git diff --name-status --no-renames --no-ext-diff -z \"$r\" --; printf '\\0'\n"
    "git ls-files -z --others --exclude-standard; printf '\\0'; }\n"
    "{ if git rev-parse -q --git-dir >/dev/null; then one .; fi\n"
    "for g in ./*/.git; do [ -e \"$g\" ] || continue; d=${g%/.git}\n"
    "( cd \"$d\" && one \"${d#./}\" ); done; }" SETUP_TO_BASE64;

struct change {
    char status;
    char *path;
};

struct changes {
    struct change *items;
    size_t count;
    char **nested; /* repositories below, with '/' at the end */
    size_t nested_count;
};

static void changes_done(struct changes *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].path);
    for (size_t i = 0; i < c->nested_count; i++)
        free(c->nested[i]);
    free(c->items);
    free(c->nested);
}

static void add_change(struct changes *c, char status, const char *directory, const char *path)
{
    bool top = strcmp(directory, ".") == 0;

    c->items = tn_realloc(c->items, (c->count + 1) * sizeof *c->items);
    c->items[c->count++] = (struct change){
        .status = strchr("MADU", status) ? status : 'M',
        .path = top ? tn_strdup(path) : tn_asprintf("%s/%s", directory, path),
    };
}

/* The next word, or NULL at the end; the bytes end with NUL. */
static const char *next_word(const char **at, const char *end)
{
    const char *word = *at;

    if (word >= end)
        return NULL;
    const char *nul = memchr(word, '\0', (size_t)(end - word));
    *at = nul ? nul + 1 : end;
    return word;
}

static void read_changes(const struct tn_buf *bytes, struct changes *c)
{
    const char *at = tn_buf_str(bytes), *end = at + bytes->len, *directory, *word, *path;

    while ((directory = next_word(&at, end))) {
        if (strcmp(directory, ".") != 0) {
            c->nested = tn_realloc(c->nested, (c->nested_count + 1) * sizeof *c->nested);
            c->nested[c->nested_count++] = tn_asprintf("%s/", directory);
        }
        while ((word = next_word(&at, end)) && *word && (path = next_word(&at, end)))
            add_change(c, *word, directory, path);
        while ((word = next_word(&at, end)) && *word)
            add_change(c, 'A', directory, word);
    }
}

/* To the repository above, one below is a directory it does not know. */
static bool is_nested(const struct changes *c, const char *path)
{
    for (size_t i = 0; i < c->nested_count; i++)
        if (strcmp(c->nested[i], path) == 0)
            return true;
    return false;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

int tn_session_git_changes(struct tn_session *s, const char *cwd, struct tn_buf *json,
                           struct tn_error *err)
{
    TN_CLEANUP(changes_done) struct changes c = {0};
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(BYTES_MAX);
    struct tn_jw w = tn_jw(json);
    int status = run_script(s, cwd, list_changes, NULL, &bytes, true, err);

    if (status != 0)
        return status < 0 ? -1 : tn_fail(err, TN_E_INTERNAL, "git: exit status %d", status);
    read_changes(&bytes, &c);
    if (c.count)
        qsort(c.items, c.count, sizeof *c.items, by_path);
    tn_jw_array(&w);
    for (size_t i = 0; i < c.count; i++) {
        if (is_nested(&c, c.items[i].path))
            continue;
        tn_jw_object(&w);
        tn_jw_kstr(&w, "status", (char[]){c.items[i].status, '\0'});
        tn_jw_kstr(&w, "path", c.items[i].path);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    return tn_buf_ok(json) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "too many changes");
}

/* --- one file ----------------------------------------------------------------------------- */

/* $1 is the file.  Prints the original and the modified one, each in a line of base64. */
static const char show_file[] =
    "f=$1; case $f in /*) ;; *) f=$PWD/$f;; esac; d=${f%/*}; n=${f##*/}\n"
    "while [ ! -d \"$d\" ] && [ -n \"$d\" ]; do n=${d##*/}/$n; d=${d%/*}; done\n"
    "cd \"${d:-/}\" && git rev-parse -q --is-inside-work-tree >/dev/null || exit 92; base\n"
    "s=$(git cat-file -s \"$r:./$n\") || s=0; [ -f \"$n\" ] && t=$(wc -c <\"$n\") || t=0\n"
    "[ \"$s\" -le 1048576 ] && [ \"$t\" -le 1048576 ] || exit 91\n"
    "git cat-file blob \"$r:./$n\"" SETUP_TO_BASE64
    "; echo :; [ -f \"$n\" ] && cat -- \"$n\"" SETUP_TO_BASE64 "; true";

static int write_side(struct tn_jw *w, const char *key, const char *text, size_t n,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf encoded = TN_BUF_INIT(2 * FILE_MAX),
                             bytes = TN_BUF_INIT(FILE_MAX + 16);

    for (size_t i = 0; i < n; i++)
        if (!strchr(" \r\n\t", text[i]))
            tn_buf_putc(&encoded, text[i]);
    if (!tn_buf_ok(&encoded) ||
        tn_base64_decode(&bytes, tn_buf_str(&encoded), encoded.len, err) < 0)
        return tn_error_context(err, "what the sandbox sent");
    tn_jw_key(w, key);
    tn_jw_strn(w, tn_buf_str(&bytes), bytes.len);
    return 0;
}

int tn_session_git_diff(struct tn_session *s, const char *file, const char *cwd,
                        struct tn_buf *json, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4 * FILE_MAX);
    struct tn_jw w = tn_jw(json);
    int status = run_script(s, cwd, show_file, file, &text, false, err);
    const char *colon = memchr(tn_buf_str(&text), ':', text.len);

    if (status == TOO_LARGE)
        return tn_fail(err, TN_E_TOO_LARGE, "%.120s is larger than %u MiB", file, FILE_MAX >> 20);
    if (status == NO_REPOSITORY)
        return tn_fail(err, TN_E_NOT_FOUND, "%.120s is in no git repository", file);
    if (status != 0)
        return status < 0 ? -1 : tn_fail(err, TN_E_INTERNAL, "git: exit status %d", status);
    if (!colon)
        return tn_fail(err, TN_E_PEER, "what the sandbox sent is no difference");
    size_t n = (size_t)(colon - text.data);
    tn_jw_object(&w);
    if (write_side(&w, "modified", colon + 1, text.len - n - 1, err) < 0 ||
        write_side(&w, "original", text.data, n, err) < 0)
        return -1;
    tn_jw_object_end(&w);
    return tn_buf_ok(json) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "the difference is too large");
}

/* --- the branch --------------------------------------------------------------------------- */

char *tn_session_git_branch(struct tn_session *s, const char *cwd, struct tn_error *err)
{
    tn_autobuf struct tn_buf name = TN_BUF_INIT(4096);
    int status =
        run_script(s, cwd, "git symbolic-ref -q --short HEAD || exit 92", NULL, &name, false, err);

    while (name.len > 0 && strchr(" \r\n", name.data[name.len - 1]))
        tn_buf_cut(&name, name.len - 1);
    if (status == 0 && name.len > 0)
        return tn_buf_take(&name);
    if (status >= 0)
        tn_fail(err, TN_E_NOT_FOUND, "no branch is checked out");
    return NULL;
}
