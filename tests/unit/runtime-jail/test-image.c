#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../base/scratch.h"
#include "base/clock.h"
#include "runtime/jail/image-cache.h"
#include "runtime/jail/image.h"
#include "tar-maker.h"

#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#define OTHER "arm64"
#else
#define ARCHITECTURE "arm64"
#define OTHER "amd64"
#endif

static struct tn_error err;
static struct tn_host host;
static struct jail_image image;
static struct tn_buf outer, first, second;

static int set_up(void **state)
{
    err = (struct tn_error){0};
    image = (struct jail_image){0};
    tn_buf_init(&outer, 16u << 20);
    tn_buf_init(&first, 1u << 20);
    tn_buf_init(&second, 1u << 20);
    tar_text(&first, "etc/kept", "from below");
    tar_text(&first, "etc/gone", "hidden above");
    tar_end(&first);
    tar_text(&second, "etc/.wh.gone", "");
    tar_text(&second, "new", "from above");
    tar_end(&second);
    if (scratch_open(state))
        return -1;
    host = (struct tn_host){.state = scratch_path};
    return 0;
}

static int tear_down(void **state)
{
    jail_image_done(&image);
    tn_buf_done(&outer);
    tn_buf_done(&first);
    tn_buf_done(&second);
    return scratch_close(state);
}

static void digest_of(const struct tn_buf *tar, char out[65])
{
    struct tn_sha256 sum;

    tn_sha256_init(&sum);
    tn_sha256_add(&sum, tar->data, tar->len);
    tn_sha256_end_hex(&sum, out);
}

static void add_bytes(const char *name, const struct tn_buf *bytes)
{
    tar_add(&outer,
            (struct made_entry){.name = name, .content = bytes->data, .length = bytes->len});
}

static void write_image(void)
{
    int fd = openat(scratch, "image.tar", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    tar_end(&outer);
    assert_int_equal(tn_fs_write(fd, outer.data, outer.len, NULL), 0);
    close(fd);
}

static int open_image(void)
{
    tn_autofree char *path = tn_asprintf("%s/image.tar", scratch_path);

    jail_image_done(&image);
    return jail_image_open(&host, path, "box", &image, tn_deadline_in(30), &err);
}

static void must_open(void)
{
    if (open_image() < 0)
        fail_msg("%s", err.text);
}

static void assert_in_layer(size_t i, const char *path, const char *content)
{
    tn_autofree char *dir = jail_image_layer_path(&host, image.layers.items[i]);
    tn_autofd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    if (content)
        assert_file(fd, path, content);
    else
        assert_false(exists(fd, path));
}

/* What `docker save` writes, with the digests given. */
static void docker_image(const char *below, const char *above, const char *arch)
{
    tn_autofree char *config = tn_asprintf(
        "{\"architecture\":\"%s\",\"config\":{\"Env\":[\"A=1\",\"B=x y\"],\"WorkingDir\":\"/srv\","
        "\"User\":\"app\"},\"rootfs\":{\"diff_ids\":[\"sha256:%s\",\"sha256:%s\"]}}",
        arch, below, above);

    tar_add(&outer, (struct made_entry){.name = "blobs/", .type = '5', .mode = 0755});
    add_bytes("aa/layer.tar", &first);
    add_bytes("bb/layer.tar", &second);
    tar_text(&outer, "config.json", config);
    tar_text(&outer, "manifest.json",
             "[{\"Config\":\"config.json\",\"RepoTags\":[\"x:1\"],"
             "\"Layers\":[\"aa/layer.tar\",\"bb/layer.tar\"]}]");
    write_image();
}

static void test_root(void **state)
{
    tar_text(&outer, "etc/hostname", "a root");
    write_image();
    must_open();
    assert_int_equal(image.layers.count, 1);
    assert_in_layer(0, "etc/hostname", "a root");
}

static void test_docker(void **state)
{
    char below[65], above[65];

    digest_of(&first, below);
    digest_of(&second, above);
    docker_image(below, above, ARCHITECTURE);
    must_open();
    assert_int_equal(image.layers.count, 2);
    assert_string_equal(image.layers.items[0], above);
    assert_string_equal(image.layers.items[1], below);
    assert_in_layer(0, "new", "from above");
    assert_in_layer(1, "etc/kept", "from below");
    assert_string_equal(image.workdir, "/srv");
    assert_string_equal(image.user, "app");
    assert_int_equal(image.env.count, 2);
    assert_string_equal(image.env.items[1], "B=x y");
}

/* A second time nothing is unpacked: what was put into the layer stays. */
static void test_unpacked_once(void **state)
{
    tar_text(&outer, "etc/hostname", "a root");
    write_image();
    must_open();
    tn_autofree char *dir = jail_image_layer_path(&host, image.layers.items[0]);
    tn_autofd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put_file(fd, "etc/hostname", "marked");
    must_open();
    assert_file(fd, "etc/hostname", "marked");
}

static void test_a_changed_file_is_another_image(void **state)
{
    tar_text(&outer, "version", "1");
    write_image();
    must_open();
    tn_buf_reset(&outer);
    tar_text(&outer, "version", "two");
    write_image();
    must_open();
    assert_in_layer(0, "version", "two");
}

static void test_a_wrong_digest_is_refused(void **state)
{
    char below[65], above[65];

    digest_of(&first, below);
    digest_of(&second, above);
    docker_image(below, below, ARCHITECTURE);
    /* the second layer claims to be the first, which is there already: it is simply not used */
    must_open();
    assert_int_equal(image.layers.count, 1);
    tn_buf_reset(&outer);
    above[0] = above[0] == '0' ? '1' : '0';
    docker_image(below, above, ARCHITECTURE);
    assert_int_equal(open_image(), -1);
    assert_non_null(strstr(err.text, "damaged"));
    tn_autofree char *poisoned = jail_image_layer_path(&host, above);
    assert_int_not_equal(access(poisoned, F_OK), 0);
}

static void test_another_machine(void **state)
{
    char below[65], above[65];

    digest_of(&first, below);
    digest_of(&second, above);
    docker_image(below, above, OTHER);
    assert_int_equal(open_image(), -1);
    assert_non_null(strstr(err.text, OTHER));
}

static void test_oci(void **state)
{
    char layer[65], config[65], manifest[65];
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20), list = TN_BUF_INIT(1 << 20);
    char name[128];

    digest_of(&first, layer);
    tn_buf_printf(&text, "{\"architecture\":\"%s\",\"rootfs\":{\"diff_ids\":[\"sha256:%s\"]}}",
                  ARCHITECTURE, layer);
    digest_of(&text, config);
    tn_buf_printf(&list,
                  "{\"config\":{\"digest\":\"sha256:%s\"},\"layers\":[{\"digest\":\"sha256:%s\"}]}",
                  config, layer);
    digest_of(&list, manifest);
    tar_text(&outer, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
    snprintf(name, sizeof name, "blobs/sha256/%s", layer);
    add_bytes(name, &first);
    snprintf(name, sizeof name, "blobs/sha256/%s", config);
    add_bytes(name, &text);
    snprintf(name, sizeof name, "blobs/sha256/%s", manifest);
    add_bytes(name, &list);
    tn_buf_reset(&text);
    tn_buf_printf(&text,
                  "{\"manifests\":[{\"digest\":\"sha256:%064d\",\"platform\":{\"architecture\":"
                  "\"%s\"}},{\"digest\":\"sha256:%s\"}]}",
                  0, OTHER, manifest);
    add_bytes("index.json", &text);
    write_image();
    must_open();
    assert_int_equal(image.layers.count, 1);
    assert_in_layer(0, "etc/kept", "from below");
}

/* Whatever is odd in it: an error, and nothing left. */
static void test_bad_manifests(void **state)
{
    static const char *const bad[] = {
        "[]",
        "[{},{}]",
        "[{\"Config\":\"missing\",\"Layers\":[\"a\"]}]",
        "[{\"Config\":\"manifest.json\",\"Layers\":[\"a\"]}]",
        "[{\"Config\":\"manifest.json\",\"Layers\":[1]}]",
        "[{\"Config\":\"config.json\",\"Layers\":[\"../../etc/passwd\"]}]",
        "{",
    };

    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        tn_buf_reset(&outer);
        tar_text(&outer, "manifest.json", bad[i]);
        tar_text(&outer, "config.json", "{\"rootfs\":{\"diff_ids\":[\"sha256:../../../../etc\"]}}");
        write_image();
        assert_int_equal(open_image(), -1);
    }
}

static void test_leftovers_are_removed(void **state)
{
    jail_autocache struct jail_cache c = JAIL_CACHE_INIT, other = JAIL_CACHE_INIT;
    tn_autofree char *mine = NULL;

    mkdirat(scratch, "images", 0700);
    mkdirat(scratch, "images/tmp-abc", 0755);
    assert_int_equal(jail_cache_open(scratch_path, &c, &err), 0);
    assert_false(exists(scratch, "images/tmp-abc"));
    int fd = jail_cache_make(&c, &mine, &err);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(jail_cache_open(scratch_path, &other, &err), 0);
    assert_true(exists(other.dir, mine));
    jail_cache_close(&c);
    jail_cache_close(&other);
    /* nobody holds it any more */
    assert_int_equal(jail_cache_open(scratch_path, &other, &err), 0);
    assert_false(exists(other.dir, mine));
}

static void test_lock(void **state)
{
    jail_autocache struct jail_cache c = JAIL_CACHE_INIT, other = JAIL_CACHE_INIT;

    assert_int_equal(jail_cache_open(scratch_path, &c, &err), 0);
    assert_int_equal(jail_cache_open(scratch_path, &other, &err), 0);
    assert_int_equal(jail_cache_lock(&c, "name", tn_deadline_in(5), &err), 0);
    assert_int_equal(jail_cache_lock(&other, "name", 0, &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    assert_int_equal(jail_cache_lock(&other, "another", tn_deadline_in(5), &err), 0);
    jail_cache_close(&c);
    assert_int_equal(jail_cache_lock(&other, "name", tn_deadline_in(5), &err), 0);
}

static void test_no_archive(void **state)
{
    put_file(scratch, "image.tar", "plain text");
    assert_int_equal(open_image(), -1);
    assert_int_equal(err.code, TN_E_INVALID);
    assert_int_equal(unlinkat(scratch, "image.tar", 0), 0);
    assert_int_equal(open_image(), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(mkfifoat(scratch, "image.tar", 0600), 0);
    assert_int_equal(open_image(), -1);
    assert_int_equal(err.code, TN_E_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_root),
        TEST(test_docker),
        TEST(test_unpacked_once),
        TEST(test_a_changed_file_is_another_image),
        TEST(test_a_wrong_digest_is_refused),
        TEST(test_another_machine),
        TEST(test_oci),
        TEST(test_bad_manifests),
        TEST(test_leftovers_are_removed),
        TEST(test_lock),
        TEST(test_no_archive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
