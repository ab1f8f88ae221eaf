/* The socket of a keeper: how requests come and answers go (keeper-protocol.h). */
#ifndef TN_GATE_KEEPER_SOCKET_H
#define TN_GATE_KEEPER_SOCKET_H

#include <stddef.h>

#include "base/error.h"
#include "gate/keeper.h"

enum { KEEPER_REQUEST_MAX = 512 };

/* Listens on TN_KEEPER_SOCKET of that directory, whose name is for messages. */
int keeper_listen(int directory, const char *name, struct tn_error *err);
/* A connection of this user or root with its request in `line`, newline included; -1: none. */
int keeper_accept(int listener, char *line, size_t size);
/* fd: a descriptor that goes along, or -1. */
void keeper_answer(int socket, const char *text, int fd);
/* "ok", or "no: REASON". */
void keeper_answer_result(int socket, int result, const struct tn_error *err);
/* Answers a request that is about the gate, whoever is behind it; false when it is another. */
bool keeper_serve_gate(struct tn_gate_keeper *gate, int socket, const char *line);

#endif
