/* Tools of MCP servers and what they answer, for human eyes. */
#ifndef TN_CLI_RESULT_H
#define TN_CLI_RESULT_H

#include "event/observation.h"

/* What it does, and what it takes. */
void result_print_tool(const char *server, const struct tn_json *tool);

/* Prints what a tool answered: 0, or 1 when the answer is an error of its own; -1 with err when
 * there is no answer.  json: as it came. */
int result_print(const struct tn_observation *o, bool json, struct tn_error *err);

#endif
