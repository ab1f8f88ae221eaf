/* Fetching microagents out of a sandbox: one command for all files of a directory. */
#include "runtime/setup/session-impl.h"

#define SECONDS 60.0
#define COMMAND_MAX (1u << 20)
#define BYTES_MAX (16u << 20)
#define FILES_MAX 500
#define FOLDER ".openhands/microagents"

/* $1 is the repository, $2 the folder of microagents in it, $3 the workspace.  With $4, a URL, it
 * is cloned first, with $5 as configuration, into a directory that does not outlive the command.
 * Each file is a kind (m: microagent, r: file of the root, l: legacy), its path, its size and its
 * bytes.
 */
static const char fetch[] =
    "exec 2>/dev/null </dev/null; export LC_ALL=C GIT_TERMINAL_PROMPT=0\n"
    "put() { k=$1; shift; for f; do [ -f \"$f\" ] && [ -r \"$f\" ] || continue\n"
    "s=$(wc -c <\"$f\"); [ $s -le 1048576 ] || continue\n"
    "printf '%s\\0%s\\0%d\\0' \"$k\" \"$f\" $s; head -c $s -- \"$f\"; done; }\n"
    "if [ -n \"$4\" ]; then t=$(mktemp -d) || exit 0; trap 'rm -rf \"$t\"' EXIT\n"
    "set -- \"$t/r\" \"$2\" \"$3\" \"$4\" \"$5\"\n"
    "git ${5:+-c \"$5\"} clone -q --depth 1 -- \"$4\" \"$1\" >/dev/null || exit 0; fi\n"
    "{ cd \"$1\" || exit 0\n"
    "if [ -d \"$2\" ]; then ( cd \"$2\" && find . -type f -name '*.md' ! -name README.md | sort |\n"
    "while IFS= read -r f; do put m \"${f#./}\"; done ); fi\n"
    "[ -z \"$4\" ] || exit 0\n"
    "put r .cursorrules; for f in AGENTS.md agents.md AGENT.md agent.md; do\n"
    "if [ -f $f ]; then put r $f; break; fi; done\n"
    "if [ -f \"$3/.openhands_instructions\" ]; then put l \"$3/.openhands_instructions\"\n"
    "else put l .openhands_instructions; fi; }" SETUP_TO_BASE64;

/* from: where to clone it from; NULL: it is there. */
static int run_fetch(struct tn_session *s, const char *directory, const char *folder,
                     const struct git_place *from, struct tn_buf *bytes, struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX);
    tn_autofree char *helper =
        from && from->helper ? tn_asprintf("%s=%s", from->helper_key, from->helper) : NULL;
    const char *const arguments[] = {
        fetch, "sh", directory, folder, s->workspace, from ? from->url : "", helper ? helper : ""};

    if (from) /* not as an argument: others could read it there */
        git_put_token_assignment(from, &command);
    tn_buf_puts(&command, " sh -c");
    for (size_t i = 0; i < TN_COUNT(arguments); i++) {
        tn_buf_putc(&command, ' ');
        setup_put_quoted(&command, arguments[i]);
    }
    const struct setup_command c = {.text = tn_buf_str(&command), .cwd = "/", .timeout = SECONDS};
    int status = setup_run_bytes(&s->executor, &c, bytes, err);
    if (command.data)
        explicit_bzero(command.data, command.len);
    return status > 0 ? tn_fail(err, TN_E_INTERNAL, "microagents: exit status %d", status) : status;
}

/* --- files -------------------------------------------------------------------------------- */

/* What a file of the root is called, by its own name in lower case. */
static char *root_name(const char *file)
{
    return tn_strdup(strcmp(file, ".cursorrules") == 0 ? "cursorrules" : "agents");
}

static char *name_of(char kind, const char *file)
{
    size_t n = strlen(file);

    if (kind == 'l')
        return tn_strdup("repo_legacy");
    if (kind == 'r')
        return root_name(file);
    return tn_strndup(file, n > 3 && strcmp(file + n - 3, ".md") == 0 ? n - 3 : n);
}

struct cursor {
    const char *at, *end;
};

static const char *take_word(struct cursor *c)
{
    const char *word = c->at;
    const char *nul = word < c->end ? memchr(word, '\0', (size_t)(c->end - word)) : NULL;

    if (nul)
        c->at = nul + 1;
    return nul ? word : NULL;
}

/* What the sandbox says about itself may be anything; whatever does not fit ends the list. */
static void read_files(struct tn_session *s, const struct tn_buf *bytes, const char *prefix,
                       struct tn_microagents *out)
{
    struct cursor c = {.at = tn_buf_str(bytes), .end = tn_buf_str(bytes) + bytes->len};

    for (int files = 0; files < FILES_MAX && c.at < c.end; files++) {
        const char *kind = take_word(&c), *file = take_word(&c), *size = take_word(&c);
        char *end = NULL;
        unsigned long n = size ? strtoul(size, &end, 10) : 0;
        struct tn_error err = {0};
        if (!size || *end || n > (size_t)(c.end - c.at))
            return;
        tn_autofree char *name = name_of(*kind, file);
        tn_autofree char *source = tn_asprintf("%s%s", *kind == 'm' ? prefix : "", file);
        if (tn_microagents_add(out, name, source, c.at, n, &err) < 0)
            session_note(s, "a microagent is left out: %s", err.text);
        c.at += n;
    }
}

/* --- those of the owner ------------------------------------------------------------------- */

static void load_shared(struct tn_session *s, const struct tn_repository *repository,
                        struct tn_microagents *out)
{
    autotokens struct git_tokens tokens = session_tokens(s);
    autoplace struct git_place own = {0}, shared = {0};
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(BYTES_MAX);

    if (git_place_find(&own, repository->name, repository->provider, tokens.items, tokens.count,
                       NULL) < 0)
        return;
    tn_autofree char *owner = git_owner(&own, repository->name);
    if (!owner)
        return;
    tn_autofree char *name = git_owner_repository(own.provider, owner);
    if (git_place_find(&shared, name, own.provider, tokens.items, tokens.count, NULL) == 0 &&
        run_fetch(s, "", "microagents", &shared, &bytes, NULL) == 0)
        read_files(s, &bytes, "microagents/", out);
}

/* The MCP servers that they bring; those of the list before `from` are known. */
static void add_tools(struct tn_session *s, const struct tn_microagents *list, size_t from)
{
    for (size_t i = from; s->toolbox && i < list->count; i++) {
        struct tn_error err = {0};
        if (list->items[i].mcp_tools &&
            tn_toolbox_add_microagent(s->toolbox, list->items[i].mcp_tools, &err) < 0)
            session_note(s, "the MCP servers of the microagent %s are left out: %s",
                         list->items[i].name, err.text);
    }
}

int tn_session_microagents(struct tn_session *s, const struct tn_repository *repository,
                           const char *directory, struct tn_microagents *out, struct tn_error *err)
{
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(BYTES_MAX);
    tn_autofree char *path = session_path(s, directory);
    size_t known = out->count;

    if (repository && repository->name && *repository->name)
        load_shared(s, repository, out);
    int result = run_fetch(s, path, FOLDER, NULL, &bytes, err);
    if (result == 0)
        read_files(s, &bytes, FOLDER "/", out);
    add_tools(s, out, known);
    return result;
}
