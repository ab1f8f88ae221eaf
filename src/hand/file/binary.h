/* Is this text?  And what a file's name says about its kind. */
#ifndef TN_HAND_FILE_BINARY_H
#define TN_HAND_FILE_BINARY_H

#include "hand/file/text.h"

/* What is looked at of a file's contents. */
#define BINARY_SAMPLE 1024

/* Judges the first bytes of a file.  Binary is what holds a NUL (unless a byte order mark says
 * UTF-16) and what is neither UTF-8 nor mostly free of control bytes.  An empty file is text. */
bool binary_bytes(struct tn_slice sample);
/* The same with the name looked at first (`.pyc` is binary whatever it holds). */
bool binary_file(const char *path, struct tn_slice sample);

/* How `read` gives a file with this name: the media type for a data URL, or NULL for text. */
const char *binary_media_type(const char *path);

/* The extension, with its dot and as written, when it is one of the formats that the editor's
 * `view` turns into text (.docx .xlsx .pptx .pdf .mp3 .wav .m4a .flac); NULL for all others. */
const char *binary_document(const char *path);

/* The extension with its dot ("" when there is none); a leading dot of the name is not one. */
const char *binary_extension(const char *path);

#endif
