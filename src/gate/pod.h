/* The gate of a pod: tendon-gate in containers beside the sandbox's, from the image of the hand.
 *
 *     --pod-wall PROGRAM...  an init container with CAP_NET_ADMIN: the rules (wall.h), the files
 *                            for the sandbox; then it executes the rest, which puts the hand there
 *     --pod-keep SECONDS     a sidecar with CAP_NET_RAW, SETUID and SETGID: the keeper of the gate.
 *                            SECONDS: that a connection without a rule may wait; 0: none does.
 *                            Each line that it prints and that is an object is what it has refused
 *                            until now (gate/keeper-protocol.h, "network")
 *     --pod-ready            whether that listens
 *     --pod-rules BYTES      new rules for it from standard input: "ok", or what is wrong
 *     --pod-ask REQUEST      what it answers ("allow HOST PORT", "refuse HOST PORT")
 *     --pod-hear             its "questions", until standard input ends; a line at least every
 *                            TN_POD_HEARD_MS, which may be empty */
#ifndef TN_GATE_POD_H
#define TN_GATE_POD_H

#define TN_POD_GATE "/tendon-gate" /* in the image */

/* Mounted by both from a Secret. */
#define TN_POD_PAPERS "/papers"
#define TN_POD_RULES "rules" /* the first line is the name of the network */
#define TN_POD_VAULT "vault" /* vault.h; may be missing */

#define TN_POD_STATE "/state"         /* of the keeper alone, for as long as the pod lives */
#define TN_POD_RESOLVER "resolv.conf" /* for the sandbox, in TN_POD_SHARED */
#define TN_POD_SHARED "/.tendon"      /* of the sandbox, read-only there */

enum { TN_POD_HEARD_MS = 20000 };

#endif
