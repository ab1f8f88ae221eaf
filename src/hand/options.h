/* Command line and environment of tendon-hand: one table. */
#ifndef TN_HAND_OPTIONS_H
#define TN_HAND_OPTIONS_H

#include "base/field.h"

struct tn_hand_options {
    int64_t port; /* 0: only --listen */
    char *working_dir;
    struct tn_str_list plugins;
    char *plugin_path;
    bool start_plugins;
    int64_t plugin_seconds;
    struct tn_str_list python_preload;
    char *username; /* NULL: not given, or as a number; then user_id says which, if it is set */
    struct tn_opt_int user_id;
    bool enable_browser;
    bool viewer; /* also without a port */
    bool viewer_secret;
    bool downloads;
    char *browsergym_eval_env;
    struct tn_str_list listen;
    char *key;
    char *key_file;
    char *key_digest; /* of the key, which is not known then */
    char *shell;
    double ready_seconds;
    double no_change_seconds;
    bool su_to_user;
    bool exit_with_parent;
    bool traceable;
    char *exit_with;
    bool confine;
    bool log_json;
    char *log_level;
    char *copy_to;
    bool version;
};

extern const struct tn_fields tn_hand_fields;

/* Whether requests must carry a key. */
static inline bool tn_hand_has_key(const struct tn_hand_options *o)
{
    return o->key_digest || (o->key && *o->key);
}

/* Environment, then arguments, then checks.  1 when --help, --version or --copy-to was asked for
 * and done. */
int tn_hand_options_read(struct tn_hand_options *o, int argc, char **argv, struct tn_error *err);

#endif
