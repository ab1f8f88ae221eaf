/* What kernels of the code interpreter run first, built in: python/e2b_cells.py, e2b_charts.py. */
#ifndef TN_SERVICE_E2B_CELLS_H
#define TN_SERVICE_E2B_CELLS_H

#include "base/embedded.h"

extern const struct tn_embedded e2b_cells[];

#endif
