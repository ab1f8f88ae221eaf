/* The client against a scripted engine: what real ones do is tested in tests/docker. */
#include "engine/engine.h"
#include "engine/find.h"
#include "tests/unit/web/script-server.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
/* cmocka.h comes last */
#include <cmocka.h>

static struct script_server server;
static struct tn_error err;
static char answers[32][2048];
static struct script_step steps[33];
static size_t step_count;

#define VERSION                                                                 \
    "{\"Version\":\"20.1\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"," \
    "\"Os\":\"linux\",\"Arch\":\"arm64\",\"Components\":[{\"Name\":\"Engine\"}]}"

static void answer(int status, const char *body)
{
    snprintf(answers[step_count], sizeof answers[0],
             "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             status, strlen(body), body);
    steps[step_count] = (struct script_step){.answer = answers[step_count], .then = SCRIPT_KEEP};
    steps[++step_count] = (struct script_step){0};
}

static struct tn_engine *start(void)
{
    script_start(&server, steps);
    tn_autofree char *host = tn_asprintf("unix://%s", server.path);
    struct tn_engine_options o = {.host = host};
    return tn_engine_open(&o, tn_deadline_in(10), &err);
}

static int setup(void **state)
{
    step_count = 0;
    steps[0] = (struct script_step){0};
    err = (struct tn_error){0};
    return 0;
}

static int64_t soon(void)
{
    return tn_deadline_in(10);
}

static void test_version(void **state)
{
    static const struct {
        const char *most, *least, *agreed;
    } cases[] = {{"1.41", "1.12", "1.41"},
                 {"1.39", "1.12", "1.39"},
                 {"1.52", "1.44", "1.44"},
                 {"1.52", "1.24", "1.41"}};

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        char body[256];
        setup(NULL);
        snprintf(
            body, sizeof body,
            "{\"ApiVersion\":\"%s\",\"MinAPIVersion\":\"%s\",\"Version\":\"4.3.1\",\"Components\":[{\"Name\":"
            "\"Podman Engine\"}]}",
            cases[i].most, cases[i].least);
        answer(200, body);
        tn_autoengine struct tn_engine *e = start();
        assert_non_null(e);
        assert_string_equal(tn_engine_info(e)->api, cases[i].agreed);
        assert_string_equal(tn_engine_info(e)->name, "podman");
        assert_true(tn_engine_info(e)->local);
        script_stop(&server);
    }
    setup(NULL);
    answer(200, "{\"hello\":1}");
    assert_null(start());
    assert_non_null(strstr(err.text, "not a container engine"));
    script_stop(&server);
}

static void test_calls(void **state)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(100);
    tn_autofree char *id = NULL, *warnings = NULL;

    answer(200, VERSION);
    answer(201, "{\"Id\":\"abc\",\"Warnings\":[\"one\",\"two\"]}");
    answer(404, "{\"message\":\"No such image: x:1\"}");
    answer(304, "");
    answer(404, "{\"message\":\"No such container: abc\"}");
    answer(500, "{\"message\":\"it is\"}");
    struct tn_engine *e = start();
    tn_buf_puts(&body, "{}");
    assert_int_equal(tn_engine_create(e, "a name", NULL, &body, &id, &warnings, soon(), &err), 0);
    assert_string_equal(id, "abc");
    assert_string_equal(warnings, "one; two");
    assert_non_null(strstr(server.asked, "POST /v1.41/containers/create?name=a%20name HTTP/1.1"));
    free(id);
    assert_int_equal(tn_engine_create(e, "x", NULL, &body, &id, NULL, soon(), &err), -1);
    id = NULL;
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "No such image: x:1"));
    assert_int_equal(tn_engine_start(e, "abc", soon(), &err), 0);
    assert_int_equal(tn_engine_remove(e, "abc", soon(), &err), 0);
    assert_non_null(strstr(server.asked, "DELETE /v1.41/containers/abc?force=1&v=1 "));
    assert_int_equal(tn_engine_stop(e, "abc", 1, soon(), &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    tn_engine_free(e);
    script_stop(&server);
}

static void test_filters(void **state)
{
    const char *const pairs[] = {"label", "a=b", "name", "x", "label", "c=d", NULL};
    tn_autofree char *text = tn_engine_filters(pairs);

    assert_string_equal(
        text, "%7B%22label%22%3A%5B%22a%3Db%22%2C%22c%3Dd%22%5D%2C%22name%22%3A%5B%22x%22%5D%7D");
}

static void count(const struct tn_engine_progress *p, void *ctx)
{
    *(int64_t *)ctx += p->current > 0 ? p->current : 0;
}

static void test_pull(void **state)
{
    char directory[] = "/tmp/tn-engine-XXXXXX";
    const struct tn_engine_pull arm = {.platform = "linux/arm64"}, nobody = {.anonymous = true};
    int64_t sum = 0;

    /* Credentials of that registry, and of no other. */
    assert_non_null(mkdtemp(directory));
    tn_autofree char *path = tn_asprintf("%s/config.json", directory);
    FILE *f = fopen(path, "w");
    fputs("{\"auths\":{\"reg.example:5000\":{\"auth\":\"dXNlcjpwYXNz\"}}}", f);
    fclose(f);
    setenv("DOCKER_CONFIG", directory, 1);
    unsetenv("REGISTRY_AUTH_FILE");
    unsetenv("XDG_RUNTIME_DIR");

    answer(200, VERSION);
    answer(
        200,
        "{\"status\":\"Pulling\"}\r\n{\"id\":\"l1\",\"status\":\"Downloading\",\"progressDetail\":{"
        "\"current\":5,\"total\":9}}\r\n{\"status\":\"done\",\"progressDetail\":{\"current\":1}}");
    answer(
        200,
        "{\"status\":\"x\"}\n{\"errorDetail\":{\"message\":\"manifest unknown\"},\"error\":\"manifest "
        "unknown\"}\n");
    answer(200, "{}");
    answer(200, "{}");
    struct tn_engine *e = start();
    assert_int_equal(tn_engine_pull(e, "reg.example:5000/a/b", NULL, count, &sum, soon(), &err), 0);
    assert_int_equal(sum, 6);
    assert_non_null(
        strstr(server.asked, "/images/create?fromImage=reg.example%3A5000%2Fa%2Fb&tag=latest "));
    /* {"username":"user","password":"pass","serveraddress":"reg.example:5000"} */
    assert_non_null(
        strstr(server.asked, "X-Registry-Auth: eyJ1c2VybmFtZSI6InVzZXIiLCJwYXNzd29yZCI6InBhc3Mi"));
    size_t before = server.asked_len;
    assert_int_equal(tn_engine_pull(e, "busybox:1", &arm, NULL, NULL, soon(), &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_non_null(strstr(server.asked + before, "fromImage=busybox%3A1&platform=linux%2Farm64 "));
    assert_null(strstr(server.asked + before, "X-Registry-Auth"));
    before = server.asked_len;
    assert_int_equal(tn_engine_pull(e, "x@sha256:0", NULL, NULL, NULL, soon(), &err), 0);
    assert_null(strstr(server.asked + before, "latest"));
    /* For those who are not to have them. */
    before = server.asked_len;
    assert_int_equal(tn_engine_pull(e, "reg.example:5000/a/b", &nobody, NULL, NULL, soon(), &err),
                     0);
    assert_null(strstr(server.asked + before, "X-Registry-Auth"));
    tn_engine_free(e);
    script_stop(&server);
    unlink(path);
    rmdir(directory);
}

static void test_credential_helper(void **state)
{
    char directory[] = "/tmp/tn-engine-XXXXXX";
    assert_non_null(mkdtemp(directory));
    tn_autofree char *path = tn_asprintf("%s/config.json", directory);
    tn_autofree char *helper = tn_asprintf("%s/docker-credential-mine", directory);
    tn_autofree char *search = tn_asprintf("%s:/usr/bin:/bin", directory);
    FILE *f = fopen(path, "w");
    fputs("{\"credHelpers\":{\"reg.example\":\"mine\"}}", f);
    fclose(f);
    f = fopen(helper, "w");
    fputs("#!/bin/sh\nread -r host\n[ \"$1 $host\" = 'get reg.example' ] || exit 1\n"
          "echo '{\"Username\":\"<token>\",\"Secret\":\"t0ken\"}'\n",
          f);
    fclose(f);
    chmod(helper, 0755);
    setenv("DOCKER_CONFIG", directory, 1);
    setenv("PATH", search, 1);

    answer(200, VERSION);
    answer(200, "{}");
    struct tn_engine *e = start();
    assert_int_equal(tn_engine_pull(e, "reg.example/x:1", NULL, NULL, NULL, soon(), &err), 0);
    /* {"identitytoken":"t0ken", */
    assert_non_null(strstr(server.asked, "X-Registry-Auth: eyJpZGVudGl0eXRva2VuIjoidDBrZW4i"));
    tn_engine_free(e);
    script_stop(&server);
    unlink(helper);
    unlink(path);
    rmdir(directory);
}

static void test_addresses(void **state)
{
    static const struct {
        const char *host;
        bool tls;
        const char *base, *socket, *name; /* base NULL: refused */
    } cases[] = {
        {"unix:///run/x.sock", false, "http://engine", "/run/x.sock", "localhost"},
        {"/run/x.sock", false, "http://engine", "/run/x.sock", "localhost"},
        {"tcp://10.0.0.1:2375", false, "http://10.0.0.1:2375", NULL, "10.0.0.1"},
        {"tcp://host:2376/", true, "https://host:2376", NULL, "host"},
        {"https://host:2376", false, "https://host:2376", NULL, "host"},
        {"tcp://[::1]:2375", false, "http://[::1]:2375", NULL, "::1"},
        {"ssh://user@host", false, NULL, NULL, NULL},
        {"unix://relative", false, NULL, NULL, NULL},
        {"tcp://", false, NULL, NULL, NULL},
        {"host:2375", false, NULL, NULL, NULL},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct engine_target t = {0};
        int r = engine_target_parse(cases[i].host, cases[i].tls, &t, &err);
        assert_int_equal(r, cases[i].base ? 0 : -1);
        if (r == 0) {
            assert_string_equal(t.base, cases[i].base);
            assert_string_equal(t.host, cases[i].name);
            if (cases[i].socket)
                assert_string_equal(t.socket, cases[i].socket);
            else
                assert_null(t.socket);
        }
        engine_target_done(&t);
    }
}

static void test_engine_down(void **state)
{
    struct tn_engine_options missing = {.host = "unix:///tmp/no/such.sock"};
    struct tn_engine_options refused = {.host = "tcp://127.0.0.1:1"};

    assert_null(tn_engine_open(&missing, soon(), &err));
    assert_int_equal(err.code, TN_E_PEER);
    assert_non_null(strstr(err.text, "no container engine at unix:///tmp/no/such.sock"));
    assert_null(tn_engine_open(&refused, soon(), &err));
    assert_int_equal(err.code, TN_E_PEER);
    assert_non_null(strstr(err.text, "does not answer"));
}

static void test_no_permission(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char directory[] = "/tmp/tn-engine-XXXXXX";

    assert_non_null(mkdtemp(directory));
    snprintf(a.sun_path, sizeof a.sun_path, "%s/sock", directory);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1), 0);
    chmod(a.sun_path, 0600);
    chmod(directory, 0755);
    tn_autofree char *host = tn_asprintf("unix://%s", a.sun_path);
    struct tn_engine_options o = {.host = host};
    bool changed = geteuid() == 0 && seteuid(65534) == 0;
    if (!changed)
        chmod(a.sun_path, 0);
    assert_null(tn_engine_open(&o, soon(), &err));
    if (changed)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(err.code, TN_E_DENIED);
    assert_non_null(strstr(err.text, "group docker"));
    close(fd);
    unlink(a.sun_path);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_version, setup),
        cmocka_unit_test_setup(test_calls, setup),
        cmocka_unit_test_setup(test_filters, setup),
        cmocka_unit_test_setup(test_pull, setup),
        cmocka_unit_test_setup(test_credential_helper, setup),
        cmocka_unit_test_setup(test_addresses, setup),
        cmocka_unit_test_setup(test_engine_down, setup),
        cmocka_unit_test_setup(test_no_permission, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
