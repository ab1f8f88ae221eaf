#include "event/mask.h"

#include "base/json.h"
#include "event/mask-search.h"

#define DEPTH_MAX 128

struct tn_mask {
    struct tn_secret *items; /* own both strings */
    size_t count, bytes;
    struct mask_search *search; /* NULL: nothing to look for */
};

/* --- the set ---------------------------------------------------------------------------------- */

struct tn_mask *tn_mask_new(void)
{
    return tn_calloc(1, sizeof(struct tn_mask));
}

static void clear(struct tn_mask *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free((char *)(uintptr_t)m->items[i].name);
        /* It must not live on in memory that somebody else gets. */
        explicit_bzero((char *)(uintptr_t)m->items[i].value, strlen(m->items[i].value));
        free((char *)(uintptr_t)m->items[i].value);
    }
    free(m->items);
    mask_search_free(m->search);
    *m = (struct tn_mask){0};
}

void tn_mask_free(struct tn_mask *m)
{
    if (!m)
        return;
    clear(m);
    free(m);
}

bool tn_mask_empty(const struct tn_mask *m)
{
    return !m->search;
}

/* The value without white space around it; files of secrets end in a line break. */
static const char *trim(const char *value, size_t *n)
{
    static const char space[] = " \t\r\n\v\f";

    value += strspn(value, space);
    *n = strlen(value);
    while (*n && strchr(space, value[*n - 1]))
        --*n;
    return value;
}

static bool known(const struct tn_mask *m, const char *value, size_t n)
{
    for (size_t i = 0; i < m->count; i++)
        if (strlen(m->items[i].value) == n && memcmp(m->items[i].value, value, n) == 0)
            return true;
    return false;
}

static int add(struct tn_mask *m, const struct tn_secret *secret, struct tn_error *err)
{
    size_t n;
    const char *value = trim(secret->value, &n);

    if (n < TN_SECRET_LEAST || known(m, value, n))
        return 0;
    if (m->bytes + n > TN_SECRET_BYTES)
        return tn_fail(err, TN_E_TOO_LARGE, "secret %s: more than %u KiB of secrets", secret->name,
                       TN_SECRET_BYTES >> 10);
    m->items = tn_realloc(m->items, (m->count + 1) * sizeof *m->items);
    m->items[m->count++] =
        (struct tn_secret){.name = tn_strdup(secret->name), .value = tn_strndup(value, n)};
    m->bytes += n;
    return 0;
}

/* --- the forms a value takes ------------------------------------------------------------------ */

static void put_json_form(const char *value, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_str(&w, value);
    tn_buf_cut(out, out->len - 1); /* without the quotes */
    tn_buf_eat(out, 1);
}

static void put_percent_form(const char *value, struct tn_buf *out)
{
    for (const char *c = value; *c; c++) {
        bool plain = (*c >= '0' && *c <= '9') || ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z') ||
                     strchr("-._~", *c);
        if (plain)
            tn_buf_putc(out, *c);
        else
            tn_buf_printf(out, "%%%02X", (unsigned char)*c);
    }
}

static void put_crlf_form(const char *value, struct tn_buf *out)
{
    for (const char *c = value; *c; c++) {
        if (*c == '\n')
            tn_buf_putc(out, '\r');
        tn_buf_putc(out, *c);
    }
}

/* What is not UTF-8 has been replaced by the time a value is looked for. */
static void put_valid_form(const char *value, struct tn_buf *out)
{
    tn_autobuf struct tn_buf quoted = TN_BUF_INIT(8 * TN_SECRET_BYTES);
    tn_autojson struct tn_json *string = NULL;
    struct tn_jw w = tn_jw(&quoted);

    tn_jw_str(&w, value);
    if (tn_json_parse(tn_buf_str(&quoted), quoted.len, &string, NULL) == 0)
        tn_buf_puts(out, tn_json_str(string, NULL));
}

static void (*const forms[])(const char *value, struct tn_buf *out) = {
    put_valid_form,
    put_json_form,
    put_percent_form,
    put_crlf_form,
};

static void rebuild(struct tn_mask *m)
{
    tn_autobuf struct tn_buf form = TN_BUF_INIT(8 * TN_SECRET_BYTES);

    mask_search_free(m->search);
    m->search = m->count ? mask_search_new() : NULL;
    for (size_t i = 0; i < m->count; i++) {
        const char *value = m->items[i].value;
        mask_search_add(m->search, value, strlen(value));
        for (size_t k = 0; k < TN_COUNT(forms); k++) {
            tn_buf_reset(&form);
            forms[k](value, &form);
            if (form.len)
                mask_search_add(m->search, form.data, form.len);
        }
    }
    if (m->search)
        mask_search_finish(m->search);
    if (form.data)
        explicit_bzero(form.data, form.cap);
}

/* A set that holds what `from` holds (or nothing) and these. */
static int collect(struct tn_mask *to, const struct tn_mask *from, const struct tn_secret *secrets,
                   size_t count, struct tn_error *err)
{
    for (size_t i = 0; from && i < from->count; i++)
        if (add(to, &from->items[i], err))
            return -1;
    for (size_t i = 0; i < count; i++)
        if (add(to, &secrets[i], err))
            return -1;
    return 0;
}

static int change(struct tn_mask *m, const struct tn_mask *from, const struct tn_secret *secrets,
                  size_t count, struct tn_error *err)
{
    struct tn_mask made = {0};

    if (collect(&made, from, secrets, count, err)) {
        clear(&made);
        return -1;
    }
    rebuild(&made);
    clear(m);
    *m = made;
    return 0;
}

int tn_mask_set(struct tn_mask *m, const struct tn_secret *secrets, size_t count,
                struct tn_error *err)
{
    return change(m, NULL, secrets, count, err);
}

int tn_mask_update(struct tn_mask *m, const struct tn_secret *secrets, size_t count,
                   struct tn_error *err)
{
    return change(m, m, secrets, count, err);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Memory for the stretches of one string that are hidden: some million. */
#define SPANS_MAX ((size_t)64 << 20)

/* Copies text with the spans hidden. */
static void put_around(const char *text, size_t n, const struct tn_buf *spans, size_t count,
                       struct tn_buf *out)
{
    size_t done = 0;

    for (size_t i = 0; i < count; i++) {
        struct mask_span span = mask_span_at(spans, i);
        tn_buf_add(out, text + done, span.start - done);
        tn_buf_puts(out, TN_SECRET_HIDDEN);
        done = span.end;
    }
    tn_buf_add(out, text + done, n - done);
}

int tn_mask_text(const struct tn_mask *m, const char *text, size_t n, struct tn_buf *out)
{
    tn_autobuf struct tn_buf spans = TN_BUF_INIT(SPANS_MAX);
    ssize_t count = m->search ? mask_search_all(m->search, text, n, &spans) : 0;

    if (count < 0)
        return -1;
    put_around(text, n, &spans, (size_t)count, out);
    return tn_buf_ok(out) ? 0 : -1;
}

/* Where the walk through the JSON text is.  Strings are looked at, everything else is copied. */
struct walk {
    const struct tn_mask *mask;
    const char *text;
    size_t n, at;
    int depth;
    bool object[DEPTH_MAX]; /* what is open at each level */
    bool key;               /* the next string is a member name */
    bool whole;             /* the value at hand is left as it is */
    bool schema;            /* inside extras.metadata, whose names are ours */
    struct tn_buf hidden, spans;
    struct tn_buf *out;
};

/* Names of the members that say what an event is. */
static bool is_protected(const char *name, size_t n)
{
    static const char *const names[] = {"timestamp", "id",     "source",
                                        "cause",     "action", "observation"};

    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0)
            return true;
    return false;
}

/* The end of the string that begins at the quote at `at`: behind its closing quote, or 0. */
static size_t string_end(const struct walk *w)
{
    for (size_t i = w->at + 1; i < w->n; i++) {
        if (w->text[i] == '"')
            return i + 1;
        if (w->text[i] == '\\')
            i++;
    }
    return 0;
}

/* Copies the quoted string, with what is secret in it hidden. */
static int put_hidden(struct walk *w, const char *quoted, size_t n)
{
    const char *inner = quoted + 1;
    size_t len = n - 2;
    tn_autojson struct tn_json *string = NULL;

    if (memchr(inner, '\\', len)) {
        if (tn_json_parse(quoted, n, &string, NULL))
            return -1;
        inner = tn_json_str(string, &len);
    }
    tn_buf_reset(&w->spans);
    ssize_t count = mask_search_all(w->mask->search, inner, len, &w->spans);
    if (count < 0)
        return -1;
    if (count == 0)
        return tn_buf_add(w->out, quoted, n);
    tn_buf_reset(&w->hidden);
    put_around(inner, len, &w->spans, (size_t)count, &w->hidden);
    struct tn_jw jw = tn_jw(w->out);
    tn_jw_strn(&jw, tn_buf_str(&w->hidden), w->hidden.len);
    return tn_buf_ok(&w->hidden) ? 0 : -1;
}

/* Member names: those of the first two levels and of extras.metadata are the protocol's. */
static bool is_free_name(const struct walk *w)
{
    return w->depth > 2 && !(w->depth == 3 && w->schema);
}

static int pass_string(struct walk *w)
{
    size_t end = string_end(w);

    if (!end)
        return -1;
    const char *quoted = w->text + w->at;
    size_t n = end - w->at;
    bool look = w->key ? is_free_name(w) : !w->whole;

    if (w->key && w->depth == 1)
        w->whole = is_protected(quoted + 1, n - 2);
    if (w->key && w->depth == 2)
        w->schema = n == sizeof "\"metadata\"" - 1 && memcmp(quoted, "\"metadata\"", n) == 0;
    w->at = end;
    return look ? put_hidden(w, quoted, n) : tn_buf_add(w->out, quoted, n);
}

static int pass_mark(struct walk *w)
{
    char c = w->text[w->at++];

    switch (c) {
    case '{':
    case '[':
        if (++w->depth >= DEPTH_MAX)
            return -1;
        w->object[w->depth] = c == '{';
        w->key = c == '{';
        /* Only plain values say what an event is. */
        w->whole = false;
        break;
    case '}':
    case ']':
        if (w->depth-- == 0)
            return -1;
        w->key = false;
        break;
    case ':':
        w->key = false;
        break;
    case ',':
        w->key = w->object[w->depth];
        break;
    default:
        break;
    }
    return tn_buf_putc(w->out, c);
}

int tn_mask_event(const struct tn_mask *m, const char *json, size_t n, struct tn_buf *out,
                  struct tn_error *err)
{
    struct walk w = {.mask = m, .text = json, .n = n, .out = out};
    int failed = 0;

    if (tn_mask_empty(m)) {
        failed = tn_buf_add(out, json, n);
        w.at = n;
    }
    tn_buf_init(&w.hidden, out->max);
    tn_buf_init(&w.spans, SPANS_MAX);
    while (!failed && w.at < n)
        failed = json[w.at] == '"' ? pass_string(&w) : pass_mark(&w);
    tn_buf_done(&w.hidden);
    tn_buf_done(&w.spans);
    if (!tn_buf_ok(out))
        return tn_fail(err, TN_E_TOO_LARGE, "event: larger than %zu bytes", out->max);
    if (failed || w.depth)
        return tn_fail(err, TN_E_INVALID, "event: no JSON object");
    return 0;
}
