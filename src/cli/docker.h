/* What somebody types who knows docker: words of its command line that are another word here. */
#ifndef TN_CLI_DOCKER_H
#define TN_CLI_DOCKER_H

#include "base/error.h"
#include "base/field.h"

/* Our verb that does the same as docker's, or NULL. */
const char *docker_same(const char *verb);

/* err when it is a verb of docker that is something else here: what to type; else 0. */
int docker_refuse_verb(const char *verb, struct tn_error *err);
/* The same for flags of docker among the words behind one of our verbs, after which err says
 * already that something is wrong with them. */
void docker_explain_flags(const char *verb, const struct tn_str_list *words_behind,
                          struct tn_error *err);

/* Whether that reads as the name of an image with a tag or a registry: "debian:12". */
bool docker_is_image(const char *word);

#endif
