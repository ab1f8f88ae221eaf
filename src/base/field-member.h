/* What the files that implement field.h share; nobody else needs it. */
#ifndef TN_BASE_FIELD_MEMBER_H
#define TN_BASE_FIELD_MEMBER_H

#include "base/field.h"

/* Pointer to the row's member, of the C type its field type says. */
#define FIELD_MEMBER(ctype, row, object) \
    ((ctype *)(uintptr_t)((const char *)(object) + (row)->offset))

/* Setters check range, words and NUL bytes, free the old value, and leave it alone when they fail.
 */
int tn_field_set_string(const struct tn_field *row, void *object, const char *s, size_t n,
                        struct tn_error *err);
int tn_field_set_int(const struct tn_field *row, void *object, int64_t value, struct tn_error *err);
int tn_field_set_double(const struct tn_field *row, void *object, double value,
                        struct tn_error *err);
int tn_field_set_json(const struct tn_field *row, void *object, struct tn_json *value,
                      struct tn_error *err);
/* Makes it an empty list (not null), with room for count items. */
int tn_field_set_list(const struct tn_field *row, void *object, size_t count, struct tn_error *err);
/* Appends one item to a list of strings. */
int tn_field_add_string(const struct tn_field *row, void *object, const char *s, size_t n,
                        struct tn_error *err);
/* Appends the integers of a comma list to a list of integers. */
int tn_field_add_ints(const struct tn_field *row, void *object, const char *text,
                      struct tn_error *err);
/* Sets one member of a map; a value there is replaced. */
int tn_field_put_pair(const struct tn_field *row, void *object, const char *name, size_t name_len,
                      const char *value, struct tn_error *err);
/* Frees the member and makes it null, 0 or false. */
void tn_field_clear(const struct tn_field *row, void *object);
/* Gives the member its default; it must hold nothing. */
void tn_field_default(const struct tn_field *row, void *object);

bool tn_field_is_null(const struct tn_field *row, const void *object);

/* "expected <kind>, found <found>"; a secret value is not shown. */
int tn_field_mismatch(const struct tn_field *row, struct tn_error *err, const char *found, ...)
    TN_PRINTF(3, 4);

/* Sets the member from a value; null (NULL) is refused unless the field is nullable. */
int tn_field_from_value(const struct tn_field *row, void *object, struct tn_json *v,
                        struct tn_error *err);
/* A whole number in v, which may be a double without fraction. */
bool tn_json_as_int(const struct tn_json *v, int64_t *value);

#endif
