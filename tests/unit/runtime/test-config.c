#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "runtime/config.h"

/* Every test starts in an empty directory of its own, with nothing set that configures. */
struct place {
    char path[64];
    int before; /* the directory to return to */
};

static int set_up(void **state)
{
    static const char *const keep[] = {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"};
    char *kept[TN_COUNT(keep)];
    struct place *p = tn_calloc(1, sizeof *p);

    for (size_t i = 0; i < TN_COUNT(keep); i++)
        kept[i] = tn_strdup_or_null(getenv(keep[i]));
    clearenv();
    for (size_t i = 0; i < TN_COUNT(keep); i++) {
        if (kept[i])
            setenv(keep[i], kept[i], 1);
        free(kept[i]);
    }
    snprintf(p->path, sizeof p->path, "/tmp/tn-config-XXXXXX");
    if (!mkdtemp(p->path))
        return -1;
    p->before = open(".", O_PATH | O_CLOEXEC);
    setenv("HOME", p->path, 1);
    *state = p;
    return chdir(p->path);
}

static int tear_down(void **state)
{
    struct place *p = *state;

    tn_autofd int tmp = open("/tmp", O_PATH | O_CLOEXEC);
    if (fchdir(p->before) < 0 || tn_fs_remove_tree(tmp, p->path + strlen("/tmp/"), 0, NULL) < 0)
        return -1;
    close(p->before);
    free(p);
    return 0;
}

static void write_file(const char *path, const char *text)
{
    tn_autofile FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
}

static void load(struct tn_config *c, const char *path)
{
    struct tn_error err = {0};

    if (tn_config_load(c, path, &err) < 0)
        fail_msg("%s", err.text);
}

static void load_text(struct tn_config *c, const char *text)
{
    write_file("given.toml", text);
    load(c, "given.toml");
}

static void refuse_text(const char *text, const char *expected)
{
    struct tn_config c;
    struct tn_error err = {0};

    write_file("given.toml", text);
    assert_int_equal(tn_config_load(&c, "given.toml", &err), -1);
    if (!strstr(err.text, expected))
        fail_msg("expected '%s', found '%s'", expected, err.text);
}

static void put_warning(const char *text, void *ctx)
{
    tn_buf_printf(ctx, "%s\n", text);
}

static void assert_warnings(const struct tn_config *c, const char *expected)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 16);

    tn_config_warnings(c, put_warning, &text);
    assert_string_equal(tn_buf_str(&text), expected);
}

struct wanted {
    const char *name;
    char text[256];
};

static void find_value(const char *section, const struct tn_field *row, const char *value,
                       enum tn_origin origin, const char *where, void *ctx)
{
    struct wanted *w = ctx;
    size_t n = strlen(section);

    if (strncmp(w->name, section, n) == 0 && w->name[n] == '.' &&
        strcmp(w->name + n + 1, row->name) == 0)
        snprintf(w->text, sizeof w->text, "%s (%s%s%s)", value, tn_origin_words[origin],
                 where ? ": " : "", where ? where : "");
}

static void assert_value(const struct tn_config *c, const char *name, const char *expected)
{
    struct wanted w = {.name = name};

    tn_config_each(c, find_value, &w);
    assert_string_equal(w.text, expected);
}

/* --- defaults ----------------------------------------------------------------------------- */

static void test_defaults(void **state)
{
    const struct place *p = *state;
    tn_autofree char *expected = tn_asprintf("%s/.local/state/tendon (default)", p->path);
    struct tn_config c;

    load(&c, NULL);
    assert_warnings(&c, "");
    assert_value(&c, "tendon.runtime", "jail (default)");
    assert_value(&c, "tendon.state", expected);
    assert_value(&c, "core.workspace_mount_path_in_sandbox", "/workspace (default)");
    assert_value(&c, "core.workspace_base", " (default)");
    assert_value(&c, "sandbox.timeout", "120.0 (default)");
    assert_value(&c, "sandbox.runtime_binding_address", "127.0.0.1 (default)");
    assert_value(&c, "sandbox.runtime_startup_env_vars", "{} (default)");
    assert_value(&c, "sandbox.api_key", " (default)");
    assert_value(&c, "jail.memory", "4g (default)");
    assert_value(&c, "jail.pids", "512 (default)");
    assert_true(c.jail.unprivileged && c.docker.no_new_privileges);
    assert_true(c.jail.host_paths.count > 5);
    assert_int_equal(tn_config_origin(&c, "jail.memory"), TN_FROM_DEFAULT);
    tn_config_done(&c);
}

static void test_state_directory(void **state)
{
    struct tn_config c;

    setenv("XDG_STATE_HOME", "/var/x", 1);
    load(&c, NULL);
    assert_string_equal(c.tendon.state, "/var/x/tendon");
    tn_config_done(&c);
    setenv("XDG_STATE_HOME", "relative", 1); /* does not count */
    load_text(&c, "[tendon]\nstate = '~/s'\n");
    assert_string_equal(c.tendon.state + strlen(c.tendon.state) - 2, "/s");
    assert_int_equal(c.tendon.state[0], '/');
    tn_config_done(&c);
}

/* --- sources ------------------------------------------------------------------------------ */

static void test_order_of_sources(void **state)
{
    struct tn_config c;
    struct tn_error err = {0};

    setenv("SANDBOX_TIMEOUT", "30", 1);
    setenv("TENDON_JAIL_PIDS", "", 1); /* empty is unset */
    load_text(&c, "[sandbox]\ntimeout = 60\n\n[jail]\npids = 9\nmemory = '1g'\n");
    assert_value(&c, "sandbox.timeout", "30.0 (environment: SANDBOX_TIMEOUT)");
    assert_value(&c, "jail.pids", "9 (file: given.toml:5)");
    assert_int_equal(tn_config_set(&c, "sandbox.timeout", "15", &err), 0);
    assert_value(&c, "sandbox.timeout", "15.0 (flag: --set)");
    assert_true(c.sandbox.timeout == 15);
    assert_int_equal(tn_config_set(&c, "sandbox.timeout", "soon", &err), -1);
    assert_string_equal(err.text,
                        "sandbox.timeout: expected a number from 0.001 to 100000000, found 'soon'");
    assert_int_equal(tn_config_set(&c, "jail.memroy", "1g", &err), -1);
    assert_string_equal(err.text, "there is no setting 'jail.memroy'; did you mean jail.memory?");
    assert_int_equal(tn_config_set(&c, "jail", "1g", &err), -1);
    assert_int_equal(tn_config_set(&c, "nonsense.of.mine", "1g", &err), -1);
    assert_int_equal(tn_config_set(&c, "jail.memory", "big", &err), -1);
    tn_config_done(&c);
}

static void test_environment(void **state)
{
    struct tn_config c;
    struct tn_error err = {0};

    setenv("SANDBOX_RUNTIME_STARTUP_ENV_VARS", "{'A': 'b c', \"D\": 'e'}", 1);
    setenv("SANDBOX_ADDITIONAL_NETWORKS", "['a', 'b']", 1);
    setenv("SANDBOX_TRUSTED_DIRS", "/x, /y", 1);
    setenv("RUN_AS_OPENHANDS", "FALSE", 1);
    setenv("DEBUG", "*", 1); /* other programs use it differently: no is what it means here */
    setenv("SANDBOX_USER_ID", "many", 1);
    setenv("SANDBOX_API_KEY", "hush-hush", 1);
    setenv("KUBERNETES_NAMESPACE", "n", 1);
    setenv("DOCKER_HOST", "tcp://me:pw@10.0.0.1:2376", 1);
    load(&c, NULL);
    assert_string_equal(tn_json_get_str(c.sandbox.runtime_startup_env_vars, "A", ""), "b c");
    assert_int_equal(c.sandbox.additional_networks.count, 2);
    assert_string_equal(c.sandbox.trusted_dirs.items[1], "/y");
    assert_false(c.core.run_as_openhands || c.core.debug || c.sandbox.user_id.set);
    assert_warnings(&c,
                    "SANDBOX_USER_ID is ignored: expected an integer from 0 to 4294967294 or null, "
                    "found 'many'\n");
    assert_value(&c, "sandbox.api_key", "*** (environment: SANDBOX_API_KEY)");
    assert_value(&c, "sandbox.runtime_startup_env_vars",
                 "{\"A\":\"***\",\"D\":\"***\"} (environment: SANDBOX_RUNTIME_STARTUP_ENV_VARS)");
    assert_value(&c, "docker.host", "tcp://***@10.0.0.1:2376 (environment: DOCKER_HOST)");
    assert_string_equal(c.docker.host, "tcp://me:pw@10.0.0.1:2376");
    assert_string_equal(c.kubernetes.namespace, "n");
    tn_config_done(&c);

    setenv("TENDON_WARM", "some", 1); /* ours are strict */
    assert_int_equal(tn_config_load(&c, NULL, &err), -1);
    assert_string_equal(err.text, "TENDON_WARM: expected an integer from 0 to 10000, found 'some'");
}

static void test_which_file(void **state)
{
    struct tn_config c;
    struct tn_error err = {0};

    assert_int_equal(mkdir(".config", 0755), 0);
    assert_int_equal(mkdir(".config/tendon", 0755), 0);
    write_file(".config/tendon/config.toml", "[jail]\npids = 1\n");
    load(&c, NULL);
    assert_int_equal(c.jail.pids, 1);
    tn_config_done(&c);
    write_file("config.toml", "[jail]\npids = 2\n");
    load(&c, NULL);
    assert_value(&c, "jail.pids", "2 (file: config.toml:2)");
    tn_config_done(&c);
    write_file("named.toml", "[jail]\npids = 3\n");
    setenv("TENDON_CONFIG", "named.toml", 1);
    load(&c, NULL);
    assert_int_equal(c.jail.pids, 3);
    tn_config_done(&c);
    load(&c, "config.toml");
    assert_int_equal(c.jail.pids, 2);
    tn_config_done(&c);
    setenv("TENDON_CONFIG", "gone.toml", 1);
    assert_int_equal(tn_config_load(&c, NULL, &err), -1);
    assert_string_equal(err.text, "configuration gone.toml: No such file or directory");
}

static void test_file_of_others(void **state)
{
    struct tn_config c;
    struct tn_error err = {0};

    write_file("config.toml", "[jail]\npids = 2\n");
    assert_int_equal(chmod("config.toml", 0666), 0);
    load(&c, NULL);
    assert_int_equal(c.jail.pids, 512);
    assert_warnings(&c, "config.toml is ignored: others could have written it (name it with "
                        "--config or TENDON_CONFIG to use it)\n");
    tn_config_done(&c);
    load(&c, "config.toml");
    assert_int_equal(c.jail.pids, 2);
    tn_config_done(&c);

    /* Nor may a file that merely lies there choose programs. */
    assert_int_equal(chmod("config.toml", 0644), 0);
    write_file("config.toml", "[tendon]\nhand = './evil'\n");
    assert_int_equal(tn_config_load(&c, NULL, &err), -1);
    assert_int_equal(err.code, TN_E_DENIED);
    load(&c, "config.toml");
    assert_non_null(strstr(c.tendon.hand, "/evil"));
    tn_config_done(&c);
    /* Nor what happens in a cluster, nor who judges what its agent does, or is told of it. */
    static const char *const loosened[] = {
        "[kubernetes]\nprivileged = true\n",
        "[kubernetes]\nhand_image = 'evil'\n",
        "[kubernetes]\nkubeconfig = 'evil'\n",
        "[kubernetes]\nclaims = ['*']\n",
        "[security]\nhigh = 'allow'\n",
        "[security]\nanalyzers = []\n",
        "[security.llm]\nendpoint = 'https://evil'\nkey_env = 'AWS_SECRET_ACCESS_KEY'\n"};
    for (size_t i = 0; i < TN_COUNT(loosened); i++) {
        write_file("config.toml", loosened[i]);
        assert_int_equal(tn_config_load(&c, NULL, &err), -1);
        assert_int_equal(err.code, TN_E_DENIED);
    }
    write_file("config.toml", "[kubernetes]\nresource_memory_limit = '1Gi'\n");
    load(&c, NULL);
    assert_string_equal(c.kubernetes.resource_memory_limit, "1Gi");
    tn_config_done(&c);
}

/* --- what is wrong ------------------------------------------------------------------------ */

static void test_errors(void **state)
{
    refuse_text("[jail]\nmemroy = '1g'\n",
                "given.toml: [jail]: line 2: unknown key memroy; did you mean memory?");
    refuse_text("[sandbox]\ntimout = 1\n", "line 2: unknown key timout; did you mean timeout?");
    refuse_text("[security]\nenable_security_analyzer = true\n", "[security]: line 2: unknown key");
    refuse_text("[security]\nsecurity_analyzer = 'greyswan'\n",
                "security.security_analyzer: there is no analyzer 'greyswan', and no program "
                "tendon-analyzer-greyswan; did you mean grayswan?");
    refuse_text("[security]\nanalyzers = ['llm', 'nonsense']\n",
                "security.analyzers: there is no analyzer 'nonsense'");
    refuse_text("[security]\nhigh = 'never'\n", "[security]: line 2: high: expected one of");
    refuse_text("[security.llm]\nmodle = 'x'\n",
                "[security.llm]: line 2: unknown key modle; did you mean model?");
    refuse_text("[security.lm]\nmodel = 'x'\n", "[security]: line 1: unknown key lm");
    refuse_text("[security]\nllm = 'x'\n", "line 2: expected a section [security.llm]");
    refuse_text("[mcp]\nservers = []\n", "[mcp]: line 2: unknown key servers");
    refuse_text("[kubernetes]\nx = 1\n", "[kubernetes]: line 2: unknown key x");
    refuse_text("[sandbox]\ntimeout = 'soon'\n", "line 2: timeout: expected a number");
    refuse_text("[sandbox]\nvolumes = '/a'\n", "sandbox.volumes: volume '/a': expected HOST");
    refuse_text("[sandbox]\nvolumes = '/a:/b:ro:x'\n", "sandbox.volumes: volume");
    refuse_text("[jail]\nmemory = 'big'\n", "jail.memory: expected a size");
    refuse_text("[docker]\nport_range = '9-8'\n", "docker.port_range: expected FIRST-LAST");
    refuse_text("[docker]\nport_range = '1-70000'\n", "docker.port_range: expected FIRST-LAST");
    refuse_text("[core]\nworkspace_base = '/a'\nworkspace_mount_rewrite = 'x'\n",
                "core.workspace_mount_rewrite: expected FROM:TO");
    refuse_text("jail = 1\n", "line 1: expected a section [jail], found integer");
    refuse_text("[jail\n", "given.toml: ");
    refuse_text("[template.x]\nimmage = 'a'\n",
                "[template.x]: line 2: unknown key immage; did you mean image?");
    refuse_text("[template.x]\nmemory = 'big'\n", "[template.x]: memory: expected a size");
    refuse_text("[template]\nx = 1\n", "given.toml: line 2: expected sections [template.NAME]");
}

static void test_warnings(void **state)
{
    struct tn_config c;

    load_text(&c, "stray = 1\n"
                  "[core]\nrunime = 'x'\nmax_iterations = 7\n"
                  "[llm]\nmodel = 'x'\n[llm.other]\nmodel = 'y'\n[agent]\na = 1\n"
                  "[sandbx]\na = 1\n");
    assert_warnings(&c, "given.toml:1: unknown key outside of sections stray\n"
                        "given.toml:3: unknown key runime in [core]; did you mean runtime?\n"
                        "given.toml:11: unknown section sandbx; did you mean [sandbox]?\n");
    tn_config_done(&c);
}

/* --- what follows from what --------------------------------------------------------------- */

static void test_volumes(void **state)
{
    const struct place *p = *state;
    struct tn_config c;
    struct tn_error err = {0};

    load_text(&c, "[core]\nworkspace_base = '/old'\n"
                  "[sandbox]\nvolumes = '/data:/data:ro,z,.:/workspace/'\n");
    assert_string_equal(c.core.workspace_base, p->path);
    assert_string_equal(c.core.workspace_mount_path, p->path);
    tn_autofree char *volumes = tn_asprintf("/data:/data:ro,z,%s:/workspace/", p->path);
    assert_string_equal(c.sandbox.volumes, volumes);
    /* Without one at /workspace nothing is mounted there, whatever older settings say. */
    assert_int_equal(tn_config_set(&c, "sandbox.volumes", "/data:/data", &err), 0);
    assert_null(c.core.workspace_base);
    assert_null(c.core.workspace_mount_path);
    assert_value(&c, "core.workspace_base", " (flag: sandbox.volumes in --set)");
    tn_config_done(&c);
}

static void test_workspace(void **state)
{
    const struct place *p = *state;
    tn_autofree char *expected = tn_asprintf("%s/ws", p->path);
    struct tn_config c;

    load_text(&c, "[core]\nworkspace_base = 'ws'\n");
    assert_string_equal(c.core.workspace_base, expected);
    assert_string_equal(c.core.workspace_mount_path, expected);
    tn_config_done(&c);
    load_text(&c,
              "[core]\nworkspace_base = '/home/me/ws'\nworkspace_mount_rewrite = '/home:/h/h'\n");
    assert_string_equal(c.core.workspace_base, "/home/me/ws");
    assert_string_equal(c.core.workspace_mount_path, "/h/h/me/ws");
    tn_config_done(&c);
}

static void test_runtime(void **state)
{
    struct tn_config c;
    struct tn_error err = {0};

    load_text(&c, "[core]\nruntime = 'docker'\n");
    assert_value(&c, "tendon.runtime", "docker (file: core.runtime in given.toml:2)");
    assert_int_equal(tn_config_set(&c, "core.runtime", "cli", &err), 0);
    assert_string_equal(c.tendon.runtime, "cli");
    assert_false(c.core.enable_browser);
    tn_config_done(&c);
    setenv("RUNTIME", "local", 1);
    load_text(&c, "[tendon]\nruntime = 'jail'\n");
    assert_string_equal(c.tendon.runtime, "jail");
    assert_true(c.core.enable_browser);
    tn_config_done(&c);
}

static void test_mcp(void **state)
{
    refuse_text("[mcp]\nsse_servers = ['ftp://x']\n",
                "mcp.sse_servers: item 1: url: expected http");
    refuse_text("[mcp]\nsse_servers = ['http://']\n", "item 1: url: expected");
    refuse_text("[mcp]\nsse_servers = [{api_key = 'x'}]\n", "item 1: url is missing");
    refuse_text("[mcp]\nsse_servers = ['http://a', 'http://a']\n",
                "mcp.sse_servers: items 1 and 2 have the same url");
    refuse_text("[mcp]\nshttp_servers = [{url = 'http://a', timeout = 0}]\n",
                "timeout: expected seconds from 1 to 3600");
    refuse_text("[mcp]\nshttp_servers = [{url = 'http://a', timeout = 'x'}]\n",
                "timeout: expected seconds from 1 to 3600");
    refuse_text("[mcp]\nstdio_servers = ['x']\n", "item 1: expected an object, found string");
    refuse_text("[mcp]\nstdio_servers = [{name = 'a b', command = 'x'}]\n",
                "name: expected letters");
    refuse_text("[mcp]\nstdio_servers = [{name = 'a', command = 'x y'}]\n",
                "command: expected one word");
    refuse_text("[mcp]\nstdio_servers = [{name = 'a', command = 'x', args = \"'\"}]\n",
                "a: args: a quotation is not closed");
    refuse_text("[mcp]\nstdio_servers = [{name = 'a', command = 'x', env = 'A'}]\n",
                "a: env: expected NAME=VALUE");

    struct tn_config c;
    load_text(&c, "[mcp]\nsse_servers = [{url = 'http://u:p@h/x?key=y', api_kee = 'z'}]\n");
    assert_warnings(&c, "mcp.sse_servers: unknown key api_kee; did you mean api_key?\n");
    assert_value(&c, "mcp.sse_servers",
                 "[{\"url\":\"http://***@h/x?***\",\"api_key\":null}] (file: given.toml:2)");
    tn_config_done(&c);
}

/* --- a whole file of OpenHands' ----------------------------------------------------------- */

static void put_everything(const char *section, const struct tn_field *row, const char *value,
                           enum tn_origin origin, const char *where, void *ctx)
{
    tn_buf_printf(ctx, "%s.%s=%s\n", section, row->name, value);
}

/* A wish that nobody fulfils is never dropped silently, wherever it comes from. */
static void test_idle_wishes(void **state)
{
    struct tn_config c;
    struct tn_error err = {0};

    load_text(&c, "[security]\nsecurity_analyzer = 'llm'\n");
    assert_warnings(&c, "security.security_analyzer counts only with security.confirmation_mode: "
                        "security.analyzers names those that judge either way\n");
    tn_config_done(&c);
    load_text(&c, "[security]\nconfirmation_mode = false\nsecurity_analyzer = ''\n");
    assert_warnings(&c, "");
    assert_int_equal(tn_config_set(&c, "security.security_analyzer", "nonsense", &err), -1);
    tn_config_done(&c);
}

/* Sections in a section, from every source. */
static void test_security(void **state)
{
    struct tn_error err = {0};
    struct tn_config c;

    load_text(&c, "[security]\nanalyzers = ['llm', 'grayswan']\nhigh = 'ask'\n"
                  "policies = ['~/rules.toml']\n"
                  "[security.llm]\nendpoint = 'https://x/v1'\nmodel = 'm'\n");
    assert_warnings(&c, "");
    assert_true(tn_security_on(&c.security));
    assert_int_equal(c.security.analyzers.count, 2);
    assert_int_equal(c.security.high, TN_ASK);
    assert_int_equal(c.security.policies.items[0][0], '/');
    assert_string_equal(c.security.llm.endpoint, "https://x/v1");
    assert_string_equal(c.security.grayswan.policy_id, "689ca4885af3538a39b2ba04");
    assert_int_equal(tn_config_origin(&c, "security.llm.model"), TN_FROM_FILE);
    assert_int_equal(tn_config_set(&c, "security.llm.model", "other", &err), 0);
    assert_string_equal(c.security.llm.model, "other");
    assert_int_equal(tn_config_set(&c, "security.llm.modle", "other", &err), -1);
    assert_non_null(strstr(err.text, "did you mean security.llm.model?"));
    tn_config_done(&c);

    setenv("SECURITY_CONFIRMATION_MODE", "true", 1);
    setenv("SECURITY_SECURITY_ANALYZER", "llm", 1);
    setenv("TENDON_SECURITY_LLM_SECONDS", "3", 1);
    load(&c, NULL);
    assert_warnings(&c, "");
    assert_true(tn_security_on(&c.security));
    assert_int_equal(tn_security_thresholds(&c.security).high, TN_ASK);
    assert_true(c.security.llm.seconds == 3);
    tn_config_done(&c);

    /* What loosens by mistake is an error. */
    setenv("TENDON_SECURITY_HIGH", "blok", 1);
    assert_int_equal(tn_config_load(&c, NULL, &err), -1);
    assert_non_null(strstr(err.text, "TENDON_SECURITY_HIGH"));
}

static void test_openhands_file(void **state)
{
    const struct place *p = *state;
    tn_autobuf struct tn_buf all = TN_BUF_INIT(1 << 20);
    struct tn_config c;

    load(&c, TN_SOURCE_ROOT "/tests/unit/runtime/openhands.toml");
    assert_string_equal(c.core.e2b_api_key, "e2b-secret");
    assert_warnings(&c, "");
    assert_string_equal(c.tendon.runtime, "docker");
    assert_string_equal(c.core.workspace_base, "/srv/project");
    tn_autofree char *store = tn_asprintf("%s/.store", p->path);
    assert_string_equal(c.core.file_store_path, store);
    assert_false(c.core.run_as_openhands);
    assert_true(c.sandbox.timeout == 90 && c.sandbox.user_id.value == 1000);
    assert_int_equal(c.sandbox.runtime_extra_build_args.count, 2);
    assert_int_equal(c.sandbox.vscode_port.value, 41234);
    assert_string_equal(c.kubernetes.namespace, "agents");
    assert_true(c.security.confirmation_mode);
    assert_int_equal(tn_json_count(c.mcp.sse_servers), 2);
    const struct tn_json *files = tn_json_at(c.mcp.stdio_servers, 1);
    const struct tn_json *args = tn_json_get(files, "args");
    assert_int_equal(tn_json_count(args), 3);
    assert_string_equal(tn_json_str(tn_json_at(args, 1), NULL), "server files");
    assert_string_equal(tn_json_str(tn_json_at(args, 2), NULL), "/srv x");
    assert_string_equal(tn_json_get_str(tn_json_get(files, "env"), "TOKEN", ""), "stdio-secret");

    tn_config_each(&c, put_everything, &all);
    assert_null(strstr(tn_buf_str(&all), "secret\n"));
    assert_null(strstr(tn_buf_str(&all), "-secret"));
    assert_null(strstr(tn_buf_str(&all), "pw@"));
    tn_config_done(&c);
}

/* --- specs -------------------------------------------------------------------------------- */

static void assert_spec(const struct tn_config *c, const char *template, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&out);
    struct tn_spec spec;
    struct tn_error err = {0};

    tn_spec_init(&spec);
    if (tn_config_spec(c, template, &spec, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(tn_spec_check(&spec, &err), 0);
    tn_jw_object(&w);
    tn_spec_to_json(&spec, &w);
    tn_jw_object_end(&w);
    assert_string_equal(tn_buf_str(&out), expected);
    tn_spec_done(&spec);
}

static void test_spec(void **state)
{
    struct tn_config c;
    struct tn_spec spec;
    struct tn_error err = {0};

    load(&c, NULL);
    assert_spec(&c, NULL,
                "{\"runtime\":\"jail\",\"plugins\":[\"jupyter\",\"agent_skills\"],"
                "\"network\":\"default\"}");
    tn_config_done(&c);

    setenv("SANDBOX_ENV_FOO", "a $b", 1);
    setenv("SANDBOX_ENV_BAR", "host", 1);
    load_text(&c, "[sandbox]\nvolumes = '/p:/workspace,/q:/q:ro'\nuser_id = 7\nenable_gpu = true\n"
                  "use_host_network = true\nkeep_runtime_alive = true\nenable_auto_lint = true\n"
                  "initialize_plugins = false\n"
                  "runtime_startup_env_vars = { BAR = 'file' }\n"
                  "[template.x]\nimage = 'i'\nvolumes = ['/z:/z']\nnetwork = 'none'\n"
                  "env = { ONLY = 'this' }\nplugins = ['vscode']\n");
    assert_spec(&c, NULL,
                "{\"runtime\":\"jail\",\"workspace\":\"/workspace\",\"user\":\"7\","
                "\"volumes\":[\"/p:/workspace\",\"/q:/q:ro\"],"
                "\"env\":{\"FOO\":\"a $b\",\"ENABLE_AUTO_LINT\":\"true\",\"BAR\":\"file\"},"
                "\"network\":\"host\",\"gpus\":\"all\",\"keep\":true}");
    assert_spec(&c, "x",
                "{\"runtime\":\"jail\",\"image\":\"i\",\"workspace\":\"/workspace\",\"user\":\"7\","
                "\"plugins\":[\"vscode\"],\"volumes\":[\"/z:/z\"],\"env\":{\"ONLY\":\"this\"},"
                "\"network\":\"none\",\"gpus\":\"all\",\"keep\":true}");
    assert_non_null(tn_config_template(&c, "x"));
    assert_null(tn_config_template(&c, "y"));
    tn_spec_init(&spec);
    assert_int_equal(tn_config_spec(&c, "y", &spec, &err), -1);
    assert_string_equal(err.text, "there is no [template.y] in given.toml");
    tn_spec_done(&spec);
    tn_config_done(&c);
}

/* The stronger counts, and who wants gVisor never begins without it. */
static void test_isolation(void **state)
{
    static const struct {
        const char *demanded, *said, *isolation;
        bool gvisor;
    } cases[] = {
        {"native", NULL, "native", false},    {"native", "native", "native", false},
        {"native", "gvisor", "gvisor", true}, {"native", "kata", "kata", false},
        {"gvisor", NULL, "gvisor", true},     {"gvisor", "native", "gvisor", true},
        {"gvisor", "kata", "kata", true},     {"kata", NULL, "kata", false},
        {"kata", "gvisor", "kata", true},     {"kata", "kata", "kata", false},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        const struct tn_config c = {.tendon.isolation = (char *)(uintptr_t)cases[i].demanded};
        const struct tn_spec spec = {.isolation = (char *)(uintptr_t)cases[i].said};
        assert_string_equal(tn_config_isolation(&c, &spec), cases[i].isolation);
        assert_int_equal(tn_config_wants_gvisor(&c, &spec), cases[i].gvisor);
    }
}

/* --- documentation ------------------------------------------------------------------------ */

static int put_pool(const char *name, const struct tn_config_pool *pool, void *ctx)
{
    tn_buf_printf(ctx, "%s:%s:%d:%d:%d ", name, pool->template ? pool->template : "-",
                  (int)pool->target, (int)pool->minimum, (int)pool->burst);
    return 0;
}

static void test_pools(void **state)
{
    tn_autobuf struct tn_buf seen = TN_BUF_INIT(1000);
    struct tn_config c;

    load_text(&c, "[pool.a]\ntemplate = 't'\ntarget = 5\nminimum = 2\nburst = 3\n[pool.b]\n");
    assert_int_equal(tn_config_pools(&c, put_pool, &seen, NULL), 0);
    assert_string_equal(tn_buf_str(&seen), "a:t:5:2:3 b:-:1:0:0 ");
    assert_warnings(&c, "");
    tn_config_done(&c);
    refuse_text("[pool.x]\ntargget = 1\n",
                "[pool.x]: line 2: unknown key targget; did you mean target?");
    refuse_text("[pool.x]\ntarget = -1\n",
                "[pool.x]: line 2: target: expected an integer from 0 to 10000");
    refuse_text("[pool.x]\ntarget = 1\nminimum = 2\n",
                "[pool.x]: minimum (2) is more than target (1)");
    refuse_text("[pool]\nx = 1\n", "given.toml: line 2: expected sections [pool.NAME]");
    refuse_text("pool = 1\n", "given.toml: line 1: pool is no section");
}

static void test_page_is_up_to_date(void **state)
{
    tn_autobuf struct tn_buf printed = TN_BUF_INIT(1 << 20), kept = TN_BUF_INIT(1 << 20);

    tn_config_describe(&printed);
    assert_null(strstr(tn_buf_str(&printed), "(null)"));
    if (tn_fs_read(TN_FS_ANYWHERE, TN_SOURCE_ROOT "/docs/config.md", &kept, NULL) < 0 ||
        strcmp(tn_buf_str(&printed), tn_buf_str(&kept)) != 0)
        fail_msg("docs/config.md is out of date: print-config > docs/config.md");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),
        TEST(test_state_directory),
        TEST(test_order_of_sources),
        TEST(test_environment),
        TEST(test_which_file),
        TEST(test_file_of_others),
        TEST(test_errors),
        TEST(test_warnings),
        TEST(test_volumes),
        TEST(test_workspace),
        TEST(test_runtime),
        TEST(test_mcp),
        TEST(test_security),
        TEST(test_openhands_file),
        TEST(test_idle_wishes),
        TEST(test_spec),
        TEST(test_isolation),
        TEST(test_pools),
        TEST(test_page_is_up_to_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
