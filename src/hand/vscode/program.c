#include "hand/vscode/program.h"

#include <sys/stat.h>

/* No token and no password: nobody but the door can reach the socket, and the door asks for the
 * token. */
static const char *const openvscode_args[] = {
    "--socket-path",
    "{socket}",
    "--without-connection-token",
    "--server-base-path",
    "{base}",
    "--extensions-dir",
    "{extensions}",
    "--accept-server-license-terms",
    "--disable-workspace-trust",
    "--telemetry-level",
    "off",
    NULL,
};
static const char *const code_server_args[] = {
    "--socket",
    "{socket}",
    "--auth",
    "none",
    "--config",
    "{directory}/config.yaml",
    "--session-socket",
    "{directory}/session",
    "--extensions-dir",
    "{extensions}",
    "--disable-workspace-trust",
    "--disable-telemetry",
    "--disable-update-check",
    NULL,
};

static const struct editor_dialect openvscode = {
    .name = "openvscode-server",
    .args = openvscode_args,
    .knows_base = true,
    .data_variable = "VSCODE_AGENT_FOLDER",
    .data = ".openvscode-server",
    .extensions = "extensions",
};
static const struct editor_dialect code_server = {
    .name = "code-server",
    .args = code_server_args,
    .data_variable = "XDG_DATA_HOME",
    .data = ".local/share",
    .extensions = "code-server/extensions",
};

/* In the order of preference. */
static const struct {
    const char *file;
    const struct editor_dialect *dialect;
} known[] = {
    {"/openhands/.openvscode-server/bin/openvscode-server", &openvscode},
    {"openvscode-server", &openvscode},
    {"code-server", &code_server},
};

void editor_program_done(struct editor_program *p)
{
    free(p->path);
    p->path = NULL;
}

/* --- finding ------------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static const char *variable(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; env && *env; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    }
    return "";
}

/* Where it is, on the heap, or NULL. */
static char *look_up(const char *file, const char *path)
{
    if (strchr(file, '/'))
        return is_program(file) ? tn_strdup(file) : NULL;
    for (size_t n; *path; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        tn_autofree char *candidate = tn_asprintf("%.*s/%s", (int)n, path, file);
        if (candidate[0] == '/' && is_program(candidate))
            return TN_TAKE_PTR(candidate);
    }
    return NULL;
}

static int find_named(const char *file, const char *path, struct editor_program *out,
                      struct tn_error *err)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;

    for (size_t i = 0; i < TN_COUNT(known); i++) {
        const struct editor_dialect *dialect = known[i].dialect;
        if (strncmp(name, dialect->name, strlen(dialect->name)) == 0)
            out->dialect = dialect;
    }
    if (!out->dialect)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "TENDON_VSCODE is %.200s: expected an openvscode-server or a code-server",
                       file);
    out->path = look_up(file, path);
    if (!out->path)
        return tn_fail(err, TN_E_UNSUPPORTED, "TENDON_VSCODE is %.200s: there is no such program",
                       file);
    return 0;
}

int editor_program_find(const char *const *env, struct editor_program *out, struct tn_error *err)
{
    const char *path = variable(env, "PATH"), *named = getenv("TENDON_VSCODE");

    *out = (struct editor_program){0};
    if (named && *named)
        return find_named(named, path, out, err);
    for (size_t i = 0; i < TN_COUNT(known) && !out->path; i++) {
        out->dialect = known[i].dialect;
        out->path = look_up(known[i].file, path);
    }
    return out->path ? 0
                     : tn_fail(err, TN_E_UNSUPPORTED,
                               "no openvscode-server or code-server in this sandbox");
}

char *editor_extensions_directory(const struct editor_program *p, const char *const *env)
{
    const struct editor_dialect *d = p->dialect;
    const char *data = variable(env, d->data_variable);

    return data[0] == '/' ? tn_asprintf("%s/%s", data, d->extensions)
                          : tn_asprintf("%s/%s/%s", variable(env, "HOME"), d->data, d->extensions);
}

/* --- calling ------------------------------------------------------------------------------- */

static char *fill_in(const char *argument, const struct editor_place *place)
{
    const struct {
        const char *mark, *value;
    } marks[] = {
        {"{socket}", place->socket},
        {"{directory}", place->directory},
        {"{base}", place->base},
        {"{extensions}", place->extensions},
    };

    for (size_t i = 0; i < TN_COUNT(marks); i++) {
        size_t n = strlen(marks[i].mark);
        if (strncmp(argument, marks[i].mark, n) == 0)
            return tn_asprintf("%s%s", marks[i].value, argument + n);
    }
    return tn_strdup(argument);
}

char **editor_arguments(const struct editor_program *p, const struct editor_place *place)
{
    const char *const *args = p->dialect->args;
    size_t n = 0;

    while (args[n])
        n++;
    char **out = tn_calloc(n + 2, sizeof *out);
    out[0] = tn_strdup(p->path);
    for (size_t i = 0; i < n; i++)
        out[i + 1] = fill_in(args[i], place);
    return out;
}

void editor_free_strings(char **strings)
{
    for (char **s = strings; s && *s; s++)
        free(*s);
    free(strings);
}
