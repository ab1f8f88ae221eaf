/* Python that runs what others say: the findings that a linter for security has. */
#include <ctype.h>

#include "security/policy/detect.h"

/* A call, and words behind it in the same statement that make it one (or keep it from being one).
 */
static const struct {
    const char *call;
    const char *with, *without;
    const char *kind, *text;
} rows[] = {
    {"eval(", NULL, "eval('", "eval", "runs a text as a program"},
    {"exec(", NULL, "exec('", "eval", "runs a text as a program"},
    {"os.system(", NULL, NULL, "shell", "gives a text to a shell"},
    {"os.popen(", NULL, NULL, "shell", "gives a text to a shell"},
    {"subprocess.", "shell=True", NULL, "shell", "gives a text to a shell"},
    {"pickle.load", NULL, NULL, "deserialize", "builds objects from a file, which may run code"},
    {"marshal.load", NULL, NULL, "deserialize", "builds objects from a file, which may run code"},
    {"yaml.load(", NULL, "Safe", "deserialize", "builds objects from a file, which may run code"},
    {"requests.", "verify=False", NULL, "tls", "does not ask who answers"},
    {"ssl._create_unverified_context(", NULL, NULL, "tls", "does not ask who answers"},
    {"tempfile.mktemp(", NULL, NULL, "temporary", "a temporary file that others can guess"},
    {"hashlib.md5(", "password", NULL, "hash", "a password behind a weak hash"},
    {"hashlib.sha1(", "password", NULL, "hash", "a password behind a weak hash"},
};

/* Blanks comments and the inside of strings, so that words in them are not taken for code. */
static char *bare_code(struct scene *s, const char *text, size_t n)
{
    char *copy = tn_arena_copy(s->pool, text, n);
    char quote = 0;

    for (size_t i = 0; i < n; i++) {
        if (quote && text[i] == '\\' && i + 1 < n) {
            copy[i] = copy[i + 1] = ' ';
            i++;
        } else if (quote) {
            if (text[i] == quote || text[i] == '\n')
                quote = 0;
            else
                copy[i] = ' ';
        } else if (text[i] == '"' || text[i] == '\'') {
            quote = text[i];
            copy[i] = '\'';
        } else if (text[i] == '#') {
            while (i < n && text[i] != '\n')
                copy[i++] = ' ';
        }
    }
    return copy;
}

static void look(struct scene *s)
{
    const char *text =
        s->action && s->action->type == TN_ACTION_RUN_IPYTHON ? s->action->run_ipython.code : NULL;

    if (!text)
        return;
    char *code = bare_code(s, text, strlen(text));
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        for (char *at = code; (at = strstr(at, rows[i].call)); at++) {
            size_t n = strcspn(at, "\n");
            bool own = at == code || !(isalnum((unsigned char)at[-1]) || strchr("_.", at[-1]));
            tn_autofree char *line = tn_strndup(at, n);
            if (own && (!rows[i].with || strstr(line, rows[i].with)) &&
                (!rows[i].without || !strstr(line, rows[i].without))) {
                scene_add_sign(s, rows[i].kind, rows[i].text, NULL,
                               (struct part){"args.code", text + (at - code), n});
                break;
            }
        }
    }
}

const struct detector detect_python = {
    .name = "python",
    .about = "Python that runs texts of others: eval, a shell, pickle, TLS without a check",
    .kinds = "eval shell deserialize tls temporary hash",
    .look = look,
};
