/* The script that marks elements: every element gets a `bid` attribute which it keeps.
 *
 * It runs in our isolated world, where a page's own prototypes cannot fool it.  Installing it
 * again does nothing.  It leaves one object, globalThis.tendon:
 *
 *   tendon.mark(prefix)  marks every element of the frame, open shadow roots included, with prefix
 *                        + number (frames: letters), and makes all of them part of the
 *                        accessibility tree until unmark()
 *   tendon.look()        async; of what was marked: {focused: bid or "", marks: {bid: true} of what
 *                        gets a box in the picture, visible: {bid: share that can be seen}}
 *   tendon.unmark()      takes the temporary attributes away again
 *   tendon.find(bid)     the connected element with that bid, or null; only this frame's
 */
#ifndef TN_HAND_BROWSER_MARK_H
#define TN_HAND_BROWSER_MARK_H

/* The script's source: a statement for the isolated world; the caller frees it. */
char *tn_mark_script(void);

#endif
