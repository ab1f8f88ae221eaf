/* Every action: its arguments, their defaults, and the sentence that tells a user about it. */
#include "base/utf8.h"
#include "event/kinds.h"
#include "event/process-spec.h"

#define ACTION struct tn_action

const char *const tn_read_sources[] = {
    [TN_READ_DEFAULT] = "default", [TN_READ_EDITOR] = "oh_aci", NULL};
const char *const tn_edit_sources[] = {
    [TN_EDIT_EDITOR] = "oh_aci", [TN_EDIT_LLM] = "llm_based_edit", NULL};
const char *const tn_recall_types[] = {
    [TN_RECALL_WORKSPACE_CONTEXT] = "workspace_context", [TN_RECALL_KNOWLEDGE] = "knowledge", NULL};
const char *const tn_plugin_names[] = {"jupyter", "agent_skills", "vscode", "browser", "mcp", NULL};
const char *const tn_confirmations[] = {
    [TN_CONFIRMED] = "confirmed",
    [TN_REJECTED] = "rejected",
    [TN_AWAITING_CONFIRMATION] = "awaiting_confirmation",
    NULL,
};

/* clang-format off */
#define THOUGHT \
    TN_STRING("thought", ACTION, thought, .fallback = "", .help = "why the agent does this")
#define SECURITY_RISK \
    TN_INT("security_risk", ACTION, security_risk, .fallback = "-1", .flags = TN_FIELD_LAX, \
           .min = TN_RISK_UNKNOWN, .max = TN_RISK_HIGH, \
           .help = "-1 unknown, 0 low, 1 medium, 2 high: as the agent rates it")
#define CONFIRMATION_STATE \
    TN_WORD("confirmation_state", ACTION, confirmation_state, tn_confirmations, \
            .fallback = "confirmed", .alias = "is_confirmed", \
            .help = "one that is not confirmed is answered, not carried out")
#define RETURN_AXTREE(member) \
    TN_BOOL("return_axtree", ACTION, member, .help = "return the accessibility tree as JSON too")
/* clang-format on */

static const struct tn_field run[] = {
    TN_STRING("command", ACTION, run.command, .flags = TN_FIELD_REQUIRED,
              .help = "what to run; empty: wait for more output of the running command"),
    TN_BOOL("is_input", ACTION, run.is_input,
            .help = "the command is input (or the name of a key) for the running program"),
    THOUGHT,
    TN_BOOL("blocking", ACTION, run.blocking, .help = "do not return because output has stopped"),
    TN_BOOL("is_static", ACTION, run.is_static,
            .help = "run apart from the session, in a new shell"),
    TN_STRING("cwd", ACTION, run.cwd, .flags = TN_FIELD_NULLABLE,
              .help = "directory of a static command or a process"),
    TN_BOOL("hidden", ACTION, run.hidden, .help = "do not show it to the user; output is not cut"),
    CONFIRMATION_STATE,
    SECURITY_RISK,
    TN_STRING("session", ACTION, run.session, .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE,
              .help = "Tendon: which shell session; null is the default one"),
    TN_BOOL("script", ACTION, run.script, .flags = TN_FIELD_SPARSE,
            .help = "Tendon: several commands at once are fine"),
    TN_STRING("stdin", ACTION, run.input_path, .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE,
              .help = "Tendon: the command reads this file; null: the session's terminal"),
    TN_BOOL("literal", ACTION, run.literal, .flags = TN_FIELD_SPARSE,
            .help = "Tendon: input is text, never the name of a key"),
    TN_JSON("process", ACTION, run.process,
            .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE | TN_FIELD_MAP,
            .fields = &tn_process_spec_fields,
            .help = "Tendon: start a process of its own, and do not wait for its end; command is "
                    "its command line, cwd its directory"),
};

static const struct tn_field run_ipython[] = {
    TN_STRING("code", ACTION, run_ipython.code, .flags = TN_FIELD_REQUIRED, .help = "the cell"),
    THOUGHT,
    TN_BOOL("include_extra", ACTION, run_ipython.include_extra, .fallback = "true",
            .help = "add the working directory and interpreter to the output"),
    CONFIRMATION_STATE,
    SECURITY_RISK,
    TN_STRING("kernel_init_code", ACTION, run_ipython.kernel_init_code, .fallback = "",
              .help = "run before it in a kernel that has just been started"),
    TN_STRING("session", ACTION, run_ipython.session, .flags = TN_FIELD_NULLABLE | TN_FIELD_SPARSE,
              .help = "Tendon: which kernel; null is the default one"),
};

static const struct tn_field read_[] = {
    TN_STRING("path", ACTION, read.path, .flags = TN_FIELD_REQUIRED, .help = "the file"),
    TN_INT("start", ACTION, read.start, .fallback = "0", .help = "first line, from 0"),
    TN_INT("end", ACTION, read.end, .fallback = "-1",
           .help = "line after the last; -1: to the end"),
    THOUGHT,
    SECURITY_RISK,
    TN_WORD("impl_source", ACTION, read.impl_source, tn_read_sources, .fallback = "default",
            .help = "default: the plain text; oh_aci: the editor's view with line numbers"),
    TN_JSON("view_range", ACTION, read.view_range, .flags = TN_FIELD_NULLABLE,
            .help = "[first, last] line from 1, for the editor's view"),
};

static const struct tn_field write_[] = {
    TN_STRING("path", ACTION, write.path, .flags = TN_FIELD_REQUIRED, .help = "the file"),
    TN_TEXT("content", ACTION, write.content, .flags = TN_FIELD_REQUIRED, .help = "its new text"),
    TN_INT("start", ACTION, write.start, .fallback = "0", .help = "first line replaced, from 0"),
    TN_INT("end", ACTION, write.end, .fallback = "-1",
           .help = "line after the last replaced; -1: to the end"),
    THOUGHT,
    SECURITY_RISK,
};

static const struct tn_field edit[] = {
    TN_STRING("path", ACTION, edit.path, .flags = TN_FIELD_REQUIRED,
              .help = "the file, as an absolute path"),
    TN_STRING("command", ACTION, edit.command, .fallback = "",
              .help = "view, create, str_replace, insert or undo_edit"),
    TN_TEXT("file_text", ACTION, edit.file_text, .flags = TN_FIELD_NULLABLE, .help = "for create"),
    TN_TEXT("old_str", ACTION, edit.old_str, .flags = TN_FIELD_NULLABLE, .help = "for str_replace"),
    TN_TEXT("new_str", ACTION, edit.new_str, .flags = TN_FIELD_NULLABLE,
            .help = "for str_replace and insert"),
    TN_JSON("insert_line", ACTION, edit.insert_line, .flags = TN_FIELD_NULLABLE,
            .help = "for insert: the line after which; an integer or a numeric string"),
    TN_TEXT("content", ACTION, edit.content, .fallback = "", .help = "for llm_based_edit"),
    TN_INT("start", ACTION, edit.start, .fallback = "1", .help = "for llm_based_edit: first line"),
    TN_INT("end", ACTION, edit.end, .fallback = "-1", .help = "for llm_based_edit: last line"),
    THOUGHT,
    SECURITY_RISK,
    TN_WORD("impl_source", ACTION, edit.impl_source, tn_edit_sources, .fallback = "oh_aci",
            .help = "oh_aci: the hand's editor; llm_based_edit: done by the host"),
};

static const struct tn_field browse[] = {
    TN_STRING("url", ACTION, browse.url, .flags = TN_FIELD_REQUIRED, .help = "the page to open"),
    THOUGHT,
    SECURITY_RISK,
    RETURN_AXTREE(browse.return_axtree),
};

static const struct tn_field browse_interactive[] = {
    TN_STRING("browser_actions", ACTION, browse_interactive.browser_actions,
              .flags = TN_FIELD_REQUIRED,
              .help = "calls such as click(\"12\"), one after the other"),
    THOUGHT,
    TN_STRING("browsergym_send_msg_to_user", ACTION, browse_interactive.browsergym_send_msg_to_user,
              .fallback = "", .help = "what the agent says to the user meanwhile"),
    SECURITY_RISK,
    RETURN_AXTREE(browse_interactive.return_axtree),
};

static const struct tn_field call_tool_mcp[] = {
    TN_STRING("name", ACTION, call_tool_mcp.name, .flags = TN_FIELD_REQUIRED, .help = "the tool"),
    TN_JSON("arguments", ACTION, call_tool_mcp.arguments, .flags = TN_FIELD_MAP, .fallback = "{}",
            .help = "what it is called with"),
    THOUGHT,
    SECURITY_RISK,
};

static const struct tn_field plugin[] = {THOUGHT, SECURITY_RISK};

static const struct tn_field message[] = {
    TN_TEXT("content", ACTION, message_to_user.content, .flags = TN_FIELD_REQUIRED,
            .help = "what is said"),
    TN_STRINGS("file_urls", ACTION, message_to_user.file_urls, .flags = TN_FIELD_NULLABLE,
               .help = "files that go with it"),
    TN_STRINGS("image_urls", ACTION, message_to_user.image_urls, .flags = TN_FIELD_NULLABLE,
               .alias = "images_urls", .help = "pictures that go with it"),
    TN_BOOL("wait_for_response", ACTION, message_to_user.wait_for_response,
            .help = "the agent waits for an answer"),
    SECURITY_RISK,
};

static const struct tn_field system_[] = {
    TN_TEXT("content", ACTION, system_message.content, .flags = TN_FIELD_REQUIRED,
            .help = "the system prompt"),
    TN_JSON("tools", ACTION, system_message.tools, .flags = TN_FIELD_NULLABLE | TN_FIELD_LIST,
            .help = "the tools offered to the model"),
    TN_STRING("openhands_version", ACTION, system_message.openhands_version,
              .flags = TN_FIELD_NULLABLE, .help = "version of the host"),
    TN_STRING("agent_class", ACTION, system_message.agent_class, .flags = TN_FIELD_NULLABLE,
              .help = "which agent it is for"),
};

static const struct tn_field think[] = {THOUGHT};

static const struct tn_field finish[] = {
    TN_STRING("final_thought", ACTION, finish.final_thought, .fallback = "",
              .help = "the agent's last word"),
    TN_JSON("outputs", ACTION, finish.outputs, .flags = TN_FIELD_MAP, .fallback = "{}",
            .help = "results by name"),
    THOUGHT,
};

static const struct tn_field reject[] = {
    TN_JSON("outputs", ACTION, finish.outputs, .flags = TN_FIELD_MAP, .fallback = "{}",
            .help = "results by name; `reason` says why"),
    THOUGHT,
};

static const struct tn_field delegate[] = {
    TN_STRING("agent", ACTION, delegate.agent, .flags = TN_FIELD_REQUIRED,
              .help = "who takes over"),
    TN_JSON("inputs", ACTION, delegate.inputs, .flags = TN_FIELD_REQUIRED | TN_FIELD_MAP,
            .help = "the task"),
    THOUGHT,
};

static const struct tn_field recall[] = {
    TN_WORD("recall_type", ACTION, recall.recall_type, tn_recall_types, .flags = TN_FIELD_REQUIRED,
            .help = "what to look up"),
    TN_STRING("query", ACTION, recall.query, .fallback = "", .help = "for what"),
    THOUGHT,
};

static const struct tn_field change_agent_state[] = {
    TN_STRING("agent_state", ACTION, agent_state, .flags = TN_FIELD_REQUIRED,
              .help = "the new state"),
    THOUGHT,
};

static const struct tn_field condensation[] = {
    TN_INTS("forgotten_event_ids", ACTION, condensation.forgotten_event_ids,
            .flags = TN_FIELD_NULLABLE, .help = "the events to forget, or a range:"),
    TN_OPT_INT("forgotten_events_start_id", ACTION, condensation.forgotten_events_start_id,
               .flags = TN_FIELD_NULLABLE, .help = "first event of the range"),
    TN_OPT_INT("forgotten_events_end_id", ACTION, condensation.forgotten_events_end_id,
               .flags = TN_FIELD_NULLABLE, .help = "last event of the range"),
    TN_STRING("summary", ACTION, condensation.summary, .flags = TN_FIELD_NULLABLE,
              .help = "what stands in their place"),
    TN_OPT_INT("summary_offset", ACTION, condensation.summary_offset, .flags = TN_FIELD_NULLABLE,
               .help = "where it stands"),
};

static const struct tn_field task_tracking[] = {
    TN_STRING("command", ACTION, task_tracking.command, .fallback = "view", .help = "view or plan"),
    TN_JSON("task_list", ACTION, task_tracking.task_list, .flags = TN_FIELD_LIST, .fallback = "[]",
            .help = "the tasks"),
    THOUGHT,
};

static const struct tn_field loop_recovery[] = {
    TN_INT("option", ACTION, loop_option, .fallback = "1",
           .help = "1: ask the user, 2: try the last request again, 3: stop"),
};

static const struct tn_field network[] = {
    TN_STRING("host", ACTION, network.host, .flags = TN_FIELD_REQUIRED,
              .help = "the name, or the address, that it goes to"),
    TN_INT("port", ACTION, network.port, .flags = TN_FIELD_REQUIRED, .min = 1, .max = 65535,
           .help = "and the port"),
    TN_STRING("protocol", ACTION, network.protocol, .fallback = "tcp", .help = "tcp"),
    THOUGHT,
    SECURITY_RISK,
};

/* --- messages and checks a table cannot say -------------------------------------------- */

static void put_plugin(const struct tn_action *a, struct tn_buf *out)
{
    tn_buf_printf(out, "Running the plugin action: %s", a->plugin.name ? a->plugin.name : "");
}

static void put_finish(const struct tn_action *a, struct tn_buf *out)
{
    bool thought = a->thought && *a->thought;
    tn_buf_puts(out, thought ? a->thought : "All done! What's next on the agenda?");
}

static void put_reject(const struct tn_action *a, struct tn_buf *out)
{
    const char *reason = tn_json_get_str(a->finish.outputs, "reason", NULL);

    tn_buf_puts(out, "Task is rejected by the agent.");
    if (reason)
        tn_buf_printf(out, " Reason: %s", reason);
}

static void put_recall(const struct tn_action *a, struct tn_buf *out)
{
    const char *query = a->recall.query ? a->recall.query : "";

    tn_buf_puts(out, "Retrieving content for: ");
    tn_buf_add(out, query, tn_utf8_offset(query, strlen(query), 50));
}

static void put_condensation(const struct tn_action *a, struct tn_buf *out)
{
    const struct tn_condensation_action *c = &a->condensation;

    if (c->summary && *c->summary) {
        tn_buf_printf(out, "Summary: %s", c->summary);
        return;
    }
    tn_buf_puts(out, "Condenser is dropping the events: ");
    if (c->forgotten_event_ids.items)
        tn_put_template("{forgotten_event_ids}.", &tn_action_kinds[a->type].args, a, out);
    else
        tn_put_template("{forgotten_events_start_id} to {forgotten_events_end_id}.",
                        &tn_action_kinds[a->type].args, a, out);
}

static void put_task_tracking(const struct tn_action *a, struct tn_buf *out)
{
    size_t count = tn_json_count(a->task_tracking.task_list);

    if (count == 0)
        tn_buf_puts(out, "Clearing the task list.");
    else if (count == 1)
        tn_buf_puts(out, "Managing 1 task item.");
    else
        tn_buf_printf(out, "Managing %zu task items.", count);
}

static int check_condensation(const struct tn_action *a, struct tn_error *err)
{
    const struct tn_condensation_action *c = &a->condensation;
    bool ids = c->forgotten_event_ids.items;
    bool start = c->forgotten_events_start_id.set, end = c->forgotten_events_end_id.set;

    if (start != end || ids == start)
        return tn_fail(err, TN_E_UNPROCESSABLE,
                       "expected either forgotten_event_ids or forgotten_events_start_id and "
                       "forgotten_events_end_id");
    return 0;
}

const struct tn_action_kind tn_action_kinds[TN_ACTION_TYPE_COUNT] = {
    [TN_ACTION_RUN] = {.name = "run",
                       .help = "Run a command in a shell session",
                       .args = TN_FIELDS(run),
                       .message = "Running command: {command}"},
    [TN_ACTION_RUN_IPYTHON] = {.name = "run_ipython",
                               .help = "Run a cell in the Python kernel",
                               .args = TN_FIELDS(run_ipython),
                               .message = "Running Python code interactively: {code}"},
    [TN_ACTION_READ] = {.name = "read",
                        .help = "Read a file",
                        .args = TN_FIELDS(read_),
                        .message = "Reading file: {path}"},
    [TN_ACTION_WRITE] = {.name = "write",
                         .help = "Write a file or some of its lines",
                         .args = TN_FIELDS(write_),
                         .message = "Writing file: {path}"},
    [TN_ACTION_EDIT] = {.name = "edit",
                        .help = "Use the editor on a file",
                        .args = TN_FIELDS(edit),
                        .message = ""},
    [TN_ACTION_BROWSE] = {.name = "browse",
                          .help = "Open a page in the browser",
                          .args = TN_FIELDS(browse),
                          .message = "I am browsing the URL: {url}"},
    [TN_ACTION_BROWSE_INTERACTIVE] = {.name = "browse_interactive",
                                      .help = "Act on the page in the browser",
                                      .args = TN_FIELDS(browse_interactive),
                                      .message = "I am interacting with the browser:\n"
                                                 "```\n{browser_actions}\n```"},
    [TN_ACTION_CALL_TOOL_MCP] = {.name = "call_tool_mcp",
                                 .help = "Call a tool of an MCP server",
                                 .args = TN_FIELDS(call_tool_mcp),
                                 .message = "I am interacting with the MCP server with name:\n"
                                            "```\n{name}\n```\nand arguments:\n"
                                            "```\n{arguments}\n```"},
    [TN_ACTION_PLUGIN] = {.name = "NAME.ACTION",
                          .help = "Whatever the program tendon-plugin-NAME does; it gets all other "
                                  "arguments as they are",
                          .args = TN_FIELDS(plugin),
                          .put_message = put_plugin},
    [TN_ACTION_NULL] = {.name = "null", .help = "Nothing", .message = "No action"},
    [TN_ACTION_MESSAGE] = {.name = "message",
                           .help = "Say something",
                           .args = TN_FIELDS(message),
                           .message = "{content}"},
    [TN_ACTION_SYSTEM] = {.name = "system",
                          .help = "The system prompt of the conversation",
                          .args = TN_FIELDS(system_),
                          .message = "{content}"},
    [TN_ACTION_THINK] = {.name = "think",
                         .help = "Log a thought",
                         .args = TN_FIELDS(think),
                         .message = "I am thinking...: {thought}"},
    [TN_ACTION_FINISH] = {.name = "finish",
                          .help = "The agent is done",
                          .args = TN_FIELDS(finish),
                          .put_message = put_finish},
    [TN_ACTION_REJECT] = {.name = "reject",
                          .help = "The agent refuses the task",
                          .args = TN_FIELDS(reject),
                          .put_message = put_reject},
    [TN_ACTION_DELEGATE] = {.name = "delegate",
                            .help = "Hand the task to another agent",
                            .args = TN_FIELDS(delegate),
                            .message = "I'm asking {agent} for help with this task."},
    [TN_ACTION_RECALL] = {.name = "recall",
                          .help = "Look something up in the workspace or the microagents",
                          .args = TN_FIELDS(recall),
                          .put_message = put_recall},
    [TN_ACTION_CHANGE_AGENT_STATE] = {.name = "change_agent_state",
                                      .help = "Put the agent into another state",
                                      .args = TN_FIELDS(change_agent_state),
                                      .message = "Agent state changed to {agent_state}"},
    [TN_ACTION_CONDENSATION] = {.name = "condensation",
                                .help = "Forget a part of the history",
                                .args = TN_FIELDS(condensation),
                                .put_message = put_condensation,
                                .check = check_condensation},
    [TN_ACTION_CONDENSATION_REQUEST] = {.name = "condensation_request",
                                        .help = "Ask for a condensation",
                                        .message = "Requesting a condensation of the conversation "
                                                   "history."},
    [TN_ACTION_TASK_TRACKING] = {.name = "task_tracking",
                                 .help = "View or change the task list",
                                 .args = TN_FIELDS(task_tracking),
                                 .put_message = put_task_tracking},
    [TN_ACTION_LOOP_RECOVERY] = {.name = "loop_recovery",
                                 .help = "What to do about an agent that goes in circles",
                                 .args = TN_FIELDS(loop_recovery),
                                 .message = ""},
    [TN_ACTION_NETWORK] = {.name = "network",
                           .help = "A connection that no rule of the sandbox's network allows, and "
                                   "that waits at its gate; Tendon's own",
                           .args = TN_FIELDS(network),
                           .message = "Connecting to {host}:{port}"},
};
