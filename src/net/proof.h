/* Proof of a server's identity on a connection, before it is sent a key.
 *
 * Both know the digest of the key: 64 hexadecimal digits of SHA-256.  The client asks
 *     GET /proof?nonce=NONCE              64 hexadecimal digits, of this connection alone
 * and the body of the answer is {"proof":"MAC"}, where MAC is HMAC-SHA256 with the digest's digits
 * as its key, of "tendon-hand NONCE ADDRESS".  ADDRESS is the numeric HOST:PORT that the connection
 * leads to: the server takes its own end, the client the one that it has dialled.  Whoever has that
 * address and passes the question on to the real server gets a proof for another address. */
#ifndef TN_NET_PROOF_H
#define TN_NET_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"

enum { TN_PROOF_DIGITS = 2 * TN_SHA256_BYTES };

/* The digest of a key. */
void tn_proof_digest(const char *key, char digest[TN_PROOF_DIGITS + 1]);
bool tn_proof_is_digits(const char *text); /* 64 of 0-9a-f */

/* For the server of fd: the body of its answer, on the heap; NULL: fd is no TCP connection. */
char *tn_proof_answer(int fd, const char *digest, const char *nonce);

/* For the client: asks on a new connection and reads the whole answer, so that fd can be used as if
 * nothing had happened.  -1 (TN_E_PEER, TN_E_TIMEOUT): it must be closed. */
int tn_proof_ask(int fd, const char *digest, int64_t deadline, struct tn_error *err);

#endif
