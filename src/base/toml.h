/* TOML 1.0, read into a tree.
 *
 * The tree is read-only.  Accessors never crash on a wrong type: they answer NULL or the fallback,
 * and tn_toml_type tells.  Values borrowed from a tree live as long as the tree. */
#ifndef TN_BASE_TOML_H
#define TN_BASE_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct tn_toml;

enum tn_toml_type {
    TN_TOML_TABLE,
    TN_TOML_ARRAY,
    TN_TOML_STRING,
    TN_TOML_INT,
    TN_TOML_FLOAT,
    TN_TOML_BOOL,
    /* These four hold the text as it was written; tn_toml_str reads it. */
    TN_TOML_DATETIME,       /* 1979-05-27T07:32:00Z */
    TN_TOML_DATETIME_LOCAL, /* 1979-05-27T07:32:00 */
    TN_TOML_DATE_LOCAL,     /* 1979-05-27 */
    TN_TOML_TIME_LOCAL,     /* 07:32:00 */
};

#define TN_TOML_BYTES_MAX ((size_t)1 << 20)
#define TN_TOML_DEPTH_MAX 64

/* Parses a whole document; NULL with err (which names line and column) when it is not TOML 1.0, or
 * is larger or deeper than the limits above.  A byte order mark at the start is skipped; line ends
 * in multi-line strings become "\n". */
struct tn_toml *tn_toml_parse(const char *text, size_t len, struct tn_error *err);
void tn_toml_free(struct tn_toml *root);
static inline void tn_guard_toml(struct tn_toml **root)
{
    tn_toml_free(*root);
}
#define tn_autotoml TN_CLEANUP(tn_guard_toml)

/* v may be NULL wherever a value is asked: it has no members and no value. */
enum tn_toml_type tn_toml_type(const struct tn_toml *v); /* not NULL here */
const char *tn_toml_type_name(const struct tn_toml *v);  /* "integer", "table"...; "nothing" */
int tn_toml_line(const struct tn_toml *v); /* where it was defined, from 1; 0 for NULL */

const struct tn_toml *tn_toml_get(const struct tn_toml *v, const char *key);
size_t tn_toml_count(const struct tn_toml *v); /* members or elements; 0 for others */
/* Element i of an array, or the value of member i of a table, in the order of the document. */
const struct tn_toml *tn_toml_at(const struct tn_toml *v, size_t i);
/* The name of member i of a table (len may be NULL), or NULL. */
const char *tn_toml_key_at(const struct tn_toml *v, size_t i, size_t *len);

/* The string or the text of a date or time (len may be NULL), or NULL. */
const char *tn_toml_str(const struct tn_toml *v, size_t *len);
const char *tn_toml_get_str(const struct tn_toml *v, const char *key, const char *fallback);
bool tn_toml_bool(const struct tn_toml *v, bool fallback);
int64_t tn_toml_int(const struct tn_toml *v, int64_t fallback);
double tn_toml_double(const struct tn_toml *v, double fallback); /* also takes ints */

#endif
