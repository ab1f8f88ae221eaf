/* What the keeper of a jail answers on directory/keeper.sock, to its own user (and root) only.
 *
 * One request per connection: a line.  The answer is one line, then the end.
 *     status   {"pid": ..., "gvisor": PLATFORM, "oom_kills": N, "pids_hits": N,
 *               "wall_left": SECONDS or null}
 *     storage  "ok", and with it the descriptor of the directory that holds upper/ and work/
 *              (SCM_RIGHTS); owners on it are those inside the jail, however it is mapped
 *     copying  "ok"; when whoever asks dies before the mark of that name in the directory is gone,
 *              the jail is thawed: it was frozen so that its files could be copied
 *     name NAME  "ok" once it is called so inside (rename.c); else "no: REASON"
 *     network  {"network": MODE, "gate": PID or 0, "refused": N, "refusals": [{"number", "what",
 *              "why", "count", "at"}, ...]}: what the gate has refused, the last ones
 *     questions  "ok", and from then on a line for each connection that no rule allows and that
 *              waits: "ask HOST PORT"; "over HOST PORT" when it does not any more, "over" when none
 *              does.  One listens at a time, the last one; when it closes, what waits is refused.
 *              "no: REASON" where nobody may be asked (ask_seconds of the plan)
 *     allow HOST PORT, refuse HOST PORT  "ok" once what waits is told; else "no: REASON"
 *     rules    "ok" once those in directory/network.rules count; else "no: REASON"
 *     suspend  "ok" once the jail is on disk (criu.h), and about to end; else "no: REASON"
 *     end      "ok"; the jail is killed, and end.json written
 * Anything else is answered with "unknown"; so is all but network and rules by the keeper of a
 * container (container.c). */
#ifndef TN_GATE_KEEPER_PROTOCOL_H
#define TN_GATE_KEEPER_PROTOCOL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define TN_KEEPER_SOCKET "keeper.sock"
#define TN_KEEPER_STATUS "status"
#define TN_KEEPER_STORAGE "storage"
#define TN_KEEPER_END "end"
#define TN_KEEPER_NETWORK "network"
#define TN_KEEPER_RULES "rules"
#define TN_KEEPER_SUSPEND "suspend"
#define TN_KEEPER_NAME "name "
#define TN_KEEPER_QUESTIONS "questions"
#define TN_KEEPER_ALLOW "allow "
#define TN_KEEPER_REFUSE "refuse "
#define TN_KEEPER_COPYING "copying"
#define TN_KEEPER_NO "no: "
#define TN_KEEPER_LOST "lost " /* and why: none waits now; who holds the line dials again */

/* Asks the keeper of that directory.  The answer lands in out without its newline; *fd (may be
 * NULL) is the descriptor that came along, or -1.  TN_E_NOT_FOUND or TN_E_PEER when no keeper
 * listens. */
int tn_keeper_ask(const char *directory, const char *request, struct tn_buf *out, int *fd,
                  int64_t deadline, struct tn_error *err);

/* Becomes the one who hears questions: a socket that lines are read from, after "ok".
 * TN_E_CONFLICT: nobody may be asked. */
int tn_keeper_listen(const char *directory, int64_t deadline, struct tn_error *err);

#endif
