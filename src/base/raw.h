/* TN_RAW: functions that sanitizers leave alone.  They keep notes per function call; a process that
 * shares its parent's memory would leave them open when it execs or ends. */
#ifndef TN_BASE_RAW_H
#define TN_BASE_RAW_H

#if defined(__has_attribute) && __has_attribute(disable_sanitizer_instrumentation)
#define TN_RAW \
    __attribute__((disable_sanitizer_instrumentation, no_sanitize("address", "undefined")))
#else
#define TN_RAW __attribute__((no_sanitize("address", "undefined", "thread")))
#endif

#endif
