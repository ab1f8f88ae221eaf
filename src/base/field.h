/* Field tables: one row per member of a struct, and everything else follows from the rows.
 *
 * One table sets the defaults, frees the struct, reads it from JSON, TOML, the environment and the
 * command line, writes it as JSON, prints --help and feeds the generated documentation.  A caller
 * sets the defaults, reads its sources in the order of their weight (each overwrites what it
 * mentions and leaves the rest alone) and ends with tn_fields_check.  Sources name the field in
 * their errors and say what was expected and found.  After an error the struct is still valid: free
 * it with tn_fields_done. */
#ifndef TN_BASE_FIELD_H
#define TN_BASE_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/toml.h"

/* --- member types beyond C's own ------------------------------------------------------- */

struct tn_opt_int {
    bool set;
    int64_t value;
};

struct tn_opt_double {
    bool set;
    double value;
};

/* Bytes that may include NUL; a NUL follows them.  Null when data is NULL. */
struct tn_text {
    char *data;
    size_t len;
};

/* Null when items is NULL; else a NULL pointer follows the items, as execv wants it. */
struct tn_str_list {
    char **items;
    size_t count;
};

bool tn_str_list_has(const struct tn_str_list *list, const char *text);

/* Null when items is NULL. */
struct tn_int_list {
    int64_t *items;
    size_t count;
};

enum tn_field_type {
    TN_FIELD_STRING,     /* char *, owned; NULL is null; never holds a NUL byte */
    TN_FIELD_TEXT,       /* struct tn_text: a string that may hold NUL bytes */
    TN_FIELD_BOOL,       /* bool */
    TN_FIELD_INT,        /* int64_t */
    TN_FIELD_DOUBLE,     /* double */
    TN_FIELD_OPT_INT,    /* struct tn_opt_int */
    TN_FIELD_OPT_DOUBLE, /* struct tn_opt_double */
    TN_FIELD_STRINGS,    /* struct tn_str_list */
    TN_FIELD_INTS,       /* struct tn_int_list */
    TN_FIELD_JSON,       /* struct tn_json *, a reference; NULL stands for the default */
    TN_FIELD_WORD,       /* an enum (or int): the index in .words; -1 is null */
    TN_FIELD_OBJECT,     /* a struct with a table of its own, .fields */
};

enum {
    TN_FIELD_REQUIRED = 1 << 0,    /* tn_fields_check wants a value; not for bool, int and double */
    TN_FIELD_NULLABLE = 1 << 1,    /* null is a value; elsewhere it counts as absent */
    TN_FIELD_SECRET = 1 << 2,      /* never in messages, help or tn_fields_show */
    TN_FIELD_SPARSE = 1 << 3,      /* not written while null, false or empty */
    TN_FIELD_LAX = 1 << 4,         /* a wrong value counts as absent (a bool in text: as false) */
    TN_FIELD_TEXT_NUMBER = 1 << 5, /* int: text counts too; what is no number is the default */
    TN_FIELD_LIST = 1 << 6,        /* TN_FIELD_JSON: an array */
    TN_FIELD_MAP = 1 << 7,         /* TN_FIELD_JSON: an object */
    TN_FIELD_POSITIONAL = 1 << 8,  /* an argument without flag, in the order of the rows */
    TN_FIELD_MANY = 1 << 9,        /* strings: the flag takes all values up to the next flag */
    TN_FIELD_REST = 1 << 10,       /* positional strings: everything from here on, flags too */
    TN_FIELD_COMMAS = 1 << 11,     /* strings: a value of the flag is a list with commas, or "" */
    TN_FIELD_ENVIRON = 1 << 12,    /* map: `--flag NAME` takes the value from the environment */
};

struct tn_field {
    const char *name; /* the JSON and TOML key */
    enum tn_field_type type;
    unsigned flags;
    size_t offset;
    const char *fallback;           /* default as text; NULL is null, "", 0 or false */
    const char *alias;              /* an older JSON key that still counts */
    const char *env;                /* environment variable */
    const char *flag;               /* "--working-dir"; a bool also has "--no-working-dir" */
    char letter;                    /* 'w' for "-w" */
    const char *value;              /* what help calls the value: "DIR" */
    double min, max;                /* numbers; no limits when both are 0 */
    const char *const *words;       /* NULL-terminated: all a word, string or list item may be */
    const struct tn_fields *fields; /* TN_FIELD_OBJECT */
    const char *help;               /* one line */
};

struct tn_fields {
    const struct tn_field *rows;
    size_t count;
};

#define TN_FIELDS(array)                          \
    {                                             \
        .rows = (array), .count = TN_COUNT(array) \
    }

/* Rows.  The member's C type is checked: a wrong one does not compile. */
#define TN_FIELD_AT(strukt, member, ctype)                                                         \
    (offsetof(strukt, member) + 0 * sizeof(char[_Generic(((strukt *)0)->member, ctype : 1, default \
                                                         : -1)]))
#define TN_FIELD_AT_WORD(strukt, member) \
    (offsetof(strukt, member) +          \
     0 * sizeof(char[sizeof(((strukt *)0)->member) == sizeof(int) ? 1 : -1]))

#define TN_ROW(kind, ctype, key, strukt, member, ...)                                         \
    {                                                                                         \
        .name = (key), .type = TN_FIELD_##kind, .offset = TN_FIELD_AT(strukt, member, ctype), \
        __VA_ARGS__                                                                           \
    }
#define TN_STRING(key, strukt, member, ...) TN_ROW(STRING, char *, key, strukt, member, __VA_ARGS__)
#define TN_TEXT(key, strukt, member, ...) \
    TN_ROW(TEXT, struct tn_text, key, strukt, member, __VA_ARGS__)
#define TN_BOOL(key, strukt, member, ...) TN_ROW(BOOL, bool, key, strukt, member, __VA_ARGS__)
#define TN_INT(key, strukt, member, ...) TN_ROW(INT, int64_t, key, strukt, member, __VA_ARGS__)
#define TN_DOUBLE(key, strukt, member, ...) TN_ROW(DOUBLE, double, key, strukt, member, __VA_ARGS__)
#define TN_OPT_INT(key, strukt, member, ...) \
    TN_ROW(OPT_INT, struct tn_opt_int, key, strukt, member, __VA_ARGS__)
#define TN_OPT_DOUBLE(key, strukt, member, ...) \
    TN_ROW(OPT_DOUBLE, struct tn_opt_double, key, strukt, member, __VA_ARGS__)
#define TN_STRINGS(key, strukt, member, ...) \
    TN_ROW(STRINGS, struct tn_str_list, key, strukt, member, __VA_ARGS__)
#define TN_INTS(key, strukt, member, ...) \
    TN_ROW(INTS, struct tn_int_list, key, strukt, member, __VA_ARGS__)
#define TN_JSON(key, strukt, member, ...) \
    TN_ROW(JSON, struct tn_json *, key, strukt, member, __VA_ARGS__)
#define TN_WORD(key, strukt, member, list, ...)                                           \
    {                                                                                     \
        .name = (key), .type = TN_FIELD_WORD, .offset = TN_FIELD_AT_WORD(strukt, member), \
        .words = (list), __VA_ARGS__                                                      \
    }
#define TN_OBJECT(key, strukt, member, table, ...)                                  \
    {                                                                               \
        .name = (key), .type = TN_FIELD_OBJECT, .offset = offsetof(strukt, member), \
        .fields = (table), __VA_ARGS__                                              \
    }

/* --- the struct ------------------------------------------------------------------------ */

/* Gives every member its default; for memory that holds nothing yet. */
void tn_fields_defaults(const struct tn_fields *f, void *object);
/* Frees what the members own and makes all of them null, 0 or false. */
void tn_fields_done(const struct tn_fields *f, void *object);
/* 0, or -1 naming the first required field that has no value. */
int tn_fields_check(const struct tn_fields *f, const void *object, struct tn_error *err);

/* The row with that name, or NULL. */
const struct tn_field *tn_fields_find(const struct tn_fields *f, const char *name);

/* Sets one member from text, as the environment and the command line have it.  Lists are
 * comma-separated or a JSON or Python list; JSON fields are JSON or a Python literal; booleans are
 * true/1/yes/y/t/on and their opposites. */
int tn_field_from_text(const struct tn_field *row, void *object, const char *text,
                       struct tn_error *err);
/* Appends the member as text; nothing for null. */
void tn_field_put_text(const struct tn_field *row, const void *object, struct tn_buf *out);
/* Appends what the field takes: "an integer from 1 to 65535", "one of read, write, or null". */
void tn_field_put_kind(const struct tn_field *row, struct tn_buf *out);

/* --- JSON ------------------------------------------------------------------------------ */

/* Reads the members of a JSON object.  Unknown keys are ignored. */
int tn_fields_from_json(const struct tn_fields *f, void *object, const struct tn_json *json,
                        struct tn_error *err);
/* -1 naming the first unknown key and the nearest known one. */
int tn_fields_refuse_unknown(const struct tn_fields *f, const struct tn_json *json,
                             struct tn_error *err);
/* Writes all members into an object that the caller has opened. */
void tn_fields_to_json(const struct tn_fields *f, const void *object, struct tn_jw *w);
/* The same for human eyes: a secret that is set reads "***". */
void tn_fields_show(const struct tn_fields *f, const void *object, struct tn_jw *w);

/* --- TOML ------------------------------------------------------------------------------ */

/* Reads the members of a table (NULL: none).  Unknown keys are ignored; errors name the line. */
int tn_fields_from_toml(const struct tn_fields *f, void *object, const struct tn_toml *table,
                        struct tn_error *err);
/* -1 naming the first unknown key, its line and the nearest known key. */
int tn_fields_refuse_unknown_toml(const struct tn_fields *f, const struct tn_toml *table,
                                  struct tn_error *err);
/* The same for one key, and what is below it. */
int tn_fields_refuse_unknown_key(const struct tn_fields *f, const char *key,
                                 const struct tn_toml *v, struct tn_error *err);

/* --- environment and command line ------------------------------------------------------ */

/* Reads the variables of the rows; one that is empty counts as unset. */
int tn_fields_from_env(const struct tn_fields *f, void *object, struct tn_error *err);

/* Reads arguments (without the program's name): `--flag value`, `--flag=value`, `-f value`,
 * `--flag` and
 * `--no-flag` for booleans, positional rows in order; `--` ends the flags.  The first mention of a
 * list or map replaces what it held, further ones append.  A map takes `--flag NAME=VALUE` (the
 * value is text, and never in messages) or a whole JSON object.  Returns 1 when -h or --help is
 * among them (the rest is not read), 0, or -1; an unknown flag is an error that names the nearest
 * known one. */
int tn_fields_from_argv(const struct tn_fields *f, void *object, int argc, char *const *argv,
                        struct tn_error *err);

/* Appends "Usage: program [OPTIONS] PORT" and one line for each argument and flag. */
void tn_fields_help(const struct tn_fields *f, const char *program, struct tn_buf *out);
/* The lines of the flags alone. */
void tn_fields_help_flags(const struct tn_fields *f, struct tn_buf *out);
/* Calls fn for every row with a flag or a letter, those of nested tables too; non-zero stops. */
typedef bool (*tn_flag_fn)(const struct tn_field *row, void *object, void *ctx);
bool tn_fields_each_flag(const struct tn_fields *f, tn_flag_fn fn, void *ctx);
/* What help calls the value of that row: "DIR", "N". */
const char *tn_field_value_name(const struct tn_field *row);

#endif
