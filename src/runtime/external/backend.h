/* The functions of an external backend's table. */
#ifndef TN_RUNTIME_EXTERNAL_BACKEND_H
#define TN_RUNTIME_EXTERNAL_BACKEND_H

#include "runtime/external/engine.h"

/* Fills x->table, whose abilities are set already, all but open and doctor. */
void external_fill_table(struct external *x);

#endif
