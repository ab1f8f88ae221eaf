/* Variables whose value the text tells. */
#include "security/command/walk.h"

enum { BUCKETS = 512 };

struct var {
    const char *name, *value, *text;
    const struct tn_arg *words; /* of an array */
    size_t word_count;
    bool shared, read;
    unsigned known_in, shared_in; /* the epochs in which value is known */
    struct var *next;
};

struct vars {
    struct tn_arena *arena;
    unsigned epoch;        /* a new one when all may have changed */
    unsigned shared_epoch; /* a new one when functions may have been called */
    bool blind;            /* a variable has several names */
    struct var *buckets[BUCKETS];
};

struct vars *vars_new(struct tn_arena *arena)
{
    struct vars *vars = tn_arena_get(arena, sizeof(*vars));
    vars->arena = arena;
    return vars;
}

static struct var *find(const struct vars *vars, const char *name, size_t len, size_t *bucket)
{
    size_t hash = 5381;
    for (size_t i = 0; i < len; i++)
        hash = hash * 33 + (unsigned char)name[i];
    *bucket = hash % BUCKETS;
    struct var *var = vars->buckets[*bucket];
    while (var && (strncmp(var->name, name, len) != 0 || var->name[len]))
        var = var->next;
    return var;
}

static struct var *find_or_add(struct vars *vars, const char *name, size_t len)
{
    size_t bucket;
    struct var *var = find(vars, name, len, &bucket);
    if (!var) {
        var = tn_arena_get(vars->arena, sizeof(*var));
        var->name = tn_arena_copy(vars->arena, name, len);
        var->next = vars->buckets[bucket];
        vars->buckets[bucket] = var;
    }
    return var;
}

void vars_set(struct vars *vars, const char *name, size_t len, const char *value, const char *text)
{
    struct var *var = find_or_add(vars, name, len);
    var->value = value;
    var->text = text;
    var->words = NULL;
    var->read = false;
    var->known_in = vars->epoch;
    var->shared_in = vars->shared_epoch;
}

static bool is_known(const struct vars *vars, const struct var *var)
{
    return var && !vars->blind && var->known_in == vars->epoch &&
           (!var->shared || var->shared_in == vars->shared_epoch);
}

void vars_set_words(struct vars *vars, const char *name, const struct tn_arg *words, size_t count)
{
    vars_set(vars, name, strlen(name), NULL, NULL);
    struct var *var = find_or_add(vars, name, strlen(name));
    var->words = words;
    var->word_count = count;
}

const struct tn_arg *vars_words(const struct vars *vars, const char *name, size_t *count)
{
    size_t bucket;
    const struct var *var = find(vars, name, strlen(name), &bucket);
    if (!is_known(vars, var) || !var->words)
        return NULL;
    *count = var->word_count;
    return var->words;
}

const char *vars_get(const struct vars *vars, const char *name, const char **text)
{
    size_t bucket;
    struct var *var = find(vars, name, strlen(name), &bucket);
    bool known = is_known(vars, var);
    if (known)
        var->read = true;
    *text = known ? var->text : NULL;
    return known ? var->value : NULL;
}

bool vars_read(const struct vars *vars, const char *name)
{
    size_t bucket;
    const struct var *var = find(vars, name, strlen(name), &bucket);
    return var && var->read;
}

void vars_blind(struct vars *vars)
{
    vars->blind = true;
}

bool vars_touched(const struct vars *vars, const char *name)
{
    size_t bucket;
    return find(vars, name, strlen(name), &bucket) != NULL;
}

void vars_forget(struct vars *vars, const struct tn_sh_tree *tree, size_t from, size_t to)
{
    vars->shared_epoch++;
    for (size_t i = from; i < to; i++) {
        const char *name = tree->names[i];
        if (name[0] == '*')
            vars->epoch++;
        else
            vars_set(vars, name, strlen(name), NULL, NULL);
    }
}

bool vars_change_args(const struct tn_sh_tree *tree, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (tree->names[i][0] == '@' || tree->names[i][0] == '*')
            return true;
    return false;
}

void vars_share(struct vars *vars, const struct tn_sh_tree *tree, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        find_or_add(vars, tree->names[i], strlen(tree->names[i]))->shared = true;
}
