/* The nodes of a TOML tree, for the files that build it. */
#ifndef TN_BASE_TOML_TREE_H
#define TN_BASE_TOML_TREE_H

#include "base/toml.h"

/* How a table or array came to be decides what may still be added to it. */
enum toml_origin {
    TOML_IMPLIED, /* table: only named as a parent in a [header]; may still be defined */
    TOML_HEADER,  /* table: by its [header]; array: by [[header]], and may grow by another one */
    TOML_DOTTED,  /* table: by a dotted key; no header may define it again */
    TOML_VALUE,   /* written out as { } or [ ]: complete */
};

struct toml_member {
    char *key;
    size_t key_len;
    uint32_t hash;
    struct tn_toml *value;
};

struct tn_toml {
    enum tn_toml_type type;
    enum toml_origin origin;
    int line;
    int depth; /* the root is 0 */
    union {
        int64_t integer;
        double real;
        bool truth;
        struct {
            char *bytes; /* NUL follows */
            size_t len;
        } text;
        struct {
            struct tn_toml **items;
            size_t count;
        } array;
        struct {
            struct toml_member *members;
            size_t count;
            uint32_t *slots; /* hash index: member number + 1, or 0; size is a power of two */
            size_t slot_count;
        } table;
    };
};

struct tn_toml *toml_new(enum tn_toml_type type, enum toml_origin origin, int line);
struct tn_toml *toml_find(const struct tn_toml *table, const char *key, size_t len);
/* Both own the child afterwards; the key is copied and must be new. */
void toml_insert(struct tn_toml *table, const char *key, size_t len, struct tn_toml *child);
void toml_append(struct tn_toml *array, struct tn_toml *child);

/* Reads a number, truth value, date or time, which is the whole of word[0..n).  Fills type and
 * value of v; on failure returns what is wrong with it. */
const char *toml_scalar(const char *word, size_t n, struct tn_toml *v);

#endif
