/* What Dockerfiles are made of: lines, words, and the variables in them. */
#ifndef TN_SERVICE_DOCKERFILE_WORDS_H
#define TN_SERVICE_DOCKERFILE_WORDS_H

#include "service/dockerfile.h"

enum { DOCKERFILE_VALUES_MAX = 128 << 10 };

/* The next line without comments, continued where it ends with a backslash; false: no more. */
bool dockerfile_next_line(const char **at, struct tn_buf *line);
const char *dockerfile_skip_blanks(const char *at);
/* How long the name of a variable at the beginning is; 0: there is none. */
size_t dockerfile_name_length(const char *at);

/* What ENV and ARG have said so far. */
struct dockerfile_variables {
    struct dockerfile_variable {
        char *name, *value;
        bool env; /* not only for the build */
    } * items;
    size_t count, bytes; /* of their values */
};
void dockerfile_variables_done(struct dockerfile_variables *vars);
#define autovariables TN_CLEANUP(dockerfile_variables_done)
/* The value of the name of n characters; NULL: none. */
const char *dockerfile_value(const struct dockerfile_variables *vars, const char *name, size_t n);
/* Keeps what the variable of that name is from here on: that value, which is taken over, or the
 * word at `at`. */
int dockerfile_set(struct dockerfile_variables *vars, const char *name, size_t n, char *value,
                   bool env, struct tn_error *err);
int dockerfile_set_word(struct dockerfile_variables *vars, const char *name, size_t n,
                        const char *at, bool whole, bool env, struct tn_error *err);

/* The word at `at`: what it stands for, or (vars NULL) a word in double quotes; whole: to the end
 * of the line.  What follows. */
const char *dockerfile_put_word(const struct dockerfile_variables *vars, struct tn_buf *out,
                                const char *at, bool whole);
/* What follows ENV, NAME=value NAME=value or NAME and the rest: calls fn for each with its value,
 * which vars knows from then on, and with the value as a word of a shell, in which variables are
 * still to be looked up. */
typedef void (*dockerfile_env_fn)(const char *name, const char *value, const char *word, void *ctx);
int dockerfile_add_env(struct dockerfile_variables *vars, const char *at, dockerfile_env_fn fn,
                       void *ctx, struct tn_error *err);
/* What a whole line stands for, the caller's; WORKDIR has one. */
char *dockerfile_line(const struct dockerfile_variables *vars, const char *at);
/* Adds the text so that it is read as it is, as a value or as a line. */
void dockerfile_escape(struct tn_buf *out, const char *text);

#endif
