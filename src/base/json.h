/* JSON: a reader (a tree, from json-c) and a streaming writer.
 *
 * The tree is read-only to callers.  Accessors never crash on a wrong type: they answer NULL or the
 * fallback, and tn_json_type tells.  Values borrowed from a tree live as long as the tree. */
#ifndef TN_BASE_JSON_H
#define TN_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_json;

enum tn_json_type {
    TN_JSON_NULL,
    TN_JSON_BOOL,
    TN_JSON_INT,
    TN_JSON_DOUBLE,
    TN_JSON_STRING,
    TN_JSON_ARRAY,
    TN_JSON_OBJECT,
};

/* Parses exactly one value, at most 64 levels deep, in valid UTF-8, whose tree needs no more than
 * 256 MB besides its strings (some 300,000 objects).  -1 with err on anything else.  A member name
 * may not contain NUL; half a surrogate pair becomes U+FFFD, an integer beyond 64 bits a double.
 * The JSON text `null` is a tree too: *tree is then NULL and the result 0. */
int tn_json_parse(const char *text, size_t len, struct tn_json **tree, struct tn_error *err);
/* The same where the tree and its strings are held in a purse (NULL: none), but for the first 64
 * KB: *held is what was taken from it, and the caller gives it back when the tree is gone.
 * TN_E_BUSY: there was not enough in it. */
int tn_json_parse_held(const char *text, size_t len, struct tn_purse *purse, size_t *held,
                       struct tn_json **tree, struct tn_error *err);
void tn_json_free(struct tn_json *tree);
static inline void tn_guard_json(struct tn_json **tree)
{
    tn_json_free(*tree);
}
#define tn_autojson TN_CLEANUP(tn_guard_json)

/* A further owner of the same tree, in the same thread: owners are counted without any lock, also
 * those of a part and of the whole. */
struct tn_json *tn_json_ref(struct tn_json *tree);
/* A tree of its own with the same contents, for another thread. */
struct tn_json *tn_json_copy(const struct tn_json *tree);

enum tn_json_type tn_json_type(const struct tn_json *v);
const char *tn_json_type_name(const struct tn_json *v);

/* The member, or NULL when v is no object or has no such member (or it is null: see tn_json_has).
 */
struct tn_json *tn_json_get(const struct tn_json *v, const char *key);
bool tn_json_has(const struct tn_json *v, const char *key);
size_t tn_json_count(const struct tn_json *v); /* members or elements; 0 for others */
struct tn_json *tn_json_at(const struct tn_json *v, size_t i);

/* String value (len may be NULL), or NULL when v is no string. */
const char *tn_json_str(const struct tn_json *v, size_t *len);
/* Convenience: string member or fallback. */
const char *tn_json_get_str(const struct tn_json *v, const char *key, const char *fallback);
/* Whether a list has that string among its elements. */
bool tn_json_lists(const struct tn_json *list, const char *word);
bool tn_json_bool(const struct tn_json *v, bool fallback);
int64_t tn_json_int(const struct tn_json *v, int64_t fallback);
double tn_json_double(const struct tn_json *v, double fallback); /* also takes ints */

/* Calls fn for each member of an object in order; stops when fn returns non-zero and returns that.
 */
typedef int (*tn_json_member_fn)(const char *key, struct tn_json *value, void *ctx);
int tn_json_each(const struct tn_json *v, tn_json_member_fn fn, void *ctx);

/* --- writer: appends to a buffer, commas and nesting looked after -------------------------- */

struct tn_jw {
    struct tn_buf *out;
    bool comma;
};

static inline struct tn_jw tn_jw(struct tn_buf *out)
{
    return (struct tn_jw){.out = out};
}

void tn_jw_object(struct tn_jw *w);     /* { */
void tn_jw_object_end(struct tn_jw *w); /* } */
void tn_jw_array(struct tn_jw *w);
void tn_jw_array_end(struct tn_jw *w);
void tn_jw_key(struct tn_jw *w, const char *key);
/* Invalid UTF-8 is replaced by U+FFFD, so the output is always valid JSON.  NULL writes null. */
void tn_jw_strn(struct tn_jw *w, const char *s, size_t n);
void tn_jw_str(struct tn_jw *w, const char *s);
void tn_jw_int(struct tn_jw *w, int64_t v);
void tn_jw_double(struct tn_jw *w,
                  double v); /* always with a '.' or exponent, as Python prints floats */
void tn_jw_bool(struct tn_jw *w, bool v);
void tn_jw_null(struct tn_jw *w);
void tn_jw_tree(struct tn_jw *w, const struct tn_json *v);
void tn_jw_raw(struct tn_jw *w, const char *json, size_t n); /* one ready value */

/* key + value in one call */
void tn_jw_kstr(struct tn_jw *w, const char *key, const char *s);
void tn_jw_kint(struct tn_jw *w, const char *key, int64_t v);
void tn_jw_kdouble(struct tn_jw *w, const char *key, double v);
void tn_jw_kbool(struct tn_jw *w, const char *key, bool v);
void tn_jw_knull(struct tn_jw *w, const char *key);

/* Shortest decimal that reads back as v, always with a '.', an exponent, or inf/nan: Python's repr.
 */
void tn_format_double(char out[32], double v);

#endif
