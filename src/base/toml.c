#include "base/toml.h"

#include "base/toml-tree.h"

#define INDEX_FROM 8 /* smaller tables are searched in order */

struct tn_toml *toml_new(enum tn_toml_type type, enum toml_origin origin, int line)
{
    struct tn_toml *v = tn_calloc(1, sizeof *v);
    v->type = type;
    v->origin = origin;
    v->line = line;
    return v;
}

/* Recursion is bounded by TN_TOML_DEPTH_MAX. */
void tn_toml_free(struct tn_toml *v)
{
    if (!v)
        return;
    switch (v->type) {
    case TN_TOML_TABLE:
        for (size_t i = 0; i < v->table.count; i++) {
            free(v->table.members[i].key);
            tn_toml_free(v->table.members[i].value);
        }
        free(v->table.members);
        free(v->table.slots);
        break;
    case TN_TOML_ARRAY:
        for (size_t i = 0; i < v->array.count; i++)
            tn_toml_free(v->array.items[i]);
        free(v->array.items);
        break;
    case TN_TOML_STRING:
    case TN_TOML_DATETIME:
    case TN_TOML_DATETIME_LOCAL:
    case TN_TOML_DATE_LOCAL:
    case TN_TOML_TIME_LOCAL:
        free(v->text.bytes);
        break;
    case TN_TOML_INT:
    case TN_TOML_FLOAT:
    case TN_TOML_BOOL:
        break;
    }
    free(v);
}

static uint32_t hash_of(const char *key, size_t len)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)key[i]) * 16777619u;
    return hash;
}

static bool named(const struct toml_member *m, const char *key, size_t len, uint32_t hash)
{
    return m->hash == hash && m->key_len == len && memcmp(m->key, key, len) == 0;
}

struct tn_toml *toml_find(const struct tn_toml *t, const char *key, size_t len)
{
    uint32_t hash = hash_of(key, len);

    if (!t->table.slots) {
        for (size_t i = 0; i < t->table.count; i++)
            if (named(&t->table.members[i], key, len, hash))
                return t->table.members[i].value;
        return NULL;
    }
    size_t mask = t->table.slot_count - 1;
    for (size_t slot = hash & mask; t->table.slots[slot]; slot = (slot + 1) & mask) {
        const struct toml_member *m = &t->table.members[t->table.slots[slot] - 1];
        if (named(m, key, len, hash))
            return m->value;
    }
    return NULL;
}

static void index_member(struct tn_toml *t, size_t i)
{
    size_t mask = t->table.slot_count - 1, slot = t->table.members[i].hash & mask;
    while (t->table.slots[slot])
        slot = (slot + 1) & mask;
    t->table.slots[slot] = (uint32_t)i + 1;
}

/* Room for one more: arrays of pointers and members double at powers of two. */
static void *grown(void *items, size_t count, size_t size)
{
    return count & (count - 1) ? items : tn_realloc(items, (count ? count * 2 : 1) * size);
}

void toml_insert(struct tn_toml *t, const char *key, size_t len, struct tn_toml *child)
{
    size_t i = t->table.count;
    char *name = tn_malloc(len + 1);

    memcpy(name, key, len);
    name[len] = '\0';
    t->table.members = grown(t->table.members, i, sizeof *t->table.members);
    t->table.members[i] = (struct toml_member){
        .key = name, .key_len = len, .hash = hash_of(key, len), .value = child};
    t->table.count++;
    child->depth = t->depth + 1;
    if (t->table.count < INDEX_FROM)
        return;
    if (t->table.count * 2 <= t->table.slot_count) {
        index_member(t, i);
        return;
    }
    free(t->table.slots);
    t->table.slot_count = 4 * INDEX_FROM;
    while (t->table.slot_count < t->table.count * 4)
        t->table.slot_count *= 2;
    t->table.slots = tn_calloc(t->table.slot_count, sizeof *t->table.slots);
    for (size_t k = 0; k <= i; k++)
        index_member(t, k);
}

void toml_append(struct tn_toml *a, struct tn_toml *child)
{
    a->array.items = grown(a->array.items, a->array.count, sizeof *a->array.items);
    a->array.items[a->array.count++] = child;
    child->depth = a->depth + 1;
}

static bool is(const struct tn_toml *v, enum tn_toml_type type)
{
    return v && v->type == type;
}

enum tn_toml_type tn_toml_type(const struct tn_toml *v)
{
    return v->type;
}

const char *tn_toml_type_name(const struct tn_toml *v)
{
    static const char *const names[] = {
        [TN_TOML_TABLE] = "table",           [TN_TOML_ARRAY] = "array",
        [TN_TOML_STRING] = "string",         [TN_TOML_INT] = "integer",
        [TN_TOML_FLOAT] = "float",           [TN_TOML_BOOL] = "boolean",
        [TN_TOML_DATETIME] = "date-time",    [TN_TOML_DATETIME_LOCAL] = "local date-time",
        [TN_TOML_DATE_LOCAL] = "local date", [TN_TOML_TIME_LOCAL] = "local time",
    };
    return v ? names[v->type] : "nothing";
}

int tn_toml_line(const struct tn_toml *v)
{
    return v ? v->line : 0;
}

const struct tn_toml *tn_toml_get(const struct tn_toml *v, const char *key)
{
    return is(v, TN_TOML_TABLE) ? toml_find(v, key, strlen(key)) : NULL;
}

size_t tn_toml_count(const struct tn_toml *v)
{
    if (is(v, TN_TOML_TABLE))
        return v->table.count;
    return is(v, TN_TOML_ARRAY) ? v->array.count : 0;
}

const struct tn_toml *tn_toml_at(const struct tn_toml *v, size_t i)
{
    if (i >= tn_toml_count(v))
        return NULL;
    return v->type == TN_TOML_TABLE ? v->table.members[i].value : v->array.items[i];
}

const char *tn_toml_key_at(const struct tn_toml *v, size_t i, size_t *len)
{
    bool there = is(v, TN_TOML_TABLE) && i < v->table.count;
    if (len)
        *len = there ? v->table.members[i].key_len : 0;
    return there ? v->table.members[i].key : NULL;
}

const char *tn_toml_str(const struct tn_toml *v, size_t *len)
{
    bool text = v && (v->type == TN_TOML_STRING || v->type >= TN_TOML_DATETIME);
    if (len)
        *len = text ? v->text.len : 0;
    return text ? v->text.bytes : NULL;
}

const char *tn_toml_get_str(const struct tn_toml *v, const char *key, const char *fallback)
{
    const struct tn_toml *member = tn_toml_get(v, key);
    return is(member, TN_TOML_STRING) ? member->text.bytes : fallback;
}

bool tn_toml_bool(const struct tn_toml *v, bool fallback)
{
    return is(v, TN_TOML_BOOL) ? v->truth : fallback;
}

int64_t tn_toml_int(const struct tn_toml *v, int64_t fallback)
{
    return is(v, TN_TOML_INT) ? v->integer : fallback;
}

double tn_toml_double(const struct tn_toml *v, double fallback)
{
    if (is(v, TN_TOML_INT))
        return (double)v->integer;
    return is(v, TN_TOML_FLOAT) ? v->real : fallback;
}
