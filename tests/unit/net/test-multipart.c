#include "unit.h"

#include "net/multipart.h"

/* A body that comes in pieces of a given size. */
struct pieces {
    const char *bytes;
    size_t left;
    size_t step;
    bool fails; /* at the end, instead of ending */
};

static ssize_t next_piece(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct pieces *p = ctx;

    if (p->left == 0 && p->fails)
        return tn_fail(err, TN_E_PEER, "gone");
    if (n > p->step)
        n = p->step;
    if (n > p->left)
        n = p->left;
    memcpy(to, p->bytes, n);
    p->bytes += n;
    p->left -= n;
    return (ssize_t)n;
}

/* Reads a form with reads of `read` bytes and writes it as "name|filename|type|content;" lines. */
static enum tn_code describe(struct pieces p, size_t read, struct tn_buf *out)
{
    const struct tn_part *part;
    struct tn_error err = {0};
    char block[512];
    int more = 0;
    ssize_t n = 0;

    struct tn_multipart *m =
        tn_multipart_new("multipart/form-data; boundary=BB", next_piece, &p, &err);
    while (n >= 0 && (more = tn_multipart_next(m, &part, &err)) > 0) {
        tn_buf_printf(out, "%s|%s|%s|", part->name, part->filename ? part->filename : "",
                      part->type ? part->type : "");
        while ((n = tn_multipart_read(m, block, read, &err)) > 0)
            tn_buf_add(out, block, (size_t)n);
        tn_buf_puts(out, ";");
    }
    if (more == 0 && n == 0) {
        /* the end stays the end */
        assert_int_equal(tn_multipart_next(m, &part, &err), 0);
        assert_int_equal(tn_multipart_read(m, block, read, &err), 0);
    }
    tn_multipart_free(m);
    return more < 0 || n < 0 ? err.code : TN_OK;
}

#define HEAD "Content-Disposition: form-data; name=\"a\"\r\n"

static const struct {
    const char *body;
    const char *parts; /* what can be read */
    enum tn_code code;
} bodies[] = {
    {"--BB--\r\n", "", TN_OK},
    {"--BB--", "", TN_OK},
    {"\r\n--BB--", "", TN_OK},
    {"preamble\r\n--BB\r\n" HEAD "\r\nv\r\n--BB--epilogue", "a|||v;", TN_OK},
    {"--BB\r\n" HEAD "\r\nvalue\r\n--BB--\r\n", "a|||value;", TN_OK},
    {"--BB\r\n" HEAD "\r\n\r\n--BB--\r\n", "a|||;", TN_OK},
    {"--BB\r\n" HEAD "\r\n--BB--\r\n", "a|||;", TN_OK},
    {"--BB\r\n" HEAD "\r\n--BB\r\n" HEAD "\r\nb\r\n--BB--\r\n", "a|||;a|||b;", TN_OK},
    {"--BB\r\n" HEAD "\r\n\r\n\r\n--BB--\r\n", "a|||\r\n;", TN_OK},
    {"--BB\t \r\n" HEAD "\r\nv\r\n--BB  \r\n" HEAD "\r\nw\r\n--BB--", "a|||v;a|||w;", TN_OK},
    {"--BB\r\nContent-Type: t/u\r\n" HEAD "\r\nv\r\n--BB--", "a|||v;", TN_OK},
    {"--BB\r\n" HEAD "CONTENT-TYPE:  t/u; x=y \r\nOther: z\r\n\r\nv\r\n--BB--", "a||t/u; x=y|v;",
     TN_OK},
    /* content that looks like a delimiter for a while */
    {"--BB\r\n" HEAD "\r\n\r\r\n\r\n-\r\n--\r\n--X\r\n--XY\r\n--BBX\n--BB--\r\n--BB--",
     "a|||\r\r\n\r\n-\r\n--\r\n--X\r\n--XY\r\n--BBX\n--BB--;", TN_OK},
    {"--BB\r\n" HEAD "\r\n\r\n\r\n--BB\r\n" HEAD "\r\n--BB-\r\n--BB--", "a|||\r\n;a|||",
     TN_E_INVALID},
    {"", "", TN_E_INVALID},
    {"--BB", "", TN_E_INVALID},
    {"--BB-", "", TN_E_INVALID},
    {"--X\r\n", "", TN_E_INVALID},
    {"--BB\r\n" HEAD, "", TN_E_INVALID},
    {"--BB\r\n" HEAD "\r\n", "", TN_E_INVALID},
    {"--BB\r\n" HEAD "\r\nvalue that never ends", "a|||value that never ends", TN_E_INVALID},
    {"--BB\r\n" HEAD "\r\nvalue\r\n--BB", "a|||value", TN_E_INVALID},
    {"--BB\r\n" HEAD "\r\nvalue\r\n--BB\r\n", "a|||value;", TN_E_INVALID},
    {"--BB\n" HEAD "\r\nvalue\r\n--BB--", "", TN_E_INVALID},
    {"--BB\r\nContent-Disposition: form-data\r\n\r\nv\r\n--BB--", "", TN_E_INVALID},
    {"--BB\r\nContent-Disposition: form-data; filename=x\r\n\r\nv\r\n--BB--", "", TN_E_INVALID},
    {"--BB\r\nContent-Disposition: form-data; name=a; name\r\n\r\nv\r\n--BB--", "", TN_E_INVALID},
    {"--BB\r\nContent-Disposition: form-data; name=a b\r\n\r\nv\r\n--BB--", "", TN_E_INVALID},
    {"--BB\r\nContent-Disposition: form-data name=a\r\n\r\nv\r\n--BB--", "", TN_E_INVALID},
    {"--BB\r\nContent-Disposition : form-data; name=a\r\n\r\nv\r\n--BB--", "", TN_E_INVALID},
    {"--BB\r\n" HEAD " folded\r\n\r\nv\r\n--BB--", "", TN_E_INVALID},
    {"--BB\r\n" HEAD "Content-Transfer-Encoding: quoted-printable\r\n\r\nv\r\n--BB--", "",
     TN_E_UNSUPPORTED},
};

static void test_bodies_in_every_cut(void **state)
{
    for (size_t i = 0; i < TN_COUNT(bodies); i++) {
        size_t n = strlen(bodies[i].body);
        for (size_t step = 1; step <= n + 1; step++)
            for (size_t read = 1; read <= 40; read += 13) {
                tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
                struct pieces p = {.bytes = bodies[i].body, .left = n, .step = step};
                enum tn_code code = describe(p, read, &out);
                if (code != bodies[i].code)
                    fail_msg("%s: %s in steps of %zu", bodies[i].body, tn_code_row(code)->name,
                             step);
                if (code == TN_OK)
                    assert_string_equal(tn_buf_str(&out), bodies[i].parts);
                else
                    assert_memory_equal(tn_buf_str(&out), bodies[i].parts, strlen(bodies[i].parts));
            }
    }
}

/* Binary content of many lengths, so that the delimiter meets every place of the window. */
static void test_large_content(void **state)
{
    enum { WINDOW = 16 * 1024 };
    tn_autobuf struct tn_buf body = TN_BUF_INIT(100000);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100000);

    for (size_t size = WINDOW - 150; size < WINDOW + 150; size++) {
        tn_buf_reset(&body);
        tn_buf_reset(&out);
        tn_buf_puts(&body, "--BB\r\n" HEAD "\r\n");
        for (size_t i = 0; i < size; i++)
            tn_buf_putc(&body, "\r\n--BB\rabc"[(i * i + i / 7) % 10]);
        size_t start = strlen("--BB\r\n" HEAD "\r\n");
        tn_buf_puts(&body, ".\r\n--BB--");
        struct pieces p = {.bytes = body.data, .left = body.len, .step = 5000};
        assert_int_equal(describe(p, 512, &out), TN_OK);
        assert_int_equal(out.len, 4 + size + 1 + 1);
        assert_memory_equal(out.data + 4, body.data + start, size + 1);
    }
}

static void test_skipping(void **state)
{
    static const char body[] = "--BB\r\n" HEAD "\r\nskipped\r\n--BB\r\n" HEAD "\r\nread\r\n--BB--";
    struct pieces p = {.bytes = body, .left = sizeof body - 1, .step = 3};
    const struct tn_part *part;
    struct tn_error err;
    char text[16];

    struct tn_multipart *m =
        tn_multipart_new("multipart/form-data;boundary=BB", next_piece, &p, &err);
    assert_int_equal(tn_multipart_read(m, text, sizeof text, &err), 0);
    assert_int_equal(tn_multipart_next(m, &part, &err), 1);
    assert_int_equal(tn_multipart_read(m, text, 2, &err), 2);
    assert_int_equal(tn_multipart_next(m, &part, &err), 1);
    assert_int_equal(tn_multipart_read(m, text, 1, &err), 1);
    assert_int_equal(text[0], 'r');
    assert_int_equal(tn_multipart_next(m, &part, &err), 0);
    tn_multipart_free(m);
}

static void test_many_parts(void **state)
{
    static const struct {
        int allowed, count; /* 0: nobody says how many */
        bool fits;
    } rows[] = {{0, 64, true}, {0, 65, false}, {200, 200, true}, {200, 201, false}};

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf body = TN_BUF_INIT(100000);
        const struct tn_part *part;
        struct tn_error err = {0};
        int next, count = 0;

        for (int n = 0; n < rows[i].count; n++)
            tn_buf_puts(&body, "--BB\r\n" HEAD "\r\nx\r\n");
        tn_buf_puts(&body, "--BB--");
        struct pieces p = {.bytes = body.data, .left = body.len, .step = 500};
        struct tn_multipart *m =
            tn_multipart_new("multipart/form-data;boundary=BB", next_piece, &p, &err);
        if (rows[i].allowed)
            tn_multipart_allow(m, rows[i].allowed);
        while ((next = tn_multipart_next(m, &part, &err)) == 1)
            count++;
        assert_int_equal(next, rows[i].fits ? 0 : -1);
        assert_int_equal(err.code, rows[i].fits ? TN_OK : TN_E_TOO_LARGE);
        assert_int_equal(count, rows[i].count - !rows[i].fits);
        tn_multipart_free(m);
    }
}

static void test_failing_source(void **state)
{
    static const char body[] = "--BB\r\n" HEAD "\r\nvalue";
    struct tn_error err;

    for (size_t n = 0; n < sizeof body; n++) {
        struct pieces p = {.bytes = body, .left = n, .step = 4, .fails = true};
        const struct tn_part *part;
        char text[16];
        struct tn_multipart *m =
            tn_multipart_new("multipart/form-data;boundary=BB", next_piece, &p, &err);
        int r = tn_multipart_next(m, &part, &err);
        while (r > 0)
            r = (int)tn_multipart_read(m, text, sizeof text, &err);
        assert_int_equal(r, -1);
        assert_int_equal(err.code, TN_E_PEER);
        assert_int_equal(tn_multipart_next(m, &part, &err), -1);
        tn_multipart_free(m);
    }
    tn_multipart_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_in_every_cut),
        cmocka_unit_test(test_large_content),
        cmocka_unit_test(test_skipping),
        cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_failing_source),
    };

    return cmocka_run_group_tests_name("multipart", tests, NULL, NULL);
}
