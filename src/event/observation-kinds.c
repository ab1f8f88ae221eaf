/* Every observation: its extras, their defaults, and the sentence that tells a user about it. */
#include "event/kinds.h"

#define OBSERVATION struct tn_observation
#define METADATA struct tn_run_metadata

static const struct tn_field metadata_rows[] = {
    TN_INT("exit_code", METADATA, exit_code, .fallback = "-1", .flags = TN_FIELD_TEXT_NUMBER,
           .help = "-1: not finished, or unknown"),
    TN_INT("pid", METADATA, pid, .fallback = "-1", .flags = TN_FIELD_TEXT_NUMBER,
           .help = "the last background job, or -1"),
    TN_STRING("username", METADATA, username, .flags = TN_FIELD_NULLABLE, .help = "who ran it"),
    TN_STRING("hostname", METADATA, hostname, .flags = TN_FIELD_NULLABLE, .help = "where"),
    TN_STRING("working_dir", METADATA, working_dir, .flags = TN_FIELD_NULLABLE,
              .help = "the shell's directory afterwards"),
    TN_STRING("py_interpreter_path", METADATA, py_interpreter_path, .flags = TN_FIELD_NULLABLE,
              .help = "what `python` is there"),
    TN_STRING("prefix", METADATA, prefix, .fallback = "",
              .help = "for the agent, before the content"),
    TN_STRING("suffix", METADATA, suffix, .fallback = "",
              .help = "for the agent, after the content"),
    TN_OPT_DOUBLE("duration", METADATA, duration, .flags = TN_FIELD_SPARSE,
                  .help = "Tendon: seconds the command took so far"),
    TN_OPT_DOUBLE("user_time", METADATA, user_time, .flags = TN_FIELD_SPARSE,
                  .help = "Tendon: seconds of processor time, user"),
    TN_OPT_DOUBLE("system_time", METADATA, system_time, .flags = TN_FIELD_SPARSE,
                  .help = "Tendon: seconds of processor time, system"),
    TN_OPT_INT("peak_memory", METADATA, peak_memory, .flags = TN_FIELD_SPARSE,
               .help = "Tendon: bytes of memory at most"),
    TN_OPT_INT("output_bytes", METADATA, output_bytes, .flags = TN_FIELD_SPARSE,
               .help = "Tendon: bytes the command wrote in all"),
    TN_STRING("signal", METADATA, signal, .flags = TN_FIELD_SPARSE,
              .help = "Tendon: the signal that ended it"),
    TN_STRING("end", METADATA, end, .flags = TN_FIELD_SPARSE, .help = "Tendon: why the wait ended"),
    TN_STRING("command_id", METADATA, command_id, .flags = TN_FIELD_SPARSE,
              .help = "Tendon: name of the command for later questions about it"),
    TN_STRING("process", METADATA, process, .flags = TN_FIELD_SPARSE,
              .help = "Tendon: id of the process that was started; its pid is in pid"),
    TN_STRING("output_path", METADATA, output_path, .flags = TN_FIELD_SPARSE,
              .help = "Tendon: file with the complete output"),
    TN_OPT_INT("output_size", METADATA, output_size, .flags = TN_FIELD_SPARSE,
               .help = "Tendon: bytes in that file"),
    TN_OPT_INT("output_dropped", METADATA, output_dropped, .flags = TN_FIELD_SPARSE,
               .help = "Tendon: bytes of output that are kept nowhere"),
    TN_JSON("verdict", METADATA, verdict, .flags = TN_FIELD_SPARSE,
            .help = "Tendon: what analyzers found in the action, where they found anything"),
};
static const struct tn_fields metadata = TN_FIELDS(metadata_rows);

static const struct tn_field run[] = {
    TN_STRING("command", OBSERVATION, run.command, .flags = TN_FIELD_REQUIRED,
              .help = "the command as it was sent"),
    TN_OBJECT("metadata", OBSERVATION, run.metadata, &metadata, .help = "see below"),
    TN_BOOL("hidden", OBSERVATION, run.hidden, .help = "as in the action"),
};

static const struct tn_field run_ipython[] = {
    TN_STRING("code", OBSERVATION, run_ipython.code, .flags = TN_FIELD_REQUIRED,
              .help = "the cell"),
    TN_STRINGS("image_urls", OBSERVATION, run_ipython.image_urls, .flags = TN_FIELD_NULLABLE,
               .help = "pictures it displayed, as data URLs"),
};

static const struct tn_field read_[] = {
    TN_STRING("path", OBSERVATION, read.path, .flags = TN_FIELD_REQUIRED, .help = "the file"),
    TN_WORD("impl_source", OBSERVATION, read.impl_source, tn_read_sources, .fallback = "default",
            .help = "as in the action"),
};

static const struct tn_field write_[] = {
    TN_STRING("path", OBSERVATION, write.path, .flags = TN_FIELD_REQUIRED,
              .help = "the file, as an absolute path"),
};

static const struct tn_field edit[] = {
    TN_STRING("path", OBSERVATION, edit.path, .flags = TN_FIELD_REQUIRED, .help = "the file"),
    TN_BOOL("prev_exist", OBSERVATION, edit.prev_exist, .help = "the file was there before"),
    TN_TEXT("old_content", OBSERVATION, edit.old_content, .flags = TN_FIELD_NULLABLE,
            .help = "the action's old_str"),
    TN_TEXT("new_content", OBSERVATION, edit.new_content, .flags = TN_FIELD_NULLABLE,
            .help = "the action's new_str"),
    TN_WORD("impl_source", OBSERVATION, edit.impl_source, tn_edit_sources, .fallback = "oh_aci",
            .help = "as in the action"),
    TN_STRING("diff", OBSERVATION, edit.diff, .flags = TN_FIELD_NULLABLE,
              .help = "unified diff of the file without context"),
    TN_JSON("_diff_cache", OBSERVATION, edit.diff_cache, .flags = TN_FIELD_NULLABLE,
            .help = "null; OpenHands keeps something here in memory"),
};

static const struct tn_field browse[] = {
    TN_STRING("url", OBSERVATION, browse.url, .flags = TN_FIELD_REQUIRED, .help = "the page"),
    TN_STRING("trigger_by_action", OBSERVATION, browse.trigger_by_action,
              .flags = TN_FIELD_REQUIRED, .help = "browse or browse_interactive"),
    TN_STRING("screenshot", OBSERVATION, browse.screenshot, .fallback = "", .help = "a data URL"),
    TN_STRING("screenshot_path", OBSERVATION, browse.screenshot_path, .flags = TN_FIELD_NULLABLE,
              .help = "where the picture was saved"),
    TN_STRING("set_of_marks", OBSERVATION, browse.set_of_marks, .fallback = "",
              .help = "the picture with the elements marked, as a data URL"),
    TN_BOOL("error", OBSERVATION, browse.error, .help = "the last action failed"),
    TN_STRINGS("goal_image_urls", OBSERVATION, browse.goal_image_urls,
               .help = "pictures of the goal, in an evaluation"),
    TN_STRINGS("open_pages_urls", OBSERVATION, browse.open_pages_urls, .help = "all tabs"),
    TN_INT("active_page_index", OBSERVATION, browse.active_page_index, .fallback = "-1",
           .help = "which of them is in front"),
    TN_JSON("dom_object", OBSERVATION, browse.dom_object, .fallback = "{}", .help = "always empty"),
    TN_JSON("axtree_object", OBSERVATION, browse.axtree_object, .fallback = "{}",
            .help = "the accessibility tree, if asked for"),
    TN_JSON("extra_element_properties", OBSERVATION, browse.extra_element_properties,
            .fallback = "{}", .help = "place and visibility of the elements, if asked for"),
    TN_STRING("last_browser_action", OBSERVATION, browse.last_browser_action, .fallback = "",
              .help = "the call that was made last"),
    TN_STRING("last_browser_action_error", OBSERVATION, browse.last_browser_action_error,
              .fallback = "", .help = "what went wrong with it"),
    TN_STRING("focused_element_bid", OBSERVATION, browse.focused_element_bid, .fallback = "",
              .help = "the element with the focus"),
    TN_BOOL("filter_visible_only", OBSERVATION, browse.filter_visible_only,
            .help = "the content shows only what is visible"),
};

static const struct tn_field download[] = {
    TN_STRING("file_path", OBSERVATION, file_path, .flags = TN_FIELD_REQUIRED,
              .help = "where the file is"),
};

static const struct tn_field error[] = {
    TN_STRING("error_id", OBSERVATION, error_id, .fallback = "",
              .help = "what kind of error, where that is known"),
};

static const struct tn_field mcp[] = {
    TN_STRING("name", OBSERVATION, mcp.name, .fallback = "", .help = "the tool"),
    TN_JSON("arguments", OBSERVATION, mcp.arguments, .flags = TN_FIELD_MAP, .fallback = "{}",
            .help = "what it was called with"),
};

static const struct tn_field delegate[] = {
    TN_JSON("outputs", OBSERVATION, outputs, .flags = TN_FIELD_MAP, .fallback = "{}",
            .help = "what the other agent returned"),
};

static const struct tn_field agent_state_changed[] = {
    TN_STRING("agent_state", OBSERVATION, agent_state_changed.agent_state,
              .flags = TN_FIELD_REQUIRED, .help = "the new state"),
    TN_STRING("reason", OBSERVATION, agent_state_changed.reason, .fallback = "", .help = "why"),
};

static const struct tn_field recall[] = {
    TN_WORD("recall_type", OBSERVATION, recall.recall_type, tn_recall_types,
            .flags = TN_FIELD_REQUIRED, .help = "as in the action"),
    TN_STRING("repo_name", OBSERVATION, recall.repo_name, .fallback = "", .help = "the repository"),
    TN_STRING("repo_directory", OBSERVATION, recall.repo_directory, .fallback = "",
              .help = "where it is"),
    TN_STRING("repo_branch", OBSERVATION, recall.repo_branch, .fallback = "", .help = "its branch"),
    TN_STRING("repo_instructions", OBSERVATION, recall.repo_instructions, .fallback = "",
              .help = "what it says to agents"),
    TN_JSON("runtime_hosts", OBSERVATION, recall.runtime_hosts, .flags = TN_FIELD_MAP,
            .fallback = "{}", .help = "ports by host name"),
    TN_STRING("additional_agent_instructions", OBSERVATION, recall.additional_agent_instructions,
              .fallback = "", .help = "what the runtime says to agents"),
    TN_STRING("date", OBSERVATION, recall.date, .fallback = "", .help = "today"),
    TN_JSON("custom_secrets_descriptions", OBSERVATION, recall.custom_secrets_descriptions,
            .flags = TN_FIELD_MAP, .fallback = "{}", .help = "what each secret is for"),
    TN_STRING("conversation_instructions", OBSERVATION, recall.conversation_instructions,
              .fallback = "", .help = "what the conversation says to agents"),
    TN_STRING("working_dir", OBSERVATION, recall.working_dir, .fallback = "",
              .help = "where commands run"),
    TN_JSON("microagent_knowledge", OBSERVATION, recall.microagent_knowledge,
            .flags = TN_FIELD_LIST, .fallback = "[]",
            .help = "objects with name, trigger and content"),
};

static const struct tn_field task_tracking[] = {
    TN_STRING("command", OBSERVATION, task_tracking.command, .fallback = "",
              .help = "as in the action"),
    TN_JSON("task_list", OBSERVATION, task_tracking.task_list, .flags = TN_FIELD_LIST,
            .fallback = "[]", .help = "the tasks"),
};

static void put_recall(const struct tn_observation *o, struct tn_buf *out)
{
    tn_buf_puts(out, o->recall.recall_type == TN_RECALL_WORKSPACE_CONTEXT
                         ? "Added workspace context"
                         : "Added microagent knowledge");
}

static bool exit_code_is_zero(const struct tn_observation *o)
{
    return o->run.metadata.exit_code == 0;
}

static bool cell_worked(const struct tn_observation *o)
{
    return !o->run_ipython.failed;
}

const struct tn_observation_kind tn_observation_kinds[TN_OBSERVATION_TYPE_COUNT] = {
    [TN_OBSERVATION_RUN] = {.name = "run",
                            .help = "What a command printed",
                            .extras = TN_FIELDS(run),
                            .message = "Command `{command}` executed with exit code "
                                       "{metadata.exit_code}.",
                            .success = exit_code_is_zero},
    [TN_OBSERVATION_RUN_IPYTHON] = {.name = "run_ipython",
                                    .help = "What a cell printed and returned",
                                    .extras = TN_FIELDS(run_ipython),
                                    .message = "Code executed in IPython cell.",
                                    .success = cell_worked},
    [TN_OBSERVATION_READ] = {.name = "read",
                             .help = "What a file holds",
                             .extras = TN_FIELDS(read_),
                             .message = "I read the file {path}."},
    [TN_OBSERVATION_WRITE] = {.name = "write",
                              .help = "A file was written; no content",
                              .extras = TN_FIELDS(write_),
                              .message = "I wrote to the file {path}."},
    [TN_OBSERVATION_EDIT] = {.name = "edit",
                             .help = "What the editor answers",
                             .extras = TN_FIELDS(edit),
                             .message = "I edited the file {path}."},
    [TN_OBSERVATION_BROWSE] = {.name = "browse",
                               .help =
                                   "What the browser shows, after browse and browse_interactive",
                               .extras = TN_FIELDS(browse),
                               .message = "Visited {url}"},
    [TN_OBSERVATION_DOWNLOAD] = {.name = "download",
                                 .help = "The browser fetched a file",
                                 .extras = TN_FIELDS(download),
                                 .message = "Downloaded the file at location: {file_path}"},
    [TN_OBSERVATION_ERROR] = {.name = "error",
                              .help = "The action could not be done; the content says why",
                              .extras = TN_FIELDS(error)},
    [TN_OBSERVATION_NULL] = {.name = "null", .help = "Nothing", .message = "No observation"},
    [TN_OBSERVATION_THINK] = {.name = "think", .help = "The thought was logged"},
    [TN_OBSERVATION_USER_REJECTED] = {.name = "user_rejected", .help = "The user said no"},
    [TN_OBSERVATION_MCP] = {.name = "mcp",
                            .help = "What an MCP tool answers",
                            .extras = TN_FIELDS(mcp)},
    [TN_OBSERVATION_DELEGATE] = {.name = "delegate",
                                 .help = "What another agent did",
                                 .extras = TN_FIELDS(delegate),
                                 .message = ""},
    [TN_OBSERVATION_SUCCESS] = {.name = "success", .help = "It worked"},
    [TN_OBSERVATION_AGENT_STATE_CHANGED] = {.name = "agent_state_changed",
                                            .help = "The agent is in another state",
                                            .extras = TN_FIELDS(agent_state_changed),
                                            .message = ""},
    [TN_OBSERVATION_CONDENSE] = {.name = "condense", .help = "The history was condensed"},
    [TN_OBSERVATION_RECALL] = {.name = "recall",
                               .help = "What the workspace and the microagents know",
                               .extras = TN_FIELDS(recall),
                               .put_message = put_recall},
    [TN_OBSERVATION_TASK_TRACKING] = {.name = "task_tracking",
                                      .help = "The task list",
                                      .extras = TN_FIELDS(task_tracking)},
    [TN_OBSERVATION_LOOP_DETECTION] = {.name = "loop_detection",
                                       .help = "The agent goes in circles",
                                       .message = ""},
};
