/* The strings of the shell protocol, exactly as clients, agents and their tests know them. */
#ifndef TN_HAND_SHELL_TEXTS_H
#define TN_HAND_SHELL_TEXTS_H

#define TN_TEXT_HINT                                                                           \
    "You may wait longer to see additional output by sending empty command '', send other "    \
    "commands to interact with the current process, send keys (\"C-c\", \"C-z\", \"C-d\") to " \
    "interrupt/kill the previous command before sending your new command, or use the timeout " \
    "parameter in execute_bash for future commands."

#define TN_TEXT_DONE "\n[The command completed with exit code %d.]"
#define TN_TEXT_DONE_KEY "\n[The command completed with exit code %d. CTRL+%c was sent.]"
#define TN_TEXT_SOFT "\n[The command has no new output after %d seconds. " TN_TEXT_HINT "]"
#define TN_TEXT_HARD "\n[The command timed out after %s seconds. " TN_TEXT_HINT "]"
#define TN_TEXT_BUSY_BEFORE "\n[Your command \""
#define TN_TEXT_BUSY_AFTER                                                                        \
    "\" is NOT executed. The previous command is still running - You CANNOT send new commands "   \
    "until the previous command is completed. By setting `is_input` to `true`, you can interact " \
    "with the current process: " TN_TEXT_HINT "]"
#define TN_TEXT_CONTINUED "[Below is the output of the previous command.]\n"
#define TN_TEXT_TRUNCATED \
    "[Previous command outputs are truncated. Showing the last %zu lines of the output below.]\n"
#define TN_TEXT_NO_LOGS "ERROR: No previous running command to retrieve logs from."
#define TN_TEXT_NO_INPUT "ERROR: No previous running command to interact with."

/* Ours: the original has no answer to these. */
#define TN_TEXT_SHELL_GONE                                                                         \
    "\n[The shell exited. The next command runs in a new one, in the same directory and with the " \
    "same exported environment.]"
#define TN_TEXT_SHELL_KILLED                                                                \
    "\n[The shell was ended by signal %d. The next command runs in a new one, in the same " \
    "directory and with the same exported environment.]"
#define TN_TEXT_PROCESS_LIMIT "\n[The sandbox reports: process limit of %lld reached]"

#endif
