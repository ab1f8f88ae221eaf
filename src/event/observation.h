/* Observations: what became of an action.
 *
 * The wire form is {"message", "observation": "<type>", "content", "extras": {...}, "success"} in
 * an envelope; docs/actions.md lists the extras.  Hosts refuse extras they do not know, so what is
 * ours stands in the envelope, or in extras.metadata of `run`. */
#ifndef TN_EVENT_OBSERVATION_H
#define TN_EVENT_OBSERVATION_H

#include "event/action.h"
#include "event/event.h"

enum tn_observation_type {
    /* a hand makes these */
    TN_OBSERVATION_RUN,
    TN_OBSERVATION_RUN_IPYTHON,
    TN_OBSERVATION_READ,
    TN_OBSERVATION_WRITE,
    TN_OBSERVATION_EDIT,
    TN_OBSERVATION_BROWSE,
    TN_OBSERVATION_DOWNLOAD,
    TN_OBSERVATION_ERROR,
    /* a host makes these */
    TN_OBSERVATION_NULL,
    TN_OBSERVATION_THINK,
    TN_OBSERVATION_USER_REJECTED,
    TN_OBSERVATION_MCP,
    TN_OBSERVATION_DELEGATE,
    TN_OBSERVATION_SUCCESS,
    TN_OBSERVATION_AGENT_STATE_CHANGED,
    TN_OBSERVATION_CONDENSE,
    TN_OBSERVATION_RECALL,
    TN_OBSERVATION_TASK_TRACKING,
    TN_OBSERVATION_LOOP_DETECTION,
    TN_OBSERVATION_TYPE_COUNT
};

struct tn_run_metadata {
    int64_t exit_code; /* -1: not finished, or unknown */
    int64_t pid;       /* of the last background job, or -1 */
    char *username, *hostname, *working_dir, *py_interpreter_path; /* NULL: unknown */
    char *prefix, *suffix;
    /* ours; not written while unset or NULL */
    struct tn_opt_double duration, user_time, system_time; /* seconds */
    struct tn_opt_int peak_memory;                         /* bytes */
    struct tn_opt_int output_bytes;                        /* what the command wrote in all */
    struct tn_opt_int output_size;                         /* what output_path holds */
    struct tn_opt_int output_dropped;                      /* what is kept nowhere */
    char *signal;                                          /* "SIGKILL": what ended the command */
    char *end;                                             /* why the wait ended */
    char *command_id;
    char *process; /* the id of one that was started */
    char *output_path;
    struct tn_json *verdict; /* of the analyzers that judged the action */
};

struct tn_run_observation {
    char *command;
    struct tn_run_metadata metadata;
    bool hidden;
};

struct tn_ipython_observation {
    char *code;
    struct tn_str_list image_urls;
    bool failed; /* it raised something, or did not end; on the wire: success */
};

struct tn_read_observation {
    char *path;
    enum tn_read_source impl_source;
};

struct tn_write_observation {
    char *path;
};

struct tn_edit_observation {
    char *path;
    bool prev_exist;
    struct tn_text old_content, new_content; /* the action's old_str and new_str */
    enum tn_edit_source impl_source;
    char *diff;
    struct tn_json *diff_cache; /* OpenHands' own; NULL from a hand */
};

struct tn_browse_observation {
    char *url;
    char *trigger_by_action; /* "browse" or "browse_interactive" */
    char *screenshot, *screenshot_path, *set_of_marks;
    bool error;
    struct tn_str_list goal_image_urls, open_pages_urls;
    int64_t active_page_index;
    struct tn_json *dom_object, *axtree_object, *extra_element_properties; /* NULL stands for {} */
    char *last_browser_action, *last_browser_action_error;
    char *focused_element_bid;
    bool filter_visible_only;
};

struct tn_mcp_observation {
    char *name;
    struct tn_json *arguments; /* NULL stands for {} */
};

struct tn_agent_state_observation {
    char *agent_state;
    char *reason;
};

struct tn_recall_observation {
    enum tn_recall_type recall_type;
    char *repo_name, *repo_directory, *repo_branch, *repo_instructions;
    struct tn_json *runtime_hosts;
    char *additional_agent_instructions;
    char *date;
    struct tn_json *custom_secrets_descriptions;
    char *conversation_instructions;
    char *working_dir;
    struct tn_json *microagent_knowledge;
};

struct tn_task_tracking_observation {
    char *command;
    struct tn_json *task_list; /* NULL stands for [] */
};

struct tn_observation {
    enum tn_observation_type type;
    struct tn_event event;
    struct tn_text
        content; /* any bytes: what is not UTF-8 is replaced on the wire; null reads "" */

    union {
        struct tn_run_observation run;
        struct tn_ipython_observation run_ipython;
        struct tn_read_observation read;
        struct tn_write_observation write;
        struct tn_edit_observation edit;
        struct tn_browse_observation browse;
        char *file_path; /* download */
        char *error_id;  /* error */
        struct tn_mcp_observation mcp;
        struct tn_json *outputs; /* delegate */
        struct tn_agent_state_observation agent_state_changed;
        struct tn_recall_observation recall;
        struct tn_task_tracking_observation task_tracking;
    };
};

/* Makes an observation of that type with all defaults and no content. */
void tn_observation_init(struct tn_observation *o, enum tn_observation_type type);
void tn_observation_done(struct tn_observation *o);
#define tn_autoobservation TN_CLEANUP(tn_observation_done)

/* Gives it the buffer's contents; the buffer is empty afterwards. */
void tn_observation_take_content(struct tn_observation *o, struct tn_buf *content);
void tn_observation_set_content(struct tn_observation *o, const char *text);

/* Makes (in uninitialised memory) the answer to an action that failed: an `error` observation, or
 * for a hidden action, whose host understands nothing else, a `run` observation with exit code -1.
 * a may be NULL. */
void tn_observation_init_error(struct tn_observation *o, const struct tn_action *a, const char *fmt,
                               ...) TN_PRINTF(3, 4);

/* Of a command that its shell was not given, because that was busy with its own start: it may be
 * sent again. */
bool tn_observation_is_starting(const struct tn_observation *o);

/* An action that its user rejected, or has not confirmed yet, is never carried out: whoever is
 * about to do so asks here first.  True when it is such a one; *o (uninitialised memory) is then
 * the answer that OpenHands gives: `user_rejected`, or `null` for one that waits.  Else *o is not
 * touched. */
bool tn_observation_init_unconfirmed(struct tn_observation *o, const struct tn_action *a);
/* Likewise for one that no hand carries out: a thought is noted, what only passes through the
 * host is `null`, and what no runtime supports an `error`. */
bool tn_observation_init_by_host(struct tn_observation *o, const struct tn_action *a);
/* Likewise an `error` of OpenHands' kind for actions that make no sense: "Action NAME WHY". */
void tn_observation_init_bad_action(struct tn_observation *o, const struct tn_action *a,
                                    const char *why);

/* Writes it in one pass.  The content of a `run` that is not hidden is cut as tn_put_cut does. */
void tn_observation_to_json(const struct tn_observation *o, struct tn_jw *w);

/* Decodes an observation into uninitialised memory; on success the caller ends it with
 * tn_observation_done, on failure there is nothing to free.  Older spellings are understood,
 * unknown extras ignored.  Errors: see tn_action_from_json. */
int tn_observation_from_json(const struct tn_json *json, struct tn_observation *o,
                             struct tn_error *err);

const char *tn_observation_name(enum tn_observation_type type);
int tn_observation_type_from_name(const char *name, enum tn_observation_type *type,
                                  struct tn_error *err);

/* Appends the sentence that tells a user what happened; may be empty. */
void tn_observation_put_message(const struct tn_observation *o, struct tn_buf *out);

/* Characters (code points) of content an agent gets to see of one command. */
#define TN_CONTENT_LIMIT 30000
/* Appends text; the middle of one that is longer than the limit is replaced by a note. */
void tn_put_cut(const char *text, size_t len, struct tn_buf *out);

#endif
