/* The set-of-marks picture: dashed boxes around elements, with their bids. */
#ifndef TN_HAND_BROWSER_VIEW_MARKS_H
#define TN_HAND_BROWSER_VIEW_MARKS_H

#include "hand/browser/png.h"

/* Draws one box, in pixels of the picture; what lies outside it is cut off. */
void tn_marks_draw(struct tn_image *image, const char *bid, double x, double y, double width,
                   double height);

#endif
