/* Diffs: their form, and that applying one to the old text gives the new text. */
#include "scratch.h"

#include "base/clock.h"
#include "base/diff-lines.h"
#include "hand/file/diff.h"

static char *diff(const char *before, const char *after)
{
    struct tn_buf out = TN_BUF_INIT(64u << 20);
    assert_int_equal(diff_unified(&out, "/f", tn_slice(before), tn_slice(after)), 0);
    return tn_buf_take(&out);
}

static void assert_diff(const char *before, const char *after, const char *want)
{
    tn_autofree char *got = diff(before, after);
    assert_string_equal(got, want);
}

#define HEAD "--- /f\n+++ /f\n"

/* Each of these is what difflib.unified_diff(n=0) says. */
static void looks_like_difflib(void **state)
{
    assert_diff("a\nb\n", "a\nb\n", "");
    assert_diff("", "", "");
    assert_diff("", "a\n", HEAD "@@ -0,0 +1 @@\n+a");
    assert_diff("", "a\nb", HEAD "@@ -1 +1,2 @@\n-\n+a\n+b");
    assert_diff("a\n", "", HEAD "@@ -1 +0,0 @@\n-a");
    assert_diff("a\nb\nc", "a\nB\nc", HEAD "@@ -2 +2 @@\n-b\n+B");
    assert_diff("a\nb\nc", "a\nc", HEAD "@@ -2 +1,0 @@\n-b");
    assert_diff("a\nc", "a\nb\nc", HEAD "@@ -1,0 +2 @@\n+b");
    assert_diff("a\nb\nc\nd\ne", "A\nb\nc\nd\nE", HEAD "@@ -1 +1 @@\n-a\n+A\n@@ -5 +5 @@\n-e\n+E");
    assert_diff("a", "a\n", HEAD "@@ -1,0 +2 @@\n+");
    assert_diff("x  ", "y \t", HEAD "@@ -1 +1 @@\n-x\n+y");
}

/* --- applying ------------------------------------------------------------------------------ */

static const char *line_end(const char *s)
{
    const char *lf = strchr(s, '\n');
    return lf ? lf : s + strlen(s);
}

/* "5" or "5,2": the lines before the hunk, and how many it has. */
static const char *parse_range(const char *s, size_t *before, size_t *count)
{
    char *end;
    *before = strtoul(s, &end, 10);
    *count = *end == ',' ? strtoul(end + 1, &end, 10) : 1;
    *before -= *count > 0;
    return end;
}

/* Texts here have no white space at the ends of lines, so nothing is lost in the diff. */
static char *apply(const char *before, const char *patch)
{
    struct tn_buf out = TN_BUF_INIT(64u << 20);
    const char *old = before;
    size_t old_line = 0, new_line = 0;
    bool more = true;

    if (!*patch)
        return tn_strdup(before);
    assert_memory_equal(patch, HEAD, strlen(HEAD));
    patch += strlen(HEAD);
    while (*patch) {
        size_t old_at, old_count, new_at, new_count;
        assert_memory_equal(patch, "@@ -", 4);
        patch = parse_range(patch + 4, &old_at, &old_count);
        assert_memory_equal(patch, " +", 2);
        patch = parse_range(patch + 2, &new_at, &new_count);
        assert_memory_equal(patch, " @@", 3);
        assert_true(old_count + new_count > 0);
        patch += 3 + (patch[3] == '\n');
        for (; old_line < old_at; old_line++, new_line++) {
            const char *end = line_end(old);
            tn_buf_add(&out, old, (size_t)(end - old));
            tn_buf_putc(&out, '\n');
            more = *end;
            old = end + more;
        }
        assert_int_equal(new_line, new_at);
        for (size_t i = 0; i < old_count; i++, old_line++) {
            const char *end = line_end(old), *patch_end = line_end(patch);
            assert_int_equal(patch[0], '-');
            assert_int_equal(end - old, patch_end - patch - 1);
            assert_memory_equal(old, patch + 1, (size_t)(end - old));
            more = *end;
            old = end + more;
            patch = patch_end + (*patch_end == '\n');
        }
        for (size_t i = 0; i < new_count; i++, new_line++) {
            const char *patch_end = line_end(patch);
            assert_int_equal(patch[0], '+');
            tn_buf_add(&out, patch + 1, (size_t)(patch_end - patch - 1));
            tn_buf_putc(&out, '\n');
            patch = patch_end + (*patch_end == '\n');
        }
    }
    if (more)
        tn_buf_puts(&out, old);
    else
        tn_buf_cut(&out, out.len - 1);
    return tn_buf_take(&out);
}

static uint32_t random_state = 1;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % n;
}

static char *random_text(uint32_t lines, uint32_t alphabet)
{
    struct tn_buf out = TN_BUF_INIT(1u << 20);
    for (uint32_t i = 0; i < lines; i++)
        tn_buf_printf(&out, "%s%u", i ? "\n" : "", random_below(alphabet));
    return tn_buf_take(&out);
}

static void applies(void **state)
{
    for (int round = 0; round < 3000; round++) {
        tn_autofree char *a = random_text(random_below(30), 1 + random_below(8));
        tn_autofree char *b = random_text(random_below(30), 1 + random_below(8));
        tn_autofree char *patch = diff(a, b);
        tn_autofree char *result = apply(a, patch);
        assert_string_equal(result, b);
    }
}

/* The length of the longest common subsequence, the slow way. */
static size_t lcs(const uint32_t *a, size_t n, const uint32_t *b, size_t m)
{
    size_t best[2][32] = {{0}};
    for (size_t i = 1; i <= n; i++)
        for (size_t k = 1; k <= m; k++) {
            size_t skip_a = best[(i - 1) % 2][k], skip_b = best[i % 2][k - 1];
            best[i % 2][k] = a[i - 1] == b[k - 1] ? best[(i - 1) % 2][k - 1] + 1
                             : skip_a > skip_b    ? skip_a
                                                  : skip_b;
        }
    return best[n % 2][m];
}

static void is_minimal(void **state)
{
    for (int round = 0; round < 5000; round++) {
        uint32_t a[30], b[30], alphabet = 1 + random_below(6);
        size_t n = random_below(30), m = random_below(30), kept = 0, also = 0;
        bool gone[30] = {false}, came[30] = {false};
        for (size_t i = 0; i < n; i++)
            a[i] = random_below(alphabet);
        for (size_t i = 0; i < m; i++)
            b[i] = random_below(alphabet);
        tn_diff_lines(a, n, b, m, gone, came, INT64_MAX);
        for (size_t i = 0; i < n; i++)
            kept += !gone[i];
        for (size_t i = 0; i < m; i++)
            also += !came[i];
        assert_int_equal(kept, also);
        assert_int_equal(kept, n && m ? lcs(a, n, b, m) : 0);
    }
}

static void is_bounded_and_still_right(void **state)
{
    tn_autofree char *a = random_text(60000, 50000);
    tn_autofree char *b = random_text(60000, 50000);
    int64_t start = tn_now();
    tn_autofree char *patch = diff(a, b);
    assert_true(tn_now() - start < 20 * TN_SECOND); /* without the limit: minutes */
    tn_autofree char *result = apply(a, patch);
    assert_string_equal(result, b);
}

static void takes_too_many_lines_as_one_change(void **state)
{
    tn_autobuf struct tn_buf a = TN_BUF_INIT(8u << 20), b = TN_BUF_INIT(8u << 20);
    for (int i = 0; i < 150000; i++) {
        tn_buf_printf(&a, "a%d\n", i);
        tn_buf_printf(&b, "b%d\n", i);
    }
    tn_autofree char *patch = diff(tn_buf_str(&a), tn_buf_str(&b));
    tn_autofree char *result = apply(tn_buf_str(&a), patch);
    assert_string_equal(result, tn_buf_str(&b));
}

static void reports_a_full_buffer(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(20);
    assert_int_equal(diff_unified(&out, "/f", tn_slice("a"), tn_slice("b\nc\nd")), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_like_difflib),
        cmocka_unit_test(applies),
        cmocka_unit_test(is_minimal),
        cmocka_unit_test(is_bounded_and_still_right),
        cmocka_unit_test(takes_too_many_lines_as_one_change),
        cmocka_unit_test(reports_a_full_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
