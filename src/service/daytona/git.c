/* Git of the toolbox: each call is a run of the sandbox's own git.
 *
 * The words of a row become its arguments, after -C and the path, if there is one:
 *   $name:prefix   the member of that name of body or query, which must be there
 *   ?name:prefix   likewise, if it is there
 *   %name:text     likewise, or else that text
 *   !name:option   the option, if that member is true
 *   @names         each of a list
 *   +              at the beginning: without -C
 *   ;              the next run begins
 * Others are themselves. */
#include "service/daytona/daytona.h"

struct git {
    struct daytona_call *c;
    struct tn_json *body;
    char *path, *login;          /* login: what a credential helper says; or NULL */
    struct tn_process_spec spec; /* its args alone */
    struct daytona_done done;
};

static void end(struct git *g)
{
    tn_json_free(g->body);
    free(g->path);
    if (g->login)
        explicit_bzero(g->login, strlen(g->login));
    free(g->login);
    tn_process_spec_done(&g->spec);
    daytona_done_end(&g->done);
}
#define autogit TN_CLEANUP(end)

/* On the heap; NULL: it is not there. */
static char *value_of(const struct git *g, const char *name)
{
    const struct tn_json *v = tn_json_get(g->body, name);
    const char *text = g->body ? tn_json_str(v, NULL) : tn_http_query(g->c->x, name);

    if (tn_json_type(v) == TN_JSON_INT)
        return tn_asprintf("%lld", (long long)tn_json_int(v, 0));
    return text && *text ? tn_strdup(text) : NULL;
}

static void add(struct git *g, const char *before, const char *text)
{
    tn_autofree char *word = tn_asprintf("%s%s", before, text);

    surface_add_arg(&g->spec.args, word);
}

/* -1: answered. */
static int add_word(struct git *g, const char *word)
{
    tn_autofree char *name = tn_strndup(word + 1, strcspn(word + 1, ":"));
    const char *more = word[1 + strlen(name)] ? word + 2 + strlen(name) : "";

    if (!strchr("$?%!@", *word)) {
        add(g, word, "");
    } else if (*word == '!') {
        if (tn_json_bool(tn_json_get(g->body, name), false))
            add(g, more, "");
    } else if (*word == '@') {
        const struct tn_json *list = tn_json_get(g->body, name);
        for (size_t i = 0; i < tn_json_count(list); i++)
            if (tn_json_str(tn_json_at(list, i), NULL))
                add(g, tn_json_str(tn_json_at(list, i), NULL), "");
    } else {
        tn_autofree char *value =
            strcmp(name, "path") == 0 && g->path ? tn_strdup(g->path) : value_of(g, name);
        if (!value && *word == '$')
            return daytona_fail(g->c->x, 400, NULL, "%s: expected a text", name);
        if (value)
            add(g, *word == '%' ? "" : more, value);
        else if (*word == '%')
            add(g, more, "");
    }
    return 0;
}

static int add_words(struct git *g, const char *words)
{
    bool anywhere = *words == '+';

    surface_add_arg(&g->spec.args, "git");
    if (!anywhere && g->path) {
        surface_add_arg(&g->spec.args, "-C");
        surface_add_arg(&g->spec.args, g->path);
    }
    for (words += anywhere; *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " ");
        tn_autofree char *word = tn_strndup(words, n);
        if (add_word(g, word))
            return -1;
        words += n;
    }
    return 0;
}

/* --- what came of it ------------------------------------------------------------------------- */

/* Clients have classes of errors by these words; git has only sentences. */
static int refuse(struct git *g)
{
    static const struct {
        const char *said;
        int status;
        const char *word;
    } rows[] = {
        {"Authentication failed", 401, "GIT_AUTH_FAILED"},
        {"could not read Username", 401, "GIT_AUTH_FAILED"},
        {"could not read Password", 401, "GIT_AUTH_FAILED"},
        {"not a git repository", 404, "GIT_REPO_NOT_FOUND"},
        {"cannot change to", 404, "GIT_REPO_NOT_FOUND"},
        {"repository not found", 404, "GIT_REPO_NOT_FOUND"},
        {"does not appear to be a git repository", 404, "GIT_REPO_NOT_FOUND"},
        {"[rejected]", 409, "GIT_PUSH_REJECTED"},
        {"[remote rejected]", 422, "GIT_REMOTE_REJECTED"},
        {"CONFLICT", 409, "GIT_MERGE_CONFLICT"},
        {"would be overwritten", 409, "GIT_DIRTY_WORKTREE"},
        {"a branch named", 409, "GIT_BRANCH_EXISTS"},
        {"did not match any file", 404, "GIT_BRANCH_NOT_FOUND"},
        {"invalid reference", 404, "GIT_BRANCH_NOT_FOUND"},
        {"Remote branch", 404, "GIT_BRANCH_NOT_FOUND"},
        {"branch '", 404, "GIT_BRANCH_NOT_FOUND"},
        {"already exists", 409, "CONFLICT"},
        {"unable to access", 502, "GIT_TRANSPORT_FAILED"},
        {"Could not read from remote", 502, "GIT_TRANSPORT_FAILED"},
    };
    const char *text = tn_buf_str(&g->done.both);
    size_t i = 0;

    while (i < TN_COUNT(rows) && !strstr(text, rows[i].said))
        i++;
    return i < TN_COUNT(rows)
               ? daytona_fail(g->c->x, rows[i].status, rows[i].word, "%.800s", text)
               : daytona_fail(g->c->x, 400, NULL, "%.800s", *text ? text : "git has failed");
}

/* Runs it; an end with that code is good, too.  -1: answered. */
static int run(struct git *g, int64_t also)
{
    struct tn_str_list *args = &g->spec.args;

    args->items = tn_realloc(args->items, (args->count + 1) * sizeof *args->items);
    args->items[args->count] = NULL;
    daytona_done_end(&g->done);
    g->done = (struct daytona_done)DAYTONA_DONE(g->c->x);
    g->done.apart = true;
    int failed = daytona_run(g->c, (const char *const *)args->items, g->login, &g->done);
    tn_process_spec_done(&g->spec);
    g->spec = (struct tn_process_spec){0};
    if (failed)
        return -1;
    return g->done.exit_code == 0 || g->done.exit_code == also ? 0 : refuse(g);
}

/* Runs those words, one step (up to a semicolon) after the other.  -1: answered. */
static int run_words(struct git *g, const char *words, int64_t also)
{
    for (const char *at = words; *at; at += strspn(at, "; ")) {
        size_t n = strcspn(at, ";");
        tn_autofree char *step = tn_strndup(at, n);
        if (add_words(g, step) || run(g, also))
            return -1;
        at += n;
    }
    return 0;
}

/* --- logins ---------------------------------------------------------------------------------- */

/* A login goes to the helper through a pipe, so that it is in no argument, file or journal, and
 * only for the place that it was given for.  -1: answered. */
static int add_login(struct git *g, const char *url)
{
    static const char wrapper[] = "exec \"$@\" 3<&0 </dev/null";
    tn_autofree char *user = value_of(g, "username"), *password = value_of(g, "password");
    const char *host = strstr(url, "://");
    size_t n = host ? strcspn(host + 3, "/\n") : 0;

    if (!user && !password)
        return 0;
    if (!n || strpbrk(user ? user : "", "\n") || strpbrk(password ? password : "", "\n"))
        return daytona_fail(g->c->x, 400, NULL, "a login needs a URL of http or https");
    const char *at = memrchr(host + 3, '@', n);
    tn_autofree char *place =
        tn_asprintf("credential.%.*s%.*s.helper=!f() { cat <&3; }; f", (int)(host + 3 - url), url,
                    (int)(at ? n - (size_t)(at + 1 - host - 3) : n), at ? at + 1 : host + 3);
    const char *const words[] = {
        "sh", "-c", wrapper, "sh", "git", "-c", "credential.helper=", "-c", place};
    for (size_t i = 0; i < TN_COUNT(words); i++)
        surface_add_arg(&g->spec.args, words[i]);
    g->login =
        tn_asprintf("username=%s\npassword=%s\n", user ? user : "", password ? password : "");
    if (password)
        explicit_bzero(password, strlen(password));
    return 0;
}

/* Where the remote is that is meant; NULL: answered. */
static char *remote_url(struct git *g)
{
    if (run_words(g, "remote get-url -- %remote:origin", 0))
        return NULL;
    const char *text = tn_buf_str(&g->done.out);
    return tn_strndup(text, strcspn(text, "\n"));
}

/* --- calls ----------------------------------------------------------------------------------- */

/* -1: answered. */
static int begin(struct git *g)
{
    bool reads = strcmp(tn_http_method(g->c->x), "GET") == 0;

    if (!reads && surface_body(g->c->x, DAYTONA_BODY_MAX, &g->body))
        return -1;
    tn_autofree char *given = value_of(g, "path");
    g->path = given ? surface_path(g->c->home, given) : NULL;
    return 0;
}

static void change(struct daytona_call *c)
{
    autogit struct git g = {.c = c};

    if (begin(&g) == 0 && run_words(&g, c->row->words, 0) == 0)
        tn_http_reply(c->x, 200, NULL, NULL, 0);
}

/* Those that go to another machine, with a login perhaps: the words begin after git's own. */
static void with_login(struct daytona_call *c)
{
    autogit struct git g = {.c = c};

    if (begin(&g))
        return;
    bool logs_in =
        tn_json_get_str(g.body, "username", NULL) || tn_json_get_str(g.body, "password", NULL);
    tn_autofree char *given = value_of(&g, "url");
    tn_autofree char *url = given ? tn_strdup(given) : logs_in ? remote_url(&g) : tn_strdup("");
    if (!url)
        return;
    if (tn_json_bool(tn_json_get(g.body, "insecure_skip_tls"), false)) {
        surface_add_arg(&g.spec.args, "env");
        surface_add_arg(&g.spec.args, "GIT_SSL_NO_VERIFY=true");
    }
    if (add_login(&g, url))
        return;
    size_t before = g.spec.args.count;
    if (add_words(&g, c->row->words))
        return;
    if (g.login) { /* the first word is there already */
        free(g.spec.args.items[before]);
        memmove(g.spec.args.items + before, g.spec.args.items + before + 1,
                (--g.spec.args.count - before) * sizeof *g.spec.args.items);
    }
    if (run(&g, 0))
        return;
    if (tn_json_get_str(g.body, "commit_id", NULL) &&
        run_words(&g, "checkout --detach $commit_id --", 0))
        return;
    tn_http_reply(c->x, 200, NULL, NULL, 0);
}

static void add_remote(struct daytona_call *c)
{
    autogit struct git g = {.c = c};

    if (begin(&g))
        return;
    if (tn_json_bool(tn_json_get(g.body, "overwrite"), false) &&
        run_words(&g, "remote remove -- $name", 2))
        return;
    if (run_words(&g, c->row->words, 0) == 0)
        tn_http_reply(c->x, 201, NULL, NULL, 0);
}

/* For every git of the sandbox from now on; in its home, as the vendor has it. */
static void post_credentials(struct daytona_call *c)
{
    autogit struct git g = {.c = c};

    if (begin(&g) || run_words(&g, "+config --global credential.helper store", 0))
        return;
    tn_autofree char *user = value_of(&g, "username"), *password = value_of(&g, "password");
    tn_autofree char *host = value_of(&g, "host"), *protocol = value_of(&g, "protocol");
    g.login = tn_asprintf("protocol=%s\nhost=%s\nusername=%s\npassword=%s\n\n",
                          protocol ? protocol : "https", host ? host : "github.com",
                          user ? user : "", password ? password : "");
    if (password)
        explicit_bzero(password, strlen(password));
    if (run_words(&g, "+credential approve", 0) == 0)
        tn_http_reply(c->x, 200, NULL, NULL, 0);
}

/* --- answers --------------------------------------------------------------------------------- */

/* Runs the words of its row and answers with what put makes of the output; an end with that code is
 * good, too. */
static void show(struct daytona_call *c, int64_t also,
                 void (*put)(const struct daytona_done *done, struct tn_jw *w))
{
    autogit struct git g = {.c = c};
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, 2 * DAYTONA_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);

    if (begin(&g) || run_words(&g, c->row->words, also))
        return;
    put(&g.done, &w);
    tn_http_reply_json(c->x, 200, &json);
}

static void put_hash(const struct daytona_done *done, struct tn_jw *w)
{
    const char *text = tn_buf_str(&done->out);

    tn_jw_object(w);
    tn_jw_key(w, "hash");
    tn_jw_strn(w, text, strcspn(text, "\n"));
    tn_jw_object_end(w);
}

static void commit(struct daytona_call *c)
{
    show(c, 0, put_hash);
}

static void get_status(struct daytona_call *c)
{
    show(c, 0, daytona_git_status);
}

static void get_branches(struct daytona_call *c)
{
    show(c, 0, daytona_git_branches);
}

static void get_history(struct daytona_call *c)
{
    show(c, 0, daytona_git_history);
}

static void get_remotes(struct daytona_call *c)
{
    show(c, 1, daytona_git_remotes);
}

static void put_config(const struct daytona_done *done, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "value", done->exit_code == 0 ? tn_buf_str(&done->out) : NULL);
    tn_jw_object_end(w);
}

static void get_config(struct daytona_call *c)
{
    show(c, 1, put_config);
}

#define HISTORY "log -z --format=%H%x1f%an%x1f%ae%x1f%aI%x1f%B"
#define COMMIT                                                    \
    "-c $author:user.name= -c $email:user.email= commit --quiet " \
    "!allow_empty:--allow-empty $message:--message=; rev-parse HEAD"
#define RESTORE "restore ?source:--source= !staged:--staged !worktree:--worktree -- @files"
#define USER "config ?scope:-- user.name $name; config ?scope:-- user.email $email"
const struct daytona_row daytona_git_rows[] = {
    {"POST", "git/clone", with_login, "+clone ?branch:--branch= ?depth:--depth= -- $url $path"},
    {"POST", "git/push", with_login,
     "push !set_upstream:--set-upstream -- %remote:origin %branch:HEAD"},
    {"POST", "git/pull", with_login, "pull --no-rebase -- %remote:origin ?branch:"},
    {"POST", "git/add", change, "add -- @files"},
    {"POST", "git/commit", commit, COMMIT},
    {"GET", "git/status", get_status, "status --porcelain=v2 --branch -z"},
    {"GET", "git/branches", get_branches,
     "for-each-ref --format=%(HEAD)%(refname:short) refs/heads"},
    {"POST", "git/branches", change, "checkout --quiet -b $name"},
    {"DELETE", "git/branches", change, "branch -D -- $name"},
    {"POST", "git/checkout", change, "checkout --quiet $branch --"},
    {"GET", "git/history", get_history, HISTORY},
    {"POST", "git/init", change, "+init !bare:--bare ?initial_branch:--initial-branch= -- $path"},
    {"POST", "git/reset", change, "reset ?mode:-- ?target: -- @files"},
    {"POST", "git/restore", change, RESTORE},
    {"GET", "git/remotes", get_remotes, "config -z --get-regexp ^remote[.].*[.]url$"},
    {"POST", "git/remotes", add_remote, "remote add !fetch:-f -- $name $url"},
    {"GET", "git/config", get_config, "config -z ?scope:-- --get $key"},
    {"POST", "git/config", change, "config ?scope:-- $key $value"},
    {"POST", "git/config/user", change, USER},
    {"POST", "git/credentials", post_credentials, NULL},
    {0},
};
