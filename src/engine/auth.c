/* Credentials for registries, where `docker login` leaves them: $DOCKER_CONFIG/config.json (or
 * ~/.docker, or Podman's auth.json), or a helper program docker-credential-NAME. */
#include "engine/auth.h"
#include "base/base64.h"
#include "base/child.h"
#include "base/fs.h"
#include "engine/engine-impl.h"

#define HUB "https://index.docker.io/v1/"
#define HELPER_SECONDS 10.0
enum { SECRET_MAX = 64 << 10 };

static void secret_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void tn_login_done(struct tn_login *l)
{
    secret_free(l->username);
    secret_free(l->password);
    secret_free(l->token);
}

static bool login_given(const struct tn_login *l)
{
    return l->token || (l->username && l->password);
}

/* "host:5000/name:tag" -> "host:5000"; names without a host are Docker Hub's. */
static char *registry_of(const char *reference)
{
    size_t n = strcspn(reference, "/");
    tn_autofree char *first = tn_strndup(reference, n);

    if (reference[n] == '/' && (strpbrk(first, ".:") || strcmp(first, "localhost") == 0) &&
        strcmp(first, "docker.io") != 0 && strcmp(first, "index.docker.io") != 0)
        return TN_TAKE_PTR(first);
    return tn_strdup(HUB);
}

/* --- helpers ---------------------------------------------------------------------------------- */

static bool is_helper_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n < 64 && name[0] != '-' && !strchr(name, '/');
}

/* The helper reads the registry and writes {"Username", "Secret"}. */
static int run_helper(const char *name, const char *registry, struct tn_buf *out, int64_t deadline)
{
    tn_autofree char *program = tn_asprintf("docker-credential-%s", name);
    const char *const argv[] = {program, "get", NULL};
    tn_autobuf struct tn_buf complaints = TN_BUF_INIT(4096);

    return tn_child_run(argv, NULL, registry, out, &complaints, deadline, NULL) == 0 ? 0 : -1;
}

static void ask_helper(const char *name, const char *registry, struct tn_login *login,
                       int64_t deadline)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SECRET_MAX);
    tn_autojson struct tn_json *answer = NULL;
    int64_t most = tn_deadline_in(HELPER_SECONDS);

    if (!is_helper_name(name) ||
        run_helper(name, registry, &text, deadline < most ? deadline : most) < 0 ||
        tn_json_parse(tn_buf_str(&text), text.len, &answer, NULL) < 0)
        return;
    const char *user = tn_json_get_str(answer, "Username", NULL);
    const char *secret = tn_json_get_str(answer, "Secret", NULL);
    if (!user || !secret)
        return;
    if (strcmp(user, "<token>") == 0) {
        login->token = tn_strdup(secret);
    } else {
        login->username = tn_strdup(user);
        login->password = tn_strdup(secret);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

/* "auth" is base64 of user:password. */
static void take_entry(const struct tn_json *entry, struct tn_login *login)
{
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(SECRET_MAX);
    const char *auth = tn_json_get_str(entry, "auth", "");
    const char *token = tn_json_get_str(entry, "identitytoken", NULL);

    if (token && *token)
        login->token = tn_strdup(token);
    if (tn_base64_decode(&plain, auth, strlen(auth), NULL) < 0)
        return;
    char *colon = strchr(tn_buf_str(&plain), ':');
    if (!colon)
        return;
    login->username = tn_strndup(plain.data, (size_t)(colon - plain.data));
    login->password = tn_strdup(colon + 1);
    explicit_bzero(plain.data, plain.len);
}

/* Entries are keyed by host, with or without a scheme. */
static const struct tn_json *find_entry(const struct tn_json *auths, const char *registry)
{
    tn_autofree char *https = tn_asprintf("https://%s", registry);
    const struct tn_json *entry = tn_json_get(auths, registry);

    if (!entry)
        entry = tn_json_get(auths, https);
    if (!entry && strcmp(registry, HUB) == 0)
        entry = tn_json_get(auths, "docker.io");
    return entry;
}

static void read_login(const char *path, const char *registry, struct tn_login *login,
                       int64_t deadline)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    tn_autojson struct tn_json *config = NULL;

    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, NULL) < 0 ||
        tn_json_parse(tn_buf_str(&text), text.len, &config, NULL) < 0)
        return;
    const char *helper = tn_json_get_str(tn_json_get(config, "credHelpers"), registry,
                                         tn_json_get_str(config, "credsStore", NULL));
    const struct tn_json *entry = find_entry(tn_json_get(config, "auths"), registry);
    if (entry)
        take_entry(entry, login);
    if (!login_given(login) && helper)
        ask_helper(helper, registry, login, deadline);
    if (text.data)
        explicit_bzero(text.data, text.len);
}

void tn_login_find(const char *reference, struct tn_login *login, int64_t deadline)
{
    tn_autofree char *registry = registry_of(reference);
    const char *config = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    const char *run = getenv("XDG_RUNTIME_DIR");
    tn_autofree char *docker = config && *config ? tn_asprintf("%s/config.json", config)
                               : home            ? tn_asprintf("%s/.docker/config.json", home)
                                                 : NULL;
    tn_autofree char *podman = run ? tn_asprintf("%s/containers/auth.json", run) : NULL;
    const char *const paths[] = {docker, getenv("REGISTRY_AUTH_FILE"), podman};

    for (size_t i = 0; i < TN_COUNT(paths) && !login_given(login); i++)
        if (paths[i])
            read_login(paths[i], registry, login, deadline);
}

/* --- the header ------------------------------------------------------------------------------- */

/* base64 as URLs want it; the padding stays. */
static void to_url_alphabet(char *text)
{
    for (; *text; text++)
        *text = *text == '+' ? '-' : *text == '/' ? '_' : *text;
}

char *engine_auth_header(const char *reference, int64_t deadline)
{
    tn_autofree char *registry = registry_of(reference);
    tn_autologin struct tn_login login = {0};
    tn_autobuf struct tn_buf json = TN_BUF_INIT(SECRET_MAX), encoded = TN_BUF_INIT(2 * SECRET_MAX);
    struct tn_jw w = tn_jw(&json);

    tn_login_find(reference, &login, deadline);
    if (!login_given(&login))
        return NULL;
    tn_jw_object(&w);
    if (login.token) {
        tn_jw_kstr(&w, "identitytoken", login.token);
    } else {
        tn_jw_kstr(&w, "username", login.username);
        tn_jw_kstr(&w, "password", login.password);
    }
    tn_jw_kstr(&w, "serveraddress", registry);
    tn_jw_object_end(&w);
    tn_base64_encode(&encoded, json.data, json.len);
    explicit_bzero(json.data, json.len);
    if (!tn_buf_ok(&encoded))
        return NULL;
    to_url_alphabet(encoded.data);
    char *header = tn_asprintf("X-Registry-Auth: %s", encoded.data);
    explicit_bzero(encoded.data, encoded.len);
    return header;
}
