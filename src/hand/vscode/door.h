/* The door of the editor: a port that lets in who has the token, and nobody else.
 *
 * A visit with ?tkn=TOKEN gets a cookie and is sent on to a path that nobody can guess; requests
 * below it that carry the cookie are passed on to the editor.  The path is there because browsers
 * send cookies to every port of a host: another server on it never sees ours. */
#ifndef TN_HAND_VSCODE_DOOR_H
#define TN_HAND_VSCODE_DOOR_H

#include "hand/vscode/editor.h"

struct door_options {
    struct editor *editor; /* outlives the door */
    const char *token;
    const char *base;   /* what the editor calls its base: the secret path */
    const char *folder; /* what is shown to who names nothing */
    const char *host;   /* numeric, where to listen */
    int port;           /* 0: one that is free */
};

struct door;

/* NULL with err when the port cannot be had. */
struct door *door_open(const struct door_options *options, struct tn_error *err);
int door_port(const struct door *d);
/* Ends all visits.  False when one has not ended in time; nothing that it uses may be freed then.
 */
bool door_close(struct door *d);

#endif
