/* Slices of text, encodings, and what counts as text. */
#include "scratch.h"

#include "hand/file/binary.h"
#include "hand/file/encoding.h"
#include "hand/file/text.h"

#define assert_slice(got, want)                    \
    do {                                           \
        struct tn_slice got_ = (got);              \
        assert_int_equal(got_.n, strlen(want));    \
        assert_memory_equal(got_.s, want, got_.n); \
    } while (0)

static void counts_lines(void **state)
{
    static const struct {
        const char *text;
        size_t lines;
        enum text_eol eol;
    } rows[] = {
        {"", 0, TEXT_LF},           {"a", 1, TEXT_LF},          {"a\n", 1, TEXT_LF},
        {"\n\n", 2, TEXT_LF},       {"a\r\nb", 2, TEXT_CRLF},   {"a\rb\r", 2, TEXT_CR},
        {"a\r\n\rb", 3, TEXT_CRLF}, {"a\r\nb\nc", 3, TEXT_LF},  {"a\r\nb\r\nc\n", 3, TEXT_CRLF},
        {"\r", 1, TEXT_CR},         {"a\n\rb\r\n", 3, TEXT_LF},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_slice t = tn_slice(rows[i].text);
        tn_autobuf struct tn_buf lf = TN_BUF_INIT(100);
        assert_int_equal(text_lines(t), rows[i].lines);
        assert_int_equal(text_eol_of(t), rows[i].eol);
        assert_int_equal(text_add_lf(&lf, t), 0);
        assert_null(strchr(tn_buf_str(&lf), '\r'));
        assert_int_equal(text_lines_lf(tn_slice_of(&lf)), rows[i].lines);
        /* Every offset of the normalised text has its place in the original. */
        for (size_t at = 0; at <= lf.len; at++) {
            tn_autobuf struct tn_buf head = TN_BUF_INIT(100);
            text_add_lf(&head, tn_slicen(t.s, text_offset_before_lf(t, at)));
            assert_int_equal(head.len, at);
            assert_memory_equal(tn_buf_str(&head), tn_buf_str(&lf), at);
        }
    }
}

static void cuts_lines(void **state)
{
    struct tn_slice t = tn_slice("one\ntwo\nthree");
    assert_slice(text_range_lf(t, 1, 1), "one\n");
    assert_slice(text_range_lf(t, 2, 3), "two\nthree");
    assert_slice(text_range_lf(t, 2, 99), "two\nthree");
    assert_slice(text_range_lf(t, 1, 0), "");
    assert_slice(text_range_lf(t, 4, 9), "");
    assert_int_equal(text_line_offset(tn_slice("a\r\nb\rc"), 2), 5);
    assert_int_equal(text_line_offset(tn_slice("a\r\nb\rc"), 9), 6);
    assert_int_equal(text_line_offset(tn_slice("a\r\nb\rc"), 0), 0);
}

static void strips_like_python(void **state)
{
    assert_slice(text_strip(tn_slice(" \t\n a b \r\v\f")), "a b");
    assert_slice(text_strip(tn_slice("\xc2\xa0\xe3\x80\x80x\xe2\x80\x83\xc2\x85")), "x");
    assert_slice(text_strip(tn_slice("\xe2\x80\x8bx")), "\xe2\x80\x8bx"); /* zero width: no space */
    assert_slice(text_rstrip(tn_slice(" a ")), " a");
    assert_slice(text_rstrip(tn_slice("   ")), "");
    assert_slice(text_rstrip(tn_slice("a\xa0")), "a\xa0"); /* not UTF-8: left alone */
}

static void changes_line_endings(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    text_add_eol(&out, tn_slice("a\nb\r\nc\n"), TEXT_CRLF);
    assert_string_equal(tn_buf_str(&out), "a\r\nb\r\nc\r\n");
    tn_buf_reset(&out);
    text_add_eol(&out, tn_slice("a\nb\r\n"), TEXT_LF);
    assert_string_equal(tn_buf_str(&out), "a\nb\r\n");
}

/* --- encodings ----------------------------------------------------------------------------- */

static void detects(void **state)
{
    assert_int_equal(encoding_detect(tn_slice("")), ENCODING_UTF8);
    assert_int_equal(encoding_detect(tn_slice("plain")), ENCODING_UTF8);
    assert_int_equal(encoding_detect(tn_slice("gr\xc3\xbcn")), ENCODING_UTF8);
    assert_int_equal(encoding_detect(tn_slice("\xef\xbb\xbfx")), ENCODING_UTF8_BOM);
    assert_int_equal(encoding_detect(tn_slice("\xef\xbb\xbf\xff")), ENCODING_WINDOWS_1252);
    assert_int_equal(encoding_detect(tn_slicen("\xff\xfex\0", 4)), ENCODING_UTF16LE);
    assert_int_equal(encoding_detect(tn_slicen("\xfe\xff\0x", 4)), ENCODING_UTF16BE);
    assert_int_equal(encoding_detect(tn_slice("caf\xe9")), ENCODING_WINDOWS_1252);
}

static void survives_a_round_trip(struct tn_slice bytes, const char *text)
{
    tn_autobuf struct tn_buf room = TN_BUF_INIT(4096), back = TN_BUF_INIT(4096);
    enum encoding e = encoding_detect(bytes);
    struct tn_slice decoded, encoded;

    assert_int_equal(encoding_decode(e, bytes, &room, &decoded, NULL), 0);
    if (text)
        assert_slice(decoded, text);
    assert_int_equal(encoding_encode(e, decoded, &back, &encoded, NULL), 0);
    assert_int_equal(encoded.n, bytes.n);
    assert_memory_equal(encoded.s, bytes.s, bytes.n);
}

static void encodes_what_it_decoded(void **state)
{
    survives_a_round_trip(tn_slice("\xef\xbb\xbfgr\xc3\xbcn"), "gr\xc3\xbcn");
    survives_a_round_trip(tn_slicen("\xff\xfe\x3d\xd8\x00\xdex\0", 8), "\xf0\x9f\x98\x80x");
    survives_a_round_trip(tn_slicen("\xfe\xff\xd8\x3d\xde\x00\0x", 8), "\xf0\x9f\x98\x80x");
    survives_a_round_trip(tn_slice("caf\xe9 \x80"), "caf\xc3\xa9 \xe2\x82\xac");
    char all[256]; /* 0xff first would be half of a mark */
    for (int i = 0; i < 256; i++)
        all[i] = (char)(i + 1);
    survives_a_round_trip(tn_slicen(all, 256), NULL);
}

static void refuses_broken_text(void **state)
{
    tn_autobuf struct tn_buf room = TN_BUF_INIT(100);
    struct tn_slice out;
    struct tn_error err;

    assert_int_equal(
        encoding_decode(ENCODING_UTF16LE, tn_slicen("\xff\xfex", 3), &room, &out, &err), -1);
    assert_int_equal(
        encoding_decode(ENCODING_UTF16LE, tn_slicen("\xff\xfe\x3d\xd8", 4), &room, &out, &err), -1);
    assert_int_equal(
        encoding_decode(ENCODING_UTF16BE, tn_slicen("\xfe\xff\xdc\x00\0x", 6), &room, &out, &err),
        -1);
    assert_int_equal(
        encoding_encode(ENCODING_WINDOWS_1252, tn_slice("\xe4\xb8\xad"), &room, &out, &err), -1);
    assert_non_null(strstr(err.text, "U+4E2D"));
}

/* --- kinds of files ------------------------------------------------------------------------ */

static void knows_text_from_binary(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool binary;
    } rows[] = {
        {"", 0, false},
        {"int main(void)\n", 15, false},
        {"\x1b[31mred\x1b[0m\n", 13, false},
        {"a\0b", 3, true},
        {"\xff\xfe"
         "a\0",
         4, false},
        {"caf\xe9", 4, false},
        {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, true},
        {"\x01\x02\x03\x04\x05\x06", 6, true},
        {"\xff\xd8\xff\xe1\x10\x02\x03\x04", 8, true},
        {"\xe4\xb8\xad\xe6\x96\x87", 6, false},
        {"\xe4\xb8\xad\xe6\x96", 5, false}, /* cut by the end of the sample */
        {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, true},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        if (binary_bytes(tn_slicen(rows[i].bytes, rows[i].n)) != rows[i].binary)
            fail_msg("row %zu", i);
    assert_true(binary_file("/x/y.pyc", tn_slice("text")));
    assert_false(binary_file("/x/y.py", tn_slice("text")));
}

static void goes_by_extension(void **state)
{
    assert_string_equal(binary_media_type("/a/B.JPG"), "image/jpeg");
    assert_string_equal(binary_media_type("x.pdf"), "application/pdf");
    assert_null(binary_media_type("x.docx"));
    assert_null(binary_media_type("/a.png/readme"));
    assert_string_equal(binary_document("/a/b.DocX"), ".DocX");
    assert_null(binary_document("/a/b.png"));
    assert_string_equal(binary_extension("/a.b/.bashrc"), "");
    assert_string_equal(binary_extension("/a/x.tar.gz"), ".gz");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_lines),
        cmocka_unit_test(cuts_lines),
        cmocka_unit_test(strips_like_python),
        cmocka_unit_test(changes_line_endings),
        cmocka_unit_test(detects),
        cmocka_unit_test(encodes_what_it_decoded),
        cmocka_unit_test(refuses_broken_text),
        cmocka_unit_test(knows_text_from_binary),
        cmocka_unit_test(goes_by_extension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
