/* A lock between processes (flock) with a deadline, which the kernel does not offer. */
#ifndef TN_BASE_FILE_LOCK_H
#define TN_BASE_FILE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Locks the file or directory that fd is for everybody else, waiting for others until the deadline.
 * Returns the descriptor that holds the lock (fd itself, or another one), to be given to
 * tn_file_unlock; -1: TN_E_TIMEOUT, or what the system said.  Who dies loses the lock. */
int tn_file_lock(int fd, int64_t deadline, struct tn_error *err);
void tn_file_unlock(int fd, int held);

/* Locks one byte of the file for everybody who opened it elsewhere, threads of this process too.
 * It falls when fd, which must be open for writing, is closed; waiters are told by that and by
 * nothing else.  -1: TN_E_BUSY at the deadline (0: at once), or what the system said. */
int tn_byte_lock(int fd, uint64_t byte, int64_t deadline, struct tn_error *err);
/* The same together with others who share it; fd must be open for reading.  TN_E_BUSY at once while
 * somebody has it alone. */
int tn_byte_share(int fd, uint64_t byte, struct tn_error *err);
/* Whether somebody elsewhere has it, alone or not; takes nothing, so that nobody who wants it now
 * finds it taken. */
bool tn_byte_is_locked(int fd, uint64_t byte);

#endif
