/* Actions: what an agent wants done.
 *
 * The wire form is {"action": "<type>", "args": {...}, "timeout": seconds} in an envelope;
 * docs/actions.md lists every argument, its type and its default.  Older spellings are understood,
 * unknown arguments are ignored.  Arguments of Tendon's own are written only when they are set, so
 * that other servers accept what we send. */
#ifndef TN_EVENT_ACTION_H
#define TN_EVENT_ACTION_H

#include "event/event.h"

enum tn_action_type {
    /* a hand can execute these */
    TN_ACTION_RUN,
    TN_ACTION_RUN_IPYTHON,
    TN_ACTION_READ,
    TN_ACTION_WRITE,
    TN_ACTION_EDIT,
    TN_ACTION_BROWSE,
    TN_ACTION_BROWSE_INTERACTIVE,
    TN_ACTION_CALL_TOOL_MCP,
    TN_ACTION_PLUGIN, /* of a plugin that is not built in; its type is "NAME.ACTION" */
    /* these only pass through the host */
    TN_ACTION_NULL,
    TN_ACTION_MESSAGE,
    TN_ACTION_SYSTEM,
    TN_ACTION_THINK,
    TN_ACTION_FINISH,
    TN_ACTION_REJECT,
    TN_ACTION_DELEGATE,
    TN_ACTION_RECALL,
    TN_ACTION_CHANGE_AGENT_STATE,
    TN_ACTION_CONDENSATION,
    TN_ACTION_CONDENSATION_REQUEST,
    TN_ACTION_TASK_TRACKING,
    TN_ACTION_LOOP_RECOVERY,
    TN_ACTION_NETWORK, /* a connection that its gate holds: judged, and carried out by the host */
    TN_ACTION_TYPE_COUNT
};

enum tn_confirmation {
    TN_CONFIRMED,
    TN_REJECTED,
    TN_AWAITING_CONFIRMATION,
};

enum tn_risk {
    TN_RISK_UNKNOWN = -1,
    TN_RISK_LOW,
    TN_RISK_MEDIUM,
    TN_RISK_HIGH,
};

/* Who does the reading or editing. */
enum tn_read_source {
    TN_READ_DEFAULT,
    TN_READ_EDITOR, /* "oh_aci" */
};

enum tn_edit_source {
    TN_EDIT_EDITOR, /* "oh_aci" */
    TN_EDIT_LLM,    /* "llm_based_edit": done by the host */
};

enum tn_recall_type {
    TN_RECALL_WORKSPACE_CONTEXT,
    TN_RECALL_KNOWLEDGE,
};

struct tn_run_action {
    char *command; /* "" polls the running command */
    bool is_input;
    bool blocking; /* no soft timeout */
    bool is_static;
    char *cwd; /* NULL; only with is_static or process */
    bool hidden;
    /* ours */
    char *session;           /* NULL: the default session */
    bool script;             /* several commands at once are fine */
    bool literal;            /* input is text, never the name of a key */
    char *input_path;        /* standard input of the command; NULL: the terminal */
    struct tn_json *process; /* it is no command of a shell: see process-spec.h; NULL */
};

struct tn_ipython_action {
    char *code;
    bool include_extra;
    char *kernel_init_code;
    /* ours */
    char *session; /* NULL: the default kernel */
};

struct tn_read_action {
    char *path;
    int64_t start, end;
    enum tn_read_source impl_source;
    struct tn_json *view_range; /* as given, NULL for none: see tn_view_range */
};

struct tn_write_action {
    char *path;
    struct tn_text content;
    int64_t start, end;
};

struct tn_edit_action {
    char *path;
    char *command;
    struct tn_text file_text, old_str, new_str; /* null when not given */
    struct tn_json *insert_line; /* as given (an int, a numeric string, anything), NULL for none */
    struct tn_text content;
    int64_t start, end;
    enum tn_edit_source impl_source;
};

struct tn_browse_action {
    char *url;
    bool return_axtree;
};

struct tn_browse_interactive_action {
    char *browser_actions;
    char *browsergym_send_msg_to_user;
    bool return_axtree;
};

struct tn_mcp_action {
    char *name;
    struct tn_json *arguments; /* an object; NULL stands for {} */
};

struct tn_plugin_call {
    char *name; /* the type as it is on the wire: "example.reverse" */
    struct tn_json
        *args; /* an object, without the arguments that types share; NULL stands for {} */
};

struct tn_message_action {
    struct tn_text content;
    struct tn_str_list file_urls, image_urls;
    bool wait_for_response;
};

struct tn_system_action {
    struct tn_text content;
    struct tn_json *tools; /* an array, or NULL */
    char *openhands_version;
    char *agent_class;
};

struct tn_finish_action {
    char *final_thought;
    struct tn_json *outputs; /* an object; NULL stands for {} */
};

struct tn_delegate_action {
    char *agent;
    struct tn_json *inputs;
};

struct tn_recall_action {
    enum tn_recall_type recall_type;
    char *query;
};

/* Either the ids or both ends of a range are set. */
struct tn_condensation_action {
    struct tn_int_list forgotten_event_ids;
    struct tn_opt_int forgotten_events_start_id, forgotten_events_end_id;
    char *summary;
    struct tn_opt_int summary_offset;
};

struct tn_task_tracking_action {
    char *command;
    struct tn_json *task_list; /* an array; NULL stands for [] */
};

/* Made by the service alone; one that a client sends does nothing. */
struct tn_network_action {
    char *host; /* a name, or an address */
    int64_t port;
    char *protocol; /* "tcp" */
};

struct tn_action {
    enum tn_action_type type;
    struct tn_event event;
    char *message;                /* as received; NULL: tn_action_put_message says it */
    struct tn_opt_double timeout; /* seconds; unset or 0: no hard timeout */

    /* arguments that many types share, with their defaults where a type lacks them */
    char *thought;         /* "" or NULL */
    int64_t security_risk; /* enum tn_risk */
    enum tn_confirmation confirmation_state;

    union {
        struct tn_run_action run;
        struct tn_ipython_action run_ipython;
        struct tn_read_action read;
        struct tn_write_action write;
        struct tn_edit_action edit;
        struct tn_browse_action browse;
        struct tn_browse_interactive_action browse_interactive;
        struct tn_mcp_action call_tool_mcp;
        struct tn_plugin_call plugin;
        struct tn_message_action message_to_user;
        struct tn_system_action system_message;
        struct tn_finish_action finish; /* and reject, which has no final_thought */
        struct tn_delegate_action delegate;
        struct tn_recall_action recall;
        char *agent_state; /* change_agent_state */
        struct tn_condensation_action condensation;
        struct tn_task_tracking_action task_tracking;
        int64_t loop_option; /* loop_recovery */
        struct tn_network_action network;
    };
};

/* Makes an action of that type with all defaults; required arguments are left NULL. */
void tn_action_init(struct tn_action *a, enum tn_action_type type);
/* One that runs a command and gives it so many seconds. */
void tn_action_init_run(struct tn_action *a, const char *command, double seconds);
void tn_action_done(struct tn_action *a);
#define tn_autoaction TN_CLEANUP(tn_action_done)

/* Decodes an action into uninitialised memory; on success the caller ends it with tn_action_done,
 * on failure there is nothing to free.  Errors:
 *
 *   TN_E_INVALID        not an event at all, or an observation (text "400: Invalid action type")
 *   TN_E_UNSUPPORTED    no such type of action
 *   TN_E_UNPROCESSABLE  an argument is missing or wrong */
int tn_action_from_json(const struct tn_json *json, struct tn_action *a, struct tn_error *err);
void tn_action_to_json(const struct tn_action *a, struct tn_jw *w);

/* "run", "read", ...; lives for ever. */
const char *tn_action_name(enum tn_action_type type);
/* The plugins that every hand has, by name; NULL at the end. */
extern const char *const tn_plugin_names[];
/* 0, or -1 naming the nearest type there is.  A name with a dot in it is an action of a plugin. */
int tn_action_type_from_name(const char *name, enum tn_action_type *type, struct tn_error *err);
/* A hand can execute it. */
bool tn_action_runnable(enum tn_action_type type);
/* Somebody has to judge it before it is carried out. */
bool tn_action_judged(enum tn_action_type type);
/* The argument of that name where it is a text: borrowed from the action; NULL for another one. */
const char *tn_action_arg(const struct tn_action *a, const char *name, size_t *len);
/* Its output is none of the user's business, and the answer must be a `run` observation. */
bool tn_action_hidden(const struct tn_action *a);

/* Appends the sentence that tells a user what the action does; may be empty. */
void tn_action_put_message(const struct tn_action *a, struct tn_buf *out);

/* 1 with both lines, 0 when there is no range, -1 when it is not a list of two integers. */
int tn_view_range(const struct tn_json *view_range, int64_t *first, int64_t *last);

#endif
