/* Data of the sandbox that is sent to somebody. */
#include "security/policy/detect.h"

/* The URL of a call is not this machine itself; NULL when there is none. */
static const struct seen_url *far_url(const struct scene *s, const struct tn_call *call)
{
    for (size_t i = 0; i < s->url_count; i++) {
        if (s->urls[i].call == call && !host_is_local(s->urls[i].host))
            return &s->urls[i];
    }
    return NULL;
}

/* What the call reads through a pipe begins with a command that reads or tells something. */
static bool fed(const struct scene *s, const struct seen_call *c)
{
    for (size_t i = 0; c->call->in && i < s->call_count; i++) {
        const struct seen_call *from = &s->calls[i];
        if (from->of == c->of && from->call != c->call &&
            tn_call_feeds(c->of, from->call, c->call) &&
            !word_in(from->call->name, "echo printf yes true sleep"))
            return true;
    }
    for (const struct tn_call_redirect *d = c->call->redirects; d; d = d->next) {
        if (d->reads && strncmp(d->target.text, "/dev/", 5) != 0)
            return true;
    }
    return false;
}

/* A word that holds the output of another command. */
static bool substituted(const struct tn_arg *arg)
{
    return !arg->value && (strstr(arg->text, "$(") || strchr(arg->text, '`'));
}

/* An option that sends a body: 'd' or 'F' for what may be @file, 'T' for the name of a file, 'r'
 * for plain text, or 0; the word with its value in *arg, the value in *value. */
static char body_option(const struct tn_call *call, size_t i, const struct tn_arg **arg,
                        const char **value)
{
    static const struct {
        const char *name;
        char kind;
    } options[] = {
        {"--data", 'd'},        {"--data-binary", 'd'},    {"--data-ascii", 'd'},
        {"--json", 'd'},        {"--data-urlencode", 'd'}, {"--form", 'F'},
        {"--upload-file", 'T'}, {"--post-file", 'T'},      {"--body-file", 'T'},
        {"--data-raw", 'r'},    {"--post-data", 'r'},      {"--body-data", 'r'},
    };
    const char *word = call->argv[i].text, *rest = NULL;
    char kind = 0;

    *arg = &call->argv[i];
    for (size_t k = 0; k < TN_COUNT(options); k++) {
        size_t n = strlen(options[k].name);
        if (strncmp(word, options[k].name, n) == 0 && (!word[n] || word[n] == '=')) {
            kind = options[k].kind;
            rest = word[n] ? word + n + 1 : NULL;
        }
    }
    if (!kind && word[0] == '-' && word[1] != '-' && strcmp(call->name, "curl") == 0) {
        const char *letter =
            word + 1 + strcspn(word + 1, "dFTXHuAebcKxwmo"); /* these take a value */
        kind = *letter && strchr("dFT", *letter) ? *letter : 0;
        rest = *letter && letter[1] ? letter + 1 : NULL;
    }
    if (kind && !rest && i + 1 < call->argc) {
        *arg = &call->argv[i + 1];
        rest = (*arg)->text;
    }
    *value = rest;
    return rest ? kind : 0;
}

static bool sends_file(char kind, const char *value)
{
    const char *at = strchr(value, '@');

    if (kind == 'r')
        return false;
    if (kind == 'T')
        return strcmp(value, "-") != 0;
    return at && (at == value || at[-1] == '=') && strcmp(at, "@-") != 0;
}

static void look_fetch(struct scene *s, const struct seen_call *c)
{
    const struct tn_call *call = c->call;

    for (size_t i = 1; i < call->argc; i++) {
        const struct tn_arg *arg;
        const char *value;
        char kind = body_option(call, i, &arg, &value);
        if (kind) {
            bool input = strcmp(value, "@-") == 0 || strcmp(value, "-") == 0;
            if (sends_file(kind, value) || (input && fed(s, c)) || substituted(arg)) {
                scene_add_sign(s, "upload", "sends the data of a file to another machine", call,
                               c->part);
                return;
            }
        } else if (substituted(arg) && strstr(arg->text, "://")) {
            scene_add_sign(s, "upload", "puts the output of a command into a URL", call, c->part);
            return;
        }
    }
}

/* The last operand is a place on another machine: user@host:path, s3://bucket, remote:path. */
static bool goes_out(const struct tn_call *call)
{
    const struct tn_arg *last = call->argc > 2 ? &call->argv[call->argc - 1] : NULL;
    const char *colon = last ? strchr(last->text, ':') : NULL, *slash;

    if (!colon)
        return false;
    slash = strchr(last->text, '/');
    return !slash || slash > colon;
}

static void look_call(struct scene *s, const struct seen_call *c)
{
    const struct tn_call *call = c->call;
    bool shell = false;

    if (fetches(call) && far_url(s, call)) {
        struct seen_call via = {.call = call->via, .of = c->of};
        if (call->via && strcmp(call->via->name, "xargs") == 0 && fed(s, &via))
            scene_add_sign(s, "upload", "puts what it reads into a URL", call, c->part);
        else
            look_fetch(s, c);
    }
    if (word_in(call->name, "scp rsync rclone") && goes_out(call))
        scene_add_sign(s, "copy", "copies files to another machine", call, c->part);
    if (word_in(call->name, "aws gsutil gcloud az s3cmd mc") && goes_out(call) &&
        (tn_call_has(call, "cp") || tn_call_has(call, "sync") || tn_call_has(call, "mv") ||
         tn_call_has(call, "put")))
        scene_add_sign(s, "copy", "copies files to another machine", call, c->part);
    for (size_t i = 1; i < call->argc; i++)
        shell |= word_in(call->name, "nc ncat netcat socat") &&
                 (word_in(call->argv[i].text, "-e -c --exec --sh-exec") ||
                  strncmp(call->argv[i].text, "EXEC:", 5) == 0 ||
                  strncmp(call->argv[i].text, "SYSTEM:", 7) == 0);
    if (shell)
        scene_add_sign(s, "reverse-shell", "gives a shell to another machine", call, c->part);
    else if (word_in(call->name, "nc ncat netcat socat telnet openssl") && fed(s, c) &&
             (strcmp(call->name, "openssl") != 0 || tn_call_has(call, "s_client")) &&
             (far_url(s, call) || word_in(call->name, "socat openssl")))
        scene_add_sign(s, "socket", "sends data to another machine", call, c->part);
    if (word_in(call->name, "mail mailx mutt sendmail swaks") && fed(s, c))
        scene_add_sign(s, "mail", "sends data by mail", call, c->part);
    for (size_t i = 1; i < call->argc && word_in(call->name, "dig nslookup host ping drill"); i++) {
        if (substituted(&call->argv[i])) {
            scene_add_sign(s, "dns", "puts the output of a command into a name that is looked up",
                           call, c->part);
            break;
        }
    }
}

/* A redirection to /dev/tcp: of a shell it is a shell for whoever listens. */
static void look_sockets(struct scene *s)
{
    for (size_t i = 0; i < s->path_count; i++) {
        const struct seen_path *p = &s->paths[i];
        if (strncmp(p->path, "/dev/tcp/", 9) != 0 && strncmp(p->path, "/dev/udp/", 9) != 0)
            continue;
        bool shell = p->call && word_in(p->call->name, "bash sh zsh dash ksh ash exec");
        if (shell)
            scene_add_sign(s, "reverse-shell", "gives a shell to another machine", p->call,
                           p->part);
        else if (p->use & USE_WRITE && p->call && strcmp(p->call->name, "echo") != 0 &&
                 p->call->argc)
            scene_add_sign(s, "socket", "sends data to another machine", p->call, p->part);
    }
}

static void look(struct scene *s)
{
    for (size_t i = 0; i < s->call_count; i++)
        look_call(s, &s->calls[i]);
    look_sockets(s);
    /* a program that opens a file and posts */
    const char *code =
        s->action && s->action->type == TN_ACTION_RUN_IPYTHON ? s->action->run_ipython.code : NULL;
    bool reads = false, far = false;
    for (size_t i = 0; i < s->path_count; i++)
        reads |= (s->paths[i].use & USE_READ) != 0;
    for (size_t i = 0; i < s->url_count; i++)
        far |= !host_is_local(s->urls[i].host);
    const char *post = code ? strstr(code, ".post(") : NULL;
    if (post && reads && far)
        scene_add_sign(s, "upload", "sends the data of a file to another machine", NULL,
                       (struct part){"args.code", post, strcspn(post, "\n")});
}

const struct detector detect_exfiltration = {
    .name = "exfiltration",
    .about = "data that leaves: files sent by curl, wget or scp, a pipe into nc, names that carry "
             "data, a shell for another machine",
    .kinds = "upload copy socket reverse-shell mail dns",
    .look = look,
};
